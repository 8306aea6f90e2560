//! Current use of the processors by other processes.
//!
//! The load average does not serve: it covers minutes, and thus this program's own measurements.

use std::time::Duration;

use super::system::System;
use crate::clock::{MonotonicNs, process_cpu_ns};

/// Duration of the observation.
const WATCH: Duration = Duration::from_secs(1);

/// Processor time of all processes, in ticks, summed over all cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    total: u64,
    cores: u64,
}

/// Number of cores that other processes kept busy during a second; `None` if the system does not report it.
pub fn cores_used_by_others() -> Option<f64> {
    let system = System::this();
    let (before, own_before, start) = (Ticks::read(&system)?, process_cpu_ns(), MonotonicNs::now());
    std::thread::sleep(WATCH);
    let (after, own_ns) = (Ticks::read(&system)?, process_cpu_ns() - own_before);
    before.used_by_others(after, own_ns as f64 / MonotonicNs::now().since_ns(start).max(1) as f64)
}

impl Ticks {
    fn read(system: &System) -> Option<Self> {
        Self::of_stat(&system.text("proc/stat"))
    }

    /// Parses the line `cpu`: user, nice, system, idle, iowait, irq, softirq. Stolen time belongs to no process of this
    /// machine.
    fn of_stat(stat: &str) -> Option<Self> {
        let of_all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = of_all.split_whitespace().take(7).map_while(|number| number.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq] = ticks[..] else { return None };
        let busy = user + nice + system + irq + softirq;
        let cores = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count() as u64;
        Some(Self { busy, total: busy + idle + iowait, cores: cores.max(1) })
    }

    /// `own` is the number of cores that this process kept busy meanwhile.
    fn used_by_others(self, after: Self, own: f64) -> Option<f64> {
        let (busy, total) = (after.busy.checked_sub(self.busy)?, after.total.checked_sub(self.total)?);
        (total > 0).then(|| (busy as f64 * after.cores as f64 / total as f64 - own).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(stat: &str) -> Ticks {
        Ticks::of_stat(stat).unwrap()
    }

    #[test]
    fn own_processor_time_is_not_counted_as_others() {
        let before = ticks("cpu  1000 0 0 5000 0 0 0 70 0 0\ncpu0 1\ncpu1 1\n");
        // Two cores for a second: 120 of 200 ticks busy, of which this process used half a core.
        let after = ticks("cpu  1100 0 10 5070 10 5 5 90 0 0\ncpu0 1\ncpu1 1\n");
        let others = before.used_by_others(after, 0.5).unwrap();
        assert!((others - 0.7).abs() < 1e-9, "{others}");
        assert_eq!(before.used_by_others(after, 5.0), Some(0.0));
        assert_eq!(before.used_by_others(before, 0.0), None, "no time has passed");
    }

    #[test]
    fn unreported_load_is_none() {
        assert_eq!(Ticks::of_stat(""), None);
        assert_eq!(Ticks::of_stat("cpu  1 2 3\n"), None);
    }
}
