//! Where security plugs in: what is protected at which level, and the transformation that protects it (DDS Security 1.2
//! §7.4.6, §10.5.2).
//!
//! A [`Protection`] knows keys and algorithms. This module knows the bytes around what is protected: it seals what an
//! endpoint sends (`seal`), and opens what a participant receives (`open`). An endpoint without a [`Protection`] sends
//! and receives as if this module did not exist.

pub(crate) mod open;
pub(crate) mod payload;
pub(crate) mod seal;
#[cfg(test)]
mod tests;

use core::fmt;

use crate::id::{EntityId, Guid, GuidPrefix};
use crate::wire::{CryptoFooter, CryptoHeader, ReceiverMac};

/// How something is protected (DDS Security 1.2 §10.4.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ProtectionKind {
    /// Not at all.
    #[default]
    None,
    /// All that have the sender's key can tell whether it was changed.
    Sign,
    /// Only they can read it, too.
    Encrypt,
    /// As [`Self::Sign`], and each receiver can tell that the sender made it, not another receiver.
    SignWithOriginAuthentication,
    /// As [`Self::Encrypt`], and each receiver can tell that the sender made it, not another receiver.
    EncryptWithOriginAuthentication,
}

/// How an endpoint's traffic is protected at each level, both what it sends and what it accepts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ProtectionLevels {
    /// RTPS messages as a whole: `SRTPS_PREFIX` to `SRTPS_POSTFIX`.
    pub message: ProtectionKind,
    /// The endpoint's submessages, one by one: `SEC_PREFIX` to `SEC_POSTFIX`.
    pub submessage: ProtectionKind,
    /// Serialized payloads, never with origin authentication.
    pub payload: ProtectionKind,
}

/// At which levels something that was received had been protected.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ProtectedAt {
    /// As part of a message.
    pub message: bool,
    /// As a submessage.
    pub submessage: bool,
}

/// At which level something is transformed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// An RTPS message. Sender and receivers are participants.
    Message,
    /// A submessage. Sender and receivers are endpoints.
    Submessage,
    /// A serialized payload, or the fragments of one DATA_FRAG. The sender is a writer.
    Payload,
}

/// The bytes to protect, or that were protected.
#[derive(PartialEq, Eq, Debug)]
pub enum Text<'a> {
    /// Bytes that stay as they are and are signed.
    Signed(&'a [u8]),
    /// Bytes that are encrypted or decrypted in place; their number stays the same.
    Encrypted(&'a mut [u8]),
}

/// What a transformation adds to protected bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seal {
    /// Algorithm, key and nonce.
    pub header: CryptoHeader,
    /// The proof for all that have the sender's key.
    pub common_mac: [u8; 16],
}

/// Why something cannot be sent: it must not leave unprotected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SealError {
    /// There is no key for this sender or receiver.
    NoKey,
    /// It has more bytes than a protected submessage can have.
    TooLong,
}

/// Why something that was received cannot be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// There is no key with this number of this sender, or it is of another kind.
    UnknownKey,
    /// The proof is wrong, or the one for this participant is missing.
    NotAuthentic,
}

/// The transformations of one participant, and its keys (CryptoTransform of DDS Security 1.2 §9.5.1.9).
///
/// All calls are short computations: no I/O, no waiting. Endpoints and participant call from several threads.
pub trait Protection: fmt::Debug + Send + Sync {
    /// How the traffic of this local endpoint is protected. Fixed for its lifetime. Endpoints whose messages may leave
    /// and come in unprotected, such as those of participant discovery, have no `message` level.
    fn levels(&self, endpoint: EntityId) -> ProtectionLevels;

    /// Protects `text` in the name of a local endpoint; of the participant, where messages are meant.
    ///
    /// # Errors
    /// Why it must not leave.
    fn seal(&self, scope: Scope, sender: EntityId, text: Text<'_>) -> Result<Seal, SealError>;

    /// The proof for one receiver that the sender made this seal. Asked for where origins are authenticated.
    ///
    /// # Errors
    /// Why nothing must leave for that receiver.
    fn receiver_mac(
        &self,
        scope: Scope,
        sender: EntityId,
        seal: &Seal,
        receiver: Guid,
    ) -> Result<ReceiverMac, SealError>;

    /// Checks what came from a participant, decrypts `text` in place where it was encrypted, and names the sender whose
    /// key this is. Where origins are authenticated, a proof for this participant, or for one of its endpoints, has to
    /// be among those of the footer.
    ///
    /// # Errors
    /// Why it cannot be trusted. What `text` then contains has no meaning.
    fn open(
        &self,
        scope: Scope,
        source: GuidPrefix,
        header: &CryptoHeader,
        footer: &CryptoFooter<'_>,
        text: Text<'_>,
    ) -> Result<Guid, OpenError>;
}

impl ProtectionLevels {
    /// Whether an endpoint with these levels takes what had been protected like that.
    #[must_use]
    pub const fn permit(&self, at: ProtectedAt) -> bool {
        (self.message.is_none() || at.message) && (self.submessage.is_none() || at.submessage)
    }
}

impl ProtectionKind {
    /// Whether there is none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether only holders of the key can read what is protected.
    #[must_use]
    pub const fn encrypts(self) -> bool {
        matches!(self, Self::Encrypt | Self::EncryptWithOriginAuthentication)
    }

    /// Whether each receiver gets a proof of its own.
    #[must_use]
    pub const fn authenticates_origin(self) -> bool {
        matches!(self, Self::SignWithOriginAuthentication | Self::EncryptWithOriginAuthentication)
    }

    /// Bytes ahead of the protected ones, given those of prefix and body.
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
