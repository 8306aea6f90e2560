//! Runs the same two tests with raw UDP, Peregrine and every built peer, in turn.

use std::path::PathBuf;
use std::time::Duration;

use peregrine_report::record::{
    self, Case, Line, Measurement, PeerFacts, Publishing, SideResult, Skipped, Test, Warning,
};

use super::build::built_program;
use super::catalog::{self, Environment, PEERS};
use super::process::{Outcome, ask_about, run_test};
use super::protocol::{About, Publish, Reliability, Role, Setup, Transport, Wait};
use super::sides::side_results;
use crate::campaign::placement::ThisMachine;
use crate::characterize::kept::{Comparison, Cores, keep};
use crate::characterize::progress::Progress;
use crate::characterize::{Keeper, measure_cell};
use crate::control::Stop;
use crate::domain::FreeDomain;
use crate::error::Error;
use crate::protection::Protection;
use crate::terminal::{message, print_text};

/// Settings of the measurement.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) sizes: Vec<usize>,
    pub(super) repetitions: u32,
    pub(super) time: Duration,
    pub(super) wait: Wait,
    pub(super) reliability: Reliability,
    pub(super) out: Option<PathBuf>,
}

/// Duration of the warm-up of pings, in milliseconds.
const WARMUP_MS: u64 = 100;
const BOTH_TESTS: &[Test] = &[Test::Latency, Test::Throughput];
/// The floor.
const RAW_UDP: &str = "raw-udp";
/// With one sample in flight there is nothing to batch.
const THROUGHPUT: &[Test] = &[Test::Throughput];

/// One row of the table.
struct Series {
    id: String,
    label: String,
    short_label: String,
    tests: &'static [Test],
    facts: Option<PeerFacts>,
    way: Way,
}

