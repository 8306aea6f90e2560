//! The driver has the only threads and locks of the crate: it connects sockets with the state machines of
//! `peregrine-rtps`.
//!
//! # Threads
//! One set of sockets and threads per process and domain:
//! - **receive** threads for each socket that receives user data ([`shared_receiver`]). They deliver to readers, run
//!   listeners, and send acknowledgements. An application thread that waits receives in place of them;
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

pub(crate) mod base;
pub(crate) mod endpoint;
pub(crate) mod host;
mod net;
pub(crate) mod reactor;
mod route;
pub(crate) mod session;
mod shm;
