//! Conversion of `SocketAddr` to and from the operating system's form.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Room for an IPv4 or an IPv6 address and port, in the operating system's form.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union RawAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl RawAddress {
    pub(super) const CAPACITY: libc::socklen_t = size_of::<Self>() as libc::socklen_t;

    pub(super) const fn zeroed() -> Self {
        // SAFETY: both members are plain integers, for which all-zero bytes are a value.
        unsafe { MaybeUninit::<Self>::zeroed().assume_init() }
    }

    /// Writes `address` to `raw` and returns its length.
    pub(super) fn write(raw: &mut MaybeUninit<Self>, address: SocketAddr) -> libc::socklen_t {
        let raw = raw.write(Self::zeroed());
        match address {
            SocketAddr::V4(address) => {
                raw.v4.sin_family = libc::AF_INET as libc::sa_family_t;
                raw.v4.sin_port = address.port().to_be();
                raw.v4.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(address) => {
                raw.v6.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.v6.sin6_port = address.port().to_be();
                raw.v6.sin6_addr.s6_addr = address.ip().octets();
                raw.v6.sin6_flowinfo = address.flowinfo().to_be();
                raw.v6.sin6_scope_id = address.scope_id();
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }

    /// The address of `length` bytes that the operating system wrote; `None` if it is not an IP address.
    pub(super) fn read(&self, length: libc::socklen_t) -> Option<SocketAddr> {
        let length = length as usize;
        if length < size_of::<libc::sockaddr_in>() {
            return None;
        }
        // SAFETY: `RawAddress` values are always wholly initialised (`zeroed`, then overwritten in part), and any
        // bytes are a value of either member. The family lies at the same place in both.
        match libc::c_int::from(unsafe { self.v4.sin_family }) {
            libc::AF_INET => {
                // SAFETY: as above.
                let raw = unsafe { &self.v4 };
                let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
            }
            libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
                // SAFETY: as above.
                let raw = unsafe { &self.v6 };
                let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                let flow = u32::from_be(raw.sin6_flowinfo);
                Some(SocketAddrV6::new(ip, u16::from_be(raw.sin6_port), flow, raw.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(address: SocketAddr) -> Option<SocketAddr> {
        let mut raw = MaybeUninit::uninit();
        let length = RawAddress::write(&mut raw, address);
        // SAFETY: `write` has initialised it.
        unsafe { raw.assume_init() }.read(length)
    }

    #[test]
    fn both_families_survive_a_round_trip() {
        let v4: SocketAddr = "192.0.2.7:7411".parse().unwrap();
        assert_eq!(round_trip(v4), Some(v4));
        let v6 = SocketAddr::V6(SocketAddrV6::new("fe80::1234".parse().unwrap(), 7400, 9, 3));
        assert_eq!(round_trip(v6), Some(v6));
    }

    #[test]
    fn short_or_foreign_address_is_none() {
        assert_eq!(RawAddress::zeroed().read(0), None);
        assert_eq!(RawAddress::zeroed().read(RawAddress::CAPACITY), None);
        let mut raw = MaybeUninit::uninit();
        RawAddress::write(&mut raw, "[::1]:1".parse().unwrap());
        // SAFETY: `write` has initialised it.
        assert_eq!(unsafe { raw.assume_init() }.read(size_of::<libc::sockaddr_in>() as _), None);
    }
}
