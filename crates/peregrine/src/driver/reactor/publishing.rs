//! The queue of the publishing thread: asynchronous writers with messages to send, and other writers whose backlog an
//! I/O thread has handed off. Under `Poll`, the polling thread replaces the publishing thread.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span};

use super::thread_panics;
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::parker::Parker;
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::system::{AtomicBool, Mutex, OnceLock};
use crate::driver::base::user_code::Deferring;
use crate::driver::host::publish::{Publish, PublishOutcome};

/// A writer whose turn has panicked has its next turn after this time, so that repeated panics occupy no core.
const PAUSE_AFTER_PANIC: Span = Span::from_millis(10);

/// The writers with messages to send.
#[derive(Default)]
pub(in crate::driver) struct Publishing {
    turns: Mutex<Turns>,
    has_turns: AtomicBool,
    thread: OnceLock<Arc<Parker>>,
    is_started: Mutex<bool>,
}

#[derive(Default)]
struct Turns {
    /// Each writer once, with the time from which its flow controller permits sending: the number of writers is the
    /// bound.
    queue: VecDeque<(Instant, Arc<dyn Publish>)>,
    is_closed: bool,
    /// Whether a turn has panicked: the writer may be queued by its own turn, or by another thread, and again after it.
    has_panicked: bool,
}

impl Publishing {
    /// Starts the publishing thread, the first time only.
    pub(in crate::driver) fn start<E>(&self, start: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut is_started = lock(&self.is_started);
        if !*is_started {
            start()?;
            *is_started = true;
        }
        Ok(())
    }

    /// The body of the publishing thread, until the domain closes. `hand_off` passes deferred user code to a thread
    /// that runs user code.
    pub(in crate::driver) fn run(&self, hand_off: impl Fn()) {
        let parker = Parker::of_this_thread();
        // A thread that queues a writer adds it first, then reads which thread to wake.
        let _ = self.thread.set(Arc::clone(&parker));
        let _no_user_code = Deferring::begin();
        while !self.turns().is_closed {
            let next = self.run_ready_writers();
            hand_off();
            if next > now().0 {
                parker.park_until(Instant(next));
            }
        }
    }

    /// Gives each due writer its turn; returns the time of the next one.
    pub(in crate::driver) fn run_ready_writers(&self) -> u64 {
        let now = now();
        let writers = self.turns().queue.len();
        for _ in 0..writers {
            let Some((at, writer)) = self.turns().queue.pop_front() else { break };
            let at = if at > now {
                at
            } else {
                match self.turn_of(&writer) {
                    PublishOutcome::Again => Instant(0),
                    PublishOutcome::At(at) => at,
                    PublishOutcome::Done => continue,
                }
            };
            self.put(at, writer);
        }
        // Includes writers that were added meanwhile: a thread that waited in a listener may have consumed the wake-up.
        let turns = self.turns();
        self.has_turns.store(!turns.queue.is_empty(), Ordering::Release);
        turns.queue.iter().map(|(at, _)| at.0).min().unwrap_or(NEVER)
    }

    /// Whether a writer is queued.
    #[inline]
    pub(in crate::driver) fn has_turns(&self) -> bool {
        self.has_turns.load(Ordering::Acquire)
    }

