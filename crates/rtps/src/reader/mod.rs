//! The RTPS reader: orders samples, requests missing ones, acknowledges (RTPS 2.5 §8.4.10 to §8.4.12).
//!
//! After every call that may produce output, the caller drains [`Reader::poll_event`] and [`Reader::poll_transmit`],
//! and reads the next deadline from [`Reader::poll_timeout`]. Acknowledgements are sent only through `poll_transmit`,
//! so that the caller can notify the application of the data first.

mod acknowledge;
mod awaited;
mod claims;
mod config;
mod deferred_keys;
mod event;
mod fast_insert;
mod filed_timer;
mod go_back;
mod hand_over;
mod introduction;
mod loss;
mod memory;
mod missing;
mod parked;
mod parking;
mod preemptive;
mod protected;
mod proxy;
mod reassembly;
mod reception;
mod reordering;
mod request_budget;
mod sample_age;
mod skip;
mod source_order;
mod source_times;
mod stall;
mod start;
#[cfg(test)]
mod tests;
mod timers;
mod unkeyed;

use alloc::sync::Arc;
use alloc::vec::Vec;

use hashbrown::HashMap;

pub use config::{FoundInstance, KeyExtractor, ReaderConfig};
pub use event::{MissingSample, ReaderCounters, ReaderEvent, ReaderTimer, SampleLostReason, Waiting};
pub use fast_insert::FastInserter;
pub use proxy::MatchedWriter;
pub use reception::{MessageBuffer, Reception, SampleMeta, SharedCopy};

use crate::box_list::BoxList;
use crate::deadline::DeadlineTracker;
use crate::event_queue::EventQueue;
use crate::history::{Arrival, FilterReason, Inserted, Peeked, ReaderHistory, Selected, Selector, WriterSlot};
use crate::id::{Guid, KeyHash};
use crate::limits::{COPY_PAYLOAD_MAX, MATCHES_MAX, POOL_BYTES_MAX};
use crate::min_tree::MinTree;
use crate::payload::{BufferPool, Payload};
use crate::protection::seal::Sealer;
use crate::seq::{Count, SequenceNumber};
use crate::time::{Instant, Span, Timestamp};
use crate::wire::{Data, DataFrag, InlineQos, Payload as WirePayload};
use awaited::AwaitedSamples;
use filed_timer::FiledTimer;
use introduction::Introductions;
use parked::ParkedWriters;
use proxy::{OutOfOrderSample, WriterProxy};
use reassembly::{Refused, Room};
use sample_age::Age;
use source_order::FalseJump;
use unkeyed::Unkeyed;

/// The index that stands for no writer.
const NO_WRITER: usize = usize::MAX;

/// One RTPS reader.
#[derive(Debug)]
pub struct Reader {
    config: ReaderConfig,
    cache: ReaderHistory,
    pool: BufferPool,
    writers: BoxList<WriterProxy>,
    by_guid: HashMap<Guid, usize, foldhash::quality::FixedState>,
    introductions: Introductions,
    /// The writer of the last message. Its timer is not in `timers`, because it changes with nearly every message.
    current: usize,
    /// The first timer of every other writer.
    timers: MinTree<FiledTimer>,
    /// Writers whose timers are being handled.
    due: Vec<u32>,
    next_slot: u32,
    parked: ParkedWriters,
    awaited: AwaitedSamples,
    deadline: DeadlineTracker,
    /// Counts continue across writers and matches, so that a writer that remembers an earlier match does not ignore new
    /// acknowledgements as old ones.
    acknack_count: Count,
    nack_frag_count: Count,
    /// The writers that need an ACKNACK, each once.
    owing: Vec<u32>,
    /// Whether a sample waits because the cache has no room for it.
    stalled: bool,
    /// Samples that wait until the caller has computed their instance.
    unkeyed: Unkeyed,
    /// The writers of samples that wait for room, each once, in the order in which they stalled.
    stalled_writers: Vec<u32>,
    /// The writers being resumed.
    resuming: Vec<u32>,
    /// When the reader last acknowledged unasked because it has room again.
    room_acknowledged_at: Option<Instant>,
    data_available: bool,
    typical_bytes: usize,
    /// The bytes held for all writers.
    held_bytes: usize,
    events: EventQueue<ReaderEvent>,
    counters: ReaderCounters,
    sealer: Sealer,
    /// Whether writers must protect payloads.
    opens_payloads: bool,
}

