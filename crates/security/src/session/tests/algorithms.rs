//! Algorithms that the governance permits, enforced for this participant and for its peers.

use peregrine_rtps::protection::ProtectionKind;
use peregrine_rtps::time::Span;

use super::world::*;
use crate::authentication::{Input, UnusableIdentity};
use crate::crypto::{KeyLength, Passphrases, RefusedKeys};
use crate::documents::Document;
use crate::identity::{ChainFault, Digest, KeyKind, SignatureAlgorithm};
use crate::session::*;
use crate::testing::{Draft, EC_AUTHORITY, NOW, RSA_AUTHORITY, TestKey, random};

const P256: &str = "ECDSA+P256+SHA256";
const RSA_PSS: &str = "RSASSA-PSS-MGF1SHA256+2048+SHA256";
const RSA_PKCS1: &str = "RSASSA-PKCS1-V1_5+2048+SHA256";
const MESSAGES: &str = "digital_signature";
const CHAIN: &str = "digital_signature_identity_trust_chain";
const CIPHER: &str = "symmetric_cipher";

/// The rules of the strict governance, with lists of permitted algorithms.
fn permitting(lists: &[(&str, &[&str])]) -> Start {
    let list = |(element, names): &(&str, &[&str])| {
        let names: String = names.iter().map(|name| format!("<algorithm>{name}</algorithm>")).collect();
        format!("<{element}>{names}</{element}>")
    };
    let lists: String = lists.iter().map(list).collect();
    let algorithms = format!("<allowed_crypto_algorithms>{lists}</allowed_crypto_algorithms>");
    Start::with(Rules { algorithms, ..Rules::strict() })
}

#[test]
fn own_key_chain_and_documents_must_be_of_permitted_algorithms() {
    let refused = |start: &Start, owner: &Owner, trusted| start.credential(owner, trusted, NOW).unwrap_err();
    let denial = |refused: UnusableCredential| match refused {
        UnusableCredential::Denied(denial) => {
            assert_eq!(denial.document, Document::Governance);
            assert!(denial.at.is_some_and(|at| at.line > 1), "{denial}");
            denial.to_string()
        }
        other => panic!("{other}"),
    };
    let start = permitting(&[(MESSAGES, &[RSA_PSS]), (CHAIN, &[P256])]);
    let text = denial(refused(&start, &OWNERS[0], &EC_AUTHORITY));
    assert!(
        text.contains("the certificate has a key that is EC P-256") && text.contains("add ECDSA+P256+SHA256"),
        "{text}"
    );
    let start = permitting(&[(CHAIN, &[RSA_PKCS1])]);
    let UnusableCredential::Chain(error) = refused(&start, &OWNERS[0], &EC_AUTHORITY) else { panic!("accepted") };
    assert_eq!(error.fault, ChainFault::Algorithm(KeyKind::P256, SignatureAlgorithm::Ecdsa(Digest::Sha256)));
    // The certificate is signed as permitted, the documents are not.
    let owner = Owner::new(&RSA_AUTHORITY, OWNERS[0].name);
    let text = denial(refused(&start, &owner, &RSA_AUTHORITY));
    assert!(text.contains("the governance document is signed by ECDSA with SHA-256"), "{text}");
    // Without a list for the chain, the one for messages holds for it.
    let start = permitting(&[(MESSAGES, &[P256])]);
    let UnusableCredential::Chain(error) = refused(&start, &owner, &RSA_AUTHORITY) else { panic!("accepted") };
    assert_eq!(error.fault, ChainFault::Algorithm(KeyKind::Rsa(2048), SignatureAlgorithm::RsaPkcs1(Digest::Sha256)));
    for lists in [&[(MESSAGES, &[P256][..])][..], &[(MESSAGES, &[RSA_PSS, P256]), (CHAIN, &[P256, RSA_PKCS1])]] {
        assert!(permitting(lists).credential(&OWNERS[0], &EC_AUTHORITY, NOW).is_ok());
    }
}

