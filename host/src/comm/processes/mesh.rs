//! Connects every two ranks of a job.

use super::Identity;
use super::card::{Card, STEP, bad_message, check_hosts, io};
use super::channel::{Channel, Failure, wait};
use super::deadline::Deadline;
use super::directory::{JobDirectory, LOOK_AGAIN};
use super::frame::{Assembler, Kind, encode};
use super::seat::ProcessSeat;
use super::tcp;
use crate::comm::bootstrap::Bootstrap;
use crate::comm::unique_id::{Meeting, UniqueId, runtime_dir};
use crate::{Error, ErrorKind, Result};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the channels of a rank are, and what has been read from each beyond its greeting.
pub(super) type Channels = Vec<Option<(Channel, Assembler)>>;

/// Takes `rank`'s seat among `n_ranks` processes that were given the same id; `timeout` bounds this and every exchange.
pub(crate) fn join(id: &UniqueId, n_ranks: u32, rank: u32, timeout: Duration) -> Result<ProcessSeat> {
    if rank >= n_ranks {
        let (found, allowed) =
            (format!("{rank} of {n_ranks}"), "0 to one less than the number of ranks".into());
        return Err(ErrorKind::InvalidArgument { what: "rank", found, allowed }.into());
    }
    let us = Identity { job: id.job, rank, n_ranks };
    let deadline = Deadline::after(timeout);
    let path = match &id.meeting {
        Meeting::Directory(path) => path.clone(),
        Meeting::Tcp { .. } => runtime_dir().join(format!("symmem-{}", id.job)),
    };
    let mut directory = JobDirectory::open(&path)?;
    let socket = directory.fresh_name(rank)?;
    let listener = listen_at(&socket, n_ranks)?;
    let card = Card::new(socket)?;
    let cards = match &id.meeting {
        Meeting::Directory(_) => {
            directory.publish(us, &card)?;
            directory.cards(us, deadline)?
        }
        Meeting::Tcp { host, port } => tcp::cards(host, *port, us, &card, deadline)?,
    };
    check_hosts(&cards)?;
    let may_be_old = matches!(id.meeting, Meeting::Directory(_)).then_some(&directory);
    let mut channels: Channels = (0..n_ranks).map(|_| None).collect();
    for peer in 0..rank {
        channels[peer as usize] = Some(connect_to(peer, &cards[peer as usize], us, may_be_old, deadline)?);
    }
    accept_from(&mut channels, &listener, us, deadline)?;
    let seat = ProcessSeat::new(us, channels, timeout)?;
    seat.all_gather("rendezvous: all connected", vec![])?;
    // Nobody needs the names any more: they go with `directory`.
    Ok(seat)
}

fn unix_socket() -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|errno| io("making a Unix socket (see ulimit -n)", errno))
}

fn socket_address(path: &Path) -> Result<SocketAddrUnix> {
    SocketAddrUnix::new(path).map_err(|_| {
        let allowed = "at most 107 bytes; SYMMEM_RUNTIME_DIR names a shorter directory".into();
        let what = "path of a Unix socket";
        ErrorKind::InvalidArgument { what, found: path.display().to_string(), allowed }.into()
    })
}

fn listen_at(path: &PathBuf, n_ranks: u32) -> Result<OwnedFd> {
    let (listener, address) = (unix_socket()?, socket_address(path)?);
    let failed = |errno| io(format!("listening at {}", path.display()), errno);
    bind(&listener, &address).map_err(failed)?;
    listen(&listener, n_ranks as i32).map_err(failed)?;
    Ok(listener)
}

/// Connects to a lower rank. Where cards are files, one may be an old one: it is read again until somebody answers.
fn connect_to(
    peer: u32,
    card: &Card,
    us: Identity,
    directory: Option<&JobDirectory>,
    deadline: Deadline,
) -> Result<(Channel, Assembler)> {
    let mut card = card.clone();
    let channel = loop {
        let socket = unix_socket()?;
        match connect(&socket, &socket_address(&card.socket)?) {
            Ok(()) => break Channel::new(socket),
            // Nobody listens there, or its queue is full.
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(io(format!("connecting to rank {peer}"), errno)),
        }
        if deadline.is_over() {
            return Err(deadline.error(format!("rank {peer} at {}", card.socket.display()), vec![peer]));
        }
        std::thread::sleep(LOOK_AGAIN);
        if let Some(fresh) = directory.map(|directory| directory.card(us, peer)).transpose()?.flatten() {
            card = fresh;
        }
    };
    greet(&channel, us, peer, deadline)?;
    let mut assembler = Assembler::default();
    let answer = channel.receive(&mut assembler, us, Some(peer), deadline);
    answer.map_err(|failure| failed(failure, peer, deadline))?;
    // What the peer sent behind its greeting is in the assembler.
    Ok((channel, assembler))
}

/// Takes the connections of all higher ranks.
fn accept_from(channels: &mut Channels, listener: &OwnedFd, us: Identity, deadline: Deadline) -> Result<()> {
    loop {
        let missing: Vec<u32> =
            (us.rank + 1..us.n_ranks).filter(|&rank| channels[rank as usize].is_none()).collect();
        let Some(&first) = missing.first() else { return Ok(()) };
        match wait(listener.as_fd(), PollFlags::IN, deadline) {
            Ok(()) => {}
            Err(Failure::Late) => return Err(deadline.error("ranks to connect", missing)),
            Err(failure) => return Err(failed(failure, first, deadline)),
        }
        let socket = match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => continue,
            Err(errno) => return Err(io("accepting a rank's connection (see ulimit -n)", errno)),
        };
        let (channel, mut assembler) = (Channel::new(socket), Assembler::default());
        let hello = channel.receive(&mut assembler, us, None, deadline);
        let hello = hello.map_err(|failure| failed(failure, first, deadline))?;
        let slot = &mut channels[hello.rank as usize];
        if hello.rank <= us.rank || slot.is_some() || hello.kind != Kind::Hello {
            return Err(bad_message(hello.rank, STEP, "it connected twice, or out of turn"));
        }
        greet(&channel, us, hello.rank, deadline)?;
        *slot = Some((channel, assembler));
    }
}

fn greet(channel: &Channel, us: Identity, peer: u32, deadline: Deadline) -> Result<()> {
    let hello = encode(us, Kind::Hello, 0, STEP, &[], 0);
    channel.send(&hello, &[], deadline).map_err(|failure| failed(failure, peer, deadline))
}

fn failed(failure: Failure, peer: u32, deadline: Deadline) -> Error {
    match failure {
        Failure::Late => deadline.error(format!("rank {peer}'s greeting"), vec![peer]),
        Failure::Refused(refused) => bad_message(peer, STEP, refused),
        Failure::Os(errno) => io(format!("talking to rank {peer}"), errno),
        Failure::Closed => {
            let reason = "it closed its connection before all ranks were connected".to_owned();
            ErrorKind::RankFailed { rank: peer, reason }.into()
        }
    }
}
