//! A protection without secrets, for the tests of this crate.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;
use std::vec::Vec;

use super::*;

/// Encrypts by inverting all bits, and believes every MAC.
#[derive(Debug, Default)]
pub(crate) struct MockProtection {
    levels: ProtectionLevels,
    /// The endpoint in whose name received bytes are opened. Without one, there is no key.
    owner: Option<EntityId>,
    /// The generation of the key for payloads, which is the id of each key.
    pub(crate) generation: AtomicU32,
    /// The scope and the receiver of each seal.
    pub(crate) seals: Mutex<Vec<(Scope, Option<GuidPrefix>)>>,
}

impl MockProtection {
    /// A protection that seals nothing and opens nothing.
    pub(crate) fn without_keys(levels: ProtectionLevels) -> Arc<Self> {
        Arc::new(Self { levels, ..Self::default() })
    }

    /// A protection that opens everything in the name of `owner`.
    pub(crate) fn of(owner: EntityId, levels: ProtectionLevels) -> Arc<Self> {
        Arc::new(Self { levels, owner: Some(owner), ..Self::default() })
    }

    /// The receivers of all seals in this scope.
    pub(crate) fn receivers_of(&self, scope: Scope) -> Vec<Option<GuidPrefix>> {
        let seals = self.seals.lock().unwrap();
        seals.iter().filter(|(sealed, _)| *sealed == scope).map(|(_, receiver)| *receiver).collect()
    }
}

impl Protection for MockProtection {
    fn levels(&self, _: EntityId) -> ProtectionLevels {
        self.levels
    }

    fn seal(&self, scope: Scope, _: EntityId, receiver: Option<GuidPrefix>, text: Text<'_>) -> Result<Seal, SealError> {
        self.owner.ok_or(SealError::NoKey)?;
        self.seals.lock().unwrap().push((scope, receiver));
        invert(text);
        let key_id = self.generation.load(Ordering::Relaxed).to_be_bytes();
        Ok(Seal { header: CryptoHeader { key_id, ..CryptoHeader::default() }, common_mac: [0; 16] })
    }

    fn payload_generation(&self, _: EntityId) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    fn receiver_mac(&self, _: Scope, _: EntityId, _: &Seal, _: Guid) -> Result<ReceiverMac, SealError> {
        Err(SealError::NoKey)
    }

    fn open(
        &self,
        _: Scope,
        source: GuidPrefix,
        _: &CryptoHeader,
        _: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError> {
        let owner = self.owner.ok_or(OpenError::UnknownKey)?;
        invert(text);
        Ok(Guid::new(source, owner))
    }
}

fn invert(text: Text<'_>) {
    if let Text::Encrypted(octets) = text.in_place() {
        octets.iter_mut().for_each(|octet| *octet = !*octet);
    }
}
