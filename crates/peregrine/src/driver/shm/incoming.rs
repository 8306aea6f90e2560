//! Reception of samples from other processes, and the threads that take them.

mod channel;
mod lead_history;
mod shm_receiver;
mod turns;
mod zero_copy_take;

use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, MutexGuard};

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::Guid;
use peregrine_rtps::limits::SHARED_COPIES_BYTES_MAX;
use peregrine_rtps::payload::{BufferPool, Octets, Payload};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Instant;
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::shm::{
    AckHandle, Connection, Connector, Reader, ReaderConfig, Sample, Take, TakeLock, TakenCommands, Turns, WriterId,
};

use super::relief::Relief;
use super::requests::{ChannelKey, ChannelRequest, RequestedChannel};
use super::sample_order::{BehindSamples, COMMANDS_MAX, Order};
use super::services::ShmHost;
use crate::driver::base::adaptive_spin::AdaptiveSpin;
use crate::driver::base::clock::{NEVER, now};
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::reader::ReaderCore;
use crate::driver::host::counters::Counters;
use crate::driver::net::socket_barrier::DeferredMessage;
use crate::driver::route::shm::metadata::{ALIGNING, Entry};
use crate::shared_memory::NoSharedMemory;

/// Maximum number of entries that wait until a reader has room, or until earlier datagrams were received.
pub(super) const BACKLOG_MAX: usize = 32;

/// Callbacks for changes of the attachment of readers.
pub(super) trait Attachments {
    fn counters(&self) -> &Counters;

    /// The reader gets samples of the writer by shared memory from now on.
    fn attached(&self, reader: Guid, writer: Guid);

    /// The reader is not attached any more, and gets messages.
    fn detached(&self, wanted: ChannelRequest, reason: NoSharedMemory);

    /// The process of the writer, to which the reader was attached, has ended.
    fn note_writer_died(&self, reader: Guid, writer: Guid);

    /// The channel has ended before the reader was attached to it.
    fn request_channel_again(&self, wanted: ChannelRequest, reason: NoSharedMemory);
}

pub(in crate::driver) struct Incoming {
    pub(super) connector: Connector,
    /// Number of rounds after which the shared-memory thread does not spin: threads of the application want the lock.
    application_credit: AtomicU32,
    /// A thread that has the lock runs no user code, or [defers](super::super::base::user_code::Deferring) it.
    receiver: TakeLock<ShmReceiver, Command, Request>,
    pub(super) relief: Relief,
}

/// The reader side of all channels, used by one thread at a time.
pub(super) struct ShmReceiver {
    reader: Reader,
    channels: Channels,
    /// Messages to handle when no samples are left to take.
    news: BehindSamples<DeferredMessage>,
    /// Calls of [`ShmReceiver::take`] since the messages of writers were handled.
    takes_since_messages: usize,
    /// Pairs of reader and writer whose first sample has begun to wait for earlier datagrams.
    begun: Vec<(Guid, Guid)>,
    /// Channels with readers that have joined since the last [`ShmReceiver::update_joined`].
    joined: Vec<WriterId>,
    /// Of the threads of the application.
    application_spin: AdaptiveSpin,
    /// The list of threads of the application that lead, while none leads: its memory is reused.
    spare_dirty: Option<DirtyEndpoints>,
}

/// Actions for after the release of the receiver's lock.
#[derive(Default)]
struct DeferredActions {
    news: Vec<DeferredMessage>,
    begun: Vec<(Guid, Guid)>,
}

/// The channel from a writer to readers of this process that have the same reliability.
struct Channel {
    key: ChannelKey,
    /// The address of the writer's process.
    at: SharedMemoryAddress,
    notes: AckHandle,
    /// Its reference count shows the thread that polls connections that the channel exists.
    _count: Arc<()>,
    /// Sorted by index; never empty.
    readers: Vec<AttachedReader>,
    next_index: u32,
    /// Indices whose `Attach` the writer process has not answered: at most
    /// [`UNANSWERED_MAX`](super::requests::UNANSWERED_MAX).
    asked: Vec<u32>,
    is_paused: bool,
    /// Whether readers took entries since the last acknowledgement.
    owes_ack: bool,
}

