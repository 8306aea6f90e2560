//! Answers for discovery, and steps of a session, without a network.

mod link;

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;

use peregrine_rtps::discovery::data::{PublicationData, SubscriptionData};
use peregrine_rtps::id::Guid;
use peregrine_rtps::locator::Source;
use peregrine_rtps::participant::{Addresses, Admission, LostReason};
use peregrine_rtps::protection::ProtectionLevels;
use peregrine_rtps::time::Span;

use super::*;
use crate::session::NonMatch;
use crate::session::tests::world::{OWNERS, Rules, Start, TOPIC};
use crate::testing::{EC_AUTHORITY, NOW};

const WRITER: EntityId = EntityId([0, 0, 1, 2]);
const READER: EntityId = EntityId([0, 0, 2, 7]);

/// A clock that stands still, and predictable numbers.
#[derive(Debug, Default)]
struct Frozen(AtomicU64);

impl Environment for Frozen {
    fn now(&self) -> Instant {
        Instant(1_000_000_000)
    }

    fn wall(&self) -> Timestamp {
        Timestamp { seconds: u32::try_from(NOW.0).unwrap(), fraction: 0 }
    }

    fn fill(&self, octets: &mut [u8]) {
        octets.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed).to_le_bytes()[0]);
    }
}

#[derive(Default)]
struct Taken {
    jobs: VecDeque<Job>,
    reports: Vec<SecurityEvent>,
    not_sent: Vec<GuidPrefix>,
}

impl Outlet for Taken {
    fn run_job(&mut self, job: Job) {
        self.jobs.push_back(job);
    }

    fn report(&mut self, event: SecurityEvent) {
        self.reports.push(event);
    }

    fn not_sent(&mut self, peer: GuidPrefix, _: SecureSendError) {
        self.not_sent.push(peer);
    }
}

fn member(owner: usize, start: &Start) -> (Arc<ParticipantSecurity>, Participant) {
    member_at(owner, start, Arc::new(Frozen::default()), Addresses::default())
}

fn member_at(
    owner: usize,
    start: &Start,
    environment: Arc<dyn Environment>,
    addresses: Addresses,
) -> (Arc<ParticipantSecurity>, Participant) {
    let credential = start.credential(&OWNERS[owner], &EC_AUTHORITY, NOW).unwrap();
    let mut config = ParticipantConfig {
        lease: Span::from_secs(10),
        announce_period: Span::from_secs(3),
        addresses,
        ..ParticipantConfig::new(GuidPrefix::UNKNOWN, owner as u64 + 1)
    };
    let now = environment.now();
    let settings = (start.config, &Plugins::new());
    let security = ParticipantSecurity::configure(credential, settings, environment, &mut config).unwrap();
    assert_eq!(security.session().prefix(), config.prefix);
    assert!(config.gate.is_some() && config.protection.is_some() && config.security.is_some());
    (security, Participant::new(now, config))
}

fn open_rules() -> Rules {
    Rules { has_open_topics: true, ..Rules::of(ProtectionLevels::default()) }
}

fn partition(name: &str) -> Partition {
    Partition(vec![name.to_owned()])
}

#[test]
fn dropped_registration_ends_and_kept_one_lasts_until_the_removal() {
    let (security, _) = member(0, &Start::with(open_rules()));
    let register = || security.register(WRITER, TOPIC, &Partition::default(), None);
    drop(register().unwrap());
    register().unwrap().keep();
    assert!(matches!(register(), Err(UnusableEndpoint::Entity(WRITER))), "the endpoint is known");
    security.endpoint_removed(WRITER);
    register().unwrap().keep();
}

#[test]
fn local_endpoint_that_moves_to_a_denied_partition_matches_no_remote_endpoint() {
    let (security, participant) = member(0, &Start::with(open_rules()));
    let own = participant.prefix();
    security.register(READER, TOPIC, &Partition::default(), None).unwrap().keep();
    // The grant names no partitions, so that it permits the empty one only.
    assert!(security.check(READER, TOPIC, &partition("elsewhere"), None).is_err());
    let denied = security.endpoint_announced(READER, TOPIC, &partition("elsewhere"), None);
    assert!(matches!(denied, Err(UnusableEndpoint::Denied(_))), "{denied:?}");
    let mut reader = SubscriptionData::new(Guid::new(own, READER), TOPIC.to_owned(), "Type".to_owned());
    let remote = Guid::new(GuidPrefix([9; 12]), WRITER);
    let writer = PublicationData::new(remote, TOPIC.to_owned(), "Type".to_owned());
    let of_remote = security.check_remote_writer(&writer, &reader).unwrap_err();
    assert_eq!(of_remote, NonMatch::NotAdmitted(remote).to_string(), "the local endpoint is permitted");
    reader.subscriber.partition = partition("elsewhere");
    let of_local = security.check_remote_writer(&writer, &reader).unwrap_err();
    let denial = security.check(READER, TOPIC, &reader.subscriber.partition, None).unwrap_err();
    assert_eq!(of_local, denial.to_string());
}

