//! Delivery of samples to other processes of the host: the path, and the reason if the path is not shared memory.

use std::fmt;

/// The path on which the samples of a writer reach a reader.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeliveryPath {
    /// In memory that both processes map.
    SharedMemory,
    /// In RTPS messages, although both processes offer shared memory, with the reason.
    Messages(NoSharedMemory),
}

/// Why samples of a writer do not reach a reader by shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NoSharedMemory {
    /// The processes differ in host, container, namespace or user; the text names the difference.
    NotColocated(String),
    /// The other process cannot be reached, is not trusted, or lacks something; the text gives the reason.
    NotConnected(String),
    /// The writer's process has refused, and would refuse again: its configuration offers the writer no shared memory,
    /// or the processes do not see the same memory.
    Refused(String),
    /// The other process has violated the protocol; the text describes the violation.
    Broken(String),
    /// The other process has closed the connection, or has ended.
    Ended,
    /// A sample found no memory: it is longer than
    /// [`DataWriterBuilder::shared_memory_bytes`](crate::DataWriterBuilder::shared_memory_bytes) allows, the samples
    /// that the writer holds use all of this memory, or the system has none. In the reader's process the channel [has
    /// ended](Self::Ended).
    NoMemory,
    /// The reader's process has as many channels as it creates before samples come
    /// ([`DomainConfig::eager_channels`](crate::DomainConfig::eager_channels)), and the writer has sent few samples so
    /// far.
    NoSamplesYet,
    /// DDS Security protects the topic. Shared memory carries plain samples, so protected samples are sent in messages,
    /// unless both participants trust the host (`SecurityConfig::trust_host`) and payloads are not protected.
    Protected,
}

/// Counters of the shared memory of a process in a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SharedMemoryStatistics {
    /// Readers in other processes that are attached to writers of this process now.
    pub readers: u64,
    /// Writers in other processes that are attached to readers of this process now, counted once for each reader.
    pub writers: u64,
    /// Samples delivered to readers in other processes, counted once for each reader.
    pub sent: u64,
    /// Samples received from other processes, counted once for each reader.
    pub received: u64,
    /// Samples that were encoded in other memory and copied into shared memory.
    pub copied_in: u64,
    /// Pairs of a writer and a reader that offered shared memory and use messages, from the beginning or again.
    pub fallbacks: u64,
    /// Shared memory that the writers of this process have allocated.
    pub memory: SharedMemoryUse,
}

/// Memory for the samples of all writers of a process in a domain. Writers allocate and release whole segments.
/// Segments of other processes that this process has mapped for its readers are counted in those processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SharedMemoryUse {
    /// Number of segments. Each needs one file descriptor.
    pub segments: u64,
    /// Total size of the segments in bytes.
    pub bytes: u64,
    /// Number of slots, each for one sample.
    pub slots: u64,
    /// Slots whose samples are on loan, in a writer's history, in transit, or not yet released by all readers.
    pub slots_in_use: u64,
}

impl std::iter::Sum for SharedMemoryUse {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            segments: sum.segments + one.segments,
            bytes: sum.bytes + one.bytes,
            slots: sum.slots + one.slots,
            slots_in_use: sum.slots_in_use + one.slots_in_use,
        })
    }
}

impl NoSharedMemory {
    /// Whether the reader gets messages as long as it matches the writer. After another reason the reader's process
    /// requests shared memory again: 50 ms later, and with each failure in a row twice as late, up to 60 s.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        match self {
            Self::NotColocated(_) | Self::Refused(_) | Self::Protected => true,
            Self::NotConnected(_) | Self::Broken(_) | Self::Ended | Self::NoMemory | Self::NoSamplesYet => false,
        }
    }
}

impl fmt::Display for NoSharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotColocated(what) | Self::NotConnected(what) | Self::Refused(what) | Self::Broken(what) => {
                f.write_str(what)
            }
            Self::Ended => f.write_str("the other process has ended or has closed the connection"),
            Self::NoSamplesYet => {
                f.write_str("the process has eager_channels channels already, and the writer has sent few samples")
            }
            Self::Protected => f.write_str("the topic is protected, and shared memory carries plain samples"),
            Self::NoMemory => {
                f.write_str("the writer's shared_memory_bytes, or the system, leaves no memory for a sample")
            }
        }
    }
}

impl std::error::Error for NoSharedMemory {}
