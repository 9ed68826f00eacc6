//! Ranks that share devices: their kernels wait for each other on one device, so all of them must fit on it at once.

use crate::expect::{expect, kind};
use crate::field::{Field, Operation};
use crate::harness::{Case, Context, Host, RunsOn};
use crate::random::Random;
use crate::rig::{Rig, kinds};
use anyhow::{Context as _, Result, ensure};
use symmem::{Comm, CommConfig, Device, Dtype, Op};

/// Devices, and ranks on them.
const TEAMS: [(u32, u32); 6] = [(1, 3), (1, 4), (1, 8), (2, 3), (2, 4), (2, 8)];
/// Elements of a message of one block, and of one for which more blocks are wanted than a rank may have.
const COUNTS: [u64; 2] = [5, 9001];
/// Multiprocessors of a simulated device: with room for 2048 threads on each, 8 ranks have 2 blocks of 512.
const MULTIPROCESSORS: u32 = 4;

pub(super) fn cases() -> Vec<Case> {
    let team = |(devices, ranks): (u32, u32)| {
        let name = format!("sharing::{ranks}_ranks_on_{devices}_devices");
        Case::new(name, devices, move |context| every_algorithm(context, devices, ranks))
    };
    let mut cases: Vec<Case> = TEAMS.map(team).into();
    cases.push(Case::new("sharing::no_more_ranks_than_allowed", 1, no_more_than_allowed));
    cases.push(Case::new("sharing::no_room_for_a_block_of_each", 1, no_room).runs_on(RunsOn::Sim));
    cases.into_iter().map(Case::may_share).collect()
}

fn machine(context: &Context, n_devices: u32, n_multiprocessors: u32) -> Result<Host> {
    context.machine_with(|sim| {
        sim.n_devices = n_devices;
        sim.n_multiprocessors = n_multiprocessors;
    })
}

fn places(machine: &Host, n_devices: u32, ranks: u32) -> Result<Vec<Device>> {
    (0..ranks).map(|rank| Ok(machine.device(rank % n_devices)?)).collect()
}

fn every_algorithm(context: &Context, n_devices: u32, ranks: u32) -> Result<()> {
    let machine = machine(context, n_devices, MULTIPROCESSORS)?;
    let devices = places(&machine, n_devices, ranks)?;
    let ranks_per_device = ranks.div_ceil(n_devices);
    let mut random = Random::new(70);
    for (collective, algorithm) in kinds() {
        let config = CommConfig { algorithm: Some(algorithm), ranks_per_device, ..CommConfig::default() };
        let mut rig = Rig::on(&devices, &config)?;
        let mut field = Field::new(&rig, (COUNTS[1] * 2 * u64::from(ranks)) as usize + 4096, 71)?;
        for count in COUNTS {
            let operation = Operation::new(collective, Dtype::F16, Op::Sum, count);
            let plan = rig.comms[0].plan(collective, count, operation.dtype, Some(operation.op))?;
            ensure!(
                !context.is_sim()
                    || plan.shape.blocks * plan.shape.threads * ranks_per_device <= MULTIPROCESSORS * 2048,
                "{algorithm} has {:?} on a device of {ranks_per_device} ranks",
                plan.shape
            );
            for _ in 0..context.rounds(1, 50) {
                let ran = field.run(&mut rig, &operation, &mut random);
                ran.with_context(|| format!("{collective} {algorithm}, {count} elements"))?;
            }
        }
    }
    Ok(())
}

fn no_more_than_allowed(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    for (ranks_per_device, words) in
        [(1, &["0 twice", "each device once"][..]), (2, &["more than 2 times", "SYMMEM_RANKS_PER_GPU"])]
    {
        let devices = places(&machine, 1, ranks_per_device + 1)?;
        let made = Comm::init_all_with(&devices, &CommConfig { ranks_per_device, ..CommConfig::default() });
        expect("one rank too many", made, kind!(InvalidArgument), words)?;
    }
    Ok(())
}

fn no_room(context: &Context) -> Result<()> {
    let machine = machine(context, 1, 1)?;
    let config = CommConfig { ranks_per_device: 8, ..CommConfig::default() };
    let made = Comm::init_all_with(&places(&machine, 1, 8)?, &config);
    expect("8 ranks on one multiprocessor", made, kind!(RankFailed), &["8 ranks on device 0", "no room"])
}
