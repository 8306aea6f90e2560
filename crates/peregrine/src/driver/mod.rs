//! The only threads and locks: sockets on one side, the state machines of `peregrine-rtps` on the other.
//!
//! # Threads
//! One set of sockets and threads per process and domain:
//! - **receive** threads for each socket that receives user data ([`shared_receiver`]). They deliver to readers, run
//!   listeners, and send acknowledgements. An application thread that waits for data receives in place of them;
//! - one **control** thread for discovery, for all timers and for connections ([`streams`]), asleep until the next
//!   deadline;
//! - one **shared-memory** thread, as long as there are channels ([`shm`]);
//! - one **publishing** thread for asynchronous writers and backlogs, started with the first of them ([`publishing`]).
//!
//! A thread that writes sends its samples itself. Samples to readers of the same process need neither sockets nor
//! threads ([`local_delivery`]).
//!
//! # Locks
//! Always in this order: a participant's, then an endpoint's. No lock is held across a system call or while user code
//! runs.

mod adaptive_spin;
pub(crate) mod clock;
mod deadline_cell;
mod deferred_user_code;
mod dirty_endpoints;
pub(crate) mod domain;
pub(crate) mod flow;
mod groups;
pub(crate) mod host;
mod incoming;
mod last_heard;
pub(crate) mod listener_gate;
mod listener_queue;
mod local_delivery;
mod local_reader;
mod local_writers;
mod network;
pub(crate) mod observer;
mod open;
mod outbox;
pub(crate) mod parker;
pub(crate) mod participant;
mod polling_turns;
mod publishing;
pub(crate) mod reader;
mod registry;
mod send;
pub(crate) mod send_limit;
mod send_run;
mod send_state;
mod send_turns;
mod sending;
mod shared_receiver;
mod shm;
mod socket_barrier;
mod streams;
pub(crate) mod sync;
mod system;
pub(crate) mod topic;
pub(crate) mod user_code;
pub(crate) mod waiting;
mod wake_timer;
pub(crate) mod wakers;
pub(crate) mod writer;
