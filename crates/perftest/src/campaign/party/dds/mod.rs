//! DDS: samples of the case's data type, written and taken as an application does.

mod form;
pub(super) mod receiving;
mod sending;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use peregrine::config::{DomainConfig, InterfaceSelection, Peer};
use peregrine::qos::{
    DataReaderQos, DataRepresentation, DataWriterQos, History, Limit, PublisherQos, Reliability as ReliabilityQos,
    ReliabilityKind, RepresentationId, ResourceLimits, SubscriberQos,
};
use peregrine::{DataWriter, DomainParticipant, FlowController, ParticipantBuilder, PublishMode, WaitStrategy};
use peregrine_report::record::{Publishing, Reliability, WireUse};

use self::form::{FormTask, SampleForm};
use self::receiving::DdsReceiver;
use self::sending::Writing;
use super::arrivals::Arrivals;
use super::link::{Link, Receiver, Sender};
use super::listening::Listening;
use crate::campaign::job::{Channel, Job, Sending};
use crate::campaign::series::{BATCH_LEN, Dds, Path, WRITER_BATCHES, WRITER_SAMPLES, samples_per_batch};
use crate::campaign::spec::Wait;
use crate::error::Error;
use crate::messaging::dds::{Poller, wire_use};
use crate::plan::ThreadPlan;

/// How long a spinning thread polls before it sleeps.
const SPIN: Duration = Duration::from_millis(1);
/// How long a write blocks for room.
const MAX_BLOCKING_TIME: Duration = Duration::from_secs(10);
/// How long a sample may wait to be batched.
const MAX_BATCH_AGE: Duration = Duration::from_millis(1);
/// Under KEEP_ALL: most bytes in a writer and in a reader, and most samples in a reader. One sample always fits.
const WRITER_BYTES: u64 = 64 << 20;
const READER_SAMPLES: u64 = 10_000;
const READER_BYTES: u64 = 256 << 20;

/// Joins the domain.
pub(super) fn open(job: &Job, dds: Dds) -> Result<Box<dyn Link>, Error> {
    struct Open<'a>(&'a Job, Dds);

    impl FormTask for Open<'_> {
        type Output = Result<Box<dyn Link>, Error>;

        fn run<F: SampleForm>(self) -> Self::Output {
            let Self(job, dds) = self;
            let builder =
                DomainParticipant::builder(job.domain).name("perftest campaign").config(domain_config(job, dds.path)?);
            let participant = secured(builder, job)?.build().map_err(|error| setup(&error))?;
            let poller = match job.wait {
                Wait::Poll => Some(Arc::new(Poller::start(&participant, &ThreadPlan::default(), false)?)),
                Wait::Block | Wait::Spin | Wait::Listener => None,
            };
            Ok(Box::new(DdsLink::<F> { participant, poller, job: job.clone(), dds, writers: Mutex::default() }))
        }
    }

    form::with_form(dds.form, job.data_type, Open(job, dds))
}

/// Secures the participant if its job has documents.
#[cfg(feature = "security")]
fn secured(builder: ParticipantBuilder, job: &Job) -> Result<ParticipantBuilder, Error> {
    Ok(match &job.documents {
        None => builder,
        Some(documents) => builder.security(crate::security::measured::config_of(documents)),
    })
}

/// Refuses security, which this build does not have.
#[cfg(not(feature = "security"))]
fn secured(builder: ParticipantBuilder, job: &Job) -> Result<ParticipantBuilder, Error> {
    match &job.documents {
        None => Ok(builder),
        Some(_) => Err(Error::Setup("the program of this side was built without the feature security".into())),
    }
}

fn domain_config(job: &Job, path: Path) -> Result<DomainConfig, Error> {
    let mut config = DomainConfig::default();
    // Only the measured path is enabled: without it, samples use messages, even between participants of one process.
    config.same_process = path == Path::SameProcess;
    config.shared_memory = path == Path::SharedMemory;
    config.interfaces = InterfaceSelection::Only(vec![job.address.to_string()]);
    config.udp_v4 = job.address.is_ipv4();
    config.udp_v6 = job.address.is_ipv6();
    config.wait = match job.wait {
        Wait::Block | Wait::Listener => WaitStrategy::Block,
        Wait::Poll => WaitStrategy::Poll,
        Wait::Spin => WaitStrategy::SpinThenBlock(SPIN),
    };
    if let Some(peer) = job.peer {
        // All participants may be on one host.
        let last_index = (job.publishers + job.subscribers).min(100);
        let peer = format!("{last_index}@{peer}").parse::<Peer>().map_err(|error| setup(&error))?;
        config.peers = vec![peer];
    }
    Ok(config)
}

struct DdsLink<F: SampleForm> {
    participant: DomainParticipant,
    /// Polls while no other thread does, where DDS has no threads.
    poller: Option<Arc<Poller>>,
    job: Job,
    dds: Dds,
    /// Kept to read their counters of repaired samples.
    writers: Mutex<Vec<DataWriter<F::Type>>>,
}

impl<F: SampleForm> DdsLink<F> {
    fn writers(&self) -> MutexGuard<'_, Vec<DataWriter<F::Type>>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn setup(error: &peregrine::Error) -> Error {
    Error::Setup(error.to_string())
}

