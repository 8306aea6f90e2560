//! Operations of participants, publishers and conditions: enabling, ignoring, suspending, finding the entity of a
//! condition.

mod common;

use common::{GLANCE, PATIENCE, Reading, config, eventually, participant};
use peregrine::error::Precondition;
use peregrine::qos::{EntityFactory, ParticipantQos, Property, PublisherQos, SubscriberQos, UserData};
use peregrine::{DomainParticipant, Entity, Error, Selector, StatusMask, Topic};

fn disabled(domain: u32) -> DomainParticipant {
    DomainParticipant::builder(domain).config(config()).enabled(false).build().unwrap()
}

fn readings(participant: &DomainParticipant) -> Topic<Reading> {
    participant.topic::<Reading>("readings").unwrap()
}

fn knows(participant: &DomainParticipant, other: &DomainParticipant) -> bool {
    participant.discovered_participants().iter().any(|data| data.prefix == other.guid().prefix)
}

#[test]
fn disabled_participant_is_not_discovered_until_enabled() {
    let (silent, observer) = (disabled(72), participant(72));
    assert!(!silent.is_enabled() && observer.is_enabled());
    let writer = readings(&silent).writer_builder().reliable().transient_local().build().unwrap();
    assert!(!writer.is_enabled() && !readings(&silent).is_enabled());
    assert!(matches!(writer.write(&Reading::new(1, 1)), Err(Error::NotEnabled)));
    for refused in [writer.enable(), writer.publisher().enable()] {
        let expected = [Precondition::PublisherNotEnabled, Precondition::ParticipantNotEnabled];
        assert!(matches!(&refused, Err(Error::PreconditionNotMet(why)) if expected.contains(why)), "{refused:?}");
    }
    // Every policy of a disabled participant may change.
    let mut qos = ParticipantQos { user_data: UserData(vec![7]), ..silent.qos() };
    qos.properties.text.push(Property { name: "a".to_owned(), value: "b".to_owned(), propagate: true });
    silent.set_qos(qos).unwrap();
    let other = participant(72);
    eventually("others meet", || knows(&observer, &other) && knows(&other, &observer));
    assert!(!knows(&observer, &silent) && silent.discovered_participants().is_empty());

    let reader = readings(&observer).reader_builder().reliable().build().unwrap();
    silent.enable().unwrap();
    silent.enable().unwrap();
    assert!(silent.is_enabled() && writer.is_enabled() && readings(&silent).is_enabled());
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 1)));
    let data = observer.discovered_participants().into_iter().find(|data| data.prefix == silent.guid().prefix).unwrap();
    assert_eq!(data.user_data, UserData(vec![7]), "the policies of the moment of enabling");
}

#[test]
fn participant_without_autoenable_creates_disabled_entities() {
    let participant = disabled(74);
    let factory = EntityFactory { autoenable_created_entities: false };
    participant.set_qos(ParticipantQos { entity_factory: factory, ..participant.qos() }).unwrap();
    let publisher = participant.publisher(PublisherQos::default()).unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    participant.enable().unwrap();
    assert!(participant.is_enabled() && !publisher.is_enabled() && !subscriber.is_enabled());
    publisher.enable().unwrap();
    subscriber.enable().unwrap();
}

#[test]
fn ignored_topic_matches_no_remote_endpoints() {
    let (a, b) = (participant(75), participant(75));
    let (ignored, other) = (readings(&a), a.topic::<Reading>("other").unwrap());
    let known = readings(&b).writer_builder().reliable().build().unwrap();
    let reader = ignored.reader_builder().reliable().build().unwrap();
    let other_reader = other.reader_builder().reliable().build().unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    a.ignore_topic("readings");
    assert!(reader.matched_publications().is_empty());
    assert!(a.discovered_publications().iter().all(|data| data.guid != known.guid()));
    // A later endpoint of the topic is not discovered either, although it was announced before an endpoint that is.
    let _late = readings(&b).writer_builder().reliable().build().unwrap();
    let _found = b.topic::<Reading>("other").unwrap().writer_builder().reliable().build().unwrap();
    other_reader.wait_for_writers(1, PATIENCE).unwrap();
    assert!(reader.matched_publications().is_empty());
    assert!(a.discovered_topics().iter().all(|topic| topic.name != "readings"));
    let own = ignored.writer_builder().reliable().build().unwrap();
    own.wait_for_readers(1, PATIENCE).unwrap();
}

