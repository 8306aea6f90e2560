//! A process that takes part in a case: some publishers, some subscribers, or both.

mod arrivals;
mod dds;
mod link;
mod listening;
mod publishing;
mod raw;
mod receiving;
mod window;

use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Lines, RecvTimeoutError, sync_channel};
use std::time::Duration;

use peregrine_report::record::{ResourceUse, Side, SideResult, WireUse};
use zeroize::Zeroizing;

use self::link::{Link, Receiver, Sender, joined};
use self::publishing::{Publication, Published};
use self::receiving::{Received, Reception};
use self::window::Window;
use super::job::{Answer, Channel, Job, Order, Sent};
use super::series::Carrier;
use crate::clock::MonotonicNs;
use crate::control::{Stop, StopReason};
use crate::error::Error;
use crate::threads::{allowed_cores, bind_current_thread};
use crate::wire::spent;

/// Longest time for the discovery of all parties of a case.
const JOIN_LIMIT: Duration = Duration::from_secs(15);
/// Longest time between two orders, besides that of the measurement.
const ORDER_LIMIT: Duration = Duration::from_secs(60);
/// Orders read ahead.
const ORDERS_WAITING: usize = 4;
/// Stack of a thread, besides eight values of the data type, which pass through the stack when read.
const STACK_BYTES: usize = 4 << 20;

/// Takes part in one case: reads orders from stdin and writes answers to stdout until stdin ends.
pub fn take_part(stop: &Arc<Stop>) -> Result<(), Error> {
    let mut orders = Orders::listen(stop)?;
    let Order::Open(job) = orders.next(ORDER_LIMIT)? else { return Err(unexpected()) };
    let stack = STACK_BYTES + 8 * job.data_type.memory_len();
    let machine_cores = allowed_cores().len().max(1);
    // All threads that are created later inherit the binding.
    bind_current_thread(job.core.as_slice()).map_err(Error::Setup)?;
    std::thread::scope(|scope| {
        let party = std::thread::Builder::new()
            .name("party".into())
            .stack_size(stack)
            .spawn_scoped(scope, || Party { job: &job, orders: &mut orders, stop, stack, machine_cores }.run())
            .map_err(|error| Error::Setup(format!("Cannot start a thread: {error}")))?;
        party.join().unwrap_or_else(|_| Err(Error::Transfer("a thread of this process has panicked".into())))
    })
}

/// The lines of stdin. Its end is a stop request.
struct Orders(Lines<String>);

impl Orders {
    fn listen(stop: &Arc<Stop>) -> Result<Self, Error> {
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
        Ok(Self(lines))
    }

    fn next(&mut self, limit: Duration) -> Result<Order, Error> {
        match self.0.recv_timeout(limit) {
            Ok(line) => serde_json::from_str(&Zeroizing::new(line))
                .map_err(|error| Error::Transfer(format!("An order cannot be read: {error}"))),
            Err(RecvTimeoutError::Timeout) => Err(Error::Partner("No order has arrived.".into())),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Interrupted),
        }
    }

    /// Waits for the end of stdin.
    fn wait_for_end(&mut self, stop: &Stop) {
        stop.sleep(ORDER_LIMIT);
    }
}

fn say(answer: &Answer) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Transfer(format!("Cannot answer: {error}"));
    let mut line = serde_json::to_vec(answer).map_err(|error| failed(error.into()))?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line).and_then(|()| stdout.flush()).map_err(failed)
}

fn unexpected() -> Error {
    Error::Transfer("An unexpected order has arrived.".into())
}

struct Party<'a> {
    job: &'a Job,
    orders: &'a mut Orders,
    stop: &'a Arc<Stop>,
    stack: usize,
    /// Cores that the process could use before it was bound to one.
    machine_cores: usize,
}

/// A writer and its publisher.
struct Writing {
    topic: u32,
    publisher: u32,
    sender: Box<dyn Sender>,
    /// Receives the echoes.
    echoes: Option<Box<dyn Receiver>>,
}

/// A reader and its subscriber.
struct Reading {
    topic: u32,
    subscriber: u32,
    receiver: Box<dyn Receiver>,
    /// Sends the echoes.
    echo: Option<Box<dyn Sender>>,
}

