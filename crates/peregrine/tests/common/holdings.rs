//! System resources of this process, for comparison: no resource of a killed peer may remain.

use std::collections::BTreeMap;
use std::time::Instant;

use super::PATIENCE;

/// Descriptors, mapped shared memory and threads, by kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holdings {
    descriptors: BTreeMap<String, usize>,
    mappings: usize,
    threads: usize,
}

/// An application thread that leads the reception owns one from its first wait on.
const EVENTPOLL: &str = "anon_inode:[eventpoll]";

impl Holdings {
    pub fn now() -> Self {
        let links = entries("/proc/self/fd").into_iter().filter_map(|entry| std::fs::read_link(entry).ok());
        let kinds = links.map(|link| link.to_string_lossy().into_owned()).filter(|link| !link.starts_with("/proc/"));
        // Without the number that identifies a socket or pipe.
        let descriptors = count(kinds.map(|link| {
            link.split(":[").next().map_or(link.clone(), |kind| match kind {
                "socket" | "pipe" => kind.to_owned(),
                _ => link.clone(),
            })
        }));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mappings = maps.lines().filter(|line| line.contains("memfd:peregrine")).count();
        let names = entries("/proc/self/task").into_iter();
        let names = names.filter_map(|task| std::fs::read_to_string(task.join("comm")).ok());
        let (publishing, others): (Vec<_>, Vec<_>) = names.partition(|name| name.contains("-pub-"));
        // Does not count the first publishing thread of a domain: it starts with the first backlog and does not end.
        Self { descriptors, mappings, threads: others.len() + publishing.len().saturating_sub(1) }
    }

    fn is_no_more_than(&self, before: &Self) -> bool {
        let mut allowed = before.clone();
        let eventpolls = |holdings: &Self| holdings.descriptors.get(EVENTPOLL).copied().unwrap_or(0);
        if eventpolls(self) == eventpolls(before) + 1 {
            allowed.descriptors.insert(EVENTPOLL.to_owned(), eventpolls(self));
        }
        // A writer keeps the socket for its last destination.
        let sockets = |holdings: &Self| holdings.descriptors.get("socket").copied().unwrap_or(0);
        if sockets(self) == sockets(before) + 1 {
            allowed.descriptors.insert("socket".to_owned(), sockets(self));
        }
        *self == allowed
    }

    /// Waits until this process holds no more than `before`.
    pub fn await_no_more_than(before: &Self) {
        let end = Instant::now() + PATIENCE;
        loop {
            let own = Self::now();
            if own.is_no_more_than(before) {
                return;
            }
            assert!(Instant::now() < end, "there is\n{own:?}\nand there was\n{before:?}");
            std::thread::yield_now();
        }
    }
}

fn entries(folder: &str) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(folder).unwrap().filter_map(|entry| Some(entry.ok()?.path())).collect()
}

fn count(kinds: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    kinds.for_each(|kind| *counts.entry(kind).or_default() += 1);
    counts
}
