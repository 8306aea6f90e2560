//! While a listener blocks the thread that takes samples, another thread takes, and never two threads.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use peregrine_rtps::time::Instant;

use super::relief::{Relief, Taker};
use crate::driver::host::listener_queue::LISTENER_TIME_MAX;

const START: Instant = Instant(1);

/// A shared-memory thread that takes without a lock: two taking threads would lose a sample.
fn take_until_replaced(relief: &Relief, me: Taker, taken: &AtomicU32, samples: u32) -> u32 {
    if !relief.begin(me) {
        return 0;
    }
    for count in 0..samples {
        let before = taken.load(Ordering::Relaxed);
        taken.store(before + 1, Ordering::Relaxed);
        relief.begin_listeners(START);
        if !relief.end_listeners(me) {
            return count + 1;
        }
    }
    samples
}

/// The control thread replaces the taker at any moment of its listeners. Either the first taker notices and ends, or no
/// thread was started.
#[test]
fn replaced_taker_ends_and_its_successor_takes_alone() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (relief, taken) = (Arc::new(Relief::new()), Arc::new(AtomicU32::new(0)));
        let started = Arc::new((Mutex::new(None), Condvar::new()));
        let first = thread::spawn({
            let (relief, taken) = (Arc::clone(&relief), Arc::clone(&taken));
            let me = relief.current();
            move || take_until_replaced(&relief, me, &taken, 2)
        });
        let second = thread::spawn({
            let (relief, taken, started) = (Arc::clone(&relief), Arc::clone(&taken), Arc::clone(&started));
            move || {
                let (taker, changed) = &*started;
                let mut taker = taker.lock().unwrap();
                let me = loop {
                    match *taker {
                        Some(Some(me)) => break me,
                        Some(None) => return 0,
                        None => taker = changed.wait(taker).unwrap(),
                    }
                };
                drop(taker);
                take_until_replaced(&relief, me, &taken, 1)
            }
        });
        let start = |taker: Option<Taker>| {
            let mut started = started.0.lock().unwrap();
            started.get_or_insert(taker);
        };
        relief.replace_if_busy(START + LISTENER_TIME_MAX, |taker| {
            start(Some(taker));
            started.1.notify_all();
            true
        });
        start(None);
        started.1.notify_all();
        let count = first.join().unwrap() + second.join().unwrap();
        assert_eq!(taken.load(Ordering::Relaxed), count, "two threads take at a time");
    });
}
