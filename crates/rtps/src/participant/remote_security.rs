//! The state of a remote participant that only a participant with a gate keeps.

use alloc::collections::BTreeSet;

use super::gate::Admission;
use super::pair_keys::PairKeys;
use crate::id::EntityId;

/// The admission of a remote participant, its keys, and which of its endpoints it has announced protected.
#[derive(Debug)]
pub(super) struct RemoteSecurity {
    pub(super) admission: Admission,
    pub(super) keys: PairKeys,
    /// The endpoints that the secure endpoints of discovery have announced: unprotected announcements cannot change
    /// them.
    pub(super) secure: BTreeSet<EntityId>,
}

impl RemoteSecurity {
    pub(super) fn new(admission: Admission) -> Self {
        Self { admission, keys: PairKeys::default(), secure: BTreeSet::new() }
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.admission == Admission::Authenticated
    }

    /// Begins anew: the participant is not the one that it was, or has forgotten everything.
    pub(super) fn begin(&mut self) {
        self.keys.clear();
        self.secure.clear();
    }

    /// A remote endpoint is gone.
    pub(super) fn forget(&mut self, entity: EntityId) {
        self.keys.forget_remote(entity);
        self.secure.remove(&entity);
    }
}
