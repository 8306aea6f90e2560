//! Sleeping and waking: words in shared memory, each written by one process, and words within the reader's process.
//!
//! Threads of a reader process take turns: the one that has the right to take (the user's lock) *leads*. A thread that
//! waits as a *leader* keeps that right while it sleeps. The *follower*, at most one, has given it up: a leader takes
//! its place without waking it, and gives the place back by [`Sleeper::hand_over_unless`], one store and one look at
//! the rings.
//!
//! A reader process has one *sleeper* word, which states which of them sleeps, if any. A writer process has two
//! *doorbell* words for each reader process, one for each role, which count rings. The thread that falls asleep records
//! the doorbells of its role, sets the sleeper word, looks at the rings once more, and then waits until any of these
//! doorbells changes. The writer publishes, reads the sleeper word, and rings only if it is set. Both have a
//! sequentially consistent fence between the two steps, so either the thread sees the sample, or the writer sees the
//! sleeper word and changes the doorbell from the recorded value. A leader that hands over does the same as a follower
//! that falls asleep, but for the recording: the values that the follower has recorded are older.
//!
//! A follower that wakes up and finds another thread leading falls asleep again without having seen the rings. Before
//! that it records the doorbells, [announces](FollowerWords::announce) itself, and tries to lead once more. Each leader
//! looks for an announcement after it has given up the lead ([`FollowerWatch::has_announced`]). If there is one, it
//! leads again, takes the announcement back, and looks at the rings: rings before the follower has recorded the
//! doorbells belong to samples that this look shows. If it cannot lead, another thread does, and finds the announcement
//! later: only a thread that leads takes an announcement back.
//!
//! Each doorbell belongs to the writer process that rings it. A single doorbell would have to be writable by all writer
//! processes, and one of them could undo the ring of another.
//!
//! Other threads of the reader's process ring local doorbells without looking: one that ends all waits, and one that
//! ends the waits of leaders. A thread compares them with the values of its last check for interrupts, so an interrupt
//! between that check and the sleep ends the sleep. A follower that announces itself records them like other doorbells.

use super::futex;
use super::page::{OwnedPage, PeerPage};
use super::sync::{AtomicU64, Ordering, fence};
use crate::clock::MonotonicNs;
use std::sync::Arc;

const STATE: usize = 0;

/// Words of a sleeper page.
pub(super) const SLEEPER_WORDS: usize = 1;

/// Reader processes for which one process can ring.
pub(super) const DOORBELLS: u32 = 512;
/// Words of a page of doorbells.
pub(super) const DOORBELL_WORDS: usize = DOORBELLS as usize * 2;

/// Local doorbells that a sleeping thread waits for.
pub(super) const LOCAL_DOORBELLS: usize = 2;

/// Values of the sleeper word.
const AWAKE: u64 = 0;
const FOLLOWER_SLEEPS: u64 = 1;
const LEADER_SLEEPS: u64 = 2;

/// The role of a sleeping thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Follower = 0,
    Leader = 1,
}

impl Role {
    /// The word of the doorbell that wakes this role.
    #[inline]
    pub(super) const fn word(self, doorbell: u32) -> usize {
        doorbell as usize * 2 + self as usize
    }
}

/// The reader's side. The thread that leads uses it.
#[derive(Debug)]
pub(super) struct Sleeper {
    page: OwnedPage,
    words: futex::Words,
    local: Arc<LocalDoorbells>,
    interrupts_seen: u32,
    leader_interrupts_seen: u32,
    /// The follower has recorded the doorbells and did not lead since.
    is_followed: bool,
}

#[derive(Debug, Default)]
struct LocalDoorbells {
    all: Arc<futex::LocalDoorbell>,
    leader: Arc<futex::LocalDoorbell>,
    /// The announcement of the follower: the [generation](Follower) of the doorbells that it has recorded, plus one;
    /// zero if there is none.
    announced: AtomicU64,
}

/// The announcement of a follower.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Announced {
    /// As the follower has stated it.
    pub(super) generation: u64,
}

/// The thread of a reader process that sleeps without the right to take.
#[derive(Debug)]
pub(super) struct FollowerWords {
    words: futex::Words,
    local: Arc<LocalDoorbells>,
}

/// Shows whether the follower has found another thread leading.
#[derive(Clone, Debug)]
pub struct FollowerWatch(Arc<LocalDoorbells>);

impl FollowerWatch {
    /// The words of the follower.
    pub(super) fn words(&self) -> FollowerWords {
        FollowerWords { words: futex::Words::default(), local: Arc::clone(&self.0) }
    }

