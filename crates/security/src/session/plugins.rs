//! Plug-ins of applications: what a session asks of authentication, access control and cryptography.
//!
//! The built-in plug-ins implement the same traits, and a [`Session`](super::Session) uses each only through its trait.
//! All calls are made by one thread at a time and do not wait: times, random bytes and messages are inputs.
//!
//! `peregrine` calls the plug-ins of a participant under the lock of this participant, from any thread. A call must not
//! call an entity (a participant, a reader, a writer): it would wait for itself. Debug builds panic at the attempt. A
//! panic of a call is caught, logged and counted (`user_code_panics`), and the call counts as a refusal: access is
//! denied, a message of a handshake is lost, keys are not taken. Only panics during the creation of the participant,
//! and those of the [`Protection`], pass on to the caller.

use core::fmt;
use core::net::IpAddr;
use std::sync::Arc;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{Protection, ProtectionKind};
use peregrine_rtps::time::Instant;

use super::description::{EndpointDescription, EndpointSecurity};
use super::refusal::PeerRefusal;
use super::rights::Rights;
use crate::authentication::{
    Authenticator, Event, Input, Job, JobDone, PeerCredential, Statistics, Transmit, Trust, Usage,
};
use crate::crypto::{ExchangeRole, KeyFactory, KeyMaterial, PreSharedKeys, RefusedKeys};
use crate::documents::{Denial, Document, DomainRule, SecurityMasks};
use crate::message::{DataHolder, identity_token};
use crate::wall_time::WallTime;

/// The mutual authentication of participants (Authentication of DDS Security 1.2 §9.3). The built-in one is
/// [`Authenticator`].
pub trait Authentication: fmt::Debug + Send {
    /// A participant was announced, for the first time or again. `source` is the address of the datagram,
    /// `identity_token` the token of a participant that also announces permissions.
    fn handle_announcement(
        &mut self,
        input: &mut Input<'_>,
        peer: GuidPrefix,
        source: IpAddr,
        identity_token: Option<&DataHolder>,
    );

