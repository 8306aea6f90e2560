//! A reader as the driver holds it: the state machine under its lock, and the threads that are notified.

use std::any::TypeId;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use peregrine_rtps::history::{Peeked, Selected, Selector};
use peregrine_rtps::id::{Guid, GuidPrefix};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::NonMatch;
use peregrine_rtps::reader::{FoundInstance, MatchedWriter, Reader, ReaderEvent, Reception};
use peregrine_rtps::receiver::Input;
use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::writer::Delivered;
use peregrine_xtypes::PayloadKind;
use tracing::Level;

use super::collections::{self, Collections};
use super::context::EndpointContext;
use super::last_heard::LastHeard;
use super::mark::Mark;
use super::sample_watch::SampleWatch;
use super::topic::TopicCore;
use super::waiting::{StatusState, Waitable};
use super::wakers::{HasWakers, StateGuard, Wakers};
use crate::driver::base::clock::{now, wall};
use crate::driver::base::deadline_cell::DeadlineCell;
use crate::driver::base::endpoint_timers::EndpointTimer;
use crate::driver::base::parker::Parker;
use crate::driver::base::user_code::{Deferring, log, must_defer, run_user_code};
use crate::driver::host::listener_gate::{AfterRun, ListenerGate};
use crate::driver::host::listener_queue::RunListener;
use crate::driver::host::{Host, Hosted};
use crate::driver::route::local_writers::{LocalWriters, PendingAck};
use crate::status::{
    IncompatibleQosStatus, LivelinessChangedStatus, MatchedStatus, ReaderStatus, RequestedDeadlineMissedStatus,
    SampleLostStatus, SampleRejectedStatus, StatusMask,
};

/// The next step for a reader whose waiters were woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterEvents {
    Nothing,
    /// [`ReaderCore::send_answers`].
    Acknowledge,
    /// [`ReaderCore::run_listener_first`], which also acknowledges.
    RunListener,
}

/// Notifies the listener of a reader of changed statuses. Called without any lock held.
pub(crate) trait ReaderHook: Send + Sync {
    /// These statuses have changed.
    fn changed(&self, statuses: StatusMask);
}

#[derive(Debug, Default)]
pub(crate) struct ReaderStatuses {
    pub(crate) matched: MatchedStatus,
    pub(crate) incompatible_qos: IncompatibleQosStatus,
    pub(crate) deadline_missed: RequestedDeadlineMissedStatus,
    pub(crate) liveliness: LivelinessChangedStatus,
    pub(crate) lost: SampleLostStatus,
    pub(crate) rejected: SampleRejectedStatus,
    pub(crate) changed: StatusMask,
}

pub(crate) struct ReaderState {
    pub(crate) reader: Reader,
    pub(crate) statuses: ReaderStatuses,
    /// Sorted.
    pub(crate) matched: Vec<Guid>,
    /// The matched writers in this process.
    pub(in crate::driver) local: LocalWriters,
    pub(in crate::driver) last_heard: LastHeard,
    pub(crate) last_non_match: Option<(Guid, NonMatch)>,
    pub(in crate::driver) samples: SampleWatch,
    /// The listener hook, and the statuses that it handles.
    pub(crate) hook: Option<(Arc<dyn ReaderHook>, StatusMask)>,
    pub(crate) wakers: Wakers,
    /// Collections that the application has returned, so that a steady state allocates nothing.
    collections: Collections,
    /// Number of returned samples whose bytes do not decode to the reader's type.
    pub(crate) undecodable: u64,
    spare: TransmitBatch,
    pub(crate) closed: bool,
}

/// One reader.
pub(crate) struct ReaderCore {
    pub(crate) guid: Guid,
    pub(crate) topic: Arc<TopicCore>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) gate: ListenerGate,
    /// The Rust type of its values.
    pub(super) type_id: TypeId,
    /// The reader accepts samples from protected messages only.
    pub(in crate::driver) is_protected: bool,
    state: Mutex<ReaderState>,
    due: DeadlineCell,
    pub(super) timer: EndpointTimer,
    pub(super) mark: Mark,
    /// The same for the list of readers that owe an answer.
    pub(super) answer_mark: Mark,
}

