//! The policies, as plain values with the defaults of the standard.

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use crate::time::Span;

macro_rules! opaque {
    ($($name:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        #[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub Vec<u8>);
    )*};
}
opaque! {
    UserData, "Octets of the application's own, announced with an entity (DDS 1.4 §2.2.3.1).";
    TopicData, "Octets of the application's own, announced with a topic (DDS 1.4 §2.2.3.2).";
    GroupData, "Octets of the application's own, announced with a publisher or subscriber (DDS 1.4 §2.2.3.3).";
}

/// How long samples are kept for readers that come late (DDS 1.4 §2.2.3.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Durability {
    /// Not at all.
    #[default]
    Volatile,
    /// As long as the writer lives.
    TransientLocal,
    /// As long as the service lives.
    Transient,
    /// On permanent storage.
    Persistent,
}

/// What a durability service keeps of a topic (DDS 1.4 §2.2.3.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DurabilityService {
    /// How long an instance without writers is kept.
    pub cleanup_delay: Span,
    /// How many samples of an instance.
    pub history: History,
    /// How many samples in all.
    pub limits: ResourceLimits,
}

/// How far changes are ordered or grouped when they are presented (DDS 1.4 §2.2.3.6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Presentation {
    /// Within what.
    pub scope: AccessScope,
    /// Sets of changes become visible together.
    pub coherent: bool,
    /// Changes become visible in order.
    pub ordered: bool,
}

/// Within what [`Presentation`] holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum AccessScope {
    /// One instance.
    #[default]
    Instance,
    /// One writer.
    Topic,
    /// All writers of a publisher.
    Group,
}

/// How often each instance must be written (DDS 1.4 §2.2.3.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Deadline {
    /// At least once in this time.
    pub period: Span,
}

/// How long delivery may be put off (DDS 1.4 §2.2.3.8). A hint: matched and announced. Writers that gather samples into
/// messages gather no longer than this, unless it is zero, which only asks for speed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LatencyBudget {
    /// So long.
    pub duration: Span,
}

/// Whether several writers may write one instance (DDS 1.4 §2.2.3.9).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Ownership {
    /// All may.
    #[default]
    Shared,
    /// The strongest one may.
    Exclusive,
}

/// The strength of a writer where [`Ownership::Exclusive`] holds (DDS 1.4 §2.2.3.10).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct OwnershipStrength(pub i32);

/// How a writer shows that it is alive (DDS 1.4 §2.2.3.11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Liveliness {
    /// By what.
    pub kind: LivelinessKind,
    /// At least once in this time.
    pub lease_duration: Span,
}

/// By what a writer shows that it is alive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum LivelinessKind {
    /// Its process runs.
    #[default]
    Automatic,
    /// The application asserts any entity of the participant.
    ManualByParticipant,
    /// The application asserts this writer.
    ManualByTopic,
}

/// How close in time samples of an instance may be for a reader (DDS 1.4 §2.2.3.12).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TimeBasedFilter {
    /// At most one sample in this time.
    pub minimum_separation: Span,
}

/// Names; a writer and a reader meet only when they share one (DDS 1.4 §2.2.3.13). None is the same as the empty name.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Partition(pub Vec<String>);

/// Whether lost samples are sent again (DDS 1.4 §2.2.3.14).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reliability {
    /// Whether they are.
    pub kind: ReliabilityKind,
    /// How long a write may wait for room.
    pub max_blocking_time: Span,
}

/// Whether lost samples are sent again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReliabilityKind {
    /// They are not.
    BestEffort,
    /// They are.
    Reliable,
}

/// How urgent samples are for the transport (DDS 1.4 §2.2.3.15). A hint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TransportPriority(pub i32);

/// How long a sample is of use (DDS 1.4 §2.2.3.16).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lifespan {
    /// From its source timestamp on.
    pub duration: Span,
}

