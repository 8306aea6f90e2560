//! Sending: one system call for a batch of scattered bytes.

use super::counters::add;
use super::message::{OutgoingDatagrams, SendMessages, send_to};
use super::{MAX_SEGMENTS, MAX_SLICES, MAX_TRAIN_BYTES, Socket, split};
use crate::sys::MAX_INTERRUPTIONS;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::atomic::Ordering;

/// Most messages of one `sendmmsg`.
const BATCH: usize = 32;

/// A datagram to send, or a train of datagrams of equal length.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The bytes: the concatenation of at most [`MAX_SLICES`] slices.
    pub slices: &'a [IoSlice<'a>],
    /// Destination.
    pub destination: SocketAddr,
    /// `None`: one datagram. `Some(n)`: a train of datagrams of `n` bytes each, of which only the last may be shorter.
    /// A train has at most [`MAX_SEGMENTS`] datagrams and [`MAX_TRAIN_BYTES`] bytes; each datagram fits into the MTU
    /// with its [headers](super::header_bytes).
    pub segment_bytes: Option<NonZeroU16>,
}

/// Result of sending a batch.
#[derive(Debug, Default)]
pub struct Sent {
    /// Number of transmits at the front of the batch that were accepted by the kernel or failed. All of them, except
    /// when the socket's send buffer stayed full: then the caller can send the rest later.
    pub processed: usize,
    /// Number of transmits that the kernel accepted.
    pub accepted: usize,
    /// The first transmit that failed.
    pub first_failure: Option<SendFailure>,
    /// The kernel or the NIC refused a super-datagram during this call, and segmentation offload was turned off for
    /// this socket. No data was lost.
    pub segmentation_refused: bool,
}

/// A transmit that was not sent.
#[derive(Debug)]
pub struct SendFailure {
    /// Index in the batch.
    pub index: usize,
    /// The error. [`SendErrors`](super::SendErrors) counts each kind.
    pub error: io::Error,
}

impl SendFailure {
    /// Whether the datagram exceeds the MTU of the path and must not be fragmented.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.error.raw_os_error() == Some(libc::EMSGSIZE)
    }
}

impl Transmit<'_> {
    fn bytes(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).fold(0, usize::saturating_add)
    }

    /// The datagrams that the network sees.
    fn datagrams(&self) -> u64 {
        let segments = self.segment_bytes.map_or(1, |segment| self.bytes().div_ceil(segment.get().into()).max(1));
        segments as u64
    }

    /// Checks the limits of a train here, because the kernel's own checks differ between versions.
    fn check(&self, segment_bytes: NonZeroU16) -> io::Result<()> {
        let invalid = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        let bytes = self.bytes();
        if self.slices.len() > MAX_SLICES {
            return invalid("a train of datagrams has more than 1024 slices");
        }
        if bytes == 0 {
            return invalid("a train of datagrams has no bytes");
        }
        if bytes > MAX_TRAIN_BYTES {
            return invalid("a train of datagrams has more than 65473 bytes");
        }
        if bytes.div_ceil(usize::from(segment_bytes.get())) > MAX_SEGMENTS {
            return invalid("a train of datagrams has more than 64 segments");
        }
        Ok(())
    }
}

