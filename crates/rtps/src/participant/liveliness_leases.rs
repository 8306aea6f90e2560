//! The liveliness leases of the local writers whose liveliness the participant asserts.

use alloc::collections::BTreeMap;

use crate::qos::{Liveliness, LivelinessKind};
use crate::time::Span;

/// How many local writers have each lease. Infinite leases and those of MANUAL_BY_TOPIC do not count.
#[derive(Debug, Default)]
pub(super) struct LivelinessLeases {
    automatic: BTreeMap<Span, usize>,
    manual_by_participant: BTreeMap<Span, usize>,
}

impl LivelinessLeases {
    pub(super) fn add(&mut self, liveliness: Liveliness) {
        if let Some(counts) = self.counts_of(liveliness) {
            *counts.entry(liveliness.lease_duration).or_default() += 1;
        }
    }

    /// Removes a lease that was added.
    pub(super) fn remove(&mut self, liveliness: Liveliness) {
        let Some(counts) = self.counts_of(liveliness) else { return };
        let Some(count) = counts.get_mut(&liveliness.lease_duration) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&liveliness.lease_duration);
        }
    }

    /// The shortest lease of the writers of this kind.
    pub(super) fn shortest(&self, kind: LivelinessKind) -> Option<Span> {
        let counts = match kind {
            LivelinessKind::Automatic => &self.automatic,
            LivelinessKind::ManualByParticipant => &self.manual_by_participant,
            LivelinessKind::ManualByTopic => return None,
        };
        counts.keys().next().copied()
    }

    fn counts_of(&mut self, liveliness: Liveliness) -> Option<&mut BTreeMap<Span, usize>> {
        if liveliness.lease_duration.is_infinite() {
            return None;
        }
        match liveliness.kind {
            LivelinessKind::Automatic => Some(&mut self.automatic),
            LivelinessKind::ManualByParticipant => Some(&mut self.manual_by_participant),
            LivelinessKind::ManualByTopic => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortest_lease_is_that_of_the_writers_that_are_left() {
        let mut leases = LivelinessLeases::default();
        let of = |kind, seconds| Liveliness { kind, lease_duration: Span::from_secs(seconds) };
        let short = of(LivelinessKind::Automatic, 1);
        leases.add(of(LivelinessKind::Automatic, 3));
        leases.add(short);
        leases.add(short);
        leases.add(of(LivelinessKind::ManualByTopic, 1));
        leases.add(Liveliness { kind: LivelinessKind::ManualByParticipant, lease_duration: Span::INFINITE });
        leases.remove(short);
        assert_eq!(leases.shortest(LivelinessKind::Automatic), Some(Span::from_secs(1)));
        leases.remove(short);
        assert_eq!(leases.shortest(LivelinessKind::Automatic), Some(Span::from_secs(3)));
        assert_eq!(leases.shortest(LivelinessKind::ManualByParticipant), None);
        assert_eq!(leases.shortest(LivelinessKind::ManualByTopic), None);
    }
}
