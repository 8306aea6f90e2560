//! Moves bytes in and out of the process. Does not depend on RTPS.
//!
//! | module | content |
//! |---|---|
//! | [`udp`] | sockets: many datagrams per system call, segmentation offload both ways, counters |
//! | [`shm`] | samples that other processes of the host read in place, in sealed shared memory (Linux) |
//! | [`interface`] | the network interfaces of this host, which of them to use, and when they change |
//! | [`event`] | waiting on several descriptors until a deadline; a waker and a timer any thread may use |
//! | [`clock`] | monotonic and real time in nanoseconds |
//! | [`thread`] | names, CPU affinity, scheduling, locked memory, CPU idle latency |
//! | `floor` | the least cost of shared memory, for comparison; Linux only |
//! | [`random`] | unpredictable bytes from the operating system |
//! | `simulation` | a simulated operating system, with the feature of that name |
//!
//! Nearly all `unsafe` code of the project is here: other crates reach the operating system only through the safe
//! functions of this crate. Linux is the development and test platform for all modules. Other Unixes get [`udp`],
//! [`interface`] and [`event`] with the same interface, over plain `sendmsg`, `recvmsg` and `poll`.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(unix))]
compile_error!("peregrine-transport needs a Unix");

pub mod clock;
#[cfg(all(target_os = "linux", feature = "simulation"))]
mod descriptors;
pub mod event;
#[cfg(target_os = "linux")]
pub mod floor;
pub mod interface;
pub mod random;
#[cfg(target_os = "linux")]
pub mod shm;
#[cfg(all(target_os = "linux", feature = "simulation"))]
pub mod simulation;
mod sys;
pub mod thread;
pub mod udp;
