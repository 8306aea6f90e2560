//! `perftest doctor`: problems of this machine that distort measurements, and the commands that fix them.

use std::fmt;

use peregrine::{DomainConfig, PeerMemory};
use peregrine_report::record::HostFacts;

use crate::error::Error;
use crate::host;
use crate::terminal::print_text;
use crate::threads::{allowed_cores, two_cores};
use crate::wording::counted;

/// Share of the cores above which other processes disturb a measurement.
const DISTURBING_SHARE: f64 = 0.1;
/// Exit latency above which an idle state affects measured latencies.
const DISTURBING_WAKEUP_US: u32 = 5;
/// Share of the processor that a hypervisor may take.
const DISTURBING_STEAL_PERCENT: f64 = 0.5;
/// Receive buffer that holds a burst of large samples.
const RECEIVE_BUFFER_LEN: u64 = 8 << 20;
/// Packets that may wait in the backlog of loopback.
const BACKLOG: u64 = 10_000;
/// Clock sources that are read without a system call, in nanoseconds.
const FAST_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];

/// A problem that distorts measurements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The problem and its effect on a measurement.
    pub what: String,
    /// The command that fixes it, or other advice if no command does.
    pub fix: String,
}

/// Inputs besides the facts of the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Circumstances {
    /// Whether each of the two sides can have a core.
    pub two_cores: bool,
    /// Whether this program was built without optimisation.
    pub debug_build: bool,
    /// Why this program cannot keep idle cores awake; empty if it can, which it does while it measures.
    pub idle_refusal: String,
    /// Number of cores that other processes keep busy; `None` if the system does not report it.
    pub used_by_others: Option<f64>,
    /// Whether this process may exceed the limits of socket buffers.
    pub may_exceed_limits: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. Fix: {}", self.what, self.fix)
    }
}

impl Circumstances {
    /// Examines this process. Takes a second, in which it observes other processes.
    pub fn of_this_process() -> Self {
        let idle_refusal = match host::IdleStates::disable() {
            host::IdleStates::Disabled { .. } => String::new(),
            host::IdleStates::Allowed(reason) => reason,
        };
        Self {
            two_cores: two_cores(&allowed_cores()).is_some(),
            debug_build: cfg!(debug_assertions),
            idle_refusal,
            used_by_others: host::cores_used_by_others(),
            may_exceed_limits: rustix::process::geteuid().is_root(),
        }
    }
}

/// Prints the limits of memory, then every finding with its command. A finding does not fail the command, because the
/// user may have no other machine.
pub fn run() -> Result<(), Error> {
    let findings = examine(&host::gather(), &Circumstances::of_this_process());
    let mut text = memory_limits();
    for (number, finding) in findings.iter().enumerate() {
        text += &format!("{}. {}\n   {}\n", number + 1, finding.what, finding.fix);
    }
    text += &match findings.len() {
        0 => "No problem was found that distorts measurements.\n".to_owned(),
        count => {
            format!("\n{}. Every record that is made on this machine lists them.\n", counted(count as u64, "finding"))
        }
    };
    print_text(&text)
}

/// The most bytes that peers make a process hold, on this machine and with the default configuration.
fn memory_limits() -> String {
    let config = DomainConfig::default();
    let mebibytes = |bytes: usize| bytes >> 20;
    format!(
        "Memory that peers make a process hold at most: {} MiB on this machine, {} MiB for each participant, {} MiB for \
         the samples of each reader. Discovery data: {} MiB, then {} MiB divided between source addresses.\n\n",
        mebibytes(PeerMemory::limit_of_process()),
        mebibytes(config.max_peer_bytes),
        mebibytes(config.max_cached_bytes_per_reader),
        mebibytes(PeerMemory::limit_of_discovery()),
        mebibytes(PeerMemory::discovery_of_addresses()),
    )
}

/// Every problem of this machine that distorts measurements.
pub fn examine(facts: &HostFacts, circumstances: &Circumstances) -> Vec<Finding> {
    let checks: [&dyn Fn() -> Option<Finding>; 13] = [
        &|| circumstances.debug_build.then(|| finding("this is a debug build", "cargo run --release --bin perftest")),
        &|| deep_sleep(facts, circumstances),
        &|| (!circumstances.two_cores).then(one_core),
        &|| busy(facts, circumstances),
        &|| governor(facts),
        &|| turbo(facts),
        &|| shared_cores(facts),
        &|| clock_source(facts),
        &|| stolen(facts),
        &|| group_limit(facts),
        &|| receive_buffer(facts, circumstances),
        &|| backlog(facts),
        &|| offloads(facts),
    ];
    checks.iter().filter_map(|check| check()).collect()
}

