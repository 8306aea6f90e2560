//! The endpoints of a participant, as discovery knows them.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::discovery::data::{PublicationData, SubscriptionData};
use crate::id::Guid;

/// Stands for the reason of a refusal that was told. The reason itself is as long as a peer likes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReasonHash(pub(super) u64);

/// A writer of this participant, as far as discovery needs to know.
#[derive(Debug)]
pub(super) struct LocalWriter {
    pub(super) data: PublicationData,
    pub(super) matched: BTreeSet<Guid>,
    pub(super) refused: BTreeMap<Guid, ReasonHash>,
}

/// A reader of this participant, as far as discovery needs to know.
#[derive(Debug)]
pub(super) struct LocalReader {
    pub(super) data: SubscriptionData,
    pub(super) matched: BTreeSet<Guid>,
    pub(super) refused: BTreeMap<Guid, ReasonHash>,
}
