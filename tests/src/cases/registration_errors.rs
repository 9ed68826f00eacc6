//! Registrations that cannot be: every rank gets the same error, nobody waits, and the communicator goes on.

use crate::expect::{error_of, expect, kind};
use crate::harness::{Case, Context};
use crate::rig::Rig;
use crate::user_memory::UserMemory;
use anyhow::{Result, ensure};
use symmem::{CommConfig, Device, ErrorKind, Window};
use symmem_device::abi::DevBaseLayout;

/// Length of the caller's memory.
const LEN_BYTES: u64 = 2 << 20;
/// Elements of a window.
const COUNT: usize = 1000;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("registration_errors::sizes_differ", 2, sizes_differ),
        Case::new("registration_errors::offsets_differ", 2, offsets_differ),
        Case::new("registration_errors::misaligned", 2, misaligned),
        Case::new("registration_errors::crosses_the_end", 2, crosses_the_end),
        Case::new("registration_errors::memory_of_another_device", 2, memory_of_another_device),
        Case::new("registration_errors::not_mapped", 2, not_mapped),
        Case::new("registration_errors::larger_than_the_stride", 2, larger_than_the_stride),
        Case::new("registration_errors::out_of_memory", 2, out_of_memory),
        Case::new("registration_errors::a_rank_never_asks", 2, a_rank_never_asks),
        Case::new("registration_errors::a_rank_leaves", 2, a_rank_leaves),
    ]
}

fn made(context: &Context) -> Result<(Rig, Vec<Device>, Vec<UserMemory>)> {
    let machine = context.machine()?;
    let devices = machine.devices(machine.device_count().min(3))?;
    let memory = UserMemory::on_each(&devices, LEN_BYTES)?;
    Ok((Rig::on(&devices, &CommConfig::default())?, devices, memory))
}

/// Every rank has the same error with the words, and what a rank met by itself is of the kind; afterwards a registration
/// works.
fn refused(
    rig: &Rig,
    results: Vec<symmem::Result<Window<f32>>>,
    is: impl Fn(&ErrorKind) -> bool + Copy,
    words: &[&str],
) -> Result<()> {
    let errors =
        results.into_iter().map(|result| error_of("a registration", result)).collect::<Result<Vec<_>>>()?;
    for (rank, error) in errors.iter().enumerate() {
        expect(&format!("rank {rank}"), Err::<(), _>(error.clone()), |_| true, words)?;
        let met = error.cause().unwrap_or(error);
        ensure!(is(met.kind()), "rank {rank}: another kind than expected: {:?}", met.kind());
        ensure!(error.kind() == errors[0].kind(), "rank {rank}: {error}, rank 0: {}", errors[0]);
    }
    rig.alloc::<f32>(COUNT)?;
    Ok(())
}

fn at(memory: &[UserMemory], offset: impl Fn(usize) -> u64) -> Vec<u64> {
    memory.iter().enumerate().map(|(rank, memory)| memory.address() + offset(rank)).collect()
}

fn sizes_differ(context: &Context) -> Result<()> {
    let (rig, _, memory) = made(context)?;
    let counts: Vec<usize> = (0..memory.len()).map(|rank| COUNT + rank).collect();
    let results = rig.register(&at(&memory, |_| 0), &counts)?;
    refused(&rig, results, kind!(Mismatch), &["size", "rank 0 4000", "rank 1 4004"])?;
    let asked = rig.comms.iter().map(|comm| comm.alloc(COUNT * (1 + comm.rank() as usize)));
    let asked = asked.collect::<symmem::Result<Vec<_>>>()?;
    let results = asked.into_iter().map(symmem::Registration::wait).collect();
    refused(&rig, results, kind!(Mismatch), &["size", "rank 0 4000", "rank 1 8000"])
}

fn offsets_differ(context: &Context) -> Result<()> {
    let (rig, _, memory) = made(context)?;
    let counts = vec![COUNT; memory.len()];
    let results = rig.register(&at(&memory, |rank| 4096 * rank as u64), &counts)?;
    refused(&rig, results, kind!(Mismatch), &["allocation", "rank 0 0", "rank 1 4096"])
}

fn misaligned(context: &Context) -> Result<()> {
    let (rig, _, memory) = made(context)?;
    let counts = vec![COUNT; memory.len()];
    let results = rig.register(&at(&memory, |rank| if rank == 1 { 8 } else { 0 }), &counts)?;
    let address = format!("{:#x}", memory[1].address() + 8);
    refused(&rig, results, kind!(Misaligned), &["rank 1 failed", &address, "multiple of 16"])
}

