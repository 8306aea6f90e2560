//! The answers to the questions of discovery.

use peregrine_rtps::discovery::data::{EndpointSecurityData, ParticipantData, PublicationData, SubscriptionData};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::locator::Source;
use peregrine_rtps::participant::{Admission, Gate, LostReason, ParticipantRules, TopicRules};
use peregrine_rtps::qos::Partition;

use super::ParticipantSecurity;
use super::convert::{address_of, description, info_of, masks_of, token_of};
use crate::session::{self, Matched, PeerAnnouncement, RemoteEndpoint};

impl Gate for ParticipantSecurity {
    fn announced(&self, remote: &ParticipantData, source: Option<Source>) -> Admission {
        let security = remote.security.as_deref();
        let identity = token_of(security.and_then(|security| security.identity_token.as_ref()));
        let permissions = token_of(security.and_then(|security| security.permissions_token.as_ref()));
        let announcement = PeerAnnouncement {
            prefix: remote.prefix,
            // A participant without source is known already, and its handshakes have the first source.
            source: address_of(source),
            identity_token: identity.as_ref(),
            permissions_token: permissions.as_ref(),
            masks: security.and_then(|security| security.info).map(masks_of),
        };
        // A full queue of steps, which the session counts: the participant announces itself again.
        self.with(|session, input| session.peer_discovered(input, announcement).is_ok());
        self.admission(remote.prefix)
    }

    fn admission(&self, remote: GuidPrefix) -> Admission {
        match self.session().admission(remote) {
            None | Some(session::Admission::Pending) => Admission::Pending,
            Some(session::Admission::Authenticated) => Admission::Authenticated,
            Some(session::Admission::Unauthenticated) => Admission::Unauthenticated,
            Some(session::Admission::Refused(refusal)) => Admission::Refused(refusal.to_string()),
        }
    }

    fn signed_data(&self, remote: GuidPrefix) -> Option<Vec<u8>> {
        self.session().peer_credential(remote).map(|credential| credential.participant_data().to_vec())
    }

    fn participant(&self) -> ParticipantRules {
        let rule = self.rights.domain_rule();
        ParticipantRules {
            is_rtps_protected: !rule.messages.is_none(),
            is_discovery_protected: !rule.discovery.is_none(),
            is_liveliness_protected: !rule.liveliness.is_none(),
        }
    }

    fn topic(&self, name: &str) -> TopicRules {
        let Ok(security) = self.rights.security_of(name) else {
            // The governance has no rule for the topic, so that no participant may use it.
            let (is_read_protected, is_write_protected) = (true, true);
            return TopicRules { is_read_protected, is_write_protected, ..TopicRules::default() };
        };
        TopicRules {
            is_discovery_protected: security.is_discovery_protected,
            is_liveliness_protected: security.is_liveliness_protected,
            is_read_protected: security.is_read_controlled,
            is_write_protected: security.is_write_controlled,
            is_submessage_protected: !security.levels.submessage.is_none(),
            is_payload_protected: !security.levels.payload.is_none(),
            info: info_of(security.masks),
        }
    }

    fn check_remote_writer(&self, writer: &PublicationData, reader: &SubscriptionData) -> Result<(), String> {
        let of_reader = &reader.security;
        self.check_local(reader.guid.entity, &reader.topic_name, &reader.subscriber.partition, of_reader)?;
        self.check_remote(writer.guid, &writer.topic_name, &writer.publisher.partition, &writer.security)
    }

    fn check_remote_reader(&self, reader: &SubscriptionData, writer: &PublicationData) -> Result<(), String> {
        let of_writer = &writer.security;
        self.check_local(writer.guid.entity, &writer.topic_name, &writer.publisher.partition, of_writer)?;
        self.check_remote(reader.guid, &reader.topic_name, &reader.subscriber.partition, &reader.security)
    }

    fn want_keys(&self, local: EntityId, remote: Guid) -> Result<bool, String> {
        let matched = self.with(|session, input| session.match_endpoints(input, local, remote));
        matched.map(|matched| matched == Matched::Ready).map_err(|fault| fault.to_string())
    }

    fn has_keys(&self, local: EntityId, remote: Guid) -> bool {
        self.session().has_keys(local, remote)
    }

    fn unmatched(&self, local: EntityId, remote: Guid) {
        self.with(|session, input| session.unmatch_endpoints(input, local, remote));
    }

    fn endpoint_lost(&self, remote: Guid) {
        self.with(|session, input| session.remote_endpoint_removed(input, remote));
    }

    fn participant_lost(&self, remote: GuidPrefix, reason: LostReason) {
        // The session remembers why it has refused a participant.
        if reason != LostReason::Refused {
            self.with(|session, input| session.peer_lost(input, remote));
        }
    }
}

impl ParticipantSecurity {
    /// Rights end with the validity of the permissions, and depend on partitions, which change.
    fn check_local(
        &self,
        endpoint: EntityId,
        topic: &str,
        partition: &Partition,
        security: &EndpointSecurityData,
    ) -> Result<(), String> {
        self.check(endpoint, topic, partition, security.data_tags.as_ref()).map_err(|denial| denial.to_string())
    }

    fn check_remote(
        &self,
        guid: Guid,
        topic: &str,
        partition: &Partition,
        security: &EndpointSecurityData,
    ) -> Result<(), String> {
        let remote = RemoteEndpoint {
            guid,
            description: description(topic, partition, security.data_tags.as_ref()),
            masks: security.info.map(masks_of),
            // Discovery has checked that.
            is_announced_securely: true,
        };
        let verdict = self.with(|session, input| session.remote_endpoint_discovered(input, &remote).map(drop));
        verdict.map_err(|fault| fault.to_string())
    }
}
