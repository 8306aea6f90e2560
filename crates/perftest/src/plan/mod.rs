//! The plan of a run: all options resolved, and all rules between options applied.

mod resolve;
mod security;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::cli::option::{RateLimit, ThreadAffinity, ThreadPriorities};
use crate::topic::Topic;

pub use resolve::{resolve, resolve_both};
pub use security::{Cipher, DocumentFiles, PreSharedKey, SecurityPlan};

/// Serialized length of a sample without its payload bytes.
pub const OVERHEAD_LEN: usize = crate::cli::table::OVERHEAD_LEN as usize;
/// Above this payload length the bounded type does not suffice.
pub const MAX_BOUNDED_LEN: usize = crate::cli::table::MAX_BOUNDED_PAYLOAD_LEN as usize;
/// Largest unfragmented sample, and thus the largest that may be batched.
pub const MAX_UNFRAGMENTED_LEN: usize = 64_969;
/// Largest UDP payload over IPv4.
pub const MAX_DATAGRAM_LEN: usize = 65_507;
/// Sizes of a scan without a list.
pub const SCAN_SIZES: [usize; 12] = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 63_000];

/// One run of one side.
#[derive(Debug, Clone, PartialEq)]
pub struct TestPlan {
    /// Publisher or subscriber, with the settings of that side.
    pub role: Role,
    /// Settings on which both sides must agree.
    pub data: DataPlan,
    /// Network and addresses.
    pub transport: TransportPlan,
    /// How samples are received.
    pub receive: ReceivePlan,
    /// Whether the publisher writes payloads and the subscriber checks them.
    pub patterns: bool,
    /// Whether to skip samples that their writer may have overwritten.
    pub check_consistency: bool,
    /// Priorities, cores, memory.
    pub threads: ThreadPlan,
    /// Form and destination of the results.
    pub output: OutputPlan,
    /// Which counters of the middleware to print.
    pub diagnostics: Diagnostics,
    /// Documents, certificate and key; `None` for a participant without security.
    pub security: Option<SecurityPlan>,
    /// Bounds of every wait.
    pub timeouts: Timeouts,
    /// Middleware messages: 0 none, 1 errors, 2 warnings, 3 everything.
    pub verbosity: u8,
    /// Remarks for the user that are not errors.
    pub notes: Vec<String>,
}

/// The side of this process.
#[derive(Debug, Clone, PartialEq)]
pub enum Role {
    /// Sends data and measures latency.
    Publisher(PublisherPlan),
    /// Receives data and measures throughput.
    Subscriber(SubscriberPlan),
}

/// Settings of a publisher.
#[derive(Debug, Clone, PartialEq)]
pub struct PublisherPlan {
    /// Number of this publisher; 0 is the one that measures latency.
    pub id: u32,
    /// Subscribers to wait for; their numbers are `0..subscribers`.
    pub subscribers: u32,
    /// Sizes to test in turn; one entry unless `scan`.
    pub sizes: Vec<usize>,
    /// Whether `-scan` was given: sizes are then separated by LENGTH_CHANGED.
    pub scan: bool,
    /// Ping-pong instead of throughput.
    pub latency_test: bool,
    /// One ping in this many samples, or batches.
    pub latency_count: u64,
    /// Requested batching; [`Batching::bytes_for`] decides per size.
    pub batching: Batching,
    /// The run, or each size of a scan, ends after this many samples.
    pub max_samples: u64,
    /// The run, or each size of a scan, ends after this time.
    pub execution_time: Option<Duration>,
    /// Overrides the computed number of INITIALIZE samples.
    pub initial_burst: Option<u64>,
    /// The pace of samples.
    pub pace: Pace,
    /// Write only this instance instead of all in turn.
    pub write_instance: Option<u32>,
    /// File to which every latency is appended.
    pub latency_file: Option<PathBuf>,
    /// Source of the payload; zeros without a file.
    pub payload_file: Option<PayloadFile>,
    /// Measure the whole ping-pong by two clock readings as well.
    pub low_resolution_clock: bool,
    /// Number of serializations to time after the test.
    pub serialization_rounds: u32,
}

/// A file whose bytes are sent repeatedly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadFile {
    /// The file.
    pub path: PathBuf,
    /// Most bytes to load.
    pub max_bytes: u64,
}

