//! The network interfaces of this host, which of them to use, and when they change.

mod list;
#[cfg(target_os = "linux")]
mod neighbours;
#[cfg(not(target_os = "linux"))]
#[path = "neighbours_portable.rs"]
mod neighbours;
mod select;
#[cfg(target_os = "linux")]
mod watch;
#[cfg(not(target_os = "linux"))]
#[path = "watch_portable.rs"]
mod watch;

pub use list::list;
pub use neighbours::{next_hop, unresolved_neighbours};
pub use select::{NoInterface, Selection, select};
pub use watch::InterfaceWatcher;

use std::net::IpAddr;

/// The system's number of an interface; never zero for an existing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceIndex(pub u32);

/// A host on a network of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// The interface that leads to the network.
    pub interface: InterfaceIndex,
}

/// An address of an interface, with the length of its network prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Leading bits that all addresses of the same network share: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub prefix_bits: u8,
}

impl InterfaceAddress {
    /// Whether `other` is in the same network, so that no router is in between.
    #[must_use]
    pub fn same_network(&self, other: IpAddr) -> bool {
        let (ours, theirs, width) = match (self.ip, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128_u32),
            _ => return false,
        };
        let host_bits = width.saturating_sub(self.prefix_bits.into());
        (ours ^ theirs).checked_shr(host_bits).unwrap_or(0) == 0
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name, such as `eth0`.
    pub name: String,
    /// Number.
    pub index: InterfaceIndex,
    /// Addresses, in the system's order.
    pub addresses: Vec<InterfaceAddress>,
    /// MTU: the longest IP packet that the interface carries, in bytes; 0 if the system does not report it.
    pub mtu_bytes: u32,
    /// State and abilities.
    pub flags: InterfaceFlags,
    /// Whether a default route uses this interface.
    pub default_route: bool,
}

/// State and abilities of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceFlags {
    /// Switched on (`IFF_UP`).
    pub up: bool,
    /// Connected (`IFF_RUNNING`): there is a carrier.
    pub running: bool,
    /// Carries multicast (`IFF_MULTICAST`).
    pub multicast: bool,
    /// Loops back to this host (`IFF_LOOPBACK`).
    pub loopback: bool,
    /// Has a single peer (`IFF_POINTOPOINT`), as tunnels do.
    pub point_to_point: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_compared_by_their_prefix() {
        let address = |ip: &str, prefix_bits| InterfaceAddress { ip: ip.parse().unwrap(), prefix_bits };
        let ip = |text: &str| text.parse().unwrap();
        assert!(address("192.0.2.1", 24).same_network(ip("192.0.2.254")));
        assert!(!address("192.0.2.1", 24).same_network(ip("192.0.3.1")));
        assert!(address("192.0.2.1", 0).same_network(ip("10.0.0.1")));
        assert!(!address("192.0.2.1", 32).same_network(ip("192.0.2.2")));
        assert!(address("fe80::1", 64).same_network(ip("fe80::ffff")));
        assert!(!address("fe80::1", 128).same_network(ip("fe80::ffff")));
        assert!(!address("::1", 0).same_network(ip("192.0.2.1")));
    }
}
