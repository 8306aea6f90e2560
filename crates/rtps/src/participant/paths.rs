//! Selection of a peer's addresses, and of the message size for the path.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::limits::MESSAGE_BYTES_MAX;
use crate::locator::Locator;

/// An address of this host, with the properties that the selection needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalAddress {
    /// The address.
    pub ip: IpAddr,
    /// The index of its interface; 0 if irrelevant.
    pub interface: u32,
    /// Leading bits that all addresses of its network share.
    pub prefix_bits: u8,
    /// The longest IP packet of its interface, in bytes.
    pub mtu_bytes: u32,
    /// Whether it is a loopback address.
    pub is_loopback: bool,
    /// Whether this participant uses its interface.
    pub is_used: bool,
}

impl LocalAddress {
    /// Whether an address is in the network of this one, which is no loopback address.
    fn is_near(&self, locator: &Locator) -> bool {
        let is_on_link = !locator.is_link_local_v6() || locator.scope == self.interface;
        let ip = locator.to_socket_addr().map(|address| address.ip());
        !self.is_loopback && is_on_link && ip.is_some_and(|ip| same_network(self.ip, self.prefix_bits, ip))
    }
}

/// A path to a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// The address to send to; empty when no address of the peer is usable.
    pub to: Arc<[Locator]>,
    /// The largest message on the path without IP fragmentation, in bytes.
    pub max_message_bytes: usize,
}

/// The addresses of this host, and the rules for the selection of paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paths {
    addresses: Vec<LocalAddress>,
    /// A configured message size that overrides the MTU.
    message_bytes: Option<usize>,
    has_v4: bool,
    has_v6: bool,
    uses_groups: bool,
    trusts_names: bool,
    /// The kinds of locators, besides UDP, to which this participant opens connections.
    streams: Vec<i32>,
}

impl Default for Paths {
    fn default() -> Self {
        Self::new(Vec::new(), None)
    }
}

impl Paths {
    /// The paths of a host with these addresses. `message_bytes` overrides the size that follows from the MTU.
    #[must_use]
    pub const fn new(addresses: Vec<LocalAddress>, message_bytes: Option<usize>) -> Self {
        let streams = Vec::new();
        Self { addresses, message_bytes, has_v4: true, has_v6: true, uses_groups: true, trusts_names: false, streams }
    }

    /// Uses only these versions of the Internet protocol.
    #[must_use]
    pub const fn only(mut self, v4: bool, v6: bool) -> Self {
        (self.has_v4, self.has_v6) = (v4, v6);
        self
    }

    /// Whether the participant sends to the multicast groups of readers. If not, a reader without another address is
    /// unreachable.
    #[must_use]
    pub const fn with_groups(mut self, uses_groups: bool) -> Self {
        self.uses_groups = uses_groups;
        self
    }

    /// Whether the participant sends to unverified addresses, which a peer has announced and no message has come from.
    #[must_use]
    pub const fn trusting_names(mut self, trusts_names: bool) -> Self {
        self.trusts_names = trusts_names;
        self
    }

    /// The kinds of locators for connections, used when no datagrams reach a peer.
    #[must_use]
    pub fn with_streams(mut self, kinds: Vec<i32>) -> Self {
        self.streams = kinds;
        self
    }

    /// Whether the participant opens connections to locators of this kind.
    #[must_use]
    pub fn is_stream(&self, locator: &Locator) -> bool {
        self.streams.contains(&locator.kind)
    }

    /// The first of a peer's announced locators from which a message has come.
    pub(super) fn choose_stream(&self, named: &[Locator], shown: &[Locator]) -> Path {
        let may_use = |locator: &&Locator| self.trusts_names || shown.contains(locator);
        let locator = named.iter().filter(|locator| self.is_stream(locator)).find(may_use);
        let max_message_bytes = self.message_bytes.unwrap_or(MESSAGE_BYTES_MAX);
        Path { to: locator.copied().into_iter().collect(), max_message_bytes }
    }

    /// The best of a peer's verified addresses: see [`Self::is_same_host`].
    #[must_use]
    pub(super) fn choose_shown(&self, unicast: &[Locator], shown: &[IpAddr]) -> Path {
        self.choose_if(unicast, |ip| self.trusts_names || shown.iter().any(|s| self.is_same_host(*s, ip)))
    }

    /// The best of a peer's addresses: one on this host, else one in a network of this participant, else any that is
    /// not a loopback address, else a loopback address. A link-local address is usable only if its link is known.
    #[must_use]
    pub fn choose(&self, unicast: &[Locator]) -> Path {
        self.choose_if(unicast, |_| true)
    }

