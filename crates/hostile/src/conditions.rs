//! The conditions of a measurement.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::processes::Process;

/// The start of the domain tag of each run.
pub(crate) const TAG_START: &str = "hostile";

/// How to run an attack.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) domain: u32,
    pub(crate) duration: Duration,
    /// Shortest time for which victim and flow are watched after the attack.
    pub(crate) after: Duration,
    /// Datagrams per second.
    pub(crate) rate: u32,
    /// The folder with the documents of DDS Security of victim and honest peer, if they use it.
    pub(crate) documents: Option<PathBuf>,
}

impl Conditions {
    /// The domain tag of a run.
    pub(crate) fn tag(run: u64) -> String {
        format!("{TAG_START} {} {run}", std::process::id())
    }

    pub(crate) fn is_secured(&self) -> bool {
        self.documents.is_some()
    }

    /// Starts one of the two processes.
    pub(crate) fn start(&self, role: &str, tag: &str, run: u64) -> Result<Process> {
        let documents = self.documents.as_ref().map(|folder| folder.join(role));
        Process::start(role, self.domain, tag, run, documents.as_deref())
    }
}