impl Party<'_> {
    fn run(&mut self) -> Result<(), Error> {
        let link: Box<dyn Link> = match self.job.carrier {
            Carrier::RawUdp => Box::new(raw::RawLink::new(self.job)),
            Carrier::Peregrine(dds) => dds::open(self.job, dds)?,
        };
        let (mut writing, mut reading) = self.open(&*link)?;
        let addresses =
            |channel: Channel, receiver: &dyn Receiver| receiver.address().map(|address| (channel, address));
        let mut own: Vec<(Channel, SocketAddr)> = Vec::new();
        own.extend(reading.iter().filter_map(|reader| addresses(Channel::Topic(reader.topic), &*reader.receiver)));
        own.extend(writing.iter().filter_map(|writer| addresses(Channel::Echo, writer.echoes.as_deref()?)));
        say(&Answer::Opened { addresses: own })?;

        let Order::Join { addresses } = self.orders.next(ORDER_LIMIT)? else { return Err(unexpected()) };
        self.join(&mut writing, &mut reading, &addresses)?;
        say(&Answer::Joined)?;

        let Order::Go { start_ns } = self.orders.next(ORDER_LIMIT)? else { return Err(unexpected()) };
        let window = Window::of(start_ns, self.job.warm_up, self.job.duration);
        let sides = self.measure(&*link, window, writing, reading)?;
        say(&Answer::Results { sides })?;
        self.orders.wait_for_end(self.stop);
        Ok(())
    }

    fn open(&self, link: &dyn Link) -> Result<(Vec<Writing>, Vec<Reading>), Error> {
        let (mut writing, mut reading) = (Vec::new(), Vec::new());
        for topic in 0..self.job.topics {
            for &subscriber in &self.job.subscribers_here {
                let echoes = self.job.echo && subscriber == 0 && topic == 0;
                reading.push(Reading {
                    topic,
                    subscriber,
                    receiver: link.receiver(Channel::Topic(topic))?,
                    echo: echoes.then(|| link.sender(Channel::Echo)).transpose()?,
                });
            }
            for &publisher in &self.job.publishers_here {
                let hears = self.job.echo && publisher == 0 && topic == 0;
                writing.push(Writing {
                    topic,
                    publisher,
                    sender: link.sender(Channel::Topic(topic))?,
                    echoes: hears.then(|| link.receiver(Channel::Echo)).transpose()?,
                });
            }
        }
        Ok((writing, reading))
    }

    fn join(
        &self,
        writing: &mut [Writing],
        reading: &mut [Reading],
        addresses: &[(Channel, SocketAddr)],
    ) -> Result<(), Error> {
        let deadline = MonotonicNs::now().plus(JOIN_LIMIT);
        let of = |channel: Channel| -> Vec<SocketAddr> {
            addresses.iter().filter(|(other, _)| *other == channel).map(|(_, address)| *address).collect()
        };
        for writer in writing {
            let channel = Channel::Topic(writer.topic);
            writer.sender.join(&of(channel), self.job.subscribers, deadline)?;
            if let Some(echoes) = &mut writer.echoes {
                echoes.join(1, deadline)?;
            }
        }
        for reader in reading {
            reader.receiver.join(self.job.publishers, deadline)?;
            if let Some(echo) = &mut reader.echo {
                echo.join(&of(Channel::Echo), 1, deadline)?;
            }
        }
        Ok(())
    }

    /// Measures, from the order `Go` to the results.
    fn measure(
        &mut self,
        link: &dyn Link,
        window: Window,
        writing: Vec<Writing>,
        reading: Vec<Reading>,
    ) -> Result<Vec<SideResult>, Error> {
        let done = AtomicBool::new(false);
        let (job, stop, stack) = (self.job, &**self.stop, self.stack);
        let receptions: Vec<Reception<'_>> =
            reading.iter().map(|reader| Reception::new(job, reader.topic, reader.subscriber)).collect();
        std::thread::scope(|scope| {
            let thread = |name: String| std::thread::Builder::new().name(name).stack_size(stack);
            let failed = |error: std::io::Error| Error::Setup(format!("Cannot start a thread: {error}"));
            // Readers end on every path: the scope waits for them.
            let end_readers = EndReaders(&done);
            let mut readers = Vec::new();
            for (reader, reception) in reading.into_iter().zip(&receptions) {
                let name = format!("reader-{}-{}", reader.topic, reader.subscriber);
                let done = &done;
                let run = move || reception.run(reader.receiver, reader.echo, done, stop);
                readers.push(thread(name).spawn_scoped(scope, run).map_err(failed)?);
            }
            // Writer threads stay until their resource use was read: the kernel drops the context switches of a thread
            // that ends.
            let mut leaves = Vec::new();
            let mut writers = Vec::new();
            let (last_sent, sent_last) = sync_channel(writing.len());
            for writer in writing {
                let name = format!("writer-{}-{}", writer.topic, writer.publisher);
                let (topic, publisher, last_sent) = (writer.topic, writer.publisher, last_sent.clone());
                let publication = Publication { job, window, topic, publisher, stop, stack, last_sent };
                let mut sender = writer.sender;
                let (leave, left) = sync_channel::<()>(0);
                leaves.push(leave);
                let run = move || {
                    let published = publication.run(&mut *sender, writer.echoes);
                    drop(publication);
                    // Sends nothing: the channel closes when the thread may end.
                    let _ = left.recv();
                    Ok((published?, sender))
                };
                writers.push(thread(name).spawn_scoped(scope, run).map_err(failed)?);
            }
            drop(last_sent);
            if writers.is_empty() {
                say(&Answer::Sent { sent: Vec::new() })?;
            }
            let (used, before) = window.observe(writers.len(), &sent_last, stop, || link.wire());
            drop(leaves);
            // Senders stay until all samples have arrived: a reader need not take the last samples of a deleted writer.
            let written: Vec<(Published, Box<dyn Sender>)> =
                writers.into_iter().map(joined).collect::<Result<_, _>>()?;
            let (published, senders): (Vec<Published>, Vec<Box<dyn Sender>>) = written.into_iter().unzip();
            if !published.is_empty() {
                say(&Answer::Sent { sent: published.iter().map(Published::sent).collect() })?;
            }

            let Order::Finish { sent } = self.orders.next(ORDER_LIMIT + job.warm_up + job.duration)? else {
                return Err(unexpected());
            };
            receiving::wait_for_all(job, &receptions, &sent, stop);
            drop(senders);
            link.check()?;
            let wire = spent(&before, link.wire());
            drop(end_readers);
            let received: Vec<Received> = readers.into_iter().map(joined).collect::<Result<_, _>>()?;
            Ok(sides(
                job,
                &published,
                received,
                &sent,
                &Used { resources: used, wire, machine_cores: self.machine_cores },
            ))
        })
    }
}

