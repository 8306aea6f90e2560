//! An access control that asks the documents about the endpoints of its own participant only on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use peregrine::EntityId;
use peregrine::security::plugins::Plugins;
use peregrine::security::plugins::access_control::{
    AccessControl, Denial, DomainRule, EndpointDescription, EndpointSecurity, PeerCredential, PeerRefusal, Rights,
    WallTime,
};

#[derive(Debug)]
struct Lenient {
    builtin: Rights,
    is_strict: Arc<AtomicBool>,
}

/// Plug-ins by which a participant makes endpoints that its permissions deny, as an attacker would, until the result is
/// set.
pub(crate) fn lenient() -> (Plugins, Arc<AtomicBool>) {
    let is_strict = Arc::<AtomicBool>::default();
    let flag = Arc::clone(&is_strict);
    let make = move |builtin| -> Arc<dyn AccessControl> { Arc::new(Lenient { builtin, is_strict: Arc::clone(&flag) }) };
    (Plugins::new().access_control(make), is_strict)
}

impl AccessControl for Lenient {
    fn endpoint(
        &self,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        if self.is_strict.load(Ordering::Relaxed) {
            return self.builtin.endpoint(endpoint, description, now);
        }
        self.builtin.security_of(&description.topic)
    }

    fn domain_rule(&self) -> &DomainRule {
        self.builtin.domain_rule()
    }

    fn allow_unauthenticated(&self) -> bool {
        self.builtin.allow_unauthenticated()
    }

    fn security_of(&self, topic: &str) -> Result<EndpointSecurity, Denial> {
        self.builtin.security_of(topic)
    }

    fn remote_participant(&self, peer: &PeerCredential, now: WallTime) -> Result<(), PeerRefusal> {
        AccessControl::remote_participant(&self.builtin, peer, now)
    }

    fn remote_endpoint(
        &self,
        peer: &PeerCredential,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        AccessControl::remote_endpoint(&self.builtin, peer, endpoint, description, now)
    }
}
