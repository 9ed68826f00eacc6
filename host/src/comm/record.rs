//! The word from the device to the host, and back.

use crate::backend::HostMapped;
use crate::collectives::Calls;
use crate::machine::Machine;
use crate::{ErrorKind, Result};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering};
use symmem_device::abi::{self, FaultRecord};

/// A rank's [`FaultRecord`] in pinned host memory. Freed on drop.
#[derive(Debug)]
pub(crate) struct Record {
    machine: Machine,
    memory: HostMapped,
}

impl Record {
    pub(crate) fn new(machine: &Machine) -> Result<Self> {
        let memory = machine.backend().host_alloc(size_of::<FaultRecord>() as u64)?;
        Ok(Self { machine: machine.clone(), memory })
    }

    /// Where the device finds it.
    pub(crate) fn device_address(&self) -> u64 {
        self.memory.device
    }

    /// Ends every wait of this rank's kernels.
    pub(crate) fn abort(&self) {
        self.word(offset_of!(FaultRecord, abort)).store(1, Ordering::Release);
    }

    /// Whether no kernel reported anything, and none was told to end.
    pub(crate) fn is_clean(&self) -> bool {
        let state = self.word(offset_of!(FaultRecord, state)).load(Ordering::Acquire);
        (state, self.word(offset_of!(FaultRecord, abort)).load(Ordering::Relaxed)) == (abi::STATE_OK, 0)
    }

    /// What a kernel of `rank` reported, if one did. `calls` has the words for what was called.
    pub(crate) fn fault(&self, rank: u32, calls: &Calls) -> Result<()> {
        // The device stores the state last, with release: all other words are there when it is.
        let state = self.word(offset_of!(FaultRecord, state)).load(Ordering::Acquire);
        let read = |offset: usize| self.word(offset).load(Ordering::Relaxed);
        match state {
            abi::STATE_OK if read(offset_of!(FaultRecord, abort)) == 0 => Ok(()),
            abi::STATE_OK => Err(ErrorKind::Aborted { rank }.into()),
            abi::STATE_POISONED => {
                Err(ErrorKind::Poisoned { rank, by: read(offset_of!(FaultRecord, peer)) }.into())
            }
            abi::STATE_ABORTED => Err(ErrorKind::Aborted { rank }.into()),
            abi::STATE_CONCURRENT => Err(ErrorKind::Concurrent { rank }.into()),
            abi::STATE_MISMATCHED => {
                let [called, peer_called] = self.calls().map(|call| calls.words(call));
                let peer = read(offset_of!(FaultRecord, peer));
                Err(ErrorKind::Mismatched { rank, peer, called, peer_called }.into())
            }
            _ => Err(ErrorKind::Timeout {
                rank,
                peer: read(offset_of!(FaultRecord, peer)),
                block: read(offset_of!(FaultRecord, block)),
                step: step_name(read(offset_of!(FaultRecord, step))),
                epoch_expected: read(offset_of!(FaultRecord, epoch_expected)),
                epoch_seen: read(offset_of!(FaultRecord, epoch_seen)),
            }
            .into()),
        }
    }

    /// What this rank and its peer called.
    fn calls(&self) -> [u64; 2] {
        let half = |n: usize| {
            let word = self.word(offset_of!(FaultRecord, calls) + 4 * n);
            u64::from(word.load(Ordering::Relaxed))
        };
        [half(0) | half(1) << 32, half(2) | half(3) << 32]
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset + 4 <= size_of::<FaultRecord>() && offset.is_multiple_of(4));
        let address = (self.memory.host as usize + offset) as *mut u32;
        // SAFETY: the memory lives as long as `self`, is zeroed, aligned to 4 bytes, and every access of the host to
        // it is atomic; the device's accesses are `.relaxed.sys` or stronger.
        unsafe { AtomicU32::from_ptr(address) }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.machine.defer(self.machine.backend().host_free(self.memory));
    }
}

fn step_name(step: u32) -> &'static str {
    match step {
        abi::STEP_BARRIER_ENTRY => "entry barrier",
        abi::STEP_BARRIER_EXIT => "exit barrier",
        abi::STEP_RECEIVE => "receiving packets",
        abi::STEP_BARRIER_COPIES => "barrier around copies",
        abi::STEP_BARRIER_PUSHED => "barrier behind pushed data",
        abi::STEP_CHECK => "check of the call",
        _ => "kernel entry",
    }
}
