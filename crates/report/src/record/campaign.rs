//! What schema version 3 adds: campaigns, whose measurements differ in more than series and size.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The plan that a record was made by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// File name without its extension.
    pub name: String,
    /// One line for readers.
    pub title: String,
    /// Publication whose questions the plan asks again; empty when none.
    pub publication: String,
    /// The plan as it was read, so that the record alone can be run again.
    pub source: String,
    /// Where it ran, for readers: one machine, a lab and its link, or hosts.
    pub place: String,
}

/// The middleware behind a series.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerFacts {
    /// Name as its makers write it.
    pub name: String,
    /// Version that was measured.
    pub version: String,
    /// Settings that differ from its defaults, and why.
    pub settings: Vec<String>,
}

/// What a measurement of a campaign varies beyond series and size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Samples per second of each writer; absent when nothing held it back.
    pub rate_per_s: Option<f64>,
    /// Publishing processes or, within one process, writers.
    pub publishers: u32,
    /// Subscribing processes or, within one process, readers.
    pub subscribers: u32,
    /// Topics, each with that many publishers and subscribers.
    pub topics: u32,
    /// Whether every sample has to arrive.
    pub reliability: Reliability,
    /// Which thread sends.
    pub publishing: Publishing,
    /// Where the readers are.
    pub delivery: Delivery,
    /// How the samples are shaped.
    pub data_type: String,
    /// How threads wait for samples; absent in records before version 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
}

/// How threads wait for samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// A thread of the application, asleep in the kernel.
    #[default]
    Block,
    /// A thread of the application, which looks again and again for a while before it sleeps.
    Spin,
    /// A thread of the application, which looks again and again.
    Poll,
    /// None: the middleware calls the application on the thread that receives.
    Listener,
}

/// Whether every sample has to arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// Every sample.
    #[default]
    Reliable,
    /// The steps that sustained their rate.
    BestEffort,
}

/// Which thread sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Publishing {
    /// The one that writes.
    #[default]
    Synchronous,
    /// One of the middleware.
    Asynchronous,
}

/// Where the readers are, seen from the writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// In its process.
    SameProcess,
    /// In other processes of its host.
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
