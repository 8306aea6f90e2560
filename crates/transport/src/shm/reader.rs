//! The reader's side: the channels from all writers, on which one thread waits at a time.

mod leading;

use super::channel_end::{Gone, WriterGone, WriterId};
use super::corrupt::Corrupt;
use super::error::{ConnectError, TakeError};
use super::futex::{self, MAX_WORDS};
use super::link::{Address, Link, Peer, Received, Trust, USER_MESSAGES_PER_PACKET};
use super::memory::{Memory, View, whole_pages};
use super::message::{Message, ReaderKey, Refusal, UserMessage, WriterKey};
use super::page::{OwnedPage, PeerPage, Words};
use super::ring::{self, Descriptor, HOLD_PROBE, Metadata, Overflow, RING_PROBE, Receiver, Shape, Shared, Taken};
use super::sample::{ChannelCore, Sample, Segment};
use super::sync::Ordering;
use super::turns::{Turns, WriterDoorbell};
use super::wake::{DOORBELL_WORDS, LOCAL_DOORBELLS, SLEEPER_WORDS, Sleeper};
use super::writer_channel::probe;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Messages of one writer that are handled per call, so that the call ends whatever the writer sends.
const MAX_MESSAGES: usize = 1024;
/// Messages from the user of one writer that wait for [`Reader::poll_messages`]. A writer that sends more is at fault:
/// its user answers messages of the reader's user.
const USER_MESSAGES_MAX: usize = 256;
/// Most writer processes: the words that a thread can wait for, but for those of its own process.
const PROCESSES_MAX: usize = MAX_WORDS - LOCAL_DOORBELLS;
/// Most channels together with the ends that wait for [`Reader::poll_gone`]: as many as Linux permits descriptors to a
/// process (`fs.nr_open`). Each channel has one, but an end that waits has none.
const CHANNELS_MAX: usize = 1 << 20;
/// Bounds of a [`Reader`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReaderConfig {
    /// Most samples of each writer that the reader can hold: at most 16,384. The writer may grant less.
    pub holds: u32,
    /// Most memory of each writer that the reader maps, in bytes.
    pub max_mapped_bytes: usize,
    /// Users whose writers are trusted.
    pub trust: Trust,
}

impl Default for ReaderConfig {
    /// 1,024 samples, 2 GiB, and writers of the same user.
    fn default() -> Self {
        Self { holds: 1024, max_mapped_bytes: 2 << 30, trust: Trust::SameUser }
    }
}

/// Counters of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReaderStatistics {
    /// Writers with an open channel.
    pub writers: usize,
    /// Mapped segments, except those that only samples still keep.
    pub segments: usize,
    /// Size of these segments, in bytes.
    pub mapped_bytes: usize,
    /// Samples taken.
    pub taken: u64,
    /// Samples that writers withdrew before the reader took them, past writers included.
    pub lost: u64,
    /// Number of times that the reader went to sleep.
    pub sleeps: u64,
}

/// Takes the samples of any number of writers, in up to 126 other processes. One reader serves a whole process.
///
/// Has no lock and no thread: one thread at a time takes and waits. Samples may be dropped on any thread. A
/// [`Follower`](super::Follower) may sleep beside the thread that takes.
#[derive(Debug)]
pub struct Reader {
    config: ReaderConfig,
    turns: Turns,
    sleeper_memory: Memory,
    channels: Vec<Channel>,
    /// Channel at which the next search starts.
    turn: usize,
    next_writer: u64,
    /// With [`Self::channels`] at most [`CHANNELS_MAX`].
    gone: VecDeque<WriterGone>,
    statistics: ReaderStatistics,
}

/// Connects a [`Reader`] to writers, on any thread.
#[derive(Clone, Debug)]
pub struct Connector {
    config: ReaderConfig,
    sleeper: Memory,
}

