//! A cryptography by ChaCha20-Poly1305 in place of AES-GCM. Its keys travel in the form of the built-in ones.
//!
//! One key of a participant or endpoint protects its messages or submessages, and its payloads. It has no MACs for
//! single receivers: what the governance protects with origin authentication is not sent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use peregrine::security::plugins::cryptography::{
    Algorithm, CryptoFooter, CryptoHeader, Cryptographic, EntityId, ExchangeRole, Guid, GuidPrefix, Header, Instant,
    KeyLength, KeyMaterial, OpenError, PreSharedKeys, Protection, ProtectionKind, ProtectionLevels, ReceiverMac,
    RefusedKeys, Scope, Seal, SealError, Secret, Text, is_key_channel, unregistered_levels,
};

/// Names the algorithm in the header of protected bytes. No number of DDS Security.
const KIND: [u8; 4] = [0x80, 0, 0, 1];
/// The key for the exchange of keys.
const EXCHANGE_KEY_ID: [u8; 4] = [0; 4];
/// Keys of one remote entity that are kept.
const KEYS_MAX: usize = 4;
/// Of the two participants that share an exchange key, the one that replied sets this bit of its nonces.
const ROLE_BIT: u64 = 1 << 63;

type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// The keys of one participant.
pub(crate) struct ChaCha {
    shared: Arc<Transformations>,
    key_id: u32,
    locals: BTreeMap<EntityId, LocalKeys>,
    remotes: BTreeMap<Guid, RemoteKeys>,
}

struct LocalKeys {
    levels: ProtectionLevels,
    current: Option<KeyMaterial>,
    /// Given to the receivers, and not yet in use.
    next: Option<KeyMaterial>,
    receivers: BTreeSet<Guid>,
}

#[derive(Default)]
struct RemoteKeys {
    /// The oldest first.
    key_ids: Vec<[u8; 4]>,
    given_to: BTreeSet<EntityId>,
}

/// Seals and opens, on any number of threads.
#[derive(Default)]
pub(crate) struct Transformations {
    messages: OnceLock<ProtectionKind>,
    pre_shared: OnceLock<Arc<PreSharedKeys>>,
    keys: RwLock<Keys>,
    sealed: AtomicU64,
    opened: AtomicU64,
}

#[derive(Default)]
struct Keys {
    locals: HashMap<EntityId, (ProtectionLevels, Option<Arc<SealingKey>>)>,
    remotes: HashMap<(GuidPrefix, [u8; 4]), Arc<OpeningKey>>,
    exchange: HashMap<GuidPrefix, Arc<SealingKey>>,
}

struct SealingKey {
    id: [u8; 4],
    cipher: LessSafeKey,
    session_id: [u8; 4],
    role: u64,
    next: AtomicU64,
    blocks: AtomicU64,
}

struct OpeningKey {
    owner: Guid,
    cipher: LessSafeKey,
    levels: ProtectionLevels,
}

impl ChaCha {
    pub(crate) fn new() -> Self {
        Self { shared: Arc::default(), key_id: 0, locals: BTreeMap::new(), remotes: BTreeMap::new() }
    }

    /// Counts what is sealed and opened.
    pub(crate) fn transformations(&self) -> Arc<Transformations> {
        Arc::clone(&self.shared)
    }

    fn register(&mut self, entity: EntityId, levels: ProtectionLevels, random: Random<'_>) {
        let frames = if entity == EntityId::PARTICIPANT { levels.message } else { levels.submessage };
        let payloads = if entity.is_writer() { levels.payload } else { ProtectionKind::None };
        let is_sender = !frames.is_none() || !payloads.is_none();
        let current = is_sender.then(|| self.material(random));
        self.install(entity, levels, current.as_ref(), random);
        self.locals.insert(entity, LocalKeys { levels, current, next: None, receivers: BTreeSet::new() });
    }

    fn install(&self, entity: EntityId, levels: ProtectionLevels, key: Option<&KeyMaterial>, random: Random<'_>) {
        let key = key.map(|material| Arc::new(SealingKey::new(material, 0, random)));
        self.shared.change().locals.insert(entity, (levels, key));
    }

    fn material(&mut self, random: Random<'_>) -> KeyMaterial {
        // Zero is the number of the exchange key.
        self.key_id = self.key_id.checked_add(1).unwrap_or(1);
        let (salt, key) = (Secret::random(32, random), Secret::random(32, random));
        KeyMaterial {
            revision: [0; 3],
            // Only for the form in which keys travel.
            algorithm: Some(Algorithm { key_length: KeyLength::Aes256, encrypts: true }),
            salt,
            key_id: self.key_id.to_be_bytes(),
            key,
            receiver: None,
        }
    }

