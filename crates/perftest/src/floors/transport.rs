//! Many datagrams per system call, by Peregrine's own sockets.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::num::NonZeroU16;

use peregrine_transport::udp::{
    MAX_SEGMENTS, MAX_TRAIN_BYTES, ReceiveError, Receiver, ReceiverOptions, Socket, SocketOptions, Transmit, Wait,
};
use socket2::SockRef;
use std::sync::Arc;

use super::end::{BUFFER_BYTES, End, Ends, SILENCE};

/// Datagrams in one `sendmmsg`.
const BATCH: usize = 32;

/// `sendmmsg` and `recvmmsg`.
pub(super) fn many(size: usize) -> io::Result<Ends> {
    ends(size, BATCH, false)
}

/// One call sends as many datagrams as the kernel cuts from one message, and receives as many as the kernel joins.
pub(super) fn trains(size: usize) -> io::Result<Ends> {
    ends(size, (MAX_TRAIN_BYTES / size.max(1)).clamp(1, MAX_SEGMENTS), true)
}

fn ends(size: usize, count: usize, is_train: bool) -> io::Result<Ends> {
    let socket = || {
        let options = SocketOptions { receive_buffer_bytes: Some(BUFFER_BYTES), ..SocketOptions::default() };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let socket = Arc::new(Socket::unicast(address, &options).map_err(io::Error::other)?);
        SockRef::from(&*socket).set_read_timeout(Some(SILENCE))?;
        io::Result::Ok(socket)
    };
    let (near, far) = (socket()?, socket()?);
    let peers = (far.local_address(), near.local_address());
    let end = |socket, peer| -> Box<dyn End> {
        let receiver = Receiver::new(&ReceiverOptions::default());
        let train = is_train.then(|| vec![7; size * count]);
        Box::new(Sockets { socket, receiver, peer, count, train })
    };
    Ok((end(near, peers.0), end(far, peers.1)))
}

struct Sockets {
    socket: Arc<Socket>,
    receiver: Receiver,
    peer: SocketAddr,
    /// Datagrams per call.
    count: usize,
    /// Bytes of all datagrams, if the kernel cuts them.
    train: Option<Vec<u8>>,
}

impl End for Sockets {
    fn send(&mut self, message: &[u8]) -> io::Result<u64> {
        let destination = self.peer;
        let sent = match &self.train {
            Some(train) => {
                let segment_bytes = u16::try_from(message.len()).ok().and_then(NonZeroU16::new);
                let slices = &[IoSlice::new(train)];
                self.socket.send(&[Transmit { slices, destination, segment_bytes }])
            }
            None => {
                let slices = &[IoSlice::new(message)];
                let transmit = Transmit { slices, destination, segment_bytes: None };
                self.socket.send(&[transmit; BATCH])
            }
        };
        match sent.first_failure {
            Some(failure) => Err(io::Error::other(format!("datagram {}: {}", failure.index, failure.error))),
            None => Ok(self.count as u64),
        }
    }

    fn receive(&mut self) -> io::Result<Option<u64>> {
        match self.receiver.receive(&self.socket, Wait::Block) {
            Ok(datagrams) => Ok(Some(datagrams.len() as u64).filter(|count| *count > 0)),
            Err(ReceiveError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
