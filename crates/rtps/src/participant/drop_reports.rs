//! Counting dropped messages and samples.

use alloc::vec::Vec;

use super::Participant;
use super::drops::{Drops, Fault, PeerDrops};
use super::event::ParticipantCounters;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::receiver::DropReason;
use crate::vendor::VendorId;

impl Participant {
    /// The counters so far.
    #[must_use]
    pub fn counters(&self) -> ParticipantCounters {
        let mut drops = self.unknown_drops;
        self.remotes.values().filter_map(|remote| remote.drops.as_ref()).for_each(|of_remote| drops.add(of_remote));
        let channels = self.handshakes.counters();
        let secure_channels = self.keys.as_deref().map_or(channels, |keys| keys.add_counters(channels));
        let Self { messages, not_rtps, healed, unsealed, rejoins, gate_counters, .. } = self;
        let (messages, not_rtps, healed) = (*messages, *not_rtps, *healed);
        let (unsealed, rejoins, gate) = (*unsealed, *rejoins, *gate_counters);
        ParticipantCounters { messages, not_rtps, drops, healed, unsealed, rejoins, secure_channels, gate }
    }

    /// The drops of each participant with any, and first those of all unknown participants.
    #[must_use]
    pub fn drops(&self) -> Vec<PeerDrops> {
        let unknown = PeerDrops { participant: None, vendor: VendorId::UNKNOWN, drops: self.unknown_drops };
        let known = self.remotes.iter().map(|(prefix, remote)| PeerDrops {
            participant: Some(Guid::new(*prefix, EntityId::PARTICIPANT)),
            vendor: remote.data.vendor,
            drops: remote.drops.get().unwrap_or_default(),
        });
        core::iter::once(unknown).chain(known).filter(|peer| peer.drops != Drops::default()).collect()
    }

    /// Counts a message or sample of this participant that is dropped.
    pub(super) fn count_fault(&mut self, prefix: GuidPrefix, fault: Fault) {
        let drops =
            self.remotes.get_mut(&prefix).map_or(&mut self.unknown_drops, |remote| remote.drops.get_or_default());
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
            DropReason::OtherDomain => self.count_fault(from, Fault::OtherDomain),
            DropReason::UnknownPassphrase => self.count_fault(from, Fault::UnknownPassphrase),
            DropReason::TooManySenders => self.count_fault(from, Fault::TooManySenders),
            DropReason::TooManySessions => self.count_fault(from, Fault::TooManySessions),
        }
    }
}
