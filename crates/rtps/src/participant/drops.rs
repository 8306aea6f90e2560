//! Messages and samples that are dropped, rejected or not answered, by reason and by participant.

use crate::id::Guid;
use crate::vendor::VendorId;

/// The drops of one participant, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    /// Messages with a malformed submessage, which invalidates the rest of the message.
    pub malformed: u64,
    /// Messages whose header extension is wrong or not understood.
    pub header_extension: u64,
    /// Samples whose inline QoS is malformed or not understood.
    pub inline_qos: u64,
    /// Protected messages and submessages without a matching key.
    pub protected: u64,
    /// Protected messages and submessages that were not made by their sender for this participant, or were changed.
    pub not_authentic: u64,
    /// Messages protected with the pre-shared key of another domain.
    pub other_domain: u64,
    /// Messages protected with a pre-shared key whose passphrase is not known.
    pub unknown_passphrase: u64,
    /// Messages of unknown senders with a pre-shared key, beyond the number of such senders in a time.
    pub too_many_senders: u64,
    /// Protected messages and submessages in a new session of their key, beyond the number of such sessions in a time.
    pub too_many_sessions: u64,
    /// Submessages without the protection that their endpoint requires, and, with a pre-shared key, messages that are
    /// not protected as a whole.
    pub unprotected: u64,
    /// Submessages for endpoints that do not exist.
    pub no_such_endpoint: u64,
    /// Malformed discovery data.
    pub discovery_malformed: u64,
    /// Announcements of participants of another domain or domain tag.
    pub foreign_domain: u64,
    /// Announcements in the name of a participant other than their sender.
    pub forged: u64,
    /// Announcements of participants that arrived behind a later one of the same participant, or behind its goodbye.
    pub outdated: u64,
    /// Announcements without protection that contradict an authenticated participant.
    pub unauthenticated: u64,
    /// Participants and endpoints not stored for lack of room.
    pub no_room: u64,
    /// Answers not sent because their destination is unverified.
    pub held_back: u64,
}

/// The drops of one participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerDrops {
    /// The participant. `None` stands for all unknown ones, including removed ones: a peer that invents identities must
    /// not fill a table.
    pub participant: Option<Guid>,
    /// Its vendor; [`VendorId::UNKNOWN`] without a participant.
    pub vendor: VendorId,
    /// The drops by reason.
    pub drops: Drops,
}

/// Why a message or sample was dropped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Malformed,
    HeaderExtension,
    InlineQos,
    Protected,
    NotAuthentic,
    OtherDomain,
    UnknownPassphrase,
    TooManySenders,
    TooManySessions,
    Unprotected,
    NoSuchEndpoint,
    DiscoveryMalformed,
    ForeignDomain,
    Forged,
    Outdated,
    Unauthenticated,
    NoRoom,
    HeldBack,
}

impl Drops {
    pub(super) const fn of(&mut self, fault: Fault) -> &mut u64 {
        match fault {
            Fault::Malformed => &mut self.malformed,
            Fault::HeaderExtension => &mut self.header_extension,
            Fault::InlineQos => &mut self.inline_qos,
            Fault::Protected => &mut self.protected,
            Fault::NotAuthentic => &mut self.not_authentic,
            Fault::OtherDomain => &mut self.other_domain,
            Fault::UnknownPassphrase => &mut self.unknown_passphrase,
            Fault::TooManySenders => &mut self.too_many_senders,
            Fault::TooManySessions => &mut self.too_many_sessions,
            Fault::Unprotected => &mut self.unprotected,
            Fault::NoSuchEndpoint => &mut self.no_such_endpoint,
            Fault::DiscoveryMalformed => &mut self.discovery_malformed,
            Fault::ForeignDomain => &mut self.foreign_domain,
            Fault::Forged => &mut self.forged,
            Fault::Outdated => &mut self.outdated,
            Fault::Unauthenticated => &mut self.unauthenticated,
            Fault::NoRoom => &mut self.no_room,
            Fault::HeldBack => &mut self.held_back,
        }
    }

    /// Adds the drops of another participant.
    pub(super) const fn add(&mut self, other: &Self) {
        self.malformed += other.malformed;
        self.header_extension += other.header_extension;
        self.inline_qos += other.inline_qos;
        self.protected += other.protected;
        self.not_authentic += other.not_authentic;
        self.other_domain += other.other_domain;
        self.unknown_passphrase += other.unknown_passphrase;
        self.too_many_senders += other.too_many_senders;
        self.too_many_sessions += other.too_many_sessions;
        self.unprotected += other.unprotected;
        self.no_such_endpoint += other.no_such_endpoint;
        self.discovery_malformed += other.discovery_malformed;
        self.foreign_domain += other.foreign_domain;
        self.forged += other.forged;
        self.outdated += other.outdated;
        self.unauthenticated += other.unauthenticated;
        self.no_room += other.no_room;
        self.held_back += other.held_back;
    }
}
