//! DDS Security between participants of one process, over real sockets.

mod realm;

use std::fmt::Write as _;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use peregrine::qos::{Partition, PublisherQos, SubscriberQos};
use peregrine::security::check::{Finding, Severity};
use peregrine::security::{MessageRefusal, RenewalCause, SecurityEvent};
use peregrine::{DiscoveryEvent, DiscoveryEvents, DomainParticipant, Error, Guid};
use peregrine_rtps::protection::ProtectionKind;
use realm::hooked_access::lenient;
use realm::sets_on_drop::SetsOnDrop;
use realm::watched_keys::watched_keys;
use realm::watched_threads::{Call, watched_threads};
use realm::{Block, Levels, PATIENCE, Realm, await_event, config, exchange, participant, reader, writer};

/// Everything is encrypted.
const ENCRYPTED: Levels = Levels {
    messages: ProtectionKind::Encrypt,
    discovery: ProtectionKind::Encrypt,
    submessages: ProtectionKind::Encrypt,
    payloads: ProtectionKind::Encrypt,
};

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
        let seen: Vec<DiscoveryEvent> = std::iter::from_fn(|| events.try_next()).collect();
        assert!(seen.iter().any(is_authenticated), "{levels:?}");
        let is_refusal =
            |event: &&DiscoveryEvent| matches!(event, DiscoveryEvent::Security(SecurityEvent::PacketsRefused { .. }));
        assert_eq!(seen.iter().filter(is_refusal).count(), 0, "{levels:?}: {seen:?}");
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

#[test]
fn peer_that_is_revoked_while_samples_flow_is_let_go_and_does_not_return() {
    let realm = Realm::new(ENCRYPTED);
    let a = participant(93, realm.member("A", 2));
    let mut events = a.discovery_events();
    let revoked = realm.member("B", 3);
    let (b, c) = (participant(93, revoked.clone()), participant(93, realm.member("C", 4)));
    let (writer, of_b, of_c) = (writer(&a, "open"), reader(&b, "open"), reader(&c, "open"));
    writer.wait_for_readers(2, PATIENCE).unwrap();
    exchange(&writer, &of_c);

    let is_revoked = |event: &SecurityEvent| matches!(event, SecurityEvent::Revoked { .. });
    let is_renewal = |event: &SecurityEvent| matches!(event, SecurityEvent::KeysRenewed { .. });
    let is_end = |event: &DiscoveryEvent| match event {
        DiscoveryEvent::Security(event) => is_revoked(event) || is_renewal(event),
        event => matches!(event, DiscoveryEvent::ParticipantLost(..)),
    };
    // A list without B changes nothing.
    a.set_revocations(&realm.revoking(&[99])).unwrap();
    exchange(&writer, &of_c);
    assert_eq!(writer.matched_subscriptions().len(), 2);
    assert!(std::iter::from_fn(|| events.try_next()).all(|event| !is_end(&event)));
    a.set_revocations(&realm.revoking(&[3])).unwrap();
    let before = await_event(&mut events, is_revoked);
    let Some(SecurityEvent::Revoked { peer, refusal }) = before.last() else { unreachable!() };
    assert_eq!(*peer, b.guid().prefix);
    assert!(refusal.to_string().contains("CN=B") && refusal.to_string().contains("revoked"), "{refusal}");
    await_event(
        &mut events,
        |event| matches!(event, SecurityEvent::KeysRenewed { cause: RenewalCause::Expulsion, senders } if *senders > 1),
    );
    assert_eq!(writer.matched_subscriptions(), [of_c.guid()]);
    exchange(&writer, &of_c);

    // The same certificate, with another participant.
    let again = participant(93, revoked);
    let _of_again = reader(&again, "open");
    let prefix = again.guid().prefix;
    await_event(&mut events, |event| match event {
        SecurityEvent::MessageRefused { peer, refusal } => *peer == prefix && refusal.to_string().contains("revoked"),
        _ => false,
    });
    assert_eq!(writer.matched_subscriptions(), [of_c.guid()]);
    drop(of_b);
}

