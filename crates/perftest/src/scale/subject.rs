//! The subject of a run: Peregrine by a transport, or a peer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use peregrine_report::record::{PeerFacts, Series};

use super::protocol::Transport;
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::error::Error;
use crate::peers::build::{build, built_program};
use crate::peers::catalog::{self, Environment, install_command};
use crate::process::Process;

/// Name of no peer on the command line.
pub(super) const NO_PEER: &str = "none";
/// Peers with a program for the rows, by their names on the command line, and names in the catalog.
pub(super) const PEER_NAMES: [(&str, &str); 3] =
    [("cyclone", "cyclonedds"), ("cyclonedds", "cyclonedds"), ("cyclonedds-11", "cyclonedds-11")];
/// Argument of a peer's program that takes part in a row.
const PEER_WORDS: &[&str] = &["scale"];
/// Argument of this program that takes part in a row.
const OWN_WORDS: &[&str] = &["scale-part"];
/// Argument that makes a peer's program print its version.
const VERSION_WORD: &str = "version";
/// Time for a peer's program to print its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// Longest version in bytes.
const MAX_VERSION_LEN: u64 = 64;
/// Interface of all processes.
const INTERFACE: &str = "interface=lo";

/// A middleware with a transport.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    /// Name of its series.
    pub(super) id: String,
    /// Name for readers.
    pub(super) label: String,
    /// Name for the legend of charts.
    pub(super) short_label: &'static str,
    /// Program of its processes.
    pub(super) program: PathBuf,
    /// Arguments of the program.
    pub(super) words: &'static [&'static str],
    /// Path of the samples.
    pub(super) transport: Transport,
    /// The middleware, for the record.
    pub(super) facts: PeerFacts,
    /// Whether it is Peregrine, which has goals.
    pub(super) is_own: bool,
}

impl Subject {
    /// Peregrine, by this program.
    ///
    /// # Errors
    /// The file of this program is unknown.
    pub(super) fn own(transport: Transport) -> Result<Self, Error> {
        let program = std::env::current_exe()
            .map_err(|error| Error::Setup(format!("Cannot find the file of this program: {error}")))?;
        let (label, short_label) = match transport {
            Transport::Udp => ("Peregrine UDP", "P. UDP"),
            Transport::Shm => ("Peregrine shared memory", "P. shm"),
        };
        let facts = PeerFacts {
            name: "Peregrine".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            settings: vec![INTERFACE.into()],
        };
        Ok(Self {
            id: format!("peregrine-{}", transport.word()),
            label: label.into(),
            short_label,
            program,
            words: OWN_WORDS,
            transport,
            facts,
            is_own: true,
        })
    }

    /// The peer with this name, built if its prerequisites are installed. The error names missing ones.
    ///
    /// # Errors
    /// The peer is not installed, or its program cannot be built.
    pub(super) fn peer(name: &str, environment: &Environment, stop: &Stop) -> Result<Self, Error> {
        let known = PEER_NAMES.iter().find(|(word, _)| *word == name).and_then(|(_, known)| catalog::find(known));
        let peer = known.ok_or_else(|| Error::Setup(format!("no peer is called '{name}'")))?;
        let program = match built_program(peer, environment) {
            Some(program) => program,
            None => {
                let missing = peer.missing(environment);
                if !missing.is_empty() {
                    let what: Vec<_> = missing.iter().map(|missing| missing.what.as_str()).collect();
                    return Err(Error::Setup(format!(
                        "{} not found. On Debian: {}",
                        what.join(", "),
                        install_command(&missing)
                    )));
                }
                build(peer, environment)?
            }
        };
        let version = version_of(&program, stop)?;
        Ok(Self {
            id: format!("{}-udp", peer.name),
            label: format!("{} UDP", peer.product),
            short_label: "",
            program,
            words: PEER_WORDS,
            transport: Transport::Udp,
            facts: PeerFacts { name: peer.product.into(), version, settings: vec![INTERFACE.into()] },
            is_own: false,
        })
    }

    /// As a record describes it. `counted`: where datagrams are counted.
    pub(super) fn describe(&self, counted: &str) -> Series {
        Series {
            id: self.id.clone(),
            label: self.label.clone(),
            short_label: self.short_label.into(),
            floor: false,
            options: vec![format!("transport={}", self.transport.word()), format!("datagrams={counted}")],
            peer: Some(Box::new(self.facts.clone())),
        }
    }
}

fn version_of(program: &Path, stop: &Stop) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.arg(VERSION_WORD);
    let mut process = Process::start_bounded("the program of the peer".into(), command, MAX_VERSION_LEN)?;
    let version = process.hear(MonotonicNs::now().plus(VERSION_LIMIT), stop)?;
    process.finish()?;
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_peer_is_refused_with_the_command_that_installs_it() {
        let nowhere = Environment { path: "/nowhere".into(), cache: None };
        for (name, _) in PEER_NAMES {
            let error = Subject::peer(name, &nowhere, &Stop::default()).unwrap_err().to_string();
            assert!(error.contains("the program gcc") && error.contains("apt-get install"), "{name}: {error}");
        }
        let error = Subject::peer("opendds", &nowhere, &Stop::default()).unwrap_err().to_string();
        assert_eq!(error, "no peer is called 'opendds'");
    }

    #[test]
    fn series_of_peregrine_name_their_transport() {
        let series = [Transport::Udp, Transport::Shm].map(|way| Subject::own(way).unwrap().describe("namespace"));
        assert_eq!(series.each_ref().map(|series| &*series.id), ["peregrine-udp", "peregrine-shm"]);
        assert_eq!(series[0].options, ["transport=udp", "datagrams=namespace"]);
        assert_eq!(series.each_ref().map(Series::is_within_host), [false, true]);
    }
}