impl ReaderCore {
    /// Creates a reader of values of this Rust type. If its participant trusts the host, only protected payloads keep
    /// samples in messages.
    pub(crate) fn new(context: EndpointContext, topic: Arc<TopicCore>, type_id: TypeId, reader: Reader) -> Self {
        let EndpointContext { host, timer, trusts_host } = context;
        let state = ReaderState {
            reader,
            statuses: ReaderStatuses::default(),
            matched: Vec::new(),
            local: LocalWriters::default(),
            last_heard: LastHeard::default(),
            last_non_match: None,
            samples: SampleWatch::default(),
            hook: None,
            wakers: Wakers::default(),
            collections: Collections::default(),
            undecodable: 0,
            spare: TransmitBatch::default(),
            closed: false,
        };
        Self {
            guid: state.reader.guid(),
            topic,
            host,
            gate: ListenerGate::default(),
            type_id,
            is_protected: state.reader.is_protected() && (!trusts_host || state.reader.protects_payloads()),
            state: Mutex::new(state),
            due: DeadlineCell::never(),
            timer,
            mark: Mark::default(),
            answer_mark: Mark::default(),
        }
    }

    pub(crate) fn lock(&self) -> StateGuard<'_, ReaderState> {
        StateGuard::lock(&self.state)
    }

    /// The lock, if no other thread holds it.
    pub(in crate::driver) fn try_lock(&self) -> Option<StateGuard<'_, ReaderState>> {
        StateGuard::try_lock(&self.state)
    }

    pub(crate) fn deadline(&self) -> u64 {
        self.due.get()
    }

    /// Takes or reads the selected samples. The caller returns the collection later.
    pub(crate) fn collect<'c>(
        &'c self,
        mut guard: StateGuard<'c, ReaderState>,
        selector: &Selector,
        take: bool,
    ) -> Vec<Selected> {
        if guard.reader.cache().is_empty() && !guard.reader.is_stalled() {
            // Fast path for a thread that polls an empty reader.
            guard.statuses.changed.remove(StatusMask::DATA_AVAILABLE);
            return Vec::new();
        }
        let mut collection = guard.collections.take();
        guard.reader.select(selector, take, &mut collection);
        self.collected(guard);
        collection
    }

    /// Takes or reads peeked samples that the reader still has. The caller returns the collection later.
    pub(crate) fn collect_peeked<'c>(
        &'c self,
        mut guard: StateGuard<'c, ReaderState>,
        peeked: &[Peeked],
        take: bool,
    ) -> Vec<Selected> {
        let mut collection = guard.collections.take();
        guard.reader.select_peeked(peeked, take, &mut collection);
        self.collected(guard);
        collection
    }

    fn collected<'c>(&'c self, mut guard: StateGuard<'c, ReaderState>) {
        guard.statuses.changed.remove(StatusMask::DATA_AVAILABLE);
        if guard.reader.is_stalled() {
            self.go_on_if_stalled(guard, now());
        }
    }

    /// Accepts waiting samples if there is room for them now.
    fn go_on_if_stalled<'c>(&'c self, mut guard: StateGuard<'c, ReaderState>, now: Instant) {
        if guard.reader.is_stalled() {
            guard.reader.resume(now, wall());
            let owed = guard.take_pending_acks();
            self.acknowledge(guard, now);
            if let Some(shared) = self.host.shared_memory() {
                shared.resume(self.guid);
            }
            // The taking thread may be inside a listener, or hold locks that a listener takes.
            owed.into_iter().for_each(|owed| owed.deliver(self.guid));
        }
    }

    pub(crate) fn give_back(&self, mut collection: Vec<Selected>) {
        if collection.capacity() == 0 {
            return;
        }
        if collection.iter().any(|selected| selected.payload.is_sole_buffer()) {
            let mut guard = self.lock();
            for leftover in collection.drain(..) {
                guard.reader.recycle(leftover.payload);
            }
        } else {
            collection.clear();
        }
        if let Some(collection) = collections::keep_for_thread(collection) {
            self.lock().collections.keep(collection);
        }
    }

    /// Returns whether the caller has to [send](Self::put_answers) acknowledgements.
    pub(super) fn handle_timeout(self: &Arc<Self>, now: Instant, wall: Timestamp) -> bool {
        let mut guard = self.lock();
        let goes_on = guard.reader.handle_timeout(now, wall);
        drop(guard);
        self.report_blocked_listener(now);
        if goes_on && let Some(shared) = self.host.shared_memory() {
            shared.resume(self.guid);
        }
        let after = self.process_events(now);
        if after == AfterEvents::RunListener {
            self.run_listener_first(now);
        }
        after == AfterEvents::Acknowledge
    }

    /// Reports a listener call that has delayed status changes for too long.
    fn report_blocked_listener(&self, now: Instant) {
        if let Some(waited) = self.gate.check_call(now) {
            let (reader, topic) = (self.guid, Arc::clone(&self.topic));
            log(Level::WARN, move || {
                tracing::warn!(
                    %reader, topic = %topic.name, %waited,
                    "the listener of a reader does not return, and its next call waits: let the listener return \
                     sooner, or take the samples on another thread"
                );
            });
        }
    }

    /// The samples that the reader holds, and the causes of a delay.
    pub(crate) fn status(&self) -> ReaderStatus {
        let guard = self.lock();
        let waiting = guard.reader.waiting();
        ReaderStatus {
            untaken_samples: guard.reader.cache().len(),
            incomplete_samples: waiting.samples,
            incomplete_bytes: waiting.bytes,
            is_full: guard.reader.is_stalled(),
            missing: guard.reader.missing(now()),
            listener_blocked_for: self.gate.blocked_for(now()).map(Duration::from),
        }
    }

    /// Finds the instances of waiting samples with `find`, code of the application that runs under no lock. One thread
    /// at a time calls this.
    pub(crate) fn find_instances(
        self: &Arc<Self>,
        mut find: impl FnMut(&Payload, PayloadKind) -> Option<FoundInstance>,
    ) {
        let mut unkeyed = Vec::new();
        self.lock().reader.take_unkeyed(&mut unkeyed);
        let kind = |is_key| if is_key { PayloadKind::Key } else { PayloadKind::Data };
        let keys: Vec<_> = unkeyed.iter().map(|(payload, is_key)| find(payload, kind(*is_key))).collect();
        drop(unkeyed);
        let now = now();
        let mut guard = self.lock();
        guard.reader.put_keys(now, wall(), keys);
        // Samples beyond the bound of waiting samples have stalled the reader.
        self.go_on_if_stalled(guard, now);
        self.after(now);
    }

    /// Returns whether there was room for the match.
    pub(crate) fn match_writer(&self, now: Instant, writer: MatchedWriter) -> bool {
        let mut guard = self.lock();
        let guid = writer.guid;
        if !guard.reader.match_writer(now, writer) {
            let reader = self.guid;
            log(Level::WARN, move || tracing::warn!(%reader, writer = %guid, "no room for another matched writer"));
            return false;
        }
        if self.host.config().same_process && !self.is_protected {
            guard.local.add(guid);
        }
        if let Err(place) = guard.matched.binary_search(&guid) {
            guard.matched.insert(place, guid);
            guard.statuses.matched.gained(guid);
            guard.statuses.changed |= StatusMask::SUBSCRIPTION_MATCHED;
        }
        true
    }

    /// Demands a channel from this writer once samples come, until [`Self::stop_watching`]. Returns whether
    /// samples have come already; `None` unless the reader is open and matches the writer.
    pub(in crate::driver) fn watch_for_samples(&self, writer: Guid) -> Option<bool> {
        let mut state = self.lock();
        let is_matched = !state.closed && state.matched.binary_search(&writer).is_ok();
        is_matched.then(|| state.samples.watch(writer))
    }

    /// The reader gets no channel from this writer, or has it.
    pub(in crate::driver) fn stop_watching(&self, writer: Guid) {
        self.lock().samples.forget(writer);
    }

    /// Requests the channels to writers that have begun to send samples.
    #[cold]
    fn request_channels(&self, writers: Vec<Guid>) {
        if let Some(shared) = self.host.shared_memory() {
            shared.demand(self.guid, &writers);
        }
    }

    /// Whether the reader is open and matches this writer.
    pub(in crate::driver) fn is_matched(&self, writer: Guid) -> bool {
        let state = self.lock();
        !state.closed && state.matched.binary_search(&writer).is_ok()
    }

    /// With `may_return`, the writer's participant has only been silent.
    pub(crate) fn unmatch_writer(&self, now: Instant, wall: Timestamp, writer: Guid, may_return: bool) {
        let mut guard = self.lock();
        if may_return {
            guard.reader.park_writer(now, wall, writer);
        } else {
            guard.reader.unmatch_writer(now, wall, writer);
        }
        guard.local.remove(writer);
        guard.samples.forget(writer);
        if let Ok(place) = guard.matched.binary_search(&writer) {
            guard.matched.remove(place);
            guard.statuses.matched.lost(writer);
            guard.statuses.changed |= StatusMask::SUBSCRIPTION_MATCHED;
            let ReaderState { last_heard, matched, .. } = &mut *guard;
            last_heard.forget_unmatched(writer.prefix, matched);
        }
    }

    pub(crate) fn writer_alive(&self, now: Instant, writer: Guid) {
        self.lock().reader.writer_alive(now, writer);
    }

    pub(crate) fn refused(&self, writer: Guid, reason: &NonMatch) {
        let mut guard = self.lock();
        guard.last_non_match = Some((writer, reason.clone()));
        if let Some(policy) = reason.policy_id().filter(|_| reason.is_incompatible_qos()) {
            guard.statuses.incompatible_qos.count(policy);
            guard.statuses.changed |= StatusMask::REQUESTED_INCOMPATIBLE_QOS;
        }
    }

    /// After an input to the state machine: wakes waiters, runs the listener or queues it, then acknowledges.
    ///
    /// The application has priority over the acknowledgement.
    pub(crate) fn after(self: &Arc<Self>, now: Instant) {
        self.after_with(self.lock(), now, || {});
    }

    /// [`Self::after`] for samples of a writer of this process. Wakes a thread that sleeps in a poll.
    pub(super) fn after_hand_over<'c>(self: &'c Arc<Self>, guard: StateGuard<'c, ReaderState>, now: Instant) {
        self.after_with(guard, now, || self.host.note_handed());
    }

    /// `notify` runs without the lock, before the listener.
    #[inline]
    fn after_with<'c>(
        self: &'c Arc<Self>,
        mut guard: StateGuard<'c, ReaderState>,
        now: Instant,
        notify: impl FnOnce(),
    ) {
        let changed = guard.drain_events();
        let has_listener = guard.has_hook_for(changed);
        // Most calls begin and end here. Threads that add events during the call of the listener acknowledge them.
        if has_listener
            && !must_defer()
            && let Some(turn) = self.gate.try_begin()
        {
            let hook = guard.begin_call(changed);
            let owes_answers = guard.local.owes_acks() || guard.reader.has_transmit();
            if owes_answers {
                drop(guard);
            } else {
                self.set_deadline(guard, now);
            }
            notify();
            let first = |news| hook.into_iter().for_each(|hook| hook.changed(news));
            if turn.run(changed, first, |news| self.call_hook(news)) == AfterRun::Queue {
                self.host.queue_listener(Arc::clone(self) as Arc<dyn RunListener>);
            }
            if owes_answers {
                self.acknowledge_to_all(self.lock(), now);
            }
        } else if has_listener && self.gate.add_at(changed, now) {
            drop(guard);
            notify();
            self.run_listener_first(now);
        } else {
            self.acknowledge_to_all(guard, now);
            notify();
        }
    }

    /// Moves events of the state machine into statuses and wakes waiters.
    pub(super) fn process_events(&self, now: Instant) -> AfterEvents {
        let mut guard = self.lock();
        if guard.samples.has_active() {
            let active = guard.samples.take_active();
            drop(guard);
            self.request_channels(active);
            guard = self.lock();
        }
        let changed = guard.drain_events();
        if guard.has_hook_for(changed) && self.gate.add_at(changed, now) {
            if guard.reader.has_transmit() {
                // A message that the listener writes may take it along.
                self.leave_answers_of(guard, now);
            }
            return AfterEvents::RunListener;
        }
        let owes_acknowledgement = guard.reader.has_transmit();
        let pending = if guard.local.owes_acks() { guard.take_pending_acks() } else { Vec::new() };
        self.set_deadline(guard, now);
        pending.into_iter().for_each(|ack| ack.deliver(self.guid));
        if owes_acknowledgement { AfterEvents::Acknowledge } else { AfterEvents::Nothing }
    }

    /// Moves events into statuses, wakes waiters and acknowledges. Says whether the listener is to be run, by
    /// [`Self::run_listener_first`], which then acknowledges.
    pub(super) fn process_events_and_acknowledge(&self, now: Instant) -> bool {
        let after = self.process_events(now);
        if after == AfterEvents::Acknowledge {
            self.send_answers(now);
        }
        after == AfterEvents::RunListener
    }

    /// Sends the acknowledgements that [`Self::process_events`] has left, unless another thread has sent them.
    pub(super) fn send_answers(&self, now: Instant) {
        self.acknowledge(self.lock(), now);
    }

    /// Appends these acknowledgements to `out`, which the caller sends.
    pub(super) fn put_answers(&self, now: Instant, out: &mut TransmitBatch) {
        let mut guard = self.lock();
        guard.reader.poll_transmit(now, out);
        self.set_deadline(guard, now);
    }

    /// Leaves the acknowledgements that [`Self::process_events`] has left to the next message that goes to the same
    /// participant. Requests for repair are sent at once.
    pub(super) fn leave_answers(&self, now: Instant) {
        self.leave_answers_of(self.lock(), now);
    }

    fn leave_answers_of<'c>(&'c self, mut guard: StateGuard<'c, ReaderState>, now: Instant) {
        let mut batch = std::mem::take(&mut guard.spare);
        while guard.reader.poll_transmit(now, &mut batch) {
            drop(guard);
            let message_bytes_to = |ip| self.host.addresses().paths.message_bytes_to(ip);
            if !self.host.sockets().leave_answer(&batch, message_bytes_to) {
                self.host.send(&batch);
            }
            batch.clear();
            guard = self.lock();
        }
        guard.spare = batch;
        self.set_deadline(guard, now);
    }

    /// Runs the listener, or queues it if the calling thread must not run user code; then acknowledges. The caller must
    /// hold no lock.
    pub(super) fn run_listener_first(self: &Arc<Self>, now: Instant) {
        self.host.run_or_queue(self);
        self.host.sockets().send_left_answers();
        self.acknowledge_to_all(self.lock(), now);
    }

    /// Queues the listener behind another one that the calling thread runs first, then acknowledges.
    pub(super) fn queue_listener_and_acknowledge(self: &Arc<Self>, now: Instant) {
        if self.gate.set_queued() {
            self.host.queue_behind_listener(Arc::clone(self) as Arc<dyn RunListener>);
        }
        self.host.sockets().send_left_answers();
        self.acknowledge_to_all(self.lock(), now);
    }

    /// Passes events to the control thread: the caller may be a listener that takes samples, or hold locks of the
    /// application.
    pub(super) fn leave_events_to_timers(self: &Arc<Self>, now: Instant) {
        let guard = self.lock();
        let must_find = guard.reader.has_unkeyed() && self.gate.add(StatusMask::UNKEYED);
        self.acknowledge(guard, now);
        if must_find {
            let _no_user_code = Deferring::begin();
            self.host.run_or_queue(self);
        }
    }

    /// Calls the listener for available samples, regardless of the mask of the subscriber's listener. The caller must
    /// hold no lock.
    pub(crate) fn notify_listener(self: &Arc<Self>) {
        let has_listener = self.lock().has_hook_for(StatusMask::NOTIFIED);
        if has_listener && self.gate.add(StatusMask::NOTIFIED) {
            self.host.run_or_queue(self);
        }
    }

    /// Calls the listener that handles these statuses, if any. The calling thread holds no lock and has begun a call.
    fn call_hook(&self, news: StatusMask) {
        let hook = self.lock().begin_call(news);
        hook.into_iter().for_each(|hook| hook.changed(news));
    }

    /// Acknowledges to remote writers and to those of this process.
    fn acknowledge_to_all<'c>(&'c self, mut guard: StateGuard<'c, ReaderState>, now: Instant) {
        let pending = if guard.local.owes_acks() { guard.take_pending_acks() } else { Vec::new() };
        self.acknowledge(guard, now);
        pending.into_iter().for_each(|ack| ack.deliver(self.guid));
    }

    /// Closes the reader: no further notifications. Returns `false` if the reader was closed before.
    pub(crate) fn close(&self) -> bool {
        let mut guard = self.lock();
        if std::mem::replace(&mut guard.closed, true) {
            return false;
        }
        let listener = guard.hook.take();
        guard.wakers.wake_all();
        // The thread that took the last samples may have left the acknowledgement for its next wait.
        self.acknowledge(guard, now());
        // The listener may own entities, which then go.
        run_user_code(|| drop(listener));
        true
    }

    pub(in crate::driver) fn acknowledge<'c>(&'c self, mut guard: StateGuard<'c, ReaderState>, now: Instant) {
        if guard.reader.has_transmit() {
            let mut batch = std::mem::take(&mut guard.spare);
            while guard.reader.poll_transmit(now, &mut batch) {
                drop(guard);
                self.host.send(&batch);
                batch.clear();
                guard = self.lock();
            }
            guard.spare = batch;
        }
        self.set_deadline(guard, now);
    }

    /// Has the control thread call the reader when it is due next.
    fn set_deadline<'c>(&'c self, guard: StateGuard<'c, ReaderState>, now: Instant) {
        // If a take has made room, the control thread reports that to the writer: the taking thread may be in a
        // listener.
        let next = if guard.reader.has_event() { Some(now) } else { guard.reader.poll_timeout().map(|(at, _)| at) };
        let deadline = self.due.set(next.into_iter().chain(self.gate.call_deadline()).min());
        drop(guard);
        self.arm(deadline);
    }
}

