//! The questions of a participant to its security implementation before it uses others: the results of Authentication
//! and AccessControl (DDS Security 1.2 §9.3, §9.4).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::event::LostReason;
use crate::discovery::data::{ParticipantData, PublicationData, SecurityInfo, SubscriptionData};
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::locator::Source;

/// Decides which remote participants and endpoints may be used, how endpoints are protected, and which pairs have
/// keys.
///
/// The gate alone keeps the keys: the participant asks whether they are there, and reports at once what has ended, so
/// that the calls have the order of what happens in discovery. No call does I/O, waits, or calls the participant. A
/// participant without a gate uses all others.
pub trait Gate: fmt::Debug + Send + Sync {
    /// A remote participant has announced itself, for the first time or with other data. Returns whether it may be
    /// used. `source` sent the announcement without protection, so that the announcement may be forged; `None` for an
    /// announcement that arrived by the secure endpoints of discovery.
    fn announced(&self, remote: &ParticipantData, source: Option<Source>) -> Admission;

    /// Whether a remote participant that has announced itself may be used. Asked when the caller
    /// [says](super::Participant::review_admission) that the answer may be another one.
    fn admission(&self, remote: GuidPrefix) -> Admission;

    /// The discovery data that an authenticated participant has signed in its latest handshake: a big-endian parameter
    /// list without encapsulation. It replaces what was announced without protection. `None`: there is none.
    fn signed_data(&self, remote: GuidPrefix) -> Option<Vec<u8>>;

    /// How the participant and its built-in endpoints are protected. Fixed for its lifetime.
    fn participant(&self) -> ParticipantRules;

    /// How the endpoints of a topic are protected, local and remote ones. Fixed for the lifetime of the participant.
    fn topic(&self, name: &str) -> TopicRules;

    /// Whether a remote writer may write for a local reader.
    ///
    /// # Errors
    /// Why not: the document, the rule and the element that would permit it.
    fn check_remote_writer(&self, writer: &PublicationData, reader: &SubscriptionData) -> Result<(), String>;

    /// Whether a remote reader may read from a local writer.
    ///
    /// # Errors
    /// Why not: the document, the rule and the element that would permit it.
    fn check_remote_reader(&self, reader: &SubscriptionData, writer: &PublicationData) -> Result<(), String>;

    /// A local and a remote endpoint match, as far as discovery decides, and need keys. Begins the exchange of their
    /// keys, or resumes the one that [`Self::unmatched`] has suspended; a repeated call has no effect but its result.
    /// Returns whether the keys of the remote endpoint are there. When they come later, the caller says so by
    /// [`Participant::keys_ready`](super::Participant::keys_ready).
    ///
    /// # Errors
    /// Why the endpoints do not match.
    fn want_keys(&self, local: EntityId, remote: Guid) -> Result<bool, String>;

    /// Whether the keys of a remote entity are there for a local one: of the participants, of their secure built-in
    /// endpoints, or of endpoints that match. A look-up: the gate exchanges the keys of participants and built-in
    /// endpoints without being asked.
    fn has_keys(&self, local: EntityId, remote: Guid) -> bool;

    /// A local and a remote endpoint match no longer, or do not match. Their keys may be kept for their next match.
    /// Also called for pairs that have wanted no keys.
    fn unmatched(&self, local: EntityId, remote: Guid);

    /// Discovery knows a remote endpoint no longer.
    fn endpoint_lost(&self, remote: Guid);

    /// Discovery knows a remote participant no longer.
    fn participant_lost(&self, remote: GuidPrefix, reason: LostReason);
}

/// Whether a remote participant may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Not yet: the handshake goes on. Nothing is exchanged but announcements and messages of the handshake.
    Pending,
    /// The participant is authenticated and has permission to take part.
    Authenticated,
    /// The participant cannot be authenticated, and may use topics without protection.
    Unauthenticated,
    /// No, for this reason.
    Refused(String),
}

/// The protection of a participant and of its built-in endpoints (ParticipantSecurityAttributes, DDS Security 1.2
/// §9.4.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ParticipantRules {
    /// RTPS messages are protected as a whole.
    pub is_rtps_protected: bool,
    /// The secure endpoints of discovery protect their submessages.
    pub is_discovery_protected: bool,
    /// The secure endpoints of liveliness protect their submessages.
    pub is_liveliness_protected: bool,
}

/// The protection of the endpoints of a topic (EndpointSecurityAttributes, DDS Security 1.2 §9.4.2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TopicRules {
    /// Endpoints are announced to authenticated participants only, by the secure endpoints of discovery.
    pub is_discovery_protected: bool,
    /// The liveliness of writers is asserted by the secure endpoints of liveliness.
    pub is_liveliness_protected: bool,
    /// Readers need permission.
    pub is_read_protected: bool,
    /// Writers need permission.
    pub is_write_protected: bool,
    /// Submessages are protected.
    pub is_submessage_protected: bool,
    /// Serialized payloads are protected.
    pub is_payload_protected: bool,
    /// The attributes that endpoints announce.
    pub info: SecurityInfo,
}

impl TopicRules {
    /// Whether endpoints of participants that are not authenticated may match local ones.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !(self.is_discovery_protected
            || self.is_liveliness_protected
            || self.is_read_protected
            || self.is_write_protected
            || self.is_submessage_protected
            || self.is_payload_protected)
    }

    /// Whether keys are exchanged for a pair of endpoints. Some implementations wait for a key of a reader even if only
    /// payloads are protected.
    pub(super) const fn needs_keys(&self) -> bool {
        self.is_submessage_protected || self.is_payload_protected
    }

    /// Whether a local reader, or else a local writer, cannot do without the key of its peer. A reader protects no
    /// payloads.
    pub(super) const fn waits_for_keys(&self, is_reader: bool) -> bool {
        self.is_submessage_protected || self.is_payload_protected && is_reader
    }
}
