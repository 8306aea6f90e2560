//! The atomics of this module: those of the standard library, or of the model checker when the models are run
//! (`RUSTFLAGS="--cfg loom" cargo test -p peregrine-transport --lib shm::models`).

#[cfg(all(loom, test))]
pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(all(loom, test)))]
pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