/// Requests the end of the readers when dropped.
struct EndReaders<'a>(&'a AtomicBool);

impl Drop for EndReaders<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Resource use of the process, for all of its publishers and subscribers together.
struct Used {
    resources: ResourceUse,
    wire: WireUse,
    machine_cores: usize,
}

/// One result per publisher and subscriber, each over all topics. The first one contains the resource use of the
/// process.
fn sides(job: &Job, published: &[Published], received: Vec<Received>, sent: &[Sent], used: &Used) -> Vec<SideResult> {
    let security = job.documents.as_ref().map(|documents| documents.used.clone());
    let side = |side| SideResult { side, data_len: job.data_len, security: security.clone(), ..SideResult::default() };
    let mut sides: Vec<SideResult> = job
        .publishers_here
        .iter()
        .map(|publisher| {
            let own = || published.iter().filter(|writer| writer.publisher == *publisher);
            SideResult {
                send: publishing::send_result(own()),
                latency: publishing::latency(own(), |writer| writer.from_actual.as_ref()),
                scheduled_latency: publishing::latency(own(), |writer| writer.from_intended.as_ref()),
                payload: Some(receiving::payload_use(job.patterns, own().find_map(|writer| writer.corrupt))),
                ..side(Side::Publisher)
            }
        })
        .collect();
    let mut received: Vec<Option<Received>> = received.into_iter().map(Some).collect();
    sides.extend(job.subscribers_here.iter().map(|subscriber| {
        let is_own =
            |reader: &&mut Option<Received>| reader.as_ref().is_some_and(|reader| reader.subscriber == *subscriber);
        let own: Vec<Received> = received.iter_mut().filter(is_own).filter_map(Option::take).collect();
        receiving::side_result(side(Side::Subscriber), job, own, sent)
    }));
    if let Some(first) = sides.first_mut() {
        first.cpu_percent = used.resources.total.cpu_percent_of_core() / used.machine_cores as f64;
        first.resources = Some(used.resources.clone());
        first.wire = Some(used.wire.clone());
    }
    sides
}

#[cfg(test)]
pub(super) mod tests {
    use peregrine_report::record::{Publishing, Reliability};

    use super::*;
    use crate::campaign::job::Sending;
    use crate::campaign::series::{Dds, Form, Path};
    use crate::campaign::spec::Wait;
    use crate::campaign::types::DataType;

    /// Two publishers and one subscriber of samples of 100 bytes.
    pub(in crate::campaign) fn job() -> Job {
        Job {
            carrier: Carrier::Peregrine(Dds { path: Path::Udp, form: Form::Values, batched: false, protection: None }),
            publishers_here: vec![0, 1],
            subscribers_here: vec![0],
            publishers: 2,
            subscribers: 1,
            topics: 1,
            reliability: Reliability::Reliable,
            publishing: Publishing::Synchronous,
            history_depth: None,
            data_type: DataType::Octets,
            data_len: 100,
            sending: Sending::Unpaced,
            echo: false,
            wait: Wait::Block,
            patterns: true,
            core: None,
            warm_up: Duration::ZERO,
            duration: Duration::from_millis(10),
            domain: 0,
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            peer: None,
            documents: None,
        }
    }

    #[test]
    fn resource_use_of_a_process_is_recorded_once() {
        let used = Used {
            resources: ResourceUse::default(),
            wire: WireUse { send_calls: 3, ..WireUse::default() },
            machine_cores: 2,
        };
        let sides = sides(&job(), &[], Vec::new(), &[], &used);
        assert_eq!(
            sides.iter().map(|side| side.side).collect::<Vec<_>>(),
            [Side::Publisher, Side::Publisher, Side::Subscriber]
        );
        assert_eq!(sides.iter().map(|side| side.resources.is_some()).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(sides[0].wire.as_ref().map(|wire| wire.send_calls), Some(3));
        assert!(sides[2].throughput.is_some() && sides[1].send.is_none());
    }
}
