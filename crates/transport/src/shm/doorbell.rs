//! The bells of this process: one word for each reader process that any of its writers writes to.

use super::page::OwnedPage;
use super::sync::Mutex;
use super::wake::DOORBELLS;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError};

/// A page of bells; `K` tells reader processes apart.
#[derive(Debug)]
pub(super) struct DoorbellPage<K> {
    words: OwnedPage,
    /// Who has which bell, and how many channels lead there.
    owners: Mutex<HashMap<K, (u32, usize)>>,
}

impl<K> DoorbellPage<K> {
    pub(super) fn new(words: OwnedPage) -> Arc<Self> {
        Arc::new(Self { words, owners: Mutex::new(HashMap::new()) })
    }
}

/// The bell of one reader process, for one channel.
#[derive(Debug)]
pub(super) struct Doorbell<K: Eq + Hash> {
    page: Arc<DoorbellPage<K>>,
    identity: K,
    index: u32,
}

impl<K: Copy + Eq + Hash> Doorbell<K> {
    /// The bell for that reader process; `None` if there are too many.
    pub(super) fn new(page: &Arc<DoorbellPage<K>>, identity: K) -> Option<Self> {
        let mut owners = page.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match owners.get_mut(&identity) {
            Some((index, channels)) => {
                *channels += 1;
                *index
            }
            None => {
                let is_free = |index: &u32| !owners.values().any(|(taken, _)| taken == index);
                let index = (0..DOORBELLS).find(is_free)?;
                owners.insert(identity, (index, 1));
                index
            }
        };
        drop(owners);
        Some(Self { page: Arc::clone(page), identity, index })
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    pub(super) fn ring(&self) {
        self.page.words.increment_and_wake(self.index as usize);
    }
}

impl<K: Eq + Hash> Drop for Doorbell<K> {
    fn drop(&mut self) {
        let mut owners = self.page.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, channels)) = owners.get_mut(&self.identity) {
            *channels -= 1;
            if *channels == 0 {
                owners.remove(&self.identity);
            }
        }
    }
}
