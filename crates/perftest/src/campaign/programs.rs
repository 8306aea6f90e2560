//! The programs of peers: whether they are built, and which cases they can run.

use std::path::{Path, PathBuf};

use peregrine_report::record;

use super::spec::{Pace, Wait};
use crate::peers::build::built_program;
use crate::peers::catalog::{Environment, PEERS, Peer, install_command};

/// The program of every peer, or why it is missing and how to build it.
#[derive(Debug, Clone)]
pub struct PeerPrograms(Vec<(&'static str, Result<PathBuf, String>)>);

impl PeerPrograms {
    /// Finds the built programs.
    pub fn find(environment: &Environment) -> Self {
        let of = |peer: &Peer| built_program(peer, environment).ok_or_else(|| absence(peer, environment));
        Self(PEERS.iter().map(|peer| (peer.name, of(peer))).collect())
    }

    /// No program, for one reason.
    pub fn none(reason: &str) -> Self {
        Self(PEERS.iter().map(|peer| (peer.name, Err(reason.to_owned()))).collect())
    }

    /// The program of a peer, or why it is missing.
    pub fn of(&self, peer: &str) -> Result<&Path, String> {
        let known = self.0.iter().find(|(name, _)| *name == peer);
        match known {
            Some((_, Ok(program))) => Ok(program),
            Some((_, Err(reason))) => Err(reason.clone()),
            None => Err(format!("no peer is called {peer}")),
        }
    }

    #[cfg(test)]
    pub(super) fn all_at(program: &str) -> Self {
        Self(PEERS.iter().map(|peer| (peer.name, Ok(program.into()))).collect())
    }
}

fn absence(peer: &Peer, environment: &Environment) -> String {
    let build = format!("perftest peers --build {}", peer.name);
    match peer.missing(environment) {
        missing if missing.is_empty() => format!("it is not built; to build it: {build}"),
        missing => format!("it is not installed; on Debian: {}; then: {build}", install_command(&missing)),
    }
}

/// Why the program of a peer cannot run a case; `None` if it may.
pub(super) fn obstacle(case: &record::Case, pace: Pace, depth: Option<u32>) -> Option<String> {
    let bytes = super::types::DataType::Octets.name();
    let is_whole = |rate: f64| rate.fract() == 0.0;
    Some(match case {
        _ if case.delivery == record::Delivery::SameProcess => "programs of peers are two processes".into(),
        _ if case.delivery == record::Delivery::TwoHosts => {
            "programs of peers use the loopback interface of one host".into()
        }
        _ if (case.publishers, case.subscribers, case.topics) != (1, 1, 1) => {
            "programs of peers have one publisher, one subscriber and one topic".into()
        }
        _ if case.data_type != bytes => format!("programs of peers have only the type {bytes}"),
        _ if depth.is_some() => {
            "programs of peers keep all samples (KEEP_ALL), and the matrix sets history_depth".into()
        }
        _ if matches!(pace, Pace::Rate(rate) if !is_whole(rate)) => {
            "programs of peers need whole samples per second".into()
        }
        _ if case.wait == Some(Wait::Spin) => "programs of peers cannot spin before they block".into(),
        _ => return None,
    })
}
