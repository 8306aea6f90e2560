//! The lock of a reader whose threads take turns, and the commands to the thread that takes.

use super::commands::Commands;
use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use super::turns::{Follower, Turns};
use super::wake::{FollowerWatch, Interrupt};
use crate::clock::MonotonicNs;
use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

/// The state that threads take with, one thread at a time.
pub trait Take {
    /// The turns of [the reader](super::Reader::turns), and whether there is something to take.
    fn turns(&mut self) -> (&mut Turns, impl Fn() -> bool);

    /// Whether the follower has work besides samples and commands. A leader that gives up the lead wakes it then.
    fn has_work(&self) -> bool;
}

/// The right to take from a [`Reader`](super::Reader), as a lock around the reader and the state `T` of the threads
/// that take. They also execute commands `C` and requests `R` of other threads; see [`Commands`].
///
/// | thread | how it gets the lock | how it waits |
/// |---|---|---|
/// | the follower | [`Self::lock_as_follower`] | [`Self::follow`], without the lock |
/// | a leader | [`Self::try_lead`] | with the lock |
/// | a thread that polls, where no thread follows | [`Self::try_lock`] | [`Self::wait`], with the lock |
pub struct TakeLock<T, C, R> {
    taker: Mutex<T>,
    /// For the thread that takes.
    pub commands: Commands<C, R>,
    watch: FollowerWatch,
    interrupt: Interrupt,
    leader_interrupt: Arc<Interrupt>,
    is_closing: AtomicBool,
}

/// The lock of a thread that is not the follower. The drop hands over to the follower.
pub struct Leading<'l, T: Take, C, R: Copy + Eq + Hash> {
    of: &'l TakeLock<T, C, R>,
    taker: Option<MutexGuard<'l, T>>,
}

impl<T: Take, C, R: Copy + Eq + Hash> TakeLock<T, C, R> {
    /// At most `limit` commands wait; see [`Commands::new`].
    pub fn new(mut taker: T, limit: usize) -> Self {
        let (turns, _) = taker.turns();
        let (watch, interrupt) = (turns.follower_watch(), turns.interrupt());
        let leader_interrupt = Arc::new(turns.leader_interrupt());
        Self {
            taker: Mutex::new(taker),
            commands: Commands::new(interrupt.clone(), limit),
            watch,
            interrupt,
            leader_interrupt,
            is_closing: AtomicBool::new(false),
        }
    }

    /// The handle that ends waits of leaders, but not the sleep of the follower.
    #[must_use]
    pub const fn leader_interrupt(&self) -> &Arc<Interrupt> {
        &self.leader_interrupt
    }

    /// Ends the waits of all threads, now and later.
    pub fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.interrupt.interrupt();
    }

    /// Whether [`Self::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    /// Whether there is work for a thread that takes, besides samples.
    pub fn is_due(&self) -> bool {
        self.commands.has_some() || self.is_closing()
    }

    /// The lock, without the lead.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.taker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, without the lead, if no other thread holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.taker.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits with the lock until there is a sample, a command or an interrupt, or until the deadline. Returns at once
    /// if a command waits or another thread holds the lock.
    pub fn wait(&self, deadline: Option<MonotonicNs>) {
        if let Some(mut taker) = self.try_lock()
            && !self.commands.has_some()
        {
            let (turns, is_ready) = taker.turns();
            turns.wait(Duration::ZERO, deadline, is_ready);
        }
    }

    /// A follower. At most one thread follows.
    #[must_use]
    pub fn follower(&self) -> Follower {
        self.watch.follower()
    }

    /// The lock, for the follower. While another thread leads, the follower sleeps, and the result is `None`.
    pub fn lock_as_follower(&self, follower: &mut Follower) -> Option<MutexGuard<'_, T>> {
        let mut taker = self.try_lock();
        if taker.is_none() {
            follower.announce();
            taker = self.try_lock();
        }
        let Some(mut taker) = taker else {
            // `close` interrupts after it has set this.
            if !self.is_closing() {
                follower.sleep();
            }
            return None;
        };
        taker.turns().0.end_following();
        Some(taker)
    }

    /// The follower gives up the lock and sleeps once. Returns false if there are samples, commands or an interrupt:
    /// then the follower has not slept.
    pub fn follow(&self, mut taker: MutexGuard<'_, T>, follower: &mut Follower) -> bool {
        let sleeps = {
            let (turns, is_ready) = taker.turns();
            turns.follow(follower, || is_ready() || self.is_due())
        };
        drop(taker);
        if sleeps {
            follower.sleep();
        }
        sleeps
    }

    /// The lock with the lead, if no other thread holds it.
    pub fn try_lead(&self) -> Option<Leading<'_, T, C, R>> {
        let mut taker = self.try_lock()?;
        taker.turns().0.lead();
        Some(Leading { of: self, taker: Some(taker) })
    }
}

impl<T: Take, C, R: Copy + Eq + Hash> Leading<'_, T, C, R> {
    /// Gives the place of the calling thread to the follower, or wakes the follower.
    fn hand_over(&mut self, is_again: bool) {
        let of = self.of;
        let has_work = self.has_work();
        let (turns, is_ready) = self.turns();
        let is_ready = || is_ready() || has_work || of.is_due();
        let is_done = if is_again { turns.hand_over_again(is_ready) } else { turns.hand_over(is_ready) };
        if !is_done {
            of.interrupt.interrupt();
        }
    }
}

impl<T: Take, C, R: Copy + Eq + Hash> Deref for Leading<'_, T, C, R> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.taker.as_ref().unwrap_or_else(|| unreachable!("the lock is held until `self` is dropped"))
    }
}

impl<T: Take, C, R: Copy + Eq + Hash> DerefMut for Leading<'_, T, C, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.taker.as_mut().unwrap_or_else(|| unreachable!("the lock is held until `self` is dropped"))
    }
}

impl<T: Take, C, R: Copy + Eq + Hash> Drop for Leading<'_, T, C, R> {
    fn drop(&mut self) {
        self.hand_over(false);
        self.taker = None;
        // Each further round is due to another wake-up of the follower.
        while self.of.watch.has_announced() {
            self.taker = self.of.try_lock();
            if self.taker.is_none() {
                // Another thread leads, and sees the announcement when it has handed over.
                return;
            }
            self.hand_over(true);
            self.taker = None;
        }
    }
}

impl<T, C, R> fmt::Debug for TakeLock<T, C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeLock").field("commands", &self.commands).finish_non_exhaustive()
    }
}
