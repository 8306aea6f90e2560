//! Who sleeps and who wakes: two words, each written by one side, and one within the process.
//!
//! A reader process has one *sleeper* word: whether it sleeps. A writer process has one *bell* word for each reader process:
//! how often it was rung. The reader notes the bells, says that it sleeps, looks at the rings once more and then waits for
//! any bell to change; the writer publishes, looks whether the reader sleeps, and rings only then. With a sequentially
//! consistent fence on both sides between the two steps, either the reader sees the sample or the writer sees it asleep,
//! and then its bell differs from what was noted.
//!
//! The word that wakes belongs to who rings it. One word for all writers would have to be writable by all of them, and
//! one of them could take back the ring of another.
//!
//! Other threads of the reader's process ring without looking. Of their bell the reader notes what it has seen when it last
//! looked whether it was interrupted, so that what comes between that and its sleep ends the sleep.

use super::futex;
use super::page::{OwnedPage, PeerPage};
use super::sync::{Ordering, fence};
use crate::clock::MonotonicNs;
use std::sync::Arc;

const ASLEEP: usize = 0;

/// How many words a sleeper page has.
pub(super) const SLEEPER_WORDS: usize = 1;

/// The reader's side.
#[derive(Debug)]
pub(super) struct Sleeper {
    page: OwnedPage,
    words: futex::Words,
    interrupt: Arc<futex::LocalDoorbell>,
    interrupts_seen: u32,
}

/// Ends the wait of a [`Reader`](super::Reader), from any thread.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<futex::LocalDoorbell>);

impl Interrupt {
    /// Ends the wait that is under way, or the next one.
    pub fn interrupt(&self) {
        self.0.ring();
    }
}

impl Sleeper {
    pub(super) fn new(page: OwnedPage) -> Self {
        Self { page, words: futex::Words::default(), interrupt: Arc::default(), interrupts_seen: 0 }
    }

    /// What ends its sleep from within the process.
    pub(super) fn interrupt(&self) -> Interrupt {
        Interrupt(Arc::clone(&self.interrupt))
    }

    /// Whether it was interrupted since this was asked last. What was done before the interruption is there to be seen.
    pub(super) fn is_interrupted(&mut self) -> bool {
        let count = self.interrupt.count();
        std::mem::replace(&mut self.interrupts_seen, count) != count
    }

    /// Sleeps once: until one of `bells` is rung, each a word of a page, until an interruption or the deadline; at times for
    /// nothing. `is_ready` looks whether there is something. False when there was and nobody slept.
    pub(super) fn sleep_unless<'a>(
        &mut self,
        bells: impl Iterator<Item = (&'a PeerPage, usize)>,
        is_ready: impl FnOnce() -> bool,
        deadline: Option<MonotonicNs>,
    ) -> bool {
        self.words.clear();
        self.words.add_local(&self.interrupt, self.interrupts_seen);
        bells.for_each(|(page, index)| self.words.add(page, index));
        self.page.store(ASLEEP, 1, Ordering::Release);
        // With the fence before `is_asleep`.
        fence(Ordering::SeqCst);
        let is_idle = !is_ready();
        if is_idle {
            self.words.wait(deadline);
        }
        self.page.store(ASLEEP, 0, Ordering::Release);
        is_idle
    }
}

/// Whether that reader process sleeps. To be asked after publishing and a sequentially consistent fence.
pub(super) fn is_asleep(sleeper: &PeerPage) -> bool {
    sleeper.load_acquire(ASLEEP) != 0
}

/// How many reader processes one process can ring for: the words of a page.
pub(super) const DOORBELLS: u32 = 512;