    /// A message of a handshake arrived from this address, in the name of this participant: a ParticipantGenericMessage
    /// with its encapsulation.
    fn handle_message(&mut self, input: &mut Input<'_>, source: IpAddr, sender: GuidPrefix, octets: &[u8]);

    /// A message of the participant was opened with the keys of its latest handshake.
    fn handle_authentic(&mut self, peer: GuidPrefix);

    /// The participant is gone.
    fn remove_participant(&mut self, peer: GuidPrefix);

    /// The announcement of this participant has changed: what handshakes that begin from now on contain, in place of
    /// [`LocalParticipant::participant_data`](crate::authentication::LocalParticipant::participant_data). Without an
    /// implementation they contain the former one, and peers learn the present one afterwards.
    fn set_participant_data(&mut self, participant_data: Vec<u8>) {
        let _ = participant_data;
    }

    /// Authorities and revocations have changed: authenticated participants are examined again.
    fn set_trust(&mut self, input: &mut Input<'_>, trust: Trust);

    /// Begins a new handshake with an authenticated participant, if this side is the one to begin.
    fn authenticate_again(&mut self, input: &mut Input<'_>, peer: GuidPrefix);

    /// A message of this length for the participant was not sent: the participant, which is not authenticated, has sent
    /// too little to get it. It is to be sent again later. Without an implementation, the message counts as lost.
    fn message_held_back(&mut self, input: &mut Input<'_>, peer: GuidPrefix, bytes: usize) {
        let _ = (input, peer, bytes);
    }

    /// The next message of a handshake to send.
    fn poll_transmit(&mut self) -> Option<Transmit>;

    /// The next result. A participant is authenticated after [`Event::Authenticated`], and has to be again after
    /// [`Event::Expelled`].
    fn poll_event(&mut self) -> Option<Event>;

    /// The next computation that takes long, made by [`Job::of_plugin`]. The caller runs it on another thread, in the
    /// order of these calls with those of other participants, and asks for no more than
    /// [`SessionConfig::jobs`](super::SessionConfig::jobs) at a time.
    fn poll_job(&mut self, input: &mut Input<'_>) -> Option<Job>;

    /// A computation is done, or has failed. Called once for each job.
    fn handle_job_done(&mut self, input: &mut Input<'_>, done: JobDone);

    /// When to call [`Self::handle_timeout`].
    fn poll_timeout(&self) -> Option<Instant>;

    /// Time has passed.
    fn handle_timeout(&mut self, input: &mut Input<'_>);

    /// Counters since the beginning.
    fn statistics(&self) -> Statistics;

    /// Numbers that are in use.
    fn usage(&self) -> Usage;

    /// Whether a handshake with a participant that is not authenticated is under way.
    fn is_half_open(&self, peer: GuidPrefix) -> bool;

    /// The participant that has been without a handshake for longest, and is not authenticated. The session forgets it
    /// when there is no room for another one.
    fn oldest_idle(&self) -> Option<GuidPrefix>;
}

/// The rights of participants and endpoints, and the protection of topics (AccessControl of DDS Security 1.2 §9.4). The
/// built-in one is [`Rights`]. Discovery asks while it changes, so that all calls are look-ups.
pub trait AccessControl: fmt::Debug + Send + Sync {
    /// The protection of the participant, its built-in endpoints and its messages. Fixed for its lifetime.
    fn domain_rule(&self) -> &DomainRule;

    /// The value of PID_PARTICIPANT_SECURITY_INFO.
    fn participant_masks(&self) -> SecurityMasks {
        self.domain_rule().masks()
    }

    /// Whether participants without authentication may take part in what is not protected.
    fn allow_unauthenticated(&self) -> bool;

    /// The protection of the endpoints of a topic. Fixed for the lifetime of the participant.
    ///
    /// # Errors
    /// The topic may not be used.
    fn security_of(&self, topic: &str) -> Result<EndpointSecurity, Denial>;

    /// Whether this participant may have an endpoint, and its protection. `endpoint` states whether it is a writer or a
    /// reader. The protection of a topic is that of [`Self::security_of`].
    ///
    /// # Errors
    /// The rule that denies it, and a change that would permit it.
    fn endpoint(
        &self,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial>;

    /// Whether an authenticated peer may be in the domain.
    ///
    /// # Errors
    /// Why not.
    fn remote_participant(&self, peer: &PeerCredential, now: WallTime) -> Result<(), PeerRefusal>;

    /// Whether an authenticated peer may have an endpoint, and its protection.
    ///
    /// # Errors
    /// The rule that denies it, and a change that would permit it.
    fn remote_endpoint(
        &self,
        peer: &PeerCredential,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial>;
}

/// The keys of the participant and of its peers (CryptoKeyFactory and CryptoKeyExchange of DDS Security 1.2 §9.5.1.8,
/// §9.5.1.9), and the transformations with them. The built-in ones are [`KeyFactory`].
pub trait Cryptographic: fmt::Debug + Send {
    /// The transformations with these keys (CryptoTransform of DDS Security 1.2 §9.5.1.10). Called once, after the
    /// built-in endpoints are registered. Threads that send and receive use the result without the plug-in, which
    /// changes its keys meanwhile. The protection of endpoints that are never registered is that of
    /// [`unregistered_levels`](crate::crypto::secure_entity::unregistered_levels).
    fn protection(&self) -> Arc<dyn Protection>;

    /// Creates the keys of this participant, whose messages are protected in this way. The first call, and made once.
    /// Later calls state the participant as [`EntityId::PARTICIPANT`]. Without an implementation, the keys are those
    /// that were made with the plug-in.
    fn register_participant(&mut self, messages: ProtectionKind, random: &mut dyn FnMut(&mut [u8])) {
        let _ = (messages, random);
    }

    /// Protects messages that no key of a participant protects with these keys, from the beginning on. Called before
    /// the first message, if the governance requires it. The [`Protection`] passes `pre_shared`, `seal_pre_shared` and
    /// `open_pre_shared` on to the keys, which implement them.
    fn set_pre_shared(&mut self, keys: Arc<PreSharedKeys>);

    /// Creates the keys of a local endpoint whose submessages and payloads are protected in this way.
    fn register_endpoint(
        &mut self,
        endpoint: EntityId,
        submessage: ProtectionKind,
        payload: ProtectionKind,
        random: &mut dyn FnMut(&mut [u8]),
    );

    /// Ends the use of a local endpoint's keys.
    fn unregister_endpoint(&mut self, endpoint: EntityId);

    /// Sets the key for the exchange of keys with a peer, the result of the handshake.
    fn set_exchange_key(
        &mut self,
        peer: GuidPrefix,
        key: &KeyMaterial,
        role: ExchangeRole,
        random: &mut dyn FnMut(&mut [u8]),
    );

    /// Drops all keys shared with a participant and its endpoints.
    fn forget_participant(&mut self, peer: GuidPrefix);

    /// The keys of a local entity for a matched remote one: one list for each message that is sent to the peer.
    fn match_remote(
        &mut self,
        local: EntityId,
        remote: Guid,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Vec<Vec<KeyMaterial>>;

    /// Ends the sharing of keys between a local and a remote entity.
    fn unmatch_remote(&mut self, local: EntityId, remote: Guid);

    /// Takes the keys that a remote entity sent for a local one. A repeated call adds keys.
    ///
    /// # Errors
    /// Why the keys are refused. None of them is used.
    fn set_remote_keys(&mut self, local: EntityId, remote: Guid, keys: &[KeyMaterial]) -> Result<(), RefusedKeys>;

    /// The numbers of the keys that a remote entity gave to this participant, the oldest first.
    fn remote_key_ids(&self, remote: Guid) -> &[[u8; 4]];

    /// Drops one key of a remote entity.
    fn retire_remote_key(&mut self, remote: Guid, key_id: [u8; 4]);

    /// Gives back memory of remote keys that have not been used for some calls, and returns their number. Called every
    /// [`IDLE_SESSIONS_INTERVAL`](crate::limits::IDLE_SESSIONS_INTERVAL).
    fn drop_idle_sessions(&mut self) -> usize {
        0
    }

    /// Creates new keys of a local participant or endpoint, not in use before [`Self::activate`]. Returns what is sent
    /// to each matched remote entity.
    fn renew(&mut self, local: EntityId, random: &mut dyn FnMut(&mut [u8])) -> Vec<(Guid, Vec<KeyMaterial>)>;

    /// The keys of the last [`Self::renew`] for a matched remote entity. `None` if there are none, or if they are in
    /// use already.
    fn renewed_keys(&self, local: EntityId, remote: Guid) -> Option<Vec<KeyMaterial>>;

    /// Seals with the keys of the last [`Self::renew`] from now on.
    fn activate(&mut self, local: EntityId, random: &mut dyn FnMut(&mut [u8]));

    /// The AES blocks that a local sender has sealed with its current key.
    fn blocks_sealed(&self, sender: EntityId) -> u64;
}

/// Makes an access control from the built-in one.
pub type MakeAccessControl = dyn Fn(Rights) -> Arc<dyn AccessControl> + Send + Sync;
/// Makes an authentication from the built-in one.
pub type MakeAuthentication = dyn Fn(Authenticator) -> Box<dyn Authentication> + Send + Sync;
/// Makes a cryptography from the built-in one.
pub type MakeCryptographic = dyn Fn(KeyFactory) -> Box<dyn Cryptographic> + Send + Sync;

/// The plug-ins of a session. Each is made from the built-in one, which it may use for what it does not decide itself,
/// or drop. By default, all are the built-in ones.
#[derive(Clone)]
pub struct Plugins {
    access_control: Arc<MakeAccessControl>,
    authentication: Arc<MakeAuthentication>,
    cryptographic: Arc<MakeCryptographic>,
    identity_token: DataHolder,
}

impl Plugins {
    /// The built-in plug-ins.
    #[must_use]
    pub fn new() -> Self {
        Self {
            access_control: Arc::new(|builtin| Arc::new(builtin)),
            authentication: Arc::new(|builtin| Box::new(builtin)),
            cryptographic: Arc::new(|builtin| Box::new(builtin)),
            identity_token: identity_token(),
        }
    }

    /// Replaces access control.
    #[must_use]
    pub fn access_control(mut self, make: impl Fn(Rights) -> Arc<dyn AccessControl> + Send + Sync + 'static) -> Self {
        self.access_control = Arc::new(make);
        self
    }

    /// Replaces authentication.
    #[must_use]
    pub fn authentication(
        mut self,
        make: impl Fn(Authenticator) -> Box<dyn Authentication> + Send + Sync + 'static,
    ) -> Self {
        self.authentication = Arc::new(make);
        self
    }

    /// Announces this token in place of that of the built-in authentication. Participants with another authentication
    /// see in it that they cannot authenticate this one, and refuse it at once. [`Authentication::handle_announcement`]
    /// gets the tokens of others.
    #[must_use]
    pub fn identity_token(mut self, token: DataHolder) -> Self {
        self.identity_token = token;
        self
    }

    /// Replaces cryptography.
    #[must_use]
    pub fn cryptographic(
        mut self,
        make: impl Fn(KeyFactory) -> Box<dyn Cryptographic> + Send + Sync + 'static,
    ) -> Self {
        self.cryptographic = Arc::new(make);
        self
    }

    /// The access control of a participant with these rights.
    #[must_use]
    pub fn make_access_control(&self, builtin: Rights) -> Arc<dyn AccessControl> {
        (self.access_control)(builtin)
    }

    /// The identity token that the participant announces.
    #[must_use]
    pub const fn announced_identity(&self) -> &DataHolder {
        &self.identity_token
    }

    /// The authentication of a participant.
    #[must_use]
    pub fn make_authentication(&self, builtin: Authenticator) -> Box<dyn Authentication> {
        (self.authentication)(builtin)
    }

    /// The cryptography of a participant.
    #[must_use]
    pub fn make_cryptographic(&self, builtin: KeyFactory) -> Box<dyn Cryptographic> {
        (self.cryptographic)(builtin)
    }
}

impl Default for Plugins {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plugins")
    }
}

impl AccessControl for Rights {
    fn domain_rule(&self) -> &DomainRule {
        self.domain_rule()
    }

    fn allow_unauthenticated(&self) -> bool {
        self.allow_unauthenticated()
    }

    fn security_of(&self, topic: &str) -> Result<EndpointSecurity, Denial> {
        self.security_of(topic)
    }

    fn endpoint(
        &self,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        self.endpoint(endpoint, description, now)
    }

    fn remote_participant(&self, peer: &PeerCredential, now: WallTime) -> Result<(), PeerRefusal> {
        let grant = peer.grant().ok_or(PeerRefusal::NoPermissions)?;
        self.remote_participant(grant, now).map(drop).map_err(PeerRefusal::Denied)
    }

    fn remote_endpoint(
        &self,
        peer: &PeerCredential,
        endpoint: EntityId,
        description: &EndpointDescription,
        now: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        let grant = peer.grant().ok_or_else(|| Denial {
            document: Document::Permissions,
            grant: None,
            rule: None,
            at: None,
            what: "the peer has shown no permissions".to_owned(),
            remedy: "give the peer a permissions document".to_owned(),
        })?;
        self.remote_endpoint(grant, endpoint, description, now)
    }
}

impl Authentication for Authenticator {
    fn handle_announcement(
        &mut self,
        input: &mut Input<'_>,
        peer: GuidPrefix,
        source: IpAddr,
        identity_token: Option<&DataHolder>,
    ) {
        self.handle_announcement(input, peer, source, identity_token);
    }

    fn handle_message(&mut self, input: &mut Input<'_>, source: IpAddr, sender: GuidPrefix, octets: &[u8]) {
        self.handle_message(input, source, sender, octets);
    }

    fn handle_authentic(&mut self, peer: GuidPrefix) {
        self.handle_authentic(peer);
    }

    fn message_held_back(&mut self, input: &mut Input<'_>, peer: GuidPrefix, bytes: usize) {
        self.message_held_back(input, peer, bytes);
    }

    fn remove_participant(&mut self, peer: GuidPrefix) {
        self.remove_participant(peer);
    }

    fn set_participant_data(&mut self, participant_data: Vec<u8>) {
        self.set_participant_data(participant_data);
    }

    fn set_trust(&mut self, input: &mut Input<'_>, trust: Trust) {
        self.set_trust(input, trust);
    }

    fn authenticate_again(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        self.authenticate_again(input, peer);
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.poll_transmit()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.poll_event()
    }

    fn poll_job(&mut self, input: &mut Input<'_>) -> Option<Job> {
        self.poll_job(input)
    }

    fn handle_job_done(&mut self, input: &mut Input<'_>, done: JobDone) {
        self.handle_job_done(input, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.poll_timeout()
    }

    fn handle_timeout(&mut self, input: &mut Input<'_>) {
        self.handle_timeout(input);
    }

    fn statistics(&self) -> Statistics {
        self.statistics()
    }

    fn usage(&self) -> Usage {
        self.usage()
    }

    fn is_half_open(&self, peer: GuidPrefix) -> bool {
        self.is_half_open(peer)
    }

    fn oldest_idle(&self) -> Option<GuidPrefix> {
        self.oldest_idle()
    }
}

impl Cryptographic for KeyFactory {
    fn protection(&self) -> Arc<dyn Protection> {
        self.cryptography()
    }

    fn set_pre_shared(&mut self, keys: Arc<PreSharedKeys>) {
        self.cryptography().set_pre_shared(keys);
    }

    fn register_endpoint(
        &mut self,
        endpoint: EntityId,
        submessage: ProtectionKind,
        payload: ProtectionKind,
        random: &mut dyn FnMut(&mut [u8]),
    ) {
        self.register_endpoint(endpoint, submessage, payload, random);
    }

    fn unregister_endpoint(&mut self, endpoint: EntityId) {
        self.unregister_endpoint(endpoint);
    }

    fn set_exchange_key(
        &mut self,
        peer: GuidPrefix,
        key: &KeyMaterial,
        role: ExchangeRole,
        random: &mut dyn FnMut(&mut [u8]),
    ) {
        self.set_exchange_key(peer, key, role, random);
    }

    fn forget_participant(&mut self, peer: GuidPrefix) {
        self.forget_participant(peer);
    }

    fn match_remote(
        &mut self,
        local: EntityId,
        remote: Guid,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Vec<Vec<KeyMaterial>> {
        self.match_remote(local, remote, random)
    }

    fn unmatch_remote(&mut self, local: EntityId, remote: Guid) {
        self.unmatch_remote(local, remote);
    }

    fn set_remote_keys(&mut self, local: EntityId, remote: Guid, keys: &[KeyMaterial]) -> Result<(), RefusedKeys> {
        self.set_remote_keys(local, remote, keys)
    }

    fn remote_key_ids(&self, remote: Guid) -> &[[u8; 4]] {
        self.remote_key_ids(remote)
    }

    fn retire_remote_key(&mut self, remote: Guid, key_id: [u8; 4]) {
        self.retire_remote_key(remote, key_id);
    }

    fn drop_idle_sessions(&mut self) -> usize {
        self.drop_idle_sessions()
    }

    fn renew(&mut self, local: EntityId, random: &mut dyn FnMut(&mut [u8])) -> Vec<(Guid, Vec<KeyMaterial>)> {
        self.renew(local, random)
    }

    fn renewed_keys(&self, local: EntityId, remote: Guid) -> Option<Vec<KeyMaterial>> {
        self.renewed_keys(local, remote)
    }

    fn activate(&mut self, local: EntityId, random: &mut dyn FnMut(&mut [u8])) {
        self.activate(local, random);
    }

    fn blocks_sealed(&self, sender: EntityId) -> u64 {
        self.cryptography().blocks_sealed(sender)
    }
}