/// Runs the listeners of readers whose [gates](ListenerGate) have pending statuses, then acknowledges; or queues them
/// if the calling thread must not run user code. The caller must hold no lock.
///
/// All listeners except the first wait in the queue: if the first one lasts too long, another thread runs the rest.
pub(in crate::driver) fn run_listeners(readers: impl Iterator<Item = Arc<ReaderCore>>, now: Instant) {
    let mut readers = readers;
    let Some(first) = readers.next() else { return };
    let mut others = 0;
    for reader in readers {
        if !must_defer() && Arc::ptr_eq(&reader.host, &first.host) {
            others += 1;
            reader.queue_listener_and_acknowledge(now);
        } else {
            let _no_user_code = Deferring::begin();
            reader.run_listener_first(now);
        }
    }
    first.run_listener_first(now);
    first.host.run_queued(others);
}

impl RunListener for ReaderCore {
    fn gate(&self) -> &ListenerGate {
        &self.gate
    }

    fn run_listener(&self) -> AfterRun {
        self.gate.run(|news| self.call_hook(news))
    }
}

impl HasWakers for ReaderState {
    #[inline]
    fn wakers(&mut self) -> &mut Wakers {
        &mut self.wakers
    }
}

impl Hosted for ReaderCore {
    fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }
}