impl Connector {
    /// Requests that a writer of another process admit the reader, on behalf of `reader`. [`Connecting::poll`] returns
    /// the answer.
    ///
    /// # Errors
    /// No listener has this address in this network namespace; its backlog is full; its user is not trusted; or the
    /// system is short of descriptors or memory.
    pub fn connect(&self, address: Address, writer: WriterKey, reader: ReaderKey) -> io::Result<Connecting> {
        let Self { config, sleeper } = self;
        let link = Link::connect(address, config.trust)?;
        let shape = Shape { entries: 1, holds: config.holds, overflow: Overflow::Block };
        let (len, populated) = (shape.hold_words() * 8, shape.first_hold_words() * 8);
        let memory = Memory::with_populated("peregrine-holds", len, populated)?;
        let holds = OwnedPage::new(Words::of(&memory));
        let probe = probe()?;
        holds.store(HOLD_PROBE, probe, Ordering::Release);
        let hello = Message::Hello { writer, reader, holds: config.holds, probe };
        if !link.send(&hello, &[sleeper.as_fd(), memory.as_fd()])? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Connecting { link: Some(link), holds: Some(holds), asked: config.holds })
    }
}

/// Acknowledges samples to a writer by a number, whose meaning the user of this module defines.
#[derive(Clone, Debug)]
pub struct AckHandle(Arc<ChannelCore>);

impl AckHandle {
    /// Sets the number. A system call only if the writer requested a notification for it or a smaller one.
    pub fn set(&self, value: u64) {
        if self.0.shared.acknowledge(value) {
            self.0.notify_writer();
        }
    }
}

#[derive(Debug)]
struct Channel {
    id: WriterId,
    core: Arc<ChannelCore>,
    receiver: Receiver,
    /// Keeps the doorbell among the words that [`Reader::wait`] waits for.
    doorbell: Arc<WriterDoorbell>,
    /// Sorted by segment number.
    segments: Vec<(u32, Arc<Segment>)>,
    mapped_bytes: usize,
    /// At most [`USER_MESSAGES_MAX`].
    messages: Vec<UserMessage>,
    is_paused: bool,
    gone: Option<Gone>,
}

