//! A participant whose host changes its addresses, or that sees those of other hosts.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::Participant;
use super::addresses::Addresses;
use crate::discovery::data::ParticipantData;
use crate::id::{EntityId, GuidPrefix};
use crate::locator::{Locator, Source};
use crate::time::{Instant, Timestamp};

impl Participant {
    /// The addresses of this host have changed: announces the new ones at once, to all known participants, and looks
    /// for the best path to each anew.
    pub fn set_addresses(&mut self, now: Instant, wall: Timestamp, addresses: Addresses) {
        self.config.addresses = addresses;
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
    }

    /// Looks for the best way for discovery to reach a participant anew. An old way is kept when there is none.
    pub(super) fn reroute(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        remote.choose_way(&self.config.addresses.paths);
        if remote.is_verified && remote.is_reachable {
            let set = remote.builtin_endpoints();
            let (to, vendor) = (Arc::clone(&remote.metatraffic), remote.data.vendor);
            self.builtin.match_participant(now, prefix, set, &to, vendor);
            self.unpark(prefix);
        }
    }

    /// Something came from a participant: addresses that it names of the sending host are its own, not those of another
    /// one. Says whether anything follows from that.
    pub(super) fn record_source_address(&mut self, now: Instant, prefix: GuidPrefix, source: Source) -> bool {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return false };
        if !remote.show(source) || !remote.names(source, &self.config.addresses.paths) {
            return false;
        }
        self.unreached.remove(&prefix);
        self.reroute(now, prefix);
        self.rematch_participant(prefix);
        true
    }

    /// Notes on which link the link-local addresses of an announcement are: the one it came by. One that was known
    /// before stays where it was while that link is in use, because two hosts may share several.
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

/// The interface whose link the sender is on, when its address tells.
const fn interface_of(source: Source) -> u32 {
    match source {
        Source::Datagram(SocketAddr::V6(v6)) => v6.scope_id(),
        Source::Datagram(SocketAddr::V4(_)) | Source::Stream(_) => 0,
    }
}
