//! Discovery between a few nodes.

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind};
use peregrine_rtps::id::{DomainId, Guid, KeyHash};
use peregrine_rtps::locator::Ports;
use peregrine_rtps::participant::ParticipantEvent;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::{Durability, Reliability};
use peregrine_rtps::time::Span;
use peregrine_sim::network::{Faults, NodeId};
use peregrine_sim::vendor::{Difference, VendorModel};
use peregrine_sim::world::{Happening, World, WorldConfig};

const LEASE: Span = Span::from_secs(10);
const PERIOD: Span = Span::from_secs(2);
const WRITING: NodeId = NodeId(0);
const READING: NodeId = NodeId(1);

fn world() -> World {
    World::new(WorldConfig { seed: 1, faults: Faults::NONE, lease: LEASE, announce_period: PERIOD, mtu_bytes: 1500 })
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

/// A writer on one node, a reader on another one, and the samples between them.
struct Flow {
    world: World,
    writer: Guid,
    reader: Guid,
    written: i64,
    received: Vec<i64>,
    events: Vec<(NodeId, ParticipantEvent)>,
}

impl Flow {
    /// Reliable, and with the history of everything.
    fn new() -> Self {
        let mut world = world();
        world.start(WRITING);
        world.start(READING);
        let writer = world.add_writer(
            WRITING,
            "topic",
            false,
            |d| (d.qos.reliability, d.qos.durability) = (Reliability::RELIABLE, Durability::TransientLocal),
            |c| (c.durable, c.history) = (true, HistoryKind::KeepAll),
        );
        let reader = world.add_reader(
            READING,
            "topic",
            false,
            |d| (d.qos.reliability, d.qos.durability) = (Reliability::RELIABLE, Durability::TransientLocal),
            |c| (c.reliable, c.wants_history, c.cache.history) = (true, true, HistoryKind::KeepAll),
        );
        let (writer, reader) = (writer.unwrap(), reader.unwrap());
        let mut flow = Self { world, writer, reader, written: 0, received: vec![], events: vec![] };
        flow.go_on(Span::from_secs(1), true);
        assert!(flow.is_matched(), "{:?}", flow.events);
        flow.events.clear();
        flow
    }

    /// Writes ten samples a second, and takes if the reader's node runs.
    fn go_on(&mut self, span: Span, takes: bool) {
        for _ in 0..span.0 / Span::from_millis(100).0 {
            let change = Change {
                kind: ChangeKind::Alive,
                instance: KeyHash::NIL,
                source_timestamp: self.world.wall(),
                payload: Payload::copy_of(&[0; 64]),
            };
            self.world.write(WRITING, self.writer.entity, change).unwrap();
            self.written += 1;
            self.events.extend(run(&mut self.world, Span::from_millis(100)));
            if takes {
                let taken = self.world.take(READING, self.reader.entity);
                self.received.extend(taken.iter().filter(|s| s.info.valid_data).map(|s| s.info.sequence_number.0));
            }
        }
    }

    fn is_matched(&self) -> bool {
        let (writing, reading) = (self.world.member(WRITING).unwrap(), self.world.member(READING).unwrap());
        writing.writers[&self.writer.entity].matched_readers().any(|r| r.guid == self.reader)
            && reading.readers[&self.reader.entity].matched_writers().any(|w| w.guid == self.writer)
    }

    fn assert_complete(&self) {
        let all: Vec<i64> = (1..=self.written).collect();
        assert_eq!(self.received, all, "each sample exactly once, in order");
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

#[test]
fn participant_that_hears_nothing_at_its_first_announcement_matches_at_any_time() {
    let is_match = |(node, event): &(NodeId, ParticipantEvent)| {
        *node == READING && matches!(event, ParticipantEvent::WriterMatched { .. })
    };
    // Between two announcements of the other participant, so that at most one of the times is near one.
    for quarter in 0..4 {
        let mut world = world();
        world.start(WRITING);
        world.add_writer(WRITING, "topic", false, |d| d.qos.reliability = Reliability::RELIABLE, |_| {});
        run(&mut world, PERIOD.times(10) + PERIOD.divided_by(4).times(quarter));
        world.imitate(READING, VendorModel::new(Difference::RepeatsNothingAcknowledged));
        world.start(READING);
        world.add_reader(READING, "topic", false, |d| d.qos.reliability = Reliability::RELIABLE, |_| {});
        let events = run(&mut world, PERIOD.divided_by(8));
        assert!(world.imitated(READING) > 0);
        assert!(events.iter().any(is_match), "in quarter {quarter}: {events:?}");
    }
}

#[test]
fn lost_multicast_ends_no_pair_whose_samples_arrive() {
    let mut flow = Flow::new();
    let announcements = Ports::of(DomainId(0)).metatraffic_multicast();
    flow.world.network().close_port(announcements);
    flow.go_on(LEASE.times(4), true);
    assert!(flow.is_matched() && flow.events.is_empty(), "{:?}", flow.events);
    flow.assert_complete();
}

#[test]
fn pair_that_was_apart_for_longer_than_the_lease_matches_within_two_periods() {
    let mut flow = Flow::new();
    flow.world.network().partition(&[0, 1]);
    flow.go_on(LEASE.times(2), true);
    assert!(!flow.is_matched(), "the leases did not end");
    flow.world.network().heal();
    flow.go_on(PERIOD.times(2), true);
    assert!(flow.is_matched(), "{:?}", flow.events);
}

#[test]
fn reader_that_stood_still_for_longer_than_its_lease_misses_nothing() {
    let mut flow = Flow::new();
    flow.world.freeze(READING);
    flow.go_on(Span::from_secs(15), false);
    assert!(!flow.is_matched(), "the lease did not end");
    flow.world.thaw(READING);
    flow.go_on(PERIOD.times(2), true);
    assert!(flow.is_matched(), "{:?}", flow.events);
    let dropped = flow.events.iter().any(|(node, e)| {
        *node == READING
            && matches!(e, ParticipantEvent::ParticipantLost(..) | ParticipantEvent::WriterUnmatched { .. })
    });
    assert!(!dropped, "the writer was never gone: {:?}", flow.events);
    flow.assert_complete();
}

#[test]
fn writer_that_stood_still_for_longer_than_its_lease_is_matched_again() {
    let mut flow = Flow::new();
    flow.world.freeze(WRITING);
    run(&mut flow.world, Span::from_secs(15));
    assert!(!flow.is_matched(), "the lease did not end");
    flow.world.thaw(WRITING);
    flow.go_on(PERIOD.times(2), true);
    assert!(flow.is_matched(), "{:?}", flow.events);
    let newest = flow.received.iter().max();
    assert_eq!(newest, Some(&flow.written));
}
