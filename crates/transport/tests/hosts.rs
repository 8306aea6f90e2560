//! Sockets in network namespaces: multicast, MTU, segmentation by a device, rate limits, changing interfaces. Needs
//! root.
#![cfg(target_os = "linux")]

#[allow(dead_code, reason = "each test program uses a part")]
mod common;
#[path = "common/netns.rs"]
mod netns;

use common::{patience, pattern, receive, receive_rest, send, try_train};
use netns::Host;
use peregrine_transport::event::{Poller, Token};
use peregrine_transport::interface::{self, InterfaceIndex, InterfaceWatcher, Selection};
use peregrine_transport::udp::{
    Fragmentation, Receiver, ReceiverOptions, Socket, SocketOptions, Transmit, header_bytes,
};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

fn receiver() -> Receiver {
    Receiver::new(&ReceiverOptions::default())
}

fn open(host: &Host, address: &str, options: &SocketOptions) -> Socket {
    let (address, options) = (address.parse().unwrap(), options.clone());
    host.run(move || Socket::unicast(address, &options).unwrap())
}

fn open_multicast(host: &Host, address: &str, group: &str, interface: InterfaceIndex) -> Socket {
    let (address, group): (SocketAddr, IpAddr) = (address.parse().unwrap(), group.parse().unwrap());
    host.run(move || {
        let socket = Socket::multicast(address, &SocketOptions::default()).unwrap();
        socket.join(group, interface).unwrap();
        socket
    })
}

/// The datagrams of several calls, sorted. A virtual pair may reorder them when the scheduler moves the sending thread
/// to another core between two calls.
fn receive_in_any_order(receiver: &mut Receiver, socket: &Socket, count: usize) -> Vec<Vec<u8>> {
    let mut received = receive(receiver, socket, count);
    received.sort();
    received
}

#[test]
fn multicast_reaches_members_only() {
    let (here, there) = Host::pair();
    for (any, group, other_group, unicast) in [
        ("0.0.0.0:7400", "239.255.0.1", "239.255.0.2", "10.77.0.1:0"),
        ("[::]:7400", "ff03::77", "ff03::78", "[fd77::1]:0"),
    ] {
        let indexes = [&here, &there].map(|host| host.interface("veth0").index);
        let members = [
            open_multicast(&here, any, group, indexes[0]),
            open_multicast(&there, any, group, indexes[1]),
            open_multicast(&there, any, group, indexes[1]),
        ];
        let stranger = open_multicast(&there, any, other_group, indexes[1]);
        let options = SocketOptions { multicast_interface: Some(indexes[0]), ..Default::default() };
        let sender = open(&here, unicast, &options);
        let destination = SocketAddr::new(group.parse().unwrap(), 7400);
        send(&sender, destination, b"to all", None);
        let mut receiver = receiver();
        for member in &members {
            assert_eq!(receive(&mut receiver, member, 1), [b"to all"], "{group}");
            assert!(receive_rest(&mut receiver, member).is_empty());
        }
        assert!(receive_rest(&mut receiver, &stranger).is_empty(), "other groups of the port are not received");

        members[1].leave(group.parse().unwrap(), indexes[1]).unwrap();
        send(&sender, destination, b"to the others", None);
        assert_eq!(receive(&mut receiver, &members[2], 1), [b"to the others"]);
        assert!(receive_rest(&mut receiver, &members[1]).is_empty(), "the socket has left the group");
        let error = members[1].leave(group.parse().unwrap(), indexes[1]).unwrap_err();
        assert!(error.to_string().contains(group), "{error}");
    }
}

#[test]
fn multicast_without_loop_does_not_reach_this_host() {
    let (here, there) = Host::pair();
    let indexes = [&here, &there].map(|host| host.interface("veth0").index);
    let near_member = open_multicast(&here, "0.0.0.0:7400", "239.255.0.1", indexes[0]);
    let far_member = open_multicast(&there, "0.0.0.0:7400", "239.255.0.1", indexes[1]);
    let destination = "239.255.0.1:7400".parse().unwrap();
    for multicast_loop in [false, true] {
        let options = SocketOptions { multicast_loop, ..Default::default() };
        let sender = open(&here, "10.77.0.1:0", &options);
        sender.set_multicast_interface(indexes[0]).unwrap();
        send(&sender, destination, &[multicast_loop.into()], None);
    }
    let mut receiver = receiver();
    assert_eq!(receive_in_any_order(&mut receiver, &far_member, 2), [[0], [1]]);
    assert_eq!(receive(&mut receiver, &near_member, 1), [[1]]);
}

#[test]
fn multicast_on_loopback_arrives() {
    let host = Host::new();
    let index = host.interface("lo").index;
    let member = open_multicast(&host, "0.0.0.0:7400", "239.255.0.1", index);
    let sender = open(&host, "127.0.0.1:0", &SocketOptions::default());
    sender.set_multicast_interface(index).unwrap();
    send(&sender, "239.255.0.1:7400".parse().unwrap(), b"to all", None);
    assert_eq!(receive(&mut receiver(), &member, 1), [b"to all"]);
    let error = sender.set_multicast_interface(InterfaceIndex(4_000)).unwrap_err();
    assert!(error.to_string().contains("4000"), "{error}");
}

