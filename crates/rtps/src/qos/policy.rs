//! The QoS policies as plain values. `Default` gives the default of the standard. Policies that a writer *offers* and a
//! reader *requests* must be compatible for the two to match; the documentation of each such policy states the rule.

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use crate::time::Span;

macro_rules! opaque {
    ($($(#[doc = $doc:literal])* $name:ident;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
        pub struct $name(pub Vec<u8>);
    )*};
}
opaque! {
    /// Bytes that the application attaches to a participant, a writer or a reader and that discovery announces
    /// (DDS 1.4 §2.2.3.1). Default: none. At most [`OPAQUE_BYTES_MAX`](crate::limits::OPAQUE_BYTES_MAX) bytes for an
    /// endpoint; for a participant, [`PARTICIPANT_QOS_BYTES_MAX`](crate::limits::PARTICIPANT_QOS_BYTES_MAX) together
    /// with its properties.
    UserData;
    /// Bytes that the application attaches to a topic and that discovery announces with the topic's endpoints
    /// (DDS 1.4 §2.2.3.2). Default: none. At most [`OPAQUE_BYTES_MAX`](crate::limits::OPAQUE_BYTES_MAX) bytes.
    TopicData;
    /// Bytes that the application attaches to a publisher or subscriber and that discovery announces with its endpoints
    /// (DDS 1.4 §2.2.3.3). Default: none. At most [`OPAQUE_BYTES_MAX`](crate::limits::OPAQUE_BYTES_MAX) bytes.
    GroupData;
}

/// How long a writer keeps samples for readers that join late (DDS 1.4 §2.2.3.4). The kinds are in ascending order; a
/// writer must offer at least the kind that the reader requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Durability {
    /// A reader gets the samples that are written after the match.
    #[default]
    Volatile,
    /// The writer keeps samples, within HISTORY and RESOURCE_LIMITS, as long as the writer lives, and sends them to a
    /// reader that joins late.
    TransientLocal,
    /// A service keeps samples beyond the life of the writer, in memory. Peregrine has no such service: own entities
    /// are refused this kind.
    Transient,
    /// A service keeps samples on permanent storage. Refused for own entities as well.
    Persistent,
}

/// The limits of the service that keeps TRANSIENT and PERSISTENT samples of a topic (DDS 1.4 §2.2.3.5). Announced only;
/// own entities are refused any value but the default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct DurabilityService {
    /// How long the service keeps an instance after its last writer has gone. Default: zero.
    pub cleanup_delay: Span,
    /// HISTORY of the service. Default: KEEP_LAST with depth 1.
    pub history: History,
    /// RESOURCE_LIMITS of the service. Default: unlimited.
    pub limits: ResourceLimits,
}

/// In which units, and in which order, changes become visible to readers (DDS 1.4 §2.2.3.6). A writer must offer at
/// least the scope, and the flags, that the reader requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Presentation {
    /// The unit to which the two flags apply. Default: INSTANCE. GROUP is refused for own entities.
    pub scope: AccessScope,
    /// Sets of changes become visible together (`coherent_access`). Default: false. True is refused for own entities.
    pub coherent: bool,
    /// Changes become visible in the order in which they were written (`ordered_access`). Default: false. Peregrine
    /// keeps the order of each writer in any case.
    pub ordered: bool,
}

/// The unit to which the flags of [`Presentation`] apply. The kinds are in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum AccessScope {
    /// Each instance of a writer by itself.
    #[default]
    Instance,
    /// All instances of a writer.
    Topic,
    /// All writers of a publisher.
    Group,
}

/// The longest time between two samples of an instance (DDS 1.4 §2.2.3.7). A missed deadline changes the status
/// OFFERED_DEADLINE_MISSED of the writer and REQUESTED_DEADLINE_MISSED of the reader. The period that the writer offers
/// must not be longer than the one that the reader requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Deadline {
    /// Default: infinite. For a reader, not shorter than `minimum_separation` of its TIME_BASED_FILTER.
    pub period: Span,
}

/// How long delivery may be delayed (DDS 1.4 §2.2.3.8). A writer that gathers samples into messages sends a message no
/// later than this after its first sample; zero leaves that to the batching of the writer. The duration that the writer
/// offers must not be longer than the one that the reader requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct LatencyBudget {
    /// Default: zero.
    pub duration: Span,
}

