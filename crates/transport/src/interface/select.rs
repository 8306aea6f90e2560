//! Selects interfaces: a pure function of the interfaces and of the selection.

use super::Interface;
use std::fmt;
use std::net::IpAddr;

/// Which interfaces to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The real networks of the host.
    ///
    /// Of the interfaces that are up, running, multicast-capable and have an address: all ordinary ones; if there is
    /// none, virtual Ethernet pairs, which are how a network namespace is reached; if there is none, loopback. Bridges
    /// of containers and virtual machines, tunnels and VPNs are only used when named. Interfaces with a default route
    /// come first.
    #[default]
    Default,
    /// The named interfaces that exist, of any kind, in this order. Each pattern is a name or an address, in which `*`
    /// stands for any characters.
    Only(Vec<String>),
}

/// No interface matches the selection. The text lists the existing ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoInterface {
    /// The pattern that matches no interface; `None` if no interface is usable at all.
    pub pattern: Option<String>,
    /// Names of the existing interfaces.
    pub present: Vec<String>,
}

impl fmt::Display for NoInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Some(pattern) => write!(f, "no usable network interface has the name or address \"{pattern}\"")?,
            None => f.write_str("no network interface is up and has an address, not even loopback")?,
        }
        write!(f, "; present: {}", self.present.join(", "))
    }
}

impl std::error::Error for NoInterface {}

/// Selects interfaces of `all`.
///
/// # Errors
/// [`NoInterface`] if no selected interface is up and has an address. Some named ones may be missing: see
/// [`Selection::unmatched`].
pub fn select<'a>(all: &'a [Interface], selection: &Selection) -> Result<Vec<&'a Interface>, NoInterface> {
    let missing = |pattern: Option<&String>| NoInterface {
        pattern: pattern.cloned(),
        present: all.iter().map(|interface| interface.name.clone()).collect(),
    };
    let chosen = match selection {
        Selection::Default => select_default(all),
        Selection::Only(patterns) => {
            let mut chosen: Vec<&Interface> = Vec::new();
            for pattern in patterns {
                let matching = all.iter().filter(|i| usable(i) && is_called(i, pattern));
                let news: Vec<_> = matching.filter(|new| chosen.iter().all(|old| old.index != new.index)).collect();
                chosen.extend(news);
            }
            chosen
        }
    };
    if chosen.is_empty() { Err(missing(selection.unmatched(all).first().copied())) } else { Ok(chosen) }
}

impl Selection {
    /// The patterns that match no interface which is up and has an address.
    #[must_use]
    pub fn unmatched<'s>(&'s self, all: &[Interface]) -> Vec<&'s String> {
        let Self::Only(patterns) = self else { return Vec::new() };
        patterns.iter().filter(|pattern| !all.iter().any(|i| usable(i) && is_called(i, pattern))).collect()
    }
}

fn select_default(all: &[Interface]) -> Vec<&Interface> {
    for wanted in [Kind::Ordinary, Kind::VirtualPair, Kind::Loopback] {
        let fits = |interface: &&Interface| {
            let kind = kind_of(interface);
            let multicast = interface.flags.multicast || kind == Kind::Loopback;
            kind == wanted && usable(interface) && interface.flags.running && multicast
        };
        let mut chosen: Vec<_> = all.iter().filter(fits).collect();
        if !chosen.is_empty() {
            chosen.sort_by_key(|interface| (!interface.default_route, interface.index));
            return chosen;
        }
    }
    Vec::new()
}

fn usable(interface: &Interface) -> bool {
    interface.flags.up && !interface.addresses.is_empty()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ordinary,
    /// One end of a pair that joins two network namespaces.
    VirtualPair,
    Loopback,
    /// A bridge of containers or virtual machines, a tunnel, or a VPN, which does not reach the hosts of the network.
    Private,
}

/// Bridges and tunnels of the usual tools, by their name prefixes.
const PRIVATE_PREFIXES: [&str; 21] = [
    "br-",
    "cali",
    "cilium",
    "cni",
    "docker",
    "flannel",
    "gre",
    "ipip",
    "lxcbr",
    "lxdbr",
    "podman",
    "ppp",
    "sit",
    "tailscale",
    "tap",
    "tun",
    "utun",
    "virbr",
    "vmnet",
    "wg",
    "zt",
];

fn kind_of(interface: &Interface) -> Kind {
    let name = interface.name.as_str();
    if interface.flags.loopback {
        Kind::Loopback
    } else if interface.flags.point_to_point || PRIVATE_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        Kind::Private
    } else if name.starts_with("veth") {
        Kind::VirtualPair
    } else {
        Kind::Ordinary
    }
}

fn is_called(interface: &Interface, pattern: &str) -> bool {
    let by_value = |ip: IpAddr| pattern.parse::<IpAddr>().is_ok_and(|wanted| wanted == ip);
    let by_text = |ip: IpAddr| matches(pattern.as_bytes(), ip.to_string().as_bytes());
    matches(pattern.as_bytes(), interface.name.as_bytes())
        || interface.addresses.iter().any(|address| by_value(address.ip) || by_text(address.ip))
}

