//! The window, and the schedule of requests for acknowledgement.

use crate::history::HistoryKind;
use crate::limits::{
    ASK_EVERY_BYTES, CORK_SAMPLES_MAX, CROWD_LOOK_EVERY, CROWD_WAIT_MAX, INACTIVE_ASK_EVERY, LASTING_INTERVALS,
    LASTING_PAUSE, LASTING_SAMPLES, LASTING_WAIT_MAX, LOOK_EVERY_BYTES, LOOK_PAUSE_MAX, LOOK_SAMPLE_BYTES_MIN,
    ONE_BY_ONE_AFTER_LOSS, RETRY_IN_FLOW, RETRY_IN_LASTING_FLOW, RETRY_MAX, RETRY_MIN, STEADY_AFTER_LOSS,
    STEADY_ASK_AFTER, STEADY_ASK_EVERY, STEADY_GAP_MAX, STEADY_GAPS, STEADY_INTERVALS, WINDOW_BYTES_MAX,
    WINDOW_BYTES_MIN, WINDOW_BYTES_START,
};
use crate::time::{Instant, Span};

use super::config::WriterConfig;
use super::cork_state::Density;
use super::kept_limits::kept_limits;

/// Samples sent and not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) samples: u64,
    pub(super) octets: usize,
}

/// The state of the readers that receive messages and may request repair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answers {
    /// No reader acknowledges.
    None,
    /// All readers that acknowledge are inactive.
    Inactive,
    /// At least one reader needs a request with each sample: see [`super::proxy::ReaderProxy::is_current`].
    CatchingUp,
    /// The answers of at least one reader wait in a [crowd](crate::limits::CROWD_FROM), and no reader outside of crowds
    /// needs a request with each sample.
    Crowded,
    /// All readers are current, and a request is unanswered.
    Asked,
    /// All readers are current, and no request is unanswered.
    Settled,
}

impl Answers {
    /// The state that requires more frequent requests.
    pub(super) const fn worse_of(self, other: Self) -> Self {
        match (self, other) {
            (Self::CatchingUp, _) | (_, Self::CatchingUp) => Self::CatchingUp,
            (Self::Crowded, _) | (_, Self::Crowded) => Self::Crowded,
            (Self::Asked, _) | (_, Self::Asked) => Self::Asked,
            (Self::Settled, _) | (_, Self::Settled) => Self::Settled,
            (Self::Inactive, _) | (_, Self::Inactive) => Self::Inactive,
            (Self::None, Self::None) => Self::None,
        }
    }
}

/// Window and heartbeat schedule of one writer.
///
/// A HEARTBEAT attached to a sample requests acknowledgement: when half of the samples that may be held or a quarter of
/// the window have been sent, so that the rest is available until the answer arrives; after [`ASK_EVERY_BYTES`] at the
/// latest; and with any sample after a silence. A timer requests acknowledgement of samples that no later sample
/// covers.
///
/// The samples of a steady flow, such as that of a sensor, follow each other at even gaps, and each sample shows the
/// readers whether the one before is missing. While all readers are current, the writer requests acknowledgement once
/// per [`STEADY_ASK_EVERY`] samples, at least once per [`STEADY_ASK_AFTER`], and the timer waits for
/// [`STEADY_INTERVALS`], in a lasting flow for [`LASTING_INTERVALS`].
#[derive(Debug)]
pub(super) struct Flow {
    /// The number of unacknowledged bytes that may be in flight.
    window: usize,
    /// Below this size, the window grows by the acknowledged bytes; above, by an eighth of them.
    gentle_from: usize,
    last_cut: Instant,
    /// Acknowledgements that must arrive before two samples that exceed the window may be in flight again.
    one_by_one: u32,
    /// Samples after which the writer requests acknowledgement.
    ask_every: u32,
    /// Held samples at which the writer requests acknowledgement in any case, because the next write would have to
    /// wait.
    full_at: usize,
    samples_since_asked: u32,
    bytes_since_asked: usize,
    /// Bytes sent since the last [`Self::take_look`] that returned true; short samples count more.
    unlooked_bytes: usize,
    density: Density,
    /// The pause before the last sample was so short that its thread did not wait for an answer of the application on
    /// the other side.
    follows_closely: bool,
    last_asked: Option<Instant>,
    next_heartbeat: Option<Instant>,
    /// The last request followed from the number of sent samples, not from time, or the writer corks; no thread waits.
    in_full_flow: bool,
    /// Not all readers have answered the last request.
    is_owed: bool,
    /// Since when requests are put off because of crowds of answers.
    put_off_since: Option<Instant>,
    /// A thread has waited for acknowledgement since the last sample.
    is_awaited: bool,
    /// The history holds a sample for longer than a steady flow needs to find its loss.
    holds_long_enough: bool,
    /// The samples that wait for a train are few compared with those that the history holds.
    has_room_to_cork: bool,
    lifespan: Span,
    last_sent: Option<Instant>,
    /// The smoothed gap between samples.
    interval: Span,
    /// The delay of the application that its later samples have not made up yet.
    overdue: Span,
    /// Consecutive even gaps, at most twice [`STEADY_GAPS`]; a long gap subtracts [`STEADY_GAPS`].
    even_gaps: u32,
    /// Samples without a long gap, at most twice [`LASTING_SAMPLES`]; a long gap subtracts [`LASTING_PAUSE`].
    samples_without_pause: u32,
    /// Samples to be sent without loss before the flow counts as steady again.
    samples_to_prove: u32,
}

