//! Kinds of keys that are refused, and forms of signatures that are accepted or refused.

use super::*;
use crate::testing::oid;

/// The order of the group of P-256.
const ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
/// Each file has the certificate of an authority, and one of a participant with a P-256 key that the authority has
/// issued. Made by `openssl req -x509` and `openssl x509 -req`.
const RSA_1024: &str = include_str!("../test_data/authority_rsa_1024.pem");
const P384: &str = include_str!("../test_data/authority_p384.pem");

/// The SubjectPublicKeyInfo of an EC key.
fn ec_info(curve: &str, point: &[u8]) -> Vec<u8> {
    der(0x30, &[&der(0x30, &[&oid("1.2.840.10045.2.1"), &oid(curve)]), &der(3, &[&[0], point])])
}

/// The SubjectPublicKeyInfo of an RSA key with a modulus of this many bits.
fn rsa_info(bits: usize) -> Vec<u8> {
    let modulus = der(2, &[&[0], &vec![0xd5; bits / 8]]);
    let key = der(0x30, &[&modulus, &der(2, &[&[1, 0, 1]])]);
    der(0x30, &[&der(0x30, &[&oid("1.2.840.113549.1.1.1"), &der(5, &[])]), &der(3, &[&[0], &key])])
}

#[test]
fn participants_with_keys_of_other_kinds_are_refused() {
    use aws_lc_rs::signature::{ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
    let anchors = trusting(&EC_AUTHORITY);
    let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING).unwrap();
    let ed25519 = der(0x30, &[&der(0x30, &[&oid("1.3.101.112")]), &der(3, &[&[0], &[7; 32]])]);
    for (info, kind) in [
        (ec_info("1.3.132.0.34", p384.public_key().as_ref()), KeyKind::P384),
        (ec_info("1.3.132.0.35", &[4; 133]), KeyKind::Other),
        (rsa_info(1024), KeyKind::Rsa(1024)),
        (rsa_info(2040), KeyKind::Rsa(2040)),
        (rsa_info(4096), KeyKind::Rsa(4096)),
        (rsa_info(8192), KeyKind::Rsa(8192)),
        (ed25519, KeyKind::Other),
    ] {
        let leaf = EC_AUTHORITY.issue(&Draft::participant("P_a"), TestKey::claiming(info));
        let result = anchors.verify(&leaf.certificate, &[], NOW);
        let expected = ChainError { subject: "CN=P_a,O=Test,C=ES".to_owned(), fault: ChainFault::Key(kind) };
        assert_eq!(result, Err(expected.clone()));
        let text = format!("its key is {kind}; participants have RSA with 2048 bits or EC P-256");
        assert!(expected.to_string().ends_with(&text), "{expected}");
    }
    let leaf = EC_AUTHORITY.issue(&Draft::participant("P_a"), TestKey::claiming(rsa_info(2048)));
    assert!(anchors.verify(&leaf.certificate, &[], NOW).is_ok(), "the length alone decides");
}

#[test]
fn authorities_with_short_keys_have_signed_nothing() {
    let verified = |file: &str| {
        let [authority, leaf] = &Certificate::from_pem(file).unwrap()[..] else { panic!("two certificates") };
        let anchors = TrustAnchors { authorities: vec![authority.clone()], ..TrustAnchors::default() };
        (authority.public_key().kind(), anchors.verify(leaf, &[], leaf.not_before()))
    };
    let (kind, result) = verified(RSA_1024);
    assert_eq!((kind, fault_of(result).1), (KeyKind::Rsa(1024), ChainFault::Signature(BadSignature::Wrong)));
    let (kind, result) = verified(P384);
    assert_eq!((kind, result.is_ok()), (KeyKind::P384, true), "authorities may have longer keys than participants");
}

/// The two numbers of an ECDSA signature, without signs.
fn numbers(signature: &[u8]) -> [Vec<u8>; 2] {
    let mut fields = crate::asn1::Element::only(signature).unwrap().elements().unwrap();
    [(); 2].map(|()| {
        let value = fields.expect(2).unwrap().value;
        let value = value.strip_prefix(&[0]).unwrap_or(value);
        [&vec![0; 32 - value.len()][..], value].concat()
    })
}

/// An INTEGER of DER.
fn number(octets: &[u8]) -> Vec<u8> {
    let zeros = octets.iter().take_while(|octet| **octet == 0).count();
    let magnitude = &octets[zeros.min(octets.len() - 1)..];
    let sign: &[u8] = if magnitude[0] >= 0x80 { &[0] } else { &[] };
    der(2, &[sign, magnitude])
}

/// The order of the group, less a number.
fn negated(number: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let mut out: Vec<u8> = hex(ORDER)
        .iter()
        .zip(number)
        .rev()
        .map(|(a, b)| {
            let difference = i16::from(*a) - i16::from(*b) - borrow;
            borrow = i16::from(difference < 0);
            difference.rem_euclid(256) as u8
        })
        .collect();
    out.reverse();
    out
}

#[test]
fn both_forms_of_an_ecdsa_signature_are_accepted_and_other_codings_are_not() {
    let leaf = EC_AUTHORITY.issue(&Draft::participant("P_a"), TestKey::ec());
    let key = leaf.certificate.public_key();
    let algorithm = leaf.key.private.message_algorithm();
    let verify = |signature: &[u8]| key.verify_message(algorithm, b"message", signature);
    let signature = leaf.key.private.sign(algorithm, b"message").unwrap();
    let [r, s] = numbers(&signature);
    let pair = |r: &[u8], s: &[u8]| der(0x30, &[r, s]);
    // With s, its negative is a signature too (X9.62): DDS Security does not choose one of them. A signature is no
    // identity of a message, so that this changes nothing.
    let twin = pair(&number(&r), &number(&negated(&s)));
    assert_ne!(twin, signature);
    assert_eq!([verify(&signature), verify(&twin)], [Ok(()), Ok(())]);
    let zero = number(&[0]);
    let order = number(&hex(ORDER));
    let with_zeros = der(2, &[&[0, 0], &s]);
    let negative = der(2, &[&[[0x80], [1]].concat()]);
    for (malformed, what) in [
        (Vec::new(), "nothing"),
        ([&signature[..], &[0]].concat(), "a byte behind it"),
        (pair(&number(&r), &[&number(&s)[..], &zero].concat()), "a third number"),
        (number(&r), "one number"),
        (pair(&zero, &number(&s)), "r is 0"),
        (pair(&number(&r), &zero), "s is 0"),
        (pair(&order, &number(&s)), "r is the order"),
        (pair(&number(&r), &order), "s is the order"),
        (pair(&number(&r), &with_zeros), "s with superfluous zeros"),
        (pair(&number(&r), &negative), "s is negative"),
        (pair(&number(&s), &number(&r)), "both exchanged"),
        ([r.clone(), s.clone()].concat(), "the numbers without a frame"),
    ] {
        assert_eq!(verify(&malformed), Err(BadSignature::Wrong), "{what}");
    }
}
