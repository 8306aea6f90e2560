//! Policies end to end, over real sockets.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::stalls::Stalls;
use common::{GLANCE, PATIENCE, Reading, config, eventually, participant};
use peregrine::error::Timeout;
use peregrine::qos::{
    AccessScope, DataReaderQos, DataRepresentation, DataWriterQos, Deadline, DestinationOrder, Durability, History,
    Lifespan, Limit, Liveliness, LivelinessKind, Ownership, OwnershipStrength, Partition, PolicyId, Presentation,
    Properties, Property, PublisherQos, ReaderDataLifecycle, Reliability, RepresentationId, ResourceLimits, Span,
    SubscriberQos, TimeBasedFilter, TopicData, TopicQos, UserData, WriterDataLifecycle,
};
use peregrine::status::StallCause;
use peregrine::xtypes::{Encapsulation, Representation};
use peregrine::{
    DataReader, DataWriter, DiscoveryEvent, DomainParticipant, Error, InstanceState, Selector, StatusMask, Timestamp,
    WaitSet,
};

fn writer_qos() -> DataWriterQos {
    DataWriterQos { history: History::KeepAll, ..DataWriterQos::default() }
}

fn reader_qos() -> DataReaderQos {
    DataReaderQos { reliability: Reliability::RELIABLE, history: History::KeepAll, ..DataReaderQos::default() }
}

fn write_to(participant: &DomainParticipant, qos: DataWriterQos) -> DataWriter<Reading> {
    participant.topic("readings").unwrap().writer_builder().qos(qos).build().unwrap()
}

fn read_from(participant: &DomainParticipant, qos: DataReaderQos) -> DataReader<Reading> {
    participant.topic("readings").unwrap().reader_builder().qos(qos).build().unwrap()
}

fn values(reader: &DataReader<Reading>) -> Vec<u32> {
    reader.take().unwrap().into_iter().filter_map(|s| s.into_value()).map(|r| r.value).collect()
}

/// Waits until one of the statuses in `mask` has changed.
fn wait_for(condition: &peregrine::StatusCondition, mask: StatusMask) {
    condition.set_enabled_statuses(mask);
    let set = WaitSet::new();
    set.attach(condition);
    set.wait(PATIENCE).unwrap();
}

#[test]
fn missed_deadline_is_reported_on_both_sides() {
    let participant = participant(76);
    let deadline = Deadline { period: Span::from_millis(30) };
    let writer = write_to(&participant, DataWriterQos { deadline, ..writer_qos() });
    let reader = read_from(&participant, DataReaderQos { deadline, ..reader_qos() });
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let instance = writer.register_instance(&Reading::new(1, 0)).unwrap();
    writer.write(&Reading::new(1, 0)).unwrap();
    wait_for(reader.status_condition(), StatusMask::REQUESTED_DEADLINE_MISSED);
    wait_for(writer.status_condition(), StatusMask::OFFERED_DEADLINE_MISSED);
    assert_eq!(reader.requested_deadline_missed_status().last_instance, Some(instance));
    assert_eq!(writer.offered_deadline_missed_status().last_instance, Some(instance));

    // DEADLINE may change; with an infinite period no deadline is missed.
    writer.set_qos(DataWriterQos { deadline: Deadline::default(), ..writer_qos() }).unwrap();
    let policy = || reader.requested_incompatible_qos_status().last_policy;
    eventually("the pair no longer matches", || policy() == Some(PolicyId::Deadline));
    assert_eq!(reader.subscription_matched_status().current_count, 0);
    let missed = writer.offered_deadline_missed_status().total_count;
    // Another writer misses its deadline often enough meanwhile.
    let other = write_to(&participant, DataWriterQos { deadline, ..writer_qos() });
    other.write(&Reading::new(2, 0)).unwrap();
    eventually("others are missed", || other.offered_deadline_missed_status().total_count >= 3);
    assert_eq!(writer.offered_deadline_missed_status().total_count, missed);
}

