//! `perftest run PLAN`: campaigns, whose cases differ in rate, size, number of subscribers, policies, places and middleware.
//!
//! A plan ([`spec`]) becomes a list of cases ([`cases`]). Each is run by processes of its own (`party`), which are started
//! where a [`placement::Placement`] says and led through the measurement by the `runner`. Each measurement is kept as it
//! ends, so that an interrupted campaign goes on where it stood.

pub mod cases;
mod job;
mod party;
pub mod placement;
mod progress;
mod runner;
pub mod series;
mod shipped;
pub mod spec;
pub mod types;

use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use indicatif::HumanDuration;
use peregrine_report::record::{End, Header, Line, PlanFacts, Record, SCHEMA_VERSION, Skipped};

use self::cases::{Cases, PlannedCase, key_of};
pub use self::party::take_part;
use self::placement::{Placement, ThisMachine};
use self::progress::Progress;
use self::spec::Plan;
use crate::characterize::{Keeper, keeper};
use crate::control::Stop;
use crate::error::Error;
use crate::host::{self, IdleStates};
use crate::output::print_text;

/// Which plan to run, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// A file, or a plan that comes with the program: raspberry-pi, large-data, security, tsc-2021
    plan: String,
    /// Keep record.jsonl and report.html here [default: perftest-results/ and the UTC time]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the record in --out, where an interrupted run stood
    #[arg(long, requires = "out")]
    resume: bool,
    /// Measure each case once and briefly, and only the ends of every list
    #[arg(long)]
    quick: bool,
    /// Print the cases and about how long they take, and measure nothing
    #[arg(long, visible_alias = "dry-run")]
    list: bool,
}

/// Runs a plan on this machine.
pub fn run(options: &Options, command_line: Vec<String>, stop: &Stop) -> Result<(), Error> {
    run_at(options, command_line, stop, &ThisMachine)
}

/// Runs a plan where `placement` says.
pub fn run_at(
    options: &Options,
    command_line: Vec<String>,
    stop: &Stop,
    placement: &dyn Placement,
) -> Result<(), Error> {
    let source = shipped::text_of(&options.plan)?;
    let plan = Plan::read(&options.plan, &source).map_err(Error::Setup)?;
    let two_hosts = placement.address(placement::Place::Far).is_some();
    let cases = Cases::of(&plan, two_hosts, options.quick);
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
    let mut header = header(&cases, facts, command_line);
    let folder = keeper::folder(options.out.as_deref(), &header.created_utc);
    let (mut keeper, before) = if options.resume {
        let (keeper, record) = Keeper::resume(&folder)?;
        check_resumed(&header, &record, &folder)?;
        (keeper, record)
    } else {
        (Keeper::create(&folder)?, Record::default())
    };
    let host_lines = placement.host_lines()?;
    let idle_states = placement.keep_awake();
    header.idle_states_disabled = matches!(idle_states, IdleStates::Disabled { .. });
    if !options.resume {
        keeper.keep(&Line::Header(header))?;
        for line in host_lines {
            keeper.keep(&line)?;
        }
    }
    let result = Campaign { cases: &cases, placement, stop }.run(&mut keeper, &before);
    let reason = result.as_ref().err().map_or_else(String::new, Error::to_string);
    keeper.keep(&Line::End(End { complete: result.is_ok(), reason }))?;
    keeper.finish()?;
    crate::report::beside_record(&folder)?;
    result
}

fn header(cases: &Cases, plan: PlanFacts, command_line: Vec<String>) -> Header {
    Header {
        schema: SCHEMA_VERSION,
        tool: "perftest".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        created_utc: host::utc_text(SystemTime::now()),
        command_line,
        series: cases.series.iter().map(|series| series.describe()).collect(),
        data_lens: cases.data_lens.clone(),
        repetitions: cases.repetitions,
        measurement_ms: cases.duration.as_millis() as u64,
        pinned_cores: Vec::new(),
        idle_states_disabled: false,
        plan: Some(Box::new(plan)),
    }
}

/// A record goes on only with the plan, the program and the place that it was begun with.
fn check_resumed(header: &Header, record: &Record, folder: &Path) -> Result<(), Error> {
    let known = |header: &Header| header.plan.as_deref().cloned().unwrap_or_default();
    let (now, before) = (known(header), known(&record.header));
    let differs = if before == PlanFacts::default() {
        "it was not made by a plan"
    } else if (&now.source, &now.name) != (&before.source, &before.name) {
        "the plan is another one, or has changed"
    } else if (header.repetitions, header.measurement_ms) != (record.header.repetitions, record.header.measurement_ms) {
        "one of the two runs is --quick, and the other is not"
    } else if now.place != before.place {
        "it was made at another place"
    } else if header.version != record.header.version {
        "it was made by another version of this program"
    } else {
        return Ok(());
    };
    Err(Error::Setup(format!("Cannot go on with the record in {}: {differs}. Choose another --out.", folder.display())))
}

/// The cases that are left of a plan.
struct Campaign<'a> {
    cases: &'a Cases,
    placement: &'a dyn Placement,
    stop: &'a Stop,
}

impl Campaign<'_> {
    /// A case that fails does not take the others with it.
    fn run(&self, keeper: &mut Keeper, before: &Record) -> Result<(), Error> {
        let done: HashSet<String> = before.measurements.iter().map(key_of).collect();
        for skipped in self.cases.skipped.iter().filter(|skipped| !before.skipped.contains(skipped)) {
            keeper.keep(&Line::Skipped(Box::new(skipped.clone())))?;
        }
        let left: Vec<&PlannedCase> =
            self.cases.planned.iter().filter(|planned| !done.contains(&planned.key())).collect();
        let mut progress = Progress::start(left.len(), Cases::estimate(left.iter().copied()));
        let mut failures = 0;
        for planned in &left {
            progress.begin(planned);
            let measured = runner::run(planned, self.placement, self.stop);
            if self.stop.reason().is_some() {
                progress.end();
                return Err(Error::Interrupted);
            }
            match measured {
                Ok(measurement) => keeper.keep(&Line::Measurement(Box::new(measurement)))?,
                Err(error) => {
                    failures += 1;
                    progress.message(&format!("Failed: {}: {error}", planned.describe()));
                    keeper.keep(&Line::Skipped(Box::new(failed(planned, &error))))?;
                }
            }
            progress.end_case(planned);
        }
        progress.end();
        if failures == 0 {
            return Ok(());
        }
        Err(Error::Transfer(format!(
            "{failures} of {} cases failed; the record tells why, and --resume tries them again.",
            left.len()
        )))
    }
}

fn failed(planned: &PlannedCase, error: &Error) -> Skipped {
    Skipped {
        series: planned.series.id.into(),
        data_len: planned.data_len,
        case: planned.case.clone(),
        reason: format!("failed, {}, repetition {}: {error}", planned.pace, planned.repetition + 1),
    }
}

/// The cases, what cannot be measured, and the time.
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
    let _ = writeln!(text, "{} cases, about {}", cases.planned.len(), HumanDuration(estimate));
    text
}
