//! Changes of the addresses of this host, and observed addresses of other hosts.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr, SocketAddrV6};

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
        self.set_links(found, interface_of(source), None);
    }

    /// The same for an announcement that the participant has signed or protected, and that has come in no datagram of
    /// its own. The address of the latest datagram with such a message is on the link of that datagram, whatever was
    /// announced in clear; other addresses that are not known are taken to be there too.
    pub(super) fn place_on_secure_link(&self, found: &mut ParticipantData) {
        let security = self.remotes.get(&found.prefix).and_then(|remote| remote.security.as_deref());
        let latest = security.and_then(|security| security.link_local_source);
        let latest = latest.filter(|latest| self.config.addresses.paths.uses_interface(latest.scope_id()));
        self.set_links(found, latest.map_or(0, |latest| latest.scope_id()), latest);
    }

    /// The link of `certain` precedes known links, and these precede `interface`.
    fn set_links(&self, found: &mut ParticipantData, interface: u32, certain: Option<SocketAddrV6>) {
        let known = self.remotes.get(&found.prefix).map(|r| &r.data);
        let known = known.map(|d| [&d.metatraffic_unicast, &d.default_unicast]);
        for (place, locators) in [&mut found.metatraffic_unicast, &mut found.default_unicast].into_iter().enumerate() {
            let before = known.and_then(|lists| lists.get(place).copied());
            for locator in locators.iter_mut().filter(|l| l.is_link_local_v6()) {
                let same = before.and_then(|list| list.iter().find(|l| Locator { scope: 0, ..**l } == *locator));
                let kept = same.map(|l| l.scope).filter(|scope| self.config.addresses.paths.uses_interface(*scope));
                let ip = locator.to_socket_addr().map(|address| address.ip());
                let of_certain = certain.filter(|certain| ip == Some(IpAddr::V6(*certain.ip())));
                locator.scope = of_certain.map(|certain| certain.scope_id()).or(kept).unwrap_or(interface);
            }
        }
    }

    /// A message of the handshake, or a secure announcement, has come from a participant.
    pub(super) fn note_secure_source(&mut self, prefix: GuidPrefix, source: Source) {
        if let Source::Datagram(SocketAddr::V6(v6)) = source
            && v6.scope_id() != 0
            && let Some(security) = self.remotes.get_mut(&prefix).and_then(|remote| remote.security.as_deref_mut())
        {
            security.link_local_source = Some(v6);
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
