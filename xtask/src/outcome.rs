//! How a stage that did not fail ended.

/// The end of a stage that did not fail.
pub(crate) enum Outcome {
    /// Everything was checked and is as it should be.
    Passed,
    /// There is nothing to check; the reason is shown in the summary.
    Absent(String),
}
