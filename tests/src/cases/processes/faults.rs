//! Ranks that disagree, share a device, do not come, or die.

use super::{case, up_to};
use crate::expect::{error_of, expect, kind};
use crate::harness::{Case, Context};
use crate::processes::{Place, Program, Ranks};
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};
use symmem::{Algorithm, Comm, CommConfig, ErrorKind, Op, Stream, UniqueId, Window};

pub(super) const PROGRAMS: &[(&str, Program)] = &[
    ("sizes_differ", sizes_differ),
    ("one_refuses", one_refuses),
    ("one_device", one_device),
    ("nobody_comes", nobody_comes),
    ("killed_in_ll", |place| killed_in_operation(place, Algorithm::Ll)),
    ("killed_in_barrier", |place| killed_in_operation(place, Algorithm::TwoShotLdSt)),
    ("killed_in_registration", killed_in_registration),
    ("killed_in_init", killed_in_init),
    ("panic_in_operation", panic_in_operation),
];

const COUNT: usize = 200;
/// The rank that is killed.
const VICTIM: u32 = 1;
/// Survivors know within so much time, long before any timeout.
const SOON: Duration = Duration::from_secs(20);
/// So long a bound that only the peer's death can end a wait.
const LONG_MS: u64 = 3_600_000;

pub(super) fn cases() -> Vec<Case> {
    let killed = |program: &'static str| {
        Case::new(format!("processes::{program}"), 2, move |context: &Context| kill_one(context, program))
    };
    vec![
        case("sizes_differ", "sizes_differ", 3),
        case("a_refusal_is_told_at_once", "one_refuses", 3),
        case("ranks_on_one_device", "one_device", 3),
        Case::new("processes::a_rank_never_comes", 2, a_rank_never_comes),
        killed("killed_in_ll"),
        killed("killed_in_barrier"),
        killed("killed_in_registration"),
        killed("killed_in_init"),
        case("a_rank_panics", "panic_in_operation", 3),
    ]
}

/// The same error on every rank, which says what each asked for; then all goes on.
fn sizes_differ(place: &Place) -> Result<()> {
    let device = place.device()?;
    let mut comm = place.comm(&device, &CommConfig::default())?;
    let count = if place.rank == 1 { COUNT + 1 } else { COUNT };
    let words = ["the size of the window", "rank 0 800;", "rank 1 804;"];
    expect("a registration", comm.alloc::<f32>(count)?.wait(), kind!(Mismatch), &words)?;
    let mut window = comm.alloc::<f32>(COUNT)?.wait()?;
    window.write(0, &[1.0; COUNT])?;
    let stream = Stream::new(&device)?;
    comm.all_reduce_in_place(&mut window, Op::Sum, &stream)?;
    comm.synchronize(&stream)?;
    ensure!(window.to_vec()? == [place.n_ranks as f32; COUNT], "{:?}", window.to_vec()?);
    Ok(())
}

/// What one rank is refused where it asks, all others are told, long before any deadline; then all goes on.
fn one_refuses(place: &Place) -> Result<()> {
    let device = place.device()?;
    let mut comm = place.comm(&device, &long())?;
    if place.rank == VICTIM {
        expect("no elements", comm.alloc::<f32>(0), kind!(InvalidArgument), &["0 bytes"])?;
    } else {
        expect("a registration", comm.alloc::<f32>(COUNT)?.wait(), is_loss, &["0 bytes"])?;
    }
    let mut window = comm.alloc::<f32>(COUNT)?.wait()?;
    window.write(0, &[1.0; COUNT])?;
    summed(&mut comm, &mut window, &Stream::new(&device)?)?;
    ensure!(window.to_vec()? == [place.n_ranks as f32; COUNT], "{:?}", window.to_vec()?);
    Ok(())
}

fn one_device(place: &Place) -> Result<()> {
    let device = place.machine()?.device(0)?;
    let made = Comm::init_rank_with(&device, place.n_ranks, place.rank, &place.id, &CommConfig::default());
    expect("two ranks on one device", made, kind!(InvalidArgument), &["ranks 0 and 1", "UUID"])
}

fn a_rank_never_comes(context: &Context) -> Result<()> {
    let n_ranks = 2;
    let id = UniqueId::new()?;
    Ranks::start_some(context, "nobody_comes", n_ranks, &id, 0..1, |_| vec![])?.finish()
}

