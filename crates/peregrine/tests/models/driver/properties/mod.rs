//! One file for each group of types.

mod ends;
mod listeners;
mod polling;
mod publishing;
mod reception;
mod sending;
mod timers;
mod waiting;

/// A model of all interleavings with at most `preemptions` preemptions.
pub(super) fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}
