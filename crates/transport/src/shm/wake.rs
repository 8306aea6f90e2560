//! Who sleeps and who wakes: two words, each written by one side.
//!
//! A reader process has one *sleeper* word: whether it sleeps. A writer process has one *bell* word for each reader process:
//! how often it was rung. The reader notes the bells, says that it sleeps, looks at the rings once more and then waits for
//! any bell to change; the writer publishes, looks whether the reader sleeps, and rings only then. With a sequentially
//! consistent fence on both sides between the two steps, either the reader sees the sample or the writer sees it asleep,
//! and then its bell differs from what was noted.
//!
//! The word that wakes belongs to who rings it. One word for all writers would have to be writable by all of them, and
//! one of them could take back the ring of another.

use super::page::{Mine, Seen};
use super::sync::{Ordering, fence};

const ASLEEP: usize = 0;

/// How many words a sleeper page has.
pub(super) const SLEEPER_WORDS: usize = 1;

/// The reader's side.
#[derive(Debug)]
pub(super) struct Sleeper {
    page: Mine,
}

impl Sleeper {
    pub(super) fn new(page: Mine) -> Self {
        Self { page }
    }

    /// Sleeps once. `note` notes the bells, `is_ready` looks whether there is something, `sleep` waits for a bell to be
    /// another than noted. False when there was something and nobody slept.
    pub(super) fn sleep_unless<N>(
        &self,
        note: impl FnOnce() -> N,
        is_ready: impl FnOnce() -> bool,
        sleep: impl FnOnce(N),
    ) -> bool {
        let noted = note();
        self.page.store(ASLEEP, 1, Ordering::Release);
        // With the fence before `is_asleep`.
        fence(Ordering::SeqCst);
        let is_idle = !is_ready();
        if is_idle {
            sleep(noted);
        }
        self.page.store(ASLEEP, 0, Ordering::Release);
        is_idle
    }
}

/// Whether that reader process sleeps. To be asked after publishing and a sequentially consistent fence.
pub(super) fn is_asleep(sleeper: &Seen) -> bool {
    sleeper.load_acquire(ASLEEP) != 0
}

/// How many reader processes one process can ring for: the words of a page.
pub(super) const BELLS: u32 = 512;