#[test]
fn writer_without_assertion_loses_liveliness() {
    let participant = participant(77);
    let liveliness = Liveliness { kind: LivelinessKind::ManualByTopic, lease_duration: Span::from_millis(40) };
    let writer = write_to(&participant, DataWriterQos { liveliness, ..writer_qos() });
    let reader = read_from(&participant, DataReaderQos { liveliness, ..reader_qos() });
    reader.wait_for_writers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    wait_for(writer.status_condition(), StatusMask::LIVELINESS_LOST);
    assert_eq!(writer.liveliness_lost_status().total_count, 1);
    eventually("the writer is not alive", || reader.liveliness_changed_status().not_alive_count == 1);
    eventually("its instance has no writer", || {
        reader.take().unwrap().last().is_some_and(|s| s.info().instance_state == InstanceState::NotAliveNoWriters)
    });
    writer.assert_liveliness().unwrap();
    eventually("the writer is alive", || reader.liveliness_changed_status().alive_count == 1);
    assert_eq!(reader.liveliness_changed_status().not_alive_count, 0);
}

#[test]
fn strongest_writer_owns_instance_after_strength_change() {
    let participant = participant(78);
    let strong = |strength| DataWriterQos {
        ownership: Ownership::Exclusive,
        ownership_strength: OwnershipStrength(strength),
        ..writer_qos()
    };
    let (weak, strong_writer) = (write_to(&participant, strong(1)), write_to(&participant, strong(2)));
    let reader = read_from(&participant, DataReaderQos { ownership: Ownership::Exclusive, ..reader_qos() });
    reader.wait_for_writers(2, PATIENCE).unwrap();
    let write = |writer: &DataWriter<Reading>, value| {
        writer.wait_for_readers(1, PATIENCE).unwrap();
        writer.write(&Reading::new(1, value)).unwrap();
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    };
    write(&weak, 1);
    write(&strong_writer, 2);
    write(&weak, 3);
    assert_eq!(values(&reader), [1, 2]);
    weak.set_qos(strong(3)).unwrap();
    write(&weak, 4);
    write(&strong_writer, 5);
    assert_eq!(values(&reader), [4]);
    drop(weak);
    reader.wait_for_writers(1, PATIENCE).unwrap();
    eventually("the other writer takes over", || {
        write(&strong_writer, 6);
        values(&reader).contains(&6)
    });
}

#[test]
fn time_based_filter_and_lifespan_drop_samples() {
    let participant = participant(79);
    let lifespan = Lifespan { duration: Span::from_millis(60) };
    let writer = write_to(&participant, DataWriterQos { lifespan, ..writer_qos() });
    let rare = TimeBasedFilter { minimum_separation: Span::from_secs(3600) };
    let filtered = read_from(&participant, DataReaderQos { time_based_filter: rare, ..reader_qos() });
    let all = read_from(&participant, reader_qos());
    writer.wait_for_readers(2, PATIENCE).unwrap();
    for value in 0..5 {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    let received = (all.counters().samples, filtered.counters().samples, filtered.counters().filtered);
    assert_eq!(received, (5, 1, 3), "the newest sample is held until the separation has passed");
    eventually("all samples have expired", || all.read().unwrap().is_empty() && filtered.read().unwrap().is_empty());
}

#[test]
fn time_based_filter_delivers_last_value() {
    let participant = participant(89);
    let writer = write_to(&participant, writer_qos());
    let rare = TimeBasedFilter { minimum_separation: Span::from_secs(3600) };
    let reader = read_from(&participant, DataReaderQos { time_based_filter: rare, ..reader_qos() });
    writer.wait_for_readers(1, PATIENCE).unwrap();
    for value in 0..5 {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(values(&reader), [0]);
    let often = TimeBasedFilter { minimum_separation: Span::from_millis(1) };
    reader.set_qos(DataReaderQos { time_based_filter: often, ..reader_qos() }).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 4)));
    assert_eq!((reader.counters().samples, reader.counters().filtered), (2, 3));
}