/// Whether several writers may write to an instance (DDS 1.4 §2.2.3.9). Writer and reader must have the same kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Ownership {
    /// A reader gets the samples of all writers.
    #[default]
    Shared,
    /// A reader gets the samples of the live writer with the greatest [`OwnershipStrength`]; of equally strong ones, of
    /// the writer with the smallest GUID.
    Exclusive,
}

/// The strength of a writer under [`Ownership::Exclusive`] (DDS 1.4 §2.2.3.10). Default: 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct OwnershipStrength(pub i32);

/// How a writer shows that it is alive (DDS 1.4 §2.2.3.11). The writer must offer at least the kind, and at most the
/// lease duration, that the reader requests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Liveliness {
    /// Default: AUTOMATIC.
    pub kind: LivelinessKind,
    /// The longest time between two signs of life. Readers regard a writer that is silent for longer as not alive.
    /// Default: infinite.
    pub lease_duration: Span,
}

/// The signs of life of a writer. The kinds are in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum LivelinessKind {
    /// The participant asserts the liveliness as long as its process runs.
    #[default]
    Automatic,
    /// The application writes by, or asserts, any writer of the participant that has this kind.
    ManualByParticipant,
    /// The application writes by, or asserts, this writer.
    ManualByTopic,
}

/// The shortest time between two samples of an instance that a reader accepts (DDS 1.4 §2.2.3.12). The reader drops
/// samples in between, and gets the last of them when the time is over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TimeBasedFilter {
    /// Default: zero, which accepts all. Not longer than the period of DEADLINE.
    pub minimum_separation: Span,
}

/// The logical partitions of a publisher or subscriber (DDS 1.4 §2.2.3.13). A writer and a reader match only if they
/// have a name in common; a name may be a pattern, as of `fnmatch`. Default: no name, which means the empty name. At
/// most [`PARTITIONS_MAX`](crate::limits::PARTITIONS_MAX) names of
/// [`PARTITION_BYTES_MAX`](crate::limits::PARTITION_BYTES_MAX) bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Partition(pub Vec<String>);

/// Whether lost samples are repeated (DDS 1.4 §2.2.3.14). A reliable reader matches only reliable writers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reliability {
    /// Default: RELIABLE for writers, BEST_EFFORT for topics and readers.
    pub kind: ReliabilityKind,
    /// How long a write may block until there is room for the sample. Default: 100 ms.
    pub max_blocking_time: Span,
}

/// Whether lost samples are repeated. The kinds are in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ReliabilityKind {
    /// A lost sample is not repeated.
    BestEffort,
    /// The writer repeats a sample until its readers acknowledge it.
    Reliable,
}

/// The urgency of samples, for the transport (DDS 1.4 §2.2.3.15). Default: 0, the only value that own entities take:
/// the transport has one priority for a domain, its DSCP.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TransportPriority(pub i32);

/// How long a sample is valid (DDS 1.4 §2.2.3.16). Writers and readers drop older samples.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Lifespan {
    /// Counted from the source timestamp of the sample, or from its arrival if the wall clocks of writer and reader
    /// differ by more. Default: infinite.
    pub duration: Span,
}

/// Which of two samples of different writers a reader regards as the later one (DDS 1.4 §2.2.3.17). The kinds are in
/// ascending order; a writer must offer at least the kind that the reader requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum DestinationOrder {
    /// The sample that the reader received later.
    #[default]
    ByReceptionTimestamp,
    /// The sample with the later source timestamp.
    BySourceTimestamp,
}

/// How many samples of an instance a writer or reader keeps (DDS 1.4 §2.2.3.18). Default: KEEP_LAST with depth 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum History {
    /// The last samples; a new sample replaces the oldest.
    KeepLast {
        /// The number of samples of an instance: at least 1, at most `max_samples_per_instance` of RESOURCE_LIMITS.
        depth: u32,
    },
    /// All samples, within RESOURCE_LIMITS: a writer keeps a sample until its readers acknowledge it, a reader until
    /// the application takes it. A write blocks while a limit is reached.
    KeepAll,
}

