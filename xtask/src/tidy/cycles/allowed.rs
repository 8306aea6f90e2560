//! The list of the cycles that are still allowed. It can only become shorter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::graph::Cycle;

/// Where the list is, relative to the root of the workspace.
pub(super) const ALLOWED_CYCLES: &str = "xtask/ratchet/cycles.toml";

const HEAD: &str = "\
# The cycles of files that `cargo xtask tidy` still allows. A cycle outside this list is an error, and so is an entry
# that holds more than its cycle still has: the list only becomes shorter. `cargo xtask tidy --shrink` takes out what
# is in no cycle any more. A renamed file is renamed here by hand.
";

const SHRINK: &str = "run `cargo xtask tidy --shrink`";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    cycle: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    package: String,
    files: BTreeSet<String>,
}

impl Entry {
    /// The files of this entry that are still in a cycle, for each of `cycles`.
    fn within(&self, cycles: &[Cycle]) -> Vec<BTreeSet<String>> {
        let common = cycles.iter().map(|cycle| self.files.intersection(&cycle.files).cloned().collect());
        common.filter(|files: &BTreeSet<String>| !files.is_empty()).collect()
    }
}

pub(super) fn read(root: &Path) -> Result<Vec<Entry>> {
    let text = std::fs::read_to_string(root.join(ALLOWED_CYCLES))
        .with_context(|| format!("{ALLOWED_CYCLES} cannot be read"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<Entry>> {
    let list: List = toml::from_str(text).context(ALLOWED_CYCLES)?;
    Ok(list.cycle)
}

/// The differences between the cycles of the packages and the list: cycles that no entry covers, and entries that are
/// not one cycle any more.
pub(super) fn disagreements(found: &BTreeMap<String, Vec<Cycle>>, allowed: &[Entry]) -> Vec<String> {
    let mut errors = Vec::new();
    for (package, cycles) in found {
        for cycle in cycles {
            let of_package = || allowed.iter().filter(|entry| entry.package == *package);
            if of_package().any(|entry| cycle.files.is_subset(&entry.files)) {
                continue;
            }
            // The entry from which the cycle has grown, if there is one.
            let nearest = of_package().max_by_key(|entry| entry.files.intersection(&cycle.files).count());
            let known = nearest.map(|entry| &entry.files).filter(|files| !files.is_disjoint(&cycle.files));
            let new: Vec<&String> =
                cycle.files.iter().filter(|file| !known.is_some_and(|k| k.contains(*file))).collect();
            errors.push(format!(
                "{package} has a new cycle, or one that has grown by: {}; break it (its arrows are printed above)",
                listed(&new)
            ));
        }
    }
    for entry in allowed {
        let cycles = found.get(&entry.package).map_or(&[][..], Vec::as_slice);
        let within = entry.within(cycles);
        let gone: Vec<&String> =
            entry.files.iter().filter(|file| !within.iter().any(|files| files.contains(*file))).collect();
        if !gone.is_empty() {
            errors.push(format!(
                "{SHRINK}: files of {} that are in no cycle any more: {}",
                entry.package,
                listed(&gone)
            ));
        }
        if within.len() > 1 {
            errors.push(format!("{SHRINK}: an entry of {} has come apart into {} cycles", entry.package, within.len()));
        }
    }
    errors
}

/// The list without files that are in no cycle any more: each entry becomes the cycles within it. An entry whose cycle
/// has grown keeps its own files, so that [`disagreements`] names the new ones.
fn shrunk(found: &BTreeMap<String, Vec<Cycle>>, allowed: &[Entry]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for entry in allowed {
        let cycles = found.get(&entry.package).map_or(&[][..], Vec::as_slice);
        entries.extend(entry.within(cycles).into_iter().map(|files| Entry { package: entry.package.clone(), files }));
    }
    entries
}

/// Writes the list without files that are in no cycle any more.
pub(super) fn shrink(root: &Path, found: &BTreeMap<String, Vec<Cycle>>) -> Result<()> {
    let text = render(&shrunk(found, &read(root)?));
    std::fs::write(root.join(ALLOWED_CYCLES), text).with_context(|| format!("{ALLOWED_CYCLES} cannot be written"))
}

fn render(entries: &[Entry]) -> String {
    let mut text = HEAD.to_owned();
    for Entry { package, files } in entries {
        text += &format!("\n[[cycle]]\npackage = \"{package}\"\nfiles = [\n");
        for file in files {
            text += &format!("    \"{file}\",\n");
        }
        text += "]\n";
    }
    text
}

fn listed(files: &[&String]) -> String {
    files.iter().map(|file| file.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycle(files: &str) -> Cycle {
        Cycle { files: files.split(' ').map(str::to_owned).collect() }
    }

    fn entry(files: &str) -> Entry {
        Entry { package: "a".to_owned(), files: cycle(files).files }
    }

    fn found(cycles: &[&str]) -> BTreeMap<String, Vec<Cycle>> {
        BTreeMap::from([("a".to_owned(), cycles.iter().map(|files| cycle(files)).collect())])
    }

    #[test]
    fn list_that_equals_the_cycles_is_accepted() {
        assert!(disagreements(&found(&["x y", "p q r"]), &[entry("x y"), entry("p q r")]).is_empty());
        assert!(disagreements(&BTreeMap::new(), &[]).is_empty());
    }

    #[test]
    fn new_cycle_is_refused() {
        let errors = disagreements(&found(&["x y"]), &[]);
        assert!(matches!(&errors[..], [error] if error.contains("by: x, y;")), "{errors:?}");
    }

    #[test]
    fn cycle_of_another_package_is_refused() {
        let other = Entry { package: "b".to_owned(), ..entry("x y") };
        let errors = disagreements(&found(&["x y"]), &[other]);
        assert_eq!(errors.len(), 2, "{errors:?}");
    }

    #[test]
    fn grown_cycle_is_refused_and_its_new_files_are_named() {
        let errors = disagreements(&found(&["x y z"]), &[entry("x y")]);
        assert!(errors.iter().any(|error| error.contains("by: z;")), "{errors:?}");
    }

    #[test]
    fn grown_cycle_stays_in_the_shrunk_list_without_its_new_files() {
        let now = found(&["x y z"]);
        let list = shrunk(&now, &[entry("w x y")]);
        assert!(matches!(&list[..], [left] if left.files == cycle("x y").files));
        let errors = disagreements(&now, &list);
        assert!(matches!(&errors[..], [error] if error.contains("by: z;")), "{errors:?}");
    }

    #[test]
    fn two_allowed_cycles_that_join_are_refused() {
        assert!(!disagreements(&found(&["p q x y"]), &[entry("x y"), entry("p q")]).is_empty());
    }

    #[test]
    fn file_that_left_its_cycle_must_leave_the_list() {
        let errors = disagreements(&found(&["x y"]), &[entry("x y z")]);
        assert!(matches!(&errors[..], [error] if error.contains("any more") && error.ends_with(": z")), "{errors:?}");
    }

    #[test]
    fn entry_whose_cycle_is_broken_must_leave_the_list() {
        assert_eq!(disagreements(&BTreeMap::new(), &[entry("x y")]).len(), 1);
    }

    #[test]
    fn entry_that_came_apart_must_be_split() {
        let errors = disagreements(&found(&["p q", "x y"]), &[entry("p q x y")]);
        assert!(matches!(&errors[..], [error] if error.contains("into 2 cycles")), "{errors:?}");
    }

    #[test]
    fn shrunk_list_is_accepted_and_holds_nothing_new() {
        let now = found(&["p q", "x y", "new newer"]);
        let list = shrunk(&now, &[entry("p q r x y z"), entry("gone too")]);
        let read = parse(&render(&list)).unwrap();
        let files: Vec<_> = read.iter().map(|entry| entry.files.clone()).collect();
        assert_eq!(files, [cycle("p q").files, cycle("x y").files]);
        assert_eq!(disagreements(&now, &read).len(), 1);
    }

    #[test]
    fn unknown_key_in_the_list_is_refused() {
        assert!(parse("[[cycle]]\npackage = \"a\"\nfile = []\n").is_err());
    }
}
