//! The measured quantities, and the goals of Peregrine.

use peregrine_report::record::ScaleValue;

use super::protocol::Transport;
use super::row::Row;

/// A property of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// From the order to create the endpoints until each has all its matches.
    Matched,
    /// From the first write until the last reader has its last sample.
    Delivered,
    /// From the first write until every writer has all acknowledgements.
    Acknowledged,
    /// Datagrams from the order to create until the end of the row.
    Datagrams,
    /// Datagrams that sockets dropped in that time.
    Dropped,
    /// Processor time of the writing thread.
    WritingThread,
    /// Processor time of all threads of the writer's process.
    WriterProcess,
    /// Processor time of all threads of the readers' process.
    ReaderProcess,
    /// Memory of the writers' process above that with an idle participant.
    WriterMemory,
    /// Memory of the readers' process above that with an idle participant.
    ReaderMemory,
    /// Memory of both processes with shared memory above that without.
    ChannelMemory,
    /// Memory of the process that uses most, above that of a process with an idle participant.
    ProcessMemory,
}

impl Quantity {
    /// Name for readers, and unit.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Matched => ("matched", "ms"),
            Self::Delivered => ("delivered", "ms"),
            Self::Acknowledged => ("acknowledged", "ms"),
            Self::Datagrams => ("datagrams sent", "count"),
            Self::Dropped => ("dropped at sockets", "count"),
            Self::WritingThread => ("CPU per write, writing thread", "us"),
            Self::WriterProcess => ("CPU per write, writer's process", "us"),
            Self::ReaderProcess => ("CPU per write, readers' process", "us"),
            Self::WriterMemory => ("memory, writers' process", "MiB"),
            Self::ReaderMemory => ("memory, readers' process", "MiB"),
            Self::ChannelMemory => ("memory of the channels", "MiB"),
            Self::ProcessMemory => ("memory, largest process", "MiB"),
        }
    }

    /// As a record stores it. Only Peregrine has goals, so its transport is given and that of a peer is not.
    pub(super) fn value(self, value: f64, row: Row, own: Option<Transport>) -> ScaleValue {
        let (quantity, unit) = self.names();
        let goal = own.and_then(|transport| self.goal(row, transport));
        ScaleValue { quantity: quantity.into(), unit: unit.into(), value, goal }
    }

    /// Highest value that meets the goal. Rows of other sizes than the default ones have none.
    fn goal(self, row: Row, transport: Transport) -> Option<f64> {
        match row {
            Row::Pairs { writers: 200, readers: 200 } => self.goal_of_pairs(1.0),
            Row::Pairs { writers: 300, readers: 300 } => self.goal_of_pairs(300.0 * 300.0 / (200.0 * 200.0)),
            Row::FanOut { readers: 100 } if self == Self::WritingThread => Some(match transport {
                Transport::Udp => 25.0,
                Transport::Shm => 10.0,
            }),
            Row::Topics { topics: 4_000 } if self == Self::Matched => Some(150.0),
            Row::Topics { topics: 20_000 } if self == Self::Matched => Some(1_000.0),
            Row::Channels { writers: 100, readers: 100 } if self == Self::ChannelMemory => Some(8.0),
            Row::Processes { processes: 40, topics: 10 } => match self {
                Self::Matched => Some(500.0),
                Self::Datagrams => Some(40_000.0),
                Self::ProcessMemory => Some(12e6 / MIB),
                _ => None,
            },
            _ => None,
        }
    }

    /// The goals of 200 writers and 200 readers, in proportion to the pairs.
    fn goal_of_pairs(self, factor: f64) -> Option<f64> {
        match self {
            Self::Matched | Self::Acknowledged => Some(150.0 * factor),
            Self::Delivered => Some(100.0 * factor),
            Self::Datagrams => Some(3_000.0 * factor),
            Self::WriterMemory | Self::ReaderMemory => Some(30.0 * factor),
            Self::Dropped => Some(0.0),
            _ => None,
        }
    }
}

/// Bytes of a MiB.
pub(super) const MIB: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn goal(row: &str, quantity: Quantity, transport: Transport) -> Option<f64> {
        let row: super::super::row::Chosen = row.parse().unwrap();
        quantity.value(1.0, row.0[0], Some(transport)).goal
    }

    #[test]
    fn goals_of_more_pairs_are_in_proportion() {
        let goals = |quantity| ["pairs:200x200", "pairs:300x300"].map(|row| goal(row, quantity, Transport::Udp));
        assert_eq!(goals(Quantity::Matched), [Some(150.0), Some(337.5)]);
        assert_eq!(goals(Quantity::Delivered), [Some(100.0), Some(225.0)]);
        assert_eq!(goals(Quantity::Datagrams), [Some(3_000.0), Some(6_750.0)]);
        assert_eq!(goals(Quantity::ReaderMemory), [Some(30.0), Some(67.5)]);
        assert_eq!(goals(Quantity::Dropped), [Some(0.0), Some(0.0)]);
        assert_eq!(goals(Quantity::WritingThread), [None, None]);
    }

    #[test]
    fn goal_of_a_write_depends_on_the_transport() {
        let goals = [Transport::Udp, Transport::Shm].map(|way| goal("fan-out:100", Quantity::WritingThread, way));
        assert_eq!(goals, [Some(25.0), Some(10.0)]);
        assert_eq!(goal("fan-out:100", Quantity::WriterProcess, Transport::Shm), None);
    }

    #[test]
    fn other_sizes_and_peers_have_no_goal() {
        for row in ["pairs:2x2", "fan-out:3", "topics:3", "channels:2x2", "processes:3x2"] {
            assert_eq!(goal(row, Quantity::Matched, Transport::Udp), None, "{row}");
        }
        let row = Row::Topics { topics: 4_000 };
        assert_eq!(Quantity::Matched.value(1.0, row, Some(Transport::Udp)).goal, Some(150.0));
        assert_eq!(Quantity::Matched.value(1.0, row, None).goal, None);
    }
}