    fn choose_if(&self, unicast: &[Locator], may_use: impl Fn(IpAddr) -> bool) -> Path {
        let candidates = unicast.iter().filter(|l| !l.is_link_local_v6() || l.scope != 0);
        let candidates = candidates.filter_map(|l| Some((*l, l.to_socket_addr()?.ip())));
        let usable = candidates.filter(|(_, ip)| !ip.is_multicast() && self.speaks(*ip) && may_use(*ip));
        let best = usable.min_by_key(|(_, ip)| self.rank(*ip));
        match best {
            Some((locator, ip)) => Path { to: Arc::new([locator]), max_message_bytes: self.message_bytes_to(ip) },
            None => Path { to: Arc::new([]), max_message_bytes: MESSAGE_BYTES_MAX },
        }
    }

    /// The group to use among those that a reader offers.
    #[must_use]
    pub fn choose_group(&self, multicast: &[Locator]) -> Option<Locator> {
        let is_usable = |l: &&Locator| l.to_socket_addr().is_some_and(|a| a.ip().is_multicast() && self.speaks(a.ip()));
        multicast.iter().find(is_usable).copied().filter(|_| self.uses_groups)
    }

    /// Whether this participant uses the interface with this index.
    #[must_use]
    pub fn uses_interface(&self, interface: u32) -> bool {
        self.addresses.iter().any(|a| a.is_used && a.interface == interface)
    }

    /// The largest message to a multicast group, according to the smallest MTU of the used interfaces.
    #[must_use]
    pub fn multicast_message_bytes(&self) -> usize {
        let used = self.addresses.iter().filter(|a| a.is_used);
        let least = used.map(|a| payload_of(a.mtu_bytes, a.ip.is_ipv4())).min();
        self.message_bytes.unwrap_or_else(|| least.unwrap_or(MESSAGE_BYTES_MAX))
    }

    /// Whether the address belongs to this host.
    #[must_use]
    pub fn is_own(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || self.addresses.iter().any(|a| a.ip == ip)
    }

    /// Whether one of these addresses is in the network of an interface that this participant uses, or with `is_used`
    /// false, of one that it does not use.
    pub(super) fn attaches(&self, locators: &[Locator], is_used: bool) -> bool {
        self.addresses.iter().any(|a| a.is_used == is_used && locators.iter().any(|l| a.is_near(l)))
    }

    /// Whether this host has the same address in the network of one of these addresses as `former`, and used it then.
    pub(super) fn attaches_as_before(&self, former: &Self, locators: &[Locator]) -> bool {
        let is_near = |a: &&LocalAddress| a.is_used && locators.iter().any(|l| a.is_near(l));
        let now = self.addresses.iter().filter(is_near);
        now.map(|a| a.ip).any(|ip| former.addresses.iter().filter(is_near).any(|a| a.ip == ip))
    }

    /// Whether a sender at one of these addresses also has the other one: they are equal, both belong to this host, or
    /// both are in one IPv6 network, whose hosts have several addresses and send from any of them (RFC 8981).
    #[must_use]
    pub fn is_same_host(&self, a: IpAddr, b: IpAddr) -> bool {
        if a == b || (self.is_own(a) && self.is_own(b)) {
            return true;
        }
        match (a, b) {
            (IpAddr::V6(v6), IpAddr::V6(_)) => !v6.is_unicast_link_local() && same_network(a, 64, b),
            _ => false,
        }
    }

    const fn speaks(&self, ip: IpAddr) -> bool {
        if ip.is_ipv4() { self.has_v4 } else { self.has_v6 }
    }

    fn rank(&self, ip: IpAddr) -> u8 {
        if ip.is_loopback() {
            // A peer that announces only loopback addresses is on this host; a peer with further addresses may be on
            // another.
            return 4;
        }
        if self.addresses.iter().any(|a| a.ip == ip) {
            return 0;
        }
        let same_network = |a: &&LocalAddress| same_network(a.ip, a.prefix_bits, ip);
        match self.addresses.iter().filter(same_network).map(|a| a.is_used).max() {
            Some(true) => 1,
            Some(false) => 2,
            None => 3,
        }
    }

