//! `cargo xtask`: every check of the project as one command, and each of them alone.
//!
//! `cargo xtask test` is the whole of continuous integration; `.ci/run` only calls it.

#![forbid(unsafe_code)]

mod bench;
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
        ["bench", "instructions"] => bench::instructions(&workspace),
        ["bench", "agreement"] => bench::agreement(&workspace),
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
    println!("  {:<26} every stage below, in this order; the first failure stops", "test");
    for stage in STAGES {
        println!("    {:<24} {}", stage.name, stage.about);
    }
    println!("  {:<26} shorten the lists of what tidy still allows to what is still there", "tidy --shrink");
    println!("  {:<26} what the stages need from the system, and whether it is there", "prerequisites");
    println!("  {:<26} install what is missing (Debian, as root)", "prerequisites --install");
    println!("  {:<26} speed as ratios to raw UDP sockets; fails never because something is slow", "bench floor");
    println!("  {:<26} the same for shared memory, zero copy and one process", "bench shared-memory");
    println!("  {:<26} instructions per sample, by part, function and file; takes valgrind", "bench instructions");
    println!("  {:<26} whether perftest's raw UDP agrees with an independent ping-pong in C", "bench agreement");
    println!("  {:<26} what measuring itself costs: the clock, the recorder, the patterns", "bench recorder");
    println!("  {:<26} shared memory under the address and thread sanitizers; takes nightly", "sanitize");
    println!("  {:<26} build the interoperability peers into target/interop", "peers");
}
