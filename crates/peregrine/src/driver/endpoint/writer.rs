//! A writer in the driver: the state machine under its lock.

mod channels;

use std::any::TypeId;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use peregrine_rtps::history::{Change, Full};
use peregrine_rtps::id::Guid;
use peregrine_rtps::qos::NonMatch;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::writer::{MatchedReader, ReaderPath, Writer, WriterEvent};
use peregrine_transport::shm::SlotLender;
use tracing::Level;

use super::backlog::BacklogCheck;
use super::context::EndpointContext;
use super::flow::FlowController;
use super::last_heard::LastHeard;
use super::local_reader::LocalReader;
use super::mark::Mark;
use super::outbox::Outbox;
use super::send_state::Sending;
use super::topic::TopicCore;
use super::waiting::{StatusState, Waitable, wait_locked};
use super::wakers::{Awaited, HasWakers, StateGuard, Wakers};
use super::writer_statuses::WriterStatuses;
use crate::config::WaitStrategy;
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::deadline_cell::DeadlineCell;
use crate::driver::base::endpoint_timers::EndpointTimer;
use crate::driver::base::parker::Parker;
use crate::driver::base::user_code::{is_in_listener, log, run_user_code};
use crate::driver::base::writes::Writes;
use crate::driver::host::listener_gate::{AfterRun, ListenerGate};
use crate::driver::host::listener_queue::RunListener;
use crate::driver::host::{Host, Hosted};
use crate::driver::net::send_limit::SendLimit;
use crate::driver::route::shm::outgoing::Outgoing;
pub(crate) use crate::driver::route::shm::outgoing::PayloadSlot;
use crate::status::StatusMask;

/// Calls of a writer to its listener, under no lock.
pub(crate) trait WriterHook: Send + Sync {
    /// These statuses have changed.
    fn changed(&self, statuses: StatusMask);
}

pub(crate) struct WriterState {
    pub(crate) writer: Writer,
    pub(crate) statuses: WriterStatuses,
    /// Sorted.
    pub(crate) matched: Vec<Guid>,
    /// The matched readers in this process.
    pub(in crate::driver) local: Arc<[LocalReader]>,
    pub(in crate::driver) last_heard: LastHeard,
    pub(crate) last_non_match: Option<(Guid, NonMatch)>,
    /// The listener hook, and the statuses that it handles.
    pub(crate) hook: Option<(Arc<dyn WriterHook>, StatusMask)>,
    pub(crate) wakers: Wakers,
    /// Which thread sends.
    pub(in crate::driver) sending: Sending<Outbox>,
    /// A reader has changed its path: queued messages have to be sent before its next samples.
    pub(in crate::driver) messages_first: bool,
    pub(crate) closed: bool,
    /// A deleted writer also waits for readers that do not answer, because the application requested a report.
    waits_for_inactive: bool,
    /// The last blocking write timed out; do not block again until the send queue is empty.
    is_outpaced: bool,
    backlog: BacklogCheck,
    /// A reader was unmatched whose acknowledgements threads may await. [`WriterCore::after`] wakes them.
    has_lost_reader: bool,
    /// Changes were published that the history does not have.
    pub(super) has_retained: bool,
}

/// The longest time that a write waits until its sample is sent. A fast network acknowledges within this time; queued
/// samples would leave the CPU cache before they are sent.
const HELD_UP_MAX: Span = Span::from_millis(2);

/// One writer.
pub(crate) struct WriterCore {
    pub(crate) guid: Guid,
    pub(crate) topic: Arc<TopicCore>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) gate: ListenerGate,
    /// The Rust type of its values.
    type_id: TypeId,
    /// Samples are sent in protected messages only: not by reference and not by shared memory.
    pub(in crate::driver) is_protected: bool,
    /// The flow controller of an asynchronous writer.
    pub(in crate::driver) flow: Option<FlowController>,
    /// The channels to readers in other processes of the host.
    pub(in crate::driver) outgoing: Outgoing,
    /// When a write has last returned, on any thread, if the writer depends on that.
    last_write_returned_at: AtomicU64,
    pub(in crate::driver) me: Weak<Self>,
    /// Copy of the flag in the state, for reading without the lock.
    is_closed: AtomicBool,
    state: Mutex<WriterState>,
    pub(in crate::driver) due: DeadlineCell,
    pub(super) timer: EndpointTimer,
    pub(super) mark: Mark,
}

