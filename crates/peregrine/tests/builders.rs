//! Policies that builders set are announced to the peer.

mod common;

use std::time::Duration;

use common::{PATIENCE, Reading, config};
use peregrine::error::RoomLimit;
use peregrine::qos::{DestinationOrder, LivelinessKind, Ownership, Span};
use peregrine::{
    DomainConfig, DomainParticipant, EntityId, InterfaceSelection, Locator, ReaderCounters, Scheduling,
    SocketStatistics, ThreadSettings, WaitStrategy, WriterCounters,
};

#[test]
fn policies_set_by_builders_reach_the_peer() {
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

#[test]
fn untyped_literal_sets_number_of_configuration() {
    let threads = ThreadSettings::default()
        .with_name_prefix("radar")
        .with_affinity(vec![0])
        .with_scheduling(Scheduling::Fifo(1))
        .with_stack_bytes(1 << 20);
    assert_eq!((threads.name_prefix.as_str(), threads.stack_bytes), ("radar", 1 << 20));
    assert_eq!((&threads.affinity, threads.scheduling), (&Some(vec![0]), Some(Scheduling::Fifo(1))));
    let config = DomainConfig::default()
        .with_dscp(46)
        .with_multicast_ttl(2)
        .with_unanswered_heartbeats(3)
        .with_max_sample_bytes(4)
        .with_max_instances_per_reader(5)
        .with_max_unacknowledged_samples(9)
        .with_max_unacknowledged_bytes(10)
        .with_receive_buffers(6)
        .with_receive_buffer_bytes(7)
        .with_send_buffer_bytes(8)
        .with_message_bytes(None)
        .with_multicast_groups(["239.255.0.9".parse().unwrap()])
        .with_threads(threads.clone());
    assert_eq!((config.dscp, config.multicast_ttl, config.unanswered_heartbeats), (46, 2, 3));
    assert_eq!((config.max_sample_bytes, config.max_instances_per_reader), (4, 5));
    assert_eq!((config.max_unacknowledged_samples, config.max_unacknowledged_bytes), (9, 10));
    assert_eq!((config.receive_buffers, config.receive_buffer_bytes, config.send_buffer_bytes), (6, 7, Some(8)));
    assert_eq!((config.message_bytes, config.multicast_groups.len(), config.threads), (None, 1, threads));
}

/// Every type that a public call returns can be the type of a field.
#[test]
fn result_types_are_exported() {
    struct Seen {
        writer: WriterCounters,
        reader: ReaderCounters,
        sockets: Vec<(std::net::SocketAddr, SocketStatistics)>,
        entity: EntityId,
        locators: Vec<Locator>,
        limit: Option<RoomLimit>,
    }
    let participant = DomainParticipant::builder(23).config(config()).build().unwrap();
    let topic = participant.topic::<Reading>("readings").unwrap();
    let (writer, reader) = (topic.writer().unwrap(), topic.reader().unwrap());
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    assert!(reader.wait_and_take(PATIENCE).is_ok());
    let seen = Seen {
        writer: writer.counters(),
        reader: reader.counters(),
        sockets: participant.transport_statistics(),
        entity: writer.guid().entity,
        locators: participant.discovered_participants().into_iter().flat_map(|data| data.default_unicast).collect(),
        limit: None,
    };
    assert_eq!((seen.writer.samples_sent, seen.reader.samples), (1, 1));
    assert!(!seen.sockets.is_empty() && seen.limit.is_none());
    // Participants of other processes in the domain may be discovered.
    assert!(seen.locators.iter().all(|locator| locator.to_socket_addr().is_some()));
    assert!(seen.entity.has_key());
}
