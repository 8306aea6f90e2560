//! Receiving: many datagrams per call, into buffers that are handed out by reference and reused after release.

use super::Socket;
use super::counters::{ReceiveCounters, add};
use super::message::{Incoming, ReceiveMessages};
use super::pool::Pool;
use crate::clock::MonotonicNs;
use crate::event::wait_readable;
use std::fmt;
use std::io;
use std::iter::FusedIterator;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;

/// Consecutive ICMP errors, interruptions and truncated datagrams that one call skips before it returns no datagrams.
const MAX_FRUITLESS_CALLS: u32 = 64;

/// While datagrams arrive one at a time, one in this many calls requests several, to detect the start of a burst.
#[cfg(target_os = "linux")]
const BURST_PROBE_CALLS: u32 = 64;

/// How long to wait for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until a datagram arrives or the socket is shut down. The fastest way to wait: one system call per datagram.
    Block,
    /// Not at all.
    NonBlocking,
    /// Until this moment at the latest.
    Until(MonotonicNs),
}

/// Why no more datagrams can be received.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReceiveError {
    /// [`Socket::shut_down`] was called.
    ShutDown,
    /// The operating system refused; the socket is unusable.
    Io(io::Error),
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShutDown => f.write_str("the socket has been shut down"),
            Self::Io(error) => write!(f, "cannot receive: {error}"),
        }
    }
}

impl std::error::Error for ReceiveError {}

/// Settings of a [`Receiver`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverOptions {
    /// Most datagrams or super-datagrams that one system call receives: 1 to 1024.
    pub batch: usize,
    /// Length of each buffer in bytes: 1 to 65,536. The default, 65,536, holds every possible datagram and
    /// super-datagram; a longer one is dropped and counted.
    pub buffer_bytes: usize,
    /// Most buffers, free or held by readers; at least `batch`. When readers hold all of them, datagrams are received
    /// into one private buffer, copied at their exact length, and counted ([`Statistics::pool_exhaustions`]).
    ///
    /// [`Statistics::pool_exhaustions`]: super::Statistics::pool_exhaustions
    pub max_buffers: usize,
}

impl Default for ReceiverOptions {
    /// 16 per call; up to 256 buffers of 64 KiB, which is 16 MiB. The system allocates memory once datagrams fill it.
    fn default() -> Self {
        Self { batch: 16, buffer_bytes: 1 << 16, max_buffers: 256 }
    }
}

/// Receives from any number of sockets, on one thread at a time.
///
/// Datagrams are handed out by reference. A caller that wants to keep the bytes clones the [`Datagram::buffer`]; the
/// receiver reuses the buffer when the last clone is dropped. In the steady state nothing is allocated.
pub struct Receiver {
    pool: Pool,
    /// Buffers of the next receive call; message `i` of `messages` points to buffer `i`.
    slots: Vec<Arc<Vec<u8>>>,
    messages: ReceiveMessages,
    /// Messages of the last call. Readers can hold only these buffers, so only these are checked.
    received: Vec<Received>,
    /// Number of messages that the last call used; the others are still prepared.
    touched: usize,
    batch: usize,
    /// Buffer for a datagram while readers hold every other buffer, and the copy of it.
    private: Vec<u8>,
    copy: Option<Arc<Vec<u8>>>,
    #[cfg(target_os = "linux")]
    burst: Burst,
}

#[cfg(all(target_os = "linux", feature = "simulation"))]
impl Socket {
    /// The next datagram, if there is one; waits as `wait` says.
    fn receive_in_simulation(
        &self,
        simulated: &super::simulated::Simulated,
        wait: Wait,
    ) -> Result<Option<(Vec<u8>, SocketAddr)>, ReceiveError> {
        loop {
            if self.is_shut_down() {
                return Err(ReceiveError::ShutDown);
            }
            if let Some(datagram) = simulated.socket().receive() {
                return Ok(Some(datagram));
            }
            let deadline = match wait {
                Wait::Block => None,
                Wait::NonBlocking => return Ok(None),
                Wait::Until(at) if simulated.machine().monotonic_ns() >= at.0 => return Ok(None),
                Wait::Until(at) => Some(at.0),
            };
            let socket = Arc::clone(simulated.socket());
            let place = crate::simulation::Place::Descriptor(socket.descriptor());
            simulated.machine().block(place, deadline, Arc::new(move || socket.has_datagrams() || socket.is_closed()));
        }
    }
}

/// One received message: a datagram, or a super-datagram of several.
struct Received {
    slot: usize,
    bytes: usize,
    segment_bytes: usize,
    source: SocketAddr,
}

impl Received {
    fn datagrams(&self) -> usize {
        self.bytes.div_ceil(self.segment_bytes).max(1)
    }
}

/// One received datagram.
#[derive(Clone, Debug)]
pub struct Datagram<'a> {
    /// The buffer that contains the datagram, perhaps among others. Clone it to keep the bytes; they never change while
    /// a clone exists.
    pub buffer: &'a Arc<Vec<u8>>,
    /// Position of the datagram in the buffer.
    pub range: Range<usize>,
    /// Address of the sender.
    pub source: SocketAddr,
}

