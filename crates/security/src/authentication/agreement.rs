//! Key agreement: two participants derive one secret from the public keys that they exchange.

use aws_lc_rs::agreement::{self, ECDH_P256, UnparsedPublicKey};
use aws_lc_rs::digest::{SHA256, digest};
use zeroize::Zeroizing;

use super::modp;
use crate::asn1::{Element, tag};
use crate::secret::Secret;

/// Random bytes for one private key.
pub(super) const SEED_BYTES: usize = 32;
/// A candidate is no private key with a probability of 0.45 in the worse of the groups.
const CANDIDATES: u8 = 128;
const UNCOMPRESSED_POINT: u8 = 4;
const POINT_BYTES: usize = 65;

/// An algorithm of key agreement (DDS Security 1.2 §10.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyAgreement {
    /// ECDH with the curve P-256.
    EcdhP256,
    /// Diffie-Hellman with the group of RFC 5114 §2.3.
    Modp2048,
}

/// How a peer encodes public keys of [`KeyAgreement::Modp2048`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coding {
    /// The bytes of the number.
    Plain,
    /// An INTEGER of DER, as Cyclone DDS sends.
    Der,
}

/// The private key for one handshake.
#[derive(Debug)]
pub(super) struct PrivateShare {
    agreement: KeyAgreement,
    key: Secret,
}

impl KeyAgreement {
    const ALL: [Self; 2] = [Self::EcdhP256, Self::Modp2048];

    /// Its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EcdhP256 => "ECDH+prime256v1-CEUM",
            Self::Modp2048 => "DH+MODP-2048-256",
        }
    }

    /// Its name in DDS Security 1.2 §8.3, as documents state it.
    pub(super) const fn registered_name(self) -> &'static str {
        match self {
            Self::EcdhP256 => "ECDHE-CEUM+P256",
            Self::Modp2048 => "DHE+MODP-2048-256",
        }
    }

    /// The algorithm with this name. Some peers send the end of a C string with it.
    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        let name = name.strip_suffix(&[0]).unwrap_or(name);
        Self::ALL.into_iter().find(|agreement| agreement.name().as_bytes() == name)
    }
}

impl Coding {
    /// The coding of a public key of this algorithm.
    pub(super) const fn of(public: &[u8]) -> Self {
        if public.len() > modp::LEN { Self::Der } else { Self::Plain }
    }
}

impl PrivateShare {
    /// The private key that follows from random bytes, and its public key.
    pub(super) fn generate(agreement: KeyAgreement, coding: Coding, seed: &Secret) -> Option<(Self, Vec<u8>)> {
        (0..CANDIDATES).find_map(|count| {
            let mut input = Zeroizing::new(seed.expose().to_vec());
            input.push(count);
            let key = Secret::copy_of(digest(&SHA256, &input).as_ref());
            let public = public_key(agreement, coding, &key)?;
            Some((Self { agreement, key }, public))
        })
    }

    /// The shared secret of DDS Security 1.2 §10.3.3: the hash of what both sides compute. `None` if the public key is
    /// not valid.
    pub(super) fn agree(&self, public: &[u8]) -> Option<Secret> {
        let hash = |secret: &[u8]| Secret::copy_of(digest(&SHA256, secret).as_ref());
        match self.agreement {
            KeyAgreement::EcdhP256 => {
                // Points in a compressed form are valid for the library, and for no peer.
                if public.len() != POINT_BYTES || public.first() != Some(&UNCOMPRESSED_POINT) {
                    return None;
                }
                let private = agreement::PrivateKey::from_private_key(&ECDH_P256, self.key.expose()).ok()?;
                let public = UnparsedPublicKey::new(&ECDH_P256, public);
                agreement::agree(&private, public, (), |secret| Ok(hash(secret))).ok()
            }
            KeyAgreement::Modp2048 => {
                let private = self.key.expose().try_into().ok()?;
                modp::agree(private, &decoded(public)?).map(|secret| hash(&secret))
            }
        }
    }

    pub(super) const fn agreement(&self) -> KeyAgreement {
        self.agreement
    }
}

fn public_key(agreement: KeyAgreement, coding: Coding, key: &Secret) -> Option<Vec<u8>> {
    match agreement {
        KeyAgreement::EcdhP256 => {
            let private = agreement::PrivateKey::from_private_key(&ECDH_P256, key.expose()).ok()?;
            Some(private.compute_public_key().ok()?.as_ref().to_vec())
        }
        KeyAgreement::Modp2048 => {
            let private: &[u8; 32] = key.expose().try_into().ok()?;
            modp::is_private_key(private).then(|| encoded(&modp::public_key(private), coding))
        }
    }
}

/// Some peers send a DER INTEGER, others the bytes of the number. They differ in their lengths, since only numbers of
/// more than 256 bytes with the head of DER are of the former kind.
fn decoded(public: &[u8]) -> Option<[u8; modp::LEN]> {
    let magnitude = match Coding::of(public) {
        Coding::Plain => public,
        Coding::Der => {
            let integer = Element::only(public).ok().filter(|element| element.tag == tag::INTEGER)?.value;
            integer.strip_prefix(&[0]).unwrap_or(integer)
        }
    };
    let mut out = [0; modp::LEN];
    out.get_mut(modp::LEN.checked_sub(magnitude.len())?..)?.copy_from_slice(magnitude);
    Some(out)
}

