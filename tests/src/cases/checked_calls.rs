//! Calls that are checked: ranks that call different collectives are told so, and so is who lets two operations of one
//! communicator run at once. Unchecked, nothing is launched for it.

use crate::expect::{error_of, expect, kind};
use crate::faulty::Fault;
use crate::harness::{Case, Context, RunsOn};
use crate::rig::{Rig, every_op};
use anyhow::{Result, bail, ensure};
use symmem::{Algorithm, Comm, CommConfig, Dtype, ErrorKind, Event, GraphExec, Op, Stream, UniqueId, Window};

/// Elements of each rank's window.
const COUNT: usize = 4096;

/// How a rank calls: with the address of its window.
type Call = fn(&mut Comm, u64, &Stream) -> symmem::Result<()>;

/// What differs, what all ranks but the last call, what the last calls, and what each is called in the error.
type Row = (&'static str, Call, Call, [&'static str; 2]);

const MISMATCHED: [Row; 11] = [
    (
        "count",
        reduce_f32,
        |comm, at, stream| comm.all_reduce_at(at, at, 201, F32, SUM, stream),
        ["of 200", "of 201"],
    ),
    (
        "size",
        reduce_f32,
        |comm, at, stream| comm.all_reduce_at(at, at, 4000, F32, SUM, stream),
        ["of 200", "of 4000"],
    ),
    // Without elements there may be no memory either.
    (
        "emptiness",
        reduce_f32,
        |comm, _, stream| comm.all_reduce_at(0, 0, 0, F32, SUM, stream),
        ["of 200", "of 0"],
    ),
    (
        "type",
        reduce_f32,
        |comm, at, stream| comm.all_reduce_at(at, at, 200, Dtype::Bf16, SUM, stream),
        ["f32", "bf16"],
    ),
    (
        "operation",
        reduce_f32,
        |comm, at, stream| comm.all_reduce_at(at, at, 200, F32, Op::Max, stream),
        ["sum", "max"],
    ),
    (
        "offset",
        reduce_f32,
        |comm, at, stream| comm.all_reduce_at(at + 4, at + 4, 200, F32, SUM, stream),
        ["in place", "in place"],
    ),
    (
        "output",
        reduce_f32,
        |comm, at, stream| comm.all_reduce_at(at, at + 4096, 200, F32, SUM, stream),
        ["in place", "from offset"],
    ),
    (
        "collective",
        reduce_f32,
        |comm, at, stream| comm.all_gather_at(at, at + 4096, 200, F32, stream),
        ["all_reduce", "all_gather"],
    ),
    (
        "root",
        |comm, at, stream| comm.broadcast_at(at, at, 200, F32, 0, stream),
        |comm, at, stream| comm.broadcast_at(at, at, 200, F32, 1, stream),
        ["from rank 0", "from rank 1"],
    ),
    (
        "preferred_algorithm",
        |comm, at, stream| {
            comm.prefer(Some(Algorithm::Ll), None);
            reduce_f32(comm, at, stream)
        },
        |comm, at, stream| {
            comm.prefer(Some(Algorithm::TwoShotLdSt), None);
            reduce_f32(comm, at, stream)
        },
        ["by ll,", "by two_shot_ld_st,"],
    ),
    (
        "preferred_blocks",
        reduce_f32,
        |comm, at, stream| {
            comm.prefer(None, Some(2));
            reduce_f32(comm, at, stream)
        },
        ["1 blocks", "2 blocks"],
    ),
];
const F32: Dtype = Dtype::F32;
const SUM: Op = Op::Sum;

fn reduce_f32(comm: &mut Comm, at: u64, stream: &Stream) -> symmem::Result<()> {
    comm.all_reduce_at(at, at, 200, F32, SUM, stream)
}

