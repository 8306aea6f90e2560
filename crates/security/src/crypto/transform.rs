//! The transformations: keys are looked up and used.

use std::sync::{Arc, OnceLock};

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::payload::Wipe;
use peregrine_rtps::protection::{
    OpenError, Protection, ProtectionKind, ProtectionLevels, Scope, Seal, SealError, Text,
};
use peregrine_rtps::time::Instant;
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader, Header, ReceiverMac};
use zeroize::Zeroize;

use super::opening::OpeningKey;
use super::pre_shared::PreSharedKeys;
use super::sealing::{ReceiverSealingKey, SealingKey};
use super::secure_entity::{is_key_channel, unregistered_levels};
use super::table::Table;

/// Parts of a table for all entities of all participants.
const MANY: usize = 64;

/// Protects and opens with the keys of a [`KeyFactory`](super::KeyFactory) (CryptoTransform of DDS Security 1.2
/// §9.5.1.10).
///
/// Replays are the concern of RTPS: sequence numbers reject repeated samples, and counts reject repeated HEARTBEATs and
/// ACKNACKs. Messages of an earlier session of a peer cannot be opened, since its keys were others.
#[derive(Debug)]
pub struct Cryptography {
    message_kind: ProtectionKind,
    locals: Table<EntityId, LocalSender>,
    /// By the participant and the number that it gave the key.
    remotes: Table<(GuidPrefix, [u8; 4]), OpeningKey>,
    /// The keys for the exchange of keys, by the peer.
    exchange: Table<GuidPrefix, SealingKey>,
    /// For messages that no key of a participant protects.
    pre_shared: OnceLock<Arc<PreSharedKeys>>,
}

/// A local participant or endpoint. New keys replace it as a whole.
#[derive(Debug)]
pub(super) struct LocalSender {
    pub(super) levels: ProtectionLevels,
    /// For messages of the participant, or submessages of the endpoint.
    pub(super) frames: Option<SealingKey>,
    pub(super) payloads: Option<SealingKey>,
}

impl Cryptography {
    pub(super) fn new(message_kind: ProtectionKind) -> Self {
        Self {
            message_kind,
            locals: Table::with_parts(MANY),
            remotes: Table::with_parts(MANY),
            exchange: Table::with_parts(MANY),
            pre_shared: OnceLock::new(),
        }
    }

    /// Protects a submessage of the channel on which keys are exchanged, for one participant.
    ///
    /// # Errors
    /// There is no key yet, or `text` is not to be encrypted.
    fn seal_exchange(&self, peer: GuidPrefix, text: Text<'_>) -> Result<Seal, SealError> {
        self.exchange.with(&peer, |key| key.seal(text)).flatten().ok_or(SealError::NoKey)
    }

    /// Begins a new session of a local sender with its next texts, with other keys and without an exchange of keys.
    pub fn renew_session(&self, sender: EntityId) {
        let renew = |local: &LocalSender| {
            let keys = [&local.frames, &local.payloads];
            keys.into_iter().flatten().for_each(SealingKey::renew_session);
        };
        self.locals.with(&sender, renew);
    }

    /// The AES blocks that a local sender has sealed with its current key; of two keys, with the one that sealed more.
    #[must_use]
    pub fn blocks_sealed(&self, sender: EntityId) -> u64 {
        let blocks = |local: &LocalSender| {
            let keys = [&local.frames, &local.payloads];
            keys.into_iter().flatten().map(SealingKey::blocks).max().unwrap_or(0)
        };
        self.locals.with(&sender, blocks).unwrap_or(0)
    }

    /// Protects messages that no key of a participant protects with these keys, from the beginning on.
    pub(crate) fn set_pre_shared(&self, keys: Arc<PreSharedKeys>) {
        let is_first = self.pre_shared.set(keys).is_ok();
        debug_assert!(is_first, "the keys are set once, before the first message");
    }

    pub(super) fn insert_local(&self, entity: EntityId, local: LocalSender) {
        self.locals.insert(entity, Arc::new(local));
    }

    pub(super) fn remove_local(&self, entity: EntityId) {
        self.locals.remove(&entity);
    }

