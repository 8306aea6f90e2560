//! The compared series.

use peregrine_report::record::Test;

use super::pair::Case;

/// A way to move samples, as options of this program.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeriesSpec {
    /// Name in records.
    pub(super) id: &'static str,
    /// Name for readers.
    pub(super) label: &'static str,
    /// Name for the legend of charts.
    pub(super) short_label: &'static str,
    /// Whether it works only within one host.
    pub(super) within_host: bool,
    /// Whether the other series are compared with this one.
    pub(super) floor: bool,
    /// Options of both sides.
    pub(super) options: &'static [&'static str],
    /// Its tests. A latency test has one sample in flight, so there is nothing to batch.
    pub(super) tests: &'static [Test],
    /// Additional options of the publisher in a throughput test.
    pub(super) publisher_options: &'static [&'static str],
}

impl SeriesSpec {
    /// Options of its processes.
    pub(super) fn case(&self) -> Case {
        let words = |options: &[&str]| options.iter().map(|option| (*option).into()).collect();
        Case { both: words(self.options), publisher: words(self.publisher_options) }
    }
}

/// Every series, in the order of the tables.
pub(super) const SERIES: &[SeriesSpec] = &[
    SeriesSpec {
        floor: true,
        ..series("raw-udp", ("raw UDP", "raw UDP"), &["-rawTransport", "-transport", "UDPv4", "-nic", LOOPBACK])
    },
    series("peregrine-best-effort", ("Peregrine best effort", "best effort"), &["-bestEffort", "-nic", LOOPBACK]),
    series("peregrine-reliable", ("Peregrine reliable", "reliable"), RELIABLE),
    SeriesSpec {
        tests: &[Test::Throughput],
        publisher_options: BATCHED,
        ..series(
            "peregrine-best-effort-batched",
            ("Peregrine best effort batched", "b. e. batched"),
            &["-bestEffort", "-nic", LOOPBACK],
        )
    },
    SeriesSpec {
        tests: &[Test::Throughput],
        publisher_options: BATCHED,
        ..series("peregrine-reliable-batched", ("Peregrine reliable batched", "rel. batched"), RELIABLE)
    },
    within_host(
        "peregrine-shared-memory",
        ("Peregrine shared memory", "shared mem."),
        &["-transport", "SHMEM", "-nic", LOOPBACK],
    ),
    within_host(
        "peregrine-flat-data",
        ("Peregrine shared memory, FlatData", "shm FlatData"),
        &["-transport", "SHMEM", "-flatData", "-nic", LOOPBACK],
    ),
    within_host(
        "peregrine-zero-copy",
        ("Peregrine shared memory, zero copy", "zero copy"),
        &["-transport", "SHMEM", "-zeroCopy", "-nic", LOOPBACK],
    ),
    within_host(
        "peregrine-same-process",
        ("Peregrine same process", "same process"),
        &["-sameProcess", "-nic", LOOPBACK],
    ),
];

/// An unbatched series between any two places.
const fn series(
    id: &'static str,
    labels: (&'static str, &'static str),
    options: &'static [&'static str],
) -> SeriesSpec {
    let tests = &[Test::Latency, Test::Throughput];
    let (label, short_label) = labels;
    SeriesSpec {
        id,
        label,
        short_label,
        within_host: false,
        floor: false,
        options,
        tests,
        publisher_options: UNBATCHED,
    }
}

const fn within_host(
    id: &'static str,
    labels: (&'static str, &'static str),
    options: &'static [&'static str],
) -> SeriesSpec {
    SeriesSpec { within_host: true, ..series(id, labels, options) }
}

const RELIABLE: &[&str] = &["-nic", LOOPBACK];
const LOOPBACK: &str = "127.0.0.1";
const UNBATCHED: &[&str] = &["-batchSize", "0"];
/// Batches of 8192 bytes, RTI Perftest's default; samples beyond 4096 bytes are not batched.
const BATCHED: &[&str] = &["-batchSize", "8192"];