#[test]
fn samples_are_ordered_by_source_timestamp() {
    let participant = participant(80);
    let destination_order = DestinationOrder::BySourceTimestamp;
    let early = write_to(&participant, DataWriterQos { destination_order, ..writer_qos() });
    let late = write_to(&participant, DataWriterQos { destination_order, ..writer_qos() });
    let reader = read_from(&participant, DataReaderQos { destination_order, ..reader_qos() });
    reader.wait_for_writers(2, PATIENCE).unwrap();
    for (writer, at, value) in [(&late, 20, 2), (&early, 10, 1), (&late, 30, 3)] {
        writer.wait_for_readers(1, PATIENCE).unwrap();
        writer.write_at(&Reading::new(1, value), Timestamp { seconds: at, fraction: 0 }).unwrap();
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    }
    assert_eq!(values(&reader), [1, 2, 3]);
}

#[test]
fn deleted_writer_disposes_instances_with_autodispose() {
    let (a, b) = (participant(81), participant(81));
    let reader = read_from(&b, reader_qos());
    for (autodispose, expected) in [(true, InstanceState::NotAliveDisposed), (false, InstanceState::NotAliveNoWriters)]
    {
        let lifecycle = WriterDataLifecycle { autodispose_unregistered_instances: autodispose };
        let writer = write_to(&a, DataWriterQos { writer_data_lifecycle: lifecycle, ..writer_qos() });
        writer.wait_for_readers(1, PATIENCE).unwrap();
        for id in 0..50 {
            writer.write(&Reading::new(id, 1)).unwrap();
        }
        drop(writer);
        let mut values = 0;
        let mut ended = 0;
        eventually("all instances have ended", || {
            for sample in reader.take().unwrap() {
                values += usize::from(sample.info().valid_data);
                ended += usize::from(!sample.info().valid_data && sample.info().instance_state == expected);
            }
            ended == 50
        });
        assert_eq!(values, 50, "the last samples are received although the writer is deleted");
    }
}

#[test]
fn reader_purges_ended_instances_after_delay() {
    let participant = participant(82);
    let reader_data_lifecycle = ReaderDataLifecycle {
        autopurge_disposed_samples_delay: Span::from_millis(30),
        ..ReaderDataLifecycle::default()
    };
    let writer = write_to(&participant, writer_qos());
    let reader = read_from(&participant, reader_qos());
    reader.set_qos(DataReaderQos { reader_data_lifecycle, ..reader_qos() }).unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    writer.dispose(&Reading::new(1, 0)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    eventually("the instance is forgotten", || reader.lookup_instance(&Reading::new(1, 0)).is_none());
    assert!(reader.read().unwrap().is_empty());
}

#[test]
fn changed_partition_changes_matches() {
    let participant = participant(83);
    let partition = |names: &[&str]| Partition(names.iter().map(|n| (*n).to_owned()).collect());
    let publisher =
        participant.publisher(PublisherQos { partition: partition(&["left"]), ..PublisherQos::default() }).unwrap();
    let subscriber =
        participant.subscriber(SubscriberQos { partition: partition(&["r*"]), ..SubscriberQos::default() }).unwrap();
    let topic = participant.topic::<Reading>("readings").unwrap();
    let writer = publisher.writer(&topic).build().unwrap();
    let reader = subscriber.reader(&topic).build().unwrap();
    assert!(reader.matched_publications().is_empty());
    publisher.set_qos(PublisherQos { partition: partition(&["right"]), ..PublisherQos::default() }).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    subscriber.set_qos(SubscriberQos::default()).unwrap();
    eventually("the endpoints are unmatched", || writer.matched_subscriptions().is_empty());
}

#[test]
fn mismatch_is_reported_with_both_values() {
    let (a, b) = (participant(98), participant(98));
    let mut events = a.discovery_events();
    let writer = write_to(&a, DataWriterQos { reliability: Reliability::BEST_EFFORT, ..writer_qos() });
    let reader = read_from(&b, reader_qos());
    loop {
        let event = events.wait_next(PATIENCE).expect("the mismatch is reported");
        if let DiscoveryEvent::NotMatched { local, remote, reason } = event {
            assert_eq!((local, remote), (writer.guid(), reader.guid()));
            assert_eq!(reason.to_string(), "RELIABILITY: offered BEST_EFFORT, requested RELIABLE");
            return;
        }
    }
}

/// The error text of a refused argument.
fn refused<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::BadParameter(cause)) => cause.to_string(),
        other => panic!("not refused as an argument: {:?}", other.err()),
    }
}

