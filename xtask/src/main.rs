//! `cargo xtask`: runs the checks of the project, all of them or one at a time.
//!
//! `cargo xtask test` runs all of continuous integration; `.ci/run` only calls this command.

#![forbid(unsafe_code)]

mod bench;
mod hunt;
mod outcome;
mod peers;
mod prerequisites;
mod process;
mod sanitize;
mod stage;
mod stages;
mod tidy;
mod workspace;

use std::env;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::stage::STAGES;
use crate::workspace::Workspace;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(words: &[&str]) -> Result<()> {
    let workspace = Workspace::load()?;
    match words {
        [] | ["help" | "-h" | "--help"] => {
            print_usage();
            Ok(())
        }
        ["test"] => {
            prerequisites::ensure()?;
            stage::run_all(&workspace)
        }
        ["prerequisites"] => prerequisites::list(),
        ["prerequisites", "--install"] => prerequisites::ensure(),
        ["bench", "floor"] => bench::floor(&workspace),
        ["bench", "shared-memory"] => bench::shared_memory(&workspace),
        ["bench", "tails"] => bench::tails(&workspace),
        ["bench", "instructions"] => bench::instructions(&workspace),
        ["bench", "agreement"] => bench::agreement(&workspace),
        ["bench", "outages", rest @ ..] => bench::outages(&workspace, rest),
        ["bench", "recorder"] => bench::recorder(&workspace),
        ["tidy", "--shrink"] => tidy::shrink(&workspace),
        ["sanitize"] => sanitize::sanitize(&workspace),
        ["peers"] => peers::build(&workspace).map(|_| ()),
        [name] => match STAGES.iter().find(|stage| stage.name == *name) {
            Some(stage) => stage::run_one(stage, &workspace),
            None => bail!("no task is called `{name}`; `cargo xtask help` lists them"),
        },
        _ => bail!("unexpected arguments `{}`; `cargo xtask help` lists the tasks", words.join(" ")),
    }
}

fn print_usage() {
    println!("usage: cargo xtask <task>\n");
    println!("  {:<26} run every stage below, in this order, up to the first failure", "test");
    for stage in STAGES {
        println!("    {:<24} {}", stage.name, stage.about);
    }
    println!("  {:<26} remove solved entries from the lists of allowed cycles and sentences", "tidy --shrink");
    println!("  {:<26} list the system packages that the stages need, and their state", "prerequisites");
    println!("  {:<26} install the missing packages (Debian, as root)", "prerequisites --install");
    println!("  {:<26} measure speed as ratios to raw UDP sockets; slowness is no failure", "bench floor");
    println!("  {:<26} measure shared memory, zero copy and one process in the same way", "bench shared-memory");
    println!("  {:<26} measure p99 and p99.9 of ping-pongs as ratios to their floors", "bench tails");
    println!("  {:<26} count instructions per sample by part, function and file; needs valgrind", "bench instructions");
    println!("  {:<26} compare perftest's raw UDP with an independent ping-pong in C", "bench agreement");
    println!("  {:<26} measure the cost of the clock, the recorder and the patterns", "bench recorder");
    println!("  {:<26} run pairs of peers through outages; writes docs/outages.md", "bench outages");
    println!("  {:<26} run shared memory under the address and thread sanitizers; needs nightly", "sanitize");
    println!("  {:<26} build the interoperability peers into target/interop", "peers");
}
