//! `cargo xtask sanitize`: all crates with `unsafe` code, and shared memory through the API, under the address
//! sanitizer; the ring under the thread sanitizer. Needs nightly Rust.
//!
//! The standard library comes with the toolchain and is not instrumented. The address sanitizer therefore does not see
//! errors in it, and the thread sanitizer does not see the order that its locks establish: five correct programs that
//! share memory only by `Mutex`, `Condvar`, `mpsc`, `Arc` and `park` get one to seven false reports each. Suppressions
//! would also hide real errors, because they name functions and not the missing order. The thread sanitizer therefore
//! runs only tests that share memory by the atomics of the crate, without suppressions. The test harness passes its
//! results through such locks too, so a report counts only if code of the crate takes part. Neither sanitizer
//! recognizes two mappings of the same memory: the models (`cargo xtask models`) and tests with several processes cover
//! effects of one process on another.

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
    /// The code whose reports count; `None`: all reports, by the status of the tests.
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

/// Runs all sanitizers; fails at the first one that reports an error.
pub(crate) fn sanitize(workspace: &Workspace) -> Result<()> {
    prerequisites::ensure_nightly()?;
    let target = host()?;
    for sanitizer in SANITIZERS {
        let folder = workspace.metadata.target_directory.join("sanitize").join(sanitizer.name);
        for words in sanitizer.runs {
            let mut command = Command::new("rustup");
            // An explicit target excludes build scripts and macros, which run in the compiler.
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

/// Runs tests with a status that is independent of the thread sanitizer, and fails if one of its reports names `whose`.
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
