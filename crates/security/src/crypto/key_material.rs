//! Key material: the keys that a sender gives to its receivers.

use core::fmt;

use super::algorithm::Algorithm;
use crate::secret::Secret;

/// KeyMaterial_AES_GCM_GMAC (DDS Security 1.2 §10.5.2.1.1).
///
/// ```text
/// transformation kind             4 bytes: revision of the key (3), algorithm (1)
/// master salt                     length: 4 bytes, big endian; bytes
/// sender key id                   4 bytes
/// master sender key               length: 4 bytes, big endian; bytes
/// receiver-specific key id        4 bytes
/// master receiver-specific key    length: 4 bytes, big endian; bytes
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyMaterial {
    /// The revision of the key; zeros unless both peers use key revisions.
    pub revision: [u8; 3],
    /// The algorithm; `None` if nothing is protected, and then salt and key are empty.
    pub algorithm: Option<Algorithm>,
    /// Input to the derivation of all session keys.
    pub salt: Secret,
    /// Identifies the key among those of its sender.
    pub key_id: [u8; 4],
    /// The key for all receivers.
    pub key: Secret,
    /// The key for one receiver, if origins are authenticated.
    pub receiver: Option<ReceiverKey>,
}

/// A key that a sender shares with one receiver, to prove the origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceiverKey {
    /// Identifies the key among those of its sender. Not zero.
    pub id: [u8; 4],
    /// The key.
    pub key: Secret,
}

/// Why bytes are no key material.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MalformedKeyMaterial {
    /// The bytes end within a field.
    Truncated,
    /// Bytes follow the last field.
    TrailingBytes,
    /// The algorithm is unknown.
    Algorithm,
    /// A salt or key is not as long as the algorithm requires.
    Length,
    /// A receiver-specific key has no id, or the id has no key.
    Receiver,
    /// A key has only zeros.
    ZeroKey,
}

impl KeyMaterial {
    /// Key material with no key, for a sender that protects nothing.
    #[must_use]
    pub fn none() -> Self {
        let (salt, key) = (Secret::default(), Secret::default());
        Self { revision: [0; 3], algorithm: None, salt, key_id: [0; 4], key, receiver: None }
    }

    /// The transformation kind in the header of what is protected with this key.
    #[must_use]
    pub fn kind(&self) -> [u8; 4] {
        let [a, b, c] = self.revision;
        [a, b, c, self.algorithm.map_or(0, Algorithm::id)]
    }

    /// Parses big-endian CDR without encapsulation.
    ///
    /// # Errors
    /// Why the bytes are no key material.
    pub fn parse(octets: &[u8]) -> Result<Self, MalformedKeyMaterial> {
        let mut fields = Fields(octets);
        let [a, b, c, id] = fields.octets()?;
        let salt = fields.secret()?;
        let key_id = fields.octets()?;
        let key = fields.secret()?;
        let receiver_id = fields.octets()?;
        let receiver_key = fields.secret()?;
        if !fields.0.is_empty() {
            return Err(MalformedKeyMaterial::TrailingBytes);
        }
        let algorithm = Algorithm::from_id(id);
        if algorithm.is_none() && id != 0 {
            return Err(MalformedKeyMaterial::Algorithm);
        }
        let len = algorithm.map_or(0, |algorithm| algorithm.key_length.bytes());
        let has_receiver = receiver_id != [0; 4];
        if salt.len() != len || key.len() != len || (!receiver_key.is_empty() && receiver_key.len() != len) {
            return Err(MalformedKeyMaterial::Length);
        }
        if has_receiver == receiver_key.is_empty() {
            return Err(MalformedKeyMaterial::Receiver);
        }
        if algorithm.is_some() && (key.is_zero() || (has_receiver && receiver_key.is_zero())) {
            return Err(MalformedKeyMaterial::ZeroKey);
        }
        let receiver = has_receiver.then_some(ReceiverKey { id: receiver_id, key: receiver_key });
        Ok(Self { revision: [a, b, c], algorithm, salt, key_id, key, receiver })
    }

    /// Big-endian CDR without encapsulation.
    #[must_use]
    pub fn to_bytes(&self) -> Secret {
        let (receiver_id, receiver_key) =
            self.receiver.as_ref().map_or(([0; 4], &[][..]), |receiver| (receiver.id, receiver.key.expose()));
        let sequences = [self.salt.expose(), self.key.expose(), receiver_key];
        let len = sequences.iter().map(|octets| 8 + octets.len()).sum();
        let mut out = Vec::with_capacity(len);
        for (before, octets) in [self.kind(), self.key_id, receiver_id].into_iter().zip(sequences) {
            out.extend_from_slice(&before);
            out.extend_from_slice(&u32::try_from(octets.len()).unwrap_or(u32::MAX).to_be_bytes());
            out.extend_from_slice(octets);
        }
        Secret::from(out)
    }
}

struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn octets<const N: usize>(&mut self) -> Result<[u8; N], MalformedKeyMaterial> {
        let (octets, rest) = self.0.split_first_chunk().ok_or(MalformedKeyMaterial::Truncated)?;
        self.0 = rest;
        Ok(*octets)
    }

    fn secret(&mut self) -> Result<Secret, MalformedKeyMaterial> {
        let len = u32::from_be_bytes(self.octets()?) as usize;
        let (octets, rest) = self.0.split_at_checked(len).ok_or(MalformedKeyMaterial::Truncated)?;
        // All valid lengths are multiples of 4, so that CDR needs no padding between fields.
        if !matches!(len, 0 | 16 | 32) {
            return Err(MalformedKeyMaterial::Length);
        }
        self.0 = rest;
        Ok(Secret::copy_of(octets))
    }
}

