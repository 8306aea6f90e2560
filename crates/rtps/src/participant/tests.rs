//! Discovery between participants on a perfect network with a virtual clock.

mod addresses;
mod amplification;
mod announcing;
mod answering;
mod convergence;
mod convergence_of_samples;
mod eviction;
mod forged_announcements;
mod forged_discovery;
mod forged_goodbye;
mod forged_moves;
mod forged_rereads;
mod fragment_runs;
mod gate;
mod handshake_credit;
mod kept_sessions;
mod liveliness;
mod matching;
mod membership;
mod mock;
mod process_end;
mod refused_endpoints;
mod relocation;
mod secure_channels;
mod secure_rejoin;
mod secured;
mod secured_moves;
mod shared_copies;
mod signed_data;
mod signs_of_life;
mod streams;
mod topics;
mod trust;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::string::ToString;
use std::vec;

use super::*;
use crate::discovery::data::emit_participant_key;
use crate::history::{Change, ChangeKind};
use crate::id::{DomainId, KeyHash};
use crate::limits::{
    ANNOUNCEMENT_BURST, ANNOUNCEMENT_BURST_INTERVAL, ANNOUNCEMENTS_GATHERED_FOR, DISCOVERY_BYTES_MAX,
    DISCOVERY_BYTES_PER_PARTICIPANT_MAX, DISCOVERY_BYTES_SHARE, EVICTION_MIN_SILENCE, PARTICIPANTS_MAX,
    PARTICIPANTS_UNVERIFIED_MAX,
};
use crate::locator::Locator;
use crate::payload::Payload;
use crate::qos::{
    IgnoreLocal, Liveliness, LivelinessKind, NonMatch, Partition, Reliability, ReliabilityKind, UserData,
};
use crate::seq::SequenceNumber;
use crate::time::Span;
use crate::wire::{InlineQos, PayloadKind, StatusInfo, Submessage, Submessages};
use crate::writer::MatchedReader;

const LEASE: Span = Span::from_secs(10);
const PERIOD: Span = Span::from_secs(3);
const GROUP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 255, 0, 1)), 7400);

fn address(host: u32, port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from_bits(0x0a00_0000 + host).into(), port)
}

fn prefix(host: u32) -> GuidPrefix {
    let [a, b, c, d] = host.to_be_bytes();
    GuidPrefix::new(VendorId::PEREGRINE, [7, 7, 7, 7, 7, 7, a, b, c, d])
}