/// Why a write did not succeed.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// No room became free in time.
    Full(Full),
    /// The writer is being deleted.
    Closed,
}

impl WriterCore {
    /// Creates a writer of values of this Rust type with at most this many bytes of shared memory. With a flow
    /// controller, the writer is asynchronous. If its participant trusts the host, only protected payloads keep samples
    /// in messages.
    pub(crate) fn new(
        context: EndpointContext,
        topic: Arc<TopicCore>,
        type_id: TypeId,
        writer: Writer,
        flow: Option<FlowController>,
        shared_memory_bytes: usize,
    ) -> Arc<Self> {
        let EndpointContext { host, timer, trusts_host } = context;
        let state = WriterState::new(writer);
        let lending =
            |me: Weak<Self>| SlotLender::new(move || drop(me.upgrade().inspect(|core| core.note_slot_given_back())));
        Arc::new_cyclic(|me| Self {
            guid: state.writer.guid(),
            topic,
            host,
            gate: ListenerGate::default(),
            type_id,
            is_protected: state.writer.is_protected() && (!trusts_host || state.writer.protects_payloads()),
            flow,
            outgoing: Outgoing::new(shared_memory_bytes, lending(Weak::clone(me))),
            me: Weak::clone(me),
            last_write_returned_at: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            state: Mutex::new(state),
            due: DeadlineCell::never(),
            timer,
            mark: Mark::default(),
        })
    }

