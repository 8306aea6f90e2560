//! The interface to a security implementation: what is protected at which level, and the transformation that protects
//! it (DDS Security 1.2 §7.4.6, §10.5.2).
//!
//! A [`Protection`] has the keys and algorithms; the endpoints of a participant share it as a [`SharedProtection`].
//! This module has the formats around protected bytes: it protects what an endpoint sends (`seal`), and verifies and
//! decrypts what a participant receives (`open`). Without a [`Protection`], this module has no effect.

#[cfg(test)]
pub(crate) mod mock;
pub(crate) mod open;
pub(crate) mod payload;
pub(crate) mod seal;
mod shared;
#[cfg(test)]
mod tests;

use core::fmt;

pub use shared::SharedProtection;

use crate::id::{EntityId, Guid, GuidPrefix};
use crate::payload::Wipe;
use crate::time::Instant;
use crate::wire::{CryptoFooter, CryptoHeader, Header, ReceiverMac};

/// The flag of `SRTPS_PREFIX` that the RTPS header is authenticated, too, and no INFO_SRC repeats it (DDS Security 1.2
/// §7.4.6.6.2).
const ADDITIONAL_DATA_FLAG: u8 = 0x02;
/// The flag of `SRTPS_PREFIX` for a pre-shared key.
const PRE_SHARED_FLAG: u8 = 0x04;

/// A kind of protection (DDS Security 1.2 §10.4.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ProtectionKind {
    /// No protection.
    #[default]
    None,
    /// All holders of the sender's key can detect changes.
    Sign,
    /// Only holders of the sender's key can read the bytes, and they can detect changes.
    Encrypt,
    /// As [`Self::Sign`], and each receiver can verify that the sender, not another receiver, made the signature.
    SignWithOriginAuthentication,
    /// As [`Self::Encrypt`], and each receiver can verify that the sender, not another receiver, encrypted the bytes.
    EncryptWithOriginAuthentication,
}

/// The protection of an endpoint's traffic at each level, both sent and received.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ProtectionLevels {
    /// RTPS messages as a whole: `SRTPS_PREFIX` to `SRTPS_POSTFIX`.
    pub message: ProtectionKind,
    /// The endpoint's submessages, one by one: `SEC_PREFIX` to `SEC_POSTFIX`.
    pub submessage: ProtectionKind,
    /// Serialized payloads, never with origin authentication.
    pub payload: ProtectionKind,
}

/// The levels at which received bytes were protected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ProtectedAt {
    /// As part of a message.
    pub message: bool,
    /// As a submessage.
    pub submessage: bool,
}

impl ProtectedAt {
    /// Whether the bytes were protected at any level.
    #[must_use]
    pub const fn is_any(self) -> bool {
        self.message || self.submessage
    }
}

/// The level of a transformation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// An RTPS message. Sender and receivers are participants.
    Message,
    /// A submessage. Sender and receivers are endpoints.
    Submessage,
    /// A serialized payload, or the fragments of one DATA_FRAG. The sender is a writer.
    Payload,
}

/// The bytes to protect, or protected bytes.
#[derive(PartialEq, Eq, Debug)]
pub enum Text<'a> {
    /// Bytes that are signed and not changed.
    Signed(&'a [u8]),
    /// Bytes that are encrypted or decrypted in place; their length does not change.
    Encrypted(&'a mut [u8]),
    /// Bytes that are encrypted or decrypted from one place to another of the same length, which saves a copy.
    EncryptedAcross {
        /// The bytes before the transformation.
        from: &'a [u8],
        /// The place of the bytes after it.
        to: &'a mut [u8],
    },
}

/// The result of a transformation besides the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seal {
    /// Algorithm, key and nonce.
    pub header: CryptoHeader,
    /// The MAC for all holders of the sender's key.
    pub common_mac: [u8; 16],
}

/// Why bytes cannot be protected, and so must not be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealError {
    /// There is no key for this sender or receiver.
    NoKey,
    /// The text is longer than a protected submessage can be.
    TooLong,
}

/// Why received bytes cannot be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The sender has no key with this number, or the key is of another kind.
    UnknownKey,
    /// The MAC is wrong, or the one for this participant is missing.
    NotAuthentic,
    /// The pre-shared key is that of another domain or domain tag.
    OtherDomain,
    /// The passphrase of the pre-shared key is not known here.
    UnknownPassphrase,
    /// Too many unknown senders have used a pre-shared key lately.
    TooManySenders,
    /// Too many texts in the name of this sender have named a new session of its key lately.
    TooManySessions,
}

/// The transformations of one participant, and its keys (CryptoTransform of DDS Security 1.2 §9.5.1.10).
///
/// All calls are short computations, without I/O or waiting. Several threads call at the same time.
pub trait Protection: fmt::Debug + Send + Sync {
    /// The protection of this local endpoint's traffic. Fixed for its lifetime. Endpoints that send and accept
    /// unprotected messages, such as those of participant discovery, have no `message` level.
    fn levels(&self, endpoint: EntityId) -> ProtectionLevels;

    /// Protects `text` in the name of a local endpoint, or, for messages, in the name of the participant. `receiver` is
    /// the only participant that gets the bytes; `None` if there are several, and for payloads, which are sealed once
    /// for all readers.
    ///
    /// # Errors
    /// Why `text` must not be sent.
    fn seal(
        &self,
        scope: Scope,
        sender: EntityId,
        receiver: Option<GuidPrefix>,
        text: Text<'_>,
    ) -> Result<Seal, SealError>;

