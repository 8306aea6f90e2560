//! The types of the standard library and of the operating system by which the driver's threads share state, sleep and
//! wake each other. The loom models (`tests/models`) compile the driver's files with another file in place of this
//! one.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
pub(super) use std::thread::{Thread, current as current_thread};
pub(super) use std::thread_local;

pub(super) use peregrine_transport::event::{Poller, Timer, Waker};
pub(super) use peregrine_transport::thread::{park_until, wait_for};
pub(super) use peregrine_transport::udp::{Datagrams, Receiver, Socket};
