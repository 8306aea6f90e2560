//! How samples reach readers without messages: endpoints of this process, and shared memory.
//!
//! The parts that endpoints own. What delivers to endpoints is in [`endpoint`](super::endpoint) and [`shm`](super::shm).

pub(in crate::driver) mod local_writers;
pub(in crate::driver) mod registry;
pub(in crate::driver) mod shm;
