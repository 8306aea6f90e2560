//! The remote participants that have matched a reader.
//!
//! A participant that has discovered a reader matches it with all of its writers, and each of these then sends a
//! HEARTBEAT. The reader therefore asks one writer of a participant first, and the others once that one has answered,
//! or has not answered for [`SILENT_STEPS`]. Otherwise a hundred readers that match a hundred writers of a busy
//! participant send ten thousand questions every few milliseconds, and the participant answers them too late.

use hashbrown::HashMap;

use crate::id::{EntityId, Guid, GuidPrefix};

/// Questions that a reader leaves out while another writer of the same participant is asked: about half a second.
const SILENT_STEPS: u32 = 3;

/// The participants of matched writers.
#[derive(Debug)]
pub(super) struct Introductions {
    participants: HashMap<GuidPrefix, Introduction, foldhash::quality::FixedState>,
}

/// The state of one participant. Exists while at least one writer of it is matched.
#[derive(Debug, Default)]
struct Introduction {
    writers: usize,
    /// A writer has sent a HEARTBEAT: the participant knows this reader.
    is_known: bool,
    /// The writer that is asked on behalf of all.
    asked: Option<EntityId>,
}

impl Introductions {
    pub(super) fn new(seed: u64) -> Self {
        Self { participants: HashMap::with_hasher(foldhash::quality::FixedState::with_seed(seed)) }
    }

    pub(super) fn add(&mut self, writer: Guid) {
        self.participants.entry(writer.prefix).or_default().writers += 1;
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.participants.is_empty()
    }

    pub(super) fn remove(&mut self, writer: Guid) {
        let Some(known) = self.participants.get_mut(&writer.prefix) else { return };
        known.writers = known.writers.saturating_sub(1);
        if known.asked == Some(writer.entity) {
            known.asked = None;
        }
        if known.writers == 0 {
            self.participants.remove(&writer.prefix);
        }
    }

    /// A writer of this participant has sent a HEARTBEAT.
    pub(super) fn note_known(&mut self, participant: GuidPrefix) {
        if let Some(known) = self.participants.get_mut(&participant) {
            known.is_known = true;
        }
    }

    /// Whether to ask this writer, after this number of questions and omitted ones.
    pub(super) fn asks(&mut self, writer: Guid, steps: u32) -> bool {
        let Some(known) = self.participants.get_mut(&writer.prefix) else { return true };
        known.is_known || steps >= SILENT_STEPS || *known.asked.get_or_insert(writer.entity) == writer.entity
    }
}