/// Settings of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriberPlan {
    /// Number of this subscriber.
    pub id: u32,
    /// Publishers to wait for; their numbers are `0..publishers`.
    pub publishers: u32,
}

/// The form in which samples are made and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleForm {
    /// Serialized by the plain type of RTI Perftest.
    Serialized,
    /// Built in place, by a FlatData type.
    Flat,
    /// As `Flat`, and only the checked bytes of the payload are written, where subscribers read them.
    ZeroCopy,
}

/// Settings that must be equal on both sides; the protocol negotiates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataPlan {
    /// DDS domain, which also selects the ports of raw sockets and the names of raw shared memory.
    pub domain: u32,
    /// Largest sample of the run in bytes, without its encapsulation header.
    pub max_len: usize,
    /// Reliable or best-effort delivery. Raw sockets are never reliable; raw shared memory is reliable if writers wait
    /// for room.
    pub reliable: bool,
    /// Keyed type.
    pub keyed: bool,
    /// Instances written in turn.
    pub instances: u32,
    /// Whether the number was given; if not, a subscriber accepts any number.
    pub instances_given: bool,
    /// The form in which samples are made and read.
    pub form: SampleForm,
    /// Unbounded type, and the size from which its memory is taken on demand.
    pub unbounded: Option<usize>,
    /// 0 volatile, 1 transient local, 2 transient, 3 persistent.
    pub durability: u8,
    /// Samples or batches that may await acknowledgement.
    pub send_queue_len: u32,
    /// Whether the length of the send queue was given.
    pub send_queue_given: bool,
    /// Initial capacity of the reader, in samples.
    pub receive_queue_len: u32,
    /// Largest RTPS message in bytes; `None` uses the limit of the interface.
    pub max_message_len: Option<usize>,
    /// Requested socket receive buffer in bytes; `None` for the middleware's default.
    pub receive_buffer_len: Option<usize>,
    /// Requested socket send buffer in bytes; `None` for the system's default.
    pub send_buffer_len: Option<usize>,
    /// Pace of asynchronous writers; `None` for synchronous ones.
    pub asynchronous: Option<FlowController>,
}

/// Common pace of the asynchronous writers of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowController {
    /// The highest rate.
    Default,
    /// Bits of UDP payload per second.
    BitsPerSecond {
        /// Its name in `-flowController`.
        name: &'static str,
        /// The rate.
        rate: u64,
    },
}

impl FlowController {
    /// Its name in `-flowController`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::BitsPerSecond { name, .. } => name,
        }
    }
}

/// Whether samples are batched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batching {
    /// No batches.
    Off,
    /// `-batchSize` was not given: up to this many bytes, where two samples fit.
    Implicit(usize),
    /// `-batchSize` was given: up to this many bytes, where two samples fit.
    Explicit(usize),
}

/// The pace of the publisher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// The highest rate, after an optional pause and an optional busy loop before each sample.
    Unlimited {
        /// Pause before each sample.
        sleep: Duration,
        /// Iterations of an empty loop before each sample.
        spin_count: u64,
    },
    /// An absolute schedule of samples per second.
    Samples(RateLimit),
    /// An absolute schedule of bits of sample data per second.
    Bits(RateLimit),
}

/// Network and addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportPlan {
    /// UDPv4, UDPv6 or SHMEM.
    pub kind: TransportKind,
    /// Plain sockets, or plain shared memory, instead of DDS.
    pub raw: bool,
    /// Both sides are in one process, which passes samples by reference.
    pub same_process: bool,
    /// Whether a full send buffer blocks the sender; always so unless raw.
    pub blocking_send: bool,
    /// Names or addresses of the interfaces to use; all if empty.
    pub interfaces: Vec<String>,
    /// Addresses of partners as typed.
    pub peers: Vec<String>,
    /// Multicast groups if data uses multicast.
    pub multicast: Option<MulticastGroups>,
}

/// Kind of network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// UDP over IPv4.
    UdpV4,
    /// UDP over IPv6.
    UdpV6,
    /// Memory shared by both processes. With DDS, partners discover each other by UDP over IPv4.
    SharedMemory,
}

