//! Matches by topic: the same as if each endpoint were compared with each other one, without the work of doing so.

use super::*;
use proptest::prelude::*;
use std::format;

const TOPICS: [&str; 3] = ["a", "b", "c"];
const HOSTS: [u32; 3] = [1, 2, 3];

/// One endpoint of the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Endpoint {
    topic: usize,
    reliable: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A new endpoint, or one with another topic or policy.
    Put {
        host: u32,
        key: u32,
        is_writer: bool,
        endpoint: Endpoint,
    },
    Remove {
        host: u32,
        key: u32,
        is_writer: bool,
    },
    Ignore {
        host: u32,
        other: u32,
        key: u32,
        is_writer: bool,
    },
    IgnoreTopic {
        host: u32,
        topic: usize,
    },
    /// Each of both ignores the other one: one that is ignored on one side only gets no answer when it returns.
    IgnoreParticipant {
        host: u32,
        other: u32,
    },
    /// No message arrives until every lease has ended; then all participants meet again. With `keeps`, the first host
    /// keeps the discovery data of the others meanwhile.
    Silence {
        keeps: bool,
        ignored_meanwhile: Option<usize>,
    },
}

/// All endpoints, and the endpoints, topics and participants that each host ignores.
#[derive(Default)]
struct Model {
    writers: BTreeMap<Guid, Endpoint>,
    readers: BTreeMap<Guid, Endpoint>,
    ignored: BTreeSet<(u32, Guid)>,
    ignored_topics: BTreeSet<(u32, usize)>,
}

/// Writer, reader, and whether the writer's side says so.
type Matches = BTreeSet<(Guid, Guid, bool)>;

impl Model {
    fn ignores(&self, host: u32, guid: Guid, topic: usize) -> bool {
        let participant = Guid::new(guid.prefix, EntityId::PARTICIPANT);
        guid.prefix != prefix(host)
            && (self.ignored.contains(&(host, guid))
                || self.ignored.contains(&(host, participant))
                || self.ignored_topics.contains(&(host, topic)))
    }

    /// Compares all pairs.
    fn matches_of(&self, host: u32) -> Matches {
        let mut matches = Matches::new();
        for (writer, offered) in &self.writers {
            for (reader, requested) in &self.readers {
                let is_visible =
                    !self.ignores(host, *writer, offered.topic) && !self.ignores(host, *reader, requested.topic);
                if offered.topic == requested.topic && offered.reliable >= requested.reliable && is_visible {
                    matches.extend((writer.prefix == prefix(host)).then_some((*writer, *reader, true)));
                    matches.extend((reader.prefix == prefix(host)).then_some((*writer, *reader, false)));
                }
            }
        }
        matches
    }
}

fn guid_of(host: u32, key: u32, is_writer: bool) -> Guid {
    if is_writer { publication(host, key, "").guid } else { subscription(host, key, "").guid }
}

fn matches_of(participant: &Participant) -> Matches {
    let own = participant.prefix();
    let of_writers = participant
        .writers
        .iter()
        .flat_map(|(entity, local)| local.matched.iter().map(|reader| (Guid::new(own, *entity), *reader, true)));
    let of_readers = participant
        .readers
        .iter()
        .flat_map(|(entity, local)| local.matched.iter().map(|writer| (*writer, Guid::new(own, *entity), false)));
    of_writers.chain(of_readers).collect()
}

/// Applies events to the matches that a host has reported so far.
fn follow(told: &mut Matches, host: u32, events: Vec<ParticipantEvent>) {
    let own = |entity| Guid::new(prefix(host), entity);
    for event in events {
        match event {
            ParticipantEvent::ReaderMatched { writer, reader } => _ = told.insert((own(writer), reader.guid, true)),
            ParticipantEvent::ReaderUnmatched { writer, reader } => {
                assert!(told.remove(&(own(writer), reader, true)), "{reader:?} did not match");
            }
            ParticipantEvent::WriterMatched { reader, writer } => _ = told.insert((writer.guid, own(reader), false)),
            ParticipantEvent::WriterUnmatched { reader, writer, .. } => {
                assert!(told.remove(&(writer, own(reader), false)), "{writer:?} did not match");
            }
            _ => {}
        }
    }
}

