//! DDS domains for measurements: each concurrent measurement has its own.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::error::Error;

/// Rarely used domains, whose ports are below the kernel's ephemeral ports (from 32768).
const DOMAINS: std::ops::Range<u32> = 78..101;

/// A domain that no process of this host uses, and that no other measurement reserves while this value lives.
///
/// The reservation is an abstract socket name. It is visible where the domain's ports are visible, in one network
/// namespace, and the kernel releases it when the process ends in any way.
#[derive(Debug)]
pub(crate) struct FreeDomain {
    id: u32,
    _reservation: UnixDatagram,
}

impl FreeDomain {
    /// Reserves a domain with unused ports.
    pub(crate) fn reserve() -> Result<Self, Error> {
        // Processes that reserve at the same time start at different domains.
        let offset = std::process::id();
        let count = DOMAINS.end - DOMAINS.start;
        for step in 0..count {
            let id = DOMAINS.start + offset.wrapping_add(step) % count;
            let reservation = match take_name(id) {
                Ok(reservation) => reservation,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => continue,
                Err(error) => return Err(Error::Setup(format!("Domain {id} cannot be reserved: {error}"))),
            };
            // Checked after the reservation: the process that holds the name may not have opened its ports yet.
            if has_free_ports(id) {
                return Ok(Self { id, _reservation: reservation });
            }
        }
        Err(Error::Setup("No free ports were found for the measurement: every domain is in use.".into()))
    }

    /// The domain's number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

fn take_name(id: u32) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("peregrine-perftest-domain-{id}"))?)
}

fn has_free_ports(id: u32) -> bool {
    let base = 7400 + 250 * id;
    [10, 11, 12]
        .iter()
        .all(|port| u16::try_from(base + port).is_ok_and(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn concurrent_measurements_get_different_domains() {
        let held: Vec<_> = (0..4).map(|_| FreeDomain::reserve().unwrap()).collect();
        let ids: BTreeSet<_> = held.iter().map(FreeDomain::id).collect();
        assert_eq!(ids.len(), held.len(), "{ids:?}");
        let first = held[0].id();
        assert_eq!(take_name(first).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn domain_with_used_ports_is_skipped() {
        let free = FreeDomain::reserve().unwrap();
        let user =
            UdpSocket::bind((Ipv4Addr::UNSPECIFIED, u16::try_from(7400 + 250 * free.id() + 11).unwrap())).unwrap();
        let id = free.id();
        drop(free);
        assert!(!has_free_ports(id));
        assert_ne!(FreeDomain::reserve().unwrap().id(), id);
        drop(user);
    }
}
