//! The keys of one participant, and the keys that its peers gave it (CryptoKeyFactory and CryptoKeyExchange of DDS
//! Security 1.2 §9.5.1.8 and §9.5.1.9).

use core::fmt;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{Protection, ProtectionKind, ProtectionLevels};

use super::algorithm::{Algorithm, KeyLength};
use super::key_material::{KeyMaterial, ReceiverKey};
use super::opening::{OpeningKey, Uses};
use super::sealing::{ReceiverSealingKey, SealingKey, Start};
use super::transform::{Cryptography, LocalSender};
use crate::limits::{BLOCKS_PER_SESSION, KEYS_PER_SENDER};
use crate::secret::Secret;

/// The highest bit of a nonce's suffix.
const ROLE_BIT: u64 = 1 << 63;

/// Settings of the cryptography of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CryptoConfig {
    /// The length of the keys of this participant.
    pub key_length: KeyLength,
    /// The least length of keys that is accepted from peers.
    pub accepted_key_length: KeyLength,
    /// AES blocks after which a sender derives a new session key, at most [`BLOCKS_PER_SESSION`].
    pub blocks_per_session: u64,
}

/// The role of this participant in the handshake with a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExchangeRole {
    /// This participant began.
    Initiator,
    /// The peer began.
    Replier,
}

/// Why the keys of a peer are refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedKeys {
    /// The local entity is not registered.
    NotRegistered,
    /// As many keys as this are not possible for the protection of the topic.
    Count(usize),
    /// A key signs where the governance requires encryption, or the reverse, or protects nothing.
    Kind([u8; 4]),
    /// A key is shorter than the configuration accepts.
    KeyLength,
    /// The governance requires that origins are authenticated, and there is no receiver-specific key.
    NoReceiverKey,
    /// Another sender of the peer has a key with this number, or the number is reserved.
    KeyId([u8; 4]),
}

/// Creates and receives keys. All random bytes are inputs.
#[derive(Debug)]
pub struct KeyFactory {
    shared: Arc<Cryptography>,
    config: CryptoConfig,
    next_key_id: u32,
    locals: HashMap<EntityId, LocalKeys, FixedState>,
    remotes: HashMap<Guid, RemoteKeys, FixedState>,
}

/// The keys of a local participant or endpoint.
#[derive(Debug)]
struct LocalKeys {
    levels: ProtectionLevels,
    current: SenderKeys,
    /// Given to the receivers and not yet in use.
    next: Option<SenderKeys>,
    receivers: HashMap<Guid, Option<ReceiverKey>, FixedState>,
}

#[derive(Clone, Debug, Default)]
struct SenderKeys {
    /// For messages of the participant, or submessages of the endpoint.
    frames: Option<KeyMaterial>,
    payloads: Option<KeyMaterial>,
}

/// The numbers of a key and of a receiver-specific key that came with it.
type KeyPair = ([u8; 4], [u8; 4]);

/// Keys that a remote participant or endpoint gave to this participant.
#[derive(Debug, Default)]
struct RemoteKeys {
    /// In the order of arrival.
    key_ids: Vec<[u8; 4]>,
    /// The local entities that received them, ascending, with their receiver-specific keys. Few in most cases.
    given_to: Vec<(EntityId, Vec<KeyPair>)>,
}

impl Default for CryptoConfig {
    fn default() -> Self {
        Self {
            key_length: KeyLength::Aes256,
            accepted_key_length: KeyLength::Aes128,
            blocks_per_session: BLOCKS_PER_SESSION,
        }
    }
}

impl KeyFactory {
    /// The keys of a participant that protects its messages in this way.
    pub fn new(message_kind: ProtectionKind, config: CryptoConfig, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let next_key_id = u32::from_be_bytes(draw(random));
        let shared = Arc::new(Cryptography::new(message_kind));
        let locals = HashMap::default();
        let mut factory = Self { shared, config, next_key_id, locals, remotes: HashMap::default() };
        let levels = ProtectionLevels { message: message_kind, ..ProtectionLevels::default() };
        factory.register(EntityId::PARTICIPANT, levels, message_kind, random);
        factory
    }

