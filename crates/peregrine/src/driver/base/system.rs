//! The types of the standard library and of the operating system by which the driver's threads share state, sleep and
//! wake each other. The loom models (`tests/models`) compile the driver's files with another file in place of this
//! one.

pub(in crate::driver) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
pub(in crate::driver) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
pub(in crate::driver) use std::thread::{Thread, current as current_thread};
pub(in crate::driver) use std::thread_local;

pub(in crate::driver) use peregrine_transport::event::{Poller, Timer, Waker};
pub(in crate::driver) use peregrine_transport::thread::{park_until, wait_for};
pub(in crate::driver) use peregrine_transport::udp::{Datagrams, Receiver, Socket};
