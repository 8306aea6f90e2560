//! The project's own rules, beyond the checks of the compiler.
//!
//! Each rule reads `cargo metadata` or the tracked files. A finding states the place and the remedy.

mod code;
mod cycles;
mod findings;
mod layers;
mod manifests;
mod measured;
mod prose;
mod sources;
mod text;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::cycles::Cycles;
use self::findings::{Findings, TrackedFile};
use self::prose::Vague;
use crate::outcome::Outcome;
use crate::process::output;
use crate::workspace::Workspace;

/// Applies every rule; fails if any rule finds an error.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let files = tracked_files(workspace)?;
    let mut findings = Findings::default();
    manifests::check(workspace, &mut findings)?;
    for file in &files {
        text::check(file, workspace.root(), &mut findings);
        sources::check(file, &mut findings);
    }
    sources::check_crate_roots(workspace, &files, &mut findings);
    sources::check_fuzz_targets(&files, &mut findings);
    measured::check(workspace.root(), &mut findings)?;
    let cycles = Cycles::find(workspace, &files, &mut findings)?;
    cycles.check(workspace.root(), &mut findings)?;
    layers::check(&files, cycles.arrows(layers::PACKAGE)?, &mut findings);
    Vague::find(&files).check(workspace.root(), &mut findings)?;

    for warning in &findings.warnings {
        println!("warning: {warning}");
    }
    for error in &findings.errors {
        println!("error: {error}");
    }
    if !findings.errors.is_empty() {
        bail!("tidy found {} errors", findings.errors.len());
    }
    println!("{} tracked files are tidy", files.len());
    Ok(Outcome::Passed)
}

/// Removes solved entries from the lists of allowed cycles and sentences.
pub(crate) fn shrink(workspace: &Workspace) -> Result<()> {
    let files = tracked_files(workspace)?;
    Cycles::find(workspace, &files, &mut Findings::default())?.shrink_allowed(workspace.root())?;
    Vague::find(&files).shrink_allowed(workspace.root())
}

/// All files in the index, and the files in the working tree that git does not ignore, so that tidy checks a new file
/// before its first commit.
fn tracked_files(workspace: &Workspace) -> Result<Vec<TrackedFile>> {
    let list = output(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(workspace.root()),
    )
    .context("tidy needs git to know which files belong to the project")?;
    let mut files = Vec::new();
    for path in list.split('\0').filter(|path| !path.is_empty()) {
        let full: PathBuf = workspace.root().join(path);
        // Deleted but not yet committed.
        if !full.is_file() {
            continue;
        }
        let bytes = std::fs::read(&full).with_context(|| format!("cannot read {}", full.display()))?;
        files.push(TrackedFile { path: path.to_owned(), bytes });
    }
    Ok(files)
}
