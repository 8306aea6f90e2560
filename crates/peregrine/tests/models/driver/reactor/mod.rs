//! The files of this layer that the models need.

#[path = "../../../../src/driver/reactor/answer_timer.rs"]
mod answer_timer;
#[path = "../../../../src/driver/reactor/polling_turns.rs"]
pub(in crate::driver) mod polling_turns;
#[path = "../../../../src/driver/reactor/publishing.rs"]
pub(in crate::driver) mod publishing;
#[path = "../../../../src/driver/reactor/shared_receiver.rs"]
pub(in crate::driver) mod shared_receiver;
#[path = "../../../../src/driver/reactor/spare_threads.rs"]
mod spare_threads;
#[path = "../../../../src/driver/reactor/thread_panics.rs"]
pub(in crate::driver) mod thread_panics;
#[path = "../../../../src/driver/reactor/wake_timer.rs"]
pub(in crate::driver) mod wake_timer;
