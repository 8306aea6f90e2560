//! The threads of readers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use peregrine::config::WaitStrategy;
use peregrine::status::MatchedStatus;
use peregrine::{
    DataReader, DataReaderBuilder, DataWriter, DataWriterListener, DomainParticipant, Error, Sample, SampleInfo,
    Selector, StatusMask, WaitSet,
};

use super::plan::{Kind, Plan, ReaderPlan, Taking, TopicPlan};
use super::policies::{REQUESTED_LATENCY, change_reader};
use super::stage::{Log, Process, Stage, topic_name};
use super::values::{Keyed, Plain, Stream, Value};
use crate::machines::Task;
use crate::machines::config::lock;

/// Calls of a listener that block, and the duration of each.
const BLOCKING_CALLS: u32 = 8;
const BLOCKING: Duration = Duration::from_millis(130);
/// A reader that changes its policies does so after one of so many takes.
const TAKES_PER_CHANGE: u32 = 4;
/// Calls of a listener in which it creates and drops other endpoints.
const DROPPING_CALLS: u32 = 12;
/// Calls of a listener before it ends its reader.
const CALLS_BEFORE_END: u32 = 3;
/// The group of readers that join one.
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 255, 3, 1));

pub(super) fn spawn(
    plan: &Plan,
    index: usize,
    process: &Process,
    stage: &Arc<Stage>,
    log: &Arc<Mutex<Log>>,
) -> Task<()> {
    let reader = plan.readers[index];
    let reading = Reading {
        participant: process.participant(reader.participant),
        index,
        plan: reader,
        policies: plan.topics[reader.topic],
        polls: plan.processes[reader.process].wait == WaitStrategy::Poll,
        stage: Arc::clone(stage),
        log: Arc::clone(log),
    };
    let body = move || match reading.policies.kind {
        Kind::Stream => reading.read::<Stream>(),
        Kind::Keyed => reading.read::<Keyed>(),
        Kind::Plain => reading.read::<Plain>(),
    };
    process.program.spawn(&format!("reader{index}"), body)
}

/// A reader with what it shares.
#[derive(Clone)]
struct Reading {
    participant: DomainParticipant,
    index: usize,
    plan: ReaderPlan,
    policies: TopicPlan,
    /// The process has no threads of the driver.
    polls: bool,
    stage: Arc<Stage>,
    log: Arc<Mutex<Log>>,
}

impl Reading {
    fn read<T: Value>(&self) {
        let stage = &self.stage;
        if self.plan.is_late {
            stage.simulation.sleep(Duration::from_millis(40));
        }
        let own = Own::default();
        let reader = self.create::<T>(&own);
        lock(&stage.readers).insert(self.index, reader.guid());
        if self.plan.leaves() {
            return self.leave(reader, &own);
        }
        let mut rng = Rng::with_seed(self.index as u64);
        while !stage.has_ended() {
            self.take_once(Some(&reader));
            let may_change = self.plan.changes_qos && !stage.may_leave.load(Ordering::SeqCst);
            if may_change && rng.u32(..TAKES_PER_CHANGE) == 0 {
                let mut qos = reader.qos();
                change_reader(&mut qos, &mut rng, self.policies.has_deadline, !self.policies.is_reliable);
                reader.set_qos(qos).expect("these policies may change");
                stage.counts.qos_changes.add(true);
            }
        }
        let shared = self.participant.shared_memory_statistics().received;
        stage.counts.by_shared_memory.raise_to(shared);
        if self.plan.taking == Taking::PanickingListener {
            stage.counts.panics.add(reader.listener_panics());
        }
    }

    /// The listener has the last handle of the reader, and ends it.
    fn leave<T: Value>(&self, reader: DataReader<T>, own: &Own<T>) {
        *lock(own) = Some(reader);
        while !self.stage.has_ended() {
            self.take_once::<T>(None);
        }
        // A listener that was never called has left it here. Dropped without the lock.
        let last = lock(own).take();
        drop(last);
    }

    /// Without descriptors there may be no socket for a group: the reader is created when there are some again.
    fn create<T: Value>(&self, own: &Own<T>) -> DataReader<T> {
        loop {
            match self.try_create(own) {
                Ok(reader) => return reader,
                Err(_) if self.plan.joins_group => self.stage.turn(&self.participant),
                Err(error) => panic!("reader {}: {error}", self.index),
            }
        }
    }

