//! A protection for tests, with the lengths and checks of AES-GCM and receiver-specific GMACs, but without secrets.
//!
//! Keys follow from the GUIDs of sender and receiver, so no key exchange is needed. The cipher is XOR.

use std::sync::atomic::{AtomicU64, Ordering};

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{
    OpenError, Protection, ProtectionKind, ProtectionLevels, Scope, Seal, SealError, Text,
};
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader, ReceiverMac};

/// The protection of one participant.
#[derive(Debug)]
pub struct MockProtection {
    prefix: GuidPrefix,
    levels: ProtectionLevels,
    /// Participants of different domains have different keys.
    domain_key: u64,
    uses: AtomicU64,
}

impl MockProtection {
    /// Protects the user endpoints of a participant at these levels. The endpoints of endpoint discovery are protected
    /// at message level. Participants with another `domain_key` cannot communicate.
    #[must_use]
    pub const fn new(prefix: GuidPrefix, levels: ProtectionLevels, domain_key: u64) -> Self {
        Self { prefix, levels, domain_key, uses: AtomicU64::new(0) }
    }

    const fn kind(&self, scope: Scope) -> ProtectionKind {
        match scope {
            Scope::Message => self.levels.message,
            Scope::Submessage => self.levels.submessage,
            Scope::Payload => self.levels.payload,
        }
    }

    fn key(&self, scope: Scope, sender: Guid, nonce: &[u8]) -> u64 {
        hash(self.domain_key ^ scope as u64, &[&sender.to_bytes(), nonce])
    }

    fn receiver_key(&self, sender: Guid, receiver: Guid, nonce: &[u8]) -> u64 {
        hash(self.domain_key ^ 99, &[&sender.to_bytes(), &receiver.to_bytes(), nonce])
    }
}

impl Protection for MockProtection {
    fn levels(&self, endpoint: EntityId) -> ProtectionLevels {
        match endpoint {
            EntityId::SPDP_WRITER | EntityId::SPDP_READER => ProtectionLevels::default(),
            _ if endpoint.is_builtin() => {
                ProtectionLevels { message: self.levels.message, ..ProtectionLevels::default() }
            }
            _ => self.levels,
        }
    }

    fn seal(&self, scope: Scope, sender: EntityId, _: Option<GuidPrefix>, text: Text<'_>) -> Result<Seal, SealError> {
        let suffix = self.uses.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let kind = wire_kind(self.kind(scope));
        let header = CryptoHeader { kind, key_id: sender.0, session_id: [1, 2, 3, scope as u8], suffix };
        let key = self.key(scope, Guid::new(self.prefix, sender), &nonce(&header));
        let common_mac = match text.in_place() {
            Text::Signed(octets) => mac(key, octets),
            Text::Encrypted(octets) | Text::EncryptedAcross { to: octets, .. } => {
                let mac = mac(key, octets);
                apply(key, octets);
                mac
            }
        };
        Ok(Seal { header, common_mac })
    }

    fn receiver_mac(&self, _: Scope, sender: EntityId, seal: &Seal, receiver: Guid) -> Result<ReceiverMac, SealError> {
        let key = self.receiver_key(Guid::new(self.prefix, sender), receiver, &nonce(&seal.header));
        Ok(ReceiverMac { key_id: receiver.entity.0, mac: mac(key, &seal.common_mac) })
    }

    fn open(
        &self,
        scope: Scope,
        source: GuidPrefix,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError> {
        let kind = self.kind(scope);
        let sender = Guid::new(source, EntityId(header.key_id));
        if header.kind != wire_kind(kind) || kind.encrypts() != text.is_encrypted() {
            return Err(OpenError::UnknownKey);
        }
        let nonce = nonce(header);
        let proves = |receiver: ReceiverMac| {
            let own = Guid::new(self.prefix, EntityId(receiver.key_id));
            receiver.mac == mac(self.receiver_key(sender, own, &nonce), &footer.common_mac)
        };
        if kind.authenticates_origin() && scope != Scope::Payload && !footer.receivers().any(proves) {
            return Err(OpenError::NotAuthentic);
        }
        let key = self.key(scope, sender, &nonce);
        let octets = match text.in_place() {
            Text::Signed(octets) => octets,
            Text::Encrypted(octets) | Text::EncryptedAcross { to: octets, .. } => {
                apply(key, octets);
                &*octets
            }
        };
        if mac(key, octets) == footer.common_mac { Ok(sender) } else { Err(OpenError::NotAuthentic) }
    }
}

fn wire_kind(kind: ProtectionKind) -> [u8; 4] {
    [0, 0, 0, kind as u8]
}

fn nonce(header: &CryptoHeader) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&header.session_id);
    nonce[4..].copy_from_slice(&header.suffix);
    nonce
}

/// FNV-1a with a final mix.
fn hash(seed: u64, parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for octet in parts.iter().flat_map(|part| part.iter()) {
        hash = (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ hash >> 29
}

fn mac(key: u64, octets: &[u8]) -> [u8; 16] {
    let mut mac = [0; 16];
    mac[..8].copy_from_slice(&hash(key, &[octets]).to_be_bytes());
    mac[8..].copy_from_slice(&hash(!key, &[octets]).to_be_bytes());
    mac
}

fn apply(key: u64, octets: &mut [u8]) {
    let mut state = key | 1;
    for chunk in octets.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.iter_mut().zip(state.to_le_bytes()).for_each(|(octet, key)| *octet ^= key);
    }
}
