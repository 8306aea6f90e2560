//! Plug-ins of the application, whose panics end here: they run under the lock of their participant. A call that panics
//! counts as a refusal.

use std::net::IpAddr;
use std::sync::Arc;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{Protection, ProtectionKind};
use peregrine_rtps::time::{Instant, Span};
use peregrine_security::WallTime;
use peregrine_security::authentication::{
    Event, Input, Job, JobDone, PeerCredential, Statistics, Transmit, Trust, Usage,
};
use peregrine_security::crypto::{ExchangeRole, KeyMaterial, PreSharedKeys, RefusedKeys};
use peregrine_security::documents::{Denial, Document, DomainRule, SecurityMasks};
use peregrine_security::message::DataHolder;
use peregrine_security::session::{
    AccessControl, Authentication, Cryptographic, EndpointDescription, EndpointSecurity, PeerRefusal, Plugins,
};

use crate::driver::base::user_code::run_under_lock;

/// How long the timers of an authentication wait after one of them has panicked.
const PAUSE_AFTER_PANIC: Span = Span::from_secs(1);

/// The same plug-ins, called by [`run_under_lock`].
pub(super) fn guard(plugins: &Plugins) -> Plugins {
    let (access_control, authentication, cryptographic) = (plugins.clone(), plugins.clone(), plugins.clone());
    Plugins::new()
        .identity_token(plugins.announced_identity().clone())
        .access_control(move |builtin| {
            let plugin = access_control.make_access_control(builtin);
            let domain_rule = plugin.domain_rule().clone();
            Arc::new(GuardedAccessControl { plugin, domain_rule })
        })
        .authentication(move |builtin| {
            let plugin = authentication.make_authentication(builtin);
            Box::new(GuardedAuthentication { plugin, no_timer_before: None })
        })
        .cryptographic(move |builtin| {
            Box::new(GuardedCryptographic { plugin: cryptographic.make_cryptographic(builtin) })
        })
}

#[derive(Debug)]
struct GuardedAccessControl {
    plugin: Arc<dyn AccessControl>,
    /// Fixed for the lifetime of the participant.
    domain_rule: DomainRule,
}

#[derive(Debug)]
struct GuardedAuthentication {
    plugin: Box<dyn Authentication>,
    /// After a panic of a timer, which may have left its time in the past.
    no_timer_before: Option<Instant>,
}

#[derive(Debug)]
struct GuardedCryptographic {
    plugin: Box<dyn Cryptographic>,
}

fn ask<R>(call: impl FnOnce() -> R, otherwise: impl FnOnce() -> R) -> R {
    run_under_lock("a plug-in for access control has panicked", call, otherwise)
}

fn authenticate<R>(call: impl FnOnce() -> R, otherwise: R) -> R {
    run_under_lock("a plug-in for authentication has panicked", call, || otherwise)
}

fn encrypt<R>(call: impl FnOnce() -> R, otherwise: R) -> R {
    run_under_lock("a plug-in for cryptography has panicked", call, || otherwise)
}

fn denial() -> Denial {
    Denial {
        document: Document::Permissions,
        grant: None,
        rule: None,
        at: None,
        what: "the access control of the application has panicked".to_owned(),
        remedy: "correct the plug-in; the log has the text of its panic".to_owned(),
    }
}

impl AccessControl for GuardedAccessControl {
    fn domain_rule(&self) -> &DomainRule {
        &self.domain_rule
    }

    fn participant_masks(&self) -> SecurityMasks {
        ask(|| self.plugin.participant_masks(), || self.domain_rule.masks())
    }

    fn allow_unauthenticated(&self) -> bool {
        ask(|| self.plugin.allow_unauthenticated(), || false)
    }

    fn security_of(&self, topic: &str) -> Result<EndpointSecurity, Denial> {
        ask(|| self.plugin.security_of(topic), || Err(denial()))
    }

    fn endpoint(
        &self,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        ask(|| self.plugin.endpoint(endpoint, description, now), || Err(denial()))
    }

    fn remote_participant(&self, peer: &PeerCredential, now: WallTime) -> Result<(), PeerRefusal> {
        ask(|| self.plugin.remote_participant(peer, now), || Err(PeerRefusal::Denied(denial())))
    }

    fn remote_endpoint(
        &self,
        peer: &PeerCredential,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        ask(|| self.plugin.remote_endpoint(peer, endpoint, description, now), || Err(denial()))
    }
}

impl Authentication for GuardedAuthentication {
    fn handle_announcement(
        &mut self,
        input: &mut Input<'_>,
        peer: GuidPrefix,
        source: IpAddr,
        identity_token: Option<&DataHolder>,
    ) {
        authenticate(|| self.plugin.handle_announcement(input, peer, source, identity_token), ());
    }

    fn handle_message(&mut self, input: &mut Input<'_>, source: IpAddr, sender: GuidPrefix, octets: &[u8]) {
        authenticate(|| self.plugin.handle_message(input, source, sender, octets), ());
    }

    fn handle_authentic(&mut self, peer: GuidPrefix) {
        authenticate(|| self.plugin.handle_authentic(peer), ());
    }

    fn remove_participant(&mut self, peer: GuidPrefix) {
        authenticate(|| self.plugin.remove_participant(peer), ());
    }

    fn set_participant_data(&mut self, participant_data: Vec<u8>) {
        authenticate(|| self.plugin.set_participant_data(participant_data), ());
    }

