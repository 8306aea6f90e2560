//! Instances from the view of a reader: state, writers, generations (DDS 1.4 §2.2.2.5.1).

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::id::{Guid, KeyHash};
use crate::time::{Instant, Timestamp};

/// Whether an instance is alive (DDS 1.4 §2.2.2.5.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InstanceState {
    /// A writer has written the instance, and no writer has disposed it since.
    #[default]
    Alive,
    /// A writer has disposed the instance.
    NotAliveDisposed,
    /// No writer of the instance is left.
    NotAliveNoWriters,
}

/// Whether the application has seen an instance in its current generation (DDS 1.4 §2.2.2.5.1.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ViewState {
    /// The application has not seen the instance.
    #[default]
    New,
    /// The application has seen the instance.
    NotNew,
}

/// A matched writer, identified by a small number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct WriterSlot(pub u32);

/// The writers of an instance. The usual single writer costs no allocation.
#[derive(Debug, Default)]
pub(super) struct InstanceWriters {
    first: Option<WriterSlot>,
    others: Vec<WriterSlot>,
}

impl InstanceWriters {
    pub(super) fn add(&mut self, writer: WriterSlot) {
        match self.first {
            None => self.first = Some(writer),
            Some(first) if first == writer || self.others.contains(&writer) => {}
            Some(_) => self.others.push(writer),
        }
    }

    /// Removes a writer. `false` if it was not a writer of the instance.
    pub(super) fn remove(&mut self, writer: WriterSlot) -> bool {
        if self.first == Some(writer) {
            self.first = self.others.pop();
            return true;
        }
        let before = self.others.len();
        self.others.retain(|w| *w != writer);
        self.others.len() < before
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    fn contains(&self, writer: WriterSlot) -> bool {
        self.first == Some(writer) || self.others.contains(&writer)
    }
}

/// The writer that owns an instance (OWNERSHIP EXCLUSIVE).
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) slot: WriterSlot,
    pub(super) strength: i32,
    pub(super) writer: Guid,
}

impl Owner {
    /// Whether another writer takes precedence: the stronger one, or of two equally strong ones that with the lesser
    /// GUID, so that all readers make the same choice (DDS 1.4 §2.2.3.9.2).
    pub(super) fn yields_to(&self, strength: i32, writer: Guid) -> bool {
        (strength, Reverse(writer)) > (self.strength, Reverse(self.writer))
    }
}

/// The links of an instance in the list of replaceable instances.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    pub(super) is_listed: bool,
    pub(super) previous: Option<u32>,
    pub(super) next: Option<u32>,
}

/// One instance in a reader's cache.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) key: KeyHash,
    /// The serialized key, if the reader is configured to keep keys.
    pub(super) key_holder: Option<Vec<u8>>,
    pub(super) state: InstanceState,
    pub(super) view: ViewState,
    pub(super) disposed_generations: u32,
    pub(super) no_writers_generations: u32,
    pub(super) writers: InstanceWriters,
    /// The owner, under exclusive ownership.
    pub(super) owner: Option<Owner>,
    /// When a sample last passed the time-based filter.
    pub(super) last_accepted: Option<Instant>,
    /// The place of the sample that the time-based filter holds.
    pub(super) held: Option<u32>,
    /// Under order by source timestamp: timestamp and writer of the newest sample that the application took.
    pub(super) last_taken: Option<(Timestamp, Guid)>,
    /// Under order by source timestamp: timestamp and writer of the last change.
    pub(super) newest: Option<(Timestamp, Guid)>,
    /// When the samples of an instance that is not alive are discarded.
    pub(super) purge_at: Option<Instant>,
    pub(super) samples: u32,
    pub(super) head: Option<u32>,
    pub(super) tail: Option<u32>,
    /// Its links in the list of replaceable instances.
    pub(super) links: Links,
    /// Marks instances that the current selection has already processed.
    pub(super) visited: u64,
    /// During ranking: the number of samples of this instance so far, and the generation of the newest.
    pub(super) ranked: u32,
    pub(super) newest_ranked: u32,
}

impl Instance {
    pub(super) fn new(key: KeyHash) -> Self {
        Self {
            key,
            key_holder: None,
            state: InstanceState::Alive,
            view: ViewState::New,
            disposed_generations: 0,
            no_writers_generations: 0,
            writers: InstanceWriters::default(),
            owner: None,
            last_accepted: None,
            held: None,
            last_taken: None,
            newest: None,
            purge_at: None,
            samples: 0,
            head: None,
            tail: None,
            links: Links::default(),
            visited: 0,
            ranked: 0,
            newest_ranked: 0,
        }
    }

    /// Whether another value of this writer changes neither the instance's state nor its writers.
    #[inline]
    pub(super) fn is_plainly_written_by(&self, writer: WriterSlot) -> bool {
        matches!(self.state, InstanceState::Alive) && self.held.is_none() && self.writers.contains(writer)
    }

    pub(super) const fn generations(&self) -> u32 {
        self.disposed_generations.saturating_add(self.no_writers_generations)
    }

    /// Brings the instance to life with a new value.
    pub(super) fn revive(&mut self) {
        match self.state {
            InstanceState::Alive => return,
            InstanceState::NotAliveDisposed => {
                self.disposed_generations = self.disposed_generations.saturating_add(1);
            }
            InstanceState::NotAliveNoWriters => {
                self.no_writers_generations = self.no_writers_generations.saturating_add(1);
            }
        }
        self.state = InstanceState::Alive;
        self.view = ViewState::New;
        self.purge_at = None;
    }
}
