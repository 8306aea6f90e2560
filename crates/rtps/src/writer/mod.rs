//! The RTPS writer: numbers and sends changes, and repairs lost ones (RTPS 2.5 §8.4.7, §8.4.9).
//!
//! After every call that may produce output, the caller drains [`Writer::poll_transmit`] and [`Writer::poll_event`],
//! and reads the next deadline from [`Writer::poll_timeout`].

mod apart;
mod apart_state;
mod backlog;
mod bypass;
mod cache;
mod cache_watch;
mod config;
mod cork;
mod cork_state;
mod counters;
mod event;
mod filter;
mod filtered;
mod first_repairs;
mod flow;
mod group;
mod hand_over;
mod hand_over_state;
mod hold;
mod hold_state;
mod kept;
mod kept_limits;
mod lag;
mod matches;
mod opening;
mod owed_answers;
pub mod pace;
mod pack;
mod proxy;
mod queue;
mod regroup;
mod repair;
mod repair_budget;
mod sealing;
mod stall;
mod tally;
#[cfg(test)]
mod tests;
mod witness;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub use cache_watch::CacheStatus;
pub use config::{Batching, KeptLimits, Watermarks, WriterConfig};
pub use counters::WriterCounters;
pub use event::{WriterEvent, WriterTimer};
pub use filter::SampleFilter;
pub use hand_over_state::{Delivered, HandOverBatch, HandOverChange, ReaderPath, Recipient};
pub use lag::{HeldBack, ReaderProgress, Stall, StallCause, WriterStatus};
pub use owed_answers::OwedAnswers;
pub use proxy::MatchedReader;

use crate::box_list::BoxList;
use crate::by_guid::ByGuid;
use crate::compact::Compact;
use crate::deadline::DeadlineTracker;
use crate::event_queue::EventQueue;
use crate::history::{Change, Full, WriterHistory};
use crate::id::{EntityId, Guid, KeyHash};
use crate::limits::{
    MESSAGE_BYTES_MAX, MESSAGE_BYTES_MIN, POOL_BYTES_MAX, SEND_QUEUE_BYTES_MAX, UNACKNOWLEDGED_KEEP,
    UNACKNOWLEDGED_KEEP_BYTES,
};
use crate::payload::BufferPool;
use crate::protection::seal::Sealer;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Span, sooner};
use crate::transmit::TransmitBatch;
use crate::vendor::{ProtocolVersion, VendorId};
use crate::wire::Header;
use apart_state::WaitForOthers;
use backlog::Backlog;
use cache_watch::CacheWatch;
use cork_state::Cork;
use flow::{Answers, Flow, InFlight};
use group::{Group, send_new};
use hand_over_state::HandOverQueue;
use hold_state::Hold;
use kept_limits::Kept;
use pack::{Outgoing, Packer};
use proxy::ReaderProxy;
use tally::Tally;
use witness::Witness;

/// One RTPS writer.
#[derive(Debug)]
pub struct Writer {
    config: WriterConfig,
    history: WriterHistory,
    pool: BufferPool,
    readers: ByGuid<ReaderProxy>,
    hand_over: HandOverQueue,
    group: Group,
    tally: Tally,
    packer: Packer,
    flow: Flow,
    cork: Cork,
    backlog: Backlog,
    kept: Kept,
    cache: CacheWatch,
    /// The first change that has not been sent.
    next_to_send: SequenceNumber,
    /// For readers that never acknowledge: samples before this number had been sent at the last release, and are
    /// released at the next one.
    retained_below: SequenceNumber,
    release_at: Option<Instant>,
    /// When to send the next burst of history to late joiners that never acknowledge, and to serve the readers that a
    /// full send queue has deferred.
    next_push: Option<Instant>,
    /// When to look for readers that stall delivery.
    next_stall_check: Option<Instant>,
    hold: Hold,
    /// The reader at which the last round of [serving](Self::serve_readers) stopped.
    next_served: usize,
    last_to_acknowledge: Witness,
    wait_for_others: WaitForOthers,
    /// A reader may be one that no longer answers: see [`ReaderProxy::is_inactive`].
    may_have_inactive: bool,
    /// A reader may await its first HEARTBEAT: see [`ReaderProxy::awaits_first_heartbeat`].
    is_opening: bool,
    batch_bytes: usize,
    batch_deadline: Option<Instant>,
    next_expiry: Option<Instant>,
    deadline: DeadlineTracker,
    liveliness_due: Option<Instant>,
    acknowledged: bool,
    events: EventQueue<WriterEvent>,
    counters: WriterCounters,
}

