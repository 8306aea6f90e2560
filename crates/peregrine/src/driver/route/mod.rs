//! How samples reach readers without messages: endpoints of this process, and shared memory.
//!
<<<<<<< HEAD
//! This layer has the parts that endpoints own. Delivery to endpoints is in [`endpoint`](super::endpoint) and
//! [`shm`](super::shm).
=======
//! This layer holds the parts that endpoints own. The code that gives samples to readers knows the endpoints: it is in
//! [`endpoint`](super::endpoint) and [`shm`](super::shm).
>>>>>>> layers

pub(in crate::driver) mod local_writers;
pub(in crate::driver) mod registry;
pub(in crate::driver) mod shm;