#[test]
fn local_writer_in_a_denied_partition_matches_no_remote_reader() {
    let (security, participant) = member(0, &Start::with(open_rules()));
    let own = Guid::new(participant.prefix(), WRITER);
    let mut writer = PublicationData::new(own, TOPIC.to_owned(), "Type".to_owned());
    writer.publisher.partition = partition("elsewhere");
    let remote = Guid::new(GuidPrefix([9; 12]), READER);
    let reader = SubscriptionData::new(remote, TOPIC.to_owned(), "Type".to_owned());
    let refusal = security.check_remote_reader(&reader, &writer).unwrap_err();
    let denial = security.check(WRITER, TOPIC, &writer.publisher.partition, None).unwrap_err();
    assert_eq!(refusal, denial.to_string());
}

#[test]
fn topics_have_the_protection_of_the_governance() {
    let (security, _) = member(0, &Start::with(Rules { has_open_topics: true, ..Rules::strict() }));
    let rules = security.participant();
    assert!(rules.is_rtps_protected && rules.is_discovery_protected && rules.is_liveliness_protected);
    let closed = security.topic(TOPIC);
    assert!(closed.is_read_protected && closed.is_write_protected && !closed.is_open());
    assert!(closed.is_submessage_protected && closed.is_payload_protected);
    let open = security.topic("OpenSquare");
    assert!(open.is_open(), "{open:?}");
    assert_ne!(open.info, closed.info);
}

#[test]
fn announced_peer_is_pending_and_its_handshake_begins_with_a_job() {
    let start = Start::with(open_rules());
    let (security, mut participant) = member(0, &start);
    let (_, peer) = member(1, &start);
    let source = Source::Datagram(([127, 0, 0, 1], 7410).into());
    assert_eq!(security.decision(peer.prefix()), None);
    assert_eq!(security.announced(&peer.data(), Some(source)), Admission::Pending);
    assert_eq!(security.decision(peer.prefix()), Some(session::Admission::Pending));
    let now = security.environment.now();
    let mut taken = Taken::default();
    assert!(security.process(now, &mut participant, &mut taken));
    assert!(!security.process(now, &mut participant, &mut taken), "all steps were taken");
    let job = taken.jobs.pop_front().unwrap();
    assert_eq!((taken.jobs.len(), security.usage().peers), (0, 1));
    security.job_done(job.run());
    assert!(security.process(now, &mut participant, &mut taken));
    // The participant knows no peer: no announcement has arrived.
    assert_eq!((taken.not_sent.as_slice(), security.not_sent()), ([peer.prefix()].as_slice(), 1));
    assert!(security.poll_timeout().is_some_and(|at| at > now), "the message is repeated");
    security.participant_lost(peer.prefix(), LostReason::Left);
    assert_eq!((security.decision(peer.prefix()), security.usage().peers), (None, 0));
    assert!(taken.reports.is_empty());
}

#[test]
fn refused_peer_is_remembered_when_discovery_has_let_it_go() {
    let (security, _) = member(0, &Start::with(open_rules()));
    let (_, peer) = member(1, &Start::with(open_rules()));
    let mut announced = peer.data();
    announced.security = None;
    let refused = security.announced(&announced, None);
    assert!(matches!(refused, Admission::Refused(_)), "{refused:?}");
    security.participant_lost(peer.prefix(), LostReason::Refused);
    assert_eq!(security.admission(peer.prefix()), refused);
}

#[test]
fn pair_with_a_peer_that_is_not_admitted_exchanges_no_keys() {
    let start = Start::with(open_rules());
    let (security, mut participant) = member(0, &start);
    let (_, peer) = member(1, &start);
    security.register(READER, TOPIC, &Partition::default(), None).unwrap().keep();
    security.announced(&peer.data(), None);
    let remote = Guid::new(peer.prefix(), WRITER);
    assert_eq!(security.want_keys(READER, remote), Err(NonMatch::NotAdmitted(remote).to_string()));
    assert!(!security.has_keys(READER, remote));
    assert!(!security.has_keys(EntityId::PARTICIPANT, Guid::new(peer.prefix(), EntityId::PARTICIPANT)));
    let usage = security.usage();
    assert_eq!((usage.matches, usage.pairs_waiting), (0, 0));
    let mut taken = Taken::default();
    security.process(security.environment.now(), &mut participant, &mut taken);
    assert_eq!(taken.not_sent, [], "no message with keys is made");
}
