//! From a call to a launch: checks against the windows, the plan, the arguments.

use super::check::{Moves, Signature};
use super::cut::cut;
use super::looped::Repeated;
use super::plan::{Plan, form_of};
use crate::backend::CaptureState;
use crate::comm::Comm;
use crate::machine::Device;
use crate::stream::Stream;
use crate::symmetric::{FlatOffset, WindowInner, WindowOffset, WindowSlice};
use crate::{ErrorKind, Result};
use std::sync::Arc;
use symmem_device::abi::{CheckArgs, CollectiveArgs, DevBaseLayout, DevComm, LoopArgs};
use symmem_device::kernels::{Algorithm, Collective, Dtype, Multicast, Op};

/// What of a call decides on its plan: collective, count, type, operation, and which windows have multicast, if any may.
pub(crate) type Asked = (Collective, u64, Dtype, Option<Op>, Option<Multicast>);

/// Bytes of a window.
#[derive(Clone, Copy)]
pub(crate) struct Range<'a> {
    window: &'a Arc<WindowInner>,
    offset: WindowOffset,
    len_bytes: u64,
}

impl<'a> Range<'a> {
    pub(crate) fn of<T>(slice: WindowSlice<'a, T>) -> Self {
        let len_bytes = (slice.len() * size_of::<T>()) as u64;
        Self { window: slice.window(), offset: slice.offset(), len_bytes }
    }

    /// The range at an address that the window covers.
    pub(crate) fn at(
        window: &'a Arc<WindowInner>,
        address: u64,
        len_bytes: u64,
        dtype: Dtype,
    ) -> Result<Self> {
        if !address.is_multiple_of(dtype.bytes()) {
            let (what, required) = ("address of an array", dtype.bytes());
            return Err(ErrorKind::Misaligned { what, found: address, required }.into());
        }
        let offset = window.find(address, len_bytes).expect("the window was found by this range");
        Ok(Self { window, offset, len_bytes })
    }

    /// A part of it.
    pub(crate) fn part(self, start_bytes: u64, len_bytes: u64) -> Self {
        Self { offset: WindowOffset::new(self.offset.bytes + start_bytes), len_bytes, ..self }
    }

    fn has_multicast(&self) -> bool {
        self.window.backing.multicast().is_some()
    }

    fn flat_bytes(&self) -> u64 {
        self.window.flat(self.offset).bytes
    }
}

/// A collective as it was called.
pub(crate) struct Call<'a> {
    pub(crate) collective: Collective,
    pub(crate) input: Range<'a>,
    pub(crate) output: Range<'a>,
    /// Elements of the message, or of one rank's part.
    pub(crate) count: u64,
    pub(crate) dtype: Dtype,
    pub(crate) op: Option<Op>,
    /// The rank that a broadcast starts from; 0 in every other collective.
    pub(crate) root: u32,
    pub(crate) stream: &'a Stream,
}

/// A collective as it was called by addresses.
pub(crate) struct CallAt {
    pub(crate) collective: Collective,
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// Elements of the message, or of one rank's part.
    pub(crate) count: u64,
    pub(crate) dtype: Dtype,
    pub(crate) op: Option<Op>,
    /// As in [`Call`].
    pub(crate) root: u32,
}

impl Call<'_> {
    /// Checks the call against its windows.
    fn check(&self, comm: &Comm) -> Result<()> {
        for (what, range) in [("input", &self.input), ("output", &self.output)] {
            if (range.window.comm_id, range.window.rank) != (comm.id(), comm.rank()) {
                let detail =
                    format!("its window is one of another communicator or rank than {}", comm.rank());
                return Err(ErrorKind::Foreign { what: format!("the {what}"), detail }.into());
            }
        }
        check_stream(self.stream, comm.device())?;
        check_root(self.root, comm.n_ranks())?;
        let (n_inputs, n_outputs) = self.collective.parts(comm.n_ranks());
        let input_bytes = bytes_of(self.count, self.dtype, n_inputs)?;
        let output_bytes = bytes_of(self.count, self.dtype, n_outputs)?;
        for (what, range, needed_bytes) in
            [("input", &self.input, input_bytes), ("output", &self.output, output_bytes)]
        {
            if range.len_bytes < needed_bytes {
                let found_bytes = range.len_bytes;
                return Err(ErrorKind::WindowTooSmall { what, needed_bytes, found_bytes }.into());
            }
        }
        self.check_overlap(comm.rank(), input_bytes, output_bytes)
    }

    fn check_overlap(&self, rank: u32, input_bytes: u64, output_bytes: u64) -> Result<()> {
        let (input, output) = (self.input.flat_bytes(), self.output.flat_bytes());
        if input + input_bytes <= output || output + output_bytes <= input {
            return Ok(());
        }
        let part_bytes = u64::from(rank) * input_bytes.min(output_bytes);
        let is_in_place = match self.collective {
            Collective::AllReduce | Collective::Broadcast | Collective::AllToAll => input == output,
            Collective::AllGather => input == output + part_bytes,
            Collective::ReduceScatter => output == input + part_bytes,
        };
        if is_in_place && self.collective == Collective::AllToAll {
            let (what, hint) = ("an all-to-all in place", "give the output memory of its own");
            return Err(ErrorKind::Unsupported { what: what.into(), hint: hint.into() }.into());
        }
        if is_in_place {
            return Ok(());
        }
        Err(ErrorKind::PartialOverlap { input: (input, input_bytes), output: (output, output_bytes) }.into())
    }
}

