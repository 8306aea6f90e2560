//! The threads of readers.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use peregrine::config::WaitStrategy;
use peregrine::{DataReader, DomainParticipant, Sample, SampleInfo, Selector, StatusMask, WaitSet};

use super::plan::{Kind, Plan, ReaderPlan, Taking, TopicPlan};
use super::stage::{Log, Process, Stage, topic_name};
use super::values::{Keyed, Plain, Stream, Value};
use crate::machines::Task;
use crate::machines::config::lock;

/// Calls of a listener that block, and the duration of each.
const BLOCKING_CALLS: u32 = 8;
const BLOCKING: Duration = Duration::from_millis(130);
/// The number of takes between two changes of policies.
const TAKES_PER_CHANGE: u32 = 5;

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

/// A reader with its shared state.
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
        let reader = self.create::<T>();
        lock(&stage.readers).insert(self.index, reader.guid());
        let mut takes = 0;
        while !stage.has_ended() {
            self.take_once(&reader);
            takes += 1;
            if self.plan.changes_qos && takes % TAKES_PER_CHANGE == 0 && !stage.may_leave.load(Ordering::SeqCst) {
                change_qos(&reader, takes, stage);
            }
        }
        let shared = self.participant.shared_memory_statistics().received;
        stage.by_shared_memory.fetch_max(u32::try_from(shared).unwrap_or(u32::MAX), Ordering::SeqCst);
        if self.plan.taking == Taking::PanickingListener {
            stage.panics.fetch_add(u32::try_from(reader.listener_panics()).unwrap_or(u32::MAX), Ordering::SeqCst);
        }
    }

    fn create<T: Value>(&self) -> DataReader<T> {
        let topic = self.participant.topic::<T>(&topic_name(self.plan.topic)).expect("a topic");
        let mut builder = topic.reader_builder();
        builder = if self.policies.is_reliable { builder.reliable() } else { builder.best_effort() };
        builder = match self.policies.depth {
            Some(depth) => builder.keep_last(depth),
            None => builder.keep_all(),
        };
        if self.policies.is_durable {
            builder = builder.transient_local();
        }
        let reader = match self.listener::<T>() {
            Some(on_data) => builder.on_data(on_data).build(),
            None => builder.build(),
        };
        reader.expect("a reader")
    }

    fn listener<T: Value>(&self) -> Option<OnData<T>> {
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
                    echo.write(&Stream::new(0, 0, 0, 10)).expect("nobody reads");
                })
            }
            Taking::DroppingListener => {
                let participant = self.participant.clone();
                let others = Mutex::new(None);
                Box::new(move |reader| {
                    take(reader);
                    let topic = participant.topic::<Stream>("dropped").expect("a topic");
                    let pair = (topic.reader_builder().build(), topic.writer_builder().build());
                    // Drops the last handles without holding the lock.
                    let before = lock(&others).replace(pair);
                    drop(before);
                })
            }
            Taking::Waiting | Taking::WaitSet | Taking::Polling | Taking::InPlace => return None,
        })
    }

    /// Waits for samples and takes them, or polls the driver of a polling process.
    fn take_once<T: Value>(&self, reader: &DataReader<T>) {
        let log = &*self.log;
        let turn = Duration::from_millis(20);
        match self.plan.taking {
            Taking::Waiting => {
                let _ = reader.wait_for_data(turn);
                note(log, reader.take().expect("samples"));
            }
            Taking::WaitSet => {
                let condition = reader.status_condition();
                condition.set_enabled_statuses(StatusMask::DATA_AVAILABLE);
                let waits = WaitSet::new();
                waits.attach(condition);
                let _ = waits.wait(turn);
                note(log, reader.take().expect("samples"));
            }
            Taking::InPlace => {
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
            Taking::Polling => {
                note(log, reader.take().expect("samples"));
                self.stage.simulation.sleep(Duration::from_millis(1));
            }
            Taking::Listener
            | Taking::SlowListener
            | Taking::BlockingListener
            | Taking::PanickingListener
            | Taking::WritingListener
            | Taking::DroppingListener => {
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

/// Changes changeable policies that keep the match.
fn change_qos<T: Value>(reader: &DataReader<T>, number: u32, stage: &Stage) {
    let mut qos = reader.qos();
    qos.user_data.0 = number.to_be_bytes().to_vec();
    reader.set_qos(qos).expect("user data may change");
    stage.qos_changes.fetch_add(1, Ordering::SeqCst);
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
