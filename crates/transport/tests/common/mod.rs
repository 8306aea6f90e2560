//! Helpers of the socket tests.

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::udp::{Receiver, Sent, Socket, SocketOptions, Transmit, Wait};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::time::Duration;

/// A socket of 127.0.0.1 on a port that the system chooses.
pub(crate) fn socket(options: &SocketOptions) -> Socket {
    Socket::unicast("127.0.0.1:0".parse().unwrap(), options).unwrap()
}

/// Sends one datagram, or a train of them, which must succeed.
pub(crate) fn send(socket: &Socket, destination: SocketAddr, bytes: &[u8], segment_bytes: Option<u16>) {
    let sent = try_train(socket, destination, bytes, segment_bytes);
    assert!(sent.first_failure.is_none() && sent.accepted == 1, "{sent:?}");
}

/// Sends one datagram, or a train of them; the send may fail.
pub(crate) fn try_train(socket: &Socket, destination: SocketAddr, bytes: &[u8], segment_bytes: Option<u16>) -> Sent {
    let segment_bytes = segment_bytes.map(|bytes| NonZeroU16::new(bytes).unwrap());
    socket.send(&[Transmit { slices: &[IoSlice::new(bytes)], destination, segment_bytes }])
}

/// A deadline that a working test never reaches.
pub(crate) fn patience() -> MonotonicNs {
    MonotonicNs::now().after(Duration::from_secs(10))
}

/// Receives until there are `count` datagrams; fails at the deadline.
pub(crate) fn receive(receiver: &mut Receiver, socket: &Socket, count: usize) -> Vec<Vec<u8>> {
    let deadline = patience();
    let mut all = Vec::new();
    while all.len() < count {
        let datagrams = receiver.receive(socket, Wait::Until(deadline)).unwrap();
        assert!(datagrams.len() > 0, "{} of {count} datagrams, then none", all.len());
        all.extend(datagrams.map(|datagram| datagram.bytes().to_vec()));
    }
    all
}

/// Receives the datagrams that have already arrived.
pub(crate) fn receive_rest(receiver: &mut Receiver, socket: &Socket) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        let datagrams = receiver.receive(socket, Wait::NonBlocking).unwrap();
        all.extend(datagrams.map(|datagram| datagram.bytes().to_vec()));
        if all.len() == before {
            return all;
        }
    }
}

/// `count` bytes that differ from place to place.
pub(crate) fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|place| (place ^ (place >> 8).wrapping_mul(31)) as u8).collect()
}
