//! The discovery data that a participant has signed in its handshake. It replaces what was announced in its name in
//! clear, which any host could have sent.

use super::drops::Fault;
use super::secure_discovery::without_status;
use super::{AnnouncedParts, Participant, ParticipantEvent};
use crate::discovery::data::ParticipantData;
use crate::id::GuidPrefix;
use crate::time::{Instant, Timestamp};

impl Participant {
    /// A handshake with a participant is complete: what it has signed counts as an announcement of it. Without effect
    /// if that is what is known of it. Malformed signed data is counted, and changes nothing.
    pub(super) fn take_signed_data(&mut self, now: Instant, wall: Timestamp, prefix: GuidPrefix) {
        let Some(octets) = self.config.gate.as_deref().and_then(|gate| gate.signed_data(prefix)) else { return };
        let Some(remote) = self.remotes.get(&prefix) else { return };
        let signed = ParticipantData::parse_from_handshake(&octets, &remote.data);
        let (mut signed, vendor) = match signed {
            Ok((signed, vendor)) if signed.prefix == prefix => (signed, vendor),
            Ok(_) => return self.refuse_signed_data(prefix, Fault::Forged),
            Err(_) => return self.refuse_signed_data(prefix, Fault::DiscoveryMalformed),
        };
        self.place_on_secure_link(&mut signed);
        signed.streams.retain(|locator| self.config.addresses.paths.is_stream(locator));
        without_status(&mut signed.security);
        let is_other_domain = signed.domain.is_some_and(|domain| domain != self.config.domain);
        if is_other_domain || signed.domain_tag != self.config.domain_tag {
            return self.refuse_signed_data(prefix, Fault::ForeignDomain);
        }
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        let Some(security) = remote.security.as_deref_mut() else { return };
        security.signed_vendor = vendor;
        let was_signed = core::mem::replace(&mut security.is_signed, true);
        if remote.data == signed {
            return;
        }
        let parts = AnnouncedParts::that_differ(&remote.data, &signed);
        // The gate reports other protection itself. A participant that is authenticated again may have changed.
        if !was_signed && !parts.without(AnnouncedParts::PROTECTION).is_empty() {
            self.gate_counters.contradicted += 1;
            self.events.push_back(ParticipantEvent::AnnouncementContradicted { participant: prefix, parts });
        }
        self.update_participant(now, wall, signed);
        if let Some(at) = self.remotes.get(&prefix).map(|remote| remote.lease_until()) {
            self.expect_lease_end(at);
        }
    }

    fn refuse_signed_data(&mut self, prefix: GuidPrefix, fault: Fault) {
        if let Some(security) = self.remotes.get_mut(&prefix).and_then(|remote| remote.security.as_deref_mut()) {
            security.forget_signed();
        }
        self.count_fault(prefix, fault);
    }
}
