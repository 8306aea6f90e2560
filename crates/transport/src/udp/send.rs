//! Sending: one system call for a batch, from bytes that lie anywhere.

use super::counters::add;
use super::message::{OutgoingDatagrams, SendMessages, send_to};
use super::{MAX_SEGMENTS, MAX_SLICES, MAX_TRAIN_BYTES, Socket, split};
use crate::sys::MAX_INTERRUPTIONS;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::atomic::Ordering;

/// How many messages one `sendmmsg` carries at most.
const BATCH: usize = 32;

/// What to send: a datagram, or a train of datagrams of equal length.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The bytes, one slice after the other; at most [`MAX_SLICES`].
    pub slices: &'a [IoSlice<'a>],
    /// Where to.
    pub destination: SocketAddr,
    /// `None`: one datagram. `Some(n)`: datagrams of `n` bytes each, only the last may be shorter; at most
    /// [`MAX_SEGMENTS`] of them and [`MAX_TRAIN_BYTES`] together, and each fits into the MTU with its
    /// [headers](super::header_bytes).
    pub segment_bytes: Option<NonZeroU16>,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Sent {
    /// Transmits from the front of the batch that are done with: accepted by the kernel, or failed. All of them, but
    /// for [`Socket::try_send`] when the socket's send buffer became full: then the rest can be tried again.
    pub processed: usize,
    /// Transmits the kernel accepted.
    pub accepted: usize,
    /// The first transmit that failed, and why.
    pub first_failure: Option<SendFailure>,
    /// The kernel or the NIC refused a super-datagram during this very call, and segmentation offload was given up for
    /// this socket. Nothing was lost.
    pub segmentation_refused: bool,
}

/// A transmit that was not sent.
#[derive(Debug)]
pub struct SendFailure {
    /// Its place in the batch.
    pub index: usize,
    /// Why. The reasons are also counted, in [`SendErrors`](super::SendErrors).
    pub error: io::Error,
}

impl SendFailure {
    /// Whether the datagram does not fit the way, and must not be fragmented.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.error.raw_os_error() == Some(libc::EMSGSIZE)
    }
}

impl Transmit<'_> {
    fn bytes(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).fold(0, usize::saturating_add)
    }

    /// Checks the limits of a train, because the kernel's own answers differ between versions.
    fn check(&self, segment_bytes: NonZeroU16) -> io::Result<()> {
        let invalid = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        let bytes = self.bytes();
        if self.slices.len() > MAX_SLICES {
            return invalid("a train of datagrams has more than 1024 slices");
        }
        if bytes == 0 {
            return invalid("a train of datagrams has no octets");
        }
        if bytes > MAX_TRAIN_BYTES {
            return invalid("a train of datagrams has more than 65473 octets");
        }
        if bytes.div_ceil(usize::from(segment_bytes.get())) > MAX_SEGMENTS {
            return invalid("a train of datagrams has more than 64 segments");
        }
        Ok(())
    }
}

impl Socket {
    /// Sends the batch in order, waiting while the socket's send buffer is full.
    ///
    /// A transmit that fails is passed over; the others are still sent.
    pub fn send(&self, transmits: &[Transmit<'_>]) -> Sent {
        Batch::new(self, transmits, 0).run()
    }

    /// As [`Self::send`], but returns when the socket's send buffer is full: [`Sent::processed`] tells how far it came.
    pub fn try_send(&self, transmits: &[Transmit<'_>]) -> Sent {
        Batch::new(self, transmits, libc::MSG_DONTWAIT).run()
    }
}

/// A batch on its way.
struct Batch<'a> {
    socket: &'a Socket,
    transmits: &'a [Transmit<'a>],
    flags: libc::c_int,
    /// How often the first transmit that is not done with was tried in vain.
    retries: u32,
    /// The socket's send buffer is full.
    full: bool,
    sent: Sent,
}

/// What to do about an error.
enum Verdict {
    /// Try the same transmit again.
    Retry,
    /// Cut the train here.
    Split,
    /// The send buffer is full: stop here.
    Full,
    /// Pass this transmit over.
    Fail,
}

