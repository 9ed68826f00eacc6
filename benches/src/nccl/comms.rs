//! NCCL's communicators of one process, one for each device, driven from one thread in groups.

use super::functions::{Functions, RawComm, RawWindow};
use super::words;
use crate::case::Case;
use anyhow::{Result, bail, ensure};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use symmem::Collective;

/// One rank's part of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// First byte of what is sent, and of where the result goes.
    pub(crate) input: u64,
    pub(crate) output: u64,
    /// [`symmem::Stream::raw`].
    pub(crate) stream: u64,
}

/// Memory of one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) rank: u32,
    pub(crate) address: u64,
    pub(crate) len_bytes: u64,
}

/// All ranks' communicators.
pub(crate) struct Comms {
    functions: &'static Functions,
    raw: Vec<RawComm>,
    /// With the rank of each.
    windows: Vec<(usize, RawWindow)>,
    is_aborted: bool,
}

// SAFETY: NCCL's handles may be used from any thread, by one at a time; what uses them takes the value itself or `&mut`.
unsafe impl Send for Comms {}
// SAFETY: no method that takes `&self` and is seen outside passes a handle to NCCL.
unsafe impl Sync for Comms {}

impl Comms {
    /// Joins devices, in rank order.
    ///
    /// # Errors
    ///
    /// What NCCL answers.
    pub(crate) fn init(functions: &'static Functions, devices: &[u32]) -> Result<Self> {
        let mut raw = vec![null_mut(); devices.len()];
        let ordinals: Vec<_> = devices.iter().map(|device| *device as c_int).collect();
        // SAFETY: both arrays have as many elements as the call is told.
        let code = unsafe {
            (functions.comm_init_all)(raw.as_mut_ptr(), ordinals.len() as c_int, ordinals.as_ptr())
        };
        functions.done("ncclCommInitAll", code)?;
        Ok(Self { functions, raw, windows: Vec::new(), is_aborted: false })
    }

    /// Registers each range as a symmetric window of its rank; every rank has ranges of the same lengths, in the same
    /// order.
    ///
    /// # Errors
    ///
    /// What NCCL answers, or that it gave no window, which it calls a success.
    ///
    /// # Safety
    ///
    /// The ranges are device memory of their ranks, mapped until this value is dropped.
    pub(crate) unsafe fn register(&mut self, ranges: &[Range]) -> Result<()> {
        let Some(register) = self.functions.window_register else {
            bail!("NCCL has no ncclCommWindowRegister")
        };
        // NCCL writes the handles when the group ends.
        let mut windows: Vec<RawWindow> = vec![null_mut(); ranges.len()];
        let slots = windows.as_mut_ptr();
        self.group(|comms| {
            for (index, range) in ranges.iter().enumerate() {
                let comm = comms.raw[range.rank as usize];
                let (buffer, len) = (pointer(range.address), range.len_bytes as usize);
                // SAFETY: the memory is mapped by this function's contract; the slot lives until the group has ended.
                let code = unsafe { register(comm, buffer, len, slots.add(index), words::COLL_SYMMETRIC) };
                comms.functions.done("ncclCommWindowRegister", code)?;
            }
            Ok(())
        })?;
        let registered = ranges.iter().zip(windows).filter(|(_, window)| !window.is_null());
        self.windows.extend(registered.map(|(range, window)| (range.rank as usize, window)));
        ensure!(
            self.windows.len() == ranges.len(),
            "ncclCommWindowRegister gave {} windows for {} buffers: NCCL does not support symmetric memory here",
            self.windows.len(),
            ranges.len()
        );
        Ok(())
    }

    /// Puts one operation of all ranks into their streams.
    ///
    /// # Errors
    ///
    /// What NCCL answers, e.g. that it has no such type.
    ///
    /// # Safety
    ///
    /// Each part's addresses are of its rank's device, with as many bytes behind them as the case has, and its stream is a
    /// live one of that device; all stay so until the stream has done the operation, or the graph that it was captured into
    /// is gone.
    pub(crate) unsafe fn enqueue(&mut self, case: &Case, parts: &[Part]) -> Result<()> {
        self.group(|comms| {
            for (comm, part) in comms.raw.iter().zip(parts) {
                // SAFETY: by this function's contract.
                unsafe { comms.enqueue_one(*comm, case, part) }?;
            }
            Ok(())
        })
    }

