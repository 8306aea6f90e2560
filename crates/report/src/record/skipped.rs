//! What a plan asks for and a record does not have.

use serde::{Deserialize, Serialize};

use super::campaign::Case;
use super::measurement::{Measurement, Test};

/// A measurement that was planned and was not made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// [`Series::id`](super::Series::id)
    pub series: String,
    /// What it was for; absent in records before version 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<Test>,
    /// Size of a sample in bytes.
    pub data_len: u64,
    /// Number of the repetition, from 0; absent when it concerns all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetition: Option<u32>,
    /// What was to be measured.
    pub case: Case,
    /// Why it was not.
    pub reason: String,
}

impl Skipped {
    /// Whether the measurement is the one that was not made before, or one of those.
    pub fn is_made_up_by(&self, measurement: &Measurement) -> bool {
        self.series == measurement.series
            && self.test == Some(measurement.test)
            && self.data_len == measurement.data_len
            && self.repetition.is_none_or(|repetition| repetition == measurement.repetition)
            && measurement.case.as_deref() == Some(&self.case)
    }
}