/// Whether `text` is `pattern`, in which `*` stands for any bytes.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to resume after the last `*` has been made one byte longer.
    let mut resume = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            resume = Some((p, t));
        } else if pattern.get(p) == text.get(t) {
            p += 1;
            t += 1;
        } else if let Some((after_star, start)) = resume {
            resume = Some((after_star, start + 1));
            (p, t) = (after_star, start + 1);
        } else {
            return false;
        }
    }
    pattern.iter().skip(p).all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::super::{InterfaceAddress, InterfaceFlags, InterfaceIndex};
    use super::*;

    fn interface(index: u32, name: &str, ip: &str) -> Interface {
        let flags = InterfaceFlags { up: true, running: true, multicast: true, ..Default::default() };
        let address = |ip: &str| InterfaceAddress { ip: ip.parse().unwrap(), prefix_bits: 24 };
        Interface {
            name: name.to_owned(),
            index: InterfaceIndex(index),
            addresses: ip.split_whitespace().map(address).collect(),
            mtu_bytes: 1500,
            flags,
            default_route: false,
        }
    }

    fn loopback() -> Interface {
        let mut lo = interface(1, "lo", "127.0.0.1 ::1");
        lo.flags = InterfaceFlags { up: true, running: true, loopback: true, ..Default::default() };
        lo
    }

    fn names<'a>(all: &'a [Interface], selection: &Selection) -> Vec<&'a str> {
        select(all, selection).unwrap().iter().map(|interface| interface.name.as_str()).collect()
    }

    #[test]
    fn ordinary_interfaces_are_selected_with_default_route_first() {
        let mut wlan = interface(3, "wlan0", "192.0.2.7");
        wlan.default_route = true;
        let all = [loopback(), interface(2, "eth0", "10.0.0.1"), wlan, interface(4, "docker0", "172.17.0.1")];
        assert_eq!(names(&all, &Selection::Default), ["wlan0", "eth0"]);
    }

    #[test]
    fn private_interfaces_are_not_selected_by_default() {
        let mut vpn = interface(9, "corp", "10.9.0.1");
        vpn.flags.point_to_point = true;
        vpn.default_route = true;
        for name in ["docker0", "br-0123456789ab", "virbr0", "wg0", "tun0", "tap1", "zt7nnig26", "tailscale0"] {
            let all = [loopback(), interface(2, name, "10.1.0.1"), vpn.clone()];
            assert_eq!(names(&all, &Selection::Default), ["lo"], "{name}");
        }
    }

    #[test]
    fn bridges_and_bonds_without_private_prefix_are_selected() {
        let all = [loopback(), interface(2, "br0", "10.0.0.1"), interface(3, "bond0", "10.0.1.1")];
        assert_eq!(names(&all, &Selection::Default), ["br0", "bond0"]);
    }

    #[test]
    fn virtual_pair_ranks_between_loopback_and_network() {
        let pair = interface(2, "veth1", "10.0.0.1");
        assert_eq!(names(&[loopback(), pair.clone()], &Selection::Default), ["veth1"]);
        assert_eq!(names(&[loopback(), pair, interface(3, "eth0", "10.0.1.1")], &Selection::Default), ["eth0"]);
    }

    #[test]
    fn unusable_interfaces_are_not_selected() {
        let mut all = [
            loopback(),
            interface(2, "eth0", "10.0.0.1"),
            interface(3, "eth1", "10.0.1.1"),
            interface(4, "eth2", "10.0.2.1"),
            interface(5, "eth3", ""),
            interface(6, "eth4", "10.0.4.1"),
        ];
        all[1].flags.up = false;
        all[2].flags.running = false;
        all[3].flags.multicast = false;
        assert_eq!(names(&all, &Selection::Default), ["eth4"]);
        assert_eq!(names(&all[..5], &Selection::Default), ["lo"]);
    }

    #[test]
    fn named_interfaces_are_selected_in_order_of_patterns() {
        let all = [
            loopback(),
            interface(2, "eth0", "10.0.0.1 fe80::1"),
            interface(3, "eth1", "192.168.7.1"),
            interface(4, "docker0", "172.17.0.1"),
        ];
        let only = |patterns: &[&str]| Selection::Only(patterns.iter().map(|&p| p.to_owned()).collect());
        assert_eq!(names(&all, &only(&["docker0"])), ["docker0"], "a named interface of any kind is used");
        assert_eq!(names(&all, &only(&["192.168.7.1", "lo"])), ["eth1", "lo"]);
        assert_eq!(names(&all, &only(&["192.168.*", "eth*"])), ["eth1", "eth0"]);
        assert_eq!(names(&all, &only(&["FE80:0:0::1"])), ["eth0"], "addresses are compared by value");
        let some_missing = only(&["eth0", "eth9"]);
        assert_eq!(names(&all, &some_missing), ["eth0"], "one existing interface suffices");
        assert_eq!(some_missing.unmatched(&all), ["eth9"]);
        assert!(Selection::Default.unmatched(&all).is_empty());
        let error = select(&all, &only(&["eth9"])).unwrap_err();
        assert_eq!(error.pattern.as_deref(), Some("eth9"));
        assert!(error.to_string().ends_with("\"eth9\"; present: lo, eth0, eth1, docker0"), "{error}");
    }

    #[test]
    fn missing_usable_interface_is_an_error() {
        let error = select(&[], &Selection::Default).unwrap_err();
        assert_eq!(error, NoInterface { pattern: None, present: Vec::new() });
        assert!(select(&[loopback()], &Selection::Only(Vec::new())).is_err());
    }

    #[test]
    fn star_matches_any_characters() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("*b*b", "abab", true),
            ("a", "ab", false),
            ("ab", "a", false),
            ("10.0.*.1", "10.0.3.1", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