impl Reader {
    /// Creates a reader without writers.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.16 or does not let this process wait for several futexes; the system is short
    /// of descriptors or memory; or a bound of the configuration is out of range.
    pub fn new(config: ReaderConfig) -> io::Result<Self> {
        futex::probe()?;
        if (Shape { entries: 1, holds: config.holds, overflow: Overflow::Block }).check().is_err() {
            let text = format!("holds {} must be above zero and at most {}", config.holds, Shape::MAX);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let sleeper_memory = Memory::new("peregrine-sleeper", SLEEPER_WORDS * 8)?;
        Ok(Self {
            config,
            turns: Turns::new(Sleeper::new(OwnedPage::new(Words::of(&sleeper_memory)))),
            sleeper_memory,
            channels: Vec::new(),
            turn: 0,
            next_writer: 1,
            gone: VecDeque::new(),
            statistics: ReaderStatistics::default(),
        })
    }

    /// Requests that a writer of another process admit this reader, without naming a reader.
    ///
    /// # Errors
    /// Errors of [`Connector::connect`].
    pub fn connect(&self, address: Address, writer: WriterKey) -> io::Result<Connecting> {
        self.connector().connect(address, writer, ReaderKey::default())
    }

    /// Returns a connector, which other threads can use.
    #[must_use]
    pub fn connector(&self) -> Connector {
        Connector { config: self.config, sleeper: self.sleeper_memory.clone() }
    }

    /// Starts taking the samples of a writer that has admitted this reader.
    ///
    /// # Errors
    /// The reader is connected to as many writer processes as one thread can wait for, or has too many channels and
    /// unreported ends. The channel ends.
    pub fn add(&mut self, connection: Connection) -> Result<WriterId, TooManyWriters> {
        let Connection { core, doorbell } = connection;
        if self.channels.len() + self.gone.len() >= CHANNELS_MAX {
            return Err(TooManyWriters::Channels);
        }
        self.remove_unused_doorbells();
        let Some(doorbell) = self.turns.add_doorbell(doorbell, PROCESSES_MAX) else {
            return Err(TooManyWriters::Processes);
        };
        let receiver = Receiver::new(core.shared.shape());
        let id = WriterId(self.next_writer);
        self.next_writer += 1;
        self.channels.push(Channel {
            id,
            core,
            receiver,
            doorbell,
            segments: Vec::new(),
            mapped_bytes: 0,
            messages: Vec::new(),
            is_paused: false,
            gone: None,
        });
        debug_assert!(self.channels.len() + self.gone.len() <= CHANNELS_MAX);
        Ok(id)
    }

    /// Pauses or resumes a writer. Samples of a paused writer stay in its ring.
    pub fn pause(&mut self, writer: WriterId, is_paused: bool) {
        if let Some(channel) = self.channels.iter_mut().find(|channel| channel.id == writer) {
            channel.is_paused = is_paused;
        }
    }

    /// Sends messages to the user of a writer, in few packets. Returns false if the link is full or the writer is gone;
    /// then some messages may have been sent.
    pub fn send_messages(&self, writer: WriterId, messages: &[UserMessage]) -> bool {
        let channel = self.channels.iter().find(|channel| channel.id == writer);
        channel.is_some_and(|channel| {
            let mut packets = messages.chunks(USER_MESSAGES_PER_PACKET);
            packets.all(|packet| matches!(channel.core.link.send_user_messages(packet), Ok(true)))
        })
    }

    /// The messages from the user of the next writer that has sent any. [`Self::take`] and [`Self::service`] receive
    /// messages.
    pub fn poll_messages(&mut self) -> Option<(WriterId, Vec<UserMessage>)> {
        let channel = self.channels.iter_mut().find(|channel| !channel.messages.is_empty())?;
        Some((channel.id, std::mem::take(&mut channel.messages)))
    }

    /// The handle that acknowledges samples of this writer; `None` if the writer is gone.
    #[must_use]
    pub fn ack_handle(&self, writer: WriterId) -> Option<AckHandle> {
        self.channels.iter().find(|channel| channel.id == writer).map(|channel| AckHandle(Arc::clone(&channel.core)))
    }

    /// The next sample of any writer, round-robin; samples of one writer come in order. `None` if there is none now.
    ///
    /// # Errors
    /// As many samples of a writer are held as agreed, so no more of them can be taken, and no other writer has a
    /// sample.
    pub fn take(&mut self) -> Result<Option<Sample>, TakeError> {
        let count = self.channels.len();
        let mut result = Ok(None);
        let mut some_gone = false;
        for step in 0..count {
            let place = (self.turn + step) % count;
            let Some(channel) = self.channels.get_mut(place) else { break };
            match channel.take(self.config.max_mapped_bytes) {
                Ok(Some(sample)) => {
                    self.turn = (place + 1) % count;
                    self.statistics.taken += 1;
                    return Ok(Some(sample));
                }
                Ok(None) => some_gone |= channel.is_over(),
                Err(error) => result = Err(error),
            }
        }
        if some_gone {
            self.remove_gone();
        }
        result
    }

    /// Iterates in place over the next samples of one blocking writer, chosen round-robin. `None` if there are none
    /// now; [`Self::take`] returns samples that are not shown here.
    pub fn in_place(&mut self) -> Option<InPlace<'_>> {
        let Self { config, channels, turn, statistics, .. } = self;
        let count = channels.len();
        let mut places = (*turn..count).chain(0..*turn);
        let place = places.find(|&place| channels.get(place).is_some_and(Channel::has_in_place))?;
        let channel = channels.get_mut(place)?;
        if channel.receiver.has_messages(&channel.core.shared) {
            // A ring that is never empty would delay them for ever.
            channel.listen(config.max_mapped_bytes);
            if !channel.has_in_place() {
                return None;
            }
        }
        let first = channel.receiver.peek(&channel.core.shared);
        channel.prefetch(first);
        let max_mapped_bytes = config.max_mapped_bytes;
        let (next_turn, passed, ack) = ((place + 1) % count, 0, None);
        Some(InPlace { channel, first, max_mapped_bytes, turn, next_turn, statistics, passed, ack })
    }

