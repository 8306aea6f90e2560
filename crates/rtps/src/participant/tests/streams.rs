//! Participants that are reached by connections.

use super::*;
use crate::discovery::data::STREAM_LOCATORS_MAX;
use crate::locator::Source;

const KIND: i32 = 0x0100_0001;

fn place(host: u32) -> Locator {
    Locator { kind: KIND, port: host, address: [0; 16], scope: 0 }
}

/// A participant that also accepts connections.
fn listening(host: u32) -> ParticipantConfig {
    let mut config = config(host);
    config.addresses.streams = vec![place(host)];
    config.addresses.paths = config.addresses.paths.with_streams(vec![KIND]);
    config
}

impl Domain {
    fn hear_by_stream(&mut self, host: u32, from: u32, bytes: &[u8]) {
        let (now, wall) = (self.now, self.wall());
        let rx = Reception { now, wall, buffer: None, source: Source::Stream(place(from)) };
        self.at(host).handle_datagram(&rx, bytes, &mut FragmentRun::default(), |_, _, _| {});
    }

    /// The messages that a participant sends now, with their destinations.
    fn take_sent(&mut self, host: u32) -> Vec<(Vec<Locator>, Vec<u8>)> {
        let now = self.now;
        let participant = self.at(host);
        let (mut sent, mut batch) = (vec![], TransmitBatch::default());
        while participant.poll_transmit(now, &mut batch) {
            for message in batch.messages() {
                let mut bytes = vec![];
                message.copy_to(&mut bytes);
                sent.push((message.to().to_vec(), bytes));
            }
            batch.clear();
        }
        sent
    }

    /// Delivers the messages of two participants by connection, until neither sends.
    fn talk_by_stream(&mut self, hosts: [u32; 2]) {
        for _ in 0..100 {
            let mut is_idle = true;
            for [host, other] in [hosts, [hosts[1], hosts[0]]] {
                for (_, bytes) in self.take_sent(host).into_iter().filter(|(to, _)| to.contains(&place(other))) {
                    is_idle = false;
                    self.hear_by_stream(other, host, &bytes);
                }
            }
            if is_idle {
                return;
            }
        }
        panic!("the participants exchange messages without end");
    }

    fn connect(&mut self, hosts: [u32; 2]) {
        let (now, wall) = (self.now, self.wall());
        for [host, other] in [hosts, [hosts[1], hosts[0]]] {
            self.at(host).handle_stream(now, wall, place(other), StreamChange::Connected);
        }
        self.talk_by_stream(hosts);
    }
}

/// Two participants that communicate by a connection only.
fn pair() -> Domain {
    let mut domain = Domain { cut: true, ..Domain::new([]) };
    domain.participants.extend([1, 2].map(|host| (host, Participant::new(domain.now, listening(host)))));
    domain.put_writer(1, publication(1, 1, "topic"));
    domain.put_reader(2, subscription(2, 1, "topic"));
    domain.connect([1, 2]);
    domain
}

fn way_to_reader(events: &[ParticipantEvent]) -> Option<(Vec<Locator>, Option<Locator>)> {
    events.iter().rev().find_map(|event| match event {
        ParticipantEvent::ReaderMatched { reader, .. } => Some((reader.to.to_vec(), reader.group)),
        _ => None,
    })
}

#[test]
fn endpoints_of_peer_on_connection_are_reached_by_connection() {
    let mut domain = pair();
    assert!(domain.knows(1, 2) && domain.knows(2, 1));
    assert_eq!(way_to_reader(&domain.events(1)), Some((vec![place(2)], None)));
}

#[test]
fn group_is_not_used_for_reader_on_connection() {
    let mut domain = pair();
    let group = Locator::from(SocketAddr::new(Ipv4Addr::new(239, 255, 0, 9).into(), 7401));
    domain.put_reader(2, SubscriptionData { multicast: vec![group], ..subscription(2, 2, "topic") });
    domain.talk_by_stream([1, 2]);
    assert_eq!(way_to_reader(&domain.events(1)), Some((vec![place(2)], None)));
}

