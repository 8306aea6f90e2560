//! Planned measurements that a record does not contain.

use serde::{Deserialize, Serialize};

use super::campaign::Case;
use super::measurement::{Measurement, Test};

/// A planned measurement that was not made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// [`Series::id`](super::Series::id)
    pub series: String,
    /// Its purpose; absent in records before version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// Number of the repetition, from 0; absent if all repetitions were skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<u32>,
    /// The planned case.
    pub case: Case,
    /// The reason.
    pub reason: String,
}

impl Skipped {
    /// Whether `measurement` is the skipped one, or one of the skipped repetitions.
    pub fn is_made_up_by(&self, measurement: &Measurement) -> bool {
        self.series == measurement.series
            && self.test == Some(measurement.test)
            && self.data_len == measurement.data_len
            && self.repetition.is_none_or(|repetition| repetition == measurement.repetition)
            && measurement.case.as_deref() == Some(&self.case)
    }
}
