//! The constituents of a run, and its times.

use std::path::PathBuf;
use std::time::Duration;

use crate::peer::Program;
use crate::qos::Qos;

/// Between two samples.
pub(super) const PERIOD: Duration = Duration::from_millis(10);
pub(super) const SAMPLE_BYTES: u32 = 64;
/// A longer time without a sample is a gap.
pub(super) const GAP: Duration = Duration::from_millis(500);

/// How long both sides are watched after the outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// At least for this long.
    pub at_least: Duration,
    /// At most for this long, if data do not flow.
    pub at_most: Duration,
}

/// The peers of a run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The program that writes.
    pub writer: Program,
    /// The program that reads.
    pub reader: Program,
    /// The lease of both participants; `None` is 10 s.
    pub lease_ms: Option<u32>,
    /// The folders with the documents of DDS Security, of the writer and of the reader; `None` is no security.
    pub security: Option<[PathBuf; 2]>,
    /// The QoS of both endpoints.
    pub qos: Qos,
    /// How long to watch afterwards.
    pub watch: Watch,
}

/// The times of a run, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The outage began.
    pub(super) began_ns: u64,
    /// Packets can flow again.
    pub(super) healed_ns: u64,
    /// The writer wrote its last sample.
    pub(super) ended_ns: u64,
}
