//! The `perftest` executable.
//!
//! Arguments with one dash are RTI Perftest's command line; all other command lines, and none, are this program's own.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use perftest::control::{Stop, StopReason, watch_signals};
use perftest::error::Error;
use perftest::places::{self, HostOptions, INSIDE, Lab, LabOptions, Places, TETHERED};
use perftest::terminal::{self, message};
use perftest::{campaign, characterize, compare, doctor, floors, open_loop, peers, report, scale, selftest};

/// Measures how this machine moves samples. For RTI Perftest's options see: perftest -help
#[derive(Debug, Parser)]
#[command(name = "perftest", version, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<OwnCommand>,
    #[command(flatten)]
    characterize: Placed<characterize::Options>,
}

/// Options of a command whose two sides may run on two hosts.
#[derive(Debug, clap::Args)]
struct Placed<O: clap::Args> {
    #[command(flatten)]
    options: O,
    #[command(flatten)]
    hosts: HostOptions,
}

#[derive(Debug, Subcommand)]
enum OwnCommand {
    /// Measure latency and throughput of this machine with both sides on it (the default)
    Characterize(Placed<characterize::Options>),
    /// Run the cases of a plan: rates, sizes, subscribers, policies, places, middlewares
    Run(Placed<campaign::Options>),
    /// Measure two alternatives in turns, and report whether they differ
    Ab(Placed<characterize::TurnsOptions>),
    /// Report whether two records differ, or the blocks or series of one record
    Compare(compare::Options),
    /// Measure latency under an open-loop load, from the time at which each sample was due
    Load(Placed<open_loop::LoadOptions>),
    /// Find the highest rate without loss and with a bounded 99th percentile
    Search(Placed<open_loop::SearchOptions>),
    /// Answer 'load' or 'search' on another host
    Respond(open_loop::RespondOptions),
    /// Run a measurement between two network namespaces, connected by a link with a given rate and packet loss
    Lab(LabOptions),
    #[command(name = INSIDE, hide = true)]
    LabInside(LabOptions),
    /// Print the facts of this host for a measurement that another host makes
    #[command(hide = true)]
    HostLines,
    /// Check this machine for problems that distort measurements, and print the fixes
    Doctor,
    /// Measure the cost of measuring: clock, recorder, patterns
    Selftest,
    /// Measure this machine without middleware: sockets, shared memory, memory
    Floors(floors::Options),
    /// List other middleware to compare with, build its measuring programs, or run them
    Peers(peers::Options),
    /// Make a test identity for DDS Security, or check the files of a participant
    #[cfg(feature = "security")]
    #[command(subcommand)]
    Keys(perftest::security::KeysCommand),
    /// Measure how the cost of endpoints grows with their number: time, datagrams, processor time, memory
    Scale(scale::Options),
    /// Take part in a row of 'scale': orders on stdin, answers on stdout
    #[command(hide = true)]
    ScalePart,
    /// Take part in a case of a plan: orders on stdin, answers on stdout
    #[command(hide = true)]
    TakePart,
    /// Show records as tables, CSV or a page
    Report(report::Options),
}

fn main() -> ExitCode {
    let result = watch_signals().and_then(|stop| {
        let run_stop = Arc::clone(&stop);
        terminal::when_closed(move || run_stop.request(StopReason::Interrupted));
        run(std::env::args().collect(), &stop)
    });
    let status = match result {
        Ok(status) => status,
        Err(error) => {
            if !terminal::is_closed() {
                message(&error);
            }
            error.exit_code()
        }
    };
    ExitCode::from(if terminal::is_closed() { terminal::CLOSED_STATUS } else { status })
}

fn run(mut words: Vec<String>, stop: &Arc<Stop>) -> Result<u8, Error> {
    if words.get(1).is_some_and(|word| word == TETHERED) {
        words.remove(1);
        places::tie(stop)?;
    }
    if is_classic(words.get(1)) {
        return perftest::run_command_line(&words[1..], stop).map(|()| 0);
    }
    let command_line = parsed(&words);
    match command_line.command {
        Some(OwnCommand::Lab(options)) => places::enter(&options, &words[2..], stop),
        Some(OwnCommand::LabInside(options)) => run_inside(&options, words, stop).map(|()| 0),
        _ => run_own(command_line, words, None, stop).map(|()| 0),
    }
}

