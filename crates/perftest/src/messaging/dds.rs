//! DDS over RTPS: the topics, types and policies of RTI Perftest on the `peregrine` crate.
//!
//! Samples are serialized directly into the send buffer and parsed in the receive buffer: neither direction copies a
//! payload twice or allocates.

mod path;
mod poller;
mod reports;
mod secured;
mod settings;
mod types;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use peregrine::qos::NonMatch;
use peregrine::status::{MatchedStatus, StatusMask};
use peregrine::{
    DataReader, DataWriter, DataWriterListener, DomainParticipant, Guid, InstanceHandle, LoanedSample, PublishMode,
    Selector,
};

use peregrine_report::record::{SecurityUse, WireUse};

pub(crate) use self::path::SharedMemoryPath;
pub(crate) use self::poller::Poller;
use self::reports::Endpoints;
use self::secured::Secured;
pub use self::types::{
    TestData, TestDataFlat, TestDataKeyed, TestDataKeyedFlat, TestDataKeyedLarge, TestDataKeyedLargeFlat,
    TestDataKeyedLargeZeroCopy, TestDataKeyedZeroCopy, TestDataLarge, TestDataLargeFlat, TestDataLargeZeroCopy,
    TestDataZeroCopy, TestType,
};
use super::receive_buffer::ReceiveBuffer;
use super::{Configuration, EndpointReport, Messaging, Resent, Sample, SampleReader, SampleWriter, Topic, WriteError};
use crate::clock::MonotonicNs;
use crate::control::CONTROL_KEY;
use crate::error::Error;
use crate::plan::{Gather, Role, SampleForm, TestPlan, TransportKind, Wait};
use crate::threads::{self, ThreadKind};

/// Name of the participant.
const PARTICIPANT_NAME: &str = "Perftest Participant";
/// Shortest lease: a partner on a busy host may be late.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);
/// Time for a matching partner to appear after one with conflicting settings.
const MISMATCH_PATIENCE: Duration = Duration::from_secs(2);
/// Polls between two readings of the clock.
const LOOKS_PER_CLOCK: u32 = 16;
/// Interval at which a read thread checks whether to end.
const CLOSE_POLL: Duration = Duration::from_millis(20);
/// Polls of a read thread while it gathers samples.
const GATHER_LOOKS: u32 = 16;

/// A task over DDS that is generic over the type of the topics.
pub trait OverDds {
    /// Result of the task.
    type Output;

    /// Runs the task.
    ///
    /// # Errors
    /// Any error of the task.
    fn run<T: TestType>(self, messaging: &DdsMessaging<T>) -> Result<Self::Output, Error>;
}

/// Joins the domain with the type of the plan, and runs a task.
///
/// # Errors
/// The domain cannot be joined, or the task fails.
pub fn over_dds<D: OverDds>(plan: &TestPlan, task: D) -> Result<D::Output, Error> {
    use SampleForm::{Flat, Serialized, ZeroCopy};
    match (plan.data.form, plan.data.keyed, plan.data.unbounded.is_some()) {
        (Serialized, false, false) => task.run(&DdsMessaging::<TestData>::new(plan)?),
        (Serialized, true, false) => task.run(&DdsMessaging::<TestDataKeyed>::new(plan)?),
        (Serialized, false, true) => task.run(&DdsMessaging::<TestDataLarge>::new(plan)?),
        (Serialized, true, true) => task.run(&DdsMessaging::<TestDataKeyedLarge>::new(plan)?),
        (Flat, false, false) => task.run(&DdsMessaging::<TestDataFlat>::new(plan)?),
        (Flat, true, false) => task.run(&DdsMessaging::<TestDataKeyedFlat>::new(plan)?),
        (Flat, false, true) => task.run(&DdsMessaging::<TestDataLargeFlat>::new(plan)?),
        (Flat, true, true) => task.run(&DdsMessaging::<TestDataKeyedLargeFlat>::new(plan)?),
        (ZeroCopy, false, false) => task.run(&DdsMessaging::<TestDataZeroCopy>::new(plan)?),
        (ZeroCopy, true, false) => task.run(&DdsMessaging::<TestDataKeyedZeroCopy>::new(plan)?),
        (ZeroCopy, false, true) => task.run(&DdsMessaging::<TestDataLargeZeroCopy>::new(plan)?),
        (ZeroCopy, true, true) => task.run(&DdsMessaging::<TestDataKeyedLargeZeroCopy>::new(plan)?),
    }
}

