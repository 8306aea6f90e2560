//! The samples that come from other processes, and who takes them.

mod zero_copy_take;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use peregrine_rtps::history::ChangeKind;
use peregrine_rtps::id::Guid;
use peregrine_rtps::payload::{Octets, Payload};
use peregrine_rtps::reader::{Reception, SampleMeta};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::shm::{
    AckHandle, Commands, Connection, Connector, InPlace, Interrupt, Metadata, Reader, ReaderConfig, Sample,
    TakenCommands, WriterId,
};

use super::metadata::{ALIGNING, Entry};
use super::outgoing::READY;
use super::relief::{Relief, Taker};
use super::{Counters, ROUNDS_MAX, SharedMemory, Wanted, reason_of};
use crate::config::WaitStrategy;
use crate::driver::adaptive_spin::AdaptiveSpin;
use crate::driver::clock::{NEVER, now, wall_at};
use crate::driver::dirty_endpoints::DirtyEndpoints;
use crate::driver::domain::Domain;
use crate::driver::host::Host;
use crate::driver::listener_gate::Deferring;
use crate::driver::local_delivery::LOCAL_SOURCE;
use crate::driver::reader::ReaderCore;
use crate::driver::socket_barrier::DeferredMessage;
use crate::driver::sync::{lock, try_lock};
use crate::shared_memory::NoSharedMemory;

/// Samples taken before the readers are told of them.
const BATCH: usize = 64;

/// Samples of up to this many bytes are copied: a copy costs less than holding their slot.
const COPIED_MAX: usize = 4096;

/// Samples of one channel that readers hold where they are. Past that they are copied, so that the slots of a writer do
/// not run out because a reader keeps its history.
const HELD_MAX: usize = 512;

/// How many channels wait to be added, and how many writers that are gone wait for their samples to be taken, at most.
const COMMANDS_MAX: usize = 4096;

pub(super) struct Incoming {
    pub(super) connector: Connector,
    interrupt: Interrupt,
    pub(super) hands: Mutex<ShmReceiver>,
    commands: Commands<Command, Request>,
    is_closing: AtomicBool,
    pub(super) relief: Relief,
}

/// What one takes with.
pub(super) struct ShmReceiver {
    reader: Reader,
    channels: Channels,
    /// To take effect when there is nothing to be taken.
    news: Vec<DeferredMessage>,
    /// Rounds since then in which there was something.
    rounds: usize,
    /// Channels whose first samples wait for datagrams that have come before, from now on.
    begun: Vec<(Guid, Guid)>,
}

/// What is to be done with the hands free.
struct DeferredActions {
    news: Vec<DeferredMessage>,
    begun: Vec<(Guid, Guid)>,
}

struct Channel {
    wanted: Wanted,
    core: Arc<ReaderCore>,
    notes: AckHandle,
    /// It refers to this as long as it is there.
    _count: Arc<()>,
    /// A sample that the reader has no room for: until it has, nothing else is taken.
    refused: Option<Box<Sample>>,
    is_paused: bool,
    /// What the writer is to be let know.
    pending_ack: Option<Option<SequenceNumber>>,
    order: Order,
}

/// Whether samples in datagrams may still be under way when the first comes by shared memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Nothing has come, and the reader would take what comes late for too late.
    Unknown,
    /// The first sample waits until the datagrams have been received that came before it.
    Awaited,
    /// None that matters.
    Certain,
}

/// The channels, ascending by number: there are few, and they are looked for with each sample.
#[derive(Default)]
struct Channels(Vec<(WriterId, Channel)>);

enum Command {
    Add(Box<(Connection, Wanted, Arc<()>)>),
    Begin {
        reader: Guid,
        writer: Guid,
    },
    /// Of one writer, or of all.
    Remove {
        reader: Guid,
        writer: Option<Guid>,
    },
    /// To take effect when there is nothing to be taken.
    Behind(DeferredMessage),
}

/// What is executed once for any number of equal ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Request {
    Resume { reader: Guid },
    LookForEnds,
}

