//! Results of `perftest scale`: the cost of many endpoints.

use serde::{Deserialize, Serialize};

/// One run of one row with one series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleResult {
    /// [`Series::id`](super::Series::id)
    pub series: String,
    /// Kind and size of the row, such as `pairs:200x200`.
    pub row: String,
    /// Number of the repetition, from 0.
    pub repetition: u32,
    /// The measured quantities in the order of display.
    pub values: Vec<ScaleValue>,
}

/// One measured quantity of a row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScaleValue {
    /// Name of the quantity for readers, unique in the row.
    pub quantity: String,
    /// `ms`, `us`, `MiB`, or `count`.
    pub unit: String,
    /// The measured value.
    pub value: f64,
    /// Highest value that meets the goal, in the same unit; absent without a goal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
}