fn finding(what: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { what: what.into(), fix: fix.into() }
}

fn deep_sleep(facts: &HostFacts, circumstances: &Circumstances) -> Option<Finding> {
    let allowed_us = facts.cpu_dma_latency_us.unwrap_or(u32::MAX);
    let never_sleeps = facts.kernel_options.iter().any(|option| option == "idle=poll");
    if circumstances.idle_refusal.is_empty() || never_sleeps || allowed_us <= DISTURBING_WAKEUP_US {
        return None;
    }
    Some(finding(
        format!(
            "idle cores may enter deep idle states ({}); each wake-up then adds up to tens of microseconds",
            circumstances.idle_refusal
        ),
        "Run perftest as root, which then holds /dev/cpu_dma_latency at 0: sudo perftest",
    ))
}

fn one_core() -> Finding {
    finding(
        "publisher and subscriber share one core, so results differ from those of two cores",
        "Give this process two cores: taskset -c 0,1 perftest",
    )
}

fn busy(facts: &HostFacts, circumstances: &Circumstances) -> Option<Finding> {
    let used = circumstances.used_by_others?;
    (used > DISTURBING_SHARE * facts.cores.max(1) as f64).then(|| {
        finding(
            format!("other processes keep {used:.1} cores busy"),
            "Stop other processes; list them with: ps -eo pid,pcpu,comm --sort=-pcpu | head",
        )
    })
}

fn governor(facts: &HostFacts) -> Option<Finding> {
    (!facts.governor.is_empty() && facts.governor != "performance").then(|| {
        finding(
            format!("the frequency governor is {}: the clock rate follows the load with a delay", facts.governor),
            "cpupower frequency-set -g performance",
        )
    })
}

fn turbo(facts: &HostFacts) -> Option<Finding> {
    (facts.turbo == "on").then(|| {
        finding(
            "turbo is on: the clock rate depends on temperature and on the load of other cores",
            "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost",
        )
    })
}

fn shared_cores(facts: &HostFacts) -> Option<Finding> {
    facts.threads_per_core.filter(|threads| *threads > 1).map(|threads| {
        finding(
            format!("each core runs {threads} hardware threads, which slow each other down"),
            "echo off > /sys/devices/system/cpu/smt/control",
        )
    })
}

