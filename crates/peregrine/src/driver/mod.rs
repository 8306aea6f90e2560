//! The driver has the only threads and locks of the crate: it connects sockets with the state machines of
//! `peregrine-rtps`.
//!
//! # Layers
//! A folder is a layer. A layer may use only layers that stand before it here; `cargo xtask tidy` checks the exact
//! table (`xtask/src/tidy/layers.rs`). *Terms* are the modules `config`, `error`, `shared_memory`, `status` and
//! `stream_link` of the crate; the driver uses nothing else of it.
//!
//! | layer | owns | uses |
//! |---|---|---|
//! | [`base`] | clock, locks, parked threads, rules for user code | |
//! | [`net`] | sockets, senders, groups, network interfaces, queues of streams, the socket barrier | terms, base |
//! | [`host`] | the services that endpoints use, as traits; the gate and the queue of listeners | terms, base, net |
//! | [`route`] | channels of a writer in shared memory; the endpoints of this process by GUID | terms, base, host |
//! | [`endpoint`] | writers, readers and topics: state, waiters, turns of sending, delivery within the process | terms, base, net, host, route |
//! | [`session`] | participants: discovery, endpoints, requests for channels | terms and the layers before |
//! | [`shm`] | connections of shared memory, and the thread that takes samples from channels | terms and the layers before |
//! | [`reactor`] | the domain: participants, threads, timers, reception | terms and the layers before, but route |
//!
//! The API uses base, host, route, endpoint, session and reactor.
//!
//! # Threads
//! One set of sockets and threads per process and domain:
//! - **receive** threads for each socket that receives user data ([`reactor::shared_receiver`]). Receive threads
//!   deliver to readers, run listeners, and send acknowledgements. An application thread that waits receives in place
//!   of them;
//! - one **control** thread for discovery, for all timers and for connections ([`net::streams`]), asleep until the next
//!   deadline;
//! - one **shared-memory** thread, as long as there are channels ([`shm`]);
//! - one **publishing** thread for asynchronous writers and backlogs, started with the first of them
//!   ([`reactor::publishing`]).
//!
//! A thread that writes sends its samples itself. Samples to readers of the same process need neither sockets nor
//! threads ([`endpoint::local_delivery`]).
//!
//! # Locks
//! The lock of a participant comes before those of its endpoints; `ARCHITECTURE.md` has the whole order, and the locks
//! of each thread. No thread holds the lock of a participant or an endpoint across a system call, or any lock while
//! user code runs.

pub(crate) mod base;
pub(crate) mod endpoint;
pub(crate) mod host;
mod net;
pub(crate) mod reactor;
mod route;
pub(crate) mod session;
mod shm;