impl<'a> Batch<'a> {
    fn new(socket: &'a Socket, transmits: &'a [Transmit<'a>], flags: libc::c_int) -> Self {
        Self { socket, transmits, flags, retries: 0, full: false, sent: Sent::default() }
    }

    fn run(mut self) -> Sent {
        // Each turn completes at least one transmit, or is one of a bounded number of retries.
        while !self.full
            && let Some(first) = self.transmits.get(self.sent.processed)
        {
            let offload = self.socket.segmentation_offload();
            let result = match first.segment_bytes {
                Some(segment_bytes) => match first.check(segment_bytes) {
                    Err(error) => {
                        self.fail(error);
                        continue;
                    }
                    Ok(()) if !offload => {
                        self.split(first);
                        continue;
                    }
                    Ok(()) => self.call(offload),
                },
                None => self.call(offload),
            };
            match result {
                Ok((accepted, bytes)) => self.accept(accepted, bytes),
                Err(error) => match self.judge(first, &error) {
                    Verdict::Retry => self.retries += 1,
                    Verdict::Split => self.split_after(first, &error),
                    Verdict::Fail => self.fail(error),
                    Verdict::Full => self.stop(&error),
                },
            }
        }
        self.sent
    }

    /// One system call for the transmits that come next.
    fn call(&self, offload: bool) -> io::Result<(usize, u64)> {
        add(&self.socket.counters.sent.calls, 1);
        let rest = self.transmits.get(self.sent.processed..).unwrap_or_default();
        let fd = self.fd();
        if let [single] = rest {
            let message = self.outgoing(single);
            return match (message.slices, message.segment_bytes) {
                ([bytes], None) => send_to(fd, bytes, message.destination, self.flags),
                _ => SendMessages::<1>::new().send(fd, [message].into_iter(), self.flags),
            };
        }
        // The first has been checked; a later train stops the batch when it must be cut here or breaks a limit.
        let fits = |transmit: &&Transmit<'_>| {
            transmit.segment_bytes.is_none_or(|segment_bytes| offload && transmit.check(segment_bytes).is_ok())
        };
        SendMessages::<BATCH>::new().send(fd, rest.iter().take_while(fits).map(|next| self.outgoing(next)), self.flags)
    }

    /// Counts transmits that the kernel accepted.
    fn accept(&mut self, accepted: usize, bytes: u64) {
        let counters = &self.socket.counters.sent;
        let from = self.sent.processed;
        let done = self.transmits.get(from..from.saturating_add(accepted)).unwrap_or_default();
        let mut datagrams = done.len();
        for transmit in done {
            if let Some(segment_bytes) = transmit.segment_bytes {
                let segments = transmit.bytes().div_ceil(usize::from(segment_bytes.get())).max(1);
                datagrams += segments - 1;
                add(&counters.super_datagrams, (segments > 1).into());
            }
        }
        add(&counters.datagrams, datagrams as u64);
        add(&counters.bytes, bytes);
        self.sent.accepted += done.len();
        self.complete(done.len());
    }

    /// Passes the next transmit over.
    fn fail(&mut self, error: io::Error) {
        self.socket.counters.sent.count_error(&error);
        let index = self.sent.processed;
        self.sent.first_failure.get_or_insert(SendFailure { index, error });
        self.complete(1);
    }

    /// Leaves the rest to be tried again.
    fn stop(&mut self, would_block: &io::Error) {
        self.socket.counters.sent.count_error(would_block);
        self.full = true;
    }

    fn complete(&mut self, transmits: usize) {
        self.sent.processed += transmits;
        self.retries = 0;
    }

    fn judge(&self, first: &Transmit<'_>, error: &io::Error) -> Verdict {
        match error.raw_os_error() {
            Some(libc::EINTR) if self.retries < MAX_INTERRUPTIONS => Verdict::Retry,
            Some(libc::EAGAIN) => Verdict::Full,
            // An ICMP message about an earlier datagram is told in place of sending this one. If it is about this
            // destination, the second try says so again.
            Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH) if self.retries == 0 => Verdict::Retry,
            Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE) if first.segment_bytes.is_some() => Verdict::Split,
            _ => Verdict::Fail,
        }
    }

    /// Cuts a train that the kernel has refused whole with `refusal`. If the pieces are accepted, it was the offload that was refused.
    fn split_after(&mut self, first: &Transmit<'_>, refusal: &io::Error) {
        // A train too large for this destination's path says nothing about others.
        let lasting = refusal.raw_os_error() != Some(libc::EMSGSIZE);
        if self.split(first) && lasting && self.socket.segmentation_offload.swap(false, Ordering::Relaxed) {
            add(&self.socket.counters.sent.fallbacks, 1);
            self.sent.segmentation_refused = true;
        }
    }

    /// Sends the datagrams of a train one by one, many to a system call. Whether the kernel accepted them is the answer.
    fn split(&mut self, first: &Transmit<'_>) -> bool {
        let Some(segment_bytes) = first.segment_bytes else { return false };
        let counters = &self.socket.counters.sent;
        let outcome = split::send(self.fd(), first.slices, self.outgoing(first).destination, segment_bytes, self.flags);
        add(&counters.calls, outcome.calls);
        add(&counters.datagrams, outcome.datagrams);
        add(&counters.bytes, outcome.bytes);
        match outcome.error {
            // Nothing has left yet, so the whole train can be tried again.
            Some(error) if error.kind() == io::ErrorKind::WouldBlock && outcome.datagrams == 0 => {
                self.stop(&error);
                false
            }
            Some(error) => {
                self.fail(error);
                false
            }
            None => {
                add(&counters.split, 1);
                self.sent.accepted += 1;
                self.complete(1);
                true
            }
        }
    }

    fn fd(&self) -> RawFd {
        self.socket.as_fd().as_raw_fd()
    }

    fn outgoing<'t>(&self, transmit: &'t Transmit<'t>) -> OutgoingDatagrams<'t> {
        OutgoingDatagrams {
            slices: transmit.slices,
            destination: (self.socket.peer != Some(transmit.destination)).then_some(transmit.destination),
            segment_bytes: transmit.segment_bytes,
        }
    }
}