    /// Seals with the same keys for a further receiver.
    pub(super) fn set_receiver(&self, local: EntityId, receiver: Guid, key: ReceiverSealingKey) {
        self.locals.with(&local, |sender| sender.frames.as_ref().map(|frames| frames.set_receiver(receiver, key)));
    }

    pub(super) fn remove_receiver(&self, local: EntityId, receiver: Guid) {
        self.locals.with(&local, |sender| sender.frames.as_ref().map(|frames| frames.remove_receiver(receiver)));
    }

    pub(super) fn remote(&self, prefix: GuidPrefix, key_id: [u8; 4]) -> Option<Arc<OpeningKey>> {
        self.remotes.get(&(prefix, key_id))
    }

    pub(super) fn insert_remote(&self, prefix: GuidPrefix, key_id: [u8; 4], key: OpeningKey) {
        self.remotes.insert((prefix, key_id), Arc::new(key));
    }

    pub(super) fn remove_remote(&self, prefix: GuidPrefix, key_id: [u8; 4]) {
        self.remotes.remove(&(prefix, key_id));
    }

    /// Drops the expanded session keys of idle remote senders, and returns the number of senders.
    pub(super) fn drop_idle_sessions(&self) -> usize {
        self.remotes.replace(OpeningKey::without_idle_sessions)
    }

    pub(super) fn insert_exchange(&self, peer: GuidPrefix, key: SealingKey) {
        self.exchange.insert(peer, Arc::new(key));
    }

    pub(super) fn remove_exchange(&self, peer: GuidPrefix) {
        self.exchange.remove(&peer);
    }

    pub(super) const fn message_kind(&self) -> ProtectionKind {
        self.message_kind
    }

    #[cfg(test)]
    pub(super) fn remote_count(&self) -> usize {
        self.remotes.len()
    }
}

impl LocalSender {
    fn key(&self, scope: Scope) -> Option<&SealingKey> {
        match scope {
            Scope::Message | Scope::Submessage => self.frames.as_ref(),
            Scope::Payload => self.payloads.as_ref(),
        }
    }
}

impl Protection for Cryptography {
    fn levels(&self, endpoint: EntityId) -> ProtectionLevels {
        let registered = self.locals.with(&endpoint, |local| local.levels);
        registered.unwrap_or_else(|| unregistered_levels(endpoint, self.message_kind))
    }

    fn seal(
        &self,
        scope: Scope,
        sender: EntityId,
        receiver: Option<GuidPrefix>,
        text: Text<'_>,
    ) -> Result<Seal, SealError> {
        if is_key_channel(sender) {
            // Each pair of participants has a key of its own.
            return self.seal_exchange(receiver.ok_or(SealError::NoKey)?, text);
        }
        let seal = |local: &LocalSender| local.key(scope)?.seal(text);
        self.locals.with(&sender, seal).flatten().ok_or(SealError::NoKey)
    }

    fn wiper(&self) -> Wipe {
        |bytes| bytes.zeroize()
    }

    fn payload_generation(&self, writer: EntityId) -> u32 {
        let id = |local: &LocalSender| local.payloads.as_ref().map(|key| u32::from_be_bytes(key.id()));
        self.locals.with(&writer, id).flatten().unwrap_or(0)
    }

    fn pre_shared(&self) -> ProtectionKind {
        self.pre_shared.get().map_or(ProtectionKind::None, |keys| keys.kind())
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

    fn receiver_mac(&self, _: Scope, sender: EntityId, seal: &Seal, receiver: Guid) -> Result<ReceiverMac, SealError> {
        let mac = |local: &LocalSender| local.frames.as_ref()?.receiver_mac(seal, receiver);
        self.locals.with(&sender, mac).flatten().ok_or(SealError::NoKey)
    }

    fn open(
        &self,
        scope: Scope,
        source: GuidPrefix,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError> {
        let opened = self.remotes.with(&(source, header.key_id), |key| key.open(scope, header, footer, text));
        opened.unwrap_or(Err(OpenError::UnknownKey))
    }
}
