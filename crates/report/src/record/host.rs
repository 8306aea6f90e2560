//! The machine.

use serde::{Deserialize, Serialize};

/// The machine of a record. Text is empty, and a number absent, if the system does not report it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Processor model.
    pub cpu_model: String,
    /// Cores the process may use.
    pub cores: usize,
    /// Threads per core.
    pub threads_per_core: Option<u32>,
    /// Frequency governor.
    pub governor: String,
    /// Driver of idle states.
    pub idle_driver: String,
    /// Governor of idle states.
    pub idle_governor: String,
    /// Processes, other than this one, that hold `/dev/cpu_dma_latency`.
    pub cpu_dma_latency_holders: Vec<String>,
    /// Kernel name, release, build.
    pub kernel: String,
    /// Kernel command line options that concern timing.
    pub kernel_options: Vec<String>,
    /// Mitigations in force, `name: state`.
    pub mitigations: Vec<String>,
    /// Clock source.
    pub clock_source: String,
    /// Hypervisor or `none`.
    pub virtualisation: String,
    /// Installed memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// Socket limits, `name = value`.
    pub socket_limits: Vec<String>,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: String,
    /// Idle states of the first core, `name: exit latency`, and `disabled` if it is.
    #[serde(default)]
    pub idle_states: Vec<String>,
    /// Longest wake-up that `/dev/cpu_dma_latency` allowed, in microseconds, before this tool changed it.
    #[serde(default)]
    pub cpu_dma_latency_us: Option<u32>,
    /// Frequency beyond the nominal one: `on`, `off`, or empty if it is not visible.
    #[serde(default)]
    pub turbo: String,
    /// Microcode revision.
    #[serde(default)]
    pub microcode: String,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    #[serde(default)]
    pub transparent_huge_pages: String,
    /// Limit of memory or processor set by a control group, `name = value`.
    #[serde(default)]
    pub group_limits: Vec<String>,
    /// Processor time that the hypervisor took since the start of the machine, in percent.
    #[serde(default)]
    pub stolen_percent: Option<f64>,
}

/// One network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name.
    pub name: String,
    /// Largest packet in bytes.
    pub mtu: Option<u32>,
    /// Nominal speed.
    pub speed_mbit_per_s: Option<u32>,
    /// `up`, `down` or `unknown`.
    pub state: String,
    /// Driver, empty for virtual ones.
    pub driver: String,
    /// Largest GSO packet in bytes.
    pub gso_max_bytes: Option<u32>,
    /// Addresses.
    pub addresses: Vec<String>,
    /// Enabled offloads, as `ethtool -k` names them; empty if it is not installed.
    #[serde(default)]
    pub offloads: Vec<String>,
    /// Most packets that wait for the interface.
    #[serde(default)]
    pub transmit_queue_len: Option<u32>,
    /// Receive queues.
    #[serde(default)]
    pub receive_queues: Option<u32>,
}