    pub(crate) fn lock(&self) -> StateGuard<'_, WriterState> {
        StateGuard::lock(&self.state)
    }

    /// Whether the writer is being deleted.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(crate) fn deadline(&self) -> u64 {
        self.due.get().min(self.outgoing.deadline())
    }

    /// Writes a change; `at` is the current time. Takes no longer than `blocking`; waits for room until `give_up_at`.
    /// `numbered` runs under the writer's lock, right after the change got its number.
    pub(crate) fn write<'c>(
        &'c self,
        mut guard: StateGuard<'c, WriterState>,
        mut change: Change,
        mut at: Instant,
        blocking: Span,
        give_up_at: impl FnOnce() -> Option<Instant>,
        numbered: impl FnOnce(),
    ) -> Result<SequenceNumber, WriteFailure> {
        if guard.has_local_readers() {
            (guard, change) = match self.write_locally(guard, change, at) {
                Ok(number) => return Ok(number),
                Err(refused) => refused,
            };
        }
        guard.writer.observe_pause(at.since(Instant(self.last_write_returned_at.load(Ordering::Relaxed))));
        let mut give_up_at = Some(give_up_at);
        let mut deadline = None;
        loop {
            self.spill_to_history(&mut guard);
            if guard.closed {
                return Err(WriteFailure::Closed);
            }
            if self.must_encode(&guard, &change) {
                guard = self.encode_unlocked(guard, &change);
                continue;
            }
            match guard.write(at, change) {
                Ok(number) => {
                    numbered();
                    let must_wait = guard.must_wait_for_readers();
                    let depends_on_pauses = guard.writer.depends_on_pauses();
                    let limit = SendLimit::Until(deadline.unwrap_or(at + blocking));
                    self.transmit_in_flow(guard, limit);
                    if must_wait {
                        self.wait_for_readers(deadline.or_else(|| give_up_at.take().and_then(|at| at())));
                    }
                    // Under `Poll`, no thread would send a sample that waits.
                    if depends_on_pauses && self.host.config().wait != WaitStrategy::Poll {
                        self.last_write_returned_at.store(now().0, Ordering::Relaxed);
                    }
                    return Ok(number);
                }
                Err((full, refused)) => {
                    change = refused;
                    if let Some(give_up_at) = give_up_at.take() {
                        deadline = give_up_at();
                    }
                    let limit = SendLimit::Until(deadline.unwrap_or(at + blocking));
                    self.transmit_within(guard, limit);
                    guard = match self.wait(deadline, Awaited::Room, |s| s.closed || s.has_room(&change)) {
                        Some(guard) => guard,
                        None => return Err(WriteFailure::Full(full)),
                    };
                    at = now();
                }
            }
        }
    }

    /// Whether the change is a [shared value](crate::DataWriter::write_shared) whose bytes a reader needs; the reader
    /// may have matched after the first check.
    #[inline]
    fn must_encode(&self, state: &WriterState, change: &Change) -> bool {
        change.payload.known_len().is_none() && self.needs_octets(state)
    }

    /// Encodes the value without the lock, because encoding is user code.
    #[cold]
    fn encode_unlocked<'c>(
        &'c self,
        guard: StateGuard<'c, WriterState>,
        change: &Change,
    ) -> StateGuard<'c, WriterState> {
        drop(guard);
        // A value that cannot be encoded becomes an empty payload.
        let _ = change.payload.len();
        self.lock()
    }

    /// Writes if there is room, otherwise returns the change. `numbered`: see [`Self::write`]; `refused` runs instead
    /// under the same lock if there is no room.
    pub(crate) fn try_write<'c>(
        &'c self,
        mut guard: StateGuard<'c, WriterState>,
        change: Change,
        numbered: impl FnOnce(),
        refused: impl FnOnce(),
    ) -> Result<SequenceNumber, (WriteFailure, Change)> {
        if guard.closed {
            return Err((WriteFailure::Closed, change));
        }
        self.spill_to_history(&mut guard);
        let at = now();
        let pause = at.since(Instant(self.last_write_returned_at.load(Ordering::Relaxed)));
        guard.writer.observe_pause_of_single(pause);
        let written = guard.write(at, change);
        if written.is_ok() {
            numbered();
        } else {
            refused();
        }
        let depends_on_pauses = guard.writer.depends_on_pauses();
        self.transmit_in_flow(guard, SendLimit::NO_WAIT);
        if depends_on_pauses {
            self.last_write_returned_at.store(now().0, Ordering::Relaxed);
        }
        written.map_err(|(full, change)| (WriteFailure::Full(full), change))
    }

    /// Waits until `ready` returns an answer; `None` at the deadline. Under `Poll`, this thread receives meanwhile.
    pub(crate) fn wait(
        &self,
        deadline: Option<Instant>,
        awaited: Awaited,
        ready: impl Fn(&WriterState) -> bool,
    ) -> Option<StateGuard<'_, WriterState>> {
        let ready = |state: &mut WriterState| ready(state).then_some(());
        let end = deadline.unwrap_or(Instant(NEVER));
        wait_locked(self, end, awaited, ready).map(|((), guard)| guard)
    }

    /// Waits briefly until the written samples were sent.
    fn wait_for_readers(&self, deadline: Option<Instant>) {
        let end = now() + HELD_UP_MAX;
        let end = deadline.map_or(end, |at| at.min(end));
        if self.wait(Some(end), Awaited::Room, |s| s.closed || !s.writer.is_held_up()).is_none() {
            self.lock().is_outpaced = true;
        }
    }

    /// [`Self::transmit_within`] after a write. The thread of a dense flow receives acknowledgements itself.
    fn transmit_in_flow<'c>(&'c self, mut guard: StateGuard<'c, WriterState>, limit: SendLimit) {
        let looks = guard.writer.should_look_for_answers();
        let last = guard.writer.last();
        self.transmit_within(guard, limit);
        if self.outgoing.has_readers() {
            self.acknowledge(&self.outgoing.acknowledged_meanwhile(last));
            self.arm(self.outgoing.deadline());
            self.note_ended_channels();
        }
        if looks {
            self.host.poll_socket_once();
        }
    }

    /// Records acknowledgements of readers in other processes, and requests the reports that the waiters need.
    fn note_acknowledged(&self) {
        if self.outgoing.has_readers() {
            self.sync_demand(&mut self.lock());
        }
    }

    /// [`Self::note_acknowledged`] at intervals, for a writer in a steady flow on the fast path.
    #[cold]
    pub(super) fn note_acknowledged_meanwhile(&self, last: SequenceNumber) {
        self.acknowledge(&self.outgoing.acknowledged_now(last));
    }

    pub(in crate::driver) fn acknowledge(&self, news: &[(Guid, SequenceNumber)]) {
        if !news.is_empty() {
            self.take_note(&mut self.lock(), news);
        }
    }

    fn take_note(&self, state: &mut WriterState, news: &[(Guid, SequenceNumber)]) {
        if news.is_empty() {
            return;
        }
        let now = now();
        for (reader, below) in news {
            state.writer.acknowledge(now, *reader, *below);
            state.last_heard.note(reader.prefix, now, &state.matched);
        }
        self.release_retained(state);
        state.wakers.wake(StatusMask::ACKNOWLEDGED);
    }

    /// The caller then calls [`Self::after`].
    pub(crate) fn handle_timeout(self: &Arc<Self>, now: Instant) {
        self.note_acknowledged();
        let mut guard = self.lock();
        guard.writer.handle_timeout(now);
        drop(guard);
        self.trim_idle_memory(now);
    }

    /// Returns whether there was room for the match.
    pub(crate) fn match_reader(&self, now: Instant, reader: MatchedReader) -> bool {
        let guid = reader.guid;
        let is_local = self.host.config().same_process && !self.is_protected && reader.filter.is_none();
        let local = if is_local { LocalReader::find(guid, self.type_id) } else { None };
        let path = if local.is_some() { ReaderPath::HandOver } else { ReaderPath::Messages };
        let mut guard = self.lock();
        self.spill_to_history(&mut guard);
        let activity = guard.writer.activity_of(guid);
        if !guard.writer.match_reader_by(now, reader, path) {
            let writer = self.guid;
            log(Level::WARN, move || tracing::warn!(%writer, reader = %guid, "no room for another matched reader"));
            return false;
        }
        if let Some(local) = local {
            let others = guard.local.iter().filter(|other| other.guid != guid).cloned();
            guard.local = others.chain([local]).collect();
        }
        if let Err(place) = guard.matched.binary_search(&guid) {
            guard.matched.insert(place, guid);
            guard.statuses.matched.gained(guid);
            guard.statuses.changed |= StatusMask::PUBLICATION_MATCHED;
        }
        guard.note_activity_of(guid, activity);
        true
    }

    pub(crate) fn unmatch_reader(&self, now: Instant, reader: Guid) {
        let mut guard = self.lock();
        self.spill_to_history(&mut guard);
        let activity = guard.writer.activity_of(reader);
        guard.writer.unmatch_reader(now, reader);
        if guard.local.iter().any(|local| local.guid == reader) {
            guard.local = guard.local.iter().filter(|local| local.guid != reader).cloned().collect();
        }
        if let Ok(place) = guard.matched.binary_search(&reader) {
            guard.matched.remove(place);
            guard.statuses.matched.lost(reader);
            guard.statuses.changed |= StatusMask::PUBLICATION_MATCHED;
            let WriterState { last_heard, matched, .. } = &mut *guard;
            last_heard.forget_unmatched(reader.prefix, matched);
        }
        guard.note_activity_of(reader, activity);
        self.outgoing.remove(reader);
        self.note_ended_channels();
        guard.has_lost_reader = true;
    }

    pub(crate) fn refused(&self, reader: Guid, reason: &NonMatch) {
        let mut guard = self.lock();
        guard.last_non_match = Some((reader, reason.clone()));
        if let Some(policy) = reason.policy_id().filter(|_| reason.is_incompatible_qos()) {
            guard.statuses.incompatible_qos.count(policy);
            guard.statuses.changed |= StatusMask::OFFERED_INCOMPATIBLE_QOS;
        }
    }

    /// Appends HEARTBEATs for one participant to `out`, which the caller sends; then calls [`Self::after`].
    pub(in crate::driver) fn after_heartbeats(self: &Arc<Self>, out: &mut TransmitBatch) {
        if self.flow.is_none() {
            self.lock().writer.poll_heartbeats(out);
        }
        self.after();
    }

    /// Called after an input to the state machine: notifies and sends.
    pub(crate) fn after(self: &Arc<Self>) {
        let guard = self.lock();
        let (guard, news) = self.note_events(guard);
        let notify = self.put_out(guard, SendLimit::CALL);
        self.run_hook(news);
        if let Some(notify) = notify {
            notify.notify_all(self);
        }
    }

    /// Takes the events of the state machine, and wakes waiting threads.
    pub(super) fn note_events<'c>(
        &'c self,
        mut guard: StateGuard<'c, WriterState>,
    ) -> (StateGuard<'c, WriterState>, StatusMask) {
        let writer = self.guid;
        let mut acknowledged = std::mem::take(&mut guard.has_lost_reader);
        while let Some(event) = guard.writer.poll_event() {
            match event {
                WriterEvent::Acknowledged => acknowledged = true,
                WriterEvent::ReaderInactive(reader) => {
                    acknowledged = true;
                    guard.note_inactive(writer, reader);
                }
                WriterEvent::ReaderActive(reader) => {
                    guard.note_activity(reader);
                    log(Level::INFO, move || tracing::info!(%writer, %reader, "an inactive reader is back"));
                }
                WriterEvent::Stalled(stall) => guard.note_stall(writer, stall),
                WriterEvent::StallEnded { reader, lasted } => guard.note_stall_end(writer, reader, lasted),
                WriterEvent::HeldBack { cause, lasting } => guard.note_held_back(writer, cause, lasting),
                WriterEvent::HoldEnded { lasted } => guard.note_hold_end(writer, lasted),
                WriterEvent::CacheChanged => guard.statuses.changed |= StatusMask::RELIABLE_WRITER_CACHE_CHANGED,
                WriterEvent::DeadlineMissed(instance) => {
                    guard.statuses.deadline_missed.count(instance);
                    guard.statuses.changed |= StatusMask::OFFERED_DEADLINE_MISSED;
                }
                WriterEvent::LivelinessLost => {
                    guard.statuses.liveliness_lost.count();
                    guard.statuses.changed |= StatusMask::LIVELINESS_LOST;
                }
            }
        }
        if acknowledged {
            self.schedule_trim();
        }
        let changed = guard.statuses.take_news();
        let news = if acknowledged { changed | StatusMask::ACKNOWLEDGED } else { changed };
        if !news.is_empty() {
            guard.wakers.wake(news);
        }
        let mask = match &guard.hook {
            _ if guard.closed => StatusMask::ACKNOWLEDGED,
            Some((_, mask)) => *mask,
            None => StatusMask::NONE,
        };
        (guard, if mask.intersects(news) { news } else { StatusMask::NONE })
    }

    /// Runs the listener if it handles any of these statuses, or queues it if the calling thread must not run user
    /// code. The caller must hold no lock.
    pub(super) fn run_hook(&self, news: StatusMask) {
        if news.is_empty() {
            return;
        }
        if self.is_closed() {
            // No listener of the application any more, but the participant waits for the last acknowledgements.
            self.host.note_acknowledged(self.guid);
        } else if self.gate.add(news)
            && let Some(me) = self.me.upgrade()
        {
            self.host.run_or_queue(&me);
        }
    }

    fn hook_for(&self, news: StatusMask) -> Option<Arc<dyn WriterHook>> {
        self.lock().hook.as_ref().filter(|(_, mask)| mask.intersects(news)).map(|(hook, _)| Arc::clone(hook))
    }

    /// Ends writing, wakes waiting threads, and has later acknowledgements reported to the participant. With
    /// `waits_for_inactive`, the writer also waits for readers that do not answer.
    pub(crate) fn close(&self, waits_for_inactive: bool) {
        let mut guard = self.lock();
        guard.closed = true;
        guard.waits_for_inactive = waits_for_inactive;
        self.is_closed.store(true, Ordering::Release);
        let listener = guard.hook.take();
        guard.wakers.wake_all();
        drop(guard);
        // The old listener may own entities: it is dropped without the lock.
        run_user_code(|| drop(listener));
        self.note_acknowledged();
    }

    /// The writer is deleted: unsent samples are dropped.
    pub(in crate::driver) fn end(&self) {
        self.lock().sending.end();
        self.host.stop_publishing(self.guid);
    }

    /// Makes a deleted writer wait for readers that do not answer as well.
    pub(in crate::driver) fn wait_for_inactive(&self) {
        self.lock().waits_for_inactive = true;
    }

    /// Whether all samples were sent and acknowledged.
    pub(crate) fn is_settled(&self) -> bool {
        self.lock().is_settled()
    }
}

