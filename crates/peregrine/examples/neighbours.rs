//! One-way latency of a sample to another process of this host: by shared memory, by UDP, and by a bare UDP socket.
//!
//! The program starts itself again as the other process, which returns every sample from a listener. The latency is
//! half of a round trip. The program prints a line for each size and path: median and 99th percentile, in microseconds.
#![forbid(unsafe_code)]

use std::error::Error;
use std::net::UdpSocket;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use peregrine::{DataReader, DdsType, DomainConfig, DomainParticipant, InterfaceSelection};

const OTHER: &str = "PEREGRINE_NEIGHBOURS_OTHER";
const DOMAIN: u32 = 212;
const PATIENCE: Duration = Duration::from_secs(20);
const SIZES: [usize; 3] = [32, 1024, 63_000];
const ROUNDS: usize = 3000;
const WARM_UP: usize = 300;

#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
struct Blob {
    octets: Vec<u8>,
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::var(OTHER).as_deref() {
        Ok("shared memory") => return send_back(true),
        Ok("udp") => return send_back(false),
        Ok(address) => return send_back_bare(address),
        Err(_) => {}
    }
    for (way, shared_memory) in [("shared memory", true), ("udp", false)] {
        let participant = participant(shared_memory)?;
        let writer = participant.topic::<Blob>("there")?.writer_builder().reliable().keep_last(16).build()?;
        let reader = participant.topic::<Blob>("back")?.reader_builder().reliable().keep_last(16).build()?;
        let _other = Other::start(way)?;
        writer.wait_for_readers(1, PATIENCE)?;
        reader.wait_for_writers(1, PATIENCE)?;
        while shared_memory && participant.shared_memory_statistics().readers == 0 {
            std::thread::yield_now();
        }
        for size in SIZES {
            let sent = Blob { octets: vec![7; size] };
            measure(way, size, || {
                writer.write(&sent)?;
                reader.wait_and_take(PATIENCE)?;
                Ok(())
            })?;
        }
        throughput(way, &participant)?;
    }
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let _other = Other::start(&socket.local_addr()?.to_string())?;
    let mut buffer = vec![0; 65_507];
    let (_, other) = socket.recv_from(&mut buffer)?;
    for size in SIZES {
        measure("bare udp", size, || {
            socket.send_to(buffer.get(..size).unwrap_or_default(), other)?;
            socket.recv(&mut buffer)?;
            Ok(())
        })?;
    }
    Ok(())
}

/// Measures and prints half of the round-trip time.
fn measure(
    way: &str,
    size: usize,
    mut round_trip: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut halves = Vec::with_capacity(ROUNDS);
    for round in 0..WARM_UP + ROUNDS {
        let start = Instant::now();
        round_trip()?;
        if round >= WARM_UP {
            halves.push(start.elapsed() / 2);
        }
    }
    halves.sort_unstable();
    let at = |part: usize| halves.get(halves.len() * part / 100).map_or(0.0, |half| half.as_secs_f64() * 1e6);
    println!("{way:>13} {size:>6} bytes: {:7.2} us  p99 {:7.2} us", at(50), at(99));
    Ok(())
}

/// Measures and prints the throughput of one writer to one reader.
fn throughput(way: &str, participant: &DomainParticipant) -> Result<(), Box<dyn Error>> {
    let topic = participant.topic::<Blob>("flow")?;
    let writer = topic.writer_builder().reliable().keep_all().max_blocking_time(PATIENCE).build()?;
    writer.wait_for_readers(1, PATIENCE)?;
    // The processes agree on the path shortly after the match.
    while way == "shared memory" && participant.shared_memory_statistics().readers < 2 {
        std::thread::yield_now();
    }
    for (size, samples) in [(32, 300_000_u32), (1024, 200_000), (63_000, 10_000)] {
        let sent = Blob { octets: vec![7; size] };
        let start = Instant::now();
        for _ in 0..samples {
            writer.write(&sent)?;
        }
        writer.wait_for_acknowledgments(PATIENCE)?;
        let rate = f64::from(samples) / start.elapsed().as_secs_f64();
        println!("{way:>13} {size:>6} bytes: {rate:9.0} samples/s, {:8.0} Mbit/s", rate * size as f64 * 8e-6);
    }
    Ok(())
}

fn participant(shared_memory: bool) -> Result<DomainParticipant, peregrine::Error> {
    let mut config = DomainConfig::default();
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    config.shared_memory = shared_memory;
    DomainParticipant::builder(DOMAIN).config(config).build()
}

fn send_back(shared_memory: bool) -> Result<(), Box<dyn Error>> {
    let participant = participant(shared_memory)?;
    let writer = participant.topic::<Blob>("back")?.writer_builder().reliable().keep_last(16).build()?;
    let (gone, all_gone) = mpsc::sync_channel::<()>(1);
    let reader = participant.topic::<Blob>("there")?.reader_builder().reliable().keep_last(16);
    let _reader = reader
        .on_data(move |reader: &DataReader<Blob>| {
            for blob in reader.take().into_iter().flatten().filter_map(|sample| sample.into_value()) {
                if writer.write(&blob).is_err() {
                    // The send fails only if the receiver no longer waits.
                    let _ = gone.try_send(());
                }
            }
        })
        .build()?;
    let flow = participant.topic::<Blob>("flow")?.reader_builder().reliable().keep_all();
    let _flow = flow.on_data(|reader: &DataReader<Blob>| drop(reader.take())).build()?;
    // The process that has started this one ends it.
    let _ = all_gone.recv();
    Ok(())
}

fn send_back_bare(address: &str) -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.send(&[0])?;
    let mut buffer = vec![0; 65_507];
    loop {
        let len = socket.recv(&mut buffer)?;
        socket.send(buffer.get(..len).unwrap_or_default())?;
    }
}

/// The other process, ended when this is dropped.
struct Other(Child);

impl Other {
    fn start(role: &str) -> std::io::Result<Self> {
        Command::new(std::env::current_exe()?).env(OTHER, role).spawn().map(Self)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
