//! The threads of writers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use peregrine::qos::DataWriterQos;
use peregrine::{DataWriter, DomainParticipant, Error, FlowController, PublishMode};

use super::entitlement::{last_numbers, script};
use super::plan::{Ending, Kind, Life, Plan, TopicPlan, WriterPlan};
use super::policies::{OFFERED_DEADLINE, change_writer};
use super::stage::{PATIENCE, Process, Stage, topic_name};
use super::values::{Keyed, Plain, Stream, Value};
use crate::machines::Task;
use crate::machines::config::lock;

/// A writer that ends instances does so each time it has written so often.
const SAMPLES_PER_ENDING: usize = 6;
/// A writer that changes its policies does so after one of so many samples.
const SAMPLES_PER_CHANGE: usize = 4;

pub(super) fn spawn(plan: &Plan, index: usize, process: &Process, stage: &Arc<Stage>) -> Task<u64> {
    let writer = plan.writers[index];
    let readers = plan.readers.iter().enumerate().filter(|(_, reader)| plan.is_awaited(reader, &writer));
    let writing = Writing {
        participant: process.participant(writer.participant),
        index: index as u32,
        plan: writer,
        policies: plan.topics[writer.topic],
        is_doomed: plan.life_of_writer(&writer) == Life::Doomed,
        readers: readers.map(|(index, _)| index).collect(),
        stage: Arc::clone(stage),
    };
    let body = move || match writing.policies.kind {
        Kind::Stream => writing.write::<Stream>(),
        Kind::Keyed => writing.write::<Keyed>(),
        Kind::Plain => writing.write::<Plain>(),
    };
    process.program.spawn(&format!("writer{index}"), body)
}

/// A writer with its shared state.
struct Writing {
    participant: DomainParticipant,
    index: u32,
    plan: WriterPlan,
    policies: TopicPlan,
    is_doomed: bool,
    /// The readers that must receive all samples.
    readers: Vec<usize>,
    stage: Arc<Stage>,
}

impl Writing {
    /// Writes all samples and returns their number.
    fn write<T: Value>(&self) -> u64 {
        let script = script(self.index, &self.plan, T::HAS_INSTANCES);
        match self.write_script::<T>(&script) {
            Ok(()) => script.len() as u64,
            // The process has crashed.
            Err(_) if self.is_doomed => 0,
            Err(error) => panic!("writer {}: {error}", self.index),
        }
    }

    fn write_script<T: Value>(&self, script: &[(u32, usize)]) -> Result<(), Error> {
        let writer = self.create::<T>();
        let mut rng = Rng::with_seed(u64::from(self.index) << 32 | u64::from(self.plan.samples));
        self.await_readers(&writer)?;
        let last = last_numbers(script);
        for (number, (key, len)) in script.iter().enumerate() {
            let value = T::new(*key, self.index, number as u32, *len);
            let in_place = self.plan.in_place;
            if in_place { T::write_in_place(&writer, value) } else { writer.write(&value).map(drop) }?;
            self.stage.counts.asynchronously.add(self.plan.is_asynchronous);
            // After the last sample, KEEP_LAST would keep the end of the instance in its place.
            if number % SAMPLES_PER_ENDING == 0 && T::HAS_INSTANCES && last[key] > number as u32 {
                self.end_instance(&writer, *key, self.plan.interrupts)?;
            }
            if self.plan.changes_qos && rng.usize(..SAMPLES_PER_CHANGE) == 0 {
                self.change_qos(&writer, |qos| change_writer(qos, &mut rng, self.policies.has_deadline))?;
            }
            if self.plan.pause_us > 0 {
                self.stage.simulation.sleep(Duration::from_micros(self.plan.pause_us));
            }
        }
        if !self.is_doomed {
            self.stage.written.fetch_add(1, Ordering::SeqCst);
        }
        // Durable samples exist as long as their writer.
        while !self.stage.may_leave.load(Ordering::SeqCst) {
            self.stage.turn(&self.participant);
        }
        if self.plan.changes_qos {
            // The ends of instances are to be seen as they are written.
            self.change_qos(&writer, |qos| qos.writer_data_lifecycle.autodispose_unregistered_instances = false)?;
        }
        if T::HAS_INSTANCES {
            for key in last.into_keys() {
                self.end_instance(&writer, key, self.plan.ends)?;
            }
        }
        if self.policies.is_reliable { writer.wait_for_acknowledgments(PATIENCE) } else { Ok(()) }
    }

    fn create<T: Value>(&self) -> DataWriter<T> {
        let topic = self.participant.topic::<T>(&topic_name(self.plan.topic)).expect("a topic");
        let mut builder = topic.writer_builder().max_blocking_time(PATIENCE).autodispose(false);
        builder = if self.policies.is_reliable { builder.reliable() } else { builder.best_effort() };
        builder = match self.policies.depth {
            Some(depth) => builder.keep_last(depth),
            None => builder.keep_all(),
        };
        if self.policies.is_durable {
            builder = builder.transient_local();
        }
        if self.policies.has_deadline {
            builder = builder.deadline(OFFERED_DEADLINE);
        }
        if self.plan.is_asynchronous {
            let flow = match self.plan.samples % 2 {
                0 => FlowController::fast(),
                _ => FlowController::bits_per_second(20_000_000).expect("a rate"),
            };
            builder = builder.publish_mode(PublishMode::Asynchronous { flow });
        }
        builder.build().expect("a writer")
    }

    /// Waits until all readers that must receive all samples are matched.
    fn await_readers<T: Value>(&self, writer: &DataWriter<T>) -> Result<(), Error> {
        writer.wait_for_readers(self.readers.len(), PATIENCE)?;
        // The number may include readers of a process that is about to crash.
        let end = self.stage.simulation.now_ns() + PATIENCE.as_nanos() as u64;
        let are_matched = || {
            let (matched, readers) = (writer.matched_subscriptions(), lock(&self.stage.readers));
            self.readers.iter().all(|index| readers.get(index).is_some_and(|guid| matched.contains(guid)))
        };
        while !are_matched() && !self.stage.has_ended() {
            assert!(self.stage.simulation.now_ns() < end, "writer {} has matched its readers", self.index);
            self.stage.turn(&self.participant);
        }
        Ok(())
    }

    fn end_instance<T: Value>(&self, writer: &DataWriter<T>, key: u32, ending: Ending) -> Result<(), Error> {
        let holder = T::new(key, self.index, 0, 0);
        let counts = &self.stage.counts;
        match ending {
            Ending::Leave => Ok(()),
            Ending::Dispose => writer.dispose(&holder).map(|_| counts.disposals.add(true)),
            Ending::Unregister => writer.unregister_instance(&holder).map(|_| counts.unregistrations.add(true)),
        }
    }

    fn change_qos<T: Value>(
        &self,
        writer: &DataWriter<T>,
        change: impl FnOnce(&mut DataWriterQos),
    ) -> Result<(), Error> {
        let mut qos = writer.qos();
        change(&mut qos);
        writer.set_qos(qos)?;
        self.stage.counts.qos_changes.add(true);
        Ok(())
    }
}
