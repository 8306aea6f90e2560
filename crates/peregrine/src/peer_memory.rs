//! The memory that peers make this process hold.

use std::fs;
use std::sync::{Arc, LazyLock};

use peregrine_rtps::limits::{DISCOVERY_BYTES_MAX, DISCOVERY_BYTES_OF_ADDRESSES};
use peregrine_rtps::memory_account::{MemoryAccount, PeerAccounts};

/// The limit of a process on a machine that does not report its memory.
const UNKNOWN_MEMORY_SHARE: usize = 2 << 30;

/// The account of all participants of this process.
static PROCESS: LazyLock<Arc<MemoryAccount>> = LazyLock::new(|| {
    let machine = available_bytes();
    Arc::new(MemoryAccount::new(machine.map_or(UNKNOWN_MEMORY_SHARE, |bytes| bytes.div_ceil(2))))
});

/// Bytes that remote participants make a participant hold now, by kind, with the limits.
///
/// Samples beyond a limit are rejected, or evicted and requested again later, each with its count. A reader always has
/// room for 64 KiB of samples and for one sample of any length, and the participants of each source address for a fair
/// part of the incomplete samples, of 128 KiB at least, regardless of others. Not counted: the samples that writers
/// keep until readers acknowledge them
/// ([`DomainConfig::max_unacknowledged_bytes`](crate::DomainConfig::max_unacknowledged_bytes)), and samples that the
/// application has taken.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerMemory {
    /// Samples that readers hold for the application, beyond 64 KiB for each reader. A sample counts with the buffer
    /// that holds it, and 256 bytes for its record; a value that a writer of this process shares counts without the
    /// memory to which it refers.
    pub cached_samples: usize,
    /// Samples of which fragments, or earlier samples, are missing.
    pub incomplete_samples: usize,
    /// Discovery data: at most [`Self::limit_of_discovery`], then a part of [`Self::discovery_of_addresses`] for each
    /// source address, and 128 KiB for each remote participant.
    pub discovery: usize,
    /// Messages with keys of DDS Security.
    pub keys: usize,
    /// The most that this participant holds: [`DomainConfig::max_peer_bytes`](crate::DomainConfig::max_peer_bytes).
    pub limit: usize,
    /// The bytes that all participants of this process hold.
    pub process: usize,
    /// The most that they hold: half of the memory of the machine, or of the control group of the process if that is
    /// less.
    pub process_limit: usize,
}

impl PeerMemory {
    pub(crate) fn of(accounts: &PeerAccounts) -> Self {
        Self {
            cached_samples: accounts.cached.held_bytes(),
            incomplete_samples: accounts.incomplete.held_bytes(),
            discovery: accounts.discovery.held_bytes(),
            keys: accounts.keys.held_bytes(),
            limit: accounts.all.max_bytes(),
            process: PROCESS.held_bytes(),
            process_limit: PROCESS.max_bytes(),
        }
    }

    /// The bytes that the participant holds, all kinds together.
    #[must_use]
    pub const fn total(&self) -> usize {
        let samples = self.cached_samples.saturating_add(self.incomplete_samples);
        samples.saturating_add(self.discovery).saturating_add(self.keys)
    }

    /// The bytes of discovery data that all remote participants together may occupy: 64 MiB. Endpoints without room are
    /// not known until there is room, and counted.
    #[must_use]
    pub const fn limit_of_discovery() -> usize {
        DISCOVERY_BYTES_MAX
    }

    /// The bytes of discovery data beyond that limit of which each source address has a part, so that others cannot
    /// keep its participants out: 32 MiB, divided by the number of addresses.
    #[must_use]
    pub const fn discovery_of_addresses() -> usize {
        DISCOVERY_BYTES_OF_ADDRESSES
    }

    /// The [most](Self::process_limit) that all participants of this process hold.
    #[must_use]
    pub fn limit_of_process() -> usize {
        PROCESS.max_bytes()
    }
}

/// The account of all participants of this process.
pub(crate) fn process_account() -> Arc<MemoryAccount> {
    Arc::clone(&PROCESS)
}

/// The memory of the machine, or of the control group of this process if that is less. `None` if neither is known.
fn available_bytes() -> Option<usize> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of_machine(&text));
    let own_group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| path_of_group(&text));
    let group = own_group.and_then(|path| fs::read_to_string(path).ok()).and_then(|text| limit_of_group(&text));
    machine.into_iter().chain(group).min()
}

/// From the text of `/proc/meminfo`.
fn total_of_machine(text: &str) -> Option<usize> {
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().strip_suffix("kB")?;
    kilobytes.trim().parse::<usize>().ok()?.checked_mul(1024)
}

/// The file with the limit of the control group, from the text of `/proc/self/cgroup` (version 2).
fn path_of_group(text: &str) -> Option<String> {
    let group = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(format!("/sys/fs/cgroup{}/memory.max", group.trim_end_matches('/')))
}

/// From the text of `memory.max`, which is `max` without a limit.
fn limit_of_group(text: &str) -> Option<usize> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_system_state_the_memory() {
        assert_eq!(total_of_machine("MemTotal:       24689116 kB\nMemFree: 1 kB\n"), Some(24_689_116 << 10));
        assert_eq!(total_of_machine("MemFree: 1 kB\n"), None);
        assert_eq!(path_of_group("0::/\n").unwrap(), "/sys/fs/cgroup/memory.max");
        assert_eq!(path_of_group("1:cpu:/x\n0::/user/robot\n").unwrap(), "/sys/fs/cgroup/user/robot/memory.max");
        assert_eq!((limit_of_group("max\n"), limit_of_group("1073741824\n")), (None, Some(1 << 30)));
    }

    #[test]
    fn limit_of_process_is_at_most_half_of_the_machine() {
        let machine = total_of_machine(&fs::read_to_string("/proc/meminfo").unwrap()).unwrap();
        assert!((1 << 20..=machine.div_ceil(2)).contains(&process_account().max_bytes()));
    }
}
