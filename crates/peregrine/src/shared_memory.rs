//! How samples reach other processes of the host: which way, and why not by shared memory.

use std::fmt;

/// By which way the samples of a writer reach a reader.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum DeliveryPath {
    /// In memory that both processes see.
    SharedMemory,
    /// In RTPS messages, although both processes offer shared memory: why not by that.
    Messages(NoSharedMemory),
}

/// Why the samples of a writer do not reach a reader by shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NoSharedMemory {
    /// They are not at one place: another host, container, namespace or user, as this text says.
    Apart(String),
    /// The other process is not there, not trusted, or has refused, as this text says.
    NotConnected(String),
    /// What the other process has written makes no sense, as this text says.
    Broken(String),
    /// The other process has closed the connection, or has ended.
    Ended,
    /// There was a sample that no memory was left for: it is longer than
    /// [`DataWriterBuilder::shared_memory_bytes`](crate::DataWriterBuilder::shared_memory_bytes) allows, the samples
    /// that the writer keeps take all of that, or the system has no more. The reader's process sees that the channel
    /// [has ended](Self::Ended).
    NoMemory,
    /// DDS Security protects the topic. Shared memory carries plain samples, so protected ones go in messages.
    Protected,
}

/// What the participants of a process share by shared memory in a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SharedMemoryStatistics {
    /// Readers of other processes that get the samples of writers of this one by shared memory now.
    pub readers: u64,
    /// Writers of other processes whose samples come by shared memory now, counted once for each of the readers here.
    pub writers: u64,
    /// Samples handed to readers of other processes, counted once for each of them.
    pub sent: u64,
    /// Samples that have come from other processes, counted once for each reader.
    pub received: u64,
    /// Samples that had to be copied into shared memory, because they were encoded elsewhere.
    pub copied_in: u64,
    /// Writers and readers that both offered shared memory and use messages, or have gone back to them.
    pub fallbacks: u64,
    /// What the writers of this process have made of it.
    pub memory: SharedMemoryUse,
}

/// Memory for the samples of all writers of a process in a domain. It comes and goes by whole segments; those of other
/// processes, which this one has mapped for its readers, are counted there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SharedMemoryUse {
    /// Segments that exist. Each is a descriptor.
    pub segments: u64,
    /// Their size in all, in bytes.
    pub bytes: u64,
    /// The samples they have room for.
    pub slots: u64,
    /// Samples that are on loan, in a writer's history, under way, or not yet known to have been let go of by readers.
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

impl fmt::Display for NoSharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apart(what) | Self::NotConnected(what) | Self::Broken(what) => f.write_str(what),
            Self::Ended => f.write_str("the other process has closed the connection or ended"),
            Self::Protected => f.write_str("the topic is protected, and shared memory carries plain samples"),
            Self::NoMemory => {
                f.write_str("the writer's shared_memory_bytes, or the system, leaves no memory for a sample")
            }
        }
    }
}

impl std::error::Error for NoSharedMemory {}
