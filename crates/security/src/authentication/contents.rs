//! The three messages of a handshake, and what their signatures cover (DDS Security 1.2 §10.3.2.5).
//!
//! ```text
//! hash_cN          = SHA-256 of { c.id, c.perm, c.pdata, c.dsign_algo, c.kagree_algo } of side N, as they were sent
//! reply signature  = over { hash_c2, challenge2, dh2, challenge1, dh1, hash_c1 }, by the side that replied
//! final signature  = over { hash_c1, challenge1, dh1, challenge2, dh2, hash_c2 }, by the side that began
//! ```
//!
//! Both hashes and both public keys are in the signed text whether or not a message repeats them.

use aws_lc_rs::digest::{SHA256, digest};
use peregrine_rtps::wire::Endianness;

use super::refusal::Refusal;
use crate::cdr::Writer;
use crate::identity::{Digest, SignatureAlgorithm};
use crate::limits::{PUBLIC_KEY_BYTES, SIGNATURE_BYTES};
use crate::message::{DataHolder, names};

pub(super) type Hash = [u8; 32];
pub(super) type Challenge = [u8; 32];

const ECDSA: &[u8] = b"ECDSA-SHA256";
const RSA_PSS: &[u8] = b"RSASSA-PSS-SHA256";

/// The statements of a side about itself, as they were sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Credentials {
    pub(super) certificate: Vec<u8>,
    pub(super) permissions: Vec<u8>,
    pub(super) participant_data: Vec<u8>,
    pub(super) signature_algorithm: Vec<u8>,
    pub(super) agreement_algorithm: Vec<u8>,
}

/// The first message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) credentials: Credentials,
    pub(super) dh1: Vec<u8>,
    pub(super) challenge1: Challenge,
}

/// The second message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Reply {
    pub(super) credentials: Credentials,
    pub(super) dh2: Vec<u8>,
    pub(super) challenge1: Challenge,
    pub(super) challenge2: Challenge,
    pub(super) signature: Vec<u8>,
    pub(super) repeated: Repeated,
}

/// The third message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Final {
    pub(super) challenge1: Challenge,
    pub(super) challenge2: Challenge,
    pub(super) signature: Vec<u8>,
    pub(super) repeated: Repeated,
}

/// Properties that a message may repeat.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Repeated {
    hash1: Option<Vec<u8>>,
    hash2: Option<Vec<u8>>,
    dh1: Option<Vec<u8>>,
    dh2: Option<Vec<u8>>,
}

/// The values that both sides know after the second message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Transcript {
    pub(super) hash1: Hash,
    pub(super) challenge1: Challenge,
    pub(super) dh1: Vec<u8>,
    pub(super) hash2: Hash,
    pub(super) challenge2: Challenge,
    pub(super) dh2: Vec<u8>,
}

impl Credentials {
    /// As they are in both messages, in this order.
    fn properties(&self) -> [(&'static str, &[u8]); 5] {
        [
            (names::CERTIFICATE, &self.certificate),
            (names::PERMISSIONS_DOCUMENT, &self.permissions),
            (names::PARTICIPANT_DATA, &self.participant_data),
            (names::SIGNATURE_ALGORITHM, &self.signature_algorithm),
            (names::AGREEMENT_ALGORITHM, &self.agreement_algorithm),
        ]
    }

    pub(super) fn hash(&self) -> Hash {
        hash(&properties_text(&self.properties()))
    }

    /// The algorithm of this side's signatures. Some peers send the end of a C string with its name.
    pub(super) fn signature_algorithm(&self) -> Option<SignatureAlgorithm> {
        match self.signature_algorithm.strip_suffix(&[0]).unwrap_or(&self.signature_algorithm) {
            ECDSA => Some(SignatureAlgorithm::Ecdsa(Digest::Sha256)),
            RSA_PSS => Some(SignatureAlgorithm::RsaPss(Digest::Sha256)),
            _ => None,
        }
    }

    fn parse(token: &DataHolder) -> Result<Self, Refusal> {
        let take = |name| token.binary(name).map(<[u8]>::to_vec).ok_or(Refusal::Property(name));
        Ok(Self {
            certificate: take(names::CERTIFICATE)?,
            permissions: take(names::PERMISSIONS_DOCUMENT)?,
            participant_data: take(names::PARTICIPANT_DATA)?,
            signature_algorithm: take(names::SIGNATURE_ALGORITHM)?,
            agreement_algorithm: take(names::AGREEMENT_ALGORITHM)?,
        })
    }

    fn token(&self, class_id: &str) -> DataHolder {
        self.properties().into_iter().fold(DataHolder::new(class_id), |token, (name, value)| token.with(name, value))
    }
}

/// The name of an algorithm of messages.
pub(super) const fn algorithm_name(algorithm: SignatureAlgorithm) -> &'static [u8] {
    match algorithm {
        SignatureAlgorithm::RsaPss(_) | SignatureAlgorithm::RsaPkcs1(_) => RSA_PSS,
        SignatureAlgorithm::Ecdsa(_) => ECDSA,
    }
}

