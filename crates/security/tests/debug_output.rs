//! `Debug` of public types that have secrets shows none of their bytes.

use std::fmt::Debug;

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::ProtectionKind;
use peregrine_security::crypto::{
    Algorithm, CryptoConfig, ExchangeRole, KeyFactory, KeyLength, KeyMaterial, Passphrases, PreSharedConfig,
    PreSharedKey, PreSharedKeyOwner, PreSharedKeys, ReceiverKey,
};
use peregrine_security::identity::PrivateKey;
use peregrine_security::issue::{IssuedKey, KeyChoice};
use peregrine_security::message::crypto_token;
use peregrine_security::secret::Secret;
use peregrine_security::session::Step;

const ALICE: GuidPrefix = GuidPrefix([1; 12]);
const BOB: GuidPrefix = GuidPrefix([2; 12]);
const WRITER: EntityId = EntityId([0, 0, 2, 3]);
const READER: EntityId = EntityId([0, 0, 3, 4]);

/// The bytes of all secrets of this test: random ones are these, too.
const SECRET: [u8; 32] = *b"0f!Q9z@Lm4#Tx7$Vb2%Hn6^Jk8&Pw5*Y";

/// Whether the output has eight bytes of the secret in a row, as text, as hexadecimal digits, or as a list of numbers.
fn shows(output: &str, secret: &[u8]) -> bool {
    let output: String = output.split_whitespace().collect();
    let digits = |octets: &[u8]| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    let numbers = |octets: &[u8]| octets.iter().map(|octet| format!("{octet},")).collect::<String>();
    secret.windows(8).any(|octets| {
        let text = String::from_utf8_lossy(octets);
        output.contains(&*text) || output.to_lowercase().contains(&digits(octets)) || output.contains(&numbers(octets))
    })
}

fn is_quiet(value: &impl Debug) {
    for output in [format!("{value:?}"), format!("{value:#?}")] {
        assert!(!shows(&output, &SECRET), "{output}");
    }
}

fn random(octets: &mut [u8]) {
    octets.iter_mut().zip(SECRET.iter().cycle()).for_each(|(to, from)| *to = *from);
}

#[test]
fn the_search_finds_each_form_of_a_secret() {
    assert!(shows(&format!("{:?}", SECRET), &SECRET) && shows(&format!("{:#?}", SECRET), &SECRET));
    assert!(shows(std::str::from_utf8(&SECRET).unwrap(), &SECRET));
    assert!(shows(&SECRET.map(|octet| format!("{octet:02X}")).concat(), &SECRET));
    assert!(!shows("Secret(32 bytes)", &SECRET));
}

#[test]
fn keys_and_passphrases_show_no_secret() {
    let secret = Secret::copy_of(&SECRET);
    is_quiet(&secret);
    let material = KeyMaterial {
        revision: [0; 3],
        algorithm: Some(Algorithm { key_length: KeyLength::Aes256, encrypts: true }),
        salt: secret.clone(),
        key_id: [1; 4],
        key: secret.clone(),
        receiver: Some(ReceiverKey { id: [2; 4], key: secret.clone() }),
    };
    is_quiet(&material);
    is_quiet(&material.to_bytes());
    is_quiet(&crypto_token(&material));
    is_quiet(&Step::SendVolatile { to: BOB, payload: material.to_bytes() });
    let shared = PreSharedKey { passphrase_id: 1, passphrase: secret.clone(), domain_id: 0, domain_tag: String::new() };
    is_quiet(&shared);
    let owner = PreSharedKeyOwner { version: [2, 5], vendor: [1, 15], prefix: ALICE };
    let derived = shared.key_of(owner, Algorithm { key_length: KeyLength::Aes128, encrypts: true });
    let output = format!("{derived:?} {derived:#?}");
    assert!(!shows(&output, derived.key.expose()) && !shows(&output, derived.salt.expose()), "{output}");
    let passphrases = Passphrases::parse(&[b"1:", &SECRET[..]].concat(), &[b"2:", &SECRET[..]].concat()).unwrap();
    is_quiet(&passphrases);
    let config = PreSharedConfig {
        kind: ProtectionKind::Encrypt,
        key_length: KeyLength::Aes256,
        domain_id: 0,
        domain_tag: String::new(),
        prefix: ALICE,
    };
    is_quiet(&PreSharedKeys::new(config, Some(&passphrases), &mut random));
}

#[test]
fn factories_and_their_transformations_show_no_key() {
    let kind = ProtectionKind::EncryptWithOriginAuthentication;
    let factory = || {
        let mut factory = KeyFactory::new(kind, CryptoConfig::default(), &mut random);
        factory.register_endpoint(WRITER, kind, ProtectionKind::Encrypt, &mut random);
        factory.register_endpoint(READER, kind, ProtectionKind::Encrypt, &mut random);
        factory
    };
    let (mut alice, mut bob) = (factory(), factory());
    for keys in alice.match_remote(WRITER, Guid::new(BOB, READER), &mut random) {
        is_quiet(&keys);
        bob.set_remote_keys(READER, Guid::new(ALICE, WRITER), &keys).unwrap();
        bob.set_exchange_key(ALICE, &keys[0], ExchangeRole::Replier, &mut random);
    }
    is_quiet(&alice);
    is_quiet(&bob);
    is_quiet(&bob.cryptography());
}

#[test]
fn private_keys_show_no_line_of_their_text() {
    let issued = IssuedKey::generate(KeyChoice::P256).unwrap();
    let pem = std::str::from_utf8(issued.pem().expose()).unwrap().to_owned();
    let key = PrivateKey::from_pem(&pem, None).unwrap();
    let output = format!("{issued:?} {issued:#?} {key:?} {key:#?}");
    let lines: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| !output.contains(line)), "{output}");
    assert!(!output.contains("PRIVATE KEY"), "{output}");
}
