//! Writers and readers of any type.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use peregrine::status::StatusMask;
use peregrine::{
    DataReader, DataWriter, DomainParticipant, InstanceHandle, InstanceState, SampleInfo, Selector, TopicType,
};

use crate::answer::{Status, Taken};
use crate::news::News;
use crate::qos::EndpointQos;
use crate::types::{Content, is_intact, payload};

/// An entity that a command can name.
pub(crate) enum Endpoint {
    Writer(Box<dyn Writer>),
    Reader(Box<dyn Reader>),
}

/// The samples of a `write` command.
pub(crate) struct Load {
    pub(crate) key: u32,
    pub(crate) first_seq: u32,
    pub(crate) size_bytes: usize,
    pub(crate) count: u32,
    pub(crate) period: Duration,
}

pub(crate) trait Writer {
    fn write(&self, load: &Load) -> Result<()>;
    fn dispose(&self, key: u32) -> Result<()>;
    fn unregister(&self, key: u32) -> Result<()>;
    fn wait_acknowledged(&self, limit: Duration) -> Result<()>;
    fn status(&self) -> Status;
    fn news(&self) -> &News;
}

pub(crate) trait Reader {
    fn take(&self, count: usize, limit: Duration) -> Result<Vec<Taken>>;
    fn status(&self) -> Status;
    fn news(&self) -> &News;
}

impl Endpoint {
    pub(crate) fn as_writer(&self) -> Result<&dyn Writer> {
        match self {
            Self::Writer(writer) => Ok(&**writer),
            Self::Reader(_) => anyhow::bail!("this is a reader"),
        }
    }

    pub(crate) fn as_reader(&self) -> Result<&dyn Reader> {
        match self {
            Self::Writer(_) => anyhow::bail!("this is a writer"),
            Self::Reader(reader) => Ok(&**reader),
        }
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Writer(writer) => writer.status(),
            Self::Reader(reader) => reader.status(),
        }
    }

    pub(crate) fn news(&self) -> &News {
        match self {
            Self::Writer(writer) => writer.news(),
            Self::Reader(reader) => reader.news(),
        }
    }
}

struct WriterOf<T: Content> {
    writer: DataWriter<T>,
    news: News,
}

struct ReaderOf<T: Content> {
    reader: DataReader<T>,
    news: News,
}

pub(crate) fn create_writer<T: Content>(
    participant: &DomainParticipant,
    topic: &str,
    qos: EndpointQos,
) -> Result<Box<dyn Writer>> {
    let news = News::default();
    let publisher = participant.publisher(qos.publisher())?;
    let topic = participant.topic::<T>(topic)?;
    let writer = publisher
        .writer(&topic)
        .data_tags(qos.tags())
        .qos(qos.writer())
        .listener(news.clone(), StatusMask::ALL)
        .build()?;
    Ok(Box::new(WriterOf { writer, news }))
}

pub(crate) fn create_reader<T: Content>(
    participant: &DomainParticipant,
    topic: &str,
    qos: EndpointQos,
) -> Result<Box<dyn Reader>> {
    let news = News::default();
    let subscriber = participant.subscriber(qos.subscriber())?;
    let topic = participant.topic::<T>(topic)?;
    let reader = subscriber
        .reader(&topic)
        .data_tags(qos.tags())
        .qos(qos.reader())
        .listener(news.clone(), StatusMask::ALL)
        .build()?;
    Ok(Box::new(ReaderOf { reader, news }))
}

impl<T: Content> Writer for WriterOf<T> {
    fn write(&self, load: &Load) -> Result<()> {
        for seq in (load.first_seq..).take(load.count as usize) {
            let sample = T::new(load.key, seq, unix_ns(), payload(seq, load.size_bytes));
            self.writer.write(&sample).with_context(|| format!("seq {seq}"))?;
            if !load.period.is_zero() {
                std::thread::sleep(load.period);
            }
        }
        Ok(())
    }

