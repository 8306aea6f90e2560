//! `cargo xtask sanitize`: the tests of the transport crate under the address and the thread sanitizer, on nightly.
//!
//! The standard library is the one that comes with the toolchain, not instrumented: its own mistakes are not seen, and the
//! thread sanitizer does not see the order that its locks and channels make. So only tests that share memory by
//! the atomics of the crate run under it. Neither sees through two mappings of the same memory: what one process may do to
//! another is for the models (`cargo xtask models`) and for the tests that do it.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::prerequisites;
use crate::process::{output, run};
use crate::workspace::Workspace;

const PACKAGE: &str = "peregrine-transport";

struct Sanitizer {
    name: &'static str,
    flags: &'static str,
    /// Which tests, as arguments of `cargo test`.
    tests: &'static [&'static str],
}

const SANITIZERS: &[Sanitizer] = &[
    Sanitizer {
        name: "address",
        flags: "-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer",
        tests: &["--lib", "--test", "shm", "--test", "shm_processes"],
    },
    Sanitizer {
        name: "thread",
        flags: "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg peregrine_tsan",
        tests: &["--lib", "shm::ring"],
    },
];

/// Runs them all; fails with the first that finds something.
pub(crate) fn sanitize(workspace: &Workspace) -> Result<()> {
    prerequisites::ensure_nightly()?;
    let target = host()?;
    for sanitizer in SANITIZERS {
        let folder = workspace.metadata.target_directory.join("sanitize").join(sanitizer.name);
        // A target of its own keeps build scripts and macros, which run in the compiler, out of it.
        run(Command::new("rustup")
            .args(["run", "nightly", "cargo", "test", "--locked", "--package", PACKAGE, "--target", &target])
            .args(sanitizer.tests)
            .current_dir(workspace.root())
            .env_remove("CARGO")
            .env("CARGO_TARGET_DIR", folder.as_str())
            .env("RUSTFLAGS", sanitizer.flags))
        .with_context(|| format!("{} sanitizer", sanitizer.name))?;
    }
    Ok(())
}

/// The target that the nightly compiler runs on itself.
fn host() -> Result<String> {
    let version = output(Command::new("rustup").args(["run", "nightly", "rustc", "--version", "--verbose"]))?;
    match version.lines().find_map(|line| line.strip_prefix("host: ")) {
        Some(host) => Ok(host.to_owned()),
        None => bail!("`rustc --version --verbose` names no host"),
    }
}
