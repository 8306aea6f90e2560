//! Builds the interoperability peers, each with its own vendor's tools, into `target/interop`.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::process::run;
use crate::workspace::Workspace;

/// The profile of Peregrine's own peer: optimised, with all checks enabled.
const PROFILE: &str = "checked";
const CYCLONE_WHEEL: &str = "cyclonedds==11.0.1";

/// Builds every peer whose sources are newer than its program, and returns the folder they are in.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let sources = workspace.root().join("interop");
    let out = workspace.interop_dir();
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    cyclone(&sources, &out).context("building the Cyclone DDS 0.10 peer")?;
    fast_dds(&sources, &out).context("building the Fast DDS peer")?;
    cyclone_python(&sources, &out).context("building the Cyclone DDS 11 peer")?;
    peregrine(workspace, &out).context("building the Peregrine peer")?;
    Ok(out)
}

fn cyclone(sources: &Path, out: &Path) -> Result<()> {
    let folder = sources.join("cyclonedds");
    let idl = sources.join("types.idl");
    let program = out.join("cyclonedds-peer");
    let source = folder.join("peer.c");
    if is_fresh(&program, &[&source, &idl, &sources.join("common")]) {
        return Ok(());
    }
    run(Command::new("idlc").args(["-l", "c", "-o"]).arg(out).arg(&idl))?;
    run(Command::new("gcc")
        .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(format!("-I{}", out.display()))
        .arg(format!("-I{}", sources.join("common").display()))
        .arg(&source)
        .arg(out.join("types.c"))
        .args(["-lddsc"]))
}

fn fast_dds(sources: &Path, out: &Path) -> Result<()> {
    let program = out.join("fastdds-peer");
    let source = sources.join("fastdds").join("peer.cpp");
    if is_fresh(&program, &[&source, &sources.join("common")]) {
        return Ok(());
    }
    run(Command::new("g++")
        .args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(format!("-I{}", sources.join("common").display()))
        .arg(&source)
        .args(["-lfastrtps", "-lfastcdr", "-pthread"]))
}

/// The wheel goes into a virtual environment; the peer itself is run from the source folder.
fn cyclone_python(sources: &Path, out: &Path) -> Result<()> {
    let venv = out.join("venv");
    let installed = venv.join("installed");
    if !fs::read_to_string(&installed).is_ok_and(|wheel| wheel == CYCLONE_WHEEL) {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
        let pip = ["install", "--quiet", "--disable-pip-version-check", CYCLONE_WHEEL];
        run(Command::new(venv.join("bin/pip")).args(pip))?;
        fs::write(installed, CYCLONE_WHEEL)?;
    }
    let program = out.join("cyclonedds-py-peer");
    let script = sources.join("cyclonedds-py").join("peer.py");
    let launcher = format!("#!/bin/sh\nexec '{}' '{}' \"$@\"\n", venv.join("bin/python").display(), script.display());
    fs::write(&program, launcher)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Always runs cargo, which rebuilds only outdated parts.
fn peregrine(workspace: &Workspace, out: &Path) -> Result<()> {
    run(Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).current_dir(workspace.root()).args([
        "build",
        "--locked",
        "--profile",
        PROFILE,
        "--package",
        "peregrine-interop-peer",
    ]))?;
    let built = workspace.metadata.target_directory.as_std_path().join(PROFILE).join("peregrine-peer");
    // The name of the program selects its kind of endpoints.
    for name in ["peregrine-peer", "peregrine-serialized-peer"] {
        let program = out.join(name);
        // A copy over a program that still runs would fail.
        let _ = fs::remove_file(&program);
        fs::copy(&built, &program)
            .with_context(|| format!("cannot copy {} to {}", built.display(), program.display()))?;
    }
    Ok(())
}

fn is_fresh(product: &Path, sources: &[&Path]) -> bool {
    let Some(built) = modified(product) else { return false };
    sources.iter().all(|source| modified(source).is_some_and(|changed| changed < built))
}

/// For a folder, the time of its newest direct file.
fn modified(path: &Path) -> Option<SystemTime> {
    if path.is_dir() {
        let entries = fs::read_dir(path).ok()?;
        return entries.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok()).max();
    }
    fs::metadata(path).ok()?.modified().ok()
}