fn nobody_comes(place: &Place) -> Result<()> {
    let device = place.device()?;
    let config = CommConfig { host_timeout_ms: 300, ..CommConfig::default() };
    let made = Comm::init_rank_with(&device, place.n_ranks, place.rank, &place.id, &config);
    expect("rank 1 does not come", made, kind!(Deadline), &["missing ranks: [1]", "300 ms"])
}

/// Starts ranks, waits until the victim and the others are where it matters, and kills the victim.
fn kill_one(context: &Context, program: &str) -> Result<()> {
    let n_ranks = up_to(context, 3);
    let mut ranks = Ranks::start(context, program, n_ranks, &UniqueId::new()?)?;
    for rank in 0..n_ranks as usize {
        ranks.expect_line(rank, "ready")?;
    }
    ranks.kill(VICTIM as usize)?;
    ranks.finish()
}

fn ready(place: &Place) {
    println!("ready");
    if place.rank == VICTIM {
        std::thread::sleep(Duration::from_secs(600));
    }
}

fn is_loss(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::RankFailed { rank: VICTIM, .. })
}

fn long() -> CommConfig {
    CommConfig { timeout_ms: LONG_MS, host_timeout_ms: LONG_MS, ..CommConfig::default() }
}

fn summed(comm: &mut Comm, window: &mut Window<f32>, stream: &Stream) -> symmem::Result<()> {
    comm.all_reduce_in_place(window, Op::Sum, stream)?;
    comm.synchronize(stream)
}

/// Kernels that wait for the dead rank end, and everything later answers the same.
fn killed_in_operation(place: &Place, algorithm: Algorithm) -> Result<()> {
    let device = place.device()?;
    let config = CommConfig { algorithm: Some(algorithm), ..long() };
    let mut comm = place.comm(&device, &config)?;
    let mut window = comm.alloc::<f32>(COUNT)?.wait()?;
    let stream = Stream::new(&device)?;
    summed(&mut comm, &mut window, &stream)?;
    ready(place);
    let start = Instant::now();
    expect("the operation", summed(&mut comm, &mut window, &stream), is_loss, &["its process ended"])?;
    for again in [comm.check(), summed(&mut comm, &mut window, &stream)] {
        expect("a later call", again, is_loss, &["its process ended"])?;
    }
    expect("a registration", comm.alloc::<f32>(COUNT)?.wait(), is_loss, &["its process ended"])?;
    drop(comm);
    ensure!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
    Ok(())
}

/// A rank that unwinds drops its communicator; the others are told as of a death.
fn panic_in_operation(place: &Place) -> Result<()> {
    let device = place.device()?;
    let mut comm = place.comm(&device, &long())?;
    let mut window = comm.alloc::<f32>(COUNT)?.wait()?;
    let stream = Stream::new(&device)?;
    summed(&mut comm, &mut window, &stream)?;
    if place.rank == VICTIM {
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _comm = comm;
            panic!("a panic that the case asks for");
        }));
        ensure!(unwound.is_err(), "it panicked");
        return Ok(());
    }
    let start = Instant::now();
    expect("the operation", summed(&mut comm, &mut window, &stream), is_loss, &["closed its connection"])?;
    drop(comm);
    ensure!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
    Ok(())
}

fn killed_in_registration(place: &Place) -> Result<()> {
    let device = place.device()?;
    let mut comm = place.comm(&device, &long())?;
    ready(place);
    let start = Instant::now();
    expect("a registration", comm.alloc::<f32>(COUNT)?.wait(), is_loss, &["its process ended"])?;
    let error = error_of("a later call", comm.check())?;
    ensure!(is_loss(error.kind()), "{error}");
    drop(comm);
    ensure!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
    Ok(())
}

/// The victim leaves one communicator and dies before it comes to the next.
fn killed_in_init(place: &Place) -> Result<()> {
    let device = place.device()?;
    let comm = place.comm(&device, &long())?;
    let second = place.second_id()?;
    drop(comm);
    let start = Instant::now();
    if place.rank == VICTIM {
        ready(place);
    }
    println!("ready");
    let config = CommConfig { host_timeout_ms: 2000, ..CommConfig::default() };
    let made = Comm::init_rank_with(&device, place.n_ranks, place.rank, &second, &config);
    expect("the victim does not come", made, kind!(Deadline), &["missing ranks: [1]"])?;
    ensure!(start.elapsed() < SOON, "it took {:?}", start.elapsed());
    Ok(())
}