    /// The transformations with these keys.
    #[must_use]
    pub fn cryptography(&self) -> Arc<Cryptography> {
        Arc::clone(&self.shared)
    }

    /// Creates the keys of a local endpoint whose submessages and payloads are protected in this way.
    pub fn register_endpoint(
        &mut self,
        endpoint: EntityId,
        submessage: ProtectionKind,
        payload: ProtectionKind,
        random: &mut dyn FnMut(&mut [u8]),
    ) {
        let levels = ProtectionLevels { message: self.shared.message_kind(), submessage, payload };
        // Some writers wait for a key of a reader even if only payloads are protected; a reader then signs nothing with
        // its key.
        let is_formality = endpoint.is_reader() && submessage.is_none() && !payload.is_none();
        let frames = if is_formality { ProtectionKind::Sign } else { submessage };
        self.register(endpoint, levels, frames, random);
    }

    fn register(
        &mut self,
        entity: EntityId,
        levels: ProtectionLevels,
        frames: ProtectionKind,
        random: &mut dyn FnMut(&mut [u8]),
    ) {
        let payloads = if entity.is_writer() { levels.payload } else { ProtectionKind::None };
        let current = SenderKeys { frames: self.material(frames, random), payloads: self.material(payloads, random) };
        self.shared.insert_local(entity, self.sender(levels, &current, random));
        self.locals.insert(entity, LocalKeys { levels, current, next: None, receivers: HashMap::default() });
    }

    /// Ends the use of a local endpoint's keys.
    pub fn unregister_endpoint(&mut self, endpoint: EntityId) {
        self.locals.remove(&endpoint);
        self.shared.remove_local(endpoint);
        let peers: Vec<Guid> =
            self.remotes.iter().filter(|(_, keys)| keys.position(endpoint).is_ok()).map(|(guid, _)| *guid).collect();
        peers.into_iter().for_each(|remote| self.take_back(endpoint, remote));
    }