enum Way {
    /// This program, with the options of both sides and of the publisher.
    Own { both: Vec<&'static str>, publisher: &'static [&'static str] },
    /// A peer.
    Peer { program: PathBuf, variant: &'static Variant },
}

/// A variant of a peer.
#[derive(Debug, PartialEq, Eq)]
pub struct Variant {
    /// Name of the peer.
    pub peer: &'static str,
    /// Short name, and the addition to the peer's label.
    id: &'static str,
    label: &'static str,
    /// Transport of the samples.
    pub transport: Transport,
    /// The thread that sends.
    pub publish: Publish,
    /// Whether samples may share messages.
    pub batch: bool,
    /// The level of protection; `None` without security.
    pub protection: Option<Protection>,
    tests: &'static [Test],
}

impl Variant {
    /// Name of its series in records.
    pub fn series_id(&self) -> String {
        match self.protection {
            None => format!("{}-{}", self.peer, self.id),
            Some(protection) => format!("{}-security-{}", self.peer, protection.id()),
        }
    }

    /// Label of its series.
    pub fn series_label(&self) -> String {
        match self.protection {
            None => format!("{} {}", self.product(), self.label),
            Some(protection) => format!("{}, {}", self.product(), protection.label()),
        }
    }

    /// Name for the legend of charts.
    pub fn short_label(&self) -> String {
        let product = self.product().replace("Cyclone DDS", "Cyclone");
        let path = match (self.protection, self.label) {
            (Some(protection), _) => protection.short_label(),
            (None, label) => label,
        };
        let path = match path {
            "UDP batched" | "TCP batched" => "batched",
            "data sharing" => "sharing",
            label => label,
        };
        format!("{product} {path}")
    }

    /// Options passed to the peer, as a record stores them.
    pub fn options(&self) -> Vec<String> {
        let batch = if self.batch { "on" } else { "off" };
        let own =
            [format!("transport={}", self.transport), format!("publish={}", self.publish), format!("batch={batch}")];
        let governance = self.protection.map(|protection| format!("governance={}", protection.document()));
        own.into_iter().chain(governance).collect()
    }

    /// Description of the middleware from its program.
    pub fn facts(&self, about: &About) -> PeerFacts {
        let settings = about.settings.split(',').map(String::from).collect();
        PeerFacts { name: self.product().into(), version: about.version.clone(), settings }
    }

    /// Description of the middleware without its program.
    pub fn unknown_facts(&self) -> PeerFacts {
        PeerFacts { name: self.product().into(), ..PeerFacts::default() }
    }

    fn product(&self) -> &'static str {
        catalog::find(self.peer).map_or(self.peer, |peer| peer.product)
    }
}

const fn variant(peer: &'static str, id: &'static str, label: &'static str, transport: Transport) -> Variant {
    Variant { peer, id, label, transport, publish: Publish::Sync, batch: false, protection: None, tests: BOTH_TESTS }
}

pub(crate) const VARIANTS: &[Variant] = &[
    variant("cyclonedds", "udp", "UDP", Transport::Udp),
    Variant { batch: true, tests: THROUGHPUT, ..variant("cyclonedds", "udp-batched", "UDP batched", Transport::Udp) },
    variant("cyclonedds-11", "udp", "UDP", Transport::Udp),
    Variant {
        batch: true,
        tests: THROUGHPUT,
        ..variant("cyclonedds-11", "udp-batched", "UDP batched", Transport::Udp)
    },
    variant("fastdds", "udp", "UDP", Transport::Udp),
    Variant {
        publish: Publish::Async,
        tests: THROUGHPUT,
        ..variant("fastdds", "udp-async", "UDP async", Transport::Udp)
    },
    variant("fastdds", "shm", "SHM", Transport::Shm),
    variant("fastdds", "data-sharing", "data sharing", Transport::DataSharing),
    variant("iceoryx2", "copied", "copied", Transport::Shm),
    variant("iceoryx2", "in-place", "in place", Transport::DataSharing),
    variant("zenoh", "tcp", "TCP", Transport::Tcp),
    Variant { batch: true, tests: THROUGHPUT, ..variant("zenoh", "tcp-batched", "TCP batched", Transport::Tcp) },
    variant("rustdds", "udp", "UDP", Transport::Udp),
    variant("dustdds", "udp", "UDP", Transport::Udp),
];

const fn secured(peer: &'static str, protection: Protection) -> Variant {
    Variant { protection: Some(protection), ..variant(peer, "udp", "UDP", Transport::Udp) }
}

/// The variants with DDS Security, which plans name.
pub(crate) static SECURED_VARIANTS: [Variant; 12] = [
    secured("cyclonedds", Protection::Unprotected),
    secured("cyclonedds", Protection::Sign),
    secured("cyclonedds", Protection::Encrypt),
    secured("cyclonedds", Protection::SignOriginDataEncrypt),
    secured("cyclonedds", Protection::SignSubmessageEncryptOriginDataEncrypt),
    secured("cyclonedds", Protection::SignSubmessageEncrypt),
    secured("fastdds", Protection::Unprotected),
    secured("fastdds", Protection::Sign),
    secured("fastdds", Protection::Encrypt),
    secured("fastdds", Protection::SignOriginDataEncrypt),
    secured("fastdds", Protection::SignSubmessageEncryptOriginDataEncrypt),
    secured("fastdds", Protection::SignSubmessageEncrypt),
];

/// Measures, writes the record and prints the table. Errors of series are printed at the end and fail the run.
pub(super) fn run(plan: &Plan, command_line: Vec<String>, environment: &Environment, stop: &Stop) -> Result<(), Error> {
    let mut series = own_series(plan);
    series.extend(peer_series(plan, environment, stop)?);
    let comparison = Comparison {
        out: plan.out.as_deref(),
        placement: &ThisMachine,
        command_line,
        series: series.iter().enumerate().map(|(index, one)| one.describe(index == 0)).collect(),
        sizes: &plan.sizes,
        repetitions: plan.repetitions,
        time: plan.time,
    };
    let mut skipped = Vec::new();
    let result = keep(comparison, |cores, keeper| {
        let mut turns = Turns { plan, cores, stop, keeper, skipped: &mut skipped };
        turns.take(&series)
    });
    print_text(&remarks(plan, &series, &skipped))?;
    result
}

/// Inputs of every turn.
struct Turns<'a> {
    plan: &'a Plan,
    cores: Cores,
    stop: &'a Stop,
    keeper: &'a mut Keeper,
    skipped: &'a mut Vec<Skipped>,
}

impl Turns<'_> {
    /// Each repetition measures every size, test and series once, so that changes of the machine affect all of them.
    fn take(&mut self, series: &[Series]) -> Result<(), Error> {
        let tests: usize = series.iter().map(|one| one.tests.len()).sum();
        let progress = Progress::start(tests * self.plan.sizes.len() * self.plan.repetitions as usize);
        let mut failures = Vec::new();
        for repetition in 0..self.plan.repetitions {
            for &size in &self.plan.sizes {
                for &test in BOTH_TESTS {
                    for one in series.iter().filter(|one| one.tests.contains(&test)) {
                        progress.begin(&format!("{}, {size} bytes", one.label), test, repetition);
                        let measured = self.measure(one, test, size, repetition);
                        progress.step();
                        match measured {
                            Ok(()) => {}
                            Err(Error::Interrupted) => {
                                progress.end();
                                return Err(Error::Interrupted);
                            }
                            Err(error) => {
                                let text = format!("{}, {size} bytes, {}: {error}", one.label, test_name(test));
                                progress.message(&text);
                                self.keeper.keep(&Line::Warning(Warning { text: text.clone() }))?;
                                failures.push(text);
                            }
                        }
                    }
                }
            }
        }
        progress.end();
        if failures.is_empty() { Ok(()) } else { Err(Error::Transfer(failures.join("\n"))) }
    }

