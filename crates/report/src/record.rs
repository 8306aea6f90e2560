//! The result record: JSON lines, one object per line, each with a `kind`.
//!
//! The first line is a [`Header`], which names the version of the schema. A reader refuses a version it does not know,
//! and an end line tells a finished record from one that was cut off.
//!
//! Version 2 adds to version 1, and takes nothing away: open-loop measurements, blocks of interleaved comparisons, what
//! the process and the wire were used for, whether payloads were checked, times one way, searches, and more about the
//! host. Version 3 adds campaigns: the plan, the middleware behind a series, what each measurement varies, further
//! publishers and subscribers, measurements that could not be made. Version 5 adds how much of a payload was looked at, and how threads
//! wait. An older record is read as one that does not tell
//! these.

use std::fmt;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

pub use self::campaign::{Case, Delivery, PeerFacts, PlanFacts, Publishing, Reliability, Skipped, Wait};
pub use self::detail::{
    BlockPlace, ClockOffset, Interval, OneWay, PayloadUse, ProbeOutcome, ResourceUse, Role, SearchResult, SearchStep,
    WireUse,
};
use crate::stats::LatencyResult;

mod campaign;
mod detail;

/// Version of the schema that this crate writes.
pub const SCHEMA_VERSION: u32 = 5;
/// Oldest version of the schema that this crate reads.
pub const OLDEST_SCHEMA_VERSION: u32 = 1;

/// One line of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    /// First line.
    Header(Header),
    /// The machine.
    Host(Box<HostFacts>),
    /// One measurement.
    Measurement(Box<Measurement>),
    /// A search for the highest rate that a path sustains.
    Search(Box<SearchResult>),
    /// A measurement that was planned and was not made.
    Skipped(Box<Skipped>),
    /// Something that lowers the worth of the numbers.
    Warning(Warning),
    /// Last line.
    End(End),
}

/// Who measured, when, with which settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema: u32,
    /// Name of the tool.
    pub tool: String,
    /// Version of the tool.
    pub version: String,
    /// Start, UTC, `YYYY-MM-DDThh:mm:ssZ`.
    pub created_utc: String,
    /// The command line as typed.
    pub command_line: Vec<String>,
    /// The series in the order in which they are to be shown.
    pub series: Vec<Series>,
    /// Sizes in bytes.
    pub data_lens: Vec<u64>,
    /// Repetitions of every measurement.
    pub repetitions: u32,
    /// Length of one measurement in milliseconds.
    pub measurement_ms: u64,
    /// Cores that publisher and subscriber were bound to; empty when they were not.
    pub pinned_cores: Vec<usize>,
    /// Whether the tool held `/dev/cpu_dma_latency` at 0.
    pub idle_states_disabled: bool,
    /// The plan, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<PlanFacts>>,
}

/// One way of moving samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Short name, unique in the record.
    pub id: String,
    /// Name for readers.
    pub label: String,
    /// Whether the other series are compared with this one.
    pub floor: bool,
    /// Options common to both sides.
    pub options: Vec<String>,
    /// The middleware, when the record compares several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Box<PeerFacts>>,
}

/// One run of a publisher and a subscriber at one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// [`Series::id`]
    pub series: String,
    /// What the run was for.
    pub test: Test,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// Its place among interleaved runs, when it was one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockPlace>,
    /// What the campaign varies, when it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<Box<Case>>,
    /// What the first publisher saw.
    pub publisher: SideResult,
    /// What the first subscriber saw.
    pub subscriber: SideResult,
    /// What further publishers and subscribers saw.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<SideResult>,
}

/// Kind of run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Ping-pong, one sample at a time.
    Latency,
    /// As many samples as will go.
    Throughput,
    /// Samples on an absolute schedule, whatever became of those before them; some or all of them answered.
    OpenLoop,
}

/// What one process measured at one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideResult {
    /// Which side.
    pub side: Side,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// Whether the run ended before its time.
    pub cut_short: bool,
    /// Processor time of the process as a share of all cores.
    pub cpu_percent: f64,
    /// Times one way, from the actual send. Of a publisher: half round trips; in an open loop of a campaign on one host, what all
    /// subscribers measured together. Of a subscriber: its own, in such a case only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyResult>,
    /// The same from the scheduled send, where there is a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_latency: Option<LatencyResult>,
    /// What was sent. Publisher only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<SendResult>,
    /// What was received. Subscriber only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<ThroughputResult>,
    /// What became of the answers. Open loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbeOutcome>,
    /// Times of the two ways of a round trip. Open loop only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWay>,
    /// Processor, memory and scheduling of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceUse>,
    /// What went over the sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<WireUse>,
    /// Whether payloads were written and checked; absent when nobody did either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<PayloadUse>,
}

