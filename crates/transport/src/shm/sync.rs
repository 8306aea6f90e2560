//! The atomics and locks of this module: those of the standard library, or of the model checker when the models are run
//! (`RUSTFLAGS="--cfg loom" cargo test -p peregrine-transport --lib shm::models`).

#[cfg(all(loom, test))]
pub(super) use loom::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(all(loom, test)))]
pub(super) use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};
