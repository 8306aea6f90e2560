//! What a participant reports to its caller.

use super::drops::Drops;
use crate::discovery::data::ParticipantData;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::locator::Locator;
use crate::qos::NonMatch;
use crate::reader::MatchedWriter;
use crate::writer::MatchedReader;

/// Something that was found out.
#[derive(Clone, Debug)]
pub enum ParticipantEvent {
    /// A participant was found.
    ParticipantFound(ParticipantData),
    /// A participant is gone.
    ParticipantLost(GuidPrefix, LostReason),
    /// A writer of another participant was found, or there is news about it; see
    /// [`Participant::remote_publication`](super::Participant::remote_publication).
    PublicationFound(Guid),
    /// A writer of another participant is gone.
    PublicationLost(Guid),
    /// A reader of another participant was found, or there is news about it; see
    /// [`Participant::remote_subscription`](super::Participant::remote_subscription).
    SubscriptionFound(Guid),
    /// A reader of another participant is gone.
    SubscriptionLost(Guid),
    /// A reader matches a local writer, or there is news about one that did.
    ReaderMatched {
        /// The local writer.
        writer: EntityId,
        /// The reader.
        reader: MatchedReader,
    },
    /// A reader no longer matches a local writer.
    ReaderUnmatched {
        /// The local writer.
        writer: EntityId,
        /// The reader.
        reader: Guid,
    },
    /// A writer matches a local reader, or there is news about one that did.
    WriterMatched {
        /// The local reader.
        reader: EntityId,
        /// The writer.
        writer: MatchedWriter,
    },
    /// A writer no longer matches a local reader.
    WriterUnmatched {
        /// The local reader.
        reader: EntityId,
        /// The writer.
        writer: Guid,
        /// Its participant has only been silent: the reader keeps its place, see
        /// [`Reader::park_writer`](crate::reader::Reader::park_writer).
        may_return: bool,
    },
    /// An endpoint of the same topic does not match a local one.
    NotMatched {
        /// The local endpoint.
        local: EntityId,
        /// The other one.
        remote: Guid,
        /// Why not, with both values.
        reason: NonMatch,
    },
    /// A connection to a known participant has opened.
    StreamConnected {
        /// The participant.
        participant: GuidPrefix,
        /// Where it listens.
        locator: Locator,
    },
    /// The connection to a participant has broken. What was under way is lost; reliable samples go again once there is
    /// a new connection.
    StreamLost {
        /// The participant.
        participant: GuidPrefix,
        /// Where it listens.
        locator: Locator,
    },
    /// A participant has shown that the writers of a kind are alive: this one, which is matched to a local reader.
    WriterAlive {
        /// The local reader.
        reader: EntityId,
        /// The writer.
        writer: Guid,
    },
}

/// A change of the connection to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamChange {
    /// The connection is open.
    Connected,
    /// Messages were dropped because too much waited to be sent; now there is room.
    Room,
    /// The connection has broken.
    Lost,
}

/// Why a participant is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostReason {
    /// It said so.
    Left,
    /// It was not heard of for the length of its lease.
    LeaseExpired,
    /// The application asked to ignore it.
    Ignored,
    /// There were too many participants that had not shown that they hear us, or too many altogether and this one had
    /// been silent for longest.
    Evicted,
}

/// What a participant does not do with messages, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ParticipantCounters {
    /// Messages looked at.
    pub messages: u64,
    /// Messages that are not RTPS 2.
    pub not_rtps: u64,
    /// What was dropped of all the others, by reason.
    pub drops: Drops,
}

/// The endpoints that an input is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The local endpoint.
    pub to: EntityId,
    /// The remote endpoint.
    pub from: Guid,
}
