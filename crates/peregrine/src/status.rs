//! Communication statuses: what entities report about their communication (DDS 1.4 §2.2.4.1).

// The loom models include this file in another folder.
#[path = "status/cache.rs"]
mod cache;
#[path = "status/delivery.rs"]
mod delivery;
#[path = "status/reader.rs"]
mod reader;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{BitAnd, BitOr, BitOrAssign};

pub use peregrine_rtps::history::RejectReason;
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::qos::PolicyId;
pub use peregrine_rtps::reader::SampleLostReason;

use crate::{Guid, InstanceHandle};
pub use cache::{CacheEventCount, ReliableWriterCacheChangedStatus, Watermarks};
pub use delivery::{
    DeliveryStalledStatus, HeldBack, ReaderProgress, ReliableReaderActivityChangedStatus, Stall, StallCause,
    WriterStatus,
};
pub(crate) use delivery::{explain, explain_hold};
pub use reader::{MissingSample, ReaderStatus};

/// A set of statuses.
#[derive(Clone, Copy, Default)]
pub struct StatusMask {
    bits: u32,
    /// The statuses of which no listener has been notified yet.
    unreported: u32,
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl StatusMask {
            $($(#[$doc])* pub const $name: Self = Self { bits: 1 << $bit, unreported: 1 << $bit };)*
            /// The empty set.
            pub const NONE: Self = Self { bits: 0, unreported: 0 };
            /// All statuses.
            pub const ALL: Self = Self { bits: $(1 << $bit |)* 0, unreported: $(1 << $bit |)* 0 };
        }

        impl fmt::Debug for StatusMask {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut set = f.debug_set();
                $(if self.contains(Self::$name) {
                    set.entry(&format_args!(stringify!($name)));
                })*
                set.finish()
            }
        }
    };
}
statuses! {
    /// An endpoint with the same topic name and another type was discovered.
    INCONSISTENT_TOPIC = 0;
    /// A writer has not written an instance within its DEADLINE period.
    OFFERED_DEADLINE_MISSED = 1;
    /// A reader has not received a sample of an instance within its DEADLINE period.
    REQUESTED_DEADLINE_MISSED = 2;
    /// A reader does not match because it requests more than the writer offers.
    OFFERED_INCOMPATIBLE_QOS = 5;
    /// A writer does not match because it offers less than the reader requests.
    REQUESTED_INCOMPATIBLE_QOS = 6;
    /// Samples of a matched writer will never reach the reader.
    SAMPLE_LOST = 7;
    /// The reader has rejected a sample because a resource limit is reached.
    SAMPLE_REJECTED = 8;
    /// A reader of the subscriber has unread samples.
    DATA_ON_READERS = 9;
    /// The reader has unread samples.
    DATA_AVAILABLE = 10;
    /// A writer has not asserted its liveliness within its lease.
    LIVELINESS_LOST = 11;
    /// A matched writer has become alive or not alive.
    LIVELINESS_CHANGED = 12;
    /// A reader has been matched or unmatched.
    PUBLICATION_MATCHED = 13;
    /// A writer has been matched or unmatched.
    SUBSCRIPTION_MATCHED = 14;
    /// The cache of a writer was empty, full, or at a watermark. Not part of DDS 1.4.
    RELIABLE_WRITER_CACHE_CHANGED = 24;
    /// A matched reliable reader has stopped answering or making progress, or is back. Not part of DDS 1.4.
    RELIABLE_READER_ACTIVITY_CHANGED = 25;
    /// A reader stalls delivery, or no longer does. Not part of DDS 1.4.
    DELIVERY_STALLED = 26;
}

impl StatusMask {
    /// Internal flag, not a status of the standard: the writer has received acknowledgements, which may have freed
    /// room.
    pub(crate) const ACKNOWLEDGED: Self = Self { bits: 1 << 31, unreported: 0 };

    /// The same: shared memory may have come back.
    pub(crate) const MEMORY: Self = Self { bits: 1 << 27, unreported: 0 };

    /// The same for readers: what writers had kept from before may be complete.
    pub(crate) const HISTORY: Self = Self { bits: 1 << 30, unreported: 0 };

    /// Internal flag of readers: samples wait for the application's key function.
    pub(crate) const UNKEYED: Self = Self { bits: 1 << 29, unreported: 0 };

