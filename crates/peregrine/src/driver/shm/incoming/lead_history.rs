//! The waits in which a thread of the application leads at shared memory.
//!
//! A thread that leads saves a wake-up for each sample. In a dense flow, which the application receives in batches, no
//! sample needs a wake-up of its own: there the shared-memory thread takes, and the batches grow while the threads wake
//! up. A flow is dense if its samples come within [`DENSE_INTERVAL`] of each other, unless it is an exchange: the
//! thread writes between its waits, and finds few samples at a time, each of which waits for the one before. See
//! [`LeadBalance`] for threads that receive for others.

use std::cell::Cell;

use peregrine_rtps::time::{Instant, Span};

use crate::driver::base::lead_balance::LeadBalance;
use crate::driver::base::writes::Writes;

/// The largest time between two samples of a dense flow. A thread that has lost its core for a while finds samples,
/// too, but fewer for that time.
const DENSE_INTERVAL: Span = Span::from_micros(5);
/// Most samples that a thread finds at a time in an exchange.
const EXCHANGE_SAMPLES_MAX: usize = 4;
/// Number of consecutive waits in a dense flow after which the thread does not lead.
const DENSE_WAITS: u32 = 16;
/// Number of waits in which the thread then does not lead. It doubles if the flow is still dense afterwards.
const EXCLUDED_WAITS: u32 = 64;
const EXCLUDED_WAITS_MAX: u32 = 4096;

/// The history of one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeadHistory {
    balance: LeadBalance,
    /// Number of consecutive waits in a dense flow.
    dense: u32,
    /// Number of waits to exclude after the next [`DENSE_WAITS`].
    next_excluded: u32,
    /// When the thread returned to the application after it has led, and its writes until then; `None` unless it has
    /// led in the last wait.
    last: Option<(Instant, Writes)>,
}

thread_local! {
    static HISTORY: Cell<LeadHistory> = const { Cell::new(LeadHistory::new()) };
}

impl LeadHistory {
    const fn new() -> Self {
        Self { balance: LeadBalance::new(), dense: 0, next_excluded: EXCLUDED_WAITS, last: None }
    }

    /// Reads and changes the history of the calling thread.
    pub(super) fn of_this_thread<R>(change: impl FnOnce(&mut Self) -> R) -> R {
        let mut history = HISTORY.get();
        let result = change(&mut history);
        HISTORY.set(history);
        result
    }

    /// Whether the thread does not lead in this wait. Counts the wait.
    pub(super) const fn is_excluded(&mut self) -> bool {
        let is_excluded = self.balance.is_excluded();
        if is_excluded {
            self.on_wait_without_lead();
        }
        is_excluded
    }

    /// Records a wait in which the thread does not lead to the end.
    pub(super) const fn on_wait_without_lead(&mut self) {
        self.last = None;
    }

    /// Records that the thread has received for others only. Returns whether it leads on.
    pub(super) const fn leads_on_after_others(&mut self) -> bool {
        self.balance.leads_on_after_others()
    }

