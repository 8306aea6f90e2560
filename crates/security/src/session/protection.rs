//! The interface to `rtps`: how endpoints seal and open with the keys of a session.

use std::sync::Arc;

use super::state::Session;
use crate::crypto::Cryptography;

impl Session {
    /// Seals and opens with the keys of this session, on any number of threads.
    #[must_use]
    pub fn protection(&self) -> Arc<Cryptography> {
        Arc::clone(&self.cryptography)
    }
}
