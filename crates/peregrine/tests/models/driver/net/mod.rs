//! The files of this layer that the models need.

#[path = "../../../../src/driver/net/marked_messages.rs"]
pub(in crate::driver) mod marked_messages;
#[path = "../../../../src/driver/net/send_limit.rs"]
pub(in crate::driver) mod send_limit;