/// One DomainParticipant, and the type of all of its topics.
#[derive(Debug)]
pub struct DdsMessaging<T: TestType> {
    participant: DomainParticipant,
    plan: Arc<TestPlan>,
    security: Secured,
    receive_buffer: ReceiveBuffer,
    poller: Option<Arc<Poller>>,
    /// All asynchronous writers share its flow controller.
    publish_mode: PublishMode,
    endpoints: Arc<Mutex<Endpoints<T>>>,
}

impl<T: TestType> DdsMessaging<T> {
    /// Joins the domain.
    pub fn new(plan: &TestPlan) -> Result<Self, Error> {
        threads::check_receive_threads(&plan.threads)?;
        let config = settings::domain_config(plan)?;
        let (is_ipv4, receive_buffer_len) = (config.udp_v4, config.receive_buffer_bytes);
        let builder = DomainParticipant::builder(plan.data.domain)
            .name(PARTICIPANT_NAME)
            .config(config)
            .lease(plan.timeouts.partner.max(SHORTEST_LEASE));
        let (builder, security) = secured::secure(builder, plan)?;
        let participant = builder.build().map_err(|error| setup(&error))?;
        let receive_buffer = ReceiveBuffer::probe(is_ipv4, receive_buffer_len)?;
        let busy = matches!(plan.role, Role::Subscriber(_));
        let poller = match plan.receive.wait {
            Wait::Poll => Some(Arc::new(Poller::start(&participant, &plan.threads, busy)?)),
            Wait::Block | Wait::Spin(_) => None,
        };
        let publish_mode = settings::publish_mode(plan)?;
        let plan = Arc::new(plan.clone());
        Ok(Self { participant, plan, security, receive_buffer, poller, publish_mode, endpoints: Arc::default() })
    }
}

impl<T: TestType> DdsMessaging<T> {
    /// Lines of RTI Perftest's configuration block for features that are known and absent.
    fn perftest_lines(&self) -> Vec<(String, String)> {
        let mut lines = vec![("Middleware", "DDS"), ("Type", T::TYPE_NAME)];
        let (is_flat, is_zero_copy) = match self.plan.data.form {
            SampleForm::Serialized => ("No", "No"),
            SampleForm::Flat => ("Yes", "No"),
            SampleForm::ZeroCopy => ("Yes", "Yes"),
        };
        lines.extend([("Dynamic Data", "No"), ("FlatData", is_flat), ("Zero Copy", is_zero_copy)]);
        if matches!(self.plan.role, Role::Publisher(_)) {
            match self.plan.data.asynchronous {
                None => lines.push(("Asynchronous Publishing", "No")),
                Some(flow) => lines.extend([("Asynchronous Publishing", "Yes"), ("Flow Controller", flow.name())]),
            }
        }
        lines.push(("XML File", "No (built-in QoS)"));
        lines.into_iter().map(|(label, value)| (label.to_owned(), value.to_owned())).collect()
    }

    fn endpoints(&self) -> MutexGuard<'_, Endpoints<T>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: TestType> Messaging for DdsMessaging<T> {
    type Writer = DdsWriter<T>;
    type Reader = DdsReader<T>;

    fn name(&self) -> String {
        format!("Peregrine DDS {}", env!("CARGO_PKG_VERSION"))
    }

    fn configuration(&self) -> Configuration {
        let message_len = match self.plan.data.max_message_len {
            Some(len) => format!("{len} bytes"),
            None => "by interface".into(),
        };
        Configuration {
            perftest: self.perftest_lines(),
            transport: vec![("Message Size Max".into(), message_len)],
            security: self.security.lines.clone(),
            warnings: self.receive_buffer.shortfall().into_iter().collect(),
        }
    }

    fn security(&self) -> Option<SecurityUse> {
        self.security.used.clone()
    }

    fn wire_counter(&self) -> super::WireCounter {
        let participant = self.participant.clone();
        let endpoints = Arc::downgrade(&self.endpoints);
        Box::new(move || WireUse {
            repairs: endpoints.upgrade().map(|endpoints| {
                let resent = endpoints.lock().unwrap_or_else(PoisonError::into_inner).resent();
                resent.samples.saturating_add(resent.fragments)
            }),
            ..wire_use(&participant)
        })
    }

    fn initial_burst(&self, samples_per_batch: u64) -> u64 {
        u64::from(self.plan.data.send_queue_len).saturating_mul(samples_per_batch)
    }

