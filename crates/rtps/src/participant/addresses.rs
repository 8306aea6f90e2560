//! The addresses of a participant, and changes of them.

use alloc::vec::Vec;

use crate::locator::Locator;

use super::paths::Paths;

/// The addresses of a participant and its paths to others, as the interfaces of the host allow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Addresses {
    /// The addresses for discovery.
    pub metatraffic_unicast: Vec<Locator>,
    /// The multicast groups for discovery, to which the participant listens and announces itself; empty without
    /// multicast.
    pub metatraffic_multicast: Vec<Locator>,
    /// The addresses for user data.
    pub default_unicast: Vec<Locator>,
    /// The multicast groups for user data, for readers without addresses of their own.
    pub default_multicast: Vec<Locator>,
    /// The addresses at which the participant accepts connections: at most one for each kind of stream.
    pub streams: Vec<Locator>,
    /// Further addresses to which the participant announces itself.
    pub initial_peers: Vec<Locator>,
    /// The paths from this host.
    pub paths: Paths,
}
