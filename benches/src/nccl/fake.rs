//! A library that behaves as NCCL does, on the simulated machine: it moves and reduces on the host when a group ends. One
//! at a time, since a function of C has no place for more than one state.

use super::find::Version;
use super::functions::{Code, Functions, RawComm, RawStream, RawWindow};
use super::multicast::Multicast;
use super::{Nccl, words};
use crate::reference::{Reference, lift, lower};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use symmem::{Dtype, Machine, Op};

const SUCCESS: Code = 0;
const INVALID_ARGUMENT: Code = 4;
const INVALID_USAGE: Code = 5;

/// What is wrong with the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// Results are off by a bit.
    WrongResults,
    /// It has no function for windows.
    NoWindows,
    /// It gives no window, and calls that a success.
    NullWindows,
    /// It refuses windows.
    RefusedWindows,
    /// It knows no 8-bit floats.
    NoFp8,
    /// It finds no devices.
    NoInit,
}

/// What the library was asked to do, one word a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Communicators, by their number.
    Init(usize),
    Register(usize),
    /// One operation of all ranks.
    Run(usize),
    Deregister(usize),
    Destroy(usize),
}

struct State {
    machine: Machine,
    fault: Fault,
    /// Sets of communicators and the ranks in each.
    sets: Vec<u32>,
    is_in_group: bool,
    pending: Vec<Call>,
    asked: Vec<Asked>,
}

#[derive(Clone, Copy)]
enum Kind {
    AllReduce(c_int),
    AllGather,
    ReduceScatter(c_int),
    Broadcast(c_int),
    Send(c_int),
    Recv(c_int),
}

