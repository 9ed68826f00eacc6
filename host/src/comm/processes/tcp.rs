//! A meeting at rank 0: it listens, all others come with their cards and get everybody's.

use super::Identity;
use super::card::{Card, STEP, bad_message, io};
use super::channel::{Channel, Failure, wait};
use super::deadline::Deadline;
use super::directory::LOOK_AGAIN;
use super::frame::{Assembler, Kind, Refused, encode};
use crate::{ErrorKind, Result};
use rustix::event::PollFlags;
use std::io::ErrorKind as IoKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::Duration;

/// Whoever connects has so long to say who it is; others wait meanwhile.
const HELLO_PATIENCE: Duration = Duration::from_secs(2);

/// Tells all ranks this one's card and gets everybody's, in rank order.
pub(super) fn cards(
    host: &str,
    port: u16,
    us: Identity,
    card: &Card,
    deadline: Deadline,
) -> Result<Vec<Card>> {
    let address = format!("tcp://{host}:{port}");
    let resolved =
        (host, port).to_socket_addrs().map_err(|error| io(format!("looking up {address}"), error))?;
    let resolved: Vec<SocketAddr> = resolved.collect();
    if us.rank == 0 {
        let listener = TcpListener::bind(&resolved[..]);
        let listener = listener.map_err(|error| io(format!("listening at {address}"), error))?;
        gather(&listener, us, card, deadline, &address)
    } else {
        let channel = connect(&resolved, deadline, &address)?;
        fetch(&channel, us, card, deadline, &address)
    }
}

/// Rank 0's part.
fn gather(
    listener: &TcpListener,
    us: Identity,
    card: &Card,
    deadline: Deadline,
    address: &str,
) -> Result<Vec<Card>> {
    listener.set_nonblocking(true).map_err(|error| io(format!("listening at {address}"), error))?;
    let mut come: Vec<Option<(Channel, Card)>> = (0..us.n_ranks).map(|_| None).collect();
    let result = gather_into(&mut come, listener, us, deadline, address);
    let channels = come.iter().flatten().map(|(channel, _)| channel);
    if let Err(error) = result {
        let message = encode(us, Kind::Goodbye, 0, STEP, error.to_string().as_bytes(), 0);
        // Whoever has gone meanwhile needs no answer.
        channels.for_each(|channel| drop(channel.send(&message, &[], deadline_for_goodbye())));
        return Err(error);
    }
    let others = come.iter().skip(1).flatten().map(|(_, card)| card.clone());
    let cards: Vec<Card> = [card.clone()].into_iter().chain(others).collect();
    let message = encode(us, Kind::Gather, 0, STEP, &table(&cards), 0);
    for (rank, channel) in (1..).zip(channels) {
        channel.send(&message, &[], deadline).map_err(|failure| failed(failure, rank, deadline, address))?;
    }
    Ok(cards)
}

fn gather_into(
    come: &mut [Option<(Channel, Card)>],
    listener: &TcpListener,
    us: Identity,
    deadline: Deadline,
    address: &str,
) -> Result<()> {
    loop {
        let missing: Vec<u32> = (1..us.n_ranks).filter(|&rank| come[rank as usize].is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        match wait(listener.as_fd(), PollFlags::IN, deadline) {
            Ok(()) => {}
            Err(Failure::Late) => return Err(deadline.error(format!("the meeting at {address}"), missing)),
            Err(failure) => return Err(failed(failure, missing[0], deadline, address)),
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error)
                if matches!(
                    error.kind(),
                    IoKind::WouldBlock | IoKind::Interrupted | IoKind::ConnectionAborted
                ) =>
            {
                continue;
            }
            Err(error) => return Err(io(format!("accepting at {address}"), error)),
        };
        let channel = Channel::new(stream.into());
        if let Some((rank, card)) = hello(&channel, us, deadline)? {
            let slot = &mut come[rank as usize];
            if rank == 0 || slot.is_some() {
                return Err(bad_message(rank, STEP, "two processes say that they are this rank"));
            }
            *slot = Some((channel, card));
        }
    }
}

/// Who connected; `None` for somebody who has no business here.
fn hello(channel: &Channel, us: Identity, deadline: Deadline) -> Result<Option<(u32, Card)>> {
    let patience = Deadline::after(HELLO_PATIENCE.min(deadline.left()));
    match channel.receive(&mut Assembler::default(), us, None, patience) {
        Ok(frame) => Ok(Some((frame.rank, Card::of_frame(&frame)?))),
        Err(Failure::Refused(refused @ (Refused::Size { .. } | Refused::Rank { .. }))) => {
            let reason = format!("a process of this job was refused: {refused}");
            Err(ErrorKind::Io { what: STEP.into(), reason }.into())
        }
        Err(failure) => {
            tracing::warn!(?failure, "somebody who is no rank of this job connected");
            Ok(None)
        }
    }
}

