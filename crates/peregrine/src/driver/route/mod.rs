//! Routes of samples to readers without messages: within this process, and by shared memory.
//!
//! This layer has the parts that endpoints own. The code that delivers samples to readers knows the endpoints, and
//! therefore is in [`endpoint`](super::endpoint) and [`shm`](super::shm).

pub(in crate::driver) mod local_writers;
pub(in crate::driver) mod registry;
pub(in crate::driver) mod shm;