struct Call {
    comm: (usize, u32),
    kind: Kind,
    input: u64,
    output: u64,
    count: usize,
    dtype: Dtype,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The library while it is there.
pub(crate) struct Fake(#[expect(dead_code, reason = "held for its drop")] MutexGuard<'static, ()>);

impl Fake {
    /// A library for devices of this machine.
    pub(crate) fn new(machine: &Machine, fault: Fault) -> Self {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let state = State {
            machine: machine.clone(),
            fault,
            sets: Vec::new(),
            is_in_group: false,
            pending: Vec::new(),
            asked: Vec::new(),
        };
        *STATE.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        Self(turn)
    }

    /// As the bench has it once it is loaded.
    pub(crate) fn nccl(&self) -> Nccl {
        let has_windows = with(|state| state.fault != Fault::NoWindows);
        let functions = Functions {
            get_error_string,
            comm_init_all,
            comm_destroy,
            comm_abort: comm_destroy,
            group_start,
            group_end,
            all_reduce,
            all_gather,
            reduce_scatter,
            broadcast,
            send: Some(send),
            recv: Some(recv),
            get_last_error: None,
            window_register: has_windows.then_some(window_register as _),
            window_deregister: has_windows.then_some(window_deregister as _),
        };
        let place = "a fake".to_owned();
        Nccl {
            functions: Box::leak(Box::new(functions)),
            version: Version(22_803),
            place,
            multicast: Multicast::Off,
        }
    }

    /// What it was asked since this was last called.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        with(|state| std::mem::take(&mut state.asked))
    }
}

fn with<R>(work: impl FnOnce(&mut State) -> R) -> R {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    work(state.as_mut().expect("a fake is there"))
}

/// A communicator is its set's number and its rank, never null.
fn comm(set: usize, rank: u32) -> RawComm {
    without_provenance_mut((set + 1) << 8 | rank as usize)
}

fn parts(comm: RawComm) -> (usize, u32) {
    ((comm as usize >> 8) - 1, comm as usize as u32 & 0xff)
}

unsafe extern "C" fn get_error_string(code: Code) -> *const c_char {
    let text: &CStr = match code {
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        _ => c"no error",
    };
    text.as_ptr()
}

unsafe extern "C" fn comm_init_all(comms: *mut RawComm, n: c_int, _devices: *const c_int) -> Code {
    with(|state| {
        if state.fault == Fault::NoInit {
            return INVALID_USAGE;
        }
        let set = state.sets.len();
        state.sets.push(n as u32);
        state.asked.push(Asked::Init(set));
        for rank in 0..n as u32 {
            // SAFETY: the caller's array has `n` places.
            unsafe { comms.add(rank as usize).write(comm(set, rank)) };
        }
        SUCCESS
    })
}

unsafe extern "C" fn comm_destroy(comm: RawComm) -> Code {
    with(|state| state.asked.push(Asked::Destroy(parts(comm).0)));
    SUCCESS
}

unsafe extern "C" fn group_start() -> Code {
    with(|state| if std::mem::replace(&mut state.is_in_group, true) { INVALID_USAGE } else { SUCCESS })
}

unsafe extern "C" fn group_end() -> Code {
    with(|state| {
        if !std::mem::replace(&mut state.is_in_group, false) {
            return INVALID_USAGE;
        }
        let calls = std::mem::take(&mut state.pending);
        let Some(first) = calls.first() else { return SUCCESS };
        let mut ranks: Vec<_> = calls.iter().map(|call| call.comm).collect();
        ranks.dedup();
        let set = first.comm.0;
        if ranks != (0..state.sets[set]).map(|rank| (set, rank)).collect::<Vec<_>>() {
            return INVALID_USAGE;
        }
        state.asked.push(Asked::Run(set));
        match first.kind {
            Kind::Send(_) | Kind::Recv(_) => exchange(state, &calls),
            _ => run(state, &calls),
        }
        SUCCESS
    })
}

unsafe extern "C" fn window_register(
    comm: RawComm,
    buffer: *mut c_void,
    len: usize,
    window: *mut RawWindow,
    flags: c_int,
) -> Code {
    with(|state| {
        let (set, rank) = parts(comm);
        // SAFETY: the simulated machine checks the address.
        let is_mapped = unsafe { state.machine.raw_backend() }.pointer_facts(buffer as u64).is_ok();
        if !is_mapped || len == 0 || flags != words::COLL_SYMMETRIC || state.fault == Fault::RefusedWindows {
            return INVALID_ARGUMENT;
        }
        state.asked.push(Asked::Register(set));
        let given = if state.fault == Fault::NullWindows { null_mut() } else { super::fake::comm(set, rank) };
        // SAFETY: the caller's place for the window.
        unsafe { window.write(given) };
        SUCCESS
    })
}

unsafe extern "C" fn window_deregister(comm: RawComm, window: RawWindow) -> Code {
    with(|state| state.asked.push(Asked::Deregister(parts(comm).0)));
    if comm == window { SUCCESS } else { INVALID_ARGUMENT }
}

unsafe extern "C" fn all_reduce(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    comm: RawComm,
    _stream: RawStream,
) -> Code {
    call(Kind::AllReduce(op), input, output, count, dtype, comm)
}

unsafe extern "C" fn all_gather(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    comm: RawComm,
    _stream: RawStream,
) -> Code {
    call(Kind::AllGather, input, output, count, dtype, comm)
}

unsafe extern "C" fn reduce_scatter(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    comm: RawComm,
    _stream: RawStream,
) -> Code {
    call(Kind::ReduceScatter(op), input, output, count, dtype, comm)
}

unsafe extern "C" fn broadcast(
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    root: c_int,
    comm: RawComm,
    _stream: RawStream,
) -> Code {
    call(Kind::Broadcast(root), input, output, count, dtype, comm)
}

unsafe extern "C" fn send(
    input: *const c_void,
    count: usize,
    dtype: c_int,
    peer: c_int,
    comm: RawComm,
    _stream: RawStream,
) -> Code {
    call(Kind::Send(peer), input, null_mut(), count, dtype, comm)
}

unsafe extern "C" fn recv(
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    peer: c_int,
    comm: RawComm,
    _stream: RawStream,
) -> Code {
    call(Kind::Recv(peer), null_mut(), output, count, dtype, comm)
}

fn call(
    kind: Kind,
    input: *const c_void,
    output: *mut c_void,
    count: usize,
    dtype: c_int,
    comm: RawComm,
) -> Code {
    with(|state| {
        let known = Dtype::ALL.iter().find(|one| words::dtype(**one) == dtype);
        let is_refused = state.fault == Fault::NoFp8 && dtype >= words::dtype(Dtype::E4m3);
        let (Some(&dtype), false) = (known, is_refused) else { return INVALID_ARGUMENT };
        if !state.is_in_group {
            return INVALID_USAGE;
        }
        let (input, output) = (input as u64, output as u64);
        state.pending.push(Call { comm: parts(comm), kind, input, output, count, dtype });
        SUCCESS
    })
}

/// Reads all inputs, then writes all outputs.
fn run(state: &State, calls: &[Call]) {
    // SAFETY: the simulated machine checks addresses.
    let backend = unsafe { state.machine.raw_backend() };
    let n = calls.len();
    let part_bytes = calls[0].count * calls[0].dtype.bytes() as usize;
    let input_bytes =
        if matches!(calls[0].kind, Kind::ReduceScatter(_)) { n * part_bytes } else { part_bytes };
    let read = |(device, call): (u32, &Call)| {
        let mut bytes = vec![0; input_bytes];
        backend.read(device, call.input, &mut bytes).expect("the input is mapped");
        bytes
    };
    let inputs: Vec<_> = (0..).zip(calls).map(read).collect();
    let reduced = |op: c_int| {
        let dtype = calls[0].dtype;
        let op = *Op::ALL.iter().find(|one| words::op(**one) == op).expect("a known operation");
        let values: Vec<_> = inputs.iter().map(|bytes| lift(dtype, bytes)).collect();
        lower(dtype, &Reference { dtype, op, n_ranks: n as u32 }.reduce(values.iter()))
    };
    for (rank, call) in calls.iter().enumerate() {
        let mut result = match call.kind {
            Kind::AllReduce(op) => reduced(op),
            Kind::AllGather => inputs.concat(),
            Kind::Broadcast(root) => inputs[root as usize].clone(),
            Kind::Send(_) | Kind::Recv(_) => unreachable!("sends and receives come in groups of their own"),
            Kind::ReduceScatter(op) => reduced(op)[rank * part_bytes..][..part_bytes].to_vec(),
        };
        write(state, call, &mut result);
    }
}

/// Every send meets the receive of its peer, in their order.
fn exchange(state: &State, calls: &[Call]) {
    // SAFETY: the simulated machine checks addresses.
    let backend = unsafe { state.machine.raw_backend() };
    let mut sent = Vec::new();
    for call in calls {
        if let Kind::Send(peer) = call.kind {
            let mut bytes = vec![0; call.count * call.dtype.bytes() as usize];
            backend.read(call.comm.1, call.input, &mut bytes).expect("the input is mapped");
            sent.push((call.comm.1, peer as u32, bytes));
        }
    }
    for call in calls {
        if let Kind::Recv(peer) = call.kind {
            let meets = |(from, to, _): &(u32, u32, Vec<u8>)| (*from, *to) == (peer as u32, call.comm.1);
            let (_, _, mut bytes) = sent.swap_remove(sent.iter().position(meets).expect("its peer sends"));
            write(state, call, &mut bytes);
        }
    }
}

fn write(state: &State, call: &Call, result: &mut [u8]) {
    if let (Fault::WrongResults, Some(byte)) = (state.fault, result.last_mut()) {
        *byte ^= 0x40;
    }
    // SAFETY: the simulated machine checks the address.
    let backend = unsafe { state.machine.raw_backend() };
    backend.write(call.comm.1, call.output, result).expect("the output is mapped");
}
