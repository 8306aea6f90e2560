//! Participants that are reached by connections.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Participant;
use super::event::{ParticipantEvent, StreamChange};
use crate::id::GuidPrefix;
use crate::locator::Locator;
use crate::time::{Instant, Timestamp};

impl Participant {
    /// The connection to the peers at this locator has changed. The participant announces itself by a new connection at
    /// once, and discovery requests there the samples that it misses.
    pub fn handle_stream(&mut self, now: Instant, wall: Timestamp, locator: Locator, change: StreamChange) {
        if change == StreamChange::Connected {
            let message = self.announcement(wall, None);
            self.say(&message, Arc::new([locator]));
        }
        if change != StreamChange::Lost {
            self.builtin.handle_room(now, &locator);
            if let Some(keys) = &mut self.keys {
                keys.handle_room(now, &locator);
            }
        }
        for participant in self.participants_at(&locator) {
            self.events.extend(match change {
                StreamChange::Connected => Some(ParticipantEvent::StreamConnected { participant, locator }),
                StreamChange::Lost => Some(ParticipantEvent::StreamLost { participant, locator }),
                StreamChange::Room => None,
            });
        }
    }

    /// Whether a participant that has shown that it hears this one announces this locator. A connection by which
    /// messages in its name have come is none of its own: any host can send these.
    #[must_use]
    pub fn is_heard_by_stream(&self, locator: &Locator) -> bool {
        self.remotes.values().any(|remote| remote.is_trusted() && remote.names_stream(locator))
    }

    /// The participants that announce this locator.
    fn participants_at(&self, locator: &Locator) -> Vec<GuidPrefix> {
        let there = self.remotes.iter().filter(|(_, remote)| remote.data.streams.contains(locator));
        there.map(|(prefix, _)| *prefix).collect()
    }
}
