//! Whether a writer and a reader match, and if not, the reason (DDS 1.4 §2.2.3, XTypes 1.3 §7.6.3).

use core::fmt;

use alloc::string::String;
use alloc::vec::Vec;

use super::ignore_local::IgnoreLocal;
use super::policy::{
    DataRepresentation, Deadline, DestinationOrder, Durability, LatencyBudget, Liveliness, Ownership, Partition,
    Presentation, ReliabilityKind, RepresentationId,
};
use super::policy_id::PolicyId;
use crate::discovery::data::{PublicationData, SubscriptionData};
use crate::locator::Locator;

/// Why a writer and a reader do not match: the value that the writer offers and the value that the reader requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the two values of each reason need no description")]
pub enum NonMatch {
    /// They belong to different topics.
    TopicName { offered: String, requested: String },
    /// One topic has keys, the other does not.
    TopicKind { offered_with_key: bool, requested_with_key: bool },
    /// The reader requires retransmission of lost samples.
    Reliability { offered: ReliabilityKind, requested: ReliabilityKind },
    /// The reader requires samples to be kept longer.
    Durability { offered: Durability, requested: Durability },
    /// The reader requires more order or coherence.
    Presentation { offered: Presentation, requested: Presentation },
    /// The reader requires a shorter period between samples.
    Deadline { offered: Deadline, requested: Deadline },
    /// The reader requires a shorter delay of samples.
    LatencyBudget { offered: LatencyBudget, requested: LatencyBudget },
    /// One shares its instances, the other does not.
    Ownership { offered: Ownership, requested: Ownership },
    /// The reader requires a stronger kind of liveliness or a shorter lease.
    Liveliness { offered: Liveliness, requested: Liveliness },
    /// The reader requires the order of source timestamps.
    DestinationOrder { offered: DestinationOrder, requested: DestinationOrder },
    /// They have no partition in common.
    Partition { offered: Partition, requested: Partition },
    /// The reader cannot read the representation of the writer.
    DataRepresentation { offered: RepresentationId, requested: DataRepresentation },
    /// They have different types.
    TypeName { offered: String, requested: String },
    /// The local endpoint has reached its greatest number of matches.
    TooManyMatches { limit: usize },
    /// Both are of one participant or process, and one of them ignores such endpoints.
    IgnoreLocal { offered: IgnoreLocal, requested: IgnoreLocal },
    /// The remote endpoint has not been heard from any address it names, and nothing is sent to one that is only named.
    Unreachable { named: Vec<Locator> },
    /// The security of this participant does not let them match.
    Security { reason: String },
}

impl NonMatch {
    /// Whether the reason is a property that no endpoint changes while it exists (DDS 1.4 §2.2.3: "changeable: no").
    /// A matched endpoint that seems to have changed it is the victim of a false statement, which it takes back.
    pub(crate) const fn is_of_lasting_property(&self) -> bool {
        match self {
            Self::TopicName { .. }
            | Self::TopicKind { .. }
            | Self::Reliability { .. }
            | Self::Durability { .. }
            | Self::Presentation { .. }
            | Self::Ownership { .. }
            | Self::Liveliness { .. }
            | Self::DestinationOrder { .. }
            | Self::DataRepresentation { .. }
            | Self::TypeName { .. } => true,
            Self::Deadline { .. }
            | Self::LatencyBudget { .. }
            | Self::Partition { .. }
            | Self::TooManyMatches { .. }
            | Self::IgnoreLocal { .. }
            | Self::Unreachable { .. }
            | Self::Security { .. } => false,
        }
    }
}

/// Checks whether a writer and a reader match: the topic, then each policy in the order of Cyclone DDS, so that both
/// implementations report the same policy, and finally the name of the type.
///
/// # Errors
/// The first reason for a mismatch.
pub fn check_compatibility(offered: &PublicationData, requested: &SubscriptionData) -> Result<(), NonMatch> {
    check_topic(offered, requested)?;
    check_delivery(offered, requested)?;
    check_liveliness_and_order(offered, requested)?;
    check_partition(offered, requested)?;
    check_representation(offered, requested)?;
    if offered.type_name != requested.type_name {
        let (offered, requested) = (offered.type_name.clone(), requested.type_name.clone());
        return Err(NonMatch::TypeName { offered, requested });
    }
    Ok(())
}