/// Properties with values of these lengths.
fn properties(lengths: impl IntoIterator<Item = usize>) -> Properties {
    let property = |len| Property { name: "x".to_owned(), value: "y".repeat(len), propagate: true };
    Properties { text: lengths.into_iter().map(property).collect(), binary: Vec::new() }
}

#[test]
fn overlong_policy_is_refused() {
    let participant = participant(96);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let many = Partition((0..65).map(|n| n.to_string()).collect());
    let long = Partition(vec!["x".repeat(257)]);
    let text = refused(participant.publisher(PublisherQos { partition: many, ..PublisherQos::default() }));
    assert!(text.contains("PARTITION has 65, permitted are at most 64"), "{text}");
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    let text = refused(subscriber.set_qos(SubscriberQos { partition: long, ..SubscriberQos::default() }));
    assert!(text.contains("has 257, permitted are at most 256"), "{text}");
    let reader = subscriber.reader(&topic).build().unwrap();
    let user_data = UserData(vec![0; 65_529]);
    let text = refused(reader.set_qos(DataReaderQos { user_data: user_data.clone(), ..reader.qos() }));
    assert!(text.contains("has 65529, permitted are at most 65528"), "{text}");
    let many = properties((0..65).map(|_| 1));
    assert!(refused(reader.set_qos(DataReaderQos { properties: many, ..reader.qos() })).contains("PROPERTY has 65"));
    let long = properties([4097]);
    let text = refused(subscriber.reader(&topic).qos(DataReaderQos { properties: long, ..reader_qos() }).build());
    assert!(text.contains("has 4097, permitted are at most 4096"), "{text}");
    let together = properties([4000; 9]);
    let text = refused(topic.writer_builder().qos(DataWriterQos { properties: together, ..writer_qos() }).build());
    assert!(text.contains("permitted are at most 32768"), "{text}");
    let mut private = properties([5000; 70]);
    private.text.iter_mut().for_each(|property| property.propagate = false);
    topic.writer_builder().qos(DataWriterQos { properties: private, ..writer_qos() }).build().unwrap();
    let topic_data = TopicData(user_data.0.clone());
    assert!(refused(topic.set_qos(TopicQos { topic_data, ..topic.qos() })).starts_with("TOPIC_DATA"));
    let qos = peregrine::qos::ParticipantQos { user_data, ..participant.qos() };
    assert!(refused(participant.set_qos(qos.clone())).contains("permitted are at most 32768"));
    assert!(refused(DomainParticipant::builder(96).qos(qos).config(config()).build()).contains("USER_DATA"));
}

#[test]
fn longest_announcement_arrives() {
    let (a, b) = (participant(97), participant(97));
    let partition = Partition((0..64).map(|n| format!("{n:0>256}")).collect());
    let octets = vec![7; 65_528];
    let topic_qos = TopicQos { topic_data: TopicData(octets.clone()), ..TopicQos::default() };
    let topic = a.topic_with_qos::<Reading>("readings", topic_qos).unwrap();
    let group_data = peregrine::qos::GroupData(octets.clone());
    let publisher =
        a.publisher(PublisherQos { partition: partition.clone(), group_data, ..PublisherQos::default() }).unwrap();
    // As announced, these are exactly as many bytes as permitted.
    let properties = properties([4096, 4096, 4096, 4096, 4096, 4096, 4096, 3963]);
    assert_eq!(properties.announced_bytes(), 32 << 10);
    let qos = DataWriterQos { user_data: UserData(octets.clone()), properties: properties.clone(), ..writer_qos() };
    let writer = publisher.writer(&topic).qos(qos).build().unwrap();
    let mut events = b.discovery_events();
    loop {
        if let DiscoveryEvent::PublicationFound(data) = events.wait_next(PATIENCE).expect("the announcement arrives") {
            let news = (data.guid, data.publisher.partition, data.qos.user_data.0, data.qos.properties);
            assert_eq!(news, (writer.guid(), partition, octets, properties));
            return;
        }
    }
}

