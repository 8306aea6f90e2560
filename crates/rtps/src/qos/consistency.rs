//! Contradictions between the policies of one entity.

use core::fmt;

use super::entity::{DataReaderQos, DataWriterQos, TopicQos};
use super::policy::{Deadline, DurabilityService, History, Limit, Liveliness, ResourceLimits};
use super::policy_id::PolicyId;
use crate::time::Span;

/// Two values that contradict each other, or one invalid value (DDS 1.4 §2.2.3: INCONSISTENT_POLICY).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inconsistency {
    /// A number that must be at least 1 is 0.
    Zero {
        /// The policy.
        policy: PolicyId,
        /// The field.
        field: &'static str,
    },
    /// The history depth exceeds the limit of samples per instance.
    DepthExceedsLimit {
        /// The policy.
        policy: PolicyId,
        /// The depth.
        depth: u32,
        /// max_samples_per_instance.
        limit: u32,
    },
    /// The limit of samples per instance exceeds the limit of all samples.
    InstanceExceedsTotal {
        /// The policy.
        policy: PolicyId,
        /// max_samples_per_instance.
        per_instance: u32,
        /// max_samples.
        total: u32,
    },
    /// The time-based filter of the reader discards samples that its deadline requires.
    FilterExceedsDeadline {
        /// minimum_separation of TIME_BASED_FILTER.
        minimum_separation: Span,
        /// period of DEADLINE.
        period: Span,
    },
}

impl TopicQos {
    /// Checks that the policies do not contradict each other.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), Inconsistency> {
        check_storage(PolicyId::History, self.history, &self.resource_limits)?;
        check_service(&self.durability_service)?;
        check_times(self.liveliness, self.deadline)
    }
}

impl DataWriterQos {
    /// Checks that the policies do not contradict each other.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), Inconsistency> {
        check_storage(PolicyId::History, self.history, &self.resource_limits)?;
        check_service(&self.durability_service)?;
        check_times(self.liveliness, self.deadline)
    }
}

impl DataReaderQos {
    /// Checks that the policies do not contradict each other.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), Inconsistency> {
        check_storage(PolicyId::History, self.history, &self.resource_limits)?;
        check_times(self.liveliness, self.deadline)?;
        let (minimum_separation, period) = (self.time_based_filter.minimum_separation, self.deadline.period);
        if minimum_separation > period {
            return Err(Inconsistency::FilterExceedsDeadline { minimum_separation, period });
        }
        Ok(())
    }
}

fn check_service(service: &DurabilityService) -> Result<(), Inconsistency> {
    check_storage(PolicyId::DurabilityService, service.history, &service.limits)
}

fn check_storage(policy: PolicyId, history: History, limits: &ResourceLimits) -> Result<(), Inconsistency> {
    let named = [
        ("max_samples", limits.max_samples),
        ("max_instances", limits.max_instances),
        ("max_samples_per_instance", limits.max_samples_per_instance),
    ];
    let limits_policy = if policy == PolicyId::History { PolicyId::ResourceLimits } else { policy };
    if let Some((field, _)) = named.into_iter().find(|&(_, limit)| limit == Limit::At(0)) {
        return Err(Inconsistency::Zero { policy: limits_policy, field });
    }
    if let (Limit::At(per_instance), Limit::At(total)) = (limits.max_samples_per_instance, limits.max_samples)
        && per_instance > total
    {
        return Err(Inconsistency::InstanceExceedsTotal { policy: limits_policy, per_instance, total });
    }
    match (history, limits.max_samples_per_instance) {
        (History::KeepLast { depth: 0 }, _) => Err(Inconsistency::Zero { policy, field: "depth" }),
        (History::KeepLast { depth }, Limit::At(limit)) if depth > limit => {
            Err(Inconsistency::DepthExceedsLimit { policy, depth, limit })
        }
        _ => Ok(()),
    }
}

fn check_times(liveliness: Liveliness, deadline: Deadline) -> Result<(), Inconsistency> {
    if liveliness.lease_duration == Span::ZERO {
        return Err(Inconsistency::Zero { policy: PolicyId::Liveliness, field: "lease_duration" });
    }
    if deadline.period == Span::ZERO {
        return Err(Inconsistency::Zero { policy: PolicyId::Deadline, field: "period" });
    }
    Ok(())
}

