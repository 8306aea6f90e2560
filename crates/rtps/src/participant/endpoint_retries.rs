//! Receiving announcements of endpoints again that were refused for lack of room, as soon as there is room: the peer
//! considers them acknowledged, and would not repeat them by itself.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Participant;
use super::discovery_memory::DiscoveryMemory;
use super::remote::RemoteParticipant;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::limits::REFUSED_INTERVAL;
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::vendor::Quirks;

impl RemoteParticipant {
    /// The announcement with this number of a built-in writer was refused for lack of room. Nothing is remembered of
    /// vendors that are not known to send an acknowledged sample again: the reader would wait for it for ever.
    pub(super) fn note_refused(&mut self, now: Instant, writer: EntityId, number: SequenceNumber, bytes: usize) {
        if self.answers() && Quirks::of(self.data.vendor).repeats_acknowledged {
            self.refused.get_or_default().note(now, writer, number, bytes);
        }
    }

    /// Whether refused announcements are to be received again: it is time to look, and there is room for one.
    fn takes_refused(&mut self, now: Instant, all: &DiscoveryMemory) -> bool {
        let Some(refused) = self.refused.as_mut().filter(|refused| refused.look_at.is_some_and(|at| at <= now)) else {
            return false;
        };
        refused.look_at = Some(now + REFUSED_INTERVAL);
        let bytes = refused.least_bytes;
        // The number of any endpoint that is not known.
        self.has_room_for(all, EntityId::UNKNOWN, bytes)
    }
}

impl Participant {
    /// Receives the refused announcements of a participant again if there is room for one of them.
    pub(super) fn retry_refused(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        if !remote.takes_refused(now, &self.discovery_memory) {
            return;
        }
        let Some(refused) = remote.refused.as_mut() else { return };
        let mut postponed = BTreeMap::new();
        for (entity, refused) in core::mem::take(&mut refused.by_writer) {
            let Some(topic) = self.builtin.topic_of_writer(entity) else { continue };
            let writer = Guid::new(prefix, entity);
            let (Some(next), Some(last)) = (topic.reader.next_number(writer), refused.numbers.last()) else { continue };
            if next <= *last {
                // The reader has gone back for another reason, and is to receive these or others again first.
                postponed.insert(entity, refused);
                continue;
            }
            let last = if refused.has_more { *last } else { next.previous() };
            let numbers: Vec<SequenceNumber> = refused.numbers.into_iter().collect();
            topic.reader.receive_again(writer, &numbers, last);
            topic.reader.ask_for_heartbeat(writer);
        }
        refused.attempts = refused.attempts.saturating_add(1);
        refused.retried_at = Some(now);
        refused.look_at = refused.look_at.filter(|_| !postponed.is_empty());
        refused.by_writer = postponed;
    }
}