    fn drop_remote(&mut self, remote: Guid) {
        let keys = self.remotes.remove(&remote).unwrap_or_default();
        let mut shared = self.shared.change();
        keys.key_ids.iter().for_each(|id| drop(shared.remotes.remove(&(remote.prefix, *id))));
    }
}

impl Cryptographic for ChaCha {
    fn protection(&self) -> Arc<dyn Protection> {
        self.transformations()
    }

    fn register_participant(&mut self, messages: ProtectionKind, random: Random<'_>) {
        let _ = self.shared.messages.set(messages);
        let levels = ProtectionLevels { message: messages, ..ProtectionLevels::default() };
        self.register(EntityId::PARTICIPANT, levels, random);
    }

    fn set_pre_shared(&mut self, keys: Arc<PreSharedKeys>) {
        let _ = self.shared.pre_shared.set(keys);
    }

    fn register_endpoint(
        &mut self,
        endpoint: EntityId,
        submessage: ProtectionKind,
        payload: ProtectionKind,
        random: Random<'_>,
    ) {
        let levels = ProtectionLevels { message: self.shared.messages(), submessage, payload };
        self.register(endpoint, levels, random);
    }

    fn unregister_endpoint(&mut self, endpoint: EntityId) {
        self.locals.remove(&endpoint);
        self.shared.change().locals.remove(&endpoint);
        let remotes: Vec<Guid> = self.remotes.keys().copied().collect();
        remotes.into_iter().for_each(|remote| self.unmatch_remote(endpoint, remote));
    }

    fn set_exchange_key(&mut self, peer: GuidPrefix, key: &KeyMaterial, role: ExchangeRole, random: Random<'_>) {
        let owner = Guid::new(peer, EntityId::PARTICIPANT);
        let levels = ProtectionLevels { submessage: ProtectionKind::Encrypt, ..ProtectionLevels::default() };
        let role = if role == ExchangeRole::Replier { ROLE_BIT } else { 0 };
        let sealing = Arc::new(SealingKey::new(key, role, random));
        let opening = Arc::new(OpeningKey { owner, cipher: cipher(key), levels });
        let mut shared = self.shared.change();
        shared.exchange.insert(peer, sealing);
        shared.remotes.insert((peer, EXCHANGE_KEY_ID), opening);
    }

    fn forget_participant(&mut self, peer: GuidPrefix) {
        let gone: Vec<Guid> = self.remotes.keys().filter(|remote| remote.prefix == peer).copied().collect();
        gone.into_iter().for_each(|remote| self.drop_remote(remote));
        self.locals.values_mut().for_each(|keys| keys.receivers.retain(|receiver| receiver.prefix != peer));
        let mut shared = self.shared.change();
        shared.exchange.remove(&peer);
        shared.remotes.remove(&(peer, EXCHANGE_KEY_ID));
    }

    fn match_remote(&mut self, local: EntityId, remote: Guid, _: Random<'_>) -> Vec<Vec<KeyMaterial>> {
        let Some(keys) = self.locals.get_mut(&local) else { return Vec::new() };
        keys.receivers.insert(remote);
        keys.current.iter().chain(&keys.next).map(|key| vec![key.clone()]).collect()
    }

    fn unmatch_remote(&mut self, local: EntityId, remote: Guid) {
        if let Some(keys) = self.locals.get_mut(&local) {
            keys.receivers.remove(&remote);
        }
        let Some(keys) = self.remotes.get_mut(&remote) else { return };
        keys.given_to.remove(&local);
        if keys.given_to.is_empty() {
            self.drop_remote(remote);
        }
    }

    fn set_remote_keys(&mut self, local: EntityId, remote: Guid, keys: &[KeyMaterial]) -> Result<(), RefusedKeys> {
        let levels = self.locals.get(&local).ok_or(RefusedKeys::NotRegistered)?.levels;
        let [key] = keys else { return Err(RefusedKeys::Count(keys.len())) };
        if key.key.len() != 32 || key.salt.len() != 32 {
            return Err(RefusedKeys::KeyLength);
        }
        let mut shared = self.shared.change();
        let of_other = shared.remotes.get(&(remote.prefix, key.key_id)).is_some_and(|other| other.owner != remote);
        if key.key_id == EXCHANGE_KEY_ID || of_other {
            return Err(RefusedKeys::KeyId(key.key_id));
        }
        let opening = OpeningKey { owner: remote, cipher: cipher(key), levels };
        shared.remotes.insert((remote.prefix, key.key_id), Arc::new(opening));
        let known = self.remotes.entry(remote).or_default();
        known.given_to.insert(local);
        known.key_ids.retain(|id| *id != key.key_id);
        known.key_ids.push(key.key_id);
        let excess = known.key_ids.len().saturating_sub(KEYS_MAX);
        known.key_ids.drain(..excess).for_each(|id| drop(shared.remotes.remove(&(remote.prefix, id))));
        Ok(())
    }

