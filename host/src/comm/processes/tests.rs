//! Messages that are lost, late, doubled, cut short or not ours, sent by a rank 1 that is driven by hand.

use super::Identity;
use super::channel::Channel;
use super::frame::{Assembler, Kind, encode};
use super::seat::ProcessSeat;
use crate::comm::bootstrap::Bootstrap;
use crate::comm::unique_id::JobId;
use crate::{Error, Result};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_millis(300);
/// No survivor takes longer, whatever happens.
const SOON: Duration = Duration::from_secs(10);

fn us(rank: u32) -> Identity {
    Identity { job: JobId([9; 16]), rank, n_ranks: 3 }
}

fn seat(rank: u32, sockets: Vec<(u32, UnixStream)>) -> ProcessSeat {
    let mut channels: Vec<_> = (0..3).map(|_| None).collect();
    for (peer, socket) in sockets {
        channels[peer as usize] = Some((Channel::new(OwnedFd::from(socket)), Assembler::default()));
    }
    ProcessSeat::new(us(rank), channels, TIMEOUT).unwrap()
}

/// Ranks 0 and 2, and the sockets of rank 1 to each.
fn around_rank_1() -> ([ProcessSeat; 2], [UnixStream; 2]) {
    let [(a0, b0), (a2, b2), (c0, c2)] = [(); 3].map(|()| UnixStream::pair().unwrap());
    ([seat(0, vec![(1, a0), (2, c0)]), seat(2, vec![(1, a2), (0, c2)])], [b0, b2])
}

/// A part of rank 1 in an exchange.
fn part(sequence: u64, step: &str) -> Vec<u8> {
    encode(us(1), Kind::Gather, sequence, step, b"one", 0)
}