    /// The keys of a local entity for a matched remote one: one list for each message that must be sent to the peer.
    /// Empty if nothing is protected, or if the local entity is not registered.
    pub fn match_remote(
        &mut self,
        local: EntityId,
        remote: Guid,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Vec<Vec<KeyMaterial>> {
        let id = self.key_id();
        let length = self.config.key_length;
        let Some(keys) = self.locals.get_mut(&local) else { return Vec::new() };
        let authenticates = keys.levels.submessage.authenticates_origin()
            || (local == EntityId::PARTICIPANT && keys.levels.message.authenticates_origin());
        let receiver = keys
            .receivers
            .entry(remote)
            .or_insert_with(|| authenticates.then(|| ReceiverKey { id, key: Secret::random(length.bytes(), random) }));
        if let Some((receiver, frames)) = receiver.as_ref().zip(keys.current.frames.as_ref()) {
            self.shared.set_receiver(local, remote, ReceiverSealingKey::new(receiver, frames, length));
        }
        let is_participant = local == EntityId::PARTICIPANT;
        let generations = core::iter::once(&keys.current).chain(keys.next.as_ref());
        generations
            .map(|generation| generation.for_receiver(receiver.as_ref(), is_participant))
            .filter(|keys| !keys.is_empty())
            .collect()
    }

    /// Ends the sharing of keys between a local and a remote entity. Keys that the remote one has are no longer secret
    /// from it: [`Self::renew`] replaces them.
    pub fn unmatch_remote(&mut self, local: EntityId, remote: Guid) {
        if let Some(keys) = self.locals.get_mut(&local) {
            keys.receivers.remove(&remote);
            self.shared.remove_receiver(local, remote);
        }
        self.take_back(local, remote);
    }

    /// Takes the keys that a remote entity sent for a local one. A repeated call adds keys.
    ///
    /// # Errors
    /// Why the keys are refused. None of them is used.
    pub fn set_remote_keys(&mut self, local: EntityId, remote: Guid, keys: &[KeyMaterial]) -> Result<(), RefusedKeys> {
        let levels = self.locals.get(&local).ok_or(RefusedKeys::NotRegistered)?.levels;
        let uses = uses_of(local, levels, keys)?;
        let mut opening = Vec::with_capacity(uses.len());
        for (material, uses) in uses {
            self.check(local, levels, uses, material)?;
            opening.push((material, uses, self.opening_key(remote, uses, material)?));
        }
        let entry = self.remotes.entry(remote).or_default();
        let receiver_keys =
            opening.iter().filter_map(|(material, ..)| Some((material.key_id, material.receiver.as_ref()?.id)));
        entry.give(local, receiver_keys);
        for (material, _, key) in opening {
            let key_id = material.key_id;
            self.shared.insert_remote(remote.prefix, key_id, key);
            entry.key_ids.retain(|known| *known != key_id);
            entry.key_ids.push(key_id);
            let excess = entry.key_ids.len().saturating_sub(KEYS_PER_SENDER);
            entry.key_ids.drain(..excess).for_each(|oldest| self.shared.remove_remote(remote.prefix, oldest));
        }
        Ok(())
    }

    /// Sets the key for the exchange of keys with a peer, the result of the handshake.
    pub fn set_exchange_key(
        &mut self,
        peer: GuidPrefix,
        key: &KeyMaterial,
        role: ExchangeRole,
        random: &mut dyn FnMut(&mut [u8]),
    ) {
        let participant = Guid::new(peer, EntityId::PARTICIPANT);
        let uses = Uses { submessage: true, ..Uses::default() };
        if let Some(opening) = OpeningKey::new(participant, uses, key) {
            self.shared.insert_remote(peer, key.key_id, opening);
        }
        // Both sides seal with the same key, so that their nonces must differ.
        let role = if role == ExchangeRole::Replier { ROLE_BIT } else { 0 };
        let start = Start::random(random, (ROLE_BIT, role));
        if let Some(sealing) = SealingKey::new(key, self.blocks_max(), &start) {
            self.shared.insert_exchange(peer, sealing);
        }
    }

    /// Drops all keys shared with a participant and its endpoints.
    pub fn forget_participant(&mut self, peer: GuidPrefix) {
        let exchange_key_id = [0; 4];
        self.shared.remove_remote(peer, exchange_key_id);
        self.shared.remove_exchange(peer);
        let gone: Vec<Guid> = self.remotes.keys().filter(|remote| remote.prefix == peer).copied().collect();
        for remote in gone {
            let keys = self.remotes.remove(&remote).unwrap_or_default();
            keys.key_ids.iter().for_each(|key_id| self.shared.remove_remote(peer, *key_id));
        }
        for (local, keys) in &mut self.locals {
            let gone: Vec<Guid> = keys.receivers.keys().filter(|remote| remote.prefix == peer).copied().collect();
            for remote in gone {
                keys.receivers.remove(&remote);
                self.shared.remove_receiver(*local, remote);
            }
        }
    }

    /// Creates new keys of a local participant or endpoint. Returns what must be sent to each matched remote entity.
    /// The new keys are not used before [`Self::activate`], so that receivers can have them before.
    pub fn renew(&mut self, local: EntityId, random: &mut dyn FnMut(&mut [u8])) -> Vec<(Guid, Vec<KeyMaterial>)> {
        let Some(keys) = self.locals.get(&local) else { return Vec::new() };
        let encrypts = |material: &Option<KeyMaterial>| {
            let algorithm = material.as_ref().and_then(|material| material.algorithm);
            algorithm.map_or(ProtectionKind::None, |algorithm| {
                if algorithm.encrypts { ProtectionKind::Encrypt } else { ProtectionKind::Sign }
            })
        };
        let [frames, payloads] = [encrypts(&keys.current.frames), encrypts(&keys.current.payloads)];
        let next = SenderKeys { frames: self.material(frames, random), payloads: self.material(payloads, random) };
        let Some(keys) = self.locals.get_mut(&local) else { return Vec::new() };
        let is_participant = local == EntityId::PARTICIPANT;
        let to_send = keys
            .receivers
            .iter()
            .map(|(remote, receiver)| (*remote, next.for_receiver(receiver.as_ref(), is_participant)));
        let to_send = to_send.filter(|(_, keys)| !keys.is_empty()).collect();
        keys.next = Some(next);
        to_send
    }

    /// Seals with the keys of the last [`Self::renew`] from now on.
    pub fn activate(&mut self, local: EntityId, random: &mut dyn FnMut(&mut [u8])) {
        let length = self.config.key_length;
        let Some(next) = self.locals.get_mut(&local).and_then(|keys| keys.next.take()) else { return };
        let Some(keys) = self.locals.get(&local) else { return };
        let sender = self.sender(keys.levels, &next, random);
        for (remote, receiver) in &keys.receivers {
            if let Some(((receiver, frames), key)) =
                receiver.as_ref().zip(next.frames.as_ref()).zip(sender.frames.as_ref())
            {
                key.set_receiver(*remote, ReceiverSealingKey::new(receiver, frames, length));
            }
        }
        self.shared.insert_local(local, sender);
        if let Some(keys) = self.locals.get_mut(&local) {
            keys.current = next;
        }
    }

    /// The keys of the last [`Self::renew`] for a matched remote entity. `None` if there are none, or if they are in
    /// use already.
    #[must_use]
    pub fn renewed_keys(&self, local: EntityId, remote: Guid) -> Option<Vec<KeyMaterial>> {
        let keys = self.locals.get(&local)?;
        let (next, receiver) = (keys.next.as_ref()?, keys.receivers.get(&remote)?);
        Some(next.for_receiver(receiver.as_ref(), local == EntityId::PARTICIPANT)).filter(|keys| !keys.is_empty())
    }

    /// The numbers of the keys that a remote entity gave to this participant, the oldest first.
    #[must_use]
    pub fn remote_key_ids(&self, remote: Guid) -> &[[u8; 4]] {
        self.remotes.get(&remote).map(|keys| keys.key_ids.as_slice()).unwrap_or_default()
    }

    /// Drops one key of a remote entity, for example because the entity has replaced it.
    pub fn retire_remote_key(&mut self, remote: Guid, key_id: [u8; 4]) {
        let Some(keys) = self.remotes.get_mut(&remote) else { return };
        if keys.key_ids.contains(&key_id) {
            keys.key_ids.retain(|known| *known != key_id);
            keys.given_to.iter_mut().for_each(|(_, given)| given.retain(|(id, _)| *id != key_id));
            self.shared.remove_remote(remote.prefix, key_id);
        }
    }

    /// Drops the expanded session keys of remote senders from which nothing has come for some calls: see
    /// [`IDLE_SESSIONS_INTERVAL`](crate::limits::IDLE_SESSIONS_INTERVAL). An expanded key takes some 600 bytes. Returns
    /// the number of senders.
    pub fn drop_idle_sessions(&mut self) -> usize {
        self.shared.drop_idle_sessions()
    }

    fn sender(&self, levels: ProtectionLevels, keys: &SenderKeys, random: &mut dyn FnMut(&mut [u8])) -> LocalSender {
        let mut key = |material: &Option<KeyMaterial>| {
            let start = Start::random(random, (0, 0));
            material.as_ref().and_then(|material| SealingKey::new(material, self.blocks_max(), &start))
        };
        LocalSender { levels, frames: key(&keys.frames), payloads: key(&keys.payloads) }
    }

    fn material(&mut self, kind: ProtectionKind, random: &mut dyn FnMut(&mut [u8])) -> Option<KeyMaterial> {
        if kind.is_none() {
            return None;
        }
        let length = self.config.key_length;
        Some(KeyMaterial {
            revision: [0; 3],
            algorithm: Some(Algorithm { key_length: length, encrypts: kind.encrypts() }),
            salt: Secret::random(length.bytes(), random),
            key_id: self.key_id(),
            key: Secret::random(length.bytes(), random),
            receiver: None,
        })
    }

    /// A number that no other key of this participant has. Zero is the exchange key's.
    fn key_id(&mut self) -> [u8; 4] {
        self.next_key_id = self.next_key_id.checked_add(1).unwrap_or(1);
        self.next_key_id.to_be_bytes()
    }

    fn blocks_max(&self) -> u64 {
        self.config.blocks_per_session.clamp(1, BLOCKS_PER_SESSION)
    }

    fn check(
        &self,
        local: EntityId,
        levels: ProtectionLevels,
        uses: Uses,
        material: &KeyMaterial,
    ) -> Result<(), RefusedKeys> {
        let frames = if local == EntityId::PARTICIPANT { levels.message } else { levels.submessage };
        let algorithm = material.algorithm.ok_or(RefusedKeys::Kind(material.kind()))?;
        let is_right = |kind: ProtectionKind| kind.encrypts() == algorithm.encrypts;
        let is_for_frames = uses.message || uses.submessage;
        if (is_for_frames && !is_right(frames)) || (uses.payload && !is_right(levels.payload)) {
            return Err(RefusedKeys::Kind(material.kind()));
        }
        if algorithm.key_length < self.config.accepted_key_length {
            return Err(RefusedKeys::KeyLength);
        }
        if is_for_frames && frames.authenticates_origin() && material.receiver.is_none() {
            return Err(RefusedKeys::NoReceiverKey);
        }
        Ok(())
    }

    fn opening_key(&self, remote: Guid, uses: Uses, material: &KeyMaterial) -> Result<OpeningKey, RefusedKeys> {
        let refused = RefusedKeys::KeyId(material.key_id);
        if material.key_id == [0; 4] {
            return Err(refused);
        }
        let known = self.shared.remote(remote.prefix, material.key_id);
        let is_owners = self.remotes.get(&remote).is_some_and(|keys| keys.key_ids.contains(&material.key_id));
        if known.is_some() && !is_owners {
            return Err(refused);
        }
        let shared = known.and_then(|known| known.with_receiver(remote, uses, material));
        shared.or_else(|| OpeningKey::new(remote, uses, material)).ok_or(RefusedKeys::Kind(material.kind()))
    }

    /// Drops the keys that a remote entity shares with this local one only.
    fn take_back(&mut self, local: EntityId, remote: Guid) {
        let Some(keys) = self.remotes.get_mut(&remote) else { return };
        let given = keys.position(local).map(|position| keys.given_to.remove(position).1);
        for (key_id, receiver_id) in given.unwrap_or_default() {
            let known = self.shared.remote(remote.prefix, key_id);
            if let Some(key) = known.and_then(|known| known.without_receiver(receiver_id)) {
                self.shared.insert_remote(remote.prefix, key_id, key);
            }
        }
        if keys.given_to.is_empty() {
            keys.key_ids.iter().for_each(|key_id| self.shared.remove_remote(remote.prefix, *key_id));
            self.remotes.remove(&remote);
        }
    }
}

impl RemoteKeys {
    /// The position of a local entity, or where to insert it.
    fn position(&self, local: EntityId) -> Result<usize, usize> {
        self.given_to.binary_search_by_key(&local, |(local, _)| *local)
    }