    /// Whether the follower has found another thread leading since the last
    /// [handover](super::Reader::hand_over_again) after an announcement. A thread that has given up the lead calls this.
    /// After `true` it leads again and hands over again, if it can; if it cannot, the thread that leads will.
    #[must_use]
    #[inline]
    pub fn has_announced(&self) -> bool {
        // Pairs with the fence of `FollowerWords::announce`.
        fence(Ordering::SeqCst);
        self.0.announced.load(Ordering::Acquire) != 0
    }
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
        Self {
            page,
            words: futex::Words::default(),
            local: Arc::default(),
            interrupts_seen: 0,
            leader_interrupts_seen: 0,
            is_followed: false,
        }
    }

    /// The handle with which other threads of this process end a sleep.
    pub(super) fn interrupt(&self) -> Interrupt {
        Interrupt(Arc::clone(&self.local.all))
    }

    /// The handle with which other threads of this process end the sleep of a leader.
    pub(super) fn leader_interrupt(&self) -> Interrupt {
        Interrupt(Arc::clone(&self.local.leader))
    }

    pub(super) fn follower_watch(&self) -> FollowerWatch {
        FollowerWatch(Arc::clone(&self.local))
    }

    /// Whether an interrupt occurred since the last call. Changes that preceded the interrupt are visible.
    #[inline]
    pub(super) fn is_interrupted(&mut self) -> bool {
        let (all, leader) = (self.local.all.count(), self.local.leader.count());
        let is_new = std::mem::replace(&mut self.interrupts_seen, all) != all;
        std::mem::replace(&mut self.leader_interrupts_seen, leader) != leader || is_new
    }

    /// The calling thread leads: samples ring no doorbell until it sleeps or hands over.
    #[inline]
    pub(super) fn lead(&mut self) {
        self.set_awake();
    }

    /// The follower leads.
    pub(super) fn end_following(&mut self) {
        self.is_followed = false;
        self.set_awake();
    }

    /// Sleeps once as a leader, until one of `bells` is rung, until an interrupt, or until the deadline; spurious
    /// wake-ups are possible. Each bell is a page and a doorbell in it. Does not sleep and returns false if `is_ready`
    /// returns true.
    pub(super) fn sleep_unless<'a>(
        &mut self,
        bells: impl Iterator<Item = (&'a PeerPage, u32)>,
        is_ready: impl FnOnce() -> bool,
        deadline: Option<MonotonicNs>,
    ) -> bool {
        self.words.clear();
        self.words.add_local(&self.local.all, self.interrupts_seen);
        self.words.add_local(&self.local.leader, self.leader_interrupts_seen);
        bells.for_each(|(page, bell)| self.words.add(page, Role::Leader.word(bell)));
        let is_idle = self.state_unless(LEADER_SLEEPS, is_ready);
        if is_idle {
            self.words.wait(deadline);
            self.set_awake();
        }
        is_idle
    }

    /// Records the doorbells for the follower, which then gives up the lead and [sleeps](FollowerWords::sleep). Returns
    /// false if `is_ready` returns true: the thread leads on.
    pub(super) fn follow_unless<'a>(
        &mut self,
        follower: &mut FollowerWords,
        bells: impl Iterator<Item = (&'a PeerPage, u32)>,
        is_ready: impl FnOnce() -> bool,
    ) -> bool {
        debug_assert!(!self.is_followed, "a reader process has one follower");
        follower.record(self.interrupts_seen, bells);
        self.is_followed = self.state_unless(FOLLOWER_SLEEPS, is_ready);
        self.is_followed
    }

    /// Whether a follower sleeps, or is about to.
    pub(super) const fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Takes back the announcement of the follower. From here on the follower counts as one that sleeps.
    pub(super) fn take_announcement(&mut self) -> Option<Announced> {
        if self.local.announced.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let generation = self.local.announced.swap(0, Ordering::AcqRel).checked_sub(1)?;
        self.is_followed = true;
        Some(Announced { generation })
    }

    /// The follower takes the place of the calling thread, which then gives up the lead. Returns false if `is_ready`
    /// returns true: the thread leads on. If there is no follower, the next thread that leads looks at the rings.
    #[inline]
    pub(super) fn hand_over_unless(&mut self, is_ready: impl FnOnce() -> bool) -> bool {
        !self.is_followed || self.state_unless(FOLLOWER_SLEEPS, is_ready)
    }

    /// States which thread sleeps, unless `is_ready` then returns true.
    #[inline]
    fn state_unless(&mut self, state: u64, is_ready: impl FnOnce() -> bool) -> bool {
        self.page.store(STATE, state, Ordering::Release);
        // Pairs with the fence before `sleeping`.
        fence(Ordering::SeqCst);
        let is_idle = !is_ready();
        if !is_idle {
            self.set_awake();
        }
        is_idle
    }

    #[inline]
    fn set_awake(&mut self) {
        self.page.store(STATE, AWAKE, Ordering::Release);
    }
}

impl FollowerWords {
    /// To be called after a failed attempt to lead, before another one: records the doorbells, which are those of this
    /// generation.
    pub(super) fn announce<'a>(&mut self, generation: u64, bells: impl Iterator<Item = (&'a PeerPage, u32)>) {
        self.record(self.local.all.count(), bells);
        // After the recording: the leader that takes this back looks at the rings later.
        self.local.announced.store(generation + 1, Ordering::Release);
        // Pairs with the fence of `FollowerWatch::has_announced`.
        fence(Ordering::SeqCst);
    }

    /// Sleeps once, without the lead, until a recorded doorbell is rung, or until an interrupt. Spurious wake-ups are
    /// possible.
    pub(super) fn sleep(&self) {
        self.words.wait(None);
    }

    fn record<'a>(&mut self, interrupts: u32, bells: impl Iterator<Item = (&'a PeerPage, u32)>) {
        self.words.clear();
        self.words.add_local(&self.local.all, interrupts);
        bells.for_each(|(page, bell)| self.words.add(page, Role::Follower.word(bell)));
    }
}

/// The role of the thread that sleeps in that reader process. The caller has published and then executed a
/// sequentially consistent fence.
#[inline]
pub(super) fn sleeping(sleeper: &PeerPage) -> Option<Role> {
    match sleeper.load_acquire(STATE) {
        AWAKE => None,
        LEADER_SLEEPS => Some(Role::Leader),
        // A peer that writes another value harms only itself.
        _ => Some(Role::Follower),
    }
}
