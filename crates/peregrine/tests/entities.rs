//! Finding entities and their discovery data: the factory, defaults, lookups.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{PATIENCE, Reading, config, eventually, participant};
use peregrine::error::{Precondition, Timeout};
use peregrine::qos::{
    Durability, EntityFactory, GroupData, History, ParticipantQos, Partition, PublisherQos, Span, SubscriberQos,
    TopicData, TopicQos, UserData,
};
use peregrine::{
    AnyDataReader, AnyDataWriter, DataReader, DdsType, DomainParticipant, DomainParticipantFactory, Entity, Error,
    StatusMask, SubscriberListener, TopicListener,
};

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Other {
    id: u32,
}

#[test]
fn lookup_finds_oldest_existing_participant_of_domain() {
    assert!(DomainParticipantFactory::lookup_participant(23).is_none());
    let first = participant(23);
    let second = participant(23);
    assert_eq!(DomainParticipantFactory::lookup_participant(23).unwrap().guid(), first.guid());
    drop(first);
    assert_eq!(DomainParticipantFactory::lookup_participant(23).unwrap().guid(), second.guid());
    drop(second);
    assert!(DomainParticipantFactory::lookup_participant(23).is_none());
}

/// The default holds for the whole process: tests that need other policies set them in the builder.
#[test]
fn entities_created_without_policies_have_the_defaults() {
    let named = ParticipantQos { user_data: UserData(b"default".to_vec()), ..ParticipantQos::default() };
    DomainParticipantFactory::set_default_participant_qos(named).unwrap();
    let participant = DomainParticipantFactory::builder(24).config(config()).build().unwrap();
    DomainParticipantFactory::set_default_participant_qos(ParticipantQos::default()).unwrap();
    assert_eq!(participant.qos().user_data.0, b"default");
    assert!(DomainParticipant::builder(24).config(config()).build().unwrap().qos().user_data.0.is_empty());

    let partition = Partition(vec!["left".to_owned()]);
    let of_publisher = PublisherQos { partition: partition.clone(), ..PublisherQos::default() };
    participant.set_default_publisher_qos(of_publisher.clone()).unwrap();
    let of_subscriber = SubscriberQos { partition, group_data: GroupData(vec![1]), ..SubscriberQos::default() };
    participant.set_default_subscriber_qos(of_subscriber.clone()).unwrap();
    let of_topic = TopicQos { history: History::KeepAll, ..TopicQos::default() };
    participant.set_default_topic_qos(of_topic.clone()).unwrap();
    let topic = participant.topic::<Reading>("readings").unwrap();
    assert_eq!(topic.qos(), of_topic);
    assert_eq!(topic.writer().unwrap().publisher().qos(), of_publisher);
    assert_eq!(topic.reader().unwrap().subscriber().qos(), of_subscriber);

    let publisher = participant.publisher(participant.default_publisher_qos()).unwrap();
    let mut qos = publisher.default_writer_qos();
    qos.durability = Durability::TransientLocal;
    publisher.set_default_writer_qos(qos.clone()).unwrap();
    assert_eq!(publisher.writer(&topic).build().unwrap().qos().durability, Durability::TransientLocal);
    qos.durability = Durability::Persistent;
    assert!(matches!(publisher.set_default_writer_qos(qos), Err(Error::Unsupported(_))));
    let subscriber = participant.subscriber(participant.default_subscriber_qos()).unwrap();
    let mut qos = subscriber.default_reader_qos();
    qos.history = History::KeepLast { depth: 7 };
    subscriber.set_default_reader_qos(qos).unwrap();
    assert_eq!(subscriber.reader(&topic).build().unwrap().qos().history, History::KeepLast { depth: 7 });
}

#[test]
fn find_topic_returns_local_and_discovered_topics() {
    let (a, b) = (participant(25), participant(25));
    assert!(a.lookup_topic::<Reading>("readings").is_none());
    let found = a.find_topic::<Reading>("readings", Duration::ZERO);
    assert!(matches!(found, Err(Error::Timeout(Timeout::NoTopic { .. }))), "{found:?}");
    let writer = b.topic::<Reading>("readings").unwrap().writer().unwrap();
    let topic = a.find_topic::<Reading>("readings", PATIENCE).unwrap();
    assert_eq!(topic.name(), "readings");
    assert!(a.lookup_topic::<Reading>("readings").is_some());
    assert!(a.lookup_topic::<Other>("readings").is_none());
    let found = a.discovered_topics();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].type_name.as_str(), found[0].has_key), ("readings", "Reading", true));
    assert!(b.contains_entity(writer.guid()) && b.contains_entity(b.guid()));
    assert!(!a.contains_entity(writer.guid()) && !a.contains_entity(b.guid()));
    assert!(b.current_time() <= b.current_time());
    assert!(matches!(
        a.topic::<Other>("readings"),
        Err(Error::PreconditionNotMet(Precondition::TopicHasOtherType { .. }))
    ));
}

