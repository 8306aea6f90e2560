//! Messages with keys: which are sent for a pair of endpoints, and what those of a peer mean.

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::time::Instant;

use super::config::StepsWaiting;
use super::peer::{Match, PairKey, Peer, Sending};
use super::refusal::KeysRefusal;
use super::state::Session;
use super::step::{SecurityEvent, Step};
use crate::authentication::Input;
use crate::crypto::KeyMaterial;
use crate::crypto::secure_entity::VOLATILE_WRITER;
use crate::limits::{KEYS_PER_ENDPOINT, OLD_KEY_TIME};
use crate::message::{GenericMessage, MessageHead, MessageIdentity, crypto_token, key_material_of, names};

impl Session {
    /// The reader of volatile messages received a sample that was opened with the exchange key of this peer.
    ///
    /// # Errors
    /// Too many steps wait. The caller hands the message over again later: the channel is reliable.
    pub fn volatile_message_received(
        &mut self,
        input: &mut Input<'_>,
        sender: GuidPrefix,
        payload: &[u8],
    ) -> Result<(), StepsWaiting> {
        self.take()?;
        self.set_clock(input);
        if !self.peers.get(&sender).is_some_and(Peer::is_authenticated) {
            count(&mut self.statistics.tokens_of_strangers);
            return Ok(());
        }
        self.authenticator.handle_authentic(sender);
        match self.addressed(sender, payload) {
            Addressed::ForOthers => count(&mut self.statistics.tokens_for_others),
            Addressed::UnknownClass => count(&mut self.statistics.unknown_classes),
            Addressed::Malformed => count(&mut self.statistics.malformed_tokens),
            Addressed::UnknownLocal => count(&mut self.statistics.tokens_for_unknown),
            Addressed::Pair(pair) => match keys_of(payload) {
                Ok(keys) => self.take_keys(input, pair, keys),
                Err(refusal) => {
                    count(&mut self.statistics.malformed_tokens);
                    self.refuse_keys(pair, refusal);
                }
            },
        }
        Ok(())
    }

    /// Adds a pair, and what is to be done for it.
    pub(super) fn add_match(&mut self, pair: PairKey, new: Match) {
        if let Some(peer) = self.peers.get_mut(&pair.peer) {
            peer.matches.insert((pair.local, pair.remote), new);
            self.enqueue(pair);
        }
    }

    /// Removes a pair, and the keys that only this pair shares.
    pub(super) fn remove_match(&mut self, pair: PairKey) {
        let Some(peer) = self.peers.get_mut(&pair.peer) else { return };
        let Some(removed) = peer.matches.remove(&(pair.local, pair.remote)) else { return };
        if removed.is_queued {
            self.pairs.retain(|queued| *queued != pair);
        }
        if let Some(at) = removed.ask_at {
            self.questions.remove(&(at, pair));
        }
        self.keys.unmatch_remote(pair.local, pair.remote_guid());
    }

    /// Takes the keys that arrived before their pair was known.
    pub(super) fn take_early(&mut self, input: &mut Input<'_>, pair: PairKey) {
        let Some(peer) = self.peers.get_mut(&pair.peer) else { return };
        for keys in peer.early.take((pair.local, pair.remote)) {
            self.take_keys(input, pair, keys);
        }
    }

    /// Whether messages of the peer can be opened and sealed, if the governance protects messages.
    pub(super) fn participant_keys_ready(&self, peer: GuidPrefix) -> bool {
        let is_protected = !self.rights.domain_rule().messages.is_none();
        let pair = self.peers.get(&peer).and_then(|peer| peer.matches.get(&PairKey::PARTICIPANTS));
        !is_protected || pair.is_some_and(|pair| pair.is_ready)
    }

    /// The local senders whose keys a peer has.
    pub(super) fn senders_known_to(&self, peer: GuidPrefix) -> Vec<EntityId> {
        let matches = self.peers.get(&peer).into_iter().flat_map(|peer| &peer.matches);
        let mut senders: Vec<EntityId> = matches.filter(|(_, pair)| pair.sent).map(|((local, _), _)| *local).collect();
        senders.dedup();
        senders
    }

    /// Notes that there is something to do for a pair.
    pub(super) fn enqueue(&mut self, pair: PairKey) {
        let Some(state) = self.match_of(pair) else { return };
        if !core::mem::replace(&mut state.is_queued, true) {
            self.pairs.push_back(pair);
        }
    }