impl RunListener for WriterCore {
    fn gate(&self) -> &ListenerGate {
        &self.gate
    }

    fn run_listener(&self) -> AfterRun {
        self.gate.run(|news| {
            if let Some(hook) = self.hook_for(news) {
                hook.changed(news);
            }
        })
    }
}

impl HasWakers for WriterState {
    #[inline]
    fn wakers(&mut self) -> &mut Wakers {
        &mut self.wakers
    }
}

impl Hosted for WriterCore {
    fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }
}

impl Waitable for WriterCore {
    type State = WriterState;

    fn sync_demand(&self, state: &mut WriterState) {
        if self.outgoing.has_readers() {
            let news = self.outgoing.set_demand(state.writer.last(), state.demand());
            self.take_note(state, &news);
        }
    }

    fn park(&self, parker: &Arc<Parker>, end: Instant) {
        self.host.park(parker, end);
    }

    fn state(&self) -> StateGuard<'_, WriterState> {
        self.lock()
    }
}

impl WriterState {
    /// Adds a change to the writer, unless the send queue is full and the thread has to wait.
    fn write(&mut self, at: Instant, change: Change) -> Result<SequenceNumber, (Full, Change)> {
        if !self.sending.is_idle() && self.writer.is_send_queue_full() {
            return Err((Full::SendQueue, change));
        }
        Writes::note();
        self.backlog.note_sample(&change.payload);
        let written = self.writer.write(at, change);
        let (bytes, readers) = (self.writer.backlog_bytes(), self.matched.len());
        self.backlog.assert_bounded(bytes, readers, self.writer.sends_only_at_once());
        written
    }

