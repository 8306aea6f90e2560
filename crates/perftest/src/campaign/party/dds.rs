//! DDS: values of the case's data type, written and taken as an application does.

use std::net::SocketAddr;
use std::time::Duration;

use peregrine::config::{DomainConfig, InterfaceSelection, Peer};
use peregrine::qos::{
    DataReaderQos, DataRepresentation, DataWriterQos, History, Limit, PublisherQos, Reliability as ReliabilityQos,
    ReliabilityKind, RepresentationId, ResourceLimits, SubscriberQos,
};
use peregrine::{DataReader, DataWriter, DomainParticipant, FlowController, PublishMode, Selector, WaitStrategy};
use peregrine_report::record::{Publishing, Reliability, WireUse};

use super::link::{Link, Receiver, Sender};
use crate::campaign::BATCH_LEN;
use crate::campaign::job::{Channel, Job};
use crate::campaign::series::Carrier;
use crate::campaign::spec::Wait;
use crate::campaign::types::{SampleType, Stamp, TypeTask};
use crate::clock::MonotonicNs;
use crate::error::Error;
use crate::messaging::dds::wire_use;

/// How long a thread looks for samples before it sleeps, when it is to look.
const SPIN: Duration = Duration::from_millis(1);
/// How long a write waits for room.
const MAX_BLOCKING_TIME: Duration = Duration::from_secs(10);
/// How long a sample may wait for others.
const MAX_BATCH_AGE: Duration = Duration::from_millis(1);
/// Under KEEP_ALL: samples a writer and a reader may hold, and octets of them. One sample always fits.
const WRITER_SAMPLES: u64 = 64;
const WRITER_BYTES: u64 = 64 << 20;
const READER_SAMPLES: u64 = 10_000;
const READER_BYTES: u64 = 256 << 20;

/// Joins the domain.
pub(super) fn open(job: &Job) -> Result<Box<dyn Link>, Error> {
    struct Open<'a>(&'a Job);

    impl TypeTask for Open<'_> {
        type Output = Result<Box<dyn Link>, Error>;

        fn run<T: SampleType>(self) -> Self::Output {
            let participant = DomainParticipant::builder(self.0.domain)
                .name("perftest campaign")
                .config(domain_config(self.0)?)
                .build()
                .map_err(|error| setup(&error))?;
            Ok(Box::new(DdsLink::<T> { participant, job: self.0.clone(), of: std::marker::PhantomData }))
        }
    }

    job.data_type.with(Open(job))
}

fn domain_config(job: &Job) -> Result<DomainConfig, Error> {
    let mut config = DomainConfig::default();
    // What is measured is the transport, also between participants of one process.
    config.same_process = false;
    config.shared_memory = false;
    config.interfaces = InterfaceSelection::Only(vec![job.address.to_string()]);
    config.udp_v4 = job.address.is_ipv4();
    config.udp_v6 = job.address.is_ipv6();
    config.wait = match job.wait {
        Wait::Block => WaitStrategy::Block,
        Wait::Spin => WaitStrategy::SpinThenBlock(SPIN),
    };
    if let Some(peer) = job.peer {
        // All of them may be on one host.
        let last_index = (job.publishers + job.subscribers).min(100);
        let peer = format!("{last_index}@{peer}").parse::<Peer>().map_err(|error| setup(&error))?;
        config.peers = vec![peer];
    }
    Ok(config)
}

struct DdsLink<T> {
    participant: DomainParticipant,
    job: Job,
    of: std::marker::PhantomData<fn() -> T>,
}

fn setup(error: &peregrine::Error) -> Error {
    Error::Setup(error.to_string())
}

impl<T: SampleType> Link for DdsLink<T> {
    fn sender(&self, channel: Channel) -> Result<Box<dyn Sender>, Error> {
        let topic = self.participant.topic::<T>(&name(channel)).map_err(|error| setup(&error))?;
        let mode = match self.job.publishing {
            Publishing::Synchronous => PublishMode::Synchronous,
            Publishing::Asynchronous => PublishMode::Asynchronous { flow: FlowController::fast() },
        };
        let writer = self.participant.publisher(PublisherQos::default()).writer(&topic).qos(writer_qos(&self.job));
        let mut writer = writer.publish_mode(mode);
        if self.job.carrier == Carrier::PeregrineBatched && channel != Channel::Echo {
            // What is written last leaves with the wait for acknowledgments.
            writer = writer.batching(BATCH_LEN, MAX_BATCH_AGE);
        }
        let writer = writer.build().map_err(|error| setup(&error))?;
        Ok(Box::new(DdsSender { writer, value: T::of_len(self.job.data_len) }))
    }

