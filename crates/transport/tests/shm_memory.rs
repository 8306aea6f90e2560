//! Memory of idle channels, measured in the two processes that they connect. This program starts itself again as the
//! process of the readers.
#![cfg(target_os = "linux")]

use peregrine_transport::shm::{
    Address, Connecting, Listener, Metadata, Overflow, Reader, ReaderConfig, ReaderKey, Trust, Writer, WriterConfig,
    WriterKey,
};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const ADDRESS: &str = "PEREGRINE_SHM_MEMORY_ADDRESS";
const WRITERS: usize = 16;
const READERS: usize = 32;
const CHANNELS: usize = WRITERS * READERS;
/// Most memory that an idle channel adds to each process, in KiB, resident: one page of the ring and one of the cells,
/// which both processes map, and small allocations.
const RESIDENT_KIB_MAX: f64 = 10.0;
/// Like [`RESIDENT_KIB_MAX`], with each shared page divided equally among the processes that map it.
const PROPORTIONAL_KIB_MAX: f64 = 6.0;

fn main() {
    match std::env::var(ADDRESS) {
        Ok(address) => read(Address(address.parse::<u128>().unwrap().to_be_bytes())),
        Err(_) => write(),
    }
}

/// Memory of the calling process, in KiB.
#[derive(Clone, Copy, Debug)]
struct Memory {
    resident: f64,
    proportional: f64,
    page_tables: f64,
    descriptors: f64,
}

impl Memory {
    fn now() -> Self {
        let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let kib = |text: &str, name: &str| -> f64 {
            let line = text.lines().find(|line| line.split(':').next() == Some(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        Self {
            resident: kib(&rollup, "Rss"),
            proportional: kib(&rollup, "Pss"),
            page_tables: kib(&status, "VmPTE"),
            descriptors: std::fs::read_dir("/proc/self/fd").unwrap().count() as f64,
        }
    }

    fn for_each_channel(self, before: Self) -> Self {
        let share = |after: f64, before: f64| (after - before) / CHANNELS as f64;
        Self {
            resident: share(self.resident, before.resident),
            proportional: share(self.proportional, before.proportional),
            page_tables: share(self.page_tables, before.page_tables),
            descriptors: share(self.descriptors, before.descriptors),
        }
    }

    fn to_line(self) -> String {
        format!("{} {} {} {}", self.resident, self.proportional, self.page_tables, self.descriptors)
    }

    fn from_line(line: &str) -> Self {
        let numbers: Vec<f64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let [resident, proportional, page_tables, descriptors] = numbers[..] else { panic!("{line}") };
        Self { resident, proportional, page_tables, descriptors }
    }
}

/// The process of the readers.
fn read(address: Address) {
    let mut reader = Reader::new(ReaderConfig::default()).unwrap();
    let before = Memory::now();
    for number in 0..CHANNELS {
        let key = |number: usize| (number as u128).to_be_bytes();
        let (writer, on_behalf_of) = (WriterKey(key(number / READERS)), ReaderKey(key(number % READERS)));
        let mut connecting: Connecting = reader.connector().connect(address, writer, on_behalf_of).unwrap();
        println!("connected");
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        reader.add(connecting.poll().unwrap().expect("the writer has answered")).unwrap();
    }
    println!("{}", Memory::now().for_each_channel(before).to_line());
    // The other process measures as long as this one lives.
    while std::io::stdin().read_line(&mut String::new()).is_ok_and(|len| len > 0) {
        let (mut samples, mut held) = (0, Vec::new());
        while let Some(sample) = reader.take().unwrap() {
            samples += 1;
            held.push(sample);
            if held.len() == CHANNELS {
                held.clear();
            }
        }
        drop(held);
        assert!(samples >= CHANNELS);
        println!("{}", Memory::now().for_each_channel(before).to_line());
    }
}

struct ReaderProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl ReaderProcess {
    fn start(Address(address): Address) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ADDRESS, u128::from_be_bytes(address).to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn go_on(&mut self) {
        writeln!(self.input).unwrap();
    }
}

/// The process of the writers.
fn write() {
    let mut listener = Listener::new(Trust::SameUser).unwrap();
    let config = WriterConfig { max_readers: READERS, ..WriterConfig::default() };
    let mut writers: Vec<Writer> = (0..WRITERS).map(|_| Writer::new(config).unwrap()).collect();
    let mut process = ReaderProcess::start(listener.address());
    let before = Memory::now();
    for _ in 0..CHANNELS {
        assert_eq!(process.line(), "connected");
        let request = listener.accept().unwrap().expect("the reader has connected");
        let number = u128::from_be_bytes(request.writer().0) as usize;
        writers[number].admit(request, Overflow::Block).unwrap();
        process.go_on();
    }
    let reading = Memory::from_line(&process.line());
    let idle = [Memory::now().for_each_channel(before), reading];
    println!("idle channel, writer's and reader's side: {idle:?}");
    for (rounds, name) in [(1, "one sample"), (200, "200 samples in a row")] {
        for _ in 0..rounds {
            for writer in &mut writers {
                let slot = writer.loan(100).unwrap();
                writer.publish(slot, Metadata::default()).unwrap();
            }
        }
        process.go_on();
        let busy = [Memory::from_line(&process.line()), Memory::now().for_each_channel(before)];
        println!("{name}, reader's and writer's side: {busy:?}");
    }
    drop(process.input);
    assert!(process.child.wait().unwrap().success());
    for side in idle {
        assert!(side.resident <= RESIDENT_KIB_MAX && side.proportional <= PROPORTIONAL_KIB_MAX, "{idle:?}");
        assert!(side.descriptors <= 1.0, "a channel needs its socket alone: {idle:?}");
    }
}
