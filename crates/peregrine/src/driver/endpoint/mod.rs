//! Writers, readers and topics: one lock each, with the waiters of the entity and the turns in which threads send.

mod arming;
mod backlog;
mod bypass;
mod collections;
pub(crate) mod context;
mod delivery;
pub(in crate::driver) mod dirty_endpoints;
pub(crate) mod flow;
mod last_heard;
pub(in crate::driver) mod local_delivery;
pub(in crate::driver) mod local_reader;
mod mark;
pub(in crate::driver) mod outbox;
pub(crate) mod reader;
mod sample_watch;
mod send_state;
mod send_turns;
mod sending;
pub(crate) mod topic;
mod trim;
pub(crate) mod waiting;
mod waiting_loan;
pub(crate) mod wakers;
pub(crate) mod writer;
mod writer_statuses;
