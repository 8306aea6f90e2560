//! A node that stands still while its sockets receive.

use peregrine_rtps::time::Instant;

use crate::network::Datagram;

/// Bytes that the sockets of a node hold: the default receive buffer of Linux. Further datagrams are lost.
const SOCKET_BYTES_MAX: usize = 212_992;
/// Bytes that a datagram counts for beside its length, because the kernel counts the memory of its buffer.
const DATAGRAM_OVERHEAD_BYTES: usize = 512;

/// The datagrams that arrived while a node stood still.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrivals {
    /// Datagrams that waited in the sockets.
    pub waited: u64,
    /// Datagrams that were lost because the sockets were full.
    pub lost: u64,
}

/// A node that stands still.
#[derive(Debug)]
pub(crate) struct Standstill {
    since: Instant,
    waiting: Vec<Datagram>,
    bytes: usize,
    lost: u64,
}

impl Standstill {
    pub(crate) const fn new(since: Instant) -> Self {
        Self { since, waiting: Vec::new(), bytes: 0, lost: 0 }
    }

    pub(crate) const fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn push(&mut self, datagram: Datagram) {
        let bytes = datagram.bytes.len() + DATAGRAM_OVERHEAD_BYTES;
        if self.bytes + bytes > SOCKET_BYTES_MAX {
            self.lost += 1;
            return;
        }
        self.bytes += bytes;
        self.waiting.push(datagram);
    }

    pub(crate) const fn arrivals(&self) -> Arrivals {
        Arrivals { waited: self.waiting.len() as u64, lost: self.lost }
    }

    pub(crate) fn into_waiting(self) -> Vec<Datagram> {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NodeId;

    #[test]
    fn sockets_of_a_standing_node_lose_what_they_have_no_room_for() {
        let mut standstill = Standstill::new(Instant(0));
        let source = "10.0.0.1:7411".parse().unwrap();
        let datagram = Datagram { from: NodeId(0), source, to: NodeId(1), port: 7411, bytes: vec![0; 1400] };
        (0..200).for_each(|_| standstill.push(datagram.clone()));
        let arrivals = standstill.arrivals();
        assert_eq!(arrivals.waited + arrivals.lost, 200);
        assert!(arrivals.lost > 0 && arrivals.waited > 100, "{arrivals:?}");
        assert_eq!(standstill.into_waiting().len() as u64, arrivals.waited);
    }
}
