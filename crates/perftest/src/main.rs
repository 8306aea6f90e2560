//! The `perftest` executable.
//!
//! Words with one dash are RTI Perftest's command line; anything else, and nothing at all, is this program's own.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use perftest::characterize;
use perftest::control::{Stop, watch_signals};
use perftest::error::Error;
use perftest::peers;

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
    /// List other middleware to compare with, build what speaks for it, or measure it
    Peers(peers::Options),
    /// Render a kept record again
    Report {
        /// The folder that holds record.jsonl
        dir: PathBuf,
    },
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
        Some(OwnCommand::Peers(options)) => peers::run(&options, stop),
        Some(OwnCommand::Report { dir }) => characterize::report(&dir),
    }
}
