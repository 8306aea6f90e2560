//! The stages of `cargo xtask test`: their list, their order, and the summary.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::outcome::Outcome;
use crate::workspace::Workspace;
use crate::{hunt, stages, tidy};

/// One named check.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    run: fn(&Workspace) -> Result<Outcome>,
}

/// All stages, cheap ones first.
pub(crate) const STAGES: &[Stage] = &[
    Stage { name: "fmt", about: "rustfmt has nothing to change", run: stages::fmt },
    Stage {
        name: "tidy",
        about: "the project's own rules: dependencies, cycles, unsafe, prose, sizes, links",
        run: tidy::run,
    },
    Stage { name: "clippy", about: "all targets and features, warnings denied", run: stages::clippy },
    Stage { name: "doc", about: "documentation builds, warnings denied", run: stages::doc },
    Stage { name: "deny", about: "cargo-deny: licences, bans, sources, advisories", run: stages::deny },
    Stage { name: "unit", about: "unit, property and documentation tests; builds without security", run: stages::unit },
    Stage {
        name: "models",
        about: "shared memory and the driver through every interleaving, by loom",
        run: stages::models,
    },
    Stage { name: "sim", about: "the simulator's fixed seeds, optimised with checks", run: stages::sim },
    Stage {
        name: "fuzz-smoke",
        about: "every fuzz target: its corpus, then some seconds of search",
        run: stages::fuzz_smoke,
    },
    Stage { name: "page", about: "the report in a browser: screens, telephone, dark, paper", run: stages::page },
    Stage { name: "interop", about: "real processes of other vendors, in network namespaces", run: stages::interop },
    Stage { name: "two-host", about: "two network namespaces: rate limits, loss, captures", run: stages::two_host },
    Stage {
        name: "hunt",
        about: "tests on a core shared with a busy loop, in rounds within a budget",
        run: hunt::hunt,
    },
];

/// Runs one stage; a stage with nothing to check is an error when asked for by name.
pub(crate) fn run_one(stage: &Stage, workspace: &Workspace) -> Result<()> {
    match (stage.run)(workspace)? {
        Outcome::Passed => Ok(()),
        Outcome::Absent(reason) => bail!("{}: nothing to check: {reason}", stage.name),
    }
}

/// Runs every stage in order, stops at the first failure, and prints the summary either way.
pub(crate) fn run_all(workspace: &Workspace) -> Result<()> {
    let started = Instant::now();
    let mut rows = Vec::new();
    let mut failure = None;
    for stage in STAGES {
        println!("\n==> {}: {}", stage.name, stage.about);
        let begun = Instant::now();
        let result = (stage.run)(workspace);
        let elapsed = begun.elapsed();
        let verdict = match &result {
            Ok(Outcome::Passed) => "passed".to_owned(),
            Ok(Outcome::Absent(reason)) => format!("nothing to check: {reason}"),
            Err(_) => "FAILED".to_owned(),
        };
        println!("<== {}: {verdict} ({})", stage.name, seconds(elapsed));
        rows.push((stage.name, verdict, elapsed));
        if let Err(error) = result {
            failure = Some(error.context(format!("stage {}", stage.name)));
            break;
        }
    }
    print_summary(&rows, started.elapsed());
    failure.map_or(Ok(()), Err).context("cargo xtask test failed")
}

fn print_summary(rows: &[(&str, String, Duration)], total: Duration) {
    println!("\nSummary");
    for (name, verdict, elapsed) in rows {
        println!("  {name:<12} {:>9}  {verdict}", seconds(*elapsed));
    }
    for stage in &STAGES[rows.len()..] {
        println!("  {:<12} {:>9}  not run", stage.name, "-");
    }
    println!("  {:<12} {:>9}", "total", seconds(total));
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
