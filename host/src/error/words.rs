//! What each kind of error says.

use super::ErrorKind;
use std::fmt;
use symmem_device::abi::PEER_UNKNOWN;

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver { reason } => {
                write!(f, "no usable CUDA driver ({reason}); the simulated machine needs none")
            }
            Self::DriverTooOld { driver, ptx, needed } => driver_too_old(f, *driver, *ptx, *needed),
            Self::DeviceCount { asked: 0, .. } => {
                write!(f, "0 devices asked for; a communicator needs at least 1")
            }
            Self::DeviceCount { asked, found } => write!(f, "{asked} devices asked for, {found} found"),
            Self::NoSuchDevice { device, found } => {
                write!(f, "no device {device}; {found} found, counted from 0")
            }
            Self::NoPeerAccess { device, peer } => no_peer_access(f, *device, *peer),
            Self::Driver { call, code, name, operand } => {
                write!(f, "{call}({operand}) answered {code} {name}")
            }
            Self::MissingSymbol { symbol } => {
                write!(f, "the CUDA driver has no {symbol}; a newer driver is needed for this")
            }
            Self::InvalidPtx { origin, log } => write!(f, "PTX from {origin} cannot be loaded: {log}"),
            Self::Unsupported { what, hint } => write!(f, "{what} is not supported: {hint}"),
            Self::NotPrepared { what, hint } => write!(f, "the kernels of {what} are not loaded: {hint}"),
            Self::SizeOverflow { what } => write!(f, "{what} is too large"),
            Self::InvalidArgument { what, found, allowed } => {
                write!(f, "{what} is {found}, allowed: {allowed}")
            }
            Self::WindowTooSmall { what, needed_bytes, found_bytes } => {
                write!(f, "the {what} needs {needed_bytes} bytes, its window has {found_bytes} from there on")
            }
            Self::OutsideWindow { address, len_bytes, nearest } => write!(
                f,
                "{len_bytes} bytes at {address:#x} lie in no registered window (nearest: {nearest}); register the memory"
            ),
            Self::Misaligned { what, found, required } => {
                write!(f, "{what} is {found:#x}, must be a multiple of {required}")
            }
            Self::PartialOverlap { input, output } => partial_overlap(f, *input, *output),
            Self::Foreign { what, detail } => write!(f, "{what} belongs elsewhere: {detail}"),
            Self::Mismatch { field, values } => mismatch(f, field, values),
            Self::Capture { what } => write!(f, "{what}"),
            Self::Deadlock { report } => write!(f, "deadlock: {report}"),
            Self::Fault { report } => write!(f, "fault: {report}"),
            Self::Race { report } => write!(f, "data race: {report}"),
            Self::Io { what, reason } => write!(f, "{what}: {reason}"),
            Self::RankFailed { rank, reason } => write!(f, "rank {rank} failed: {reason}"),
            Self::BadMessage { rank, step, reason } => {
                write!(f, "what rank {rank} sent for {step} cannot be used: {reason}")
            }
            Self::Deadline { what, timeout_ms, missing } => {
                write!(f, "waited {timeout_ms} ms for {what}; missing ranks: {missing:?}")
            }
            Self::Timeout { rank, peer, block, step, epoch_expected, epoch_seen } => write!(
                f,
                "rank {rank} waited past its bound for {} ({step}, block {block}, epoch {epoch_expected} expected, \
                 {epoch_seen} seen); the communicator is poisoned",
                late_peer(*peer)
            ),
            Self::Mismatched { rank, peer, called, peer_called } => {
                mismatched(f, (*rank, called), (*peer, peer_called))
            }
            Self::Concurrent { rank } => concurrent(f, *rank),
            Self::Poisoned { rank, by } => {
                write!(f, "the communicator of rank {rank} is poisoned: rank {by} gave up")
            }
            Self::Aborted { rank } => write!(f, "the communicator of rank {rank} was aborted"),
        }
    }
}

fn no_peer_access(f: &mut fmt::Formatter<'_>, device: u32, peer: u32) -> fmt::Result {
    write!(f, "device {device} cannot access the memory of device {peer}; NVLink or PCIe P2P is needed")
}

fn mismatched(
    f: &mut fmt::Formatter<'_>,
    (rank, called): (u32, &str),
    (peer, peer_called): (u32, &str),
) -> fmt::Result {
    write!(
        f,
        "rank {rank} called {called}, but rank {peer} called {peer_called}; all ranks must call the same in the \
         same order; the communicator is poisoned"
    )
}

fn concurrent(f: &mut fmt::Formatter<'_>, rank: u32) -> fmt::Result {
    write!(
        f,
        "an operation began on rank {rank} while another of the same communicator was under way; order replays \
         of graphs on different streams by events; the communicator is poisoned"
    )
}

fn driver_too_old(
    f: &mut fmt::Formatter<'_>,
    driver: (u32, u32),
    ptx: (u32, u32),
    needed: (u32, u32),
) -> fmt::Result {
    write!(
        f,
        "the kernels are PTX {}.{}, which needs a driver for CUDA {}.{} or later; this one supports CUDA {}.{}",
        ptx.0, ptx.1, needed.0, needed.1, driver.0, driver.1
    )
}

/// A peer that did not come, in words.
fn late_peer(peer: u32) -> String {
    if peer == PEER_UNKNOWN { "a rank".into() } else { format!("rank {peer}") }
}

fn partial_overlap(f: &mut fmt::Formatter<'_>, input: (u64, u64), output: (u64, u64)) -> fmt::Result {
    write!(
        f,
        "input ({} bytes at offset {:#x}) and output ({} bytes at offset {:#x}) overlap in part; \
         they must be the same range or disjoint",
        input.1, input.0, output.1, output.0
    )
}

fn mismatch(f: &mut fmt::Formatter<'_>, field: &str, values: &[String]) -> fmt::Result {
    write!(f, "ranks disagree about {field}:")?;
    values.iter().enumerate().try_for_each(|(rank, value)| write!(f, " rank {rank} {value};"))?;
    write!(f, " all must be equal")
}
