//! What is not looked at, not believed or not answered: by reason, and by the participant it came from.

use alloc::vec::Vec;

use crate::id::{EntityId, Guid, GuidPrefix};
use crate::receiver::DropReason;
use crate::vendor::VendorId;

use super::{Participant, ParticipantCounters};

/// How often something of one participant was dropped, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Drops {
    /// Messages invalid from some submessage on.
    pub malformed: u64,
    /// Messages whose header extension could not be trusted or understood.
    pub header_extension: u64,
    /// Samples whose inline QoS could not be understood.
    pub inline_qos: u64,
    /// Protected messages and submessages that there is no key for.
    pub protected: u64,
    /// Protected messages and submessages that their sender did not make, or not for this participant, or that were changed.
    pub not_authentic: u64,
    /// Submessages for endpoints that demand protection they did not have.
    pub unprotected: u64,
    /// Submessages for endpoints that do not exist.
    pub no_such_endpoint: u64,
    /// Discovery data that could not be understood.
    pub discovery_malformed: u64,
    /// Announcements of participants of another domain or tag.
    pub foreign_domain: u64,
    /// Announcements that claim to be of another participant than their sender.
    pub forged: u64,
    /// Participants and endpoints not taken in for lack of room.
    pub no_room: u64,
    /// Answers held back because the address they would go to is hearsay.
    pub held_back: u64,
}

/// What was dropped of one participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerDrops {
    /// Which; `None` stands for all that are not known, or not any more: whoever sends under an invented identity must not
    /// fill a table.
    pub participant: Option<Guid>,
    /// Who made it; [`VendorId::UNKNOWN`] for those.
    pub vendor: VendorId,
    /// How often, by reason.
    pub drops: Drops,
}

/// Why something was dropped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Malformed,
    HeaderExtension,
    InlineQos,
    Protected,
    NotAuthentic,
    Unprotected,
    NoSuchEndpoint,
    DiscoveryMalformed,
    ForeignDomain,
    Forged,
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
            Fault::Unprotected => &mut self.unprotected,
            Fault::NoSuchEndpoint => &mut self.no_such_endpoint,
            Fault::DiscoveryMalformed => &mut self.discovery_malformed,
            Fault::ForeignDomain => &mut self.foreign_domain,
            Fault::Forged => &mut self.forged,
            Fault::NoRoom => &mut self.no_room,
            Fault::HeldBack => &mut self.held_back,
        }
    }

    /// Counts what was dropped of somebody else as well.
    pub(super) const fn add(&mut self, other: &Self) {
        self.malformed += other.malformed;
        self.header_extension += other.header_extension;
        self.inline_qos += other.inline_qos;
        self.protected += other.protected;
        self.not_authentic += other.not_authentic;
        self.unprotected += other.unprotected;
        self.no_such_endpoint += other.no_such_endpoint;
        self.discovery_malformed += other.discovery_malformed;
        self.foreign_domain += other.foreign_domain;
        self.forged += other.forged;
        self.no_room += other.no_room;
        self.held_back += other.held_back;
    }
}

impl Participant {
    /// What was dropped so far, and why.
    #[must_use]
    pub fn counters(&self) -> ParticipantCounters {
        let mut drops = self.unknown_drops;
        self.remotes.values().for_each(|remote| drops.add(&remote.drops));
        ParticipantCounters { messages: self.messages, not_rtps: self.not_rtps, drops }
    }

    /// The same by participant: those of which anything was dropped, first all that are not known.
    #[must_use]
    pub fn drops(&self) -> Vec<PeerDrops> {
        let unknown = PeerDrops { participant: None, vendor: VendorId::UNKNOWN, drops: self.unknown_drops };
        let known = self.remotes.iter().map(|(prefix, remote)| PeerDrops {
            participant: Some(Guid::new(*prefix, EntityId::PARTICIPANT)),
            vendor: remote.data.vendor,
            drops: remote.drops,
        });
        core::iter::once(unknown).chain(known).filter(|peer| peer.drops != Drops::default()).collect()
    }

    /// Something of this participant is dropped.
    pub(super) fn count_fault(&mut self, prefix: GuidPrefix, fault: Fault) {
        let drops = self.remotes.get_mut(&prefix).map_or(&mut self.unknown_drops, |remote| &mut remote.drops);
        *drops.of(fault) += 1;
    }

    pub(super) fn count_dropped(&mut self, from: GuidPrefix, reason: DropReason) {
        match reason {
            DropReason::Header(_) => self.not_rtps += 1,
            DropReason::Malformed => self.count_fault(from, Fault::Malformed),
            DropReason::HeaderExtension => self.count_fault(from, Fault::HeaderExtension),
            DropReason::InlineQos => self.count_fault(from, Fault::InlineQos),
            DropReason::Protected => self.count_fault(from, Fault::Protected),
            DropReason::NotAuthentic => self.count_fault(from, Fault::NotAuthentic),
        }
    }
}