pub(super) fn cases() -> Vec<Case> {
    let row = |row: Row| {
        Case::new(format!("checked_calls::other_{}", row.0), 2, move |context| mismatched(context, row))
    };
    let mut cases: Vec<_> = MISMATCHED.map(row).into();
    cases.extend([
        Case::new("checked_calls::out_of_step", 2, out_of_step),
        Case::new("checked_calls::two_graphs_at_once", 2, two_graphs_at_once),
        Case::new("checked_calls::two_graphs_in_order", 2, two_graphs_in_order),
        Case::new("checked_calls::launch_that_fails", 2, launch_that_fails).runs_on(RunsOn::Sim),
        Case::new("checked_calls::nodes", 2, nodes),
        Case::new("checked_calls::empty", 2, empty),
        Case::new("checked_calls::wish_of_rank_0_holds", 2, wish_of_rank_0_holds),
        Case::new("checked_calls::by_default_where_simulated", 2, by_default_where_simulated),
    ]);
    cases
}

fn rig_for(context: &Context, check: Option<bool>) -> Result<Rig> {
    let machine = context.machine()?;
    let n_ranks = machine.ranks_max().min(3);
    Rig::with(&machine, n_ranks, &CommConfig { check, ..every_op() })
}

/// Every rank ends with an error; at least one says what it called and what another did.
fn mismatched(context: &Context, (_, call, other, words): Row) -> Result<()> {
    let mut rig = rig_for(context, Some(true))?;
    let windows = rig.alloc::<f32>(COUNT)?;
    let last = rig.n_ranks() - 1;
    // A first one that is right: what differs is found later, too.
    rig.each(|comm, stream| reduce_f32(comm, windows[comm.rank() as usize].address(), stream))?;
    rig.each(|comm, stream| {
        let call = if comm.rank() == last { other } else { call };
        call(comm, windows[comm.rank() as usize].address(), stream)
    })?;
    let n_named = refused(&mut rig, |kind| {
        let ErrorKind::Mismatched { rank, peer, called, peer_called } = kind else { return false };
        let [own, theirs] = if *rank == last { [words[1], words[0]] } else { words };
        called.contains(own) && peer_called.contains(theirs) && (*rank == last) != (*peer == last)
    })?;
    ensure!(n_named >= 1, "nobody said what was called");
    for (comm, stream) in rig.comms.iter_mut().zip(&rig.streams) {
        let error = error_of("the communicator", comm.check())?;
        let later = reduce_f32(comm, windows[comm.rank() as usize].address(), stream);
        ensure!(error_of("a later call", later)?.kind() == error.kind(), "another error than {error}");
    }
    Ok(())
}

/// Waits for each rank, whose error must be one that `is_named` accepts or say that a peer gave up; gives the number of
/// the former.
fn refused(rig: &mut Rig, is_named: impl Fn(&ErrorKind) -> bool) -> Result<usize> {
    let mut n_named = 0;
    for (comm, stream) in rig.comms.iter_mut().zip(&rig.streams) {
        let error = error_of("a rank", comm.synchronize(stream))?;
        let is_poisoned = matches!(error.kind(), ErrorKind::Poisoned { .. });
        ensure!(is_poisoned || is_named(error.kind()), "rank {}: {error}", comm.rank());
        n_named += usize::from(!is_poisoned);
    }
    Ok(n_named)
}

/// The same calls in another order.
fn out_of_step(context: &Context) -> Result<()> {
    let mut rig = rig_for(context, Some(true))?;
    let windows = rig.alloc::<f32>(COUNT)?;
    rig.each(|comm, stream| {
        let at = windows[comm.rank() as usize].address();
        let counts = if comm.rank() == 0 { [8, 9] } else { [9, 8] };
        counts.into_iter().try_for_each(|count| comm.all_reduce_at(at, at, count, F32, SUM, stream))
    })?;
    let n_named = refused(&mut rig, |kind| {
        matches!(kind, ErrorKind::Mismatched { called, peer_called, .. }
            if [called, peer_called].iter().all(|words| words.contains("of 8 f32") || words.contains("of 9 f32")))
    })?;
    ensure!(n_named >= 1, "nobody said what was called");
    Ok(())
}

