//! The stages that run cargo or one of its subcommands.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::outcome::Outcome;
use crate::peers;
use crate::prerequisites;
use crate::process::{output, run, succeeds};
use crate::workspace::Workspace;

/// The duration of the search of each fuzz target in `fuzz-smoke`. Developers run long searches by hand.
const FUZZ_SECONDS: u32 = 10;
/// An input on which one target needs longer than this counts as a hang.
const FUZZ_INPUT_TIMEOUT_SECONDS: u32 = 10;

const SIM: &str = "peregrine-sim";
/// The folder of the fuzz targets, a workspace of its own.
const FUZZ_FOLDER: &str = "fuzz";
/// The names, in every package, of the integration tests that need root, network namespaces and peers.
const INTEROP_TEST: &str = "interop";
const SECURED_TEST: &str = "secured";
const TWO_HOST_TEST: &str = "two_host";
/// The name of the integration tests that must run alone.
const SLOW_LINK_TEST: &str = "slow_link";
/// The name of the integration tests that need a browser.
const PAGE_TEST: &str = "page";
/// The feature that enables these tests, so that plain `cargo test` skips them.
const LAB_FEATURE: &str = "lab";

/// Covers the packages that are workspaces of their own too: the fuzz targets and perftest's agents.
pub(crate) fn fmt(workspace: &Workspace) -> Result<Outcome> {
    run(cargo(workspace).args(["fmt", "--all", "--check"]))?;
    let tracked = output(Command::new("git").current_dir(workspace.root()).args(["ls-files", "*/Cargo.toml"]))?;
    let packages = workspace.metadata.workspace_packages();
    let is_member = |manifest: &PathBuf| packages.iter().any(|package| package.manifest_path == *manifest);
    for manifest in tracked.lines().map(|path| workspace.root().join(path)).filter(|manifest| !is_member(manifest)) {
        run(cargo(workspace).args(["fmt", "--check", "--manifest-path"]).arg(manifest))?;
    }
    Ok(Outcome::Passed)
}

/// Covers the fuzz targets too: `fuzz-smoke` runs half an hour later.
pub(crate) fn clippy(workspace: &Workspace) -> Result<Outcome> {
    let deny_warnings = ["--", "-D", "warnings"];
    run(cargo(workspace)
        .args(["clippy", "--workspace", "--all-targets", "--all-features", "--locked"])
        .args(deny_warnings))?;
    let fuzz = workspace.root().join(FUZZ_FOLDER).join("Cargo.toml");
    if fuzz.is_file() {
        run(cargo(workspace)
            .args(["clippy", "--locked", "--manifest-path"])
            .arg(fuzz)
            .env("CARGO_TARGET_DIR", workspace.metadata.target_directory.as_str())
            .args(deny_warnings))?;
    }
    Ok(Outcome::Passed)
}

pub(crate) fn doc(workspace: &Workspace) -> Result<Outcome> {
    // The second is the command of the README: without the other crates, links to them have no target.
    for scope in [&["--workspace"][..], &["-p", "peregrine"]] {
        run(cargo(workspace).args(["doc", "--no-deps", "--locked"]).args(scope).env("RUSTDOCFLAGS", "-D warnings"))?;
    }
    Ok(Outcome::Passed)
}

/// Runs cargo-deny where it is installed. `tidy` checks licences and sources without any tool; cargo-deny adds the
/// advisory database. This stage does not install cargo-deny, because its compilation takes minutes.
pub(crate) fn deny(workspace: &Workspace) -> Result<Outcome> {
    if !succeeds(cargo(workspace).args(["deny", "--version"])) {
        return Ok(Outcome::Absent("cargo-deny is not installed (tidy has checked licences and sources)".to_owned()));
    }
    run(cargo(workspace).args(["deny", "--offline", "check", "licenses", "bans", "sources"]))?;
    let have_database = env::var_os("CARGO_HOME")
        .map(Into::into)
        .or_else(|| env::home_dir().map(|home| home.join(".cargo")))
        .is_some_and(|home| home.join("advisory-dbs").is_dir());
    if have_database {
        run(cargo(workspace).args(["deny", "--offline", "check", "advisories"]))?;
    } else {
        println!("note: no advisory database on this machine; `cargo deny fetch db` gets it");
    }
    Ok(Outcome::Passed)
}

pub(crate) fn unit(workspace: &Workspace) -> Result<Outcome> {
    run(&mut without_security(workspace))?;
    run(&mut without_protection(workspace))?;
    run(&mut unit_tests(workspace))?;
    Ok(Outcome::Passed)
}

/// The cargo command that checks the packages with the feature `security` without it. Builds of the whole workspace
/// have the feature, because it is a default of `perftest`.
fn without_security(workspace: &Workspace) -> Command {
    let mut command = cargo(workspace);
    command.args(["check", "--locked", "--package", "peregrine", "--package", "perftest"]);
    command.args(["--no-default-features", "--all-targets"]);
    command
}

/// The cargo command that checks the packages as they are built where no participant can be protected. Tests have the
/// feature `protection` of `peregrine-rtps` by their dependencies.
fn without_protection(workspace: &Workspace) -> Command {
    let mut command = cargo(workspace);
    command.args([
        "check",
        "--locked",
        "--package",
        "peregrine-rtps",
        "--package",
        "peregrine",
        "--package",
        "perftest",
    ]);
    command.args(["--no-default-features", "--lib", "--bins"]);
    command
}