#[test]
fn participants_with_the_same_restrictions_exchange_keys() {
    let lists: &[(&str, &[&str])] =
        &[(MESSAGES, &[P256]), ("key_establishment", &["ECDHE-CEUM+P256"]), (CIPHER, &["AES256+GCM"])];
    let mut world = World::new(1, PERFECT);
    OWNERS.iter().take(2).for_each(|owner| _ = world.add(owner, &permitting(lists)));
    world.meet();
    world.make_endpoints();
    world.run_for(Span::from_secs(1));
    assert!(world.nodes.iter().all(|node| !node.ready.is_empty()));
    assert!(world.nodes.iter().all(|node| node.session.statistics().keys_refused == 0));
}

#[test]
fn peer_with_a_key_of_another_algorithm_is_refused() {
    let identity = EC_AUTHORITY.issue(&Draft::participant(OWNERS[1].name), TestKey::rsa());
    let peer = Owner { identity, name: OWNERS[1].name };
    let mut world = World::new(1, PERFECT);
    world.add(&OWNERS[0], &permitting(&[(MESSAGES, &[P256])]));
    world.add(&peer, &Start::with(Rules::strict()));
    world.announce(1);
    world.run_for(Span::from_secs(1));
    let refused = |event: &SecurityEvent| {
        matches!(event, SecurityEvent::MessageRefused { refusal: crate::authentication::Refusal::Algorithm(forbidden), .. }
            if (forbidden.algorithm, forbidden.element) == (RSA_PSS, MESSAGES))
    };
    assert!(world.count(0, refused) > 0, "{:?}", world.nodes[0].events);
    assert_eq!(world.authentications(0), 0);
}

#[test]
fn keys_with_a_length_that_is_not_permitted_are_neither_used_nor_accepted() {
    let long_only = permitting(&[(CIPHER, &["AES256+GCM"])]);
    let short = |start: &Start| {
        let mut start = start.clone();
        start.config.crypto.key_length = KeyLength::Aes128;
        start
    };
    let made = |start: &Start, pre_shared: KeyLength| {
        let passphrases = Passphrases::parse(b"1:a passphrase of some length", b"").unwrap();
        let credential = start.credential(&OWNERS[0], &EC_AUTHORITY, NOW).unwrap();
        let credential = credential.with_passphrases(passphrases, pre_shared);
        let data = participant_data(&credential);
        let mut random = random(1);
        let mut input = Input { now: peregrine_rtps::time::Instant(0), wall: NOW, random: &mut random };
        Session::new(credential, data, start.config, &mut input).map(drop)
    };
    assert_eq!(made(&long_only, KeyLength::Aes256), Ok(()));
    assert_eq!(made(&long_only, KeyLength::Aes128), Err(UnusableIdentity::KeyLength));
    assert_eq!(made(&short(&long_only), KeyLength::Aes256), Err(UnusableIdentity::KeyLength));
    let both = permitting(&[(CIPHER, &["AES128+GCM", "AES256+GCM"])]);
    assert_eq!(made(&short(&both), KeyLength::Aes128), Ok(()));
    // A peer with short keys.
    let mut world = World::new(1, PERFECT);
    world.add(&OWNERS[0], &long_only);
    world.add(&OWNERS[1], &short(&Start::with(Rules::strict())));
    world.meet();
    world.make_endpoints();
    world.run_for(Span::from_secs(1));
    let refused = |event: &SecurityEvent| {
        matches!(event, SecurityEvent::KeysRefused { refusal: KeysRefusal::Refused(RefusedKeys::KeyLength), .. })
    };
    assert!(world.count(0, refused) > 0 && world.nodes[0].ready.is_empty(), "{:?}", world.nodes[0].events);
    assert_eq!(world.count(1, refused), 0);
    assert_eq!(world.nodes[0].session.rights().domain_rule().messages, ProtectionKind::SignWithOriginAuthentication);
}
