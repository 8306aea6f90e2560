//! Peers of a session: how they come, are authenticated, and leave.

use core::net::IpAddr;

use peregrine_rtps::id::GuidPrefix;
use peregrine_rtps::participant::AnnouncedParts;
use peregrine_rtps::wire::{Endianness, ParameterId, ParameterList};

use super::config::StepsWaiting;
use super::parameters::{conflict, parse_masks};
use super::peer::{BUILTIN_PAIRS, Match, PairKey, Peer};
use super::refusal::PeerRefusal;
use super::state::Session;
use super::step::{Admission, RenewalCause, SecurityEvent, Step};
use crate::authentication::{
    AuthenticatedPeer, Event, Expulsion, Failure, Input, PeerCredential, Refusal, states_guid,
};
use crate::documents::SecurityMasks;
use crate::identity::{RevocationList, TrustAnchors};
use crate::limits::{AUTHENTICATION_EVENTS, TOKEN_RESEND_FIRST};
use crate::message::{DataHolder, is_permissions_token};

/// An announcement of a participant by SPDP. Nothing in it is signed.
#[derive(Clone, Copy, Debug)]
pub struct PeerAnnouncement<'a> {
    /// The GUID prefix of the participant.
    pub prefix: GuidPrefix,
    /// The address of the datagram.
    pub source: IpAddr,
    /// The value of PID_IDENTITY_TOKEN.
    pub identity_token: Option<&'a DataHolder>,
    /// The value of PID_PERMISSIONS_TOKEN.
    pub permissions_token: Option<&'a DataHolder>,
    /// The value of PID_PARTICIPANT_SECURITY_INFO.
    pub masks: Option<SecurityMasks>,
}

impl Session {
    /// SPDP received an announcement of a participant, for the first time or again.
    ///
    /// # Errors
    /// Too many steps wait. The announcement has no effect.
    pub fn peer_discovered(&mut self, input: &mut Input<'_>, from: PeerAnnouncement<'_>) -> Result<(), StepsWaiting> {
        self.take()?;
        self.set_clock(input);
        let peer = from.prefix;
        if peer == self.prefix {
            return Ok(());
        }
        if !self.peers.contains_key(&peer) {
            if self.peers.len() >= self.peers_max() && !self.drop_idle() {
                self.statistics.peers_refused = self.statistics.peers_refused.saturating_add(1);
                // The peer is unknown, so that only its first announcements cause steps: discovery bounds its peers.
                self.push(Step::Admit { peer, admission: Admission::Refused(PeerRefusal::NoRoom) });
                return Ok(());
            }
            self.peers.insert(peer, Peer::new());
            self.push(Step::Admit { peer, admission: Admission::Pending });
        }
        if let Some(known) = self.peers.get_mut(&peer).filter(|known| !known.is_authenticated()) {
            known.announced = from.masks;
        }
        // Without permissions there is no authentication either: the handshake would fail.
        let has_permissions = from.permissions_token.is_some_and(is_permissions_token);
        let identity = from.identity_token.filter(|_| has_permissions);
        self.authenticator.handle_announcement(input, peer, from.source, identity);
        self.process_authentication(input);
        // Discovery has forgotten a refused participant. The messages of a new handshake need it.
        let is_refused = |known: &Peer| matches!(known.admission, Admission::Refused(_));
        if self.peers.get(&peer).is_some_and(is_refused) && self.authenticator.is_half_open(peer) {
            self.admit(peer, Admission::Pending);
        }
        Ok(())
    }

    /// Forgets the peer that has been without a handshake for longest: refused ones stay known only while there is
    /// room. Returns whether there was one.
    fn drop_idle(&mut self) -> bool {
        let Some(peer) = self.authenticator.oldest_idle() else { return false };
        self.authenticator.remove_participant(peer);
        self.withdraw(peer);
        self.peers.remove(&peer).is_some()
    }

    /// Discovery knows a participant no longer: it left, or its lease expired. Its keys are dropped, and those that it
    /// has are renewed if [`SessionConfig::renew_after_departure`](super::SessionConfig::renew_after_departure) is set.
    pub fn peer_lost(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        self.set_clock(input);
        let shared = self.senders_known_to(peer);
        self.authenticator.remove_participant(peer);
        self.withdraw(peer);
        self.peers.remove(&peer);
        self.process_authentication(input);
        if self.config.renew_after_departure {
            self.want_renewal(shared, RenewalCause::Departure);
            self.serve_renewal(input);
        }
    }

