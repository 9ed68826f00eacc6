//! Ranks that cannot have multicast, at whatever step: all ranks go on in unicast together, what was made is undone, and
//! other windows keep theirs.

use super::windows::{address, works};
use crate::faulty::Fault;
use crate::harness::{Case, Context, Host, RunsOn};
use crate::rig::Rig;
use anyhow::{Result, ensure};
use symmem::sim::{MulticastCall, MulticastFault, SimConfig};
use symmem::{CommConfig, ErrorKind, Op, Window};

const N_RANKS: u32 = 3;
const COUNT: usize = 1024;
/// What real drivers answer: resources ran out, the fabric is in an illegal state, it is not ready yet.
const CODES: [u32; 3] = [2, 401, 802];

pub(super) fn cases() -> Vec<Case> {
    let case = |name: &str, run: fn(&Context) -> Result<()>| {
        Case::new(format!("multicast::{name}"), N_RANKS, run).runs_on(RunsOn::SimMulticast)
    };
    vec![
        case("each_step_of_init_fails", each_step_of_init_fails),
        case("each_call_of_a_rank_fails", each_call_of_a_rank_fails),
        case("a_fabric_that_is_not_ready_yet", a_fabric_that_is_not_ready_yet),
        case("one_window_cannot_be_bound", one_window_cannot_be_bound),
        case("a_device_without_it", a_device_without_it),
        case("teams_run_out", teams_run_out),
        case("switched_off_by_each_variable", switched_off_by_each_variable),
        case("off_on_one_rank", off_by_settings),
    ]
}

fn sums_are_right(rig: &mut Rig, windows: &mut [Window<f32>]) -> Result<()> {
    for (rank, window) in windows.iter_mut().enumerate() {
        window.write(0, &[rank as f32 + 1.0; COUNT])?;
    }
    rig.each(|comm, stream| comm.all_reduce_in_place(&mut windows[comm.rank() as usize], Op::Sum, stream))?;
    rig.synchronize()?;
    for window in windows {
        ensure!(window.to_vec()? == [6.0; COUNT], "wrong sums");
    }
    Ok(())
}

/// No rank has multicast, each says why, and the communicator works.
fn is_unicast(rig: &mut Rig, reason: &str) -> Result<()> {
    let mut windows = rig.alloc::<f32>(COUNT)?;
    for (comm, window) in rig.comms.iter().zip(&windows) {
        ensure!((comm.multicast_base(), window.multicast_address()) == (None, None));
        let text = comm.describe();
        ensure!(text.contains("no multicast: ") && text.contains(reason), "{reason} is not in\n{text}");
    }
    sums_are_right(rig, &mut windows)
}

/// All of it, and the memory behind it.
fn has_multicast(rig: &mut Rig) -> Result<()> {
    let mut windows = rig.alloc::<f32>(COUNT)?;
    works(&rig.comms, &mut windows)?;
    sums_are_right(rig, &mut windows)
}

fn machine(context: &Context, change: impl FnOnce(&mut SimConfig)) -> Result<Host> {
    context.machine_with(|config| {
        config.n_devices = N_RANKS;
        change(config);
    })
}

fn each_step_of_init_fails(context: &Context) -> Result<()> {
    let calls = [
        (MulticastCall::Create, 0, "multicast: object made: rank 0"),
        (MulticastCall::AddDevice, 1, "multicast: device added: rank 1"),
        (MulticastCall::Map, 1, "multicast: mapped: rank"),
        (MulticastCall::Bind, 1, "multicast: memory bound: rank 1"),
    ];
    for (call, device, reason) in calls {
        for code in &CODES[..context.rounds(2, CODES.len())] {
            let fault = MulticastFault { call, device: Some(device), code: *code, n_times: u32::MAX };
            let machine = machine(context, |config| config.multicast_fault = Some(fault))?;
            let mut rig = Rig::new(&machine, N_RANKS)?;
            ensure!(context.live().is_some_and(|live| live.multicast_bindings == 0), "something is bound");
            is_unicast(&mut rig, reason)?;
            is_unicast(&mut rig, &format!("{code} CUDA_ERROR"))?;
            drop(rig);
            context.forget_machines()?;
        }
    }
    Ok(())
}

/// As the ranks see it, call by call: whatever fails on one of them, and whenever.
fn each_call_of_a_rank_fails(context: &Context) -> Result<()> {
    let calls = [
        "multicast_supported",
        "multicast_granularity",
        "multicast_create",
        "multicast_add_device",
        "multicast_bind",
    ];
    for (rank, call) in [1, 0].into_iter().flat_map(|rank| calls.map(|call| (rank, call))) {
        let (machine, faulty) = context.faulty_machine(|config| config.n_devices = N_RANKS)?;
        let error = Fault::out_of_memory();
        faulty.watch().arm(Fault { call: Some(call), device: Some(rank), n_before: 0, error });
        let mut rig = Rig::new(&machine, N_RANKS)?;
        ensure!(faulty.watch().disarm().is_some(), "{call} was not called");
        is_unicast(&mut rig, Fault::CALL)?;
        // What failed once goes well for the next communicator, beside the first.
        let mut next = Rig::new(&machine, N_RANKS)?;
        has_multicast(&mut next)?;
        is_unicast(&mut rig, Fault::CALL)?;
        drop((next, rig, machine, faulty));
        context.forget_machines()?;
    }
    Ok(())
}