    /// Whether [`Self::take`] may have something to return: samples, messages of a writer, or the end of one.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        is_any_ready(&self.channels)
    }

    /// Handles messages of the writers: new and freed segments, and ends of channels. Call this when one of
    /// [`Self::descriptors`] is readable, and periodically. [`Self::take`] still returns samples that a writer
    /// published before it ended.
    pub fn service(&mut self) {
        for channel in &mut self.channels {
            channel.listen(self.config.max_mapped_bytes);
        }
    }

    /// Ends the channel from a writer.
    pub fn remove(&mut self, writer: WriterId) {
        if let Some(channel) = self.channels.iter_mut().find(|channel| channel.id == writer) {
            channel.gone = Some(Gone::Closed);
        }
        self.remove_gone();
    }

    /// Looks for writers that are gone and have no sample left, for [`Self::poll_gone`]. [`Self::take`] looks for them
    /// only if no writer has a sample, so that a caller that always finds one has to call this from time to time.
    pub fn look_for_ends(&mut self) {
        self.remove_gone();
    }

    /// The next writer that is gone and was not reported yet.
    pub fn poll_gone(&mut self) -> Option<WriterGone> {
        self.gone.pop_front()
    }

    /// The writers and their processes.
    pub fn writers(&self) -> impl Iterator<Item = (WriterId, Peer)> {
        self.channels.iter().map(|channel| (channel.id, channel.core.link.peer()))
    }

    /// Descriptors that become readable when [`Self::service`] has work.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.channels.iter().map(|channel| channel.core.link.as_fd())
    }

    /// Number of times that the reader went to sleep.
    #[must_use]
    pub const fn sleeps(&self) -> u64 {
        self.turns.sleeps()
    }

    /// Counters of this reader.
    #[must_use]
    pub fn statistics(&self) -> ReaderStatistics {
        let channels = self.channels.iter();
        let lost = total_lost(self.statistics.lost, channels.clone().map(|channel| channel.receiver.lost()));
        ReaderStatistics {
            writers: self.channels.len(),
            segments: channels.clone().map(|channel| channel.segments.len()).sum(),
            mapped_bytes: channels.map(|channel| channel.mapped_bytes).sum(),
            lost,
            sleeps: self.turns.sleeps(),
            ..self.statistics
        }
    }

    fn remove_gone(&mut self) {
        let count = self.channels.len();
        let mut place = 0;
        while let Some(channel) = self.channels.get(place) {
            let Some(reason) = channel.gone.filter(|_| channel.is_over()) else {
                place += 1;
                continue;
            };
            let channel = self.channels.swap_remove(place);
            if !matches!(reason, Gone::Ended | Gone::Died) {
                // Samples of the application keep the link open. Without room for the message, the writer learns of the
                // end when the link closes.
                let _ = channel.core.link.send(&Message::Leave, &[]);
            }
            let lost = channel.receiver.lost();
            self.statistics.lost = total_lost(self.statistics.lost, [lost]);
            self.gone.push_back(WriterGone { writer: channel.id, reason, lost });
            debug_assert!(self.channels.len() + self.gone.len() <= CHANNELS_MAX);
        }
        if self.channels.len() < count {
            self.remove_unused_doorbells();
            // Channels without samples may end often, and the turns of the others go on.
            self.turn %= self.channels.len().max(1);
        }
    }

    fn remove_unused_doorbells(&mut self) {
        let Self { turns, channels, .. } = self;
        turns.keep_doorbells(|used| channels.iter().any(|channel| Arc::ptr_eq(&channel.doorbell, used)));
    }
}

fn is_any_ready(channels: &[Channel]) -> bool {
    channels.iter().any(|channel| channel.is_ready() || channel.is_over())
}

impl Channel {
    fn is_ready(&self) -> bool {
        !self.is_paused && self.receiver.has_entries(&self.core.shared)
            || self.receiver.awaits_messages(&self.core.shared)
    }

    /// Whether a sample can be read in place.
    fn has_in_place(&self) -> bool {
        !self.is_paused && self.gone.is_none() && self.receiver.has_entries_in_place(&self.core.shared)
    }

    /// Fetches the first bytes of the sample into this CPU's caches.
    #[inline]
    fn prefetch(&self, descriptor: Option<Descriptor>) {
        if let Some((descriptor, segment)) = descriptor.and_then(|found| Some((found, self.segment(found.segment)?)))
            && let Some(range) = descriptor.range(segment.view.len())
        {
            segment.view.prefetch(&range);
        }
    }

    /// Whether the writer is gone and none of its samples can be taken any more.
    fn is_over(&self) -> bool {
        match self.gone {
            None => false,
            Some(Gone::Ended | Gone::Died) => !self.is_paused && !self.receiver.has_entries(&self.core.shared),
            Some(Gone::Broken(_) | Gone::Closed) => true,
        }
    }