fn check_topic(offered: &PublicationData, requested: &SubscriptionData) -> Result<(), NonMatch> {
    if offered.topic_name != requested.topic_name {
        let (offered, requested) = (offered.topic_name.clone(), requested.topic_name.clone());
        return Err(NonMatch::TopicName { offered, requested });
    }
    let (offered_with_key, requested_with_key) = (offered.guid.entity.has_key(), requested.guid.entity.has_key());
    if offered_with_key != requested_with_key {
        return Err(NonMatch::TopicKind { offered_with_key, requested_with_key });
    }
    Ok(())
}

fn check_delivery(publication: &PublicationData, subscription: &SubscriptionData) -> Result<(), NonMatch> {
    let (writer, reader) = (&publication.qos, &subscription.qos);
    let (offered, requested) = (writer.reliability.kind, reader.reliability.kind);
    if offered < requested {
        return Err(NonMatch::Reliability { offered, requested });
    }
    let (offered, requested) = (writer.durability, reader.durability);
    if offered < requested {
        return Err(NonMatch::Durability { offered, requested });
    }
    let (offered, requested) = (publication.publisher.presentation, subscription.subscriber.presentation);
    if offered.scope < requested.scope
        || requested.coherent && !offered.coherent
        || requested.ordered && !offered.ordered
    {
        return Err(NonMatch::Presentation { offered, requested });
    }
    let (offered, requested) = (writer.deadline, reader.deadline);
    if offered.period > requested.period {
        return Err(NonMatch::Deadline { offered, requested });
    }
    let (offered, requested) = (writer.latency_budget, reader.latency_budget);
    if offered.duration > requested.duration {
        return Err(NonMatch::LatencyBudget { offered, requested });
    }
    Ok(())
}

fn check_liveliness_and_order(publication: &PublicationData, subscription: &SubscriptionData) -> Result<(), NonMatch> {
    let (writer, reader) = (&publication.qos, &subscription.qos);
    let (offered, requested) = (writer.ownership, reader.ownership);
    if offered != requested {
        return Err(NonMatch::Ownership { offered, requested });
    }
    let (offered, requested) = (writer.liveliness, reader.liveliness);
    if offered.kind < requested.kind || offered.lease_duration > requested.lease_duration {
        return Err(NonMatch::Liveliness { offered, requested });
    }
    let (offered, requested) = (writer.destination_order, reader.destination_order);
    if offered < requested {
        return Err(NonMatch::DestinationOrder { offered, requested });
    }
    Ok(())
}

fn check_partition(publication: &PublicationData, subscription: &SubscriptionData) -> Result<(), NonMatch> {
    let (offered, requested) = (&publication.publisher.partition, &subscription.subscriber.partition);
    if offered.meets(requested) {
        return Ok(());
    }
    Err(NonMatch::Partition { offered: offered.clone(), requested: requested.clone() })
}

/// The writer uses the first representation it names (XTypes 1.3 §7.6.3.1.2).
fn check_representation(publication: &PublicationData, subscription: &SubscriptionData) -> Result<(), NonMatch> {
    let requested = &subscription.qos.data_representation;
    match publication.qos.data_representation.effective().first() {
        Some(offered) if !requested.effective().contains(offered) => {
            Err(NonMatch::DataRepresentation { offered: *offered, requested: requested.clone() })
        }
        _ => Ok(()),
    }
}