#[test]
fn change_of_an_immutable_policy_names_the_policy() {
    let participant = participant(84);
    let (writer, reader) = (write_to(&participant, writer_qos()), read_from(&participant, reader_qos()));
    let history = DataWriterQos::default();
    assert!(matches!(writer.set_qos(history), Err(Error::ImmutablePolicy(PolicyId::History))));
    let reliability = DataReaderQos { reliability: Reliability::BEST_EFFORT, ..reader_qos() };
    assert!(matches!(reader.set_qos(reliability), Err(Error::ImmutablePolicy(PolicyId::Reliability))));
    let mut unsupported = writer_qos();
    unsupported.transport_priority.0 = 1;
    assert!(matches!(writer.set_qos(unsupported), Err(Error::Unsupported(_))));
    let mut unsupported = reader_qos();
    unsupported.type_consistency.ignore_member_names = true;
    assert!(matches!(reader.set_qos(unsupported), Err(Error::Unsupported(_))));
    let mut contradiction = reader_qos();
    contradiction.time_based_filter.minimum_separation = Span::from_secs(2);
    contradiction.deadline.period = Span::from_secs(1);
    assert!(matches!(reader.set_qos(contradiction), Err(Error::InconsistentPolicy(_))));
    assert_eq!((writer.qos().history, reader.qos().reliability), (History::KeepAll, Reliability::RELIABLE));
}

#[test]
fn topic_policies_are_copied_and_topic_data_announced() {
    let (a, b) = (participant(85), participant(85));
    let qos = TopicQos { reliability: Reliability::RELIABLE, history: History::KeepAll, ..TopicQos::default() };
    let topic = a.topic_with_qos::<Reading>("readings", qos.clone()).unwrap();
    let reader = topic.reader_builder().copy_from_topic_qos().build().unwrap();
    assert_eq!((reader.qos().reliability, reader.qos().history), (Reliability::RELIABLE, History::KeepAll));
    assert!(matches!(a.topic_with_qos::<Reading>("readings", TopicQos::default()), Err(Error::PreconditionNotMet(_))));
    let mut immutable = qos.clone();
    immutable.history = History::default();
    assert!(matches!(topic.set_qos(immutable), Err(Error::ImmutablePolicy(PolicyId::History))));

    let mut events = b.discovery_events();
    topic.set_qos(TopicQos { topic_data: TopicData(vec![1, 2]), ..qos }).unwrap();
    a.set_qos(peregrine::qos::ParticipantQos { user_data: UserData(vec![3]), ..a.qos() }).unwrap();
    let (mut topic_data, mut user_data) = (false, false);
    while !(topic_data && user_data) {
        match events.wait_next(PATIENCE).expect("the change of the topic is announced") {
            DiscoveryEvent::SubscriptionFound(data) if data.guid == reader.guid() => {
                topic_data |= data.topic_data == TopicData(vec![1, 2]);
            }
            DiscoveryEvent::ParticipantFound(data) if data.guid() == a.guid() => {
                user_data |= data.user_data == UserData(vec![3]);
            }
            _ => {}
        }
    }
    let guid = reader.guid();
    assert!(b.discovered_subscriptions().iter().any(|s| s.guid == guid));
    drop(reader);
    loop {
        let event = events.wait_next(PATIENCE).expect("the reader is deleted");
        if matches!(event, DiscoveryEvent::SubscriptionLost(lost) if lost == guid) {
            break;
        }
    }
    assert_eq!(events.missed(), 0);
    assert!(b.discovered_subscriptions().is_empty());
}