    fn take(&mut self, max_mapped_bytes: usize) -> Result<Option<Sample>, TakeError> {
        if matches!(self.gone, Some(Gone::Broken(_) | Gone::Closed)) {
            return Ok(None);
        }
        if self.is_paused {
            self.listen_if_announced(max_mapped_bytes);
            return Ok(None);
        }
        let taken = match self.receiver.take(&self.core.shared) {
            Ok(Some(taken)) => taken,
            Ok(None) => {
                self.listen_if_announced(max_mapped_bytes);
                return Ok(None);
            }
            Err(ring::TakeError::TooManyHeld) => return Err(TakeError { writer: self.id }),
            Err(ring::TakeError::Corrupt(Corrupt(what))) => {
                // This replaces an earlier end of the writer: samples behind the corrupt entry are not taken.
                self.gone = Some(Gone::Broken(what));
                return Ok(None);
            }
        };
        if taken.notify {
            self.core.notify_writer();
        }
        Ok(self.sample(taken, max_mapped_bytes))
    }

    fn sample(&mut self, taken: Taken, max_mapped_bytes: usize) -> Option<Sample> {
        let Taken { descriptor, cell, .. } = taken;
        if self.segment(descriptor.segment).is_none() {
            // The writer announces a segment before it publishes a sample in it.
            self.listen(max_mapped_bytes);
        }
        let found = self.segment(descriptor.segment).and_then(|segment| {
            let range = descriptor.range(segment.view.len())?;
            Some((Arc::clone(segment), range))
        });
        let Some((segment, range)) = found else {
            self.core.shared.release(cell);
            if !matches!(self.gone, Some(Gone::Broken(_))) {
                // This replaces an end of the writer that was observed meanwhile: a working writer announces all
                // segments before it ends.
                self.gone = Some(Gone::Broken("the writer published bytes outside its segments"));
            }
            return None;
        };
        Some(Sample::new(segment, range, descriptor.metadata, self.id, cell))
    }

    #[inline]
    fn segment(&self, number: u32) -> Option<&Arc<Segment>> {
        let place = match self.segments.first() {
            // Samples of one size are usually all in the first segment.
            Some((first, _)) if *first == number => 0,
            _ => self.segments.binary_search_by_key(&number, |(number, _)| *number).ok()?,
        };
        self.segments.get(place).map(|(_, segment)| segment)
    }

    /// Receives messages, if the writer has announced some.
    fn listen_if_announced(&mut self, max_mapped_bytes: usize) {
        if self.receiver.has_messages(&self.core.shared) && self.gone.is_none() {
            self.listen(max_mapped_bytes);
        }
    }

    fn listen(&mut self, max_mapped_bytes: usize) {
        for _ in 0..MAX_MESSAGES {
            if self.gone.is_some() {
                return;
            }
            match self.core.link.receive() {
                Received::Nothing => return,
                Received::Message(Message::Segment { segment, len }, [Some(fd), None]) => {
                    self.map(segment, len, &fd, max_mapped_bytes);
                }
                Received::Message(Message::Retired { segment }, _) => self.unmap(segment),
                Received::UserMessages(messages) => {
                    if self.messages.len() + messages.len() > USER_MESSAGES_MAX {
                        return self.end(Gone::Broken("the writer's process sent more messages than it was asked for"));
                    }
                    self.messages.extend(messages);
                    debug_assert!(self.messages.len() <= USER_MESSAGES_MAX);
                }
                Received::Message(Message::Leave, _) => self.end(Gone::Ended),
                Received::Closed => self.end(Gone::Died),
                Received::Broken(what) => self.end(Gone::Broken(what)),
                Received::Message(..) => self.end(Gone::Broken("the writer sent a message that only readers send")),
            }
        }
    }