/// What each survivor has of exchanges `a` and `b` when rank 1 does `act` on both sockets, then leaves them open.
fn survivors(act: impl Fn(usize, &mut UnixStream) + Sync) -> Vec<Vec<Result<Vec<Vec<u8>>>>> {
    let (seats, mut sockets) = around_rank_1();
    let start = Instant::now();
    let results = std::thread::scope(|scope| {
        let both = |seat| move || ["a", "b"].map(|step| Bootstrap::all_gather(seat, step, vec![7])).to_vec();
        let threads: Vec<_> = seats.iter().map(|seat| scope.spawn(both(seat))).collect();
        sockets.iter_mut().enumerate().for_each(|(n, socket)| act(n, socket));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(start.elapsed() < SOON);
    results
}

fn send(socket: &mut UnixStream, messages: &[Vec<u8>]) {
    messages.iter().for_each(|message| socket.write_all(message).unwrap());
}

/// Both survivors fail, and name rank 1; one of them says why.
fn all_fail(name: &str, words: &str, act: impl Fn(usize, &mut UnixStream) + Sync) {
    let errors: Vec<Error> =
        survivors(act).into_iter().map(|mut both| both.remove(1).expect_err(name)).collect();
    for error in &errors {
        assert!(error.to_string().contains("rank 1") || error.to_string().contains("[1"), "{name}: {error}");
    }
    assert!(errors.iter().any(|error| error.to_string().contains(words)), "{name}: {errors:?}");
}

#[test]
fn what_comes_in_time_is_taken() {
    let late = |socket: &mut UnixStream, message: Vec<u8>| {
        for piece in message.chunks(100) {
            std::thread::sleep(TIMEOUT / 20);
            socket.write_all(piece).unwrap();
        }
    };
    let results = survivors(|_, socket| {
        late(socket, part(0, "a"));
        late(socket, part(1, "b"));
    });
    for result in results.into_iter().flatten() {
        assert_eq!(result.unwrap(), [vec![7], b"one".to_vec(), vec![7]]);
    }
}

#[test]
fn what_is_wrong_ends_the_exchange_on_all_ranks() {
    let flipped = |at: usize| {
        let mut message = part(0, "a");
        message[at] ^= 1;
        message
    };
    let strange = |from: Identity| encode(from, Kind::Gather, 0, "a", b"", 0);
    let table: [(&str, &str, Vec<Vec<u8>>); 10] = [
        ("lost", "missing ranks: [1]", vec![]),
        ("the second lost", "missing ranks: [1]", vec![part(0, "a")]),
        ("doubled", "it is message 0, number 1 is due", vec![part(0, "a"), part(0, "a")]),
        ("out of step", "it is message 5, number 0 is due", vec![part(5, "a")]),
        ("header changed", "its bytes were changed", vec![flipped(30)]),
        ("payload changed", "its bytes were changed", vec![flipped(part(0, "a").len() - 1)]),
        ("of another job", "another communicator", vec![strange(Identity { job: JobId([8; 16]), ..us(1) })]),
        ("of another rank", "it says that rank 2 sent it", vec![strange(us(2))]),
        ("cut short", "missing ranks: [1]", vec![part(0, "a")[..50].to_vec()]),
        (
            "without its descriptor",
            "0 file descriptors came with it, not 1",
            vec![encode(us(1), Kind::Gather, 0, "a", b"", 1)],
        ),
    ];
    for (name, words, messages) in table {
        all_fail(name, words, |_, socket| send(socket, &messages));
    }
}

#[test]
fn a_message_lost_on_one_way_ends_all() {
    all_fail("lost to rank 2", "missing ranks: [1]", |n, socket| {
        if n == 0 {
            send(socket, &[part(0, "a")]);
        }
    });
}

#[test]
fn a_closed_socket_is_noticed_at_once() {
    let close = |messages: Vec<Vec<u8>>| {
        move |_: usize, socket: &mut UnixStream| {
            send(socket, &messages);
            socket.shutdown(std::net::Shutdown::Both).unwrap();
        }
    };
    all_fail("dead", "its process ended", close(vec![]));
    all_fail("dead after a message", "its process ended", close(vec![part(0, "a")]));
    all_fail("dead in a message", "it ended after 50 bytes", close(vec![part(0, "a")[..50].to_vec()]));
    let goodbye = encode(us(1), Kind::Goodbye, 0, "goodbye", b"", 0);
    all_fail("gone", "it left the communicator", close(vec![goodbye]));
}

#[test]
fn another_step_is_a_mismatch_and_all_goes_on() {
    let results = survivors(|_, socket| send(socket, &[part(0, "x"), part(1, "b")]));
    for both in results {
        let error = both[0].as_ref().unwrap_err().to_string();
        assert!(error.contains("rank 0 a; rank 1 x; rank 2 a"), "{error}");
        assert!(both[1].is_ok());
    }
}

/// Breaking off is a death for the others, who are told at once.
#[test]
fn who_breaks_off_is_taken_for_dead() {
    let ([first, second], _sockets) = around_rank_1();
    second.break_off();
    let error = Bootstrap::all_gather(&first, "a", vec![]).unwrap_err().to_string();
    assert!(error.contains("rank 2 failed: its process ended, or closed"), "{error}");
}

/// Only a death ends what kernels wait for: no leave, and nothing after this rank's own leave.
#[test]
fn only_a_death_is_told_to_the_watch() {
    let n_told = |act: fn(&mut UnixStream, &ProcessSeat) -> bool| {
        let ([first, _second], [mut socket, _other]) = around_rank_1();
        let told = Arc::new(AtomicU32::new(0));
        let its = told.clone();
        first.watch(Box::new(move |error| {
            assert!(error.to_string().contains("rank 1"), "{error}");
            its.fetch_add(1, Ordering::Relaxed);
        }));
        let may_be_told = act(&mut socket, &first);
        // An exchange may end a moment before the watch is told why.
        let start = std::time::Instant::now();
        while may_be_told && told.load(Ordering::Relaxed) == 0 && start.elapsed().as_secs() < 30 {
            std::thread::yield_now();
        }
        drop(first);
        told.load(Ordering::Relaxed)
    };
    let wait_for_end = |socket: &mut UnixStream, seat: &ProcessSeat| {
        socket.shutdown(std::net::Shutdown::Both).unwrap();
        Bootstrap::all_gather(seat, "a", vec![]).unwrap_err();
        true
    };
    assert_eq!(n_told(wait_for_end), 1);
    assert_eq!(
        n_told(|socket, seat| {
            send(socket, &[encode(us(1), Kind::Goodbye, 0, "goodbye", b"", 0)]);
            Bootstrap::all_gather(seat, "a", vec![]).unwrap_err();
            false
        }),
        0
    );
    assert_eq!(
        n_told(|socket, seat| {
            seat.leave();
            socket.shutdown(std::net::Shutdown::Both).unwrap();
            false
        }),
        0
    );
}

#[test]
fn descriptors_arrive_and_are_closed() {
    let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (a, b) = UnixStream::pair().unwrap();
    let of_two = |rank: u32, socket: UnixStream| {
        let mut channels = vec![None, None];
        channels[1 - rank as usize] = Some((Channel::new(OwnedFd::from(socket)), Assembler::default()));
        ProcessSeat::new(Identity { n_ranks: 2, ..us(rank) }, channels, SOON).unwrap()
    };
    let (first, second) = (of_two(0, a), of_two(1, b));
    let meet = Barrier::new(2);
    let before = count();
    let run = |seat: &ProcessSeat, word: &'static str| {
        for _ in 0..64 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(word.as_bytes()).unwrap();
            drop(theirs);
            let parts = seat.all_gather_fds("a", vec![], &[ours.as_fd()]).unwrap();
            drop(ours);
            let fd = parts.into_iter().flat_map(|(_, fds)| fds).next().expect("the peer sent one");
            let mut text = String::new();
            UnixStream::from(fd).read_to_string(&mut text).unwrap();
            assert_eq!(text, if word == "zero" { "one" } else { "zero" });
        }
        meet.wait();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| run(&first, "zero"));
        scope.spawn(|| run(&second, "one"));
    });
    // Other tests of this process open and close files meanwhile; 128 that leaked would show.
    assert!(count() < before + 64, "{before} before, {} after", count());
}
