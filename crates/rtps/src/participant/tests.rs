//! Discovery between participants on a perfect network with a virtual clock.

mod addresses;

use std::net::{Ipv4Addr, SocketAddr};
use std::string::ToString;
use std::vec;

use super::*;
use crate::discovery::data::emit_participant_key;
use crate::history::{Change, ChangeKind};
use crate::id::KeyHash;
use crate::limits::{
    ANNOUNCEMENT_BURST, ANNOUNCEMENT_BURST_INTERVAL, CROWDED_SILENCE, DISCOVERY_BYTES_PER_PARTICIPANT_MAX,
    PARTICIPANTS_MAX, PARTICIPANTS_UNVERIFIED_MAX,
};
use crate::locator::Locator;
use crate::payload::Payload;
use crate::qos::{Liveliness, LivelinessKind, Partition, Reliability, ReliabilityKind, UserData};
use crate::seq::SequenceNumber;
use crate::wire::{InlineQos, PayloadKind, StatusInfo, Submessage, Submessages};

const LEASE: Span = Span::from_secs(10);
const PERIOD: Span = Span::from_secs(3);
const GROUP: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(239, 255, 0, 1)), 7400);

fn address(host: u32, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from_bits(0x0a00_0000 + host).into(), port)
}

fn prefix(host: u32) -> GuidPrefix {
    let [a, b, c, d] = host.to_be_bytes();
    GuidPrefix::new(VendorId::PEREGRINE, [7, 7, 7, 7, 7, 7, a, b, c, d])
}

fn config(host: u32) -> ParticipantConfig {
    ParticipantConfig {
        prefix: prefix(host),
        domain: DomainId(0),
        domain_tag: String::new(),
        name: String::new(),
        qos: ParticipantQos::default(),
        lease: LEASE,
        announce_period: PERIOD,
        addresses: Addresses {
            metatraffic_unicast: vec![Locator::from(address(host, 7410))],
            metatraffic_multicast: vec![Locator::from(GROUP)],
            default_unicast: vec![Locator::from(address(host, 7411))],
            ..Addresses::default()
        },
        seed: u64::from(host).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

fn publication(host: u32, key: u32, topic: &str) -> PublicationData {
    let guid = Guid::new(prefix(host), EntityId::user_writer(key, false));
    PublicationData::new(guid, topic.to_string(), "Type".to_string())
}

fn subscription(host: u32, key: u32, topic: &str) -> SubscriptionData {
    let guid = Guid::new(prefix(host), EntityId::user_reader(key, false));
    SubscriptionData::new(guid, topic.to_string(), "Type".to_string())
}

/// A message somebody has sent.
#[derive(Clone, Debug)]
struct Sent {
    at: Instant,
    from: GuidPrefix,
    to: Vec<SocketAddr>,
    bytes: Vec<u8>,
}

impl Sent {
    /// Whether the message names a receiver.
    fn is_addressed(&self) -> bool {
        Submessages::new(&self.bytes[20..]).any(|s| matches!(s, Ok(Submessage::InfoDestination(_))))
    }

    fn is_announcement(&self) -> bool {
        self.announcement_number().is_some()
    }

    /// As which change the participant is announced, if it is.
    fn announcement_number(&self) -> Option<i64> {
        Submessages::new(&self.bytes[20..]).find_map(|s| match s {
            Ok(Submessage::Data(data)) if data.writer == EntityId::SPDP_WRITER => Some(data.sequence_number.0),
            _ => None,
        })
    }
}

/// Hosts with one participant each. What is sent to strangers is only noted.
struct Domain {
    now: Instant,
    participants: BTreeMap<u32, Participant>,
    events: BTreeMap<u32, Vec<ParticipantEvent>>,
    sent: Vec<Sent>,
    /// Nobody hears anybody.
    cut: bool,
}

impl Domain {
    fn new(configs: impl IntoIterator<Item = (u32, ParticipantConfig)>) -> Self {
        let now = Instant(1_000_000_000);
        let participants = configs.into_iter().map(|(host, config)| (host, Participant::new(now, config))).collect();
        let mut domain = Self { now, participants, events: BTreeMap::new(), sent: vec![], cut: false };
        domain.tick();
        domain
    }

    fn of(hosts: &[u32]) -> Self {
        Self::new(hosts.iter().map(|host| (*host, config(*host))))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_unix_nanos(self.now.0 + 1_700_000_000_000_000_000)
    }

    fn at(&mut self, host: u32) -> &mut Participant {
        self.participants.get_mut(&host).unwrap()
    }

    fn counters(&mut self, host: u32) -> ParticipantCounters {
        self.at(host).counters()
    }

    fn knows(&mut self, host: u32, other: u32) -> bool {
        self.at(host).remote_participants().any(|p| p.prefix == prefix(other))
    }

    /// A message arrives at a host.
    fn hear(&mut self, host: u32, bytes: &[u8]) {
        let (now, wall) = (self.now, self.wall());
        let rx = Reception { now, wall, buffer: None, interface: 0 };
        self.at(host).handle_datagram(&rx, bytes, |_, _, _| {});
    }

    /// Sends and delivers until nobody has anything to say.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let mut fresh = vec![];
            for (host, participant) in &mut self.participants {
                let mut batch = TransmitBatch::default();
                while participant.poll_transmit(self.now, &mut batch) {
                    fresh.extend(batch.messages().map(|m| {
                        let to = m.to().iter().filter_map(|l| l.to_socket_addr()).collect();
                        let mut bytes = vec![];
                        m.copy_to(&mut bytes);
                        Sent { at: self.now, from: prefix(*host), to, bytes }
                    }));
                    batch.clear();
                }
                let events = self.events.entry(*host).or_default();
                events.extend(core::iter::from_fn(|| participant.poll_event()));
            }
            if fresh.is_empty() {
                return;
            }
            for message in &fresh {
                let hosts: Vec<u32> = self.participants.keys().copied().collect();
                for host in hosts {
                    let is_meant = message.to.contains(&GROUP) || message.to.contains(&address(host, 7410));
                    if is_meant && !self.cut {
                        self.hear(host, &message.bytes);
                    }
                }
            }
            self.sent.append(&mut fresh);
        }
        panic!("the participants never stop talking");
    }

    fn tick(&mut self) {
        let (now, wall) = (self.now, self.wall());
        self.participants.values_mut().for_each(|p| p.handle_timeout(now, wall));
        self.settle();
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        self.settle();
        while let Some(at) = self.participants.values().filter_map(Participant::poll_timeout).min()
            && at <= end
        {
            self.now = self.now.max(at);
            self.tick();
        }
        self.now = end;
    }

    fn events(&mut self, host: u32) -> Vec<ParticipantEvent> {
        self.settle();
        self.events.remove(&host).unwrap_or_default()
    }

    fn put_writer(&mut self, host: u32, data: PublicationData) {
        let (now, wall) = (self.now, self.wall());
        self.at(host).put_writer(now, wall, data);
        self.settle();
    }

    fn put_reader(&mut self, host: u32, data: SubscriptionData) {
        let (now, wall) = (self.now, self.wall());
        self.at(host).put_reader(now, wall, data);
        self.settle();
    }

    /// What `host` has sent to `other` alone.
    fn sent_to(&self, host: u32, other: u32) -> Vec<Sent> {
        let is_meant = |m: &&Sent| m.from == prefix(host) && m.to == [address(other, 7410)];
        self.sent.iter().filter(is_meant).cloned().collect()
    }
}

