//! The process of a reader, with its turns and doorbells, and writers of other processes. The rings only count samples.

use crate::shm::doorbell::{Doorbell, DoorbellPage, ring_sleeping};
use crate::shm::page::{OwnedPage, PeerPage, Words};
use crate::shm::sync::Ordering;
use crate::shm::take_lock::Take;
use crate::shm::turns::{Turns, Wake, WriterDoorbell};
use crate::shm::wake::{SLEEPER_WORDS, Sleeper};
use loom::thread::{self, JoinHandle};
use std::time::Duration;

/// The process of a reader.
pub(super) struct Process {
    pub(super) turns: Turns,
    rings: Vec<PeerPage>,
    /// Number of samples taken.
    pub(super) taken: u64,
    /// Number of samples after which the follower has to end.
    pub(super) last: Option<u64>,
}

/// A writer with a ring to the reader.
pub(super) struct Writer {
    ring: OwnedPage,
    doorbell: Doorbell<char, PeerPage>,
}

impl Process {
    /// A process that reads from other processes, each with this number of writers.
    pub(super) fn reading_from(writers: &[usize]) -> (Self, Vec<Writer>) {
        let page = Words::new(SLEEPER_WORDS);
        let mut turns = Turns::new(Sleeper::new(OwnedPage::new(page.clone())));
        let (mut rings, mut all) = (Vec::new(), Vec::new());
        for (inode, count) in writers.iter().enumerate() {
            let words = Words::new(2);
            let doorbells = DoorbellPage::new(OwnedPage::new(words.clone()));
            for _ in 0..*count {
                let sleeper = || Ok::<_, ()>(PeerPage::new(page.clone()));
                let doorbell = Doorbell::new(&doorbells, 'r', sleeper).unwrap().unwrap();
                let (inode, index, page) = (inode as u64, doorbell.index(), PeerPage::new(words.clone()));
                turns.add_doorbell(WriterDoorbell { device: 0, inode, index, page }, writers.len()).unwrap();
                let ring = Words::new(1);
                rings.push(PeerPage::new(ring.clone()));
                all.push(Writer { ring: OwnedPage::new(ring), doorbell });
            }
        }
        (Self { turns, rings, taken: 0, last: None }, all)
    }

    /// A process without writers.
    pub(super) fn alone() -> Self {
        Self::reading_from(&[]).0
    }

    /// Takes the samples that were published.
    pub(super) fn take_all(&mut self) {
        self.taken = published(&self.rings);
    }

    pub(super) fn wait(&mut self) -> Wake {
        let (turns, is_ready) = self.turns();
        turns.wait(Duration::ZERO, None, is_ready)
    }

    /// Waits until `count` samples were taken.
    pub(super) fn wait_until(&mut self, count: u64) {
        self.take_all();
        while self.taken < count {
            self.wait();
            self.take_all();
        }
    }
}

impl Take for Process {
    fn turns(&mut self) -> (&mut Turns, impl Fn() -> bool) {
        let Self { turns, rings, taken, .. } = self;
        (turns, || published(rings) > *taken)
    }

    fn has_work(&self) -> bool {
        self.last == Some(self.taken)
    }
}

impl Writer {
    /// Publishes this number of samples on a thread of its own.
    pub(super) fn publish(self, count: u64) -> JoinHandle<()> {
        thread::spawn(move || {
            for value in 1..=count {
                self.ring.store(0, value, Ordering::Release);
                ring_sleeping(std::iter::once(&self.doorbell));
            }
        })
    }
}

fn published(rings: &[PeerPage]) -> u64 {
    rings.iter().map(|ring| ring.load_acquire(0)).sum()
}
