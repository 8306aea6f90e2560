//! Looks at a running world: stalls without a report, and memory.

use std::collections::{BTreeMap, BTreeSet};

use peregrine_rtps::id::Guid;
use peregrine_rtps::limits::{MEMORY_PER_READER_MAX, REASSEMBLY_SAMPLES_MAX, REORDER_SAMPLES_MAX, STALL_AFTER};
use peregrine_rtps::time::{Instant, Span};

use super::limits::{PEER_BYTES_WITH_SHARES, TIGHT_CACHE_BYTES, TIGHT_CACHE_SAMPLES, TIGHT_MEMORY_BYTES};
use super::trace::Amount;
use crate::network::NodeId;
use crate::world::World;

/// How long a reader may acknowledge nothing, although it lacks samples, before its writer reports a stall. A writer
/// counts from the first request that expires. In a steady flow it requests acknowledgement with every 64th sample
/// (decision 043), which these worlds write in less than seven seconds.
const STALL_NAMED_AFTER: Span = Span::from_millis(STALL_AFTER.0 / 1_000_000 + 7_000);

/// The progress of a reader.
#[derive(Clone, Copy, Debug)]
struct Progress {
    acknowledged: i64,
    since: Instant,
    is_reported: bool,
}

/// The observations so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    progress: BTreeMap<(Guid, Guid), Progress>,
    memory: BTreeMap<&'static str, Amount>,
}

impl Watch {
    /// Looks at the progress of all readers. Returns those that have had none for too long without a report of their
    /// writer.
    pub(super) fn look(&mut self, world: &World, paused: &BTreeSet<NodeId>) -> Vec<(Guid, Guid, Span)> {
        self.look_for(world, paused, STALL_NAMED_AFTER)
    }

    fn look_for(&mut self, world: &World, paused: &BTreeSet<NodeId>, limit: Span) -> Vec<(Guid, Guid, Span)> {
        let mut unnamed = Vec::new();
        let mut seen = BTreeSet::new();
        for (id, member) in world.members().filter(|(id, _)| !paused.contains(&id.node)) {
            let now = world.now_of(id.node);
            for writer in member.writers.values() {
                let names_one = writer.stalled_readers() > 0;
                for progress in writer.progress(now) {
                    let pair = (writer.guid(), progress.reader);
                    let acknowledged = writer.last().0 - progress.unacknowledged as i64;
                    let begin = Progress { acknowledged, since: now, is_reported: false };
                    let known = self.progress.entry(pair).or_insert(begin);
                    seen.insert(pair);
                    if progress.unacknowledged == 0 || known.acknowledged != acknowledged || names_one {
                        *known = begin;
                    }
                    let lasting = now.since(known.since);
                    if lasting > limit && !known.is_reported {
                        known.is_reported = true;
                        unnamed.push((pair.0, pair.1, lasting));
                    }
                }
            }
        }
        // A writer whose process stands still begins anew when it goes on.
        self.progress.retain(|pair, _| seen.contains(pair));
        unnamed
    }

    /// Measures what the endpoints hold. `is_tight` names the readers with low limits.
    pub(super) fn measure(&mut self, world: &World, is_tight: impl Fn(Guid) -> bool) {
        for (_, member) in world.members() {
            let held = member.participant.config().memory.all.held_bytes();
            self.note("bytes that peers make a participant hold", held, PEER_BYTES_WITH_SHARES);
            for writer in member.writers.values() {
                let history = writer.history();
                self.note("samples in a history", history.len(), history.limits().max_samples as usize);
            }
            for reader in member.readers.values() {
                let waiting = reader.waiting();
                let writers = reader.matched_writers().count().max(1);
                let samples = writers * (REORDER_SAMPLES_MAX + REASSEMBLY_SAMPLES_MAX);
                self.note("samples that a reader holds back", waiting.samples, samples);
                if is_tight(reader.guid()) {
                    self.note("bytes that a tight reader holds back", waiting.bytes, TIGHT_MEMORY_BYTES[1]);
                    self.note("bytes in a tight cache", reader.cache().held_bytes(), TIGHT_CACHE_BYTES);
                    self.note("samples in a tight cache", reader.cache().len(), TIGHT_CACHE_SAMPLES as usize);
                } else {
                    self.note("bytes that a reader holds back", waiting.bytes, MEMORY_PER_READER_MAX);
                }
            }
        }
    }

    fn note(&mut self, what: &'static str, amount: usize, limit: usize) {
        let known = self.memory.entry(what).or_insert(Amount { amount, limit });
        // The amount that is closest to its limit, or furthest beyond it.
        if amount as u128 * known.limit as u128 > known.amount as u128 * limit as u128 {
            *known = Amount { amount, limit };
        }
    }

    /// The greatest amounts.
    pub(super) fn into_memory(self) -> BTreeMap<&'static str, Amount> {
        self.memory
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::history::{Change, ChangeKind};
    use peregrine_rtps::id::KeyHash;
    use peregrine_rtps::payload::Payload;
    use peregrine_rtps::qos::Reliability;

    use super::*;
    use crate::network::{Cut, Faults};
    use crate::world::WorldConfig;

    /// With so little patience, a stall is seen before its writer reports it after a second.
    #[test]
    fn reader_without_progress_is_seen_once_until_its_writer_reports_a_stall() {
        let (lease, announce_period) = (Span::from_secs(60), Span::from_secs(2));
        let config = WorldConfig { seed: 1, faults: Faults::NONE, lease, announce_period, mtu_bytes: 1500 };
        let mut world = World::new(config);
        (0..2).for_each(|node| world.start(NodeId(node)));
        let writer = world
            .add_writer(NodeId(0), "topic", false, |d| d.qos.reliability = Reliability::RELIABLE, |_| {})
            .expect("the node runs");
        let reliable = |c: &mut peregrine_rtps::reader::ReaderConfig| c.reliable = true;
        world.add_reader(NodeId(1), "topic", false, |d| d.qos.reliability = Reliability::RELIABLE, reliable);
        let pass = |world: &mut World, span: Span| {
            let end = world.now() + span;
            while world.run_until(end) {
                world.happenings();
            }
        };
        pass(&mut world, Span::from_secs(1));
        world.network().cut(Cut { from: Some(NodeId(1)), ..Cut::default() });
        let payload = Payload::copy_of(&[0; 8]);
        let (kind, instance, source_timestamp) = (ChangeKind::Alive, KeyHash::NIL, world.wall());
        let change = Change { kind, instance, source_timestamp, payload };
        assert!(world.write(NodeId(0), writer.entity, change).is_ok());
        let (mut watch, mut seen) = (Watch::default(), Vec::new());
        for _ in 0..50 {
            pass(&mut world, Span::from_millis(50));
            seen.extend(watch.look_for(&world, &BTreeSet::new(), Span::from_millis(300)));
        }
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(world.member(NodeId(0)).map(|m| m.writers[&writer.entity].stalled_readers()), Some(1));
    }
}
