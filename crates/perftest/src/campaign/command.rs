//! `perftest run`: its options, the record, and the loop over the cases.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use indicatif::HumanDuration;
use peregrine_report::record::{End, Header, Line, PlanFacts, Record, SCHEMA_VERSION, Series, Warning};

use super::cases::{CaseProgram, Cases, Conditions, PlannedCase, key_of};
use super::peer::{self, Measured, PeerPrograms};
use super::placement::{Place, Placement, ThisMachine};
use super::progress::Progress;
use super::series::{SeriesRunner, SeriesSpec};
use super::spec::Plan;
use super::{runner, shipped};
use crate::characterize::kept::Cores;
use crate::characterize::{Keeper, keeper};
use crate::control::Stop;
use crate::error::Error;
use crate::host::{self, IdleStates};
use crate::peers::catalog::Environment;
use crate::terminal::{message, print_text};

/// The plan to run, and settings of the run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// A file, or the name of a shipped plan: raspberry-pi, large-data, security, readme, periodic, tsc-2021
    plan: String,
    /// Write record.jsonl and report.html to this folder [default: perftest-results/ and the UTC time]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue the record in --out where an interrupted run stopped
    #[arg(long, requires = "out")]
    resume: bool,
    /// Measure each case once and briefly, and only three values of every list
    #[arg(long)]
    quick: bool,
    /// With --quick: skip cases, evenly over the plan, until the rest takes at most about this many seconds
    #[arg(long, value_name = "SECONDS", requires = "quick", default_value_t = 150,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    within: u64,
    /// Record histograms with buckets of 1/64, which makes the record about a quarter as long. All other numbers stay
    /// exact
    #[arg(long)]
    compact: bool,
    /// Print the cases and their estimated time, and measure nothing
    #[arg(long, visible_alias = "dry-run")]
    list: bool,
}

/// Runs a plan on this machine.
pub fn run(options: &Options, command_line: Vec<String>, stop: &Stop) -> Result<(), Error> {
    run_at(options, command_line, stop, &ThisMachine)
}

/// Runs a plan at the places of `placement`.
pub fn run_at(
    options: &Options,
    command_line: Vec<String>,
    stop: &Stop,
    placement: &dyn Placement,
) -> Result<(), Error> {
    let source = shipped::text_of(&options.plan)?;
    let plan = Plan::read(&options.plan, &source).map_err(Error::Setup)?;
    let conditions = Conditions {
        two_hosts: placement.address(Place::Far).is_some(),
        peers: match placement.cannot_run_peers() {
            None => PeerPrograms::find(&Environment::of_process()),
            Some(reason) => PeerPrograms::none(reason),
        },
        quick: options.quick.then(|| Duration::from_secs(options.within)),
    };
    let cases = Cases::of(&plan, &conditions);
    if options.list {
        return print_text(&list(&cases));
    }
    let facts = PlanFacts {
        name: shipped::short_name(&options.plan),
        title: plan.title.clone(),
        publication: plan.publication.clone(),
        source,
        place: placement.description(),
    };
    let cores = if cases.pinned { placement.two_cores() } else { None };
    let mut header = header(&cases, facts, command_line, cores);
    header.series = cases
        .series
        .iter()
        .map(|series| describe(series, &cases, &conditions.peers, stop))
        .collect::<Result<_, _>>()?;
    let folder = keeper::folder(options.out.as_deref(), &header.created_utc);
    let (mut keeper, before) = if options.resume {
        let (keeper, record) = Keeper::resume(&folder)?;
        check_resumed(&header, &record, &folder)?;
        (keeper, record)
    } else {
        (Keeper::create(&folder)?, Record::default())
    };
    let host_lines = placement.host_lines()?;
    let idle_states = if plan.keep_awake { placement.keep_awake() } else { IdleStates::allowed_by_plan() };
    header.idle_states_disabled = matches!(idle_states, IdleStates::Disabled { .. });
    if !options.resume {
        keeper.keep(&Line::Header(header))?;
        for line in host_lines {
            keeper.keep(&line)?;
        }
        if options.quick {
            keeper.keep(&Line::Warning(Warning { text: quick_warning(&plan, &cases) }))?;
        }
    }
    print_absent(&cases, &conditions.peers);
    let campaign =
        Campaign { cases: &cases, peers: &conditions.peers, placement, cores, stop, compact: options.compact };
    let result = campaign.run(&mut keeper, &before);
    let reason = result.as_ref().err().map_or_else(String::new, Error::to_string);
    keeper.keep(&Line::End(End { complete: result.is_ok(), reason }))?;
    keeper.finish()?;
    crate::report::beside_record(&folder)?;
    result
}

