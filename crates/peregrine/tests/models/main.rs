//! Loom models of the driver. They compile the files of `src/driver` once more, with the locks, atomics and thread
//! functions of loom, a model of the kernel and a clock that advances with each reading. So the models run the code of
//! the driver, not a transcription. `cargo xtask models` builds and runs them.
//!
//! | property | how a model shows that it is violated |
//! |---|---|
//! | a condition that becomes true wakes its waiter | loom reports a deadlock: no deadline ever ends a sleep here |
//! | one thread at a time runs a listener, sends, leads | a turn loses what the turn before has stored without a lock |
//! | no loss, no duplicate, order kept | the model compares the performed operations with the requested ones |
//!
//! A load or store with `SeqCst` is modelled with a fence beside it, because loom makes such an access acquire or
//! release only. So the models find a step that is missing or in the wrong place, and a fence that is missing
//! elsewhere, but not a fence that is missing directly beside such a load or store.
#![cfg(loom)]
// A model uses a part of each file, and no other crate uses the models.
#![allow(dead_code, unreachable_pub)]

use peregrine_rtps::id::{Guid, KeyHash as InstanceHandle};

#[path = "../../src/status.rs"]
mod status;

mod driver;