/// A reader of a channel.
struct AttachedReader {
    core: Arc<ReaderCore>,
    index: u32,
    /// Number of channel requests of the reader in a row.
    attempts: u8,
    /// As [`ReaderRequest::is_reported`](super::requests::ReaderRequest::is_reported), until the reader is attached.
    is_reported: bool,
    order: Order,
    /// When the writer process accepted the reader.
    attached_at: Option<Instant>,
    stage: Stage,
    backlog: Backlog,
    /// Epoch of the last rewind.
    epoch: u32,
    /// The reader has, or never gets, all numbers below this.
    below: Option<SequenceNumber>,
}

/// Entries for which a reader has no room, or that wait for datagrams: at most [`BACKLOG_MAX`]. The only reader of a
/// channel has at most one, because the channel is paused. Most readers never need one.
#[derive(Default)]
#[expect(clippy::box_collection, reason = "one word for each of many readers without a backlog")]
struct Backlog(Option<Box<VecDeque<Pending>>>);

/// The progress of the attachment of a reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The request was not sent: too many messages have no answer yet.
    Queued,
    Asked,
    /// The reader takes the entries that name it, and, from this change on, those for all readers.
    Attached {
        live_from: Option<SequenceNumber>,
    },
    /// The backlog is full: the reader takes no entries until the writer repeats the changes from this one on.
    CatchingUp {
        from: SequenceNumber,
    },
    /// The reader has requested the changes from the writer.
    Rewinding,
}

/// An entry that waits until its reader can take it.
struct Pending {
    entry: Entry,
    payload: Payload,
}

struct Channels {
    /// Sorted by number: there are few, and each sample needs a lookup.
    sorted: Vec<(WriterId, Channel)>,
    /// For copies of samples that several readers of a channel get. Empty while there is no channel.
    copies: BufferPool,
}

enum Command {
    Add(Box<NewChannel>),
    /// Attaches readers to the channels of this process.
    Join(Vec<RequestedChannel>),
    Begin {
        reader: Guid,
        writer: Guid,
    },
    /// Removes a reader from the channel of one writer, or of all.
    Remove {
        reader: Guid,
        writer: Option<Guid>,
    },
    /// A message to handle when no samples are left to take.
    Defer(DeferredMessage),
}

struct NewChannel {
    connection: Connection,
    /// The first reader is the one that the request named.
    wanted: RequestedChannel,
    count: Arc<()>,
}

/// Requests; equal ones are executed once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Resume { reader: Guid },
    LookForEnds,
    RemoveUnmatched,
}

/// A sample in the memory of its writer.
#[derive(Debug)]
struct Held {
    sample: Sample,
}

impl Octets for Held {
    fn octets(&self) -> &[u8] {
        self.sample.get(ALIGNING..).unwrap_or(&[])
    }

    fn is_consistent(&self) -> bool {
        self.sample.is_consistent()
    }
}

impl Incoming {
    pub(in crate::driver) fn new() -> std::io::Result<Self> {
        let reader = Reader::new(ReaderConfig::default())?;
        Ok(Self {
            connector: reader.connector(),
            application_credit: AtomicU32::new(0),
            receiver: TakeLock::new(
                ShmReceiver {
                    reader,
                    channels: Channels::new(),
                    news: BehindSamples::new(),
                    takes_since_messages: 0,
                    begun: Vec::new(),
                    joined: Vec::new(),
                    application_spin: AdaptiveSpin::for_datagrams(),
                    spare_dirty: None,
                },
                COMMANDS_MAX,
            ),
            relief: Relief::new(),
        })
    }

    /// Adds a channel, which holds `count` while it exists.
    pub(in crate::driver) fn add(
        &self,
        connection: Connection,
        wanted: RequestedChannel,
        count: Arc<()>,
        host: &dyn ShmHost,
        shared: &dyn Attachments,
    ) {
        let command = Command::Add(Box::new(NewChannel { connection, wanted, count }));
        // The channel is dropped with the command; its writer notices that, and sends messages.
        if let Err(Command::Add(channel)) = self.send_and_start(command, host) {
            channel.wanted.into_each().for_each(|wanted| shared.detached(wanted, too_many_commands()));
        }
    }

    /// Attaches readers to the channels of this process. All of them are one command: as many as a process has may
    /// join at once.
    pub(in crate::driver) fn join(&self, joining: Vec<RequestedChannel>, host: &dyn ShmHost, shared: &dyn Attachments) {
        if let Err(Command::Join(joining)) = self.send_and_start(Command::Join(joining), host) {
            let each = joining.into_iter().flat_map(RequestedChannel::into_each);
            each.for_each(|wanted| shared.detached(wanted, too_many_commands()));
        }
    }