/// A participant outside the domain, to forge messages with.
fn stranger(config: ParticipantConfig) -> Participant {
    Participant::new(Instant(1), config)
}

fn announcement(config: ParticipantConfig, to: Option<GuidPrefix>) -> Vec<u8> {
    stranger(config).announcement(Timestamp::from_unix_nanos(1_700_000_000_000_000_000), to)
}

fn matched_readers(events: &[ParticipantEvent]) -> Vec<Guid> {
    events
        .iter()
        .filter_map(|e| match e {
            ParticipantEvent::ReaderMatched { reader, .. } => Some(reader.guid),
            _ => None,
        })
        .collect()
}

fn matched_writers(events: &[ParticipantEvent]) -> Vec<Guid> {
    events
        .iter()
        .filter_map(|e| match e {
            ParticipantEvent::WriterMatched { writer, .. } => Some(writer.guid),
            _ => None,
        })
        .collect()
}

fn reasons(events: &[ParticipantEvent]) -> Vec<NonMatch> {
    events
        .iter()
        .filter_map(|e| match e {
            ParticipantEvent::NotMatched { reason, .. } => Some(reason.clone()),
            _ => None,
        })
        .collect()
}

fn lost(events: &[ParticipantEvent]) -> Vec<(GuidPrefix, LostReason)> {
    events
        .iter()
        .filter_map(|e| match e {
            ParticipantEvent::ParticipantLost(prefix, reason) => Some((*prefix, *reason)),
            _ => None,
        })
        .collect()
}

mod announcing {
    use super::*;