/// On each rank a graph for each stream, with an operation of the one communicator in it.
fn two_graphs(rig: &mut Rig, windows: &[Window<f32>]) -> Result<Vec<[(GraphExec, Stream); 2]>> {
    let mut graphs = Vec::new();
    for (comm, window) in rig.comms.iter_mut().zip(windows) {
        let at = window.address();
        let mut capture = |at: u64| {
            let stream = Stream::new(comm.device())?;
            let graph = stream.capture(|| reduce_f32(comm, at, &stream))?.instantiate()?;
            Ok::<_, symmem::Error>((graph, stream))
        };
        graphs.push([capture(at)?, capture(at + 4096)?]);
    }
    Ok(graphs)
}

/// All of a rank's graphs are launched before any of the next one's, so that the first is under way when the second
/// begins.
fn two_graphs_at_once(context: &Context) -> Result<()> {
    let mut rig = rig_for(context, Some(true))?;
    let windows = rig.alloc::<f32>(COUNT)?;
    let graphs = two_graphs(&mut rig, &windows)?;
    for (graph, stream) in graphs.iter().flatten() {
        graph.launch(stream)?;
    }
    let mut n_named = 0;
    for (comm, graphs) in rig.comms.iter_mut().zip(&graphs) {
        let own = comm.rank();
        for (_, stream) in graphs {
            let error = error_of("a rank", comm.synchronize(stream))?;
            match error.kind() {
                ErrorKind::Concurrent { rank } if *rank == own => n_named += 1,
                ErrorKind::Poisoned { .. } => {}
                _ => bail!("rank {own}: {error}"),
            }
        }
    }
    ensure!(n_named >= 1, "nobody said that two operations were under way");
    Ok(())
}

/// Ordered by an event, the same graphs are right.
fn two_graphs_in_order(context: &Context) -> Result<()> {
    let mut rig = rig_for(context, Some(true))?;
    let windows = rig.alloc::<f32>(COUNT)?;
    let graphs = two_graphs(&mut rig, &windows)?;
    for _ in 0..context.rounds(5, 200) {
        for (comm, graphs) in rig.comms.iter().zip(&graphs) {
            for n in 0..2 {
                let [(graph, stream), (_, other)] = [&graphs[n], &graphs[1 - n]];
                graph.launch(stream)?;
                let event = Event::new(comm.device())?;
                event.record(stream)?;
                other.wait_event(&event)?;
            }
        }
    }
    for (comm, graphs) in rig.comms.iter_mut().zip(&graphs) {
        graphs.iter().try_for_each(|(_, stream)| comm.synchronize(stream))?;
    }
    Ok(())
}

/// A call whose own kernel, the one behind that of the check, was refused on every rank, is not under way: it can be made
/// again.
fn launch_that_fails(context: &Context) -> Result<()> {
    let (machine, faulty) = context.faulty_machine(|_| {})?;
    let mut rig = Rig::with(&machine, 2, &CommConfig { check: Some(true), ..every_op() })?;
    let mut windows = rig.alloc::<f32>(COUNT)?;
    for (comm, window) in rig.comms.iter_mut().zip(&mut windows) {
        window.write(0, &[1.0; COUNT])?;
        let device = Some(comm.device().index());
        let fault = Fault { call: Some("launch"), device, n_before: 1, error: Fault::out_of_memory() };
        faulty.watch().arm(fault);
        let called = reduce_f32(comm, window.address(), &rig.streams[comm.rank() as usize]);
        expect("the call", called, kind!(Driver), &[Fault::CALL])?;
    }
    rig.each(|comm, stream| reduce_f32(comm, windows[comm.rank() as usize].address(), stream))?;
    rig.synchronize()?;
    for window in &windows {
        ensure!(window.to_vec()?[..200] == [2.0; 200], "a wrong sum");
    }
    Ok(())
}