fn clock_source(facts: &HostFacts) -> Option<Finding> {
    let source = facts.clock_source.as_str();
    (!source.is_empty() && !FAST_CLOCKS.contains(&source)).then(|| {
        finding(
            format!("the clock source is {source}: reading the clock takes a slow system call"),
            "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
    })
}

fn stolen(facts: &HostFacts) -> Option<Finding> {
    let percent = facts.stolen_percent.filter(|percent| *percent > DISTURBING_STEAL_PERCENT)?;
    Some(finding(
        format!("the hypervisor gave {percent:.1} % of this machine's processor time to other machines (steal)"),
        "Measure on a dedicated host; watch the column st of: vmstat 1",
    ))
}

fn group_limit(facts: &HostFacts) -> Option<Finding> {
    let limit = facts.group_limits.iter().find(|limit| limit.contains("cpu.max"))?;
    Some(finding(
        format!("a control group limits the processor time ({limit}) and throttles the process"),
        "Run outside the group: systemd-run --scope --slice=system.slice perftest",
    ))
}

fn receive_buffer(facts: &HostFacts, circumstances: &Circumstances) -> Option<Finding> {
    let limit = socket_limit(facts, "rmem_max")?;
    (limit < RECEIVE_BUFFER_LEN && !circumstances.may_exceed_limits).then(|| {
        finding(
            format!("receive buffers are limited to {limit} bytes: fast senders overflow them"),
            format!("sysctl -w net.core.rmem_max={RECEIVE_BUFFER_LEN}"),
        )
    })
}

fn backlog(facts: &HostFacts) -> Option<Finding> {
    let limit = socket_limit(facts, "netdev_max_backlog")?;
    (limit < BACKLOG).then(|| {
        finding(
            format!("the per-CPU packet backlog is {limit} (loopback included): large bursts are dropped"),
            format!("sysctl -w net.core.netdev_max_backlog={BACKLOG}"),
        )
    })
}

fn offloads(facts: &HostFacts) -> Option<Finding> {
    let lacking = facts.interfaces.iter().find(|interface| {
        let is_on = |name: &str| interface.offloads.iter().any(|offload| offload == name);
        interface.name != "lo"
            && interface.state == "up"
            && !interface.offloads.is_empty()
            && !(is_on("generic-receive-offload") && is_on("generic-segmentation-offload"))
    })?;
    Some(finding(
        format!("GRO or GSO is off on {}: large samples cost several times as much processor time", lacking.name),
        format!("ethtool -K {} gro on gso on", lacking.name),
    ))
}

fn socket_limit(facts: &HostFacts, name: &str) -> Option<u64> {
    let value = |limit: &String| limit.strip_prefix("net.core.")?.strip_prefix(name)?.strip_prefix(" = ")?.parse().ok();
    facts.socket_limits.iter().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{fake::Fake, gather_from};
    use peregrine_report::record::Interface;

    fn good() -> Circumstances {
        Circumstances { two_cores: true, ..Circumstances::default() }
    }

    fn findings(facts: &HostFacts, circumstances: &Circumstances) -> Vec<String> {
        examine(facts, circumstances).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn prepared_machine_has_no_findings() {
        let fake = Fake::new(
            "ready",
            &[
                ("proc/loadavg", "0.10 0.10 0.10 1/100 1\n"),
                ("proc/stat", "cpu  10 0 10 1000 0 0 0 0 0 0\n"),
                ("proc/sys/net/core/rmem_max", "33554432\n"),
                ("proc/sys/net/core/netdev_max_backlog", "30000\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
                ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
                ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n"),
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
                ("dev/cpu_dma_latency", "\0\0\0\0"),
            ],
        );
        let refused = Circumstances { idle_refusal: "permission denied".into(), ..good() };
        assert_eq!(findings(&gather_from(&fake.system), &refused), [""; 0], "another process holds the device at 0");
    }

    #[test]
    fn default_machine_has_every_finding_with_its_fix() {
        let fake = Fake::new(
            "delivered",
            &[
                ("proc/loadavg", "1.50 0.2 0.1 1/100 1\n"),
                ("proc/stat", "cpu  10 0 10 70 0 0 0 10 0 0\n"),
                ("proc/self/cgroup", "0::/box\n"),
                ("sys/fs/cgroup/box/cpu.max", "50000 100000\n"),
                ("proc/sys/net/core/rmem_max", "212992\n"),
                ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
                ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
                ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
                ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0-1\n"),
                ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ],
        );
        let mut facts = gather_from(&fake.system);
        facts.interfaces = vec![Interface {
            name: "eth0".into(),
            state: "up".into(),
            offloads: vec!["generic-receive-offload".into()],
            ..Interface::default()
        }];
        let bad = Circumstances {
            two_cores: false,
            debug_build: true,
            idle_refusal: "permission denied".into(),
            used_by_others: Some(1.5),
            may_exceed_limits: false,
        };
        let findings = findings(&facts, &bad);
        let expected = [
            ("debug build", "cargo run --release"),
            ("permission denied", "sudo perftest"),
            ("share one core", "taskset"),
            ("other processes keep 1.5 cores busy", "ps -eo"),
            ("powersave", "cpupower frequency-set -g performance"),
            ("turbo", "cpufreq/boost"),
            ("2 hardware threads", "smt/control"),
            ("hpet", "current_clocksource"),
            ("10.0 %", "vmstat"),
            ("/box/cpu.max = 50000 100000", "systemd-run"),
            ("212992 bytes", "sysctl -w net.core.rmem_max=8388608"),
            ("backlog is 1000", "sysctl -w net.core.netdev_max_backlog"),
            ("eth0", "ethtool -K eth0 gro on gso on"),
        ];
        assert_eq!(findings.len(), expected.len(), "{findings:#?}");
        for (found, (what, fix)) in findings.iter().zip(expected) {
            assert!(found.contains(what) && found.contains("Fix: ") && found.contains(fix), "{found}");
        }
    }

    /// The load average includes earlier measurements of this program.
    #[test]
    fn load_average_without_other_processes_has_no_finding() {
        let facts = HostFacts { load: "5.00 4.00 1.00".into(), cores: 2, ..HostFacts::default() };
        let circumstances = |used| Circumstances { used_by_others: Some(used), ..good() };
        assert_eq!(findings(&facts, &circumstances(0.2)), [""; 0]);
        assert_eq!(findings(&facts, &circumstances(0.3)).len(), 1);
    }

    #[test]
    fn root_or_unknown_facts_have_no_findings() {
        let facts = HostFacts { socket_limits: vec!["net.core.rmem_max = 1".into()], ..HostFacts::default() };
        assert_eq!(findings(&facts, &Circumstances { may_exceed_limits: true, ..good() }), [""; 0]);
        assert_eq!(findings(&facts, &good()).len(), 1);
        assert_eq!(findings(&HostFacts::default(), &good()), [""; 0]);
    }
}
