//! A protection without secrets. It opens texts for which a test has handed over the keys.

use alloc::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::payload::Wipe;
use crate::protection::{OpenError, Protection, ProtectionKind, ProtectionLevels, Scope, Seal, SealError, Text};
use crate::wire::{CryptoFooter, CryptoHeader, Endianness, InfoDestination, ReceiverMac};

/// The protection of one participant.
#[derive(Debug)]
pub(super) struct Mock {
    own: GuidPrefix,
    /// The protection of discovery between authenticated participants, and of user endpoints.
    pub(super) discovery: ProtectionKind,
    pub(super) user: ProtectionKind,
    used: AtomicU32,
    /// The participants with which there is a key of the pair.
    pairs: Mutex<BTreeSet<GuidPrefix>>,
    /// The remote endpoints of which there is a key.
    remotes: Mutex<BTreeSet<Guid>>,
}

impl Mock {
    pub(super) fn new(own: GuidPrefix, discovery: ProtectionKind, user: ProtectionKind) -> Arc<Self> {
        let (pairs, remotes) = Default::default();
        Arc::new(Self { own, discovery, user, used: AtomicU32::new(0), pairs, remotes })
    }

    pub(super) fn add_pair(&self, peer: GuidPrefix) {
        self.pairs.lock().unwrap().insert(peer);
    }

    pub(super) fn add_remote(&self, remote: Guid) {
        self.remotes.lock().unwrap().insert(remote);
    }

    pub(super) fn forget(&self, peer: GuidPrefix) {
        self.pairs.lock().unwrap().remove(&peer);
        self.remotes.lock().unwrap().retain(|remote| remote.prefix != peer);
    }

    /// A message of this participant with a protected submessage for host 1.
    pub(super) fn message(&self, sender: EntityId, mut submessage: Vec<u8>) -> Vec<u8> {
        let text = Text::Encrypted(&mut submessage);
        let seal = self.seal(Scope::Submessage, sender, Some(prefix(1)), text).unwrap();
        let mut out = Vec::new();
        Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: self.own }
            .emit(&mut out);
        InfoDestination { prefix: prefix(1) }.emit(Endianness::Little, &mut out);
        let mut footer = Vec::new();
        CryptoFooter::emit_bytes(&seal.common_mac, core::iter::empty(), &mut footer);
        let content = [&u32::try_from(submessage.len()).unwrap().to_be_bytes()[..], &submessage].concat();
        for (id, body) in [(0x31, &seal.header.to_bytes()[..]), (0x30, &content), (0x32, &footer)] {
            out.extend_from_slice(&[id, 1]);
            out.extend_from_slice(&u16::try_from(body.len()).unwrap().to_le_bytes());
            out.extend_from_slice(body);
        }
        out
    }

    fn has_pair(&self, peer: GuidPrefix) -> bool {
        self.pairs.lock().unwrap().contains(&peer)
    }

    fn kind(&self, entity: EntityId) -> ProtectionKind {
        match entity {
            EntityId::VOLATILE_SECURE_WRITER | EntityId::VOLATILE_SECURE_READER => ProtectionKind::Encrypt,
            EntityId::STATELESS_MESSAGE_WRITER | EntityId::STATELESS_MESSAGE_READER => ProtectionKind::None,
            EntityId([0xff, ..]) => self.discovery,
            _ if entity.is_builtin() => ProtectionKind::None,
            _ => self.user,
        }
    }
}

/// The contents of all buffers that were overwritten, of all tests.
static OVERWRITTEN: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// The number of overwritten buffers that contained these bytes.
pub(super) fn overwritten(part: &[u8]) -> usize {
    let contains = |octets: &&Vec<u8>| octets.windows(part.len()).any(|window| window == part);
    OVERWRITTEN.lock().unwrap().iter().filter(contains).count()
}

/// A sum that depends on the order of bytes, and on the hosts that share the key.
fn mac(key: &[&[u8]], octets: &[u8]) -> [u8; 16] {
    let mut sum: u64 = 17;
    for octet in key.iter().flat_map(|part| part.iter()).chain(octets) {
        sum = sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(*octet);
    }
    let [a, b, c, d, e, f, g, h] = sum.to_be_bytes();
    [a, b, c, d, e, f, g, h, 1, 2, 3, 4, 5, 6, 7, 8]
}

fn of_pair(a: GuidPrefix, b: GuidPrefix) -> [u8; 24] {
    let mut key = [0; 24];
    key[..12].copy_from_slice(&a.min(b).0);
    key[12..].copy_from_slice(&a.max(b).0);
    key
}

fn encrypt(octets: &mut [u8]) {
    octets.iter_mut().for_each(|octet| *octet ^= 0x5a);
}

impl Protection for Mock {
    fn wiper(&self) -> Wipe {
        |bytes| {
            OVERWRITTEN.lock().unwrap().push(bytes.to_vec());
            bytes.fill(0);
        }
    }

    fn levels(&self, endpoint: EntityId) -> ProtectionLevels {
        ProtectionLevels { submessage: self.kind(endpoint), ..ProtectionLevels::default() }
    }

    fn seal(
        &self,
        _: Scope,
        sender: EntityId,
        receiver: Option<GuidPrefix>,
        text: Text<'_>,
    ) -> Result<Seal, SealError> {
        let is_exchange = sender.0[..3] == [0xff, 0x02, 0x02];
        let suffix = u64::from(self.used.fetch_add(1, Ordering::Relaxed)).to_be_bytes();
        let key_id = if is_exchange { [0; 4] } else { sender.0 };
        let header = CryptoHeader { key_id, suffix, ..CryptoHeader::default() };
        let mac = |octets: &[u8]| match receiver {
            Some(peer) if is_exchange && self.has_pair(peer) => Ok(mac(&[&of_pair(self.own, peer), &suffix], octets)),
            _ if is_exchange => Err(SealError::NoKey),
            _ => Ok(mac(&[&Guid::new(self.own, sender).to_bytes(), &suffix], octets)),
        };
        let common_mac = match text.in_place() {
            Text::Signed(octets) => mac(octets)?,
            Text::Encrypted(octets) | Text::EncryptedAcross { to: octets, .. } => {
                let common_mac = mac(octets)?;
                encrypt(octets);
                common_mac
            }
        };
        Ok(Seal { header, common_mac })
    }

    fn receiver_mac(&self, _: Scope, _: EntityId, _: &Seal, _: Guid) -> Result<ReceiverMac, SealError> {
        Err(SealError::NoKey)
    }

    fn open(
        &self,
        _: Scope,
        source: GuidPrefix,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError> {
        let octets = match text.in_place() {
            Text::Signed(octets) => octets,
            Text::Encrypted(octets) | Text::EncryptedAcross { to: octets, .. } => {
                encrypt(octets);
                octets
            }
        };
        let (owner, expected) = if header.key_id == [0; 4] {
            let key = of_pair(self.own, source);
            let owner = Guid::new(source, EntityId::PARTICIPANT);
            (Some(owner).filter(|_| self.has_pair(source)), mac(&[&key, &header.suffix], octets))
        } else {
            let owner = Guid::new(source, EntityId(header.key_id));
            let is_known = self.remotes.lock().unwrap().contains(&owner);
            (Some(owner).filter(|_| is_known), mac(&[&owner.to_bytes(), &header.suffix], octets))
        };
        let owner = owner.ok_or(OpenError::UnknownKey)?;
        if expected == footer.common_mac { Ok(owner) } else { Err(OpenError::NotAuthentic) }
    }
}