#[test]
fn lookup_by_topic_finds_endpoint_and_data_of_its_matches() {
    let (a, b) = (participant(26), participant(26));
    let topic = a.topic::<Reading>("readings").unwrap();
    let publisher = a.publisher(PublisherQos::default()).unwrap();
    let subscriber = a.subscriber(SubscriberQos::default()).unwrap();
    assert!(publisher.lookup_writer("readings").is_none() && subscriber.lookup_reader("readings").is_none());
    let writer = publisher.writer(&topic).user_data(*b"writer").build().unwrap();
    let own = subscriber.reader(&topic).reliable().user_data(*b"own").build().unwrap();
    let far = b.topic::<Reading>("readings").unwrap().reader_builder().user_data(*b"far").build().unwrap();
    writer.wait_for_readers(2, PATIENCE).unwrap();
    own.wait_for_writers(1, PATIENCE).unwrap();
    far.wait_for_writers(1, PATIENCE).unwrap();
    assert_eq!(publisher.lookup_writer("readings").unwrap().guid(), writer.guid());
    assert_eq!(subscriber.lookup_reader("readings").unwrap().downcast::<Reading>().unwrap().guid(), own.guid());
    let user_data = |guid| writer.matched_subscription_data(guid).unwrap().qos.user_data.0;
    assert_eq!(user_data(own.guid()), b"own", "a reader of the same participant");
    assert_eq!(user_data(far.guid()), b"far");
    assert_eq!(own.matched_publication_data(writer.guid()).unwrap().qos.user_data.0, b"writer");
    assert_eq!(far.matched_publication_data(writer.guid()).unwrap().qos.user_data.0, b"writer");
    assert!(own.matched_publication_data(own.guid()).is_none());
    writer.write(&Reading::new(1, 1)).unwrap();
    publisher.wait_for_acknowledgments(PATIENCE).unwrap();
    eventually("the sample was received", || own.wait_for_data(Duration::ZERO).is_ok());
}

struct Silent;

impl SubscriberListener for Silent {}

#[test]
fn getters_return_listener_and_mask() {
    let participant = participant(27);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let reader = topic.reader_builder().on_data(|_: &DataReader<Reading>| {}).build().unwrap();
    assert_eq!(reader.listener().unwrap().1, StatusMask::DATA_AVAILABLE);
    reader.set_listener(None, StatusMask::NONE);
    assert!(reader.listener().is_none());
    let subscriber = reader.subscriber();
    assert!(subscriber.listener().is_none() && participant.listener().is_none());
    let silent: Arc<dyn SubscriberListener> = Arc::new(Silent);
    subscriber.set_listener(Some(Arc::clone(&silent)), StatusMask::SAMPLE_LOST);
    let (listener, mask) = subscriber.listener().unwrap();
    assert!(Arc::ptr_eq(&listener, &silent));
    assert_eq!(mask, StatusMask::SAMPLE_LOST);
}

/// The changes must be announced in the order in which they were made.
#[test]
fn last_of_two_concurrent_changes_of_qos_is_announced() {
    let (here, there) = (participant(74), participant(74));
    let writer = here.topic::<Reading>("changed").unwrap().writer().unwrap();
    let _reader = there.topic::<Reading>("changed").unwrap().reader().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    for round in 0..200_u32 {
        let at_once = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for thread in 0..2_u32 {
                let (writer, at_once) = (&writer, &at_once);
                let mut qos = writer.qos();
                qos.user_data.0 = [round, thread].map(u32::to_ne_bytes).concat();
                scope.spawn(move || {
                    at_once.wait();
                    writer.set_qos(qos).unwrap();
                });
            }
        });
        let held = writer.qos().user_data.0;
        let announced = || there.discovered_publications().first().map(|found| found.qos.user_data.0.clone());
        eventually("the policies in force are announced", || announced().as_ref() == Some(&held));
    }
}

#[test]
fn find_topic_returns_topic_that_another_thread_creates() {
    let participant = participant(32);
    // Several rounds: in most of them, the other thread waits before this one creates the topic.
    for round in 0..20 {
        let name = format!("readings {round}");
        std::thread::scope(|scope| {
            let finding = scope.spawn(|| participant.find_topic::<Reading>(&name, 10 * PATIENCE));
            std::thread::yield_now();
            let _topic = participant.topic::<Reading>(&name).unwrap();
            eventually("the topic is found", || finding.is_finished());
            assert_eq!(finding.join().unwrap().unwrap().name(), name);
        });
    }
}