    fn times(host: u32) -> Vec<u64> {
        let mut domain = Domain::of(&[host]);
        domain.run(Span::from_secs(60));
        domain.sent.iter().map(|m| m.at.0).collect()
    }

    #[test]
    fn a_burst_comes_first_and_then_a_period_with_bounded_jitter() {
        let times = times(1);
        assert_eq!(times[0], 1_000_000_000, "the first one leaves at once");
        let waits: Vec<u64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        let burst = ANNOUNCEMENT_BURST as usize - 1;
        for (index, wait) in waits.iter().enumerate() {
            let planned = if index < burst { ANNOUNCEMENT_BURST_INTERVAL.times(1 << index) } else { PERIOD };
            assert!(*wait <= planned.0 && *wait >= planned.0 - planned.0 / 10, "wait {index}: {wait} ns");
        }
        assert!(waits.len() > burst + 15, "{waits:?}");
    }

    #[test]
    fn participants_started_together_do_not_stay_in_step() {
        assert_ne!(times(1)[10..], times(2)[10..]);
    }

    #[test]
    fn the_next_one_can_be_called_for() {
        let mut domain = Domain::of(&[1]);
        domain.run(Span::from_secs(4));
        let (before, now) = (domain.sent.len(), domain.now);
        domain.at(1).announce_soon(now);
        domain.tick();
        assert_eq!(domain.sent.len(), before + 1);
    }
}

mod answering {
    use super::*;

    #[test]
    fn a_newcomer_is_answered_once_a_second_at_most() {
        let mut domain = Domain::of(&[1]);
        let heard = announcement(config(9), None);
        for _ in 0..5 {
            domain.hear(1, &heard);
            domain.run(Span::from_millis(100));
        }
        let answers = domain.sent_to(1, 9);
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert!(answers[0].is_addressed() && answers[0].is_announcement());
        domain.run(Span::from_secs(1));
        domain.hear(1, &heard);
        domain.settle();
        assert_eq!(domain.sent_to(1, 9).len(), 2);
    }

    #[test]
    fn an_address_that_is_hearsay_is_never_sent_more_than_came_from_it() {
        let mut talkative = config(1);
        talkative.qos.user_data = UserData(vec![1; 500]);
        let mut domain = Domain::new([(1, talkative)]);
        domain.run(Span::from_secs(5));
        let before = domain.sent.len();
        let heard = announcement(config(9), None);
        // A flood, all within a millisecond.
        for _ in 0..1000 {
            domain.hear(1, &heard);
            domain.now = domain.now + Span::from_micros(1);
            domain.tick();
        }
        assert_eq!(domain.sent_to(1, 9).len(), 0);
        assert_eq!(domain.counters(1).held_back, 1000);
        assert!(domain.sent.len() <= before + 1, "the flood was passed on to the group");
        domain.run(Span::from_millis(100));
        let group: Vec<_> = domain.sent[before..].iter().filter(|m| m.to == [GROUP]).collect();
        assert!((1..=3).contains(&group.len()), "the newcomer learns of us by multicast: {group:?}");
    }

    #[test]
    fn two_participants_do_not_answer_each_other_forever() {
        let mut domain = Domain::of(&[1, 2]);
        domain.run(Span::from_secs(60));
        let announcements = domain.sent.iter().filter(|m| m.is_announcement()).count();
        // In a minute twenty periods each and a burst; one answer each.
        assert!(announcements < 2 * (30 + ANNOUNCEMENT_BURST as usize), "{announcements}");
        assert_eq!(domain.sent_to(1, 2).iter().filter(|m| m.is_announcement()).count(), 1);
    }
}

mod trust {
    use super::*;

    #[test]
    fn built_in_endpoints_are_joined_only_after_we_were_named() {
        let mut domain = Domain::of(&[1]);
        domain.put_writer(1, publication(1, 1, "topic"));
        domain.hear(1, &announcement(config(9), None));
        domain.run(Span::from_secs(5));
        assert!(domain.knows(1, 9));
        assert!(domain.sent_to(1, 9).iter().all(Sent::is_announcement), "discovery data went to a hearsay address");
        domain.hear(1, &announcement(config(9), Some(prefix(1))));
        domain.run(Span::from_millis(10));
        assert!(domain.sent_to(1, 9).iter().any(|m| !m.is_announcement()), "the association was not opened");
    }

    #[test]
    fn naming_somebody_else_proves_nothing() {
        let mut domain = Domain::of(&[1]);
        domain.hear(1, &announcement(config(9), Some(prefix(5))));
        assert!(!domain.knows(1, 9), "a message for somebody else was listened to");
        domain.hear(1, &announcement(config(9), None));
        domain.run(Span::from_secs(5));
        assert!(domain.sent_to(1, 9).iter().all(Sent::is_announcement));
    }

