//! The bells of this process: one word for each reader process that any of its writers writes to.

use super::link::Peer;
use super::memory::Memory;
use super::page::{Mine, Words};
use super::wake::BELLS;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Tells reader processes apart: by the kernel's word, and by the inode of their sleeper page.
type Identity = (Peer, u64, u64);

#[derive(Debug)]
pub(super) struct Bells {
    memory: Memory,
    page: Mine,
    /// Who has which bell, and how many channels lead there.
    owners: Mutex<HashMap<Identity, (u32, usize)>>,
}

impl Bells {
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let memory = Memory::new("peregrine-bells", BELLS as usize * 8)?;
        let page = Mine::new(Words::of(&memory));
        Ok(Arc::new(Self { memory, page, owners: Mutex::default() }))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

/// The bell of one reader process, for one channel.
#[derive(Debug)]
pub(super) struct Bell {
    bells: Arc<Bells>,
    identity: Identity,
    index: u32,
}

impl Bell {
    /// The bell for who sleeps on this page; `None` if there are too many.
    ///
    /// # Errors
    /// The descriptor is none.
    pub(super) fn new(bells: &Arc<Bells>, peer: Peer, sleeper: &OwnedFd) -> io::Result<Option<Self>> {
        let stat = rustix::fs::fstat(sleeper)?;
        let identity = (peer, stat.st_dev, stat.st_ino);
        let mut owners = bells.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match owners.get_mut(&identity) {
            Some((index, channels)) => {
                *channels += 1;
                *index
            }
            None => {
                let is_free = |index: &u32| !owners.values().any(|(taken, _)| taken == index);
                let Some(index) = (0..BELLS).find(is_free) else { return Ok(None) };
                owners.insert(identity, (index, 1));
                index
            }
        };
        Ok(Some(Self { bells: Arc::clone(bells), identity, index }))
    }

    pub(super) fn index(&self) -> u32 {
        self.index
    }

    pub(super) fn page(&self) -> BorrowedFd<'_> {
        self.bells.as_fd()
    }

    pub(super) fn ring(&self) {
        self.bells.page.ring(self.index as usize);
    }
}

impl Drop for Bell {
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
