//! The local endpoints, with the data that discovery needs.

use alloc::collections::{BTreeMap, BTreeSet};

use super::matches::Matches;
use crate::discovery::data::{PublicationData, SubscriptionData};
use crate::id::Guid;

/// The hash of a reported reason for a mismatch. The reason itself has a length that the peer chooses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReasonHash(pub(super) u64);

/// A local writer, with the data that discovery needs.
#[derive(Debug)]
pub(super) struct LocalWriter {
    pub(super) data: PublicationData,
    pub(super) matched: Matches,
    pub(super) refused: BTreeMap<Guid, ReasonHash>,
    /// Compatible endpoints that have no place among the matched ones: see [`super::match_places`].
    pub(super) waiting: BTreeSet<Guid>,
}

/// A local reader, with the data that discovery needs.
#[derive(Debug)]
pub(super) struct LocalReader {
    pub(super) data: SubscriptionData,
    pub(super) matched: Matches,
    pub(super) refused: BTreeMap<Guid, ReasonHash>,
    /// Compatible endpoints that have no place among the matched ones: see [`super::match_places`].
    pub(super) waiting: BTreeSet<Guid>,
}
