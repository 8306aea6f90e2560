//! `cargo xtask bench instructions`: instructions per sample from `write` to `take`, by part, function and file.
//!
//! Callgrind counts two runs that differ only in the number of samples; the difference is the cost of the samples,
//! without work of the kernel. If every sample is acknowledged, repeated runs differ by a few instructions only; in the
//! usual flow, acknowledgement requests depend on the clock as well.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::callgrind::Profile;
use super::protection::{self, Cost};
use crate::process::{output, run, succeeds};
use crate::workspace::Workspace;

/// Samples of the two runs.
const COUNTS: [u64; 2] = [1000, 3000];
/// The arguments of the example.
const MODES: [(&str, &str); 5] = [
    ("each", "32 bytes, every sample is acknowledged"),
    ("flow", "32 bytes, acknowledged as usual (depends on the clock)"),
    ("fragments", "63000 bytes in messages of 1472, acknowledged as usual"),
    ("batch", "32 bytes, in batches of 128, acknowledged as usual"),
    ("same-process", "32 bytes, built in place for a listener of the same process"),
];
/// Protections by DDS Security: the argument of the example after `protected`. Without protection, it is `none`.
const PROTECTIONS: [(&str, &str); 4] = [
    ("sign", "signed messages"),
    ("encrypt", "encrypted messages"),
    ("sign-encrypt", "signed messages, encrypted submessages"),
    ("costliest", "signed messages, encrypted submessages with origin authentication, encrypted payloads"),
];
/// The argument of the example of samples in place: bytes of payload, left unfilled.
const FLAT_BYTES: &str = "32";
/// Rows of a table.
const ROWS: usize = 20;
/// The parts of an exchange, by the example's functions.
const PARTS: [(&str, &str); 9] = [
    (protection::EXCHANGE, "the exchange of single samples, without the set-up before"),
    ("exchange::lend", "loan: the memory for a sample"),
    ("exchange::write_lent", "write: number, keep, hand over"),
    ("exchange::take_in_place", "take: out of the cache, read, returned"),
    ("exchange::write", "write: encode, store, pack, send"),
    ("exchange::receive", "receive: into the reader's cache, and answer"),
    ("exchange::take", "take: out of the cache, decode"),
    ("exchange::take_batch", "take: all samples, decode"),
    ("exchange::hear_acknowledgement", "the writer's side polls for an answer"),
];

/// The parts of a sample in place, in the same way.
const FLAT_PARTS: [(&str, &str); 2] =
    [("flat::build", "build: seven members and the headers"), ("flat::read", "view: checked, and every member read")];

/// Counts, and prints the tables.
pub(crate) fn print(workspace: &Workspace) -> Result<()> {
    if !succeeds(Command::new("valgrind").arg("--version")) {
        bail!("valgrind does not start; install the Debian package `valgrind`");
    }
    let target = workspace.metadata.target_directory.as_std_path();
    build(workspace, "peregrine", "exchange", &[])?;
    build(workspace, "peregrine-xtypes", "flat", &[])?;
    let program = target.join("release/examples/exchange");
    println!("\nInstructions per sample, reliable, one process, WaitStrategy::Poll");
    for (mode, what) in MODES {
        let [few, many] = count_both(&program, target, &[mode])?;
        println!(
            "\n{what}: {:.3} acknowledgements per sample",
            per_sample(few.acknowledgements()?, many.acknowledgements()?)
        );
        print_tables(&PARTS, &few.profile, &many.profile);
    }
    build(workspace, "peregrine", "exchange", &["--features", "security"])?;
    let cost_of = |mode: &[&str], what: &str| -> Result<Cost> {
        let [few, many] = count_both(&program, target, mode)?;
        println!("\n32 bytes, every sample is acknowledged; {what}");
        print_tables(&PARTS, &few.profile, &many.profile);
        Ok(Cost::per_sample(&few.profile, &many.profile, COUNTS[1] - COUNTS[0]))
    };
    let no_security = cost_of(&["each"], "no security, in a program that contains it")?;
    let unprotected = cost_of(&["protected", "none"], "participants with DDS Security, nothing protected")?;
    let mut levels = Vec::new();
    for (kinds, what) in PROTECTIONS {
        levels.push((kinds, cost_of(&["protected", kinds], what)?));
    }
    protection::print(no_security, unprotected, &levels);
    let [few, many] = count_both(&target.join("release/examples/flat"), target, &[FLAT_BYTES])?;
    println!("\n{FLAT_BYTES} bytes in a mutable structure, built in place and viewed");
    print_tables(&FLAT_PARTS, &few.profile, &many.profile);
    Ok(())
}

fn build(workspace: &Workspace, package: &str, example: &str, features: &[&str]) -> Result<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace.root()).args(["build", "--release", "--locked", "--package", package]);
    run(cargo.args(["--example", example]).args(features))
}

struct Counted {
    profile: Profile,
    /// The output of the example.
    told: String,
}

impl Counted {
    fn acknowledgements(&self) -> Result<u64> {
        let acknowledgements = self.told.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        acknowledgements.context("the example has not printed the number of acknowledgements")
    }
}

fn count_both(program: &Path, target: &Path, mode: &[&str]) -> Result<[Counted; 2]> {
    let [few, many] = COUNTS;
    Ok([count(program, target, mode, few)?, count(program, target, mode, many)?])
}

fn count(program: &Path, target: &Path, mode: &[&str], samples: u64) -> Result<Counted> {
    let file = target.join(format!("example-{}-{samples}.callgrind", mode.join("-")));
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--dump-line=no", "--compress-strings=no", "--compress-pos=no"]);
    command.arg(format!("--callgrind-out-file={}", file.display())).arg(program).args(mode).arg(samples.to_string());
    let told = output(&mut command)?;
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
    Ok(Counted { profile: Profile::parse(&text), told })
}

fn per_sample(few: u64, many: u64) -> f64 {
    (many as f64 - few as f64) / (COUNTS[1] - COUNTS[0]) as f64
}

fn print_tables(parts: &[(&str, &str)], few: &Profile, many: &Profile) {
    let total = per_sample(few.functions.values().sum(), many.functions.values().sum());
    println!("  {total:>8.1}  everything");
    let of = |profile: &Profile, name: &str| profile.inclusive.get(name).copied().unwrap_or(0);
    for (name, what) in parts {
        println!("  {:>8.1}  {what}", per_sample(of(few, name), of(many, name)));
    }
    print_top("function, with inlined code", &few.functions, &many.functions);
    print_top("function, with its callees", &few.inclusive, &many.inclusive);
    print_top("source file, including code inlined elsewhere", &few.files, &many.files);
}

fn print_top(what: &str, few: &BTreeMap<String, u64>, many: &BTreeMap<String, u64>) {
    let names: BTreeSet<&String> = few.keys().chain(many.keys()).collect();
    let of = |map: &BTreeMap<String, u64>, name| map.get(name).copied().unwrap_or(0);
    let mut rows: Vec<(f64, &String)> =
        names.into_iter().map(|name| (per_sample(of(few, name), of(many, name)), name)).collect();
    rows.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    println!("  by {what}:");
    for (cost, name) in rows.into_iter().take(ROWS).filter(|(cost, _)| *cost >= 0.5) {
        println!("  {cost:>8.1}    {}", short(name));
    }
}

/// The path from its last directory that identifies a crate.
fn short(name: &str) -> &str {
    let starts = ["/crates/", "/registry/src/", "/library/"];
    starts.iter().find_map(|start| name.rfind(start).map(|at| &name[at + 1..])).unwrap_or(name)
}
