//! Datagrams, one per system call.

use std::io;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use socket2::SockRef;

use super::end::{BUFFER_BYTES, DATAGRAM_BYTES, End, Ends, SILENCE, is_silence};
use crate::clock::MonotonicNs;

/// Connected UDP sockets that sleep in `recv`.
pub(super) fn blocking(_size: usize) -> io::Result<Ends> {
    let (near, far) = udp_pair()?;
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(SILENCE))?;
    }
    Ok((datagrams(near, false), datagrams(far, false)))
}

/// Connected UDP sockets that the receiver polls.
pub(super) fn polling(_size: usize) -> io::Result<Ends> {
    let (near, far) = udp_pair()?;
    for socket in [&near, &far] {
        socket.set_nonblocking(true)?;
    }
    Ok((datagrams(near, true), datagrams(far, true)))
}

/// Unix sockets that sleep in `recv`, and in `send` while the peer has not caught up.
pub(super) fn unix(_size: usize) -> io::Result<Ends> {
    let (near, far) = UnixDatagram::pair()?;
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(SILENCE))?;
    }
    Ok((datagrams(near, false), datagrams(far, false)))
}

fn udp_pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let socket = || {
        let socket = UdpSocket::bind(("127.0.0.1", 0))?;
        SockRef::from(&socket).set_recv_buffer_size(BUFFER_BYTES)?;
        io::Result::Ok(socket)
    };
    let (near, far) = (socket()?, socket()?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    Ok((near, far))
}

/// The two kinds of sockets that send and receive whole messages.
trait DatagramSocket: Send + 'static {
    fn send(&self, message: &[u8]) -> io::Result<usize>;
    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl DatagramSocket for UdpSocket {
    fn send(&self, message: &[u8]) -> io::Result<usize> {
        Self::send(self, message)
    }

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Self::recv(self, buffer)
    }
}

impl DatagramSocket for UnixDatagram {
    fn send(&self, message: &[u8]) -> io::Result<usize> {
        Self::send(self, message)
    }

    fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Self::recv(self, buffer)
    }
}

struct Datagrams<S> {
    socket: S,
    buffer: Vec<u8>,
    /// The socket never sleeps; the end polls it.
    polls: bool,
}

fn datagrams(socket: impl DatagramSocket, polls: bool) -> Box<dyn End> {
    Box::new(Datagrams { socket, buffer: vec![0; DATAGRAM_BYTES], polls })
}

impl<S: DatagramSocket> End for Datagrams<S> {
    fn send(&mut self, message: &[u8]) -> io::Result<u64> {
        match self.socket.send(message) {
            Ok(_) => Ok(1),
            Err(error) if is_silence(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self) -> io::Result<Option<u64>> {
        /// Polls between two readings of the clock.
        const TRIES: u32 = 64;
        let deadline = self.polls.then(|| MonotonicNs::now().plus(SILENCE));
        loop {
            for _ in 0..TRIES {
                match self.socket.recv(&mut self.buffer) {
                    Ok(_) => return Ok(Some(1)),
                    Err(error) if !is_silence(&error) => return Err(error),
                    Err(_) if deadline.is_none() => return Ok(None),
                    Err(_) => {}
                }
            }
            if deadline.is_some_and(|deadline| deadline.remaining().is_zero()) {
                return Ok(None);
            }
        }
    }
}
