//! Finds processes and network namespaces by their properties, not by the program's own report.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Timeout for the end of processes.
const LIMIT: Duration = Duration::from_secs(30);

/// A process by its folder in /proc.
pub(crate) fn processes() -> Vec<PathBuf> {
    let is_number = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
    fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(|path| is_number(path)).collect()
}

/// Arguments of a process; none if it has ended.
pub(crate) fn words(process: &Path) -> Vec<String> {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The namespace of this kind of a process.
pub(crate) fn namespace(process: &Path, kind: &str) -> Option<PathBuf> {
    fs::read_link(process.join("ns").join(kind)).ok()
}

/// Processes with this text among their arguments, except this one.
pub(crate) fn processes_about(text: &str) -> Vec<String> {
    let own = PathBuf::from(format!("/proc/{}", std::process::id()));
    let lines = processes().into_iter().filter(|process| *process != own).map(|process| words(&process).join(" "));
    lines.filter(|line| line.contains(text)).collect()
}

/// The folder's entries.
pub(crate) fn entries(folder: &str) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else { return BTreeSet::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Waits until no process or file remains. Polls, because the end of another process's child is not signalled.
pub(crate) fn wait_until_gone(what: &str, left: impl Fn() -> Vec<String>) {
    let start = Instant::now();
    loop {
        let found = left();
        if found.is_empty() {
            return;
        }
        assert!(start.elapsed() < LIMIT, "{what} remains: {found:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
