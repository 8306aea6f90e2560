//! Plug-ins of applications: the examples with an access control, an authentication and a cryptography of their own.

#[path = "../examples/access_control.rs"]
mod access_control;
#[path = "../examples/own_plugins/main.rs"]
mod own_plugins;

use own_plugins::cryptography::ChaCha;
use own_plugins::realm::{Realm, await_event, exchange, participant, reader, writer};
use own_plugins::{LEVELS, Trace, plugins};

use peregrine::security::SecurityEvent;
use peregrine::security::plugins::access_control::PeerRefusal;
use peregrine::security::plugins::authentication::{Failure, Refusal};
use peregrine::security::plugins::cryptography::{
    CryptoFooter, Cryptographic, EntityId, Guid, GuidPrefix, KeyMaterial, OpenError, ProtectionKind, RefusedKeys,
    Scope, Seal, Text,
};

#[test]
fn access_control_of_an_application_decides_in_place_of_the_permissions() {
    let seen = access_control::run().unwrap();
    assert!((seen.sum - 3.0).abs() < f64::EPSILON);
    assert!(seen.denial.contains("`payroll` does not begin with `robot/`"), "{}", seen.denial);
}

#[test]
fn participants_with_an_authentication_and_a_cryptography_of_their_own_exchange_samples() {
    let trace = own_plugins::run().unwrap();
    let counts = trace.counts();
    assert!(counts.len() == 2 && counts.iter().all(|(sealed, opened)| *sealed > 0 && *opened > 0), "{counts:?}");
    let is_of_jobs = |name: &String| name.contains("jobs-");
    let computing = trace.threads.computing.lock().unwrap();
    assert!(!computing.is_empty() && computing.iter().all(is_of_jobs), "{computing:?}");
    let receiving = trace.threads.receiving.lock().unwrap();
    assert!(!receiving.is_empty() && !receiving.iter().any(is_of_jobs), "{receiving:?}");
}

#[test]
fn participant_with_another_secret_is_refused_with_the_reason_and_does_not_match() {
    const DOMAIN: u32 = 114;
    let (realm, trace) = (Realm::new(LEVELS), Trace::default());
    let with_secret =
        |name, serial, secret| participant(DOMAIN, realm.member(name, serial).plugins(plugins(secret, &trace)));
    let a = with_secret("A", 2, "one");
    let mut events = a.discovery_events();
    let (b, c) = (with_secret("B", 3, "another"), with_secret("C", 4, "one"));
    let mut events_of_b = b.discovery_events();
    let (writer, of_b, of_c) = (writer(&a, "open"), reader(&b, "open"), reader(&c, "open"));
    // The participant with the lower GUID gets the first proof of the other one.
    let is_first = a.guid().prefix < b.guid().prefix;
    let (events, peer) = if is_first { (&mut events, b.guid()) } else { (&mut events_of_b, a.guid()) };
    let reason = Refusal::Plugin("the participant has another secret".to_owned());
    let refusal = PeerRefusal::NotAuthenticated(Failure::TimedOut(Some(reason)));
    let expected = SecurityEvent::Refused { peer: peer.prefix, refusal };
    await_event(events, |event| *event == expected);
    exchange(&writer, &of_c);
    assert_eq!(writer.matched_subscriptions(), [of_c.guid()]);
    assert!(of_b.matched_publications().is_empty());
}

#[test]
fn participant_with_the_built_in_authentication_refuses_one_with_another_at_once() {
    const DOMAIN: u32 = 115;
    let (realm, trace) = (Realm::new(LEVELS), Trace::default());
    let a = participant(DOMAIN, realm.member("A", 2));
    let mut events = a.discovery_events();
    let b = participant(DOMAIN, realm.member("B", 3).plugins(plugins("one", &trace)));
    let seen = await_event(&mut events, |event| matches!(event, SecurityEvent::Refused { .. }));
    let refusal = PeerRefusal::NotAuthenticated(Failure::NoIdentity);
    assert_eq!(seen.last(), Some(&SecurityEvent::Refused { peer: b.guid().prefix, refusal }));
}

const ALICE: GuidPrefix = GuidPrefix([1; 12]);
const BOB: GuidPrefix = GuidPrefix([2; 12]);
const WRITER: EntityId = EntityId([0, 0, 2, 3]);
const READER: EntityId = EntityId([0, 0, 3, 4]);
const TEXT: &[u8] = b"sixteen bytes, and some more";

/// Opens as Bob's reader what Alice has sealed.
fn open(bob: &ChaCha, scope: Scope, seal: &Seal, text: &mut [u8]) -> Result<Guid, OpenError> {
    let footer = [&seal.common_mac[..], &[0; 4]].concat();
    let (footer, _) = CryptoFooter::parse(&footer).unwrap();
    bob.protection().open(scope, ALICE, &seal.header, &footer, Text::Encrypted(text))
}

#[test]
fn cryptography_of_the_example_opens_only_what_the_owner_of_the_key_has_sealed() {
    let mut number = 0;
    let mut random = |bytes: &mut [u8]| {
        number += 1;
        bytes.fill(number);
    };
    let (mut alice, mut bob) = (ChaCha::new(), ChaCha::new());
    for (keys, endpoint) in [(&mut alice, WRITER), (&mut bob, READER)] {
        keys.register_participant(ProtectionKind::None, &mut random);
        keys.register_endpoint(endpoint, ProtectionKind::Encrypt, ProtectionKind::Encrypt, &mut random);
    }
    let (writer, reader) = (Guid::new(ALICE, WRITER), Guid::new(BOB, READER));
    let given: Vec<KeyMaterial> = alice.match_remote(WRITER, reader, &mut random).concat();
    let mut sealed = TEXT.to_vec();
    let seal = alice.protection().seal(Scope::Payload, WRITER, None, Text::Encrypted(&mut sealed)).unwrap();
    assert_ne!(sealed, TEXT);
    assert_eq!(open(&bob, Scope::Payload, &seal, &mut sealed.clone()), Err(OpenError::UnknownKey));
    assert_eq!(bob.set_remote_keys(WRITER, writer, &given), Err(RefusedKeys::NotRegistered));
    bob.set_remote_keys(READER, writer, &given).unwrap();

    let mut text = sealed.clone();
    assert_eq!(open(&bob, Scope::Payload, &seal, &mut text), Ok(writer));
    assert_eq!(text, TEXT);
    assert_eq!(open(&bob, Scope::Submessage, &seal, &mut sealed.clone()), Err(OpenError::NotAuthentic));
    for at in 0..sealed.len() {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert_eq!(open(&bob, Scope::Payload, &seal, &mut changed), Err(OpenError::NotAuthentic), "byte {at}");
    }
    for at in 0..seal.common_mac.len() {
        let mut changed = seal;
        changed.common_mac[at] ^= 1;
        let opened = open(&bob, Scope::Payload, &changed, &mut sealed.clone());
        assert_eq!(opened, Err(OpenError::NotAuthentic), "byte {at} of the tag");
    }
    bob.unmatch_remote(READER, writer);
    assert_eq!(open(&bob, Scope::Payload, &seal, &mut sealed.clone()), Err(OpenError::UnknownKey));
}
