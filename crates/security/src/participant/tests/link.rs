//! Two participants with their sessions on a perfect link, with a virtual clock.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use peregrine_rtps::locator::Locator;
use peregrine_rtps::participant::{FragmentRun, MessageRefusal, ParticipantEvent};
use peregrine_rtps::reader::Reception;
use peregrine_rtps::transmit::TransmitBatch;

use super::*;
use crate::testing::random;

const GROUP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(239, 255, 0, 1)), 7400);
/// Rounds of messages, or of timers, at one instant.
const ROUNDS_MAX: usize = 1000;
/// Permits everything in all partitions.
const EVERYWHERE: &str = "<allow_rule><domains><id_range><min>0</min><max>9</max></id_range></domains>
<publish><topics><topic>*</topic></topics><partitions><partition>*</partition></partitions></publish>
<subscribe><topics><topic>*</topic></topics><partitions><partition>*</partition></partitions></subscribe>
</allow_rule><default>DENY</default>";

/// The clock of both participants, and numbers that are drawn once.
#[derive(Debug)]
struct Clock {
    now: AtomicU64,
    drawn: AtomicU64,
}

impl Environment for Clock {
    fn now(&self) -> Instant {
        Instant(self.now.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Timestamp {
        let seconds = u64::try_from(NOW.0).unwrap() + self.now().0 / 1_000_000_000;
        Timestamp { seconds: u32::try_from(seconds).unwrap(), fraction: 0 }
    }

    fn fill(&self, octets: &mut [u8]) {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        random(number.to_le_bytes()[0])(octets);
        octets.iter_mut().zip(number.to_be_bytes()).for_each(|(octet, salt)| *octet ^= salt);
    }
}

struct Side {
    security: Arc<ParticipantSecurity>,
    rtps: Participant,
    taken: Taken,
    events: Vec<ParticipantEvent>,
    matched: BTreeSet<Guid>,
}

impl Side {
    fn guid(&self, entity: EntityId) -> Guid {
        Guid::new(self.rtps.prefix(), entity)
    }

    /// Takes events and steps, and runs jobs. Returns whether there was anything to do.
    fn work(&mut self, now: Instant) -> bool {
        let mut has_worked = false;
        while let Some(event) = self.rtps.poll_event() {
            has_worked = true;
            match &event {
                ParticipantEvent::ReaderMatched { reader, .. } => _ = self.matched.insert(reader.guid),
                ParticipantEvent::WriterMatched { writer, .. } => _ = self.matched.insert(writer.guid),
                ParticipantEvent::ReaderUnmatched { reader, .. } => _ = self.matched.remove(reader),
                ParticipantEvent::WriterUnmatched { writer, .. } => _ = self.matched.remove(writer),
                _ => {}
            }
            self.events.push(event);
        }
        has_worked |= self.security.process(now, &mut self.rtps, &mut self.taken);
        while let Some(job) = self.taken.jobs.pop_front() {
            has_worked = true;
            self.security.job_done(job.run());
        }
        has_worked
    }
}

/// A participant with a writer, and one with a reader.
struct Link {
    clock: Arc<Clock>,
    sides: [Side; 2],
    /// The last message of each side.
    last: [Vec<u8>; 2],
}

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 1, 0, side as u8 + 1], 7410))
}

impl Link {
    /// Both are authenticated, and their endpoints match in partition `a`.
    fn connected() -> Self {
        let clock = Arc::new(Clock { now: AtomicU64::new(1_000_000_000), drawn: AtomicU64::new(0) });
        let start = Start { grant: EVERYWHERE.to_owned(), ..Start::with(Rules::strict()) };
        let sides = [0, 1].map(|side| {
            let addresses = Addresses {
                metatraffic_unicast: vec![Locator::from(address(side))],
                metatraffic_multicast: vec![Locator::from(GROUP)],
                default_unicast: vec![Locator::from(address(side))],
                ..Addresses::default()
            };
            let environment = Arc::clone(&clock) as Arc<dyn Environment>;
            let (security, rtps) = member_at(side, &start, environment, addresses);
            Side { security, rtps, taken: Taken::default(), events: Vec::new(), matched: BTreeSet::new() }
        });
        let mut link = Self { clock, sides, last: Default::default() };
        for (side, entity) in [(0, WRITER), (1, READER)] {
            link.sides[side].security.register(entity, TOPIC, &partition("a"), None).unwrap().keep();
        }
        link.put_writer("a");
        let reader = link.sides[1].guid(READER);
        let mut data = SubscriptionData::new(reader, TOPIC.to_owned(), "Type".to_owned());
        data.subscriber.partition = partition("a");
        let (now, wall) = (link.clock.now(), link.clock.wall());
        link.sides[1].rtps.put_reader(now, wall, data);
        link.run(Span::from_secs(2));
        assert_eq!((link.has_keys(), link.is_matched()), ([true; 2], [true; 2]));
        link
    }