    /// Queues a writer that is not queued.
    pub(in crate::driver) fn add(&self, writer: Arc<dyn Publish>) {
        self.put(Instant(0), writer);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Removes a deleted writer.
    pub(in crate::driver) fn remove(&self, writer: Guid) {
        self.turns().queue.retain(|(_, queued)| queued.guid() != writer);
    }

    /// Ends all turns.
    pub(in crate::driver) fn close(&self) {
        let mut turns = self.turns();
        turns.is_closed = true;
        let left = std::mem::take(&mut turns.queue);
        drop(turns);
        drop(left);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn put(&self, at: Instant, writer: Arc<dyn Publish>) {
        let mut turns = self.turns();
        if !turns.is_closed {
            let is_queued = |(_, queued): &(_, Arc<dyn Publish>)| queued.guid() == writer.guid();
            debug_assert!(turns.has_panicked || !turns.queue.iter().any(is_queued), "a writer is queued twice");
            if turns.has_panicked && turns.queue.iter().any(is_queued) {
                return;
            }
            turns.queue.push_back((at, writer));
            self.has_turns.store(true, Ordering::Release);
        }
    }

    /// Gives a writer its turn. A panic in the turn of one writer must not prevent the turns of others, nor its own
    /// next one.
    fn turn_of(&self, writer: &Arc<dyn Publish>) -> PublishOutcome {
        match catch_unwind(AssertUnwindSafe(|| Arc::clone(writer).publish())) {
            Ok(outcome) => outcome,
            Err(panic) => {
                thread_panics::note(panic);
                self.turns().has_panicked = true;
                match writer.awaits_turn() {
                    true => PublishOutcome::At(now() + PAUSE_AFTER_PANIC),
                    false => PublishOutcome::Done,
                }
            }
        }
    }

    fn turns(&self) -> Guard<'_, Turns> {
        lock(&self.turns)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU32;

    use peregrine_rtps::id::GuidPrefix;

    use super::*;

    /// A writer whose first turn panics after its rest was left to the next one, perhaps by another thread, or after
    /// all was sent.
    struct Panicking {
        turns: AtomicU32,
        has_rest: AtomicBool,
        queued_by: Option<Arc<Publishing>>,
    }

    impl Publish for Panicking {
        fn guid(&self) -> Guid {
            Guid::default()
        }

        fn publish(self: Arc<Self>) -> PublishOutcome {
            if self.turns.fetch_add(1, Ordering::SeqCst) == 0 {
                if let Some(publishing) = &self.queued_by {
                    publishing.add(Arc::<Self>::clone(&self));
                }
                panic!("the first turn panics");
            }
            self.has_rest.store(false, Ordering::SeqCst);
            PublishOutcome::Done
        }

        fn awaits_turn(&self) -> bool {
            self.has_rest.load(Ordering::SeqCst)
        }
    }

    #[test]
    fn writer_with_messages_has_another_turn_after_a_panic() {
        for (has_rest, is_queued) in [(true, false), (true, true), (false, false)] {
            let publishing = Arc::new(Publishing::default());
            let queued_by = is_queued.then(|| Arc::clone(&publishing));
            let has_messages = AtomicBool::new(has_rest);
            let writer = Arc::new(Panicking { turns: AtomicU32::new(0), has_rest: has_messages, queued_by });
            publishing.add(Arc::<Panicking>::clone(&writer));
            let panics = thread_panics::thread_panics();
            let next = publishing.run_ready_writers();
            assert!(thread_panics::thread_panics() > panics);
            assert_eq!((publishing.has_turns(), next != NEVER), (has_rest, has_rest));
            while publishing.has_turns() {
                publishing.run_ready_writers();
            }
            assert_eq!(writer.turns.load(Ordering::SeqCst), 1 + u32::from(has_rest));
        }
    }

    /// A writer with messages without end.
    struct Endless(Guid);

    impl Publish for Endless {
        fn guid(&self) -> Guid {
            self.0
        }

        fn publish(self: Arc<Self>) -> PublishOutcome {
            PublishOutcome::Again
        }

        fn awaits_turn(&self) -> bool {
            true
        }
    }

    fn endless(number: u8) -> Arc<dyn Publish> {
        Arc::new(Endless(Guid { prefix: GuidPrefix([number; 12]), ..Guid::default() }))
    }

    #[test]
    fn queue_holds_each_of_many_writers_once() {
        let publishing = Publishing::default();
        (0..=u8::MAX).for_each(|number| publishing.add(endless(number)));
        (0..5).for_each(|_| _ = publishing.run_ready_writers());
        assert_eq!(publishing.turns().queue.len(), 256);
        let second = catch_unwind(AssertUnwindSafe(|| publishing.add(endless(7))));
        assert_eq!(second.is_err(), cfg!(debug_assertions), "a writer is queued twice");
        (0..=u8::MAX).for_each(|number| publishing.remove(endless(number).guid()));
        assert!(publishing.turns().queue.is_empty());
    }
}
