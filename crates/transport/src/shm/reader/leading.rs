//! Turns of the threads that take with a [`Reader`].

use super::{Reader, is_any_ready};
use crate::clock::MonotonicNs;
use crate::shm::turns::{Follower, Turns, Wake};
use crate::shm::wake::{FollowerWatch, Interrupt};
use std::time::Duration;

impl Reader {
    /// The handle by which threads that have given up the right to take see whether the follower has
    /// [announced](Follower::announce) itself meanwhile.
    #[must_use]
    pub fn follower_watch(&self) -> FollowerWatch {
        self.turns.follower_watch()
    }

    /// The calling thread, which is not the follower, leads: it takes and waits, and then calls [`Self::hand_over`].
    /// Meanwhile no sample wakes the follower.
    #[inline]
    pub fn lead(&mut self) {
        self.turns.lead();
    }

    /// Gives the place of the calling thread back to the follower. The thread then gives up the right to take. Returns
    /// false if there are samples, or if `is_due` returns true: the thread still leads, and may [wake the
    /// follower](Self::interrupt) and then give up the right.
    #[inline]
    pub fn hand_over(&mut self, is_due: impl FnOnce() -> bool) -> bool {
        let (turns, is_ready) = self.turns();
        turns.hand_over(|| is_ready() || is_due())
    }

    /// Leads, and hands over like [`Self::hand_over`], after the follower has
    /// [announced](FollowerWatch::has_announced) itself: it sleeps, or is about to.
    pub fn hand_over_again(&mut self, is_due: impl FnOnce() -> bool) -> bool {
        let (turns, is_ready) = self.turns();
        turns.hand_over_again(|| is_ready() || is_due())
    }

    /// The calling thread, the follower, leads.
    pub fn end_following(&mut self) {
        self.turns.end_following();
    }

    /// Prepares the [sleep](Follower::sleep) of the follower, which then gives up the right to take. Returns false if
    /// there are samples or was an interrupt, or if `is_due` returns true: the thread still leads.
    pub fn follow(&mut self, follower: &mut Follower, is_due: impl FnOnce() -> bool) -> bool {
        let (turns, is_ready) = self.turns();
        turns.follow(follower, || is_ready() || is_due())
    }

    /// Waits until there is something to take: spins for `spin`, then sleeps, as a leader. A deadline of `None` waits
    /// without limit.
    ///
    /// A writer counts as ready while it has more samples, even if as many are held as agreed.
    pub fn wait(&mut self, spin: Duration, deadline: Option<MonotonicNs>) -> Wake {
        let (turns, is_ready) = self.turns();
        turns.wait(spin, deadline, is_ready)
    }

    /// Waits for at most `spin` until there is something to take, without sleeping; `None` if nothing has come.
    pub fn spin(&mut self, spin: Duration, deadline: Option<MonotonicNs>) -> Option<Wake> {
        let (turns, is_ready) = self.turns();
        turns.spin(spin, deadline, is_ready)
    }

    /// The handle that ends waits of this reader, on any thread.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        self.turns.interrupt()
    }

    /// The handle that ends waits of leaders, but not the sleep of the follower.
    #[must_use]
    pub fn leader_interrupt(&self) -> Interrupt {
        self.turns.leader_interrupt()
    }

    /// For [`Take::turns`](super::super::Take::turns): the second is [`Self::is_ready`].
    #[inline]
    pub fn turns(&mut self) -> (&mut Turns, impl Fn() -> bool) {
        let Self { turns, channels, .. } = self;
        (turns, || is_any_ready(channels))
    }
}