    /// # Safety
    ///
    /// As [`Self::enqueue`].
    unsafe fn enqueue_one(&self, comm: RawComm, case: &Case, part: &Part) -> Result<()> {
        let (functions, count, dtype) = (self.functions, case.count as usize, words::dtype(case.dtype));
        let op = || case.op.map_or_else(|| unreachable!("every case of a reduction has an op"), words::op);
        let (input, output) = (pointer(part.input).cast_const(), pointer(part.output));
        let stream = pointer(part.stream);
        let (name, code) = match case.collective {
            Collective::AllReduce => {
                // SAFETY: by this function's contract, and the stream lives.
                let code = unsafe { (functions.all_reduce)(input, output, count, dtype, op(), comm, stream) };
                ("ncclAllReduce", code)
            }
            Collective::AllGather => {
                // SAFETY: as above.
                let code = unsafe { (functions.all_gather)(input, output, count, dtype, comm, stream) };
                ("ncclAllGather", code)
            }
            Collective::ReduceScatter => {
                // SAFETY: as above.
                let code =
                    unsafe { (functions.reduce_scatter)(input, output, count, dtype, op(), comm, stream) };
                ("ncclReduceScatter", code)
            }
            Collective::Broadcast => {
                let root = case.root() as c_int;
                // SAFETY: as above.
                let code = unsafe { (functions.broadcast)(input, output, count, dtype, root, comm, stream) };
                ("ncclBroadcast", code)
            }
            // SAFETY: by this function's contract.
            Collective::AllToAll => return unsafe { self.exchange(comm, case, part) },
        };
        functions.done(name, code)
    }

    /// All to all by sends and receives: what NCCL has in all versions, and what its own function does.
    ///
    /// # Safety
    ///
    /// As [`Self::enqueue`].
    unsafe fn exchange(&self, comm: RawComm, case: &Case, part: &Part) -> Result<()> {
        let functions = self.functions;
        let (Some(send), Some(recv)) = (functions.send, functions.recv) else {
            bail!("NCCL lacks ncclSend and ncclRecv, which 2.7 brought");
        };
        let (count, dtype, stream) = (case.count as usize, words::dtype(case.dtype), pointer(part.stream));
        for peer in 0..case.n_ranks {
            let offset = u64::from(peer) * case.part_bytes();
            let (input, output) = (pointer(part.input + offset).cast_const(), pointer(part.output + offset));
            // SAFETY: by this function's contract, and the stream lives.
            functions.done("ncclSend", unsafe { send(input, count, dtype, peer as c_int, comm, stream) })?;
            // SAFETY: as above.
            functions.done("ncclRecv", unsafe { recv(output, count, dtype, peer as c_int, comm, stream) })?;
        }
        Ok(())
    }

    /// Calls of all ranks as one, since each waits for the others. The group is ended whatever happens in it.
    fn group(&mut self, calls: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        ensure!(!self.is_aborted, "NCCL was aborted by an earlier row");
        // SAFETY: takes nothing.
        self.functions.done("ncclGroupStart", unsafe { (self.functions.group_start)() })?;
        let called = calls(self);
        // SAFETY: the group was begun above, by this thread.
        let ended = self.functions.done("ncclGroupEnd", unsafe { (self.functions.group_end)() });
        called.and(ended)
    }

    /// Ends what its kernels wait for. Later calls are refused.
    pub(crate) fn abort(&mut self) {
        if !std::mem::replace(&mut self.is_aborted, true) {
            for comm in &self.raw {
                // SAFETY: the communicator lives, and this is its last call.
                let code = unsafe { (self.functions.comm_abort)(*comm) };
                self.say("ncclCommAbort", code);
            }
        }
    }

    fn say(&self, function: &str, code: c_int) {
        if let Err(error) = self.functions.done(function, code) {
            eprintln!("symmem-bench: {error:#}");
        }
    }
}

impl Drop for Comms {
    fn drop(&mut self) {
        if self.is_aborted {
            return;
        }
        if let Some(deregister) = self.functions.window_deregister {
            for (rank, window) in self.windows.drain(..).collect::<Vec<_>>() {
                // SAFETY: the window is one of this communicator's and is named once.
                let code = unsafe { deregister(self.raw[rank], window) };
                self.say("ncclCommWindowDeregister", code);
            }
        }
        for comm in &self.raw {
            // SAFETY: the communicator lives, and this is its last call.
            let code = unsafe { (self.functions.comm_destroy)(*comm) };
            self.say("ncclCommDestroy", code);
        }
    }
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::without_provenance_mut(address as usize)
}
