//! Discovered and lost entities in wait sets, together with other conditions.

mod common;

use std::slice::from_ref;
use std::time::Duration;

use common::{PATIENCE, Reading, config, polled};
use peregrine::{
    DiscoveryEvent, DiscoveryEvents, DomainConfig, DomainParticipant, Error, GuardCondition, Selector, WaitSet,
};

/// Discovers participants of this test program only.
fn participant(domain: u32, config: DomainConfig) -> DomainParticipant {
    let tag = std::process::id().to_string();
    DomainParticipant::builder(domain).domain_tag(tag).config(config).build().unwrap()
}

/// Waits by the set alone until an event is the one that is meant.
fn await_event(
    what: &str,
    set: &WaitSet,
    events: &mut DiscoveryEvents,
    mut is_meant: impl FnMut(&DiscoveryEvent) -> bool,
) {
    loop {
        let active = set.wait(PATIENCE).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(active, from_ref(events.condition()), "{what}");
        let event = events.try_next().expect("the condition is true");
        if is_meant(&event) {
            return;
        }
    }
}

#[test]
fn found_and_lost_entities_end_the_wait_of_a_set() {
    for (domain, config) in [(14, config()), (15, polled())] {
        let here = participant(domain, config);
        let mut events = here.discovery_events();
        let set = WaitSet::new();
        set.attach(events.condition());
        set.attach(&GuardCondition::new());
        let there = participant(domain, common::config());
        let guid = there.guid();
        await_event(
            "participant",
            &set,
            &mut events,
            |event| matches!(event, DiscoveryEvent::ParticipantFound(data) if data.prefix == guid.prefix),
        );
        let topic = there.topic::<Reading>("readings").unwrap();
        let (writer, reader) = (topic.writer().unwrap(), topic.reader().unwrap());
        let mut found = (false, false);
        await_event("endpoints", &set, &mut events, |event| {
            found.0 |= matches!(event, DiscoveryEvent::PublicationFound(data) if data.guid == writer.guid());
            found.1 |= matches!(event, DiscoveryEvent::SubscriptionFound(data) if data.guid == reader.guid());
            found == (true, true)
        });
        let (of_writer, of_reader) = (writer.guid(), reader.guid());
        drop((writer, reader));
        let mut lost = (false, false);
        await_event("lost endpoints", &set, &mut events, |event| {
            lost.0 |= matches!(event, DiscoveryEvent::PublicationLost(guid) if *guid == of_writer);
            lost.1 |= matches!(event, DiscoveryEvent::SubscriptionLost(guid) if *guid == of_reader);
            lost == (true, true)
        });
        drop((topic, there));
        await_event(
            "lost participant",
            &set,
            &mut events,
            |event| matches!(event, DiscoveryEvent::ParticipantLost(prefix, _) if *prefix == guid.prefix),
        );
    }
}

#[test]
fn found_participant_wakes_the_thread_that_waits() {
    for (domain, config) in [(16, config()), (17, polled())] {
        let here = participant(domain, config);
        let mut events = here.discovery_events();
        let set = WaitSet::new();
        set.attach(events.condition());
        assert!(matches!(set.wait(Duration::ZERO), Err(Error::Timeout(_))));
        let waiting = std::thread::spawn(move || {
            let woken = set.wait(PATIENCE).map(|active| active.len());
            (woken, events.try_next())
        });
        let _there = participant(domain, common::config());
        let (woken, event) = waiting.join().unwrap();
        assert_eq!(woken.unwrap(), 1);
        assert!(matches!(event, Some(DiscoveryEvent::ParticipantFound(_))), "{event:?}");
    }
}

#[test]
fn conditions_distinguish_samples_from_discovery() {
    let (here, there) = (participant(18, config()), participant(18, config()));
    let reader = here.topic::<Reading>("readings").unwrap().reader_builder().reliable().build().unwrap();
    let writer = there.topic::<Reading>("readings").unwrap().writer_builder().reliable().build().unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let mut events = here.discovery_events();
    let samples = reader.read_condition(Selector::ANY);
    let set = WaitSet::new();
    set.attach(&samples);
    set.attach(events.condition());
    // Entities that are known already come first.
    assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(events.condition()));
    while events.try_next().is_some() {}
    assert!(!events.condition().trigger_value());
    writer.write(&Reading::new(1, 1)).unwrap();
    assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(&samples));
    assert_eq!(reader.take().unwrap().len(), 1);
}

#[test]
fn condition_is_true_after_the_participant_is_closed_and_false_without_its_events() {
    let here = participant(19, config());
    let events = here.discovery_events();
    let condition = events.condition().clone();
    assert!(!condition.trigger_value());
    let _there = participant(19, config());
    let set = WaitSet::new();
    set.attach(&condition);
    assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(&condition));
    drop(events);
    assert!(!condition.trigger_value());
    let closing = here.clone();
    let close = std::thread::spawn(move || closing.close(PATIENCE));
    assert_eq!(set.wait(PATIENCE).unwrap(), from_ref(&condition));
    close.join().unwrap().unwrap();
}
