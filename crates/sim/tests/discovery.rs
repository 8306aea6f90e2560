//! Discovery between a few nodes.

use peregrine_rtps::participant::ParticipantEvent;
use peregrine_rtps::qos::Reliability;
use peregrine_rtps::time::Span;
use peregrine_sim::network::{Faults, NodeId};
use peregrine_sim::world::{Happening, World, WorldConfig};

fn world() -> World {
    World::new(WorldConfig {
        seed: 1,
        faults: Faults::NONE,
        lease: Span::from_secs(10),
        announce_period: Span::from_secs(2),
        mtu_bytes: 1500,
    })
}

fn run(world: &mut World, span: Span) -> Vec<(NodeId, ParticipantEvent)> {
    let end = world.now() + span;
    let mut all = Vec::new();
    loop {
        let more = world.run_until(end);
        all.extend(world.happenings().into_iter().filter_map(|(id, h)| match h {
            Happening::Participant(event) => Some((id.node, *event)),
            _ => None,
        }));
        if !more {
            return all;
        }
    }
}

#[test]
fn writer_and_reader_match_within_milliseconds() {
    let mut world = world();
    world.start(NodeId(0));
    world.start(NodeId(1));
    world.add_writer(NodeId(0), "topic", false, |d| d.qos.reliability = Reliability::RELIABLE, |_| {});
    world.add_reader(NodeId(1), "topic", false, |d| d.qos.reliability = Reliability::RELIABLE, |_| {});
    let events = run(&mut world, Span::from_millis(100));
    let matched = |node, f: fn(&ParticipantEvent) -> bool| events.iter().any(|(n, e)| *n == NodeId(node) && f(e));
    assert!(matched(0, |e| matches!(e, ParticipantEvent::ReaderMatched { .. })), "{events:?}");
    assert!(matched(1, |e| matches!(e, ParticipantEvent::WriterMatched { .. })), "{events:?}");
}
