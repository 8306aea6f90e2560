//! The limits of a domain configuration: each is enforced, and each excess is counted with its reason.

mod common;

use std::time::Duration;

use common::{Block, PATIENCE, Reading, config, eventually, polled};
use peregrine::error::{Argument, BadParameter, Unit};
use peregrine::qos::{Limit, ResourceLimits};
use peregrine::status::{RejectReason, SampleLostReason};
use peregrine::{DomainConfig, DomainParticipant, Error, InstanceHandle, SerializedType};

fn with(domain: u32, config: DomainConfig) -> DomainParticipant {
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

#[test]
fn limit_of_zero_is_refused() {
    for config in [
        config().with_unanswered_heartbeats(0_u32),
        config().with_max_sample_bytes(0_u32),
        config().with_max_sample_bytes(u32::MAX),
        config().with_max_instances_per_reader(0_u32),
        config().with_max_cached_bytes_per_reader(0),
        config().with_max_peer_bytes(0),
        config().with_max_unacknowledged_samples(0),
        config().with_max_unacknowledged_bytes(0),
    ] {
        let refused = DomainParticipant::builder(79).config(config).build();
        assert!(matches!(refused, Err(Error::BadParameter(_))), "{refused:?}");
    }
}

#[test]
fn lease_below_minimum_is_refused_with_its_unit() {
    for lease in [Duration::ZERO, Duration::from_micros(99_999)] {
        let refused = DomainParticipant::builder(98).config(config()).lease(lease).build();
        let Err(Error::BadParameter(cause)) = refused else { panic!("{refused:?}") };
        assert!(
            matches!(
                cause,
                BadParameter::OutOfRange {
                    argument: Argument::Lease,
                    min: 100,
                    unit: Unit::Milliseconds,
                    value: 0 | 99,
                    ..
                }
            ),
            "{cause:?}"
        );
        assert!(cause.to_string().ends_with("ms, permitted is at least 100 ms"), "{cause}");
    }
    for lease in [Duration::from_millis(100), Duration::MAX] {
        DomainParticipant::builder(98).config(config()).lease(lease).build().unwrap();
    }
}

/// Longer than RTPS can carry. The payload uses no memory, because the kernel allocates zeroed pages on first access.
const TOO_LONG: usize = 1 << 31;

#[test]
fn overlong_payload_is_refused_before_it_is_copied() {
    let participant = with(99, config());
    let topic = participant.topic::<Block>("blocks").unwrap();
    let writer = topic.writer().unwrap();
    for len in [TOO_LONG, u32::MAX as usize, usize::MAX - 3, usize::MAX] {
        let refused = writer.write_serialized(InstanceHandle::NIL, len, |_| panic!("no memory is filled"));
        let is_refused = matches!(
            refused,
            Err(Error::BadParameter(BadParameter::TooLong { len: found, max, .. })) if found == len && max == TOO_LONG - 1
        );
        assert!(is_refused, "{len}: {refused:?}");
    }
    let refused = writer.write_serialized(InstanceHandle::NIL, 3, |_| panic!("no memory is filled"));
    assert!(matches!(
        refused,
        Err(Error::BadParameter(BadParameter::OutOfRange { argument: Argument::PayloadLength, .. }))
    ));
    let is_too_long = |outcome: Result<_, Error>| matches!(outcome, Err(Error::BadParameter(BadParameter::TooLong { max, .. })) if max == TOO_LONG - 1);
    let block = Block { number: 0, octets: vec![0; TOO_LONG] };
    assert!(is_too_long(writer.write(&block)));
    let serialized = participant.serialized_topic("bytes", SerializedType::new("Bytes")).unwrap().writer().unwrap();
    let mut payload = vec![0; TOO_LONG];
    payload[1] = 1;
    assert!(is_too_long(serialized.write(&payload)));
    assert_eq!(writer.counters().samples_sent + serialized.counters().samples_sent, 0);
}

#[test]
fn reader_past_unanswered_heartbeats_is_inactive() {
    let a = with(80, config().with_unanswered_heartbeats(2_u32).with_shared_memory(false));
    let silent = with(80, polled().with_shared_memory(false));
    let writer = a.topic::<Reading>("readings").unwrap().writer_builder().reliable().keep_all();
    let limits = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    let writer = writer.resource_limits(limits).max_blocking_time(PATIENCE).build().unwrap();
    let reader = silent.topic::<Reading>("readings").unwrap().reader_builder().reliable().build().unwrap();
    eventually("both match", || {
        silent.poll(Duration::ZERO);
        writer.matched_subscriptions().len() == 1 && reader.matched_publications().len() == 1
    });
    // With the default of 20 requests, the second write would time out.
    for value in 0..3 {
        writer.write(&Reading::new(1, value)).unwrap();
    }
    assert_eq!(writer.counters().readers_inactive, 1);
}

#[test]
fn overlong_sample_is_lost_with_reason_and_others_arrive() {
    for is_reliable in [true, false] {
        let a = with(81, config().with_shared_memory(false));
        let b = with(81, config().with_shared_memory(false).with_max_sample_bytes(10_000_u32));
        let (to, from) = (a.topic::<Block>("blocks").unwrap(), b.topic::<Block>("blocks").unwrap());
        let (writer, reader) = (to.writer_builder().keep_all(), from.reader_builder().keep_all());
        let (writer, reader) = match is_reliable {
            true => (writer.reliable().build().unwrap(), reader.reliable().build().unwrap()),
            false => (writer.best_effort().build().unwrap(), reader.best_effort().build().unwrap()),
        };
        writer.wait_for_readers(1, PATIENCE).unwrap();
        reader.wait_for_writers(1, PATIENCE).unwrap();
        // In one message, and in fragments.
        for (number, len) in [(1, 100), (2, 20_000), (3, 200_000), (4, 100)] {
            writer.write(&Block::new(number, len)).unwrap();
        }
        for number in [1, 4] {
            assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Block::new(number, 100)));
        }
        let status = reader.sample_lost_status();
        assert_eq!((status.total_count, status.last_reason), (2, Some(SampleLostReason::TooLong)), "{is_reliable}");
        assert_eq!(reader.counters().lost, 2);
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    }
}

