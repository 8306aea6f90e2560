//! Announcements of endpoints that were refused for lack of room.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::id::EntityId;
use crate::limits::{REFUSED_DOUBLINGS, REFUSED_INTERVAL, REFUSED_NUMBERS_MAX};
use crate::seq::SequenceNumber;
use crate::time::Instant;

/// The refused announcements of one participant.
#[derive(Debug, Default)]
pub(super) struct RefusedEndpoints {
    pub(super) by_writer: BTreeMap<EntityId, Refused>,
    /// The smallest of them, in bytes.
    pub(super) least_bytes: usize,
    /// When to look for room next.
    pub(super) look_at: Option<Instant>,
    /// How often they were received again.
    pub(super) attempts: u32,
    /// When they were requested last.
    pub(super) retried_at: Option<Instant>,
}

/// The refused announcements of one built-in writer.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// The first ones, at most [`REFUSED_NUMBERS_MAX`].
    pub(super) numbers: BTreeSet<SequenceNumber>,
    /// Whether some after the last of these were refused, too.
    pub(super) has_more: bool,
}

impl Refused {
    fn note(&mut self, number: SequenceNumber) {
        self.numbers.insert(number);
        if self.numbers.len() > REFUSED_NUMBERS_MAX {
            self.numbers.pop_last();
            self.has_more = true;
        }
    }
}

impl RefusedEndpoints {
    pub(super) fn note(&mut self, now: Instant, writer: EntityId, number: SequenceNumber, bytes: usize) {
        let last_pause = REFUSED_INTERVAL.times(1 << self.attempts.min(REFUSED_DOUBLINGS));
        if self.by_writer.is_empty() && self.retried_at.is_some_and(|at| now.since(at) > last_pause.times(2)) {
            // The last attempt was a success.
            self.attempts = 0;
        }
        self.least_bytes = if self.by_writer.is_empty() { bytes } else { self.least_bytes.min(bytes) };
        self.by_writer.entry(writer).or_default().note(number);
        self.look_at.get_or_insert(now + REFUSED_INTERVAL.times(1 << self.attempts.min(REFUSED_DOUBLINGS)));
    }
}