#[test]
fn late_reader_waits_for_historical_data() {
    let (a, b) = (participant(86), participant(86));
    let topic = a.topic::<Reading>("readings").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().transient_local().build().unwrap();
    for value in 0..200 {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    let topic = b.topic::<Reading>("readings").unwrap();
    let reader = topic.reader_builder().reliable().keep_all().transient_local().build().unwrap();
    reader.wait_for_historical_data(PATIENCE).unwrap();
    assert!(reader.has_historical_data());
    assert_eq!(reader.take().unwrap().len(), 200);
    let unwritten = b.topic::<Reading>("without a writer").unwrap();
    let lonely = unwritten.reader_builder().reliable().transient_local().build().unwrap();
    assert!(!lonely.has_historical_data(), "a reader without a writer has no historical data");
    assert!(matches!(lonely.wait_for_historical_data(GLANCE), Err(Error::Timeout(_))));
    let volatile = topic.reader().unwrap();
    assert!(matches!(volatile.wait_for_historical_data(Duration::ZERO), Err(Error::PreconditionNotMet(_))));
}

#[test]
fn every_policy_of_disabled_entity_can_change() {
    let participant = participant(93);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let mut participant_qos = participant.qos();
    participant_qos.entity_factory.autoenable_created_entities = false;
    participant.set_qos(participant_qos).unwrap();
    let other = participant.topic::<Reading>("others").unwrap();
    assert!(topic.is_enabled() && !other.is_enabled());
    let reliable = TopicQos { reliability: Reliability::RELIABLE, ..TopicQos::default() };
    assert_eq!(immutable(topic.set_qos(reliable.clone())), Err(PolicyId::Reliability));
    other.set_qos(reliable.clone()).unwrap();
    other.enable().unwrap();
    assert_eq!(immutable(other.set_qos(TopicQos::default())), Err(PolicyId::Reliability));
    assert_eq!(other.qos(), reliable);
    let publisher = participant.publisher(PublisherQos::default()).unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    let writer = publisher.writer(&topic).best_effort().build().unwrap();
    let reader = subscriber.reader(&topic).build().unwrap();

    let writer_qos = DataWriterQos {
        durability: Durability::TransientLocal,
        history: History::KeepAll,
        data_representation: DataRepresentation(vec![RepresentationId::XCDR2]),
        ..DataWriterQos::default()
    };
    writer.set_qos(writer_qos.clone()).unwrap();
    let reader_qos = DataReaderQos {
        durability: Durability::TransientLocal,
        reliability: Reliability::RELIABLE,
        history: History::KeepAll,
        ..DataReaderQos::default()
    };
    reader.set_qos(reader_qos.clone()).unwrap();
    let presentation = Presentation { scope: AccessScope::Topic, ordered: true, ..Presentation::default() };
    publisher.set_qos(PublisherQos { presentation, ..PublisherQos::default() }).unwrap();
    subscriber.set_qos(SubscriberQos { presentation, ..SubscriberQos::default() }).unwrap();

    publisher.enable().unwrap();
    for (id, value) in [(1, 0), (2, 1), (1, 2)] {
        writer.write(&Reading::new(id, value)).unwrap();
    }
    subscriber.enable().unwrap();
    reader.wait_for_historical_data(PATIENCE).unwrap();
    let loan = reader.take_loaned(&Selector::ANY).unwrap();
    let values: Vec<_> = loan.iter().map(|sample| sample.value().unwrap().value).collect();
    assert_eq!(values, [0, 1, 2], "in the order of the topic, with the historical data");
    let encapsulation = Encapsulation::parse(loan[0].bytes()).unwrap();
    assert_eq!(encapsulation.representation, Representation::Xcdr2);

    let fixed = Err(PolicyId::History);
    let changed = writer.set_qos(DataWriterQos { history: History::KeepLast { depth: 1 }, ..writer_qos });
    assert_eq!(immutable(changed), fixed);
    let changed = reader.set_qos(DataReaderQos { history: History::KeepLast { depth: 1 }, ..reader_qos });
    assert_eq!(immutable(changed), fixed);
}

/// The policy of an [`Error::ImmutablePolicy`].
fn immutable(result: Result<(), Error>) -> Result<(), PolicyId> {
    match result {
        Err(Error::ImmutablePolicy(policy)) => Err(policy),
        other => {
            other.unwrap();
            Ok(())
        }
    }
}

#[test]
fn disabled_entities_communicate_after_enable() {
    let participant = participant(87);
    let mut publisher_qos = PublisherQos::default();
    publisher_qos.entity_factory.autoenable_created_entities = false;
    let publisher = participant.publisher(publisher_qos).unwrap();
    let topic = participant.topic::<Reading>("readings").unwrap();
    let writer = publisher.writer(&topic).build().unwrap();
    let reader = topic.reader().unwrap();
    assert!(!writer.is_enabled() && reader.is_enabled());
    assert!(matches!(writer.write(&Reading::new(1, 1)), Err(Error::NotEnabled)));
    assert!(reader.wait_for_writers(1, GLANCE).is_err());
    writer.enable().unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 1)));

    let mut participant_qos = participant.qos();
    participant_qos.entity_factory.autoenable_created_entities = false;
    participant.set_qos(participant_qos).unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    let reader = subscriber.reader(&topic).build().unwrap();
    assert!(matches!(reader.enable(), Err(Error::PreconditionNotMet(_))));
    assert!(matches!(reader.take(), Err(Error::NotEnabled)));
    subscriber.enable().unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();

    participant.delete_contained_entities();
    assert!(matches!(writer.write(&Reading::new(1, 1)), Err(Error::AlreadyDeleted)));
    assert!(matches!(reader.take(), Err(Error::AlreadyDeleted)));
    assert!(matches!(reader.enable(), Err(Error::AlreadyDeleted)));
}

