//! `perftest floors`: the limits of this machine without middleware: sockets, shared memory, memory.
//!
//! Both sides are threads of this process, each on its own core. A path between processes costs the same, because the
//! kernel moves the same bytes and wakes in the same way.

mod copy;
mod end;
mod memory;
mod stream;
mod transport;
mod turn;
mod udp;

use std::path::PathBuf;
use std::time::Duration;

use peregrine_report::record::{Line, Measurement, Series, Test, Warning};

use self::end::End;
use crate::campaign::placement::ThisMachine;
use crate::characterize::Keeper;
use crate::characterize::kept::{Comparison, Cores, keep};
use crate::characterize::progress::Progress;
use crate::control::Stop;
use crate::error::Error;

/// Settings of the measurement.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// One short repetition
    #[arg(long)]
    quick: bool,
    /// Write record.jsonl and report.html to this folder [default: perftest-results/ and the UTC time]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Message sizes in bytes; above 63000 only shared memory and memcpy are measured
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [32, 1024, 16384, 63_000],
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_BYTES as u64))]
    size: Vec<usize>,
    /// Measure only these floors, by their names in the record
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Repetitions of every measurement [default: 3, with --quick 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repetitions: Option<u32>,
    /// Length of one measurement in milliseconds [default: 300, with --quick 100]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=600_000))]
    time: Option<u64>,
}

/// One path between two threads.
struct Floor {
    id: &'static str,
    label: &'static str,
    tests: &'static [Test],
    /// Longest message.
    max_bytes: usize,
    way: Way,
}

/// Longest message of sockets: a datagram with some margin.
const MAX_SOCKET_BYTES: usize = 63_000;
/// Longest message of all floors.
const MAX_BYTES: usize = 64 << 20;

/// Opens both ends of a path for messages of a size.
type Open = fn(usize) -> std::io::Result<(Box<dyn End>, Box<dyn End>)>;

enum Way {
    /// Two threads.
    Pair(Open),
    /// One thread that copies.
    Copy,
}

const BOTH_TESTS: &[Test] = &[Test::Latency, Test::Throughput];
/// For floors that batch messages or have no return path.
const THROUGHPUT: &[Test] = &[Test::Throughput];

const fn pair(id: &'static str, label: &'static str, tests: &'static [Test], open: Open) -> Floor {
    Floor { id, label, tests, max_bytes: MAX_SOCKET_BYTES, way: Way::Pair(open) }
}

const fn memory(id: &'static str, label: &'static str, open: Open) -> Floor {
    Floor { max_bytes: MAX_BYTES, ..pair(id, label, BOTH_TESTS, open) }
}

/// Every floor, in the order of tables. The others are compared with the first one.
const FLOORS: &[Floor] = &[
    pair("udp", "UDP blocking", BOTH_TESTS, udp::blocking),
    pair("udp-poll", "UDP busy-poll", BOTH_TESTS, udp::polling),
    pair("udp-mmsg", "UDP sendmmsg/recvmmsg", THROUGHPUT, transport::many),
    pair("udp-gso", "UDP GSO/GRO", THROUGHPUT, transport::trains),
    pair("tcp", "TCP", BOTH_TESTS, stream::tcp),
    pair("unix-datagram", "Unix datagram", BOTH_TESTS, udp::unix),
    pair("unix-stream", "Unix stream", BOTH_TESTS, stream::unix),
    memory("shm-futex", "shared memory, futex", memory::futex),
    memory("shm-spin", "shared memory, spinning", memory::spin),
    Floor { id: "memcpy", label: "memcpy", tests: THROUGHPUT, max_bytes: MAX_BYTES, way: Way::Copy },
];

/// Measures, writes the record and prints the table.
pub fn run(options: &Options, command_line: Vec<String>, stop: &Stop) -> Result<(), Error> {
    let floors = chosen(&options.only)?;
    let mut sizes = options.size.clone();
    sizes.sort_unstable();
    sizes.dedup();
    if let Some(size) = sizes.iter().find(|size| floors.iter().all(|floor| floor.max_bytes < **size)) {
        let text = "shared memory and memcpy take messages above";
        return Err(Error::Setup(format!("--size {size}: of --only none does; {text} {MAX_SOCKET_BYTES} bytes")));
    }
    let time = Duration::from_millis(options.time.unwrap_or(if options.quick { 100 } else { 300 }));
    let repetitions = options.repetitions.unwrap_or(if options.quick { 1 } else { 3 });
    let comparison = Comparison {
        out: options.out.as_deref(),
        placement: &ThisMachine,
        command_line,
        series: floors.iter().enumerate().map(|(index, floor)| floor.describe(index == 0)).collect(),
        sizes: &sizes,
        repetitions,
        time,
    };
    keep(comparison, |cores, keeper| take_turns(&floors, (&sizes, repetitions, time), cores, stop, keeper))
}

