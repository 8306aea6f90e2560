//! Decisions of access control about this participant and its peers.

use peregrine_rtps::id::EntityId;

use super::description::{Domain, EndpointDescription, EndpointSecurity};
use crate::documents::{AccessControl, Denial, DomainRule, Governance, Grant, Grounds, PartitionMatching};
use crate::documents::{Document, SecurityMasks};
use crate::wall_time::WallTime;

/// The rights of this participant in its domain, and those of peers by the same governance.
#[derive(Clone, Debug)]
pub struct Rights {
    governance: Governance,
    /// The rule for the domain.
    rule: DomainRule,
    grant: Grant,
    domain: Domain,
    matching: PartitionMatching,
}

impl Rights {
    /// The rights by a governance and a grant.
    ///
    /// # Errors
    /// The governance has no rule for the domain.
    pub fn new(
        governance: Governance,
        grant: Grant,
        domain: Domain,
        matching: PartitionMatching,
    ) -> Result<Self, Denial> {
        let rule = AccessControl::new(&governance, &grant, domain.id, &domain.tag, matching)
            .map(|access| access.domain_rule());
        let rule = rule?.clone();
        Ok(Self { governance, rule, grant, domain, matching })
    }

    /// The rule of the governance for the domain.
    #[must_use]
    pub const fn domain_rule(&self) -> &DomainRule {
        &self.rule
    }

    /// The domain.
    #[must_use]
    pub const fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The grant of this participant.
    #[must_use]
    pub const fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The value of PID_PARTICIPANT_SECURITY_INFO.
    #[must_use]
    pub fn participant_masks(&self) -> SecurityMasks {
        self.rule.masks()
    }

    /// Whether participants without authentication may take part in what is not protected. If messages are protected,
    /// nothing is unprotected.
    #[must_use]
    pub const fn allow_unauthenticated(&self) -> bool {
        self.rule.allow_unauthenticated_participants && self.rule.messages.is_none()
    }

    /// Whether this participant may be in the domain (check_create_participant of DDS Security 1.2 §10.4.3).
    ///
    /// # Errors
    /// The document and rule that deny it, and what to add.
    pub fn participant(&self, now: WallTime) -> Result<Grounds, Denial> {
        self.access(&self.grant)?.may_join(now)
    }

    /// Whether this participant may use a topic at all (check_create_topic).
    ///
    /// # Errors
    /// The document and rule that deny it, and what to add.
    pub fn topic(&self, topic: &str, now: WallTime) -> Result<Grounds, Denial> {
        self.access(&self.grant)?.may_use_topic(topic, now)
    }

    /// Whether this participant may have an endpoint, and its protection (check_create_datawriter,
    /// check_create_datareader). `endpoint` states whether it is a writer or a reader.
    ///
    /// # Errors
    /// The document and rule that deny it, and what to add.
    pub fn endpoint(
        &self,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        self.endpoint_by(&self.grant, endpoint, description, now)
    }

    /// Whether a peer with this grant may be in the domain (check_remote_participant).
    ///
    /// # Errors
    /// The document and rule that deny it, and what to add.
    pub fn remote_participant(&self, grant: &Grant, now: WallTime) -> Result<Grounds, Denial> {
        self.access(grant)?.may_join(now)
    }

    /// Whether a peer with this grant may have an endpoint, and its protection (check_remote_datawriter,
    /// check_remote_datareader). A reader that may only relay is refused: this implementation has no way to send what
    /// only its payload's readers can open to a reader without those keys.
    ///
    /// # Errors
    /// The document and rule that deny it, and what to add.
    pub fn remote_endpoint(
        &self,
        grant: &Grant,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        self.endpoint_by(grant, endpoint, description, now)
    }

    /// The protection of the endpoints of a topic.
    ///
    /// # Errors
    /// The governance has no rule for the topic.
    pub fn security_of(&self, topic: &str) -> Result<EndpointSecurity, Denial> {
        let rule = self.access(&self.grant)?.topic_rule(topic)?;
        Ok(EndpointSecurity::of(&self.rule, rule))
    }

    fn endpoint_by(
        &self,
        grant: &Grant,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        if !description.is_bounded() {
            return Err(Denial {
                document: Document::Permissions,
                grant: Some(grant.name.clone()),
                rule: None,
                at: None,
                what: "a name of topic, partition or tag is too long, or there are too many".to_owned(),
                remedy: "use shorter names, or fewer".to_owned(),
            });
        }
        let access = self.access(grant)?;
        description.with_request(endpoint, |request| access.may(request, now))?;
        Ok(EndpointSecurity::of(&self.rule, access.topic_rule(&description.topic)?))
    }

    fn access<'a>(&'a self, grant: &'a Grant) -> Result<AccessControl<'a>, Denial> {
        AccessControl::new(&self.governance, grant, self.domain.id, &self.domain.tag, self.matching)
    }
}
