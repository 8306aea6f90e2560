//! Endpoints of a session, and their matches.

use peregrine_rtps::id::{EntityId, Guid};

use super::description::{EndpointDescription, EndpointSecurity, RemoteEndpoint};
use super::parameters::conflict;
use super::peer::{Match, PairKey, Peer};
use super::refusal::NonMatch;
use super::state::{LocalEndpoint, Matched, Session, UnusableEndpoint};
use super::step::Admission;
use crate::authentication::Input;
use crate::limits::{ENDPOINTS_PER_PEER, LOCAL_ENDPOINTS, MATCHES_PER_PEER, TOKEN_RESEND_DROPPED, TOKEN_RESEND_FIRST};

impl Session {
    /// Makes a local endpoint of the user: checks the rights, and creates its keys.
    ///
    /// # Errors
    /// The documents deny the endpoint: the document and rule, and what to add.
    pub fn endpoint_made(
        &mut self,
        input: &mut Input<'_>,
        endpoint: EntityId,
        description: EndpointDescription,
    ) -> Result<EndpointSecurity, UnusableEndpoint> {
        self.set_clock(input);
        let is_endpoint = endpoint.is_writer() || endpoint.is_reader();
        if !is_endpoint || endpoint.is_builtin() || self.locals.contains_key(&endpoint) {
            return Err(UnusableEndpoint::Entity(endpoint));
        }
        if self.locals.len() >= LOCAL_ENDPOINTS {
            return Err(UnusableEndpoint::NoRoom);
        }
        let security = self.rights.endpoint(endpoint, &description, input.wall).map_err(UnusableEndpoint::Denied)?;
        self.keys.register_endpoint(endpoint, security.levels.submessage, security.levels.payload, input.random);
        self.locals.insert(endpoint, LocalEndpoint { description: Some(description), security });
        Ok(security)
    }

    /// A local endpoint of the user has other partitions or tags. Its later matches are judged by these.
    ///
    /// # Errors
    /// The documents deny the endpoint, which matches no other endpoints until the next change.
    pub fn endpoint_changed(
        &mut self,
        input: &mut Input<'_>,
        endpoint: EntityId,
        description: EndpointDescription,
    ) -> Result<EndpointSecurity, UnusableEndpoint> {
        self.set_clock(input);
        let verdict = self.rights.endpoint(endpoint, &description, input.wall);
        let known = self.locals.get_mut(&endpoint).filter(|local| local.description.is_some());
        let known = known.ok_or(UnusableEndpoint::Entity(endpoint))?;
        known.description = Some(description);
        verdict.map_err(UnusableEndpoint::Denied)
    }

    /// Removes a local endpoint of the user, with its keys and matches.
    pub fn endpoint_removed(&mut self, input: &mut Input<'_>, endpoint: EntityId) {
        self.set_clock(input);
        if self.locals.get(&endpoint).is_none_or(|local| local.description.is_none()) {
            return;
        }
        self.locals.remove(&endpoint);
        self.keys.unregister_endpoint(endpoint);
        self.renewal_wanted.remove(&endpoint);
        for peer in self.peers.values_mut() {
            peer.early.remove(|local, _| local == endpoint);
            peer.matches.retain(|(local, _), _| *local != endpoint);
        }
        self.pairs.retain(|pair| pair.local != endpoint);
        self.questions.retain(|(_, pair)| pair.local != endpoint);
    }

    /// Discovery received an endpoint of a peer, for the first time or again: its rights are checked by the permissions
    /// that the peer has shown in the handshake.
    ///
    /// # Errors
    /// The endpoint matches no local one. The reason names document and rule.
    pub fn remote_endpoint_discovered(
        &mut self,
        input: &mut Input<'_>,
        endpoint: &RemoteEndpoint,
    ) -> Result<EndpointSecurity, NonMatch> {
        self.set_clock(input);
        let Guid { prefix, entity } = endpoint.guid;
        let verdict = match self.peers.get(&prefix) {
            Some(peer) => self.judge(input, peer, endpoint),
            None => Err(NonMatch::NotAdmitted(endpoint.guid)),
        };
        if verdict.is_err() {
            // The endpoint may have been accepted with other partitions or tags before.
            self.forget_remote(endpoint.guid);
        } else if let Some(peer) = self.peers.get_mut(&prefix) {
            if peer.endpoints.len() >= ENDPOINTS_PER_PEER && !peer.endpoints.contains_key(&entity) {
                return Err(NonMatch::NoRoom);
            }
            peer.endpoints.insert(entity, endpoint.description.topic.clone());
        }
        verdict
    }

    /// Discovery knows an endpoint of a peer no longer. Its keys and matches are dropped.
    pub fn remote_endpoint_removed(&mut self, input: &mut Input<'_>, endpoint: Guid) {
        self.set_clock(input);
        self.forget_remote(endpoint);
        if let Some(peer) = self.peers.get_mut(&endpoint.prefix) {
            peer.early.remove(|_, remote| remote == endpoint.entity);
        }
    }

