//! A condition that becomes true wakes every thread and task that waits for it, and the demand equals the needs of the
//! waiters.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker as TaskWaker};

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Instant;
use peregrine_transport::event::Token;

use super::bounded;
use crate::driver::base::clock::NEVER;
use crate::driver::base::parker::Parker;
use crate::driver::base::system::{Mutex, Poller, Waker};
use crate::driver::endpoint::waiting::{WaitFuture, Waitable, wait_locked};
use crate::driver::endpoint::wakers::{Awaited, HasWakers, StateGuard, Wakers};
use crate::status::StatusMask;

/// A writer whose readers report an acknowledgement only if it is demanded.
#[derive(Default)]
struct Core {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    wakers: Wakers,
    acknowledged: i64,
    /// The last sample whose acknowledgement the writer knows.
    reported: i64,
    /// The lowest number that a waiter needs.
    demand: Option<i64>,
}

impl State {
    /// Like a reader in another process.
    fn report(&mut self) {
        let is_new = self.acknowledged > self.reported;
        if is_new && self.demand.is_some_and(|demanded| demanded <= self.acknowledged) {
            self.reported = self.acknowledged;
            self.wakers.wake(StatusMask::ACKNOWLEDGED);
        }
    }
}

impl HasWakers for State {
    fn wakers(&mut self) -> &mut Wakers {
        &mut self.wakers
    }
}

impl Waitable for Core {
    type State = State;

    fn park(&self, parker: &Arc<Parker>, end: Instant) {
        parker.park_until(end);
    }

    fn state(&self) -> StateGuard<'_, State> {
        StateGuard::lock(&self.state)
    }

    fn sync_demand(&self, state: &mut State) {
        let numbers = state.wakers.awaited().filter_map(|awaited| match awaited {
            Awaited::Acknowledged(number) => Some(number.0),
            Awaited::Status(_) | Awaited::Room | Awaited::Memory => None,
        });
        state.demand = numbers.min();
        state.report();
    }
}

impl Core {
    fn acknowledge(&self, number: i64) {
        let mut state = self.state();
        state.acknowledged = number;
        state.report();
    }

    /// Waits until this sample is acknowledged, without limit or for one sleep.
    fn wait_for(&self, number: i64, end: Instant) -> bool {
        let awaited = Awaited::Acknowledged(SequenceNumber(number));
        wait_locked(self, end, awaited, |state| (state.reported >= number).then_some(())).is_some()
    }
}

#[test]
fn threads_waiting_for_different_acknowledgements_are_woken() {
    bounded(3).check(|| {
        let core = Arc::new(Core::default());
        let others = [
            thread::spawn({
                let core = Arc::clone(&core);
                move || assert!(core.wait_for(2, Instant(NEVER)))
            }),
            thread::spawn({
                let core = Arc::clone(&core);
                move || (1..=2).for_each(|number| core.acknowledge(number))
            }),
        ];
        assert!(core.wait_for(1, Instant(NEVER)));
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A thread whose timeout expires withdraws its demand, not that of a thread that still waits.
#[test]
fn timed_out_waiter_leaves_demand_of_other_waiter() {
    bounded(3).check(|| {
        let core = Arc::new(Core::default());
        let giving_up = thread::spawn({
            let core = Arc::clone(&core);
            // The timeout has expired at the first check, and the sleep ends at once as well.
            move || core.wait_for(1, Instant(0))
        });
        let reader = thread::spawn({
            let core = Arc::clone(&core);
            move || (1..=2).for_each(|number| core.acknowledge(number))
        });
        assert!(core.wait_for(2, Instant(NEVER)));
        giving_up.join().unwrap();
        reader.join().unwrap();
    });
}

/// A task is polled again only after its waker was woken.
#[test]
fn waiting_task_is_woken() {
    bounded(3).check(|| {
        let core = Arc::new(Core::default());
        let reader = thread::spawn({
            let core = Arc::clone(&core);
            move || (1..=2).for_each(|number| core.acknowledge(number))
        });
        let parker = Parker::of_this_thread();
        let waker = TaskWaker::from(Arc::clone(&parker));
        let awaited = Awaited::Acknowledged(SequenceNumber(2));
        let mut future = pin!(WaitFuture::new(Arc::clone(&core), awaited, |state: &mut State| {
            (state.reported >= 2).then_some(())
        }));
        while future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending {
            parker.park_until(Instant(NEVER));
        }
        reader.join().unwrap();
    });
}

/// A thread that sleeps at the socket in one wait and without it in the next is woken in both, and sees what the waking
/// thread did before.
#[test]
fn wake_up_reaches_a_thread_at_the_socket_or_asleep() {
    bounded(3).check(|| {
        let waker = Arc::new(Waker::new().unwrap());
        let parker = Parker::of_this_thread();
        let done = Arc::new([Shared::default(), Shared::default()]);
        let waking = thread::spawn({
            let (parker, done) = (Arc::clone(&parker), Arc::clone(&done));
            move || {
                for step in &*done {
                    step.finish();
                    parker.unpark();
                }
            }
        });
        let mut poller = Poller::new().unwrap();
        poller.add(&*waker, Token(0)).unwrap();
        parker.receives_at(&waker);
        let mut at_socket = true;
        while !done.iter().all(Shared::is_finished) {
            if at_socket && !parker.is_woken_before_sleep() {
                // As the leader of the reception does.
                poller.wait(None).unwrap().for_each(drop);
                waker.clear();
                parker.is_awake();
            } else if !at_socket {
                parker.park_until(Instant(NEVER));
            }
            at_socket = !at_socket;
        }
        waking.join().unwrap();
    });
}

/// State that is set without a lock, so that only the wake-up orders the waiter after the store.
#[derive(Default)]
struct Shared(AtomicBool);

impl Shared {
    fn finish(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_finished(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