/// How many samples and instances a writer or reader may keep (DDS 1.4 §2.2.3.19). Each limit is at least 1. Default:
/// unlimited.
///
/// A writer whose policies permit any number of samples still keeps a bounded number of samples and bytes until readers
/// acknowledge them: `max_unacknowledged_samples` (262,144) and `max_unacknowledged_bytes` (64 MiB) of `DomainConfig`.
/// A further write waits up to `max_blocking_time`, as with a limit stated here.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ResourceLimits {
    /// Samples of all instances together.
    pub max_samples: Limit,
    /// Instances.
    pub max_instances: Limit,
    /// Samples of one instance; not more than `max_samples`.
    pub max_samples_per_instance: Limit,
}

/// The upper limit of a count. [`Unlimited`](Self::Unlimited) is the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Limit {
    /// The count may reach this number.
    At(u32),
    /// The count has no limit.
    #[default]
    Unlimited,
}

/// Whether an entity enables the entities that it creates (DDS 1.4 §2.2.3.20).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EntityFactory {
    /// Default: true. Otherwise the application enables them.
    pub autoenable_created_entities: bool,
}

/// Whether a writer disposes the instances that it unregisters (DDS 1.4 §2.2.3.21).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WriterDataLifecycle {
    /// The writer also disposes an instance that it unregisters; the deletion of the writer unregisters all. Default:
    /// true.
    pub autodispose_unregistered_instances: bool,
}

/// When a reader drops the samples of instances that are no longer alive (DDS 1.4 §2.2.3.22).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReaderDataLifecycle {
    /// The delay after an instance has lost its last writer. Default: infinite.
    pub autopurge_nowriter_samples_delay: Span,
    /// The delay after an instance was disposed. Default: infinite.
    pub autopurge_disposed_samples_delay: Span,
}

/// In which representations an endpoint serializes or deserializes samples (XTypes 1.3 §7.6.3.1). A writer uses the
/// first one; the reader must list it. Default: empty, which means XCDR1. Own endpoints take XCDR1 and XCDR2.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct DataRepresentation(pub Vec<RepresentationId>);

/// The number of a representation of samples.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RepresentationId(pub i16);

/// How far the type of a writer may differ from the type of a reader (XTypes 1.3 §7.6.3.4). Announced only: Peregrine
/// matches by the name of the type, and own readers are refused any value but the default.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TypeConsistency {
    /// Default: ALLOW_TYPE_COERCION.
    pub kind: TypeConsistencyKind,
    /// Bounds of sequences may differ. Default: true.
    pub ignore_sequence_bounds: bool,
    /// Bounds of strings may differ. Default: true.
    pub ignore_string_bounds: bool,
    /// Names of members may differ. Default: false.
    pub ignore_member_names: bool,
    /// The type of the reader must not have members that the type of the writer lacks. Default: false.
    pub prevent_type_widening: bool,
    /// Both types must be known; equal names are not sufficient. Default: false.
    pub force_type_validation: bool,
}

/// Whether the types of a writer and a reader may differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TypeConsistencyKind {
    /// The types must be equal.
    DisallowTypeCoercion,
    /// The type of the writer must be assignable to the type of the reader.
    AllowTypeCoercion,
}

/// Settings of plug-ins and of the application (DDS Security 1.1 §7.2.1). Default: none.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Properties {
    /// Properties whose value is text.
    pub text: Vec<Property>,
    /// Properties whose value is bytes.
    pub binary: Vec<BinaryProperty>,
}

/// A property whose value is text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Property {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
    /// Discovery announces the property to other participants.
    pub propagate: bool,
}

/// A property whose value is bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct BinaryProperty {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Vec<u8>,
    /// Discovery announces the property to other participants.
    pub propagate: bool,
}

impl Reliability {
    /// The default of [`max_blocking_time`](Self::max_blocking_time).
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
    /// The representations, with the default in place of an empty list.
    #[must_use]
    pub fn effective(&self) -> &[RepresentationId] {
        if self.0.is_empty() { &[RepresentationId::XCDR1] } else { &self.0 }
    }
}

impl TypeConsistency {
    /// The policy of a remote reader that announces none (XTypes 1.3 §7.6.3.4.1).
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
