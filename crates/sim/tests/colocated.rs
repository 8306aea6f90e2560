//! Several participants of one process, with the same address and port and equal entity ids.

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::{Durability, Reliability};
use peregrine_rtps::time::Span;
use peregrine_sim::network::{Faults, NodeId, ParticipantId};
use peregrine_sim::world::{World, WorldConfig};

const WRITER: NodeId = NodeId(0);
const READERS: NodeId = NodeId(1);
const HELD: usize = 20;
const MESSAGE: usize = 1472;

fn world(loss: f64) -> World {
    World::new(WorldConfig {
        seed: 1,
        faults: Faults { loss, ..Faults::NONE },
        lease: Span::from_secs(600),
        announce_period: Span::from_secs(2),
        mtu_bytes: 1500,
    })
}

fn pass(world: &mut World, span: Span) {
    let end = world.now() + span;
    while world.run_until(end) {
        world.happenings();
    }
}

/// A TRANSIENT_LOCAL writer with `HELD` samples of `bytes` bytes.
fn writer_with_history(world: &mut World, bytes: usize) -> Guid {
    world.start(WRITER);
    let writer = world.add_writer(
        WRITER,
        "topic",
        false,
        |data| {
            data.qos.reliability = Reliability::RELIABLE;
            data.qos.durability = Durability::TransientLocal;
        },
        |config| {
            config.history = HistoryKind::KeepAll;
            config.durable = true;
            config.default_message_bytes = MESSAGE;
        },
    );
    let writer = writer.unwrap();
    for _ in 0..HELD {
        write(world, writer, bytes);
    }
    writer
}

fn write(world: &mut World, writer: Guid, bytes: usize) {
    let change = Change {
        kind: ChangeKind::Alive,
        instance: KeyHash::NIL,
        source_timestamp: world.wall(),
        payload: Payload::copy_of(&vec![7; bytes]),
    };
    world.write(WRITER, writer.entity, change).unwrap();
}

fn reader(world: &mut World, at: ParticipantId, reliable: bool, wants_history: bool) -> Guid {
    let durability = if wants_history { Durability::TransientLocal } else { Durability::Volatile };
    let reader = world.add_reader(
        at,
        "topic",
        false,
        |data| {
            data.qos.durability = durability;
            if reliable {
                data.qos.reliability = Reliability::RELIABLE;
            }
        },
        |config| {
            config.reliable = reliable;
            config.wants_history = wants_history;
            config.cache.history = HistoryKind::KeepAll;
        },
    );
    reader.unwrap()
}

/// From samples within one datagram to samples of many fragments, including those that fill a datagram with and without
/// room for an INFO_DST.
const SIZES: [usize; 8] = [100, 1396, 1400, 1408, 1412, 1416, 3000, 20_000];

#[test]
fn history_for_one_reader_does_not_reach_equal_entity_id_in_process() {
    for bytes in SIZES {
        for reliable in [false, true] {
            let mut world = world(0.0);
            let writer = writer_with_history(&mut world, bytes);
            let (volatile_at, durable_at) = (READERS.participant(0), READERS.participant(1));
            world.start(volatile_at);
            // The participant of the best-effort reader must know the writer before the history arrives, because the
            // history is sent once.
            world.start(durable_at);
            let volatile = reader(&mut world, volatile_at, false, false);
            pass(&mut world, Span::from_secs(5));
            let durable = reader(&mut world, durable_at, reliable, true);
            assert_eq!(volatile.entity, durable.entity, "both participants assign equal entity ids");
            pass(&mut world, Span::from_secs(5));
            assert_eq!(world.take(durable_at, durable.entity).len(), HELD, "{bytes} bytes");
            assert_eq!(world.take(volatile_at, volatile.entity).len(), 0, "{bytes} bytes: history of another reader");
            write(&mut world, writer, bytes);
            pass(&mut world, Span::from_secs(1));
            for (at, reader) in [(durable_at, durable), (volatile_at, volatile)] {
                assert_eq!(world.take(at, reader.entity).len(), 1, "{bytes} bytes");
                let counters = world.member(at).unwrap().readers[&reader.entity].counters();
                assert_eq!((counters.lost, counters.late), (0, 0), "{bytes} bytes");
            }
        }
    }
}

#[test]
fn repair_for_one_reader_does_not_reach_equal_entity_id_in_process() {
    for bytes in SIZES {
        let mut world = world(0.0);
        let writer = writer_with_history(&mut world, bytes);
        let (first, second) = (READERS.participant(0), READERS.participant(1));
        let readers = [first, second].map(|at| {
            world.start(at);
            (at, reader(&mut world, at, at == second, false))
        });
        pass(&mut world, Span::from_secs(5));
        // Both readers miss the lost samples, and only the reliable one requests repair.
        world.network().set_faults(Faults { loss: 0.2, ..Faults::NONE });
        for _ in 0..100 {
            write(&mut world, writer, bytes);
            pass(&mut world, Span::from_millis(5));
        }
        world.network().set_faults(Faults::NONE);
        pass(&mut world, Span::from_secs(10));
        let [best_effort, reliable] =
            readers.map(|(at, reader)| world.member(at).unwrap().readers[&reader.entity].counters());
        assert_eq!(reliable.samples, 100, "{bytes} bytes");
        assert!(best_effort.lost > 0 && best_effort.samples < 100, "{bytes} bytes: {best_effort:?}");
        assert_eq!(best_effort.late + best_effort.duplicates + best_effort.duplicate_fragments, 0, "{bytes} bytes");
    }
}
