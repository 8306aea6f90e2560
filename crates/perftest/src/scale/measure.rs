//! The procedure of each row.

use std::time::Duration;

use peregrine_report::record::ScaleValue;

use super::party::{Party, end_all};
use super::protocol::{Order, Transport};
use super::quantity::{MIB, Quantity};
use super::row::Row;
use super::subject::Subject;
use crate::clock::MonotonicNs;
use crate::control::Stop;
use crate::domain::FreeDomain;
use crate::error::Error;
use crate::places::{Datagrams, Isolated};
use crate::resources::ResourceMeter;

/// Samples of each writer of pairs.
const SAMPLES: u32 = 5;
/// Writes of the writer of a fan-out before and during the measurement.
const WARM_UP: u32 = 100;
const WRITES: u32 = 1_000;
/// Pause between two of these writes: readers wait for each.
const PAUSE_US: u32 = 200;
/// Time for participants to discover each other before the endpoints are created.
const ACQUAINTANCE: Duration = Duration::from_millis(300);
/// Time from the last acknowledgement until memory is read.
const SETTLING: Duration = Duration::from_millis(300);
/// The same for channels, which may grow or shrink after the match.
const SETTLING_OF_CHANNELS: Duration = Duration::from_secs(2);

/// Where processes run, and when they end early.
pub(super) struct Ground<'a> {
    pub(super) host: &'a Isolated,
    pub(super) stop: &'a Stop,
}

/// Measures one row once.
///
/// # Errors
/// A process fails or does not reach the expected state in time; or a stop was requested.
pub(super) fn measure(row: Row, subject: &Subject, ground: &Ground<'_>) -> Result<Vec<ScaleValue>, Error> {
    let domain = FreeDomain::reserve()?;
    let run = Run { subject, ground, domain: domain.id() };
    let values = match row {
        Row::Pairs { writers, readers } => run.pairs(writers, readers)?,
        Row::FanOut { readers } => run.fan_out(readers)?,
        Row::Topics { topics } => run.topics(topics)?,
        Row::Channels { writers, readers } => run.channels(writers, readers)?,
        Row::Processes { processes, topics } => run.processes(processes, topics)?,
    };
    let own = subject.is_own.then_some(subject.transport);
    Ok(values.into_iter().map(|(quantity, value)| quantity.value(value, row, own)).collect())
}

type Values = Vec<(Quantity, f64)>;

struct Run<'a> {
    subject: &'a Subject,
    ground: &'a Ground<'a>,
    domain: u32,
}

/// Two processes with participants that know each other.
struct Two<'a> {
    writers: Party<'a>,
    readers: Party<'a>,
    /// Memory of either process before endpoints were created.
    idle: [u64; 2],
    before: Datagrams,
}

impl<'a> Run<'a> {
    fn pairs(&self, writers: u32, readers: u32) -> Result<Values, Error> {
        let mut two = self.open_two(self.subject.transport)?;
        let matched = two.create(writers, readers, 1)?;
        two.readers.tell(Order::Take { samples: writers.saturating_mul(SAMPLES) })?;
        two.writers.tell(Order::Write { samples: SAMPLES })?;
        two.writers.tell(Order::Acknowledge)?;
        let [begun, _] = two.writers.hear()?;
        let [taken] = two.readers.hear()?;
        let [acknowledged] = two.writers.hear()?;
        // A run whose samples went by another path has failed.
        let [] = two.writers.ask(Order::Path { readers })?;
        let mut values = vec![
            (Quantity::Matched, matched),
            (Quantity::Delivered, milliseconds(taken, begun)),
            (Quantity::Acknowledged, milliseconds(acknowledged, begun)),
        ];
        values.extend(self.traffic(two.before)?);
        self.pause(SETTLING)?;
        values.extend(two.memory()?);
        two.end()?;
        Ok(values)
    }