/// Which side of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The sending process.
    #[default]
    Publisher,
    /// The receiving process.
    Subscriber,
}

/// What a publisher sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SendResult {
    /// Samples handed over.
    pub samples: u64,
    /// Samples that found no room and were dropped by the sender.
    pub dropped: u64,
    /// Pings without an answer.
    pub unanswered_pings: u64,
    /// From the first to the last send.
    pub duration_ns: u64,
    /// Lateness of each send against its schedule, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<LatencyResult>,
}

/// What a subscriber received.
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
    /// Samples per second; 0 when nothing was received.
    pub fn samples_per_s(&self) -> f64 {
        if self.duration_ns == 0 { 0.0 } else { self.samples as f64 * 1e9 / self.duration_ns as f64 }
    }

    /// Megabits (10⁶) per second; 0 when nothing was received.
    pub fn mbit_per_s(&self) -> f64 {
        if self.duration_ns == 0 { 0.0 } else { self.bytes as f64 * 8e3 / self.duration_ns as f64 }
    }

    /// Lost samples as a percentage of those sent; 0 when nothing was sent.
    pub fn lost_percent(&self) -> f64 {
        let sent = self.samples + self.lost;
        if sent == 0 { 0.0 } else { self.lost as f64 * 100.0 / sent as f64 }
    }
}

/// Something that lowers the worth of the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What it is, and what to do about it.
    pub text: String,
}

/// How the record ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whether everything that was planned was measured.
    pub complete: bool,
    /// Why not, when not.
    pub reason: String,
}

/// The machine a record was made on. Text is empty, and a number absent, where the system does not tell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Processor model.
    pub cpu_model: String,
    /// Cores the process may use.
    pub cores: usize,
    /// Threads per core.
    pub threads_per_core: Option<u32>,
    /// Frequency governor.
    pub governor: String,
    /// Driver of idle states.
    pub idle_driver: String,
    /// Governor of idle states.
    pub idle_governor: String,
    /// Processes, other than this one, that hold `/dev/cpu_dma_latency`.
    pub cpu_dma_latency_holders: Vec<String>,
    /// Kernel name, release, build.
    pub kernel: String,
    /// Kernel command line options that concern timing.
    pub kernel_options: Vec<String>,
    /// Mitigations in force, `name: state`.
    pub mitigations: Vec<String>,
    /// Clock source.
    pub clock_source: String,
    /// Hypervisor or `none`.
    pub virtualisation: String,
    /// Installed memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// Socket limits, `name = value`.
    pub socket_limits: Vec<String>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: String,
    /// Idle states of the first core, `name: exit latency`, and `disabled` where it is.
    #[serde(default)]
    pub idle_states: Vec<String>,
    /// Longest wake-up that `/dev/cpu_dma_latency` allowed, in microseconds, before this tool asked for less.
    #[serde(default)]
    pub cpu_dma_latency_us: Option<u32>,
    /// Frequency beyond the nominal one: `on`, `off`, or empty where it is not visible.
    #[serde(default)]
    pub turbo: String,
    /// Microcode revision.
    #[serde(default)]
    pub microcode: String,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    #[serde(default)]
    pub transparent_huge_pages: String,
    /// Limit of memory or processor set by a control group, `name = value`.
    #[serde(default)]
    pub group_limits: Vec<String>,
    /// Processor time that the hypervisor gave to others since the start of the machine, in percent.
    #[serde(default)]
    pub stolen_percent: Option<f64>,
}

/// One network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Largest packet in bytes.
    pub mtu: Option<u32>,
    /// Nominal speed.
    pub speed_mbit_per_s: Option<u32>,
    /// `up`, `down` or `unknown`.
    pub state: String,
    /// Driver, empty for virtual ones.
    pub driver: String,
    /// Largest GSO packet in bytes.
    pub gso_max_bytes: Option<u32>,
    /// Addresses.
    pub addresses: Vec<String>,
    /// Offloads that are on, as `ethtool -k` names them; empty where it is not installed.
    #[serde(default)]
    pub offloads: Vec<String>,
    /// Packets that wait for the interface at most.
    #[serde(default)]
    pub transmit_queue_len: Option<u32>,
    /// Receive queues.
    #[serde(default)]
    pub receive_queues: Option<u32>,
}

/// A whole record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// First line.
    pub header: Header,
    /// The machine.
    pub host: HostFacts,
    /// In the order of measuring.
    pub measurements: Vec<Measurement>,
    /// In the order of searching.
    pub searches: Vec<SearchResult>,
    /// In the order of planning.
    pub skipped: Vec<Skipped>,
    /// In the order of noticing.
    pub warnings: Vec<Warning>,
    /// Last line; absent when the record was cut off.
    pub end: Option<End>,
}