#[test]
fn unusable_revocation_list_is_named_and_leaves_the_former_one_in_use() {
    let (realm, stranger) = (Realm::new(ENCRYPTED), Realm::new(ENCRYPTED));
    let a = participant(94, realm.member("A", 2).revocations(realm.revoking(&[3])));
    let mut events = a.discovery_events();
    let good = realm.revoking(&[]);
    let damaged = format!("{}{}", &good[..good.len() / 2], "!\n-----END X509 CRL-----\n");
    let forged = stranger.revoking(&[]);
    for (list, expected) in [
        ("file:/nowhere/list.pem", "revocation list cannot be read from /nowhere/list.pem"),
        ("data:,no list", "no `X509 CRL` block"),
        (damaged.as_str(), "revocation list is not usable"),
        (forged.as_str(), "is not signed by its authority"),
    ] {
        let error = a.set_revocations(list).unwrap_err();
        assert!(matches!(error, Error::Security(_)) && error.to_string().contains(expected), "{error}");
    }
    // B is in the list that the participant was made with.
    let b = participant(94, realm.member("B", 3));
    await_event(&mut events, |event| match event {
        SecurityEvent::MessageRefused { refusal, .. } => refusal.to_string().contains("revoked"),
        _ => false,
    });
    drop(b);
    // An empty list takes its place.
    a.set_revocations(&good).unwrap();
    let _accepted = participant(94, realm.member("B", 3));
    await_event(&mut events, |event| matches!(event, SecurityEvent::Authenticated { .. }));

    let without = DomainParticipant::builder(94).config(config()).build().unwrap();
    let error = without.set_revocations(&good).unwrap_err().to_string();
    assert!(error.contains("without certificates"), "{error}");
    a.close(Duration::ZERO).unwrap();
    assert!(matches!(a.set_revocations(&good), Err(Error::AlreadyDeleted)));
}

/// Samples that a writer is ahead of its reader at most.
const AHEAD_MAX: u64 = 500;

#[test]
fn keys_that_are_renewed_in_mid_flow_lose_no_sample() {
    let realm = Realm::new(ENCRYPTED);
    for (place, cause) in [RenewalCause::Demand, RenewalCause::Blocks].into_iter().enumerate() {
        let domain = 95 + place as u32;
        let (plugins, activated) = watched_keys();
        let of_a = realm.member("A", 2).plugins(plugins);
        let of_a = if cause == RenewalCause::Blocks { of_a.blocks_per_key(1000) } else { of_a };
        let (a, b) = (participant(domain, of_a), participant(domain, realm.member("B", 3)));
        let mut events = a.discovery_events();
        let (writer, reader) = (writer(&a, "open"), reader(&b, "open"));
        writer.wait_for_readers(1, PATIENCE).unwrap();
        let (is_over, taken) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let writing = scope.spawn(|| {
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    if number > taken.load(Ordering::Relaxed) + AHEAD_MAX {
                        std::thread::yield_now();
                        continue;
                    }
                    writer.write(&Block { number, octets: vec![7; 100] }).unwrap();
                    number += 1;
                }
                number
            });
            let stop = SetsOnDrop(&is_over);
            let take = || {
                let sample = reader.wait_and_take(PATIENCE).unwrap();
                let expected = taken.load(Ordering::Relaxed);
                assert_eq!(sample.into_value().map(|block| block.number), Some(expected));
                taken.store(expected + 1, Ordering::Relaxed);
            };
            for _ in 0..100 {
                take();
            }
            if cause == RenewalCause::Demand {
                a.renew_keys().unwrap();
            }
            let end = Instant::now() + PATIENCE;
            while activated.load(Ordering::Relaxed) == 0 {
                assert!(Instant::now() < end, "no new key is in use");
                take();
            }
            for _ in 0..100 {
                take();
            }
            drop(stop);
            let written = writing.join().unwrap();
            while taken.load(Ordering::Relaxed) < written {
                take();
            }
        });
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
        assert!(reader.take().unwrap().is_empty(), "no sample comes twice");
        await_event(&mut events, |event| match event {
            SecurityEvent::KeysRenewed { cause: found, senders } => *found == cause && *senders > 0,
            _ => false,
        });
    }
    let without = DomainParticipant::builder(95).config(config()).build().unwrap();
    let error = without.renew_keys().unwrap_err().to_string();
    assert!(error.contains("without certificates"), "{error}");
    let never = DomainParticipant::builder(95).security(realm.member("A", 2).blocks_per_key(0));
    let error = never.build().map(drop).unwrap_err().to_string();
    assert!(error.contains("blocks_per_key is 0"), "{error}");
}

/// The reason why a local endpoint does not match this remote one.
fn await_non_match(events: &mut DiscoveryEvents, remote: Guid) -> String {
    loop {
        let event = events.wait_next(PATIENCE).expect("the endpoints do not match, and the reason is an event");
        if let DiscoveryEvent::NotMatched { remote: found, reason, .. } = event
            && found == remote
        {
            return reason.to_string();
        }
    }
}