impl Reader {
    /// A reader without matched writers.
    #[must_use]
    pub fn new(config: ReaderConfig) -> Self {
        let seed = config.cache.seed;
        let sealer = Sealer::new(config.protection.as_ref(), config.guid.entity);
        let mut cache = ReaderHistory::new(config.cache.clone());
        if sealer.payloads().is_some_and(|sealer| sealer.encrypts()) {
            cache.index_digests();
        }
        Self {
            cache,
            pool: config.wipe.map_or(const { BufferPool::new(POOL_BYTES_MAX) }, BufferPool::wiping),
            writers: BoxList::new(),
            by_guid: HashMap::with_hasher(foldhash::quality::FixedState::with_seed(seed)),
            introductions: Introductions::new(seed),
            current: NO_WRITER,
            timers: MinTree::default(),
            due: Vec::new(),
            next_slot: 0,
            parked: ParkedWriters::default(),
            awaited: AwaitedSamples::default(),
            deadline: DeadlineTracker::new(config.deadline, seed),
            acknack_count: Count(0),
            nack_frag_count: Count(0),
            owing: Vec::new(),
            stalled: false,
            unkeyed: Unkeyed::default(),
            stalled_writers: Vec::new(),
            resuming: Vec::new(),
            room_acknowledged_at: None,
            data_available: false,
            typical_bytes: 0,
            held_bytes: 0,
            events: EventQueue::new(),
            counters: ReaderCounters::default(),
            opens_payloads: sealer.payloads().is_some(),
            sealer,
            config,
        }
    }

    /// The GUID of the reader.
    #[must_use]
    pub const fn guid(&self) -> Guid {
        self.config.guid
    }

    /// Whether messages, submessages or payloads are protected. Such a reader accepts samples only from messages,
    /// unless the caller trusts the writers that hand samples over.
    #[must_use]
    pub const fn is_protected(&self) -> bool {
        self.sealer.is_active()
    }

    /// The counters so far.
    #[must_use]
    pub const fn counters(&self) -> ReaderCounters {
        ReaderCounters {
            filtered: self.counters.filtered.saturating_add(self.cache.discarded_while_held()),
            ..self.counters
        }
    }

    /// The cache of samples for the application.
    #[must_use]
    pub const fn cache(&self) -> &ReaderHistory {
        &self.cache
    }