impl fmt::Display for MalformedKeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "key material ends within a field",
            Self::TrailingBytes => "bytes follow the key material",
            Self::Algorithm => "the algorithm of the key material is unknown",
            Self::Length => "a salt or key has not the length that its algorithm requires",
            Self::Receiver => "a receiver-specific key without an id, or an id without a key",
            Self::ZeroKey => "a key of zeros only",
        })
    }
}

impl core::error::Error for MalformedKeyMaterial {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::crypto::KeyLength;
    use crate::testing::{hex, zeros};

    /// The submessage key of a Cyclone DDS writer, as that participant sent it.
    const CAPTURED: &str = "
        00000004 00000020 3c6f14e8fcab6039773665cff1f163b58598b91660cb301d67a6d769002f2c44
        00000002 00000020 45d0c6d019eb1118ac5a4ffef37d54ed50976b791ef4434e86b4e4dc587f79ac
        00000004 00000020 3f4f2737d70f92510fbe13bdf25b88b72e8b95d157f0e857c59713f9e6f2db4c";

    #[test]
    fn captured_key_material_equals_its_bytes() {
        let octets = hex(CAPTURED);
        assert_eq!(octets.len(), 120);
        let material = KeyMaterial::parse(&octets).unwrap();
        assert_eq!(material.kind(), [0, 0, 0, 4]);
        assert_eq!(material.algorithm, Some(Algorithm { key_length: KeyLength::Aes256, encrypts: true }));
        assert_eq!(material.key_id, [0, 0, 0, 2]);
        assert_eq!(material.receiver.as_ref().unwrap().id, [0, 0, 0, 4]);
        assert_eq!(material.to_bytes().expose(), octets);
        let without = KeyMaterial { receiver: None, ..material };
        assert_eq!(without.to_bytes().expose(), [&octets[..80], &[0; 8]].concat());
    }

    #[test]
    fn key_material_without_algorithm_has_24_zeros() {
        assert_eq!(KeyMaterial::none().to_bytes().expose(), zeros(24));
        assert_eq!(KeyMaterial::parse(&zeros(24)), Ok(KeyMaterial::none()));
    }

    #[test]
    fn malformed_key_material_is_refused_with_its_cause() {
        let valid = hex(CAPTURED);
        let changed = |at: usize, value: u8| {
            let mut octets = valid.clone();
            octets[at] = value;
            octets
        };
        let zeroed = |range: core::ops::Range<usize>| {
            let mut octets = valid.clone();
            octets[range].fill(0);
            octets
        };
        let mut huge = valid.clone();
        huge[4..8].fill(0xff);
        let cases = [
            (changed(3, 5), MalformedKeyMaterial::Algorithm),
            (changed(3, 2), MalformedKeyMaterial::Length),
            (changed(3, 0), MalformedKeyMaterial::Length),
            (changed(7, 0x1f), MalformedKeyMaterial::Length),
            (huge, MalformedKeyMaterial::Truncated),
            ([&valid[..], &[0]].concat(), MalformedKeyMaterial::TrailingBytes),
            ([&valid[..84], &zeros(4)].concat(), MalformedKeyMaterial::Receiver),
            (zeroed(80..84), MalformedKeyMaterial::Receiver),
            (zeroed(48..80), MalformedKeyMaterial::ZeroKey),
            (zeroed(88..120), MalformedKeyMaterial::ZeroKey),
        ];
        for (octets, expected) in cases {
            assert_eq!(KeyMaterial::parse(&octets), Err(expected));
        }
        for len in 0..valid.len() {
            assert_eq!(KeyMaterial::parse(&valid[..len]), Err(MalformedKeyMaterial::Truncated));
        }
    }

    #[test]
    fn debug_output_contains_no_key() {
        let shown = format!("{:?}", KeyMaterial::parse(&hex(CAPTURED)).unwrap());
        assert!(shown.contains("key: Secret(32 bytes)"));
        assert!(!shown.contains("69, 208") && !shown.contains("45d0"), "{shown}");
    }

    proptest! {
        #[test]
        fn key_material_round_trips(
            (id, revision, key_id, receiver_id) in (1..=4u8, any::<[u8; 3]>(), any::<[u8; 4]>(), any::<[u8; 4]>()),
            octets in proptest::collection::vec(1..=u8::MAX, 96),
        ) {
            let algorithm = Algorithm::from_id(id).unwrap();
            let [salt, key, receiver_key] =
                [0, 32, 64].map(|at| Secret::copy_of(&octets[at..at + algorithm.key_length.bytes()]));
            let receiver = (receiver_id != [0; 4]).then_some(ReceiverKey { id: receiver_id, key: receiver_key });
            let material = KeyMaterial { revision, algorithm: Some(algorithm), salt, key_id, key, receiver };
            prop_assert_eq!(KeyMaterial::parse(material.to_bytes().expose()), Ok(material));
        }

        #[test]
        fn any_bytes_parse_to_the_same_bytes_or_fail(octets: Vec<u8>) {
            if let Ok(material) = KeyMaterial::parse(&octets) {
                let written = material.to_bytes();
                prop_assert_eq!(written.expose(), &octets[..]);
            }
        }
    }
}