/// The named floors, in the order of tables; all without names.
fn chosen(names: &[String]) -> Result<Vec<&'static Floor>, Error> {
    if let Some(name) = names.iter().find(|name| FLOORS.iter().all(|floor| floor.id != **name)) {
        let ids: Vec<_> = FLOORS.iter().map(|floor| floor.id).collect();
        return Err(Error::Setup(format!("--only: no floor is called '{name}'; the floors are {}", ids.join(", "))));
    }
    Ok(FLOORS.iter().filter(|floor| names.is_empty() || names.iter().any(|name| name == floor.id)).collect())
}

/// Each repetition measures every size, test and floor once, so that changes of the machine affect all of them.
fn take_turns(
    floors: &[&Floor],
    (sizes, repetitions, time): (&[usize], u32, Duration),
    cores: Cores,
    stop: &Stop,
    keeper: &mut Keeper,
) -> Result<(), Error> {
    let of_size = |size: usize| floors.iter().filter(move |floor| size <= floor.max_bytes);
    let steps: usize = sizes.iter().flat_map(|size| of_size(*size)).map(|floor| floor.tests.len()).sum();
    let progress = Progress::start(steps * repetitions as usize);
    let mut failures = Vec::new();
    for repetition in 0..repetitions {
        for &size in sizes {
            for &test in BOTH_TESTS {
                for floor in of_size(size).filter(|floor| floor.tests.contains(&test)) {
                    progress.begin(&format!("{}, {size} bytes", floor.label), test, repetition);
                    let measured = floor.measure(test, size, time, cores, stop);
                    progress.step();
                    if stop.reason().is_some() {
                        progress.end();
                        return Err(Error::Interrupted);
                    }
                    match measured {
                        Ok(measured) => {
                            keeper.keep(&Line::Measurement(Box::new(Measurement { repetition, ..measured })))?;
                        }
                        Err(error) => {
                            let text = format!("{}, {size} bytes: {error}", floor.label);
                            progress.message(&text);
                            keeper.keep(&Line::Warning(Warning { text: text.clone() }))?;
                            failures.push(text);
                        }
                    }
                }
            }
        }
    }
    progress.end();
    if failures.is_empty() { Ok(()) } else { Err(Error::Transfer(failures.join("\n"))) }
}

impl Floor {
    fn describe(&self, floor: bool) -> Series {
        Series {
            id: self.id.into(),
            label: self.label.into(),
            short_label: String::new(),
            floor,
            options: Vec::new(),
            peer: None,
        }
    }

    fn measure(
        &self,
        test: Test,
        size: usize,
        time: Duration,
        cores: Cores,
        stop: &Stop,
    ) -> Result<Measurement, Error> {
        let (publisher, subscriber) = match &self.way {
            Way::Copy => copy::measure(size, time, cores, stop)?,
            Way::Pair(open) => {
                let ends = open(size).map_err(|error| Error::Setup(format!("cannot be opened: {error}")))?;
                match test {
                    Test::Latency => turn::latency(ends, size, time, cores, stop)?,
                    Test::Throughput | Test::OpenLoop => turn::throughput(ends, size, time, cores, stop)?,
                }
            }
        };
        Ok(Measurement {
            series: self.id.into(),
            test,
            data_len: size as u64,
            repetition: 0,
            block: None,
            case: None,
            others: Vec::new(),
            publisher,
            subscriber,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a busy machine one side may not run within the first of these durations.
    const TIMES: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(2)];

    #[test]
    fn every_floor_moves_messages_of_every_size_in_each_of_its_tests() {
        for floor in FLOORS {
            for size in [1, 1000, 63_000] {
                for &test in floor.tests {
                    let count = |time| {
                        let measured = floor.measure(test, size, time, None, &Stop::default());
                        let measured = measured.inspect_err(|error| println!("{}, {size} bytes: {error}", floor.label));
                        measured.ok().map(|measured| match test {
                            Test::Latency => measured.publisher.latency.unwrap().count,
                            _ => measured.subscriber.throughput.unwrap().samples,
                        })
                    };
                    let moved = TIMES.into_iter().filter_map(count).any(|count| count > 0);
                    assert!(moved, "{}, {size} bytes, {test:?}", floor.label);
                }
            }
        }
    }

    #[test]
    fn stop_request_ends_measurement_early() {
        let stop = Stop::default();
        stop.request(crate::control::StopReason::Interrupted);
        for floor in FLOORS {
            for &test in floor.tests {
                let result = floor.measure(test, 32, Duration::from_secs(600), None, &stop);
                assert_eq!(result.err(), Some(Error::Interrupted), "{}", floor.label);
            }
        }
    }

    #[test]
    fn names_are_unique_and_unknown_name_lists_the_known_ones() {
        let mut names: Vec<_> = FLOORS.iter().map(|floor| floor.id).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FLOORS.len());
        let ids = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
            chosen(&names).map(|floors| floors.iter().map(|floor| floor.id).collect::<Vec<_>>())
        };
        assert_eq!(ids(&[]).unwrap().len(), FLOORS.len());
        assert_eq!(ids(&["tcp", "udp"]).unwrap(), ["udp", "tcp"]);
        let error = ids(&["udp", "rdma"]).unwrap_err().to_string();
        assert!(error.contains("'rdma'") && error.contains("udp-gso, tcp"), "{error}");
    }
}