#[test]
fn reader_of_this_process_without_room_is_named_as_the_one_that_stalls_delivery() {
    name_reader_without_room(true, StallCause::NotFetched);
}

#[test]
fn reader_that_acknowledges_nothing_new_is_named_as_the_one_that_stalls_delivery() {
    name_reader_without_room(false, StallCause::NoProgress);
}

fn name_reader_without_room(same_process: bool, cause: StallCause) {
    let mut config = config();
    config.same_process = same_process;
    let participant = DomainParticipant::builder(if same_process { 95 } else { 92 }).config(config).build().unwrap();
    let reader_limits = ResourceLimits {
        max_samples: Limit::At(1),
        max_samples_per_instance: Limit::At(1),
        ..ResourceLimits::default()
    };
    let writer_limits = ResourceLimits {
        max_samples: Limit::At(2),
        max_samples_per_instance: Limit::At(2),
        ..ResourceLimits::default()
    };
    let topic = participant.topic::<Reading>("stalls").unwrap();
    let stalls = Arc::new(Stalls::default());
    let writer = topic.writer_builder().keep_all().reliable().resource_limits(writer_limits);
    let writer = writer.max_blocking_time(Duration::from_millis(20)).build().unwrap();
    writer.set_listener(Some(Arc::clone(&stalls) as _), StatusMask::DELIVERY_STALLED);
    let reader = topic.reader_builder().keep_all().reliable().resource_limits(reader_limits).build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let activity = writer.reliable_reader_activity_changed_status();
    assert_eq!((activity.active_count, activity.inactive_count, activity.last), (1, 0, Some(reader.guid())));

    let refusal = loop {
        if let Err(refusal) = writer.write(&Reading::new(1, 1)) {
            break refusal;
        }
    };
    let Error::Timeout(Timeout::NoRoom { behind: 1, reader: named, .. }) = &refusal else { panic!("{refusal}") };
    assert_eq!(*named, Some(reader.guid()));
    assert!(refusal.to_string().contains(&reader.guid().to_string()), "{refusal}");
    eventually("the listener gets the stall", || !stalls.0.lock().unwrap().is_empty());
    let told = stalls.0.lock().unwrap()[0];
    assert_eq!((told.current_count, told.total_count), (1, 1));
    let stall = told.last.unwrap();
    assert_eq!((stall.reader, stall.cause), (reader.guid(), cause));
    assert!(stall.lasting >= Duration::from_secs(1));
    assert_eq!(writer.status().stalls().first().map(|stall| stall.reader), Some(reader.guid()));

    eventually("all samples come", || {
        _ = reader.take().unwrap();
        writer.wait_for_acknowledgments(Duration::ZERO).is_ok()
    });
    eventually("the stall has ended", || writer.delivery_stalled_status().current_count == 0);
    assert!(writer.status().stalls().is_empty());
    assert!(writer.status().readers.iter().all(|reader| reader.unacknowledged == 0));
    drop(reader);
    eventually("no reader is active", || writer.reliable_reader_activity_changed_status().active_count == 0);
}