/// The series as a record stores it. Programs of peers that are measured describe themselves.
fn describe(series: &SeriesSpec, cases: &Cases, peers: &PeerPrograms, stop: &Stop) -> Result<Series, Error> {
    let first = cases.planned.iter().find(|planned| planned.series == series);
    let facts = match first.map(|planned| (planned, planned.mover)) {
        Some((planned, CaseProgram::Peer(variant))) => {
            let program = peers.of(variant.peer).map_err(Error::Setup)?;
            Some(peer::facts(planned, variant, program, stop)?)
        }
        _ => None,
    };
    Ok(series.describe(&cases.waits, facts))
}

/// A number of times: `once`, `3 times`.
fn times(count: u32) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

/// A warning about the limited use of the numbers of a quick run.
fn quick_warning(plan: &Plan, cases: &Cases) -> String {
    format!(
        "Quick run: each case ran once for {} s; the full plan runs it {} for {} s. The run shows that everything works; for \
         reliable numbers run the plan without --quick.",
        cases.duration.as_secs_f64(),
        times(plan.repetitions.0),
        plan.duration_s.0.as_secs_f64(),
    )
}

/// Prints the peers of the plan that are not built, and how to build them.
fn print_absent(cases: &Cases, peers: &PeerPrograms) {
    let mut told: Vec<&str> = Vec::new();
    for series in &cases.series {
        if let SeriesRunner::Peer(variant) = series.runner
            && let Err(reason) = peers.of(variant.peer)
            && !told.contains(&variant.peer)
        {
            told.push(variant.peer);
            message(format_args!("{} is skipped: {reason}", variant.unknown_facts().name));
        }
    }
}

fn header(cases: &Cases, plan: PlanFacts, command_line: Vec<String>, cores: Cores) -> Header {
    Header {
        schema: SCHEMA_VERSION,
        tool: "perftest".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        created_utc: host::utc_text(SystemTime::now()),
        command_line,
        series: Vec::new(),
        data_lens: cases.data_lens.clone(),
        repetitions: cases.repetitions,
        measurement_ms: cases.duration.as_millis() as u64,
        pinned_cores: cores.map_or_else(Vec::new, |(publishers, subscribers)| vec![publishers, subscribers]),
        idle_states_disabled: false,
        plan: Some(Box::new(plan)),
    }
}

/// Refuses to resume with another plan, program or place than that of the record.
fn check_resumed(header: &Header, record: &Record, folder: &Path) -> Result<(), Error> {
    let known = |header: &Header| header.plan.as_deref().cloned().unwrap_or_default();
    let (now, before) = (known(header), known(&record.header));
    let differs = if before == PlanFacts::default() {
        "it was not made by a plan"
    } else if (&now.source, &now.name) != (&before.source, &before.name) {
        "the plan is a different one, or has changed"
    } else if (header.repetitions, header.measurement_ms) != (record.header.repetitions, record.header.measurement_ms) {
        "one of the two runs is --quick, and the other is not"
    } else if now.place != before.place {
        "it was made on other hosts"
    } else if header.version != record.header.version {
        "it was made by another version of this program"
    } else {
        return Ok(());
    };
    Err(Error::Setup(format!("Cannot continue the record in {}: {differs}. Choose another --out.", folder.display())))
}

/// The remaining cases of a plan.
struct Campaign<'a> {
    cases: &'a Cases,
    peers: &'a PeerPrograms,
    placement: &'a dyn Placement,
    cores: Cores,
    stop: &'a Stop,
    compact: bool,
}

