//! NCCL beside symmem: in the same process, on the same buffers, timed in turns.
//!
//! | module | what |
//! |---|---|
//! | [`find`] | where the library is looked for |
//! | [`functions`], [`words`] | its functions and constants |
//! | [`comms`] | communicators, windows, operations |
//! | [`multicast`] | whether it may be loaded |
//!
//! Windows belong to a communicator, so there are two sets of them over the same buffers: in one nothing is registered
//! (R0 of nccl-tests), in the other all buffers are (R2).

pub(crate) mod comms;
#[cfg(all(test, feature = "sim"))]
pub(crate) mod fake;
pub(crate) mod find;
mod functions;
mod multicast;
mod words;

use anyhow::{Context, Result, anyhow};
use comms::{Comms, Part, Range};
use find::Version;
use functions::Functions;
use multicast::Multicast;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Bound on NCCL's set-up, which has none of its own.
const SETUP_LIMIT: Duration = Duration::from_secs(180);

/// Whether this environment lets NCCL be loaded ([`multicast::permit`]).
///
/// # Errors
///
/// Why not, and what to do.
pub(crate) fn permit(is_multicast_allowed: bool) -> Result<Multicast> {
    let permitted = multicast::permit(is_multicast_allowed, |name| std::env::var(name).ok());
    permitted.map_err(|reason| anyhow!("--vs nccl: {reason}"))
}

/// How NCCL sees the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffers {
    /// As any device memory: `-R 0` of nccl-tests.
    Ordinary,
    /// As symmetric windows: `-R 2` of nccl-tests.
    Windows,
}

impl Buffers {
    /// Both, in the order of the columns.
    pub(crate) const ALL: [Self; 2] = [Self::Ordinary, Self::Windows];

    /// As the columns are called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "NCCL R0",
            Self::Windows => "NCCL R2",
        }
    }
}

/// NCCL, loaded.
pub(crate) struct Nccl {
    functions: &'static Functions,
    pub(crate) version: Version,
    /// Where it was found.
    place: String,
    multicast: Multicast,
}

impl Nccl {
    /// Loads it.
    ///
    /// # Errors
    ///
    /// What it lacks, or where it was looked for.
    pub(crate) fn load(multicast: Multicast) -> Result<Self> {
        let mut tried = Vec::new();
        let found = find::load(&find::candidates(|name| std::env::var_os(name)), &mut tried);
        let (library, version, candidate) = found.ok_or_else(|| {
            anyhow!(
                "{} was not found; {} names one. Tried {}",
                find::LIBRARY,
                find::VARIABLE,
                tried.join("; ")
            )
        })?;
        // Never unloaded: its threads may outlive its communicators.
        let library = Box::leak(Box::new(library));
        // SAFETY: `load` asked it for NCCL's version, and it stays loaded.
        let functions = unsafe { Functions::bind(library) }?;
        let place = format!("{}, by {}", candidate.path.display(), candidate.origin);
        Ok(Self { functions: Box::leak(Box::new(functions)), version, place, multicast })
    }

    /// For the header: version, place, multicast.
    pub(crate) fn describe(&self) -> String {
        let multicast = match self.multicast {
            Multicast::Off => "off",
            Multicast::Allowed => "as NCCL decides",
        };
        format!("NCCL {} ({}), multicast {multicast}", self.version, self.place)
    }

    /// Makes both sets of communicators over these devices and buffers.
    ///
    /// # Errors
    ///
    /// What NCCL answers for ordinary buffers, or that it does not answer in time. That windows cannot be registered is
    /// no error of this call.
    ///
    /// # Safety
    ///
    /// The ranges are device memory of their ranks, mapped until the value is dropped.
    pub(crate) unsafe fn join(&self, devices: Vec<u32>, ranges: Vec<Range>) -> Result<Rivals> {
        let (functions, version) = (self.functions, self.version);
        let set_up = move || -> Result<Rivals> {
            let ordinary = Comms::init(functions, &devices)?;
            let windows = functions.lacks_windows(version).map_or(Ok(()), Err).and_then(|()| {
                // SAFETY: by this function's contract.
                let registered = unsafe { registered(functions, &devices, &ranges) };
                registered.map_err(|error| format!("{error:#}"))
            });
            Ok(Rivals { ordinary, windows })
        };
        bounded(SETUP_LIMIT, set_up).context("joining NCCL's communicators")
    }
}

/// # Safety
///
/// As [`Comms::register`].
unsafe fn registered(functions: &'static Functions, devices: &[u32], ranges: &[Range]) -> Result<Comms> {
    let mut comms = Comms::init(functions, devices)?;
    // SAFETY: by this function's contract.
    unsafe { comms.register(ranges) }?;
    Ok(comms)
}

/// Runs `work` in a thread of its own, which is left behind when it does not end in time.
fn bounded<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (say, said) = channel();
    std::thread::Builder::new().name("nccl set-up".into()).spawn(move || {
        // Whoever asked may have gone.
        let _ = say.send(work());
    })?;
    said.recv_timeout(limit).map_err(|_| anyhow!("no answer within {} s", limit.as_secs()))?
}

/// NCCL's communicators over the bench's buffers.
pub(crate) struct Rivals {
    ordinary: Comms,
    /// Or why there are none.
    windows: Result<Comms, String>,
}

impl Rivals {
    /// Why NCCL does not run with these buffers, if so.
    pub(crate) fn why_not(&self, buffers: Buffers) -> Option<String> {
        match (buffers, &self.windows) {
            (Buffers::Windows, Err(reason)) => Some(reason.clone()),
            _ => None,
        }
    }

    /// The communicators that see the buffers so.
    ///
    /// # Errors
    ///
    /// Why there are none.
    pub(crate) fn comms(&mut self, buffers: Buffers) -> Result<&mut Comms> {
        match buffers {
            Buffers::Ordinary => Ok(&mut self.ordinary),
            Buffers::Windows => self.windows.as_mut().map_err(|reason| anyhow!("{reason}")),
        }
    }

    /// Puts one operation of all ranks into their streams.
    ///
    /// # Errors
    ///
    /// As [`Comms::enqueue`].
    ///
    /// # Safety
    ///
    /// As [`Comms::enqueue`].
    pub(crate) unsafe fn enqueue(
        &mut self,
        buffers: Buffers,
        case: &crate::case::Case,
        parts: &[Part],
    ) -> Result<()> {
        // SAFETY: by this function's contract.
        unsafe { self.comms(buffers)?.enqueue(case, parts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_in_time_is_left_behind() {
        assert_eq!(bounded(Duration::from_secs(60), || Ok(7)).expect("it ends"), 7);
        let (hold, held) = channel::<()>();
        let error = bounded(Duration::from_millis(1), move || Ok(held.recv()?)).expect_err("nobody sends");
        assert!(error.to_string().contains("no answer within"), "{error}");
        drop(hold);
    }
}