#[test]
fn data_tags_decide_on_both_sides_and_denials_name_them() {
    let realm = Realm::new(ENCRYPTED);
    let tags = [("level", "secret"), ("unit", "a")];
    let (plugins, is_strict) = lenient();
    let a = participant(97, realm.member_tagged("A", 2, &tags));
    let mut events = a.discovery_events();
    let b = participant(97, realm.member_tagged("B", 3, &tags).plugins(plugins));
    let [of_a, of_b] = [&a, &b].map(|participant| participant.topic::<Block>("open").unwrap());

    let wrong = [("level", "public")];
    let denied = [
        of_a.writer_builder().data_tags(wrong).build().map(drop).unwrap_err(),
        of_a.reader_builder().data_tags(wrong).build().map(drop).unwrap_err(),
    ];
    for (error, element) in denied.into_iter().zip(["publish", "subscribe"]) {
        assert!(matches!(error, Error::Security(_)), "{error:?}");
        let text = error.to_string();
        for expected in ["permissions", "level=public", "<data_tags>", element] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
    }

    let writer = of_a.writer_builder().reliable().keep_all().data_tags([tags[0]]).build().unwrap();
    let reader = of_b.reader_builder().reliable().keep_all().data_tags(tags).build().unwrap();
    exchange(&writer, &reader);
    // B does not compare the tags of its own endpoints, and A does.
    let of_others = of_b.reader_builder().reliable().data_tags(wrong).build().unwrap();
    let reason = await_non_match(&mut events, of_others.guid());
    for expected in ["security", "CN=B", "permissions", "level=public"] {
        assert!(reason.contains(expected), "{expected}: {reason}");
    }
    assert_eq!(writer.matched_subscriptions(), [reader.guid()]);
    // Later B compares them, too: both sides name the tags.
    is_strict.store(true, Ordering::Relaxed);
    let mut of_both = [a.discovery_events(), b.discovery_events()];
    let second = of_a.writer_builder().reliable().data_tags([tags[0]]).build().unwrap();
    for (events, remote) in of_both.iter_mut().zip([of_others.guid(), second.guid()]) {
        let reason = await_non_match(events, remote);
        for expected in ["security", "permissions", "subscribing to topic `open`", "level=public"] {
            assert!(reason.contains(expected), "{expected}: {reason}");
        }
    }
    assert!(of_others.matched_publications().is_empty());

    // A change of partitions is judged with the tags.
    let publisher = a.publisher(PublisherQos::default()).unwrap();
    let tagged = publisher.writer(&of_a).data_tags([tags[1]]).build().unwrap();
    let error = publisher.set_qos(PublisherQos { partition: Partition(vec!["p".to_owned()]), ..publisher.qos() });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("unit=a") && text.contains("`p`"), "{text}");
    drop(tagged);
}

