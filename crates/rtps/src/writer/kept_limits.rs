//! The limits on samples kept for readers where HISTORY and RESOURCE_LIMITS set none, and the time of the next count.

use crate::history::HistoryKind;
use crate::seq::SequenceNumber;

use super::config::{KeptLimits, WriterConfig};

#[derive(Debug)]
pub(super) struct Kept {
    /// None if the policies bound the history.
    pub(super) limits: KeptLimits,
    /// The bound cannot be reached before the newest change has this number, and
    pub(super) count_from: SequenceNumber,
    /// before the payloads of all changes so far have so many bytes.
    pub(super) count_from_bytes: u64,
}

impl Kept {
    pub(super) fn new(config: &WriterConfig) -> Self {
        let limits = kept_limits(config);
        Self {
            limits,
            count_from: match limits.samples {
                u32::MAX => SequenceNumber(i64::MAX),
                samples => SequenceNumber(i64::from(samples)),
            },
            count_from_bytes: if limits.bytes == usize::MAX { u64::MAX } else { limits.bytes as u64 },
        }
    }
}

/// The bound of this writer: none if its policies set one.
pub(super) fn kept_limits(config: &WriterConfig) -> KeptLimits {
    if are_limits_open(config) { config.unlimited } else { KeptLimits::NONE }
}

/// Whether HISTORY and RESOURCE_LIMITS permit any number of samples.
fn are_limits_open(config: &WriterConfig) -> bool {
    let limits = &config.limits;
    let any_instances = config.guid.entity.has_key() && limits.max_instances == u32::MAX;
    let any_of_instance = config.history == HistoryKind::KeepAll && limits.max_samples_per_instance == u32::MAX;
    limits.max_samples == u32::MAX && (any_instances || any_of_instance)
}