    /// Two endpoints match as far as topic and QoS decide: the exchange of their keys begins. A repeated call has no
    /// effect but its result.
    ///
    /// # Errors
    /// The endpoints do not match as far as security decides.
    pub fn match_endpoints(
        &mut self,
        input: &mut Input<'_>,
        local: EntityId,
        remote: Guid,
    ) -> Result<Matched, NonMatch> {
        self.set_clock(input);
        let pair = PairKey { peer: remote.prefix, local, remote: remote.entity };
        let Some(peer) = self.peers.get(&pair.peer).filter(|peer| peer.admission.is_admitted()) else {
            return Err(NonMatch::NotAdmitted(remote));
        };
        let known = self.locals.get(&local).ok_or(NonMatch::UnknownLocal(local))?;
        let description = known.description.as_ref().ok_or(NonMatch::UnknownLocal(local))?;
        let topic = peer.endpoints.get(&pair.remote).ok_or(NonMatch::UnknownRemote(remote))?;
        if local.is_writer() == pair.remote.is_writer() {
            return Err(NonMatch::SameKind(local, pair.remote));
        }
        if *topic != description.topic {
            return Err(NonMatch::Topics { local: description.topic.clone(), remote: topic.clone() });
        }
        self.rights
            .endpoint(local, description, input.wall)
            .map_err(|denial| NonMatch::LocalDenied(Box::new(denial)))?;
        if let Some(known) = peer.matches.get(&(local, pair.remote)) {
            let is_ready = known.is_ready;
            if self.change(pair, Match::resume) == Some(true) {
                self.enqueue(pair);
            }
            return Ok(if is_ready { Matched::Ready } else { Matched::AwaitsKeys });
        }
        if !peer.is_authenticated() {
            return Ok(Matched::Ready);
        }
        if peer.matches.len() >= MATCHES_PER_PEER {
            return Err(NonMatch::NoRoom);
        }
        let levels = known.security.levels;
        let [has_frames, has_payloads] = [levels.submessage, levels.payload].map(|kind| !kind.is_none());
        let gives = has_frames || has_payloads;
        // A reader signs nothing with its key if only payloads are protected, so that some peers send none.
        let needs = has_frames || (has_payloads && local.is_reader());
        let ask_after = if peer.early.dropped { TOKEN_RESEND_DROPPED } else { TOKEN_RESEND_FIRST };
        self.add_match(pair, Match::new(needs, gives, ask_after));
        self.take_early(input, pair);
        let is_ready = !gives && self.participant_keys_ready(pair.peer);
        if !is_ready {
            return Ok(Matched::AwaitsKeys);
        }
        if let Some(pair) = self.peers.get_mut(&pair.peer).and_then(|peer| peer.matches.get_mut(&(local, pair.remote)))
        {
            pair.is_ready = true;
        }
        Ok(Matched::Ready)
    }

    /// Two endpoints match no longer, for example because their QoS has changed. Their keys are kept until one of them
    /// is gone, and not renewed: the peer may not notice that the match ended, and would not send its keys again.
    pub fn unmatch_endpoints(&mut self, input: &mut Input<'_>, local: EntityId, remote: Guid) {
        self.set_clock(input);
        let pair = PairKey { peer: remote.prefix, local, remote: remote.entity };
        let is_user = self.locals.get(&local).is_some_and(|local| local.description.is_some());
        if is_user {
            self.change(pair, Match::suspend);
        }
    }

    /// Whether a local and a remote entity have exchanged the keys that they need: the participants, their protected
    /// built-in endpoints, or endpoints that match now. A look-up.
    #[must_use]
    pub fn has_keys(&self, local: EntityId, remote: Guid) -> bool {
        let pair = self.peers.get(&remote.prefix).and_then(|peer| peer.matches.get(&(local, remote.entity)));
        pair.is_some_and(Match::has_keys)
    }

    fn judge(
        &self,
        input: &Input<'_>,
        peer: &Peer,
        RemoteEndpoint { guid, description, masks, is_announced_securely }: &RemoteEndpoint,
    ) -> Result<EndpointSecurity, NonMatch> {
        let topic = || description.topic.clone();
        let of_topic =
            || self.rights.security_of(&description.topic).map_err(|denial| NonMatch::LocalDenied(Box::new(denial)));
        let security = match (&peer.admission, &peer.credential) {
            (Admission::Authenticated, Some(credential)) => {
                let subject = || credential.certificate().subject().to_string();
                let verdict = self.rights.remote_endpoint(credential, guid.entity, description, input.wall);
                verdict.map_err(|denial| NonMatch::RemoteDenied { subject: subject(), denial: Box::new(denial) })?
            }
            (Admission::Unauthenticated, _) => {
                let security = of_topic()?;
                let open = security.open_to_all(guid.entity);
                open.map_err(|element| NonMatch::Unauthenticated { topic: topic(), element })?;
                security
            }
            _ => return Err(NonMatch::NotAdmitted(*guid)),
        };
        if let Some(remote) = masks.filter(|_| conflict(security.masks, *masks)) {
            return Err(NonMatch::Protection { topic: topic(), local: security.masks, remote });
        }
        if security.is_discovery_protected && !is_announced_securely {
            return Err(NonMatch::AnnouncedInPlain { topic: topic() });
        }
        Ok(security)
    }

    fn forget_remote(&mut self, endpoint: Guid) {
        let Guid { prefix, entity } = endpoint;
        let Some(peer) = self.peers.get_mut(&prefix) else { return };
        if peer.endpoints.remove(&entity).is_none() {
            return;
        }
        let pairs: Vec<PairKey> = peer
            .matches
            .keys()
            .filter(|(_, remote)| *remote == entity)
            .map(|(local, remote)| PairKey { peer: prefix, local: *local, remote: *remote })
            .collect();
        pairs.into_iter().for_each(|pair| self.remove_match(pair));
    }
}
