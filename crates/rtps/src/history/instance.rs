//! Instances as a reader sees them: their state, their writers, their generations (DDS 1.4 §2.2.2.5.1).

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::id::{Guid, KeyHash};
use crate::time::{Instant, Timestamp};

/// Whether an instance lives (DDS 1.4 §2.2.2.5.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InstanceState {
    /// Some writer writes it, and no writer has disposed it since.
    #[default]
    Alive,
    /// A writer has disposed it.
    NotAliveDisposed,
    /// No writer is left.
    NotAliveNoWriters,
}

/// Whether the application has seen an instance since it was born or reborn (DDS 1.4 §2.2.2.5.1.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ViewState {
    /// It has not.
    #[default]
    New,
    /// It has.
    NotNew,
}

/// A matched writer, as a small number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct WriterSlot(pub u32);

/// The writers of an instance. Nearly always there is one, which costs no allocation.
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

    /// Says whether the writer was one of them.
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

/// The writer that an instance belongs to (OWNERSHIP EXCLUSIVE).
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) slot: WriterSlot,
    pub(super) strength: i32,
    pub(super) writer: Guid,
}

impl Owner {
    /// Whether another writer is stronger. Of equally strong ones it is the one of the lesser GUID, so that all readers
    /// make the same choice (DDS 1.4 §2.2.3.9.2).
    pub(super) fn yields_to(&self, strength: i32, writer: Guid) -> bool {
        (strength, Reverse(writer)) > (self.strength, Reverse(self.writer))
    }
}

/// The place of an instance in the list of those that a new one may replace.
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
    /// The serialized key, where the reader is asked to keep it.
    pub(super) key_holder: Option<Vec<u8>>,
    pub(super) state: InstanceState,
    pub(super) view: ViewState,
    pub(super) disposed_generations: u32,
    pub(super) no_writers_generations: u32,
    pub(super) writers: InstanceWriters,
    /// With exclusive ownership: the owner.
    pub(super) owner: Option<Owner>,
    /// When a sample was last let through the time-based filter.
    pub(super) last_accepted: Option<Instant>,
    /// Where the sample is held that came too soon for the time-based filter.
    pub(super) held: Option<u32>,
    /// With an order by source time stamp: source timestamp and writer of the newest sample that was taken.
    pub(super) last_taken: Option<(Timestamp, Guid)>,
    /// With an order by source time stamp: source timestamp and writer of its last change.
    pub(super) newest: Option<(Timestamp, Guid)>,
    /// When the samples of an instance that is not alive are thrown away.
    pub(super) purge_at: Option<Instant>,
    pub(super) samples: u32,
    pub(super) head: Option<u32>,
    pub(super) tail: Option<u32>,
    /// Its place among the instances that a new one may replace.
    pub(super) links: Links,
    /// Marks instances already dealt with by the selection under way.
    pub(super) visited: u64,
    /// While ranking: samples of this instance seen so far, and the generation of the newest.
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

    /// Whether one more value of this writer, which has written it before, changes nothing about it.
    #[inline]
    pub(super) fn is_plainly_written_by(&self, writer: WriterSlot) -> bool {
        matches!(self.state, InstanceState::Alive) && self.held.is_none() && self.writers.contains(writer)
    }

    pub(super) const fn generations(&self) -> u32 {
        self.disposed_generations.saturating_add(self.no_writers_generations)
    }

    /// A new value brings the instance to life.
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
