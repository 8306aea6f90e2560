//! The bells of this process: one word for each reader process that any of its writers writes to.

use super::page::Mine;
use super::sync::Mutex;
use super::wake::BELLS;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError};

/// A page of bells; `K` tells reader processes apart.
#[derive(Debug)]
pub(super) struct Bells<K> {
    page: Mine,
    /// Who has which bell, and how many channels lead there.
    owners: Mutex<HashMap<K, (u32, usize)>>,
}

impl<K> Bells<K> {
    pub(super) fn new(page: Mine) -> Arc<Self> {
        Arc::new(Self { page, owners: Mutex::new(HashMap::new()) })
    }
}

/// The bell of one reader process, for one channel.
#[derive(Debug)]
pub(super) struct Bell<K: Eq + Hash> {
    bells: Arc<Bells<K>>,
    identity: K,
    index: u32,
}

impl<K: Copy + Eq + Hash> Bell<K> {
    /// The bell for that reader process; `None` if there are too many.
    pub(super) fn new(bells: &Arc<Bells<K>>, identity: K) -> Option<Self> {
        let mut owners = bells.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match owners.get_mut(&identity) {
            Some((index, channels)) => {
                *channels += 1;
                *index
            }
            None => {
                let is_free = |index: &u32| !owners.values().any(|(taken, _)| taken == index);
                let index = (0..BELLS).find(is_free)?;
                owners.insert(identity, (index, 1));
                index
            }
        };
        drop(owners);
        Some(Self { bells: Arc::clone(bells), identity, index })
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    pub(super) fn ring(&self) {
        self.bells.page.ring(self.index as usize);
    }
}

impl<K: Eq + Hash> Drop for Bell<K> {
    fn drop(&mut self) {
        let mut owners = self.bells.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, channels)) = owners.get_mut(&self.identity) {
            *channels -= 1;
            if *channels == 0 {
                owners.remove(&self.identity);
            }
        }
    }
}