    #[test]
    fn an_announcement_for_somebody_else_is_forged() {
        let mut domain = Domain::of(&[1]);
        let mut bytes = announcement(config(9), None);
        bytes[8..20].copy_from_slice(&prefix(8).0);
        domain.hear(1, &bytes);
        assert_eq!(domain.counters(1).forged, 1);
        assert!(!domain.knows(1, 9) && !domain.knows(1, 8));
    }

    #[test]
    fn nobody_takes_leave_for_another() {
        let mut domain = Domain::of(&[1, 2]);
        domain.run(Span::from_secs(1));
        let mallory = stranger(config(9));
        let mut key = vec![];
        emit_participant_key(Guid::new(prefix(2), EntityId::PARTICIPANT), &mut key);
        let qos = InlineQos { status_info: StatusInfo::DISPOSED, ..InlineQos::default() };
        let leave = mallory.message(domain.wall(), None, SequenceNumber(2), &qos, PayloadKind::Key, &key);
        domain.hear(1, &leave);
        assert_eq!(domain.counters(1).forged, 1);
        assert!(domain.knows(1, 2));
    }

    /// Host 2 goes bad and says something about an endpoint it does not have.
    fn say(domain: &mut Domain, guid: Guid, kind: ChangeKind, payload: &[u8]) {
        let (now, wall) = (domain.now, domain.wall());
        let change = Change {
            kind,
            instance: KeyHash(guid.to_bytes()),
            source_timestamp: wall,
            payload: Payload::copy_of(payload),
        };
        domain.at(2).builtin.publications.writer.write(now, change).unwrap();
        domain.run(Span::from_millis(50));
    }

    #[test]
    fn nobody_announces_or_disposes_the_endpoints_of_another() {
        let mut domain = Domain::of(&[1, 2, 3]);
        domain.put_reader(1, subscription(1, 1, "topic"));
        domain.put_writer(3, publication(3, 1, "topic"));
        domain.put_writer(1, publication(1, 2, "topic"));
        domain.run(Span::from_secs(2));
        let (own, others) = (publication(1, 2, "topic").guid, publication(3, 1, "topic").guid);
        assert_eq!(matched_writers(&domain.events(1)), [others, own]);
        for (number, victim) in [own, others].into_iter().enumerate() {
            let mut payload = vec![];
            crate::discovery::data::emit_endpoint_key(victim, &mut payload);
            say(&mut domain, victim, ChangeKind::DisposedUnregistered, &payload);
            assert_eq!(domain.counters(1).forged, number as u64 + 1);
        }
        let mut payload = vec![];
        publication(3, 7, "topic").emit(&mut payload);
        say(&mut domain, publication(3, 7, "topic").guid, ChangeKind::Alive, &payload);
        assert_eq!(domain.counters(1).forged, 3);
        assert!(domain.events(1).is_empty(), "a forgery changed something");
        assert!(domain.at(1).remote_publication(&others).is_some());
    }

    #[test]
    fn endpoints_that_are_not_kept_leave_nothing_behind() {
        let mut domain = Domain::of(&[1, 2]);
        domain.run(Span::from_secs(1));
        for key in 0..500 {
            let mut payload = vec![];
            publication(3, key, "topic").emit(&mut payload);
            say(&mut domain, publication(3, key, "topic").guid, ChangeKind::Alive, &payload);
        }
        assert_eq!(domain.counters(1).forged, 500);
        assert_eq!(domain.at(1).builtin.publications.reader.cache().instances(), 0);
    }

    #[test]
    fn what_is_kept_of_one_participant_is_bounded() {
        let mut domain = Domain::of(&[1, 2]);
        domain.run(Span::from_secs(1));
        for key in 0..100 {
            let mut data = publication(2, key, "topic");
            data.qos.user_data = UserData(vec![0; 60_000]);
            domain.put_writer(2, data);
            domain.run(Span::from_millis(50));
        }
        let kept = domain.at(1).remotes[&prefix(2)].publications.len();
        assert_eq!(kept, DISCOVERY_BYTES_PER_PARTICIPANT_MAX / 60_000 - usize::from(kept < 69));
        assert_eq!(domain.counters(1).no_room, 100 - kept as u64);
        // What goes away makes room.
        let (now, wall) = (domain.now, domain.wall());
        for key in 0..10 {
            domain.at(2).remove_writer(now, wall, EntityId::user_writer(key, false));
        }
        let mut data = publication(2, 1000, "topic");
        data.qos.user_data = UserData(vec![0; 60_000]);
        domain.put_writer(2, data.clone());
        domain.run(Span::from_millis(50));
        assert!(domain.at(1).remote_publication(&data.guid).is_some());
    }
}

