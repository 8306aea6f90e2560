//! The channels of one writer in shared memory, and the entries in them.

pub(in crate::driver) mod attachment;
pub(in crate::driver) mod metadata;
pub(in crate::driver) mod outgoing;