/// Over a device of MTU 1500 a train travels whole if its segments fit. A receiver that joins datagrams and one that
/// does not get the same datagrams.
#[test]
fn trains_of_fitting_segments_cross_virtual_pair() {
    let (here, there) = Host::pair();
    for (near, far) in [("10.77.0.1:0", "10.77.0.2:0"), ("[fd77::1]:0", "[fd77::2]:0")] {
        let near = open(&here, near, &SocketOptions::default());
        for receive_offload in [true, false] {
            let options = SocketOptions { receive_offload, ..Default::default() };
            let far = open(&there, far, &options);
            let segment_bytes = 1500 - header_bytes(far.local_address().ip());
            let content = pattern(20_000);
            send(&near, far.local_address(), &content, Some(segment_bytes as u16));
            let expected: Vec<_> = content.chunks(segment_bytes).map(<[u8]>::to_vec).collect();
            assert_eq!(receive(&mut receiver(), &far, expected.len()), expected);
            assert_eq!(far.statistics().super_datagrams_received, receive_offload.into());
        }
        assert_eq!(near.statistics().send_calls, 2);
    }
}

#[test]
fn segments_above_mtu_are_refused_or_fragmented_as_configured() {
    let (here, there) = Host::pair();
    for (near_address, far_address) in [("10.77.0.1:0", "10.77.0.2:0"), ("[fd77::1]:0", "[fd77::2]:0")] {
        let far = open(&there, far_address, &SocketOptions::default());
        let destination = far.local_address();
        let too_long = 1500 - header_bytes(destination.ip()) + 1;
        let content = pattern(4 * too_long);
        let expected: Vec<_> = content.chunks(too_long).map(<[u8]>::to_vec).collect();
        let mut receiver = receiver();

        let near = open(&here, near_address, &SocketOptions::default());
        for (bytes, segment_bytes) in [(&content[..], Some(too_long as u16)), (&content[..too_long], None)] {
            let sent = try_train(&near, destination, bytes, segment_bytes);
            assert_eq!(sent.first_failure.unwrap().error.raw_os_error(), Some(libc::EMSGSIZE));
        }
        assert_eq!(near.statistics().send_errors.too_large, 2);
        assert!(near.segmentation_offload(), "the MTU was exceeded, and the offload was not refused");
        send(&near, destination, &content[..too_long - 1], None);
        assert_eq!(receive(&mut receiver, &far, 1), [&content[..too_long - 1]]);

        let options = SocketOptions { fragmentation: Fragmentation::Allow, ..Default::default() };
        let near = open(&here, near_address, &options);
        send(&near, destination, &content, Some(too_long as u16));
        assert_eq!(receive(&mut receiver, &far, 4), expected);
        assert!(near.segmentation_offload());
        assert_eq!(near.statistics().super_datagrams_split, 1);
    }
}

/// A slow queue fills the send buffer: then `try_send` returns, and every datagram that it accepted arrives.
#[test]
fn full_send_buffer_stops_try_send_and_delays_send() {
    let (here, there) = Host::pair();
    here.command("tc qdisc add dev veth0 root tbf rate 20mbit burst 16kb limit 2mb");
    let options = SocketOptions { send_buffer_bytes: Some(64 << 10), ..Default::default() };
    let near = open(&here, "10.77.0.1:0", &options);
    let far = open(&there, "10.77.0.2:0", &SocketOptions::default());
    let contents: Vec<_> = (0..100_u8).map(|number| vec![number; 1400]).collect();
    let slices: Vec<_> = contents.iter().map(|content| [IoSlice::new(content)]).collect();
    let destination = far.local_address();
    let transmit = |slices| Transmit { slices, destination, segment_bytes: None };
    let transmits: Vec<_> = slices.iter().map(|slices| transmit(slices)).collect();

    let sent = near.try_send(&transmits);
    assert!((1..100).contains(&sent.processed) && sent.first_failure.is_none(), "{sent:?}");
    assert_eq!((sent.processed, near.statistics().send_errors.would_block), (sent.accepted, 1));
    let rest = near.send(&transmits[sent.processed..]);
    assert_eq!(rest.accepted, 100 - sent.processed, "{rest:?}");
    assert_eq!(receive_in_any_order(&mut receiver(), &far, 100), contents);
}

#[test]
fn changed_interfaces_are_reported_and_listed() {
    let host = Host::new();
    let watcher = host.run(|| InterfaceWatcher::new().unwrap());
    let mut poller = Poller::new().unwrap();
    poller.add(&watcher, Token(5)).unwrap();
    let chosen = |host: &Host| {
        host.run(|| {
            let all = interface::list().unwrap();
            let chosen = interface::select(&all, &Selection::Default).unwrap();
            chosen.iter().map(|interface| interface.name.clone()).collect::<Vec<_>>()
        })
    };
    watcher.changed();
    assert!(!watcher.changed(), "nothing has changed since");
    assert_eq!(chosen(&host), ["lo"]);

    host.ip("link add veth7 mtu 1400 type veth peer name veth8");
    assert_eq!(poller.wait(Some(patience())).unwrap().collect::<Vec<_>>(), [Token(5)]);
    assert!(watcher.changed());
    host.ip("address add 10.78.0.1/20 dev veth7");
    assert!(watcher.changed());
    host.ip("link set veth7 up");
    host.ip("link set veth8 up");
    assert!(watcher.changed());
    host.await_link("veth7");
    let veth = host.interface("veth7");
    assert_eq!((veth.mtu_bytes, veth.flags.up, veth.flags.running, veth.flags.multicast), (1400, true, true, true));
    let v4 = veth.addresses.iter().find(|address| address.ip.is_ipv4()).unwrap();
    assert_eq!((v4.ip.to_string().as_str(), v4.prefix_bits), ("10.78.0.1", 20));
    assert!(chosen(&host).contains(&"veth7".to_owned()), "a virtual pair is preferred to loopback");

    host.ip("route add default via 10.78.0.2");
    assert!(host.interface("veth7").default_route);
    host.ip("link delete veth7");
    assert!(watcher.changed());
    assert_eq!(chosen(&host), ["lo"]);
}
