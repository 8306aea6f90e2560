//! Plain UDP sockets: one datagram per sample and receiver, without a protocol.

use std::io::{ErrorKind, Result as IoResult};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use peregrine_report::record::WireUse;

use super::link::{Link, Receiver, Sender};
use crate::campaign::job::{Channel, Job};
use crate::campaign::spec::Wait;
use crate::campaign::types::Stamp;
use crate::clock::MonotonicNs;
use crate::error::Error;
use crate::messaging::{Carried, SocketTraffic};
use crate::payload;
use crate::resources::socket_drops;

/// Requested receive buffer, the same as Peregrine requests.
const RECEIVE_BUFFER_LEN: usize = 8 << 20;
/// Length of the largest datagram, in bytes.
const MAX_LEN: usize = 65_536;

pub(super) struct RawLink {
    address: IpAddr,
    data_len: usize,
    wait: Wait,
    patterns: bool,
    traffic: SocketTraffic,
}

impl RawLink {
    pub(super) fn new(job: &Job) -> Self {
        Self {
            address: job.address,
            data_len: job.data_len as usize,
            wait: job.wait,
            patterns: job.patterns,
            traffic: SocketTraffic::default(),
        }
    }

    fn socket(&self) -> Result<UdpSocket, Error> {
        let failed =
            |error: std::io::Error| Error::Setup(format!("Cannot open a UDP socket at {}: {error}", self.address));
        let socket = UdpSocket::bind((self.address, 0)).map_err(failed)?;
        socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER_LEN).map_err(failed)?;
        Ok(socket)
    }
}

impl Link for RawLink {
    fn sender(&self, _: Channel) -> Result<Box<dyn Sender>, Error> {
        let datagram = vec![0; self.data_len.max(Stamp::LEN)];
        let (socket, patterns) = (self.socket()?, self.patterns);
        let (receivers, sent) = (Vec::new(), self.traffic.sent());
        Ok(Box::new(RawSender { socket, datagram, receivers, patterns, filled_for: None, sent }))
    }

    fn receiver(&self, _: Channel) -> Result<Box<dyn Receiver>, Error> {
        let socket = self.socket()?;
        let address = socket.local_addr().map_err(|error| failed(&error))?;
        socket.set_nonblocking(looks_again(self.wait)).map_err(|error| failed(&error))?;
        Ok(Box::new(RawReceiver {
            socket,
            address,
            wait: self.wait,
            limit: Duration::ZERO,
            buffer: vec![0; MAX_LEN],
            corrupt: self.patterns.then_some(0),
            received: self.traffic.received(),
        }))
    }

    fn wire(&self) -> WireUse {
        let path = vec![format!("plain UDP sockets at {}", self.address)];
        WireUse { path, kernel_drops: socket_drops(), ..self.traffic.wire_use() }
    }
}

/// Whether a thread polls; a socket has no listener.
fn looks_again(wait: Wait) -> bool {
    match wait {
        Wait::Spin | Wait::Poll => true,
        Wait::Block | Wait::Listener => false,
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::Transfer(format!("A UDP socket failed: {error}"))
}

struct RawSender {
    socket: UdpSocket,
    datagram: Vec<u8>,
    receivers: Vec<SocketAddr>,
    patterns: bool,
    /// The sample whose pattern the datagram contains.
    filled_for: Option<u64>,
    sent: Carried,
}

impl RawSender {
    fn fill(&mut self, number: u64) {
        if self.patterns && self.filled_for != Some(number) {
            payload::write_some(self.datagram.get_mut(Stamp::LEN..).unwrap_or_default(), number);
            self.filled_for = Some(number);
        }
    }
}

impl Sender for RawSender {
    fn join(&mut self, addresses: &[SocketAddr], receivers: u32, _: MonotonicNs) -> Result<(), Error> {
        if addresses.len() != receivers as usize {
            let text = format!("got {} addresses of {receivers} receivers", addresses.len());
            return Err(Error::Partner(text));
        }
        self.receivers = addresses.to_vec();
        Ok(())
    }

    fn send(&mut self, stamp: &Stamp) -> Result<bool, Error> {
        self.fill(stamp.id());
        if let Some(first) = self.datagram.first_chunk_mut() {
            *first = stamp.to_octets();
        }
        let mut is_complete = true;
        for receiver in &self.receivers {
            match self.socket.send_to(&self.datagram, receiver) {
                Ok(len) => self.sent.datagram(len),
                // An ended receiver refuses and a full queue drops datagrams; neither ends this sender.
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock) => {
                    self.sent.error();
                    is_complete = false;
                }
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) => {
                    self.sent.error();
                    is_complete = false;
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        // Prepares the expected next sample while no thread waits for it.
        self.fill(stamp.id().wrapping_add(1));
        Ok(is_complete)
    }

    fn finish(&mut self, _: Duration) -> Result<(), Error> {
        Ok(())
    }
}

struct RawReceiver {
    socket: UdpSocket,
    address: SocketAddr,
    wait: Wait,
    /// Current read timeout of the socket; zero before it was set.
    limit: Duration,
    buffer: Vec<u8>,
    corrupt: Option<u64>,
    received: Carried,
}

impl RawReceiver {
    /// Stamp and length of the next datagram.
    fn next(&mut self) -> IoResult<Option<(Stamp, usize)>> {
        match self.socket.recv(&mut self.buffer) {
            Ok(len) => {
                self.received.datagram(len);
                Ok(Stamp::of_octets(self.buffer.get(..len).unwrap_or_default()).map(|stamp| (stamp, len)))
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn wait_by_turning(&mut self, limit: Duration) -> IoResult<Option<(Stamp, usize)>> {
        let end = MonotonicNs::now().plus(limit);
        loop {
            let next = self.next()?;
            if next.is_some() || end.remaining().is_zero() {
                return Ok(next);
            }
            std::hint::spin_loop();
        }
    }
}

impl Receiver for RawReceiver {
    fn address(&self) -> Option<SocketAddr> {
        Some(self.address)
    }

    fn join(&mut self, _: u32, _: MonotonicNs) -> Result<(), Error> {
        Ok(())
    }

    fn receive(&mut self, limit: Duration, on_sample: &mut dyn FnMut(Stamp, MonotonicNs)) -> Result<(), Error> {
        if !looks_again(self.wait) && self.limit != limit {
            // A timeout of zero would mean no timeout.
            self.socket.set_read_timeout(Some(limit.max(Duration::from_micros(1)))).map_err(|error| failed(&error))?;
            self.limit = limit;
        }
        let next = if looks_again(self.wait) { self.wait_by_turning(limit) } else { self.next() };
        if let Some((stamp, len)) = next.map_err(|error| failed(&error))? {
            on_sample(stamp, MonotonicNs::now());
            if let Some(corrupt) = &mut self.corrupt {
                let bytes = self.buffer.get(Stamp::LEN..len).unwrap_or_default();
                *corrupt += u64::from(!payload::are_some_intact(bytes, stamp.id()));
            }
        }
        Ok(())
    }

    fn corrupt(&self) -> Option<u64> {
        self.corrupt
    }
}
