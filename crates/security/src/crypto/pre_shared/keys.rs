//! The pre-shared keys of one participant.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{
    OpenError, Protection, ProtectionKind, ProtectionLevels, Scope, Seal, SealError, Text,
};
use peregrine_rtps::time::Instant;
use peregrine_rtps::vendor::{ProtocolVersion, VendorId};
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader, Header, ReceiverMac};

use super::super::algorithm::{Algorithm, KeyLength};
use super::super::derive::{PreSharedKey, PreSharedKeyOwner, domain_key_id};
use super::super::opening::{OpeningKey, Uses};
use super::super::sealing::{SealingKey, Start};
use super::budget::Budget;
use super::passphrase::{Passphrase, Passphrases};
use super::senders::{SenderKey, Senders};
use crate::limits::BLOCKS_PER_SESSION;

/// Settings of pre-shared keys, fixed for the lifetime of a participant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreSharedConfig {
    /// Whether messages are signed or encrypted: the governance's `rtps_psk_protection_kind`, or the property of that
    /// name. `None` protects nothing.
    pub kind: ProtectionKind,
    /// The length of the keys of this participant. Peers may use the other one.
    pub key_length: KeyLength,
    /// The id of the domain.
    pub domain_id: u32,
    /// The tag of the domain, empty by default.
    pub domain_tag: String,
    /// The GUID prefix of this participant.
    pub prefix: GuidPrefix,
}

/// Seals and opens messages with keys derived from passphrases, on any number of threads, without locks.
///
/// As a [`Protection`], it protects all messages of a participant without certificates (`DDS:Crypto:PSK`). Such keys
/// prove that the sender knows a passphrase, and not which participant it is.
#[derive(Debug)]
pub struct PreSharedKeys {
    config: PreSharedConfig,
    accepted_key_length: KeyLength,
    /// The bytes of the ids of keys that state the domain.
    domain: [u8; 3],
    current: ArcSwap<Current>,
    senders: Senders,
    budget: Budget,
    serials: AtomicU64,
}

/// The passphrases in use.
#[derive(Debug, Default)]
struct Current {
    /// The one to seal with first.
    known: Vec<Known>,
    /// `None` without passphrases: then nothing is sent, and nothing accepted.
    sealing: Option<SealingKey>,
}

#[derive(Clone, Debug)]
struct Known {
    secret: PreSharedKey,
    /// Differs from that of all other passphrases, earlier ones included.
    serial: u64,
}

impl PreSharedKeys {
    /// Keys from these passphrases. Without any, nothing is sent and nothing is accepted.
    #[must_use]
    pub fn new(config: PreSharedConfig, passphrases: Option<&Passphrases>, random: &mut dyn FnMut(&mut [u8])) -> Self {
        let (current, senders) = (ArcSwap::from_pointee(Current::default()), Senders::new());
        let domain = domain_key_id(config.domain_id, &config.domain_tag);
        let accepted_key_length = KeyLength::Aes128;
        let (budget, serials) = (Budget::default(), AtomicU64::new(0));
        let keys = Self { config, accepted_key_length, domain, current, senders, budget, serials };
        if let Some(passphrases) = passphrases {
            keys.replace(passphrases, random);
        }
        keys
    }

    /// Refuses messages of peers with shorter keys than this.
    #[must_use]
    pub const fn accepting(mut self, least: KeyLength) -> Self {
        self.accepted_key_length = least;
        self
    }

    /// Whether messages are signed or encrypted.
    #[must_use]
    pub const fn kind(&self) -> ProtectionKind {
        self.config.kind
    }