    /// A number that is another one once the key for the payloads of this writer was renewed. Payloads that were sealed
    /// before are sealed again when they are next sent, because later readers do not get the earlier key.
    fn payload_generation(&self, writer: EntityId) -> u32 {
        _ = writer;
        0
    }

    /// Overwrites bytes of messages with keys once they are used. Implementations with secrets overwrite in a way that
    /// the compiler must keep; without one, the compiler may leave the overwriting out.
    fn wiper(&self) -> Wipe {
        |bytes| {
            bytes.fill(0);
            core::hint::black_box(&*bytes);
        }
    }

    /// The protection, by a key that participants share before they meet, of messages that no key of a participant
    /// protects as a whole (DDS Security 1.2 §10.4.1.2.5.8): `Sign`, `Encrypt` or, without such a key, `None`. With it,
    /// a received message that is not protected as a whole is dropped unread. Fixed for the lifetime.
    fn pre_shared(&self) -> ProtectionKind {
        ProtectionKind::None
    }

    /// Protects a message of this participant with the pre-shared key.
    ///
    /// # Errors
    /// Why `text` must not be sent.
    fn seal_pre_shared(&self, text: Text<'_>) -> Result<Seal, SealError> {
        _ = text;
        Err(SealError::NoKey)
    }

    /// Verifies a message that is protected with the pre-shared key of the participant that `sender` names, and
    /// decrypts `text` in place if it was encrypted. `additional` is authenticated, too. `now` bounds the work for
    /// unknown senders in a time.
    ///
    /// # Errors
    /// Why the message cannot be trusted. The content of `text` is then undefined.
    fn open_pre_shared(
        &self,
        now: Instant,
        sender: &Header,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        additional: &[u8],
        text: Text<'_>,
    ) -> Result<(), OpenError> {
        _ = (now, sender, header, footer, additional, text);
        Err(OpenError::UnknownKey)
    }

    /// The MAC that proves to one receiver that the sender made this seal. Called if origins are authenticated.
    ///
    /// # Errors
    /// Why the message must not be sent to that receiver.
    fn receiver_mac(
        &self,
        scope: Scope,
        sender: EntityId,
        seal: &Seal,
        receiver: Guid,
    ) -> Result<ReceiverMac, SealError>;

    /// Verifies bytes from a participant, decrypts `text` in place if it was encrypted, and returns the sender that
    /// owns the key. If origins are authenticated, the footer must contain a MAC for this participant or one of its
    /// endpoints.
    ///
    /// # Errors
    /// Why the bytes cannot be trusted. The content of `text` is then undefined.
    fn open(
        &self,
        scope: Scope,
        source: GuidPrefix,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError>;
}

impl<'a> Text<'a> {
    /// Whether the bytes are encrypted.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        !matches!(self, Self::Signed(_))
    }

    /// The number of bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Signed(octets) | Self::EncryptedAcross { from: octets, .. } => octets.len(),
            Self::Encrypted(octets) => octets.len(),
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same text without [`Self::EncryptedAcross`]: copied to its place, for a transformation that works in place.
    #[must_use]
    pub fn in_place(self) -> Self {
        match self {
            Self::EncryptedAcross { from, to } => {
                debug_assert_eq!(from.len(), to.len(), "both places have the same length");
                let len = from.len().min(to.len());
                let (to, _) = to.split_at_mut(len);
                to.copy_from_slice(from.get(..len).unwrap_or_default());
                Self::Encrypted(to)
            }
            text => text,
        }
    }
}

impl ProtectionLevels {
    /// Whether an endpoint with these levels accepts input with this protection.
    #[must_use]
    pub const fn permit(&self, at: ProtectedAt) -> bool {
        (self.message.is_none() || at.message) && (self.submessage.is_none() || at.submessage)
    }
}

impl ProtectionKind {
    /// Whether this is [`Self::None`].
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether only holders of the key can read the protected bytes.
    #[must_use]
    pub const fn encrypts(self) -> bool {
        matches!(self, Self::Encrypt | Self::EncryptWithOriginAuthentication)
    }

    /// Whether each receiver gets a separate MAC.
    #[must_use]
    pub const fn authenticates_origin(self) -> bool {
        matches!(self, Self::SignWithOriginAuthentication | Self::EncryptWithOriginAuthentication)
    }

    /// The length of the bytes before protected ones, from the lengths for signed and for encrypted text.
    const fn pick(self, signed: usize, encrypted: usize) -> usize {
        if self.is_none() {
            0
        } else if self.encrypts() {
            encrypted
        } else {
            signed
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownKey => "no such key of this sender",
            Self::NotAuthentic => "not made by this sender for this participant, or changed on the way",
            Self::OtherDomain => "the pre-shared key is that of another domain",
            Self::UnknownPassphrase => "the passphrase of the pre-shared key is not known here",
            Self::TooManySenders => "too many unknown senders have used a pre-shared key lately",
            Self::TooManySessions => "too many new sessions of this key were named lately",
        })
    }
}

impl core::error::Error for OpenError {}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoKey => "no key for this sender or receiver",
            Self::TooLong => "too long for a protected submessage",
        })
    }
}

impl core::error::Error for SealError {}