mod crowding {
    use super::*;

    fn flooder(host: u32) -> Vec<u8> {
        announcement(ParticipantConfig { lease: Span::INFINITE, ..config(host) }, None)
    }

    #[test]
    fn unverified_participants_crowd_out_the_oldest_of_their_kind_only() {
        let mut domain = Domain::of(&[1, 2]);
        domain.run(Span::from_secs(1));
        domain.cut = true;
        let max = PARTICIPANTS_UNVERIFIED_MAX as u32;
        for host in 0..max {
            domain.hear(1, &flooder(1000 + host));
            domain.now = domain.now + Span(1);
        }
        assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_UNVERIFIED_MAX + 1);
        domain.events(1);
        // An honest newcomer with an ordinary lease outlasts as many more as there is room for.
        domain.hear(1, &announcement(config(9), None));
        for host in max..2 * max - 1 {
            domain.now = domain.now + Span(1);
            domain.hear(1, &flooder(1000 + host));
        }
        assert!(domain.knows(1, 9), "the newcomer was crowded out by those who lie about their lease");
        assert!(domain.knows(1, 2), "a verified participant was crowded out");
        assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_UNVERIFIED_MAX + 1);
        let events = domain.events(1);
        assert_eq!(lost(&events)[0], (prefix(1000), LostReason::Crowded));
        assert_eq!(lost(&events).len(), PARTICIPANTS_UNVERIFIED_MAX);
    }

    #[test]
    fn verified_participants_that_fall_silent_give_way_when_all_places_are_taken() {
        let mut domain = Domain::of(&[1]);
        let announce = |domain: &mut Domain, host: u32| {
            let message = announcement(ParticipantConfig { lease: Span::INFINITE, ..config(host) }, Some(prefix(1)));
            domain.hear(1, &message);
        };
        // All of them name us, and state leases without end.
        let all = 1000..1000 + PARTICIPANTS_MAX as u32;
        for host in all.clone() {
            announce(&mut domain, host);
            domain.now = domain.now + Span(1);
        }
        assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_MAX);
        domain.now = domain.now + CROWDED_SILENCE.divided_by(2);
        announce(&mut domain, 9);
        assert!(!domain.knows(1, 9), "nobody has been silent for long");
        assert_eq!(domain.counters(1).no_room, 1);
        // One of them goes on announcing itself.
        announce(&mut domain, 1000);
        domain.now = domain.now + CROWDED_SILENCE.divided_by(2);
        announce(&mut domain, 9);
        announce(&mut domain, 10);
        assert!(domain.knows(1, 9) && domain.knows(1, 10) && domain.knows(1, 1000));
        assert_eq!(domain.at(1).remote_participants().count(), PARTICIPANTS_MAX);
        let events = domain.events(1);
        assert_eq!(lost(&events), [(prefix(1001), LostReason::Crowded), (prefix(1002), LostReason::Crowded)]);
    }
}

mod membership {
    use super::*;

    #[test]
    fn other_domains_and_tags_are_not_ours() {
        let mut domain = Domain::of(&[1]);
        domain.hear(1, &announcement(ParticipantConfig { domain: DomainId(1), ..config(8) }, None));
        domain.hear(1, &announcement(ParticipantConfig { domain_tag: "tag".to_string(), ..config(9) }, None));
        assert_eq!(domain.counters(1).foreign_domain, 2);
        assert_eq!(domain.at(1).remote_participants().count(), 0);
    }

    #[test]
    fn an_equal_tag_is_ours() {
        let tagged = |host| (host, ParticipantConfig { domain_tag: "tag".to_string(), ..config(host) });
        let mut domain = Domain::new([tagged(1), tagged(2)]);
        domain.run(Span::from_secs(1));
        assert!(domain.knows(1, 2) && domain.knows(2, 1));
    }