fn crosses_the_end(context: &Context) -> Result<()> {
    let (rig, _, memory) = made(context)?;
    let counts = vec![COUNT; memory.len()];
    let end = memory[0].len_bytes();
    let results = rig.register(&at(&memory, |_| end - 3984), &counts)?;
    refused(&rig, results, kind!(Unsupported), &["4000 bytes", "3984 bytes", "register no more"])?;
    let exact = rig.register::<f32>(&at(&memory, |_| end - 4000), &counts)?;
    ensure!(exact.iter().all(Result::is_ok), "a window may end where its mapping does: {exact:?}");
    Ok(())
}

fn memory_of_another_device(context: &Context) -> Result<()> {
    let (rig, _, memory) = made(context)?;
    let counts = vec![COUNT; memory.len()];
    let results = rig.register(&at(&memory, |_| 0).repeat(2)[1..=memory.len()], &counts)?;
    refused(&rig, results, kind!(Foreign), &["rank 0 failed", "device 1", "rank's is 0"])
}

fn not_mapped(context: &Context) -> Result<()> {
    let (rig, _, memory) = made(context)?;
    let counts = vec![COUNT; memory.len()];
    let mut addresses = at(&memory, |_| 0);
    addresses[0] = 0x10_0000;
    let results = rig.register(&addresses, &counts)?;
    refused(&rig, results, kind!(Unsupported), &["rank 0 failed", "0x100000", "Comm::alloc"])
}

fn larger_than_the_stride(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let stride_bytes = DevBaseLayout::new(2).len_bytes() + (32 << 20);
    let config = CommConfig { stride_bytes: Some(stride_bytes), ..CommConfig::default() };
    let rig = Rig::with(&machine, 2, &config)?;
    let ask = |bytes: usize| -> Result<Vec<symmem::Result<Window<f32>>>> {
        let asked = rig.comms.iter().map(|comm| comm.alloc(bytes / 4)).collect::<symmem::Result<Vec<_>>>()?;
        Ok(asked.into_iter().map(symmem::Registration::wait).collect())
    };
    let words = ["SYMMEM_WIN_STRIDE", "67108864 bytes", "in use"];
    refused(&rig, ask(64 << 20)?, kind!(SizeOverflow), &words)?;
    ensure!(ask(8 << 20)?.iter().all(Result::is_ok));
    let too_small = CommConfig { stride_bytes: Some(1 << 20), ..CommConfig::default() };
    let refused = Rig::with(&machine, 2, &too_small).map_err(|error| error.downcast::<symmem::Error>());
    match refused {
        Ok(_) => anyhow::bail!("DevBase does not fit in such a stride"),
        Err(error) => expect("a stride", Err::<(), _>(error?), kind!(RankFailed), &["DevBase", "stride of"]),
    }
}

fn out_of_memory(context: &Context) -> Result<()> {
    let (rig, devices, _) = made(context)?;
    let too_many = 2 * devices[0].facts()?.memory_bytes as usize / 4;
    let asked = rig.comms.iter().map(|comm| comm.alloc(too_many)).collect::<symmem::Result<Vec<_>>>()?;
    let results = asked.into_iter().map(symmem::Registration::wait).collect();
    refused(&rig, results, kind!(Driver), &["cuMemCreate", "CUDA_ERROR_OUT_OF_MEMORY"])
}

/// The one that asked gets the error in time; so does the late one; together they can go on.
fn a_rank_never_asks(context: &Context) -> Result<()> {
    let machine = context.machine()?;
    let config = CommConfig { host_timeout_ms: 300, ..CommConfig::default() };
    let rig = Rig::with(&machine, 2, &config)?;
    for (rank, missing) in [(0, 1), (1, 0)] {
        let alone = rig.comms[rank].alloc::<f32>(COUNT)?.wait();
        let is = |kind: &ErrorKind| matches!(kind, ErrorKind::Deadline { missing: m, .. } if *m == [missing]);
        expect("a rank asks alone", alone, is, &["300 ms", &format!("[{missing}]")])?;
    }
    rig.alloc::<f32>(COUNT)?;
    Ok(())
}

/// Who waits for a rank that has gone is told so, and does not wait for the deadline.
fn a_rank_leaves(context: &Context) -> Result<()> {
    let (mut rig, ..) = made(context)?;
    let last = rig.n_ranks() - 1;
    let asked = rig.comms[..last as usize].iter().map(|comm| comm.alloc::<f32>(COUNT));
    let asked = asked.collect::<symmem::Result<Vec<_>>>()?;
    drop(rig.comms.pop());
    for waiting in asked {
        let is = |kind: &ErrorKind| matches!(kind, ErrorKind::RankFailed { rank, .. } if *rank == last);
        expect("a rank waits", waiting.wait(), is, &[&format!("rank {last}"), "left"])?;
    }
    let later = rig.comms[0].alloc::<f32>(COUNT)?.wait();
    expect("a later registration", later, kind!(RankFailed), &["left"])
}
