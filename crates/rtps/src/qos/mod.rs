//! Quality of service: the policies, their defaults, their consistency within an entity, and the compatibility of
//! writers and readers (DDS 1.4 §2.2.3, XTypes 1.3 §7.6.3).

mod compatibility;
mod consistency;
mod entity;
mod ignore_local;
mod partition;
mod policy;
mod policy_id;
mod wire;

pub use compatibility::{NonMatch, check_compatibility};
pub use consistency::Inconsistency;
pub use entity::{DataReaderQos, DataWriterQos, ParticipantQos, PublisherQos, SubscriberQos, TopicQos};
pub use ignore_local::IgnoreLocal;
pub use policy::{
    AccessScope, BinaryProperty, DataRepresentation, Deadline, DestinationOrder, Durability, DurabilityService,
    EntityFactory, GroupData, History, LatencyBudget, Lifespan, Limit, Liveliness, LivelinessKind, Ownership,
    OwnershipStrength, Partition, Presentation, Properties, Property, ReaderDataLifecycle, Reliability,
    ReliabilityKind, RepresentationId, ResourceLimits, TimeBasedFilter, TopicData, TransportPriority, TypeConsistency,
    TypeConsistencyKind, UserData, WriterDataLifecycle,
};
pub use policy_id::PolicyId;
pub(crate) use wire::WirePolicy;
