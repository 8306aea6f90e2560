//! Pre-shared keys of DDS Security between participants of one process, over real sockets.

mod realm;

use std::time::{Duration, Instant};

use peregrine::security::{MessageRefusal, ProtectionKind, SecurityConfig, SecurityEvent};
use peregrine::{DiscoveryEvent, DiscoveryEvents, DomainParticipant, Error};
use realm::{Block, Levels, PATIENCE, Realm, config, exchange, participant, reader, writer};

/// A time in which participants that do not refuse each other match on one host.
const AWHILE: Duration = Duration::from_secs(2);
const PASSPHRASE: &str = "data:,5612:Open Sesame";

fn with_passphrase(uri: &str, kind: ProtectionKind) -> SecurityConfig {
    SecurityConfig::new().pre_shared_passphrase(uri).pre_shared_protection(kind)
}

/// Whether an event arrives in time that satisfies the condition.
fn happens(events: &mut DiscoveryEvents, patience: Duration, is_it: impl Fn(&DiscoveryEvent) -> bool) -> bool {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        while let Some(event) = events.try_next() {
            if is_it(&event) {
                return true;
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn is_refused_as(event: &DiscoveryEvent, expected: MessageRefusal) -> bool {
    matches!(event, DiscoveryEvent::Security(SecurityEvent::PacketsRefused { refusal, .. }) if *refusal == expected)
}

const fn is_found(event: &DiscoveryEvent) -> bool {
    matches!(event, DiscoveryEvent::ParticipantFound(_))
}

#[test]
fn participants_with_one_passphrase_and_no_certificates_exchange_samples() {
    for (place, kind) in [ProtectionKind::Sign, ProtectionKind::Encrypt].into_iter().enumerate() {
        let domain = 100 + place as u32;
        let member = || participant(domain, with_passphrase(PASSPHRASE, kind));
        let (a, b, c) = (member(), member(), member());
        let (writer, near, far) = (writer(&a, "topic"), reader(&b, "topic"), reader(&c, "topic"));
        writer.wait_for_readers(2, PATIENCE).unwrap();
        exchange(&writer, &near);
        let first = far.wait_and_take(PATIENCE).unwrap();
        assert_eq!(first.into_value().map(|block| block.number), Some(0));
        for participant in [&a, &b, &c] {
            let drops = participant.counters().drops;
            assert_eq!((drops.unprotected, drops.not_authentic, drops.unknown_passphrase), (0, 0, 0), "{drops:?}");
        }
    }
}

#[test]
fn wrong_passphrase_matches_nothing_and_has_a_reason_and_a_counter() {
    let kind = ProtectionKind::Encrypt;
    let a = participant(102, with_passphrase(PASSPHRASE, kind));
    let mut events = a.discovery_events();
    let writer = writer(&a, "topic");
    let same_number = participant(102, with_passphrase("data:,5612:Open Barley", kind));
    let _same_number = reader(&same_number, "topic");
    assert!(happens(&mut events, PATIENCE, |event| is_refused_as(event, MessageRefusal::NotAuthentic)));
    let other_number = participant(102, with_passphrase("data:,5613:Open Sesame", kind));
    let _other_number = reader(&other_number, "topic");
    assert!(happens(&mut events, PATIENCE, |event| is_refused_as(event, MessageRefusal::UnknownPassphrase)));
    assert!(writer.wait_for_readers(1, AWHILE).is_err());
    assert!(!happens(&mut events, Duration::ZERO, is_found));
    let drops = a.counters().drops;
    assert!(drops.not_authentic > 0 && drops.unknown_passphrase > 0, "{drops:?}");
}

#[test]
fn unprotected_stranger_is_neither_found_nor_answered() {
    let a = participant(103, with_passphrase(PASSPHRASE, ProtectionKind::Sign));
    let mut events = a.discovery_events();
    let stranger = DomainParticipant::builder(103).config(config()).build().unwrap();
    let mut of_stranger = stranger.discovery_events();
    let (writer, _reader) = (writer(&a, "topic"), reader(&stranger, "topic"));
    assert!(happens(&mut events, PATIENCE, |event| is_refused_as(event, MessageRefusal::Unprotected)));
    assert!(writer.wait_for_readers(1, AWHILE).is_err());
    assert!(!happens(&mut events, Duration::ZERO, is_found) && !happens(&mut of_stranger, Duration::ZERO, is_found));
    assert!(a.counters().drops.unprotected > 0);
}

#[test]
fn passphrase_that_is_replaced_in_mid_flow_loses_no_sample() {
    let member = || participant(104, with_passphrase("data:,1:old", ProtectionKind::Encrypt));
    let (a, b) = (member(), member());
    let (writer, reader) = (writer(&a, "topic"), reader(&b, "topic"));
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let replace = |participant: &DomainParticipant, primary: &str, extra: Option<&str>| {
        participant.set_pre_shared_passphrases(primary, extra).unwrap();
    };
    let (old, new) = ("data:,1:old", "data:,2:new");
    for number in 0..3000u64 {
        match number {
            500 => replace(&a, old, Some(new)),
            600 => replace(&b, old, Some(new)),
            1000 => replace(&a, new, Some(old)),
            1500 => replace(&b, new, Some(old)),
            // Messages under way have the former passphrase, and those that are refused are sent again.
            2000 => replace(&a, new, None),
            2500 => replace(&b, new, None),
            _ => {}
        }
        writer.write(&Block { number, octets: vec![7; 100] }).unwrap();
        let sample = reader.wait_and_take(PATIENCE).unwrap();
        assert_eq!(sample.into_value().map(|block| block.number), Some(number));
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    // A participant with the new passphrase joins, and one with the old one does not.
    let late = participant(104, with_passphrase(new, ProtectionKind::Encrypt));
    let _late = reader_of(&late);
    writer.wait_for_readers(2, PATIENCE).unwrap();
    let stale = participant(104, with_passphrase(old, ProtectionKind::Encrypt));
    let _stale = reader_of(&stale);
    assert!(writer.wait_for_readers(3, AWHILE).is_err());
}

fn reader_of(participant: &DomainParticipant) -> peregrine::DataReader<Block> {
    reader(participant, "topic")
}

#[test]
fn unusable_passphrases_leave_the_former_ones_in_use() {
    let member = || participant(105, with_passphrase(PASSPHRASE, ProtectionKind::Encrypt));
    let (a, b) = (member(), member());
    let error = a.set_pre_shared_passphrases("data:,256", None).unwrap_err();
    assert!(matches!(error, Error::Security(_)), "{error:?}");
    exchange(&writer(&a, "topic"), &reader(&b, "topic"));
    let plain = DomainParticipant::builder(105).config(config()).build().unwrap();
    let error = plain.set_pre_shared_passphrases(PASSPHRASE, None).unwrap_err();
    assert!(error.to_string().contains("without passphrase"), "{error}");
}

#[test]
fn participants_with_certificates_protect_discovery_and_handshakes_with_the_passphrase() {
    use ProtectionKind::{Encrypt, None, Sign};
    for (place, messages) in [None, Sign].into_iter().enumerate() {
        let domain = 106 + place as u32;
        let levels = Levels { messages, discovery: Encrypt, submessages: None, payloads: Encrypt };
        let realm = Realm::with_pre_shared_key(levels, Encrypt);
        let missing = DomainParticipant::builder(domain).config(config()).security(realm.member("A", 2)).build();
        let error = missing.map(drop).unwrap_err().to_string();
        assert!(error.contains("no passphrase of the pre-shared key is stated"), "{error}");

        let member =
            |name: &str, serial, uri: &str| participant(domain, realm.member(name, serial).pre_shared_passphrase(uri));
        let a = member("A", 2, PASSPHRASE);
        let mut events = a.discovery_events();
        let b = member("B", 3, PASSPHRASE);
        let (writer, reader) = (writer(&a, "open"), reader(&b, "open"));
        exchange(&writer, &reader);
        let is_authenticated =
            |event: &DiscoveryEvent| matches!(event, DiscoveryEvent::Security(SecurityEvent::Authenticated { .. }));
        assert!(happens(&mut events, PATIENCE, is_authenticated));
        // A valid certificate does not help without the passphrase.
        let c = member("C", 4, "data:,5612:Open Barley");
        let _denied = self::reader(&c, "open");
        assert!(happens(&mut events, PATIENCE, |event| is_refused_as(event, MessageRefusal::NotAuthentic)));
        assert!(writer.wait_for_readers(2, AWHILE).is_err());
        // The passphrase changes while the authenticated participants go on.
        for participant in [&a, &b] {
            participant.set_pre_shared_passphrases("data:,6000:Open Rye", Some(PASSPHRASE)).unwrap();
        }
        exchange(&writer, &reader);
    }
}
