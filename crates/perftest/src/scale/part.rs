//! A process of a row with Peregrine: orders on stdin, answers on stdout.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use peregrine::config::{DomainConfig, InterfaceSelection};
use peregrine::{DataReader, DataWriter, DdsType, DomainParticipant, Selector};

use super::protocol::{Answer, Order, Transport, answer_line};
use crate::clock::{MonotonicNs, process_cpu_ns, thread_cpu_ns};
use crate::control::{Stop, StopReason};
use crate::error::Error;

/// Longest wait of an order, and longest blocking of a write.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time between two orders.
const ORDER_LIMIT: Duration = Duration::from_secs(300);
/// Orders read ahead; a starter sends at most three without hearing the answers.
const ORDERS_WAITING: usize = 4;
/// Interval at which a wait checks its condition.
const POLL: Duration = Duration::from_millis(1);

/// 100 bytes in serialized form.
#[derive(Clone, Debug, DdsType)]
#[dds(extensibility = "final")]
struct ScaleSample {
    number: u64,
    octets: [u8; 92],
}

/// Takes part in one row: reads orders from stdin and writes answers to stdout until stdin ends or an order fails.
///
/// # Errors
/// The reason why an order failed, which the starter has got too.
pub fn take_part(stop: &Arc<Stop>) -> Result<(), Error> {
    let orders = listen(stop)?;
    let mut part =
        Part { stop, transport: Transport::Udp, participant: None, writers: Vec::new(), readers: Vec::new() };
    loop {
        let line = match orders.recv_timeout(ORDER_LIMIT) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => {
                // Deleting thousands of endpoints takes seconds and is not measured.
                std::mem::forget(part);
                return Ok(());
            }
            Err(RecvTimeoutError::Timeout) => return Err(Error::Partner("No order has arrived.".into())),
        };
        let answer = line.parse::<Order>().and_then(|order| part.carry_out(order));
        let said = say(&answer);
        if let Err(reason) = answer {
            return Err(Error::Transfer(reason));
        }
        said?;
    }
}

/// The lines of stdin. Their end is a stop request.
fn listen(stop: &Arc<Stop>) -> Result<Receiver<String>, Error> {
    let (sender, lines) = sync_channel(ORDERS_WAITING);
    let stop = Arc::clone(stop);
    std::thread::Builder::new()
        .name("orders".into())
        .spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
            stop.request(StopReason::PartnersLeft);
        })
        .map_err(|error| Error::Setup(format!("Cannot start a thread: {error}")))?;
    Ok(lines)
}

fn say(answer: &Answer) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Transfer(format!("Cannot answer: {error}"));
    let line = format!("{}\n", answer_line(answer));
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).map_err(failed)
}

/// The endpoints of this process.
struct Part<'a> {
    stop: &'a Stop,
    transport: Transport,
    participant: Option<DomainParticipant>,
    writers: Vec<DataWriter<ScaleSample>>,
    readers: Vec<DataReader<ScaleSample>>,
}

