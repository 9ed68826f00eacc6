//! All-reduce over two ranks: on GPUs where there are two, else on the simulated machine.

use symmem::{Comm, Machine, Op, Result, Stream};

fn main() -> Result<()> {
    let machine = Machine::open()?;
    let mut comms = Comm::init_all(&machine.devices(2)?)?;

    // Allocation is collective: ask for all ranks, then wait for all.
    let asked: Vec<_> = comms.iter().map(|comm| comm.alloc::<f32>(1024)).collect::<Result<_>>()?;
    let mut windows: Vec<_> = asked.into_iter().map(|window| window.wait()).collect::<Result<_>>()?;

    let streams: Vec<_> = comms.iter().map(|comm| Stream::new(comm.device())).collect::<Result<_>>()?;
    for ((comm, window), stream) in comms.iter_mut().zip(&mut windows).zip(&streams) {
        window.write(0, &[comm.rank() as f32 + 1.0; 1024])?;
        comm.all_reduce_in_place(window, Op::Sum, stream)?;
    }
    for ((comm, window), stream) in comms.iter_mut().zip(&windows).zip(&streams) {
        comm.synchronize(stream)?;
        println!("rank {}: {:?}", comm.rank(), &window.to_vec()?[..4]);
    }
    Ok(())
}