#[test]
fn datagrams_replace_connection_once_they_arrive() {
    let mut domain = pair();
    domain.events(1);
    domain.cut = false;
    domain.run(PERIOD);
    assert_eq!(way_to_reader(&domain.events(1)), Some((vec![Locator::from(address(2, 7411))], None)));
}

#[test]
fn stream_locators_of_other_kinds_are_not_kept() {
    let mut other = listening(2);
    other.addresses.streams = vec![Locator { kind: KIND + 1, ..place(2) }, place(2)];
    let mut domain = Domain::new([(1, listening(1)), (3, config(3))]);
    let message = announcement(other, None);
    for (host, kept) in [(1, &[place(2)][..]), (3, &[])] {
        domain.hear(host, &message);
        let streams = domain.at(host).remote_participant(&prefix(2)).unwrap().streams.clone();
        assert_eq!(streams, kept);
    }
}

#[test]
fn announced_stream_locators_are_bounded() {
    let mut other = listening(2);
    other.addresses.streams = (0..100).map(place).collect();
    let mut domain = Domain::new([(1, listening(1))]);
    domain.hear(1, &announcement(other, None));
    assert_eq!(domain.at(1).remote_participant(&prefix(2)).unwrap().streams.len(), STREAM_LOCATORS_MAX);
}

#[test]
fn known_peer_receives_periodic_announcements_by_connection() {
    let mut domain = pair();
    domain.take_sent(1);
    domain.now = domain.now + Span::from_secs(60);
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).handle_timeout(now, wall);
    let sent = domain.take_sent(1);
    assert!(sent.iter().any(|(to, _)| to.contains(&place(2)) && to.contains(&Locator::from(GROUP))), "{sent:?}");
}

#[test]
fn new_connection_gets_announcement_and_requests_at_once() {
    let mut domain = pair();
    domain.take_sent(1);
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).handle_stream(now, wall, place(2), StreamChange::Lost);
    assert!(domain.take_sent(1).is_empty());
    // The announcement of this reader is lost with the connection.
    domain.put_reader(1, subscription(1, 7, "other"));
    domain.take_sent(1);
    domain.at(1).handle_stream(now, wall, place(2), StreamChange::Connected);
    let sent = domain.take_sent(1);
    assert!(sent.iter().all(|(to, _)| to == &[place(2)]));
    let asks = |bytes: &[u8]| Submessages::new(&bytes[20..]).any(|s| matches!(s, Ok(Submessage::Heartbeat(_))));
    assert_eq!(sent.iter().map(|(_, bytes)| asks(bytes)).collect::<Vec<_>>(), [false, true]);
    for (_, bytes) in sent {
        domain.hear_by_stream(2, 1, &bytes);
    }
    domain.talk_by_stream([1, 2]);
    assert!(domain.at(2).remote_subscription(&subscription(1, 7, "other").guid).is_some());
    let events = domain.events(1);
    let told = events.iter().filter_map(|event| match event {
        ParticipantEvent::StreamLost { participant, locator } => Some(("lost", *participant, *locator)),
        ParticipantEvent::StreamConnected { participant, locator } => Some(("connected", *participant, *locator)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [("lost", prefix(2), place(2)), ("connected", prefix(2), place(2))]);
}

/// An impostor sends messages in the name of a participant by connections of its own.
#[test]
fn connection_of_a_participant_is_the_one_that_the_participant_announces() {
    let mut domain = pair();
    assert!(domain.at(1).is_heard_by_stream(&place(2)));
    let lie = forged_discovery::heartbeat(publication(2, 1, "topic").guid.entity, 0, 1);
    for stranger in 100..100 + 2 * STREAM_LOCATORS_MAX as u32 {
        domain.hear_by_stream(1, stranger, &lie);
        assert!(!domain.at(1).is_heard_by_stream(&place(stranger)));
    }
    assert!(domain.at(1).is_heard_by_stream(&place(2)), "a participant in use keeps its connection");
}

/// An announcement in the name of a participant that names no connection.
#[test]
fn connection_in_use_stays_proven_when_a_forged_announcement_names_none() {
    let mut domain = pair();
    let lie = announcement(config(2), None);
    domain.hear_by_stream(1, 100, &lie);
    assert!(domain.at(1).is_heard_by_stream(&place(2)));
}