fn encoded(public: &[u8; modp::LEN], coding: Coding) -> Vec<u8> {
    if coding == Coding::Plain {
        return public.to_vec();
    }
    let zeros = public.iter().take_while(|octet| **octet == 0).count();
    let magnitude = public.get(zeros..).unwrap_or_default();
    let sign: &[u8] = if magnitude.first().is_some_and(|first| *first < 0x80) { &[] } else { &[0] };
    // With fewer than 128 bytes the length has another form, which numbers of the group take with a chance of 2⁻¹⁰⁰⁰.
    let len = sign.len().saturating_add(magnitude.len());
    let head = match u16::try_from(len).unwrap_or(0).to_be_bytes() {
        [0, low] => vec![tag::INTEGER, 0x81, low],
        [high, low] => vec![tag::INTEGER, 0x82, high, low],
    };
    [&head, sign, magnitude].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{der, hex};

    fn pair(agreement: KeyAgreement, coding: Coding, seed: u8) -> (PrivateShare, Vec<u8>) {
        PrivateShare::generate(agreement, coding, &Secret::copy_of(&[seed; SEED_BYTES])).unwrap()
    }

    #[test]
    fn both_sides_of_each_algorithm_derive_one_secret() {
        for (agreement, coding, len) in [
            (KeyAgreement::EcdhP256, Coding::Plain, 65..=65),
            (KeyAgreement::Modp2048, Coding::Plain, 256..=256),
            (KeyAgreement::Modp2048, Coding::Der, 258..=261),
        ] {
            let (alice, alice_public) = pair(agreement, coding, 1);
            let (bob, bob_public) = pair(agreement, coding, 2);
            assert!(len.contains(&alice_public.len()));
            let secret = alice.agree(&bob_public).unwrap();
            assert_eq!(secret.len(), 32);
            assert_eq!(bob.agree(&alice_public), Some(secret));
            assert_eq!(pair(agreement, coding, 1).1, alice_public, "the seed decides");
        }
    }

    #[test]
    fn encodings_of_one_modp_key_agree() {
        let (alice, _) = pair(KeyAgreement::Modp2048, Coding::Plain, 1);
        for seed in 2..8 {
            let (_, plain) = pair(KeyAgreement::Modp2048, Coding::Plain, seed);
            let (_, coded) = pair(KeyAgreement::Modp2048, Coding::Der, seed);
            assert_eq!(Coding::of(&coded), Coding::Der);
            assert_eq!(alice.agree(&plain), alice.agree(&coded));
        }
        let small = der(2, &[&[0x7f; 254]]);
        assert_eq!(decoded(&small).unwrap()[..3], [0, 0, 0x7f]);
        for zeros in 0..3 {
            let mut public = [0xff; modp::LEN];
            public[..zeros].fill(0);
            let coded = encoded(&public, Coding::Der);
            assert_eq!(coded, der(2, &[&[0], &public[zeros..]]));
            assert_eq!(decoded(&coded), Some(public));
        }
    }

    #[test]
    fn invalid_public_keys_are_refused() {
        let (alice, public) = pair(KeyAgreement::EcdhP256, Coding::Plain, 1);
        let mut off_curve = public.clone();
        off_curve[64] ^= 1;
        let compressed = [&[2 + (public[64] & 1)], &public[1..33]].concat();
        let longer = [&public[..], &[0]].concat();
        for invalid in [&[][..], &[0], &[0; 65], &off_curve, &compressed, &public[..64], &longer] {
            assert_eq!(alice.agree(invalid), None);
        }
        let (alice, public) = pair(KeyAgreement::Modp2048, Coding::Der, 1);
        let (_, point) = pair(KeyAgreement::EcdhP256, Coding::Plain, 2);
        let trailing = [&public[..], &[0]].concat();
        let other_tag = [&[4], &public[1..]].concat();
        for invalid in [&[][..], &[0; 256], &[1], &[0xff; 256], &[0xff; 300], &trailing, &other_tag, &point] {
            assert_eq!(alice.agree(invalid), None);
        }
    }

    #[test]
    fn names_are_known_with_and_without_their_end() {
        for agreement in KeyAgreement::ALL {
            let name = agreement.name().as_bytes();
            assert_eq!(KeyAgreement::from_name(name), Some(agreement));
            assert_eq!(KeyAgreement::from_name(&[name, &[0]].concat()), Some(agreement));
            assert_eq!(KeyAgreement::from_name(&[name, &[0, 0]].concat()), None);
        }
        assert_eq!(KeyAgreement::from_name(b""), None);
    }

    #[test]
    fn shared_secret_of_a_captured_handshake_is_the_hash_of_the_coordinate() {
        let coordinate = hex("e6c5a0bb6cef49d66992e33c3490cb194b40e07d1514a4bd51a4b0ff4b6c5bdc");
        let expected = hex("067ae1c03e7c61f11856c03a7e7b0de21a8926a44b2f16d837b81fa7d9b69a89");
        assert_eq!(digest(&SHA256, &coordinate).as_ref(), expected);
    }

    #[test]
    fn debug_output_contains_no_private_key() {
        let (alice, _) = pair(KeyAgreement::EcdhP256, Coding::Plain, 1);
        assert_eq!(format!("{alice:?}"), "PrivateShare { agreement: EcdhP256, key: Secret(32 bytes) }");
    }
}