impl Waitable for ReaderCore {
    type State = ReaderState;

    fn park(&self, parker: &Arc<Parker>, end: Instant) {
        self.host.park(parker, end);
    }

    fn state(&self) -> StateGuard<'_, ReaderState> {
        self.lock()
    }
}

impl StatusState for ReaderState {
    fn changed(&self) -> StatusMask {
        self.statuses.changed
    }
}

impl ReaderState {
    fn take_pending_acks(&mut self) -> Vec<PendingAck> {
        // A closed reader never gets room for refused samples.
        if self.closed {
            return Vec::new();
        }
        self.local.take_pending_acks(&mut self.reader)
    }

    /// Moves events of the state machine into statuses and wakes waiters. Returns the statuses that have changed.
    fn drain_events(&mut self) -> StatusMask {
        while let Some(event) = self.reader.poll_event() {
            self.note(event);
        }
        let mut changed = self.statuses.changed.take_unreported();
        self.wakers.wake(changed | StatusMask::HISTORY);
        if self.reader.has_unkeyed() {
            changed |= StatusMask::UNKEYED;
        }
        changed
    }

    fn has_hook_for(&self, news: StatusMask) -> bool {
        self.hook.as_ref().is_some_and(|(_, mask)| mask.intersects(news))
    }

    /// The hook to call with these statuses. A listener call resets the status (DDS 1.4 §2.2.4.2.2). A subscriber's
    /// listener gets DATA_ON_READERS instead, and may call `notify_readers`.
    fn begin_call(&mut self, news: StatusMask) -> Option<Arc<dyn ReaderHook>> {
        let (hook, mask) = self.hook.as_ref().filter(|(_, mask)| mask.intersects(news))?;
        if news.contains(StatusMask::NOTIFIED) {
            self.statuses.changed.remove(StatusMask::DATA_AVAILABLE);
        } else if !mask.intersects(StatusMask::DATA_ON_READERS) {
            self.statuses.changed.remove(*mask & news & StatusMask::DATA_AVAILABLE);
        }
        Some(Arc::clone(hook))
    }