    fn send_and_start(&self, command: Command, host: &dyn ShmHost) -> Result<(), Command> {
        let is_open = || !self.receiver.is_closing();
        if host.is_polling() {
            self.receiver.commands.try_send(command)
        } else {
            self.receiver.commands.send_and_start(command, || is_open() && host.start_taker(self.relief.current()))
        }
    }

    /// Called when the datagrams before the first sample of a channel were received.
    pub(in crate::driver) fn begin(&self, reader: Guid, writer: Guid) {
        self.receiver.commands.send(Command::Begin { reader, writer });
    }

    /// Defers a message until the shared-memory thread has no samples left to take. Returns the message if there is no
    /// such thread, or too many commands wait.
    pub(in crate::driver) fn defer_behind_samples(
        &self,
        news: DeferredMessage,
        is_polled: bool,
    ) -> Option<DeferredMessage> {
        if is_polled {
            return match self.receiver.commands.try_send(Command::Defer(news)) {
                Err(Command::Defer(news)) => Some(news),
                _ => None,
            };
        }
        self.receiver.commands.send_if_running(news, Command::Defer)
    }

    /// Removes a reader that is closed, or that does not match the writer any more. If the queue of commands is full
    /// (under `Poll` the thread may not run for long), the thread that takes samples checks all readers instead.
    pub(in crate::driver) fn remove(&self, reader: Guid, writer: Option<Guid>) {
        if self.receiver.commands.try_send(Command::Remove { reader, writer }).is_err() {
            self.remove_unmatched();
        }
    }

    /// Removes the readers that are closed, or do not match their writers any more.
    pub(super) fn remove_unmatched(&self) {
        self.receiver.commands.request(Request::RemoveUnmatched);
    }

    pub(in crate::driver) fn resume(&self, reader: Guid) {
        self.receiver.commands.request(Request::Resume { reader });
    }

    /// Called when a writer's process has ended or closed a channel.
    pub(super) fn poll_ends(&self) {
        self.receiver.commands.request(Request::LookForEnds);
    }

    /// Takes all samples. Returns false if there were none, or another thread is taking. Reads the clock only if there
    /// are samples.
    pub(super) fn take_now(
        &self,
        at: &mut Option<Instant>,
        dirty: &mut DirtyEndpoints,
        host: &dyn ShmHost,
        shared: &dyn Attachments,
    ) -> bool {
        let Some(mut receiver) = self.receiver.try_lock() else { return false };
        self.process_commands(&mut receiver, dirty, shared);
        self.take_with(receiver, at, dirty, host, shared)
    }

    fn take_with(
        &self,
        mut receiver: MutexGuard<'_, ShmReceiver>,
        at: &mut Option<Instant>,
        dirty: &mut DirtyEndpoints,
        host: &dyn ShmHost,
        shared: &dyn Attachments,
    ) -> bool {
        let is_ready = receiver.reader.is_ready();
        if !is_ready && dirty.is_empty() && !receiver.has_deferred_actions() {
            receiver.handle_messages_and_ends(shared);
            return false;
        }
        let at = *at.get_or_insert_with(now);
        let has_taken = is_ready && receiver.take(at, dirty, shared) > 0;
        if has_taken && dirty.is_empty() && !receiver.has_deferred_actions() {
            return true;
        }
        if !has_taken {
            receiver.handle_messages_and_ends(shared);
        }
        let acts = receiver.deferred_actions(has_taken);
        drop(receiver);
        dirty.after(at);
        let has_acted = !acts.is_empty();
        acts.perform(host);
        has_taken || has_acted
    }

    pub(in crate::driver) fn wait(&self, end: Instant) {
        self.receiver.wait((end.0 != NEVER).then_some(MonotonicNs(end.0)));
    }

    pub(in crate::driver) fn close(&self) {
        self.receiver.close();
    }

    /// Ends all channels, after the shared-memory thread has stopped.
    pub(in crate::driver) fn clear(&self) {
        self.receiver.commands.clear();
        {
            // A thread of the application that leads has seen the end, and leaves.
            let mut receiver = self.receiver.lock();
            let channels = std::mem::replace(&mut receiver.channels, Channels::new());
            channels.sorted.into_iter().for_each(|(id, _)| receiver.reader.remove(id));
        }
    }