    /// Internal flag of readers: the application has called
    /// [`Subscriber::notify_readers`](crate::Subscriber::notify_readers).
    pub(crate) const NOTIFIED: Self = Self { bits: 1 << 28, unreported: 0 };

    /// Whether all of `other` are in the set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.bits & other.bits == other.bits
    }

    /// Whether any of `other` is in the set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.bits & other.bits != 0
    }

    pub(crate) const fn bits(self) -> u32 {
        self.bits
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self { bits, unreported: 0 }
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Removes statuses.
    pub const fn remove(&mut self, other: Self) {
        self.bits &= !other.bits;
        self.unreported &= !other.bits;
    }

    /// Adds statuses without notifying a listener or thread.
    pub(crate) const fn insert_silently(&mut self, other: Self) {
        self.bits |= other.bits;
    }

    /// Marks the statuses of the set that are in `kinds` as unreported, so that a listener is notified of them.
    pub(crate) const fn mark_unreported(&mut self, kinds: Self) {
        self.unreported |= self.bits & kinds.bits;
    }

    /// The statuses of the set that are not in `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self { bits: self.bits & !other.bits, unreported: self.unreported & !other.bits }
    }

    /// Whether the set contains statuses of which no listener has been notified.
    pub(crate) const fn has_unreported(self) -> bool {
        self.unreported != 0
    }

    /// Returns the unreported statuses and marks them as reported.
    pub(crate) const fn take_unreported(&mut self) -> Self {
        let unreported = self.unreported;
        self.unreported = 0;
        Self { bits: unreported, unreported }
    }
}

/// Equality ignores which statuses are reported.
impl PartialEq for StatusMask {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl Eq for StatusMask {}

impl Hash for StatusMask {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}

impl BitOr for StatusMask {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits, unreported: self.unreported | other.unreported }
    }
}

impl BitAnd for StatusMask {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self { bits: self.bits & other.bits, unreported: self.unreported & other.unreported }
    }
}

impl BitOrAssign for StatusMask {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// PUBLICATION_MATCHED and SUBSCRIPTION_MATCHED: the number of matched endpoints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MatchedStatus {
    /// Number of matches since the endpoint was created.
    pub total_count: u32,
    /// Change of `total_count` since this status was last read.
    pub total_count_change: u32,
    /// Number of endpoints that match now.
    pub current_count: u32,
    /// Change of `current_count` since this status was last read.
    pub current_count_change: i32,
    /// The endpoint that was last matched or unmatched.
    pub last: Option<Guid>,
}

impl MatchedStatus {
    pub(crate) const fn gained(&mut self, guid: Guid) {
        self.total_count = self.total_count.saturating_add(1);
        self.total_count_change = self.total_count_change.saturating_add(1);
        self.current_count = self.current_count.saturating_add(1);
        self.current_count_change = self.current_count_change.saturating_add(1);
        self.last = Some(guid);
    }

    pub(crate) const fn lost(&mut self, guid: Guid) {
        self.current_count = self.current_count.saturating_sub(1);
        self.current_count_change = self.current_count_change.saturating_sub(1);
        self.last = Some(guid);
    }

    pub(crate) const fn read(&mut self) -> Self {
        let copy = *self;
        self.total_count_change = 0;
        self.current_count_change = 0;
        copy
    }
}

/// OFFERED_INCOMPATIBLE_QOS and REQUESTED_INCOMPATIBLE_QOS: endpoints that do not match because of their policies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IncompatibleQosStatus {
    /// Number of such endpoints since this endpoint was created.
    pub total_count: u32,
    /// Change of `total_count` since this status was last read.
    pub total_count_change: u32,
    /// The incompatible policy of the last such endpoint.
    pub last_policy: Option<PolicyId>,
    /// For each incompatible policy, the number of such endpoints.
    pub policies: Vec<(PolicyId, u32)>,
}

impl IncompatibleQosStatus {
    pub(crate) fn count(&mut self, policy: PolicyId) {
        self.total_count = self.total_count.saturating_add(1);
        self.total_count_change = self.total_count_change.saturating_add(1);
        self.last_policy = Some(policy);
        match self.policies.iter_mut().find(|(p, _)| *p == policy) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => self.policies.push((policy, 1)),
        }
    }

    pub(crate) fn read(&mut self) -> Self {
        let copy = self.clone();
        self.total_count_change = 0;
        copy
    }
}

