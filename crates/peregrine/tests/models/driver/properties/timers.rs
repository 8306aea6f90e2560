//! A deadline that was armed wakes the control thread.

use std::sync::Arc;

use loom::thread;
use peregrine_rtps::id::EntityId;
use peregrine_rtps::time::Instant;

use super::bounded;
use crate::driver::base::deadline_cell::DeadlineCell;
use crate::driver::base::endpoint_timers::{EndpointTimer, EndpointTimers};
use crate::driver::reactor::wake_timer::WakeTimer;

/// A domain with two endpoints of one participant.
struct Domain {
    timer: WakeTimer,
    timers: Arc<EndpointTimers>,
    endpoints: [Endpoint; 2],
}

struct Endpoint {
    due: DeadlineCell,
    timer: EndpointTimer,
}

impl Domain {
    fn new() -> Arc<Self> {
        let timers = Arc::<EndpointTimers>::default();
        let endpoints = [1, 2]
            .map(|key| Endpoint { due: DeadlineCell::never(), timer: timers.add(EntityId::user_writer(key, false)) });
        Arc::new(Self { timer: WakeTimer::new().unwrap(), timers, endpoints })
    }

    /// Like the end of each call of an endpoint.
    fn set(&self, endpoint: usize, deadline: u64) {
        let deadline = self.endpoints[endpoint].due.set(Some(Instant(deadline)));
        self.arm(endpoint, deadline);
    }

    /// Like `WriterCore::arm`.
    fn arm(&self, endpoint: usize, deadline: u64) {
        self.endpoints[endpoint].timer.plan(deadline);
        self.timer.arm(deadline);
    }

    /// Like `Domain::handle_timers` at this time. Returns which endpoints were called.
    fn handle_timers(&self, now: u64) -> [bool; 2] {
        self.timer.begin_look();
        let mut called = [false; 2];
        if self.timers.next_call() <= now {
            let mut due = Vec::new();
            self.timers.take_due(now, &mut due);
            let places = [0, 1].map(|place| due.contains(&EntityId::user_writer(place + 1, false)));
            for (place, endpoint) in self.endpoints.iter().enumerate() {
                if places[place] && endpoint.due.get() <= now {
                    called[place] = true;
                    endpoint.due.set(None);
                }
            }
            for (place, endpoint) in self.endpoints.iter().enumerate() {
                if places[place] {
                    endpoint.timer.reset();
                    self.arm(place, endpoint.due.get());
                }
            }
        }
        self.timer.set(self.timers.next_call());
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
        assert_eq!(domain.endpoints[1].due.get(), 20);
        // The timer wakes the control thread, possibly without a due deadline, until it has called the second endpoint.
        domain.timer.timer().wait();
        assert!(domain.handle_timers(20)[1]);
    });
}

/// The deadline moves to an earlier time while the control thread looks at the endpoint, whose call has come too early.
#[test]
fn deadline_that_moves_during_a_look_wakes_the_control_thread() {
    bounded(3).check(|| {
        let domain = Domain::new();
        domain.set(0, 5);
        // Later than the call.
        domain.set(0, 30);
        let other = thread::spawn({
            let domain = Arc::clone(&domain);
            move || domain.set(0, 20)
        });
        domain.timer.timer().wait();
        assert!(!domain.handle_timers(5)[0], "30 and 20 are later");
        other.join().unwrap();
        assert!(domain.timers.next_call() <= 20);
        domain.timer.timer().wait();
        assert!(domain.handle_timers(20)[0]);
    });
}
