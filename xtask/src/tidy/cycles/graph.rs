//! Cycles of a graph of files.

use std::collections::{BTreeMap, BTreeSet};

use super::uses::Arrows;

/// Files each of which depends on every other, directly or through others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cycle {
    pub(super) files: BTreeSet<String>,
}

/// All cycles, as strongly connected components, larger ones first.
pub(super) fn cycles(arrows: &Arrows) -> Vec<Cycle> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|file| (file.as_str(), reachable(arrows, file))).collect();
    let mut found: Vec<Cycle> = Vec::new();
    for (file, there) in &reached {
        if !there.contains(file) || found.iter().any(|cycle| cycle.files.contains(*file)) {
            continue;
        }
        let back = |other: &&&str| reached.get(**other).is_some_and(|files| files.contains(file));
        found.push(Cycle { files: there.iter().filter(back).map(|&file| file.to_owned()).collect() });
    }
    found.sort_by_key(|cycle| std::cmp::Reverse(cycle.files.len()));
    found
}

/// The files that the arrows reach from this file in one step or more.
fn reachable<'a>(arrows: &'a Arrows, file: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let targets = |file: &str| arrows.get(file).into_iter().flatten().map(|(to, _)| to.as_str());
    let mut open: Vec<&str> = targets(file).collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(targets(next));
        }
    }
    found
}

impl Cycle {
    /// The arrows within the cycle: source, target, and a name that causes the dependency.
    pub(super) fn arrows<'a>(&'a self, all: &'a Arrows) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
        self.files.iter().flat_map(move |from| {
            let targets = all.get(from).into_iter().flatten();
            let inner = targets.filter(|(to, _)| self.files.contains(*to));
            inner.map(move |(to, name)| (from.as_str(), to.as_str(), name.as_str()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(pairs: &[(&str, &str)]) -> Arrows {
        let mut arrows = Arrows::new();
        for (from, to) in pairs {
            arrows.entry((*from).to_owned()).or_default().insert((*to).to_owned(), format!("Name{to}"));
        }
        arrows
    }

    fn found(pairs: &[(&str, &str)]) -> Vec<String> {
        let join = |cycle: &Cycle| cycle.files.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        cycles(&arrows(pairs)).iter().map(join).collect()
    }

    #[test]
    fn graph_without_cycles_has_none() {
        assert!(found(&[("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")]).is_empty());
    }

    #[test]
    fn each_component_is_found_once_larger_ones_first() {
        let pairs = [("x", "y"), ("y", "x"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "x"), ("out", "a")];
        assert_eq!(found(&pairs), ["a b c", "x y"]);
    }

    #[test]
    fn two_cycles_that_share_a_file_are_one_component() {
        assert_eq!(found(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")]), ["a b c"]);
    }

    #[test]
    fn arrows_of_a_cycle_exclude_other_files() {
        let all = arrows(&[("a", "b"), ("b", "a"), ("b", "out"), ("in", "a")]);
        let [cycle] = &cycles(&all)[..] else { panic!("one cycle") };
        assert_eq!(cycle.arrows(&all).collect::<Vec<_>>(), [("a", "b", "Nameb"), ("b", "a", "Namea")]);
    }
}
