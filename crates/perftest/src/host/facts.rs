//! Facts of the system from `/proc` and `/sys`. Facts that the system does not report stay empty.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use peregrine_report::record::{HostFacts, Interface};

use super::idle::cpu_dma_latency_holders;
use super::system::System;
use crate::threads::allowed_cores;

/// Options of the kernel's command line that affect timing.
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
/// Offloads that change the cost of a datagram.
const OFFLOADS: [&str; 7] = [
    "rx-checksumming",
    "tx-checksumming",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "tx-udp-segmentation",
    "rx-udp-gro-forwarding",
    "scatter-gather",
];
const CPU: &str = "sys/devices/system/cpu";

/// Gathers all facts of this machine; takes a few milliseconds. Call this before the machine's settings are changed for
/// a measurement.
pub fn gather() -> HostFacts {
    let mut facts = gather_from(&System::this());
    facts.cpu_dma_latency_holders = cpu_dma_latency_holders();
    facts.cores = allowed_cores().len();
    facts.kernel = kernel();
    let addresses = if_addrs::get_if_addrs().unwrap_or_default();
    for interface in &mut facts.interfaces {
        let own = addresses.iter().filter(|address| address.name == interface.name);
        interface.addresses = own.map(|address| address.ip().to_string()).collect();
        interface.offloads = offloads(&interface.name);
    }
    facts
}

