//! Where a participant can be reached, and what follows when that changes.

use alloc::vec::Vec;

use crate::locator::Locator;

use super::paths::Paths;

/// Where a participant can be reached, and how it reaches others. It follows the interfaces of the host.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Addresses {
    /// Where discovery reaches it.
    pub metatraffic_unicast: Vec<Locator>,
    /// The groups it listens to for discovery, and announces itself to; empty without multicast.
    pub metatraffic_multicast: Vec<Locator>,
    /// Where user data reaches it.
    pub default_unicast: Vec<Locator>,
    /// The groups at which user data reaches those of its readers that name no address of their own.
    pub default_multicast: Vec<Locator>,
    /// Where it listens for connections: at most one for each kind of stream.
    pub streams: Vec<Locator>,
    /// Addresses to announce itself to besides the groups.
    pub initial_peers: Vec<Locator>,
    /// The ways out of this host.
    pub paths: Paths,
}