    /// Makes the messages with keys for a pair, and reports when all its keys are exchanged.
    pub(super) fn serve_pair(&mut self, input: &mut Input<'_>, pair: PairKey) {
        let Some(state) = self.match_of(pair) else { return };
        state.is_queued = false;
        let remote = pair.remote_guid();
        let messages = match state.sending {
            Sending::Nothing => Vec::new(),
            Sending::Renewed => self.keys.renewed_keys(pair.local, remote).into_iter().collect(),
            Sending::All => self.keys.match_remote(pair.local, remote, input.random),
        };
        let is_sending = self.match_of(pair).is_some_and(|state| state.sending != Sending::Nothing);
        for keys in messages {
            self.send_keys(pair, &keys);
        }
        if is_sending {
            let now = input.now;
            self.change(pair, |state| state.note_sent(now));
        }
        self.complete(pair);
    }

    /// Asks for the keys that did not arrive: this participant sends its own again.
    pub(super) fn ask_for_keys(&mut self, input: &Input<'_>) {
        while let Some(&(at, pair)) = self.questions.first().filter(|(at, _)| *at <= input.now) {
            self.questions.remove(&(at, pair));
            let Some(state) = self.match_of(pair) else { continue };
            if state.ask() {
                count(&mut self.statistics.tokens_resent);
                if self.match_of(pair).is_some_and(|state| state.is_given_up()) {
                    self.report(SecurityEvent::KeysMissing { local: pair.local, remote: pair.remote_guid() });
                }
                self.enqueue(pair);
            }
        }
    }

    fn addressed(&self, sender: GuidPrefix, payload: &[u8]) -> Addressed {
        let Ok((head, class_id)) = GenericMessage::parse_head(payload) else { return Addressed::Malformed };
        if head.destination_participant != Guid::new(self.prefix, EntityId::PARTICIPANT) {
            return Addressed::ForOthers;
        }
        let is_remote_writer = match class_id {
            names::PARTICIPANT_CRYPTO_TOKENS => return Addressed::Pair(PairKey::participants(sender)),
            names::DATAWRITER_CRYPTO_TOKENS => true,
            names::DATAREADER_CRYPTO_TOKENS => false,
            _ => return Addressed::UnknownClass,
        };
        let (local, remote) = (head.destination_endpoint, head.source_endpoint);
        let (local_is_right, remote_is_right) = if is_remote_writer {
            (local.entity.is_reader(), remote.entity.is_writer())
        } else {
            (local.entity.is_writer(), remote.entity.is_reader())
        };
        if local.prefix != self.prefix || remote.prefix != sender || !local_is_right || !remote_is_right {
            return Addressed::Malformed;
        }
        if !self.locals.contains_key(&local.entity) {
            return Addressed::UnknownLocal;
        }
        Addressed::Pair(PairKey { peer: sender, local: local.entity, remote: remote.entity })
    }

    /// Takes the keys of one message, or keeps them until their pair is known.
    fn take_keys(&mut self, input: &Input<'_>, pair: PairKey, keys: Vec<KeyMaterial>) {
        let Some(peer) = self.peers.get_mut(&pair.peer) else { return };
        if !peer.matches.contains_key(&(pair.local, pair.remote)) {
            count(&mut self.statistics.early_tokens);
            if !peer.early.keep((pair.local, pair.remote), keys) {
                count(&mut self.statistics.early_tokens_dropped);
            }
            return;
        }
        let remote = pair.remote_guid();
        let key_ids: Vec<[u8; 4]> = keys.iter().map(|key| key.key_id).collect();
        let before = self.keys.remote_key_ids(remote).to_vec();
        if let Err(refused) = self.keys.set_remote_keys(pair.local, remote, &keys) {
            return self.refuse_keys(pair, KeysRefusal::Refused(refused));
        }
        let is_repeated = self.match_of(pair).is_some_and(|state| state.has_seen(&key_ids));
        if is_repeated {
            count(&mut self.statistics.tokens_repeated);
        }
        let replaces = self.change(pair, |state| state.note_received(&key_ids)).unwrap_or(false);
        key_ids.iter().for_each(|id| self.retirement.cancel((remote, *id)));
        if replaces {
            let until = input.now + OLD_KEY_TIME;
            let old = before.into_iter().filter(|id| !key_ids.contains(id));
            old.for_each(|id| self.retirement.schedule(until, (remote, id)));
        }
        // A peer that sends its keys again may have lost those of this participant.
        if is_repeated && self.change(pair, |state| state.answer(input.now)) == Some(true) {
            count(&mut self.statistics.tokens_answered);
        }
        self.enqueue(pair);
    }