/// Reads the files of `system`. Cores, kernel, addresses and offloads come from system calls of the running kernel.
pub(crate) fn gather_from(system: &System) -> HostFacts {
    let cpu = system.text("proc/cpuinfo");
    let siblings = system.text(format!("{CPU}/cpu0/topology/thread_siblings_list"));
    HostFacts {
        cpu_model: cpu_field(&cpu, "model name").or_else(|| cpu_field(&cpu, "Model")).unwrap_or_default(),
        threads_per_core: (!siblings.is_empty()).then(|| count_of_list(&siblings)),
        governor: system.text(format!("{CPU}/cpu0/cpufreq/scaling_governor")),
        idle_driver: system.text(format!("{CPU}/cpuidle/current_driver")),
        idle_governor: system.text(format!("{CPU}/cpuidle/current_governor")),
        kernel_options: timing_options(&system.text("proc/cmdline")),
        mitigations: mitigations(system),
        clock_source: system.text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        virtualisation: virtualisation(system, &cpu),
        memory_bytes: memory_bytes(&system.text("proc/meminfo")),
        interfaces: interfaces(system),
        socket_limits: socket_limits(system),
        load: system.text("proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" "),
        idle_states: idle_states(system),
        cpu_dma_latency_us: cpu_dma_latency_us(&system.bytes("dev/cpu_dma_latency")),
        turbo: turbo(system),
        microcode: cpu_field(&cpu, "microcode").unwrap_or_default(),
        transparent_huge_pages: chosen(&system.text("sys/kernel/mm/transparent_hugepage/enabled")),
        group_limits: group_limits(system),
        stolen_percent: stolen_percent(&system.text("proc/stat")),
        ..HostFacts::default()
    }
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

fn mitigations(system: &System) -> Vec<String> {
    let folder = Path::new(CPU).join("vulnerabilities");
    let states = system.names(&folder).into_iter().map(|name| (system.text(folder.join(&name)), name));
    states
        .filter(|(state, _)| state.starts_with("Mitigation") || state.starts_with("Vulnerable"))
        .map(|(state, name)| format!("{name}: {state}"))
        .collect()
}

fn virtualisation(system: &System, cpu: &str) -> String {
    let is_guest = cpu_field(cpu, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let vendor = system.text("sys/class/dmi/id/sys_vendor");
    let product = system.text("sys/class/dmi/id/product_name");
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

fn socket_limits(system: &System) -> Vec<String> {
    SOCKET_LIMITS
        .iter()
        .map(|name| (name, system.text(format!("proc/sys/net/core/{name}"))))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("net.core.{name} = {value}"))
        .collect()
}

fn idle_states(system: &System) -> Vec<String> {
    let folder = Path::new(CPU).join("cpu0/cpuidle");
    let describe = |state: String| {
        let read = |name: &str| system.text(folder.join(&state).join(name));
        let disabled = if read("disable") == "1" { ", disabled" } else { "" };
        format!("{}: {} us{disabled}", read("name"), read("latency"))
    };
    system.names(&folder).into_iter().filter(|name| name.starts_with("state")).map(describe).collect()
}

/// The device returns a number in the machine's byte order.
fn cpu_dma_latency_us(bytes: &[u8]) -> Option<u32> {
    u32::try_from(i32::from_ne_bytes(*bytes.first_chunk()?)).ok()
}

fn turbo(system: &System) -> String {
    let is_off = |text: String, off: &str| match text.as_str() {
        "" => None,
        text => Some(text == off),
    };
    let off = is_off(system.text(format!("{CPU}/intel_pstate/no_turbo")), "1")
        .or_else(|| is_off(system.text(format!("{CPU}/cpufreq/boost")), "0"));
    off.map_or_else(String::new, |off| if off { "off" } else { "on" }.into())
}

/// The word in brackets.
fn chosen(choices: &str) -> String {
    choices.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(word, _)| word).to_owned()
}

/// Limits of the process's control group (version 2) and of its parents.
fn group_limits(system: &System) -> Vec<String> {
    let groups = system.text("proc/self/cgroup");
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let mut limits = Vec::new();
    for group in Path::new(own).ancestors() {
        for name in ["cpu.max", "memory.max", "cpuset.cpus"] {
            let value = system.text(Path::new("sys/fs/cgroup").join(group).join(name));
            if !value.is_empty() && !value.starts_with("max") {
                limits.push(format!("{} = {value}", Path::new("/").join(group).join(name).display()));
            }
        }
    }
    limits
}

/// From the first line: user, nice, system, idle, iowait, irq, softirq, steal.
fn stolen_percent(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|number| number.parse().ok()).collect();
    let sum: u64 = ticks.iter().sum();
    let stolen = *ticks.get(7)?;
    (sum > 0).then(|| stolen as f64 * 100.0 / sum as f64)
}

fn interfaces(system: &System) -> Vec<Interface> {
    let folder = Path::new("sys/class/net");
    let describe = |name: String| {
        let path = folder.join(&name);
        let driver = fs::read_link(system.path(path.join("device/driver"))).ok();
        let queues = system.names(path.join("queues")).iter().filter(|queue| queue.starts_with("rx-")).count();
        Interface {
            mtu: system.number(path.join("mtu")),
            // A virtual interface reports -1, which is no speed.
            speed_mbit_per_s: system.number(path.join("speed")),
            state: system.text(path.join("operstate")),
            driver: driver
                .and_then(|driver| Some(driver.file_name()?.to_string_lossy().into_owned()))
                .unwrap_or_default(),
            gso_max_bytes: system.number(path.join("gso_max_size")),
            addresses: Vec::new(),
            offloads: Vec::new(),
            transmit_queue_len: system.number(path.join("tx_queue_len")),
            receive_queues: u32::try_from(queues).ok().filter(|queues| *queues > 0),
            name,
        }
    };
    system
        .names(folder)
        .into_iter()
        .filter(|name| system.path(folder.join(name).join("mtu")).exists())
        .map(describe)
        .collect()
}

/// The kernel reports offloads only by ioctl and netlink; the tool that reads them may not be installed.
fn offloads(interface: &str) -> Vec<String> {
    let output = Command::new("ethtool").args(["-k", interface]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    output.map_or_else(|_| Vec::new(), |output| offloads_of(&String::from_utf8_lossy(&output.stdout)))
}

fn offloads_of(features: &str) -> Vec<String> {
    let is_on = |line: &str| {
        let (name, state) = line.trim().split_once(':')?;
        (OFFLOADS.contains(&name) && state.trim().starts_with("on")).then(|| name.to_owned())
    };
    features.lines().filter_map(is_on).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::system::fake::Fake;

    #[test]
    fn basic_facts_of_this_machine_are_reported() {
        let facts = gather();
        assert!(facts.cores >= 1);
        assert!(facts.kernel.starts_with("Linux "));
        assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 0));
        let loopback = facts.interfaces.iter().find(|interface| interface.name == "lo").unwrap();
        assert!(loopback.mtu.is_some());
    }

    #[test]
    fn host_facts_are_read_from_files() {
        let fake = Fake::new(
            "facts",
            &[
                ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Example\nmicrocode\t: 0x2b\nflags\t: fpu hypervisor\n"),
                ("proc/meminfo", "MemTotal:       16384 kB\n"),
                ("proc/cmdline", "quiet isolcpus=1 ro idle=poll\n"),
                ("proc/loadavg", "0.10 0.20 0.30 1/100 4242\n"),
                ("proc/stat", "cpu  60 0 20 100 0 0 0 20 0 0\ncpu0 1 2 3\n"),
                ("proc/self/cgroup", "0::/a/b\n"),
                ("proc/sys/net/core/rmem_max", "212992\n"),
                ("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"),
                ("sys/fs/cgroup/a/memory.max", "max\n"),
                ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
                ("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state0/name", "POLL\n"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6\n"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133\n"),
                ("sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1\n"),
                ("sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n"),
                ("sys/devices/system/cpu/vulnerabilities/mds", "Not affected\n"),
                ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
                ("sys/class/dmi/id/sys_vendor", "Example Cloud\n"),
                ("sys/class/net/eth0/mtu", "9000\n"),
                ("sys/class/net/eth0/speed", "10000\n"),
                ("sys/class/net/eth0/tx_queue_len", "1000\n"),
                ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
                ("sys/class/net/eth0/queues/rx-1/rps_cpus", "0\n"),
                ("sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
                ("sys/class/net/bonding_masters", "\n"),
                ("dev/cpu_dma_latency", "\0\0\0\0"),
            ],
        );
        let facts = gather_from(&fake.system);
        assert_eq!((facts.cpu_model.as_str(), facts.microcode.as_str()), ("Example", "0x2b"));
        assert_eq!(facts.virtualisation, "Example Cloud");
        assert_eq!((facts.memory_bytes, facts.threads_per_core), (Some(16_777_216), Some(2)));
        assert_eq!(facts.kernel_options, ["isolcpus=1", "idle=poll"]);
        assert_eq!((facts.load.as_str(), facts.stolen_percent), ("0.10 0.20 0.30", Some(10.0)));
        assert_eq!(facts.group_limits, ["/a/b/cpu.max = 50000 100000"]);
        assert_eq!(facts.socket_limits, ["net.core.rmem_max = 212992"]);
        assert_eq!((facts.governor.as_str(), facts.turbo.as_str()), ("powersave", "on"));
        assert_eq!(facts.idle_states, ["POLL: 0 us", "C6: 133 us, disabled"]);
        assert_eq!(facts.mitigations, ["meltdown: Mitigation: PTI"]);
        assert_eq!((facts.transparent_huge_pages.as_str(), facts.cpu_dma_latency_us), ("madvise", Some(0)));
        let [eth0] = &facts.interfaces[..] else { panic!("{:?}", facts.interfaces) };
        assert_eq!((eth0.mtu, eth0.speed_mbit_per_s, eth0.receive_queues), (Some(9000), Some(10_000), Some(2)));
    }

    #[test]
    fn unreported_facts_stay_empty() {
        let fake = Fake::new("nothing", &[]);
        let facts = gather_from(&fake.system);
        assert_eq!(facts, HostFacts { virtualisation: "none".into(), ..HostFacts::default() });
    }

    #[test]
    fn system_texts_are_parsed() {
        assert_eq!(count_of_list("0-1,4"), 3);
        assert_eq!(cpu_field("model name\t: A : B\n", "model name").as_deref(), Some("A : B"));
        assert_eq!(cpu_dma_latency_us(&2_000_000_000_i32.to_ne_bytes()), Some(2_000_000_000));
        assert_eq!(cpu_dma_latency_us(&[0, 0]), None);
        assert_eq!(stolen_percent("cpu  1 2\n"), None);
        let features = "Features for lo:\nrx-checksumming: on [fixed]\ngeneric-receive-offload: off\n\ttx-gre: on\n\
                        tx-udp-segmentation: on\n";
        assert_eq!(offloads_of(features), ["rx-checksumming", "tx-udp-segmentation"]);
    }
}