    /// Records that the thread returns to the application with samples. The application has written `writes` samples on
    /// the thread so far.
    pub(super) fn on_leave(&mut self, now: Instant, samples: usize, writes: Writes) {
        let last = self.last.replace((now, writes));
        if samples == 0 {
            // The thread was woken for another reason.
            return;
        }
        self.balance.on_own_sample();
        let Some((left_at, writes_before)) = last else { return };
        let is_exchange = writes != writes_before && samples <= EXCHANGE_SAMPLES_MAX;
        let time = now.since(left_at);
        if is_exchange || time.0 >= DENSE_INTERVAL.0.saturating_mul(samples as u64) {
            (self.dense, self.next_excluded) = (0, EXCLUDED_WAITS);
            return;
        }
        self.dense += 1;
        if self.dense >= DENSE_WAITS {
            self.dense = 0;
            self.balance.exclude(self.next_excluded);
            self.next_excluded = (self.next_excluded * 2).min(EXCLUDED_WAITS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: u32 = 10_000;

    /// A flow, and a thread that waits for its samples and takes what has come.
    struct Flow {
        /// Time between two samples.
        interval: Span,
        /// Time in which the thread processes a sample.
        processing: Span,
        /// Number of waits between two pauses of 4 ms in which the thread has no core.
        pause_every: u32,
        /// Whether the thread writes a sample for each that it takes.
        writes: bool,
        /// Whether each sample answers one that the thread writes, after `interval`.
        is_exchange: bool,
    }

    const FLOW: Flow =
        Flow { interval: Span::ZERO, processing: Span(500), pause_every: u32::MAX, writes: false, is_exchange: false };

    impl Flow {
        /// The number of waits in which the thread leads.
        fn waits_with_lead(&self) -> u32 {
            let (mut history, mut now, mut leads, mut writes) = (LeadHistory::new(), Instant(1_000_000), 0, 0);
            let mut next = now + self.interval;
            for wait in 1..=WAITS {
                if wait.is_multiple_of(self.pause_every) {
                    now = now + Span::from_millis(4);
                }
                now = now.max(next);
                let samples = if self.is_exchange { 1 } else { (now.since(next).0 / self.interval.0 + 1).min(64) };
                if !history.is_excluded() {
                    leads += 1;
                    history.on_leave(now, samples as usize, Writes::of_test(writes));
                }
                now = now + Span(self.processing.0 * samples);
                writes += if self.writes { samples as u32 } else { 0 };
                if self.is_exchange {
                    next = now + self.interval;
                } else {
                    next = next + Span(self.interval.0 * samples);
                }
            }
            leads
        }
    }

    #[test]
    fn thread_leads_in_each_wait_of_a_flow_that_is_not_dense() {
        for interval in [Span::from_micros(6), Span::from_micros(10), Span::from_micros(100), Span::from_millis(10)] {
            assert_eq!(Flow { interval, ..FLOW }.waits_with_lead(), WAITS, "{interval}");
        }
    }

    #[test]
    fn thread_leads_in_each_wait_of_an_exchange() {
        for interval in [Span(500), Span::from_micros(2), Span::from_micros(100)] {
            assert_eq!(
                Flow { interval, writes: true, is_exchange: true, ..FLOW }.waits_with_lead(),
                WAITS,
                "{interval}"
            );
        }
    }

    #[test]
    fn thread_that_loses_its_core_leads_in_each_wait() {
        let flow = Flow { interval: Span::from_micros(50), pause_every: 20, ..FLOW };
        assert_eq!(flow.waits_with_lead(), WAITS);
    }

    #[test]
    fn thread_leads_in_few_waits_of_a_dense_flow() {
        for processing in [Span(100), Span(600)] {
            let leads = Flow { interval: Span(500), processing, ..FLOW }.waits_with_lead();
            assert!((DENSE_WAITS..WAITS / 40).contains(&leads), "{leads}");
        }
    }

    #[test]
    fn thread_that_relays_a_dense_flow_and_falls_behind_leads_in_few_waits() {
        let leads = Flow { interval: Span(500), processing: Span(600), writes: true, ..FLOW }.waits_with_lead();
        assert!((DENSE_WAITS..WAITS / 20).contains(&leads), "{leads}");
    }

    #[test]
    fn thread_leads_again_when_a_flow_is_not_dense_any_more() {
        let mut history = LeadHistory::new();
        let mut now = Instant(1_000_000);
        for _ in 0..DENSE_WAITS + 1 {
            now = now + Span(500);
            history.on_leave(now, 1, Writes::so_far());
        }
        let mut waits = 0;
        while history.is_excluded() {
            waits += 1;
        }
        assert_eq!(waits, EXCLUDED_WAITS);
        for _ in 0..WAITS {
            now = now + Span::from_millis(1);
            history.on_leave(now, 1, Writes::so_far());
            assert!(!history.is_excluded());
        }
    }
}
