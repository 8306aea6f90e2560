//! The interval that a case measures, and what the process used in it.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use peregrine_report::record::ResourceUse;

use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::resources::ResourceMeter;

/// The warm-up and the measured window after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// Beginning of the warm-up.
    pub(super) warm_up: MonotonicNs,
    pub(super) start: MonotonicNs,
    pub(super) end: MonotonicNs,
}

impl Window {
    /// Begins at `start_ns`, or now if that has passed or is unknown.
    pub(super) fn of(start_ns: Option<u64>, warm_up: Duration, duration: Duration) -> Self {
        let now = MonotonicNs::now();
        let begin = start_ns.map_or(now, MonotonicNs).max(now);
        let start = begin.plus(warm_up);
        Self { warm_up: begin, start, end: start.plus(duration) }
    }

    /// Resource use of this process from the start of the window to its end, or until each of `writers` has reported
    /// its last sample through `sent`, if that is later. `at_start` runs just before.
    ///
    /// The calling thread sleeps meanwhile, because polling would count as processor time of the measured process. A
    /// stop request, or the end of all writers without their last sample, ends the window.
    pub(super) fn observe<T>(
        &self,
        writers: usize,
        sent: &Receiver<()>,
        stop: &Stop,
        at_start: impl FnOnce() -> T,
    ) -> (ResourceUse, T) {
        stop.sleep_until(self.start);
        let before = at_start();
        let meter = ResourceMeter::of_this_process();
        // An error means that all writers have ended.
        if (0..writers).all(|_| sent.recv().is_ok()) {
            stop.sleep_until(self.end);
        }
        (meter.result(), before)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn window_follows_the_common_start_unless_it_has_passed() {
        let later = MonotonicNs::now().plus(Duration::from_secs(60));
        let window = Window::of(Some(later.0), MS, 2 * MS);
        assert_eq!((window.warm_up, window.start, window.end), (later, later.plus(MS), later.plus(3 * MS)));
        for start_ns in [None, Some(1)] {
            let before = MonotonicNs::now();
            assert!(Window::of(start_ns, MS, MS).warm_up >= before);
        }
    }

    #[test]
    fn samples_outside_the_window_are_ignored() {
        let window = Window::of(None, 20 * MS, 30 * MS);
        let (_, sent) = sync_channel(1);
        let (used, started) = window.observe(0, &sent, &Stop::default(), MonotonicNs::now);
        let ended = MonotonicNs::now();
        assert!(started >= window.start && ended >= window.end);
        assert!(used.total.wall_ns <= ended.since_ns(window.start), "{used:?}");
        assert!(used.total.wall_ns <= ended.since_ns(started) && used.intervals.is_empty());
    }

    #[test]
    fn late_writer_extends_the_window_and_a_failed_one_ends_it() {
        let (sender, sent) = sync_channel(2);
        let past = Window::of(None, Duration::ZERO, Duration::ZERO);
        let late = std::thread::scope(|scope| {
            let late = scope.spawn(|| {
                sender.send(()).unwrap();
                let late = MonotonicNs::now();
                sender.send(()).unwrap();
                late
            });
            past.observe(2, &sent, &Stop::default(), || {});
            late.join().unwrap()
        });
        assert!(MonotonicNs::now() >= late);
        drop(sender);
        let long = Window::of(None, Duration::ZERO, Duration::from_secs(3600));
        let (used, ()) = long.observe(1, &sent, &Stop::default(), || {});
        assert!(used.total.wall_ns < 3_600_000_000_000);
    }
}
