//! Sockets, network interfaces, groups, and queues of streams: messages leave and arrive here.

mod groups;
mod guarded_link;
pub(in crate::driver) mod incoming;
mod left_answers;
mod marked_messages;
pub(in crate::driver) mod network;
pub(in crate::driver) mod open;
pub(in crate::driver) mod send;
pub(crate) mod send_limit;
mod send_run;
pub(in crate::driver) mod socket_barrier;
pub(in crate::driver) mod streams;
mod unresolved;