    #[test]
    fn a_participant_without_news_is_lost_when_its_lease_ends_and_not_before() {
        let mut domain = Domain::of(&[1, 2]);
        domain.put_writer(1, publication(1, 1, "topic"));
        domain.put_reader(2, subscription(2, 1, "topic"));
        domain.run(LEASE.times(3));
        let events = domain.events(1);
        assert_eq!(lost(&events), [], "announcements did not renew the lease");
        assert_eq!(matched_readers(&events), [subscription(2, 1, "topic").guid]);
        let last_heard = domain.sent.iter().rev().find(|m| m.from == prefix(2)).unwrap().at;
        domain.cut = true;
        let left = (last_heard + LEASE).since(domain.now);
        domain.run(Span(left.0 - 1));
        assert!(domain.knows(1, 2));
        domain.run(Span(1));
        assert!(!domain.knows(1, 2));
        let events = domain.events(1);
        assert_eq!(lost(&events), [(prefix(2), LostReason::LeaseExpired)]);
        let unmatched = events.iter().any(|e| matches!(e, ParticipantEvent::ReaderUnmatched { reader, .. } if *reader == subscription(2, 1, "topic").guid));
        assert!(unmatched, "{events:?}");
    }

    #[test]
    fn a_new_lease_counts_from_the_announcement_that_brings_it() {
        let mut domain = Domain::of(&[1]);
        domain.hear(1, &announcement(ParticipantConfig { lease: Span::INFINITE, ..config(9) }, None));
        domain.run(LEASE.times(10));
        assert!(domain.knows(1, 9));
        domain.hear(1, &announcement(config(9), None));
        domain.run(LEASE);
        assert!(!domain.knows(1, 9));
    }

    #[test]
    fn who_leaves_is_gone_at_once() {
        let mut domain = Domain::of(&[1, 2]);
        domain.put_reader(1, subscription(1, 1, "topic"));
        domain.put_writer(2, publication(2, 1, "topic"));
        domain.run(Span::from_secs(1));
        assert_eq!(matched_writers(&domain.events(1)), [publication(2, 1, "topic").guid]);
        let wall = domain.wall();
        domain.at(2).leave(wall);
        domain.settle();
        assert!(!domain.knows(1, 2));
        let events = domain.events(1);
        assert_eq!(lost(&events), [(prefix(2), LostReason::Left)]);
        assert!(events.iter().any(|e| matches!(e, ParticipantEvent::WriterUnmatched { .. })), "{events:?}");
    }

    #[test]
    fn what_is_announced_anew_is_a_new_change_and_what_is_repeated_is_not() {
        let mut domain = Domain::of(&[1]);
        domain.run(PERIOD.times(2));
        let qos = ParticipantQos { user_data: UserData(vec![1]), ..ParticipantQos::default() };
        for _ in 0..2 {
            let (now, wall) = (domain.now, domain.wall());
            domain.at(1).set_qos(now, wall, qos.clone());
            domain.run(PERIOD);
        }
        let wall = domain.wall();
        domain.at(1).leave(wall);
        domain.settle();
        let mut numbers: Vec<_> = domain.sent.iter().filter_map(Sent::announcement_number).collect();
        assert!(numbers.len() > 6 && numbers.is_sorted(), "{numbers:?}");
        numbers.dedup();
        assert_eq!(numbers, [1, 2, 3]);
    }

    #[test]
    fn who_comes_back_is_found_again() {
        let mut domain = Domain::of(&[1, 2]);
        domain.put_reader(1, subscription(1, 1, "topic"));
        domain.put_writer(2, publication(2, 1, "topic"));
        domain.run(Span::from_secs(1));
        domain.cut = true;
        domain.run(LEASE.times(2));
        assert!(!domain.knows(1, 2) && !domain.knows(2, 1));
        domain.events(1);
        domain.cut = false;
        domain.run(PERIOD.times(2));
        assert_eq!(matched_writers(&domain.events(1)), [publication(2, 1, "topic").guid]);
    }

    #[test]
    fn an_ignored_participant_does_not_exist() {
        let mut domain = Domain::of(&[1, 2]);
        domain.put_writer(1, publication(1, 1, "topic"));
        domain.put_reader(2, subscription(2, 1, "topic"));
        domain.run(Span::from_secs(1));
        domain.events(1);
        let (now, wall) = (domain.now, domain.wall());
        domain.at(1).ignore(now, wall, Guid::new(prefix(2), EntityId::PARTICIPANT));
        let events = domain.events(1);
        assert_eq!(lost(&events), [(prefix(2), LostReason::Ignored)]);
        domain.run(LEASE.times(2));
        assert!(!domain.knows(1, 2));
        assert!(domain.events(1).is_empty());
    }