    fn measure(&mut self, series: &Series, test: Test, size: usize, repetition: u32) -> Result<(), Error> {
        let case = case(self.plan, series);
        let (publisher, subscriber) = match &series.way {
            Way::Own { both, publisher } => {
                measure_cell(both, publisher, (test, size, self.plan.time), self.cores, self.stop)?
            }
            Way::Peer { program, variant } => {
                let domain = FreeDomain::reserve()?;
                let setup = setup(self.plan, variant, test, size, &domain);
                match run_test(program, &setup, self.cores, self.stop)? {
                    Outcome::Measured { initiator, responder, .. } => {
                        side_results(&setup, &initiator, &responder).ok_or_else(no_data)?
                    }
                    Outcome::Unsupported(reason) => {
                        let skipped = Skipped {
                            series: series.id.clone(),
                            test: Some(test),
                            data_len: size as u64,
                            repetition: None,
                            case,
                            reason,
                        };
                        if !self.skipped.contains(&skipped) {
                            self.keeper.keep(&Line::Skipped(Box::new(skipped.clone())))?;
                            self.skipped.push(skipped);
                        }
                        return Ok(());
                    }
                }
            }
        };
        if !has_data(test, &publisher, &subscriber) {
            return Err(no_data());
        }
        self.keeper.keep(&Line::Measurement(Box::new(Measurement {
            series: series.id.clone(),
            test,
            data_len: size as u64,
            repetition,
            block: None,
            case: Some(Box::new(case)),
            others: Vec::new(),
            publisher,
            subscriber,
        })))
    }
}

impl Series {
    fn describe(&self, floor: bool) -> record::Series {
        let options = match &self.way {
            Way::Own { both, publisher } => both.iter().chain(*publisher).map(|word| (*word).into()).collect(),
            Way::Peer { variant, .. } => variant.options(),
        };
        let (id, label) = (self.id.clone(), self.label.clone());
        let short_label = self.short_label.clone();
        record::Series { id, label, short_label, floor, options, peer: self.facts.clone().map(Box::new) }
    }
}

/// Names for the legend of charts, which have room for about a dozen characters.
fn short_label_of(id: &str) -> String {
    match id {
        "peregrine-batched" => "P. batched",
        "peregrine-shared-memory" => "P. shm",
        "peregrine-zero-copy" => "P. zero copy",
        _ => "",
    }
    .into()
}

