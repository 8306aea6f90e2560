//! How much may be under way, and when to ask for acknowledgement.

use crate::history::HistoryKind;
use crate::limits::{
    ASK_EVERY_BYTES, ONE_BY_ONE_AFTER_LOSS, RETRY_IN_FLOW, RETRY_MIN, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN,
    WINDOW_BYTES_START,
};
use crate::time::{Instant, Span};

use super::WriterConfig;

/// What is sent and not acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) samples: u64,
    pub(super) octets: usize,
}

/// Window and heartbeat schedule of one writer.
///
/// Acknowledgement is asked for by a heartbeat that travels with a sample: when half of the samples that may be held or
/// a quarter of the bytes that may be under way have been sent, which leaves the rest for what is written until the
/// answer comes, but after [`ASK_EVERY_BYTES`] at the latest, and with any sample that follows a silence. What no later sample carries is asked for by a timer.
#[derive(Debug)]
pub(super) struct Flow {
    /// Bytes that may be under way.
    window: usize,
    /// Below this the window grows by all that is acknowledged, above by an eighth of it.
    gentle_from: usize,
    last_cut: Instant,
    /// So many acknowledgements have to come before two samples may be under way again that are more than the window.
    one_by_one: u32,
    /// Samples after which acknowledgement is asked for.
    ask_every: u32,
    /// Samples held at which it is asked for in any case, because the next write would have to wait.
    full_at: usize,
    samples_since_asked: u32,
    bytes_since_asked: usize,
    last_asked: Option<Instant>,
    next_heartbeat: Option<Instant>,
    /// Acknowledgement was last asked for because much had been sent, not because time had passed, and nobody waits.
    in_full_flow: bool,
    /// Not everyone who was asked has answered.
    is_owed: bool,
}

impl Flow {
    pub(super) fn new(config: &WriterConfig) -> Self {
        let capacity = match config.history {
            HistoryKind::KeepAll => config.limits.max_samples.min(config.limits.max_samples_per_instance),
            HistoryKind::KeepLast(_) => u32::MAX,
        };
        Self {
            window: WINDOW_BYTES_START,
            gentle_from: WINDOW_BYTES_MAX,
            last_cut: Instant(0),
            one_by_one: 0,
            ask_every: (capacity / 2).clamp(1, 256),
            full_at: capacity as usize,
            samples_since_asked: 0,
            bytes_since_asked: 0,
            last_asked: None,
            next_heartbeat: None,
            in_full_flow: false,
            is_owed: false,
        }
    }

    /// Whether the window may be closed when so many bytes are held.
    pub(super) const fn may_be_closed(&self, held: u64) -> bool {
        held > self.window as u64
    }

    /// Whether a sample of `len` bytes has to wait. One may always be under way; and a second one behind it, whatever their
    /// length, while nothing is lost: a link is idle as long as the next large sample waits for acknowledgement of the last.
    pub(super) const fn is_closed(&self, in_flight: InFlight, len: usize) -> bool {
        let may_follow = in_flight.samples == 1 && self.one_by_one == 0;
        in_flight.octets > 0 && in_flight.octets.saturating_add(len) > self.window && !may_follow
    }

    pub(super) fn count_sent(&mut self, now: Instant, len: usize, anyone_answers: bool) {
        self.samples_since_asked = self.samples_since_asked.saturating_add(1);
        self.bytes_since_asked = self.bytes_since_asked.saturating_add(len);
        if anyone_answers && self.next_heartbeat.is_none() {
            self.next_heartbeat = Some(now + self.retry_min());
        }
    }

    /// Whether the message about to leave should ask.
    pub(super) fn wants_acknowledgement(&self, now: Instant, held: usize) -> bool {
        self.samples_since_asked > 0
            && (self.has_sent_much()
                || held >= self.full_at
                || self.last_asked.is_none_or(|at| now.since(at) >= self.retry_min()))
    }

    /// Whether a writer that waits for room has to ask although it sends nothing.
    pub(super) const fn must_ask_for_room(&self) -> bool {
        self.samples_since_asked > 0
    }

    pub(super) fn record_heartbeat(&mut self, now: Instant, patience: Span) {
        self.in_full_flow = self.has_sent_much();
        self.is_owed = true;
        self.samples_since_asked = 0;
        self.bytes_since_asked = 0;
        self.last_asked = Some(now);
        self.schedule(now, Some(patience));
    }

    /// Whether so much was sent since acknowledgement was asked for that the answer ought to be here.
    pub(super) fn expects_answer(&self) -> bool {
        self.is_owed
            && (self.samples_since_asked >= self.ask_every / 2
                || self.bytes_since_asked >= (self.window / 8).min(ASK_EVERY_BYTES / 2))
    }

    /// Somebody waits for acknowledgement.
    pub(super) fn expedite_heartbeat(&mut self, now: Instant) {
        self.in_full_flow = false;
        self.next_heartbeat = self.next_heartbeat.map(|at| at.min(now + RETRY_MIN));
    }

    pub(super) fn heartbeat_due(&self, now: Instant) -> bool {
        self.next_heartbeat.is_some_and(|at| at <= now)
    }

    pub(super) const fn next_heartbeat(&self) -> Option<Instant> {
        self.next_heartbeat
    }

    /// To ask again after so long; `None` when nobody owes an answer.
    pub(super) fn schedule(&mut self, now: Instant, wait: Option<Span>) {
        self.is_owed = wait.is_some();
        self.next_heartbeat = wait.map(|wait| now + wait.max(self.retry_min()));
    }

    /// To ask again after so long, or sooner when that was planned already.
    pub(super) fn ask_within(&mut self, now: Instant, wait: Span) {
        let at = now + wait.max(self.retry_min());
        self.is_owed = true;
        self.next_heartbeat = Some(self.next_heartbeat.map_or(at, |planned| planned.min(at)));
    }

    /// So much was acknowledged: a little more may be under way.
    pub(super) fn grow(&mut self, acknowledged: usize) {
        let step = if self.window < self.gentle_from { acknowledged } else { acknowledged / 8 };
        self.window = self.window.saturating_add(step).min(WINDOW_BYTES_MAX);
        self.one_by_one = self.one_by_one.saturating_sub(1);
    }

    /// Something was lost: half as much may be under way, at most once per round trip.
    pub(super) fn cut(&mut self, now: Instant, round_trip: Span) {
        self.in_full_flow = false;
        self.one_by_one = ONE_BY_ONE_AFTER_LOSS;
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

    const fn retry_min(&self) -> Span {
        if self.in_full_flow { RETRY_IN_FLOW } else { RETRY_MIN }
    }
}
