//! DDS Security between participants of one host, some of which trust it.
#![cfg(target_os = "linux")]

mod realm;

use std::time::{Duration, Instant};

use peregrine::security::{ProtectionKind, SecurityConfig};
use peregrine::{DeliveryPath, DiscoveryEvent, DomainConfig, DomainParticipant, NoSharedMemory};
use realm::{Block, Levels, PATIENCE, Realm, config, exchange, reader, writer};

/// Messages are signed, submessages are encrypted, and so are payloads with `payloads`.
fn realm(payloads: ProtectionKind) -> Realm {
    let (messages, discovery) = (ProtectionKind::Sign, ProtectionKind::Encrypt);
    Realm::new(Levels { messages, discovery, submessages: ProtectionKind::Encrypt, payloads })
}

/// A configuration with its own sockets, threads and shared memory, as another process has.
fn apart(name: &str) -> DomainConfig {
    let mut apart = config();
    apart.threads.name_prefix = name.to_owned();
    apart
}

fn with(domain: u32, config: DomainConfig, security: SecurityConfig) -> DomainParticipant {
    DomainParticipant::builder(domain).config(config).security(security).build().unwrap()
}

fn eventually(what: &str, mut is_it: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_it() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Datagrams received at the ports of user data.
fn user_datagrams(participant: &DomainParticipant) -> u64 {
    let sockets = participant.transport_statistics();
    sockets.iter().filter(|(address, _)| address.port() % 2 == 1).map(|(_, counts)| counts.datagrams_received).sum()
}

#[test]
fn samples_between_participants_that_both_trust_the_host_use_shared_memory() {
    let realm = realm(ProtectionKind::None);
    let a = with(114, config(), realm.member("A", 2).trust_host(true));
    let b = with(114, apart("b"), realm.member("B", 3).trust_host(true));
    let (writer, reader) = (writer(&a, "open"), reader(&b, "open"));
    eventually("there is no channel", || {
        (a.shared_memory_statistics().readers, b.shared_memory_statistics().writers) == (1, 1)
    });
    let before = b.shared_memory_statistics().received;
    exchange(&writer, &reader);
    assert_eq!(b.shared_memory_statistics().received - before, 6, "{:?}", b.shared_memory_statistics());
    // The topic of another rule is denied as without the policy.
    assert!(b.topic::<Block>("secret").unwrap().reader_builder().build().is_err());
}

#[test]
fn writer_serves_readers_by_shared_memory_and_by_messages_and_late_ones_at_once() {
    let realm = realm(ProtectionKind::None);
    let a = with(122, config(), realm.member("A", 2).trust_host(true));
    let b = with(122, apart("b"), realm.member("B", 3).trust_host(true));
    let c = with(122, apart("c"), realm.member("C", 4));
    let writer = a.topic::<Block>("open").unwrap().writer_builder().reliable().keep_all().transient_local();
    let writer = writer.build().unwrap();
    let late = |participant: &DomainParticipant| {
        let topic = participant.topic::<Block>("open").unwrap();
        topic.reader_builder().reliable().keep_all().transient_local().build().unwrap()
    };
    let mut readers = vec![late(&b), late(&c)];
    eventually("there is one channel", || a.shared_memory_statistics().readers == 1);
    writer.wait_for_readers(2, PATIENCE).unwrap();
    let block = |number: u64, len: usize| Block { number, octets: vec![number as u8; len] };
    let lengths = [0, 100, 5000, 70_000];
    for (number, len) in (0..).zip(lengths) {
        writer.write(&block(number, len)).unwrap();
    }
    readers.push(late(&b));
    readers.push(late(&c));
    for reader in &readers {
        for (number, len) in (0..).zip(lengths) {
            assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(block(number, len)));
        }
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    eventually("there are two channels", || a.shared_memory_statistics().readers == 2);
    assert_eq!(c.shared_memory_statistics().received, 0);
}

#[test]
fn participant_that_does_not_trust_the_host_gets_and_sends_samples_in_messages() {
    let realm = realm(ProtectionKind::None);
    for (domain, writer_trusts, reader_trusts) in [(115, true, false), (116, false, true), (117, false, false)] {
        let a = with(domain, config(), realm.member("A", 2).trust_host(writer_trusts));
        let b = with(domain, apart("b"), realm.member("B", 3).trust_host(reader_trusts));
        assert_messages_only(&a, &b);
    }
}

#[test]
fn protected_payloads_are_sent_in_messages_also_on_a_trusted_host() {
    for (domain, kind) in [(118, ProtectionKind::Sign), (119, ProtectionKind::Encrypt)] {
        let realm = realm(kind);
        let a = with(domain, config(), realm.member("A", 2).trust_host(true));
        let b = with(domain, apart("b"), realm.member("B", 3).trust_host(true));
        assert_messages_only(&a, &b);
    }
}

/// Samples from one participant reach the other in messages, and the reason is protection.
fn assert_messages_only(a: &DomainParticipant, b: &DomainParticipant) {
    let mut events = b.discovery_events();
    let (writer, reader) = (writer(a, "open"), reader(b, "open"));
    exchange(&writer, &reader);
    let path = loop {
        if let DiscoveryEvent::PathChanged { path, .. } = events.wait_next(PATIENCE).expect("the path is reported") {
            break path;
        }
    };
    assert!(matches!(path, DeliveryPath::Messages(NoSharedMemory::Protected | NoSharedMemory::Refused(_))), "{path:?}");
    let (from, to) = (a.shared_memory_statistics(), b.shared_memory_statistics());
    assert_eq!((from.readers, from.sent, to.writers, to.received), (0, 0, 0, 0));
}

#[test]
fn samples_within_a_process_that_both_sides_trust_are_delivered_by_reference() {
    let realm = realm(ProtectionKind::None);
    for (domain, trusts) in [(120, true), (121, false)] {
        let mut together = config();
        together.same_process = true;
        let a = with(domain, together.clone(), realm.member("A", 2).trust_host(true));
        let b = with(domain, together, realm.member("B", 3).trust_host(trusts));
        let (writer, reader) = (writer(&a, "open"), reader(&b, "open"));
        writer.wait_for_readers(1, PATIENCE).unwrap();
        let before = user_datagrams(&b);
        exchange(&writer, &reader);
        let datagrams = user_datagrams(&b) - before;
        // The longest sample alone has several datagrams.
        assert_eq!(datagrams < 4, trusts, "{datagrams}");
    }
}
