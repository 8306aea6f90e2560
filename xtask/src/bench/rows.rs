//! The rows of the table: measurement, floor and target.

/// The comparison of one row of the table.
pub(super) struct Row {
    /// The description in the table.
    pub(super) what: &'static str,
    pub(super) measure: Measure,
    pub(super) place: Place,
    /// Raw sockets.
    pub(super) floor: Case,
    pub(super) ours: Case,
    pub(super) target: Target,
}

/// One path of samples, as options of `perftest`.
#[derive(Clone, Copy)]
pub(super) struct Case {
    /// Bytes of a sample.
    pub(super) data_len: u32,
    /// Options of both sides.
    pub(super) both: &'static [&'static str],
    /// Further options of the publisher.
    pub(super) publisher: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// One-way p50: less is better.
    Latency,
    /// Payload received per second: more is better.
    Throughput,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Two processes on loopback.
    Loopback,
    /// Two network namespaces joined by a veth pair, MTU 1500, offloads on.
    TwoHosts,
}

/// The ratio to the floor.
#[derive(Clone, Copy)]
pub(super) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

const RAW: &[&str] = &["-raw"];
const UNBATCHED: &[&str] = &["-batchSize", "0"];
const POLL: &[&str] = &["-waitStrategy", "poll"];
const RAW_POLL: &[&str] = &["-raw", "-waitStrategy", "poll"];
const WAIT_SET: &[&str] = &["-useReadThread"];

const fn raw(data_len: u32) -> Case {
    Case { data_len, both: RAW, publisher: &[] }
}

const fn latency(what: &'static str, data_len: u32, both: &'static [&'static str], at_most: f64) -> Row {
    Row {
        what,
        measure: Measure::Latency,
        place: Place::Loopback,
        floor: raw(data_len),
        ours: Case { data_len, both, publisher: &[] },
        target: Target::AtMost(at_most),
    }
}

const fn throughput(what: &'static str, data_len: u32, publisher: &'static [&'static str], at_least: f64) -> Row {
    Row {
        what,
        measure: Measure::Throughput,
        place: Place::Loopback,
        floor: raw(data_len),
        ours: Case { data_len, both: &[], publisher },
        target: Target::AtLeast(at_least),
    }
}

/// Rows of the table. All measurements of Peregrine are reliable.
pub(super) const ROWS: &[Row] = &[
    latency("listener, one-way p50, 32 B", 32, &[], 1.25),
    latency("listener, one-way p50, 1024 B", 1024, &[], 1.25),
    latency("listener, one-way p50, 4096 B", 4096, &[], 1.25),
    latency("listener, one-way p50, 63000 B", 63_000, &[], 1.4),
    latency("WaitSet, one-way p50, 32 B", 32, WAIT_SET, 1.5),
    Row {
        floor: Case { data_len: 32, both: RAW_POLL, publisher: &[] },
        ..latency("Poll, one-way p50, 32 B (floor polls too)", 32, POLL, 1.4)
    },
    throughput("unbatched throughput, 32 B", 32, UNBATCHED, 0.85),
    throughput("unbatched throughput, 1024 B", 1024, UNBATCHED, 0.85),
    throughput("unbatched throughput, 4096 B", 4096, UNBATCHED, 0.95),
    throughput("unbatched throughput, 8192 B", 8192, UNBATCHED, 0.95),
    throughput("unbatched throughput, 12000 B", 12_000, UNBATCHED, 0.95),
    throughput("unbatched throughput, 16384 B", 16_384, UNBATCHED, 0.95),
    throughput("unbatched throughput, 32768 B", 32_768, UNBATCHED, 0.95),
    throughput("unbatched throughput, 63000 B", 63_000, UNBATCHED, 0.85),
    throughput("batched throughput (8192 B), 32 B", 32, &["-batchSize", "8192"], 6.0),
    Row {
        floor: raw(63_000),
        ours: Case { data_len: 1_000_000, both: &["-dataLen", "1000000"], publisher: UNBATCHED },
        ..throughput("1 MB samples (floor 63000 B), Mbit/s", 0, &[], 0.6)
    },
    Row { place: Place::TwoHosts, ..latency("two hosts, one-way p50, 63000 B", 63_000, &[], 0.45) },
    Row { place: Place::TwoHosts, ..throughput("two hosts, unbatched, 1024 B", 1024, UNBATCHED, 0.85) },
];
