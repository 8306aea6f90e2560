//! Cases of other middleware, run by their programs.

use std::path::Path;
use std::time::Duration;

use peregrine_report::record::{self, Measurement, PeerFacts, Test};

pub use super::programs::PeerPrograms;

use super::cases::PlannedCase;
use super::spec::{Pace, Wait};
use crate::characterize::kept::Cores;
use crate::control::Stop;
use crate::documents::documents;
use crate::domain::FreeDomain;
use crate::error::Error;
use crate::peers::Variant;
use crate::peers::process::{Outcome, ask_about, run_test};
use crate::peers::protocol::{self, Publish, Reliability, Role, Setup};
use crate::peers::sides::side_results;
use crate::protection::DocumentFolder;

/// The topics of the programs of peers.
const TOPICS: &[&str] = &["perftest_there", "perftest_back"];

/// Description that the program of a peer gives of itself, with the settings of this case.
pub(super) fn facts(planned: &PlannedCase, variant: &Variant, program: &Path, stop: &Stop) -> Result<PeerFacts, Error> {
    let domain = FreeDomain::reserve()?;
    Ok(variant.facts(&ask_about(program, &setup(planned, variant, &domain), stop)?))
}

/// Result of a case.
pub(super) enum Measured {
    Measurement(Box<Measurement>),
    /// The middleware cannot run the case; the reason.
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
    let documents = variant.protection.map(|protection| documents(protection, TOPICS)).transpose()?;
    let folder = documents.as_ref().map(DocumentFolder::write).transpose()?;
    let security = folder.as_ref().map(|folder| folder.path().display().to_string());
    let setup = Setup { security, ..setup(planned, variant, &domain) };
    let (initiator, responder) = match run_test(program, &setup, cores, stop)? {
        Outcome::Measured { initiator, responder } => (initiator, responder),
        Outcome::Unsupported(reason) => return Ok(Measured::Unsupported(reason)),
    };
    let sides = side_results(&setup, &initiator, &responder);
    let (mut publisher, mut subscriber) =
        sides.ok_or_else(|| Error::Transfer("the results are of different tests".into()))?;
    if let Some([of_publisher, of_subscriber]) = documents {
        publisher.security = Some(of_publisher.used);
        subscriber.security = Some(of_subscriber.used);
    }
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
        security: None,
    }
}
