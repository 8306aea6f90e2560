//! Under `Poll`: a thread that stops polling wakes one that waits for its turn.

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use peregrine_rtps::time::Instant;

use super::bounded;
use crate::driver::base::clock::NEVER;
use crate::driver::base::parker::Parker;
use crate::driver::base::system::Mutex;
use crate::driver::reactor::polling_turns::PollingTurns;

/// A domain, of which one thread at a time polls, and two threads that wait for one sample each.
#[derive(Default)]
struct Domain {
    turns: PollingTurns,
    polling: Mutex<usize>,
    has_sample: [AtomicBool; 2],
}

impl Domain {
    /// Like `Domain::poll_until`: polls or waits until the sample of `reader` was received. Each turn receives the next
    /// sample.
    fn poll_until(&self, reader: usize, parkers: &Mutex<[Option<Arc<Parker>>; 2]>) {
        let parker = Parker::of_this_thread();
        parkers.lock().unwrap()[reader] = Some(Arc::clone(&parker));
        while !self.has_sample[reader].load(Ordering::Acquire) {
            let polling = self.polling.try_lock();
            let Ok(mut received) = polling else {
                self.turns.wait(&parker, Instant(NEVER), || self.polling.try_lock().is_err());
                continue;
            };
            if let Some(has_sample) = self.has_sample.get(*received) {
                has_sample.store(true, Ordering::Release);
                let waiting = parkers.lock().unwrap()[*received].clone();
                *received += 1;
                waiting.into_iter().for_each(|waiting| waiting.unpark());
            }
            drop(received);
            self.turns.wake_next();
        }
    }
}

#[test]
fn waiting_thread_polls_after_other_thread_stops() {
    bounded(3).check(|| {
        let (domain, parkers) = (Arc::new(Domain::default()), Arc::new(Mutex::new([None, None])));
        let other = thread::spawn({
            let (domain, parkers) = (Arc::clone(&domain), Arc::clone(&parkers));
            move || domain.poll_until(1, &parkers)
        });
        domain.poll_until(0, &parkers);
        other.join().unwrap();
    });
}
