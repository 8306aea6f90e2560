//! The lines of a record, and the whole record.

use std::fmt;
use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};

use super::campaign::{PeerFacts, PlanFacts};
use super::detail::SearchResult;
use super::host::HostFacts;
use super::measurement::Measurement;
use super::scale::ScaleResult;
use super::skipped::Skipped;

/// Version of the schema that this crate writes.
pub const SCHEMA_VERSION: u32 = 8;
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
    /// One run with many endpoints.
    Scale(Box<ScaleResult>),
    /// A planned measurement that was not made.
    Skipped(Box<Skipped>),
    /// A condition that distorts the numbers.
    Warning(Warning),
    /// Last line.
    End(End),
}

/// Tool, time and settings of a record.
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
    /// The series in the order of display.
    pub series: Vec<Series>,
    /// Sizes in bytes.
    pub data_lens: Vec<u64>,
    /// Repetitions of every measurement.
    pub repetitions: u32,
    /// Length of one measurement in milliseconds.
    pub measurement_ms: u64,
    /// Cores of publisher and subscriber; empty if not bound.
    pub pinned_cores: Vec<usize>,
    /// Whether the tool held `/dev/cpu_dma_latency` at 0.
    pub idle_states_disabled: bool,
    /// The plan, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<PlanFacts>>,
}

/// A middleware, or plain sockets, with one path and one set of options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Short name, unique in the record.
    pub id: String,
    /// Name for people.
    pub label: String,
    /// Label for the legend of charts, with about a dozen characters; empty if the label is short enough.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub short_label: String,
    /// Whether the other series are compared with this one.
    pub floor: bool,
    /// Options common to both sides.
    pub options: Vec<String>,
    /// The middleware, if the record compares several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Box<PeerFacts>>,
}

/// A condition that distorts the numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The condition and its remedy.
    pub text: String,
}

/// How the record ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Whether all planned measurements were made.
    pub complete: bool,
    /// The reason if not.
    pub reason: String,
}

/// A whole record.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// First line.
    pub header: Header,
    /// The machine.
    pub host: HostFacts,
    /// In the order of measurement.
    pub measurements: Vec<Measurement>,
    /// In the order of the searches.
    pub searches: Vec<SearchResult>,
    /// Runs with many endpoints, in the order of measurement.
    pub scales: Vec<ScaleResult>,
    /// In the order of the plan.
    pub skipped: Vec<Skipped>,
    /// In the order of detection.
    pub warnings: Vec<Warning>,
    /// Last line; absent if the record was interrupted.
    pub end: Option<End>,
}

/// Why a record could not be read.
#[derive(Debug)]
pub enum ReadError {
    /// The file could not be read.
    Io(io::Error),
    /// A line violates the schema.
    Line {
        /// Counted from 1.
        number: usize,
        /// The violation.
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
    /// Whether its samples do not use the network.
    pub fn is_within_host(&self) -> bool {
        self.options.iter().any(|option| WITHIN_HOST.contains(&&**option))
    }
}

impl Record {
    /// Whether payloads were written and checked, as text, each with the labels of its series. Series without this
    /// information, and open loops with probes, are omitted.
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

    /// Planned measurements that were never made.
    pub fn not_measured(&self) -> impl Iterator<Item = &Skipped> {
        let is_open =
            |skipped: &&Skipped| !self.measurements.iter().any(|measurement| skipped.is_made_up_by(measurement));
        self.skipped.iter().filter(is_open)
    }

    /// Reads a record. If the last line is incomplete, the record is read up to the line before.
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
            Line::Scale(scale) => self.scales.push(*scale),
            Line::Skipped(skipped) => self.skipped.push(*skipped),
            Line::Warning(warning) => self.warnings.push(warning),
            Line::End(end) => self.end = Some(end),
        }
        Ok(())
    }
}