impl Comm {
    /// Checks, plans and launches a call: one kernel on its stream, with copies between two where copy engines move data;
    /// a small kernel before and one behind them where calls are checked.
    pub(crate) fn launch(&mut self, call: &Call<'_>) -> Result<()> {
        self.check_usable()?;
        call.check(self)?;
        let windows = [call.input.window, call.output.window];
        let &Call { collective, count, dtype, op, root, .. } = call;
        let mut signature = Signature { collective, count, dtype, op, root, moves: None };
        if count == 0 {
            return self.launch_empty(&signature, &windows, call.stream);
        }
        let (input, output) = (call.input.has_multicast(), call.output.has_multicast());
        let multicast = self.multicast_base().map(|_| Multicast { input, output });
        let plan = self.planned((collective, count, dtype, op, multicast))?;
        let repeated = self.repeated(&plan)?;
        let (form, n_ranks) = (form_of(plan.kernel.algorithm), self.n_ranks());
        let (input_offset, len_bytes) = (call.input.flat_bytes(), bytes_of(count, dtype, 1)?);
        let cut = cut(collective, form, (input_offset, len_bytes), n_ranks, plan.shape.blocks)?;
        let args = CollectiveArgs {
            comm: self.dev_comm(),
            input_offset,
            output_offset: call.output.flat_bytes(),
            len_bytes,
            slots_per_part: cut.slots_per_part,
            slots_per_block: cut.slots_per_block,
            scratch_packs: DevBaseLayout::new(n_ranks).scratch_packs() as u16,
            root: root as u16,
        };
        self.order().enter(call.stream, || self.kept(&windows))?;
        if !self.agreed().check {
            return self.launch_planned(call, &plan, &args, repeated);
        }
        let repeats = repeated.map(|(repeats, _)| repeats);
        signature.moves = Some(Moves { plan: &plan, args: &args, repeats, rank: self.rank() });
        self.launch_checked(&signature, call.stream, || self.launch_planned(call, &plan, &args, repeated))
    }

    /// A call without elements launches nothing, but where calls are checked: all ranks hear of it.
    fn launch_empty(
        &self,
        signature: &Signature<'_>,
        windows: &[&Arc<WindowInner>],
        stream: &Stream,
    ) -> Result<()> {
        if !self.agreed().check {
            return Ok(());
        }
        self.order().enter(stream, || self.kept(windows))?;
        self.launch_checked(signature, stream, || Ok(()))
    }

    /// What `launch` launches, with the kernels of the check around it. The one behind it also where it fails: the mark that
    /// an operation is under way would stay.
    fn launch_checked(
        &self,
        signature: &Signature<'_>,
        stream: &Stream,
        launch: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let check = CheckArgs { comm: self.dev_comm(), call: self.calls().remember(signature) };
        self.kernels().check_enter(stream, &check)?;
        let launched = launch();
        launched.and(self.kernels().check_leave(stream, &check))
    }

    fn launch_planned(
        &self,
        call: &Call<'_>,
        plan: &Plan,
        args: &CollectiveArgs,
        repeated: Option<Repeated>,
    ) -> Result<()> {
        match (repeated, plan.kernel.algorithm) {
            (Some((repeats, function)), _) => {
                let args = LoopArgs { collective: *args, repeats: repeats.get(), reserved: 0 };
                self.kernels().launch_loop(function, call.stream, plan.shape, &args)
            }
            (None, Algorithm::Ce) => self.launch_copies(call, plan, args),
            (None, _) => self.kernels().launch(plan.kernel, call.stream, plan.shape, args),
        }
    }

