//! An all-reduce of two ranks, on GPUs where there are any and on the simulated machine where there are none.

use symmem::{Comm, Machine, Op, Stream};

const N_RANKS: u32 = 2;
const COUNT: usize = 1000;

fn main() -> symmem::Result<()> {
    let machine = Machine::open()?;
    let mut comms = Comm::init_all(&machine.devices(N_RANKS)?)?;

    // Allocation is collective: ask for every rank, then wait for every rank.
    let asked: Vec<_> = comms.iter().map(|comm| comm.alloc::<f32>(COUNT)).collect::<symmem::Result<_>>()?;
    let mut windows = asked.into_iter().map(|one| one.wait()).collect::<symmem::Result<Vec<_>>>()?;
    for (comm, window) in comms.iter().zip(&mut windows) {
        let value = comm.rank() as f32 + 1.0;
        window.write(0, &vec![value; COUNT])?;
    }

    let streams: Vec<_> = comms.iter().map(|comm| Stream::new(comm.device())).collect::<symmem::Result<_>>()?;
    for ((comm, window), stream) in comms.iter_mut().zip(&mut windows).zip(&streams) {
        comm.all_reduce_in_place(window, Op::Sum, stream)?;
    }
    for (comm, stream) in comms.iter_mut().zip(&streams) {
        comm.synchronize(stream)?;
    }

    let expected = (1..=N_RANKS).sum::<u32>() as f32;
    for (comm, window) in comms.iter().zip(&windows) {
        let mut result = vec![0.0; COUNT];
        window.read(0, &mut result)?;
        assert!(result.iter().all(|&value| value == expected), "rank {} has {result:?}", comm.rank());
    }
    println!("{:?}: {N_RANKS} ranks, {COUNT} × f32, every element {expected} on every rank", machine.kind());
    Ok(())
}
