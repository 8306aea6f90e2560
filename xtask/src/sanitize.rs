//! `cargo xtask sanitize`: everything with `unsafe` code, and shared memory through the middleware, under the address
//! sanitizer; the ring under the thread sanitizer. On nightly.
//!
//! The standard library is the one that comes with the toolchain, not instrumented: the address sanitizer does not see
//! its own mistakes, and the thread sanitizer does not see the order that its locks make. That was tried: five programs
//! that are right, which share memory by `Mutex`, `Condvar`, `mpsc`, `Arc` and `park` alone, get one to seven reports
//! each. Hiding those would hide what is looked for, since suppressions name functions and not the missing order. So
//! under it run only tests that share memory by the atomics of the crate, and there are no suppressions; the test
//! harness hands its results over by such locks, too, and so only reports count in which code of the crate takes part.
//! Neither sees through two mappings of the same memory: what one process may do to another is for the models (`cargo
//! xtask models`) and for the tests that do it.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::prerequisites;
use crate::process::{output, run};
use crate::workspace::Workspace;

struct Sanitizer {
    name: &'static str,
    flags: &'static str,
    /// The selected tests, as arguments of `cargo test`.
    runs: &'static [&'static [&'static str]],
    /// Whose reports count; `None`: all, by the status of the tests.
    judges: Option<&'static str>,
}

const SANITIZERS: &[Sanitizer] = &[
    Sanitizer {
        name: "address",
        flags: "-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer",
        runs: &[
            &["--package", "peregrine-transport", "--lib", "--test", "shm", "--test", "shm_processes"],
            &["--package", "peregrine-xtypes", "--lib", "--test", "flat", "--test", "round_trip"],
            &["--package", "peregrine", "--test", "shared_memory", "--test", "shared_memory_processes"],
        ],
        judges: None,
    },
    Sanitizer {
        name: "thread",
        flags: "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg peregrine_tsan",
        runs: &[&["--package", "peregrine-transport", "--lib", "ring_between_threads", "--", "--nocapture"]],
        judges: Some("peregrine_transport::"),
    },
];

/// Runs them all; fails with the first that finds something.
pub(crate) fn sanitize(workspace: &Workspace) -> Result<()> {
    prerequisites::ensure_nightly()?;
    let target = host()?;
    for sanitizer in SANITIZERS {
        let folder = workspace.metadata.target_directory.join("sanitize").join(sanitizer.name);
        for words in sanitizer.runs {
            let mut command = Command::new("rustup");
            // A target of its own keeps build scripts and macros, which run in the compiler, out of it.
            command
                .args(["run", "nightly", "cargo", "test", "--locked", "--target", &target])
                .args(*words)
                .current_dir(workspace.root())
                .env_remove("CARGO")
                .env("CARGO_TARGET_DIR", folder.as_str())
                .env("RUSTFLAGS", sanitizer.flags);
            let result = match sanitizer.judges {
                None => run(&mut command),
                Some(judges) => run_and_judge(&mut command, judges),
            };
            result.with_context(|| format!("{} sanitizer", sanitizer.name))?;
        }
    }
    Ok(())
}

/// Runs tests whose status does not depend on the thread sanitizer, and fails when one of its reports names `whose`.
fn run_and_judge(command: &mut Command, whose: &str) -> Result<()> {
    let output = command.env("TSAN_OPTIONS", "exitcode=0").output().context("cannot start rustup")?;
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let ours = reports(&text).filter(|report| report.contains(whose)).count();
    if !output.status.success() || ours > 0 {
        println!("{text}");
    }
    println!("{ours} of {} reports name {whose}", reports(&text).count());
    if !output.status.success() {
        bail!("the tests failed: {}", output.status);
    }
    if ours > 0 {
        bail!("{ours} reports");
    }
    Ok(())
}

/// The reports of the thread sanitizer: each begins with a warning and ends with a summary.
fn reports(text: &str) -> impl Iterator<Item = &str> {
    text.split("WARNING: ThreadSanitizer").skip(1).filter_map(|report| report.split("SUMMARY:").next())
}

/// The target that the nightly compiler runs on itself.
fn host() -> Result<String> {
    let version = output(Command::new("rustup").args(["run", "nightly", "rustc", "--version", "--verbose"]))?;
    match version.lines().find_map(|line| line.strip_prefix("host: ")) {
        Some(host) => Ok(host.to_owned()),
        None => bail!("`rustc --version --verbose` names no host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_ends_with_its_summary() {
        let text = "test a ... WARNING: ThreadSanitizer: data race\n  #0 free\n  #1 test::run\nSUMMARY: x ours::b\n\
                    WARNING: ThreadSanitizer: data race\n  #0 ours::c\nSUMMARY: x\ntest ours::d ... ok";
        let found: Vec<_> = reports(text).map(|report| report.contains("ours::")).collect();
        assert_eq!(found, [false, true]);
    }
}
