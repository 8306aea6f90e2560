//! Moves bytes in and out of the process. Knows nothing of RTPS.
//!
//! | module | what it is |
//! |---|---|
//! | [`udp`] | sockets: many datagrams per system call, segmentation offload both ways, counters |
//! | [`shm`] | samples handed to other processes of the host in place, over sealed shared memory (Linux) |
//! | [`interface`] | the network interfaces of this host, which of them to use, and when they change |
//! | [`event`] | waiting on several descriptors until a deadline; a waker and a timer any thread may use |
//! | [`clock`] | monotonic and real time in nanoseconds |
//! | [`thread`] | names, CPU affinity, scheduling, locked memory, CPU idle latency |
//! | `floor` | what shared memory costs at least, to measure against; Linux only |
//! | [`random`] | unpredictable bytes from the operating system |
//!
//! Nearly all `unsafe` code of the project lives here: the safe functions of this crate are the only way from the
//! other crates to the operating system. Linux is the platform all of it is made and tested for; other Unixes get the
//! same [`udp`], [`interface`] and [`event`] faces over plain `sendmsg`, `recvmsg` and `poll`.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic))]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(unix))]
compile_error!("peregrine-transport needs a Unix");

pub mod clock;
pub mod event;
#[cfg(target_os = "linux")]
pub mod floor;
pub mod interface;
pub mod random;
#[cfg(target_os = "linux")]
pub mod shm;
mod sys;
pub mod thread;
pub mod udp;
