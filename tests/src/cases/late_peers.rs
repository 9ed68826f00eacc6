//! Collectives that take turns while one rank comes late: the others are several operations ahead by then.

use crate::field::{Field, GUARD_BYTES, Operation, Place};
use crate::harness::{Case, Context};
use crate::random::{Random, Values};
use crate::rig::{Rig, every_op};
use crate::seam::seam;
use anyhow::{Context as _, Result};
use symmem::{Algorithm, Collective, Dtype, Op};

/// Operations of each collective that the others are ahead.
const TURNS: u64 = 2;
/// Most elements of a message, or of one rank's part.
const COUNT_MAX: u64 = 2000;
/// Room for the largest message, and a guard.
const PITCH_BYTES: u64 = 32 << 10;

pub(super) fn cases() -> Vec<Case> {
    let unicast = Algorithm::ALL.iter().copied().filter(|algorithm| algorithm.multicast().is_none());
    let wishes = [None].into_iter().chain(unicast.map(Some));
    let case = |wish: Option<Algorithm>| {
        let name = wish.map_or("auto", Algorithm::name);
        Case::new(format!("late_peers::collectives_take_turns_{name}"), 2, move |context| {
            collectives_take_turns(context, wish)
        })
    };
    wishes.map(case).collect()
}

/// `algorithm` does what it has kernels for; the plan chooses for the rest.
fn collectives_take_turns(context: &Context, algorithm: Option<Algorithm>) -> Result<()> {
    // A stall is what this case makes: the simulated machine has to bear it.
    let machine = context.machine_with(|sim| sim.stall_grace_ms = 60_000)?;
    let ranks = machine.ranks_max().min(3);
    let mut rig = Rig::with(&machine, ranks, &every_op())?;
    rig.comms.iter_mut().for_each(|comm| comm.prefer(algorithm, None));
    let n_slots = TURNS * Collective::ALL.len() as u64;
    let mut field = Field::new(&rig, (GUARD_BYTES + n_slots * PITCH_BYTES) as usize, 80)?;
    let (mut random, streams) = (Random::new(81), rig.streams.clone());
    for round in 0..context.rounds(4, 100) {
        let turn = |slot: u64| (slot, Collective::ALL[slot as usize % Collective::ALL.len()]);
        let operations: Vec<Operation> =
            (0..n_slots).map(turn).map(|turn| operation(turn, &mut random)).collect();
        operations.iter().try_for_each(|operation| field.stage(operation, &mut random))?;
        let late = random.below(ranks as usize);
        let others = (0..ranks as usize).filter(|rank| *rank != late);
        for rank in others.clone().chain([late]) {
            if rank == late {
                for other in others.clone().cycle().take(random.below(8)) {
                    std::thread::sleep(std::time::Duration::from_micros(200));
                    // The simulated machine runs while somebody looks.
                    seam(&machine).stream_is_done(streams[other].handle())?;
                }
            }
            for operation in &operations {
                field.launch_on(&mut rig.comms[rank], &streams[rank], operation)?;
            }
        }
        rig.synchronize()?;
        field.verify().with_context(|| format!("round {round}, rank {late} was late: {operations:?}"))?;
    }
    Ok(())
}

fn operation((slot, collective): (u64, Collective), random: &mut Random) -> Operation {
    let offset = GUARD_BYTES + slot * PITCH_BYTES;
    Operation {
        collective,
        dtype: Dtype::F32,
        op: *random.choose(Op::ALL),
        count: 1 + random.bits() % (COUNT_MAX >> random.below(8)),
        input: Place { window: 0, offset },
        output: Place { window: 1, offset },
        in_place: random.below(2) == 0,
        values: *random.choose(&[Values::Plain, Values::Special, Values::Ones, Values::Poison]),
    }
}
