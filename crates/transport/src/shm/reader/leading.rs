//! Turns of threads: leaders, which take and wait with the right to do so, and the follower, which sleeps without it.

use super::{Channel, Reader, Wake, WriterDoorbell};
use crate::clock::MonotonicNs;
use crate::shm::page::PeerPage;
use crate::shm::wake::{Announced, FollowerWatch, FollowerWords, Interrupt};
use std::sync::Arc;
use std::time::Duration;

/// Checks of the rings between two readings of the clock, while spinning.
const LOOKS_PER_CLOCK: u32 = 32;

/// The thread that takes the samples for which no other thread waits. It sleeps without the right to take, so that
/// others can [lead](Reader::lead) meanwhile without waking it.
///
/// | step | right to take |
/// |---|---|
/// | [`Reader::end_following`] | acquired before |
/// | [`Reader::take`] and so on | held |
/// | [`Reader::follow`] | given up after `true` |
/// | [`Self::sleep`] | not held |
///
/// If the right cannot be acquired after the sleep, the thread calls [`Self::announce`], tries once more, and sleeps
/// again.
#[derive(Debug)]
pub struct Follower {
    words: FollowerWords,
    doorbells: Arc<Vec<Arc<WriterDoorbell>>>,
    /// Number of doorbells that the reader had added when it gave this list.
    generation: u64,
}

/// The generation of a list without doorbells: that of no reader.
const NO_GENERATION: u64 = u64::MAX - 1;

impl Follower {
    /// Announces that an attempt to acquire the right to take has failed. The thread then tries once more.
    pub fn announce(&mut self) {
        self.words.announce(self.generation, bells(&self.doorbells));
    }

    /// Sleeps once, until a writer has a sample and no thread leads, or until an [`Interrupt`]. Spurious wake-ups are
    /// possible.
    pub fn sleep(&self) {
        self.words.sleep();
    }
}

impl FollowerWatch {
    /// A follower of the reader. At most one thread follows.
    #[must_use]
    pub fn follower(&self) -> Follower {
        Follower { words: self.words(), doorbells: Arc::default(), generation: NO_GENERATION }
    }
}

impl Reader {
    /// The handle by which threads that have given up the right to take see whether the follower has
    /// [announced](Follower::announce) itself meanwhile.
    #[must_use]
    pub fn follower_watch(&self) -> FollowerWatch {
        self.sleeper.follower_watch()
    }

    /// The calling thread, which is not the follower, leads: it takes and waits, and then calls [`Self::hand_over`].
    /// Meanwhile no sample wakes the follower.
    #[inline]
    pub fn lead(&mut self) {
        self.sleeper.lead();
    }

    /// Gives the place of the calling thread back to the follower. The thread then gives up the right to take. Returns
    /// false if there are samples, or if `is_due` returns true: the thread still leads, and may [wake the
    /// follower](Self::interrupt) and then give up the right.
    #[inline]
    pub fn hand_over(&mut self, is_due: impl FnOnce() -> bool) -> bool {
        if self.sleeper.is_followed() && self.generation != self.followed_generation {
            // The follower does not wait for all doorbells.
            return false;
        }
        let Self { sleeper, channels, .. } = self;
        sleeper.hand_over_unless(|| channels.iter().any(Channel::is_ready) || is_due())
    }

    /// Leads, and hands over like [`Self::hand_over`], after the follower has
    /// [announced](FollowerWatch::has_announced) itself: it sleeps, or is about to.
    pub fn hand_over_again(&mut self, is_due: impl FnOnce() -> bool) -> bool {
        self.sleeper.lead();
        if let Some(Announced { generation }) = self.sleeper.take_announcement() {
            self.followed_generation = generation;
        }
        self.hand_over(is_due)
    }

    /// The calling thread, the follower, leads.
    pub fn end_following(&mut self) {
        self.sleeper.end_following();
    }

    /// Prepares the [sleep](Follower::sleep) of the follower, which then gives up the right to take. Returns false if
    /// there are samples or was an interrupt, or if `is_due` returns true: the thread still leads.
    pub fn follow(&mut self, follower: &mut Follower, is_due: impl FnOnce() -> bool) -> bool {
        if self.sleeper.is_interrupted() {
            return false;
        }
        self.followed_generation = self.generation;
        (follower.doorbells, follower.generation) = (Arc::clone(&self.doorbells), self.generation);
        let Self { sleeper, channels, doorbells, .. } = self;
        let is_ready = || channels.iter().any(Channel::is_ready) || is_due();
        let sleeps = sleeper.follow_unless(&mut follower.words, bells(doorbells), is_ready);
        self.statistics.sleeps += u64::from(sleeps);
        sleeps
    }

    /// Waits until there is something to take: spins for `spin`, then sleeps, as a leader. A deadline of `None` waits
    /// without limit.
    ///
    /// A writer counts as ready while it has more samples, even if as many are held as agreed.
    pub fn wait(&mut self, spin: Duration, deadline: Option<MonotonicNs>) -> Wake {
        if let Some(wake) = self.spin(spin, deadline) {
            return wake;
        }
        loop {
            if let Some(wake) = self.look() {
                return wake;
            }
            if deadline.is_some_and(|deadline| MonotonicNs::now() >= deadline) {
                return Wake::TimedOut;
            }
            self.sleep(deadline);
        }
    }

    /// Waits for at most `spin` until there is something to take, without sleeping; `None` if nothing has come.
    pub fn spin(&mut self, spin: Duration, deadline: Option<MonotonicNs>) -> Option<Wake> {
        if spin.is_zero() {
            return self.look();
        }
        let spin_end = MonotonicNs::now().after(spin);
        loop {
            if let Some(wake) = self.look() {
                return Some(wake);
            }
            let now = MonotonicNs::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Some(Wake::TimedOut);
            }
            if now >= spin_end {
                return None;
            }
            for _ in 0..LOOKS_PER_CLOCK {
                if self.is_ready() {
                    return Some(Wake::Ready);
                }
                std::hint::spin_loop();
            }
        }
    }

    /// The handle that ends waits of this reader, on any thread.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        self.sleeper.interrupt()
    }

    /// The handle that ends waits of leaders, but not the sleep of the follower.
    #[must_use]
    pub fn leader_interrupt(&self) -> Interrupt {
        self.sleeper.leader_interrupt()
    }

    fn look(&mut self) -> Option<Wake> {
        if self.sleeper.is_interrupted() {
            return Some(Wake::Interrupted);
        }
        self.is_ready().then_some(Wake::Ready)
    }

    fn sleep(&mut self, deadline: Option<MonotonicNs>) {
        let Self { sleeper, doorbells, channels, .. } = self;
        let is_ready = || channels.iter().any(Channel::is_ready);
        let slept = sleeper.sleep_unless(bells(doorbells), is_ready, deadline);
        self.statistics.sleeps += u64::from(slept);
    }
}

/// The doorbells of writer processes: each a page and the number of a doorbell in it.
fn bells(doorbells: &[Arc<WriterDoorbell>]) -> impl Iterator<Item = (&PeerPage, u32)> {
    doorbells.iter().map(|doorbell| (&doorbell.page, doorbell.index))
}
