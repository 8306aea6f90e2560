//! Cycles of files: within a crate, no two files may depend on each other, directly or through others.
//!
//! A file depends on the file that defines a name which its code uses. Imports, globs and re-exports are followed to
//! the definition; neither `mod x;` nor the re-export of an item of a child module is a dependency of the parent. Code
//! for tests only is ignored.
//!
//! The rule does not see a call of a method, because finding the method's file takes the type of the receiver. A file
//! that extends a type with an `impl` block depends on the file of the type; a caller of such a method depends on the
//! file of the type as well, but not on that of the `impl` block.

mod allowed;
mod cfg;
mod graph;
mod modules;
mod resolve;
#[cfg(test)]
mod tests;
mod uses;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{Package, Target, TargetKind};

use self::allowed::ALLOWED_CYCLES;
use self::graph::{Cycle, cycles};
use self::modules::{Modules, Sources};
pub(super) use self::uses::Arrows;
use self::uses::uses;
use super::findings::{Findings, TrackedFile};
use crate::workspace::Workspace;

/// The dependencies between the files of each package, and the cycles among them.
pub(super) struct Cycles {
    arrows: BTreeMap<String, Arrows>,
    /// Of each package that has any.
    found: BTreeMap<String, Vec<Cycle>>,
}

impl Cycles {
    /// Finds the cycles of every package and prints them.
    pub(super) fn find(workspace: &Workspace, files: &[TrackedFile], findings: &mut Findings) -> Result<Self> {
        let sources: Sources<'_> = files.iter().filter_map(|file| Some((file.path.as_str(), file.text()?))).collect();
        let (mut all, mut found) = (BTreeMap::new(), BTreeMap::new());
        for package in workspace.metadata.workspace_packages() {
            let arrows = arrows_of(workspace, package, &sources, findings)?;
            let cycles = cycles(&arrows);
            for cycle in &cycles {
                print!("{}", describe(&package.name, cycle, &arrows));
            }
            if !cycles.is_empty() {
                found.insert(package.name.to_string(), cycles);
            }
            all.insert(package.name.to_string(), arrows);
        }
        Ok(Self { arrows: all, found })
    }

    /// The dependencies between the files of a package.
    pub(super) fn arrows(&self, package: &str) -> Result<&Arrows> {
        self.arrows.get(package).with_context(|| format!("there is no package {package}"))
    }

    /// Compares the cycles with the list of allowed ones.
    pub(super) fn check(&self, root: &Path, findings: &mut Findings) -> Result<()> {
        for disagreement in allowed::disagreements(&self.found, &allowed::read(root)?) {
            findings.error(ALLOWED_CYCLES, disagreement);
        }
        Ok(())
    }

    /// Removes files from that list that are in no cycle any more.
    pub(super) fn shrink_allowed(&self, root: &Path) -> Result<()> {
        allowed::shrink(root, &self.found)
    }
}

/// The dependencies between the files of a made-up crate, the first of which is its root.
#[cfg(test)]
pub(super) fn arrows_between(files: &[(&str, &str)]) -> Arrows {
    let root = files.first().map_or("", |(root, _)| root);
    let found = uses(&Modules::parse(root, &files.iter().copied().collect()).unwrap());
    assert!(found.lost.is_empty(), "{:?}", found.lost);
    found.arrows
}

/// The dependencies in all targets of a package except its tests and benchmarks.
fn arrows_of(
    workspace: &Workspace,
    package: &Package,
    sources: &Sources<'_>,
    findings: &mut Findings,
) -> Result<Arrows> {
    let mut all = Arrows::new();
    for target in package.targets.iter().filter(|target| is_checked(target)) {
        let root = target.src_path.strip_prefix(&workspace.metadata.workspace_root).unwrap_or(&target.src_path);
        let modules = Modules::parse(root.as_str(), sources)
            .with_context(|| format!("the modules of {} cannot be read", package.name))?;
        let found = uses(&modules);
        for (file, path) in found.lost {
            findings.error(file, format!("`{path}` leads nowhere: xtask/src/tidy/cycles cannot follow this path"));
        }
        for (from, targets) in found.arrows {
            all.entry(from).or_default().extend(targets);
        }
    }
    Ok(all)
}

fn is_checked(target: &Target) -> bool {
    !(target.is_test() || target.is_bench() || target.is_kind(TargetKind::CustomBuild))
}

/// The files of a cycle, each with the files that it depends on and a name that causes the dependency.
fn describe(package: &str, cycle: &Cycle, arrows: &Arrows) -> String {
    let mut text = format!("cycle of {} files in {package}:\n", cycle.files.len());
    let mut last = "";
    for (from, to, name) in cycle.arrows(arrows) {
        if from != last {
            text += &format!("  {from}\n");
            last = from;
        }
        text += &format!("    -> {to} ({name})\n");
    }
    text
}
