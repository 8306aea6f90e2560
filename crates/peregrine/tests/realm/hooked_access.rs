//! An access control that calls hooks before the built-in one decides.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use peregrine::EntityId;
use peregrine::security::plugins::Plugins;
use peregrine::security::plugins::access_control::{
    AccessControl, Denial, DomainRule, EndpointDescription, EndpointSecurity, PeerCredential, PeerRefusal, Rights,
    WallTime,
};

pub(crate) trait Hooks: Debug + Send + Sync + 'static {
    /// Called for an endpoint of the own participant. A result replaces that of the built-in access control.
    fn on_endpoint(&self, builtin: &Rights, topic: &str) -> Option<Result<EndpointSecurity, Denial>>;

    /// Called for an endpoint of a peer.
    fn on_remote_endpoint(&self, topic: &str) {
        _ = topic;
    }
}

/// Plug-ins with these hooks.
pub(crate) fn hooked(hooks: Arc<impl Hooks>) -> Plugins {
    let make = move |builtin| -> Arc<dyn AccessControl> { Arc::new(Hooked { builtin, hooks: Arc::clone(&hooks) }) };
    Plugins::new().access_control(make)
}

/// Plug-ins by which a participant makes endpoints that its permissions deny, as an attacker would, until the result is
/// set.
pub(crate) fn lenient() -> (Plugins, Arc<AtomicBool>) {
    let is_strict = Arc::<AtomicBool>::default();
    (hooked(Arc::new(Lenient { is_strict: Arc::clone(&is_strict) })), is_strict)
}

#[derive(Debug)]
struct Lenient {
    is_strict: Arc<AtomicBool>,
}

impl Hooks for Lenient {
    fn on_endpoint(&self, builtin: &Rights, topic: &str) -> Option<Result<EndpointSecurity, Denial>> {
        (!self.is_strict.load(Ordering::Relaxed)).then(|| builtin.security_of(topic))
    }
}

#[derive(Debug)]
struct Hooked<H> {
    builtin: Rights,
    hooks: Arc<H>,
}

impl<H: Hooks> AccessControl for Hooked<H> {
    fn domain_rule(&self) -> &DomainRule {
        self.builtin.domain_rule()
    }

    fn allow_unauthenticated(&self) -> bool {
        self.builtin.allow_unauthenticated()
    }

    fn security_of(&self, topic: &str) -> Result<EndpointSecurity, Denial> {
        self.builtin.security_of(topic)
    }

    fn endpoint(
        &self,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        let replaced = self.hooks.on_endpoint(&self.builtin, &description.topic);
        replaced.unwrap_or_else(|| AccessControl::endpoint(&self.builtin, endpoint, description, now))
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
        self.hooks.on_remote_endpoint(&description.topic);
        AccessControl::remote_endpoint(&self.builtin, peer, endpoint, description, now)
    }
}
