//! Discovery events that are kept for observers.

use std::collections::VecDeque;

use peregrine_rtps::discovery::data::{ParticipantData, PublicationData, SubscriptionData};
use peregrine_rtps::id::{Guid, GuidPrefix};
use peregrine_rtps::locator::Locator;
use peregrine_rtps::participant::LostReason;
use peregrine_rtps::qos::NonMatch;

use crate::shared_memory::DeliveryPath;

/// Maximum number of events that are kept for an observer; beyond it, the oldest are dropped and counted.
const EVENTS_MAX: usize = 4096;

/// A change of the entities in the domain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DiscoveryEvent {
    /// A participant was discovered, or its announced data has changed.
    ParticipantFound(ParticipantData),
    /// A participant was removed, with the reason.
    ParticipantLost(GuidPrefix, LostReason),
    /// A writer was discovered, or its policies have changed.
    PublicationFound(PublicationData),
    /// A writer was deleted, or its participant was removed.
    PublicationLost(Guid),
    /// A reader was discovered, or its policies have changed.
    SubscriptionFound(SubscriptionData),
    /// A reader was deleted, or its participant was removed.
    SubscriptionLost(Guid),
    /// A writer and a reader of the same topic do not match; at least one of them belongs to this participant. The
    /// event is repeated when the reason changes.
    NotMatched {
        /// The one of this participant.
        local: Guid,
        /// The other one.
        remote: Guid,
        /// The reason, with the values of both sides.
        reason: NonMatch,
    },
    /// The path of samples from a matched writer to a reader has changed, or a change has failed. The event occurs for
    /// participants that both offer shared memory: on the side of the reader, and on that of the writer once a channel
    /// existed. A pair of endpoints without an event exchanges messages. A pair that tries again and fails again causes
    /// no event, unless it will not try again.
    PathChanged {
        /// The one of this participant.
        local: Guid,
        /// The other one.
        remote: Guid,
        /// The path of samples from now on.
        path: DeliveryPath,
    },
    /// An event of DDS Security.
    #[cfg(feature = "security")]
    Security(peregrine_security::session::SecurityEvent),
    /// A connection to a known participant has opened (transports with connections).
    StreamConnected {
        /// The participant.
        participant: GuidPrefix,
        /// Where it listens.
        locator: Locator,
    },
    /// The connection to a participant has broken. Messages in transit are lost; reliable samples are sent again over
    /// the next connection.
    StreamLost {
        /// The participant.
        participant: GuidPrefix,
        /// Where it listens.
        locator: Locator,
    },
}

/// Events that wait for an observer.
pub(crate) struct Observer {
    id: u64,
    queue: VecDeque<DiscoveryEvent>,
    missed: u64,
}

impl Observer {
    pub(crate) const fn new(id: u64) -> Self {
        Self { id, queue: VecDeque::new(), missed: 0 }
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// The number of events that were dropped because the observer did not take events in time.
    pub(crate) const fn missed(&self) -> u64 {
        self.missed
    }

    /// Whether events wait.
    pub(crate) fn has_some(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn next(&mut self) -> Option<DiscoveryEvent> {
        self.queue.pop_front()
    }

    pub(crate) fn push(&mut self, event: DiscoveryEvent) {
        if self.queue.len() >= EVENTS_MAX {
            self.queue.pop_front();
            self.missed = self.missed.saturating_add(1);
        }
        self.queue.push_back(event);
        debug_assert!(self.queue.len() <= EVENTS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observer_that_takes_no_events_misses_the_oldest() {
        let mut observer = Observer::new(1);
        let participant = |number: usize| {
            let mut prefix = GuidPrefix([0; 12]);
            prefix.0[..8].copy_from_slice(&number.to_be_bytes());
            prefix
        };
        for number in 0..EVENTS_MAX + 3 {
            observer.push(DiscoveryEvent::ParticipantLost(participant(number), LostReason::Left));
        }
        assert_eq!((observer.queue.len(), observer.missed()), (EVENTS_MAX, 3));
        let Some(DiscoveryEvent::ParticipantLost(first, _)) = observer.next() else { panic!("an event waits") };
        assert_eq!(first, participant(3));
    }
}
