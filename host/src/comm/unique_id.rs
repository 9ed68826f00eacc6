//! The name under which the ranks of a communicator find each other.

use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// What tells one communicator's messages from another's: 128 random bits, or a digest of what a launcher says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JobId(pub(crate) [u8; 16]);

/// Where the ranks meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Rank 0 listens at this address of its host.
    Tcp { host: String, port: u16 },
    /// All ranks see this directory. It is made, mode 0700, and removed again.
    Directory(PathBuf),
}

/// Names a communicator across processes: rank 0 makes it, all others are given it, as text for instance.
///
/// ```text
///   symmem:0123456789abcdef0123456789abcdef@dir:/run/user/1000/symmem-0123456789abcdef
///   symmem:0123456789abcdef0123456789abcdef@tcp://127.0.0.1:29500
/// ```
///
/// One id makes one communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueId {
    pub(crate) job: JobId,
    pub(crate) meeting: Meeting,
}

impl JobId {
    /// 128 random bits.
    pub(crate) fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => {
                    let what = "asking for random bytes".to_owned();
                    return Err(ErrorKind::Io { what, reason: errno.to_string() }.into());
                }
            }
        }
        Ok(Self(bytes))
    }

    /// The same for the same words. No secret: the directory in which ranks meet is private.
    pub(crate) fn of_words(words: &[&str]) -> Self {
        let digest = |seed: u64| {
            let bytes = words.iter().flat_map(|word| word.bytes().chain([0xff]));
            bytes.fold(seed, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
        };
        let halves = [digest(0xcbf2_9ce4_8422_2325), digest(0x6c62_272e_07bb_0142)];
        Self(bytemuck::cast(halves.map(u64::to_le)))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl UniqueId {
    /// A fresh id whose ranks meet in a directory of this host: in `SYMMEM_RUNTIME_DIR`, `XDG_RUNTIME_DIR` or the
    /// directory for temporary files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if there are no random numbers.
    pub fn new() -> Result<Self> {
        let job = JobId::random()?;
        Ok(Self { job, meeting: Meeting::Directory(runtime_dir().join(format!("symmem-{job}"))) })
    }

    /// A fresh id whose ranks meet at rank 0, which listens at `host` and `port`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for port 0; [`ErrorKind::Io`] if there are no random numbers.
    pub fn tcp(host: &str, port: u16) -> Result<Self> {
        let meeting = Meeting::from_str(&format!("tcp://{host}:{port}"))?;
        Ok(Self { job: JobId::random()?, meeting })
    }

    /// A fresh id whose ranks meet in this directory, which must be the job's own.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] if there are no random numbers.
    pub fn directory(path: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self { job: JobId::random()?, meeting: Meeting::Directory(path.into()) })
    }
}

/// Where directories of jobs are made.
pub(crate) fn runtime_dir() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let own = named("XDG_RUNTIME_DIR").filter(|path| path.is_dir());
    named("SYMMEM_RUNTIME_DIR").or(own).unwrap_or_else(std::env::temp_dir)
}

impl fmt::Display for Meeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
            Self::Directory(path) => write!(f, "dir:{}", path.display()),
        }
    }
}

impl FromStr for Meeting {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let tcp = text.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':'));
        let tcp = tcp.and_then(|(host, port)| Some((host, port.parse().ok().filter(|port| *port != 0)?)));
        let directory = text.strip_prefix("dir:").map(Path::new).filter(|path| path.is_absolute());
        match (tcp, directory) {
            (Some((host, port)), _) if !host.is_empty() => Ok(Self::Tcp { host: host.into(), port }),
            (_, Some(path)) => Ok(Self::Directory(path.into())),
            _ => Err(invalid("where ranks meet", text, "tcp://HOST:PORT or dir:/ABSOLUTE/PATH")),
        }
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "symmem:{}@{}", self.job, self.meeting)
    }
}

impl FromStr for UniqueId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.strip_prefix("symmem:").and_then(|rest| rest.split_once('@'));
        let parts = parts.and_then(|(job, meeting)| Some((job_of(job)?, meeting)));
        let Some((job, meeting)) = parts else {
            return Err(invalid("unique id", text, "symmem:32_HEX_DIGITS@WHERE, as rank 0 printed it"));
        };
        Ok(Self { job, meeting: meeting.parse()? })
    }
}

fn job_of(text: &str) -> Option<JobId> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()?;
    Some(JobId(number.to_be_bytes()))
}

fn invalid(what: &'static str, found: &str, allowed: &str) -> Error {
    ErrorKind::InvalidArgument { what, found: found.into(), allowed: allowed.into() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is printed is read again.
        #[test]
        fn round_trip(job: [u8; 16], path in "(/[a-z@:. ]{1,20}){1,4}", port in 1u16..) {
            for meeting in [Meeting::Directory(path.into()), Meeting::Tcp { host: "::1".into(), port }] {
                let id = UniqueId { job: JobId(job), meeting };
                prop_assert_eq!(id.to_string().parse::<UniqueId>().expect("it was printed"), id);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            drop(text.parse::<UniqueId>());
            drop(text.parse::<Meeting>());
        }
    }

    #[test]
    fn ids_are_fresh() {
        assert_ne!(UniqueId::new().unwrap(), UniqueId::new().unwrap());
        assert_ne!(JobId::of_words(&["a", "b"]), JobId::of_words(&["ab", ""]));
        assert_eq!(JobId::of_words(&["a", "b"]), JobId::of_words(&["a", "b"]));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let job = "0".repeat(32);
        let wrong = [
            String::new(),
            "symmem:".into(),
            format!("symmem:{job}"),
            format!("symmem:{}@dir:/x", &job[1..]),
            format!("symmem:+{}@dir:/x", &job[1..]),
            format!("symmem:{job}@dir:relative"),
            format!("symmem:{job}@tcp://:1"),
            format!("symmem:{job}@tcp://host:0"),
            format!("symmem:{job}@tcp://host:65536"),
        ];
        for text in wrong {
            let error = text.parse::<UniqueId>().expect_err(&text).to_string();
            assert!(error.contains("allowed"), "{error}");
        }
    }
}
