//! Turns of threads: leaders, which take and wait with the right to do so, and the follower, which sleeps without it.

use super::page::PeerPage;
use super::wake::{Announced, FollowerWatch, FollowerWords, Interrupt, Sleeper};
use crate::clock::MonotonicNs;
use std::sync::Arc;
use std::time::Duration;

/// Checks of the rings between two readings of the clock, while spinning.
const LOOKS_PER_CLOCK: u32 = 32;

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// [`Reader::take`](super::Reader::take) may have something to return.
    Ready,
    /// [`Interrupt::interrupt`](super::Interrupt::interrupt) was called.
    Interrupted,
    /// The deadline passed.
    TimedOut,
}

/// The word that a writer process changes to wake this process.
#[derive(Debug)]
pub(super) struct WriterDoorbell {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) index: u32,
    pub(super) page: PeerPage,
}

/// The thread that takes the samples for which no other thread waits. It sleeps without the right to take, so that
/// others can [lead](super::Reader::lead) meanwhile without waking it.
///
/// | step | right to take |
/// |---|---|
/// | [`Reader::end_following`](super::Reader::end_following) | acquired before |
/// | [`Reader::take`](super::Reader::take) and so on | held |
/// | [`Reader::follow`](super::Reader::follow) | given up after `true` |
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

/// The doorbells and the sleeper of a [`Reader`](super::Reader). The thread that has the right to take uses them.
#[derive(Debug)]
pub struct Turns {
    sleeper: Sleeper,
    /// One for each writer process.
    doorbells: Arc<Vec<Arc<WriterDoorbell>>>,
    /// Number of doorbells that were added, and the same when the follower recorded them.
    generation: u64,
    followed_generation: u64,
    /// Number of times that a thread went to sleep.
    sleeps: u64,
}

/// Each `is_ready` returns whether there is something to take.
impl Turns {
    pub(super) fn new(sleeper: Sleeper) -> Self {
        Self { sleeper, doorbells: Arc::default(), generation: 0, followed_generation: 0, sleeps: 0 }
    }

    /// The doorbell of the same process, which may be known. `None`: there are `max` others.
    pub(super) fn add_doorbell(&mut self, doorbell: WriterDoorbell, max: usize) -> Option<Arc<WriterDoorbell>> {
        let is_same = |other: &&Arc<WriterDoorbell>| {
            (other.device, other.inode, other.index) == (doorbell.device, doorbell.inode, doorbell.index)
        };
        if let Some(known) = self.doorbells.iter().find(is_same) {
            return Some(Arc::clone(known));
        }
        if self.doorbells.len() >= max {
            return None;
        }
        let doorbell = Arc::new(doorbell);
        Arc::make_mut(&mut self.doorbells).push(Arc::clone(&doorbell));
        self.generation += 1;
        Some(doorbell)
    }

    pub(super) fn keep_doorbells(&mut self, is_used: impl Fn(&Arc<WriterDoorbell>) -> bool) {
        if !self.doorbells.iter().all(&is_used) {
            Arc::make_mut(&mut self.doorbells).retain(is_used);
        }
    }

    pub(super) const fn sleeps(&self) -> u64 {
        self.sleeps
    }

    pub(super) fn interrupt(&self) -> Interrupt {
        self.sleeper.interrupt()
    }

    pub(super) fn leader_interrupt(&self) -> Interrupt {
        self.sleeper.leader_interrupt()
    }

    pub(super) fn follower_watch(&self) -> FollowerWatch {
        self.sleeper.follower_watch()
    }

    /// See [`Reader::lead`](super::Reader::lead).
    #[inline]
    pub(super) fn lead(&mut self) {
        self.sleeper.lead();
    }

    /// See [`Reader::hand_over`](super::Reader::hand_over).
    #[inline]
    pub(super) fn hand_over(&mut self, is_ready: impl FnOnce() -> bool) -> bool {
        if self.sleeper.is_followed() && self.generation != self.followed_generation {
            // The follower does not wait for all doorbells.
            return false;
        }
        self.sleeper.hand_over_unless(is_ready)
    }

    /// See [`Reader::hand_over_again`](super::Reader::hand_over_again).
    pub(super) fn hand_over_again(&mut self, is_ready: impl FnOnce() -> bool) -> bool {
        self.sleeper.lead();
        if let Some(Announced { generation }) = self.sleeper.take_announcement() {
            self.followed_generation = generation;
        }
        self.hand_over(is_ready)
    }

    /// See [`Reader::end_following`](super::Reader::end_following).
    pub(super) fn end_following(&mut self) {
        self.sleeper.end_following();
    }

    /// See [`Reader::follow`](super::Reader::follow).
    pub(super) fn follow(&mut self, follower: &mut Follower, is_ready: impl FnOnce() -> bool) -> bool {
        if self.sleeper.is_interrupted() {
            return false;
        }
        self.followed_generation = self.generation;
        (follower.doorbells, follower.generation) = (Arc::clone(&self.doorbells), self.generation);
        let sleeps = self.sleeper.follow_unless(&mut follower.words, bells(&self.doorbells), is_ready);
        self.sleeps += u64::from(sleeps);
        sleeps
    }

    /// See [`Reader::wait`](super::Reader::wait).
    pub(super) fn wait(&mut self, spin: Duration, deadline: Option<MonotonicNs>, is_ready: impl Fn() -> bool) -> Wake {
        if let Some(wake) = self.spin(spin, deadline, &is_ready) {
            return wake;
        }
        loop {
            if let Some(wake) = self.look(&is_ready) {
                return wake;
            }
            if deadline.is_some_and(|deadline| MonotonicNs::now() >= deadline) {
                return Wake::TimedOut;
            }
            let slept = self.sleeper.sleep_unless(bells(&self.doorbells), &is_ready, deadline);
            self.sleeps += u64::from(slept);
        }
    }

    /// See [`Reader::spin`](super::Reader::spin).
    pub(super) fn spin(
        &mut self,
        spin: Duration,
        deadline: Option<MonotonicNs>,
        is_ready: impl Fn() -> bool,
    ) -> Option<Wake> {
        if spin.is_zero() {
            return self.look(is_ready);
        }
        let spin_end = MonotonicNs::now().after(spin);
        loop {
            if let Some(wake) = self.look(&is_ready) {
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
                if is_ready() {
                    return Some(Wake::Ready);
                }
                std::hint::spin_loop();
            }
        }
    }

    fn look(&mut self, is_ready: impl Fn() -> bool) -> Option<Wake> {
        if self.sleeper.is_interrupted() {
            return Some(Wake::Interrupted);
        }
        is_ready().then_some(Wake::Ready)
    }
}

/// The doorbells of writer processes: each a page and the number of a doorbell in it.
fn bells(doorbells: &[Arc<WriterDoorbell>]) -> impl Iterator<Item = (&PeerPage, u32)> {
    doorbells.iter().map(|doorbell| (&doorbell.page, doorbell.index))
}