/// Which of two samples of different writers is the later (DDS 1.4 §2.2.3.17).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum DestinationOrder {
    /// The one received later.
    #[default]
    ByReceptionTimestamp,
    /// The one written later.
    BySourceTimestamp,
}

/// How many samples of an instance are kept (DDS 1.4 §2.2.3.18).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum History {
    /// The last ones.
    KeepLast {
        /// So many, at least 1.
        depth: u32,
    },
    /// All, within the resource limits.
    KeepAll,
}

/// How much a writer or reader may keep (DDS 1.4 §2.2.3.19).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ResourceLimits {
    /// Samples in all.
    pub max_samples: Limit,
    /// Instances.
    pub max_instances: Limit,
    /// Samples of one instance.
    pub max_samples_per_instance: Limit,
}

/// A number that something may reach. Every number is less than none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Limit {
    /// This one.
    At(u32),
    /// None.
    #[default]
    Unlimited,
}

/// Whether entities are enabled when created (DDS 1.4 §2.2.3.20).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EntityFactory {
    /// They are.
    pub autoenable_created_entities: bool,
}

/// What unregistering means (DDS 1.4 §2.2.3.21).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WriterDataLifecycle {
    /// It disposes the instance too.
    pub autodispose_unregistered_instances: bool,
}

/// When a reader forgets instances (DDS 1.4 §2.2.3.22).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReaderDataLifecycle {
    /// So long after the last writer has gone.
    pub autopurge_nowriter_samples_delay: Span,
    /// So long after the instance was disposed.
    pub autopurge_disposed_samples_delay: Span,
}

/// How samples are serialized, the preferred way first (XTypes 1.3 §7.6.3.1). None is the same as XCDR1.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct DataRepresentation(pub Vec<RepresentationId>);

/// One way to serialize samples.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RepresentationId(pub i16);

/// Which types of writers a reader takes (XTypes 1.3 §7.6.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TypeConsistency {
    /// Whether types may differ.
    pub kind: TypeConsistencyKind,
    /// Bounds of sequences may differ.
    pub ignore_sequence_bounds: bool,
    /// Bounds of strings may differ.
    pub ignore_string_bounds: bool,
    /// Names of members may differ.
    pub ignore_member_names: bool,
    /// The reader's type may not have members that the writer's lacks.
    pub prevent_type_widening: bool,
    /// Types must be known; the same name is not enough.
    pub force_type_validation: bool,
}

/// Whether types may differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TypeConsistencyKind {
    /// They may not.
    DisallowTypeCoercion,
    /// They may, when the writer's is assignable to the reader's.
    AllowTypeCoercion,
}

/// Settings of plug-ins and of the application's own (DDS Security 1.1 §7.2.1).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Properties {
    /// Properties whose value is text.
    pub text: Vec<Property>,
    /// Properties whose value is bytes.
    pub binary: Vec<BinaryProperty>,
}

/// A name with a text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Property {
    /// The name.
    pub name: String,
    /// The text.
    pub value: String,
    /// Whether other participants are told.
    pub propagate: bool,
}

/// A name with bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BinaryProperty {
    /// The name.
    pub name: String,
    /// The bytes.
    pub value: Vec<u8>,
    /// Whether other participants are told.
    pub propagate: bool,
}

impl Reliability {
    /// How long a write may wait by default.
    pub const MAX_BLOCKING_TIME: Span = Span::from_millis(100);
    /// The default of topics and readers.
    pub const BEST_EFFORT: Self =
        Self { kind: ReliabilityKind::BestEffort, max_blocking_time: Self::MAX_BLOCKING_TIME };
    /// The default of writers.
    pub const RELIABLE: Self = Self { kind: ReliabilityKind::Reliable, max_blocking_time: Self::MAX_BLOCKING_TIME };
}

impl RepresentationId {
    /// XCDR version 1.
    pub const XCDR1: Self = Self(0);
    /// XML.
    pub const XML: Self = Self(1);
    /// XCDR version 2.
    pub const XCDR2: Self = Self(2);
}

