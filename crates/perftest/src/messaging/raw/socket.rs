//! Sockets of this test.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

use super::address::Addresses;
use crate::error::Error;
use crate::messaging::{Topic, receive_buffer};

/// A socket connected to `destination`.
pub(super) fn sender(addresses: &Addresses, destination: SocketAddr, blocking: bool) -> Result<Socket, Error> {
    let open = || -> io::Result<Socket> {
        let socket = new_socket(destination.ip())?;
        if let Some(interface) = &addresses.interface {
            socket.bind(&SocketAddr::new(interface.address, 0).into())?;
        }
        if destination.ip().is_multicast() {
            match addresses.interface.as_ref().map(|interface| (interface.address, interface.index)) {
                Some((IpAddr::V4(address), _)) => socket.set_multicast_if_v4(&address)?,
                Some((IpAddr::V6(_), index)) => socket.set_multicast_if_v6(index)?,
                None => {}
            }
        }
        socket.connect(&scoped(addresses, destination).into())?;
        socket.set_nonblocking(!blocking)?;
        Ok(socket)
    };
    open().map_err(|error| Error::Setup(format!("Cannot send to {destination}: {error}")))
}

/// A socket bound to the source of `topic`.
pub(super) fn receiver(addresses: &Addresses, topic: Topic) -> Result<UdpSocket, Error> {
    let source = addresses.source(topic);
    let open = || -> io::Result<UdpSocket> {
        let socket = new_socket(source.ip())?;
        receive_buffer::ask(&socket, receive_buffer::DEFAULT_LEN)?;
        if source.ip().is_multicast() {
            socket.set_reuse_address(true)?;
        }
        socket.bind(&scoped(addresses, source).into())?;
        let interface = addresses.interface.as_ref();
        match source.ip() {
            IpAddr::V4(group) if group.is_multicast() => {
                let address = interface.and_then(|interface| match interface.address {
                    IpAddr::V4(address) => Some(address),
                    IpAddr::V6(_) => None,
                });
                socket.join_multicast_v4(&group, &address.unwrap_or(std::net::Ipv4Addr::UNSPECIFIED))?;
            }
            IpAddr::V6(group) if group.is_multicast() => {
                socket.join_multicast_v6(&group, interface.map_or(0, |interface| interface.index))?;
            }
            _ => {}
        }
        Ok(socket.into())
    };
    open().map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => Error::Setup(format!(
            "Cannot receive {topic} at {source}: the port is in use. Does another perftest run in this domain? \
             Choose another -domain."
        )),
        _ => Error::Setup(format!("Cannot receive {topic} at {source}: {error}")),
    })
}

fn new_socket(address: IpAddr) -> io::Result<Socket> {
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// IPv6 groups need the scope of an interface.
fn scoped(addresses: &Addresses, address: SocketAddr) -> SocketAddr {
    match (address, &addresses.interface) {
        (SocketAddr::V6(v6), Some(interface)) if v6.ip().is_multicast() => {
            SocketAddrV6::new(*v6.ip(), v6.port(), v6.flowinfo(), interface.index).into()
        }
        _ => address,
    }
}