    fn set_trust(&mut self, input: &mut Input<'_>, trust: Trust) {
        authenticate(|| self.plugin.set_trust(input, trust), ());
    }

    fn authenticate_again(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        authenticate(|| self.plugin.authenticate_again(input, peer), ());
    }

    fn message_held_back(&mut self, input: &mut Input<'_>, peer: GuidPrefix, bytes: usize) {
        authenticate(|| self.plugin.message_held_back(input, peer, bytes), ());
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        authenticate(|| self.plugin.poll_transmit(), None)
    }

    fn poll_event(&mut self) -> Option<Event> {
        authenticate(|| self.plugin.poll_event(), None)
    }

    fn poll_job(&mut self, input: &mut Input<'_>) -> Option<Job> {
        authenticate(|| self.plugin.poll_job(input), None)
    }

    fn handle_job_done(&mut self, input: &mut Input<'_>, done: JobDone) {
        authenticate(|| self.plugin.handle_job_done(input, done), ());
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let next = authenticate(|| self.plugin.poll_timeout(), None)?;
        Some(self.no_timer_before.map_or(next, |earliest| next.max(earliest)))
    }

    fn handle_timeout(&mut self, input: &mut Input<'_>) {
        let now = input.now;
        let is_done = authenticate(
            || {
                self.plugin.handle_timeout(input);
                true
            },
            false,
        );
        self.no_timer_before = (!is_done).then_some(now + PAUSE_AFTER_PANIC);
    }

    fn statistics(&self) -> Statistics {
        authenticate(|| self.plugin.statistics(), Statistics::default())
    }

    fn usage(&self) -> Usage {
        authenticate(|| self.plugin.usage(), Usage::default())
    }

    fn is_half_open(&self, peer: GuidPrefix) -> bool {
        authenticate(|| self.plugin.is_half_open(peer), false)
    }

    fn oldest_idle(&self) -> Option<GuidPrefix> {
        authenticate(|| self.plugin.oldest_idle(), None)
    }
}

impl Cryptographic for GuardedCryptographic {
    /// Called during the creation of the participant, whose caller gets a panic.
    fn protection(&self) -> Arc<dyn Protection> {
        self.plugin.protection()
    }

    fn register_participant(&mut self, messages: ProtectionKind, random: &mut dyn FnMut(&mut [u8])) {
        self.plugin.register_participant(messages, random);
    }

    /// Without these keys the participant would send in clear: called during its creation, whose caller gets a panic.
    fn set_pre_shared(&mut self, keys: Arc<PreSharedKeys>) {
        self.plugin.set_pre_shared(keys);
    }

    fn register_endpoint(
        &mut self,
        endpoint: EntityId,
        submessage: ProtectionKind,
        payload: ProtectionKind,
        random: &mut dyn FnMut(&mut [u8]),
    ) {
        encrypt(|| self.plugin.register_endpoint(endpoint, submessage, payload, random), ());
    }

    fn unregister_endpoint(&mut self, endpoint: EntityId) {
        encrypt(|| self.plugin.unregister_endpoint(endpoint), ());
    }

    fn set_exchange_key(
        &mut self,
        peer: GuidPrefix,
        key: &KeyMaterial,
        role: ExchangeRole,
        random: &mut dyn FnMut(&mut [u8]),
    ) {
        encrypt(|| self.plugin.set_exchange_key(peer, key, role, random), ());
    }

    fn forget_participant(&mut self, peer: GuidPrefix) {
        encrypt(|| self.plugin.forget_participant(peer), ());
    }

    fn match_remote(
        &mut self,
        local: EntityId,
        remote: Guid,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Vec<Vec<KeyMaterial>> {
        encrypt(|| self.plugin.match_remote(local, remote, random), Vec::new())
    }

    fn unmatch_remote(&mut self, local: EntityId, remote: Guid) {
        encrypt(|| self.plugin.unmatch_remote(local, remote), ());
    }

    fn set_remote_keys(&mut self, local: EntityId, remote: Guid, keys: &[KeyMaterial]) -> Result<(), RefusedKeys> {
        encrypt(|| self.plugin.set_remote_keys(local, remote, keys), Err(RefusedKeys::NotRegistered))
    }

    fn remote_key_ids(&self, remote: Guid) -> &[[u8; 4]] {
        encrypt(|| self.plugin.remote_key_ids(remote), &[])
    }

    fn retire_remote_key(&mut self, remote: Guid, key_id: [u8; 4]) {
        encrypt(|| self.plugin.retire_remote_key(remote, key_id), ());
    }

    fn drop_idle_sessions(&mut self) -> usize {
        encrypt(|| self.plugin.drop_idle_sessions(), 0)
    }

    fn renew(&mut self, local: EntityId, random: &mut dyn FnMut(&mut [u8])) -> Vec<(Guid, Vec<KeyMaterial>)> {
        encrypt(|| self.plugin.renew(local, random), Vec::new())
    }

    fn renewed_keys(&self, local: EntityId, remote: Guid) -> Option<Vec<KeyMaterial>> {
        encrypt(|| self.plugin.renewed_keys(local, remote), None)
    }

    fn activate(&mut self, local: EntityId, random: &mut dyn FnMut(&mut [u8])) {
        encrypt(|| self.plugin.activate(local, random), ());
    }

    fn blocks_sealed(&self, sender: EntityId) -> u64 {
        encrypt(|| self.plugin.blocks_sealed(sender), 0)
    }
}