/// Raw UDP, the reference of the others, and Peregrine.
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
    let mut shared = vec!["-transport", "SHMEM"];
    shared.extend(&dds);
    let mut zero_copy = shared.clone();
    zero_copy.push("-zeroCopy");
    let own = |id: &str, label: &str, tests, facts, both, publisher| {
        let (id, label): (String, String) = (id.into(), label.into());
        let short_label = short_label_of(&id);
        Series { id, label, short_label, tests, facts, way: Way::Own { both, publisher } }
    };
    let facts = || {
        let (name, version) = ("Peregrine".into(), env!("CARGO_PKG_VERSION").into());
        Some(PeerFacts { name, version, settings: vec!["interface=127.0.0.1".into()] })
    };
    vec![
        own(RAW_UDP, "raw UDP", BOTH_TESTS, None, raw, UNBATCHED),
        own("peregrine", "Peregrine", BOTH_TESTS, facts(), dds.clone(), UNBATCHED),
        own("peregrine-batched", "Peregrine batched", THROUGHPUT, facts(), dds, BATCHED),
        own("peregrine-shared-memory", "Peregrine shared memory", BOTH_TESTS, facts(), shared, UNBATCHED),
        own("peregrine-zero-copy", "Peregrine zero copy", BOTH_TESTS, facts(), zero_copy, UNBATCHED),
    ]
}

/// The variants of every built peer, with the description of its program; prints the peers that are not built.
fn peer_series(plan: &Plan, environment: &Environment, stop: &Stop) -> Result<Vec<Series>, Error> {
    let mut series = Vec::new();
    for peer in PEERS {
        let Some(program) = built_program(peer, environment) else {
            message(format_args!(
                "{} is skipped: its program is not built. To build it: perftest peers --build {}",
                peer.product, peer.name
            ));
            continue;
        };
        for variant in VARIANTS.iter().filter(|variant| variant.peer == peer.name) {
            let size = plan.sizes.first().copied().unwrap_or_default();
            let domain = FreeDomain::reserve()?;
            let about = ask_about(&program, &setup(plan, variant, Test::Latency, size, &domain), stop)?;
            series.push(Series {
                id: variant.series_id(),
                label: variant.series_label(),
                short_label: variant.short_label(),
                tests: variant.tests,
                facts: Some(variant.facts(&about)),
                way: Way::Peer { program: program.clone(), variant },
            });
        }
    }
    Ok(series)
}

fn setup(plan: &Plan, variant: &Variant, test: Test, size: usize, domain: &FreeDomain) -> Setup {
    Setup {
        role: if test == Test::Latency { Role::Ping } else { Role::Pub },
        size,
        reliability: plan.reliability,
        wait: plan.wait,
        transport: variant.transport,
        publish: variant.publish,
        batch: variant.batch,
        rate: 0,
        duration_ms: u64::try_from(plan.time.as_millis()).unwrap_or(u64::MAX),
        warmup_ms: WARMUP_MS,
        domain: domain.id(),
        core: None,
        security: None,
    }
}

/// The case of a series. Plain sockets have no reliability and no listener, regardless of the plan.
fn case(plan: &Plan, series: &Series) -> Case {
    let is_raw = series.id == RAW_UDP;
    let is_async = matches!(&series.way, Way::Peer { variant, .. } if variant.publish == Publish::Async);
    Case {
        rate_per_s: None,
        publishers: 1,
        subscribers: 1,
        topics: 1,
        reliability: match plan.reliability {
            Reliability::Reliable if !is_raw => record::Reliability::Reliable,
            Reliability::Reliable | Reliability::BestEffort => record::Reliability::BestEffort,
        },
        publishing: if is_async { Publishing::Asynchronous } else { Publishing::Synchronous },
        delivery: record::Delivery::SameHost,
        data_type: "octets".into(),
        wait: Some(match plan.wait {
            Wait::Listener if !is_raw => record::Wait::Listener,
            Wait::Listener | Wait::Waitset => record::Wait::Block,
            Wait::Poll => record::Wait::Poll,
        }),
    }
}

