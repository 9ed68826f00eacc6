//! `symmem-check trace`: one collective, or a kernel of your own, as text and as a drawing.
//!
//! | module | what |
//! |---|---|
//! | [`mod@strokes`] | events gathered into what a block did |
//! | [`places`] | what lies at an address |
//! | [`picture`] | the drawing |

mod picture;
mod places;
mod strokes;

use crate::cli::TraceArgs;
use crate::select;
use crate::subject::Run;
use crate::user::{self, Description};
use anyhow::{Context, Result};
use places::Places;
use std::io::{ErrorKind, Write};
use strokes::{Stroke, strokes};
use symmem::sim::{ProbeKind, Schedule, SimConfig, SimMachine, Trace};
use symmem::{Collective, Comm, CommConfig, Dtype, Machine, Op, Stream, Window};

/// Ranks, unless they are asked for.
const RANKS: u32 = 2;
/// Threads of a block.
const THREADS: u32 = 32;

/// Runs the command.
pub(crate) fn run(args: &TraceArgs) -> Result<bool> {
    let (title, strokes) = match &args.subject {
        Some(subject) => collective(args, subject)?,
        None => own(args)?,
    };
    print(&title, &strokes).or_else(|error| match error.kind() {
        // Whoever reads has seen enough.
        ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })?;
    if let Some(path) = &args.svg {
        std::fs::write(path, picture::svg(&title, &strokes))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(true)
}

/// A collective by its name, with the algorithm that the plan chooses, or the first kernel of the table whose name fits.
fn collective(args: &TraceArgs, subject: &str) -> Result<(String, Vec<Stroke>)> {
    let named = Collective::from_name(subject);
    let kernel = match named {
        Some(collective) => select::subjects(&[])?
            .iter()
            .find(|subject| subject.kernel.collective == collective && subject.is_usual())
            .map(|subject| subject.kernel),
        None => select::subjects(&[subject.into()])?.first().map(|subject| subject.kernel),
    };
    let kernel = kernel.context("no kernel does that")?;
    let n_ranks = args.ranks.unwrap_or(RANKS);
    let schedule: Schedule = args.schedule.parse()?;
    let sim = SimMachine::new(SimConfig {
        n_devices: n_ranks,
        device_memory_bytes: 256 << 20,
        stall_grace_ms: 0,
        ..SimConfig::default()
    })?;
    let config = CommConfig {
        algorithm: named.is_none().then_some(kernel.algorithm),
        ctas: Some(args.ctas),
        threads: Some(THREADS),
        dtypes: vec![kernel.dtype.unwrap_or(Dtype::F32)],
        ops: vec![kernel.op.unwrap_or(Op::Sum)],
        check: Some(false),
        ..CommConfig::default()
    };
    let machine = Machine::from_backend(sim.clone());
    let mut comms = Comm::init_all_with(&machine.devices(n_ranks)?, &config)?;
    let streams = comms.iter().map(|comm| Stream::new(comm.device())).collect::<symmem::Result<Vec<_>>>()?;
    let dtype = kernel.dtype.unwrap_or(Dtype::F32);
    let bytes = args.count * dtype.bytes();
    let (inputs, outputs) =
        (alloc(&comms, bytes * u64::from(n_ranks))?, alloc(&comms, bytes * u64::from(n_ranks))?);
    sim.restart(&schedule, ProbeKind::Trace)?;
    for _ in 0..args.ops {
        for (rank, comm) in comms.iter_mut().enumerate() {
            let (input, output) = (inputs[rank].address(), outputs[rank].address());
            let (stream, op, count) = (&streams[rank], kernel.op.unwrap_or(Op::Sum), args.count);
            match kernel.collective {
                Collective::AllReduce => comm.all_reduce_at(input, output, count, dtype, op, stream)?,
                Collective::ReduceScatter => {
                    comm.reduce_scatter_at(input, output, count, dtype, op, stream)?;
                }
                Collective::AllGather => comm.all_gather_at(input, output, count, dtype, stream)?,
                Collective::Broadcast => comm.broadcast_at(input, output, count, dtype, 0, stream)?,
                Collective::AllToAll => comm.all_to_all_at(input, output, count, dtype, stream)?,
            }
        }
    }
    for (comm, stream) in comms.iter_mut().zip(&streams) {
        comm.synchronize(stream)?;
    }
    let buffer =
        |name: &str, window: &Window<u8>| (name.to_owned(), window.flat_offset().bytes, window.len() as u64);
    let places = Places::new(&comms[0], vec![buffer("input", &inputs[0]), buffer("output", &outputs[0])]);
    let trace = sim.trace();
    let name = trace.launches.first().map_or(kernel.name, |launch| &launch.kernel);
    let title = format!("{name} of {} elements on {n_ranks} ranks", args.count);
    Ok((title, gathered(&trace, |owner, address| places.name(owner, address))))
}

/// The kernel of a launch description.
fn own(args: &TraceArgs) -> Result<(String, Vec<Stroke>)> {
    let path = args.launch.as_deref().context("name a collective, or a launch description")?;
    let description = Description::read(path)?;
    let text = description.text(path, user::SM)?;
    let n_ranks = args.ranks.unwrap_or(description.ranks[0]);
    let mut bed = user::Bed::new(&description, &text, n_ranks)?;
    let run = Run {
        subject: description.kernel.clone(),
        n_ranks,
        program: user::PROGRAM.into(),
        probe: ProbeKind::Trace,
        schedule: args.schedule.parse()?,
    };
    if let Some(finding) = bed.run(&run)? {
        println!("{finding}");
    }
    let places = Places::new(bed.comm(), bed.places());
    let title = format!("{} on {n_ranks} ranks", description.kernel);
    Ok((title, gathered(&bed.sim().trace(), |owner, address| places.name(owner, address))))
}

fn gathered(trace: &Trace, place: impl Fn(Option<u32>, u64) -> String) -> Vec<Stroke> {
    if trace.is_cut {
        eprintln!("symmem-check: more events than are kept; the end is missing");
    }
    strokes(trace, place)
}

fn alloc(comms: &[Comm], len_bytes: u64) -> Result<Vec<Window<u8>>> {
    let asked = comms.iter().map(|comm| comm.alloc(len_bytes as usize));
    let asked = asked.collect::<symmem::Result<Vec<_>>>()?;
    Ok(asked.into_iter().map(symmem::Registration::wait).collect::<symmem::Result<_>>()?)
}

/// A line for each stroke.
fn print(title: &str, strokes: &[Stroke]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "# {title}")?;
    for (row, stroke) in strokes.iter().enumerate() {
        let peer = match &stroke.what {
            strokes::What::Access(access) if stroke.is_remote() => {
                access.owner.map_or_else(String::new, |owner| format!("rank {owner}: "))
            }
            _ => String::new(),
        };
        writeln!(out, "{row:>4}  rank {} block {}  {peer}{}", stroke.device, stroke.block, stroke.words())?;
    }
    Ok(())
}
