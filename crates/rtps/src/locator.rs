//! Locators and the port numbers of the standard (RTPS 2.5 §9.3.2.4, §9.6.2).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::id::DomainId;

/// A transport address as on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locator {
    /// The transport: [`Locator::UDP_V4`], [`Locator::UDP_V6`], or another one, such as a stream.
    pub kind: i32,
    /// The port.
    pub port: u32,
    /// The address; IPv4 in the last four bytes.
    pub address: [u8; 16],
    /// For a link-local IPv6 address: the index of the interface of its link, 0 while unknown. The index is local to
    /// this host, so it is not sent.
    pub scope: u32,
}

impl Locator {
    /// Length on the wire in bytes.
    pub const LEN: usize = 24;
    /// UDP over IPv4.
    pub const UDP_V4: i32 = 1;
    /// UDP over IPv6.
    pub const UDP_V6: i32 = 2;
    /// No address.
    pub const INVALID: Self = Self { kind: -1, port: 0, address: [0; 16], scope: 0 };

    /// The UDP socket address, if this is a UDP locator with a usable port and a specified address.
    #[must_use]
    pub fn to_socket_addr(self) -> Option<SocketAddr> {
        let port = u16::try_from(self.port).ok().filter(|&p| p != 0)?;
        let address = match self.kind {
            Self::UDP_V4 => {
                let [.., a, b, c, d] = self.address;
                SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port)
            }
            Self::UDP_V6 => SocketAddrV6::new(Ipv6Addr::from(self.address), port, 0, self.scope).into(),
            _ => return None,
        };
        (!address.ip().is_unspecified()).then_some(address)
    }

    /// Whether this is a locator of a transport other than UDP.
    #[must_use]
    pub const fn is_of_other_transport(self) -> bool {
        self.kind > 0 && self.kind != Self::UDP_V4 && self.kind != Self::UDP_V6
    }

    /// Whether datagrams to this locator may reach several receivers.
    #[must_use]
    pub fn is_multicast(self) -> bool {
        self.to_socket_addr().is_some_and(|a| a.ip().is_multicast())
    }

    /// Whether the address is valid on one link only (RFC 4291 §2.5.6).
    #[must_use]
    pub const fn is_link_local_v6(self) -> bool {
        let [first, second, ..] = self.address;
        self.kind == Self::UDP_V6 && first == 0xfe && second & 0xc0 == 0x80
    }

    /// Whether this is an address of UDP that reaches only its own host.
    #[must_use]
    pub fn is_loopback(self) -> bool {
        self.to_socket_addr().is_some_and(|address| address.ip().is_loopback())
    }
}

impl From<SocketAddr> for Locator {
    fn from(address: SocketAddr) -> Self {
        let port = u32::from(address.port());
        match address {
            SocketAddr::V4(v4) => {
                let [a, b, c, d] = v4.ip().octets();
                let address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d];
                Self { kind: Self::UDP_V4, port, address, scope: 0 }
            }
            SocketAddr::V6(v6) => {
                let unscoped = Self { kind: Self::UDP_V6, port, address: v6.ip().octets(), scope: 0 };
                Self { scope: if unscoped.is_link_local_v6() { v6.scope_id() } else { 0 }, ..unscoped }
            }
        }
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_socket_addr() {
            Some(address) => write!(f, "udp/{address}"),
            None => write!(f, "kind {:#x} port {}", self.kind, self.port),
        }
    }
}

impl fmt::Debug for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The origin of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The address of a socket that sends datagrams.
    Datagram(SocketAddr),
    /// The connection to the peer that listens at this locator.
    Stream(Locator),
}

impl From<SocketAddr> for Source {
    fn from(address: SocketAddr) -> Self {
        Self::Datagram(address)
    }
}

/// The multicast group of the standard for discovery over IPv4 (RTPS 2.5 §9.6.2.4.1).
pub const SPDP_MULTICAST_V4: Ipv4Addr = Ipv4Addr::new(239, 255, 0, 1);
/// The group used by convention for discovery over IPv6: link-local scope, the IPv4 group in the last bytes.
pub const SPDP_MULTICAST_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0xffff, 0xefff, 0x0001);

/// The largest domain id for which every port of the standard mapping fits into 16 bits.
pub const DOMAIN_ID_MAX: u32 = 232;

/// The well-known ports of a domain (RTPS 2.5 §9.6.2). `None` where the formula exceeds 16 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ports {
    domain: DomainId,
}

impl Ports {
    /// The ports of this domain.
    #[must_use]
    pub const fn of(domain: DomainId) -> Self {
        Self { domain }
    }

    /// Discovery traffic to the multicast group.
    #[must_use]
    pub fn metatraffic_multicast(self) -> Option<u16> {
        self.at(0)
    }

    /// User traffic to multicast groups.
    #[must_use]
    pub fn user_multicast(self) -> Option<u16> {
        self.at(1)
    }

    /// Discovery traffic to one participant.
    #[must_use]
    pub fn metatraffic_unicast(self, participant_index: u32) -> Option<u16> {
        self.at(participant_index.checked_mul(2)?.checked_add(10)?)
    }

    /// User traffic to one participant.
    #[must_use]
    pub fn user_unicast(self, participant_index: u32) -> Option<u16> {
        self.at(participant_index.checked_mul(2)?.checked_add(11)?)
    }

    fn at(self, offset: u32) -> Option<u16> {
        let port = self.domain.0.checked_mul(250)?.checked_add(7400)?.checked_add(offset)?;
        u16::try_from(port).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn ports_equal_standard_formula() {
        let ports = Ports::of(DomainId(187));
        assert_eq!(ports.metatraffic_multicast(), Some(54150));
        assert_eq!(ports.metatraffic_unicast(0), Some(54160));
        assert_eq!(ports.user_unicast(1), Some(54163));
        assert!(Ports::of(DomainId(DOMAIN_ID_MAX)).user_unicast(59).is_some());
        assert_eq!(Ports::of(DomainId(233)).metatraffic_multicast(), None);
        assert_eq!(Ports::of(DomainId(u32::MAX)).user_unicast(u32::MAX), None);
    }

    #[test]
    fn socket_addresses_round_trip() {
        for text in ["10.1.2.3:7410", "[fe80::1]:7411", "239.255.0.1:7400"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Locator::from(address).to_socket_addr(), Some(address));
        }
        let scoped = SocketAddr::V6(SocketAddrV6::new("fe80::1".parse().unwrap(), 7411, 0, 3));
        assert_eq!(Locator::from(scoped).to_socket_addr(), Some(scoped));
        assert!(Locator::from(scoped).is_link_local_v6());
        let global = SocketAddr::V6(SocketAddrV6::new("fd00::1".parse().unwrap(), 7411, 0, 3));
        assert_eq!(Locator::from(global).scope, 0, "a global address needs no interface");
        assert!(Locator::from("239.255.0.1:1".parse::<SocketAddr>().unwrap()).is_multicast());
        assert_eq!(Locator::from("10.1.2.3:7410".parse::<SocketAddr>().unwrap()).to_string(), "udp/10.1.2.3:7410");
    }

    #[test]
    fn unusable_locators_have_no_socket_address() {
        let good = Locator::from("10.1.2.3:7410".parse::<SocketAddr>().unwrap());
        assert_eq!(Locator { port: 0, ..good }.to_socket_addr(), None);
        assert_eq!(Locator { port: 65536, ..good }.to_socket_addr(), None);
        assert_eq!(Locator { kind: 16, ..good }.to_socket_addr(), None);
        assert_eq!(Locator { address: [0; 16], ..good }.to_socket_addr(), None);
    }
}
