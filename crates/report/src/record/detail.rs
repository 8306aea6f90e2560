//! What schema version 2 adds to a measurement.

use serde::{Deserialize, Serialize};

use crate::stats::LatencyResult;

/// Where a run stands among interleaved ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPlace {
    /// Number of the block, from 0.
    pub number: u32,
    /// 0 to 3.
    pub place: u8,
    /// Which of the two alternatives the run counts for.
    pub role: Role,
    /// Whether both alternatives of this block are the same one, to show what the machine makes of nothing.
    pub control: bool,
}

/// One of two alternatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What is compared with.
    A,
    /// What is compared.
    B,
}

/// What became of the samples that wanted an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeOutcome {
    /// Samples per second that the schedule asked for, probes and others.
    pub offered_per_s: f64,
    /// Samples per second that left.
    pub achieved_per_s: f64,
    /// One sample in this many is a probe.
    pub probe_every: u64,
    /// Probes sent.
    pub sent: u64,
    /// Probes answered.
    pub answered: u64,
    /// Answers that came too late, or twice.
    pub stale: u64,
    /// Round trips of the probes from the intended send: what a user who does not wait for the sender sees.
    pub from_intended: LatencyResult,
    /// Round trips of the same probes from the actual send: what a sender sees that held itself back.
    pub from_actual: LatencyResult,
}

/// The two ways of a round trip, each by itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OneWay {
    /// How far the receiver's clock is ahead, and how well that is known.
    pub clock: ClockOffset,
    /// From send to receipt at the other side.
    pub forward: LatencyResult,
    /// From receipt to the send of the answer.
    pub service: LatencyResult,
    /// From the send of the answer to its receipt.
    pub back: LatencyResult,
}

/// How far the other side's clock is ahead of this side's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Whether both sides read the same clock; offset and uncertainty are then 0.
    pub same_clock: bool,
    /// Estimate, in the middle of the run.
    pub offset_ns: i64,
    /// The true offset lies within this distance, whatever share of the round trip either way took.
    pub uncertainty_ns: u64,
    /// Change of the offset per second.
    pub drift_ns_per_s: f64,
}

/// What a process used during one measurement. Absent where the system does not tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// The whole measurement.
    pub total: Interval,
    /// Its parts, one after the other; empty when it was shorter than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
}

/// What a process used between two moments, and its memory at the second of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Length.
    pub wall_ns: u64,
    /// Processor time in the program, of all threads. Divided from the system's by ticks of 10 ms.
    pub user_ns: u64,
    /// Processor time in the kernel, of all threads.
    pub system_ns: u64,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Most resident memory since the process began.
    pub rss_peak_bytes: Option<u64>,
    /// Resident memory with shared pages divided among their users. Only for whole measurements: the kernel takes
    /// its time to count it.
    pub pss_bytes: Option<u64>,
    /// How often a thread gave up its core to wait.
    pub voluntary_switches: u64,
    /// How often a thread lost its core.
    pub involuntary_switches: u64,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Page faults served from storage.
    pub major_faults: u64,
}

impl Interval {
    /// Processor time of the program and the kernel.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// Processor time as a share of one core; 0 when no time has passed.
    pub fn cpu_percent_of_core(&self) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { self.cpu_ns() as f64 * 100.0 / self.wall_ns as f64 }
    }
}

/// What went over the sockets of one side during one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WireUse {
    /// Network and addresses really used.
    pub path: Vec<String>,
    /// System calls that sent.
    pub send_calls: u64,
    /// System calls that received.
    pub receive_calls: u64,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// UDP payload sent.
    pub bytes_sent: u64,
    /// UDP payload received.
    pub bytes_received: u64,
    /// Datagrams that the kernel dropped because a receive buffer was full.
    pub kernel_drops: u64,
    /// Sends that failed.
    pub send_errors: u64,
    /// Samples or fragments sent again; absent where the middleware does not tell.
    pub repairs: Option<u64>,
}

/// Whether the bytes of the samples were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PayloadUse {
    /// Whether the sender wrote every sample.
    pub written: bool,
    /// Whether the receiver compared every sample.
    pub checked: bool,
    /// Bytes of each sample that are written and compared at most; absent when it is all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_octets: Option<u64>,
    /// Samples that were not what had been sent.
    pub corrupt: u64,
    /// What writing one sample cost, measured apart, in nanoseconds.
    pub write_ns: f64,
    /// What checking one sample cost, measured apart, in nanoseconds.
    pub check_ns: f64,
}

/// A search for the highest rate that a path sustains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The series that was searched.
    pub series: String,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// The highest rate that was sustained, in samples per second; 0 when none was.
    pub rate_per_s: f64,
    /// The lowest rate above it that was not; absent when the highest rate that was to be tried was sustained.
    pub failed_per_s: Option<f64>,
    /// The bound on the 99th percentile of the round trip from the intended send.
    pub p99_limit_ns: u64,
    /// Every rate that was tried, in order.
    pub steps: Vec<SearchStep>,
}

/// One rate that was tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Samples per second that were asked for.
    pub offered_per_s: f64,
    /// Samples per second that left.
    pub achieved_per_s: f64,
    /// Samples that did not arrive.
    pub lost: u64,
    /// 99th percentile of the round trip from the intended send.
    pub p99_ns: u64,
    /// Why the rate counts as not sustained; empty when it was.
    pub refused: String,
}