/// Every other rank's part, once it is connected.
fn fetch(
    channel: &Channel,
    us: Identity,
    card: &Card,
    deadline: Deadline,
    address: &str,
) -> Result<Vec<Card>> {
    let failed = |failure| failed(failure, 0, deadline, address);
    channel.send(&card.message(us), &[], deadline).map_err(failed)?;
    let answer = channel.receive(&mut Assembler::default(), us, Some(0), deadline).map_err(failed)?;
    if answer.kind == Kind::Goodbye {
        let reason = String::from_utf8_lossy(&answer.payload).into_owned();
        return Err(ErrorKind::RankFailed { rank: 0, reason }.into());
    }
    let cards = read_table(&answer.payload).filter(|cards| cards.len() == us.n_ranks as usize);
    cards.ok_or_else(|| bad_message(0, STEP, "its table of ranks cannot be read"))
}

fn connect(addresses: &[SocketAddr], deadline: Deadline, address: &str) -> Result<Channel> {
    loop {
        for one in addresses {
            let left = deadline.left().max(Duration::from_millis(1));
            if let Ok(stream) = TcpStream::connect_timeout(one, left) {
                return Ok(Channel::new(stream.into()));
            }
        }
        if deadline.is_over() {
            return Err(deadline.error(format!("rank 0 to listen at {address}"), vec![0]));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn failed(failure: Failure, rank: u32, deadline: Deadline, address: &str) -> crate::Error {
    match failure {
        Failure::Late => deadline.error(format!("rank {rank} at {address}"), vec![rank]),
        Failure::Refused(refused) => bad_message(rank, STEP, refused),
        Failure::Closed => {
            let reason = format!("it closed the connection to {address}; it may count other ranks");
            ErrorKind::RankFailed { rank, reason }.into()
        }
        Failure::Os(errno) => io(format!("talking to rank {rank} at {address}"), errno),
    }
}

fn deadline_for_goodbye() -> Deadline {
    Deadline::after(Duration::from_millis(200))
}

fn table(cards: &[Card]) -> Vec<u8> {
    let entry = |card: &Card| {
        let payload = card.payload();
        [&(payload.len() as u32).to_le_bytes()[..], &payload].concat()
    };
    cards.iter().flat_map(entry).collect()
}

fn read_table(mut bytes: &[u8]) -> Option<Vec<Card>> {
    let mut cards = Vec::new();
    while !bytes.is_empty() {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let (card, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        cards.push(Card::read(card)?);
        bytes = rest;
    }
    Some(cards)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::unique_id::JobId;
    use std::io::Write;

    /// All cards as each of `identities` sees them, on a port that was free just now.
    fn meet(identities: &[Identity], before: impl FnOnce(u16)) -> Vec<Result<Vec<Card>>> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let deadline = Deadline::after(Duration::from_secs(5));
        std::thread::scope(|scope| {
            let run = |us: Identity| {
                let card = Card::new(format!("/socket/{}", us.rank).into()).unwrap();
                scope.spawn(move || cards("127.0.0.1", port, us, &card, deadline))
            };
            let threads: Vec<_> = identities.iter().map(|us| run(*us)).collect();
            before(port);
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn us(rank: u32) -> Identity {
        Identity { job: JobId([1; 16]), rank, n_ranks: 3 }
    }

    #[test]
    fn all_ranks_get_all_cards_whoever_else_connects() {
        let stranger = |port| {
            let mut stream = loop {
                if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                    break stream;
                }
            };
            stream.write_all(b"GET / HTTP/1.1\r\nHost: elsewhere and far away, in a land beyond the sea, where the wind blows free\r\n\r\n").unwrap();
        };
        for result in meet(&[us(0), us(1), us(2)], stranger) {
            let sockets: Vec<_> = result.unwrap().into_iter().map(|card| card.socket).collect();
            assert_eq!(sockets, ["/socket/0", "/socket/1", "/socket/2"].map(std::path::PathBuf::from));
        }
    }

    #[test]
    fn a_rank_that_comes_twice_is_named_to_all() {
        for result in meet(&[us(0), us(1), us(1)], |_| ()) {
            let text = result.unwrap_err().to_string();
            assert!(text.contains("rank 1") || text.contains("rank 0 failed"), "{text}");
        }
    }

    #[test]
    fn another_count_of_ranks_is_refused() {
        let mut results = meet(&[us(0), Identity { n_ranks: 4, ..us(1) }], |_| ()).into_iter();
        let text = results.next().unwrap().unwrap_err().to_string();
        assert!(text.contains("the sender counts 4 ranks, this rank 3"), "{text}");
        assert!(results.next().unwrap().is_err());
    }

    #[test]
    fn a_table_cut_short_is_no_table() {
        let cards = vec![Card::new("/x".into()).unwrap(); 2];
        let bytes = table(&cards);
        assert_eq!(read_table(&bytes), Some(cards));
        let one = bytes.len() / 2;
        for cut in (1..bytes.len()).filter(|cut| *cut != one) {
            assert_eq!(read_table(&bytes[..cut]), None, "{cut}");
        }
    }
}