    #[inline]
    fn process_commands(&self, receiver: &mut ShmReceiver, dirty: &mut DirtyEndpoints, shared: &dyn Attachments) {
        if self.receiver.commands.has_some() {
            self.process_all_commands(receiver, dirty, shared);
        }
    }

    #[cold]
    fn process_all_commands(&self, receiver: &mut ShmReceiver, dirty: &mut DirtyEndpoints, shared: &dyn Attachments) {
        let TakenCommands { commands, requests } = self.receiver.commands.take();
        for command in commands {
            match command {
                Command::Add(channel) => receiver.add(*channel, shared),
                Command::Join(joining) => joining.into_iter().for_each(|wanted| receiver.join(wanted, shared)),
                Command::Begin { reader, writer } => receiver.begin(reader, writer, dirty, shared.counters()),
                Command::Defer(news) => receiver.news.push(news),
                Command::Remove { reader, writer } => {
                    receiver.remove(shared, writer, |attached, _| attached.core.guid == reader);
                }
            }
        }
        receiver.update_joined();
        for request in requests {
            match request {
                Request::Resume { reader } => receiver.resume(reader, dirty, shared.counters()),
                Request::LookForEnds => receiver.reader.service(),
                Request::RemoveUnmatched => {
                    receiver.remove(shared, None, |attached, writer| !attached.core.is_matched(writer));
                }
            }
        }
    }
}

impl Take for ShmReceiver {
    fn turns(&mut self) -> (&mut Turns, impl Fn() -> bool) {
        self.reader.turns()
    }

    fn has_work(&self) -> bool {
        // Without a channel, the shared-memory thread ends.
        self.has_to_act() || self.channels.is_empty()
    }
}

impl Channels {
    const fn new() -> Self {
        Self { sorted: Vec::new(), copies: BufferPool::new(SHARED_COPIES_BYTES_MAX) }
    }

    /// Adds a channel, whose number is higher than those before.
    fn push(&mut self, id: WriterId, channel: Channel) {
        debug_assert!(self.sorted.last().is_none_or(|(last, _)| *last < id));
        self.sorted.push((id, channel));
    }

    #[inline]
    fn get_mut(&mut self, id: WriterId) -> Option<&mut Channel> {
        self.with_copies(id).map(|(channel, _)| channel)
    }

    /// A channel and the pool for copies.
    #[inline]
    fn with_copies(&mut self, id: WriterId) -> Option<(&mut Channel, &mut BufferPool)> {
        // With one or two channels the first comparison finds it.
        let place = match self.sorted.first() {
            Some((first, _)) if *first == id => 0,
            _ => self.sorted.binary_search_by_key(&id, |(id, _)| *id).ok()?,
        };
        self.sorted.get_mut(place).map(|(_, channel)| (channel, &mut self.copies))
    }

    fn find_mut(&mut self, key: ChannelKey) -> Option<(WriterId, &mut Channel)> {
        self.iter_mut().find(|(_, channel)| channel.key == key)
    }

    fn remove(&mut self, id: WriterId) -> Option<Channel> {
        let place = self.sorted.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, channel) = self.sorted.remove(place);
        if self.sorted.is_empty() {
            self.copies.clear();
        }
        Some(channel)
    }

    fn iter(&self) -> impl Iterator<Item = (WriterId, &Channel)> {
        self.sorted.iter().map(|(id, channel)| (*id, channel))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (WriterId, &mut Channel)> {
        self.sorted.iter_mut().map(|(id, channel)| (*id, channel))
    }

    /// Acknowledges the samples that readers have taken.
    #[inline]
    fn acknowledge(&mut self, id: WriterId) {
        if let Some(channel) = self.get_mut(id) {
            channel.acknowledge_if_owed();
        }
    }

    const fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}

/// The acknowledgement word for the writer process.
fn acknowledgement(below: Option<SequenceNumber>) -> u64 {
    below.map_or(0, |below| below.0.max(0).cast_unsigned())
}

fn too_many_commands() -> NoSharedMemory {
    NoSharedMemory::NotConnected(format!("{COMMANDS_MAX} changes of channels wait for the thread that takes samples"))
}