    fn new(writer: Writer) -> Self {
        Self {
            writer,
            statuses: WriterStatuses::default(),
            matched: Vec::new(),
            local: Arc::new([]),
            last_non_match: None,
            hook: None,
            wakers: Wakers::default(),
            sending: Sending::default(),
            last_heard: LastHeard::default(),
            messages_first: false,
            is_outpaced: false,
            backlog: BacklogCheck::default(),
            closed: false,
            waits_for_inactive: false,
            has_lost_reader: false,
            has_retained: false,
        }
    }

    /// Whether the writing thread waits until the sample is sent. A listener does not wait, because it may run on the
    /// thread that receives acknowledgements.
    fn must_wait_for_readers(&mut self) -> bool {
        let is_held_up = self.writer.is_held_up();
        self.is_outpaced &= is_held_up;
        is_held_up && !self.is_outpaced && !is_in_listener()
    }

    /// The sample up to which readers in other processes report their acknowledgements, derived from the waiters.
    fn demand(&self) -> Option<SequenceNumber> {
        let last = self.writer.last();
        if self.writer.watches_cache() || (self.closed && !self.is_settled()) {
            return Some(last);
        }
        let wanted = self.wakers.awaited().filter_map(|awaited| match awaited {
            Awaited::Status(_) => None,
            Awaited::Acknowledged(number) => Some(number),
            Awaited::Room | Awaited::Memory => Some(last),
        });
        wanted.max()
    }

    /// Whether there is room for a change.
    pub(crate) fn has_room(&self, change: &Change) -> bool {
        self.writer.has_room_for(change) && !self.writer.is_send_queue_full()
    }

    /// Whether some of the matched readers are in this process.
    pub(crate) fn has_local_readers(&self) -> bool {
        !self.local.is_empty()
    }

    /// The number of samples that at least one of the awaited readers has not acknowledged.
    pub(in crate::driver) fn unacknowledged(&self) -> u64 {
        let acknowledged_below = match self.waits_for_inactive {
            true => self.writer.acknowledged_below_by_all(),
            false => self.writer.acknowledged_below(),
        };
        self.writer.last().next().distance_from(acknowledged_below)
    }

    fn is_settled(&self) -> bool {
        let last = self.writer.last();
        let is_acknowledged = match self.waits_for_inactive {
            true => self.writer.is_acknowledged_by_all(last),
            false => self.writer.is_acknowledged(last),
        };
        self.sending.is_idle() && self.writer.is_published() && is_acknowledged
    }
}

impl StatusState for WriterState {
    fn changed(&self) -> StatusMask {
        self.statuses.changed
    }
}

impl std::fmt::Debug for WriterCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriterCore").field("guid", &self.guid).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