    /// The reader of stateless messages received a sample. `sender` is the GUID prefix of the RTPS message, `source`
    /// the address of the datagram, `payload` the sample with its encapsulation.
    ///
    /// # Errors
    /// Too many steps wait. The message is dropped; the peer repeats it.
    pub fn stateless_message_received(
        &mut self,
        input: &mut Input<'_>,
        source: IpAddr,
        sender: GuidPrefix,
        payload: &[u8],
    ) -> Result<(), StepsWaiting> {
        self.take()?;
        self.set_clock(input);
        self.authenticator.handle_message(input, source, sender, payload);
        self.process_authentication(input);
        Ok(())
    }

    /// A stateless message of this length for a peer was not sent, since the peer has sent too little to get it. It is
    /// sent again later.
    pub fn stateless_message_held_back(&mut self, input: &mut Input<'_>, peer: GuidPrefix, bytes: usize) {
        self.set_clock(input);
        self.authenticator.message_held_back(input, peer, bytes);
    }

    /// A message of an authenticated peer was opened with its keys, at any level: the peer is alive, and has the keys
    /// of the latest handshake.
    pub fn authentic_message_received(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        self.set_clock(input);
        if self.peers.get(&peer).is_some_and(Peer::is_authenticated) {
            self.authenticator.handle_authentic(peer);
        }
    }

    /// Begins a new handshake with an authenticated peer, for example because this participant lost its keys. Without
    /// effect if the peer is the one to begin.
    pub fn authenticate_again(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        self.set_clock(input);
        self.authenticator.authenticate_again(input, peer);
        self.process_authentication(input);
    }

    /// The announcement of this participant has changed: handshakes that begin from now on contain `participant_data`,
    /// as in [`Self::new`]. One that does not fit into a message has no effect.
    pub fn set_participant_data(&mut self, participant_data: Vec<u8>) {
        self.authenticator.set_participant_data(participant_data);
    }

    /// The authorities of certificates, without their revocations.
    #[must_use]
    pub fn identity_authorities(&self) -> TrustAnchors {
        let TrustAnchors { authorities, intermediates, .. } = &self.trust.identities;
        TrustAnchors { authorities: authorities.clone(), intermediates: intermediates.clone(), revocations: Vec::new() }
    }

    /// Replaces the revocation lists. The certificates of all authenticated peers are verified again, by jobs.
    pub fn set_revocations(&mut self, input: &mut Input<'_>, revocations: Vec<RevocationList>) {
        self.set_clock(input);
        self.trust.identities.revocations = revocations;
        let trust = self.trust.clone();
        self.authenticator.set_trust(input, trust);
        self.process_authentication(input);
    }

    /// Makes steps of what authentication reports.
    pub(super) fn process_authentication(&mut self, input: &mut Input<'_>) {
        // The last message of a handshake goes before the first one with keys.
        self.take_transmits();
        for _ in 0..AUTHENTICATION_EVENTS {
            let Some(event) = self.authenticator.poll_event() else { return };
            match event {
                Event::Authenticated(peer) => self.authenticated(input, *peer),
                Event::Refused { peer, refusal } => self.report(SecurityEvent::MessageRefused { peer, refusal }),
                Event::Failed { peer, failure, unauthenticated_allowed } => {
                    self.failed(peer, failure, unauthenticated_allowed);
                }
                Event::Expelled { peer, cause } => self.expelled(peer, cause),
            }
        }
    }

    fn authenticated(&mut self, input: &mut Input<'_>, authenticated: AuthenticatedPeer) {
        let AuthenticatedPeer { peer, role, exchange_key, credential, replaces } = authenticated;
        let Some(known) = self.peers.get(&peer) else { return };
        // A plug-in may have forgotten that it has authenticated the peer.
        let replaces = replaces || known.is_authenticated();
        if replaces {
            self.withdraw(peer);
        }
        let signed = signed_parameters(&credential);
        let verdict = self.verdict(input, peer, &credential, signed.masks);
        let Some(state) = self.peers.get_mut(&peer) else { return };
        let is_contradicted = state.announced.is_some() && state.announced != signed.masks;
        state.announced = signed.masks;
        state.credential = Some(credential.clone());
        if is_contradicted {
            self.report(SecurityEvent::AnnouncementContradicted { peer, parts: AnnouncedParts::PROTECTION });
        }
        if let Err(refusal) = verdict {
            return self.refuse_peer(peer, refusal);
        }
        self.keys.set_exchange_key(peer, &exchange_key, role, input.random);
        self.push(Step::OpenKeyChannel { peer, anew: replaces });
        self.admit(peer, Admission::Authenticated);
        let subject = credential.certificate().subject().to_string();
        let valid_until = credential.valid_until();
        self.report(SecurityEvent::Authenticated { peer, subject, again: replaces, valid_until });
        self.match_builtins(peer, signed.builtin_endpoints);
    }

