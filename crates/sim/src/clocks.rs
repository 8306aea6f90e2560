//! The clocks of the nodes: how far they differ from the time of the world.

use std::collections::BTreeMap;

use peregrine_rtps::time::{Instant, Span, Timestamp};

use crate::network::NodeId;

/// The wall clock at the beginning of a world, in nanoseconds since 1970.
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;

#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// How long the monotonic clock has stood still in all.
    stood_still: Span,
    wall_offset_ns: i64,
}

/// The clocks of all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    of: BTreeMap<NodeId, Clock>,
}

impl Clocks {
    fn at(&self, node: NodeId) -> Clock {
        self.of.get(&node).copied().unwrap_or_default()
    }

    /// The monotonic clock of a node at a time of the world.
    pub(crate) fn local(&self, node: NodeId, now: Instant) -> Instant {
        Instant(now.0.saturating_sub(self.at(node).stood_still.0))
    }

    /// The time of the world at which the monotonic clock of a node shows this time.
    pub(crate) fn global(&self, node: NodeId, local: Instant) -> Instant {
        local + self.at(node).stood_still
    }

    /// The wall clock of a node, or the true one, at a time of the world.
    pub(crate) fn wall(&self, node: Option<NodeId>, now: Instant) -> Timestamp {
        let offset_ns = node.map_or(0, |node| self.at(node).wall_offset_ns);
        Timestamp::from_unix_nanos((now.0 + EPOCH_NS).saturating_add_signed(offset_ns))
    }

    pub(crate) fn stand_still(&mut self, node: NodeId, span: Span) {
        let clock = self.of.entry(node).or_default();
        clock.stood_still = Span(clock.stood_still.0 + span.0);
    }

    pub(crate) fn step(&mut self, node: NodeId, by_ns: i64) {
        let clock = self.of.entry(node).or_default();
        clock.wall_offset_ns = clock.wall_offset_ns.saturating_add(by_ns);
    }
}
