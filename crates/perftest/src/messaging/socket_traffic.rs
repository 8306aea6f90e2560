//! Traffic of plain sockets, counted at each call.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use peregrine_report::record::WireUse;

/// The sockets of one process.
#[derive(Debug, Clone, Default)]
pub(crate) struct SocketTraffic(Arc<Mutex<Vec<(Direction, Carried)>>>);

/// Traffic of one endpoint's sockets; one thread at a time counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Carried(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    datagrams: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Direction {
    Out,
    In,
}

impl SocketTraffic {
    /// Counts what an endpoint sends.
    pub(crate) fn sent(&self) -> Carried {
        self.add(Direction::Out)
    }

    /// Counts what an endpoint receives.
    pub(crate) fn received(&self) -> Carried {
        self.add(Direction::In)
    }

    fn add(&self, direction: Direction) -> Carried {
        let carried = Carried::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((direction, carried.clone()));
        carried
    }

    /// Traffic so far; each datagram is a system call.
    pub(crate) fn wire_use(&self) -> WireUse {
        let mut wire = WireUse::default();
        for (direction, Carried(counts)) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let [datagrams, bytes, errors] =
                [&counts.datagrams, &counts.bytes, &counts.errors].map(|count| count.load(Ordering::Relaxed));
            if *direction == Direction::Out {
                wire.send_calls += datagrams + errors;
                wire.datagrams_sent += datagrams;
                wire.bytes_sent += bytes;
                wire.send_errors += errors;
            } else {
                wire.receive_calls += datagrams;
                wire.datagrams_received += datagrams;
                wire.bytes_received += bytes;
            }
        }
        wire
    }
}

impl Carried {
    /// Counts a datagram.
    #[inline]
    pub(crate) fn datagram(&self, bytes: usize) {
        add(&self.0.datagrams, 1);
        add(&self.0.bytes, bytes as u64);
    }

    /// Counts a datagram that could not be sent.
    #[cold]
    pub(crate) fn error(&self) {
        add(&self.0.errors, 1);
    }
}

/// Cheaper than an atomic addition: only one thread writes.
#[inline]
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_of_endpoints_is_summed_by_direction() {
        let traffic = SocketTraffic::default();
        let (one, other, input) = (traffic.sent(), traffic.sent(), traffic.received());
        one.datagram(10);
        other.datagram(5);
        other.error();
        input.datagram(7);
        input.datagram(8);
        let wire = traffic.wire_use();
        assert_eq!((wire.send_calls, wire.datagrams_sent, wire.bytes_sent, wire.send_errors), (3, 2, 15, 1));
        assert_eq!((wire.receive_calls, wire.datagrams_received, wire.bytes_received), (2, 2, 15));
    }
}
