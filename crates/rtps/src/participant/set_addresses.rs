//! Changes of the addresses of this host, and observed addresses of other hosts.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::Participant;
use super::addresses::Addresses;
use crate::discovery::data::{BuiltinEndpointSet, ParticipantData};
use crate::id::{EntityId, GuidPrefix};
use crate::locator::{Locator, Source};
use crate::time::{Instant, Timestamp};

impl Participant {
    /// Handles a change of this host's addresses: announces the new ones to all known participants immediately, and
    /// chooses the best path to each again.
    pub fn set_addresses(&mut self, now: Instant, wall: Timestamp, addresses: Addresses) {
        let before = core::mem::replace(&mut self.config.addresses, addresses);
        self.has_changed_handshake_data = true;
        let prefixes: Vec<GuidPrefix> = self.remotes.keys().copied().collect();
        for prefix in prefixes {
            self.reroute(now, prefix);
        }
        let writers: Vec<EntityId> = self.writers.keys().copied().collect();
        let readers: Vec<EntityId> = self.readers.keys().copied().collect();
        writers.into_iter().for_each(|writer| self.match_local_writer(writer));
        readers.into_iter().for_each(|reader| self.match_local_reader(reader));
        self.announce_afresh(now, wall);
        self.announce_moved_readers(now, wall);
        self.find_peers_left_behind(now, &before);
    }

    /// Chooses the best path for discovery to a participant again. The current path stays when there is no other.
    pub(super) fn reroute(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        remote.choose_way(&self.config.addresses.paths);
        if let Some(keys) = &mut self.keys {
            keys.reach(now, prefix, &remote.metatraffic, remote.data.vendor);
        }
        if remote.is_trusted() {
            let (to, vendor) = (Arc::clone(&remote.metatraffic), remote.data.vendor);
            let set = self.usable_builtin_endpoints(prefix);
            let budget = self.address_budgets.get_mut().of(&to);
            self.builtin.match_participant(now, prefix, set, &to, vendor, &budget);
            if set != BuiltinEndpointSet::NONE {
                self.unpark(prefix);
            }
        }
    }

    /// Records the source of a participant's message: addresses of that host in its announcements are then verified.
    /// Returns whether that changed anything.
    pub(super) fn record_source_address(&mut self, now: Instant, prefix: GuidPrefix, source: Source) -> bool {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return false };
        if !remote.show(source) || !remote.names(source, &self.config.addresses.paths) {
            return false;
        }
        remote.relocation.resume(now);
        self.unreached.remove(&prefix);
        self.reroute(now, prefix);
        self.rematch_participant(prefix);
        self.heal_later(prefix);
        true
    }

    /// Sets the links of the link-local addresses of an announcement: the link on which it arrived. A known link stays
    /// while this participant uses its interface, because two hosts may share several links.
    pub(super) fn place_on_link(&self, source: Source, found: &mut ParticipantData) {
        let interface = interface_of(source);
        let known = self.remotes.get(&found.prefix).map(|r| &r.data);
        let known = known.map(|d| [&d.metatraffic_unicast, &d.default_unicast]);
        for (place, locators) in [&mut found.metatraffic_unicast, &mut found.default_unicast].into_iter().enumerate() {
            let before = known.and_then(|lists| lists.get(place).copied());
            for locator in locators.iter_mut().filter(|l| l.is_link_local_v6()) {
                let same = before.and_then(|list| list.iter().find(|l| Locator { scope: 0, ..**l } == *locator));
                let kept = same.map(|l| l.scope).filter(|scope| self.config.addresses.paths.uses_interface(*scope));
                locator.scope = kept.unwrap_or(interface);
            }
        }
    }
}

/// The interface of the sender's link, if its address contains it.
const fn interface_of(source: Source) -> u32 {
    match source {
        Source::Datagram(SocketAddr::V6(v6)) => v6.scope_id(),
        Source::Datagram(SocketAddr::V4(_)) | Source::Stream(_) => 0,
    }
}
