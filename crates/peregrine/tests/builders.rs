//! Builders: what they set arrives at the peer.

mod common;

use std::time::Duration;

use common::{PATIENCE, Reading, config};
use peregrine::qos::{DestinationOrder, LivelinessKind, Ownership, Span};
use peregrine::{DomainConfig, DomainParticipant, InterfaceSelection, WaitStrategy};

#[test]
fn policies_of_builders_arrive_at_the_peer() {
    let lo = InterfaceSelection::Only(vec!["lo".to_owned()]);
    let other = DomainConfig::default().with_interfaces(lo).with_same_process(false).with_linger(Duration::ZERO);
    assert_ne!(other, config());
    assert_eq!(other.clone().with_wait(WaitStrategy::Poll).wait, WaitStrategy::Poll);
    let a = DomainParticipant::builder(22).config(other).build().unwrap();
    let b = DomainParticipant::builder(22).config(config()).build().unwrap();
    let ms = Duration::from_millis;
    let writer = a.topic::<Reading>("readings").unwrap().writer_builder();
    let writer = writer
        .deadline(ms(100))
        .latency_budget(ms(1))
        .liveliness(LivelinessKind::ManualByTopic, ms(500))
        .lifespan(ms(900))
        .exclusive_ownership(7)
        .by_source_timestamp()
        .user_data(*b"writer")
        .autodispose(false)
        .build()
        .unwrap();
    let reader = b.topic::<Reading>("readings").unwrap().reader_builder();
    let reader = reader
        .deadline(ms(200))
        .latency_budget(ms(2))
        .liveliness(LivelinessKind::Automatic, Duration::MAX)
        .exclusive_ownership()
        .by_source_timestamp()
        .minimum_separation(ms(10))
        .user_data(*b"reader")
        .build()
        .unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    let offered = b.discovered_publications().into_iter().find(|data| data.guid == writer.guid()).unwrap().qos;
    assert_eq!(offered.deadline.period, Span::from_millis(100));
    assert_eq!(offered.latency_budget.duration, Span::from_millis(1));
    assert_eq!(offered.liveliness.lease_duration, Span::from_millis(500));
    assert_eq!(offered.liveliness.kind, LivelinessKind::ManualByTopic);
    assert_eq!(offered.lifespan.duration, Span::from_millis(900));
    assert_eq!((offered.ownership, offered.ownership_strength.0), (Ownership::Exclusive, 7));
    assert_eq!(offered.destination_order, DestinationOrder::BySourceTimestamp);
    assert_eq!(offered.user_data.0, b"writer");
    assert!(!writer.qos().writer_data_lifecycle.autodispose_unregistered_instances);
    let requested = a.discovered_subscriptions().into_iter().find(|data| data.guid == reader.guid()).unwrap().qos;
    assert_eq!(requested.deadline.period, Span::from_millis(200));
    assert_eq!(requested.liveliness.lease_duration, Span::INFINITE);
    assert_eq!(requested.time_based_filter.minimum_separation, Span::from_millis(10));
    assert_eq!(requested.user_data.0, b"reader");
}