    /// A barrier, a copy of the input to each peer, a barrier; beside the copies, one to the rank's own output.
    fn launch_copies(&self, call: &Call<'_>, plan: &Plan, args: &CollectiveArgs) -> Result<()> {
        let (stream, rank, n_ranks) = (call.stream, self.rank(), self.n_ranks());
        let barrier = || self.kernels().launch_in_order(plan.kernel, stream, plan.shape, args);
        let at = |rank, offset| self.space().address(rank, FlatOffset::new(offset));
        let from = at(rank, args.input_offset);
        let to = |to_rank| at(to_rank, args.output_offset + u64::from(rank) * args.len_bytes);
        let copy = |stream: &Stream, to| {
            self.device().machine().backend().stream_copy(stream.handle(), from, to, args.len_bytes)
        };
        let to_peers = || (1..n_ranks).try_for_each(|distance| copy(stream, to((rank + distance) % n_ranks)));
        let is_captured = stream.capture_state()? != CaptureState::None;
        let mut forks = self.forks();
        let fork = if to(rank) == from { None } else { Some(forks.of(stream)?) };
        let copies = || match fork {
            Some(fork) => fork.beside(stream, |beside| copy(beside, to(rank)), to_peers),
            None => to_peers(),
        };
        barrier()?;
        let done = copies().and_then(|()| barrier());
        // Peers wait in the second barrier by now, which must not meet the first one of another call.
        if done.is_err() && !is_captured {
            self.abort();
        }
        done
    }

    /// As [`Self::launch`], by addresses in windows. Arrays without elements may be without memory, too.
    pub(crate) fn launch_at(&mut self, call: &CallAt, stream: &Stream) -> Result<()> {
        let &CallAt { collective, input, output, count, dtype, op, root } = call;
        if (input, output, count) == (0, 0, 0) {
            self.check_usable()?;
            check_stream(stream, self.device())?;
            check_root(root, self.n_ranks())?;
            let signature = Signature { collective, count, dtype, op, root, moves: None };
            return self.launch_empty(&signature, &[], stream);
        }
        let (n_inputs, n_outputs) = collective.parts(self.n_ranks());
        let (input_bytes, output_bytes) =
            (bytes_of(count, dtype, n_inputs)?, bytes_of(count, dtype, n_outputs)?);
        let (input_window, output_window) =
            (self.window_at(input, input_bytes)?, self.window_at(output, output_bytes)?);
        self.launch(&Call {
            collective,
            input: Range::at(&input_window, input, input_bytes, dtype)?,
            output: Range::at(&output_window, output, output_bytes, dtype)?,
            count,
            dtype,
            op,
            root,
            stream,
        })
    }

    /// The plan, which is mostly that of the call before.
    fn planned(&mut self, asked: Asked) -> Result<Plan> {
        if let Some((_, plan)) = self.last_plan().filter(|(planned, _)| *planned == asked) {
            return Ok(plan);
        }
        let plan = super::plan(&self.problem(asked)?)?;
        self.keep_plan(asked, plan);
        Ok(plan)
    }

    /// What a kernel of your own takes to know this communicator by.
    pub fn dev_comm(&self) -> DevComm {
        DevComm {
            base_uc: self.space().base_uc(),
            stride_bytes: self.space().stride_bytes(),
            record: self.record_address(),
            rank: self.rank(),
            n_ranks: self.n_ranks(),
            base_mc: self.multicast_base().unwrap_or(0),
        }
    }
}

fn check_stream(stream: &Stream, device: &Device) -> Result<()> {
    let on = stream.device();
    if on.index() == device.index() && on.machine().is_same(device.machine()) {
        return Ok(());
    }
    let detail = format!("it works on device {}, the rank's is {}", on.index(), device.index());
    Err(ErrorKind::Foreign { what: "the stream".into(), detail }.into())
}

fn check_root(root: u32, n_ranks: u32) -> Result<()> {
    if root < n_ranks {
        return Ok(());
    }
    let (found, allowed) = (format!("rank {root}"), format!("ranks from 0 to {}", n_ranks - 1));
    Err(ErrorKind::InvalidArgument { what: "root of a broadcast", found, allowed }.into())
}

/// Bytes of `count` elements for each of `n` ranks.
pub(crate) fn bytes_of(count: u64, dtype: Dtype, n: u32) -> Result<u64> {
    let bytes = count.checked_mul(dtype.bytes()).and_then(|bytes| bytes.checked_mul(n.into()));
    bytes.ok_or_else(|| {
        ErrorKind::SizeOverflow { what: format!("{count} elements of {dtype} × {n} ranks") }.into()
    })
}

/// One rank's share of `len` elements.
pub(crate) fn share_of(what: &'static str, len: u64, n_ranks: u32) -> Result<u64> {
    if len.is_multiple_of(n_ranks.into()) {
        return Ok(len / u64::from(n_ranks));
    }
    let (found, allowed) = (format!("{len} elements"), format!("a multiple of the {n_ranks} ranks"));
    Err(ErrorKind::InvalidArgument { what, found, allowed }.into())
}
