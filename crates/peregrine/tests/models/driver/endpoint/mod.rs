//! The files of this layer that the models need.

#[path = "../../../../src/driver/endpoint/send_state.rs"]
pub(in crate::driver) mod send_state;
#[path = "../../../../src/driver/endpoint/send_turns.rs"]
pub(in crate::driver) mod send_turns;
#[path = "../../../../src/driver/endpoint/waiting.rs"]
pub(in crate::driver) mod waiting;
#[path = "../../../../src/driver/endpoint/wakers.rs"]
pub(in crate::driver) mod wakers;
