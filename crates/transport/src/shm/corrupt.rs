//! Violations of the protocol that a process finds in the pages of a peer.

use std::fmt;

/// The peer process has written a value that no working peer writes; nothing from that peer is used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Corrupt(pub(super) &'static str);

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
