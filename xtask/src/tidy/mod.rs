//! The project's own rules, which no compiler checks.
//!
//! Each rule reads `cargo metadata` or the tracked files and returns findings that say where and what to do.

mod code;
mod manifests;
mod measured;
mod sources;
mod text;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::output;
use crate::stage::Outcome;
use crate::workspace::Workspace;

/// A tracked file, read once for all rules.
struct TrackedFile {
    /// Relative to the root of the workspace, with `/`.
    path: String,
    bytes: Vec<u8>,
}

impl TrackedFile {
    /// `None` for a binary file.
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

/// What the rules have found so far.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    fn error(&mut self, place: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.errors.push(format!("{place}: {what}"));
    }

    fn warning(&mut self, place: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.warnings.push(format!("{place}: {what}"));
    }
}

/// Applies every rule; fails when one has found an error.
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

/// Everything in the index and in the working tree that git would let in, so that a new file is checked before
/// it is added.
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