impl Campaign<'_> {
    /// Runs the cases. A failed case does not end the run.
    fn run(&self, keeper: &mut Keeper, before: &Record) -> Result<(), Error> {
        let done: HashSet<String> = before.measurements.iter().map(key_of).collect();
        for skipped in self.cases.skipped.iter().filter(|skipped| !before.skipped.contains(skipped)) {
            keeper.keep(&Line::Skipped(Box::new(skipped.clone())))?;
        }
        let left: Vec<&PlannedCase> =
            self.cases.planned.iter().filter(|planned| !done.contains(&planned.key())).collect();
        let mut progress = Progress::start(left.len(), Cases::estimate(left.iter().copied()));
        let mut failures = 0;
        let mut unsupported = before.skipped.clone();
        for planned in &left {
            progress.begin(planned);
            let measured = self.measure(planned);
            if self.stop.reason().is_some() {
                progress.end();
                return Err(Error::Interrupted);
            }
            match measured {
                Ok(Measured::Measurement(measurement)) => {
                    let corrupt = measurement.corrupt();
                    let kept = if self.compact { Box::new(measurement.coarsened()) } else { measurement };
                    keeper.keep(&Line::Measurement(kept))?;
                    if corrupt > 0 {
                        failures += 1;
                        let text = format!("{}: {corrupt} samples differ from what was sent", planned.describe());
                        progress.message(&text);
                        keeper.keep(&Line::Warning(Warning { text }))?;
                    }
                }
                Ok(Measured::Unsupported(reason)) => {
                    let skipped = planned.not_measured(None, reason);
                    if !unsupported.contains(&skipped) {
                        keeper.keep(&Line::Skipped(Box::new(skipped.clone())))?;
                        unsupported.push(skipped);
                    }
                }
                Err(error) => {
                    failures += 1;
                    progress.message(&format!("Failed: {}: {error}", planned.describe()));
                    let skipped = planned.not_measured(Some(planned.repetition), format!("failed: {error}"));
                    keeper.keep(&Line::Skipped(Box::new(skipped)))?;
                }
            }
            progress.end_case(planned);
        }
        progress.end();
        if failures == 0 {
            return Ok(());
        }
        Err(Error::Transfer(format!(
            "{failures} of {} cases failed; the record has the reasons, and --resume tries these cases again.",
            left.len()
        )))
    }

    fn measure(&self, planned: &PlannedCase) -> Result<Measured, Error> {
        match planned.mover {
            CaseProgram::Own(carrier) => runner::run(planned, carrier, self.cores, self.placement, self.stop)
                .map(|measurement| Measured::Measurement(Box::new(measurement))),
            #[cfg(feature = "security")]
            CaseProgram::Sealing(sealing) => super::sealing::run(planned, sealing, self.cores, self.stop)
                .map(|measurement| Measured::Measurement(Box::new(measurement))),
            #[cfg(not(feature = "security"))]
            CaseProgram::Sealing(_) => Err(Error::Setup("this program was built without the feature security".into())),
            CaseProgram::Peer(variant) => {
                let program = self.peers.of(variant.peer).map_err(Error::Setup)?;
                peer::run(planned, variant, program, self.cores, self.stop)
            }
        }
    }
}

/// Text of `--list`: cases, cases that cannot be measured, and the estimated time.
fn list(cases: &Cases) -> String {
    let mut text = String::new();
    for planned in &cases.planned {
        let _ = writeln!(text, "{}", planned.describe());
    }
    let mut reasons: Vec<(&str, &str, usize)> = Vec::new();
    for skipped in &cases.skipped {
        match reasons.iter_mut().find(|known| (known.0, known.1) == (&*skipped.series, &*skipped.reason)) {
            Some(known) => known.2 += 1,
            None => reasons.push((&skipped.series, &skipped.reason, 1)),
        }
    }
    for (series, reason, count) in reasons {
        let _ = writeln!(text, "Not measured: {count} of {series}: {reason}");
    }
    let estimate = Cases::estimate(&cases.planned).max(Duration::from_secs(1));
    let noun = if cases.planned.len() == 1 { "case" } else { "cases" };
    let _ = writeln!(text, "{} {noun}, about {}", cases.planned.len(), HumanDuration(estimate));
    text
}