fn take(domain: &mut Domain, model: &mut Model, step: Step) {
    let (now, wall) = (domain.now, domain.wall());
    match step {
        Step::Put { host, key, is_writer: true, endpoint } => {
            let mut data = publication(host, key, TOPICS[endpoint.topic]);
            data.qos.reliability = if endpoint.reliable { Reliability::RELIABLE } else { Reliability::BEST_EFFORT };
            model.writers.insert(data.guid, endpoint);
            domain.put_writer(host, data);
        }
        Step::Put { host, key, is_writer: false, endpoint } => {
            let mut data = subscription(host, key, TOPICS[endpoint.topic]);
            data.qos.reliability = if endpoint.reliable { Reliability::RELIABLE } else { Reliability::BEST_EFFORT };
            model.readers.insert(data.guid, endpoint);
            domain.put_reader(host, data);
        }
        Step::Remove { host, key, is_writer: true } => {
            model.writers.remove(&guid_of(host, key, true));
            domain.at(host).remove_writer(now, wall, guid_of(host, key, true).entity);
        }
        Step::Remove { host, key, is_writer: false } => {
            model.readers.remove(&guid_of(host, key, false));
            domain.at(host).remove_reader(now, wall, guid_of(host, key, false).entity);
        }
        Step::Ignore { host, other, key, is_writer } => {
            model.ignored.insert((host, guid_of(other, key, is_writer)));
            domain.at(host).ignore(now, wall, guid_of(other, key, is_writer));
        }
        Step::IgnoreTopic { host, topic } => {
            model.ignored_topics.insert((host, topic));
            domain.at(host).ignore_topic(now, wall, TOPICS[topic]);
        }
        Step::IgnoreParticipant { host, other } => {
            for (host, other) in [(host, other), (other, host)] {
                let guid = Guid::new(prefix(other), EntityId::PARTICIPANT);
                model.ignored.insert((host, guid));
                domain.at(host).ignore(now, wall, guid);
            }
        }
        Step::Silence { keeps, ignored_meanwhile } => {
            if keeps {
                let peers = domain.at(1).remotes.values_mut();
                peers.for_each(|remote| remote.data.vendor = VendorId::FAST_DDS);
            }
            domain.cut = true;
            domain.run(LEASE.times(2));
            if let Some(topic) = ignored_meanwhile {
                take(domain, model, Step::IgnoreTopic { host: 1, topic });
            }
            domain.cut = false;
            domain.run(PERIOD.times(3));
        }
    }
    domain.run(Span::from_millis(100));
}

