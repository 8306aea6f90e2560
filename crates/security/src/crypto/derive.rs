//! Key material that both sides derive from a secret that they share.

use aws_lc_rs::{digest, hmac};
use peregrine_rtps::id::GuidPrefix;
use peregrine_rtps::wire::Header;
use zeroize::Zeroizing;

use super::algorithm::{Algorithm, KeyLength};
use super::key_material::KeyMaterial;
use crate::secret::Secret;

/// The key of the channel on which two authenticated participants exchange their other keys, from the result of their
/// handshake (DDS Security 1.2 §10.5.2.1.2). `challenge1` is that of the participant that began the handshake.
#[must_use]
pub fn exchange_key(challenge1: &[u8; 32], challenge2: &[u8; 32], shared_secret: &Secret) -> KeyMaterial {
    let derive = |parts: [&[u8]; 3]| {
        let mut hash = digest::Context::new(&digest::SHA256);
        parts.into_iter().for_each(|part| hash.update(part));
        truncated(&hmac(hash.finish().as_ref(), &[shared_secret.expose()]), KeyLength::Aes256)
    };
    KeyMaterial {
        revision: [0; 3],
        algorithm: Some(Algorithm { key_length: KeyLength::Aes256, encrypts: true }),
        salt: derive([challenge1, b"keyexchange salt", challenge2]),
        key_id: [0; 4],
        key: derive([challenge2, b"key exchange key", challenge1]),
        receiver: None,
    }
}

/// A passphrase that all participants of a domain share (DDS Security 1.2 §10.5.2.1.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreSharedKey {
    /// Identifies the passphrase. The low byte is not 0xff.
    pub passphrase_id: u32,
    /// The passphrase, without its id.
    pub passphrase: Secret,
    /// The id of the domain.
    pub domain_id: u32,
    /// The tag of the domain, empty by default.
    pub domain_tag: String,
}

/// The first bytes of all messages of a participant. Its key depends on them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PreSharedKeyOwner {
    /// The protocol version.
    pub version: [u8; 2],
    /// The vendor.
    pub vendor: [u8; 2],
    /// The GUID prefix.
    pub prefix: GuidPrefix,
}

impl PreSharedKeyOwner {
    /// The sender of messages with this header.
    #[must_use]
    pub const fn of(header: &Header) -> Self {
        let Header { version, vendor, prefix } = *header;
        Self { version: [version.major, version.minor], vendor: vendor.0, prefix }
    }
}

impl PreSharedKey {
    /// The id of the key in headers: three bytes for the domain, and the low byte of the id of the passphrase.
    #[must_use]
    pub fn key_id(&self) -> [u8; 4] {
        let [a, b, c] = domain_key_id(self.domain_id, &self.domain_tag);
        let [.., low] = self.passphrase_id.to_be_bytes();
        [a, b, c, low]
    }

    /// The key of one participant.
    #[must_use]
    pub fn key_of(&self, owner: PreSharedKeyOwner, algorithm: Algorithm) -> KeyMaterial {
        let PreSharedKeyOwner { version, vendor, prefix } = owner;
        let key_id = self.key_id();
        let derive = |label: &[u8], purpose: &[u8]| {
            let context = [label, &key_id, b"RTPS", &version, &vendor, &prefix.0].concat();
            let inner = hmac(&context, &[self.passphrase.expose()]);
            truncated(&hmac(&inner[..], &[purpose, &[1]]), algorithm.key_length)
        };
        let [a, b, c, _] = self.passphrase_id.to_be_bytes();
        KeyMaterial {
            revision: [a, b, c],
            algorithm: Some(algorithm),
            salt: derive(b"PSK-SALT", b"master salt derivation"),
            key_id,
            key: derive(b"PSK-SKEY", b"master sender key derivation"),
            receiver: None,
        }
    }
}

/// The bytes of the ids of keys that state the domain.
pub(super) fn domain_key_id(domain_id: u32, domain_tag: &str) -> [u8; 3] {
    let domain = format!("DomainId={domain_id};DomainTag={domain_tag}");
    let hash = digest::digest(&digest::SHA256, domain.as_bytes());
    match *hash.as_ref() {
        [a, b, c, ..] => [a, b, c],
        _ => [0; 3],
    }
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 32]> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part));
    let mut out = Zeroizing::new([0; 32]);
    out.iter_mut().zip(context.sign().as_ref()).for_each(|(to, from)| *to = *from);
    out
}

fn truncated(octets: &[u8; 32], length: KeyLength) -> Secret {
    Secret::copy_of(octets.get(..length.bytes()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn exchange_key_of_a_captured_handshake_is_derived() {
        let secret = Secret::from(hex("067ae1c03e7c61f11856c03a7e7b0de21a8926a44b2f16d837b81fa7d9b69a89"));
        let challenge1 = hex("4347bac9453b57b59c6990b77254717307d97e16b9a02cb510e98bde36daebe1");
        let challenge2 = hex("2ebb4087e8195adef8127015fc06128cb128bf90084b5ffc8430dd3b944b71a5");
        let key = exchange_key(&challenge1.try_into().unwrap(), &challenge2.try_into().unwrap(), &secret);
        let salt = hex("0fda850d7f608c9a737ea578e25ac27b3b255270372d6dea7e1c011169e4dcb1");
        assert_eq!(key.salt.expose(), salt);
        assert_eq!(key.key.expose(), hex("8b85a692deed8617302764ee166317dcc64326d161a8c8c1b446f683f6602db7"));
        assert_eq!((key.kind(), key.key_id, key.receiver), ([0, 0, 0, 4], [0; 4], None));
    }

    #[test]
    fn pre_shared_key_of_the_standards_example_is_derived() {
        let passphrase = "castle super radar denial swing lunar kind swarm wet toilet output harbor basic begin margin \
                          huge year visit";
        let shared = PreSharedKey {
            passphrase_id: 5632,
            passphrase: Secret::copy_of(passphrase.as_bytes()),
            domain_id: 201,
            domain_tag: String::new(),
        };
        let prefix = GuidPrefix(hex("DFCD91E1686804516CB1B60E").try_into().unwrap());
        let owner = PreSharedKeyOwner { version: [2, 5], vendor: [1, 1], prefix };
        let algorithm = Algorithm { key_length: KeyLength::Aes256, encrypts: true };
        let key = shared.key_of(owner, algorithm);
        assert_eq!((key.key_id, key.kind()), ([0x61, 0xc8, 0x53, 0], [0, 0, 0x16, 4]));
        let salt = hex("a4ebff5738dc6826c8d3f5e55a24bb96d9e80147b51c4e49a0927c4fa2cfec8c");
        assert_eq!(key.salt.expose(), salt);
        assert_eq!(key.key.expose(), hex("4708460adc6bb886521fbdc4b3a9d34e27eed36c162ccdf4fb7427a7f347738b"));
        let short = shared.key_of(owner, Algorithm { key_length: KeyLength::Aes128, encrypts: false });
        assert_eq!((short.kind(), short.salt.expose()), ([0, 0, 0x16, 1], &salt[..16]));
    }
}