impl Inconsistency {
    /// The policy to correct.
    #[must_use]
    pub const fn policy(&self) -> PolicyId {
        match self {
            Self::Zero { policy, .. }
            | Self::DepthExceedsLimit { policy, .. }
            | Self::InstanceExceedsTotal { policy, .. } => *policy,
            Self::FilterExceedsDeadline { .. } => PolicyId::TimeBasedFilter,
        }
    }
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero { policy, field } => write!(f, "{policy}: {field} is 0, but must be at least 1"),
            Self::DepthExceedsLimit { policy, depth, limit } => {
                write!(
                    f,
                    "{policy}: depth {depth} exceeds max_samples_per_instance {limit}; lower the depth or raise the limit"
                )
            }
            Self::InstanceExceedsTotal { policy, per_instance, total } => {
                write!(f, "{policy}: max_samples_per_instance {per_instance} exceeds max_samples {total}, lower it")
            }
            Self::FilterExceedsDeadline { minimum_separation, period } => write!(
                f,
                "TIME_BASED_FILTER: minimum_separation {minimum_separation} exceeds the DEADLINE period {period}, lower it"
            ),
        }
    }
}

impl core::error::Error for Inconsistency {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qos::TimeBasedFilter;
    use std::string::ToString;

    fn writer(history: History, per_instance: Limit, total: Limit) -> DataWriterQos {
        let resource_limits =
            ResourceLimits { max_samples: total, max_samples_per_instance: per_instance, ..ResourceLimits::default() };
        DataWriterQos { history, resource_limits, ..DataWriterQos::default() }
    }

    #[test]
    fn default_policies_are_consistent() {
        assert_eq!(TopicQos::default().check(), Ok(()));
        assert_eq!(DataWriterQos::default().check(), Ok(()));
        assert_eq!(DataReaderQos::default().check(), Ok(()));
    }

    #[test]
    fn history_deeper_than_limits_is_inconsistent() {
        let keep_last = |depth| History::KeepLast { depth };
        assert_eq!(writer(keep_last(5), Limit::At(5), Limit::At(5)).check(), Ok(()));
        assert_eq!(
            writer(keep_last(6), Limit::At(5), Limit::At(5)).check().unwrap_err().to_string(),
            "HISTORY: depth 6 exceeds max_samples_per_instance 5; lower the depth or raise the limit"
        );
        assert_eq!(writer(History::KeepAll, Limit::At(5), Limit::At(5)).check(), Ok(()));
        let inverted = writer(History::KeepAll, Limit::At(6), Limit::At(5)).check().unwrap_err();
        assert_eq!(inverted.policy(), PolicyId::ResourceLimits);
        assert_eq!(writer(History::KeepAll, Limit::Unlimited, Limit::At(5)).check(), Ok(()));
        assert!(writer(keep_last(0), Limit::Unlimited, Limit::Unlimited).check().is_err());
        assert!(writer(History::KeepAll, Limit::Unlimited, Limit::At(0)).check().is_err());
    }

    #[test]
    fn separation_above_deadline_is_inconsistent() {
        let mut qos =
            DataReaderQos { deadline: Deadline { period: Span::from_millis(10) }, ..DataReaderQos::default() };
        qos.time_based_filter = TimeBasedFilter { minimum_separation: Span::from_millis(10) };
        assert_eq!(qos.check(), Ok(()));
        qos.time_based_filter = TimeBasedFilter { minimum_separation: Span::from_millis(11) };
        assert_eq!(qos.check().unwrap_err().policy(), PolicyId::TimeBasedFilter);
    }

    #[test]
    fn zero_times_are_inconsistent() {
        let liveliness = Liveliness { lease_duration: Span::ZERO, ..Liveliness::default() };
        assert!(TopicQos { liveliness, ..TopicQos::default() }.check().is_err());
        assert!(TopicQos { deadline: Deadline { period: Span::ZERO }, ..TopicQos::default() }.check().is_err());
    }
}