/// A sample where its writer has put it.
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
    pub(super) fn new() -> std::io::Result<Self> {
        let reader = Reader::new(ReaderConfig::default())?;
        Ok(Self {
            connector: reader.connector(),
            interrupt: reader.interrupt(),
            commands: Commands::new(reader.interrupt(), COMMANDS_MAX),
            hands: Mutex::new(ShmReceiver {
                reader,
                channels: Channels::default(),
                news: Vec::new(),
                rounds: 0,
                begun: Vec::new(),
            }),
            is_closing: AtomicBool::new(false),
            relief: Relief::new(),
        })
    }

    /// A channel, which refers to `count` as long as it is there.
    pub(super) fn add(
        &self,
        connection: Connection,
        wanted: Wanted,
        count: Arc<()>,
        domain: &Arc<Domain>,
        shared: &SharedMemory,
    ) {
        let command = Command::Add(Box::new((connection, wanted, count)));
        let is_open = || !self.is_closing.load(Ordering::SeqCst);
        let sent = if domain.is_polled() {
            self.commands.try_send(command)
        } else {
            self.commands.send_and_start(command, || is_open() && domain.start_taker(self.relief.current()))
        };
        // The channel is dropped with the command: its writer sees that, and sends messages.
        if let Err(Command::Add(channel)) = sent {
            shared.counters.writers.fetch_sub(1, Ordering::Relaxed);
            let text = format!("{COMMANDS_MAX} channels wait to be added");
            shared.fall_back(&channel.1, NoSharedMemory::NotConnected(text));
        }
    }

    /// The datagrams have been received that came before the first sample of a channel.
    pub(super) fn begin(&self, reader: Guid, writer: Guid) {
        self.commands.send(Command::Begin { reader, writer });
    }

    /// Has whoever takes let the news take effect when there is nothing left to take. The news comes back if nobody takes.
    pub(super) fn defer_behind_samples(&self, news: DeferredMessage, is_polled: bool) -> Option<DeferredMessage> {
        if is_polled {
            self.commands.send(Command::Behind(news));
            return None;
        }
        self.commands.send_if_running(news, Command::Behind)
    }

    pub(super) fn remove(&self, reader: Guid, writer: Option<Guid>) {
        self.commands.send(Command::Remove { reader, writer });
    }

    pub(super) fn resume(&self, reader: Guid) {
        self.commands.request(Request::Resume { reader });
    }

    /// A writer's process has ended, or has closed a channel.
    pub(super) fn look_for_ends(&self) {
        self.commands.request(Request::LookForEnds);
    }

    /// The shared-memory thread, until no channel is left, the domain closes, or another thread has replaced this one.
    pub(super) fn run(&self, taker: Taker, domain: &Domain, shared: &SharedMemory) {
        self.relief.begin();
        let spin = match domain.config.wait {
            WaitStrategy::SpinThenBlock(spin) => spin,
            WaitStrategy::Block | WaitStrategy::Poll => Duration::ZERO,
        };
        let mut dirty = DirtyEndpoints::default();
        let mut adaptive_spin = AdaptiveSpin::for_memory();
        while !self.is_closing.load(Ordering::SeqCst) {
            let mut hands = lock(&self.hands);
            self.process_commands(&mut hands, &mut dirty, shared);
            if hands.channels.is_empty() && hands.news.is_empty() && self.commands.has_ended() {
                return;
            }
            let at = now();
            let has_taken = hands.reader.is_ready() && hands.take(at, &mut dirty, &shared.counters);
            if !has_taken {
                hands.look_for_gone(shared);
                let is_idle = dirty.is_empty() && !hands.has_to_act() && !self.commands.has_some();
                if is_idle && !hands.channels.is_empty() {
                    hands.wait(at, spin, &mut adaptive_spin);
                    continue;
                }
            }
            let acts = hands.acts(has_taken);
            drop(hands);
            dirty.notify(at);
            {
                let _no_user_code = Deferring::begin();
                acts.perform(domain, shared);
            }
            if dirty.has_listeners() {
                domain.arm(self.relief.begin_listeners(at));
                dirty.run_listeners(at);
                if !self.relief.end_listeners(taker) {
                    return;
                }
            }
        }
    }

    /// Takes what there is; `false` if there was nothing, or another thread is taking. The clock is read where there is something.
    pub(super) fn take_now(
        &self,
        at: &mut Option<Instant>,
        dirty: &mut DirtyEndpoints,
        domain: &Domain,
        shared: &SharedMemory,
    ) -> bool {
        let Some(mut hands) = self.try_hands() else { return false };
        self.process_commands(&mut hands, dirty, shared);
        self.take_with(hands, at, dirty, domain, shared)
    }

    fn take_with(
        &self,
        mut hands: MutexGuard<'_, ShmReceiver>,
        at: &mut Option<Instant>,
        dirty: &mut DirtyEndpoints,
        domain: &Domain,
        shared: &SharedMemory,
    ) -> bool {
        let is_ready = hands.reader.is_ready();
        if !is_ready && dirty.is_empty() && !hands.has_acts() {
            hands.look_for_gone(shared);
            return false;
        }
        let at = *at.get_or_insert_with(now);
        let has_taken = is_ready && hands.take(at, dirty, &shared.counters);
        if has_taken && dirty.is_empty() && !hands.has_acts() {
            return true;
        }
        if !has_taken {
            hands.look_for_gone(shared);
        }
        let acts = hands.acts(has_taken);
        drop(hands);
        dirty.after(at);
        let has_acted = !acts.is_empty();
        acts.perform(domain, shared);
        has_taken || has_acted
    }

    pub(super) fn wait(&self, end: Instant) {
        if let Some(mut hands) = self.try_hands()
            && !self.commands.has_some()
        {
            hands.reader.wait(Duration::ZERO, (end.0 != NEVER).then_some(MonotonicNs(end.0)));
        }
    }

    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.interrupt.interrupt();
    }

    /// Ends all channels, after the shared-memory thread has stopped.
    pub(super) fn clear(&self) {
        self.commands.clear();
        if let Some(mut hands) = self.try_hands() {
            let ids: Vec<WriterId> = std::mem::take(&mut hands.channels).0.into_iter().map(|(id, _)| id).collect();
            ids.into_iter().for_each(|id| hands.reader.remove(id));
        }
    }

    #[inline]
    fn process_commands(&self, hands: &mut ShmReceiver, dirty: &mut DirtyEndpoints, shared: &SharedMemory) {
        if self.commands.has_some() {
            self.process_all_commands(hands, dirty, shared);
        }
    }

    #[cold]
    fn process_all_commands(&self, hands: &mut ShmReceiver, dirty: &mut DirtyEndpoints, shared: &SharedMemory) {
        let TakenCommands { commands, requests } = self.commands.take();
        for command in commands {
            match command {
                Command::Add(channel) => {
                    let (connection, wanted, count) = *channel;
                    hands.add(connection, wanted, count, shared);
                }
                Command::Begin { reader, writer } => hands.begin(reader, writer, dirty, &shared.counters),
                Command::Behind(news) => hands.news.push(news),
                Command::Remove { reader, writer } => {
                    hands.remove(&shared.counters, |wanted| {
                        wanted.reader_guid == reader && writer.is_none_or(|writer| wanted.writer == writer)
                    });
                }
            }
        }
        for request in requests {
            match request {
                Request::Resume { reader } => hands.resume(reader, dirty, &shared.counters),
                Request::LookForEnds => hands.reader.service(),
            }
        }
    }

    fn try_hands(&self) -> Option<MutexGuard<'_, ShmReceiver>> {
        try_lock(&self.hands)
    }
}

