//! Looks at a running world: stalls without a report, and memory.

use std::collections::{BTreeMap, BTreeSet};

use peregrine_rtps::id::Guid;
use peregrine_rtps::limits::{MEMORY_PER_READER_MAX, REASSEMBLY_SAMPLES_MAX, REORDER_SAMPLES_MAX};
use peregrine_rtps::time::{Instant, Span};
use peregrine_rtps::writer::{HeldBack, ReaderProgress, Stall, StallCause, Writer};

use super::limits::{
    PEER_BYTES_WITH_SHARES, STALL_NAMED_AFTER, TIGHT_CACHE_BYTES, TIGHT_CACHE_SAMPLES, TIGHT_MEMORY_BYTES,
};
use super::trace::{Amount, Stalls};
use crate::network::NodeId;
use crate::world::World;

/// The progress of a reader.
#[derive(Clone, Copy, Debug)]
struct Progress {
    acknowledged: i64,
    /// Since when the reader has acknowledged nothing new.
    since: Instant,
    /// Since when its writer has not named it meanwhile.
    unnamed_since: Instant,
    is_counted: bool,
}

/// The observations so far.
#[derive(Debug, Default)]
pub(super) struct Watch {
    progress: BTreeMap<(Guid, Guid), Progress>,
    /// The stalls that writers have reported and not ended: the writer and the reader.
    reported: BTreeSet<(Guid, Guid)>,
    stalls: Stalls,
    memory: BTreeMap<&'static str, Amount>,
}

impl Watch {
    /// A writer reports a stall.
    pub(super) fn note_stall(&mut self, writer: Guid, stall: &Stall) {
        self.stalls.reported += 1;
        *self.stalls.by_cause.entry(name_of(stall.cause)).or_default() += 1;
        let mut others = self.reported.iter().filter(|(of, reader)| *of == writer && *reader != stall.reader);
        self.stalls.beside_another += u64::from(others.next().is_some());
        self.reported.insert((writer, stall.reader));
    }

    /// A writer reports the end of a stall.
    pub(super) fn note_end_of_stall(&mut self, writer: Guid, reader: Guid) {
        self.stalls.ended += 1;
        self.reported.remove(&(writer, reader));
    }

    /// Looks at the progress of each reader: whether its writer names it while it has none.
    pub(super) fn look(&mut self, world: &World, paused: &BTreeSet<NodeId>) {
        let mut seen = BTreeSet::new();
        for (id, member) in world.members().filter(|(id, _)| !paused.contains(&id.node)) {
            let now = world.now_of(id.node);
            for writer in member.writers.values() {
                let readers: Vec<ReaderProgress> = writer.progress(now).collect();
                for reader in &readers {
                    seen.insert((writer.guid(), reader.reader));
                    self.look_at(now, writer, &readers, reader);
                }
            }
        }
        // A writer whose process stands still begins anew when it goes on.
        self.progress.retain(|pair, _| seen.contains(pair));
    }

