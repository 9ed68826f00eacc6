//! A stream socket that carries messages and file descriptors. Each call has a deadline.

use super::Identity;
use super::deadline::Deadline;
use super::frame::{Assembler, FDS_MAX, Frame, Refused};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes that one call takes from a socket.
const RECEIVE_BYTES: usize = 16 << 10;

/// A connected socket.
#[derive(Debug)]
pub(super) struct Channel {
    fd: OwnedFd,
}

/// Why a message did not go out, or in.
#[derive(Debug)]
pub(super) enum Failure {
    /// The peer closed its socket: it left, or its process ended.
    Closed,
    /// The deadline passed.
    Late,
    /// What came is no message of this job.
    Refused(Refused),
    /// The operating system refused.
    Os(Errno),
}

/// What one look at a socket brought.
pub(super) enum Arrival {
    /// Bytes, or descriptors; now with the assembler.
    Some,
    /// Nothing yet.
    None,
    /// The stream has ended.
    End,
}

impl Channel {
    /// Takes a connected socket.
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// The socket.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends bytes, with descriptors beside the first of them.
    pub(super) fn send(
        &self,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        deadline: Deadline,
    ) -> Result<(), Failure> {
        let mut sent = 0;
        while sent < bytes.len() {
            let with = if sent == 0 { fds } else { &[] };
            match self.send_some(&bytes[sent..], with) {
                Ok(n) => sent += n,
                Err(Errno::AGAIN) => wait(self.fd(), PollFlags::OUT, deadline)?,
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Failure::Closed),
                Err(errno) => return Err(Failure::Os(errno)),
            }
        }
        Ok(())
    }

    fn send_some(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> rustix::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::INVAL);
        }
        sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    /// Waits for one message.
    pub(super) fn receive(
        &self,
        assembler: &mut Assembler,
        us: Identity,
        peer: Option<u32>,
        deadline: Deadline,
    ) -> Result<Frame, Failure> {
        loop {
            if let Some(frame) = assembler.next(us, peer).map_err(Failure::Refused)? {
                return Ok(frame);
            }
            match self.take(assembler)? {
                Arrival::Some => {}
                Arrival::None => wait(self.fd(), PollFlags::IN, deadline)?,
                Arrival::End => {
                    assembler.end().map_err(Failure::Refused)?;
                    return Err(Failure::Closed);
                }
            }
        }
    }

    /// Takes what has arrived. Waits for nothing.
    pub(super) fn take(&self, assembler: &mut Assembler) -> Result<Arrival, Failure> {
        let mut bytes = [0; RECEIVE_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = match recvmsg(&self.fd, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Arrival::None),
            Err(Errno::CONNRESET) => return Ok(Arrival::End),
            Err(errno) => return Err(Failure::Os(errno)),
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            let refused = Refused::Descriptors { found: fds.len(), expected: fds.len() as u32 + 1 };
            return Err(Failure::Refused(refused));
        }
        if received.bytes == 0 {
            return Ok(Arrival::End);
        }
        assembler.push(&bytes[..received.bytes], fds);
        Ok(Arrival::Some)
    }

    /// Ends both directions. What was sent still arrives; whoever reads here is told at once.
    pub(super) fn shut(&self) {
        if let Err(errno) = shutdown(&self.fd, Shutdown::Both) {
            // A peer that has gone already leaves nothing to shut.
            tracing::debug!(%errno, "shutting a socket down");
        }
    }
}

/// Waits until a descriptor is ready, or has failed.
pub(super) fn wait(fd: BorrowedFd<'_>, what: PollFlags, deadline: Deadline) -> Result<(), Failure> {
    loop {
        if deadline.is_over() {
            return Err(Failure::Late);
        }
        match poll(&mut [PollFd::from_borrowed_fd(fd, what)], Some(&deadline.timespec())) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(Failure::Os(errno)),
        }
    }
}
