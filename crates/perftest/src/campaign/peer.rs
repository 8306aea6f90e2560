//! Cases of other middleware: which of their programs stand ready, and what they measure.

use std::path::{Path, PathBuf};
use std::time::Duration;

use peregrine_report::record::{self, Measurement, PeerFacts, Test};

use super::cases::PlannedCase;
use super::spec::{Pace, Wait};
use crate::characterize::kept::Cores;
use crate::control::Stop;
use crate::domain::FreeDomain;
use crate::error::Error;
use crate::peers::Variant;
use crate::peers::build::built_program;
use crate::peers::catalog::{Environment, PEERS, Peer, install_command};
use crate::peers::process::{Outcome, ask_about, run_test};
use crate::peers::protocol::{self, Publish, Reliability, Role, Setup};
use crate::peers::sides::side_results;

/// For every peer its program, or why there is none and which command makes it.
#[derive(Debug, Clone)]
pub struct PeerPrograms(Vec<(&'static str, Result<PathBuf, String>)>);

impl PeerPrograms {
    /// Those that are built.
    pub fn find(environment: &Environment) -> Self {
        let of = |peer: &Peer| built_program(peer, environment).ok_or_else(|| absence(peer, environment));
        Self(PEERS.iter().map(|peer| (peer.name, of(peer))).collect())
    }

    /// None, for one reason.
    pub fn none(reason: &str) -> Self {
        Self(PEERS.iter().map(|peer| (peer.name, Err(reason.to_owned()))).collect())
    }

    /// The program of a peer, or why there is none.
    pub fn of(&self, peer: &str) -> Result<&Path, String> {
        let known = self.0.iter().find(|(name, _)| *name == peer);
        match known {
            Some((_, Ok(program))) => Ok(program),
            Some((_, Err(reason))) => Err(reason.clone()),
            None => Err(format!("there is no peer called {peer}")),
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

/// Why the program of a peer cannot run a case; `None` when it can be asked to.
pub(super) fn obstacle(case: &record::Case, pace: Pace, depth: Option<u32>) -> Option<String> {
    let octets = super::types::DataType::Octets.name();
    let is_whole = |rate: f64| rate.fract() == 0.0;
    Some(match case {
        _ if case.delivery == record::Delivery::SameProcess => "the sides of a peer are two processes".into(),
        _ if case.delivery == record::Delivery::TwoHosts => {
            "the programs of peers talk over one host's loopback".into()
        }
        _ if (case.publishers, case.subscribers, case.topics) != (1, 1, 1) => {
            "a peer has one publisher, one subscriber and one topic".into()
        }
        _ if case.data_type != octets => format!("the programs of peers know the type {octets} only"),
        _ if depth.is_some() => "the programs of peers keep all samples: leave history_depth out".into(),
        _ if matches!(pace, Pace::Rate(rate) if !is_whole(rate)) => {
            "the programs of peers take whole samples per second".into()
        }
        _ if case.wait == Some(Wait::Spin) => "the programs of peers do not look for a while before they sleep".into(),
        _ => return None,
    })
}

/// What the program of a peer says of itself, set up as for this case.
pub(super) fn facts(planned: &PlannedCase, variant: &Variant, program: &Path, stop: &Stop) -> Result<PeerFacts, Error> {
    let domain = FreeDomain::reserve()?;
    Ok(variant.facts(&ask_about(program, &setup(planned, variant, &domain), stop)?))
}

/// What came of a case.
pub(super) enum Measured {
    Measurement(Box<Measurement>),
    /// The middleware cannot do it, and why.
    Unsupported(String),
}

/// Runs a case with two processes of a peer.
pub(super) fn run(
    planned: &PlannedCase,
    variant: &Variant,
    program: &Path,
    cores: Cores,
    stop: &Stop,
) -> Result<Measured, Error> {
    let domain = FreeDomain::reserve()?;
    let setup = setup(planned, variant, &domain);
    let (initiator, responder) = match run_test(program, &setup, cores, stop)? {
        Outcome::Measured { initiator, responder } => (initiator, responder),
        Outcome::Unsupported(reason) => return Ok(Measured::Unsupported(reason)),
    };
    let sides = side_results(&setup, &initiator, &responder);
    let (publisher, subscriber) = sides.ok_or_else(|| Error::Transfer("the results are of different tests".into()))?;
    let has_data = match planned.test() {
        Test::Latency => publisher.latency.as_ref().is_some_and(|latency| latency.count > 0),
        Test::Throughput | Test::OpenLoop => subscriber.throughput.as_ref().is_some_and(|result| result.samples > 1),
    };
    if !has_data {
        return Err(Error::NoData("no sample has arrived".into()));
    }
    Ok(Measured::Measurement(Box::new(planned.measurement(publisher, subscriber, Vec::new()))))
}

fn setup(planned: &PlannedCase, variant: &Variant, domain: &FreeDomain) -> Setup {
    let case = &planned.case;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Setup {
        role: if planned.pace == Pace::PingPong { Role::Ping } else { Role::Pub },
        size: usize::try_from(planned.data_len).unwrap_or(usize::MAX),
        reliability: match case.reliability {
            record::Reliability::Reliable => Reliability::Reliable,
            record::Reliability::BestEffort => Reliability::BestEffort,
        },
        wait: match planned.wait {
            Wait::Block | Wait::Spin => protocol::Wait::Waitset,
            Wait::Poll => protocol::Wait::Poll,
            Wait::Listener => protocol::Wait::Listener,
        },
        transport: variant.transport,
        publish: match case.publishing {
            record::Publishing::Synchronous => Publish::Sync,
            record::Publishing::Asynchronous => Publish::Async,
        },
        batch: variant.batch,
        rate: if let Pace::Rate(rate) = planned.pace { rate as u64 } else { 0 },
        duration_ms: millis(planned.duration).max(1),
        warmup_ms: millis(planned.warm_up),
        domain: domain.id(),
        core: None,
    }
}