    /// Announces the writer in a partition. Takes no events and no steps.
    fn put_writer(&mut self, name: &str) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let side = &mut self.sides[0];
        let mut data = PublicationData::new(side.guid(WRITER), TOPIC.to_owned(), "Type".to_owned());
        data.publisher.partition = partition(name);
        side.security.endpoint_announced(WRITER, TOPIC, &data.publisher.partition, None).unwrap();
        side.rtps.put_writer(now, wall, data);
    }

    /// Whether each side has the keys of the other one for its endpoint.
    fn has_keys(&self) -> [bool; 2] {
        let [writer, reader] = [self.sides[0].guid(WRITER), self.sides[1].guid(READER)];
        [self.sides[0].security.has_keys(WRITER, reader), self.sides[1].security.has_keys(READER, writer)]
    }

    /// Whether the endpoint of each side is matched.
    fn is_matched(&self) -> [bool; 2] {
        let [writer, reader] = [self.sides[0].guid(WRITER), self.sides[1].guid(READER)];
        [self.sides[0].matched.contains(&reader), self.sides[1].matched.contains(&writer)]
    }

    /// A side hears a message of the other one.
    fn hear(&mut self, side: usize, octets: &[u8]) {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let rx = Reception { now, wall, buffer: None, source: Source::Datagram(address(1 - side)) };
        self.sides[side].rtps.handle_datagram(&rx, octets, &mut FragmentRun::default(), |_, _, _| {});
    }

    /// The refusals of messages that a side has reported: the sender, the reason and the number.
    fn take_refusals(&mut self, side: usize) -> Vec<(GuidPrefix, MessageRefusal, u64)> {
        let rtps = &mut self.sides[side].rtps;
        let events = std::iter::from_fn(|| rtps.poll_event());
        let refusals = events.filter_map(|event| match event {
            ParticipantEvent::MessagesRefused { from, refusal, count } => Some((from, refusal, count)),
            _ => None,
        });
        refusals.collect()
    }

    /// Delivers messages until nothing more is to be done.
    fn exchange_all(&mut self) {
        let now = self.clock.now();
        for _ in 0..ROUNDS_MAX {
            let (mut fresh, mut is_idle) = (Vec::new(), true);
            for (from, side) in self.sides.iter_mut().enumerate() {
                is_idle &= !side.work(now);
                let mut batch = TransmitBatch::default();
                while side.rtps.poll_transmit(now, &mut batch) {
                    for message in batch.messages() {
                        let to: Vec<SocketAddr> = message.to().iter().filter_map(|to| to.to_socket_addr()).collect();
                        let mut octets = Vec::new();
                        message.copy_to(&mut octets);
                        fresh.push((from, to, octets));
                    }
                    batch.clear();
                }
            }
            if is_idle && fresh.is_empty() {
                return;
            }
            for (from, to, octets) in fresh {
                let other = 1 - from;
                if to.contains(&GROUP) || to.contains(&address(other)) {
                    self.hear(other, &octets);
                    self.last[from] = octets;
                }
            }
        }
        panic!("the participants exchange messages without end");
    }

    fn run(&mut self, span: Span) {
        let end = self.clock.now() + span;
        let mut rounds_now = 0;
        loop {
            self.exchange_all();
            let of_side = |side: &Side| side.rtps.poll_timeout().into_iter().chain(side.security.poll_timeout()).min();
            let next = self.sides.iter().filter_map(of_side).min();
            let Some(at) = next.filter(|at| *at <= end) else { break };
            rounds_now = if at > self.clock.now() { 0 } else { rounds_now + 1 };
            assert!(rounds_now <= ROUNDS_MAX, "the timer of {at:?} stays due");
            self.clock.now.fetch_max(at.0, Ordering::Relaxed);
            let (now, wall) = (self.clock.now(), self.clock.wall());
            for side in &mut self.sides {
                side.rtps.handle_timeout(now, wall);
                side.security.handle_timeout(now);
            }
        }
        self.clock.now.fetch_max(end.0, Ordering::Relaxed);
    }
}

fn has_parted(side: &Side) -> bool {
    let is_end = |event: &ParticipantEvent| {
        matches!(event, ParticipantEvent::ReaderUnmatched { .. } | ParticipantEvent::WriterUnmatched { .. })
    };
    side.events.iter().any(is_end)
}