    /// Records that a local entity received keys, with these receiver-specific ones.
    fn give(&mut self, local: EntityId, receiver_keys: impl Iterator<Item = KeyPair>) {
        let position = self.position(local).unwrap_or_else(|position| {
            self.given_to.reserve_exact(usize::from(self.given_to.is_empty()));
            self.given_to.insert(position, (local, Vec::new()));
            position
        });
        let Some((_, given)) = self.given_to.get_mut(position) else { return };
        for pair in receiver_keys {
            given.retain(|known| *known != pair);
            given.push(pair);
            given.drain(..given.len().saturating_sub(KEYS_PER_SENDER));
        }
    }
}

impl SenderKeys {
    /// The keys to be sent to a receiver.
    fn for_receiver(&self, receiver: Option<&ReceiverKey>, is_participant: bool) -> Vec<KeyMaterial> {
        let frames = self.frames.clone().map(|frames| KeyMaterial { receiver: receiver.cloned(), ..frames });
        let keys: Vec<KeyMaterial> = frames.into_iter().chain(self.payloads.clone()).collect();
        // Peers expect a key of the participant even if it protects nothing.
        if keys.is_empty() && is_participant { vec![KeyMaterial::none()] } else { keys }
    }
}

impl Start {
    pub(super) fn random(random: &mut dyn FnMut(&mut [u8]), fixed: (u64, u64)) -> Self {
        Self { session_id: u32::from_be_bytes(draw(random)), suffix: u64::from_be_bytes(draw(random)), fixed }
    }
}

fn draw<const N: usize>(random: &mut dyn FnMut(&mut [u8])) -> [u8; N] {
    let mut out = [0; N];
    random(&mut out);
    out
}

/// The use of each of these keys of a remote entity. Keys that protect nothing are left out.
fn uses_of(
    local: EntityId,
    levels: ProtectionLevels,
    keys: &[KeyMaterial],
) -> Result<Vec<(&KeyMaterial, Uses)>, RefusedKeys> {
    let count = Err(RefusedKeys::Count(keys.len()));
    if local == EntityId::PARTICIPANT {
        let [key] = keys else { return count };
        let uses = Uses { message: true, ..Uses::default() };
        return Ok(if levels.message.is_none() { Vec::new() } else { vec![(key, uses)] });
    }
    let submessage = Uses { submessage: true, ..Uses::default() };
    let payload = Uses { payload: true, ..Uses::default() };
    // A local reader receives keys of a writer, for payloads too.
    let has_payloads = local.is_reader() && !levels.payload.is_none();
    match (!levels.submessage.is_none(), has_payloads, keys) {
        (true, false, [key]) => Ok(vec![(key, submessage)]),
        (false, true, [key]) => Ok(vec![(key, payload)]),
        (true, true, [key]) => Ok(vec![(key, Uses { submessage: true, payload: true, message: false })]),
        (true, true, [frames, payloads]) => Ok(vec![(frames, submessage), (payloads, payload)]),
        // A reader's key when only payloads are protected.
        (false, false, [_]) if local.is_writer() && !levels.payload.is_none() => Ok(Vec::new()),
        _ => count,
    }
}

impl fmt::Display for RefusedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegistered => f.write_str("the local entity has no keys"),
            Self::Count(count) => write!(f, "{count} keys do not fit the protection of the topic"),
            Self::Kind(kind) => {
                let kind = u32::from_be_bytes(*kind);
                write!(f, "transformation {kind:#x} is not the one that the governance requires")
            }
            Self::KeyLength => f.write_str("the key is shorter than the configuration accepts"),
            Self::NoReceiverKey => f.write_str("the governance requires a receiver-specific key"),
            Self::KeyId(id) => write!(f, "key id {:#x} belongs to another sender", u32::from_be_bytes(*id)),
        }
    }
}

impl core::error::Error for RefusedKeys {}

impl KeyFactory {
    /// The protection of a local endpoint's traffic.
    #[must_use]
    pub fn levels(&self, endpoint: EntityId) -> ProtectionLevels {
        self.shared.levels(endpoint)
    }
}