/// The cargo command that builds and runs the tests of the stage `unit`.
pub(crate) fn unit_tests(workspace: &Workspace) -> Command {
    let mut command = cargo(workspace);
    command.args(["test", "--workspace", "--locked", "--features", "peregrine/security"]);
    if workspace.has_package(SIM) {
        // The stage `sim` runs the many seeds of the simulator optimised.
        command.args(["--exclude", SIM]);
    }
    command
}

/// Uses a separate target folder, because the flag `--cfg loom` affects every crate.
pub(crate) fn models(workspace: &Workspace) -> Result<Outcome> {
    let shared_memory = ["--package", "peregrine-transport", "--lib", "shm::models"];
    let driver = ["--package", "peregrine", "--test", "models"];
    for models in [&shared_memory[..], &driver] {
        run(cargo(workspace)
            .args(["test", "--locked"])
            .args(models)
            .env("CARGO_TARGET_DIR", workspace.metadata.target_directory.join("loom").as_str())
            .env("RUSTFLAGS", "--cfg loom"))?;
    }
    Ok(Outcome::Passed)
}

pub(crate) fn sim(workspace: &Workspace) -> Result<Outcome> {
    if !workspace.has_package(SIM) {
        return Ok(Outcome::Absent(format!("no package {SIM} in the tree yet")));
    }
    let features = ["--features", "machines"];
    run(cargo(workspace).args(["test", "--package", SIM, "--profile", "checked", "--locked"]).args(features))?;
    Ok(Outcome::Passed)
}

pub(crate) fn fuzz_smoke(workspace: &Workspace) -> Result<Outcome> {
    let folder = workspace.root().join(FUZZ_FOLDER);
    if !folder.join("Cargo.toml").is_file() {
        return Ok(Outcome::Absent("no folder fuzz in the tree yet".to_owned()));
    }
    prerequisites::ensure_cargo_fuzz()?;
    let targets = output(fuzz(workspace).arg("list"))?;
    run(fuzz(workspace).arg("build"))?;
    for target in targets.lines() {
        replay_and_search(workspace, &folder, target).with_context(|| format!("fuzz target {target}"))?;
    }
    Ok(Outcome::Passed)
}

/// Reads the committed corpus and writes new inputs to a separate folder under `target`.
fn replay_and_search(workspace: &Workspace, folder: &Path, target: &str) -> Result<()> {
    let found = workspace.metadata.target_directory.as_std_path().join("fuzz-corpus").join(target);
    std::fs::create_dir_all(&found)?;
    let mut command = fuzz(workspace);
    command.args(["run", target]).arg(&found);
    let committed = folder.join("corpus").join(target);
    if committed.is_dir() {
        command.arg(committed);
    }
    command.args([
        "--".to_owned(),
        format!("-max_total_time={FUZZ_SECONDS}"),
        format!("-timeout={FUZZ_INPUT_TIMEOUT_SECONDS}"),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    run(&mut command)
}

pub(crate) fn interop(workspace: &Workspace) -> Result<Outcome> {
    lab_test(workspace, INTEROP_TEST)?;
    lab_test(workspace, SECURED_TEST)
}

pub(crate) fn two_host(workspace: &Workspace) -> Result<Outcome> {
    lab_test(workspace, SLOW_LINK_TEST)?;
    lab_test(workspace, TWO_HOST_TEST)
}

pub(crate) fn page(workspace: &Workspace) -> Result<Outcome> {
    let packages = workspace.packages_with_test(PAGE_TEST);
    if packages.is_empty() {
        return Ok(Outcome::Absent(format!("no test target called {PAGE_TEST} in the tree yet")));
    }
    for package in packages {
        run(cargo(workspace).args(["test", "--locked", "--package", package.name.as_str()]).args([
            "--features",
            LAB_FEATURE,
            "--test",
            PAGE_TEST,
        ]))?;
    }
    Ok(Outcome::Passed)
}

/// Builds the peers and runs this test target in every package that has one. An environment variable names the folder
/// of the peers.
fn lab_test(workspace: &Workspace, test: &str) -> Result<Outcome> {
    let packages = workspace.packages_with_test(test);
    if packages.is_empty() {
        return Ok(Outcome::Absent(format!("no test target called {test} in the tree yet")));
    }
    prerequisites::require_root("network namespaces")?;
    let peers = peers::build(workspace)?;
    for package in packages {
        run(cargo(workspace)
            .args(["test", "--locked", "--profile", "checked", "--package", package.name.as_str()])
            .args(["--features", LAB_FEATURE, "--test", test])
            .env("PEREGRINE_INTEROP_DIR", &peers))?;
    }
    Ok(Outcome::Passed)
}

fn cargo(workspace: &Workspace) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace.root());
    command
}

/// `cargo fuzz` of the nightly toolchain, independent of the toolchain that runs this process.
fn fuzz(workspace: &Workspace) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "fuzz"]).current_dir(workspace.root()).env_remove("CARGO");
    command
}