impl<'a> Datagram<'a> {
    /// Payload of the datagram.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.buffer.get(self.range.clone()).unwrap_or_default()
    }
}

impl Receiver {
    /// Creates a receiver with empty buffers. Values of `options` outside their limits are clamped.
    #[must_use]
    pub fn new(options: &ReceiverOptions) -> Self {
        let batch = options.batch.clamp(1, 1024);
        let buffer_bytes = options.buffer_bytes.clamp(1, 1 << 16);
        let mut receiver = Self {
            pool: Pool::new(options.max_buffers.max(batch), buffer_bytes),
            slots: Vec::with_capacity(batch),
            messages: ReceiveMessages::new(batch),
            received: Vec::with_capacity(batch),
            touched: 0,
            batch,
            private: vec![0; buffer_bytes],
            copy: None,
            #[cfg(target_os = "linux")]
            burst: Burst::default(),
        };
        receiver.add_slots();
        receiver
    }

    /// Receives the datagrams that have arrived at `socket`, or waits for one.
    ///
    /// Returns no datagrams when `wait` has ended, and also, rarely, after a long row of ICMP errors or signals. ICMP
    /// errors are counted, never returned. The datagrams of the previous call are gone, except clones of their buffers.
    ///
    /// # Errors
    /// [`ReceiveError::ShutDown`] once [`Socket::shut_down`] was called; [`ReceiveError::Io`] when the socket is
    /// unusable.
    pub fn receive(&mut self, socket: &Socket, wait: Wait) -> Result<Datagrams<'_>, ReceiveError> {
        self.recycle();
        self.received.clear();
        self.copy = None;
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if let Some(simulated) = &socket.simulated {
            if let Some((bytes, source)) = socket.receive_in_simulation(simulated, wait)? {
                self.put_simulated(&bytes, source, &socket.counters.received);
            }
            return Ok(self.datagrams());
        }
        for _ in 0..MAX_FRUITLESS_CALLS {
            if socket.is_shut_down() {
                return Err(ReceiveError::ShutDown);
            }
            match self.call(socket, wait) {
                Ok(messages) => self.collect(messages, &socket.counters.received),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let Wait::Until(deadline) = wait else { break };
                    if !wait_readable(socket.as_fd(), deadline).map_err(ReceiveError::Io)? {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => add(&socket.counters.received.errors, 1),
                Err(error) => return Err(ReceiveError::Io(error)),
            }
            if !self.received.is_empty() {
                break;
            }
            self.recycle();
        }
        if self.received.is_empty() && socket.is_shut_down() {
            return Err(ReceiveError::ShutDown);
        }
        Ok(self.datagrams())
    }

    /// Returns the datagrams of the last call again.
    #[must_use]
    pub fn datagrams(&self) -> Datagrams<'_> {
        Datagrams { receiver: self, message: 0, offset: 0, left: self.received.iter().map(Received::datagrams).sum() }
    }

    /// Receives a datagram of a simulated network.
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    fn put_simulated(&mut self, bytes: &[u8], source: SocketAddr, counters: &ReceiveCounters) {
        add(&counters.datagrams, 1);
        add(&counters.bytes, bytes.len() as u64);
        match self.slots.first_mut().and_then(Arc::get_mut).and_then(|slot| slot.get_mut(..bytes.len())) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.touched = 1;
            }
            None => {
                add(&counters.exhaustions, 1);
                self.copy = Some(Arc::new(bytes.to_vec()));
            }
        }
        self.received.push(Received { slot: 0, bytes: bytes.len(), segment_bytes: bytes.len().max(1), source });
    }

    /// One system call. Returns how many messages it received.
    fn call(&mut self, socket: &Socket, wait: Wait) -> io::Result<usize> {
        let counters = &socket.counters.received;
        add(&counters.calls, 1);
        let fd = socket.as_fd().as_raw_fd();
        let flags = if wait == Wait::Block { 0 } else { libc::MSG_DONTWAIT };
        if self.slots.is_empty() {
            add(&counters.exhaustions, 1);
            self.messages.prepare(0, &mut self.private);
        }
        #[cfg(target_os = "linux")]
        if !self.slots.is_empty() {
            let asked = self.burst.ask(self.slots.len());
            if asked > 1 {
                self.touched = asked;
                // SAFETY: messages 0 to `slots.len() - 1` point to `slots`: `add_slots` and `recycle` prepare each of
                // them whenever its buffer changes or was received into, and leave only buffers without another owner.
                let result = unsafe { self.messages.receive_many(fd, asked, flags) };
                self.burst.received(asked, *result.as_ref().unwrap_or(&0));
                self.touched = *result.as_ref().unwrap_or(&0);
                return result;
            }
        }
        self.touched = 1;
        // SAFETY: message 0 points to slot 0, as above, or to `private`, which has no other owner.
        unsafe { self.messages.receive_one(fd, flags) }
    }

    /// Evaluates the kernel's report about the first `messages` messages.
    fn collect(&mut self, messages: usize, counters: &ReceiveCounters) {
        for slot in 0..messages {
            let Some(incoming) = self.messages.incoming(slot) else { continue };
            if let Some(kernel_drops) = incoming.kernel_drops {
                counters.update_kernel_drops(kernel_drops);
            }
            let Incoming { bytes, source: Some(source), truncated, segment_bytes, .. } = incoming else { continue };
            if truncated {
                add(&counters.truncated, 1);
                continue;
            }
            let segment_bytes = segment_bytes.filter(|&segment| segment > 0).unwrap_or(bytes.max(1));
            let received = Received { slot, bytes, segment_bytes, source };
            let datagrams = received.datagrams();
            add(&counters.datagrams, datagrams as u64);
            add(&counters.bytes, bytes as u64);
            if datagrams > 1 {
                add(&counters.super_datagrams, 1);
            }
            self.received.push(received);
        }
        if self.slots.is_empty()
            && let Some(received) = self.received.first()
        {
            self.copy = self.private.get(..received.bytes).map(|bytes| Arc::new(bytes.to_vec()));
        }
    }

    /// Prepares the messages of the last call again, replacing the buffers that readers have kept.
    fn recycle(&mut self) {
        for index in (0..self.touched.min(self.slots.len())).rev() {
            let Some(slot) = self.slots.get_mut(index) else { continue };
            if Arc::get_mut(slot).is_none() {
                match self.pool.take() {
                    Some(free) => self.pool.put_back(std::mem::replace(slot, free)),
                    None => {
                        let kept = self.slots.swap_remove(index);
                        self.pool.put_back(kept);
                    }
                }
            }
            self.prepare(index);
        }
        self.touched = 0;
        if self.slots.len() < self.batch {
            self.add_slots();
        }
    }

    /// Fills the slots, as far as there are free buffers.
    fn add_slots(&mut self) {
        while self.slots.len() < self.batch {
            let Some(free) = self.pool.take() else { break };
            self.slots.push(free);
            self.prepare(self.slots.len() - 1);
        }
    }

    /// Points message `index` to its slot, when there is such a slot.
    fn prepare(&mut self, index: usize) {
        if let Some(buffer) = self.slots.get_mut(index).and_then(Arc::get_mut) {
            self.messages.prepare(index, buffer);
        }
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").field("batch", &self.batch).field("free", &self.slots.len()).finish_non_exhaustive()
    }
}