    fn remote_key_ids(&self, remote: Guid) -> &[[u8; 4]] {
        self.remotes.get(&remote).map(|keys| keys.key_ids.as_slice()).unwrap_or_default()
    }

    fn retire_remote_key(&mut self, remote: Guid, key_id: [u8; 4]) {
        let Some(keys) = self.remotes.get_mut(&remote).filter(|keys| keys.key_ids.contains(&key_id)) else { return };
        keys.key_ids.retain(|id| *id != key_id);
        self.shared.change().remotes.remove(&(remote.prefix, key_id));
    }

    fn renew(&mut self, local: EntityId, random: Random<'_>) -> Vec<(Guid, Vec<KeyMaterial>)> {
        let next = self.material(random);
        let Some(keys) = self.locals.get_mut(&local).filter(|keys| keys.current.is_some()) else { return Vec::new() };
        keys.next = Some(next.clone());
        keys.receivers.iter().map(|receiver| (*receiver, vec![next.clone()])).collect()
    }

    fn renewed_keys(&self, local: EntityId, remote: Guid) -> Option<Vec<KeyMaterial>> {
        let keys = self.locals.get(&local).filter(|keys| keys.receivers.contains(&remote))?;
        keys.next.clone().map(|key| vec![key])
    }

    fn activate(&mut self, local: EntityId, random: Random<'_>) {
        let Some(keys) = self.locals.get_mut(&local) else { return };
        let Some(next) = keys.next.take() else { return };
        let levels = keys.levels;
        keys.current = Some(next.clone());
        self.install(local, levels, Some(&next), random);
    }

    fn blocks_sealed(&self, sender: EntityId) -> u64 {
        let keys = self.shared.keys();
        let key = keys.locals.get(&sender).and_then(|(_, key)| key.as_ref());
        key.map_or(0, |key| key.blocks.load(Ordering::Relaxed))
    }
}