impl TransportKind {
    /// The word on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UdpV4 => "UDPv4",
            Self::UdpV6 => "UDPv6",
            Self::SharedMemory => "SHMEM",
        }
    }

    /// Whether sockets use IPv4.
    #[must_use]
    pub const fn is_ipv4(self) -> bool {
        !matches!(self, Self::UdpV6)
    }
}

/// One group per topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MulticastGroups {
    /// Data and pings.
    pub throughput: IpAddr,
    /// Pongs.
    pub latency: IpAddr,
    /// Readiness and end of test.
    pub announcement: IpAddr,
}

/// How samples are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivePlan {
    /// In a loop on a WaitSet instead of in a listener.
    pub read_thread: bool,
    /// Samples to gather after the first one; none by default.
    pub gather: Option<Gather>,
    /// How threads wait for data.
    pub wait: Wait,
}

/// Samples that are delivered together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gather {
    /// Longest time after the first sample.
    pub delay: Duration,
    /// Number of samples that ends the time early.
    pub count: u64,
}

/// How threads wait for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Sleep in the kernel.
    Block,
    /// Spin for this time, then sleep.
    Spin(Duration),
    /// Spin.
    Poll,
}

/// Priorities, cores, memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadPlan {
    /// Real-time priorities.
    pub priorities: Option<ThreadPriorities>,
    /// Cores.
    pub affinity: Option<ThreadAffinity>,
    /// Whether to lock all memory.
    pub pin_memory: bool,
}

/// Form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Comma-separated columns of fixed width.
    Csv,
    /// One JSON document.
    Json,
    /// The only form of RTI Perftest 3.0.
    Legacy,
}

/// Form and destination of the results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPlan {
    /// Form of the results.
    pub format: OutputFormat,
    /// Append to this file instead of writing to stdout.
    pub file: Option<PathBuf>,
    /// Print interval rows.
    pub intervals: bool,
    /// Print titles and column headings.
    pub headers: bool,
    /// Add the CPU column.
    pub cpu: bool,
    /// Three decimals of a microsecond instead of none.
    pub ns_resolution: bool,
    /// Append each result with its histogram as one JSON line.
    pub record_file: Option<PathBuf>,
}

/// Counters of the middleware to print on stderr.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// The resource limits of each endpoint.
    pub resource_limits: bool,
    /// The counters of each endpoint, at the end of each size.
    pub counters: bool,
    /// Of these, only the counters of repaired samples.
    pub resent: bool,
}

/// Bounds of every wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Longest wait for the partners to appear.
    pub discovery: Duration,
    /// Longest silence of a partner.
    pub partner: Duration,
    /// Pause between the initial burst and the first sample.
    pub start_delay: Duration,
}

impl MulticastGroups {
    /// The group of a topic.
    pub const fn of(self, topic: Topic) -> IpAddr {
        match topic {
            Topic::Throughput => self.throughput,
            Topic::Latency => self.latency,
            Topic::Announcement => self.announcement,
        }
    }
}

impl Batching {
    /// Bytes per batch for samples of `data_len` bytes; 0 if fewer than two fit.
    pub fn bytes_for(self, data_len: usize) -> usize {
        match self {
            Self::Implicit(bytes) | Self::Explicit(bytes)
                if data_len <= MAX_UNFRAGMENTED_LEN && bytes >= data_len.saturating_mul(2) =>
            {
                bytes
            }
            _ => 0,
        }
    }

    /// Samples per batch for samples of `data_len` bytes; 1 without batches.
    pub fn samples_for(self, data_len: usize) -> u64 {
        (self.bytes_for(data_len) / data_len.max(1)).max(1) as u64
    }
}

impl Pace {
    /// Samples per second for samples of `data_len` bytes, if there is a schedule.
    pub fn samples_per_second(self, data_len: usize) -> Option<u64> {
        match self {
            Self::Unlimited { .. } => None,
            Self::Samples(rate) => Some(rate.per_second),
            Self::Bits(rate) => Some((rate.per_second / (8 * data_len.max(1) as u64)).max(1)),
        }
    }
}

impl TestPlan {
    /// Number of this process among its kind, as in `entity_id`.
    pub fn entity_id(&self) -> u32 {
        match &self.role {
            Role::Publisher(publisher) => publisher.id,
            Role::Subscriber(subscriber) => subscriber.id,
        }
    }
}

#[cfg(test)]
mod tests;