    fn try_create<T: Value>(&self, own: &Own<T>) -> Result<DataReader<T>, Error> {
        let builder = self.builder::<T>();
        match self.listener::<T>(own) {
            Some(on_data) => builder.on_data(on_data).build(),
            None => builder.build(),
        }
    }

    fn builder<T: Value>(&self) -> DataReaderBuilder<T> {
        let topic = self.participant.topic::<T>(&topic_name(self.plan.topic)).expect("a topic");
        let mut builder = topic.reader_builder().latency_budget(REQUESTED_LATENCY);
        builder = if self.policies.is_reliable { builder.reliable() } else { builder.best_effort() };
        builder = match self.policies.depth {
            Some(depth) => builder.keep_last(depth),
            None => builder.keep_all(),
        };
        if self.policies.is_durable {
            builder = builder.transient_local();
        }
        if self.plan.joins_group {
            builder = builder.multicast(GROUP);
        }
        builder
    }

    fn listener<T: Value>(&self, own: &Own<T>) -> Option<OnData<T>> {
        let (log, stage) = (Arc::clone(&self.log), Arc::clone(&self.stage));
        let take = move |reader: &DataReader<T>| note(&log, reader.take().expect("samples"));
        Some(match self.plan.taking {
            Taking::Listener => Box::new(take),
            Taking::SlowListener => Box::new(move |reader| {
                take(reader);
                stage.simulation.sleep(Duration::from_millis(30));
            }),
            Taking::BlockingListener => {
                let calls = AtomicU32::new(0);
                Box::new(move |reader| {
                    take(reader);
                    if calls.fetch_add(1, Ordering::SeqCst) < BLOCKING_CALLS {
                        stage.simulation.sleep(BLOCKING);
                        stage.counts.blocked_calls.add(true);
                    }
                })
            }
            Taking::PanickingListener => Box::new(move |reader| {
                take(reader);
                std::panic::resume_unwind(Box::new("a panic of the application"));
            }),
            Taking::WritingListener => {
                let topic = self.participant.topic::<Stream>("echo").expect("a topic");
                let echo = topic.writer_builder().reliable().keep_all().build().expect("a writer");
                Box::new(move |reader| {
                    take(reader);
                    echo.write(&Stream::new(0, 0, 0, 10)).expect("there is no reader");
                    stage.counts.echoes.add(true);
                })
            }
            Taking::DroppingListener => {
                let (participant, again) = (self.participant.clone(), self.clone());
                let (others, calls) = (Mutex::new(None), AtomicU32::new(0));
                Box::new(move |reader| {
                    take(reader);
                    let call = calls.fetch_add(1, Ordering::SeqCst);
                    if call >= DROPPING_CALLS {
                        return;
                    }
                    let next = (again.other_reader::<T>(), leaving_pair(&participant));
                    // Outside the lock: these are the last handles.
                    let before = lock(&others).replace(next);
                    if let Some((Some(other), _)) = before.as_ref().filter(|_| call % 2 == 0) {
                        other.close().expect("the reader is open");
                    }
                    stage.counts.dropping_calls.add(before.is_some());
                    drop(before);
                })
            }
            Taking::ClosingListener | Taking::LeavingListener => {
                let (own, calls) = (Arc::clone(own), AtomicU32::new(0));
                let closes = self.plan.taking == Taking::ClosingListener;
                Box::new(move |reader| {
                    take(reader);
                    if calls.fetch_add(1, Ordering::SeqCst) < CALLS_BEFORE_END {
                        return;
                    }
                    // Outside the lock: it may be the last handle.
                    let Some(last) = lock(&own).take() else { return };
                    if closes {
                        reader.close().expect("the reader is open");
                        assert!(reader.take().is_err(), "the reader is closed");
                    }
                    drop(last);
                    stage.counts.leaves.add(true);
                })
            }
            Taking::Waiting | Taking::WaitSet | Taking::Polling | Taking::InPlace => return None,
        })
    }

    /// Another reader of the topic, which takes samples in its listener. Without descriptors there may be none.
    fn other_reader<T: Value>(&self) -> Option<DataReader<T>> {
        self.builder::<T>().on_data(|reader| drop(reader.take())).build().ok()
    }