impl Flow {
    pub(super) fn new(config: &WriterConfig) -> Self {
        let capacity = match config.history {
            HistoryKind::KeepAll => config.limits.max_samples.min(config.limits.max_samples_per_instance),
            HistoryKind::KeepLast(_) => u32::MAX,
        };
        let capacity = capacity.min(kept_limits(config).samples);
        let holds_long_enough = match config.history {
            HistoryKind::KeepAll => true,
            HistoryKind::KeepLast(depth) => depth > STEADY_INTERVALS,
        };
        let depth = match config.history {
            HistoryKind::KeepAll => capacity,
            HistoryKind::KeepLast(depth) => depth,
        };
        Self {
            has_room_to_cork: u64::from(depth) >= 4 * CORK_SAMPLES_MAX,
            window: WINDOW_BYTES_START,
            gentle_from: WINDOW_BYTES_MAX,
            last_cut: Instant(0),
            one_by_one: 0,
            ask_every: (capacity / 2).clamp(1, 256),
            full_at: capacity as usize,
            samples_since_asked: 0,
            bytes_since_asked: 0,
            unlooked_bytes: 0,
            density: Density::default(),
            follows_closely: false,
            last_asked: None,
            next_heartbeat: None,
            in_full_flow: false,
            is_owed: false,
            put_off_since: None,
            is_awaited: false,
            holds_long_enough,
            lifespan: config.lifespan,
            last_sent: None,
            interval: Span::ZERO,
            overdue: Span::ZERO,
            even_gaps: 0,
            samples_without_pause: 0,
            samples_to_prove: 0,
        }
    }

    pub(super) const fn set_lifespan(&mut self, lifespan: Span) {
        self.lifespan = lifespan;
    }

    /// Whether the window may be closed with this number of held bytes.
    pub(super) const fn may_be_closed(&self, held: u64) -> bool {
        held > self.window as u64
    }

    /// Whether a sample of `len` bytes has to wait. One sample may always be in flight, and after recent success a
    /// second one of any length: otherwise the link would be idle while a large sample waits for the acknowledgement of
    /// the last.
    pub(super) const fn is_closed(&self, in_flight: InFlight, len: usize) -> bool {
        let may_follow = in_flight.samples == 1 && self.one_by_one == 0;
        in_flight.octets > 0 && in_flight.octets.saturating_add(len) > self.window && !may_follow
    }

    /// Counts a sent sample. Returns whether the caller must call [`Self::plan_timer`].
    #[must_use]
    pub(super) fn count_sent(&mut self, now: Instant, len: usize) -> bool {
        self.samples_since_asked = self.samples_since_asked.saturating_add(1);
        self.bytes_since_asked = self.bytes_since_asked.saturating_add(len);
        self.unlooked_bytes = self.unlooked_bytes.saturating_add(len.max(LOOK_SAMPLE_BYTES_MIN));
        self.density.count(now, len, self.ask_every, (self.window / 4).min(ASK_EVERY_BYTES));
        self.samples_to_prove = self.samples_to_prove.saturating_sub(1);
        self.is_awaited = false;
        self.observe_gap(now);
        self.next_heartbeat.is_none() || self.is_steady()
    }

    /// Schedules a request for acknowledgement in case that no later sample carries one.
    pub(super) fn plan_timer(&mut self, now: Instant, answers: Answers) {
        match answers {
            Answers::None | Answers::Inactive => {}
            Answers::Settled if self.is_steady() => self.next_heartbeat = Some(now + self.tail_wait()),
            Answers::Crowded if self.next_heartbeat.is_none() => self.next_heartbeat = Some(now + CROWD_LOOK_EVERY),
            _ if self.next_heartbeat.is_none() => self.next_heartbeat = Some(now + self.retry_min()),
            _ => {}
        }
    }