impl Channels {
    /// Numbers rise.
    fn push(&mut self, id: WriterId, channel: Channel) {
        debug_assert!(self.0.last().is_none_or(|(last, _)| *last < id));
        self.0.push((id, channel));
    }

    #[inline]
    fn get_mut(&mut self, id: WriterId) -> Option<&mut Channel> {
        // With one or two of them the first look finds it.
        let place = match self.0.first() {
            Some((first, _)) if *first == id => 0,
            _ => self.0.binary_search_by_key(&id, |(id, _)| *id).ok()?,
        };
        self.0.get_mut(place).map(|(_, channel)| channel)
    }

    fn remove(&mut self, id: WriterId) -> Option<Channel> {
        let place = self.0.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.0.remove(place).1)
    }

    fn iter(&self) -> impl Iterator<Item = (WriterId, &Channel)> {
        self.0.iter().map(|(id, channel)| (*id, channel))
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (WriterId, &mut Channel)> {
        self.0.iter_mut().map(|(id, channel)| (*id, channel))
    }

    /// Lets a writer know how far its reader has got.
    #[inline]
    fn note(&mut self, id: WriterId) {
        if let Some(channel) = self.get_mut(id) {
            channel.note_what_is_owed();
        }
    }

    const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ShmReceiver {
    fn add(&mut self, connection: Connection, wanted: Wanted, count: Arc<()>, shared: &SharedMemory) {
        let added = match (wanted.reader.upgrade(), self.reader.add(connection)) {
            (Some(core), Ok(id)) => self.reader.ack_handle(id).map(|notes| (core, id, notes)),
            (None, Ok(id)) => {
                self.reader.remove(id);
                None
            }
            (_, Err(error)) => {
                shared.fall_back(&wanted, NoSharedMemory::NotConnected(error.to_string()));
                None
            }
        };
        let Some((core, id, notes)) = added else {
            shared.counters.writers.fetch_sub(1, Ordering::Relaxed);
            return;
        };
        let mut state = core.lock();
        let below = state.reader.acknowledged_below(wanted.writer);
        let order = if state.reader.is_reliable() { Order::Certain } else { Order::Unknown };
        drop(state);
        let channel =
            Channel { wanted, core, notes, _count: count, refused: None, is_paused: false, pending_ack: None, order };
        // From now on the writer may use it.
        channel.note(below);
        self.channels.push(id, channel);
    }

    fn begin(&mut self, reader: Guid, writer: Guid, dirty: &mut DirtyEndpoints, counters: &Counters) {
        let now = now();
        let wall = wall_at(now);
        let rx = Reception { now, wall, buffer: None, source: LOCAL_SOURCE };
        let is_meant = |wanted: &Wanted| wanted.reader_guid == reader && wanted.writer == writer;
        for (id, channel) in self.channels.iter_mut().filter(|(_, channel)| is_meant(&channel.wanted)) {
            channel.order = Order::Certain;
            if let Some(refused) = channel.refused.take() {
                channel.give(&mut self.reader, id, &rx, *refused, counters);
                channel.note_what_is_owed();
                dirty.reader(&channel.core);
            }
        }
    }

    /// Whether there is something to be done that nothing has to come for.
    fn has_to_act(&self) -> bool {
        !self.begun.is_empty() || !self.news.is_empty() && !self.is_awaiting()
    }

    /// Whether there is something that [`Self::acts`] may tell.
    const fn has_acts(&self) -> bool {
        !self.news.is_empty() || !self.begun.is_empty()
    }

    /// Whether samples wait that have come before news.
    fn is_awaiting(&self) -> bool {
        self.channels.iter().any(|(_, channel)| channel.order == Order::Awaited)
    }

    /// What is to be done now. DeferredMessage waits until there was nothing to take; but who writes on and on does not keep it up.
    fn acts(&mut self, has_taken: bool) -> DeferredActions {
        let begun = std::mem::take(&mut self.begun);
        self.rounds = if self.news.is_empty() { 0 } else { self.rounds + usize::from(has_taken) };
        let is_due = !self.news.is_empty() && (!has_taken && !self.is_awaiting() || self.rounds > ROUNDS_MAX);
        DeferredActions { news: if is_due { std::mem::take(&mut self.news) } else { Vec::new() }, begun }
    }

    fn remove(&mut self, counters: &Counters, is_meant: impl Fn(&Wanted) -> bool) {
        let meant = self.channels.iter().filter(|(_, channel)| is_meant(&channel.wanted)).map(|(id, _)| id);
        for id in meant.collect::<Vec<_>>() {
            self.reader.remove(id);
            self.channels.remove(id);
            counters.writers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A reader has room again: it is given what has waited for that.
    fn resume(&mut self, reader: Guid, dirty: &mut DirtyEndpoints, counters: &Counters) {
        let now = now();
        let wall = wall_at(now);
        let rx = Reception { now, wall, buffer: None, source: LOCAL_SOURCE };
        let Self { reader: source, channels, .. } = self;
        for (id, channel) in channels.iter_mut().filter(|(_, channel)| channel.wanted.reader_guid == reader) {
            if let Some(refused) = channel.refused.take() {
                channel.give(source, id, &rx, *refused, counters);
                dirty.reader(&channel.core);
            }
            // What it had put aside it may have taken meanwhile.
            let below = channel.core.lock().reader.acknowledged_below(channel.wanted.writer);
            channel.pending_ack = None;
            channel.note(below);
        }
    }

    /// Takes some samples, when its reader is ready; says whether there were any.
    fn take(&mut self, now: Instant, dirty: &mut DirtyEndpoints, counters: &Counters) -> bool {
        let wall = wall_at(now);
        let rx = Reception { now, wall, buffer: None, source: LOCAL_SOURCE };
        let mut taken = 0;
        let mut last = None;
        while taken < BATCH {
            let kept = self.take_in_place(&rx, BATCH - taken, dirty, counters);
            taken += kept;
            if kept > 0 && !self.reader.is_ready() {
                break;
            }
            let Self { reader: source, channels, begun, .. } = self;
            let sample = match source.take() {
                Ok(Some(sample)) => sample,
                Ok(None) => break,
                Err(error) => {
                    // No working writer grants so few that `HELD_MAX` does not keep below it.
                    source.remove(error.writer);
                    continue;
                }
            };
            taken += 1;
            let id = sample.writer();
            if let Some(other) = last.replace(id).filter(|last| *last != id) {
                channels.note(other);
            }
            let Some(channel) = channels.get_mut(id) else { continue };
            if channel.order == Order::Unknown {
                begun.push((channel.wanted.reader_guid, channel.wanted.writer));
            }
            channel.give(source, id, &rx, sample, counters);
            dirty.reader(&channel.core);
        }
        if let Some(id) = last {
            self.channels.note(id);
        }
        taken > 0
    }

    /// Takes samples of one writer, as far as there is nothing to do with them but to copy and to keep them. Says how many.
    fn take_in_place(
        &mut self,
        rx: &Reception<'_>,
        most: usize,
        dirty: &mut DirtyEndpoints,
        counters: &Counters,
    ) -> usize {
        let Some(samples) = self.reader.in_place() else { return 0 };
        let Some(channel) = self.channels.get_mut(samples.writer()) else { return 0 };
        let Kept { samples, is_news } = channel.keep(rx, samples, most);
        counters.note_received(samples as u64);
        if is_news {
            dirty.reader(&channel.core);
        }
        samples
    }

    /// Waits until there is something to take, from a moment that has just been read: looking for `spin`, or for the next
    /// sample of a stream, then asleep.
    fn wait(&mut self, since: Instant, spin: Duration, adaptive_spin: &mut AdaptiveSpin) {
        let look =
            adaptive_spin.until(since).map_or(Duration::ZERO, |until| Duration::from_nanos(until.since(since).0));
        let sleeps = self.reader.sleeps();
        self.reader.wait(spin.max(look), None);
        if self.reader.sleeps() == sleeps {
            return;
        }
        if look.is_zero() {
            adaptive_spin.on_sleep(since, now());
        } else {
            adaptive_spin.on_miss();
        }
    }

    /// Channels that have ended.
    fn look_for_gone(&mut self, shared: &SharedMemory) {
        while let Some(gone) = self.reader.poll_gone() {
            if let Some(channel) = self.channels.remove(gone.writer) {
                shared.counters.writers.fetch_sub(1, Ordering::Relaxed);
                shared.fall_back(&channel.wanted, reason_of(gone.reason));
            }
        }
    }
}

impl DeferredActions {
    fn is_empty(&self) -> bool {
        self.news.is_empty() && self.begun.is_empty()
    }

    fn perform(self, domain: &Domain, shared: &SharedMemory) {
        for (reader, writer) in self.begun {
            domain.begin_behind_datagrams(shared, reader, writer);
        }
        self.news.iter().for_each(|news| domain.handle_deferred(news, now()));
    }
}

/// What no working writer sends.
struct ProtocolViolation;

/// What a reader has got the short way.
struct Kept {
    samples: usize,
    /// Waiting threads or a listener must be notified.
    is_news: bool,
}

/// What became of a sample.
enum Delivered {
    Taken {
        /// None of what is told without any.
        samples: u64,
    },
    /// The reader has no room for it.
    Refused(Box<Sample>),
}

impl Channel {
    /// Gives the reader a sample, or keeps it until there is room. To be followed by [`Self::note_what_is_owed`], sooner or later.
    fn give(&mut self, source: &mut Reader, id: WriterId, rx: &Reception<'_>, sample: Sample, counters: &Counters) {
        let delivered = if self.order == Order::Certain {
            self.deliver(rx, sample)
        } else {
            self.order = Order::Awaited;
            Ok(Delivered::Refused(Box::new(sample)))
        };
        match delivered {
            Ok(Delivered::Taken { samples }) => {
                counters.note_received(samples);
                if self.is_paused {
                    self.is_paused = false;
                    source.pause(id, false);
                }
            }
            Ok(Delivered::Refused(sample)) => {
                self.refused = Some(sample);
                self.is_paused = true;
                source.pause(id, true);
            }
            // It is told of as any other end.
            Err(ProtocolViolation) => source.remove(id),
        }
    }

    /// Gives the reader so many samples at most in the short way, one after the other, and lets the writer know.
    fn keep(&mut self, rx: &Reception<'_>, mut samples: InPlace<'_>, most: usize) -> Kept {
        if !self.has_short_way() {
            return Kept { samples: 0, is_news: false };
        }
        let mut state = self.core.lock();
        let mut kept = 0;
        if let Some(mut inserter) = state.reader.fast_inserter(self.wanted.writer) {
            let mut keep = |metadata, octets: &[u8]| {
                value(metadata).zip(octets.get(ALIGNING..)).is_some_and(|((number, source_timestamp), octets)| {
                    inserter.insert(rx, number, source_timestamp, octets)
                })
            };
            while kept < most && samples.next(COPIED_MAX, &mut keep) {
                kept += 1;
            }
            if kept > 0 {
                // Newer than what may be owed.
                self.pending_ack = None;
                samples.acknowledge(noted(inserter.acknowledged_below()));
            }
        }
        let is_news = kept > 0 && !state.note_data_quietly();
        drop(state);
        drop(samples);
        Kept { samples: kept, is_news }
    }

    /// Whether there may be samples with which there is nothing to do but to keep them.
    #[inline]
    fn has_short_way(&self) -> bool {
        self.order == Order::Certain && !self.is_paused && !self.wanted.writer.entity.has_key()
    }

    /// Gives the reader what an entry says.
    fn deliver(&mut self, rx: &Reception<'_>, sample: Sample) -> Result<Delivered, ProtocolViolation> {
        let entry = Entry::from_metadata(sample.metadata()).ok_or(ProtocolViolation)?;
        let writer = self.wanted.writer;
        let mut state = self.core.lock();
        let reader = &mut state.reader;
        match entry {
            Entry::Alive => reader.writer_alive(rx.now, writer),
            Entry::Available { first, last } => {
                if !reader.handle_available(rx, writer, first, last) {
                    return Ok(Delivered::Refused(Box::new(sample)));
                }
            }
            Entry::Unavailable { from, to } => reader.handle_unavailable(rx, writer, from, to),
            Entry::Change { number, kind, instance, source_timestamp } => {
                let meta = SampleMeta {
                    kind,
                    key_hash: writer.entity.has_key().then_some(instance),
                    source_timestamp,
                    lifespan: None,
                    is_filtered: false,
                    is_directed: false,
                    is_instance_certain: false,
                };
                let octets = sample.get(ALIGNING..).ok_or(ProtocolViolation)?;
                let is_copied = sample.len() <= COPIED_MAX || sample.held() > HELD_MAX;
                if is_copied {
                    let payload = reader.copy_of(octets);
                    if !reader.handle_change(rx, writer, number, meta, &payload) {
                        return Ok(Delivered::Refused(Box::new(sample)));
                    }
                } else {
                    let held = Arc::new(Held { sample });
                    let payload = Payload::foreign(Arc::clone(&held) as Arc<dyn Octets>);
                    if !reader.handle_change(rx, writer, number, meta, &payload) {
                        drop(payload);
                        let held = Arc::into_inner(held).ok_or(ProtocolViolation)?;
                        return Ok(Delivered::Refused(Box::new(held.sample)));
                    }
                }
            }
        }
        let below = reader.acknowledged_below(writer);
        drop(state);
        self.pending_ack = Some(below);
        Ok(Delivered::Taken { samples: u64::from(matches!(entry, Entry::Change { .. })) })
    }

    /// Once for several samples: each time, what was stored before has to be there for the writer to see.
    fn note_what_is_owed(&mut self) {
        if let Some(below) = self.pending_ack.take() {
            self.note(below);
        }
    }

    /// Lets the writer know that the reader has everything below this number, and that it is there.
    fn note(&self, below: Option<SequenceNumber>) {
        self.notes.set(noted(below));
    }
}

/// How far a reader is, as it is noted.
fn noted(below: Option<SequenceNumber>) -> u64 {
    below.map_or(0, |below| below.0.max(0).cast_unsigned()).max(READY)
}

/// Number and time of a sample that is a value.
#[inline]
fn value(metadata: Metadata) -> Option<(SequenceNumber, Timestamp)> {
    match Entry::from_metadata(metadata)? {
        Entry::Change { number, kind: ChangeKind::Alive, source_timestamp, .. } => Some((number, source_timestamp)),
        _ => None,
    }
}