impl<F: SampleForm> Link for DdsLink<F> {
    fn sender(&self, channel: Channel) -> Result<Box<dyn Sender>, Error> {
        let topic = self.participant.topic::<F::Type>(&name(channel)).map_err(|error| setup(&error))?;
        let mode = match self.job.publishing {
            Publishing::Synchronous => PublishMode::Synchronous,
            Publishing::Asynchronous => PublishMode::Asynchronous { flow: FlowController::fast() },
        };
        let is_batched = self.dds.batched && channel != Channel::Echo;
        let qos = writer_qos(&self.job, F::REPRESENTATION, is_batched);
        let publisher = self.participant.publisher(PublisherQos::default()).map_err(|error| setup(&error))?;
        let mut writer = publisher.writer(&topic).qos(qos).publish_mode(mode);
        if is_batched {
            // The last batch is sent when the application waits for acknowledgments.
            writer = writer.batching(BATCH_LEN, MAX_BATCH_AGE);
        }
        let writer = writer.build().map_err(|error| setup(&error))?;
        self.writers().push(writer.clone());
        let writing = Writing::new(writer, self.dds.path, &self.participant, name(channel));
        Ok(F::sender(writing, &self.job))
    }

    fn receiver(&self, channel: Channel) -> Result<Box<dyn Receiver>, Error> {
        let topic = self.participant.topic::<F::Type>(&name(channel)).map_err(|error| setup(&error))?;
        let qos = reader_qos(&self.job, F::REPRESENTATION);
        let subscriber = self.participant.subscriber(SubscriberQos::default()).map_err(|error| setup(&error))?;
        let reader = subscriber.reader(&topic).qos(qos).build().map_err(|error| setup(&error))?;
        if self.job.wait == Wait::Listener {
            let waits_for_each = channel == Channel::Echo && self.job.sending == Sending::PingPong;
            let arrivals = if waits_for_each { Arrivals::to_wait_for() } else { Arrivals::to_count() };
            return Ok(Box::new(Listening::start(reader, self.job.patterns, arrivals)));
        }
        let polling = self.poller.clone().map(|poller| (self.participant.clone(), poller));
        Ok(Box::new(DdsReceiver { reader, polling, corrupt: self.job.patterns.then_some(0) }))
    }

    fn wire(&self) -> WireUse {
        let repaired = |writer: &DataWriter<F::Type>| {
            let counters = writer.counters();
            counters.samples_repaired.saturating_add(counters.fragments_repaired)
        };
        let repairs = Some(self.writers().iter().map(repaired).sum());
        let mut wire = WireUse { repairs, ..wire_use(&self.participant) };
        if self.dds.path == Path::SameProcess {
            wire.path.push("within the process, by reference".into());
        }
        wire
    }

    fn check(&self) -> Result<(), Error> {
        let shared = self.participant.shared_memory_statistics();
        if F::IS_IN_PLACE && shared.copied_in > 0 {
            let text = "Samples were to be made in shared memory, and had to be copied into it";
            return Err(Error::Transfer(format!("{text} ({} of {}).", shared.copied_in, shared.sent)));
        }
        Ok(())
    }
}

fn name(channel: Channel) -> String {
    match channel {
        Channel::Topic(number) => format!("campaign {number}"),
        Channel::Echo => "campaign echo".into(),
    }
}

fn writer_qos(job: &Job, representation: RepresentationId, is_batched: bool) -> DataWriterQos {
    let samples =
        if is_batched { WRITER_BATCHES * samples_per_batch(job.data_len as usize) as u64 } else { WRITER_SAMPLES };
    DataWriterQos {
        reliability: reliability(job),
        history: history(job),
        resource_limits: limits(job, samples, WRITER_BYTES),
        data_representation: DataRepresentation(vec![representation]),
        ..DataWriterQos::default()
    }
}

fn reader_qos(job: &Job, representation: RepresentationId) -> DataReaderQos {
    DataReaderQos {
        reliability: reliability(job),
        history: history(job),
        resource_limits: limits(job, READER_SAMPLES, READER_BYTES),
        data_representation: DataRepresentation(vec![representation]),
        ..DataReaderQos::default()
    }
}

fn reliability(job: &Job) -> ReliabilityQos {
    let kind = match job.reliability {
        Reliability::Reliable => ReliabilityKind::Reliable,
        Reliability::BestEffort => ReliabilityKind::BestEffort,
    };
    ReliabilityQos { kind, max_blocking_time: MAX_BLOCKING_TIME.into() }
}

fn history(job: &Job) -> History {
    job.history_depth.map_or(History::KeepAll, |depth| History::KeepLast { depth })
}

/// Limits under KEEP_ALL: fewer samples if they are large. KEEP_LAST uses its depth.
fn limits(job: &Job, samples: u64, bytes: u64) -> ResourceLimits {
    if job.history_depth.is_some() {
        return ResourceLimits {
            max_samples: Limit::Unlimited,
            max_instances: Limit::Unlimited,
            max_samples_per_instance: Limit::Unlimited,
        };
    }
    let fitting = (bytes / job.data_len.max(1)).clamp(2, samples) as u32;
    ResourceLimits {
        max_samples: Limit::At(fitting),
        max_instances: Limit::Unlimited,
        max_samples_per_instance: Limit::At(fitting),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::*;

    #[test]
    fn writer_that_batches_keeps_many_full_batches_and_no_more_than_the_reader() {
        let at = |data_len, is_batched| {
            let qos = writer_qos(&Job { data_len, ..job() }, RepresentationId::XCDR2, is_batched);
            let reader = reader_qos(&Job { data_len, ..job() }, RepresentationId::XCDR2);
            let [Limit::At(writer), Limit::At(reader)] =
                [qos.resource_limits.max_samples, reader.resource_limits.max_samples]
            else {
                panic!("{qos:?} {reader:?}")
            };
            assert!(writer <= reader, "{data_len}");
            writer
        };
        assert_eq!([at(32, true), at(1_024, true), at(63_000, true)], [8_192, 256, 32]);
        assert_eq!([at(32, false), at(63_000, false), at(64 << 20, false)], [64, 64, 2]);
    }
}