/// 802 goes by: all ranks try again.
fn a_fabric_that_is_not_ready_yet(context: &Context) -> Result<()> {
    for call in [MulticastCall::Create, MulticastCall::AddDevice, MulticastCall::Map, MulticastCall::Bind] {
        let fault = MulticastFault { call, device: Some(0), code: 802, n_times: 2 };
        let machine = machine(context, |config| config.multicast_fault = Some(fault))?;
        let mut rig = Rig::new(&machine, N_RANKS)?;
        has_multicast(&mut rig)?;
        drop(rig);
        context.forget_machines()?;
    }
    Ok(())
}

/// Between windows that have multicast, one that has not.
fn one_window_cannot_be_bound(context: &Context) -> Result<()> {
    for (rank, code) in [1, 0].into_iter().flat_map(|rank| [2, 401].map(|code| (rank, code))) {
        let (machine, faulty) = context.faulty_machine(|config| config.n_devices = N_RANKS)?;
        let mut rig = Rig::new(&machine, N_RANKS)?;
        let mut before = rig.alloc::<f32>(COUNT)?;
        let name = "CUDA_ERROR".to_owned();
        let error = ErrorKind::Driver { call: Fault::CALL, code, name, operand: "a window".into() };
        faulty.watch().arm(Fault { call: Some("multicast_bind"), device: Some(rank), n_before: 0, error });
        let mut without = rig.alloc::<f32>(COUNT)?;
        ensure!(faulty.watch().disarm().is_some(), "nothing was bound");
        let mut after = rig.alloc::<f32>(COUNT)?;
        ensure!(without.iter().all(|window| window.multicast_address().is_none()), "some ranks have it");
        for comm in &rig.comms {
            let text = comm.describe();
            let reason = format!("unicast alone: multicast: memory bound: rank {rank} failed");
            ensure!(text.contains(&reason) && text.contains(Fault::CALL), "{reason} is not in\n{text}");
        }
        for windows in [&mut before, &mut after] {
            works(&rig.comms, windows)?;
        }
        for windows in [&mut before, &mut without, &mut after] {
            sums_are_right(&mut rig, windows)?;
        }
        // Its offset has nothing bound, so that the next window there has multicast again.
        let place = without[0].flat_offset();
        drop(without);
        let mut again = rig.alloc::<f32>(COUNT)?;
        ensure!(again[0].flat_offset() == place && address(&again).is_ok());
        works(&rig.comms, &mut again)?;
        drop((before, after, again, rig, machine, faulty));
        context.forget_machines()?;
    }
    Ok(())
}

fn a_device_without_it(context: &Context) -> Result<()> {
    let machine = machine(context, |config| config.multicast = Some(vec![true, false, true]))?;
    is_unicast(&mut Rig::new(&machine, N_RANKS)?, "device 1 does not support it")?;
    let some = [machine.device(0)?, machine.device(2)?];
    let rig = Rig::on(&some, &CommConfig::default())?;
    ensure!(rig.comms.iter().all(|comm| comm.multicast_base().is_some()), "two of the devices have it");
    Ok(())
}

/// The switches have room for so many teams; a communicator that goes makes room.
fn teams_run_out(context: &Context) -> Result<()> {
    let machine = machine(context, |config| config.multicast_objects_max = 2)?;
    let mut rigs = [0, 1].map(|_| Rig::new(&machine, N_RANKS));
    for rig in &mut rigs {
        has_multicast(rig.as_mut().map_err(|error| anyhow::anyhow!("{error:#}"))?)?;
    }
    let mut third = Rig::new(&machine, N_RANKS)?;
    is_unicast(&mut third, "the most there can be")?;
    drop(rigs);
    has_multicast(&mut Rig::new(&machine, N_RANKS)?)?;
    is_unicast(&mut third, "the most there can be")
}

/// Off means that no call about multicast is made at all.
fn switched_off_by_each_variable(context: &Context) -> Result<()> {
    let variables = [
        ("SYMMEM_MULTICAST", "0"),
        ("NCCL_NVLS_ENABLE", "0"),
        ("NVSHMEM_DISABLE_NVLS", "1"),
        ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"),
    ];
    let none = ("", "");
    for (name, value) in variables.into_iter().chain([none]) {
        let config = CommConfig::from_variables(|asked| (asked == name).then(|| value.to_owned()))?;
        let (machine, faulty) = context.faulty_machine(|config| config.n_devices = N_RANKS)?;
        let error = Fault::out_of_memory();
        faulty.watch().arm(Fault { call: None, device: None, n_before: u64::MAX, error });
        let mut rig = Rig::with(&machine, N_RANKS, &config)?;
        let calls = faulty.watch().seen();
        let n_multicast = calls.iter().filter(|call| call.starts_with("multicast")).count();
        if name.is_empty() {
            ensure!(n_multicast > 0, "without a variable it is on");
        } else {
            is_unicast(&mut rig, "switched off")?;
            ensure!(n_multicast == 0, "{name}={value}: {n_multicast} calls");
        }
        drop((rig, machine, faulty));
        context.forget_machines()?;
    }
    Ok(())
}

/// What the settings of a process say holds for its ranks; one no is enough.
fn off_by_settings(context: &Context) -> Result<()> {
    let machine = machine(context, |_| ())?;
    for (wish, is_on) in [(None, true), (Some(true), true), (Some(false), false)] {
        let config = CommConfig { multicast: wish, ..CommConfig::default() };
        let mut rig = Rig::with(&machine, N_RANKS, &config)?;
        if is_on { has_multicast(&mut rig)? } else { is_unicast(&mut rig, "in the settings")? }
    }
    let alone = Rig::new(&machine, 1)?;
    ensure!(alone.comms[0].describe().contains("there is one rank"));
    Ok(())
}
