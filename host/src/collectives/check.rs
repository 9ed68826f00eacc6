//! What is checked of a call, where calls are checked: that every rank makes the same one, and none before the last has
//! ended. See [`symmem_device::kernels::CHECK_ENTER`].

use super::plan::Plan;
use crate::digest::digest;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use symmem_device::abi::CollectiveArgs;
use symmem_device::kernels::{Collective, Dtype, Op};

/// Calls that a process remembers in words. Most programs make fewer different ones.
const REMEMBERED_MAX: usize = 4096;

/// All of a call that is equal on all ranks. Two calls are the same if their texts are.
pub(super) struct Signature<'a> {
    pub(super) collective: Collective,
    pub(super) count: u64,
    pub(super) dtype: Dtype,
    pub(super) op: Option<Op>,
    pub(super) root: u32,
    /// `None` where there are no elements: arrays may then be without memory, on any of the ranks.
    pub(super) moves: Option<Moves<'a>>,
}

/// From where to where a call moves its elements, and how.
pub(super) struct Moves<'a> {
    pub(super) plan: &'a Plan,
    pub(super) args: &'a CollectiveArgs,
    /// How often, if by a kernel that repeats it.
    pub(super) repeats: Option<NonZeroU32>,
    pub(super) rank: u32,
}

impl fmt::Display for Signature<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.collective, self.count, self.dtype)?;
        if let Some(op) = self.op {
            write!(f, ", {op}")?;
        }
        if self.collective == Collective::Broadcast {
            write!(f, ", from rank {}", self.root)?;
        }
        self.moves.as_ref().map_or(Ok(()), |moves| moves.write(self.collective, f))
    }
}

impl Moves<'_> {
    fn write(&self, collective: Collective, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, args, .. } = self;
        match self.in_place(collective) {
            Some(offset) => write!(f, ", in place at offset {offset:#x}")?,
            None => write!(f, ", from offset {:#x} to {:#x}", args.input_offset, args.output_offset)?,
        }
        write!(f, ", by {}, {} blocks of {}", plan.kernel.algorithm, plan.shape.blocks, plan.shape.threads)?;
        self.repeats.map_or(Ok(()), |repeats| write!(f, ", {repeats} times"))
    }

    /// Where the longer of input and output lies, if the other is in it: each rank's part at a place of its own.
    fn in_place(&self, collective: Collective) -> Option<u64> {
        let CollectiveArgs { input_offset: input, output_offset: output, len_bytes, .. } = *self.args;
        let part_bytes = u64::from(self.rank) * len_bytes;
        let (whole, is_in_place) = match collective {
            Collective::AllGather => (output, input == output + part_bytes),
            Collective::ReduceScatter => (input, output == input + part_bytes),
            Collective::AllReduce | Collective::Broadcast | Collective::AllToAll => (input, input == output),
        };
        is_in_place.then_some(whole)
    }
}

/// The calls of a process's ranks in words, by what stands for them on the device.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    words: BTreeMap<u64, String>,
    /// The longest known first.
    order: VecDeque<u64>,
}

impl Calls {
    /// What stands for a call on the device.
    pub(super) fn remember(&self, signature: &Signature<'_>) -> u64 {
        let words = signature.to_string();
        let call = digest(words.as_bytes());
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.words.insert(call, words).is_none() {
            remembered.order.push_back(call);
        }
        if remembered.order.len() > REMEMBERED_MAX
            && let Some(oldest) = remembered.order.pop_front()
        {
            remembered.words.remove(&oldest);
        }
        call
    }

    /// A call in words, if a rank of this process has made it.
    pub(crate) fn words(&self, call: u64) -> String {
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unknown = || format!("a call that no rank of this process has made (digest {call:#018x})");
        remembered.words.get(&call).cloned().unwrap_or_else(unknown)
    }
}