    #[test]
    fn an_ignored_endpoint_does_not_match() {
        let mut domain = Domain::of(&[1, 2]);
        let (first, second) = (subscription(2, 1, "topic").guid, subscription(2, 2, "topic").guid);
        let (now, wall) = (domain.now, domain.wall());
        domain.at(1).ignore(now, wall, second);
        domain.put_writer(1, publication(1, 1, "topic"));
        domain.put_reader(2, subscription(2, 1, "topic"));
        domain.put_reader(2, subscription(2, 2, "topic"));
        domain.run(Span::from_secs(1));
        assert_eq!(matched_readers(&domain.events(1)), [first]);
        let (now, wall) = (domain.now, domain.wall());
        domain.at(1).ignore(now, wall, first);
        let events = domain.events(1);
        let [ParticipantEvent::SubscriptionLost(lost), ParticipantEvent::ReaderUnmatched { reader, .. }] = events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!((lost, reader), (first, first));
    }

    #[test]
    fn new_addresses_are_passed_on_to_matched_endpoints() {
        let mut domain = Domain::of(&[1, 2]);
        domain.put_writer(1, publication(1, 1, "topic"));
        domain.put_reader(2, subscription(2, 1, "topic"));
        domain.run(Span::from_secs(1));
        domain.events(1);
        let (now, wall) = (domain.now, domain.wall());
        let mut addresses = domain.at(2).config().addresses.clone();
        addresses.default_unicast = vec![Locator::from(address(77, 7411))];
        domain.at(2).set_addresses(now, wall, addresses);
        domain.tick();
        let events = domain.events(1);
        let moved = events.iter().find_map(|e| match e {
            ParticipantEvent::ReaderMatched { reader, .. } => Some(reader.to.to_vec()),
            _ => None,
        });
        assert_eq!(moved, Some(vec![Locator::from(address(77, 7411))]), "{events:?}");
    }
}

mod matching {
    use super::*;

    #[test]
    fn a_change_of_qos_makes_and_breaks_a_match_and_names_both_values() {
        let mut domain = Domain::of(&[1, 2]);
        let mut offered = publication(1, 1, "topic");
        let mut requested = subscription(2, 1, "topic");
        offered.qos.reliability = Reliability::BEST_EFFORT;
        requested.qos.reliability = Reliability::RELIABLE;
        domain.put_writer(1, offered.clone());
        domain.put_reader(2, requested.clone());
        domain.run(Span::from_secs(1));
        let expected =
            NonMatch::Reliability { offered: ReliabilityKind::BestEffort, requested: ReliabilityKind::Reliable };
        for host in [1, 2] {
            let events = domain.events(host);
            assert_eq!(reasons(&events), core::slice::from_ref(&expected), "host {host}");
            assert!(matched_readers(&events).is_empty() && matched_writers(&events).is_empty());
        }
        assert_eq!(expected.to_string(), "RELIABILITY: offered BEST_EFFORT, requested RELIABLE");

        offered.qos.reliability = Reliability::RELIABLE;
        domain.put_writer(1, offered.clone());
        domain.run(Span::from_millis(100));
        assert_eq!(matched_readers(&domain.events(1)), [requested.guid]);
        assert_eq!(matched_writers(&domain.events(2)), [offered.guid]);

        offered.publisher.partition = Partition(vec!["elsewhere".to_string()]);
        domain.put_writer(1, offered.clone());
        domain.run(Span::from_millis(100));
        let (at_writer, at_reader) = (domain.events(1), domain.events(2));
        assert!(at_writer.iter().any(|e| matches!(e, ParticipantEvent::ReaderUnmatched { .. })), "{at_writer:?}");
        assert!(at_reader.iter().any(|e| matches!(e, ParticipantEvent::WriterUnmatched { .. })), "{at_reader:?}");
        assert!(matches!(&reasons(&at_reader)[..], [NonMatch::Partition { .. }]), "{at_reader:?}");
    }

    #[test]
    fn a_refusal_is_told_once() {
        let mut domain = Domain::of(&[1, 2]);
        let mut offered = publication(1, 1, "topic");
        offered.qos.reliability = Reliability::BEST_EFFORT;
        let mut requested = subscription(2, 1, "topic");
        requested.qos.reliability = Reliability::RELIABLE;
        domain.put_reader(2, requested);
        for _ in 0..3 {
            domain.put_writer(1, offered.clone());
            domain.run(Span::from_secs(1));
        }
        assert_eq!(reasons(&domain.events(1)).len(), 1);
        assert_eq!(reasons(&domain.events(2)).len(), 1);
    }