    /// The participant of a matched writer was heard by shared memory.
    #[inline]
    pub(in crate::driver) fn note_heard(&mut self, peer: GuidPrefix, now: Instant) {
        self.last_heard.note(peer, now, &self.matched);
    }

    /// Records that samples of a writer of this process were delivered or refused.
    pub(in crate::driver) fn note_delivered(&mut self, writer: Guid, delivered: Delivered) {
        self.local.note_delivered(&self.reader, writer, delivered);
    }

    /// Whether a writer has matched and all historical data was received.
    pub(crate) fn has_history(&self) -> bool {
        !self.matched.is_empty() && self.reader.has_history()
    }

    #[inline]
    pub(crate) fn handle(&mut self, rx: &Reception<'_>, from: Guid, input: &Input<'_>) {
        match input {
            Input::Data(meta, data) => {
                self.samples.note(from);
                self.reader.handle_data(rx, from, *meta, data);
            }
            Input::DataFrag(meta, frag) => {
                self.samples.note(from);
                self.reader.handle_data_frag(rx, from, *meta, frag);
            }
            Input::Heartbeat(heartbeat) => self.reader.handle_heartbeat(rx, from, heartbeat),
            Input::HeartbeatFrag(heartbeat) => self.reader.handle_heartbeat_frag(rx, from, heartbeat),
            Input::Gap(gap) => self.reader.handle_gap(rx, from, gap),
            Input::AckNack(_) | Input::NackFrag(_) => {}
        }
    }