    /// Whether an authenticated peer is admitted.
    fn verdict(
        &self,
        input: &Input<'_>,
        peer: GuidPrefix,
        credential: &PeerCredential,
        remote: Option<SecurityMasks>,
    ) -> Result<(), PeerRefusal> {
        if !states_guid(credential.participant_data(), peer) {
            return Err(PeerRefusal::NotAuthenticated(Failure::Refused(Refusal::ParticipantData)));
        }
        let local = self.rights.participant_masks();
        if let Some(remote) = remote.filter(|_| conflict(local, remote)) {
            return Err(PeerRefusal::Protection { local, remote });
        }
        self.rights.remote_participant(credential, input.wall)
    }

    fn failed(&mut self, peer: GuidPrefix, failure: Failure, unauthenticated_allowed: bool) {
        // The built-in authentication reports no failure of an authenticated peer, and a plug-in may.
        if self.peers.get(&peer).is_some_and(Peer::is_authenticated) {
            self.withdraw(peer);
        }
        if unauthenticated_allowed && self.rights.allow_unauthenticated() {
            if self.admit(peer, Admission::Unauthenticated) {
                self.report(SecurityEvent::Unauthenticated { peer, cause: failure });
            }
        } else {
            self.refuse_peer(peer, PeerRefusal::NotAuthenticated(failure));
        }
    }

    fn expelled(&mut self, peer: GuidPrefix, cause: Expulsion) {
        let shared = self.senders_known_to(peer);
        let grant_until =
            self.peer_credential(peer).and_then(|credential| Some(credential.grant()?.validity.not_after));
        self.withdraw(peer);
        let event = match &cause {
            Expulsion::Refused(refusal) => SecurityEvent::Revoked { peer, refusal: refusal.clone() },
            Expulsion::Expired(until) if grant_until == Some(*until) => {
                SecurityEvent::PermissionsExpired { peer, until: *until }
            }
            Expulsion::Expired(until) => SecurityEvent::Expired { peer, until: *until },
        };
        self.report(event);
        self.admit(peer, Admission::Refused(PeerRefusal::Expelled(cause)));
        if self.config.renew_after_expulsion {
            self.want_renewal(shared, RenewalCause::Expulsion);
        }
    }

    fn refuse_peer(&mut self, peer: GuidPrefix, refusal: PeerRefusal) {
        if self.admit(peer, Admission::Refused(refusal.clone())) {
            self.report(SecurityEvent::Refused { peer, refusal });
        }
    }

    /// Sets the decision about a peer. Returns whether the peer is known.
    fn admit(&mut self, peer: GuidPrefix, admission: Admission) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else { return false };
        state.admission = admission.clone();
        self.push(Step::Admit { peer, admission });
        true
    }

    /// Drops all keys that are shared with a peer, and what is known of its endpoints.
    fn withdraw(&mut self, peer: GuidPrefix) {
        let Some(state) = self.peers.get_mut(&peer) else { return };
        state.clear();
        state.credential = None;
        self.keys.forget_participant(peer);
        self.retirement.forget(peer);
        self.pairs.retain(|pair| pair.peer != peer);
        self.questions.retain(|(_, pair)| pair.peer != peer);
    }

    /// Begins the exchange of the keys of both participants, and of their protected built-in endpoints.
    fn match_builtins(&mut self, peer: GuidPrefix, builtin_endpoints: u32) {
        let is_protected = !self.rights.domain_rule().messages.is_none();
        // Peers expect a key of the participant even if it protects nothing.
        self.add_match(PairKey::participants(peer), Match::new(is_protected, true, TOKEN_RESEND_FIRST));
        for (bit, local, remote) in BUILTIN_PAIRS {
            if builtin_endpoints & 1 << bit == 0 {
                continue;
            }
            let levels = self.locals.get(&local).map(|local| local.security.levels).unwrap_or_default();
            let is_protected = !levels.submessage.is_none();
            self.add_match(PairKey { peer, local, remote }, Match::new(is_protected, is_protected, TOKEN_RESEND_FIRST));
        }
    }
}

/// Parameters of discovery data that a peer signed.
struct SignedParameters {
    masks: Option<SecurityMasks>,
    builtin_endpoints: u32,
}

fn signed_parameters(credential: &PeerCredential) -> SignedParameters {
    let list = ParameterList::parse_to_end(credential.participant_data(), Endianness::Big);
    let find = |id| list.as_ref().ok().and_then(|list| list.find(id));
    let word = |value: &[u8]| value.first_chunk().copied().map(u32::from_be_bytes);
    SignedParameters {
        masks: find(ParameterId::PARTICIPANT_SECURITY_INFO).and_then(|value| parse_masks(value, Endianness::Big)),
        builtin_endpoints: find(ParameterId::BUILTIN_ENDPOINT_SET).and_then(word).unwrap_or(0),
    }
}
