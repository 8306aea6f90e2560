//! Events and counters of a participant.

use alloc::boxed::Box;
use alloc::string::String;

use super::announced_parts::AnnouncedParts;
use super::drops::Drops;
use super::message_refusal::MessageRefusal;
use super::secure_channel::SecureChannelCounters;
use crate::discovery::data::ParticipantData;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::locator::Locator;
use crate::qos::NonMatch;
use crate::reader::MatchedWriter;
use crate::writer::MatchedReader;

/// An event of discovery.
#[derive(Clone, Debug)]
pub enum ParticipantEvent {
    /// A participant was discovered.
    ParticipantFound(Box<ParticipantData>),
    /// A participant was lost.
    ParticipantLost(GuidPrefix, LostReason),
    /// A remote writer was discovered or changed; see
    /// [`Participant::remote_publication`](super::Participant::remote_publication).
    PublicationFound(Guid),
    /// A remote writer was removed.
    PublicationLost(Guid),
    /// A remote reader was discovered or changed; see
    /// [`Participant::remote_subscription`](super::Participant::remote_subscription).
    SubscriptionFound(Guid),
    /// A remote reader was removed.
    SubscriptionLost(Guid),
    /// A reader matches a local writer, or a matched reader changed.
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
    /// A writer matches a local reader, or a matched writer changed.
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
        /// The remote endpoint.
        remote: Guid,
        /// The reason, with both values.
        reason: NonMatch,
    },
    /// The gate refuses a participant: it is not known, or no longer. Reported once for a reason.
    ParticipantRefused {
        /// The participant.
        participant: GuidPrefix,
        /// The reason.
        reason: String,
    },
    /// A participant was announced in clear otherwise than it has signed in its handshake. The signed data counts.
    AnnouncementContradicted {
        /// The participant.
        participant: GuidPrefix,
        /// The parts that differ.
        parts: AnnouncedParts,
    },
    /// The participant has security, and refuses messages, or submessages, in the name of another one. Reported at
    /// most once a second for a known sender and reason, and for a reason of all unknown senders together.
    MessagesRefused {
        /// The sender of the last message, which may be forged.
        from: GuidPrefix,
        /// The reason.
        refusal: MessageRefusal,
        /// The number of messages since the last report for the sender and reason.
        count: u64,
    },
    /// A connection to a known participant has opened.
    StreamConnected {
        /// The participant.
        participant: GuidPrefix,
        /// The locator of the participant.
        locator: Locator,
    },
    /// The connection to a participant has broken. Messages in transit are lost; reliable samples are sent again over
    /// the next connection.
    StreamLost {
        /// The participant.
        participant: GuidPrefix,
        /// The locator of the participant.
        locator: Locator,
    },
    /// A participant message has asserted the liveliness of writers of a kind, among them this one, which is matched to
    /// a local reader.
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
    /// Messages were dropped because the send queue was full; now there is room again.
    Room,
    /// The connection has broken.
    Lost,
}

/// Why a participant was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostReason {
    /// The participant announced its end.
    Left,
    /// No announcement arrived within its lease.
    LeaseExpired,
    /// The system reports that its process has ended, and it answers no question.
    ProcessEnded,
    /// This participant has moved, and the participant, which takes no notice of that, was sent a goodbye: both
    /// discover each other anew.
    Moved,
    /// The application ignores it.
    Ignored,
    /// The gate refuses it.
    Refused,
    /// There were too many unverified participants, or too many participants, and this one had been silent for longest.
    Evicted,
}

/// Counters of a participant with a gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GateCounters {
    /// Announcements of participants that the gate refuses.
    pub refused: u64,
    /// Participants that were announced in clear otherwise than they have signed in their handshake.
    pub contradicted: u64,
    /// Calls of [`Participant::keys_ready`](super::Participant::keys_ready) for participants that are not
    /// authenticated.
    pub keys_ignored: u64,
}

/// Counters of messages, and of dropped ones by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ParticipantCounters {
    /// Messages received.
    pub messages: u64,
    /// Messages that are not RTPS 2.
    pub not_rtps: u64,
    /// Drops of other messages and their parts, by reason.
    pub drops: Drops,
    /// Own announcements and messages of handshakes that were not sent because their protection failed.
    pub unsealed: u64,
    /// Effects of forged discovery messages that were taken back.
    pub healed: Healed,
    /// Goodbyes to peers that took no notice of a change of addresses, so that they discover this participant anew.
    pub rejoins: u64,
    /// The channels that DDS Security adds.
    pub secure_channels: SecureChannelCounters,
    /// The participants and keys that the gate has kept out.
    pub gate: GateCounters,
}

/// Counters of the effects of forged discovery messages that were taken back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Healed {
    /// Times that all announcements of a participant were received again, because it said other than what was received.
    pub rereads: u64,
    /// Endpoints that were known and then turned out not to exist.
    pub endpoints_removed: u64,
    /// Participants that went on after a goodbye in their name.
    pub participants_restored: u64,
    /// Announcements of other addresses by participants that still answered at the old ones, or announced these again.
    pub moves_refused: u64,
    /// Announcements of another vendor, lease, built-in endpoint set or group that the participant has contradicted.
    pub terms_refused: u64,
}

/// The recipient and the sender of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// The local endpoint.
    pub to: EntityId,
    /// The remote endpoint.
    pub from: Guid,
}
