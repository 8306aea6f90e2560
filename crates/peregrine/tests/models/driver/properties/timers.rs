//! A deadline that was armed wakes the control thread.

use std::sync::Arc;

use loom::thread;
use peregrine_rtps::time::Instant;

use super::bounded;
use crate::driver::base::clock::NEVER;
use crate::driver::base::deadline_cell::DeadlineCell;
use crate::driver::reactor::wake_timer::WakeTimer;

/// A domain with a deadline of each of two endpoints.
struct Domain {
    timer: WakeTimer,
    due: [DeadlineCell; 2],
}

impl Domain {
    fn new() -> Arc<Self> {
        Arc::new(Self { timer: WakeTimer::new().unwrap(), due: [(); 2].map(|()| DeadlineCell::never()) })
    }

    /// Like the end of each call of an endpoint.
    fn set(&self, endpoint: usize, deadline: u64) {
        let deadline = self.due[endpoint].set(Some(Instant(deadline)));
        self.timer.arm(deadline);
    }

    /// Like `Domain::handle_timers` at this time. Returns which endpoints were called.
    fn handle_timers(&self, now: u64) -> [bool; 2] {
        self.timer.begin_look();
        let mut earliest = NEVER;
        let called = [0, 1].map(|endpoint| {
            let is_due = self.due[endpoint].get() <= now;
            if is_due {
                self.due[endpoint].set(None);
            }
            earliest = earliest.min(self.due[endpoint].get());
            is_due
        });
        self.timer.set(earliest);
        called
    }
}

#[test]
fn deadlines_of_two_threads_wake_the_control_thread() {
    bounded(3).check(|| {
        let domain = Domain::new();
        let others = [(0, 10), (1, 5)].map(|(endpoint, deadline)| {
            let domain = Arc::clone(&domain);
            thread::spawn(move || domain.set(endpoint, deadline))
        });
        let mut called = [false; 2];
        while called != [true; 2] {
            domain.timer.timer().wait();
            let now_called = domain.handle_timers(10);
            called = [0, 1].map(|endpoint| called[endpoint] | now_called[endpoint]);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// The control thread handles the early deadline; the later one stays armed.
#[test]
fn later_deadline_stays_armed_during_handling_of_earlier_one() {
    bounded(3).check(|| {
        let domain = Domain::new();
        domain.set(0, 5);
        let other = thread::spawn({
            let domain = Arc::clone(&domain);
            move || domain.set(1, 20)
        });
        domain.timer.timer().wait();
        assert!(domain.handle_timers(5)[0]);
        other.join().unwrap();
        assert_eq!(domain.due[1].get(), 20);
        // The timer wakes the control thread, possibly without a due deadline, until it has called the second endpoint.
        domain.timer.timer().wait();
        assert!(domain.handle_timers(20)[1]);
    });
}
