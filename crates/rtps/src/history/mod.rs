//! The caches of writers and readers: instances, KEEP_LAST and KEEP_ALL, ownership, ordering, resource limits.

mod instance;
mod reader;
mod writer;

pub use instance::{InstanceState, ViewState, WriterSlot};
pub use reader::{
    Arrival, FastSample, FilterReason, Inserted, KeyDigest, KeyHolder, Peeked, ReaderHistory, ReaderHistoryConfig,
    RejectReason, Released, SampleInfo, Selected, Selector,
};
pub use writer::{CacheChange, Full, WriterHistory};

use crate::id::KeyHash;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The effect of a change on its instance (RTPS 2.5 §8.2.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChangeKind {
    /// A new value.
    #[default]
    Alive,
    /// The instance is disposed.
    Disposed,
    /// This writer no longer writes the instance.
    Unregistered,
    /// The instance is disposed, and this writer no longer writes it.
    DisposedUnregistered,
}

impl ChangeKind {
    /// Whether the change carries a value.
    #[must_use]
    pub const fn is_alive(self) -> bool {
        matches!(self, Self::Alive)
    }

    /// Whether the change disposes its instance.
    #[must_use]
    pub const fn disposes(self) -> bool {
        matches!(self, Self::Disposed | Self::DisposedUnregistered)
    }

    /// Whether the change unregisters its instance.
    #[must_use]
    pub const fn unregisters(self) -> bool {
        matches!(self, Self::Unregistered | Self::DisposedUnregistered)
    }
}

/// A change as the application passes it to a writer.
#[derive(Clone, Debug)]
pub struct Change {
    /// The effect on the instance.
    pub kind: ChangeKind,
    /// The instance; [`KeyHash::NIL`] on topics without keys.
    pub instance: KeyHash,
    /// When the change happened, as stated by the application.
    pub source_timestamp: Timestamp,
    /// The serialized sample, or for a dispose or unregister the serialized key. Both begin with an encapsulation
    /// header.
    pub payload: Payload,
}

/// Which samples a cache keeps (DDS 1.4 §2.2.3.18).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HistoryKind {
    /// The last `n` of each instance.
    KeepLast(u32),
    /// All, within the resource limits.
    KeepAll,
}

/// How much a cache may hold (DDS 1.4 §2.2.3.19). `u32::MAX` means "unlimited".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResourceLimits {
    /// Samples of all instances.
    pub max_samples: u32,
    /// Instances.
    pub max_instances: u32,
    /// Samples of one instance.
    pub max_samples_per_instance: u32,
}

impl ResourceLimits {
    /// No limits.
    pub const UNLIMITED: Self =
        Self { max_samples: u32::MAX, max_instances: u32::MAX, max_samples_per_instance: u32::MAX };
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self::UNLIMITED
    }
}