/// Whether a command line with this first word is RTI Perftest's.
fn is_classic(first: Option<&String>) -> bool {
    first.is_some_and(|word| word.starts_with('-') && !word.starts_with("--"))
}

fn parsed(words: &[String]) -> CommandLine {
    CommandLine::try_parse_from(words).unwrap_or_else(|error| {
        let status = match error.print() {
            Err(failure) if failure.kind() == std::io::ErrorKind::BrokenPipe => terminal::CLOSED_STATUS,
            _ if error.use_stderr() => 255,
            _ => 0,
        };
        #[expect(clippy::disallowed_methods, reason = "nothing has been started yet")]
        std::process::exit(status.into());
    })
}

/// Runs the inner command line on the near host of the lab.
fn run_inside(options: &LabOptions, mut words: Vec<String>, stop: &Arc<Stop>) -> Result<(), Error> {
    let inner = options.words();
    let command_line =
        (!is_classic(inner.first())).then(|| parsed(&words.iter().take(1).chain(inner).cloned().collect::<Vec<_>>()));
    let lab = Arc::new(Lab::build(options)?);
    // The record contains the command line of the user.
    if let Some(word) = words.get_mut(1) {
        *word = "lab".into();
    }
    let result = match command_line {
        None => places::run_publisher(inner, lab.as_ref(), stop),
        Some(command_line) => run_own(command_line, words, Some(Arc::clone(&lab)), stop),
    };
    lab.traffic()?.iter().for_each(message);
    result
}

/// The places of the two ends: the lab, the given hosts, or this machine.
fn places(lab: Option<Arc<Lab>>, hosts: &HostOptions, stop: &Arc<Stop>) -> Result<Places, Error> {
    match lab {
        Some(_) if hosts.are_given() => {
            Err(Error::Setup("--hosts cannot be used with a lab, which has its own hosts; leave it out.".into()))
        }
        Some(lab) => Ok(Places::Lab(lab)),
        None => Places::of(hosts, stop),
    }
}

fn run_own(
    command_line: CommandLine,
    words: Vec<String>,
    lab: Option<Arc<Lab>>,
    stop: &Arc<Stop>,
) -> Result<(), Error> {
    let places = |hosts: &HostOptions| places(lab, hosts, stop);
    match command_line.command.unwrap_or(OwnCommand::Characterize(command_line.characterize)) {
        OwnCommand::Characterize(Placed { options, hosts }) => {
            characterize::run(&options, words, &places(&hosts)?, stop)
        }
        OwnCommand::Run(Placed { options, hosts }) => {
            campaign::run_at(&options, words, stop, places(&hosts)?.placement())
        }
        OwnCommand::TakePart => campaign::take_part(stop),
        OwnCommand::Ab(Placed { options, hosts }) => characterize::run_turns(&options, words, &places(&hosts)?, stop),
        OwnCommand::Compare(options) => compare::run(&options),
        OwnCommand::Load(Placed { options, hosts }) => open_loop::load(&options, words, &places(&hosts)?, stop),
        OwnCommand::Search(Placed { options, hosts }) => open_loop::search(&options, words, &places(&hosts)?, stop),
        OwnCommand::Respond(options) => open_loop::respond(&options, stop),
        OwnCommand::Lab(_) | OwnCommand::LabInside(_) => Err(Error::Setup("There is no lab in a lab.".into())),
        OwnCommand::HostLines => places::print_host_lines(),
        OwnCommand::Doctor => doctor::run(),
        OwnCommand::Selftest => selftest::run(),
        OwnCommand::Floors(options) => floors::run(&options, words, stop),
        OwnCommand::Peers(options) => peers::run(&options, words, stop),
        #[cfg(feature = "security")]
        OwnCommand::Keys(command) => perftest::security::run(&command),
        OwnCommand::Scale(options) => scale::run(&options, words, stop),
        OwnCommand::ScalePart => scale::take_part(stop),
        OwnCommand::Report(options) => report::run(&options),
    }
}
