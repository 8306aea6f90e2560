//! Plain UDP sockets: the floor of every middleware.
//!
//! Written like an ordinary, careful UDP program: connected sockets, blocking calls, one system call per datagram,
//! large receive buffers. One datagram is one sample, or several consecutive ones with `-batchSize`.
//!
//! The send buffer keeps its default: with a larger one the kernel's queueing discipline silently drops datagrams for
//! which a blocking `send` would have waited. On loopback the send buffer is never charged.

mod address;
mod socket;

use std::io::{self, ErrorKind, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use peregrine_report::record::WireUse;
use rustix::net::RecvFlags;
use socket2::{SockRef, Socket};

use self::address::Addresses;
use super::receive_buffer::{self, ReceiveBuffer};
use super::{
    Carried, Configuration, EndpointReport, HEADER_LEN, Messaging, Resent, Sample, SampleReader, SampleWriter,
    SocketTraffic, Topic, WireCounter, WriteError,
};
use crate::clock::MonotonicNs;
use crate::error::Error;
use crate::plan::{Batching, MAX_DATAGRAM_LEN, Role, TestPlan, ThreadPlan, Wait};
use crate::terminal::message;
use crate::threads::{self, ThreadKind};

/// Up to this length a sample is copied behind its header; beyond, the kernel gathers both.
const COPY_LIMIT: usize = 4096;
/// Longest datagram.
const RECEIVE_BUFFER_LEN: usize = 65_536;

/// Plain sockets of one process.
#[derive(Debug)]
pub struct RawMessaging {
    addresses: Addresses,
    batching: Batching,
    blocking_send: bool,
    threads: ThreadPlan,
    wait: Wait,
    receive_buffer: ReceiveBuffer,
    traffic: SocketTraffic,
}

impl RawMessaging {
    /// Resolves all addresses of the plan.
    pub fn new(plan: &TestPlan) -> Result<Self, Error> {
        let addresses = Addresses::resolve(plan)?;
        let receive_buffer = ReceiveBuffer::probe(addresses.is_ipv4(), receive_buffer::DEFAULT_LEN)?;
        let batching = match &plan.role {
            Role::Publisher(publisher) => publisher.batching,
            Role::Subscriber(_) => Batching::Off,
        };
        Ok(Self {
            addresses,
            batching,
            blocking_send: plan.transport.blocking_send,
            threads: plan.threads.clone(),
            wait: plan.receive.wait,
            receive_buffer,
            traffic: SocketTraffic::default(),
        })
    }
}

impl Messaging for RawMessaging {
    type Writer = RawWriter;
    type Reader = RawReader;

    fn name(&self) -> String {
        "plain UDP sockets".into()
    }

    fn configuration(&self) -> Configuration {
        let yes_no = |yes| String::from(if yes { "Yes" } else { "No" });
        let ports = |addresses: Vec<SocketAddr>| {
            let ports: Vec<_> = addresses.iter().map(|address| address.port().to_string()).collect();
            ports.join(", ")
        };
        Configuration {
            perftest: vec![("Middleware".into(), "Raw Transport".into())],
            transport: vec![
                ("Blocking Sockets".into(), yes_no(self.blocking_send)),
                ("Receive Buffer".into(), format!("{} bytes", self.receive_buffer.granted_len)),
                ("Receives at port".into(), ports(self.addresses.local())),
                ("Sends to port".into(), ports(self.addresses.remote())),
            ],
            security: Vec::new(),
            warnings: self.receive_buffer.shortfall().into_iter().collect(),
        }
    }

    fn wire_counter(&self) -> WireCounter {
        let (traffic, ports) = (self.traffic.clone(), self.configuration().transport);
        let ports = ports.into_iter().filter(|(label, _)| label.contains("port"));
        let path: Vec<String> = ports.map(|(label, ports)| format!("{label}: {ports}")).collect();
        Box::new(move || WireUse { path: path.clone(), ..traffic.wire_use() })
    }

    fn initial_burst(&self, _: u64) -> u64 {
        0
    }

    fn resource_limits(&self) -> Vec<EndpointReport> {
        let lines = vec![("Receive buffer", format!("{} bytes", self.receive_buffer.granted_len))];
        vec![EndpointReport { title: "Each receiving socket".into(), lines }]
    }

    fn counters(&self) -> Vec<EndpointReport> {
        Vec::new()
    }

    fn resent(&self) -> Option<Resent> {
        None
    }

    fn create_writer(&self, topic: Topic) -> Result<RawWriter, Error> {
        let sockets = self
            .addresses
            .destinations(topic)
            .iter()
            .map(|destination| socket::sender(&self.addresses, *destination, self.blocking_send))
            .collect::<Result<_, _>>()?;
        let batching = if topic == Topic::Throughput { self.batching } else { Batching::Off };
        let buffer = Vec::with_capacity(MAX_DATAGRAM_LEN);
        Ok(RawWriter { sockets, batching, buffer, batched: 0, sent: self.traffic.sent() })
    }

    fn create_reader(&self, topic: Topic) -> Result<RawReader, Error> {
        let socket = socket::receiver(&self.addresses, topic)?;
        Ok(RawReader {
            socket,
            buffer: vec![0; RECEIVE_BUFFER_LEN],
            timeout: None,
            threads: self.threads.clone(),
            wait: self.wait,
            name: topic.to_string(),
            received: self.traffic.received(),
        })
    }
}

/// Sends the samples of one topic to all destinations.
#[derive(Debug)]
pub struct RawWriter {
    /// One connected socket per destination.
    sockets: Vec<Socket>,
    batching: Batching,
    buffer: Vec<u8>,
    batched: u64,
    sent: Carried,
}

impl SampleWriter for RawWriter {
    #[inline]
    fn write(&mut self, sample: &Sample<'_>) -> Result<(), WriteError> {
        let header = sample.header();
        let len = HEADER_LEN + sample.payload.len();
        let samples_per_batch = self.batching.samples_for(len - super::ENCAPSULATION_LEN);
        if samples_per_batch > 1 {
            return self.append(&header, sample.payload, samples_per_batch);
        }
        self.flush()?;
        if len <= COPY_LIMIT {
            self.buffer.extend_from_slice(&header);
            self.buffer.extend_from_slice(sample.payload);
            let sent = self.send_to_all(|socket, buffer| socket.send(buffer));
            self.buffer.clear();
            sent
        } else {
            let parts = [IoSlice::new(&header), IoSlice::new(sample.payload)];
            self.send_to_all(|socket, _| socket.send_vectored(&parts))
        }
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        if self.batched == 0 {
            return Ok(());
        }
        let sent = self.send_to_all(|socket, buffer| socket.send(buffer));
        self.buffer.clear();
        self.batched = 0;
        sent
    }

    fn wait_for_readers(&mut self, _: u32, _: Duration) -> Result<bool, Error> {
        Ok(true)
    }

    fn wait_for_acknowledgments(&mut self, _: Duration) -> Result<bool, Error> {
        Ok(true)
    }
}

impl RawWriter {
    fn append(&mut self, header: &[u8], payload: &[u8], samples_per_batch: u64) -> Result<(), WriteError> {
        if self.buffer.len() + header.len() + payload.len() > MAX_DATAGRAM_LEN {
            self.flush()?;
        }
        self.buffer.extend_from_slice(header);
        self.buffer.extend_from_slice(payload);
        self.batched += 1;
        if self.batched >= samples_per_batch { self.flush() } else { Ok(()) }
    }

    /// Sends to every destination, even after an error.
    #[inline]
    fn send_to_all(&self, send: impl Fn(&Socket, &[u8]) -> io::Result<usize>) -> Result<(), WriteError> {
        let mut result = Ok(());
        for socket in &self.sockets {
            match send(socket, &self.buffer) {
                Ok(len) => self.sent.datagram(len),
                Err(error) => {
                    self.sent.error();
                    result = Err(write_error(&error, socket));
                }
            }
        }
        result
    }
}

#[cold]
fn write_error(error: &io::Error, socket: &Socket) -> WriteError {
    let peer =
        socket.peer_addr().ok().and_then(|peer| peer.as_socket()).map_or_else(String::new, |peer| peer.to_string());
    match error.kind() {
        ErrorKind::WouldBlock => WriteError::WouldBlock,
        ErrorKind::ConnectionRefused => WriteError::PartnerGone(format!("No process receives at {peer} any more")),
        _ => WriteError::Failed(format!("Cannot send to {peer}: {error}")),
    }
}

/// Receives the samples of one topic.
#[derive(Debug)]
pub struct RawReader {
    socket: UdpSocket,
    buffer: Vec<u8>,
    /// Current value of SO_RCVTIMEO.
    timeout: Option<Duration>,
    threads: ThreadPlan,
    wait: Wait,
    name: String,
    received: Carried,
}

/// A running receive thread.
#[derive(Debug)]
pub struct RawListening {
    socket: UdpSocket,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SampleReader for RawReader {
    type Listening = RawListening;

    fn wait_for_writers(&mut self, _: u32, _: Duration) -> Result<bool, Error> {
        Ok(true)
    }

    fn listen<F>(mut self, mut on_sample: F) -> Result<RawListening, Error>
    where
        F: FnMut(&Sample<'_>) + Send + 'static,
    {
        let thread_error = |error: io::Error| Error::Setup(format!("Cannot start a receive thread: {error}"));
        let closing = Arc::new(AtomicBool::new(false));
        let socket = self.socket.try_clone().map_err(thread_error)?;
        let (applied, is_applied) = std::sync::mpsc::sync_channel(1);
        let run = {
            let closing = Arc::clone(&closing);
            move || {
                let result = threads::apply_to_current_thread(&self.threads, ThreadKind::Receive);
                let ready = result.is_ok();
                let _ = applied.send(result);
                while ready && !closing.load(Ordering::Acquire) {
                    let keep_on = || !closing.load(Ordering::Relaxed);
                    match receive(&self.socket, &mut self.buffer, self.wait, keep_on) {
                        Ok(len) => {
                            self.received.datagram(len);
                            Sample::each(&self.buffer[..len], &mut on_sample);
                        }
                        Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                        Err(error) => {
                            message(format_args!("Receiving on {} has ended: {error}", self.name));
                            return;
                        }
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("receive".into()).spawn(run).map_err(thread_error)?;
        let listening = RawListening { socket, closing, thread: Some(thread) };
        match is_applied.recv() {
            Ok(Ok(())) => Ok(listening),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(Error::Setup("A receive thread ended before it began".into())),
        }
    }

    fn receive<F>(&mut self, timeout: Duration, mut on_sample: F) -> Result<usize, Error>
    where
        F: FnMut(&Sample<'_>),
    {
        let failed = |error: io::Error| Error::Transfer(format!("Cannot receive: {error}"));
        let timeout = timeout.max(Duration::from_micros(1));
        if self.timeout != Some(timeout) {
            self.socket.set_read_timeout(Some(timeout)).map_err(failed)?;
            self.timeout = Some(timeout);
        }
        let end = MonotonicNs::now().plus(timeout);
        loop {
            match receive(&self.socket, &mut self.buffer, self.wait, || !end.remaining().is_zero()) {
                Ok(len) => {
                    self.received.datagram(len);
                    match Sample::each(&self.buffer[..len], &mut on_sample) {
                        0 if end.remaining().is_zero() => return Ok(0),
                        0 => {}
                        count => return Ok(count),
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(0),
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Waits for a datagram in one of three ways; `keep_on` ends a wait that spins.
#[inline]
fn receive(socket: &UdpSocket, buffer: &mut [u8], wait: Wait, keep_on: impl Fn() -> bool) -> io::Result<usize> {
    let spin_end = match wait {
        Wait::Block => return socket.recv(buffer),
        Wait::Spin(time) => MonotonicNs::now().plus(time),
        Wait::Poll => MonotonicNs(u64::MAX),
    };
    loop {
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((len, _)) => return Ok(len),
            Err(rustix::io::Errno::AGAIN) if !keep_on() => return Err(ErrorKind::WouldBlock.into()),
            Err(rustix::io::Errno::AGAIN) if spin_end.remaining().is_zero() => return socket.recv(buffer),
            Err(rustix::io::Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Drop for RawListening {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // Wakes the blocked recv. Linux returns ENOTCONN for an unconnected socket but wakes the thread anyway.
        let _ = SockRef::from(&self.socket).shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