    fn refuse_keys(&mut self, pair: PairKey, refusal: KeysRefusal) {
        count(&mut self.statistics.keys_refused);
        self.report(SecurityEvent::KeysRefused { local: pair.local, remote: pair.remote_guid(), refusal });
    }

    fn send_keys(&mut self, pair: PairKey, keys: &[KeyMaterial]) {
        self.sequence_number = self.sequence_number.saturating_add(1);
        let is_participants = (pair.local, pair.remote) == PairKey::PARTICIPANTS;
        let class_id = if is_participants {
            names::PARTICIPANT_CRYPTO_TOKENS
        } else if pair.local.is_writer() {
            names::DATAWRITER_CRYPTO_TOKENS
        } else {
            names::DATAREADER_CRYPTO_TOKENS
        };
        let endpoint = |guid: Guid| if is_participants { Guid::default() } else { guid };
        let identity =
            MessageIdentity { source: Guid::new(self.prefix, VOLATILE_WRITER), sequence_number: self.sequence_number };
        let head = MessageHead {
            identity,
            related: MessageIdentity::default(),
            destination_participant: Guid::new(pair.peer, EntityId::PARTICIPANT),
            destination_endpoint: endpoint(pair.remote_guid()),
            source_endpoint: endpoint(Guid::new(self.prefix, pair.local)),
        };
        let data = keys.iter().map(crypto_token).collect();
        let payload = GenericMessage { head, class_id: class_id.to_owned(), data }.to_secret();
        self.push(Step::SendVolatile { to: pair.peer, payload });
    }

    /// Reports that the keys of a pair are ready, once.
    fn complete(&mut self, pair: PairKey) {
        let is_participants = (pair.local, pair.remote) == PairKey::PARTICIPANTS;
        let has_participant = is_participants || self.participant_keys_ready(pair.peer);
        let Some(state) = self.match_of(pair) else { return };
        if state.is_ready || !state.is_exchanged() || !has_participant {
            return;
        }
        state.is_ready = true;
        let has_keys = state.gives;
        let remote = pair.remote_guid();
        self.push(Step::KeysReady { local: pair.local, remote });
        if has_keys {
            self.report(SecurityEvent::KeysExchanged { local: pair.local, remote });
        }
        if is_participants {
            self.complete_all(pair.peer);
        }
    }

    /// Pairs may have waited for the keys of the participants.
    fn complete_all(&mut self, peer: GuidPrefix) {
        let Some(state) = self.peers.get(&peer) else { return };
        let waiting = state.matches.iter().filter(|(_, pair)| !pair.is_ready && pair.is_exchanged());
        let waiting: Vec<PairKey> =
            waiting.map(|((local, remote), _)| PairKey { peer, local: *local, remote: *remote }).collect();
        waiting.into_iter().for_each(|pair| self.enqueue(pair));
    }

    fn match_of(&mut self, pair: PairKey) -> Option<&mut Match> {
        self.peers.get_mut(&pair.peer)?.matches.get_mut(&(pair.local, pair.remote))
    }

    /// Changes a pair, and its question accordingly.
    pub(super) fn change<R>(&mut self, pair: PairKey, change: impl FnOnce(&mut Match) -> R) -> Option<R> {
        let state = self.match_of(pair)?;
        let before = state.ask_at;
        let result = change(state);
        let after = state.ask_at;
        if before != after {
            let entry = |at: Instant| (at, pair);
            before.map(|at| self.questions.remove(&entry(at)));
            after.map(|at| self.questions.insert(entry(at)));
        }
        Some(result)
    }
}

/// For what a message with keys is.
enum Addressed {
    Pair(PairKey),
    ForOthers,
    UnknownClass,
    UnknownLocal,
    Malformed,
}

/// The keys of a message: one or two.
fn keys_of(payload: &[u8]) -> Result<Vec<KeyMaterial>, KeysRefusal> {
    let message = GenericMessage::parse(payload).map_err(|_| KeysRefusal::Malformed(None))?;
    if message.data.is_empty() || message.data.len() > KEYS_PER_ENDPOINT {
        return Err(KeysRefusal::Malformed(None));
    }
    let key = |token| {
        let key = key_material_of(token).ok_or(KeysRefusal::Malformed(None))?;
        key.map_err(|error| KeysRefusal::Malformed(Some(error)))
    };
    message.data.iter().map(key).collect()
}

const fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