    #[test]
    fn endpoints_of_the_same_participant_match() {
        let mut domain = Domain::of(&[1]);
        let (offered, requested) = (publication(1, 1, "topic"), subscription(1, 2, "topic"));
        domain.put_writer(1, offered.clone());
        domain.put_reader(1, requested.clone());
        let events = domain.events(1);
        assert_eq!(matched_readers(&events), [requested.guid]);
        assert_eq!(matched_writers(&events), [offered.guid]);
        let (now, wall) = (domain.now, domain.wall());
        domain.at(1).remove_writer(now, wall, offered.guid.entity);
        let events = domain.events(1);
        assert!(matches!(&events[..], [ParticipantEvent::WriterUnmatched { writer, .. }] if *writer == offered.guid));
        domain.at(1).remove_reader(now, wall, requested.guid.entity);
        assert!(domain.events(1).is_empty());
    }

    #[test]
    fn another_topic_is_nobodys_business() {
        let mut domain = Domain::of(&[1, 2]);
        domain.put_writer(1, publication(1, 1, "topic"));
        domain.put_reader(2, subscription(2, 1, "another"));
        domain.run(Span::from_secs(1));
        let events = domain.events(1);
        assert!(matched_readers(&events).is_empty() && reasons(&events).is_empty(), "{events:?}");
    }

    #[test]
    fn a_removed_endpoint_is_unmatched_by_its_peers() {
        let mut domain = Domain::of(&[1, 2]);
        domain.put_writer(1, publication(1, 1, "topic"));
        domain.put_reader(2, subscription(2, 1, "topic"));
        domain.run(Span::from_secs(1));
        domain.events(1);
        let (now, wall) = (domain.now, domain.wall());
        let (writer, gone) = (publication(1, 1, "topic").guid.entity, subscription(2, 1, "topic").guid);
        domain.at(2).remove_reader(now, wall, gone.entity);
        domain.run(Span::from_millis(100));
        let events = domain.events(1);
        let expected =
            [ParticipantEvent::SubscriptionLost(gone), ParticipantEvent::ReaderUnmatched { writer, reader: gone }];
        assert_eq!(std::format!("{events:?}"), std::format!("{expected:?}"));
        assert!(domain.at(1).remote_subscription(&subscription(2, 1, "topic").guid).is_none());
    }
}

mod liveliness {
    use super::*;

    const WRITER_LEASE: Span = Span::from_millis(300);

    fn domain(kind: LivelinessKind) -> Domain {
        let mut domain = Domain::of(&[1, 2]);
        let mut offered = publication(1, 1, "topic");
        offered.qos.liveliness = Liveliness { kind, lease_duration: WRITER_LEASE };
        domain.put_writer(1, offered);
        domain.put_reader(2, subscription(2, 1, "topic"));
        domain.run(Span::from_secs(1));
        domain.events(2);
        domain
    }

    fn signs(domain: &mut Domain) -> usize {
        let writer = publication(1, 1, "topic").guid;
        let events = domain.events(2);
        let is_sign =
            |e: &&ParticipantEvent| matches!(e, ParticipantEvent::WriterAlive { writer: w, .. } if *w == writer);
        events.iter().filter(is_sign).count()
    }

    #[test]
    fn automatic_liveliness_is_shown_three_times_per_lease() {
        let mut domain = domain(LivelinessKind::Automatic);
        domain.run(WRITER_LEASE.times(10));
        let signs = signs(&mut domain);
        assert!((28..=31).contains(&signs), "{signs}");
    }

    #[test]
    fn manual_liveliness_is_shown_when_it_was_asserted_and_only_then() {
        let mut domain = domain(LivelinessKind::ManualByParticipant);
        domain.run(WRITER_LEASE.times(10));
        assert_eq!(signs(&mut domain), 0);
        domain.at(1).assert_liveliness();
        domain.run(WRITER_LEASE);
        assert_eq!(signs(&mut domain), 1);
        domain.run(WRITER_LEASE.times(10));
        assert_eq!(signs(&mut domain), 0);
    }

    #[test]
    fn asserting_shows_nothing_for_writers_of_another_kind() {
        let mut domain = domain(LivelinessKind::ManualByTopic);
        domain.at(1).assert_liveliness();
        domain.run(WRITER_LEASE.times(10));
        assert_eq!(signs(&mut domain), 0);
    }

    #[test]
    fn without_writers_that_need_it_nothing_is_shown() {
        let mut domain = domain(LivelinessKind::Automatic);
        let (now, wall) = (domain.now, domain.wall());
        domain.at(1).remove_writer(now, wall, EntityId::user_writer(1, false));
        domain.run(Span::from_millis(100));
        let before = domain.sent.len();
        domain.run(Span::from_secs(30));
        let since = &domain.sent[before..];
        assert!(since.iter().all(Sent::is_announcement), "{since:?}");
    }
}