impl Request {
    pub(super) fn parse(token: &DataHolder) -> Result<Self, Refusal> {
        let request = Self {
            credentials: Credentials::parse(token)?,
            dh1: public_key(token, names::DH_1)?,
            challenge1: fixed(token, names::CHALLENGE_1)?,
        };
        let repeated = Repeated::parse(token)?;
        let stated = repeated.hash1.as_deref();
        if stated.is_some_and(|stated| stated != request.credentials.hash()) {
            return Err(Refusal::Contradiction(names::HASH_1));
        }
        Ok(request)
    }

    pub(super) fn token(&self) -> DataHolder {
        self.credentials
            .token(names::HANDSHAKE_REQUEST)
            .with(names::HASH_1, &self.credentials.hash())
            .with(names::DH_1, &self.dh1)
            .with(names::CHALLENGE_1, &self.challenge1)
    }
}

impl Reply {
    pub(super) fn parse(token: &DataHolder) -> Result<Self, Refusal> {
        Ok(Self {
            credentials: Credentials::parse(token)?,
            dh2: public_key(token, names::DH_2)?,
            challenge1: fixed(token, names::CHALLENGE_1)?,
            challenge2: fixed(token, names::CHALLENGE_2)?,
            signature: signature(token)?,
            repeated: Repeated::parse(token)?,
        })
    }
}

impl Final {
    pub(super) fn parse(token: &DataHolder) -> Result<Self, Refusal> {
        Ok(Self {
            challenge1: fixed(token, names::CHALLENGE_1)?,
            challenge2: fixed(token, names::CHALLENGE_2)?,
            signature: signature(token)?,
            repeated: Repeated::parse(token)?,
        })
    }
}

impl Repeated {
    fn parse(token: &DataHolder) -> Result<Self, Refusal> {
        let take = |name| {
            let occurs = token.binary_properties.iter().any(|property| property.name == name);
            let value = token.binary(name).map(<[u8]>::to_vec);
            if occurs && value.is_none() { Err(Refusal::Property(name)) } else { Ok(value) }
        };
        Ok(Self {
            hash1: take(names::HASH_1)?,
            hash2: take(names::HASH_2)?,
            dh1: take(names::DH_1)?,
            dh2: take(names::DH_2)?,
        })
    }

    /// Whether the public keys, if they are repeated, are these. Each handshake has keys of its own.
    pub(super) fn is_of(&self, dh1: &[u8], dh2: Option<&[u8]>) -> bool {
        let is_equal = |stated: &Option<Vec<u8>>, known: &[u8]| stated.as_deref().is_none_or(|stated| stated == known);
        is_equal(&self.dh1, dh1) && dh2.is_none_or(|dh2| is_equal(&self.dh2, dh2))
    }

