//! `Debug` of public types that have secrets shows none of their bytes.
//!
//! | module | types with secrets |
//! |---|---|
//! | `secret` | `Secret` |
//! | `crypto` | `KeyMaterial`, `ReceiverKey`, `KeyFactory`, `Cryptography` |
//! | `crypto`, pre-shared keys | `Passphrase`, `Passphrases`, `PreSharedKey`, `PreSharedKeys` |
//! | `message` | `DataHolder`, `GenericMessage` |
//! | `identity`, `issue` | `PrivateKey`, `IssuedKey`, `Authority` |
//! | `authentication` | `LocalParticipant`; in the tests of the module `Authenticator`, `Job`, `JobDone`, `Event` |
//! | `session` | `CredentialParts`, `Credential`, `Session`, `Step` |
//! | `check` | `File`, `Files` |

use std::fmt::Debug;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::protection::ProtectionKind;
use peregrine_rtps::time::Instant;
use peregrine_rtps::wire::{Endianness, ParameterId, ParameterListWriter};
use peregrine_security::WallTime;
use peregrine_security::authentication::{Input, LocalParticipant};
use peregrine_security::check::{File, Files};
use peregrine_security::crypto::{
    Algorithm, CryptoConfig, ExchangeRole, KeyFactory, KeyLength, KeyMaterial, Passphrase, Passphrases,
    PreSharedConfig, PreSharedKey, PreSharedKeyOwner, PreSharedKeys, ReceiverKey,
};
use peregrine_security::documents::{Effect, PartitionMatching};
use peregrine_security::identity::{PrivateKey, TrustAnchors};
use peregrine_security::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName,
    Terms, TopicText,
};
use peregrine_security::message::{GenericMessage, MessageHead, crypto_token, names};
use peregrine_security::secret::Secret;
use peregrine_security::session::{Credential, CredentialParts, Domain, Session, SessionConfig, Step};

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
    is_quiet(&material.receiver);
    is_quiet(&crypto_token(&material));
    let (head, class_id) = (MessageHead::default(), names::DATAWRITER_CRYPTO_TOKENS.to_owned());
    is_quiet(&GenericMessage { head, class_id, data: vec![crypto_token(&material)] });
    is_quiet(&Step::SendVolatile { to: BOB, payload: material.to_bytes() });
    let shared = PreSharedKey { passphrase_id: 1, passphrase: secret.clone(), domain_id: 0, domain_tag: String::new() };
    is_quiet(&shared);
    let owner = PreSharedKeyOwner { version: [2, 5], vendor: [1, 15], prefix: ALICE };
    let derived = shared.key_of(owner, Algorithm { key_length: KeyLength::Aes128, encrypts: true });
    let output = format!("{derived:?} {derived:#?}");
    assert!(!shows(&output, derived.key.expose()) && !shows(&output, derived.salt.expose()), "{output}");
    let passphrases = Passphrases::parse(&[b"1:", &SECRET[..]].concat(), &[b"2:", &SECRET[..]].concat()).unwrap();
    is_quiet(&passphrases);
    is_quiet(&Passphrase::parse(&[b"1:", &SECRET[..]].concat()).unwrap());
    // Files with a key and its password.
    let file = File { name: "key.pem", octets: &SECRET };
    is_quiet(&file);
    is_quiet(&Files {
        identity_authorities: file,
        permissions_authorities: file,
        certificate: file,
        key: file,
        governance: file,
        permissions: file,
        revocations: Some(file),
        password: Some(&secret),
    });
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

const NOW: WallTime = WallTime(1_750_000_000);