impl NonMatch {
    /// The policy at fault; `None` when it is the topic, the type, the number of matches, the process, the
    /// way or security.
    #[must_use]
    pub const fn policy_id(&self) -> Option<PolicyId> {
        Some(match self {
            Self::TopicName { .. }
            | Self::TopicKind { .. }
            | Self::TypeName { .. }
            | Self::TooManyMatches { .. }
            | Self::IgnoreLocal { .. }
            | Self::Unreachable { .. }
            | Self::Security { .. } => {
                return None;
            }
            Self::Reliability { .. } => PolicyId::Reliability,
            Self::Durability { .. } => PolicyId::Durability,
            Self::Presentation { .. } => PolicyId::Presentation,
            Self::Deadline { .. } => PolicyId::Deadline,
            Self::LatencyBudget { .. } => PolicyId::LatencyBudget,
            Self::Ownership { .. } => PolicyId::Ownership,
            Self::Liveliness { .. } => PolicyId::Liveliness,
            Self::DestinationOrder { .. } => PolicyId::DestinationOrder,
            Self::Partition { .. } => PolicyId::Partition,
            Self::DataRepresentation { .. } => PolicyId::DataRepresentation,
        })
    }

    /// Whether the statuses OFFERED_INCOMPATIBLE_QOS and REQUESTED_INCOMPATIBLE_QOS count this mismatch. They do not
    /// count different partitions (DDS 1.4 §2.2.3.13).
    #[must_use]
    pub const fn is_incompatible_qos(&self) -> bool {
        !matches!(self, Self::Partition { .. }) && self.policy_id().is_some()
    }

    /// Whether the topics have the same name but differ in keys or type: status INCONSISTENT_TOPIC.
    #[must_use]
    pub const fn is_inconsistent_topic(&self) -> bool {
        matches!(self, Self::TopicKind { .. } | Self::TypeName { .. })
    }
}

impl fmt::Display for NonMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TopicName { offered, requested } => write!(f, "topic: offered {offered:?}, requested {requested:?}"),
            Self::TopicKind { offered_with_key, requested_with_key } => {
                let kind = |with_key| if with_key { "WITH_KEY" } else { "NO_KEY" };
                write!(f, "topic kind: offered {}, requested {}", kind(*offered_with_key), kind(*requested_with_key))
            }
            Self::Reliability { offered, requested } => both(f, self, offered, requested),
            Self::Durability { offered, requested } => both(f, self, offered, requested),
            Self::Presentation { offered, requested } => both(f, self, offered, requested),
            Self::Deadline { offered, requested } => both(f, self, &offered.period, &requested.period),
            Self::LatencyBudget { offered, requested } => both(f, self, &offered.duration, &requested.duration),
            Self::Ownership { offered, requested } => both(f, self, offered, requested),
            Self::Liveliness { offered, requested } => both(f, self, offered, requested),
            Self::DestinationOrder { offered, requested } => both(f, self, offered, requested),
            Self::Partition { offered, requested } => both(f, self, offered, requested),
            Self::DataRepresentation { offered, requested } => both(f, self, offered, requested),
            Self::TypeName { offered, requested } => write!(f, "type: offered {offered:?}, requested {requested:?}"),
            Self::TooManyMatches { limit } => write!(f, "the local endpoint has {limit} matches and takes no more"),
            Self::IgnoreLocal { offered, requested } => write!(
                f,
                "ignore_local: {offered} at the writer, {requested} at the reader, which are of the same participant or process"
            ),
            Self::Security { reason } => write!(f, "security: {reason}"),
            Self::Unreachable { named } if named.is_empty() => f.write_str("the remote endpoint names no address"),
            Self::Unreachable { named } => {
                write!(f, "no message has arrived from a usable address that the remote endpoint names: {named:?}")
            }
        }
    }
}

