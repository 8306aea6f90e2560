//! The files of this layer that the models need.

#[path = "../../../../src/driver/host/listener_gate.rs"]
pub(in crate::driver) mod listener_gate;
#[path = "../../../../src/driver/host/listener_queue.rs"]
pub(in crate::driver) mod listener_queue;
#[path = "../../../../src/driver/host/listener_watch.rs"]
mod listener_watch;
#[path = "../../../../src/driver/host/publish.rs"]
pub(in crate::driver) mod publish;
