//! How many PTX instructions a second the simulated machine interprets, on one core: real kernels, and a loop of
//! arithmetic. Prints a table and behind it one JSON line per row.

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use symmem::backend::LaunchShape;
use symmem::sim::{ProbeKind, SimConfig, SimMachine};
use symmem::{Algorithm, Comm, CommConfig, Dtype, Machine, Op, Stream};

/// Each workload is repeated for so much processor time at least.
const SECONDS_MIN: f64 = 1.0;
const RANKS: u32 = 4;

/// Four instructions of integer arithmetic, a comparison and a branch, over and over.
const ALU_LOOP: &str = "
.version 7.8
.target sm_90
.address_size 64
.visible .entry alu_loop(.param .u64 rounds)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [rounds];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, 1;
$loop:
    mad.lo.s32 %r2, %r2, %r1, 7;
    xor.b32 %r3, %r2, %r1;
    shl.b32 %r1, %r3, 1;
    add.s64 %rd1, %rd1, -1;
    setp.ne.s64 %p1, %rd1, 0;
    @%p1 bra $loop;
    ret;
}
";

/// What was interpreted in how much processor time.
struct Rate {
    name: String,
    probe: &'static str,
    instructions: u64,
    seconds: f64,
}

fn main() -> Result<()> {
    let mut rates = Vec::new();
    let probes = [
        ("none", ProbeKind::None),
        ("hops", ProbeKind::Hops),
        ("races", ProbeKind::Races),
        ("weak", ProbeKind::Weak { races: true }),
    ];
    for (name, probe) in probes {
        let kernels = [
            (Algorithm::Ll, Dtype::F32, 32 << 10),
            (Algorithm::TwoShotLdSt, Dtype::F32, 1 << 20),
            (Algorithm::TwoShotLdSt, Dtype::Bf16, 1 << 20),
        ];
        for (algorithm, dtype, bytes) in kernels {
            let rate = all_reduce(name, probe, algorithm, dtype, bytes);
            rates.push(rate.with_context(|| format!("all_reduce {algorithm} {dtype}"))?);
        }
        rates.push(alu_loop(name, probe).context("the loop of arithmetic")?);
    }
    print(&rates);
    Ok(())
}

fn machine(n_devices: u32, probe: ProbeKind) -> Result<Machine> {
    let config = SimConfig { n_devices, probe, ..SimConfig::default() };
    Ok(Machine::from_backend(SimMachine::new(config)?))
}

fn all_reduce(
    probe_name: &'static str,
    probe: ProbeKind,
    algorithm: Algorithm,
    dtype: Dtype,
    bytes: u64,
) -> Result<Rate> {
    let machine = machine(RANKS, probe)?;
    let devices = machine.devices(RANKS)?;
    let config = CommConfig { algorithm: Some(algorithm), check: Some(false), ..CommConfig::default() };
    let mut comms = Comm::init_all_with(&devices, &config)?;
    let streams = devices.iter().map(Stream::new).collect::<symmem::Result<Vec<_>>>()?;
    let asked =
        comms.iter().map(|comm| comm.alloc::<u8>(bytes as usize)).collect::<symmem::Result<Vec<_>>>()?;
    let windows = asked.into_iter().map(|asked| asked.wait()).collect::<symmem::Result<Vec<_>>>()?;
    repeat(format!("all_reduce {algorithm} {dtype} {} KiB", bytes >> 10), probe_name, &machine, || {
        for ((comm, window), stream) in comms.iter_mut().zip(&windows).zip(&streams) {
            let (address, count) = (window.address(), bytes / dtype.bytes());
            comm.all_reduce_at(address, address, count, dtype, Op::Sum, stream)?;
        }
        let waited: Vec<_> =
            comms.iter_mut().zip(&streams).map(|(comm, stream)| comm.synchronize(stream)).collect();
        Ok(waited.into_iter().collect::<symmem::Result<()>>()?)
    })
}

fn alu_loop(probe_name: &'static str, probe: ProbeKind) -> Result<Rate> {
    let machine = machine(1, probe)?;
    let device = machine.device(0)?;
    // SAFETY: the handles are of this machine and live; the loop touches no memory.
    let backend = unsafe { machine.raw_backend() };
    let stream = Stream::new(&device)?;
    let module = backend.module_load(device.index(), ALU_LOOP, "the bench's loop")?;
    let function = backend.function(module, "alu_loop")?;
    let shape = LaunchShape { blocks: 1, threads: 32, shared_bytes: 0, waits_itself: false };
    let rate = repeat("loop of arithmetic".to_owned(), probe_name, &machine, || {
        backend.launch(stream.handle(), function, shape, &100_000u64.to_ne_bytes())?;
        Ok(stream.synchronize()?)
    });
    backend.module_unload(module)?;
    rate
}

/// Runs `work` once to warm up, then until the time is over.
fn repeat(
    name: String,
    probe: &'static str,
    machine: &Machine,
    mut work: impl FnMut() -> Result<()>,
) -> Result<Rate> {
    let counted = || machine.counters().map_or(0, |counters| counters.instructions);
    work()?;
    let (before, start) = (counted(), processor_seconds());
    while processor_seconds() - start < SECONDS_MIN {
        work()?;
    }
    let seconds = processor_seconds() - start;
    Ok(Rate { name, probe, instructions: counted() - before, seconds })
}

/// Processor time of all threads of this program, which what else runs on the host does not lengthen.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn print(rates: &[Rate]) {
    println!(
        "{:<38} {:>5} {:>16} {:>9} {:>22}",
        "workload", "probe", "instructions", "seconds", "million instructions/s"
    );
    for rate in rates {
        let rate_mips = rate.instructions as f64 / rate.seconds / 1e6;
        println!(
            "{:<38} {:>5} {:>16} {:>9.3} {rate_mips:>22.1}",
            rate.name, rate.probe, rate.instructions, rate.seconds
        );
    }
    for rate in rates {
        let per_second = rate.instructions as f64 / rate.seconds;
        let row = json!({
            "schema_version": 1,
            "workload": rate.name,
            "probe": rate.probe,
            "instructions": rate.instructions,
            "seconds": rate.seconds,
            "instructions_per_s": per_second,
            "symmem_version": env!("CARGO_PKG_VERSION"),
        });
        println!("{row}");
    }
}