#[test]
fn pair_that_parts_and_matches_again_before_events_are_taken_has_keys() {
    let mut link = Link::connected();
    link.put_writer("b");
    assert_eq!(link.has_keys(), [false, true], "the other side knows nothing of it yet");
    link.put_writer("a");
    assert_eq!(link.has_keys(), [true; 2], "the session has the keys of the ended match");
    link.run(Span::from_secs(2));
    assert!(has_parted(&link.sides[0]));
    assert_eq!((link.has_keys(), link.is_matched()), ([true; 2], [true; 2]));
}

#[test]
fn pair_that_parts_for_a_while_has_no_keys_until_it_matches_again() {
    let mut link = Link::connected();
    link.put_writer("b");
    link.run(Span::from_secs(2));
    assert_eq!((link.has_keys(), link.is_matched()), ([false; 2], [false; 2]));
    link.put_writer("a");
    link.run(Span::from_secs(2));
    assert_eq!((link.has_keys(), link.is_matched()), ([true; 2], [true; 2]));
}

#[test]
fn pair_of_participants_that_authenticate_again_parts_and_matches_again() {
    let mut link = Link::connected();
    let prefixes = link.sides.each_ref().map(|side| side.rtps.prefix());
    for (side, peer) in link.sides.iter().zip([prefixes[1], prefixes[0]]) {
        // Without effect for the side that does not begin.
        side.security.with(|session, input| session.authenticate_again(input, peer));
    }
    link.run(Span::from_secs(5));
    for side in &link.sides {
        assert!(has_parted(side), "the handshake was repeated");
    }
    assert_eq!((link.has_keys(), link.is_matched()), ([true; 2], [true; 2]));
}

#[test]
fn participant_that_has_changed_signs_its_present_announcement_at_the_next_handshake() {
    let mut link = Link::connected();
    let prefixes = link.sides.each_ref().map(|side| side.rtps.prefix());
    let signed_of = |link: &Link, side: usize| link.sides[1 - side].security.signed_data(prefixes[side]).unwrap();
    let stated = |link: &Link, side: usize| {
        let mut octets = Vec::new();
        link.sides[side].rtps.emit_for_handshake(&mut octets);
        octets
    };
    let (now, wall) = (link.clock.now(), link.clock.wall());
    for side in &mut link.sides {
        let user_data = peregrine_rtps::qos::UserData(vec![7]);
        side.rtps.set_qos(now, wall, peregrine_rtps::qos::ParticipantQos { user_data, ..Default::default() });
    }
    link.run(Span::from_secs(1));
    for side in [0, 1] {
        assert_ne!(signed_of(&link, side), stated(&link, side), "the handshake was before the change");
    }
    for (side, peer) in link.sides.iter().zip([prefixes[1], prefixes[0]]) {
        side.security.with(|session, input| session.authenticate_again(input, peer));
    }
    link.run(Span::from_secs(5));
    for side in [0, 1] {
        assert_eq!(signed_of(&link, side), stated(&link, side));
        let is_contradiction =
            |event: &ParticipantEvent| matches!(event, ParticipantEvent::AnnouncementContradicted { .. });
        assert!(!link.sides[side].events.iter().any(is_contradiction));
    }
    assert_eq!((link.has_keys(), link.is_matched()), ([true; 2], [true; 2]));
}

/// A HEARTBEAT of the writer that announces writers, for all readers, in the name of this participant.
fn unprotected(from: GuidPrefix) -> Vec<u8> {
    let mut message = b"RTPS\x02\x05\x01\x03".to_vec();
    message.extend(from.0);
    message.extend([0x07, 0x01, 28, 0, 0, 0, 0, 0]);
    message.extend(EntityId::SEDP_PUBLICATIONS_WRITER.0);
    message.extend([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0]);
    message
}

#[test]
fn refused_messages_are_reported_once_a_second_by_peer_and_reason() {
    let mut link = Link::connected();
    let (peer, stranger) = (link.sides[1].rtps.prefix(), GuidPrefix([9; 12]));
    assert_eq!(link.take_refusals(0), [], "true messages are not refused");
    link.put_writer("b");
    link.exchange_all();
    let mut changed = link.last[1].clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    for _ in 0..100 {
        for message in [&changed, &unprotected(peer), &unprotected(stranger)] {
            link.hear(0, message);
        }
    }
    let (changed_of, plain_of) = (MessageRefusal::NotAuthentic, MessageRefusal::Unprotected);
    let told = |count| [(peer, changed_of, count), (peer, plain_of, count), (stranger, plain_of, count)];
    assert_eq!(link.take_refusals(0), told(1));
    link.run(Span::from_secs(2));
    for message in [&changed, &unprotected(peer), &unprotected(stranger)] {
        link.hear(0, message);
    }
    assert_eq!(link.take_refusals(0), told(100));
    let drops = link.sides[0].rtps.counters().drops;
    assert_eq!((drops.not_authentic, drops.unprotected), (101, 202));
}
