//! One measurement, with the results of each of its processes.

use serde::{Deserialize, Serialize};

use super::campaign::Case;
use super::detail::{BlockPlace, OneWay, PayloadUse, ProbeOutcome, ResourceUse, SecurityUse, WireUse};
use crate::stats::LatencyResult;

/// One run of a publisher and a subscriber at one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// [`Series::id`](super::Series::id)
    pub series: String,
    /// Purpose of the run.
    pub test: Test,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Its position among interleaved runs, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockPlace>,
    /// The varied settings, if it belongs to a campaign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<Box<Case>>,
    /// Result of the first publisher.
    pub publisher: SideResult,
    /// Result of the first subscriber.
    pub subscriber: SideResult,
    /// Results of further publishers and subscribers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<SideResult>,
}

/// Kind of run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Ping-pong, one sample at a time.
    Latency,
    /// The highest rate.
    Throughput,
    /// Samples on an absolute schedule, regardless of delays of earlier ones; some or all of them are answered.
    OpenLoop,
}

/// Result of one process at one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideResult {
    /// The side of the process.
    pub side: Side,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// Whether the run ended early.
    pub cut_short: bool,
    /// Processor time of the process as a share of all cores.
    pub cpu_percent: f64,
    /// One-way times from the actual send. Publisher: half round trips; in an open loop of a campaign on one host, the
    /// times that all subscribers measured together. Subscriber: its own times, only in such a case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyResult>,
    /// One-way times from the scheduled send, if there is a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_latency: Option<LatencyResult>,
    /// Sent samples. Publisher only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<SendResult>,
    /// Received samples. Subscriber only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputResult>,
    /// Results of the probes. Open loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbeOutcome>,
    /// One-way times of round trips. Open loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWay>,
    /// Processor, memory and scheduling of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceUse>,
    /// Traffic of the sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireUse>,
    /// Whether payloads were written and checked; absent if no side did either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadUse>,
    /// How samples are protected; absent without security.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<SecurityUse>,
}

/// A side of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The sending process.
    #[default]
    Publisher,
    /// The receiving process.
    Subscriber,
}

/// Sent samples of a publisher.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SendResult {
    /// Written samples.
    pub samples: u64,
    /// Samples that the sender dropped because there was no room.
    pub dropped: u64,
    /// Pings without an answer.
    pub unanswered_pings: u64,
    /// From the first to the last send.
    pub duration_ns: u64,
    /// Delay of each send from its schedule, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<LatencyResult>,
}

/// Received samples of a subscriber.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ThroughputResult {
    /// Different samples received.
    pub samples: u64,
    /// Their bytes, `data_len` each.
    pub bytes: u64,
    /// From the first sample to the end of the test.
    pub duration_ns: u64,
    /// Samples that never arrived.
    pub lost: u64,
    /// Samples that arrived more than once.
    pub duplicate: u64,
    /// Samples that arrived after a later one.
    pub reordered: u64,
}

impl ThroughputResult {
    /// Samples per second; 0 if no sample was received.
    pub fn samples_per_s(&self) -> f64 {
        if self.duration_ns == 0 { 0.0 } else { self.samples as f64 * 1e9 / self.duration_ns as f64 }
    }

    /// Megabits (10⁶) per second; 0 if no sample was received.
    pub fn mbit_per_s(&self) -> f64 {
        if self.duration_ns == 0 { 0.0 } else { self.bytes as f64 * 8e3 / self.duration_ns as f64 }
    }

    /// Lost samples as a percentage of sent ones; 0 if none was sent.
    pub fn lost_percent(&self) -> f64 {
        let sent = self.samples + self.lost;
        if sent == 0 { 0.0 } else { self.lost as f64 * 100.0 / sent as f64 }
    }
}

impl Measurement {
    /// Corrupt samples, as all sides counted them.
    pub fn corrupt(&self) -> u64 {
        let sides = [&self.publisher, &self.subscriber].into_iter().chain(&self.others);
        sides.filter_map(|side| side.payload).map(|payload| payload.corrupt).sum()
    }

    /// `None` if no side reports payloads.
    pub(super) fn payload_text(&self) -> Option<String> {
        if self.publisher.probes.is_some() {
            return None;
        }
        let (publisher, subscriber) = (self.publisher.payload, self.subscriber.payload);
        let known = subscriber.or(publisher)?;
        let bound = known.max_octets.map_or_else(String::new, |len| format!(", at most {len} bytes of each sample"));
        let is = |of: fn(&PayloadUse) -> bool| [publisher, subscriber].iter().flatten().any(of);
        Some(match (is(|payload| payload.written), subscriber.is_some_and(|payload| payload.checked)) {
            (true, true) => format!("written and checked{bound}"),
            (true, false) => format!("written and not checked{bound}"),
            (false, _) => "neither written nor checked".into(),
        })
    }

    /// The same result with fewer buckets in its histograms; see [`LatencyResult::coarsened`].
    #[must_use]
    pub fn coarsened(mut self) -> Self {
        for side in [&mut self.publisher, &mut self.subscriber].into_iter().chain(&mut self.others) {
            let delay = side.send.as_mut().and_then(|send| send.delay.as_mut());
            for latency in [side.latency.as_mut(), side.scheduled_latency.as_mut(), delay].into_iter().flatten() {
                *latency = latency.coarsened();
            }
        }
        self
    }
}