/// An authority, and the parts of the credential of a participant with this key.
fn parts(key: &IssuedKey) -> (Authority, CredentialParts) {
    let terms = |serial| Terms { serial: [serial; 16], from: WallTime(NOW.0 - 1), until: WallTime(NOW.0 + 9) };
    let own = IssuedKey::generate(KeyChoice::P256).unwrap();
    let authority = Authority::self_signed(&SubjectName::new("Test", "CA"), own, terms(1)).unwrap();
    let certificate = authority.issue(&SubjectName::new("Test", "P"), key, terms(2)).unwrap();
    let domains = DomainText { first: 0, last: 0 };
    let topic = TopicText {
        topic: "*".to_owned(),
        enable_discovery_protection: true,
        enable_liveliness_protection: true,
        enable_read_access_control: false,
        enable_write_access_control: false,
        submessages: ProtectionKind::Encrypt,
        payloads: ProtectionKind::Encrypt,
    };
    let governance = GovernanceText {
        domains,
        allow_unauthenticated_participants: false,
        enable_join_access_control: false,
        discovery: ProtectionKind::Encrypt,
        liveliness: ProtectionKind::Encrypt,
        messages: ProtectionKind::Encrypt,
        topics: vec![topic],
    };
    let all = || vec!["*".to_owned()];
    let rule = RuleText { effect: Effect::Allow, domains, publish: all(), subscribe: all(), partitions: Vec::new() };
    let grant = GrantText {
        name: "g".to_owned(),
        subject: certificate.subject().to_string(),
        from: terms(0).from,
        until: terms(0).until,
        rules: vec![rule],
        default: Effect::Deny,
    };
    let parts = CredentialParts {
        certificates: vec![certificate],
        key: PrivateKey::from_pem(std::str::from_utf8(key.pem().expose()).unwrap(), None).unwrap(),
        identity_authorities: TrustAnchors::from_list(vec![authority.certificate().clone()]),
        permissions_authorities: vec![authority.certificate().clone()],
        governance: authority.sign_document(&governance.to_xml()).unwrap(),
        permissions: authority.sign_document(&PermissionsText { grants: vec![grant] }.to_xml()).unwrap(),
        domain: Domain::default(),
        matching: PartitionMatching::All,
        candidate: ALICE,
    };
    (authority, parts)
}

#[test]
fn credentials_and_sessions_show_neither_the_private_key_nor_keys() {
    let issued = IssuedKey::generate(KeyChoice::P256).unwrap();
    let pem = std::str::from_utf8(issued.pem().expose()).unwrap().to_owned();
    let lines: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let der = STANDARD.decode(lines.concat()).unwrap();
    // Behind the private key, the structure has the public one, which certificates show.
    let number = &der[36..68];
    let is_without_key = |value: &dyn Debug| {
        for output in [format!("{value:?}"), format!("{value:#?}")] {
            assert!(!lines.iter().any(|line| output.contains(line)) && !shows(&output, number), "{output}");
            assert!(!shows(&output, &SECRET), "{output}");
        }
    };
    assert!(shows(&format!("{der:?}"), number), "the search works");
    let (authority, with_key) = parts(&issued);
    is_without_key(&authority);
    is_without_key(&with_key);
    let (certificates, permissions) = (with_key.certificates.clone(), with_key.permissions.clone());
    let passphrases = Passphrases::parse(&[b"1:", &SECRET[..]].concat(), b"").unwrap();
    let credential = Credential::new(with_key, NOW).unwrap().with_passphrases(passphrases, KeyLength::Aes256);
    is_without_key(&credential);
    let mut data = Vec::new();
    let mut list = ParameterListWriter::new(&mut data, Endianness::Big);
    let guid = Guid::new(credential.prefix(), EntityId::PARTICIPANT).to_bytes();
    list.parameter(ParameterId::PARTICIPANT_GUID, |value| value.octets(&guid));
    list.finish();
    let key = PrivateKey::from_pem(&pem, None).unwrap();
    is_without_key(&LocalParticipant::new(credential.prefix(), &certificates, key, permissions, data.clone()).unwrap());
    let mut input = Input { now: Instant(0), wall: NOW, random: &mut random };
    is_without_key(&Session::new(credential, data, SessionConfig::default(), &mut input).unwrap());
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