    /// Whether the next message should request acknowledgement.
    pub(super) fn wants_acknowledgement(&self, now: Instant, held: usize, answers: Answers) -> bool {
        if self.samples_since_asked == 0 {
            return false;
        }
        if matches!(answers, Answers::None | Answers::Inactive) {
            let is_due = || self.last_asked.is_none_or(|at| now.since(at) >= INACTIVE_ASK_EVERY);
            return answers == Answers::Inactive && is_due();
        }
        let asks_by_pace = match answers {
            Answers::Settled if self.is_sparse(held) => {
                self.samples_since_asked >= STEADY_ASK_EVERY
                    || self.last_asked.is_none_or(|at| now.since(at) >= STEADY_ASK_AFTER)
            }
            // The timer repeats the request if the answer is late.
            Answers::Asked if self.is_sparse(held) => false,
            Answers::Crowded => false,
            _ => true,
        };
        self.has_sent_much()
            || held >= self.full_at
            || asks_by_pace && self.last_asked.is_none_or(|at| now.since(at) >= self.retry_min())
    }

    /// How long the timer waits for the next sample of a steady flow; `None` if the flow is not steady.
    pub(super) fn wait_for_next_sample(&self) -> Option<Span> {
        self.is_steady().then(|| self.tail_wait())
    }

    /// Records the gap between this sample and the last one.
    fn observe_gap(&mut self, now: Instant) {
        let Some(last) = self.last_sent.replace(now) else { return };
        let gap = now.since(last);
        if gap <= self.steady_wait() && gap <= STEADY_GAP_MAX {
            self.even_gaps = (self.even_gaps + 1).min(STEADY_GAPS * 2);
            self.samples_without_pause = (self.samples_without_pause + 1).min(LASTING_SAMPLES * 2);
            let early = Span(self.interval.0.saturating_sub(gap.0));
            if self.overdue > Span::ZERO {
                // A delayed application sends the samples of its delay in a burst.
                self.overdue = Span(self.overdue.0.saturating_sub(early.0.max(self.interval.0 / 8)));
            } else {
                self.interval = Span(self.interval.0 / 4 * 3 + gap.0 / 4);
            }
            return;
        }
        // One long gap, for example from scheduling, does not end an established flow.
        let is_pause = gap <= STEADY_GAP_MAX;
        self.samples_without_pause =
            if is_pause { self.samples_without_pause.saturating_sub(LASTING_PAUSE) } else { 0 };
        self.even_gaps = if is_pause { self.even_gaps.saturating_sub(STEADY_GAPS) } else { 0 };
        if self.is_even() {
            self.overdue = gap;
        } else {
            self.even_gaps = 0;
            self.overdue = Span::ZERO;
            self.interval = gap.min(STEADY_GAP_MAX);
        }
    }

    const fn is_even(&self) -> bool {
        self.even_gaps >= STEADY_GAPS
    }

    /// Whether the next sample will follow soon, so that it shows a loss while the history still holds the lost sample.
    fn is_steady(&self) -> bool {
        self.is_even()
            && self.samples_to_prove == 0
            && self.holds_long_enough
            && self.lifespan.0 / 2 >= self.steady_wait().0
    }

    /// Whether the flow is steady, and the history has room for the samples written until late answers arrive.
    fn is_sparse(&self, held: usize) -> bool {
        self.is_steady() && held < self.full_at / 2
    }

    fn steady_wait(&self) -> Span {
        const { assert!(STEADY_GAP_MAX.0 * STEADY_INTERVALS as u64 <= RETRY_MAX.0) };
        debug_assert!(self.interval <= STEADY_GAP_MAX);
        Span(self.interval.0 * STEADY_INTERVALS as u64).max(self.retry_min())
    }

    /// How long the timer waits for the next sample before the writer requests acknowledgement.
    fn tail_wait(&self) -> Span {
        let steady = self.steady_wait();
        if !self.is_lasting() {
            return steady;
        }
        let lasting = Span(self.interval.0 * u64::from(LASTING_INTERVALS)).min(LASTING_WAIT_MAX);
        lasting.max(RETRY_IN_LASTING_FLOW).min(Span(self.lifespan.0 / 2)).max(steady)
    }

    /// Whether a writer that waits for room must request acknowledgement although it sends no sample.
    pub(super) const fn must_ask_for_room(&self) -> bool {
        self.samples_since_asked > 0
    }

    /// A request for acknowledgement was sent; `corks`: the writer requests each time that no answer is outstanding.
    /// The caller then calls [`Self::ask_at`].
    pub(super) fn record_heartbeat(&mut self, now: Instant, corks: bool) {
        self.in_full_flow = corks || self.has_sent_much();
        self.is_owed = true;
        self.samples_since_asked = 0;
        self.bytes_since_asked = 0;
        self.last_asked = Some(now);
        self.put_off_since = None;
    }

    /// Whether requests may still be put off because of a crowd of answers.
    pub(super) fn may_put_off(&self, now: Instant) -> bool {
        self.put_off_since.is_none_or(|since| now.since(since) < CROWD_WAIT_MAX)
    }