impl Writer {
    /// A writer without matched readers.
    #[must_use]
    pub fn new(config: WriterConfig) -> Self {
        let header = Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: config.guid.prefix };
        let default_message = config.default_message_bytes.clamp(MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX);
        let sealer = Sealer::new(config.protection.as_ref(), config.guid.entity);
        Self {
            history: WriterHistory::new(config.history, config.limits, config.seed),
            pool: BufferPool::new(POOL_BYTES_MAX),
            readers: ByGuid::new(config.seed),
            hand_over: HandOverQueue { needs_history: config.watermarks.is_some(), ..HandOverQueue::default() },
            group: Group::empty(default_message),
            tally: Tally::default(),
            packer: Packer::new(header, config.guid.entity, sealer, config.key_digest),
            flow: Flow::new(&config),
            cork: Cork::default(),
            backlog: Backlog::default(),
            kept: Kept::new(&config),
            cache: CacheWatch::new(config.watermarks),
            next_to_send: SequenceNumber::FIRST,
            retained_below: SequenceNumber::FIRST,
            release_at: None,
            next_push: None,
            next_stall_check: None,
            hold: Hold::default(),
            next_served: 0,
            last_to_acknowledge: Witness::default(),
            wait_for_others: WaitForOthers::default(),
            may_have_inactive: false,
            is_opening: false,
            batch_bytes: 0,
            batch_deadline: None,
            next_expiry: None,
            deadline: DeadlineTracker::new(config.deadline, config.seed),
            liveliness_due: None,
            acknowledged: false,
            events: EventQueue::new(),
            counters: WriterCounters::default(),
            config,
        }
    }

    /// The GUID of the writer.
    #[must_use]
    pub const fn guid(&self) -> Guid {
        self.config.guid
    }

    /// Whether messages, submessages or payloads are protected. Such a writer hands samples over only if the caller
    /// trusts the receivers.
    #[must_use]
    pub const fn is_protected(&self) -> bool {
        self.packer.is_protected()
    }

    /// A buffer for the next sample. The buffer returns to the writer's pool with the change that uses it.
    pub fn take_buffer(&mut self, len: usize) -> Arc<Vec<u8>> {
        self.pool.take(len)
    }

    /// Returns an unused buffer to the pool.
    pub fn give_back_buffer(&mut self, buffer: Arc<Vec<u8>>) {
        self.pool.recycle_buffer(buffer);
    }

    /// Adds a change and sends it if the flow allows, batching as configured. An asynchronous writer only adds it. In a
    /// flow without [pauses](Self::observe_pause), the change may wait for the next ones.
    ///
    /// # Errors
    /// The limit that prevents the addition. [`WriterEvent::Acknowledged`] reports when to try again.
    pub fn write(&mut self, now: Instant, change: Change) -> Result<SequenceNumber, (Full, Change)> {
        let (instance, kind) = (change.instance, change.kind);
        let number = if self.holds_changes() { self.write_held(now, change)? } else { self.write_once(now, change) };
        if kind.is_alive() {
            self.deadline.spoke(now, instance);
        } else {
            self.deadline.forget(&instance);
        }
        self.renew_liveliness(now);
        Ok(number)
    }

    /// Whether this change would be accepted now.
    #[must_use]
    pub fn has_room_for(&self, change: &Change) -> bool {
        self.history.has_room(&change.instance, self.acknowledged_below()) && !self.is_full_of_kept(change)
    }

    /// Whether the backlog, to be sent or handed over, has reached [`SEND_QUEUE_BYTES_MAX`], so that the writer should
    /// accept no further sample. Never while the caller drains [`Self::poll_transmit`] after each write.
    #[must_use]
    pub const fn is_send_queue_full(&self) -> bool {
        self.backlog_bytes() >= SEND_QUEUE_BYTES_MAX
    }

    /// Whether the writer sends a sample only when it is written: no repairs, no history for late joiners, no other
    /// thread that sends it later.
    #[must_use]
    pub const fn sends_only_at_once(&self) -> bool {
        !self.config.reliable && !self.config.durable && !self.config.asynchronous
    }

    /// Bytes of the backlog, to be sent or handed over.
    #[must_use]
    pub const fn backlog_bytes(&self) -> usize {
        self.packer.queued_bytes().saturating_add(self.hand_over.bytes())
    }

    /// Whether the calling thread, which has just written, should look for acknowledgements itself: a reader owes one,
    /// the flow is dense, the sample followed the one before without a [pause](Self::observe_pause), and waking another
    /// thread for each acknowledgement would cost more than looking.
    #[must_use]
    pub fn should_look_for_answers(&mut self) -> bool {
        self.flow.take_look() && self.readers.iter().any(|reader| reader.owed_answer.is_owed())
    }

    /// Frees memory that a writer without samples needs only when it writes again.
    pub(crate) fn release_memory(&mut self) {
        self.history.release_memory();
    }

    /// Registers an instance without writing it.
    ///
    /// # Errors
    /// When `max_instances` is reached: [`Self::can_register_instance`] returns when to try again.
    pub fn register_instance(&mut self, instance: KeyHash) -> Result<(), Full> {
        self.history.register(instance)
    }

    /// Whether [`Self::register_instance`] would succeed. An unregistered instance occupies its place until the readers
    /// have acknowledged its samples, as [`WriterEvent::Acknowledged`] reports.
    #[must_use]
    pub fn can_register_instance(&self, instance: &KeyHash) -> bool {
        self.history.can_register(instance)
    }

    /// Whether this writer has registered the instance and has not unregistered it since.
    #[must_use]
    pub fn is_registered(&self, instance: &KeyHash) -> bool {
        self.history.is_registered(instance)
    }

    /// Sends gathered samples, and requests acknowledgement of samples without a request.
    pub fn request_acknowledgement(&mut self, now: Instant) {
        self.flush(now);
        if self.any_repairs() && self.flow.must_ask_for_room() {
            self.ask_everyone(now);
        }
        self.expedite_answers(now);
        self.note_all_lags(now);
    }

    /// Sends samples that batching has gathered, or that wait for each other.
    pub fn flush(&mut self, now: Instant) {
        self.uncork(now);
        self.finish_group(now);
    }

    /// Asserts the writer's liveliness for the application (MANUAL_BY_TOPIC), and notifies the readers.
    pub fn assert_liveliness(&mut self, now: Instant) {
        self.renew_liveliness(now);
        self.hand_over.push_liveliness();
        if !self.group.has_readers || self.must_wait_to_assert() {
            return;
        }
        self.finish_group(now);
        if self.heartbeats_singly(now) {
            self.assert_liveliness_singly(now, |_| true);
            return;
        }
        let (first, last) = self.announced();
        for to in &self.group.targets(&self.readers).everyone {
            self.packer.open(to);
            self.packer.heartbeat(EntityId::UNKNOWN, first, last, true, true);
            self.counters.heartbeats += 1;
            self.packer.close();
        }
        self.assert_liveliness_singly(now, |reader| reader.selection.is_some() || reader.is_apart());
    }

    /// The number of the newest change.
    #[must_use]
    pub const fn last(&self) -> SequenceNumber {
        self.history.last()
    }

    /// The history.
    #[must_use]
    pub const fn history(&self) -> &WriterHistory {
        &self.history
    }

    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> WriterCounters {
        WriterCounters { unprotectable: self.packer.protection_failures(), ..self.counters }
    }

    /// Sets the inline QoS of samples for readers that request it (RTPS 2.5 §8.7.2, §9.6.4): parameters in little
    /// endian, without sentinel.
    pub fn set_inline_qos(&mut self, now: Instant, parameters: &[u8]) {
        self.finish_group(now);
        self.packer.set_standing_qos(parameters);
        self.regroup();
    }

    /// Changes the DEADLINE period.
    pub fn set_deadline(&mut self, period: Span) {
        self.deadline.set_period(period);
    }

    /// Changes the LIFESPAN of samples written from now on.
    pub const fn set_lifespan(&mut self, lifespan: Span) {
        self.config.lifespan = lifespan;
        self.flow.set_lifespan(lifespan);
    }

    /// Changes the LATENCY_BUDGET from the next message on.
    pub const fn set_latency_budget(&mut self, budget: Span) {
        self.config.latency_budget = budget;
    }

    /// Handles timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.batch_deadline.is_some_and(|at| at <= now) {
            self.flush(now);
        }
        if self.next_expiry.is_some_and(|at| at <= now) {
            self.next_expiry = self.history.remove_expired(now, &mut self.pool);
            self.acknowledged = true;
            self.note_cache();
        }
        while let Some(instance) = self.deadline.poll_missed(now) {
            self.events.push_back(WriterEvent::DeadlineMissed(instance));
        }
        if self.liveliness_due.is_some_and(|at| at <= now) {
            self.liveliness_due = None;
            self.events.push_back(WriterEvent::LivelinessLost);
        }
        if self.release_at.is_some_and(|at| at <= now) {
            self.release_retained(now);
        }
        if self.next_push.is_some_and(|at| at <= now) {
            self.push_more(now);
        }
        if self.next_stall_check.is_some_and(|at| at <= now) {
            self.check_lags(now);
        }
        if self.flow.heartbeat_due(now) {
            if self.is_backed_up() { self.reschedule(now) } else { self.ask_again(now) }
        }
    }

    /// When to call [`Self::handle_timeout`] next, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, WriterTimer)> {
        let mut next = None;
        sooner(&mut next, self.batch_deadline, WriterTimer::Batch);
        sooner(&mut next, self.flow.next_heartbeat(), WriterTimer::Heartbeat);
        sooner(&mut next, self.next_expiry, WriterTimer::Lifespan);
        sooner(&mut next, self.deadline.next_deadline(), WriterTimer::Deadline);
        sooner(&mut next, self.liveliness_due, WriterTimer::Liveliness);
        sooner(&mut next, self.release_at, WriterTimer::Retention);
        sooner(&mut next, self.next_push, WriterTimer::History);
        sooner(&mut next, self.next_stall_check, WriterTimer::Stall);
        next
    }

    /// Moves the messages to send into `out`, which must be empty. Returns whether there are any.
    pub fn poll_transmit(&mut self, out: &mut TransmitBatch) -> bool {
        debug_assert!(out.is_empty());
        // A message that still gathers samples stays, and so do complete ones before it: a batch is sent as a whole.
        if self.packer.is_open() || self.packer.batch().is_empty() {
            return false;
        }
        core::mem::swap(self.packer.batch(), out);
        self.begin_sending();
        true
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<WriterEvent> {
        if core::mem::take(&mut self.acknowledged) {
            return Some(WriterEvent::Acknowledged);
        }
        self.events.pop_front()
    }

    fn write_held(&mut self, now: Instant, change: Change) -> Result<SequenceNumber, (Full, Change)> {
        let fragment_size = self.plan(&change);
        let expires_at = now + self.config.lifespan;
        let added = if self.must_wait_for_kept(&change) {
            Err((Full::Unacknowledged, change))
        } else {
            self.note_replacement(&change);
            let (readers, end) = (&self.readers, self.acknowledgeable_below());
            let acknowledged_below = || acknowledged_below(readers, end);
            self.history.add(change, fragment_size, expires_at, acknowledged_below, &mut self.pool)
        };
        let number = match added {
            Ok(number) => number,
            Err((full, change)) => {
                self.note_full();
                // A thread that waits for room relies on a request for acknowledgement.
                self.flush(now);
                if self.flow.must_ask_for_room() {
                    self.ask_everyone(now);
                }
                self.expedite_answers(now);
                self.note_all_lags(now);
                return Err((full, change));
            }
        };
        self.note_cache();
        if !self.config.lifespan.is_infinite() && self.next_expiry.is_none() {
            self.next_expiry = Some(expires_at);
        }
        if self.hand_over.has_readers
            && !self.config.asynchronous
            && let Some(change) = self.history.next_from(number)
        {
            self.hand_over.push_held(change);
        }
        if self.only_queues() {
            self.observe_hold(now);
        } else if !self.corks_newest(now) {
            self.send_held(now, usize::MAX);
        }
        Ok(number)
    }

    /// Sends a change without holding it, because no reader will request it again.
    fn write_once(&mut self, now: Instant, change: Change) -> SequenceNumber {
        let fragment_size = self.plan(&change);
        let sequence_number = self.history.skip();
        if change.kind.unregisters() {
            self.history.unregister(&change.instance);
        }
        self.next_to_send = sequence_number.next();
        if self.hand_over.has_readers {
            self.hand_over.push_once(sequence_number, &change);
        }
        if self.group.has_readers {
            let sealed = self.seal_once(&change, fragment_size);
            let outgoing = Outgoing {
                sequence_number,
                kind: change.kind,
                instance: change.instance,
                source_timestamp: change.source_timestamp,
                payload: &change.payload,
                fragment_size,
                sealed: sealed.as_ref(),
            };
            let len = change.payload.len();
            if send_new(&mut self.packer, &mut self.group, &self.readers, &outgoing) {
                self.count_sent(now, len);
            } else {
                self.counters.samples_rejected += 1;
            }
            self.finish_group_if_due(now, len);
            if let Some(sealed) = sealed {
                self.pool.put_away(sealed.payload);
            }
        }
        if self.hand_over.has_readers {
            // The receiving reader frees the payload.
            drop(change);
        } else {
            self.pool.recycle(change.payload);
        }
        sequence_number
    }

    /// Sends held changes after an event that may allow it.
    fn pump(&mut self, now: Instant) {
        if self.only_queues() {
            self.backlog.clear_window_closed();
        } else {
            self.send_held(now, usize::MAX);
        }
    }

    /// Sends held changes that have not been sent, up to the window and this number of bytes.
    fn send_held(&mut self, now: Instant, max_octets: usize) {
        self.cork.holds = false;
        let mut last_len = 0;
        let mut octets = 0_usize;
        let first = self.next_to_send;
        while octets < max_octets && self.next_to_send <= self.history.last() {
            self.seal_from(self.next_to_send);
            let Some(change) = self.history.next_from(self.next_to_send) else {
                self.next_to_send = self.history.last().next();
                break;
            };
            let is_handed = self.hand_over.has_readers && self.config.asynchronous;
            if self.group.has_readers {
                let len = change.payload.len();
                // The held bytes are an upper bound of those in flight; only a great number of them makes an exact
                // count necessary.
                if self.flow.may_be_closed(self.history.bytes_held()) && self.flow.is_closed(self.in_flight(), len) {
                    self.backlog.set_window_closed();
                    break;
                }
                if is_handed {
                    self.hand_over.push_held(change);
                }
                let is_sent = send_new(&mut self.packer, &mut self.group, &self.readers, &Outgoing::from(change));
                self.next_to_send = change.sequence_number.next();
                if self.has_selections() {
                    self.pass_over_rejected();
                }
                if !is_sent {
                    self.counters.samples_rejected += 1;
                    continue;
                }
                self.count_sent(now, len);
                octets = octets.saturating_add(len);
                last_len = len;
                if self.config.asynchronous && self.config.batching.is_some() {
                    // The queue may hold many samples, and a batch is limited.
                    self.finish_group_if_due(now, len);
                }
            } else {
                if is_handed {
                    self.hand_over.push_held(change);
                }
                self.next_to_send = change.sequence_number.next();
            }
        }
        if self.next_to_send > first {
            self.start_retention(now);
            self.release_published();
        }
        self.finish_group_if_due(now, last_len);
    }

    /// Keeps sent samples for a while for readers that never acknowledge.
    fn start_retention(&mut self, now: Instant) {
        if !self.readers.iter().any(ReaderProxy::retains_unacknowledged) {
            return;
        }
        for reader in self.readers.iter_mut().filter(|r| r.retains_unacknowledged()) {
            (reader.unanswered, reader.ask_again_at) = (0, Compact::NONE);
        }
        self.release_at.get_or_insert(now + UNACKNOWLEDGED_KEEP);
        if self.history.bytes_between(self.retained_below, self.next_to_send) > UNACKNOWLEDGED_KEEP_BYTES / 2 {
            self.release_retained(now);
        }
    }

    fn count_sent(&mut self, now: Instant, len: usize) {
        self.counters.samples_sent += 1;
        self.counters.bytes_sent += len as u64;
        self.batch_bytes += len;
        if self.flow.count_sent(now, len) {
            self.flow.plan_timer(now, self.answers(now));
        }
    }

    fn finish_group_if_due(&mut self, now: Instant, last_len: usize) {
        match self.config.batching {
            Some(batching) if self.packer.is_open() => {
                if self.batch_bytes.saturating_add(last_len) > batching.max_bytes || batching.max_delay == Span::ZERO {
                    self.finish_group(now);
                } else if self.batch_deadline.is_none() {
                    let budget = self.config.latency_budget;
                    let max_delay =
                        if budget == Span::ZERO { batching.max_delay } else { batching.max_delay.min(budget) };
                    self.batch_deadline = (!max_delay.is_infinite()).then(|| now + max_delay);
                }
            }
            _ => self.finish_group(now),
        }
    }

    /// Ends the current message, with a request for acknowledgement if one is due.
    fn finish_group(&mut self, now: Instant) {
        self.batch_bytes = 0;
        if !self.cork.holds {
            self.batch_deadline = None;
        }
        // Without new samples, the readers need not be looked at. Samples that all readers have acknowledged unasked
        // still cause one request: without it, a burst that loses a fifth takes a quarter longer (`traffic.rs`, `sim`).
        let wants = self.flow.must_ask_for_room() && {
            let answers = self.answers(now);
            self.flow.wants_acknowledgement(now, self.held_and_sent(), answers) || self.asks_for_cork(answers)
        };
        if self.packer.is_open() {
            if wants
                && !self.heartbeats_singly(now)
                && self.packer.open_len() + self.packer.heartbeat_len() <= self.group.max_message
            {
                self.put_heartbeat(now);
                self.packer.close();
                return;
            }
            self.packer.close();
        }
        if wants {
            self.ask_everyone(now);
        }
    }

    fn ask_everyone(&mut self, now: Instant) {
        if self.heartbeats_singly(now) {
            self.ask_singly(now);
            return;
        }
        for index in 0.. {
            let Some(to) = self.group.targets(&self.readers).everyone.get(index) else { break };
            self.packer.open(to);
            self.put_heartbeat(now);
            self.packer.close();
        }
        if self.has_selections() {
            self.ask_selections(now);
        }
    }

    /// Adds a HEARTBEAT for all readers of the group's parts to the open message; all of them must answer.
    fn put_heartbeat(&mut self, now: Instant) {
        let (first, last) = self.announced();
        self.packer.heartbeat(EntityId::UNKNOWN, first, last, false, false);
        self.counters.heartbeats += 1;
        for reader in
            self.readers.iter_mut().filter(|r| r.counts() && r.is_messaged() && r.selection.is_none() && !r.is_apart())
        {
            reader.record_heartbeat(now, last);
            reader.owed_answer.begin(now);
        }
        self.await_answers(now);
    }

    /// The first and last available change, as in a HEARTBEAT.
    fn available(&self) -> (SequenceNumber, SequenceNumber) {
        (self.history.first().min(self.next_to_send), self.next_to_send.previous())
    }

    /// Whether a reader may request repair.
    fn any_repairs(&self) -> bool {
        self.group.has_readers
            && self.readers.iter().any(|r| r.is_messaged() && (r.counts() || r.retains_unacknowledged()))
    }

    /// The state of the readers that receive messages and may request repair. An inactive reader beside
    /// others makes the writer request acknowledgement with each sample, so that the writer notices its next answer at
    /// once; where all are inactive, ten times per second.
    #[inline]
    fn answers(&self, now: Instant) -> Answers {
        if !self.group.has_readers {
            return Answers::None;
        }
        if self.has_selections() {
            return self.answers_with_selections();
        }
        let (mut answers, mut any, puts_off) = (Answers::Settled, false, self.flow.may_put_off(now));
        for reader in self.readers.iter().filter(|r| r.repairs() && !r.is_apart()) {
            any |= reader.counts() || reader.retains_unacknowledged();
            answers = answers.worse_of(match reader.is_current() {
                _ if puts_off && reader.owed_answer.is_in_crowd(now) => Answers::Crowded,
                false => Answers::CatchingUp,
                true if reader.is_settled() => Answers::Settled,
                true => Answers::Asked,
            });
            if any && answers == Answers::CatchingUp {
                break;
            }
        }
        if any { answers } else { self.answers_of_inactive() }
    }

    /// The state of the readers when none of them counts.
    #[cold]
    fn answers_of_inactive(&self) -> Answers {
        if self.readers.iter().any(ReaderProxy::repairs) { Answers::Inactive } else { Answers::None }
    }

    /// Samples sent and not acknowledged, without history that late joiners still request, and without those that only
    /// readers left behind lack.
    fn in_flight(&self) -> InFlight {
        let counting = self.readers.iter().filter(|r| r.counts() && r.is_messaged());
        let start = |reader: &ReaderProxy| reader.acknowledged_below.max(reader.paced_from);
        let paced = counting.clone().filter(|r| !r.is_left_behind && !r.is_apart()).map(start).min();
        let from = paced.or_else(|| counting.map(start).min()).unwrap_or(self.next_to_send);
        InFlight {
            samples: self.next_to_send.distance_from(from),
            octets: self.history.bytes_between(from, self.next_to_send),
        }
    }

    /// Releases changes that all readers have acknowledged, and reports that.
    fn release_acknowledged(&mut self) {
        if !self.config.durable {
            let kept = self.readers.iter().filter(|r| r.retains_unacknowledged()).map(|r| r.acknowledged_below).min();
            let below = self.acknowledged_below().min(self.next_to_send).min(kept.unwrap_or(self.next_to_send));
            let below = if self.may_have_inactive { self.kept_for_inactive(below) } else { below };
            self.history.remove_below(below, &mut self.pool);
        }
        self.acknowledged = true;
        self.note_cache();
    }

    fn renew_liveliness(&mut self, now: Instant) {
        if !self.config.liveliness_lease.is_infinite() {
            self.liveliness_due = Some(now + self.config.liveliness_lease);
        }
    }
}

/// The number before which all of these readers that the writer waits for have acknowledged; `end` when there are none.
fn acknowledged_below(readers: &BoxList<ReaderProxy>, end: SequenceNumber) -> SequenceNumber {
    witness::count_looks(readers.len());
    readers.iter().filter(|r| r.counts()).map(|r| r.acknowledged_below).min().unwrap_or(end)
}