    /// Waits for some samples and takes them, or gives the driver of a polling process its turn.
    fn take_once<T: Value>(&self, reader: Option<&DataReader<T>>) {
        let log = &*self.log;
        let turn = Duration::from_millis(20);
        match (self.plan.taking, reader) {
            (Taking::Waiting, Some(reader)) => {
                let _ = reader.wait_for_data(turn);
                note(log, reader.take().expect("samples"));
            }
            (Taking::WaitSet, Some(reader)) => {
                let condition = reader.status_condition();
                condition.set_enabled_statuses(StatusMask::DATA_AVAILABLE);
                let waits = WaitSet::new();
                waits.attach(condition);
                let _ = waits.wait(turn);
                note(log, reader.take().expect("samples"));
            }
            (Taking::InPlace, Some(reader)) => {
                let _ = reader.wait_for_data(turn);
                let taken = reader.poll_each(&Selector::ANY, |sample| {
                    let info = sample.info();
                    if info.valid_data {
                        note_value(log, &sample.decode().expect("a value"), info);
                    } else {
                        lock(log).states.insert(info.instance, info.instance_state);
                    }
                });
                taken.expect("samples");
            }
            (Taking::Polling, Some(reader)) => {
                note(log, reader.take().expect("samples"));
                self.stage.simulation.sleep(Duration::from_millis(1));
            }
            _ => {
                if !self.polls {
                    self.stage.simulation.sleep(turn);
                }
            }
        }
        if self.polls {
            self.participant.poll(Duration::from_millis(1));
        }
    }
}

type OnData<T> = Box<dyn Fn(&DataReader<T>) + Send + Sync>;

/// The place of the last handle of a reader that ends in its listener.
type Own<T> = Arc<Mutex<Option<DataReader<T>>>>;

/// A pair of endpoints of which the writer ends in its listener, when the reader matches.
fn leaving_pair(participant: &DomainParticipant) -> LeavingPair {
    let topic = participant.topic::<Stream>("dropped").expect("a topic");
    let own = Arc::<Mutex<Option<DataWriter<Stream>>>>::default();
    let leaving = Leaving(Arc::clone(&own));
    let writer = topic.writer_builder().listener(leaving, StatusMask::PUBLICATION_MATCHED).build().expect("a writer");
    *lock(&own) = Some(writer);
    LeavingPair { _reader: topic.reader_builder().build().expect("a reader"), writer: own }
}

struct LeavingPair {
    _reader: DataReader<Stream>,
    writer: Arc<Mutex<Option<DataWriter<Stream>>>>,
}

impl Drop for LeavingPair {
    fn drop(&mut self) {
        // A writer that has not matched is still there.
        let last = lock(&self.writer).take();
        drop(last);
    }
}

/// Drops the last handle of its writer.
struct Leaving(Arc<Mutex<Option<DataWriter<Stream>>>>);

impl DataWriterListener<Stream> for Leaving {
    fn on_publication_matched(&self, writer: &DataWriter<Stream>, status: MatchedStatus) {
        let Some(last) = lock(&self.0).take() else { return };
        if status.total_count.is_multiple_of(2) {
            // The writer has written nothing that a reader could miss.
            writer.close(Duration::ZERO).expect("the writer is open");
        }
        drop(last);
    }
}

fn note<T: Value>(log: &Mutex<Log>, samples: Vec<Sample<T>>) {
    for sample in samples {
        match sample {
            Sample::Value { value, info } => note_value(log, &value, &info),
            Sample::InstanceState { info } => _ = lock(log).states.insert(info.instance, info.instance_state),
            Sample::Undecodable { error, .. } => lock(log).faults.push(format!("undecodable: {error}")),
        }
    }
}

fn note_value<T: Value>(log: &Mutex<Log>, value: &T, info: &SampleInfo) {
    let (key, writer, number) = value.parts();
    let mut log = lock(log);
    if !value.is_intact() {
        log.faults.push(format!("sample {number} of writer {writer} is damaged"));
    }
    log.numbers.entry((writer, key)).or_default().push(number);
    if T::HAS_INSTANCES {
        log.instances.insert(info.instance, key);
        log.states.insert(info.instance, info.instance_state);
    }
}