impl Part<'_> {
    fn carry_out(&mut self, order: Order) -> Answer {
        match order {
            Order::Ready => Ok(Vec::new()),
            Order::Open { domain, transport, eager } => self.open(domain, transport, eager),
            Order::Create { writers, readers, topics } => self.create(writers, readers, topics),
            Order::Match { readers, writers } => self.wait_for_matches(readers, writers),
            Order::Path { readers } => self.wait_for_path(readers),
            Order::Take { samples } => self.take(samples),
            Order::Write { samples } => self.write(samples),
            Order::Acknowledge => self.wait_for_acknowledgments(),
            Order::Spend { samples, pause_us } => self.spend(samples, pause_us),
        }
    }

    fn open(&mut self, domain: u32, transport: Transport, eager: bool) -> Answer {
        let mut config = DomainConfig::default();
        config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
        config.shared_memory = transport == Transport::Shm;
        if eager {
            config.eager_channels = usize::MAX;
        }
        let participant =
            DomainParticipant::builder(domain).config(config).build().map_err(|error| error.to_string())?;
        self.participant = Some(participant);
        self.transport = transport;
        Ok(Vec::new())
    }

    fn create(&mut self, writers: u32, readers: u32, topics: u32) -> Answer {
        let participant = self.participant.as_ref().ok_or("there is no participant yet")?;
        for number in 0..topics {
            let topic =
                participant.topic::<ScaleSample>(&format!("scale_{number}")).map_err(|error| error.to_string())?;
            for _ in 0..writers {
                let writer = topic.writer_builder().reliable().keep_all().max_blocking_time(PATIENCE).build();
                self.writers.push(writer.map_err(|error| error.to_string())?);
            }
            for _ in 0..readers {
                let reader = topic.reader_builder().reliable().keep_all().build();
                self.readers.push(reader.map_err(|error| error.to_string())?);
            }
        }
        Ok(Vec::new())
    }

    /// Checks each endpoint until it is complete, and then the next one.
    fn wait_for_matches(&self, readers: u32, writers: u32) -> Answer {
        let mut open_writers = self.writers.iter().peekable();
        let mut open_readers = self.readers.iter().peekable();
        let is_complete = |writer: &&DataWriter<_>| writer.publication_matched_status().current_count >= readers;
        let has_all = |reader: &&DataReader<_>| reader.subscription_matched_status().current_count >= writers;
        self.wait("endpoints are not matched", || {
            while open_writers.next_if(is_complete).is_some() {}
            while open_readers.next_if(has_all).is_some() {}
            open_writers.peek().is_none() && open_readers.peek().is_none()
        })
    }

    fn wait_for_path(&self, readers: u32) -> Answer {
        if self.transport == Transport::Udp {
            return Ok(Vec::new());
        }
        let mut open = self.writers.iter().peekable();
        let is_connected = |writer: &&DataWriter<_>| writer.shared_memory_readers() >= readers as usize;
        let waited = self.wait("readers are not reached by shared memory", || {
            while open.next_if(is_connected).is_some() {}
            open.peek().is_none()
        });
        waited.map(|_| Vec::new()).map_err(|reason| format!("{reason}: {}", self.paths(readers)))
    }

    /// How many pairs use shared memory.
    fn paths(&self, readers: u32) -> String {
        let reached: usize = self.writers.iter().map(DataWriter::shared_memory_readers).sum();
        let all = self.writers.len().saturating_mul(readers as usize);
        let statistics = self.participant.as_ref().map(DomainParticipant::shared_memory_statistics);
        let fallbacks = statistics.map_or(0, |statistics| statistics.fallbacks);
        format!("{reached} of {all} pairs use it, and the writers' process has reported {fallbacks} fallbacks")
    }

    fn take(&self, samples: u32) -> Answer {
        let mut missing: Vec<(&DataReader<ScaleSample>, usize)> =
            self.readers.iter().map(|reader| (reader, samples as usize)).collect();
        let mut failure = None;
        let taken = self.wait("readers have not received every sample", || {
            missing.retain_mut(|(reader, count)| {
                let mut valid = 0_usize;
                match reader.take_each(&Selector::ANY, |_| valid += 1) {
                    Ok(_) if valid > *count => failure = Some("a reader has received a sample twice".to_owned()),
                    Ok(_) => *count -= valid,
                    Err(error) => failure = Some(error.to_string()),
                }
                *count > 0
            });
            missing.is_empty() || failure.is_some()
        });
        match failure {
            Some(reason) => Err(reason),
            None => taken,
        }
    }

    fn write(&self, samples: u32) -> Answer {
        let begun = MonotonicNs::now();
        for number in 0..samples {
            for writer in &self.writers {
                if self.stop.reason().is_some() {
                    return Err(STOPPED.into());
                }
                writer.write(&sample(number)).map_err(|error| error.to_string())?;
            }
        }
        Ok(vec![begun.0, MonotonicNs::now().0])
    }

    fn wait_for_acknowledgments(&self) -> Answer {
        let deadline = MonotonicNs::now().plus(PATIENCE);
        for writer in &self.writers {
            if self.stop.reason().is_some() {
                return Err(STOPPED.into());
            }
            writer.wait_for_acknowledgments(deadline.remaining()).map_err(|error| error.to_string())?;
        }
        Ok(vec![MonotonicNs::now().0])
    }

    fn spend(&self, samples: u32, pause_us: u32) -> Answer {
        let writer = self.writers.first().ok_or("there is no writer yet")?;
        let process_begun_ns = process_cpu_ns();
        let mut thread_ns = 0_u64;
        for number in 0..samples {
            if self.stop.reason().is_some() {
                return Err(STOPPED.into());
            }
            let begun_ns = thread_cpu_ns();
            writer.write(&sample(number)).map_err(|error| error.to_string())?;
            thread_ns = thread_ns.saturating_add(thread_cpu_ns().saturating_sub(begun_ns));
            std::thread::sleep(Duration::from_micros(pause_us.into()));
        }
        Ok(vec![thread_ns, process_cpu_ns().saturating_sub(process_begun_ns)])
    }

    /// The time at which `is_done` first returned true.
    fn wait(&self, failure: &str, mut is_done: impl FnMut() -> bool) -> Answer {
        let deadline = MonotonicNs::now().plus(PATIENCE);
        loop {
            if is_done() {
                return Ok(vec![MonotonicNs::now().0]);
            }
            if self.stop.reason().is_some() {
                return Err(STOPPED.into());
            }
            if deadline.remaining().is_zero() {
                return Err(format!("{failure} after {} s", PATIENCE.as_secs()));
            }
            self.stop.sleep(POLL);
        }
    }
}

