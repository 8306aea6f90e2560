//! The interfaces that the system lists.

use super::{Interface, InterfaceAddress, InterfaceFlags, InterfaceIndex};
use crate::sys;
use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// The network interfaces of this host in this network namespace, by index.
///
/// # Errors
/// Errors of `getifaddrs`: the process has too many descriptors, or the system is short of memory.
pub fn list() -> io::Result<Vec<Interface>> {
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    if let Some(interfaces) = crate::simulation::with(|machine| machine.interfaces()) {
        return Ok(interfaces);
    }
    let mut interfaces = Vec::new();
    let entries = Entries::new().map_err(|error| sys::in_operation("listing the network interfaces", &error))?;
    for entry in entries.iter() {
        add_entry(&mut interfaces, entry);
    }
    add_mtus(&mut interfaces)?;
    let default_routes = default_routes();
    for interface in &mut interfaces {
        interface.default_route = default_routes.contains(&interface.name);
    }
    interfaces.sort_by_key(|interface| interface.index);
    Ok(interfaces)
}

/// The linked list of `getifaddrs`.
struct Entries {
    first: *mut libc::ifaddrs,
}

impl Entries {
    fn new() -> io::Result<Self> {
        let mut first = ptr::null_mut();
        // SAFETY: `first` is a writable pointer.
        sys::check(unsafe { libc::getifaddrs(&raw mut first) })?;
        Ok(Self { first })
    }

    fn iter(&self) -> impl Iterator<Item = &libc::ifaddrs> {
        // SAFETY: each entry lives until the list is freed, which is when `self` is dropped.
        std::iter::successors(unsafe { self.first.as_ref() }, |entry| unsafe { entry.ifa_next.as_ref() })
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        // SAFETY: the list comes from `getifaddrs` and is freed once.
        unsafe { libc::freeifaddrs(self.first) };
    }
}

/// Adds one entry of the list: an interface, with at most one of its addresses.
fn add_entry(interfaces: &mut Vec<Interface>, entry: &libc::ifaddrs) {
    // SAFETY: `ifa_name` is a C string that lives as long as the entry.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    let position = interfaces.iter().position(|known| known.name.as_bytes() == name.to_bytes());
    let position = position.unwrap_or_else(|| {
        // SAFETY: `name` is a C string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        interfaces.push(Interface {
            name: name.to_string_lossy().into_owned(),
            index: InterfaceIndex(index),
            addresses: Vec::new(),
            mtu_bytes: 0,
            flags: flags_of(entry.ifa_flags),
            default_route: false,
        });
        interfaces.len() - 1
    });
    // SAFETY: both are null or addresses of the family that they state, and live as long as the entry.
    let (ip, mask) = unsafe { (ip_of(entry.ifa_addr), ip_of(entry.ifa_netmask)) };
    if let (Some(interface), Some(ip)) = (interfaces.get_mut(position), ip) {
        let prefix_bits = match mask {
            Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones() as u8,
            Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones() as u8,
            None if ip.is_ipv4() => 32,
            None => 128,
        };
        interface.addresses.push(InterfaceAddress { ip, prefix_bits });
    }
}

fn flags_of(flags: libc::c_uint) -> InterfaceFlags {
    let has = |flag: libc::c_int| flags & flag as libc::c_uint != 0;
    InterfaceFlags {
        up: has(libc::IFF_UP),
        running: has(libc::IFF_RUNNING),
        multicast: has(libc::IFF_MULTICAST),
        loopback: has(libc::IFF_LOOPBACK),
        point_to_point: has(libc::IFF_POINTOPOINT),
    }
}

/// The address at `raw`, if it is an IP address.
///
/// # Safety
/// `raw` is null, or a complete address of the family that it states.
unsafe fn ip_of(raw: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: guaranteed by the caller.
    match libc::c_int::from(unsafe { raw.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family has this type.
            let raw = unsafe { raw.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family has this type.
            let raw = unsafe { raw.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(raw.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Reads the MTU of each interface; one that has vanished meanwhile keeps 0.
#[cfg(target_os = "linux")]
fn add_mtus(interfaces: &mut [Interface]) -> io::Result<()> {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd as _;
    // Any socket can make the request.
    let socket =
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).or_else(|_| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)))?;
    for interface in interfaces {
        // SAFETY: plain integers and unions of such, for which all-zero bytes are a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        let room = request.ifr_name.len() - 1;
        for (place, byte) in request.ifr_name.iter_mut().zip(interface.name.bytes().take(room)) {
            *place = byte as libc::c_char;
        }
        // SAFETY: `request` is the argument of this request and is writable.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) } == 0 {
            // SAFETY: the kernel has just written this member.
            interface.mtu_bytes = u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).unwrap_or(0);
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn add_mtus(_: &mut [Interface]) -> io::Result<()> {
    Ok(())
}

/// Names of the interfaces with a default route. Empty if the system does not report routes.
fn default_routes() -> Vec<String> {
    let v4 = std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
    let v6 = std::fs::read_to_string("/proc/thread-self/net/ipv6_route").unwrap_or_default();
    [default_routes_v4(&v4), default_routes_v6(&v6)].concat()
}

/// Columns: name, destination, gateway, flags, references, use, metric, mask.
fn default_routes_v4(table: &str) -> Vec<String> {
    let default = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let name = *columns.first()?;
        let is_default = *columns.get(1)? == "00000000" && *columns.get(7)? == "00000000";
        is_default.then(|| name.to_owned())
    };
    table.lines().skip(1).filter_map(default).collect()
}

/// Columns: destination, prefix, source, prefix, next hop, metric, references, use, flags, name. The kernel keeps a
/// route on `lo` that rejects everything; it does not count.
fn default_routes_v6(table: &str) -> Vec<String> {
    let default = |line: &str| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let name = *columns.get(9)?;
        let is_default = columns.first()?.bytes().all(|digit| digit == b'0') && *columns.get(1)? == "00";
        (is_default && name != "lo").then(|| name.to_owned())
    };
    table.lines().filter_map(default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_listed_with_its_address() {
        let interfaces = list().unwrap();
        let loopback = interfaces.iter().find(|interface| interface.flags.loopback).unwrap();
        let address = InterfaceAddress { ip: Ipv4Addr::LOCALHOST.into(), prefix_bits: 8 };
        assert!(loopback.addresses.contains(&address), "{loopback:?}");
        assert_ne!(loopback.index, InterfaceIndex(0));
        assert!(!loopback.default_route);
        #[cfg(target_os = "linux")]
        assert!(loopback.mtu_bytes >= 1500, "{loopback:?}");
        assert!(interfaces.is_sorted_by_key(|interface| interface.index));
    }

    #[test]
    fn default_routes_are_found_in_the_kernel_tables() {
        let v4 = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                  eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                  eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                  vpn0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n";
        assert_eq!(default_routes_v4(v4), ["eth0"]);
        let zero = "0".repeat(32);
        let v6 = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n\
             fe80{} 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth1\n\
             {zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo\n",
            "0".repeat(28)
        );
        assert_eq!(default_routes_v6(&v6), ["eth0"]);
        assert!(default_routes_v4("").is_empty() && default_routes_v6("short line").is_empty());
    }
}
