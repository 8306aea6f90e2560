//! Additions of schema version 2 to a measurement.

use serde::{Deserialize, Serialize};

use crate::stats::LatencyResult;

/// Position of a run among interleaved ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockPlace {
    /// Number of the block, from 0.
    pub number: u32,
    /// 0 to 3.
    pub place: u8,
    /// The alternative for which the run counts.
    pub role: Role,
    /// Whether both alternatives of this block are the same, to measure the noise of the machine.
    pub control: bool,
}

/// One of two alternatives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The reference.
    A,
    /// The alternative.
    B,
}

/// Results of the samples that requested an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeOutcome {
    /// Samples per second of the schedule, probes and others.
    pub offered_per_s: f64,
    /// Samples per second that were sent.
    pub achieved_per_s: f64,
    /// One sample in this many is a probe.
    pub probe_every: u64,
    /// Probes sent.
    pub sent: u64,
    /// Probes answered.
    pub answered: u64,
    /// Late and duplicate answers.
    pub stale: u64,
    /// Round trips of the probes from the intended send: the view of a user that does not wait for the sender.
    pub from_intended: LatencyResult,
    /// Round trips of the same probes from the actual send: the view of a sender that delays itself.
    pub from_actual: LatencyResult,
}

/// The two one-way times of a round trip.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OneWay {
    /// Offset of the receiver's clock, and its uncertainty.
    pub clock: ClockOffset,
    /// From send to receipt at the other side.
    pub forward: LatencyResult,
    /// From receipt to the send of the answer.
    pub service: LatencyResult,
    /// From the send of the answer to its receipt.
    pub back: LatencyResult,
}

/// Offset of the other side's clock from this side's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Whether both sides read the same clock; offset and uncertainty are then 0.
    pub same_clock: bool,
    /// Estimate, in the middle of the run.
    pub offset_ns: i64,
    /// The true offset lies within this distance, however the round trip divides into one-way times.
    pub uncertainty_ns: u64,
    /// Change of the offset per second.
    pub drift_ns_per_s: f64,
}

/// Resource use of a process during one measurement. Absent values were not reported by the system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceUse {
    /// The whole measurement.
    pub total: Interval,
    /// Its consecutive parts; empty if it was shorter than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
}

/// Resource use of a process between two moments, and its memory at the second one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Length.
    pub wall_ns: u64,
    /// Processor time in the program, of all threads. Separated from the system's by ticks of 10 ms.
    pub user_ns: u64,
    /// Processor time in the kernel, of all threads.
    pub system_ns: u64,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// Peak resident memory since the start of the process.
    pub rss_peak_bytes: Option<u64>,
    /// Resident memory with shared pages divided among their users. Only for whole measurements, because the kernel
    /// takes long to compute it.
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

    /// Processor time as a share of one core; 0 if no time has passed.
    pub fn cpu_percent_of_core(&self) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { self.cpu_ns() as f64 * 100.0 / self.wall_ns as f64 }
    }
}

/// Traffic of the sockets of one side during one measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WireUse {
    /// Used network and addresses.
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
    /// Retransmitted samples or fragments; absent if the middleware does not report them.
    pub repairs: Option<u64>,
}

/// Whether payloads were written and checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct PayloadUse {
    /// Whether the sender wrote every sample.
    pub written: bool,
    /// Whether the receiver checked every sample.
    pub checked: bool,
    /// Most bytes of each sample that are written and checked; absent if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_octets: Option<u64>,
    /// Corrupt samples.
    pub corrupt: u64,
    /// Cost of writing one sample, measured separately, in nanoseconds.
    pub write_ns: f64,
    /// Cost of checking one sample, measured separately, in nanoseconds.
    pub check_ns: f64,
}

/// How samples are protected. The kinds are those of the governance document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SecurityUse {
    /// The governance document: its path, or its name if the tool has made it. Empty with a pre-shared key alone.
    pub governance: String,
    /// The cipher of what the process sends.
    pub cipher: String,
    /// Protection by a pre-shared key of messages that no key of a participant protects.
    pub pre_shared: String,
    /// Protection of messages.
    pub messages: String,
    /// Protection of submessages of the topic of data.
    pub submessages: String,
    /// Protection of payloads of the topic of data.
    pub payloads: String,
    /// Protection of discovery.
    pub discovery: String,
    /// Protection of liveliness.
    pub liveliness: String,
}

/// A search for the highest rate that a path sustains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The series that was searched.
    pub series: String,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// The highest sustained rate, in samples per second; 0 without any.
    pub rate_per_s: f64,
    /// The lowest failed rate above it; absent if the highest rate of the search was sustained.
    pub failed_per_s: Option<f64>,
    /// The bound on the 99th percentile of the round trip from the intended send.
    pub p99_limit_ns: u64,
    /// Every try, in order.
    pub steps: Vec<SearchStep>,
}

/// One try of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Requested samples per second.
    pub offered_per_s: f64,
    /// Samples per second that were sent.
    pub achieved_per_s: f64,
    /// Samples that did not arrive.
    pub lost: u64,
    /// 99th percentile of the round trip from the intended send.
    pub p99_ns: u64,
    /// Why the rate counts as not sustained; empty if it was.
    pub refused: String,
}