/// Why a record could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file could not be read.
    Io(io::Error),
    /// A line is not what the schema says.
    Line {
        /// Counted from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot read the record: {error}"),
            Self::Line { number, reason } => write!(f, "line {number} of the record: {reason}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl Line {
    /// Writes the line and its line feed.
    pub fn write_to(&self, output: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut *output, self)?;
        output.write_all(b"\n")
    }
}

/// Options of series whose samples do not leave the host.
const WITHIN_HOST: [&str; 6] = [
    "transport=shared-memory",
    "transport=same-process",
    "transport=shm",
    "transport=data-sharing",
    "-sameProcess",
    "SHMEM",
];

impl Series {
    /// Whether its samples are moved without the network.
    pub fn is_within_host(&self) -> bool {
        self.options.iter().any(|option| WITHIN_HOST.contains(&&**option))
    }
}

impl Measurement {
    /// Samples that were not what had been sent, as all sides counted them.
    pub fn corrupt(&self) -> u64 {
        let sides = [&self.publisher, &self.subscriber].into_iter().chain(&self.others);
        sides.filter_map(|side| side.payload).map(|payload| payload.corrupt).sum()
    }

    /// `None` when no side tells.
    fn payload_text(&self) -> Option<String> {
        if self.publisher.probes.is_some() {
            return None;
        }
        let (publisher, subscriber) = (self.publisher.payload, self.subscriber.payload);
        let known = subscriber.or(publisher)?;
        let bound =
            known.max_octets.map_or_else(String::new, |octets| format!(", at most {octets} bytes of each sample"));
        let is = |of: fn(&PayloadUse) -> bool| [publisher, subscriber].iter().flatten().any(of);
        Some(match (is(|payload| payload.written), subscriber.is_some_and(|payload| payload.checked)) {
            (true, true) => format!("written and checked{bound}"),
            (true, false) => format!("written and not checked{bound}"),
            (false, _) => "neither written nor checked".into(),
        })
    }

    /// With fewer buckets in every histogram of latencies; see [`LatencyResult::coarsened`].
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

impl Record {
    /// Whether payloads were written and checked, for readers, with the labels of the series that it holds for: of those who tell,
    /// but for open loops with probes.
    pub fn payloads(&self) -> Vec<(String, Vec<&str>)> {
        let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
        for series in &self.header.series {
            for measurement in self.measurements.iter().filter(|measurement| measurement.series == series.id) {
                let Some(text) = measurement.payload_text() else { continue };
                let at = groups.iter().position(|(known, _)| *known == text).unwrap_or(groups.len());
                if at == groups.len() {
                    groups.push((text, Vec::new()));
                }
                if groups[at].1.last() != Some(&&*series.label) {
                    groups[at].1.push(&series.label);
                }
            }
        }
        groups
    }

    /// What was planned and not measured, and was not later on either.
    pub fn not_measured(&self) -> impl Iterator<Item = &Skipped> {
        let is_open =
            |skipped: &&Skipped| !self.measurements.iter().any(|measurement| skipped.is_made_up_by(measurement));
        self.skipped.iter().filter(is_open)
    }

    /// Reads a record. One that was cut off in the middle of its last line is read up to the line before.
    pub fn read(input: impl BufRead) -> Result<Self, ReadError> {
        let lines: Vec<String> = input.lines().collect::<Result<_, _>>().map_err(ReadError::Io)?;
        let mut record = Self::default();
        let count = lines.len();
        for (index, text) in lines.into_iter().enumerate() {
            let number = index + 1;
            let line = match serde_json::from_str(&text) {
                Ok(line) => line,
                Err(error) if error.is_eof() && number == count && number > 1 => break,
                Err(error) => return Err(ReadError::Line { number, reason: error.to_string() }),
            };
            if matches!(line, Line::Header(_)) != (number == 1) {
                return Err(ReadError::Line {
                    number,
                    reason: "the header must be the first line, and only that".into(),
                });
            }
            record.add(line).map_err(|reason| ReadError::Line { number, reason })?;
        }
        if record.header.schema == 0 {
            return Err(ReadError::Line { number: 1, reason: "the record is empty".into() });
        }
        Ok(record)
    }

    fn add(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Header(header) if !(OLDEST_SCHEMA_VERSION..=SCHEMA_VERSION).contains(&header.schema) => {
                return Err(format!(
                    "schema version {} is not supported, only {OLDEST_SCHEMA_VERSION} to {SCHEMA_VERSION}",
                    header.schema
                ));
            }
            Line::Header(header) => self.header = header,
            Line::Host(host) => self.host = *host,
            Line::Measurement(measurement) => self.measurements.push(*measurement),
            Line::Search(search) => self.searches.push(*search),
            Line::Skipped(skipped) => self.skipped.push(*skipped),
            Line::Warning(warning) => self.warnings.push(warning),
            Line::End(end) => self.end = Some(end),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