    fn fan_out(&self, readers: u32) -> Result<Values, Error> {
        let mut two = self.open_two(self.subject.transport)?;
        two.create(1, readers, 1)?;
        let [] = two.writers.ask(Order::Path { readers })?;
        two.readers.tell(Order::Take { samples: WARM_UP.saturating_add(WRITES) })?;
        let [_, _] = two.writers.ask(Order::Spend { samples: WARM_UP, pause_us: PAUSE_US })?;
        let meter = ResourceMeter::of_process(two.readers.id());
        let [thread_ns, process_ns] = two.writers.ask(Order::Spend { samples: WRITES, pause_us: PAUSE_US })?;
        let [_] = two.readers.hear()?;
        let readers_ns = meter.result().total.cpu_ns();
        let [_] = two.writers.ask(Order::Acknowledge)?;
        let per_write = |time_ns: u64| time_ns as f64 / 1e3 / f64::from(WRITES);
        let mut values = vec![
            (Quantity::WritingThread, per_write(thread_ns)),
            (Quantity::WriterProcess, per_write(process_ns)),
            (Quantity::ReaderProcess, per_write(readers_ns)),
        ];
        values.extend(self.traffic(two.before)?);
        two.end()?;
        Ok(values)
    }

    fn topics(&self, topics: u32) -> Result<Values, Error> {
        let mut two = self.open_two(self.subject.transport)?;
        let mut values = vec![(Quantity::Matched, two.create(1, 1, topics)?)];
        values.extend(self.traffic(two.before)?);
        self.pause(SETTLING)?;
        values.extend(two.memory()?);
        two.end()?;
        Ok(values)
    }

    /// The memory of the channels is the difference to the same endpoints without shared memory.
    fn channels(&self, writers: u32, readers: u32) -> Result<Values, Error> {
        let [writer_bytes, reader_bytes] = self.memory_of_pairs(self.subject.transport, writers, readers)?;
        let mut values = Vec::new();
        if self.subject.transport == Transport::Shm {
            let [other_writer_bytes, other_reader_bytes] = self.memory_of_pairs(Transport::Udp, writers, readers)?;
            let with = writer_bytes.saturating_add(reader_bytes);
            let without = other_writer_bytes.saturating_add(other_reader_bytes);
            values.push((Quantity::ChannelMemory, mebibytes(with.saturating_sub(without))));
        }
        values.push((Quantity::WriterMemory, mebibytes(writer_bytes)));
        values.push((Quantity::ReaderMemory, mebibytes(reader_bytes)));
        Ok(values)
    }

    fn memory_of_pairs(&self, transport: Transport, writers: u32, readers: u32) -> Result<[u64; 2], Error> {
        let order = Order::Open { domain: self.domain, transport, eager: transport == Transport::Shm };
        let mut two = self.open_two_by(order)?;
        two.create(writers, readers, 1)?;
        let [] = two.writers.ask(Order::Path { readers })?;
        self.pause(SETTLING_OF_CHANNELS)?;
        let growth = two.growth()?;
        two.end()?;
        Ok(growth)
    }

    /// All processes are loaded before the first one creates its participant.
    fn processes(&self, processes: u32, topics: u32) -> Result<Values, Error> {
        let idle = self.idle_memory()?;
        let mut parties = Vec::new();
        for number in 1..=processes {
            parties.push(self.party(&format!("process {number}"))?);
        }
        for party in &mut parties {
            let [] = party.ask(Order::Ready)?;
        }
        let before = self.ground.host.datagrams()?;
        let begun = MonotonicNs::now();
        for party in &mut parties {
            party.tell(self.open(self.subject.transport))?;
            party.tell(Order::Create { writers: 1, readers: 1, topics })?;
            party.tell(Order::Match { readers: processes, writers: processes })?;
        }
        let mut matched = 0;
        for party in &mut parties {
            let [] = party.hear()?;
            let [] = party.hear()?;
            let [at] = party.hear()?;
            matched = matched.max(at);
        }
        let mut values = vec![(Quantity::Matched, milliseconds(matched, begun.0))];
        values.extend(self.traffic(before)?);
        self.pause(SETTLING)?;
        let memories: Vec<u64> = parties.iter().map(Party::memory).collect::<Result<_, _>>()?;
        let largest = memories.into_iter().max().unwrap_or(0);
        values.push((Quantity::ProcessMemory, mebibytes(largest.saturating_sub(idle))));
        end_all(parties)?;
        Ok(values)
    }