    /// The largest message that the path to this address takes without being cut into IP fragments, in bytes.
    #[must_use]
    pub fn message_bytes_to(&self, ip: IpAddr) -> usize {
        if let Some(bytes) = self.message_bytes {
            return bytes;
        }
        if self.is_own(ip) {
            return MESSAGE_BYTES_MAX;
        }
        let near = self.addresses.iter().filter(|a| same_network(a.ip, a.prefix_bits, ip)).map(|a| a.mtu_bytes).min();
        let used = self.addresses.iter().filter(|a| a.is_used && !a.is_loopback).map(|a| a.mtu_bytes).min();
        payload_of(near.or(used).unwrap_or(1500), ip.is_ipv4())
    }
}

/// The greatest UDP payload of one IP packet of this size.
fn payload_of(mtu_bytes: u32, is_v4: bool) -> usize {
    let headers = if is_v4 { 28 } else { 48 };
    (mtu_bytes as usize).saturating_sub(headers).min(MESSAGE_BYTES_MAX)
}

fn same_network(ours: IpAddr, prefix_bits: u8, theirs: IpAddr) -> bool {
    match (ours, theirs) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let host_bits = 32_u32.saturating_sub(u32::from(prefix_bits));
            (a.to_bits() ^ b.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let host_bits = 128_u32.saturating_sub(u32::from(prefix_bits));
            (a.to_bits() ^ b.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::vec;

    fn address(ip: &str, prefix_bits: u8, mtu_bytes: u32, is_used: bool) -> LocalAddress {
        let ip: IpAddr = ip.parse().unwrap();
        LocalAddress { ip, interface: 2, prefix_bits, mtu_bytes, is_loopback: ip.is_loopback(), is_used }
    }

    fn paths() -> Paths {
        let addresses = vec![
            address("127.0.0.1", 8, 65536, false),
            address("10.0.0.5", 24, 1500, true),
            address("192.168.7.1", 24, 9000, false),
        ];
        Paths::new(addresses, None)
    }

    fn locators(texts: &[&str]) -> Vec<Locator> {
        texts.iter().map(|t| Locator::from(t.parse::<SocketAddr>().unwrap())).collect()
    }

    #[test]
    fn nearest_address_is_chosen() {
        let chosen = |texts: &[&str]| {
            let path = paths().choose(&locators(texts));
            (path.to.first().and_then(|l| l.to_socket_addr()).map(|a| a.ip()), path.max_message_bytes)
        };
        let ip = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        assert_eq!(chosen(&["172.16.0.1:1", "10.0.0.9:1"]), (ip("10.0.0.9"), 1472));
        assert_eq!(chosen(&["10.0.0.9:1", "10.0.0.5:1"]), (ip("10.0.0.5"), MESSAGE_BYTES_MAX));
        assert_eq!(chosen(&["127.0.0.1:1", "10.0.0.9:1"]), (ip("10.0.0.9"), 1472));
        assert_eq!(chosen(&["127.0.0.1:1"]), (ip("127.0.0.1"), MESSAGE_BYTES_MAX));
        assert_eq!(chosen(&["192.168.7.9:1", "172.16.0.1:1"]), (ip("192.168.7.9"), 8972));
        assert_eq!(chosen(&["[fd00::1]:1"]), (ip("fd00::1"), 1452));
        assert_eq!(chosen(&["[fe80::1]:1"]), (None, MESSAGE_BYTES_MAX), "the link of the address is unknown");
        assert_eq!(chosen(&["[fe80::1%2]:1"]), (ip("fe80::1"), 1452));
        assert_eq!(chosen(&["239.255.0.1:1"]), (None, MESSAGE_BYTES_MAX));
    }

    #[test]
    fn locator_of_other_kind_is_not_chosen() {
        let both = locators(&["10.0.0.9:1", "[fd00::9]:1"]);
        assert_eq!(&*paths().choose(&both).to, &both[..1], "one way, never both");
        assert_eq!(&*paths().only(false, true).choose(&both).to, &both[1..]);
        assert_eq!(&*paths().only(true, false).choose(&both[1..]).to, &[]);
        let groups = locators(&["10.0.0.9:1", "239.255.1.1:1", "[ff02::1:1]:1"]);
        assert_eq!(paths().choose_group(&groups), Some(groups[1]));
        assert_eq!(paths().only(false, true).choose_group(&groups), Some(groups[2]));
        assert_eq!(paths().choose_group(&groups[..1]), None);
        assert_eq!(paths().with_groups(false).choose_group(&groups), None);
    }

    #[test]
    fn configured_message_size_overrides_mtu() {
        let paths = Paths::new(vec![address("10.0.0.5", 24, 1500, true)], Some(65_507));
        assert_eq!(paths.choose(&locators(&["10.0.0.9:1"])).max_message_bytes, 65_507);
        assert_eq!(paths.multicast_message_bytes(), 65_507);
    }
}