    /// Whether all that is repeated is what both sides know.
    pub(super) fn check(&self, transcript: &Transcript) -> Result<(), Refusal> {
        for (name, stated, known) in [
            (names::HASH_1, &self.hash1, &transcript.hash1[..]),
            (names::HASH_2, &self.hash2, &transcript.hash2),
            (names::DH_1, &self.dh1, &transcript.dh1),
            (names::DH_2, &self.dh2, &transcript.dh2),
        ] {
            if stated.as_deref().is_some_and(|stated| stated != known) {
                return Err(Refusal::Contradiction(name));
            }
        }
        Ok(())
    }
}

impl Transcript {
    /// The text that the side that replied signs.
    pub(super) fn reply_text(&self) -> Vec<u8> {
        properties_text(&[
            (names::HASH_2, &self.hash2),
            (names::CHALLENGE_2, &self.challenge2),
            (names::DH_2, &self.dh2),
            (names::CHALLENGE_1, &self.challenge1),
            (names::DH_1, &self.dh1),
            (names::HASH_1, &self.hash1),
        ])
    }

    /// The text that the side that began signs.
    pub(super) fn final_text(&self) -> Vec<u8> {
        properties_text(&[
            (names::HASH_1, &self.hash1),
            (names::CHALLENGE_1, &self.challenge1),
            (names::DH_1, &self.dh1),
            (names::CHALLENGE_2, &self.challenge2),
            (names::DH_2, &self.dh2),
            (names::HASH_2, &self.hash2),
        ])
    }

    /// The second message. Some peers require all that may be repeated.
    pub(super) fn reply_token(&self, credentials: &Credentials, signature: &[u8]) -> DataHolder {
        credentials
            .token(names::HANDSHAKE_REPLY)
            .with(names::HASH_2, &self.hash2)
            .with(names::DH_2, &self.dh2)
            .with(names::HASH_1, &self.hash1)
            .with(names::DH_1, &self.dh1)
            .with(names::CHALLENGE_1, &self.challenge1)
            .with(names::CHALLENGE_2, &self.challenge2)
            .with(names::SIGNATURE, signature)
    }

    /// The third message.
    pub(super) fn final_token(&self, signature: &[u8]) -> DataHolder {
        DataHolder::new(names::HANDSHAKE_FINAL)
            .with(names::HASH_1, &self.hash1)
            .with(names::HASH_2, &self.hash2)
            .with(names::DH_1, &self.dh1)
            .with(names::DH_2, &self.dh2)
            .with(names::CHALLENGE_1, &self.challenge1)
            .with(names::CHALLENGE_2, &self.challenge2)
            .with(names::SIGNATURE, signature)
    }
}

pub(super) fn hash(octets: &[u8]) -> Hash {
    digest(&SHA256, octets).as_ref().try_into().unwrap_or_default()
}