#[test]
fn forged_packets_in_the_name_of_a_peer_are_events_with_their_number() {
    let realm = Realm::new(ENCRYPTED);
    let (a, b) = (participant(98, realm.member("A", 2)), participant(98, realm.member("B", 3)));
    let (writer, reader) = (writer(&a, "open"), reader(&b, "open"));
    exchange(&writer, &reader);
    let mut events = a.discovery_events();
    let of_a = b.discovered_participants().into_iter().find(|found| found.prefix == a.guid().prefix).unwrap();
    let to = of_a.metatraffic_unicast.iter().find_map(|locator| locator.to_socket_addr()).unwrap();
    // A HEARTBEAT of the writer that announces writers, without protection.
    let mut forged = b"RTPS\x02\x05\x01\x03".to_vec();
    forged.extend(b.guid().prefix.0);
    forged.extend([0x07, 0x01, 28, 0, 0, 0, 0, 0, 0, 0, 3, 0xc2]);
    forged.extend([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut told, end) = (Vec::new(), Instant::now() + PATIENCE);
    while told.last().is_none_or(|count| *count == 1) {
        assert!(Instant::now() < end, "{told:?}");
        socket.send_to(&forged, to).unwrap();
        match events.wait_next(Duration::from_millis(10)) {
            Some(DiscoveryEvent::Security(SecurityEvent::PacketsRefused { peer, refusal, count })) => {
                assert_eq!((peer, refusal), (b.guid().prefix, MessageRefusal::Unprotected));
                told.push(count);
            }
            Some(DiscoveryEvent::ParticipantLost(..)) => panic!("a forged packet has an effect"),
            _ => {}
        }
    }
    assert_eq!((told.len(), told[0]), (2, 1), "{told:?}");
    assert!(a.counters().drops.unprotected >= told[0] + told[1]);
    exchange(&writer, &reader);
}

#[test]
fn check_of_a_configuration_reports_permissions_and_faults_of_its_parts() {
    let (realm, stranger) = (Realm::new(ENCRYPTED), Realm::new(ENCRYPTED));
    let report = realm.member("A", 2).check(7, "").unwrap();
    assert!(report.is_usable(), "{report}");
    let text = report.to_string();
    assert!(text.contains("CN=A") && text.contains("may join") && !text.contains("PRIVATE KEY"), "{text}");

    let [.., (_, governance), _] = stranger.member_parts("A", 2);
    let report = realm.member("A", 2).revocations(realm.revoking(&[2])).governance(governance).check(7, "").unwrap();
    assert!(!report.is_usable());
    for file in ["governance document", "identity certificate"] {
        let is_fault = |finding: &Finding| finding.severity == Severity::Error && finding.file == file;
        assert!(report.findings.iter().any(is_fault), "{file}: {report}");
    }
    let missing = realm.member("A", 2).permissions("file:/nowhere/permissions.p7s").check(7, "").unwrap_err();
    assert!(missing.to_string().contains("/nowhere/permissions.p7s"), "{missing}");
}

#[test]
fn denial_of_a_writer_is_a_non_match_with_the_reason_on_both_sides() {
    let realm = Realm::new(ENCRYPTED);
    // B makes a writer that its permissions deny. Later it asks them, as after a change.
    let (plugins, is_strict) = lenient();
    let b = participant(99, realm.member("B", 3).plugins(plugins));
    let mut of_b = b.discovery_events();
    let writer = writer(&b, "secret");
    is_strict.store(true, Ordering::Relaxed);
    let a = participant(99, realm.member_with("A", 2, &["secret"]));
    let mut of_a = a.discovery_events();
    let reader = reader(&a, "secret");
    for (events, remote) in [(&mut of_a, writer.guid()), (&mut of_b, reader.guid())] {
        let reason = await_non_match(events, remote);
        for expected in ["security", "permissions", "publishing topic `secret`", "add <publish>"] {
            assert!(reason.contains(expected), "{expected}: {reason}");
        }
    }
    assert!(writer.matched_subscriptions().is_empty() && reader.matched_publications().is_empty());
}

#[test]
fn jobs_of_handshakes_run_on_their_own_thread() {
    let realm = Realm::new(ENCRYPTED);
    let (plugins, threads) = watched_threads();
    let a = participant(100, realm.member("A", 2).plugins(plugins));
    let b = participant(100, realm.member("B", 3));
    exchange(&writer(&a, "open"), &reader(&b, "open"));
    let threads = threads.lock().unwrap().clone();
    let is_of_jobs = |name: &&String| name.contains("jobs-");
    let messages = &threads[&Call::Message];
    assert_eq!(messages.iter().filter(is_of_jobs).count(), 0, "{messages:?}");
    let jobs = &threads[&Call::JobDone];
    assert!(jobs.len() >= 2 && jobs.iter().all(|name| is_of_jobs(&name)), "{jobs:?}");
}

#[test]
fn readers_in_a_multicast_group_get_each_protected_sample_once() {
    use ProtectionKind::{Encrypt, None, Sign};
    let group: IpAddr = "239.255.7.10".parse().unwrap();
    let signed = Levels { messages: Sign, discovery: Encrypt, submessages: None, payloads: None };
    let encrypted = Levels { messages: None, discovery: Encrypt, submessages: Encrypt, payloads: None };
    for (place, levels) in [signed, encrypted].into_iter().enumerate() {
        let domain = 78 + place as u32;
        let realm = Realm::new(levels);
        // Each participant has sockets of its own, as in another process.
        let apart = |name: &str, serial| {
            let mut config = config();
            config.threads.name_prefix = name.to_lowercase();
            config.shared_memory = false;
            let builder = DomainParticipant::builder(domain).config(config);
            builder.security(realm.member(name, serial)).build().unwrap()
        };
        let (a, there) = (apart("A", 2), [apart("B", 3), apart("C", 4)]);
        let writer = writer(&a, "open");
        let readers = there.each_ref().map(|participant| {
            let topic = participant.topic::<Block>("open").unwrap();
            topic.reader_builder().reliable().keep_all().multicast(group).build().unwrap()
        });
        writer.wait_for_readers(2, PATIENCE).unwrap();
        readers.iter().for_each(|reader| reader.wait_for_writers(1, PATIENCE).unwrap());
        let by_group = |participant: &DomainParticipant| {
            let port = 7401 + 250 * u16::try_from(domain).unwrap();
            let sockets = participant.transport_statistics();
            let of_group = sockets.iter().filter(|(address, _)| address.port() == port);
            of_group.map(|(_, counts)| counts.datagrams_received).sum::<u64>()
        };
        // The first samples may be sent to each reader alone.
        let (mut written, end) = (0, Instant::now() + PATIENCE);
        while there.iter().any(|participant| by_group(participant) < 100) {
            assert!(Instant::now() < end, "{levels:?}: no datagrams come by the group");
            for _ in 0..100 {
                writer.write(&Block { number: written, octets: vec![7; 100] }).unwrap();
                written += 1;
            }
            writer.wait_for_acknowledgments(PATIENCE).unwrap();
        }
        for reader in &readers {
            for number in 0..written {
                let sample = reader.wait_and_take(PATIENCE).unwrap();
                assert_eq!(sample.into_value().map(|block| block.number), Some(number), "{levels:?}");
            }
            assert!(reader.take().unwrap().is_empty(), "{levels:?}: a sample comes twice");
        }
    }
}