macro_rules! counted {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            /// Number of occurrences since the entity was created.
            pub total_count: u64,
            /// Change of `total_count` since this status was last read.
            pub total_count_change: u64,
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $name {
            fn add(&mut self, n: u64) {
                self.total_count = self.total_count.saturating_add(n);
                self.total_count_change = self.total_count_change.saturating_add(n);
            }

            pub(crate) fn read(&mut self) -> Self {
                let copy = *self;
                self.total_count_change = 0;
                copy
            }
        }
    )*};
}
counted! {
    /// OFFERED_DEADLINE_MISSED: DEADLINE periods in which an instance was not written.
    OfferedDeadlineMissedStatus {
        /// The last instance.
        last_instance: Option<InstanceHandle>
    }
    /// REQUESTED_DEADLINE_MISSED: DEADLINE periods in which no sample of an instance was received.
    RequestedDeadlineMissedStatus {
        /// The last instance.
        last_instance: Option<InstanceHandle>
    }
    /// LIVELINESS_LOST: leases in which the writer's liveliness was not asserted.
    LivelinessLostStatus {}
    /// INCONSISTENT_TOPIC: discovered endpoints with the same topic name and another type.
    InconsistentTopicStatus {}
    /// SAMPLE_LOST: samples that will never reach the reader.
    SampleLostStatus {
        /// Why the last samples were lost.
        last_reason: Option<SampleLostReason>
    }
    /// SAMPLE_REJECTED: samples that the reader rejected because of a resource limit.
    SampleRejectedStatus {
        /// The limit that caused the last rejection.
        last_reason: Option<RejectReason>,
        /// The instance of the last rejected sample.
        last_instance: Option<InstanceHandle>
    }
}

impl OfferedDeadlineMissedStatus {
    pub(crate) fn count(&mut self, instance: KeyHash) {
        self.add(1);
        self.last_instance = Some(instance);
    }
}

impl RequestedDeadlineMissedStatus {
    pub(crate) fn count(&mut self, instance: KeyHash) {
        self.add(1);
        self.last_instance = Some(instance);
    }
}

impl LivelinessLostStatus {
    pub(crate) fn count(&mut self) {
        self.add(1);
    }
}

impl InconsistentTopicStatus {
    pub(crate) fn count(&mut self) {
        self.add(1);
    }
}

impl SampleLostStatus {
    pub(crate) fn count(&mut self, samples: u64, reason: SampleLostReason) {
        self.add(samples);
        self.last_reason = Some(reason);
    }
}

impl SampleRejectedStatus {
    pub(crate) fn count(&mut self, reason: RejectReason, instance: KeyHash) {
        self.add(1);
        self.last_reason = Some(reason);
        self.last_instance = Some(instance);
    }
}

/// LIVELINESS_CHANGED: the number of matched writers that are alive and not alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LivelinessChangedStatus {
    /// Matched writers that are alive.
    pub alive_count: u32,
    /// Matched writers that have not asserted their liveliness within their lease.
    pub not_alive_count: u32,
    /// The change of `alive_count` since this status was last read.
    pub alive_count_change: i32,
    /// The change of `not_alive_count` since this status was last read.
    pub not_alive_count_change: i32,
    /// The writer that last became alive or not alive, or was unmatched.
    pub last: Option<Guid>,
}

impl LivelinessChangedStatus {
    pub(crate) fn gained(&mut self, writer: Guid) {
        if self.last == Some(writer) && self.not_alive_count > 0 {
            self.not_alive_count -= 1;
            self.not_alive_count_change = self.not_alive_count_change.saturating_sub(1);
        }
        self.alive_count = self.alive_count.saturating_add(1);
        self.alive_count_change = self.alive_count_change.saturating_add(1);
        self.last = Some(writer);
    }

    /// `stays`: the writer is still matched, but not alive.
    pub(crate) const fn lost(&mut self, writer: Guid, stays: bool) {
        self.alive_count = self.alive_count.saturating_sub(1);
        self.alive_count_change = self.alive_count_change.saturating_sub(1);
        if stays {
            self.not_alive_count = self.not_alive_count.saturating_add(1);
            self.not_alive_count_change = self.not_alive_count_change.saturating_add(1);
        }
        self.last = Some(writer);
    }

    pub(crate) const fn read(&mut self) -> Self {
        let copy = *self;
        self.alive_count_change = 0;
        self.not_alive_count_change = 0;
        copy
    }
}
