//! Writers that evaluate the content filters of their readers, on a network with faults.

use std::sync::Arc;

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind, ResourceLimits};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::protection::{ProtectionKind, ProtectionLevels};
use peregrine_rtps::qos::{Durability, Reliability};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Span;
use peregrine_rtps::writer::{Batching, SampleFilter};
use peregrine_sim::filter::MultiplesOf;
use peregrine_sim::network::{Faults, NodeId, ParticipantId};
use peregrine_sim::world::{World, WorldConfig};

const WRITER: NodeId = NodeId(0);
const SAMPLES: u32 = 200;
/// Samples that a volatile writer may hold.
const HELD_MAX: u32 = 30;

const ROUGH: Faults =
    Faults { loss: 0.15, duplication: 0.1, delay_min: Span::from_micros(100), delay_max: Span::from_millis(3) };

/// A reader of a world and the samples that it must receive.
struct Subscriber {
    at: ParticipantId,
    guid: Guid,
    /// The divisor of the filter; 1 without a filter.
    divisor: u32,
    is_reliable: bool,
    /// The first sample that was written after the writer knew the reader.
    from: u32,
}

impl Subscriber {
    fn wanted(&self) -> Vec<u32> {
        (self.from..=SAMPLES).filter(|number| number.is_multiple_of(self.divisor)).collect()
    }
}

fn world(seed: u64, levels: Option<ProtectionLevels>) -> World {
    let (lease, announce_period) = (Span::from_secs(6000), Span::from_secs(2));
    let mut world = World::new(WorldConfig { seed, faults: Faults::NONE, lease, announce_period, mtu_bytes: 1500 });
    world.protect(levels);
    world.start(WRITER);
    world
}

fn pass(world: &mut World, span: Span) {
    let end = world.now() + span;
    while world.run_until(end) {
        world.happenings();
    }
}

fn writer(world: &mut World, is_durable: bool, batching: Option<Batching>) -> Guid {
    let durability = if is_durable { Durability::TransientLocal } else { Durability::Volatile };
    let writer = world.add_writer(
        WRITER,
        "topic",
        false,
        |data| {
            data.qos.reliability = Reliability::RELIABLE;
            data.qos.durability = durability;
        },
        |config| {
            config.history = HistoryKind::KeepAll;
            config.durable = is_durable;
            config.batching = batching;
            let max_samples = if is_durable { u32::MAX } else { HELD_MAX };
            config.limits = ResourceLimits { max_samples, ..ResourceLimits::UNLIMITED };
            config.default_message_bytes = 1472;
        },
    );
    writer.unwrap()
}

/// Adds a reader to a running participant.
fn reader(
    world: &mut World,
    at: ParticipantId,
    is_reliable: bool,
    is_durable: bool,
    filter: Option<&Arc<MultiplesOf>>,
) -> Guid {
    let reader = world.add_reader(
        at,
        "topic",
        false,
        |data| {
            if is_reliable {
                data.qos.reliability = Reliability::RELIABLE;
            }
            data.qos.durability = if is_durable { Durability::TransientLocal } else { Durability::Volatile };
        },
        |config| {
            config.reliable = is_reliable;
            config.wants_history = is_durable;
            config.cache.history = HistoryKind::KeepAll;
        },
    );
    let reader = reader.unwrap();
    if let Some(filter) = filter {
        world.filter(reader, Arc::clone(filter) as Arc<dyn SampleFilter>);
    }
    reader
}

/// Writes a number in a sample of this length; waits for room in virtual time.
fn write(world: &mut World, writer: Guid, number: u32, len: usize) {
    let mut bytes = vec![0, 1, 0, 0];
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.resize(len.max(8), 7);
    let mut change = Change {
        kind: ChangeKind::Alive,
        instance: KeyHash::NIL,
        source_timestamp: world.wall(),
        payload: Payload::copy_of(&bytes),
    };
    for _ in 0..10_000 {
        match world.write(WRITER, writer.entity, change) {
            Ok(written) => {
                assert_eq!(written, SequenceNumber(i64::from(number)));
                return;
            }
            Err((_, back)) => change = back,
        }
        pass(world, Span::from_millis(1));
    }
    panic!("no room for sample {number}");
}

fn take(world: &mut World, reader: &Subscriber) -> Vec<u32> {
    let samples = world.take(reader.at, reader.guid.entity);
    samples.iter().map(|sample| u32::from_le_bytes(sample.payload[4..8].try_into().unwrap())).collect()
}

/// Adds readers at some nodes: several participants per node, several readers per participant. Readers with the same
/// divisor share a filter.
fn subscribe(
    world: &mut World,
    random: &mut fastrand::Rng,
    first_node: u32,
    is_durable: bool,
    from: u32,
    filters: &[(u32, Arc<MultiplesOf>)],
) -> Vec<Subscriber> {
    let mut subscribers = Vec::new();
    for node in first_node..first_node + random.u32(1..=2) {
        for index in 0..random.u32(1..=2) {
            let at = NodeId(node).participant(index);
            world.start(at);
            for _ in 0..random.u32(1..=2) {
                let is_reliable = random.u8(..) < 200;
                let (divisor, filter) = &filters[random.usize(..filters.len())];
                let filter = Some(filter).filter(|_| *divisor > 1);
                let guid = reader(world, at, is_reliable, is_durable, filter);
                subscribers.push(Subscriber { at, guid, divisor: *divisor, is_reliable, from });
            }
        }
    }
    subscribers
}