    fn receiver(&self, channel: Channel) -> Result<Box<dyn Receiver>, Error> {
        let topic = self.participant.topic::<T>(&name(channel)).map_err(|error| setup(&error))?;
        let reader = self.participant.subscriber(SubscriberQos::default()).reader(&topic).qos(reader_qos(&self.job));
        Ok(Box::new(DdsReceiver { reader: reader.build().map_err(|error| setup(&error))? }))
    }

    fn wire(&self) -> Option<WireUse> {
        Some(wire_use(&self.participant))
    }
}

fn name(channel: Channel) -> String {
    match channel {
        Channel::Topic(number) => format!("campaign {number}"),
        Channel::Echo => "campaign echo".into(),
    }
}

fn writer_qos(job: &Job) -> DataWriterQos {
    DataWriterQos {
        reliability: reliability(job),
        history: history(job),
        resource_limits: limits(job, WRITER_SAMPLES, WRITER_BYTES),
        data_representation: DataRepresentation(vec![RepresentationId::XCDR1]),
        ..DataWriterQos::default()
    }
}

fn reader_qos(job: &Job) -> DataReaderQos {
    DataReaderQos {
        reliability: reliability(job),
        history: history(job),
        resource_limits: limits(job, READER_SAMPLES, READER_BYTES),
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

/// Samples that are kept under KEEP_ALL: a queue of large ones holds fewer. KEEP_LAST has its depth.
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

struct DdsSender<T: SampleType> {
    writer: DataWriter<T>,
    value: Box<T>,
}

impl<T: SampleType> Sender for DdsSender<T> {
    fn join(&mut self, _: &[SocketAddr], receivers: u32, deadline: MonotonicNs) -> Result<(), Error> {
        let found = self.writer.wait_for_readers(receivers as usize, deadline.remaining());
        found.map_err(|error| Error::Partner(error.to_string()))
    }

    fn send(&mut self, stamp: &Stamp) -> Result<bool, Error> {
        self.value.set_stamp(stamp);
        match self.writer.write(&self.value) {
            Ok(_) => Ok(true),
            Err(peregrine::Error::Timeout(text)) => Err(Error::Partner(format!("Nobody acknowledges: {text}"))),
            Err(error) => Err(Error::Transfer(error.to_string())),
        }
    }

    fn settle(&mut self, limit: Duration) -> Result<(), Error> {
        self.writer.wait_for_acknowledgments(limit).map_err(|error| Error::Partner(error.to_string()))
    }
}

struct DdsReceiver<T: SampleType> {
    reader: DataReader<T>,
}

impl<T: SampleType> Receiver for DdsReceiver<T> {
    fn address(&self) -> Option<SocketAddr> {
        None
    }

    fn join(&mut self, senders: u32, deadline: MonotonicNs) -> Result<(), Error> {
        let found = self.reader.wait_for_writers(senders as usize, deadline.remaining());
        found.map_err(|error| Error::Partner(error.to_string()))
    }

    /// A value is looked at in place where its type and its octets permit that, and else is decoded.
    fn receive(&mut self, limit: Duration, on_sample: &mut dyn FnMut(Stamp, MonotonicNs)) -> Result<(), Error> {
        let mut result = Ok(());
        let mut look = |sample: &peregrine::LoanedSample<T>| {
            if !sample.info().valid_data {
                return;
            }
            let stamp = match sample.borrow() {
                Some(value) => Ok(value.stamp()),
                None => sample.decode().map(|value| value.stamp()),
            };
            match stamp {
                Ok(stamp) => on_sample(stamp, MonotonicNs::now()),
                Err(error) => result = Err(Error::Transfer(error.to_string())),
            }
        };
        if self.reader.take_each(&Selector::ANY, &mut look) == 0 && self.reader.wait_for_data(limit) {
            self.reader.take_each(&Selector::ANY, &mut look);
        }
        result
    }
}
