//! The kernel's table of neighbours: the hosts on the networks of this host, and whether their link-layer addresses are
//! known (rtnetlink, RFC 3549).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::{InterfaceIndex, Neighbour};
use crate::sys;

/// Largest part of an answer that the kernel sends at once.
const PART_BYTES: usize = 32 << 10;
/// Parts of an answer that are read; the rest of a longer table is not looked at.
const PARTS_MAX: usize = 256;
/// The kernel answers within the call that asks; the limit is for a kernel that does not.
const ANSWER_WITHIN: Duration = Duration::from_millis(100);
/// Header of each message (`nlmsghdr`).
const HEADER_BYTES: usize = 16;
/// After the header, messages about neighbours (`ndmsg`) and routes (`rtmsg`) have as many bytes of fixed fields.
const BODY_BYTES: usize = 12;

/// The hosts whose link-layer addresses the kernel looks for or has not found. The kernel keeps datagrams for such a
/// host, in the send buffers of their sockets, for up to three seconds.
///
/// # Errors
/// The system's error: no netlink sockets (sandboxes forbid them), no descriptors.
pub fn unresolved_neighbours() -> io::Result<Vec<Neighbour>> {
    let mut unresolved = Vec::new();
    ask(&request(libc::RTM_GETNEIGH, libc::NLM_F_DUMP, &[0; BODY_BYTES], &[]), |kind, message| {
        unresolved.extend(unresolved_of(kind, message));
        true
    })?;
    Ok(unresolved)
}

/// The host to which the kernel sends datagrams for `destination`: itself, or a router.
///
/// # Errors
/// The system's error: no route to the destination, no netlink sockets.
pub fn next_hop(destination: SocketAddr) -> io::Result<Neighbour> {
    let mut body = [0; BODY_BYTES];
    // A link-local address is of one interface.
    let zone = if let SocketAddr::V6(v6) = destination { v6.scope_id() } else { 0 };
    let destination = destination.ip();
    let address = match destination {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    body[0] = family_of(destination);
    body[1] = (address.len() * 8) as u8;
    let mut attributes = attribute(libc::RTA_DST, &address);
    if zone != 0 {
        attributes.extend(attribute(libc::RTA_OIF, &zone.to_ne_bytes()));
    }
    let mut hop = None;
    ask(&request(libc::RTM_GETROUTE, 0, &body, &attributes), |kind, message| {
        hop = next_hop_of(kind, message, destination);
        false
    })?;
    hop.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sends a request, and passes the type and the rest of each message of the answer to `each` until that returns false
/// or the answer ends.
fn ask(request: &[u8], mut each: impl FnMut(u16, &[u8]) -> bool) -> io::Result<()> {
    let failed = |error: io::Error| sys::in_operation("asking the kernel for neighbours and routes", &error);
    let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))
        .map_err(failed)?;
    socket.set_read_timeout(Some(ANSWER_WITHIN)).map_err(failed)?;
    socket.send(request).map_err(failed)?;
    let mut part = vec![0; PART_BYTES];
    for _ in 0..PARTS_MAX {
        let len = io::Read::read(&mut &socket, &mut part).map_err(failed)?;
        let mut rest = part.get(..len).unwrap_or(&[]);
        while let Some((kind, message, after)) = take_message(rest) {
            if kind == libc::NLMSG_DONE as u16 {
                return Ok(());
            }
            if kind == libc::NLMSG_ERROR as u16 {
                let code = read_i32(message, 0).unwrap_or(0);
                return Err(failed(io::Error::from_raw_os_error(code.saturating_neg())));
            }
            if !each(kind, message) {
                return Ok(());
            }
            rest = after;
        }
    }
    Ok(())
}

fn request(kind: u16, flags: libc::c_int, body: &[u8; BODY_BYTES], attributes: &[u8]) -> Vec<u8> {
    let len = HEADER_BYTES + BODY_BYTES + attributes.len();
    let mut request = Vec::with_capacity(len);
    request.extend_from_slice(&(len as u32).to_ne_bytes());
    request.extend_from_slice(&kind.to_ne_bytes());
    request.extend_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    // Sequence number and port: the socket has one request only.
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(body);
    request.extend_from_slice(attributes);
    request
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut attribute = Vec::with_capacity(4 + value.len());
    attribute.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    attribute.extend_from_slice(&kind.to_ne_bytes());
    attribute.extend_from_slice(value);
    attribute
}

/// Type and content of the first message, and the bytes after it.
fn take_message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let len = usize::try_from(u32::from_ne_bytes(read(bytes, 0)?)).ok()?;
    let kind = u16::from_ne_bytes(read(bytes, 4)?);
    let message = bytes.get(HEADER_BYTES..len)?;
    Some((kind, message, bytes.get(aligned(len)..).unwrap_or(&[])))
}

/// The neighbour that a message describes, if its link-layer address is not known.
fn unresolved_of(kind: u16, message: &[u8]) -> Option<Neighbour> {
    if kind != libc::RTM_NEWNEIGH {
        return None;
    }
    let family = *message.first()?;
    let interface = InterfaceIndex(u32::try_from(read_i32(message, 4)?).ok()?);
    let state = u16::from_ne_bytes(read(message, 8)?);
    let address = address_of(family, find_attribute(message, libc::NDA_DST)?)?;
    (state & (libc::NUD_INCOMPLETE | libc::NUD_FAILED) != 0).then_some(Neighbour { address, interface })
}

