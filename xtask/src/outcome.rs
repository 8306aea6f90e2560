//! Results of stages.

/// The result of a stage that did not fail.
pub(crate) enum Outcome {
    /// All checks of the stage passed.
    Passed,
    /// The stage has nothing to check; the summary shows the reason.
    Absent(String),
}