/// A sequence of properties as it is hashed and signed: big endian, without encapsulation.
fn properties_text(properties: &[(&'static str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    crate::message::write_binary(&mut Writer::new(&mut out, Endianness::Big), properties.iter().copied());
    out
}

fn fixed(token: &DataHolder, name: &'static str) -> Result<[u8; 32], Refusal> {
    token.binary(name).and_then(|value| value.try_into().ok()).ok_or(Refusal::Property(name))
}

fn public_key(token: &DataHolder, name: &'static str) -> Result<Vec<u8>, Refusal> {
    bounded(token, name, PUBLIC_KEY_BYTES)
}

fn signature(token: &DataHolder) -> Result<Vec<u8>, Refusal> {
    bounded(token, names::SIGNATURE, SIGNATURE_BYTES)
}

fn bounded(token: &DataHolder, name: &'static str, max: usize) -> Result<Vec<u8>, Refusal> {
    let value = token.binary(name).filter(|value| !value.is_empty() && value.len() <= max);
    value.map(<[u8]>::to_vec).ok_or(Refusal::Property(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    fn credentials() -> Credentials {
        Credentials {
            certificate: b"ID\n".to_vec(),
            permissions: b"PERM".to_vec(),
            participant_data: vec![0, 1, 0, 0, 0],
            signature_algorithm: b"ECDSA-SHA256\0".to_vec(),
            agreement_algorithm: b"ECDH+prime256v1-CEUM\0".to_vec(),
        }
    }

    fn transcript() -> Transcript {
        Transcript {
            hash1: [1; 32],
            challenge1: [2; 32],
            dh1: vec![3; 65],
            hash2: [4; 32],
            challenge2: [5; 32],
            dh2: vec![6; 65],
        }
    }

    #[test]
    fn hash_of_credentials_equals_that_of_another_implementation() {
        let text = hex("
            00000005 00000005 632e696400 000000 00000003 49440a 00
            00000007 632e7065726d00 00 00000004 5045524d
            00000008 632e706461746100 00000005 0001000000 000000
            0000000d 632e647369676e5f616c676f00 000000 0000000d 45434453412d53484132353600 000000
            0000000e 632e6b61677265655f616c676f00 0000 00000015 454344482b7072696d6532353676312d4345554d00");
        assert_eq!(properties_text(&credentials().properties()), text);
        let expected = hex("0225c8ca48916350a3c24e3877e3ad790384fb708279d12bc276e59c29142d1e");
        assert_eq!(credentials().hash()[..], expected);
    }

    #[test]
    fn signed_texts_have_the_stated_order_and_length() {
        let transcript = transcript();
        let (reply, last) = (transcript.reply_text(), transcript.final_text());
        // The lengths that were seen with public keys of P-256 on both sides.
        assert_eq!((reply.len(), last.len()), (364, 364));
        assert_eq!(reply[..28], hex("00000006 00000008 686173685f633200 00000020 04040404 04040404"));
        assert_eq!(last[..28], hex("00000006 00000008 686173685f633100 00000020 01010101 01010101"));
        assert_eq!(reply[364 - 32..], [1; 32]);
        assert_eq!(last[364 - 32..], [4; 32]);
        let modp = Transcript { dh1: vec![3; 256], dh2: vec![6; 256], ..transcript };
        // Without the padding behind 65 bytes.
        assert_eq!(modp.reply_text().len(), 740);
    }

    #[test]
    fn request_token_has_these_bytes() {
        let request = Request { credentials: credentials(), dh1: vec![3; 65], challenge1: [2; 32] };
        let mut out = Vec::new();
        request.token().emit(Endianness::Little, &mut out);
        let expected = hex("
            180000004444533a417574683a504b492d44483a312e302b52657100
            0000000008000000
            05000000632e696400000000 0300000049440a00
            07000000632e7065726d0000 040000005045524d
            08000000632e706461746100 050000000001000000000000
            0d000000632e647369676e5f616c676f00000000 0d00000045434453412d53484132353600000000
            0e000000632e6b61677265655f616c676f000000 15000000454344482b7072696d6532353676312d4345554d00000000
            08000000686173685f633100 200000000225c8ca48916350a3c24e3877e3ad790384fb708279d12bc276e59c29142d1e
            0400000064683100 410000000303030303030303030303030303030303030303030303030303030303030303030303030303030
            303030303030303030303030303030303030303030303030303000000
            0b0000006368616c6c656e6765310000
            200000000202020202020202020202020202020202020202020202020202020202020202");
        assert_eq!(out, expected);
        assert_eq!(
            DataHolder::parse(&expected, Endianness::Little).map(|token| Request::parse(&token)),
            Ok(Ok(request))
        );
    }

    #[test]
    fn messages_round_trip() {
        let request = Request { credentials: credentials(), dh1: vec![3; 65], challenge1: [2; 32] };
        assert_eq!(Request::parse(&request.token()), Ok(request));
        let transcript = transcript();
        let reply = Reply::parse(&transcript.reply_token(&credentials(), &[9; 70])).unwrap();
        assert_eq!((reply.challenge1, reply.challenge2), ([2; 32], [5; 32]));
        assert_eq!((&reply.credentials, &reply.signature, &reply.dh2), (&credentials(), &vec![9; 70], &vec![6; 65]));
        assert_eq!(reply.repeated.check(&transcript), Ok(()));
        let last = Final::parse(&transcript.final_token(&[9; 70])).unwrap();
        assert_eq!((last.challenge1, last.challenge2, &last.signature), ([2; 32], [5; 32], &vec![9; 70]));
        assert_eq!(last.repeated.check(&transcript), Ok(()));
    }

    #[test]
    fn properties_that_may_be_absent_are_compared_when_present() {
        let transcript = transcript();
        let token = transcript.final_token(&[9; 70]);
        let repeated = [names::HASH_1, names::HASH_2, names::DH_1, names::DH_2];
        for name in repeated {
            let mut changed = token.clone();
            changed.binary_properties.iter_mut().find(|p| p.name == name).unwrap().value[31] ^= 1;
            let found = Final::parse(&changed).unwrap().repeated.check(&transcript);
            assert_eq!(found, Err(Refusal::Contradiction(name)));
            let twice = token.clone().with(name, token.binary(name).unwrap());
            assert_eq!(Final::parse(&twice), Err(Refusal::Property(name)));
        }
        let mut without = token;
        without.binary_properties.retain(|property| !repeated.contains(&property.name.as_str()));
        assert_eq!(without.binary_properties.len(), 3);
        assert_eq!(Final::parse(&without).unwrap().repeated.check(&transcript), Ok(()));
        let request = Request { credentials: credentials(), dh1: vec![3; 65], challenge1: [2; 32] };
        let mut token = request.token();
        token.binary_properties[5].value[0] ^= 1;
        assert_eq!(Request::parse(&token), Err(Refusal::Contradiction(names::HASH_1)));
        token.binary_properties.remove(5);
        assert_eq!(Request::parse(&token), Ok(request));
    }

    #[test]
    fn absent_and_overlong_properties_are_refused_by_name() {
        let request = Request { credentials: credentials(), dh1: vec![3; 65], challenge1: [2; 32] }.token();
        for index in (0..8).filter(|index| *index != 5) {
            let mut token = request.clone();
            let name = token.binary_properties.remove(index).name.clone();
            assert!(matches!(Request::parse(&token), Err(Refusal::Property(found)) if found == name));
        }
        let last = |signature: usize, challenge: usize| {
            let token = DataHolder::new(names::HANDSHAKE_FINAL)
                .with(names::CHALLENGE_1, &vec![1; challenge])
                .with(names::CHALLENGE_2, &[2; 32])
                .with(names::SIGNATURE, &vec![3; signature]);
            Final::parse(&token).map(|_| ())
        };
        assert_eq!(last(SIGNATURE_BYTES, 32), Ok(()));
        assert_eq!(last(SIGNATURE_BYTES + 1, 32), Err(Refusal::Property(names::SIGNATURE)));
        assert_eq!(last(0, 32), Err(Refusal::Property(names::SIGNATURE)));
        assert_eq!(last(70, 31), Err(Refusal::Property(names::CHALLENGE_1)));
        let long = |len: usize| {
            let request = Request { credentials: credentials(), dh1: vec![3; len], challenge1: [2; 32] };
            Request::parse(&request.token()).map(|_| ())
        };
        assert_eq!(long(PUBLIC_KEY_BYTES), Ok(()));
        assert_eq!(long(PUBLIC_KEY_BYTES + 1), Err(Refusal::Property(names::DH_1)));
    }

    #[test]
    fn names_of_signature_algorithms_are_known_with_and_without_their_end() {
        for (name, expected) in [
            (&b"ECDSA-SHA256"[..], Some(SignatureAlgorithm::Ecdsa(Digest::Sha256))),
            (b"ECDSA-SHA256\0", Some(SignatureAlgorithm::Ecdsa(Digest::Sha256))),
            (b"RSASSA-PSS-SHA256", Some(SignatureAlgorithm::RsaPss(Digest::Sha256))),
            (b"RSASSA-PSS-SHA256\0\0", None),
            (b"RSA", None),
        ] {
            let credentials = Credentials { signature_algorithm: name.to_vec(), ..credentials() };
            assert_eq!(credentials.signature_algorithm(), expected);
        }
    }
}
