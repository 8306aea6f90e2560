//! The `perftest` executable.
//!
//! Words with one dash are RTI Perftest's command line; anything else, and nothing at all, is this program's own.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use perftest::control::{Stop, watch_signals};
use perftest::error::Error;
use perftest::{characterize, compare, doctor, open_loop, report, selftest};

/// Measures how this machine moves samples. For RTI Perftest's options see: perftest -help
#[derive(Debug, Parser)]
#[command(name = "perftest", version, args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<OwnCommand>,
    #[command(flatten)]
    characterize: characterize::Options,
}

#[derive(Debug, Subcommand)]
enum OwnCommand {
    /// Measure latency and throughput of this machine, both sides at once (the default)
    Characterize(characterize::Options),
    /// Let two alternatives take turns, and tell whether they differ
    Ab(characterize::TurnsOptions),
    /// Tell whether two kept records differ, or the blocks or series of one
    Compare(compare::Options),
    /// Send on a schedule that waits for nobody, and measure from when samples were due
    Load(open_loop::LoadOptions),
    /// Find the highest rate without loss and with a bounded 99th percentile
    Search(open_loop::SearchOptions),
    /// Answer a 'load' or a 'search' on another host
    Respond(open_loop::RespondOptions),
    /// Tell what about this machine would spoil a measurement, and the command that mends it
    Doctor,
    /// Tell what measuring itself costs here: the clock, the recorder, the patterns
    Selftest,
    /// Show kept records as tables, CSV or a page
    Report(report::Options),
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let is_classic = words.get(1).is_some_and(|word| word.starts_with('-') && !word.starts_with("--"));
    let result = watch_signals().and_then(|stop| {
        if is_classic { perftest::run_command_line(&words[1..], &stop) } else { run_own(&words, &stop) }
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn run_own(words: &[String], stop: &Arc<Stop>) -> Result<(), Error> {
    let command_line = CommandLine::try_parse_from(words).unwrap_or_else(|error| {
        let _ = error.print();
        #[expect(clippy::disallowed_methods, reason = "nothing has been started yet")]
        std::process::exit(if error.use_stderr() { 255 } else { 0 });
    });
    match command_line.command {
        None => characterize::run(&command_line.characterize, words.to_vec(), stop),
        Some(OwnCommand::Characterize(options)) => characterize::run(&options, words.to_vec(), stop),
        Some(OwnCommand::Ab(options)) => characterize::run_turns(&options, words.to_vec(), stop),
        Some(OwnCommand::Compare(options)) => compare::run(&options),
        Some(OwnCommand::Load(options)) => open_loop::load(&options, words.to_vec(), stop),
        Some(OwnCommand::Search(options)) => open_loop::search(&options, words.to_vec(), stop),
        Some(OwnCommand::Respond(options)) => open_loop::respond(&options, stop),
        Some(OwnCommand::Doctor) => doctor::run(),
        Some(OwnCommand::Selftest) => selftest::run(),
        Some(OwnCommand::Report(options)) => report::run(&options),
    }
}