    fn look_at(&mut self, now: Instant, writer: &Writer, readers: &[ReaderProgress], reader: &ReaderProgress) {
        let pair = (writer.guid(), reader.reader);
        let acknowledged = writer.last().0 - reader.unacknowledged as i64;
        let begin = Progress { acknowledged, since: now, unnamed_since: now, is_counted: false };
        let known = self.progress.entry(pair).or_insert(begin);
        if reader.unacknowledged == 0 || known.acknowledged != acknowledged {
            *known = begin;
        }
        let is_named = if reader.unacknowledged > writer.unsent() {
            reader.stall.is_some_and(|stall| stall.reader == reader.reader) && self.reported.contains(&pair)
        } else {
            // The reader lacks nothing that was sent: other readers hold up its samples.
            let is_behind =
                |other: &ReaderProgress| other.reader != reader.reader && other.delays_others && other.stall.is_some();
            writer.held_back() == Some(HeldBack::Acknowledgements) && readers.iter().any(is_behind)
        };
        if is_named {
            known.unnamed_since = now;
        }
        if now.since(known.since) > STALL_NAMED_AFTER && !known.is_counted {
            known.is_counted = true;
            self.stalls.watched += 1;
        }
        let longest = self.stalls.unnamed.entry(pair).or_insert(Span::ZERO);
        *longest = (*longest).max(now.since(known.unnamed_since));
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

    /// The stalls, and the greatest amounts.
    pub(super) fn into_parts(self) -> (Stalls, BTreeMap<&'static str, Amount>) {
        (self.stalls, self.memory)
    }
}

const fn name_of(cause: StallCause) -> &'static str {
    match cause {
        StallCause::Unanswered { .. } => "requests are not answered",
        StallCause::NoProgress => "answers show no progress",
        StallCause::ReaderFull => "the reader is full",
        StallCause::NotFetched => "samples are not fetched",
        _ => "another cause",
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::history::{Change, ChangeKind};
    use peregrine_rtps::id::KeyHash;
    use peregrine_rtps::payload::Payload;
    use peregrine_rtps::qos::Reliability;
    use peregrine_rtps::writer::WriterEvent;

    use super::*;
    use crate::network::{Cut, Faults};
    use crate::world::{Happening, WorldConfig};

    struct Pairs {
        world: World,
        writer: Guid,
        readers: [Guid; 2],
        watch: Watch,
    }

    impl Pairs {
        /// One writer and two readers, each on its node.
        fn new() -> Self {
            let (lease, announce_period) = (Span::from_secs(60), Span::from_secs(2));
            let config = WorldConfig { seed: 1, faults: Faults::NONE, lease, announce_period, mtu_bytes: 1500 };
            let mut world = World::new(config);
            (0..3).for_each(|node| world.start(NodeId(node)));
            let reliable = |c: &mut peregrine_rtps::reader::ReaderConfig| c.reliable = true;
            let writer = world
                .add_writer(NodeId(0), "topic", false, |d| d.qos.reliability = Reliability::RELIABLE, |_| {})
                .expect("the node runs");
            let readers = [1, 2].map(|node| {
                world
                    .add_reader(NodeId(node), "topic", false, |d| d.qos.reliability = Reliability::RELIABLE, reliable)
                    .expect("the node runs")
            });
            let mut pairs = Self { world, writer, readers, watch: Watch::default() };
            pairs.pass(Span::from_secs(1));
            pairs
        }

        fn pass(&mut self, span: Span) {
            let end = self.world.now() + span;
            while self.world.now() < end {
                let next = self.world.now() + Span::from_millis(50);
                while self.world.run_until(next) {}
                for (_, happening) in self.world.happenings() {
                    match happening {
                        Happening::Writer(_, WriterEvent::Stalled(stall)) => self.watch.note_stall(self.writer, &stall),
                        Happening::Writer(_, WriterEvent::StallEnded { reader, .. }) => {
                            self.watch.note_end_of_stall(self.writer, reader);
                        }
                        _ => {}
                    }
                }
                self.watch.look(&self.world, &BTreeSet::new());
            }
        }

        fn write(&mut self) {
            let payload = Payload::copy_of(&[0; 8]);
            let (kind, instance, source_timestamp) = (ChangeKind::Alive, KeyHash::NIL, self.world.wall());
            let change = Change { kind, instance, source_timestamp, payload };
            assert!(self.world.write(NodeId(0), self.writer.entity, change).is_ok());
        }

        fn unnamed_ms(&self, reader: usize) -> u64 {
            self.watch.stalls.unnamed[&(self.writer, self.readers[reader])].0 / 1_000_000
        }
    }

    /// The second reader falls silent while the writer already names the first one.
    #[test]
    fn stall_of_a_reader_is_unnamed_until_its_writer_names_it_although_another_one_is_named() {
        let mut pairs = Pairs::new();
        let silence = |node| Cut { from: Some(NodeId(node)), ..Cut::default() };
        pairs.world.network().cut(silence(1));
        pairs.write();
        pairs.pass(Span::from_millis(1_500));
        assert_eq!(pairs.watch.reported, BTreeSet::from([(pairs.writer, pairs.readers[0])]));
        let first = pairs.unnamed_ms(0);
        assert!((950..=1_500).contains(&first) && pairs.unnamed_ms(1) < 100, "{:?}", pairs.watch);
        pairs.world.network().cut(silence(2));
        pairs.write();
        pairs.pass(Span::from_millis(900));
        assert!((700..=950).contains(&pairs.unnamed_ms(1)), "{:?}", pairs.watch);
        pairs.pass(Span::from_secs(4));
        assert_eq!(pairs.unnamed_ms(0), first, "the first reader remains named");
        let stalls = &pairs.watch.stalls;
        assert_eq!((stalls.reported, stalls.beside_another, stalls.watched), (2, 1, 2), "{stalls:?}");
        assert_eq!(stalls.by_cause, BTreeMap::from([("requests are not answered", 2)]));
    }
}