fn next_hop_of(kind: u16, message: &[u8], destination: IpAddr) -> Option<Neighbour> {
    if kind != libc::RTM_NEWROUTE {
        return None;
    }
    let family = *message.first()?;
    let interface = InterfaceIndex(u32::from_ne_bytes(read(find_attribute(message, libc::RTA_OIF)?, 0)?));
    let router = || address_of(family, find_attribute(message, libc::RTA_GATEWAY)?);
    // A router of the other IP version.
    let via = || {
        let via = find_attribute(message, libc::RTA_VIA)?;
        let family = u16::from_ne_bytes(read(via, 0)?);
        address_of(u8::try_from(family).ok()?, via.get(2..)?)
    };
    Some(Neighbour { address: router().or_else(via).unwrap_or(destination), interface })
}

/// The value of the first attribute of this type after the body.
fn find_attribute(message: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = message.get(BODY_BYTES..)?;
    loop {
        let len = usize::from(u16::from_ne_bytes(read(rest, 0)?));
        let value = rest.get(4..len)?;
        if u16::from_ne_bytes(read(rest, 2)?) == wanted {
            return Some(value);
        }
        rest = rest.get(aligned(len)..)?;
    }
}

fn address_of(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match libc::c_int::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(read(bytes, 0)?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(read(bytes, 0)?).into()),
        _ => None,
    }
}

const fn family_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => libc::AF_INET as u8,
        IpAddr::V6(_) => libc::AF_INET6 as u8,
    }
}

fn read<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn read_i32(bytes: &[u8], at: usize) -> Option<i32> {
    read(bytes, at).map(i32::from_ne_bytes)
}

/// Messages and attributes begin at multiples of four bytes.
const fn aligned(len: usize) -> usize {
    len.saturating_add(3) & !3
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETH: InterfaceIndex = InterfaceIndex(7);

    fn about_neighbour(state: u16, address: IpAddr) -> Vec<u8> {
        let mut body = [0; BODY_BYTES];
        body[0] = family_of(address);
        body[4..8].copy_from_slice(&ETH.0.to_ne_bytes());
        body[8..10].copy_from_slice(&state.to_ne_bytes());
        let bytes = match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        // An attribute before the wanted one whose length is no multiple of four.
        let attributes =
            [attribute(libc::NDA_LLADDR, &[1, 2, 3, 4, 5, 6]), vec![0; 2], attribute(libc::NDA_DST, &bytes)];
        request(libc::RTM_NEWNEIGH, 0, &body, &attributes.concat())
    }

    fn unresolved_in(bytes: &[u8]) -> Option<Neighbour> {
        let (kind, message, _) = take_message(bytes)?;
        unresolved_of(kind, message)
    }

    #[test]
    fn neighbours_without_a_link_layer_address_are_found() {
        for address in [IpAddr::from([192, 0, 2, 9]), "fe80::9".parse().unwrap()] {
            for state in [libc::NUD_INCOMPLETE, libc::NUD_FAILED] {
                let expected = Some(Neighbour { address, interface: ETH });
                assert_eq!(unresolved_in(&about_neighbour(state, address)), expected);
            }
            for state in [libc::NUD_REACHABLE, libc::NUD_STALE, libc::NUD_DELAY, libc::NUD_PROBE, libc::NUD_PERMANENT] {
                assert_eq!(unresolved_in(&about_neighbour(state, address)), None, "state {state:#x}");
            }
        }
    }

    #[test]
    fn messages_that_are_cut_off_describe_nothing() {
        let whole = about_neighbour(libc::NUD_FAILED, [192, 0, 2, 9].into());
        for len in 0..whole.len() {
            assert_eq!(unresolved_in(&whole[..len]), None, "{len} bytes");
        }
        let mut endless = whole;
        // An attribute that claims no bytes at all.
        endless[28..30].copy_from_slice(&0_u16.to_ne_bytes());
        assert_eq!(unresolved_in(&endless), None);
    }

    #[test]
    fn next_hop_is_the_router_if_there_is_one() {
        let destination = IpAddr::from([198, 51, 100, 1]);
        let mut body = [0; BODY_BYTES];
        body[0] = family_of(destination);
        let interface = attribute(libc::RTA_OIF, &ETH.0.to_ne_bytes());
        let via = [&(libc::AF_INET6 as u16).to_ne_bytes()[..], &Ipv6Addr::LOCALHOST.octets()].concat();
        let cases = [
            (vec![], destination),
            (attribute(libc::RTA_GATEWAY, &[192, 0, 2, 1]), [192, 0, 2, 1].into()),
            (attribute(libc::RTA_VIA, &via), Ipv6Addr::LOCALHOST.into()),
        ];
        for (router, address) in cases {
            let answer = request(libc::RTM_NEWROUTE, 0, &body, &[interface.clone(), router].concat());
            let (kind, message, _) = take_message(&answer).unwrap();
            assert_eq!(next_hop_of(kind, message, destination), Some(Neighbour { address, interface: ETH }));
        }
    }

    #[test]
    fn loopback_is_its_own_next_hop_and_resolved() {
        let localhost = IpAddr::from(Ipv4Addr::LOCALHOST);
        let hop = next_hop((localhost, 0).into()).unwrap();
        assert_eq!(hop.address, localhost);
        assert!(!unresolved_neighbours().unwrap().contains(&hop));
    }
}
