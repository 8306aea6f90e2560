//! The interface to `rtps`: how endpoints seal and open with the keys of a session.

use std::sync::Arc;

use peregrine_rtps::protection::Protection;

use super::state::Session;
use crate::crypto::PreSharedKeys;

impl Session {
    /// Seals and opens with the keys of this session, on any number of threads.
    #[must_use]
    pub fn protection(&self) -> Arc<dyn Protection> {
        Arc::clone(&self.protection)
    }

    /// The keys for messages that no key of a participant protects; `None` if the governance requires none.
    #[must_use]
    pub const fn pre_shared_keys(&self) -> Option<&Arc<PreSharedKeys>> {
        self.pre_shared.as_ref()
    }
}
