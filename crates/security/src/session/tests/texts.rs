//! Protected texts as they travel.

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::{OpenError, Protection, ProtectionKind, Scope, SealError, Text};
use peregrine_rtps::wire::{CryptoFooter, CryptoHeader};

pub(super) const TEXT: &[u8] = b"sixteen octets.. and some more..";

/// A protected text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sealed {
    scope: Scope,
    encrypted: bool,
    octets: Vec<u8>,
    text_len: usize,
}

impl Sealed {
    /// Seals for one receiver.
    pub(super) fn new(
        by: &dyn Protection,
        scope: Scope,
        sender: EntityId,
        kind: ProtectionKind,
        receiver: Guid,
        text: &[u8],
    ) -> Result<Self, SealError> {
        let encrypted = kind.encrypts();
        let mut octets = text.to_vec();
        let text = if encrypted { Text::Encrypted(&mut octets) } else { Text::Signed(&octets) };
        let seal = by.seal(scope, sender, Some(receiver.prefix), text)?;
        let macs = kind.authenticates_origin().then(|| by.receiver_mac(scope, sender, &seal, receiver)).transpose()?;
        let text_len = octets.len();
        let mut sealed = seal.header.to_bytes().to_vec();
        sealed.extend_from_slice(&octets);
        CryptoFooter::emit_bytes(&seal.common_mac, macs.into_iter(), &mut sealed);
        Ok(Self { scope, encrypted, octets: sealed, text_len })
    }

    /// The sender and the text as a receiver sees them.
    pub(super) fn open(&self, source: GuidPrefix, by: &dyn Protection) -> Result<(Guid, Vec<u8>), OpenError> {
        let (header, rest) = CryptoHeader::parse(&self.octets).map_err(|_| OpenError::NotAuthentic)?;
        let (text, footer) = rest.split_at(self.text_len);
        let (footer, rest) = CryptoFooter::parse(footer).map_err(|_| OpenError::NotAuthentic)?;
        if !rest.is_empty() {
            return Err(OpenError::NotAuthentic);
        }
        let mut octets = text.to_vec();
        let text = if self.encrypted { Text::Encrypted(&mut octets) } else { Text::Signed(&octets) };
        let sender = by.open(self.scope, source, &header, &footer, text)?;
        Ok((sender, octets))
    }

    /// The same with one bit changed.
    pub(super) fn flipped(&self, bit: usize) -> Self {
        let mut sealed = self.clone();
        sealed.octets[bit / 8] ^= 1 << (bit % 8);
        sealed
    }

    pub(super) fn bits(&self) -> usize {
        self.octets.len() * 8
    }

    /// Whether the text is readable.
    pub(super) fn shows(&self, text: &[u8]) -> bool {
        self.octets.windows(text.len()).any(|window| window == text)
    }
}
