//! Where participants come from, as far as that distinguishes one host from another.

use core::net::{IpAddr, Ipv4Addr};

use crate::locator::{Locator, Source};

/// Where a participant was first heard from. The addresses of an IPv6 network count as one, because every host there
/// has as many as it wants.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Origin {
    V4(Ipv4Addr),
    V6Network([u8; 8]),
    Stream(Locator),
}

impl Origin {
    pub(super) fn of(source: Source) -> Self {
        match source {
            Source::Datagram(address) => match address.ip().to_canonical() {
                IpAddr::V4(v4) => Self::V4(v4),
                IpAddr::V6(v6) => {
                    let [a, b, c, d, e, f, g, h, host @ ..] = v6.octets();
                    let is_link_local = v6.is_unicast_link_local();
                    Self::V6Network(if is_link_local { host } else { [a, b, c, d, e, f, g, h] })
                }
            },
            // Each connection of a host has another port.
            Source::Stream(locator) => Self::Stream(Locator { port: 0, ..locator }),
        }
    }

    /// The host at this address.
    pub(super) fn of_locator(locator: &Locator) -> Self {
        let source = locator.to_socket_addr().map_or(Source::Stream(*locator), Source::Datagram);
        Self::of(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: &str) -> Origin {
        Origin::of(Source::Datagram(address.parse().unwrap()))
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_origin() {
        assert_eq!(of("[fd00::1]:1"), of("[fd00::2]:2"));
        assert_ne!(of("[fd00::1]:1"), of("[fd00:0:0:1::1]:1"));
        assert_ne!(of("[fe80::1%2]:1"), of("[fe80::2%2]:1"), "a link has many hosts");
    }

    #[test]
    fn ipv4_addresses_are_different_origins() {
        assert_eq!(of("10.0.0.1:1"), of("10.0.0.1:2"));
        assert_eq!(of("10.0.0.1:1"), of("[::ffff:10.0.0.1]:1"));
        assert_ne!(of("10.0.0.1:1"), of("10.0.0.2:1"));
    }
}
