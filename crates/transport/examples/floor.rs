//! The cost of a `Socket` compared with bare system calls, on loopback: one-way latency and throughput, measured in
//! turns.
//!
//! `cargo run --release -p peregrine-transport --example floor [-- ROUNDS]`
//!
//! Two threads, pinned to CPUs 0 and 1 where there are two; `/dev/cpu_dma_latency` is held at 0 while measuring, when
//! the process may. Each row is the median over the rounds; each ratio compares with the first row of its table.

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::thread as os_thread;
use peregrine_transport::udp::{Receiver, ReceiverOptions, Socket, SocketOptions, Transmit, Wait};
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const ROUND_TRIPS: usize = 10_000;
const WARM_UP: usize = 1_000;
const THROUGHPUT_TIME: Duration = Duration::from_millis(300);
/// The sender counts as ended after this long without a datagram.
const SILENCE: Duration = Duration::from_millis(200);
const BUFFER_BYTES: usize = 8 << 20;

/// The first row is the reference of the others.
const LATENCY_ROWS: [(Kind, &str); 4] = [
    (Kind::Unconnected, "bare send_to/recv_from"),
    (Kind::Connected, "bare send/recv, connected"),
    (Kind::Ours, "Socket"),
    (Kind::OursConnected, "Socket, connected to send"),
];

/// One end of a pair.
trait Endpoint: Send {
    /// Sends `count` datagrams of the same bytes.
    fn send(&mut self, bytes: &[u8], count: usize);
    /// Waits for datagrams; returns how many came, 0 after [`SILENCE`].
    fn receive(&mut self) -> usize;
}

/// `send` and `recv`, or `send_to` and `recv_from`, of the standard library.
struct Raw {
    socket: UdpSocket,
    peer: Option<SocketAddr>,
    buffer: Vec<u8>,
}

impl Endpoint for Raw {
    fn send(&mut self, bytes: &[u8], count: usize) {
        for _ in 0..count {
            match self.peer {
                Some(peer) => self.socket.send_to(bytes, peer).expect("loopback accepts the datagram"),
                None => self.socket.send(bytes).expect("loopback accepts the datagram"),
            };
        }
    }

    fn receive(&mut self) -> usize {
        let result = match self.peer {
            Some(_) => self.socket.recv_from(&mut self.buffer).map(drop),
            None => self.socket.recv(&mut self.buffer).map(drop),
        };
        usize::from(result.is_ok())
    }
}

struct Ours {
    /// The sockets for sending and receiving: the same one unless the first is connected.
    sender: Arc<Socket>,
    socket: Arc<Socket>,
    receiver: Receiver,
    peer: SocketAddr,
    /// Send several as one super-datagram, not as several datagrams.
    train: bool,
    content: Vec<u8>,
}

impl Endpoint for Ours {
    fn send(&mut self, bytes: &[u8], count: usize) {
        let destination = self.peer;
        let sent = if self.train && count > 1 {
            self.content.resize(bytes.len() * count, 0);
            let slices = &[IoSlice::new(&self.content)];
            let segment_bytes = NonZeroU16::new(bytes.len() as u16);
            self.sender.send(&[Transmit { slices, destination, segment_bytes }])
        } else {
            let slices = &[IoSlice::new(bytes)];
            let transmit = Transmit { slices, destination, segment_bytes: None };
            self.sender.send(&[transmit; 32][..count])
        };
        assert!(sent.first_failure.is_none(), "{sent:?}");
    }