/// Errors that concern one datagram, not the socket.
fn is_transient(error: &io::Error) -> bool {
    let code = error.raw_os_error().unwrap_or(0);
    [
        libc::ECONNREFUSED,
        libc::ECONNRESET,
        libc::EHOSTUNREACH,
        libc::EHOSTDOWN,
        libc::ENETUNREACH,
        libc::ENETDOWN,
        libc::EMSGSIZE,
        libc::EPROTO,
        libc::ENOPROTOOPT,
        libc::EACCES,
        libc::ENOBUFS,
        libc::ENOMEM,
    ]
    .contains(&code)
}

/// Decides when to request several messages at once.
///
/// `recvmmsg` looks for a second message after the first, which costs time if there is none. So it is used while it
/// finds several, and every [`BURST_PROBE_CALLS`] calls to detect a burst.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Burst {
    running: bool,
    single_calls: u32,
}

#[cfg(target_os = "linux")]
impl Burst {
    /// Number of messages to request, at most `room`.
    fn ask(&mut self, room: usize) -> usize {
        if self.running || self.single_calls >= BURST_PROBE_CALLS {
            self.single_calls = 0;
            return room;
        }
        self.single_calls += 1;
        1
    }

    fn received(&mut self, asked: usize, received: usize) {
        self.running = asked > 1 && received > 1;
    }
}

/// The datagrams of one [`Receiver::receive`], in the order of their arrival.
#[derive(Clone)]
pub struct Datagrams<'a> {
    receiver: &'a Receiver,
    message: usize,
    /// Start of the next segment in the message.
    offset: usize,
    left: usize,
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        let message = self.receiver.received.get(self.message)?;
        let buffer = match &self.receiver.copy {
            Some(copy) => copy,
            None => self.receiver.slots.get(message.slot)?,
        };
        let end = self.offset.saturating_add(message.segment_bytes).min(message.bytes);
        let range = self.offset..end;
        if end >= message.bytes {
            self.message += 1;
            self.offset = 0;
        } else {
            self.offset = end;
        }
        self.left -= 1;
        Some(Datagram { buffer, range, source: message.source })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Datagrams<'_> {}
impl FusedIterator for Datagrams<'_> {}

impl fmt::Debug for Datagrams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datagrams").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn several_messages_are_requested_during_a_burst_and_periodically() {
        let mut burst = Burst::default();
        for _ in 0..BURST_PROBE_CALLS {
            assert_eq!(burst.ask(16), 1);
            burst.received(1, 1);
        }
        assert_eq!(burst.ask(16), 16, "a probe");
        burst.received(16, 9);
        assert_eq!(burst.ask(16), 16, "the burst goes on");
        burst.received(16, 1);
        assert_eq!(burst.ask(16), 1, "it is over");
    }
}
