//! What is measured against what.

use peregrine_report::record::Test;

use super::pair::Case;

/// One way of moving samples, as options of this program.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeriesSpec {
    /// Short name, kept in records.
    pub(super) id: &'static str,
    /// Name for readers.
    pub(super) label: &'static str,
    /// Whether the others are compared with this one.
    pub(super) floor: bool,
    /// Options of both sides.
    pub(super) options: &'static [&'static str],
    /// The tests it takes part in. A latency test has one sample under way, hence no batches.
    pub(super) tests: &'static [Test],
    /// Further options of the publisher in a throughput test.
    pub(super) publisher_options: &'static [&'static str],
}

impl SeriesSpec {
    /// The options of its processes.
    pub(super) fn case(&self) -> Case {
        let words = |options: &[&str]| options.iter().map(|option| (*option).into()).collect();
        Case { both: words(self.options), publisher: words(self.publisher_options) }
    }
}

/// Every series, in the order of the tables.
pub(super) const SERIES: &[SeriesSpec] = &[
    SeriesSpec {
        id: "raw-udp",
        label: "raw UDP",
        floor: true,
        options: &["-rawTransport", "-transport", "UDPv4", "-nic", LOOPBACK],
        tests: &[Test::Latency, Test::Throughput],
        publisher_options: UNBATCHED,
    },
    SeriesSpec {
        id: "peregrine-best-effort",
        label: "Peregrine best effort",
        floor: false,
        options: &["-bestEffort", "-nic", LOOPBACK],
        tests: &[Test::Latency, Test::Throughput],
        publisher_options: UNBATCHED,
    },
    SeriesSpec {
        id: "peregrine-reliable",
        label: "Peregrine reliable",
        floor: false,
        options: &["-nic", LOOPBACK],
        tests: &[Test::Latency, Test::Throughput],
        publisher_options: UNBATCHED,
    },
    SeriesSpec {
        id: "peregrine-best-effort-batched",
        label: "Peregrine best effort batched",
        floor: false,
        options: &["-bestEffort", "-nic", LOOPBACK],
        tests: &[Test::Throughput],
        publisher_options: BATCHED,
    },
    SeriesSpec {
        id: "peregrine-reliable-batched",
        label: "Peregrine reliable batched",
        floor: false,
        options: &["-nic", LOOPBACK],
        tests: &[Test::Throughput],
        publisher_options: BATCHED,
    },
];

const LOOPBACK: &str = "127.0.0.1";
const UNBATCHED: &[&str] = &["-batchSize", "0"];
/// Batches of 8192 bytes, which are RTI Perftest's default; beyond 4096 bytes there are none.
const BATCHED: &[&str] = &["-batchSize", "8192"];