impl Socket {
    /// Sends the batch in order. While the socket's send buffer is full, waits for up to
    /// [`SEND_WAIT_MAX`](super::SEND_WAIT_MAX), then returns; [`Sent::processed`] states how many transmits are done.
    ///
    /// A transmit that fails is skipped; the others are still sent.
    pub fn send(&self, transmits: &[Transmit<'_>]) -> Sent {
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if let Some(simulated) = &self.simulated {
            return self.send_in_simulation(simulated, transmits);
        }
        Batch::new(self, transmits, 0).run()
    }

    /// Like [`Self::send`], but does not wait while the socket's send buffer is full.
    pub fn try_send(&self, transmits: &[Transmit<'_>]) -> Sent {
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if let Some(simulated) = &self.simulated {
            return self.send_in_simulation(simulated, transmits);
        }
        Batch::new(self, transmits, libc::MSG_DONTWAIT).run()
    }

    /// Like [`Self::try_send`], to a host whose link-layer address is not known. Datagrams without room are not sent
    /// later: they are counted as [unresolved](super::SendErrors::unresolved).
    pub fn send_to_unresolved(&self, transmits: &[Transmit<'_>]) {
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if let Some(simulated) = &self.simulated {
            self.send_in_simulation(simulated, transmits);
            return;
        }
        let sent = Batch { waits: false, ..Batch::new(self, transmits, libc::MSG_DONTWAIT) }.run();
        self.drop_unresolved(transmits.get(sent.processed..).unwrap_or(&[]));
    }

    /// Counts these transmits as [unresolved](super::SendErrors::unresolved), without an attempt to send them.
    pub fn drop_unresolved(&self, transmits: &[Transmit<'_>]) {
        add(&self.counters.sent.unresolved, transmits.iter().map(Transmit::datagrams).sum());
    }

    #[cfg(all(target_os = "linux", feature = "simulation"))]
    /// Every datagram leaves at once; the network may lose it.
    fn send_in_simulation(&self, simulated: &super::simulated::Simulated, transmits: &[Transmit<'_>]) -> Sent {
        let counters = &self.counters.sent;
        add(&counters.calls, 1);
        for transmit in transmits {
            let bytes: Vec<u8> = transmit.slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            let segment = transmit.segment_bytes.map_or(bytes.len().max(1), |segment| segment.get().into());
            for datagram in bytes.chunks(segment) {
                add(&counters.datagrams, 1);
                add(&counters.bytes, datagram.len() as u64);
                simulated.machine().send(self.local_address(), transmit.destination, datagram.to_vec());
            }
        }
        Sent { processed: transmits.len(), accepted: transmits.len(), ..Sent::default() }
    }
}

/// A batch being sent.
struct Batch<'a> {
    socket: &'a Socket,
    transmits: &'a [Transmit<'a>],
    flags: libc::c_int,
    /// Retries of the first transmit that is not done.
    retries: u32,
    /// The socket's send buffer is full.
    full: bool,
    /// The rest of the batch is sent later.
    waits: bool,
    sent: Sent,
}

/// Reaction to an error.
enum Verdict {
    /// Try the same transmit again.
    Retry,
    /// Cut the train in this process.
    Split,
    /// The send buffer is full: stop here.
    Full,
    /// Skip this transmit.
    Fail,
}

impl<'a> Batch<'a> {
    fn new(socket: &'a Socket, transmits: &'a [Transmit<'a>], flags: libc::c_int) -> Self {
        Self { socket, transmits, flags, retries: 0, full: false, waits: true, sent: Sent::default() }
    }

    fn run(mut self) -> Sent {
        // Each iteration completes at least one transmit, or is one of a bounded number of retries.
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

    /// One system call for the next transmits.
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
        // The first has been checked; a later train ends the batch if this process must cut it or if it exceeds a
        // limit.
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

    /// Skips the next transmit.
    fn fail(&mut self, error: io::Error) {
        self.socket.counters.sent.count_error(&error);
        let index = self.sent.processed;
        self.sent.first_failure.get_or_insert(SendFailure { index, error });
        self.complete(1);
    }

    /// Leaves the rest to a later call.
    fn stop(&mut self, would_block: &io::Error) {
        if self.waits {
            self.socket.counters.sent.count_error(would_block);
        }
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
            // The kernel reports an ICMP message about an earlier datagram instead of sending this one. If the message
            // concerns this destination, the retry fails again.
            Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH) if self.retries == 0 => Verdict::Retry,
            Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE) if first.segment_bytes.is_some() => Verdict::Split,
            _ => Verdict::Fail,
        }
    }

    /// Cuts a train that the kernel has refused with `refusal`. If the kernel accepts the pieces, it refused the
    /// offload.
    fn split_after(&mut self, first: &Transmit<'_>, refusal: &io::Error) {
        // A train too large for this path does not mean that other trains would be refused.
        let lasting = refusal.raw_os_error() != Some(libc::EMSGSIZE);
        if self.split(first) && lasting && self.socket.segmentation_offload.swap(false, Ordering::Relaxed) {
            add(&self.socket.counters.sent.fallbacks, 1);
            self.sent.segmentation_refused = true;
        }
    }

    /// Sends the datagrams of a train one by one, many per system call. Returns whether the kernel accepted them.
    fn split(&mut self, first: &Transmit<'_>) -> bool {
        let Some(segment_bytes) = first.segment_bytes else { return false };
        let counters = &self.socket.counters.sent;
        let outcome = split::send(self.fd(), first.slices, self.outgoing(first).destination, segment_bytes, self.flags);
        add(&counters.calls, outcome.calls);
        add(&counters.datagrams, outcome.datagrams);
        add(&counters.bytes, outcome.bytes);
        match outcome.error {
            // No datagram has left yet, so the whole train can be sent later.
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
