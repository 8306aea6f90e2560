//! Communication statuses: what entities report about their communication (DDS 1.4 §2.2.4.1).

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{BitAnd, BitOr, BitOrAssign};

pub use peregrine_rtps::history::RejectReason;
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::qos::PolicyId;
pub use peregrine_rtps::reader::SampleLostReason;

use crate::{Guid, InstanceHandle};

/// A set of statuses.
#[derive(Clone, Copy, Default)]
pub struct StatusMask {
    bits: u32,
    /// The statuses that no listener has been notified of yet.
    unreported: u32,
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl StatusMask {
            $($(#[$doc])* pub const $name: Self = Self { bits: 1 << $bit, unreported: 1 << $bit };)*
            /// None.
            pub const NONE: Self = Self { bits: 0, unreported: 0 };
            /// All.
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
    /// Another topic of the same name contradicts.
    INCONSISTENT_TOPIC = 0;
    /// A writer did not write in time.
    OFFERED_DEADLINE_MISSED = 1;
    /// A reader did not hear in time.
    REQUESTED_DEADLINE_MISSED = 2;
    /// A reader wants more than the writer offers.
    OFFERED_INCOMPATIBLE_QOS = 5;
    /// A writer offers less than the reader wants.
    REQUESTED_INCOMPATIBLE_QOS = 6;
    /// Samples will never come.
    SAMPLE_LOST = 7;
    /// A sample found no room.
    SAMPLE_REJECTED = 8;
    /// A subscriber has news.
    DATA_ON_READERS = 9;
    /// A reader has news.
    DATA_AVAILABLE = 10;
    /// A writer did not show in time that it is alive.
    LIVELINESS_LOST = 11;
    /// Writers have come to life or ceased to live.
    LIVELINESS_CHANGED = 12;
    /// Readers match or match no longer.
    PUBLICATION_MATCHED = 13;
    /// Writers match or match no longer.
    SUBSCRIPTION_MATCHED = 14;
}

impl StatusMask {
    /// No status, but news of the same kind: acknowledgements have come, and with them perhaps room.
    pub(crate) const ACKNOWLEDGED: Self = Self { bits: 1 << 31, unreported: 0 };

    /// The same: shared memory may have come back.
    pub(crate) const MEMORY: Self = Self { bits: 1 << 27, unreported: 0 };

    /// The same for readers: what writers had kept from before may be complete.
    pub(crate) const HISTORY: Self = Self { bits: 1 << 30, unreported: 0 };

    /// The same for readers: samples wait until the application has found their instances.
    pub(crate) const UNKEYED: Self = Self { bits: 1 << 29, unreported: 0 };

    /// The same for readers: the application has called
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

    /// Takes statuses out.
    pub const fn remove(&mut self, other: Self) {
        self.bits &= !other.bits;
        self.unreported &= !other.bits;
    }

    /// Adds statuses without notifying a listener or thread.
    pub(crate) const fn insert_silently(&mut self, other: Self) {
        self.bits |= other.bits;
    }

    /// Of the statuses in the set, those of `kinds` count as put in anew: a listener is to be told of them.
    pub(crate) const fn mark_unreported(&mut self, kinds: Self) {
        self.unreported |= self.bits & kinds.bits;
    }

    /// The statuses of the set that are not in `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self { bits: self.bits & !other.bits, unreported: self.unreported & !other.bits }
    }

    /// Whether there are statuses that a listener has not been told of.
    pub(crate) const fn has_unreported(self) -> bool {
        self.unreported != 0
    }

    /// The statuses put in since the last call.
    pub(crate) const fn take_unreported(&mut self) -> Self {
        let unreported = self.unreported;
        self.unreported = 0;
        Self { bits: unreported, unreported }
    }
}

/// What a listener was told does not tell sets apart.
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

/// PUBLICATION_MATCHED and SUBSCRIPTION_MATCHED: how many endpoints match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MatchedStatus {
    /// Ever.
    pub total_count: u32,
    /// Ever, since this status was last read.
    pub total_count_change: u32,
    /// Now.
    pub current_count: u32,
    /// Now, compared with when this status was last read.
    pub current_count_change: i32,
    /// The last one that came or went.
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

/// OFFERED_INCOMPATIBLE_QOS and REQUESTED_INCOMPATIBLE_QOS: endpoints that would match but for their policies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IncompatibleQosStatus {
    /// How many.
    pub total_count: u32,
    /// How many since this status was last read.
    pub total_count_change: u32,
    /// The policy at fault with the last one.
    pub last_policy: Option<PolicyId>,
    /// How often each policy was at fault.
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
            /// How often.
            pub total_count: u64,
            /// How often since this status was last read.
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
    /// OFFERED_DEADLINE_MISSED: instances that were not written in time.
    OfferedDeadlineMissedStatus {
        /// The last instance.
        last_instance: Option<InstanceHandle>
    }
    /// REQUESTED_DEADLINE_MISSED: instances that were not heard of in time.
    RequestedDeadlineMissedStatus {
        /// The last instance.
        last_instance: Option<InstanceHandle>
    }
    /// LIVELINESS_LOST: the writer did not show in time that it is alive.
    LivelinessLostStatus {}
    /// INCONSISTENT_TOPIC: endpoints of a topic of the same name with another type.
    InconsistentTopicStatus {}
    /// SAMPLE_LOST: samples that will never come.
    SampleLostStatus {
        /// Why the last ones did not.
        last_reason: Option<SampleLostReason>
    }
    /// SAMPLE_REJECTED: samples that found no room.
    SampleRejectedStatus {
        /// Which limit the last one met.
        last_reason: Option<RejectReason>,
        /// The instance of the last one.
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

/// LIVELINESS_CHANGED: how many of the matched writers are alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LivelinessChangedStatus {
    /// Matched writers that are alive.
    pub alive_count: u32,
    /// Matched writers that did not show in time that they are.
    pub not_alive_count: u32,
    /// The change of `alive_count` since this status was last read.
    pub alive_count_change: i32,
    /// The change of `not_alive_count` since this status was last read.
    pub not_alive_count_change: i32,
    /// The last writer that came to life, ceased to live or left.
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

    /// `stays`: the writer is matched still, only not alive.
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