    /// Replaces all passphrases: seals with the first of them from now on, and accepts only these.
    ///
    /// Each message states the number of its passphrase. No message is lost if all participants accept the new
    /// passphrase before the first one seals with it, and the old one until the last one does.
    pub fn replace(&self, passphrases: &Passphrases, random: &mut dyn FnMut(&mut [u8])) {
        let before = self.current.load();
        let mut known = Vec::new();
        for passphrase in passphrases.iter() {
            let secret = self.secret(passphrase);
            let kept = before.known.iter().find(|known| known.secret == secret).map(|known| known.serial);
            let serial = kept.unwrap_or_else(|| self.serials.fetch_add(1, Ordering::Relaxed));
            known.push(Known { secret, serial });
        }
        let algorithm = Algorithm { key_length: self.config.key_length, encrypts: self.config.kind.encrypts() };
        let header = Header { version: ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: self.config.prefix };
        // The prefix may be fixed by the application: nonces begin at random, so that a restart repeats none.
        let start = Start::random(random, (0, 0));
        let sealing = known.first().and_then(|primary| {
            let material = primary.secret.key_of(PreSharedKeyOwner::of(&header), algorithm);
            SealingKey::new(&material, BLOCKS_PER_SESSION, &start)
        });
        let serials: Vec<u64> = known.iter().map(|known| known.serial).collect();
        self.current.store(Arc::new(Current { known, sealing }));
        self.senders.retain(&serials);
    }

    /// The keys of senders that are kept.
    #[must_use]
    pub fn senders(&self) -> usize {
        self.senders.len()
    }

    fn secret(&self, passphrase: &Passphrase) -> PreSharedKey {
        PreSharedKey {
            passphrase_id: passphrase.id(),
            passphrase: passphrase.text().clone(),
            domain_id: self.config.domain_id,
            domain_tag: self.config.domain_tag.clone(),
        }
    }
}

impl Protection for PreSharedKeys {
    fn levels(&self, _: EntityId) -> ProtectionLevels {
        ProtectionLevels::default()
    }

    fn seal(&self, _: Scope, _: EntityId, _: Option<GuidPrefix>, _: Text<'_>) -> Result<Seal, SealError> {
        Err(SealError::NoKey)
    }

    fn receiver_mac(&self, _: Scope, _: EntityId, _: &Seal, _: Guid) -> Result<ReceiverMac, SealError> {
        Err(SealError::NoKey)
    }

    fn open(
        &self,
        _: Scope,
        _: GuidPrefix,
        _: &CryptoHeader,
        _: &CryptoFooter<'_>,
        _: Text<'_>,
    ) -> Result<Guid, OpenError> {
        Err(OpenError::UnknownKey)
    }

    fn pre_shared(&self) -> ProtectionKind {
        self.config.kind
    }

    fn seal_pre_shared(&self, text: Text<'_>) -> Result<Seal, SealError> {
        self.current.load().sealing.as_ref().and_then(|key| key.seal(text)).ok_or(SealError::NoKey)
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
        let current = self.current.load();
        let [r0, r1, r2, algorithm] = header.kind;
        let [.., low] = header.key_id;
        let id = u32::from_be_bytes([r0, r1, r2, low]);
        // Before any derivation: these need no secret.
        if !header.key_id.starts_with(&self.domain) {
            return Err(OpenError::OtherDomain);
        }
        let known = current.known.iter().find(|known| known.secret.passphrase_id == id);
        let known = known.ok_or(OpenError::UnknownPassphrase)?;
        let is_accepted = |found: &Algorithm| {
            found.encrypts == self.config.kind.encrypts() && found.key_length >= self.accepted_key_length
        };
        let algorithm = Algorithm::from_id(algorithm).filter(is_accepted).ok_or(OpenError::UnknownKey)?;
        if footer.receivers().len() > 0 {
            return Err(OpenError::NotAuthentic);
        }
        let owner = PreSharedKeyOwner::of(sender);
        let id = SenderKey { owner, serial: known.serial, algorithm: algorithm.id() };
        let mut text = Some(text);
        let mut open = |key: &OpeningKey| {
            let text = text.take().ok_or(OpenError::NotAuthentic)?;
            key.open_with_additional(Scope::Message, header, footer, additional, text).map(drop)
        };
        if let Some(opened) = self.senders.with(&id, now, &mut open) {
            return opened;
        }
        if !self.budget.take(now) {
            return Err(OpenError::TooManySenders);
        }
        let material = known.secret.key_of(owner, algorithm);
        let uses = Uses { message: true, ..Uses::default() };
        let key = OpeningKey::new(Guid::new(sender.prefix, EntityId::PARTICIPANT), uses, &material);
        let key = key.ok_or(OpenError::UnknownKey)?;
        open(&key)?;
        // Only a sender that knows the passphrase takes the room of another one.
        self.senders.insert(id, now, key);
        Ok(())
    }
}