    fn map(&mut self, number: u32, len: u64, fd: &OwnedFd, max_mapped_bytes: usize) {
        let Err(place) = self.segments.binary_search_by_key(&number, |(number, _)| *number) else {
            return self.end(Gone::Broken("the writer announced a segment twice"));
        };
        let room = max_mapped_bytes.saturating_sub(self.mapped_bytes);
        let Some(len) = usize::try_from(len).ok().filter(|&len| len <= room) else {
            return self.end(Gone::Broken("the writer's segments are larger than max_mapped_bytes allows"));
        };
        match View::new(fd, len) {
            Ok(view) => {
                self.mapped_bytes += len;
                let segment = Segment { view, core: Arc::clone(&self.core) };
                self.segments.insert(place, (number, Arc::new(segment)));
            }
            Err(_) => self.end(Gone::Broken("a segment differs from its announcement or cannot be mapped")),
        }
    }

    fn unmap(&mut self, number: u32) {
        if let Ok(place) = self.segments.binary_search_by_key(&number, |(number, _)| *number) {
            let (_, segment) = self.segments.remove(place);
            self.mapped_bytes -= segment.view.len();
        }
    }

    fn end(&mut self, reason: Gone) {
        self.gone.get_or_insert(reason);
    }
}

/// Saturates: a hostile writer can claim any number of lost samples.
fn total_lost(before: u64, more: impl IntoIterator<Item = u64>) -> u64 {
    more.into_iter().fold(before, u64::saturating_add)
}

/// Samples of one writer, read in place. A finished sample is returned without having been held, which costs less than
/// a [`Sample`] where the bytes are copied anyway.
#[derive(Debug)]
pub struct InPlace<'r> {
    channel: &'r mut Channel,
    /// Descriptor of the next sample, if already loaded.
    first: Option<Descriptor>,
    max_mapped_bytes: usize,
    turn: &'r mut usize,
    next_turn: usize,
    statistics: &'r mut ReaderStatistics,
    passed: u64,
    ack: Option<u64>,
}

impl InPlace<'_> {
    /// The writer of these samples.
    #[must_use]
    pub fn writer(&self) -> WriterId {
        self.channel.id
    }

    /// Calls `look` with the metadata and the bytes of the next sample, if it has at most `max_len` bytes. `look`
    /// returns whether it is done with the sample; then the slot returns to the writer. Returns false if `look` is not
    /// done or was not called: then [`Reader::take`] returns the sample. The writer can change the bytes at any time,
    /// as with [`Sample`].
    #[inline]
    pub fn next(&mut self, max_len: usize, look: impl FnOnce(Metadata, &[u8]) -> bool) -> bool {
        let is_done = self.peek(max_len).is_some_and(|(metadata, bytes)| look(metadata, bytes));
        if is_done {
            self.first = None;
            self.channel.receiver.pass(&self.channel.core.shared);
            self.passed += 1;
        }
        is_done
    }

    /// Metadata of the next sample, of any length; `None` if there is none to be read in place.
    #[inline]
    #[must_use]
    pub fn metadata(&self) -> Option<Metadata> {
        self.descriptor().map(|descriptor| descriptor.metadata)
    }

    /// Takes the next sample like [`Reader::take`]; the writer is notified when this iterator is dropped. `None` if
    /// [`Reader::take`] has to be called instead.
    pub fn hold(&mut self) -> Option<Sample> {
        self.first = None;
        let taken = self.channel.receiver.take_in_batch(&self.channel.core.shared).ok().flatten()?;
        self.passed += 1;
        self.channel.sample(taken, self.max_mapped_bytes)
    }

    #[inline]
    fn peek(&self, max_len: usize) -> Option<(Metadata, &[u8])> {
        let descriptor = self.descriptor()?;
        let view = &self.channel.segment(descriptor.segment)?.view;
        let range = descriptor.range(view.len()).filter(|range| range.len() <= max_len)?;
        // SAFETY: the entry is not passed, so a writer that follows the protocol does not write its slot.
        Some((descriptor.metadata, unsafe { view.bytes(range)? }))
    }

    #[inline]
    fn descriptor(&self) -> Option<Descriptor> {
        self.first.or_else(|| self.channel.receiver.peek(&self.channel.core.shared))
    }

    /// Acknowledges a number when this iterator is dropped; see [`AckHandle::set`].
    pub fn acknowledge(&mut self, value: u64) {
        self.ack = Some(value);
    }
}