    /// A request was put off because of a crowd of answers, or none had to be.
    pub(super) fn note_put_off(&mut self, now: Instant, is_put_off: bool) {
        self.put_off_since = is_put_off.then(|| self.put_off_since.unwrap_or(now));
    }

    /// Whether the calling thread, which has just sent, should look for answers itself: the flow is dense, and enough
    /// was sent since it last looked.
    pub(super) fn take_look(&mut self) -> bool {
        let is_due = self.unlooked_bytes >= LOOK_EVERY_BYTES;
        if is_due {
            self.unlooked_bytes = 0;
        }
        is_due && self.density.is_dense() && self.follows_closely
    }

    /// Whether many samples, or many bytes, follow each other quickly.
    pub(super) const fn is_dense(&self) -> bool {
        self.density.is_dense()
    }

    /// Records the pause between the last write and the next one.
    pub(super) const fn observe_pause(&mut self, pause: Span) {
        self.follows_closely = pause.0 <= LOOK_PAUSE_MAX.0;
    }

    /// Whether samples may wait for a train: no thread waits for acknowledgement, and the history holds enough.
    pub(super) const fn allows_cork(&self) -> bool {
        self.density.is_dense() && !self.is_awaited && self.has_room_to_cork
    }

    /// Requests acknowledgement soon, because a thread waits for it.
    pub(super) fn expedite_heartbeat(&mut self, now: Instant) {
        self.in_full_flow = false;
        self.is_awaited = true;
        self.next_heartbeat = self.next_heartbeat.map(|at| at.min(now + RETRY_MIN));
    }

    pub(super) fn heartbeat_due(&self, now: Instant) -> bool {
        self.next_heartbeat.is_some_and(|at| at <= now)
    }

    /// Whether the timer expires within the interval at which a writer looks for the end of a crowd.
    pub(super) fn is_next_look_near(&self, now: Instant) -> bool {
        self.next_heartbeat.is_some_and(|at| at <= now + CROWD_LOOK_EVERY)
    }

    pub(super) const fn next_heartbeat(&self) -> Option<Instant> {
        self.next_heartbeat
    }

    /// Schedules the next request; `None` when no reader owes an answer.
    pub(super) fn schedule(&mut self, now: Instant, wait: Option<Span>) {
        self.is_owed = wait.is_some();
        self.next_heartbeat = wait.map(|wait| now + wait.max(self.retry_min()));
    }

    /// The timer expires at this time.
    pub(super) const fn ask_at(&mut self, at: Instant) {
        self.next_heartbeat = Some(at);
    }

    /// Schedules the next request, unless an earlier one is scheduled.
    pub(super) fn ask_within(&mut self, now: Instant, wait: Span) {
        let at = now + wait.max(self.retry_min());
        self.is_owed = true;
        self.next_heartbeat = Some(self.next_heartbeat.map_or(at, |planned| planned.min(at)));
    }

    /// Enlarges the window after an acknowledgement of this number of bytes.
    pub(super) fn grow(&mut self, acknowledged: usize) {
        let step = if self.window < self.gentle_from { acknowledged } else { acknowledged / 8 };
        self.window = self.window.saturating_add(step).min(WINDOW_BYTES_MAX);
        self.one_by_one = self.one_by_one.saturating_sub(1);
    }

    /// Halves the window after a loss, at most once per round trip.
    pub(super) fn cut(&mut self, now: Instant, round_trip: Span) {
        self.in_full_flow = false;
        self.one_by_one = ONE_BY_ONE_AFTER_LOSS;
        self.samples_to_prove = STEADY_AFTER_LOSS;
        if now.since(self.last_cut) < round_trip {
            return;
        }
        self.last_cut = now;
        self.window = (self.window / 2).max(WINDOW_BYTES_MIN);
        self.gentle_from = self.window;
    }

    fn has_sent_much(&self) -> bool {
        self.samples_since_asked >= self.ask_every || self.bytes_since_asked >= (self.window / 4).min(ASK_EVERY_BYTES)
    }

    const fn is_lasting(&self) -> bool {
        self.samples_without_pause >= LASTING_SAMPLES
    }

    /// The shortest wait for an answer.
    pub(super) const fn retry_min(&self) -> Span {
        if self.in_full_flow { RETRY_IN_FLOW } else { RETRY_MIN }
    }

    /// How long the timer waits at least for the answer of a current reader to the first request.
    pub(super) fn first_wait_min(&self) -> Span {
        if self.is_awaited || !self.is_lasting() || !self.is_steady() {
            return Span::ZERO;
        }
        RETRY_IN_LASTING_FLOW.min(Span(self.lifespan.0 / 2))
    }
}