    fn receive(&mut self) -> usize {
        self.receiver.receive(&self.socket, Wait::Block).expect("open").len()
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Connected,
    Unconnected,
    Ours,
    OursConnected,
    OursTrain,
}

fn pair(kind: Kind) -> (Box<dyn Endpoint>, Box<dyn Endpoint>) {
    let loopback: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    if matches!(kind, Kind::Connected | Kind::Unconnected) {
        let [near, far] = [(); 2].map(|()| {
            let socket = UdpSocket::bind(loopback).expect("a free port");
            let options = socket2::SockRef::from(&socket);
            options.set_recv_buffer_size(BUFFER_BYTES).expect("a buffer");
            options.set_read_timeout(Some(SILENCE)).expect("a timeout");
            socket
        });
        let addresses = [&near, &far].map(|socket| socket.local_addr().expect("bound"));
        let connected = matches!(kind, Kind::Connected);
        let raw = |socket: UdpSocket, peer| -> Box<dyn Endpoint> {
            if connected {
                socket.connect(peer).expect("connected");
            }
            Box::new(Raw { socket, peer: (!connected).then_some(peer), buffer: vec![0; 1 << 16] })
        };
        return (raw(near, addresses[1]), raw(far, addresses[0]));
    }
    let [near, far] = [(); 2].map(|()| {
        let options = SocketOptions { receive_buffer_bytes: Some(BUFFER_BYTES), ..Default::default() };
        let socket = Socket::unicast(loopback, &options).expect("a free port");
        socket2::SockRef::from(&socket).set_read_timeout(Some(SILENCE)).expect("a timeout");
        Arc::new(socket)
    });
    let addresses = [&near, &far].map(|socket| socket.local_address());
    let ours = |socket: Arc<Socket>, peer| -> Box<dyn Endpoint> {
        let receiver = Receiver::new(&ReceiverOptions::default());
        let sender = match kind {
            Kind::OursConnected => {
                Arc::new(Socket::connected(peer, &SocketOptions::default()).expect("loopback has a route"))
            }
            _ => Arc::clone(&socket),
        };
        let train = matches!(kind, Kind::OursTrain);
        Box::new(Ours { sender, socket, receiver, peer, train, content: Vec::new() })
    };
    (ours(near, addresses[1]), ours(far, addresses[0]))
}

fn pin(cpu: usize) {
    if thread::available_parallelism().is_ok_and(|count| count.get() > 1) {
        os_thread::set_affinity(&[cpu]).unwrap_or_else(|error| eprintln!("{error}"));
    }
}

/// Waits for the one datagram in transit; on a busy machine that may take several [`SILENCE`]s.
fn receive_one(endpoint: &mut dyn Endpoint) {
    let received = (0..25).map(|_| endpoint.receive()).find(|&count| count > 0);
    assert_eq!(received, Some(1), "loopback loses no datagram");
}

/// The one-way latencies of one round in ns, sorted.
fn latencies_ns(kind: Kind, bytes: usize) -> Vec<u64> {
    let (mut near, mut far) = pair(kind);
    let content = vec![7; bytes];
    let echo_content = content.clone();
    let echo = thread::spawn(move || {
        pin(1);
        for _ in 0..WARM_UP + ROUND_TRIPS {
            receive_one(far.as_mut());
            far.send(&echo_content, 1);
        }
    });
    pin(0);
    let mut latencies_ns = Vec::with_capacity(ROUND_TRIPS);
    for round in 0..WARM_UP + ROUND_TRIPS {
        let start = MonotonicNs::now();
        near.send(&content, 1);
        receive_one(near.as_mut());
        if round >= WARM_UP {
            latencies_ns.push(MonotonicNs::now().since(start).as_nanos() as u64 / 2);
        }
    }
    echo.join().expect("no panic");
    latencies_ns.sort_unstable();
    latencies_ns
}

/// Datagrams received per second, and the fraction lost, of one round.
fn throughput(kind: Kind, bytes: usize, batch: usize) -> (f64, f64) {
    let (mut near, mut far) = pair(kind);
    let counter = thread::spawn(move || {
        pin(1);
        let (mut count, mut last) = (0_u64, MonotonicNs::now());
        loop {
            match far.receive() {
                0 => return (count, last),
                several => count += several as u64,
            }
            last = MonotonicNs::now();
        }
    });
    pin(0);
    let content = vec![7; bytes];
    let start = MonotonicNs::now();
    let end = start.after(THROUGHPUT_TIME);
    let mut sent = 0_u64;
    while MonotonicNs::now() < end {
        near.send(&content, batch);
        sent += batch as u64;
    }
    let (count, last) = counter.join().expect("no panic");
    (count as f64 / last.since(start).as_secs_f64(), 1.0 - count as f64 / sent as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let rounds: usize =
        std::env::args().nth(1).map_or(5, |text| text.parse().expect("ROUNDS is a number above 0")).max(1);
    let guard = os_thread::CpuLatencyGuard::hold(0);
    match &guard {
        Ok(_) => println!("/dev/cpu_dma_latency held at 0"),
        Err(error) => println!("idle CPUs may sleep: {error}"),
    }
    print_costs(rounds);
    print_latencies(rounds);
    print_throughputs(rounds);
}

/// Without wake-ups and without another CPU: the cost of the calls alone.
fn print_costs(rounds: usize) {
    const CALLS: u32 = 300;
    let cycles = rounds * 60;
    println!("\none send and one receive on one thread: {cycles} times {CALLS}, in turns");
    println!("{:>6}  {:<28} {:>9} {:>9} {:>7}", "bytes", "", "min ns", "p50 ns", "ratio");
    pin(0);
    for bytes in [32, 1024] {
        let content = vec![7; bytes];
        let mut pairs = LATENCY_ROWS.map(|(kind, _)| pair(kind));
        let mut runs = LATENCY_ROWS.map(|_| Vec::with_capacity(cycles));
        for _ in 0..cycles {
            for ((near, far), runs) in pairs.iter_mut().zip(&mut runs) {
                let start = MonotonicNs::now();
                for _ in 0..CALLS {
                    near.send(&content, 1);
                    receive_one(far.as_mut());
                }
                runs.push(MonotonicNs::now().since(start).as_nanos() as f64 / f64::from(CALLS));
            }
        }
        let mut first = None;
        for (mut runs, (_, name)) in runs.into_iter().zip(LATENCY_ROWS) {
            runs.sort_by(f64::total_cmp);
            let (min_ns, p50_ns) = (runs[0], runs[runs.len() / 2]);
            let ratio = p50_ns / *first.get_or_insert(p50_ns);
            println!("{bytes:>6}  {name:<28} {min_ns:>9.0} {p50_ns:>9.0} {ratio:>7.3}");
        }
    }
}

fn print_latencies(rounds: usize) {
    println!("\none-way latency over loopback, blocking: median of {rounds} rounds of {ROUND_TRIPS} round trips");
    println!("{:>6}  {:<28} {:>9} {:>9} {:>7}", "bytes", "", "p50 us", "p99 us", "ratio");
    for bytes in [32, 1024, 16_384, 63_000] {
        let mut runs = vec![Vec::<(f64, f64)>::new(); LATENCY_ROWS.len()];
        for _ in 0..rounds {
            for (runs, (kind, _)) in runs.iter_mut().zip(LATENCY_ROWS) {
                let sorted = latencies_ns(kind, bytes);
                runs.push((sorted[sorted.len() / 2] as f64 / 1e3, sorted[sorted.len() * 99 / 100] as f64 / 1e3));
            }
        }
        let mut first = None;
        for (runs, (_, name)) in runs.iter().zip(LATENCY_ROWS) {
            let p50_us = median(runs.iter().map(|run| run.0).collect());
            let p99_us = median(runs.iter().map(|run| run.1).collect());
            let ratio = p50_us / *first.get_or_insert(p50_us);
            println!("{bytes:>6}  {name:<28} {p50_us:>9.3} {p99_us:>9.3} {ratio:>7.3}");
        }
    }
}

fn print_throughputs(rounds: usize) {
    println!("\nthroughput over loopback: median of {rounds} rounds of {} ms", THROUGHPUT_TIME.as_millis());
    println!("{:>6}  {:<28} {:>12} {:>7} {:>7}", "bytes", "", "samples/s", "lost %", "ratio");
    for bytes in [32, 1024, 16_384, 63_000] {
        let train = (65_000 / bytes).clamp(1, 32);
        let rows = [
            (Kind::Unconnected, 1, "bare send_to/recv_from"),
            (Kind::Connected, 1, "bare send/recv, connected"),
            (Kind::Ours, 1, "Socket, one per call"),
            (Kind::OursConnected, 1, "Socket, connected to send"),
            (Kind::Ours, 32, "Socket, 32 per call"),
            (Kind::OursTrain, train, "Socket, trains"),
        ];
        let mut runs = vec![Vec::<(f64, f64)>::new(); rows.len()];
        for _ in 0..rounds {
            for (runs, (kind, batch, _)) in runs.iter_mut().zip(rows) {
                runs.push(throughput(kind, bytes, batch));
            }
        }
        let mut first = None;
        for (runs, (_, _, name)) in runs.iter().zip(rows) {
            let rate = median(runs.iter().map(|run| run.0).collect());
            let lost = median(runs.iter().map(|run| run.1 * 100.0).collect());
            let ratio = rate / *first.get_or_insert(rate);
            println!("{bytes:>6}  {name:<28} {rate:>12.0} {lost:>7.1} {ratio:>7.2}");
        }
    }
}
