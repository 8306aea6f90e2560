//! The doorbells of this process: two words for each reader process to which a writer of this process has a channel.

use super::page::{OwnedPage, PeerPage};
use super::sync::{Mutex, Ordering, fence};
use super::wake::{self, DOORBELLS};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError};

/// A page of doorbells. `K` identifies a reader process; `S` is the page in which that process states whether it
/// sleeps.
#[derive(Debug)]
pub(super) struct DoorbellPage<K, S> {
    words: OwnedPage,
    owners: Mutex<HashMap<K, Owner<S>>>,
}

/// The reader process that a doorbell wakes.
#[derive(Debug)]
struct Owner<S> {
    index: u32,
    /// Number of channels to that process.
    channels: usize,
    /// Mapped once for all of its channels.
    sleeper: Arc<S>,
}

/// Rings those of the doorbells whose reader processes sleep, after samples were published for them. Returns their
/// number.
#[inline]
pub(super) fn ring_sleeping<'d, K: Eq + Hash + 'd>(doorbells: impl Iterator<Item = &'d Doorbell<K, PeerPage>>) -> u64 {
    // Pairs with the fence of `Sleeper::state_unless`.
    fence(Ordering::SeqCst);
    doorbells.map(|doorbell| u64::from(doorbell.ring_if_asleep())).sum()
}

impl<K, S> DoorbellPage<K, S> {
    pub(super) fn new(words: OwnedPage) -> Arc<Self> {
        Arc::new(Self { words, owners: Mutex::new(HashMap::new()) })
    }
}

/// The doorbell of one reader process, for one channel.
#[derive(Debug)]
pub(super) struct Doorbell<K: Eq + Hash, S> {
    page: Arc<DoorbellPage<K, S>>,
    identity: K,
    index: u32,
    sleeper: Arc<S>,
}

impl<K: Copy + Eq + Hash, S> Doorbell<K, S> {
    /// The doorbell of this reader process; `None` if there are too many reader processes. `sleeper` is called for the
    /// first channel to the process.
    ///
    /// # Errors
    /// The error of `sleeper`.
    pub(super) fn new<E>(
        page: &Arc<DoorbellPage<K, S>>,
        identity: K,
        sleeper: impl FnOnce() -> Result<S, E>,
    ) -> Result<Option<Self>, E> {
        let mut owners = page.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let (index, sleeper) = match owners.get_mut(&identity) {
            Some(owner) => {
                owner.channels += 1;
                (owner.index, Arc::clone(&owner.sleeper))
            }
            None => {
                let is_free = |index: &u32| !owners.values().any(|owner| owner.index == *index);
                let Some(index) = (0..DOORBELLS).find(is_free) else { return Ok(None) };
                let sleeper = Arc::new(sleeper()?);
                owners.insert(identity, Owner { index, channels: 1, sleeper: Arc::clone(&sleeper) });
                (index, sleeper)
            }
        };
        drop(owners);
        Ok(Some(Self { page: Arc::clone(page), identity, index, sleeper }))
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }
}

impl<K: Eq + Hash> Doorbell<K, PeerPage> {
    /// Called after a fence. Returns whether the reader process sleeps.
    #[inline]
    fn ring_if_asleep(&self) -> bool {
        let sleeping = wake::sleeping(&self.sleeper);
        if let Some(role) = sleeping {
            self.page.words.increment_and_wake(role.word(self.index));
        }
        sleeping.is_some()
    }
}

impl<K: Eq + Hash, S> Drop for Doorbell<K, S> {
    fn drop(&mut self) {
        let mut owners = self.page.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = owners.get_mut(&self.identity) {
            owner.channels -= 1;
            if owner.channels == 0 {
                owners.remove(&self.identity);
            }
        }
    }
}
