//! Payloads: protected once for all readers and all repairs, opened by each reader.

use alloc::sync::Arc;

use crate::id::{EntityId, Guid};
use crate::payload::{BufferPool, Payload};
use crate::wire::{CryptoContent, CryptoFooter, CryptoHeader};

use super::{OpenError, Protection, ProtectionKind, Scope, Seal, SealError, Text};

/// A protected sample, sent as one DATA or as DATA_FRAGs of one fragment each.
#[derive(Debug)]
pub(crate) struct SealedPayload {
    /// The protected bytes. Of a fragmented sample, the protected fragments one after the other.
    pub(crate) payload: Payload,
    /// The length of the unprotected sample, padded to a multiple of 4.
    pub(crate) plain_len: usize,
    /// The length of an unprotected fragment; 0 when the sample is sent as one DATA.
    pub(crate) fragment_size: u32,
    /// Bytes that protection adds to each part.
    pub(crate) overhead: usize,
    /// The generation of the key; see [`Protection::payload_generation`].
    pub(crate) generation: u32,
}

/// Bytes that protection adds to a payload, or to the fragments of one DATA_FRAG.
pub(super) const fn overhead(kind: ProtectionKind) -> usize {
    kind.pick(CryptoHeader::LEN + CryptoFooter::LEN, CryptoHeader::LEN + CryptoContent::HEAD + CryptoFooter::LEN)
}

/// The byte with the length of the padding: the last two bits of the encapsulation options (RTPS 2.5 §10.2.1.2).
const OPTIONS_AT: usize = 3;

/// Protects the payloads of one writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadSealer<'a> {
    pub(super) protection: &'a dyn Protection,
    pub(super) writer: EntityId,
    pub(super) kind: ProtectionKind,
}

impl PayloadSealer<'_> {
    /// Whether payloads cannot be read without the key.
    pub(crate) const fn encrypts(&self) -> bool {
        self.kind.encrypts()
    }

    /// The current generation of the key.
    pub(crate) fn generation(&self) -> u32 {
        self.protection.payload_generation(self.writer)
    }

    /// Protects a payload, each fragment separately.
    ///
    /// # Errors
    /// Why the payload must not be sent.
    pub(crate) fn seal(
        self,
        plain: &[u8],
        fragment_size: u32,
        pool: &mut BufferPool,
    ) -> Result<SealedPayload, SealError> {
        let Self { protection, writer, kind } = self;
        // Taken first: if the key is renewed meanwhile, the payload is sealed again.
        let generation = self.generation();
        // Implementations disagree about the protected range if the length is not a multiple of 4.
        let plain_len = plain.len().next_multiple_of(4);
        let part_len = if fragment_size == 0 { plain_len } else { fragment_size as usize };
        let overhead = overhead(kind);
        let parts = plain_len.div_ceil(part_len.max(1));
        let len = plain_len.saturating_add(parts.saturating_mul(overhead));
        let mut buffer = pool.take(len);
        let out = Arc::get_mut(&mut buffer).and_then(|buffer| buffer.get_mut(..len)).unwrap_or_default();
        let sealed_parts = out.chunks_mut(part_len.saturating_add(overhead));
        for (index, (plain_part, sealed)) in plain.chunks(part_len.max(1)).zip(sealed_parts).enumerate() {
            let text_at = kind.pick(CryptoHeader::LEN, CryptoHeader::LEN + CryptoContent::HEAD);
            let (head, rest) = sealed.split_at_mut_checked(text_at).unwrap_or_default();
            let text_len = rest.len().saturating_sub(CryptoFooter::LEN);
            let (text, footer) = rest.split_at_mut_checked(text_len).unwrap_or_default();
            let is_padded = plain_len > plain.len();
            let text = if is_padded || !kind.encrypts() {
                if let Some((copied, padding)) = text.split_at_mut_checked(plain_part.len()) {
                    copied.copy_from_slice(plain_part);
                    padding.fill(0);
                }
                if let Some(options) = text.get_mut(OPTIONS_AT).filter(|_| index == 0 && is_padded) {
                    *options = *options & !3 | (plain_len - plain.len()) as u8;
                }
                kind.text(text)
            } else {
                Text::EncryptedAcross { from: plain_part, to: text }
            };
            let seal = protection.seal(Scope::Payload, writer, None, text)?;
            seal.write_payload(head, text_len, footer);
        }
        let payload = Payload::new(buffer, 0..len).unwrap_or_default();
        Ok(SealedPayload { payload, plain_len, fragment_size, overhead, generation })
    }
}

impl Seal {
    /// Writes the frame before and after a protected payload.
    fn write_payload(&self, head: &mut [u8], text_len: usize, footer: &mut [u8]) {
        if let Some((header, len)) = head.split_at_mut_checked(CryptoHeader::LEN) {
            header.copy_from_slice(&self.header.to_bytes());
            if let Some(len) = len.first_chunk_mut() {
                *len = u32::try_from(text_len).unwrap_or(u32::MAX).to_be_bytes();
            }
        }
        if let Some((mac, count)) = footer.split_at_mut_checked(self.common_mac.len()) {
            mac.copy_from_slice(&self.common_mac);
            count.fill(0);
        }
    }
}

/// The unprotected payload of a DATA or DATA_FRAG of this writer.
///
/// # Errors
/// Why the payload cannot be trusted.
pub(crate) fn open(
    PayloadSealer { protection, kind, .. }: PayloadSealer<'_>,
    writer: Guid,
    octets: &[u8],
    pool: &mut BufferPool,
) -> Result<Payload, OpenError> {
    let (header, rest) = CryptoHeader::parse(octets).map_err(|_| OpenError::NotAuthentic)?;
    let (text, rest) = if kind.encrypts() {
        let (CryptoContent(text), rest) = CryptoContent::parse(rest).map_err(|_| OpenError::NotAuthentic)?;
        (text, rest)
    } else {
        let text_len = rest.len().checked_sub(CryptoFooter::LEN).ok_or(OpenError::NotAuthentic)?;
        rest.split_at_checked(text_len).ok_or(OpenError::NotAuthentic)?
    };
    let (footer, padding) = CryptoFooter::parse(rest).map_err(|_| OpenError::NotAuthentic)?;
    if padding.len() > 3 {
        return Err(OpenError::NotAuthentic);
    }
    let open = |text: Text<'_>| match protection.open(Scope::Payload, writer.prefix, &header, &footer, text) {
        Ok(sender) if sender == writer => Ok(()),
        Ok(_) => Err(OpenError::NotAuthentic),
        Err(error) => Err(error),
    };
    if kind.encrypts() {
        return pool.filled(text.len(), |to| open(Text::EncryptedAcross { from: text, to }));
    }
    open(Text::Signed(text))?;
    Ok(pool.copy_of(text))
}