    /// Memory of a process with a participant that is alone.
    fn idle_memory(&self) -> Result<u64, Error> {
        let mut party = self.party("idle process")?;
        let [] = party.ask(self.open(self.subject.transport))?;
        self.pause(ACQUAINTANCE)?;
        let memory = party.memory()?;
        end_all(vec![party])?;
        Ok(memory)
    }

    fn open(&self, transport: Transport) -> Order {
        Order::Open { domain: self.domain, transport, eager: false }
    }

    fn party(&self, role: &str) -> Result<Party<'a>, Error> {
        Party::start(self.subject, role, self.ground.host, self.ground.stop)
    }

    fn open_two(&self, transport: Transport) -> Result<Two<'a>, Error> {
        self.open_two_by(self.open(transport))
    }

    fn open_two_by(&self, order: Order) -> Result<Two<'a>, Error> {
        let (mut writers, mut readers) = (self.party("writers")?, self.party("readers")?);
        for party in [&mut writers, &mut readers] {
            party.tell(order)?;
        }
        for party in [&mut writers, &mut readers] {
            let [] = party.hear()?;
        }
        self.pause(ACQUAINTANCE)?;
        let idle = [writers.memory()?, readers.memory()?];
        Ok(Two { writers, readers, idle, before: self.ground.host.datagrams()? })
    }

    fn traffic(&self, before: Datagrams) -> Result<Values, Error> {
        let datagrams = self.ground.host.datagrams()?.since(before);
        Ok(vec![(Quantity::Datagrams, datagrams.sent as f64), (Quantity::Dropped, datagrams.dropped as f64)])
    }

    fn pause(&self, time: Duration) -> Result<(), Error> {
        self.ground.stop.sleep(time);
        if self.ground.stop.reason().is_some() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

impl Two<'_> {
    /// Creates the endpoints of both processes at the same time, and returns the milliseconds until all are matched.
    fn create(&mut self, writers: u32, readers: u32, topics: u32) -> Result<f64, Error> {
        let begun = MonotonicNs::now();
        self.writers.tell(Order::Create { writers, readers: 0, topics })?;
        self.readers.tell(Order::Create { writers: 0, readers, topics })?;
        self.writers.tell(Order::Match { readers, writers: 0 })?;
        self.readers.tell(Order::Match { readers: 0, writers })?;
        let mut matched = 0;
        for party in [&mut self.writers, &mut self.readers] {
            let [] = party.hear()?;
            let [at] = party.hear()?;
            matched = matched.max(at);
        }
        Ok(milliseconds(matched, begun.0))
    }

    /// Bytes of either process above those with an idle participant.
    fn growth(&self) -> Result<[u64; 2], Error> {
        let [writers, readers] = self.idle;
        Ok([self.writers.memory()?.saturating_sub(writers), self.readers.memory()?.saturating_sub(readers)])
    }

    fn memory(&self) -> Result<Values, Error> {
        let [writers, readers] = self.growth()?;
        Ok(vec![(Quantity::WriterMemory, mebibytes(writers)), (Quantity::ReaderMemory, mebibytes(readers))])
    }

    fn end(self) -> Result<(), Error> {
        end_all(vec![self.writers, self.readers])
    }
}

fn milliseconds(end_ns: u64, begin_ns: u64) -> f64 {
    end_ns.saturating_sub(begin_ns) as f64 / 1e6
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_converted() {
        assert_eq!(milliseconds(5_500_000, 2_000_000), 3.5);
        assert_eq!(milliseconds(1, 2), 0.0, "a clock never runs backwards");
        assert_eq!(mebibytes(3 << 19), 1.5);
    }
}