impl Drop for InPlace<'_> {
    fn drop(&mut self) {
        if self.passed == 0 && self.ack.is_none() {
            return;
        }
        *self.turn = self.next_turn;
        self.statistics.taken += self.passed;
        let core = &self.channel.core;
        if core.shared.finish_batch(self.ack) {
            core.notify_writer();
        }
    }
}

/// A pending request for admission. Its descriptor is readable when the answer has arrived.
#[derive(Debug)]
pub struct Connecting {
    link: Option<Link>,
    holds: Option<OwnedPage>,
    asked: u32,
}

/// An admitted reader, to be [added](Reader::add).
#[derive(Debug)]
pub struct Connection {
    core: Arc<ChannelCore>,
    doorbell: WriterDoorbell,
}

impl Connecting {
    /// Process and user at the other end, as the kernel reports them; `None` once the connection was returned.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        self.link.as_ref().map(Link::peer)
    }

    /// The connection, once the writer's process has answered; `None` before.
    ///
    /// # Errors
    /// The writer refused or closed, or its memory is not as announced. A further call does not help.
    pub fn poll(&mut self) -> Result<Option<Connection>, ConnectError> {
        let received = self.link.as_ref().map_or(Received::Closed, Link::receive);
        match received {
            Received::Nothing => Ok(None),
            Received::Message(Message::Refused(reason), _) => Err(ConnectError::Refused(reason)),
            Received::Message(
                Message::Welcome { entries, holds, overflow, doorbell, probe },
                [Some(ring), Some(doorbells)],
            ) => {
                let shape = Shape { entries, holds, overflow };
                let (Some(link), Some(own)) = (self.link.take(), self.holds.take()) else {
                    return Err(ConnectError::Closed);
                };
                if holds > self.asked {
                    return Err(ConnectError::Closed);
                }
                open(link, own, shape, (ring, probe), (doorbells, doorbell)).map(Some)
            }
            Received::Message(..) | Received::UserMessages(_) | Received::Closed | Received::Broken(_) => {
                Err(ConnectError::Closed)
            }
        }
    }
}

impl AsFd for Connecting {
    /// # Panics
    /// After [`Self::poll`] has returned the connection.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_ref().map_or_else(|| unreachable!("the connection was given"), Link::as_fd)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.core.link.as_fd()
    }
}

fn open(
    link: Link,
    holds: OwnedPage,
    shape: Shape,
    (ring, probe): (OwnedFd, u64),
    (doorbells, index): (OwnedFd, u32),
) -> Result<Connection, ConnectError> {
    let memory = |error: io::Error| ConnectError::Memory(error.to_string());
    let page = |fd: &OwnedFd, words: usize, populated: usize| {
        let len = whole_pages(words.saturating_mul(8)).ok_or(ConnectError::Closed)?;
        View::with_populated(fd, len, populated * 8).map(|view| PeerPage::new(Words::seen(&view))).map_err(memory)
    };
    let ring = page(&ring, shape.ring_words(), shape.first_ring_words())?;
    if ring.load_acquire(RING_PROBE) != probe {
        return Err(ConnectError::Refused(Refusal::NotTheSameMemory));
    }
    let stat = rustix::fs::fstat(&doorbells).map_err(|error| memory(error.into()))?;
    let page = page(&doorbells, DOORBELL_WORDS, DOORBELL_WORDS)?;
    let doorbell = WriterDoorbell { device: stat.st_dev, inode: stat.st_ino, index, page };
    let shared = Shared::new(ring, holds, shape).map_err(|Corrupt(what)| ConnectError::Memory(what.to_owned()))?;
    Ok(Connection { core: Arc::new(ChannelCore { shared, link }), doorbell })
}

/// Why a [`Reader`] takes no further writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooManyWriters {
    /// The reader is connected to 126 writer processes, as many as one thread can wait for.
    Processes,
    /// The reader has 2^20 channels and ends of channels that [`Reader::poll_gone`] has not returned.
    Channels,
}

impl fmt::Display for TooManyWriters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes => write!(f, "one thread waits for at most {PROCESSES_MAX} writer processes"),
            Self::Channels => write!(f, "a process has at most {CHANNELS_MAX} channels and unreported ends of them"),
        }
    }
}

impl std::error::Error for TooManyWriters {}

#[cfg(test)]
mod tests;
