//! The same two tests through raw UDP, Peregrine and every peer that is built, in turns.

use std::path::PathBuf;
use std::time::Duration;

use peregrine_report::record::{SideResult, Test};
use peregrine_report::stats::LatencyResult;

use super::build::built_program;
use super::catalog::{Environment, PEERS};
use super::process::{Outcome, run_test};
use super::protocol::{PeerResult, Publish, Reliability, Role, Setup, Transport, Wait};
use super::table::{Cells, Latency, Throughput, render};
use crate::characterize::pair::free_domain;
use crate::characterize::{measure_cell, two_cores};
use crate::control::Stop;
use crate::error::Error;
use crate::host::IdleStates;
use crate::output::print_text;
use crate::threads::allowed_cores;

/// What to measure.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) sizes: Vec<usize>,
    pub(super) repetitions: u32,
    pub(super) time: Duration,
    pub(super) wait: Wait,
    pub(super) reliability: Reliability,
}

/// Before the pings that count, in milliseconds.
const WARMUP_MS: u64 = 100;

/// One row of the table.
struct Series {
    label: String,
    tests: &'static [Test],
    way: Way,
}

enum Way {
    /// This program itself, with the options of both sides and of the publisher.
    Own { both: Vec<&'static str>, publisher: &'static [&'static str] },
    /// A peer.
    Peer { program: PathBuf, transport: Transport, publish: Publish, batch: bool },
}

const BOTH_TESTS: &[Test] = &[Test::Latency, Test::Throughput];
/// With one sample under way there is nothing to gather.
const THROUGHPUT: &[Test] = &[Test::Throughput];

/// Ways to run the peers: name, what the label adds, transport, whose thread sends, batches, tests.
type Variant = (&'static str, &'static str, Transport, Publish, bool, &'static [Test]);
const VARIANTS: &[Variant] = &[
    ("cyclonedds", "UDP", Transport::Udp, Publish::Sync, false, BOTH_TESTS),
    ("cyclonedds", "UDP batched", Transport::Udp, Publish::Sync, true, THROUGHPUT),
    ("fastdds", "UDP", Transport::Udp, Publish::Sync, false, BOTH_TESTS),
    ("fastdds", "UDP async", Transport::Udp, Publish::Async, false, THROUGHPUT),
    ("fastdds", "SHM", Transport::Shm, Publish::Sync, false, BOTH_TESTS),
    ("fastdds", "data sharing", Transport::DataSharing, Publish::Sync, false, BOTH_TESTS),
];

/// Measures and prints the table. A series that fails is told of at the end and makes the run fail.
pub(super) fn run(plan: &Plan, environment: &Environment, stop: &Stop) -> Result<(), Error> {
    let series = own_series(plan).into_iter().chain(peer_series(environment)).collect::<Vec<_>>();
    let idle_states = IdleStates::disable();
    let cores = two_cores(&allowed_cores());
    let mut cells = Cells::default();
    let mut failures = Vec::new();
    let result = take_turns(plan, &series, cores, stop, &mut cells, &mut failures);
    let labels: Vec<_> = series.iter().map(|series| series.label.as_str()).collect();
    let mut text = render(&cells, &labels, &plan.sizes);
    text += &conditions(plan, cores, &idle_states);
    print_text(&text)?;
    result?;
    if failures.is_empty() { Ok(()) } else { Err(Error::Transfer(failures.join("\n"))) }
}

/// Each repetition measures every size, test and series once, so that what changes about the machine meets all of them.
fn take_turns(
    plan: &Plan,
    series: &[Series],
    cores: Option<(usize, usize)>,
    stop: &Stop,
    cells: &mut Cells,
    failures: &mut Vec<String>,
) -> Result<(), Error> {
    for repetition in 0..plan.repetitions {
        for &size in &plan.sizes {
            for test in BOTH_TESTS {
                for one in series.iter().filter(|one| one.tests.contains(test)) {
                    let (count, label) = (plan.repetitions, &one.label);
                    eprintln!("repetition {} of {count}: {size} bytes, {test:?}: {label}", repetition + 1);
                    match one.measure(plan, *test, size, cores, stop, cells) {
                        Err(Error::Interrupted) => return Err(Error::Interrupted),
                        Err(error) => failures.push(format!("{label}, {size} bytes, {test:?}: {error}")),
                        Ok(()) => {}
                    }
                }
            }
        }
    }
    Ok(())
}

impl Series {
    fn measure(
        &self,
        plan: &Plan,
        test: Test,
        size: usize,
        cores: Option<(usize, usize)>,
        stop: &Stop,
        cells: &mut Cells,
    ) -> Result<(), Error> {
        match &self.way {
            Way::Own { both, publisher } => {
                let (publisher, subscriber) = measure_cell(both, publisher, (test, size, plan.time), cores, stop)?;
                cells.keep_own(&self.label, size, test, &publisher, &subscriber)
            }
            Way::Peer { program, transport, publish, batch } => {
                let setup = Setup {
                    role: if test == Test::Latency { Role::Ping } else { Role::Pub },
                    size,
                    reliability: plan.reliability,
                    wait: plan.wait,
                    transport: *transport,
                    publish: *publish,
                    batch: *batch,
                    rate: 0,
                    duration_ms: u64::try_from(plan.time.as_millis()).unwrap_or(u64::MAX),
                    warmup_ms: WARMUP_MS,
                    domain: free_domain()?,
                    core: None,
                };
                match run_test(program, &setup, cores, stop)? {
                    Outcome::Unsupported(reason) => cells.keep_unsupported(&self.label, size, test, reason),
                    Outcome::Measured { ready, initiator, responder } => {
                        cells.note(&self.label, format!("{} {}, {}", ready.peer, ready.version, ready.settings));
                        cells.keep_peer(&self.label, size, &initiator, &responder)?;
                    }
                }
                Ok(())
            }
        }
    }
}

impl Cells {
    fn keep_own(
        &mut self,
        label: &str,
        size: usize,
        test: Test,
        publisher: &SideResult,
        subscriber: &SideResult,
    ) -> Result<(), Error> {
        if test == Test::Latency {
            let latency = publisher.latency.as_ref().and_then(Latency::of_result);
            self.keep_latency(label, size, latency.ok_or_else(no_data)?);
            return Ok(());
        }
        let throughput = subscriber.throughput.as_ref().filter(|result| result.samples > 0).ok_or_else(no_data)?;
        let (samples_per_s, lost_percent) = (throughput.samples_per_s(), throughput.lost_percent());
        self.keep_throughput(label, size, Throughput { samples_per_s, lost_percent });
        Ok(())
    }

    fn keep_peer(
        &mut self,
        label: &str,
        size: usize,
        initiator: &PeerResult,
        responder: &PeerResult,
    ) -> Result<(), Error> {
        match (initiator, responder) {
            (PeerResult::Ping { round_trip_ns, .. }, _) => {
                self.keep_latency(label, size, Latency::of_round_trips(round_trip_ns).ok_or_else(no_data)?);
                Ok(())
            }
            // What the publisher sent and nobody saw, not even a later sample, is lost as well.
            (PeerResult::Pub { sent, .. }, PeerResult::Sub { received, duration_ns, .. }) if *received > 1 => {
                let samples_per_s = *received as f64 * 1e9 / (*duration_ns).max(1) as f64;
                let lost_percent = sent.saturating_sub(*received) as f64 * 100.0 / (*sent).max(1) as f64;
                self.keep_throughput(label, size, Throughput { samples_per_s, lost_percent });
                Ok(())
            }
            _ => Err(no_data()),
        }
    }
}

impl Latency {
    fn of_result(result: &LatencyResult) -> Option<Self> {
        (result.count > 0).then_some(Self { p50_ns: result.p50_ns as f64, p99_ns: result.p99_ns as f64 })
    }
}

fn no_data() -> Error {
    Error::NoData("not a single sample arrived".into())
}

/// Raw UDP, with which the others are compared, and Peregrine.
fn own_series(plan: &Plan) -> Vec<Series> {
    const LOOPBACK: [&str; 2] = ["-nic", "127.0.0.1"];
    const UNBATCHED: &[&str] = &["-batchSize", "0"];
    const BATCHED: &[&str] = &["-batchSize", "8192"];
    let mut raw = vec!["-rawTransport", "-transport", "UDPv4"];
    raw.extend(LOOPBACK);
    let mut dds: Vec<&'static str> = LOOPBACK.to_vec();
    if plan.reliability == Reliability::BestEffort {
        dds.push("-bestEffort");
    }
    match plan.wait {
        Wait::Listener => {}
        Wait::Waitset => dds.push("-useReadThread"),
        Wait::Poll => {
            for options in [&mut raw, &mut dds] {
                options.extend(["-waitStrategy", "poll"]);
            }
        }
    }
    let batched = Way::Own { both: dds.clone(), publisher: BATCHED };
    vec![
        Series { label: "raw UDP".into(), tests: BOTH_TESTS, way: Way::Own { both: raw, publisher: UNBATCHED } },
        Series { label: "Peregrine".into(), tests: BOTH_TESTS, way: Way::Own { both: dds, publisher: UNBATCHED } },
        Series { label: "Peregrine batched".into(), tests: THROUGHPUT, way: batched },
    ]
}

/// The ways of every peer that is built; tells of those that are not.
fn peer_series(environment: &Environment) -> Vec<Series> {
    let mut series = Vec::new();
    for peer in PEERS {
        let Some(program) = built_program(peer, environment) else {
            eprintln!("{} is left out: it is not built; see perftest peers", peer.product);
            continue;
        };
        let variants = VARIANTS.iter().filter(|(name, ..)| *name == peer.name);
        series.extend(variants.map(|&(_, what, transport, publish, batch, tests)| Series {
            label: format!("{} {what}", peer.product),
            tests,
            way: Way::Peer { program: program.clone(), transport, publish, batch },
        }));
    }
    series
}

fn conditions(plan: &Plan, cores: Option<(usize, usize)>, idle_states: &IdleStates) -> String {
    let cores = match cores {
        Some((first, second)) => format!("pinned to cores {first} and {second}"),
        None => "not pinned: there is one core only".into(),
    };
    let idle = match idle_states {
        IdleStates::Disabled { .. } => "cores kept awake".to_owned(),
        IdleStates::Allowed(reason) => format!("cores may sleep ({reason}), which adds tens of microseconds"),
    };
    let Plan { repetitions, time, wait, reliability, .. } = plan;
    let (time, debug) = (time.as_millis(), if cfg!(debug_assertions) { "; this is a debug build" } else { "" });
    format!("\n{reliability}, {wait}, {cores}, {idle}; median of {repetitions} times {time} ms{debug}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::catalog::find;

    #[test]
    fn every_variant_is_of_a_peer_and_labels_are_unique() {
        let mut labels: Vec<_> = VARIANTS.iter().map(|(name, what, ..)| (*name, *what)).collect();
        assert!(labels.iter().all(|(name, _)| find(name).is_some()));
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), VARIANTS.len());
    }

    #[test]
    fn all_that_was_sent_and_not_received_is_lost() {
        let mut cells = Cells::default();
        let sent = PeerResult::Pub { sent: 200, duration_ns: 9, cpu_ns: 0 };
        let sub = PeerResult::Sub { received: 150, lost: 20, out_of_order: 0, duration_ns: 1_000_000_000, cpu_ns: 0 };
        cells.keep_peer("peer", 32, &sent, &sub).unwrap();
        let text = render(&cells, &["peer"], &[32]);
        assert!(text.contains("25.00") && text.contains("150"), "{text}");
        let none = PeerResult::Sub { received: 0, lost: 0, out_of_order: 0, duration_ns: 0, cpu_ns: 0 };
        assert_eq!(cells.keep_peer("peer", 32, &sent, &none), Err(no_data()));
    }
}
