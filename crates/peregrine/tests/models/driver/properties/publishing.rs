//! A writer that is queued has its turn on the publishing thread, and a closed queue ends the thread.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};

use super::bounded;
use crate::driver::host::publish::{Publish, PublishOutcome};
use crate::driver::reactor::publishing::Publishing;

/// A writer that needs two turns and then ends the publishing thread.
struct Writer {
    turns: AtomicU32,
    queue: Arc<Publishing>,
}

const TURNS: u32 = 2;

impl Publish for Writer {
    fn guid(&self) -> Guid {
        Guid::new(GuidPrefix([0; 12]), EntityId::UNKNOWN)
    }

    fn publish(self: Arc<Self>) -> PublishOutcome {
        let turns = self.turns.load(Ordering::Relaxed) + 1;
        self.turns.store(turns, Ordering::Relaxed);
        if turns < TURNS {
            return PublishOutcome::Again;
        }
        self.queue.close();
        PublishOutcome::Done
    }

    fn awaits_turn(&self) -> bool {
        self.turns.load(Ordering::Relaxed) < TURNS
    }
}

#[test]
fn writer_queued_during_start_or_sleep_of_publishing_thread_is_served() {
    bounded(3).check(|| {
        let queue = Arc::new(Publishing::default());
        let writer = Arc::new(Writer { turns: AtomicU32::new(0), queue: Arc::clone(&queue) });
        let publishing = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.run(|| ())
        });
        queue.add(Arc::clone(&writer) as _);
        publishing.join().unwrap();
        assert_eq!(writer.turns.load(Ordering::Relaxed), TURNS);
    });
}

#[test]
fn closing_queue_ends_publishing_thread() {
    bounded(3).check(|| {
        let queue = Arc::new(Publishing::default());
        let publishing = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.run(|| ())
        });
        queue.close();
        publishing.join().unwrap();
    });
}