#[test]
fn resumed_publisher_sends_gathered_samples() {
    let messages = config().with_shared_memory(false);
    let (a, b) = (
        DomainParticipant::builder(76).config(messages.clone()).build().unwrap(),
        DomainParticipant::builder(76).config(messages).build().unwrap(),
    );
    // Best effort, because a heartbeat would send the gathered samples.
    let publisher = a.publisher(PublisherQos::default()).unwrap();
    let writer = publisher.writer(&readings(&a)).best_effort().keep_all().build().unwrap();
    let reader = readings(&b).reader_builder().best_effort().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    let unmatched = publisher.resume_publications();
    assert!(matches!(unmatched, Err(Error::PreconditionNotMet(Precondition::NotSuspended))), "{unmatched:?}");
    publisher.suspend_publications();
    publisher.suspend_publications();
    // A writer that is created during the suspension is suspended too.
    let late = publisher.writer(&readings(&a)).best_effort().keep_all().build().unwrap();
    late.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(2, PATIENCE).unwrap();
    for value in 0..10 {
        writer.write(&Reading::new(1, value)).unwrap();
        late.write(&Reading::new(2, value)).unwrap();
    }
    publisher.resume_publications().unwrap();
    assert!(matches!(reader.wait_for_data(GLANCE), Err(Error::Timeout(_))), "suspended twice");
    publisher.resume_publications().unwrap();
    let mut values = Vec::new();
    eventually("all samples were received", || {
        values.extend(reader.take().unwrap().into_iter().filter_map(peregrine::Sample::into_value));
        values.len() == 20
    });
    // From here on each sample is sent at once.
    writer.write(&Reading::new(1, 10)).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 10)));
}

#[test]
fn wait_for_acknowledgements_sends_suspended_samples() {
    let (a, b) = (participant(77), participant(77));
    let publisher = a.publisher(PublisherQos::default()).unwrap();
    let writer = publisher.writer(&readings(&a)).reliable().keep_all().build().unwrap();
    let _reader = readings(&b).reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    publisher.suspend_publications();
    writer.write(&Reading::new(1, 1)).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

#[test]
fn condition_returns_entity_while_it_has_handles() {
    let participant = participant(78);
    let topic = readings(&participant);
    let publisher = participant.publisher(PublisherQos::default()).unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    let writer = publisher.writer(&topic).build().unwrap();
    let reader = subscriber.reader(&topic).build().unwrap();
    for none in [participant.status_changes(), publisher.status_changes(), subscriber.status_changes()] {
        assert_eq!(none, StatusMask::NONE);
    }
    let entity = |condition: &peregrine::StatusCondition| condition.entity().expect("the entity exists");
    assert!(
        matches!(entity(participant.status_condition()), Entity::DomainParticipant(p) if p.guid() == participant.guid())
    );
    assert!(matches!(entity(topic.status_condition()), Entity::Topic { name, .. } if &*name == "readings"));
    assert!(
        matches!(entity(publisher.status_condition()), Entity::Publisher(p) if p.lookup_writer("readings").is_some())
    );
    assert!(
        matches!(entity(subscriber.status_condition()), Entity::Subscriber(s) if s.lookup_reader("readings").is_some())
    );
    assert!(matches!(entity(writer.status_condition()), Entity::DataWriter(w) if w.guid() == writer.guid()));
    let condition = reader.status_condition().clone();
    assert!(matches!(entity(&condition), Entity::DataReader(r) if r.guid() == reader.guid()));
    let (read, query) = (reader.read_condition(Selector::ANY), reader.query_condition(Selector::ANY, |_| true));
    assert_eq!(read.reader().unwrap().guid(), reader.guid());
    assert_eq!(query.reader().unwrap().guid(), reader.guid());
    drop(reader);
    assert!(condition.entity().is_none() && read.reader().is_none() && query.reader().is_none());
}