const STOPPED: &str = "the starter has ended";

fn sample(number: u32) -> ScaleSample {
    ScaleSample { number: number.into(), octets: [7; 92] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::FreeDomain;

    fn part(stop: &Stop) -> Part<'_> {
        Part { stop, transport: Transport::Udp, participant: None, writers: Vec::new(), readers: Vec::new() }
    }

    #[test]
    fn orders_in_one_process_match_deliver_and_acknowledge() {
        let (stop, domain) = (Stop::default(), FreeDomain::reserve().unwrap());
        let mut part = part(&stop);
        let mut carry_out = |line: &str| part.carry_out(line.parse().unwrap());
        assert_eq!(carry_out("create 1 1 1"), Err("there is no participant yet".into()));
        assert_eq!(carry_out("spend 1 1"), Err("there is no writer yet".into()));
        assert_eq!(carry_out(&format!("open {} udp", domain.id())), Ok(vec![]));
        assert_eq!(carry_out("create 2 3 1"), Ok(vec![]));
        let begun = MonotonicNs::now().0;
        assert!(carry_out("match 3 2").unwrap()[0] >= begun);
        assert_eq!(carry_out("path 3"), Ok(vec![]), "samples by UDP need no further path");
        let times = carry_out("write 5").unwrap();
        assert!(times[0] >= begun && times[1] >= times[0]);
        assert!(carry_out("take 10").unwrap()[0] >= times[0]);
        assert!(carry_out("acknowledge").unwrap()[0] >= times[1]);
        let spent = carry_out("spend 3 1").unwrap();
        assert!(spent[0] > 0 && spent[1] >= spent[0], "{spent:?}");
        assert_eq!(carry_out("take 2"), Err("a reader has received a sample twice".into()));
    }

    #[test]
    fn wait_ends_on_a_request_to_stop() {
        let stop = Stop::default();
        stop.request(StopReason::PartnersLeft);
        assert_eq!(part(&stop).wait("nothing happened", || false), Err(STOPPED.into()));
    }
}
