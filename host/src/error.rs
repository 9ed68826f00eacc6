//! The one error of this crate: an opaque [`Error`] with a typed [`ErrorKind`] that carries its operands.

mod wire;
mod words;

use std::fmt;

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and during what.
///
/// One word wide. [`Error::kind`] gives the typed cause with its operands; `Display` prints the chain, outermost step
/// first, joined by ": ". Where another rank failed, [`Error::cause`] is what that rank met.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    /// Steps in progress, innermost first.
    context: Vec<String>,
    /// What the rank met that [`ErrorKind::RankFailed`] names.
    cause: Option<Error>,
}

/// The cause of an [`Error`] with its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No CUDA driver, or one that finds no GPU.
    NoDriver {
        /// What was tried and what it answered.
        reason: String,
    },
    /// The driver is too old for the PTX of the kernels. Versions are (major, minor).
    DriverTooOld {
        /// Highest CUDA version that the driver supports.
        driver: (u32, u32),
        /// Version of the PTX.
        ptx: (u32, u32),
        /// The first CUDA version that reads that PTX.
        needed: (u32, u32),
    },
    /// More devices were asked for than there are, or none.
    DeviceCount {
        /// Devices asked for.
        asked: u32,
        /// Devices found.
        found: u32,
    },
    /// A device index that does not exist.
    NoSuchDevice {
        /// The index.
        device: u32,
        /// Devices found.
        found: u32,
    },
    /// Two devices cannot load and store each other's memory.
    NoPeerAccess {
        /// The device that would access.
        device: u32,
        /// The device that owns the memory.
        peer: u32,
    },
    /// A call to the driver, real or simulated, failed.
    Driver {
        /// The function of the driver, e.g. `cuMemMap`.
        call: &'static str,
        /// Its `CUresult`.
        code: u32,
        /// Name of the code.
        name: String,
        /// What the call was given.
        operand: String,
    },
    /// The driver lacks a function that is needed.
    MissingSymbol {
        /// The function.
        symbol: String,
    },
    /// PTX that does not parse, assemble or hold what it promises.
    InvalidPtx {
        /// Where it came from.
        origin: String,
        /// The assembler's log, or what is missing.
        log: String,
    },
    /// A combination that no kernel or machine offers.
    Unsupported {
        /// What was asked.
        what: String,
        /// Why not, or what to do.
        hint: String,
    },
    /// Kernels that are not loaded, or are being loaded.
    NotPrepared {
        /// Their element type and operation.
        what: String,
        /// What is loaded, and what to do.
        hint: String,
    },
    /// A size that does not fit in 64 bits, or in the space it is meant for.
    SizeOverflow {
        /// What was computed.
        what: String,
    },
    /// An argument out of range.
    InvalidArgument {
        /// Which argument.
        what: &'static str,
        /// The value found.
        found: String,
        /// What is allowed.
        allowed: String,
    },
    /// A window that holds fewer bytes than the operation needs.
    WindowTooSmall {
        /// Which argument.
        what: &'static str,
        /// Bytes needed from the start of the range given.
        needed_bytes: u64,
        /// Bytes there.
        found_bytes: u64,
    },
    /// An address that no registered window covers.
    OutsideWindow {
        /// Start of the range.
        address: u64,
        /// Length of the range in bytes.
        len_bytes: u64,
        /// The nearest window, if there is one.
        nearest: String,
    },
    /// An address or size that is not a multiple of what is required.
    Misaligned {
        /// What.
        what: &'static str,
        /// The value found.
        found: u64,
        /// It must be a multiple of this.
        required: u64,
    },
    /// Input and output overlap in part.
    PartialOverlap {
        /// Offset and length of the input in the symmetric space, in bytes.
        input: (u64, u64),
        /// Offset and length of the output in the symmetric space, in bytes.
        output: (u64, u64),
    },
    /// A window, stream or graph of another communicator, device or machine.
    Foreign {
        /// What was given.
        what: String,
        /// What it belongs to and what was expected.
        detail: String,
    },
    /// Ranks disagree in a registration or at init. The same error on every rank.
    Mismatch {
        /// What they disagree about, e.g. `size in bytes`.
        field: &'static str,
        /// Each rank's value, in rank order.
        values: Vec<String>,
    },
    /// A rank failed in a collective step; every rank gets this. [`Error::cause`] is what it met.
    RankFailed {
        /// The rank.
        rank: u32,
        /// Its error.
        reason: String,
    },
    /// A rank of another process sent something else than what the step needs.
    BadMessage {
        /// The rank.
        rank: u32,
        /// The step of the exchange.
        step: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A host-side wait ran past its deadline.
    Deadline {
        /// What was waited for.
        what: String,
        /// The bound in milliseconds.
        timeout_ms: u64,
        /// Ranks that did not come.
        missing: Vec<u32>,
    },
    /// A kernel waited past its bound for a peer.
    Timeout {
        /// The rank that waited.
        rank: u32,
        /// The peer that did not come; [`symmem_device::abi::PEER_UNKNOWN`] where the rank counts arrivals and cannot tell.
        peer: u32,
        /// Block of the kernel.
        block: u32,
        /// The step of the protocol.
        step: &'static str,
        /// The epoch waited for.
        epoch_expected: u32,
        /// The epoch found.
        epoch_seen: u32,
    },
    /// Two ranks called different collectives, or one with different arguments. Found where calls are checked.
    Mismatched {
        /// The rank that found it.
        rank: u32,
        /// The other.
        peer: u32,
        /// What the rank called.
        called: String,
        /// What the other called.
        peer_called: String,
    },
    /// Two operations of one communicator were under way at once on a rank. Found where calls are checked.
    Concurrent {
        /// The rank.
        rank: u32,
    },
    /// The communicator is unusable since a peer gave up.
    Poisoned {
        /// This rank.
        rank: u32,
        /// The rank that gave up first.
        by: u32,
    },
    /// The communicator was aborted by the host.
    Aborted {
        /// This rank.
        rank: u32,
    },
    /// Something that stream capture does not allow, or that only it allows.
    Capture {
        /// What, and what to do.
        what: String,
    },
    /// Every thread of the simulated machine waits for a word that nobody changes.
    Deadlock {
        /// What each waiting thread polls.
        report: String,
    },
    /// A simulated thread did what the machine forbids, e.g. touched unmapped memory.
    Fault {
        /// Where, and what is mapped nearby.
        report: String,
    },
    /// Two accesses of simulated threads, or of one and the host, race.
    Race {
        /// Both accesses, and what would have ordered them.
        report: String,
    },
    /// The operating system refused.
    Io {
        /// What was attempted.
        what: String,
        /// What it answered.
        reason: String,
    },
}