impl DataRepresentation {
    /// The ways, at least one.
    #[must_use]
    pub fn effective(&self) -> &[RepresentationId] {
        if self.0.is_empty() { &[RepresentationId::XCDR1] } else { &self.0 }
    }
}

impl TypeConsistency {
    /// What a remote reader means that says nothing (XTypes 1.3 §7.6.3.4.1).
    pub const WHEN_ABSENT: Self = Self {
        kind: TypeConsistencyKind::DisallowTypeCoercion,
        ignore_sequence_bounds: false,
        ignore_string_bounds: false,
        ignore_member_names: false,
        prevent_type_widening: false,
        force_type_validation: false,
    };
}

impl Default for Deadline {
    fn default() -> Self {
        Self { period: Span::INFINITE }
    }
}

impl Default for Liveliness {
    fn default() -> Self {
        Self { kind: LivelinessKind::Automatic, lease_duration: Span::INFINITE }
    }
}

impl Default for Lifespan {
    fn default() -> Self {
        Self { duration: Span::INFINITE }
    }
}

impl Default for History {
    fn default() -> Self {
        Self::KeepLast { depth: 1 }
    }
}

impl Default for EntityFactory {
    fn default() -> Self {
        Self { autoenable_created_entities: true }
    }
}

impl Default for WriterDataLifecycle {
    fn default() -> Self {
        Self { autodispose_unregistered_instances: true }
    }
}

impl Default for ReaderDataLifecycle {
    fn default() -> Self {
        Self { autopurge_nowriter_samples_delay: Span::INFINITE, autopurge_disposed_samples_delay: Span::INFINITE }
    }
}

impl Default for TypeConsistency {
    fn default() -> Self {
        Self {
            kind: TypeConsistencyKind::AllowTypeCoercion,
            ignore_sequence_bounds: true,
            ignore_string_bounds: true,
            ignore_member_names: false,
            prevent_type_widening: false,
            force_type_validation: false,
        }
    }
}

macro_rules! names {
    ($($type:ident { $($variant:ident = $name:literal),* })*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $name,)*
                })
            }
        }
    )*};
}
names! {
    Durability {
        Volatile = "VOLATILE", TransientLocal = "TRANSIENT_LOCAL", Transient = "TRANSIENT", Persistent = "PERSISTENT"
    }
    AccessScope { Instance = "INSTANCE", Topic = "TOPIC", Group = "GROUP" }
    Ownership { Shared = "SHARED", Exclusive = "EXCLUSIVE" }
    LivelinessKind {
        Automatic = "AUTOMATIC", ManualByParticipant = "MANUAL_BY_PARTICIPANT", ManualByTopic = "MANUAL_BY_TOPIC"
    }
    ReliabilityKind { BestEffort = "BEST_EFFORT", Reliable = "RELIABLE" }
    DestinationOrder {
        ByReceptionTimestamp = "BY_RECEPTION_TIMESTAMP", BySourceTimestamp = "BY_SOURCE_TIMESTAMP"
    }
    TypeConsistencyKind {
        DisallowTypeCoercion = "DISALLOW_TYPE_COERCION", AllowTypeCoercion = "ALLOW_TYPE_COERCION"
    }
}

impl fmt::Display for Presentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.scope, f)?;
        f.write_str(if self.coherent { " coherent" } else { "" })?;
        f.write_str(if self.ordered { " ordered" } else { "" })
    }
}

impl fmt::Display for Liveliness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lease {}", self.kind, self.lease_duration)
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl fmt::Display for RepresentationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::XCDR1 => f.write_str("XCDR1"),
            Self::XML => f.write_str("XML"),
            Self::XCDR2 => f.write_str("XCDR2"),
            Self(other) => write!(f, "representation {other}"),
        }
    }
}

impl fmt::Display for DataRepresentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, id) in self.effective().iter().enumerate() {
            write!(f, "{}{id}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(limit) => fmt::Display::fmt(limit, f),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}
