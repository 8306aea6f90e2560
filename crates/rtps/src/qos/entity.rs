//! The policies of each kind of entity (DDS 1.4 §2.2.3).

use super::policy::{
    DataRepresentation, Deadline, DestinationOrder, Durability, DurabilityService, EntityFactory, GroupData, History,
    LatencyBudget, Lifespan, Liveliness, Ownership, OwnershipStrength, Partition, Presentation, Properties,
    ReaderDataLifecycle, Reliability, ResourceLimits, TimeBasedFilter, TopicData, TransportPriority, TypeConsistency,
    UserData, WriterDataLifecycle,
};
use super::policy_id::PolicyId;

/// The policies of a domain participant.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ParticipantQos {
    /// See [`UserData`].
    pub user_data: UserData,
    /// See [`EntityFactory`].
    pub entity_factory: EntityFactory,
    /// See [`Properties`].
    pub properties: Properties,
}

/// A table of policies. A policy has its own default unless the table states one. A policy marked `fixed` may not
/// change once the entity is enabled.
macro_rules! entity_qos {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $($policy:ident)+ $(= $default:expr)?,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub struct $name {
            $(#[doc = entity_qos!(@link $($policy)+)] pub $field: entity_qos!(@type $($policy)+),)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: entity_qos!(@default $($default)?),)* }
            }
        }

        impl $name {
            /// The first policy that differs in `new` and must not change once the entity is enabled (DDS 1.4 §2.2.3,
            /// table "changeable").
            #[must_use]
            pub fn immutable_change(&self, new: &Self) -> Option<PolicyId> {
                $(entity_qos!(@check $($policy)+, self.$field != new.$field);)*
                None
            }
        }
    };
    (@type fixed $policy:ident) => { $policy };
    (@type $policy:ident) => { $policy };
    (@link fixed $policy:ident) => { entity_qos!(@link $policy) };
    (@link $policy:ident) => { concat!("See [`", stringify!($policy), "`].") };
    (@default $default:expr) => { $default };
    (@default) => { Default::default() };
    (@check fixed $policy:ident, $differs:expr) => {
        if $differs {
            return Some(PolicyId::$policy);
        }
    };
    (@check $policy:ident, $differs:expr) => {};
}

entity_qos! {
    /// The policies of a topic.
    TopicQos {
        topic_data: TopicData,
        durability: fixed Durability,
        durability_service: fixed DurabilityService,
        deadline: Deadline,
        latency_budget: LatencyBudget,
        liveliness: fixed Liveliness,
        reliability: fixed Reliability = Reliability::BEST_EFFORT,
        destination_order: fixed DestinationOrder,
        history: fixed History,
        resource_limits: fixed ResourceLimits,
        transport_priority: TransportPriority,
        lifespan: Lifespan,
        ownership: fixed Ownership,
        data_representation: fixed DataRepresentation,
    }
}

entity_qos! {
    /// The policies of a publisher.
    PublisherQos {
        presentation: fixed Presentation,
        partition: Partition,
        group_data: GroupData,
        entity_factory: EntityFactory,
    }
}

entity_qos! {
    /// The policies of a subscriber.
    SubscriberQos {
        presentation: fixed Presentation,
        partition: Partition,
        group_data: GroupData,
        entity_factory: EntityFactory,
    }
}

entity_qos! {
    /// The policies of a data writer.
    DataWriterQos {
        durability: fixed Durability,
        durability_service: fixed DurabilityService,
        deadline: Deadline,
        latency_budget: LatencyBudget,
        liveliness: fixed Liveliness,
        reliability: fixed Reliability = Reliability::RELIABLE,
        destination_order: fixed DestinationOrder,
        history: fixed History,
        resource_limits: fixed ResourceLimits,
        transport_priority: TransportPriority,
        lifespan: Lifespan,
        user_data: UserData,
        ownership: fixed Ownership,
        ownership_strength: OwnershipStrength,
        writer_data_lifecycle: WriterDataLifecycle,
        data_representation: fixed DataRepresentation,
        properties: Properties,
    }
}

entity_qos! {
    /// The policies of a data reader.
    DataReaderQos {
        durability: fixed Durability,
        deadline: Deadline,
        latency_budget: LatencyBudget,
        liveliness: fixed Liveliness,
        reliability: fixed Reliability = Reliability::BEST_EFFORT,
        destination_order: fixed DestinationOrder,
        history: fixed History,
        resource_limits: fixed ResourceLimits,
        user_data: UserData,
        ownership: fixed Ownership,
        time_based_filter: TimeBasedFilter,
        reader_data_lifecycle: ReaderDataLifecycle,
        data_representation: fixed DataRepresentation,
        type_consistency: fixed TypeConsistency,
        properties: Properties,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qos::ReliabilityKind;
    use crate::time::Span;

    #[test]
    fn defaults_equal_those_of_standard() {
        assert_eq!(DataWriterQos::default().reliability.kind, ReliabilityKind::Reliable);
        assert_eq!(DataReaderQos::default().reliability.kind, ReliabilityKind::BestEffort);
        assert_eq!(TopicQos::default().reliability.kind, ReliabilityKind::BestEffort);
        assert_eq!(DataWriterQos::default().reliability.max_blocking_time, Span::from_millis(100));
        assert_eq!(DataWriterQos::default().history, History::KeepLast { depth: 1 });
        assert_eq!(DataWriterQos::default().deadline.period, Span::INFINITE);
        assert!(DataWriterQos::default().writer_data_lifecycle.autodispose_unregistered_instances);
        assert!(DataReaderQos::default().type_consistency.ignore_string_bounds);
    }

    #[test]
    fn change_of_fixed_policy_is_reported() {
        let old = DataWriterQos::default();
        let new = DataWriterQos { ownership_strength: OwnershipStrength(3), ..old.clone() };
        assert_eq!(old.immutable_change(&new), None);
        let new = DataWriterQos { history: History::KeepAll, ..new };
        assert_eq!(old.immutable_change(&new), Some(PolicyId::History));
    }
}