    fn dispose(&self, key: u32) -> Result<()> {
        self.writer.dispose(&T::new(key, 0, 0, Vec::new()))?;
        Ok(())
    }

    fn unregister(&self, key: u32) -> Result<()> {
        self.writer.unregister_instance(&T::new(key, 0, 0, Vec::new()))?;
        Ok(())
    }

    fn wait_acknowledged(&self, limit: Duration) -> Result<()> {
        Ok(self.writer.wait_for_acknowledgments(limit)?)
    }

    fn status(&self) -> Status {
        writer_status(&self.writer)
    }

    fn news(&self) -> &News {
        &self.news
    }
}

impl<T: Content> Reader for ReaderOf<T> {
    fn take(&self, count: usize, limit: Duration) -> Result<Vec<Taken>> {
        let mut taken: Vec<Taken> = Vec::new();
        let mut more = || -> Result<bool> {
            let selector = Selector { max_samples: count.saturating_sub(taken.len()), ..Selector::ANY };
            let samples = self.reader.take_selected(&selector)?;
            taken.extend(samples.iter().map(|sample| describe(sample.info(), sample.value())));
            Ok(taken.len() >= count)
        };
        // An error ends the wait as well.
        let stopped = self.news.wait(limit, || more().map(|is_enough| is_enough.then_some(())).transpose());
        stopped.transpose()?;
        Ok(taken)
    }

    fn status(&self) -> Status {
        reader_status(&self.reader)
    }

    fn news(&self) -> &News {
        &self.news
    }
}

pub(crate) fn writer_status<T: TopicType>(writer: &DataWriter<T>) -> Status {
    let matched = writer.publication_matched_status();
    let incompatible = writer.offered_incompatible_qos_status();
    Status {
        matched: matched.current_count,
        matched_total: matched.total_count,
        incompatible_qos: incompatible.total_count,
        incompatible_policy: incompatible.last_policy.map_or(0, |policy| policy.number()),
        deadline_missed: writer.offered_deadline_missed_status().total_count,
        liveliness_lost: writer.liveliness_lost_status().total_count,
        stalled: writer.delivery_stalled_status().total_count.into(),
        ..Status::default()
    }
}

pub(crate) fn reader_status<T: TopicType>(reader: &DataReader<T>) -> Status {
    let matched = reader.subscription_matched_status();
    let incompatible = reader.requested_incompatible_qos_status();
    let liveliness = reader.liveliness_changed_status();
    Status {
        matched: matched.current_count,
        matched_total: matched.total_count,
        incompatible_qos: incompatible.total_count,
        incompatible_policy: incompatible.last_policy.map_or(0, |policy| policy.number()),
        alive: liveliness.alive_count,
        not_alive: liveliness.not_alive_count,
        deadline_missed: reader.requested_deadline_missed_status().total_count,
        sample_lost: reader.sample_lost_status().total_count,
        ..Status::default()
    }
}

pub(crate) fn describe<T: Content>(info: &SampleInfo, value: Option<&T>) -> Taken {
    let instance = match info.instance_state {
        InstanceState::Alive => "alive",
        InstanceState::NotAliveDisposed => "disposed",
        InstanceState::NotAliveNoWriters => "no_writers",
    };
    let taken_ns = unix_ns();
    match value {
        Some(data) => Taken {
            key: data.instance_key(),
            seq: data.seq(),
            size: data.data().len(),
            intact: is_intact(data.seq(), data.data()),
            valid: true,
            instance,
            taken_ns,
        },
        None => Taken { key: key_of(info.instance), seq: 0, size: 0, intact: true, valid: false, instance, taken_ns },
    }
}

/// A key of at most 16 bytes is stored in the key hash, big endian (RTPS 2.5 §9.6.4.8).
fn key_of(handle: InstanceHandle) -> u32 {
    let [a, b, c, d, ..] = handle.0;
    u32::from_be_bytes([a, b, c, d])
}

pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
