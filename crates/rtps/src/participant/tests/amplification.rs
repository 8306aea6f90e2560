//! The traffic that a participant can direct to an address by announcing it. Host 66 announces false addresses; host 77
//! is the victim.

use super::*;
use crate::discovery::data::ParticipantMessageData;
use crate::limits::{ANSWER_BYTES_PER_BYTE, ANSWER_CREDIT_FACTOR, ANSWER_CREDIT_MAX, ANSWER_REFILL_PER_SECOND};

const VICTIM: u32 = 77;

/// A participant on host 66 that announces addresses of the victim.
fn liar() -> ParticipantConfig {
    let mut config = config(66);
    config.addresses.metatraffic_unicast = vec![Locator::from(address(VICTIM, 7410))];
    config.addresses.default_unicast = vec![Locator::from(address(VICTIM, 7411))];
    config
}

fn sent_to_victim(domain: &Domain) -> usize {
    let is_at_victim = |m: &&Sent| m.to.iter().any(|to| to.ip() == address(VICTIM, 0).ip());
    domain.sent.iter().filter(is_at_victim).map(|m| m.bytes.len()).sum()
}

/// The addresses of a reader in the last match of its writer.
fn ways(events: &[ParticipantEvent]) -> Vec<Locator> {
    let matched = events.iter().rev().find_map(|e| match e {
        ParticipantEvent::ReaderMatched { reader, .. } => Some(reader.to.to_vec()),
        _ => None,
    });
    matched.unwrap_or_default()
}

#[test]
fn verified_participant_cannot_redirect_discovery() {
    let mut domain = Domain::of(&[1]);
    for key in 0..50 {
        domain.put_writer(1, publication(1, key, "topic"));
    }
    let mut came = 0;
    for _ in 0..30 {
        let heard = announcement(liar(), Some(prefix(1)));
        came += heard.len();
        domain.hear(1, &heard);
        domain.run(Span::from_secs(1));
    }
    let went = sent_to_victim(&domain);
    assert!(went <= came, "{went} bytes for {came}");
    assert!(domain.sent_to(1, VICTIM).iter().all(Sent::is_announcement), "the victim received discovery data");
}

#[test]
fn datagram_with_many_announcements_is_answered_once() {
    let mut domain = Domain::of(&[1]);
    domain.run(Span::from_secs(30));
    let mut heard = announcement(liar(), None);
    for host in 100..160 {
        let mut other = liar();
        other.prefix = prefix(host);
        let source = crate::wire::InfoSource {
            version: crate::vendor::ProtocolVersion::V2_5,
            vendor: VendorId::PEREGRINE,
            prefix: other.prefix,
        };
        source.emit(crate::wire::Endianness::Little, &mut heard);
        heard.extend_from_slice(&announcement(other, None)[20..]);
    }
    domain.hear(1, &heard);
    domain.run(Span::from_millis(5));
    let answers = domain.sent_to(1, VICTIM).iter().filter(|m| m.is_announcement()).count();
    let went = sent_to_victim(&domain);
    assert_eq!(domain.at(1).remote_participants().count(), 61);
    assert!(answers == 1 && went <= heard.len(), "{answers} answers");
    domain.run(Span::from_secs(1));
    let went = sent_to_victim(&domain);
    assert!(went <= ANSWER_CREDIT_FACTOR * heard.len(), "{went} bytes with all repetitions");
}