fn step() -> impl Strategy<Value = Step> {
    let host = || prop::sample::select(&HOSTS[..]);
    let key = || 0_u32..3;
    let endpoint = (0..TOPICS.len(), any::<bool>()).prop_map(|(topic, reliable)| Endpoint { topic, reliable });
    let others = || prop::sample::select(vec![(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)]);
    prop_oneof![
        20 => (host(), key(), any::<bool>(), endpoint)
            .prop_map(|(host, key, is_writer, endpoint)| Step::Put { host, key, is_writer, endpoint }),
        8 => (host(), key(), any::<bool>()).prop_map(|(host, key, is_writer)| Step::Remove { host, key, is_writer }),
        1 => (others(), key(), any::<bool>())
            .prop_map(|((host, other), key, is_writer)| Step::Ignore { host, other, key, is_writer }),
        1 => (host(), 0..TOPICS.len()).prop_map(|(host, topic)| Step::IgnoreTopic { host, topic }),
        1 => others().prop_map(|(host, other)| Step::IgnoreParticipant { host, other }),
        2 => (any::<bool>(), prop::option::weighted(0.3, 0..TOPICS.len()))
            .prop_map(|(keeps, ignored_meanwhile)| Step::Silence { keeps, ignored_meanwhile }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn matches_are_those_of_a_comparison_of_all_pairs(steps in prop::collection::vec(step(), 1..40)) {
        let mut domain = Domain::of(&HOSTS);
        domain.run(Span::from_secs(1));
        let mut model = Model::default();
        let mut told: BTreeMap<u32, Matches> = BTreeMap::new();
        for step in steps {
            take(&mut domain, &mut model, step);
            for host in HOSTS {
                let events = domain.events(host);
                let told = told.entry(host).or_default();
                follow(told, host, events);
                // A participant reports no end of a match to the application that removes the endpoint.
                told.retain(|(writer, reader, of_writer)| {
                    if *of_writer { model.writers.contains_key(writer) } else { model.readers.contains_key(reader) }
                });
                let expected = model.matches_of(host);
                prop_assert_eq!(&*told, &expected, "events of host {} after {:?}", host, step);
                let participant = domain.at(host);
                prop_assert_eq!(matches_of(participant), expected, "host {} after {:?}", host, step);
                prop_assert!(participant.is_indexed(), "host {} after {:?}", host, step);
                let routes: usize = participant.routes.values().map(Vec::len).sum();
                prop_assert_eq!(routes, participant.readers.values().map(|local| local.matched.len()).sum::<usize>());
            }
        }
    }
}

#[test]
fn endpoint_with_another_topic_leaves_the_matches_of_the_first() {
    for is_writer in [true, false] {
        let mut domain = Domain::of_a_pair();
        domain.events(2);
        if is_writer {
            domain.put_writer(1, publication(1, 1, "another"));
        } else {
            domain.put_reader(2, subscription(2, 1, "another"));
        }
        domain.run(Span::from_millis(100));
        let (at_writer, at_reader) = (domain.events(1), domain.events(2));
        assert!(at_writer.iter().any(|e| matches!(e, ParticipantEvent::ReaderUnmatched { .. })), "{at_writer:?}");
        assert!(at_reader.iter().any(|e| matches!(e, ParticipantEvent::WriterUnmatched { .. })), "{at_reader:?}");
    }
}

#[test]
fn endpoint_with_an_ignored_topic_leaves_the_matches_of_the_first() {
    let mut domain = Domain::of_a_pair();
    let (now, wall) = (domain.now, domain.wall());
    domain.at(1).ignore_topic(now, wall, "another");
    domain.put_reader(2, subscription(2, 1, "another"));
    domain.run(Span::from_millis(100));
    let events = domain.events(1);
    assert!(events.iter().any(|e| matches!(e, ParticipantEvent::ReaderUnmatched { .. })), "{events:?}");
    assert_eq!(domain.at(1).remote_subscriptions().count(), 0);
}

#[test]
fn topic_ignored_while_its_participant_is_silent_stays_ignored() {
    let mut domain = Domain::of(&[1, 2]);
    let mut model = Model::default();
    for (topic, key) in [(0, 1), (1, 2)] {
        let endpoint = Endpoint { topic, reliable: true };
        take(&mut domain, &mut model, Step::Put { host: 1, key, is_writer: true, endpoint });
        take(&mut domain, &mut model, Step::Put { host: 2, key, is_writer: false, endpoint });
    }
    assert_eq!(domain.at(1).remote_subscriptions().count(), 2);
    take(&mut domain, &mut model, Step::Silence { keeps: true, ignored_meanwhile: Some(0) });
    let topics: Vec<_> = domain.at(1).remote_subscriptions().map(|data| data.topic_name.clone()).collect();
    assert_eq!(topics, ["b"]);
    let participant = domain.at(1);
    let held = participant.remotes[&prefix(2)].held_bytes();
    assert_eq!(participant.discovery_memory.bytes(), held);
}

/// The pairs that both hosts visit until `topics` topics, with a writer and a reader each, are matched, and until they
/// are removed again.
fn pairs_visited(topics: u32) -> [usize; 2] {
    let mut domain = Domain::of(&[1, 2]);
    domain.run(Span::from_secs(1));
    let (now, wall) = (domain.now, domain.wall());
    for key in 0..topics {
        domain.at(1).put_writer(now, wall, publication(1, key, &format!("topic {key}")));
        domain.at(2).put_reader(now, wall, subscription(2, key, &format!("topic {key}")));
    }
    domain.run(Span::from_millis(100));
    assert_eq!(matched_readers(&domain.events(1)).len(), topics as usize);
    assert_eq!(matched_writers(&domain.events(2)).len(), topics as usize);
    let visited = |domain: &mut Domain| domain.at(1).pairs_visited + domain.at(2).pairs_visited;
    let until_matched = visited(&mut domain);
    let (now, wall) = (domain.now, domain.wall());
    for key in 0..topics {
        domain.at(1).remove_writer(now, wall, guid_of(1, key, true).entity);
    }
    domain.at(2).leave(wall);
    domain.run(Span::from_millis(100));
    assert_eq!(domain.at(1).remote_subscriptions().count() + domain.at(2).remote_publications().count(), 0);
    [until_matched, visited(&mut domain)]
}

#[test]
fn one_pair_is_visited_for_each_topic_and_side() {
    for topics in [100, 300] {
        let [until_matched, until_removed] = pairs_visited(topics);
        assert_eq!(until_matched, 2 * topics as usize);
        assert!(until_removed <= 4 * topics as usize, "{until_removed}");
    }
}