    fn resource_limits(&self) -> Vec<EndpointReport> {
        self.endpoints().resource_limits()
    }

    fn counters(&self) -> Vec<EndpointReport> {
        let mut reports = self.endpoints().counters();
        reports.push(reports::of_domain(&self.participant));
        reports
    }

    fn resent(&self) -> Option<Resent> {
        Some(self.endpoints().resent())
    }

    fn create_writer(&self, topic: Topic) -> Result<DdsWriter<T>, Error> {
        let dds_topic = self.participant.topic::<T>(&topic.to_string()).map_err(|error| setup(&error))?;
        let publisher = self.participant.publisher(settings::publisher_qos()).map_err(|error| setup(&error))?;
        let mut builder = publisher.writer(&dds_topic);
        builder = builder.qos(settings::writer_qos(&self.plan, topic)).publish_mode(self.publish_mode.clone());
        let batch_len = if topic == Topic::Throughput { settings::batch_len(&self.plan) } else { None };
        if let Some(len) = batch_len {
            // As in RTI Perftest, no timer ends a batch.
            builder = builder.batching(len, Duration::MAX);
        }
        let readers = Arc::<Readers>::default();
        let is_shared = self.plan.transport.kind == TransportKind::SharedMemory;
        let path = is_shared.then(|| SharedMemoryPath::new(self.participant.clone()));
        builder = builder.listener(Watch(Arc::clone(&readers)), StatusMask::PUBLICATION_MATCHED);
        let writer = builder.build().map_err(|error| setup(&error))?;
        let instances = self.plan.data.instances;
        if T::HAS_KEY {
            for index in 0..instances {
                register(&writer, index.to_le_bytes())?;
            }
            register(&writer, CONTROL_KEY)?;
        }
        self.endpoints().add_writer(topic, &writer, batch_len);
        let (mismatch, patterns) = (Mismatch::default(), self.plan.patterns);
        Ok(DdsWriter { writer, topic, instances, batch_len, patterns, readers, mismatch, path })
    }

    fn create_reader(&self, topic: Topic) -> Result<DdsReader<T>, Error> {
        let dds_topic = self.participant.topic::<T>(&topic.to_string()).map_err(|error| setup(&error))?;
        let subscriber = self.participant.subscriber(settings::subscriber_qos()).map_err(|error| setup(&error))?;
        let mut builder = subscriber.reader(&dds_topic);
        if let Some(groups) = self.plan.transport.multicast {
            builder = builder.multicast(groups.of(topic));
        }
        let reader = builder.qos(settings::reader_qos(&self.plan, topic)).build().map_err(|error| setup(&error))?;
        self.endpoints().add_reader(topic, &reader);
        let (plan, poller) = (Arc::clone(&self.plan), self.poller.clone());
        Ok(DdsReader { reader, topic, plan, poller, mismatch: Mismatch::default() })
    }
}

/// Sum over all sockets, and the sockets in use.
pub(crate) fn wire_use(participant: &DomainParticipant) -> WireUse {
    let mut wire = WireUse::default();
    for (address, socket) in participant.transport_statistics() {
        wire.send_calls += socket.send_calls;
        wire.receive_calls += socket.receive_calls;
        wire.datagrams_sent += socket.datagrams_sent;
        wire.datagrams_received += socket.datagrams_received;
        wire.bytes_sent += socket.bytes_sent;
        wire.bytes_received += socket.bytes_received;
        wire.kernel_drops += socket.kernel_drops;
        wire.send_errors += socket.send_errors.total();
        if socket.datagrams_sent > 0 || socket.datagrams_received > 0 {
            // Connected sockets for single destinations have no known port.
            let is_connected = address.port() == 0;
            wire.path.push(if is_connected { "connected sockets".into() } else { format!("socket {address}") });
        }
    }
    let shared = participant.shared_memory_statistics();
    if shared.sent > 0 || shared.received > 0 {
        wire.path.push(format!("shared memory ({} sent, {} received)", shared.sent, shared.received));
    }
    wire
}

fn register<T: TestType>(writer: &DataWriter<T>, key: [u8; 4]) -> Result<(), Error> {
    writer.register_instance(&T::with_key(key)).map(drop).map_err(|error| setup(&error))
}

fn setup(error: &peregrine::Error) -> Error {
    Error::Setup(error.to_string())
}