fn has_data(test: Test, publisher: &SideResult, subscriber: &SideResult) -> bool {
    match test {
        Test::Latency => publisher.latency.as_ref().is_some_and(|latency| latency.count > 0),
        Test::Throughput | Test::OpenLoop => subscriber.throughput.as_ref().is_some_and(|result| result.samples > 1),
    }
}

fn no_data() -> Error {
    Error::NoData("not a single sample arrived".into())
}

fn test_name(test: Test) -> &'static str {
    match test {
        Test::Latency => "latency",
        Test::Throughput => "throughput",
        Test::OpenLoop => "open loop",
    }
}

/// Settings of the measurement, skipped cases, and settings of the peers.
fn remarks(plan: &Plan, series: &[Series], skipped: &[Skipped]) -> String {
    let mut text = format!("\nDDS and peers: {}, wait {}. raw UDP: best effort.\n", plan.reliability, plan.wait);
    if cfg!(debug_assertions) {
        text += "This is a debug build.\n";
    }
    for one in series {
        if let (Some(facts), Way::Peer { .. }) = (&one.facts, &one.way) {
            text += &format!("{}: version {}, {}\n", one.label, facts.version, facts.settings.join(", "));
        }
    }
    for one in skipped {
        let label = series.iter().find(|series| series.id == one.series).map_or("", |series| &series.label);
        let test = one.test.map_or_else(String::new, |test| format!(", {}", test_name(test)));
        text += &format!("{label}, {} bytes{test}, not measured: {}\n", one.data_len, one.reason);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::catalog::find;

    fn plan(wait: Wait) -> Plan {
        let (sizes, time) = (vec![32], Duration::from_millis(10));
        Plan { sizes, repetitions: 1, time, wait, reliability: Reliability::BestEffort, out: None }
    }

    #[test]
    fn variants_have_a_peer_and_unique_names() {
        let mut names: Vec<_> = VARIANTS.iter().map(|variant| (variant.peer, variant.id)).collect();
        assert!(names.iter().all(|(peer, _)| find(peer).is_some()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), VARIANTS.len());
        assert!(PEERS.iter().all(|peer| VARIANTS.iter().any(|variant| variant.peer == peer.name)));
    }

    #[test]
    fn series_use_same_wait_method_and_floor_is_first() {
        let described = |wait| own_series(&plan(wait)).iter().map(|one| one.describe(false)).collect::<Vec<_>>();
        let polling = described(Wait::Poll);
        assert_eq!(polling[0].id, "raw-udp");
        assert!(polling.iter().all(|one| one.options.join(" ").contains("-waitStrategy poll")));
        let waiting = described(Wait::Waitset);
        assert!(waiting[1..].iter().all(|one| one.options.contains(&"-useReadThread".into())));
        assert!(waiting[1..].iter().all(|one| one.options.contains(&"-bestEffort".into())));
    }

    #[test]
    fn plain_sockets_are_recorded_without_reliability_and_listener() {
        let plan = Plan { reliability: Reliability::Reliable, ..plan(Wait::Listener) };
        let of = |series: &Series| case(&plan, series);
        let series = own_series(&plan);
        let (raw, dds) = (of(&series[0]), of(&series[1]));
        assert_eq!((raw.reliability, raw.wait), (record::Reliability::BestEffort, Some(record::Wait::Block)));
        assert_eq!((dds.reliability, dds.wait), (record::Reliability::Reliable, Some(record::Wait::Listener)));
    }

    #[test]
    fn skipped_measurement_is_reported_with_its_reason() {
        let plan = plan(Wait::Listener);
        let series = own_series(&plan);
        let skipped = Skipped {
            series: "raw-udp".into(),
            test: Some(Test::Latency),
            data_len: 32,
            repetition: None,
            case: case(&plan, &series[0]),
            reason: "it cannot".into(),
        };
        let text = remarks(&plan, &series, &[skipped]);
        assert!(text.contains("raw UDP, 32 bytes, latency, not measured: it cannot"), "{text}");
    }
}