impl Error {
    /// The cause with its operands.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// What the rank itself met that [`ErrorKind::RankFailed`] names, e.g. [`ErrorKind::Misaligned`].
    pub fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }

    /// The error for all ranks when `rank` met `cause`.
    pub(crate) fn of_rank(rank: u32, cause: Self) -> Self {
        let kind = ErrorKind::RankFailed { rank, reason: cause.to_string() };
        Self(Box::new(Repr { kind, context: Vec::new(), cause: Some(cause) }))
    }

    /// Names the step that failed; the step named last is printed first.
    #[must_use]
    pub fn context(mut self, step: impl Into<String>) -> Self {
        self.0.context.push(step.into());
        self
    }
}

impl Clone for Error {
    fn clone(&self) -> Self {
        let Repr { kind, context, cause } = &*self.0;
        Self(Box::new(Repr { kind: kind.clone(), context: context.clone(), cause: cause.clone() }))
    }
}

impl From<ErrorKind> for Error {
    #[cold]
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(Repr { kind, context: Vec::new(), cause: None }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in self.0.context.iter().rev() {
            write!(f, "{step}: ")?;
        }
        write!(f, "{}", self.0.kind)
    }
}

/// As `Display`, so that `unwrap` reads well.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_the_chain_outermost_first() {
        let error =
            Error::from(ErrorKind::DeviceCount { asked: 3, found: 2 }).context("open").context("init");
        assert_eq!(error.to_string(), "init: open: 3 devices asked for, 2 found");
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[test]
    fn is_one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