fn both(
    f: &mut fmt::Formatter<'_>,
    reason: &NonMatch,
    offered: &dyn fmt::Display,
    requested: &dyn fmt::Display,
) -> fmt::Result {
    if let Some(policy) = reason.policy_id() {
        write!(f, "{policy}: ")?;
    }
    write!(f, "offered {offered}, requested {requested}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{EntityId, Guid, GuidPrefix};
    use crate::qos::{AccessScope, LivelinessKind, Reliability};
    use crate::time::Span;
    use std::string::ToString;

    fn publication() -> PublicationData {
        let guid = Guid::new(GuidPrefix([1; 12]), EntityId::user_writer(1, true));
        PublicationData::new(guid, "Square".to_string(), "ShapeType".to_string())
    }

    fn subscription() -> SubscriptionData {
        let guid = Guid::new(GuidPrefix([2; 12]), EntityId::user_reader(1, true));
        SubscriptionData::new(guid, "Square".to_string(), "ShapeType".to_string())
    }

    /// The mismatch of the default writer and reader after this change.
    fn mismatch(change: impl FnOnce(&mut PublicationData, &mut SubscriptionData)) -> NonMatch {
        let (mut offered, mut requested) = (publication(), subscription());
        assert_eq!(check_compatibility(&offered, &requested), Ok(()));
        change(&mut offered, &mut requested);
        check_compatibility(&offered, &requested).unwrap_err()
    }

    fn assert_policy(reason: &NonMatch, policy: PolicyId, text: &str) {
        assert_eq!(reason.policy_id(), Some(policy));
        assert!(reason.is_incompatible_qos());
        assert_eq!(reason.to_string(), text);
    }

    #[test]
    fn reliable_reader_rejects_best_effort_writer() {
        let reason = mismatch(|offered, requested| {
            offered.qos.reliability = Reliability::BEST_EFFORT;
            requested.qos.reliability = Reliability::RELIABLE;
        });
        assert_policy(&reason, PolicyId::Reliability, "RELIABILITY: offered BEST_EFFORT, requested RELIABLE");
    }

    #[test]
    fn reader_rejects_lesser_durability() {
        let reason = mismatch(|_, requested| requested.qos.durability = Durability::TransientLocal);
        assert_policy(&reason, PolicyId::Durability, "DURABILITY: offered VOLATILE, requested TRANSIENT_LOCAL");
    }

    #[test]
    fn reader_rejects_lesser_presentation() {
        let scope = AccessScope::Group;
        let reason = mismatch(|_, requested| requested.subscriber.presentation.scope = scope);
        assert_policy(&reason, PolicyId::Presentation, "PRESENTATION: offered INSTANCE, requested GROUP");
        let reason = mismatch(|offered, requested| {
            offered.publisher.presentation = Presentation { scope, coherent: false, ordered: true };
            requested.subscriber.presentation = Presentation { scope, coherent: true, ordered: true };
        });
        assert_policy(
            &reason,
            PolicyId::Presentation,
            "PRESENTATION: offered GROUP ordered, requested GROUP coherent ordered",
        );
    }

    #[test]
    fn reader_rejects_longer_deadline_and_latency_budget() {
        let reason = mismatch(|_, requested| requested.qos.deadline = Deadline { period: Span::from_millis(100) });
        assert_policy(&reason, PolicyId::Deadline, "DEADLINE: offered infinite, requested 100000000 ns");
        let reason = mismatch(|offered, _| offered.qos.latency_budget = LatencyBudget { duration: Span(7) });
        assert_policy(&reason, PolicyId::LatencyBudget, "LATENCY_BUDGET: offered 7 ns, requested 0 ns");
    }

    #[test]
    fn different_ownership_kinds_are_incompatible() {
        let reason = mismatch(|offered, _| offered.qos.ownership = Ownership::Exclusive);
        assert_policy(&reason, PolicyId::Ownership, "OWNERSHIP: offered EXCLUSIVE, requested SHARED");
        let reason = mismatch(|_, requested| requested.qos.ownership = Ownership::Exclusive);
        assert_policy(&reason, PolicyId::Ownership, "OWNERSHIP: offered SHARED, requested EXCLUSIVE");
    }

    #[test]
    fn reader_rejects_lesser_liveliness_kind_and_longer_lease() {
        let lease_duration = Span::from_secs(1);
        let reason = mismatch(|offered, requested| {
            offered.qos.liveliness = Liveliness { kind: LivelinessKind::Automatic, lease_duration };
            requested.qos.liveliness = Liveliness { kind: LivelinessKind::ManualByTopic, lease_duration };
        });
        assert_policy(
            &reason,
            PolicyId::Liveliness,
            "LIVELINESS: offered AUTOMATIC lease 1.000000000 s, requested MANUAL_BY_TOPIC lease 1.000000000 s",
        );
        let reason = mismatch(|_, requested| requested.qos.liveliness.lease_duration = lease_duration);
        assert_eq!(reason.policy_id(), Some(PolicyId::Liveliness));
    }

    #[test]
    fn reader_rejects_lesser_destination_order() {
        let reason = mismatch(|_, requested| requested.qos.destination_order = DestinationOrder::BySourceTimestamp);
        assert_policy(
            &reason,
            PolicyId::DestinationOrder,
            "DESTINATION_ORDER: offered BY_RECEPTION_TIMESTAMP, requested BY_SOURCE_TIMESTAMP",
        );
    }

    #[test]
    fn different_partitions_are_not_incompatible_qos() {
        let reason = mismatch(|offered, _| offered.publisher.partition = Partition([("a".to_string())].into()));
        assert_eq!(reason.policy_id(), Some(PolicyId::Partition));
        assert!(!reason.is_incompatible_qos());
        assert_eq!(reason.to_string(), "PARTITION: offered [\"a\"], requested []");
    }

    #[test]
    fn first_representation_of_writer_decides() {
        let xcdr = |ids: &[RepresentationId]| DataRepresentation(ids.to_vec());
        let reason = mismatch(|offered, _| {
            offered.qos.data_representation = xcdr(&[RepresentationId::XCDR2, RepresentationId::XCDR1]);
        });
        assert_policy(&reason, PolicyId::DataRepresentation, "DATA_REPRESENTATION: offered XCDR2, requested XCDR1");
        let (mut offered, mut requested) = (publication(), subscription());
        offered.qos.data_representation = xcdr(&[]);
        requested.qos.data_representation = xcdr(&[RepresentationId::XCDR2, RepresentationId::XCDR1]);
        assert_eq!(check_compatibility(&offered, &requested), Ok(()));
    }

    #[test]
    fn different_topics_and_types_do_not_match() {
        let reason = mismatch(|offered, _| offered.topic_name = "Circle".to_string());
        assert_eq!(reason.to_string(), "topic: offered \"Circle\", requested \"Square\"");
        assert!(!reason.is_inconsistent_topic());
        let reason = mismatch(|offered, _| offered.guid.entity = EntityId::user_writer(1, false));
        assert_eq!(reason.to_string(), "topic kind: offered NO_KEY, requested WITH_KEY");
        assert!(reason.is_inconsistent_topic());
        let reason = mismatch(|_, requested| requested.type_name = "Other".to_string());
        assert_eq!(reason.to_string(), "type: offered \"ShapeType\", requested \"Other\"");
        assert!(reason.is_inconsistent_topic() && !reason.is_incompatible_qos());
    }

    #[test]
    fn offer_above_request_matches() {
        let (mut offered, requested) = (publication(), subscription());
        offered.qos.durability = Durability::Persistent;
        offered.qos.deadline = Deadline { period: Span::from_millis(1) };
        offered.qos.liveliness =
            Liveliness { kind: LivelinessKind::ManualByTopic, lease_duration: Span::from_millis(1) };
        offered.qos.destination_order = DestinationOrder::BySourceTimestamp;
        offered.publisher.presentation = Presentation { scope: AccessScope::Group, coherent: true, ordered: true };
        assert_eq!(check_compatibility(&offered, &requested), Ok(()));
    }

    #[test]
    fn first_incompatible_policy_in_order_is_reported() {
        let reason = mismatch(|offered, requested| {
            offered.type_name = "Other".to_string();
            offered.publisher.partition = Partition([("a".to_string())].into());
            requested.qos.durability = Durability::Persistent;
            offered.qos.reliability = Reliability::BEST_EFFORT;
            requested.qos.reliability = Reliability::RELIABLE;
        });
        assert_eq!(reason.policy_id(), Some(PolicyId::Reliability));
    }
}