#[test]
fn keep_last_reader_rejects_instances_past_default_limit() {
    let a = with(82, config());
    let b = with(82, config().with_max_instances_per_reader(10_u32));
    let writer = a.topic::<Reading>("readings").unwrap().writer_builder().best_effort().keep_last(1).build().unwrap();
    let topic = b.topic::<Reading>("readings").unwrap();
    let reader = topic.reader_builder().best_effort().keep_last(1).build().unwrap();
    let limits = ResourceLimits { max_instances: Limit::At(20), ..ResourceLimits::default() };
    let limited = topic.reader_builder().best_effort().keep_last(1).resource_limits(limits).build().unwrap();
    writer.wait_for_readers(2, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    limited.wait_for_writers(1, PATIENCE).unwrap();
    for id in 0..30 {
        writer.write(&Reading::new(id, id)).unwrap();
    }
    eventually("each reader has rejected what is too much", || {
        reader.counters().rejected == 20 && limited.counters().rejected == 10
    });
    assert_eq!((reader.take().unwrap().len(), limited.take().unwrap().len()), (10, 20));
    assert_eq!(reader.sample_rejected_status().last_reason, Some(RejectReason::Instances));
}

/// Configurations without and with shared memory.
fn routes() -> [DomainConfig; 2] {
    [config().with_shared_memory(false), config()]
}

#[test]
fn reader_without_sample_limit_rejects_what_exceeds_its_bytes_and_loses_nothing() {
    const LIMIT: usize = 300_000;
    for (route, domain) in routes().into_iter().zip(190..) {
        let a = with(domain, route.clone());
        let b = with(domain, route.with_max_cached_bytes_per_reader(LIMIT));
        let writer = a.topic::<Block>("blocks").unwrap().writer_builder().reliable().keep_all().build().unwrap();
        let reader = b.topic::<Block>("blocks").unwrap().reader_builder().reliable().keep_all().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        for number in 1..=50 {
            writer.write(&Block::new(number, 20_000)).unwrap();
        }
        eventually("the reader rejects a sample", || reader.sample_rejected_status().total_count > 0);
        assert_eq!(reader.sample_rejected_status().last_reason, Some(RejectReason::Memory));
        let held = b.peer_memory();
        assert!((100_000..LIMIT + 65_536).contains(&held.cached_samples), "{held:?}");
        for number in 1..=50 {
            assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Block::new(number, 20_000)));
        }
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
        assert_eq!((reader.counters().lost, b.peer_memory().cached_samples), (0, 0));
    }
}

#[test]
fn reader_with_untaken_samples_leaves_room_for_others() {
    const LIMIT: usize = 2_000_000;
    for (route, domain) in routes().into_iter().zip(192..) {
        let a = with(domain, route.clone());
        let b = with(domain, route.with_max_peer_bytes(LIMIT));
        let topic = |participant: &DomainParticipant, name| participant.topic::<Block>(name).unwrap();
        let forgotten = topic(&b, "forgotten").reader_builder().best_effort().keep_all().build().unwrap();
        let writer = topic(&a, "forgotten").writer_builder().best_effort().keep_all().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        forgotten.wait_for_writers(1, PATIENCE).unwrap();
        let mut number = 0;
        eventually("the account of the participant is full", || {
            number += 1;
            writer.write(&Block::new(number, 20_000)).unwrap();
            forgotten.sample_rejected_status().total_count > 0
        });
        assert_eq!(forgotten.sample_rejected_status().last_reason, Some(RejectReason::Memory));
        let full = b.peer_memory();
        assert!(full.total() <= LIMIT && full.total() > LIMIT / 2, "{full:?}");
        assert!(full.process >= full.total() && full.process_limit > LIMIT, "{full:?}");
        // Another reader still gets everything, sample by sample, in fragments too.
        let reader = topic(&b, "taken").reader_builder().reliable().keep_all().build().unwrap();
        let writer = topic(&a, "taken").writer_builder().reliable().keep_all().build().unwrap();
        writer.wait_for_readers(1, PATIENCE).unwrap();
        for len in [60_000, 300_000] {
            for number in 0..20 {
                writer.write(&Block::new(number, len)).unwrap();
            }
            for number in 0..20 {
                assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Block::new(number, len)));
            }
        }
        drop(forgotten);
        // A thread that delivers to the reader may drop it last.
        eventually("the samples of the deleted reader are given back", || b.peer_memory().cached_samples < LIMIT / 4);
    }
}