impl Transformations {
    /// The numbers of texts that were sealed, and opened.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sealed.load(Ordering::Relaxed), self.opened.load(Ordering::Relaxed))
    }

    fn messages(&self) -> ProtectionKind {
        self.messages.get().copied().unwrap_or(ProtectionKind::Encrypt)
    }

    fn keys(&self) -> RwLockReadGuard<'_, Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Keys> {
        self.keys.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Protection for Transformations {
    fn levels(&self, endpoint: EntityId) -> ProtectionLevels {
        let registered = self.keys().locals.get(&endpoint).map(|(levels, _)| *levels);
        registered.unwrap_or_else(|| unregistered_levels(endpoint, self.messages()))
    }

    fn seal(
        &self,
        scope: Scope,
        sender: EntityId,
        receiver: Option<GuidPrefix>,
        text: Text<'_>,
    ) -> Result<Seal, SealError> {
        let keys = self.keys();
        let key = if is_key_channel(sender) {
            receiver.and_then(|peer| keys.exchange.get(&peer).cloned())
        } else {
            keys.locals.get(&sender).and_then(|(_, key)| key.clone())
        };
        drop(keys);
        let seal = key.ok_or(SealError::NoKey)?.seal(scope, text)?;
        self.sealed.fetch_add(1, Ordering::Relaxed);
        Ok(seal)
    }

    fn payload_generation(&self, writer: EntityId) -> u32 {
        let keys = self.keys();
        let key = keys.locals.get(&writer).and_then(|(_, key)| key.as_ref());
        key.map_or(0, |key| u32::from_be_bytes(key.id))
    }

    fn pre_shared(&self) -> ProtectionKind {
        self.pre_shared.get().map_or(ProtectionKind::None, |keys| keys.pre_shared())
    }

    fn seal_pre_shared(&self, text: Text<'_>) -> Result<Seal, SealError> {
        self.pre_shared.get().ok_or(SealError::NoKey)?.seal_pre_shared(text)
    }

    fn open_pre_shared(
        &self,
        now: Instant,
        sender: &Header,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        additional: &[u8],
        text: Text<'_>,
    ) -> Result<(), OpenError> {
        let keys = self.pre_shared.get().ok_or(OpenError::UnknownKey)?;
        keys.open_pre_shared(now, sender, header, footer, additional, text)
    }

    fn receiver_mac(&self, _: Scope, _: EntityId, _: &Seal, _: Guid) -> Result<ReceiverMac, SealError> {
        Err(SealError::NoKey)
    }

    fn open(
        &self,
        scope: Scope,
        source: GuidPrefix,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError> {
        let key = self.keys().remotes.get(&(source, header.key_id)).cloned();
        let key = key.filter(|_| header.kind == KIND).ok_or(OpenError::UnknownKey)?;
        key.open(scope, header, &footer.common_mac, text).ok_or(OpenError::NotAuthentic)?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(key.owner)
    }
}

impl SealingKey {
    fn new(material: &KeyMaterial, role: u64, random: Random<'_>) -> Self {
        let mut session_id = [0; 4];
        random(&mut session_id);
        let (next, blocks) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { id: material.key_id, cipher: cipher(material), session_id, role, next, blocks }
    }

    fn seal(&self, scope: Scope, text: Text<'_>) -> Result<Seal, SealError> {
        let suffix = (self.next.fetch_add(1, Ordering::Relaxed) | self.role).to_be_bytes();
        self.blocks.fetch_add(text.len() as u64 / 16 + 1, Ordering::Relaxed);
        let header = CryptoHeader { kind: KIND, key_id: self.id, session_id: self.session_id, suffix };
        let tag = match text.in_place() {
            Text::Signed(bytes) => {
                let additional = Aad::from([&[number(scope)], bytes].concat());
                self.cipher.seal_in_place_separate_tag(nonce(&header), additional, &mut [])
            }
            Text::Encrypted(bytes) => {
                let additional = Aad::from([number(scope)]);
                self.cipher.seal_in_place_separate_tag(nonce(&header), additional, bytes)
            }
            Text::EncryptedAcross { .. } => return Err(SealError::NoKey),
        };
        let common_mac = tag.ok().and_then(|tag| tag.as_ref().try_into().ok()).ok_or(SealError::TooLong)?;
        Ok(Seal { header, common_mac })
    }
}

impl OpeningKey {
    /// Whether the governance requires that the owner encrypts; `None` if this key protects nothing of this kind.
    fn encrypts(&self, scope: Scope) -> Option<bool> {
        let kind = match (scope, self.owner.entity == EntityId::PARTICIPANT) {
            (Scope::Message, true) => self.levels.message,
            (Scope::Submessage, _) => self.levels.submessage,
            (Scope::Payload, false) => self.levels.payload,
            _ => ProtectionKind::None,
        };
        (!kind.is_none()).then(|| kind.encrypts())
    }

    fn open(&self, scope: Scope, header: &CryptoHeader, mac: &[u8; 16], text: Text<'_>) -> Option<()> {
        if self.encrypts(scope)? != text.is_encrypted() {
            return None;
        }
        let cipher = &self.cipher;
        let opened = match text.in_place() {
            Text::Signed(bytes) => {
                let additional = Aad::from([&[number(scope)], bytes].concat());
                cipher.open_in_place_separate_tag(nonce(header), additional, mac, &mut []).map(drop)
            }
            Text::Encrypted(bytes) => {
                let additional = Aad::from([number(scope)]);
                cipher.open_in_place_separate_tag(nonce(header), additional, mac, bytes).map(drop)
            }
            Text::EncryptedAcross { .. } => return None,
        };
        opened.ok()
    }
}

/// A text of one scope is none of another one: the number is authenticated.
const fn number(scope: Scope) -> u8 {
    match scope {
        Scope::Message => 1,
        Scope::Submessage => 2,
        Scope::Payload => 3,
    }
}

fn nonce(header: &CryptoHeader) -> Nonce {
    let mut nonce = [0; 12];
    let (session, suffix) = nonce.split_at_mut(4);
    session.copy_from_slice(&header.session_id);
    suffix.copy_from_slice(&header.suffix);
    Nonce::assume_unique_for_key(nonce)
}

/// The cipher with a key that is derived from this material.
fn cipher(material: &KeyMaterial) -> LessSafeKey {
    let master = hmac::Key::new(hmac::HMAC_SHA256, material.key.expose());
    let key = hmac::sign(&master, &[b"ChaCha20-Poly1305", material.salt.expose()].concat());
    let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).expect("HMAC-SHA256 has the 32 bytes of a key");
    LessSafeKey::new(key)
}

impl fmt::Debug for ChaCha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChaCha({} local entities, {} remote ones)", self.locals.len(), self.remotes.len())
    }
}

impl fmt::Debug for Transformations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transformations")
    }
}
