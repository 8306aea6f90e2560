//! DDS Security between participants of one process, over real sockets.

mod realm;

use std::fmt::Write as _;
use std::time::Instant;

use peregrine::qos::{Partition, PublisherQos, SubscriberQos};
use peregrine::security::SecurityEvent;
use peregrine::{DiscoveryEvent, Error};
use peregrine_rtps::protection::ProtectionKind;
use realm::{Block, Levels, PATIENCE, Realm, exchange, participant, reader, writer};

#[test]
fn participants_of_one_authority_exchange_samples_at_each_level_of_protection() {
    use ProtectionKind::{Encrypt, EncryptWithOriginAuthentication, None, Sign, SignWithOriginAuthentication};
    let levels = |messages, discovery, submessages, payloads| Levels { messages, discovery, submessages, payloads };
    let mut failures = String::new();
    for (place, levels) in [
        levels(None, None, None, None),
        levels(Sign, None, None, None),
        levels(Encrypt, None, None, None),
        levels(None, Encrypt, None, None),
        levels(None, None, Sign, None),
        levels(None, None, Encrypt, None),
        levels(None, None, None, Sign),
        levels(None, None, None, Encrypt),
        levels(Sign, Encrypt, Encrypt, Encrypt),
        levels(EncryptWithOriginAuthentication, Encrypt, SignWithOriginAuthentication, Encrypt),
    ]
    .into_iter()
    .enumerate()
    {
        let realm = Realm::new(levels);
        let domain = 80 + place as u32;
        let a = participant(domain, realm.member("A", 2));
        let mut events = a.discovery_events();
        let b = participant(domain, realm.member("B", 3));
        let began = Instant::now();
        let (writer, reader) = (writer(&a, "open"), reader(&b, "open"));
        if let Err(error) = writer.wait_for_readers(1, PATIENCE) {
            writeln!(failures, "{levels:?}: {error}").unwrap();
            writeln!(failures, "    A {:?}", a.counters()).unwrap();
            writeln!(failures, "    B {:?}", b.counters()).unwrap();
            for event in std::iter::from_fn(|| events.try_next()) {
                writeln!(failures, "    {event:?}").unwrap();
            }
            continue;
        }
        eprintln!("{levels:?}: matched after {:?}", began.elapsed());
        exchange(&writer, &reader);
        let is_authenticated = |event: &DiscoveryEvent| matches!(event, DiscoveryEvent::Security(SecurityEvent::Authenticated { subject, .. }) if subject.contains("CN=B"));
        assert!(std::iter::from_fn(|| events.try_next()).any(|event| is_authenticated(&event)), "{levels:?}");
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn topic_that_permissions_deny_is_an_error_that_names_document_and_rule() {
    let realm = Realm::new(Levels {
        messages: ProtectionKind::None,
        discovery: ProtectionKind::None,
        submessages: ProtectionKind::None,
        payloads: ProtectionKind::Encrypt,
    });
    let participant = participant(91, realm.member("A", 2));
    let topic = participant.topic::<Block>("secret").unwrap();
    let error = topic.writer_builder().build().map(drop).unwrap_err();
    assert!(matches!(error, Error::Security(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("permissions") && text.contains("secret"), "{text}");
    assert!(topic.reader_builder().build().is_err());
    drop(writer(&participant, "open"));
}

#[test]
fn partitions_that_permissions_deny_leave_the_endpoint_as_it_was() {
    let realm = Realm::new(Levels {
        messages: ProtectionKind::None,
        discovery: ProtectionKind::None,
        submessages: ProtectionKind::None,
        payloads: ProtectionKind::Encrypt,
    });
    let a = participant(92, realm.member_in("A", 2, &["left*"]));
    let b = participant(92, realm.member_in("B", 3, &["left*"]));
    let named = |name: &str| Partition(vec![name.to_owned()]);
    let publisher = a.publisher(PublisherQos { partition: named("left"), ..PublisherQos::default() }).unwrap();
    let subscriber = b.subscriber(SubscriberQos { partition: named("left"), ..SubscriberQos::default() }).unwrap();
    let with = |partition: &Partition| {
        let mut qos = publisher.qos();
        qos.partition = partition.clone();
        publisher.set_qos(qos)
    };
    let read = |partition: &Partition| {
        let mut qos = subscriber.qos();
        qos.partition = partition.clone();
        subscriber.set_qos(qos)
    };
    let topics = [a.topic::<Block>("open").unwrap(), b.topic::<Block>("open").unwrap()];
    let writer = publisher.writer(&topics[0]).reliable().keep_all().build().unwrap();
    let reader = subscriber.reader(&topics[1]).reliable().keep_all().build().unwrap();
    exchange(&writer, &reader);
    for error in [with(&named("right")).unwrap_err(), read(&named("right")).unwrap_err()] {
        assert!(matches!(&error, Error::Security(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("permissions") && text.contains("right"), "{text}");
    }
    assert_eq!((publisher.qos().partition, subscriber.qos().partition), (named("left"), named("left")));
    exchange(&writer, &reader);
    with(&named("left2")).unwrap();
    read(&named("left2")).unwrap();
    exchange(&writer, &reader);
}
