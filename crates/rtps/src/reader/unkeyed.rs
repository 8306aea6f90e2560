//! Samples whose instance is not known yet.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::proxy::OutOfOrderSample;
use crate::id::{Guid, KeyHash};
use crate::seq::SequenceNumber;

/// Samples that wait for their instance, or for room in the cache, in order.
#[derive(Debug, Default)]
pub(super) struct Unkeyed {
    pub(super) samples: VecDeque<UnkeyedSample>,
    /// The number of samples with [`Key::Unknown`].
    pub(super) unknown: usize,
    pub(super) bytes: usize,
    /// Writers to be removed after their last sample.
    pub(super) departing: Vec<Guid>,
}

#[derive(Debug)]
pub(super) struct UnkeyedSample {
    pub(super) writer: Guid,
    pub(super) number: SequenceNumber,
    pub(super) sample: OutOfOrderSample,
    pub(super) key: Key,
    /// The serialized key, for a cache that keeps it.
    pub(super) serialized_key: Option<Vec<u8>>,
}

/// The state of the instance of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Unknown,
    /// The caller computes it.
    Requested,
    Known(KeyHash),
    /// The caller cannot compute it.
    Missing,
}