fn config(host: u32) -> ParticipantConfig {
    let seed = u64::from(host).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ParticipantConfig {
        lease: LEASE,
        announce_period: PERIOD,
        addresses: Addresses {
            metatraffic_unicast: vec![Locator::from(address(host, 7410))],
            metatraffic_multicast: vec![Locator::from(GROUP)],
            default_unicast: vec![Locator::from(address(host, 7411))],
            ..Addresses::default()
        },
        ..ParticipantConfig::new(prefix(host), seed)
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

/// Rounds of messages, or of timers, at one instant.
const ROUNDS_MAX: usize = 1000;

/// A message that a participant has sent.
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

    /// Whether the message does nothing but ask whether it is heard.
    fn is_question(&self) -> bool {
        Submessages::new(&self.bytes[20..]).all(|s| match s {
            Ok(Submessage::Heartbeat(heartbeat)) => heartbeat.writer == EntityId::SEDP_PUBLICATIONS_WRITER,
            other => matches!(other, Ok(Submessage::InfoDestination(_))),
        })
    }

    /// Whether the message states that its participant has left.
    fn is_goodbye(&self) -> bool {
        Submessages::new(&self.bytes[20..]).any(|s| {
            matches!(s, Ok(Submessage::Data(data))
                if data.writer == EntityId::SPDP_WRITER && matches!(data.payload, crate::wire::Payload::Key(_)))
        })
    }

    fn is_announcement(&self) -> bool {
        self.announcement_number().is_some()
    }

    /// The sequence number of the announcement, if the message is one.
    fn announcement_number(&self) -> Option<i64> {
        Submessages::new(&self.bytes[20..]).find_map(|s| match s {
            Ok(Submessage::Data(data)) if data.writer == EntityId::SPDP_WRITER => Some(data.sequence_number.0),
            _ => None,
        })
    }
}

/// Hosts with one participant each. Messages to hosts outside are recorded only.
struct Domain {
    now: Instant,
    participants: BTreeMap<u32, Participant>,
    events: BTreeMap<u32, Vec<ParticipantEvent>>,
    sent: Vec<Sent>,
    /// Whether all messages are lost.
    cut: bool,
    /// A host to which all messages are lost.
    deaf: Option<u32>,
    /// A host to which all messages by unicast are lost.
    hears_groups_only: Option<u32>,
    /// The source addresses of hosts that differ from their configured ones.
    places: BTreeMap<u32, u32>,
    /// The vendors of hosts that others take for participants of another one.
    vendors: BTreeMap<u32, VendorId>,
}

impl Domain {
    fn new(configs: impl IntoIterator<Item = (u32, ParticipantConfig)>) -> Self {
        let now = Instant(1_000_000_000);
        let participants = configs.into_iter().map(|(host, config)| (host, Participant::new(now, config))).collect();
        let mut domain = Self {
            now,
            participants,
            events: BTreeMap::new(),
            sent: vec![],
            cut: false,
            deaf: None,
            hears_groups_only: None,
            places: BTreeMap::new(),
            vendors: BTreeMap::new(),
        };
        domain.tick();
        domain
    }

    fn of(hosts: &[u32]) -> Self {
        Self::new(hosts.iter().map(|host| (*host, config(*host))))
    }

    /// Host 1 with a writer and host 2 with a matched reader; host 1 has no other event.
    fn of_a_pair() -> Self {
        let mut domain = Self::of(&[1, 2]);
        domain.put_writer(1, publication(1, 1, "topic"));
        domain.put_reader(2, subscription(2, 1, "topic"));
        domain.run(Span::from_secs(1));
        domain.events(1);
        domain
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

    /// Passes a message to a host.
    fn hear(&mut self, host: u32, bytes: &[u8]) {
        let [.., a, b, c, d] = GuidPrefix(bytes[8..20].try_into().unwrap()).0;
        let sender = u32::from_be_bytes([a, b, c, d]);
        let place = self.places.get(&sender).copied().unwrap_or(sender);
        let mut bytes = bytes.to_vec();
        if let Some(vendor) = self.vendors.get(&sender) {
            bytes[6..8].copy_from_slice(&vendor.0);
            // PID_VENDORID of an announcement.
            let parameter = [&[0x16, 0, 4, 0], &VendorId::PEREGRINE.0[..]].concat();
            if let Some(at) = bytes.windows(parameter.len()).position(|window| window == parameter) {
                bytes[at + 4..at + 6].copy_from_slice(&vendor.0);
            }
        }
        self.hear_from(host, address(place, 7410), &bytes);
    }

    /// Passes a message from this address to a host.
    fn hear_from(&mut self, host: u32, source: SocketAddr, bytes: &[u8]) {
        let (now, wall) = (self.now, self.wall());
        let rx = Reception { now, wall, buffer: None, source: source.into() };
        self.at(host).handle_datagram(&rx, bytes, &mut FragmentRun::default(), |_, _, _| {});
    }

    /// Sends and delivers messages until no participant has any to send.
    fn run_until_idle(&mut self) {
        for _ in 0..ROUNDS_MAX {
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
                    let place = self.places.get(&host).copied().unwrap_or(host);
                    let hears_unicast = self.hears_groups_only != Some(host);
                    let is_meant =
                        message.to.contains(&GROUP) || hears_unicast && message.to.contains(&address(place, 7410));
                    if is_meant && !self.cut && self.deaf != Some(host) {
                        self.hear(host, &message.bytes);
                    }
                }
            }
            self.sent.append(&mut fresh);
        }
        panic!("the participants exchange messages without end");
    }

    fn tick(&mut self) {
        let (now, wall) = (self.now, self.wall());
        self.participants.values_mut().for_each(|p| p.handle_timeout(now, wall));
        self.run_until_idle();
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        self.run_until_idle();
        let mut rounds_now = 0;
        while let Some(at) = self.participants.values().filter_map(Participant::poll_timeout).min()
            && at <= end
        {
            rounds_now = if at > self.now { 0 } else { rounds_now + 1 };
            assert!(rounds_now <= ROUNDS_MAX, "the timer of {at:?} stays due at {:?}", self.now);
            self.now = self.now.max(at);
            self.tick();
        }
        self.now = end;
    }

    fn events(&mut self, host: u32) -> Vec<ParticipantEvent> {
        self.run_until_idle();
        self.events.remove(&host).unwrap_or_default()
    }

    fn put_writer(&mut self, host: u32, data: PublicationData) {
        let (now, wall) = (self.now, self.wall());
        self.at(host).put_writer(now, wall, data);
        self.run_until_idle();
    }

    fn put_reader(&mut self, host: u32, data: SubscriptionData) {
        let (now, wall) = (self.now, self.wall());
        self.at(host).put_reader(now, wall, data);
        self.run_until_idle();
    }

    /// The messages that `host` has sent to `other` alone.
    fn sent_to(&self, host: u32, other: u32) -> Vec<Sent> {
        let is_meant = |m: &&Sent| m.from == prefix(host) && m.to == [address(other, 7410)];
        self.sent.iter().filter(is_meant).cloned().collect()
    }
}

/// A participant outside the domain that makes forged messages.
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