/// Runs a world whose readers, filters, late joiners and lengths follow from the seed.
fn run(seed: u64, is_durable: bool, levels: Option<ProtectionLevels>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut world = world(seed, levels);
    let batching = random.bool().then_some(Batching { max_bytes: 600, max_delay: Span::from_millis(1) });
    let writer = writer(&mut world, is_durable, batching);
    let filters = [1, 2, 3, 10, SAMPLES + 1].map(|divisor| (divisor, Arc::new(MultiplesOf::new(divisor))));
    let mut subscribers = subscribe(&mut world, &mut random, 1, is_durable, 1, &filters);
    pass(&mut world, Span::from_secs(5));
    world.network().set_faults(ROUGH);
    let joins_at = random.u32(50..150);
    for number in 1..=SAMPLES {
        if number == joins_at {
            world.network().set_faults(Faults::NONE);
            let from = if is_durable { 1 } else { number };
            subscribers.extend(subscribe(&mut world, &mut random, 10, is_durable, from, &filters));
            pass(&mut world, Span::from_secs(5));
            world.network().set_faults(ROUGH);
        }
        write(&mut world, writer, number, if random.u8(..) < 30 { 6000 } else { 40 });
        if random.bool() {
            pass(&mut world, Span::from_micros(random.u64(..3000)));
        }
    }
    pass(&mut world, Span::from_secs(120));
    for subscriber in &subscribers {
        let taken = take(&mut world, subscriber);
        let wanted = subscriber.wanted();
        let lost = world.member(subscriber.at).unwrap().readers[&subscriber.guid.entity].counters().lost;
        if subscriber.is_reliable {
            assert_eq!(taken, wanted, "seed {seed}, {}", subscriber.guid);
            assert_eq!(lost, 0, "seed {seed}, {}", subscriber.guid);
        } else {
            assert!(taken.windows(2).all(|two| two[0] < two[1]), "seed {seed}: {taken:?}");
            assert!(taken.iter().all(|number| wanted.contains(number)), "seed {seed}: {taken:?}");
        }
    }
    let writer = &world.member(WRITER).unwrap().writers[&writer.entity];
    assert!(writer.is_acknowledged_by_all(SequenceNumber(i64::from(SAMPLES))), "seed {seed}");
    assert!(is_durable || writer.history().is_empty(), "seed {seed}: acknowledged samples are removed");
}

#[test]
fn accepted_samples_arrive_once_and_in_order() {
    for seed in 0..120 {
        run(seed, false, None);
    }
}

#[test]
fn late_joiner_receives_accepted_history() {
    for seed in 1000..1080 {
        run(seed, true, None);
    }
}

#[test]
fn filter_evaluates_plain_payload_of_protected_samples() {
    for (seed, kind) in [
        ProtectionKind::Sign,
        ProtectionKind::Encrypt,
        ProtectionKind::SignWithOriginAuthentication,
        ProtectionKind::EncryptWithOriginAuthentication,
    ]
    .into_iter()
    .enumerate()
    {
        for is_durable in [false, true] {
            let levels = ProtectionLevels { payload: ProtectionKind::Encrypt, submessage: kind, message: kind };
            run(2000 + seed as u64, is_durable, Some(levels));
        }
    }
}

/// The number of datagrams with user data, and their bytes, that arrive at a reader of multiples of `divisor`, while a
/// reader at another node receives all samples.
fn traffic_to_a_filtered_reader(divisor: u32, samples: u32, pause: Span) -> (usize, usize) {
    let mut world = world(1, None);
    let writer = writer(&mut world, false, None);
    let filter = Arc::new(MultiplesOf::new(divisor));
    let (all, some) = (NodeId(1), NodeId(2));
    world.start(all);
    world.start(some);
    let all_reader = reader(&mut world, all.into(), true, false, None);
    let some_reader = reader(&mut world, some.into(), true, false, Some(&filter));
    pass(&mut world, Span::from_secs(5));
    world.record();
    for number in 1..=samples {
        write(&mut world, writer, number, 100);
        pass(&mut world, pause);
    }
    pass(&mut world, Span::from_secs(10));
    assert_eq!(world.take(some, some_reader.entity).len() as u32, samples / divisor);
    assert_eq!(world.take(all, all_reader.entity).len() as u32, samples);
    assert_eq!(filter.evaluations(), u64::from(samples));
    let recorded = world.record();
    let of_interest = recorded.iter().filter(|datagram| datagram.to == some && datagram.port == 7411);
    of_interest.fold((0, 0), |(count, bytes), datagram| (count + 1, bytes + datagram.bytes.len()))
}

#[test]
fn rejected_samples_cause_no_datagram_to_filtered_reader() {
    for pause in [Span::ZERO, Span::from_micros(100), Span::from_millis(5), Span::from_secs(1)] {
        assert_eq!(traffic_to_a_filtered_reader(10_000, 2000, pause), (0, 0), "a sample each {pause:?}");
    }
}

#[test]
fn bytes_to_filtered_reader_follow_accepted_samples() {
    for pause in [Span::from_micros(100), Span::from_millis(5), Span::from_secs(1)] {
        // Each accepted sample: header, GAP, INFO_TS, DATA, and up to two heartbeats: header, INFO_DST, two GAPs,
        // HEARTBEAT.
        let (each_sample, each_heartbeat) = (20 + 32 + 12 + 24 + 100, 20 + 16 + 2 * 32 + 32);
        let (datagrams, bytes) = traffic_to_a_filtered_reader(100, 2000, pause);
        assert!(datagrams <= 3 * 20, "{datagrams}, a sample each {pause:?}");
        assert!(bytes <= 20 * (each_sample + 2 * each_heartbeat), "{bytes}, a sample each {pause:?}");
    }
}
