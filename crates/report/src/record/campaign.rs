//! Additions of schema version 3: campaigns, whose measurements differ in more than series and size.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The plan of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// File name without its extension.
    pub name: String,
    /// One-line title.
    pub title: String,
    /// Publication whose measurements the plan repeats; empty if none.
    pub publication: String,
    /// Text of the plan, so that the record alone can be run again.
    pub source: String,
    /// Place of the run, as text: one machine, a lab and its link, or hosts.
    pub place: String,
}

/// The middleware behind a series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerFacts {
    /// Name as its makers write it.
    pub name: String,
    /// Version that was measured.
    pub version: String,
    /// Settings that differ from its defaults, with the reasons.
    pub settings: Vec<String>,
}

/// Settings of a campaign that vary besides series and size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Samples per second of each writer; absent at the highest rate.
    pub rate_per_s: Option<f64>,
    /// Publishing processes or, within one process, writers.
    pub publishers: u32,
    /// Subscribing processes or, within one process, readers.
    pub subscribers: u32,
    /// Topics, each with that many publishers and subscribers.
    pub topics: u32,
    /// Reliable or best effort.
    pub reliability: Reliability,
    /// The thread that sends.
    pub publishing: Publishing,
    /// Place of the readers.
    pub delivery: Delivery,
    /// Name of the type.
    pub data_type: String,
    /// How threads wait for samples; absent in records before version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
}

/// How threads wait for samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// An application thread sleeps in the kernel.
    #[default]
    Block,
    /// An application thread spins for a while before it sleeps.
    Spin,
    /// An application thread polls.
    Poll,
    /// No application thread waits: the middleware calls the application on its receiving thread.
    Listener,
}

/// Reliable or best effort.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// Every sample arrives.
    #[default]
    Reliable,
    /// Samples may be lost.
    BestEffort,
}

/// The thread that sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Publishing {
    /// The writing thread.
    #[default]
    Synchronous,
    /// A thread of the middleware.
    Asynchronous,
}

/// Place of the readers relative to the writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// In the same process.
    SameProcess,
    /// In other processes of the same host.
    #[default]
    SameHost,
    /// On another host.
    TwoHosts,
}

impl fmt::Display for Reliability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reliable => "reliable",
            Self::BestEffort => "best effort",
        })
    }
}

impl fmt::Display for Publishing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Synchronous => "synchronous",
            Self::Asynchronous => "asynchronous",
        })
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Block => "block",
            Self::Spin => "spin",
            Self::Poll => "poll",
            Self::Listener => "listener",
        })
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameProcess => "same process",
            Self::SameHost => "same host",
            Self::TwoHosts => "two hosts",
        })
    }
}