    /// Out-of-order samples and samples under reassembly.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        self.writers.iter().fold(Waiting::default(), |sum, writer| Waiting {
            samples: sum.samples + writer.out_of_order.len() + writer.reassembly.samples(),
            bytes: sum.bytes + writer.out_of_order_bytes + writer.reassembly.bytes(),
        })
    }

    /// Whether the reader requests repair from reliable writers.
    #[must_use]
    pub const fn is_reliable(&self) -> bool {
        self.config.reliable
    }

    /// Matches a writer, or updates a matched one. `false` when the reader has reached its limit of matches.
    pub fn match_writer(&mut self, now: Instant, mut writer: MatchedWriter) -> bool {
        writer.reliable &= self.config.reliable;
        self.stays(writer.guid);
        if let Some(&index) = self.by_guid.get(&writer.guid)
            && let Some(known) = self.writers.get_mut(index)
        {
            if known.info.strength != writer.strength {
                self.cache.strength_changed(known.slot, writer.strength);
            }
            known.set_info(writer);
            return true;
        }
        // Discovery has given the places of departing writers to others.
        if self.writers.len() - self.unkeyed.departing.len() >= MATCHES_MAX {
            self.counters.matches_refused += 1;
            return false;
        }
        let guid = writer.guid;
        let mut proxy = WriterProxy::new(writer, WriterSlot(self.next_slot), self.config.wants_history);
        self.next_slot = self.next_slot.wrapping_add(1);
        proxy.schedule_preemptive_acknack(now, self.asks_at_once());
        self.introductions.add(guid);
        if let Some(place) = self.parked.take(guid) {
            proxy.continue_at(place);
        }
        proxy.renew_liveliness(now);
        let index = self.writers.len();
        self.by_guid.insert(guid, index);
        self.writers.push(proxy);
        self.file_timer(index);
        self.events.push_back(ReaderEvent::WriterAlive(guid));
        true
    }

    /// Removes a writer. Returns whether it was matched.
    pub fn unmatch_writer(&mut self, now: Instant, wall: Timestamp, writer: Guid) -> bool {
        self.parked.take(writer);
        if self.departs_later(writer) {
            return true;
        }
        let place = self.place_of_ended_match(writer);
        let Some(index) = self.by_guid.remove(&writer) else { return false };
        self.introductions.remove(writer);
        self.awaited.forget(writer);
        self.leave_current();
        let Some(mut proxy) = self.writers.swap_remove(index) else { return false };
        let last = self.writers.len();
        if let Some(moved) = self.writers.get(index) {
            self.by_guid.insert(moved.info.guid, index);
        }
        for list in [&mut self.owing, &mut self.stalled_writers] {
            list.retain(|listed| *listed as usize != index);
            list.iter_mut().filter(|listed| **listed as usize == last).for_each(|listed| *listed = index as u32);
        }
        self.timers.set(last, None);
        self.file_timer(index);
        proxy.release(&mut self.pool);
        proxy.info.memory.recharge(proxy.charged, 0);
        self.held_bytes = self.held_bytes.saturating_sub(proxy.charged);
        self.data_available |= self.cache.writer_gone(now, writer, proxy.slot, wall);
        if proxy.alive {
            self.events.push_back(ReaderEvent::WriterNotAlive(writer));
        }
        place.into_iter().for_each(|place| self.parked.put(writer, place));
        true
    }

    /// The matched writers.
    pub fn matched_writers(&self) -> impl Iterator<Item = &MatchedWriter> {
        self.writers.iter().map(|w| &w.info)
    }

    /// Renews the liveliness of a writer that was asserted by other means than data.
    pub fn writer_alive(&mut self, now: Instant, writer: Guid) {
        if let Some(index) = self.find(writer) {
            self.renew_liveliness(now, index);
        }
    }

    /// Handles a whole sample (RTPS 2.5 §8.3.8.2).
    pub fn handle_data(&mut self, rx: &Reception<'_>, writer: Guid, meta: SampleMeta, data: &Data<'_>) {
        let Some(index) = self.admit(writer) else { return };
        self.renew_liveliness(rx.now, index);
        let is_due = self.writers.get(index).is_some_and(|proxy| proxy.is_just_due(data.sequence_number));
        if !is_due {
            let is_for_us = !meta.is_filtered && !meta.is_directed && !self.is_too_long(data.payload.as_bytes().len());
            if !self.is_wanted(rx.now, index, data.sequence_number, is_for_us, true) {
                return;
            }
        }
        let directed_elsewhere =
            meta.is_directed && data.inline_qos.is_some_and(|list| !InlineQos::is_directed_to(&list, self.config.guid));
        if meta.is_filtered || directed_elsewhere {
            self.skip_sample(rx.now, rx.wall, index, data.sequence_number);
            return;
        }
        let bytes = match data.payload {
            WirePayload::None => &[],
            WirePayload::Data(bytes) | WirePayload::Key(bytes) => bytes,
        };
        if self.is_too_long(bytes.len()) {
            self.refuse_too_long(rx, index, data.sequence_number);
            return;
        }
        let payload = if self.opens_payloads {
            let Some(payload) = self.open_payload(writer, bytes) else { return };
            payload
        } else {
            self.hold(bytes, rx.buffer)
        };
        let sample = OutOfOrderSample { at: rx.now, meta, payload, is_handed_over: false };
        if is_due {
            self.accept_due(rx, index, data.sequence_number, sample);
            return;
        }
        self.accept(rx.now, rx.wall, index, data.sequence_number, sample);
        self.update_memory_charge(index);
    }

    /// Handles fragments of a sample (RTPS 2.5 §8.3.8.3).
    pub fn handle_data_frag(&mut self, rx: &Reception<'_>, writer: Guid, meta: SampleMeta, frag: &DataFrag<'_>) {
        self.accept_fragment(rx, writer, meta, frag, false);
    }

    /// Handles fragments of a sample, after decryption if its writer protects payloads.
    fn accept_fragment(
        &mut self,
        rx: &Reception<'_>,
        writer: Guid,
        meta: SampleMeta,
        frag: &DataFrag<'_>,
        is_opened: bool,
    ) {
        if self.opens_payloads && !is_opened {
            self.open_fragment(rx, writer, meta, frag);
            return;
        }
        let Some(index) = self.admit(writer) else { return };
        let number = frag.sequence_number;
        self.renew_liveliness(rx.now, index);
        let is_too_long = self.is_too_long(frag.sample_size as usize);
        let is_too_small = reassembly::is_too_small(frag);
        if !self.is_wanted(rx.now, index, number, !is_too_long && !is_too_small, false) {
            return;
        }
        if is_too_long {
            self.refuse_too_long(rx, index, number);
            return;
        }
        if is_too_small {
            self.counters.small_fragments += 1;
            return;
        }
        let Some(proxy) = self.writers.get(index) else { return };
        let has_begun = proxy.reassembly.has_begun(frag);
        self.counters.inconsistent_fragments += u64::from(!has_begun && proxy.reassembly.is_disputed(frag));
        if !has_begun && !self.make_room_to_reassemble(rx.now, index, frag) {
            return;
        }
        let Some(proxy) = self.writers.get_mut(index) else { return };
        proxy.record_overtaken_fragment(rx.now, frag);
        proxy.record_arrival(rx.now, number);
        let room = Room {
            max_sample_bytes: self.config.max_sample_bytes,
            max_bytes: self.config.memory_per_writer,
            keep_newest: !proxy.info.reliable,
        };
        match proxy.reassembly.accept(rx.now, frag, meta, room, proxy.tolerance, &mut self.pool) {
            Ok(None) => {
                proxy.requests_paid.pay(frag.payload.len());
                self.request_gap_before(rx.now, index, number);
            }
            Ok(Some(complete)) => {
                let sample = OutOfOrderSample {
                    at: rx.now,
                    meta: complete.meta,
                    payload: complete.payload,
                    is_handed_over: false,
                };
                self.accept(rx.now, rx.wall, index, number, sample);
            }
            Err(Refused::Duplicate) => {
                proxy.record_duplicate(number);
                self.counters.duplicate_fragments += 1;
            }
            Err(refused @ (Refused::Inconsistent | Refused::Contradicted)) => {
                self.counters.inconsistent_fragments += 1;
                if refused == Refused::Contradicted {
                    proxy.schedule_pause(rx.now);
                }
            }
            Err(Refused::NoRoom) => self.counters.no_room += 1,
        }
        self.update_memory_charge(index);
    }

    /// Appends the selected samples to `out`. With `take` removes them, otherwise marks them as read. If samples [wait
    /// for room](Self::is_stalled), the caller then calls [`Self::resume`].
    pub fn select(&mut self, selector: &Selector, take: bool, out: &mut Vec<Selected>) {
        self.cache.select(selector, take, out);
    }

    /// Appends to `out` what [`Self::select`] would return, without changing any state.
    pub fn peek(&mut self, selector: &Selector, out: &mut Vec<Peeked>) {
        self.cache.peek(selector, out);
    }

    /// Selects samples that [`Self::peek`] has shown, unless they have been removed since; see [`Self::select`].
    pub fn select_peeked(&mut self, peeked: &[Peeked], take: bool, out: &mut Vec<Selected>) {
        self.cache.select_peeked(peeked, take, out);
    }

    /// Whether received samples wait until the application makes room by taking others.
    #[must_use]
    #[inline]
    pub const fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Removes an instance without samples, as if it had never been written.
    pub fn forget_instance(&mut self, instance: &KeyHash) {
        self.cache.forget_instance(instance);
        self.deadline.forget(instance);
    }

    /// Returns the buffer of a selected sample to the pool.
    pub fn recycle(&mut self, payload: Payload) {
        self.pool.recycle(payload);
    }

    /// Changes the DEADLINE period.
    pub fn set_deadline(&mut self, period: Span) {
        self.deadline.set_period(period);
    }

    /// Changes the READER_DATA_LIFECYCLE delays for instances that end later.
    pub const fn set_autopurge(&mut self, no_writers: Span, disposed: Span) {
        self.cache.set_autopurge(no_writers, disposed);
    }

    /// Changes the TIME_BASED_FILTER separation, also for held samples.
    pub fn set_minimum_separation(&mut self, separation: Span) {
        self.cache.set_minimum_separation(separation);
    }

    /// Whether all announced samples of the matched writers that offer history have arrived
    /// (`wait_for_historical_data`).
    #[must_use]
    pub fn has_history(&self) -> bool {
        let mut with_history = self.writers.iter().filter(|w| w.info.has_history && w.info.reliable);
        with_history.all(|w| w.was_heard() && w.next > w.announced.newest()) && !self.has_deferred()
    }

    /// Whether [`Self::poll_event`] has an event.
    #[must_use]
    pub fn has_event(&self) -> bool {
        self.data_available || !self.events.is_empty()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ReaderEvent> {
        if core::mem::take(&mut self.data_available) {
            return Some(ReaderEvent::DataAvailable);
        }
        self.events.pop_front()
    }

    /// Takes the event [`ReaderEvent::DataAvailable`] if it is the only event and no message is to be sent. The caller
    /// then need not poll further.
    #[inline]
    pub fn take_data_available_alone(&mut self) -> bool {
        let is_alone = self.data_available && self.events.is_empty() && !self.has_transmit();
        self.data_available &= !is_alone;
        is_alone
    }

    fn renew_liveliness(&mut self, now: Instant, index: usize) {
        let Some(proxy) = self.writers.get_mut(index) else { return };
        if (!proxy.info.liveliness_lease.is_infinite() || !proxy.alive) && proxy.renew_liveliness(now) {
            self.events.push_back(ReaderEvent::WriterAlive(proxy.info.guid));
        }
    }

    /// The index of a writer. The writer becomes the current one: the caller may change its timers.
    fn find(&mut self, writer: Guid) -> Option<usize> {
        let is_at = |index: usize| self.writers.get(index).is_some_and(|w| w.info.guid == writer);
        if is_at(self.current) {
            return Some(self.current);
        }
        // Writers of one process often send in turns, and the proxy is needed anyway, unlike an entry of the map.
        let next = self.current.wrapping_add(1);
        let index = if is_at(next) { next } else { *self.by_guid.get(&writer)? };
        self.leave_current();
        self.timers.set(index, None);
        self.current = index;
        Some(index)
    }

    fn admit(&mut self, writer: Guid) -> Option<usize> {
        let found = self.find(writer);
        self.counters.unmatched += u64::from(found.is_none());
        found
    }

    /// Whether a sample with this number is still of interest; determines where a volatile reader starts. The sample
    /// proves wrong what the writer had claimed, if it `is_for_us`. `is_whole`: the message has all of the sample.
    fn is_wanted(
        &mut self,
        now: Instant,
        index: usize,
        number: SequenceNumber,
        is_for_us: bool,
        is_whole: bool,
    ) -> bool {
        let Some(proxy) = self.writers.get_mut(index) else { return false };
        if !proxy.started && !proxy.awaits_start() && proxy.kept.get().is_none_or(|kept| kept <= number) {
            proxy.start_by_sample(number);
        }
        if !proxy.is_resolved(number) {
            return true;
        }
        if is_for_us && proxy.withdraw_claim_against(now, number, is_whole) {
            self.counters.claims_withdrawn += 1;
            return true;
        }
        if is_for_us && proxy.info.reliable && proxy.has_passed_by_gap(number) {
            self.counters.excluded_by_gap += 1;
        } else if proxy.info.reliable {
            proxy.record_duplicate(number);
            self.counters.duplicates += 1;
        } else {
            self.counters.late += 1;
        }
        false
    }

    /// Copies a small payload, so that it does not keep a large receive buffer allocated; refers to a large one, and to
    /// a copy that several readers share.
    fn hold(&mut self, bytes: &[u8], buffer: Option<MessageBuffer<'_>>) -> Payload {
        self.typical_bytes = bytes.len();
        if bytes.is_empty() {
            return Payload::default();
        }
        match buffer {
            Some(MessageBuffer::SharedCopy(copy)) => return copy.of(bytes),
            Some(MessageBuffer::Received(buffer)) if bytes.len() > COPY_PAYLOAD_MAX => {
                let start = (bytes.as_ptr() as usize).wrapping_sub(buffer.as_ptr() as usize);
                if let Some(payload) = Payload::new(Arc::clone(buffer), start..start.wrapping_add(bytes.len())) {
                    return payload;
                }
            }
            Some(MessageBuffer::Received(_)) | None => {}
        }
        self.pool.copy_of(bytes)
    }

    /// Handles the next sample in order.
    fn accept_due(&mut self, rx: &Reception<'_>, index: usize, number: SequenceNumber, sample: OutOfOrderSample) {
        let meta = &sample.meta;
        if meta.kind.is_alive() && meta.lifespan.is_none() && self.can_insert_fast(index, number, &sample.payload) {
            self.insert_fast(rx, index, number, meta.source_timestamp, sample.payload);
            return;
        }
        if let Err(refused) = self.deliver(rx.now, rx.wall, index, number, sample) {
            if self.writers.get(index).is_some_and(|proxy| proxy.info.reliable) {
                self.stall(index, number, refused);
                return;
            }
            self.pool.recycle(refused.payload);
        }
        if let Some(proxy) = self.writers.get_mut(index) {
            proxy.next = number.next();
        }
    }

    /// Handles a complete sample: delivers it if it is next in order, else keeps it until then.
    fn accept(
        &mut self,
        now: Instant,
        wall: Timestamp,
        index: usize,
        number: SequenceNumber,
        sample: OutOfOrderSample,
    ) {
        let Some(proxy) = self.writers.get_mut(index) else { return };
        if !proxy.info.reliable {
            let missed = number.distance_from(proxy.next);
            if missed > 0 {
                proxy.pass_over_by_sample(number);
            }
            proxy.next = number.next();
            let begun = proxy.reassembly.samples();
            proxy.reassembly.forget_below(number, &mut self.pool);
            let incomplete = (begun.saturating_sub(proxy.reassembly.samples()) as u64).min(missed);
            self.report_lost(incomplete, SampleLostReason::Incomplete);
            self.report_lost(missed.saturating_sub(incomplete), SampleLostReason::InTransit);
            if let Err(refused) = self.deliver(now, wall, index, number, sample) {
                self.pool.recycle(refused.payload);
            }
            return;
        }
        if proxy.is_older_than_reader(number, sample.meta.source_timestamp, self.config.created_at) {
            self.pool.recycle(sample.payload);
            self.skip_sample(now, wall, index, number);
            return;
        }
        proxy.record_overtaken(now, number);
        proxy.record_arrival(now, number);
        if number != proxy.next || !proxy.started {
            let comes_by_message = !sample.is_handed_over;
            self.insert_out_of_order(index, number, sample);
            if comes_by_message {
                self.request_gap_before(now, index, number);
            }
            return;
        }
        match self.deliver(now, wall, index, number, sample) {
            Ok(()) => {
                if let Some(proxy) = self.writers.get_mut(index) {
                    proxy.next = number.next();
                }
                self.drain(now, wall, index);
                if self.writers.get(index).is_some_and(WriterProxy::may_answer_now) {
                    self.owe_acknack(index);
                }
            }
            Err(refused) => self.stall(index, number, refused),
        }
    }

    /// Requests the samples missing before this number, if the gap is new.
    fn request_gap_before(&mut self, now: Instant, index: usize, number: SequenceNumber) {
        let Some(proxy) = self.writers.get_mut(index) else { return };
        if proxy.finds_gap(number, now) {
            self.owe_acknack(index);
        }
    }

    /// Inserts a sample into the cache. Returns the sample when there is no room.
    fn deliver(
        &mut self,
        now: Instant,
        wall: Timestamp,
        index: usize,
        number: SequenceNumber,
        sample: OutOfOrderSample,
    ) -> Result<(), OutOfOrderSample> {
        if self.config.defers_keys {
            return self.defer(now, wall, index, number, sample);
        }
        let Some(instance) = self.instance_of(&sample.meta, &sample.payload) else {
            self.counters.undecodable += 1;
            self.pool.recycle(sample.payload);
            return Ok(());
        };
        self.insert(now, wall, index, number, sample, instance)
    }

    /// Like [`Self::deliver`] for a sample whose instance is known.
    fn insert(
        &mut self,
        now: Instant,
        wall: Timestamp,
        index: usize,
        number: SequenceNumber,
        sample: OutOfOrderSample,
        instance: KeyHash,
    ) -> Result<(), OutOfOrderSample> {
        let Some(proxy) = self.writers.get_mut(index) else { return Ok(()) };
        let OutOfOrderSample { at, meta, payload, is_handed_over } = sample;
        let is_named_by_hash = !meta.kind.is_alive() && payload.known_len() == Some(0);
        let instance = if is_named_by_hash { self.cache.instance_with_digest(instance) } else { instance };
        let order_timestamp = match self.config.cache.by_source_timestamp {
            true => {
                let (place, false_jump) =
                    proxy.source_times.get_or_default().order.next(meta.source_timestamp, wall, instance);
                if let Some(FalseJump { place, instances }) = false_jump {
                    self.counters.source_jumps_withdrawn += 1;
                    let writer = proxy.info.guid;
                    instances.iter().for_each(|instance| self.cache.lower_order(instance, writer, place));
                }
                place
            }
            false => meta.source_timestamp,
        };
        let lifespan = meta.lifespan.unwrap_or(proxy.info.lifespan);
        let mut expires_at = Instant::FAR_FUTURE;
        if !lifespan.is_infinite() {
            // The sample may have waited in this reader, for an earlier one or for room.
            let wall_then = wall.earlier_by(now.since(at));
            let age = proxy.source_times.get_or_default().clock.age(at, wall_then, meta.source_timestamp, lifespan);
            self.counters.lifespans_without_wall_clock += u64::from(matches!(age, Age::ByYoungest(_)));
            expires_at = at + age.rest_of(lifespan);
        }
        let mut arrival = Arrival {
            kind: meta.kind,
            instance,
            writer: proxy.info.guid,
            slot: proxy.slot,
            strength: proxy.info.strength,
            sequence_number: number,
            source_timestamp: meta.source_timestamp,
            reception_timestamp: wall,
            order_timestamp,
            expires_at,
            payload,
        };
        let bytes = arrival.payload.known_len().unwrap_or(0) as u64;
        match self.cache.insert(now, &mut arrival, &mut self.pool) {
            Ok(Inserted::Stored) => {
                self.counters.samples += 1;
                self.counters.bytes += bytes;
                self.data_available = true;
                self.deadline.spoke(now, instance);
            }
            Ok(Inserted::Held) => self.deadline.spoke(now, instance),
            Ok(Inserted::Filtered(reason)) => {
                self.counters.filtered += 1;
                if reason == FilterReason::TimeBasedFilter {
                    self.deadline.spoke(now, instance);
                }
            }
            Err(reason) => {
                if !self.stalled {
                    self.counters.rejected += 1;
                    self.events.push_back(ReaderEvent::SampleRejected(reason, instance));
                }
                return Err(OutOfOrderSample { at, meta, payload: arrival.payload, is_handed_over });
            }
        }
        Ok(())
    }

    /// The instance, computed from the key if the message has it, because peers compute key hashes in more than one
    /// way.
    fn instance_of(&self, meta: &SampleMeta, payload: &Payload) -> Option<KeyHash> {
        let Some(KeyExtractor(extract)) = self.config.keys else { return Some(KeyHash::NIL) };
        let is_certain = meta.is_instance_certain && meta.key_hash.is_some();
        if is_certain || payload.is_empty() {
            meta.key_hash
        } else {
            extract(payload, !meta.kind.is_alive()).or(meta.key_hash)
        }
    }

    const fn is_too_long(&self, bytes: usize) -> bool {
        bytes > self.config.max_sample_bytes as usize
    }
}