fn failed(error: &peregrine::Error) -> Error {
    Error::Transfer(error.to_string())
}

/// Readers of a writer. Read before every write.
#[derive(Debug, Default)]
struct Readers {
    matched: AtomicU32,
    ever: AtomicBool,
}

impl Readers {
    #[inline]
    fn have_left(&self) -> bool {
        self.matched.load(Ordering::Relaxed) == 0 && self.ever.load(Ordering::Relaxed)
    }
}

/// Updates [`Readers`].
struct Watch(Arc<Readers>);

impl<T: TestType> DataWriterListener<T> for Watch {
    fn on_publication_matched(&self, _: &DataWriter<T>, status: MatchedStatus) {
        self.0.matched.store(status.current_count, Ordering::Relaxed);
        self.0.ever.store(status.total_count > 0, Ordering::Relaxed);
    }
}

/// Reports a partner with conflicting settings, unless a matching partner appears as well.
#[derive(Debug, Default)]
struct Mismatch {
    since: Option<MonotonicNs>,
}

impl Mismatch {
    fn check(&mut self, topic: Topic, found: Option<(Guid, NonMatch)>) -> Result<(), Error> {
        let Some((partner, reason)) = found else { return Ok(()) };
        let since = *self.since.get_or_insert_with(MonotonicNs::now);
        if MonotonicNs::now().since_ns(since) < MISMATCH_PATIENCE.as_nanos() as u64 {
            return Ok(());
        }
        Err(Error::Partner(format!(
            "Topic {topic} of this process and of its partner ({partner}) do not match: {reason}. Give both sides the \
             same options (-keyed, -bestEffort, -durability, -unbounded, -dataLen)."
        )))
    }
}

/// Writes samples of one topic.
#[derive(Debug)]
pub struct DdsWriter<T: TestType> {
    writer: DataWriter<T>,
    topic: Topic,
    /// Instances `0..instances` and the instance of control messages are registered.
    instances: u32,
    /// Payload bytes that end a batch; `None` without batches.
    batch_len: Option<usize>,
    /// Whether subscribers may check payloads.
    patterns: bool,
    readers: Arc<Readers>,
    mismatch: Mismatch,
    /// Set with `-transport SHMEM`.
    path: Option<SharedMemoryPath>,
}

impl<T: TestType> SampleWriter for DdsWriter<T> {
    #[inline]
    fn write(&mut self, sample: &Sample<'_>) -> Result<(), WriteError> {
        if self.readers.have_left() {
            return Err(WriteError::PartnerGone(format!("Every reader of topic {} has left.", self.topic)));
        }
        let instance = if T::HAS_KEY { self.instance(sample.key)? } else { InstanceHandle::NIL };
        let len = T::serialized_len(sample);
        match self.writer.write_serialized(instance, len, |buffer| T::serialize_into(sample, buffer, self.patterns)) {
            Ok(_) => Ok(()),
            Err(peregrine::Error::Timeout(text)) => {
                Err(WriteError::PartnerGone(format!("No subscriber acknowledges: {text}.")))
            }
            Err(error) => Err(WriteError::Failed(error.to_string())),
        }
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        if self.batch_len.is_none() {
            return Ok(());
        }
        self.writer.flush().map_err(|error| WriteError::Failed(error.to_string()))
    }

    fn wait_for_readers(&mut self, count: u32, timeout: Duration) -> Result<bool, Error> {
        if self.writer.wait_for_readers(count as usize, timeout).is_ok() {
            return match &mut self.path {
                Some(path) => path.wait_for(&self.writer, &self.topic, count, timeout),
                None => Ok(true),
            };
        }
        self.mismatch.check(self.topic, self.writer.last_non_match()).map(|()| false)
    }

    fn wait_for_acknowledgments(&mut self, timeout: Duration) -> Result<bool, Error> {
        Ok(self.writer.wait_for_acknowledgments(timeout).is_ok())
    }
}

impl<T: TestType> DdsWriter<T> {
    /// Echoes may belong to instances that this side has not registered.
    #[inline]
    fn instance(&self, key: [u8; 4]) -> Result<InstanceHandle, WriteError> {
        if u32::from_le_bytes(key) < self.instances || key == CONTROL_KEY {
            return Ok(instance_of(key));
        }
        self.writer.register_instance(&T::with_key(key)).map_err(|error| WriteError::Failed(error.to_string()))
    }
}

