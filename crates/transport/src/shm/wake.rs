//! Sleeping and waking: two words in shared memory, each written by one process, and one word within the reader's
//! process.
//!
//! A reader process has one *sleeper* word, which states whether it sleeps. A writer process has one *doorbell* word
//! for each reader process, which counts rings. The reader records the doorbells, sets its sleeper word, looks at the
//! rings once more, and then waits until any doorbell changes. The writer publishes, reads the sleeper word, and rings
//! only if it is set. Both have a sequentially consistent fence between the two steps, so either the reader sees the
//! sample, or the writer sees the sleeper word and changes its doorbell from the recorded value.
//!
//! Each doorbell belongs to the writer process that rings it. A single doorbell would have to be writable by all writer
//! processes, and one of them could undo the ring of another.
//!
//! Other threads of the reader's process ring the local doorbell without looking. The reader compares it with the value
//! of its last check for interrupts, so an interrupt between that check and the sleep ends the sleep.

use super::futex;
use super::page::{OwnedPage, PeerPage};
use super::sync::{Ordering, fence};
use crate::clock::MonotonicNs;
use std::sync::Arc;

const ASLEEP: usize = 0;

/// Words of a sleeper page.
pub(super) const SLEEPER_WORDS: usize = 1;

/// The reader's side.
#[derive(Debug)]
pub(super) struct Sleeper {
    page: OwnedPage,
    words: futex::Words,
    interrupt: Arc<futex::LocalDoorbell>,
    interrupts_seen: u32,
}

/// Ends the wait of a [`Reader`](super::Reader), on any thread.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<futex::LocalDoorbell>);

impl Interrupt {
    /// Ends the current wait, or the next one.
    pub fn interrupt(&self) {
        self.0.ring();
    }
}

impl Sleeper {
    pub(super) fn new(page: OwnedPage) -> Self {
        Self { page, words: futex::Words::default(), interrupt: Arc::default(), interrupts_seen: 0 }
    }

    /// The handle with which other threads of this process end a sleep.
    pub(super) fn interrupt(&self) -> Interrupt {
        Interrupt(Arc::clone(&self.interrupt))
    }

    /// Whether an interrupt occurred since the last call. Changes that preceded the interrupt are visible.
    pub(super) fn is_interrupted(&mut self) -> bool {
        let count = self.interrupt.count();
        std::mem::replace(&mut self.interrupts_seen, count) != count
    }

    /// Sleeps once, until one of `bells` is rung, until an interrupt, or until the deadline; spurious wake-ups are
    /// possible. Each bell is a word of a page. Does not sleep and returns false if `is_ready` returns true.
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
        // Pairs with the fence before `is_asleep`.
        fence(Ordering::SeqCst);
        let is_idle = !is_ready();
        if is_idle {
            self.words.wait(deadline);
        }
        self.page.store(ASLEEP, 0, Ordering::Release);
        is_idle
    }
}

/// Whether that reader process sleeps. The caller has published and then executed a sequentially consistent fence.
pub(super) fn is_asleep(sleeper: &PeerPage) -> bool {
    sleeper.load_acquire(ASLEEP) != 0
}

/// Reader processes for which one process can ring: the words of a page.
pub(super) const DOORBELLS: u32 = 512;
