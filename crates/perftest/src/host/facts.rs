//! What the system tells about itself, from `/proc` and `/sys`. What it does not tell stays empty.

use std::fs;
use std::path::Path;

use peregrine_report::record::{HostFacts, Interface};

use super::cpu_dma_latency_holders;
use crate::threads::allowed_cores;

/// Parts of the kernel's command line that concern timing.
const TIMING_OPTIONS: [&str; 12] = [
    "isolcpus",
    "nohz",
    "rcu_nocbs",
    "idle=",
    "cstate",
    "haltpoll",
    "mitigations",
    "preempt",
    "tsc",
    "clocksource",
    "irqaffinity",
    "intel_pstate",
];
const SOCKET_LIMITS: [&str; 6] =
    ["rmem_max", "rmem_default", "wmem_max", "wmem_default", "netdev_max_backlog", "busy_read"];

/// Gathers everything; takes a few milliseconds.
pub fn gather() -> HostFacts {
    let cpu = read("/proc/cpuinfo");
    let siblings = read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
    HostFacts {
        cpu_model: cpu_field(&cpu, "model name").or_else(|| cpu_field(&cpu, "Model")).unwrap_or_default(),
        cores: allowed_cores().len(),
        threads_per_core: (!siblings.is_empty()).then(|| count_of_list(&siblings)),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        idle_driver: read("/sys/devices/system/cpu/cpuidle/current_driver"),
        idle_governor: read("/sys/devices/system/cpu/cpuidle/current_governor"),
        cpu_dma_latency_holders: cpu_dma_latency_holders(),
        kernel: kernel(),
        kernel_options: timing_options(&read("/proc/cmdline")),
        mitigations: mitigations(),
        clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        virtualisation: virtualisation(&cpu),
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
        interfaces: interfaces(),
        socket_limits: socket_limits(),
        load: read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" "),
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn cpu_field(cpu: &str, name: &str) -> Option<String> {
    cpu.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Number of entries of a list such as `0-1,4`.
fn count_of_list(list: &str) -> u32 {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(last.parse::<u32>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    list.split(',').filter_map(count).sum()
}

fn kernel() -> String {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine()))
}

fn timing_options(command_line: &str) -> Vec<String> {
    command_line
        .split_whitespace()
        .filter(|option| TIMING_OPTIONS.iter().any(|known| option.contains(known)))
        .map(str::to_owned)
        .collect()
}

fn mitigations() -> Vec<String> {
    let Ok(files) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return Vec::new() };
    let mut found: Vec<_> = files
        .flatten()
        .map(|file| (file.file_name().to_string_lossy().into_owned(), read(file.path())))
        .filter(|(_, state)| state.starts_with("Mitigation") || state.starts_with("Vulnerable"))
        .map(|(name, state)| format!("{name}: {state}"))
        .collect();
    found.sort();
    found
}

fn virtualisation(cpu: &str) -> String {
    let is_guest = cpu_field(cpu, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    let product = read("/sys/class/dmi/id/product_name");
    let named = format!("{vendor} {product}").trim().to_owned();
    match (is_guest, named.is_empty()) {
        (false, _) => "none".into(),
        (true, true) => "a hypervisor that does not name itself".into(),
        (true, false) => named,
    }
}

fn memory_bytes(memory: &str) -> Option<u64> {
    let line = memory.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

fn socket_limits() -> Vec<String> {
    SOCKET_LIMITS
        .iter()
        .map(|name| (name, read(Path::new("/proc/sys/net/core").join(name))))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("net.core.{name} = {value}"))
        .collect()
}

fn interfaces() -> Vec<Interface> {
    let addresses = if_addrs::get_if_addrs().unwrap_or_default();
    let Ok(found) = fs::read_dir("/sys/class/net") else { return Vec::new() };
    let mut interfaces: Vec<_> = found
        .flatten()
        .map(|entry| {
            let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
            let own = addresses.iter().filter(|address| address.name == name);
            Interface {
                mtu: read(path.join("mtu")).parse().ok(),
                // A virtual interface reports −1, which is no speed.
                speed_mbit_per_s: read(path.join("speed")).parse().ok(),
                state: read(path.join("operstate")),
                driver: fs::read_link(path.join("device/driver"))
                    .ok()
                    .and_then(|driver| Some(driver.file_name()?.to_string_lossy().into_owned()))
                    .unwrap_or_default(),
                gso_max_bytes: read(path.join("gso_max_size")).parse().ok(),
                addresses: own.map(|address| address.ip().to_string()).collect(),
                name,
            }
        })
        .collect();
    interfaces.sort_by(|one, other| one.name.cmp(&other.name));
    interfaces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_the_basics() {
        let facts = gather();
        assert!(facts.cores >= 1);
        assert!(facts.kernel.starts_with("Linux "));
        assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 0));
        let loopback = facts.interfaces.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(loopback.mtu.is_some());
    }

    #[test]
    fn texts_of_the_system_are_understood() {
        assert_eq!(count_of_list("0-1,4"), 3);
        assert_eq!(memory_bytes("MemTotal:       16384 kB\n"), Some(16_777_216));
        assert_eq!(cpu_field("model name\t: A : B\n", "model name").as_deref(), Some("A : B"));
        assert_eq!(timing_options("quiet isolcpus=1 ro idle=poll"), ["isolcpus=1", "idle=poll"]);
        assert_eq!(virtualisation("flags\t: fpu vme\n"), "none");
    }
}