/// The key is shorter than a key hash, so it is the key hash.
#[inline]
fn instance_of(key: [u8; 4]) -> InstanceHandle {
    let mut hash = [0; 16];
    hash[..4].copy_from_slice(&key);
    InstanceHandle(hash)
}

/// Reads samples of one topic.
#[derive(Debug)]
pub struct DdsReader<T: TestType> {
    reader: DataReader<T>,
    topic: Topic,
    plan: Arc<TestPlan>,
    poller: Option<Arc<Poller>>,
    mismatch: Mismatch,
}

impl<T: TestType> SampleReader for DdsReader<T> {
    type Listening = DdsListening;

    fn wait_for_writers(&mut self, count: u32, timeout: Duration) -> Result<bool, Error> {
        if self.reader.wait_for_writers(count as usize, timeout).is_ok() {
            return Ok(true);
        }
        self.mismatch.check(self.topic, self.reader.last_non_match()).map(|()| false)
    }

    fn listen<F>(self, on_sample: F) -> Result<DdsListening, Error>
    where
        F: FnMut(&Sample<'_>) + Send + 'static,
    {
        if self.poller.as_ref().is_some_and(|poller| poller.is_busy()) {
            return self.listen_by_polling(on_sample);
        }
        // Without threads of DDS, the poller runs the listener.
        if self.plan.receive.read_thread && self.poller.is_none() {
            return self.listen_on_read_thread(on_sample);
        }
        Ok(self.listen_on_receive_thread(on_sample))
    }

    fn receive<F>(&mut self, timeout: Duration, mut on_sample: F) -> Result<usize, Error>
    where
        F: FnMut(&Sample<'_>),
    {
        let Some(poller) = &self.poller else {
            let count = deliver(&self.reader, self.plan.check_consistency, &mut on_sample)?;
            if count > 0 {
                return Ok(count);
            }
            return match self.reader.wait_for_data(timeout) {
                Ok(()) => deliver(&self.reader, self.plan.check_consistency, &mut on_sample),
                Err(peregrine::Error::Timeout(_)) => Ok(0),
                Err(error) => Err(failed(&error)),
            };
        };
        poller.note_other();
        let mut end = None;
        loop {
            for _ in 0..LOOKS_PER_CLOCK {
                let count = poll_and_deliver(&self.reader, self.plan.check_consistency, &mut on_sample)?;
                if count > 0 {
                    return Ok(count);
                }
            }
            if end.get_or_insert_with(|| MonotonicNs::now().plus(timeout)).remaining().is_zero() {
                return Ok(0);
            }
        }
    }
}

impl<T: TestType> DdsReader<T> {
    fn listen_on_receive_thread<F>(self, on_sample: F) -> DdsListening
    where
        F: FnMut(&Sample<'_>) + Send + 'static,
    {
        // The lock orders samples that arrived earlier before those of the listener; `None` is the end.
        let on_sample = Arc::new(Mutex::new(Some(on_sample)));
        let take = {
            let on_sample = Arc::clone(&on_sample);
            let check_consistency = self.plan.check_consistency;
            move |reader: &DataReader<T>| {
                if let Some(on_sample) = on_sample.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
                    // A listener runs only while its reader exists, so this cannot fail.
                    let _ = deliver(reader, check_consistency, on_sample);
                }
            }
        };
        self.reader.set_listener(Some(Arc::new(take.clone())), StatusMask::DATA_AVAILABLE);
        take(&self.reader);
        let (reader, poller) = (self.reader, self.poller);
        let end = move || {
            reader.set_listener(None, StatusMask::NONE);
            *on_sample.lock().unwrap_or_else(PoisonError::into_inner) = None;
            drop(poller);
        };
        DdsListening { end: Some(Box::new(end)) }
    }

    /// Starts a thread that polls and delivers the samples of this reader until the value is dropped.
    fn listen_by_polling<F>(self, mut on_sample: F) -> Result<DdsListening, Error>
    where
        F: FnMut(&Sample<'_>) + Send + 'static,
    {
        let closing = Arc::new(AtomicBool::new(false));
        let run = {
            let closing = Arc::clone(&closing);
            move || {
                // Checked before, when the participant was created.
                let _ = threads::apply_to_current_thread(&self.plan.threads, ThreadKind::Receive);
                while !closing.load(Ordering::Acquire) {
                    if let Some(poller) = &self.poller {
                        poller.note_other();
                    }
                    for _ in 0..LOOKS_PER_CLOCK {
                        if poll_and_deliver(&self.reader, self.plan.check_consistency, &mut on_sample).is_err() {
                            return;
                        }
                    }
                }
            }
        };
        let thread: JoinHandle<()> = std::thread::Builder::new()
            .name("receive".into())
            .spawn(run)
            .map_err(|error| Error::Setup(format!("Cannot start a receive thread: {error}")))?;
        Ok(DdsListening::until_closed(closing, thread))
    }

    fn listen_on_read_thread<F>(self, mut on_sample: F) -> Result<DdsListening, Error>
    where
        F: FnMut(&Sample<'_>) + Send + 'static,
    {
        let closing = Arc::new(AtomicBool::new(false));
        let run = {
            let closing = Arc::clone(&closing);
            move || {
                // Checked before, when the participant was created.
                let _ = threads::apply_to_current_thread(&self.plan.threads, ThreadKind::Receive);
                let gather = self.plan.receive.gather;
                let mut taken_until = 0;
                while !closing.load(Ordering::Acquire) {
                    match self.reader.wait_for_data(CLOSE_POLL) {
                        Ok(()) => {}
                        Err(peregrine::Error::Timeout(_)) => continue,
                        // The reader was deleted: no more samples arrive.
                        Err(_) => return,
                    }
                    if let Some(gather) = gather {
                        gather_samples(gather, || self.reader.counters().samples.saturating_sub(taken_until));
                        taken_until = self.reader.counters().samples;
                    }
                    if deliver(&self.reader, self.plan.check_consistency, &mut on_sample).is_err() {
                        return;
                    }
                }
            }
        };
        let thread: JoinHandle<()> = std::thread::Builder::new()
            .name("read".into())
            .spawn(run)
            .map_err(|error| Error::Setup(format!("Cannot start a read thread: {error}")))?;
        Ok(DdsListening::until_closed(closing, thread))
    }
}

/// Waits until enough samples wait, or the time has passed.
fn gather_samples(gather: Gather, waiting: impl Fn() -> u64) {
    let end = MonotonicNs::now().plus(gather.delay);
    let step = (gather.delay / GATHER_LOOKS).max(Duration::from_micros(1));
    while waiting() < gather.count && !end.remaining().is_zero() {
        std::thread::sleep(step.min(end.remaining()));
    }
}

/// Delivers all available samples; with `check_consistency` only consistent ones, as RTI Perftest does.
#[inline]
fn deliver<T: TestType>(
    reader: &DataReader<T>,
    check_consistency: bool,
    on_sample: &mut impl FnMut(&Sample<'_>),
) -> Result<usize, Error> {
    let mut count = 0;
    let taken = reader.take_each(&Selector::ANY, |view| count += hand_on(view, check_consistency, on_sample));
    taken.map(|_| count).map_err(|error| failed(&error))
}

/// Like [`deliver`], after receiving.
#[inline]
fn poll_and_deliver<T: TestType>(
    reader: &DataReader<T>,
    check_consistency: bool,
    on_sample: &mut impl FnMut(&Sample<'_>),
) -> Result<usize, Error> {
    let mut count = 0;
    let taken = reader.poll_each(&Selector::ANY, |view| count += hand_on(view, check_consistency, on_sample));
    taken.map(|_| count).map_err(|error| failed(&error))
}

/// Delivers one sample. Returns the number of delivered samples: items without a sample of this test, such as the state
/// change of an instance, are skipped.
#[inline]
fn hand_on<T: TestType>(
    view: &LoanedSample<T>,
    check_consistency: bool,
    on_sample: &mut impl FnMut(&Sample<'_>),
) -> usize {
    if view.info().valid_data
        && let Some(sample) = T::parse(view.bytes())
        && (!check_consistency || view.is_consistent())
    {
        on_sample(&Sample { origin: view.info().writer.prefix.0, ..sample });
        return 1;
    }
    0
}

/// A running delivery.
pub struct DdsListening {
    end: Option<Box<dyn FnOnce() + Send>>,
}

impl DdsListening {
    /// Ends a thread that polls `closing`.
    fn until_closed(closing: Arc<AtomicBool>, thread: JoinHandle<()>) -> Self {
        let end = move || {
            closing.store(true, Ordering::Release);
            let _ = thread.join();
        };
        Self { end: Some(Box::new(end)) }
    }
}

impl Drop for DdsListening {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}