    /// Replaces [`ReaderCore::after`] for new samples that no thread or listener waits for: `take` finds them. Returns
    /// whether nothing else has to be done.
    #[inline]
    pub(in crate::driver) fn note_data_quietly(&mut self) -> bool {
        let has_listener = self.has_hook_for(StatusMask::DATA_AVAILABLE);
        let is_quiet = !has_listener
            && self.wakers.is_empty()
            && !self.local.owes_acks()
            && self.reader.take_data_available_alone();
        if is_quiet {
            self.statuses.changed.insert_silently(StatusMask::DATA_AVAILABLE);
        }
        is_quiet
    }

    /// Whether no listener or waiting thread has to be notified of a new sample, so that a polling thread may take it
    /// at once.
    #[inline]
    pub(in crate::driver) fn is_taken_unheard(&self) -> bool {
        let has_listener = self.has_hook_for(StatusMask::DATA_AVAILABLE);
        !has_listener && !self.closed && self.wakers.is_empty() && !self.local.owes_acks()
    }

    fn note(&mut self, event: ReaderEvent) {
        let statuses = &mut self.statuses;
        statuses.changed |= match event {
            ReaderEvent::DataAvailable => StatusMask::DATA_AVAILABLE,
            ReaderEvent::SampleLost(samples, reason) => {
                statuses.lost.count(samples, reason);
                StatusMask::SAMPLE_LOST
            }
            ReaderEvent::SampleMissing { writer, number } => {
                let reader = self.reader.guid();
                log(Level::WARN, move || {
                    tracing::warn!(
                        %reader, %writer, number = number.0,
                        "later samples wait for this one, which the writer does not send although the reader requests \
                         it; the wait ends with the sample, when the writer no longer holds it, or when its participant \
                         is lost"
                    );
                });
                StatusMask::NONE
            }
            ReaderEvent::SampleRejected(reason, instance) => {
                statuses.rejected.count(reason, instance);
                StatusMask::SAMPLE_REJECTED
            }
            ReaderEvent::DeadlineMissed(instance) => {
                statuses.deadline_missed.count(instance);
                StatusMask::REQUESTED_DEADLINE_MISSED
            }
            ReaderEvent::WriterAlive(writer) => {
                statuses.liveliness.gained(writer);
                StatusMask::LIVELINESS_CHANGED
            }
            ReaderEvent::WriterNotAlive(writer) => {
                statuses.liveliness.lost(writer, self.matched.binary_search(&writer).is_ok());
                StatusMask::LIVELINESS_CHANGED
            }
        };
    }
}

impl std::fmt::Debug for ReaderCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReaderCore").field("guid", &self.guid).finish_non_exhaustive()
    }
}
