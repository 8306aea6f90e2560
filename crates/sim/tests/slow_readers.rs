//! A reader behind a slow link, beside readers of the same writer on fast links.

use peregrine_rtps::history::{Change, ChangeKind, HistoryKind, ResourceLimits};
use peregrine_rtps::id::{Guid, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::qos::Reliability;
use peregrine_rtps::time::Span;
use peregrine_sim::network::{Faults, Link, NodeId};
use peregrine_sim::world::{World, WorldConfig};

const FROM: NodeId = NodeId(0);
const FAST: NodeId = NodeId(1);
const SLOW: NodeId = NodeId(2);
const PERIOD: Span = Span::from_millis(1);
/// Datagrams queue for as long before a slow link.
const QUEUE: Span = Span::from_millis(100);

/// A writer, and a reader on each other node.
struct Flow {
    world: World,
    writer: Guid,
    readers: Vec<Guid>,
    /// The sequence numbers that each reader has taken.
    taken: Vec<Vec<i64>>,
    /// The longest time, in periods, for which the fast reader lacked a sample that was written.
    longest_lag: usize,
    written: usize,
}

impl Flow {
    fn new(seed: u64, readers: u32, limits: ResourceLimits) -> Self {
        let (lease, announce_period) = (Span::from_secs(600), Span::from_secs(200));
        let faults = Faults { delay_min: Span::from_micros(100), delay_max: Span::from_micros(200), ..Faults::NONE };
        let mut world = World::new(WorldConfig { seed, faults, lease, announce_period, mtu_bytes: 1500 });
        (0..=readers).for_each(|node| world.start(NodeId(node)));
        let writer = world.add_writer(
            FROM,
            "topic",
            false,
            |data| data.qos.reliability = Reliability::RELIABLE,
            |config| {
                (config.history, config.limits) = (HistoryKind::KeepAll, limits);
                config.default_message_bytes = 1472;
            },
        );
        let readers = (1..=readers).map(|node| {
            world.add_reader(
                NodeId(node),
                "topic",
                false,
                |data| data.qos.reliability = Reliability::RELIABLE,
                |config| {
                    config.reliable = true;
                    config.cache.history = HistoryKind::KeepAll;
                },
            )
        });
        let readers: Vec<Guid> = readers.map(Option::unwrap).collect();
        let taken = vec![Vec::new(); readers.len()];
        let mut flow = Self { world, writer: writer.unwrap(), readers, taken, longest_lag: 0, written: 0 };
        flow.pass(Span::from_secs(5));
        flow
    }

    fn slow_down(&mut self, node: NodeId, bytes_per_second: u64) {
        let link = Link { bytes_per_second, wake_every: Span::from_micros(100) };
        self.world.network().set_slow_link(node, link, QUEUE);
    }

    fn pass(&mut self, span: Span) {
        let end = self.world.now() + span;
        while self.world.run_until(end) {
            self.world.happenings();
        }
        for (node, (reader, taken)) in (1..).zip(self.readers.iter().zip(&mut self.taken)) {
            let samples = self.world.take(NodeId(node), reader.entity);
            taken.extend(samples.iter().map(|sample| sample.info.sequence_number.0));
        }
    }

    /// Writes a sample per period. Returns how many the writer refused.
    fn write(&mut self, count: usize, bytes: usize) -> usize {
        let mut refused = 0;
        for _ in 0..count {
            let change = Change {
                kind: ChangeKind::Alive,
                instance: KeyHash::NIL,
                source_timestamp: self.world.wall(),
                payload: Payload::copy_of(&vec![7; bytes]),
            };
            match self.world.write(FROM, self.writer.entity, change) {
                Ok(_) => self.written += 1,
                Err(_) => refused += 1,
            }
            self.pass(PERIOD);
            self.longest_lag = self.longest_lag.max(self.written - self.taken[0].len());
        }
        refused
    }

    /// Waits until every reader has every sample, in order and once.
    fn assert_complete(&mut self, within: Span) {
        let end = self.world.now() + within;
        while self.world.now() < end && self.taken.iter().any(|taken| taken.len() < self.written) {
            self.pass(Span::from_millis(100));
        }
        let all: Vec<i64> = (1..=self.written as i64).collect();
        for (index, taken) in self.taken.iter().enumerate() {
            assert!(*taken == all, "reader {index} has {} of {} samples", taken.len(), all.len());
        }
    }
}

#[test]
fn reader_behind_a_slow_link_does_not_delay_others_and_gets_what_its_link_carries() {
    for (bytes_per_second, share) in [(1_000_000, 0.85), (100_000, 0.6), (10_000, 0.3)] {
        let mut flow = Flow::new(1, 2, ResourceLimits::UNLIMITED);
        flow.slow_down(SLOW, bytes_per_second);
        let (seconds, bytes) = (10, 1_000);
        assert_eq!(flow.write(seconds * 1_000, bytes), 0);
        assert!(flow.longest_lag <= 600, "the fast reader lacked {} samples", flow.longest_lag);
        let counters = flow.world.member(FROM).unwrap().writers[&flow.writer.entity].counters();
        assert_eq!(counters.readers_sent_apart, 1);
        let carried = bytes_per_second as usize * seconds / (bytes + 84);
        let got = flow.taken[1].len() as f64 / carried as f64;
        println!(
            "{bytes_per_second} bytes/s: {} samples at the slow reader, {} at the fast one, which lacked {} at most",
            flow.taken[1].len(),
            flow.taken[0].len(),
            flow.longest_lag
        );
        assert!(got >= share, "{bytes_per_second} bytes/s: the slow reader got {got:.2} of what its link carries");
    }
}

#[test]
fn reader_that_is_sent_to_apart_gets_every_sample_once_and_follows_again() {
    for seed in 1..=5 {
        let mut flow = Flow::new(seed, 3, ResourceLimits::UNLIMITED);
        flow.slow_down(SLOW, 300_000);
        let loss =
            Faults { loss: 0.02, delay_min: Span::from_micros(100), delay_max: Span::from_millis(1), ..Faults::NONE };
        flow.world.network().set_faults(loss);
        assert_eq!(flow.write(3_000, 1_000), 0);
        flow.assert_complete(Span::from_secs(120));
        // The link is fast again: all samples reach all readers at one time.
        flow.slow_down(SLOW, 1_000_000_000);
        let before = flow.world.network().counters().bytes;
        assert_eq!(flow.write(1_000, 1_000), 0);
        flow.assert_complete(Span::from_secs(10));
        let bytes = flow.world.network().counters().bytes - before;
        assert!(bytes < 3 * 1_000 * 1_400, "seed {seed}: {bytes} bytes for 1,000 samples and three readers");
    }
}

#[test]
fn large_samples_reach_a_reader_behind_a_slow_link_and_others_at_once() {
    let mut flow = Flow::new(1, 2, ResourceLimits::UNLIMITED);
    flow.slow_down(SLOW, 2_000_000);
    assert_eq!(flow.write(400, 20_000), 0);
    assert!(flow.longest_lag <= 280, "the fast reader lacked {} samples", flow.longest_lag);
    flow.assert_complete(Span::from_secs(120));
}

#[test]
fn writer_whose_limit_is_reached_waits_for_the_slow_reader_and_names_it() {
    let mut flow = Flow::new(1, 2, ResourceLimits { max_samples: 2_000, ..ResourceLimits::UNLIMITED });
    flow.slow_down(SLOW, 100_000);
    let refused = flow.write(6_000, 1_000);
    assert!(refused > 2_000, "{refused} refused");
    assert_eq!(flow.taken[0].len(), flow.written, "the fast reader has everything");
    let writer = &flow.world.member(FROM).unwrap().writers[&flow.writer.entity];
    assert_eq!(writer.furthest_behind(), (1, Some(flow.readers[1])));
    assert!(writer.history().len() <= 2_000);
    let progress: Vec<_> = writer.progress(flow.world.now()).collect();
    assert!(progress.iter().all(|reader| !reader.delays_others), "{progress:?}");
    flow.assert_complete(Span::from_secs(120));
}

#[test]
fn slow_reader_gets_everything_after_the_others_have_left() {
    let mut flow = Flow::new(1, 2, ResourceLimits::UNLIMITED);
    flow.slow_down(SLOW, 200_000);
    assert_eq!(flow.write(2_000, 1_000), 0);
    flow.world.leave(FAST);
    flow.pass(Span::from_millis(100));
    assert_eq!(flow.write(1_000, 1_000), 0);
    let end = flow.world.now() + Span::from_secs(120);
    while flow.world.now() < end && flow.taken[1].len() < flow.written {
        flow.pass(Span::from_millis(100));
    }
    assert_eq!(flow.taken[1], (1..=flow.written as i64).collect::<Vec<_>>());
}
