//! The interface between the test and its transports.
//!
//! Workload, protocol and output are written once against these traits; plain sockets ([`raw`]), plain shared memory
//! ([`raw_shm`]) and DDS ([`dds`]) implement them. The traits are generic rather than dynamic, so that the write path
//! of a transport is inlined into the send loop, and the interface has no cost that affects a measurement.

pub mod dds;
mod interface;
pub mod raw;
pub mod raw_shm;
mod receive_buffer;
mod sample;
mod socket_traffic;

use std::fmt;
use std::time::Duration;

pub use sample::{ENCAPSULATION_LEN, HEADER_LEN, MalformedSample, Origin, Sample};
pub(crate) use socket_traffic::{Carried, SocketTraffic};

use peregrine_report::record::{SecurityUse, WireUse};

use crate::error::Error;
pub use crate::topic::Topic;
use interface::missing_interface;

/// `Label: value` lines of a transport, for the configuration block on stderr.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// At the end of the section `Perftest Configuration`.
    pub perftest: Vec<(String, String)>,
    /// At the end of the section `Transport Configuration`.
    pub transport: Vec<(String, String)>,
    /// The section `Secure Configuration`; empty without security.
    pub security: Vec<(String, String)>,
    /// Remarks about this machine, such as small socket buffers and the command that enlarges them.
    pub warnings: Vec<String>,
}

/// `Label: value` lines about one endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EndpointReport {
    /// Which endpoint.
    pub title: String,
    /// Its lines.
    pub lines: Vec<(&'static str, String)>,
}

/// Retransmissions of all writers of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resent {
    /// Whole samples.
    pub samples: u64,
    /// Fragments of samples.
    pub fragments: u64,
}

/// The endpoint factory of one process in one domain: a DomainParticipant, a set of sockets, or a name for shared
/// memory.
pub trait Messaging {
    /// Sends samples of one topic.
    type Writer: SampleWriter;
    /// Receives samples of one topic.
    type Reader: SampleReader;

    /// Name and version of the transport, for the version line.
    fn name(&self) -> String;

    /// Lines of the configuration block besides the options.
    fn configuration(&self) -> Configuration;

    /// How samples are protected; `None` without security.
    fn security(&self) -> Option<SecurityUse> {
        None
    }

    /// A function that reads the counters of the transport.
    fn wire_counter(&self) -> WireCounter;

    /// Number of INITIALIZE samples that warm the path up, if `samples_per_batch` samples make a batch.
    fn initial_burst(&self, samples_per_batch: u64) -> u64;

    /// The resource limits of the endpoints created so far.
    fn resource_limits(&self) -> Vec<EndpointReport>;

    /// Counters of the endpoints created so far.
    fn counters(&self) -> Vec<EndpointReport>;

    /// Retransmissions; `None` if the transport has none.
    fn resent(&self) -> Option<Resent>;

    /// Creates the writer of a topic.
    fn create_writer(&self, topic: Topic) -> Result<Self::Writer, Error>;

    /// Creates the reader of a topic. Its queue keeps samples that arrive before [`SampleReader::listen`] or
    /// [`SampleReader::receive`] is called.
    fn create_reader(&self, topic: Topic) -> Result<Self::Reader, Error>;
}

/// Sends samples of one topic.
pub trait SampleWriter: Send + 'static {
    /// Sends one sample, or adds it to the batch. Blocks while the send queue is full, except with
    /// `-noBlockingSockets`.
    fn write(&mut self, sample: &Sample<'_>) -> Result<(), WriteError>;

    /// Sends an incomplete batch.
    fn flush(&mut self) -> Result<(), WriteError>;

    /// Waits until `count` readers are matched. Returns `false` at the timeout. Sockets cannot detect readers and
    /// return `true` at once.
    fn wait_for_readers(&mut self, count: u32, timeout: Duration) -> Result<bool, Error>;

    /// Waits until every matched reader has acknowledged everything. Returns `false` at the timeout. Without
    /// acknowledgments (best effort, sockets) it returns `true` at once.
    fn wait_for_acknowledgments(&mut self, timeout: Duration) -> Result<bool, Error>;
}

/// Receives samples of one topic, in exactly one of two ways.
pub trait SampleReader: Send + 'static {
    /// Dropping this value ends the delivery. When `drop` returns, the listener is not running and will not run again.
    type Listening: Send;

    /// Waits until `count` writers are matched. Returns `false` at the timeout. Sockets cannot detect writers and
    /// return `true` at once.
    fn wait_for_writers(&mut self, count: u32, timeout: Duration) -> Result<bool, Error>;

    /// Delivers every sample to `on_sample` on a thread of the transport: its listener thread, or a read thread with
    /// `-useReadThread`.
    fn listen<F>(self, on_sample: F) -> Result<Self::Listening, Error>
    where
        F: FnMut(&Sample<'_>) + Send + 'static;

    /// Waits on the calling thread for at least one sample and delivers the available ones. Returns their number, 0 at
    /// the timeout.
    fn receive<F>(&mut self, timeout: Duration, on_sample: F) -> Result<usize, Error>
    where
        F: FnMut(&Sample<'_>);
}

/// Reads the traffic of this process's sockets so far.
pub type WireCounter = Box<dyn Fn() -> WireUse + Send>;

/// Why a sample was not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteError {
    /// There was no room and the writer does not wait. The sample is dropped.
    WouldBlock,
    /// No process receives at the destination any more.
    PartnerGone(String),
    /// The network or the middleware failed.
    Failed(String),
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("the send buffer is full"),
            Self::PartnerGone(text) | Self::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for WriteError {}
