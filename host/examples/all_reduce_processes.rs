//! An all-reduce over two processes: this program starts itself again for each rank.

use std::process::{Command, exit};
use symmem::{Comm, Machine, Op, Result, Stream, UniqueId};

const N_RANKS: u32 = 2;

fn main() -> Result<()> {
    // A rank is told its number and the id on the command line.
    if let [_, rank, id] = &std::env::args().collect::<Vec<_>>()[..] {
        return run_rank(rank.parse().expect("the parent gave a number"), &id.parse()?);
    }
    let id = UniqueId::new()?.to_string();
    let program = std::env::current_exe().expect("this program has a path");
    let start = |rank: u32| Command::new(&program).args([&rank.to_string(), &id]).spawn().expect("it starts");
    let children: Vec<_> = (0..N_RANKS).map(start).collect();
    let all_good = children.into_iter().all(|mut child| child.wait().is_ok_and(|status| status.success()));
    exit(i32::from(!all_good));
}

fn run_rank(rank: u32, id: &UniqueId) -> Result<()> {
    let device = Machine::open()?.device(rank)?;
    let mut comm = Comm::init_rank(&device, N_RANKS, rank, id)?;
    let mut window = comm.alloc::<f32>(1024)?.wait()?;
    let stream = Stream::new(&device)?;
    window.write(0, &[rank as f32 + 1.0; 1024])?;
    comm.all_reduce_in_place(&mut window, Op::Sum, &stream)?;
    comm.synchronize(&stream)?;
    println!("rank {rank}: {:?}", &window.to_vec()?[..4]);
    Ok(())
}