/// A kernel before and one behind those of each operation, or none.
fn nodes(context: &Context) -> Result<()> {
    for (algorithm, n_kernels) in [(Algorithm::Ll, 1), (Algorithm::St, 1), (Algorithm::Ce, 2)] {
        for check in [false, true] {
            let machine = context.machine()?;
            let config = CommConfig { check: Some(check), algorithm: Some(algorithm), ..every_op() };
            let mut rig = Rig::with(&machine, 2, &config)?;
            let windows = rig.alloc::<f32>(COUNT)?;
            let expected = n_kernels + if check { 2 } else { 0 };
            for (comm, stream) in rig.comms.iter_mut().zip(&rig.streams) {
                let at = windows[comm.rank() as usize].address();
                let found =
                    stream.capture(|| comm.all_gather_at(at, at + 4096, 100, F32, stream))?.facts()?;
                ensure!(found.n_kernel_nodes == expected, "{algorithm}, checked: {check}: {found:?}");
            }
        }
    }
    Ok(())
}

/// Calls without elements are the same wherever their arrays are; eager and in graphs, and unchecked they launch nothing.
fn empty(context: &Context) -> Result<()> {
    for check in [false, true] {
        let mut rig = rig_for(context, Some(check))?;
        let windows = rig.alloc::<f32>(COUNT)?;
        for (comm, stream) in rig.comms.iter_mut().zip(&rig.streams) {
            let at = if comm.rank() == 0 { 0 } else { windows[comm.rank() as usize].address() };
            let mut call = || comm.all_reduce_at(at, at, 0, F32, SUM, stream);
            call()?;
            let graph = stream.capture(&mut call)?;
            let found = graph.facts()?.n_kernel_nodes;
            ensure!(found == if check { 2 } else { 0 }, "{found} kernels, checked: {check}");
            graph.instantiate()?.launch(stream)?;
            reduce_f32(comm, windows[comm.rank() as usize].address(), stream)?;
        }
        rig.synchronize()?;
    }
    Ok(())
}

/// Kernels of an operation on a communicator with these settings of rank 0 and of rank 1.
fn n_kernels(context: &Context, checks: [Option<bool>; 2]) -> Result<[u32; 2]> {
    let machine = context.machine()?;
    let (devices, id) = (machine.places(2)?, UniqueId::new()?);
    let counted = std::thread::scope(|scope| {
        let start = |rank: u32| {
            let (machine, devices, id) = (&machine, &devices, &id);
            scope.spawn(move || -> Result<u32> {
                let config = CommConfig { check: checks[rank as usize], ..CommConfig::default() };
                let config = machine.sharing(&config);
                let device = &devices[rank as usize];
                let mut comm = Comm::init_rank_with(device, 2, rank, id, &config)?;
                let window = comm.alloc::<f32>(COUNT)?.wait()?;
                let stream = Stream::new(device)?;
                let graph = stream.capture(|| reduce_f32(&mut comm, window.address(), &stream))?;
                Ok(graph.facts()?.n_kernel_nodes)
            })
        };
        [0, 1].map(start).map(|thread| thread.join().expect("no panic"))
    });
    let [first, second] = counted;
    Ok([first?, second?])
}

fn wish_of_rank_0_holds(context: &Context) -> Result<()> {
    ensure!(n_kernels(context, [Some(true), Some(false)])? == [3, 3], "rank 0 wants it checked");
    ensure!(n_kernels(context, [Some(false), Some(true)])? == [1, 1], "rank 0 does not");
    Ok(())
}

fn by_default_where_simulated(context: &Context) -> Result<()> {
    let expected = if context.is_sim() { 3 } else { 1 };
    let found = n_kernels(context, [None, None])?;
    ensure!(found == [expected; 2], "{found:?} kernels");
    Ok(())
}