#[test]
fn contains_is_true_until_entity_is_deleted() {
    let (participant, other) = (participant(28), participant(28));
    let topic = participant.topic::<Reading>("readings").unwrap();
    let entity_factory = EntityFactory { autoenable_created_entities: false };
    let publisher = participant.publisher(PublisherQos { entity_factory, ..PublisherQos::default() }).unwrap();
    let subscriber = participant.subscriber(SubscriberQos { entity_factory, ..SubscriberQos::default() }).unwrap();
    let (writer, reader) = (publisher.writer(&topic).build().unwrap(), subscriber.reader(&topic).build().unwrap());
    let entities: [Entity; 6] = [
        (&participant).into(),
        (&topic).into(),
        (&publisher).into(),
        (&subscriber).into(),
        (&writer).into(),
        (&reader).into(),
    ];
    for entity in entities.clone() {
        assert!(participant.contains(entity.clone()), "{entity:?}");
        assert!(!other.contains(entity.clone()), "{entity:?}");
    }
    assert!(participant.contains_entity(writer.guid()) && participant.contains_entity(reader.guid()), "not enabled");
    publisher.close(PATIENCE).unwrap();
    subscriber.close().unwrap();
    for entity in &entities[2..] {
        assert!(!participant.contains(entity.clone()), "{entity:?}");
    }
    assert!(!participant.contains_entity(writer.guid()) && !participant.contains_entity(reader.guid()));
}

#[test]
fn untyped_endpoint_has_operations_of_typed_one() {
    let participant = participant(29);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let entity_factory = EntityFactory { autoenable_created_entities: false };
    let publisher = participant.publisher(PublisherQos { entity_factory, ..PublisherQos::default() }).unwrap();
    let writer = AnyDataWriter::from(&publisher.writer(&topic).build().unwrap());
    assert!(!writer.is_enabled(), "its only handle has no type");
    assert!(matches!(writer.wait_for_acknowledgments(Duration::ZERO), Err(Error::NotEnabled)));
    let typed = topic.reader_builder().reliable().build().unwrap();
    let reader = AnyDataReader::from(&typed);
    writer.enable().unwrap();
    assert!(writer.is_enabled() && reader.is_enabled());
    eventually("both match", || {
        writer.matched_subscriptions() == [reader.guid()] && reader.matched_publications() == [writer.guid()]
    });
    assert_eq!(writer.matched_subscription_data(reader.guid()).unwrap().guid, reader.guid());
    assert_eq!(reader.matched_publication_data(writer.guid()).unwrap().guid, writer.guid());
    assert!(writer.matched_subscription_data(writer.guid()).is_none());
    assert!(reader.matched_publication_data(reader.guid()).is_none());
    assert!(writer.status_changes().contains(StatusMask::PUBLICATION_MATCHED));
    assert!(reader.status_changes().contains(StatusMask::SUBSCRIPTION_MATCHED));
    let of_condition = writer.status_condition().entity();
    assert!(matches!(of_condition, Some(Entity::DataWriter(found)) if found.guid() == writer.guid()));
    let of_condition = reader.status_condition().entity();
    assert!(matches!(of_condition, Some(Entity::DataReader(found)) if found.guid() == reader.guid()));
    let mut qos = writer.qos();
    qos.user_data = UserData(b"news".to_vec());
    writer.set_qos(qos.clone()).unwrap();
    assert_eq!(writer.qos(), qos);
    let mut qos = reader.qos();
    qos.user_data = UserData(b"news".to_vec());
    reader.set_qos(qos.clone()).unwrap();
    assert_eq!(typed.qos(), qos);
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    writer.close(PATIENCE).unwrap();
    assert!(matches!(writer.close(PATIENCE), Err(Error::AlreadyDeleted)));
    reader.close().unwrap();
    assert!(matches!(reader.close(), Err(Error::AlreadyDeleted)));
    assert!(matches!(typed.take(), Err(Error::AlreadyDeleted)));
}

#[test]
fn topic_returns_its_listener() {
    struct Nothing;
    impl TopicListener for Nothing {}
    let participant = participant(30);
    let topic = participant.topic::<Reading>("readings").unwrap();
    assert!(topic.listener().is_none());
    let listener: Arc<dyn TopicListener> = Arc::new(Nothing);
    topic.set_listener(Some(Arc::clone(&listener)), StatusMask::INCONSISTENT_TOPIC);
    let (found, mask) = topic.listener().unwrap();
    assert!(Arc::ptr_eq(&found, &listener));
    assert_eq!(mask, StatusMask::INCONSISTENT_TOPIC);
    topic.set_listener(None, StatusMask::NONE);
    assert!(topic.listener().is_none());
}

#[test]
fn discovered_topic_data_has_policies_of_remote_endpoint() {
    let (a, b) = (participant(31), participant(31));
    let topic_qos = TopicQos { topic_data: TopicData(b"unit: K".to_vec()), ..TopicQos::default() };
    let topic = b.topic_with_qos::<Reading>("readings", topic_qos).unwrap();
    let writer = topic.writer_builder().transient_local().deadline(Duration::from_secs(3)).build().unwrap();
    eventually("it is discovered", || !a.discovered_topics().is_empty());
    let found = a.discovered_topics().remove(0);
    let data = a.discovered_topic_data(&found).unwrap();
    assert_eq!(data.topic, found);
    assert_eq!(data.qos.durability, Durability::TransientLocal);
    assert_eq!(data.qos.deadline.period, Span::from_secs(3));
    assert_eq!(data.qos.topic_data.0, b"unit: K");
    drop(writer);
    eventually("the topic is not known any more", || a.discovered_topic_data(&found).is_none());
}