#[test]
fn reader_at_unverified_address_is_not_matched_and_reported() {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_writer(1, publication(1, 1, "topic"));
    let mut far = subscription(2, 1, "topic");
    far.unicast = vec![Locator::from(address(VICTIM, 9999))];
    domain.put_reader(2, far);
    domain.run(Span::from_secs(1));
    assert_eq!(
        ways(&domain.events(1)),
        [Locator::from(address(2, 7411))],
        "the participant is reached at its verified address"
    );

    let mut elsewhere = config(3);
    elsewhere.addresses.default_unicast = vec![Locator::from(address(VICTIM, 7411))];
    let mut domain = Domain::new([(1, config(1)), (3, elsewhere)]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(3, subscription(3, 1, "topic"));
    domain.run(Span::from_secs(1));
    let events = domain.events(1);
    assert!(matched_readers(&events).is_empty());
    let named = vec![Locator::from(address(VICTIM, 7411))];
    assert_eq!(reasons(&events), [NonMatch::Unreachable { named }]);
}

#[test]
fn message_from_address_verifies_it() {
    let mut elsewhere = config(3);
    elsewhere.addresses.default_unicast = vec![Locator::from(address(VICTIM, 7411))];
    let mut domain = Domain::new([(1, config(1)), (3, elsewhere)]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(3, subscription(3, 1, "topic"));
    domain.run(Span::from_secs(1));
    assert!(matched_readers(&domain.events(1)).is_empty());
    domain.places.insert(3, VICTIM);
    domain.run(PERIOD);
    assert_eq!(ways(&domain.events(1)), [Locator::from(address(VICTIM, 7411))]);
}

/// Acknowledgements of user data verify an address, as discovery does.
#[test]
fn user_traffic_verifies_address() {
    let mut elsewhere = config(3);
    elsewhere.addresses.default_unicast = vec![Locator::from(address(VICTIM, 7411))];
    let mut domain = Domain::new([(1, config(1)), (3, elsewhere)]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(3, subscription(3, 1, "topic"));
    domain.run(Span::from_secs(1));
    domain.events(1);
    let mut heard = vec![];
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(3) }
        .emit(&mut heard);
    let acknack = crate::wire::AckNack {
        reader: subscription(3, 1, "topic").guid.entity,
        writer: publication(1, 1, "topic").guid.entity,
        state: crate::seq::SequenceNumberSet::empty(SequenceNumber(1)),
        count: crate::seq::Count(1),
        is_final: false,
    };
    acknack.emit(crate::wire::Endianness::Little, &mut heard);
    domain.hear_from(1, address(VICTIM, 7411), &heard);
    assert_eq!(ways(&domain.events(1)), [Locator::from(address(VICTIM, 7411))]);
}

#[test]
fn participant_with_changed_address_stays_reachable_at_old_one() {
    let mut domain = Domain::of_a_pair();
    let (now, wall) = (domain.now, domain.wall());
    let mut addresses = domain.at(2).config().addresses.clone();
    addresses.metatraffic_unicast = vec![Locator::from(address(VICTIM, 7410))];
    addresses.default_unicast = vec![Locator::from(address(VICTIM, 7411))];
    domain.at(2).set_addresses(now, wall, addresses);
    domain.run(Span::from_secs(60));
    let events = domain.events(1);
    assert!(ways(&events).is_empty() && reasons(&events).is_empty() && lost(&events).is_empty(), "{events:?}");
    assert_eq!(sent_to_victim(&domain), 0);
}

#[test]
fn acknowledgements_are_sent_to_verified_addresses_only() {
    let mut elsewhere = config(3);
    elsewhere.addresses.default_unicast = vec![Locator::from(address(VICTIM, 7411))];
    let mut domain = Domain::new([(1, config(1)), (3, elsewhere)]);
    let reliable = Reliability { kind: ReliabilityKind::Reliable, ..Reliability::BEST_EFFORT };
    let mut writer = publication(3, 1, "topic");
    writer.qos.reliability = reliable;
    domain.put_writer(3, writer);
    domain.put_reader(1, subscription(1, 1, "topic"));
    let mut asking = subscription(1, 2, "topic");
    asking.qos.reliability = reliable;
    let asking_entity = asking.guid.entity;
    domain.put_reader(1, asking);
    domain.run(Span::from_secs(1));
    let matched: Vec<_> = domain
        .events(1)
        .iter()
        .filter_map(|e| match e {
            ParticipantEvent::WriterMatched { reader, writer } => Some((*reader, writer.to.to_vec())),
            _ => None,
        })
        .collect();
    // A writer that requests no acknowledgement needs no path.
    assert_eq!(matched, [(subscription(1, 1, "topic").guid.entity, vec![])]);
    domain.places.insert(3, VICTIM);
    domain.run(PERIOD);
    let is_joined =
        |e: &ParticipantEvent| matches!(e, ParticipantEvent::WriterMatched { reader, .. } if *reader == asking_entity);
    assert!(domain.events(1).iter().any(is_joined));
}

#[test]
fn trusting_names_allows_unverified_addresses() {
    let mut here = config(1);
    here.addresses.paths = Paths::default().trusting_names(true);
    let mut elsewhere = config(3);
    elsewhere.addresses.default_unicast = vec![Locator::from(address(VICTIM, 7411))];
    let mut domain = Domain::new([(1, here), (3, elsewhere)]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(3, subscription(3, 1, "topic"));
    domain.run(Span::from_secs(1));
    assert_eq!(ways(&domain.events(1)), [Locator::from(address(VICTIM, 7411))]);
}

/// The announcement is much longer than the question.
#[test]
fn questions_of_known_participants_are_answered_within_the_budget_of_their_host() {
    let user_data = UserData(vec![7; 8 << 10]);
    let qos = ParticipantQos { user_data, ..ParticipantQos::default() };
    let mut domain = Domain::new([(1, ParticipantConfig { qos, ..config(1) }), (2, config(2))]);
    domain.run(Span::from_secs(10));
    domain.cut = true;
    domain.sent.clear();
    let mut came = 0;
    for count in 0..200 {
        let mut question = vec![];
        Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(2) }
            .emit(&mut question);
        let acknack = crate::wire::AckNack {
            reader: EntityId::SEDP_PUBLICATIONS_READER,
            writer: EntityId::SEDP_PUBLICATIONS_WRITER,
            state: crate::seq::SequenceNumberSet::empty(SequenceNumber::FIRST),
            count: crate::seq::Count(1000 + count),
            is_final: false,
        };
        acknack.emit(crate::wire::Endianness::Little, &mut question);
        came += question.len();
        domain.hear_from(1, address(2, 7410), &question);
        domain.run(Span::from_millis(60));
    }
    let is_answer = |m: &&Sent| m.from == prefix(1) && m.to == [address(2, 7410)] && m.is_announcement();
    let answers: Vec<usize> = domain.sent.iter().filter(is_answer).map(|m| m.bytes.len()).collect();
    let bytes: usize = answers.iter().sum();
    let allowed = ANSWER_CREDIT_MAX + 13 * ANSWER_REFILL_PER_SECOND + came * ANSWER_BYTES_PER_BYTE;
    assert!(answers.len() > 3 && bytes <= allowed, "{} answers with {bytes} bytes for {came}", answers.len());
    assert!(domain.counters(1).drops.held_back > 100);
}

#[test]
fn drops_are_counted_per_participant() {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(1));
    // The last submessage is one byte short, once from a known and once from an unknown participant.
    for host in [2, 9] {
        let mut heard = announcement(config(host), None);
        let at = heard.len();
        heard.extend_from_slice(&[0x15, 1, 0xff, 0]);
        heard.truncate(at + 4);
        if host == 9 {
            heard[8..20].copy_from_slice(&prefix(9).0);
            heard.drain(20..at);
        }
        domain.hear(1, &heard);
    }
    let message = ParticipantMessageData {
        prefix: prefix(5),
        kind: crate::discovery::data::ParticipantMessageKind::AUTOMATIC,
        data: vec![],
    };
    let mut payload = vec![];
    message.emit(&mut payload);
    let (now, wall) = (domain.now, domain.wall());
    let change = Change {
        kind: ChangeKind::Alive,
        instance: message.key_hash(),
        source_timestamp: wall,
        payload: Payload::copy_of(&payload),
    };
    domain.at(2).builtin.messages.writer.write(now, change).unwrap();
    domain.run(Span::from_millis(50));
    let drops = domain.at(1).drops();
    let of =
        |peer: &PeerDrops| (peer.participant.map(|g| g.prefix), peer.vendor, peer.drops.malformed, peer.drops.forged);
    assert_eq!(
        drops.iter().map(of).collect::<Vec<_>>(),
        [(None, VendorId::UNKNOWN, 1, 0), (Some(prefix(2)), VendorId::PEREGRINE, 1, 1)]
    );
    let total = domain.counters(1);
    assert_eq!((total.drops.malformed, total.drops.forged), (2, 1));
    // The drops of a participant remain after it has left.
    let wall = domain.wall();
    domain.at(2).leave(wall);
    domain.run_until_idle();
    let drops = domain.at(1).drops();
    assert_eq!(drops.iter().map(of).collect::<Vec<_>>(), [(None, VendorId::UNKNOWN, 2, 1)]);
    assert_eq!(domain.counters(1), total_and(total, &domain.counters(1)));
}

/// Earlier counters, with the current number of messages.
fn total_and(before: ParticipantCounters, now: &ParticipantCounters) -> ParticipantCounters {
    ParticipantCounters { messages: now.messages, ..before }
}

#[test]
fn endpoints_at_one_address_share_a_budget() {
    let mut domain = Domain::of(&[1, 2, 3]);
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(1, subscription(1, 2, "other topic"));
    for host in [2, 3] {
        domain.put_reader(host, subscription(host, 1, "topic"));
        domain.put_reader(host, subscription(host, 2, "topic"));
        domain.put_writer(host, publication(host, 3, "other topic"));
    }
    domain.run(Span::from_secs(1));
    let budgets = domain.events(1).into_iter().filter_map(|event| match event {
        ParticipantEvent::ReaderMatched { reader, .. } => Some((reader.guid.prefix, reader.address_budget)),
        ParticipantEvent::WriterMatched { writer, .. } => Some((writer.guid.prefix, writer.address_budget)),
        _ => None,
    });
    let budgets: Vec<_> = budgets.collect();
    assert_eq!(budgets.len(), 6, "two readers and a writer of each host");
    for (a, budget) in &budgets {
        for (b, other) in &budgets {
            assert_eq!(Arc::ptr_eq(budget, other), a == b, "{a:?} and {b:?}");
        }
    }
}
