//! Writers and readers of any type, whose samples are values or bytes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use peregrine::status::StatusMask;
use peregrine::{
    DataReader, DataWriter, DomainParticipant, InstanceHandle, InstanceState, SampleInfo, Selector, Topic, TopicType,
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

/// The form in which this program exchanges samples with its endpoints.
pub(crate) trait Form<C: Content>: 'static {
    type Type: TopicType;

    fn topic(participant: &DomainParticipant, name: &str) -> Result<Topic<Self::Type>>;
    fn write(writer: &DataWriter<Self::Type>, sample: &C) -> Result<()>;
    /// Disposes the instance of the sample.
    fn dispose(writer: &DataWriter<Self::Type>, sample: &C) -> Result<()>;
    fn unregister(writer: &DataWriter<Self::Type>, sample: &C) -> Result<()>;
    fn take(reader: &DataReader<Self::Type>, selector: &Selector) -> Result<Vec<Taken>>;
}

/// The samples are values of a Rust type, which the endpoints encode and decode.
pub(crate) enum Typed {}

struct WriterOf<C: Content, F: Form<C>> {
    writer: DataWriter<F::Type>,
    news: News,
}

struct ReaderOf<C: Content, F: Form<C>> {
    reader: DataReader<F::Type>,
    news: News,
}

pub(crate) fn create_writer<C: Content, F: Form<C>>(
    participant: &DomainParticipant,
    topic: &str,
    qos: EndpointQos,
) -> Result<Box<dyn Writer>> {
    let news = News::default();
    let writer = participant
        .publisher(qos.publisher())?
        .writer(&F::topic(participant, topic)?)
        .data_tags(qos.tags())
        .qos(qos.writer())
        .listener(news.clone(), StatusMask::ALL)
        .build()?;
    Ok(Box::new(WriterOf::<C, F> { writer, news }))
}

pub(crate) fn create_reader<C: Content, F: Form<C>>(
    participant: &DomainParticipant,
    topic: &str,
    qos: EndpointQos,
) -> Result<Box<dyn Reader>> {
    let news = News::default();
    let reader = participant
        .subscriber(qos.subscriber())?
        .reader(&F::topic(participant, topic)?)
        .data_tags(qos.tags())
        .qos(qos.reader())
        .listener(news.clone(), StatusMask::ALL)
        .build()?;
    Ok(Box::new(ReaderOf::<C, F> { reader, news }))
}

impl<C: Content, F: Form<C>> Writer for WriterOf<C, F> {
    fn write(&self, load: &Load) -> Result<()> {
        for seq in (load.first_seq..).take(load.count as usize) {
            let sample = C::new(load.key, seq, unix_ns(), payload(seq, load.size_bytes));
            F::write(&self.writer, &sample).with_context(|| format!("seq {seq}"))?;
            if !load.period.is_zero() {
                std::thread::sleep(load.period);
            }
        }
        Ok(())
    }

    fn dispose(&self, key: u32) -> Result<()> {
        F::dispose(&self.writer, &C::new(key, 0, 0, Vec::new()))
    }

    fn unregister(&self, key: u32) -> Result<()> {
        F::unregister(&self.writer, &C::new(key, 0, 0, Vec::new()))
    }

    fn wait_acknowledged(&self, limit: Duration) -> Result<()> {
        Ok(self.writer.wait_for_acknowledgments(limit)?)
    }

    fn status(&self) -> Status {
        let matched = self.writer.publication_matched_status();
        let incompatible = self.writer.offered_incompatible_qos_status();
        Status {
            matched: matched.current_count,
            matched_total: matched.total_count,
            incompatible_qos: incompatible.total_count,
            incompatible_policy: incompatible.last_policy.map_or(0, |policy| policy.number()),
            deadline_missed: self.writer.offered_deadline_missed_status().total_count,
            liveliness_lost: self.writer.liveliness_lost_status().total_count,
            stalled: self.writer.delivery_stalled_status().total_count.into(),
            ..Status::default()
        }
    }

    fn news(&self) -> &News {
        &self.news
    }
}

impl<C: Content, F: Form<C>> Reader for ReaderOf<C, F> {
    fn take(&self, count: usize, limit: Duration) -> Result<Vec<Taken>> {
        let mut taken: Vec<Taken> = Vec::new();
        let mut more = || -> Result<bool> {
            let selector = Selector { max_samples: count.saturating_sub(taken.len()), ..Selector::ANY };
            taken.extend(F::take(&self.reader, &selector)?);
            Ok(taken.len() >= count)
        };
        // An error ends the wait as well.
        let stopped = self.news.wait(limit, || more().map(|is_enough| is_enough.then_some(())).transpose());
        stopped.transpose()?;
        Ok(taken)
    }

    fn status(&self) -> Status {
        let matched = self.reader.subscription_matched_status();
        let incompatible = self.reader.requested_incompatible_qos_status();
        let liveliness = self.reader.liveliness_changed_status();
        Status {
            matched: matched.current_count,
            matched_total: matched.total_count,
            incompatible_qos: incompatible.total_count,
            incompatible_policy: incompatible.last_policy.map_or(0, |policy| policy.number()),
            alive: liveliness.alive_count,
            not_alive: liveliness.not_alive_count,
            deadline_missed: self.reader.requested_deadline_missed_status().total_count,
            sample_lost: self.reader.sample_lost_status().total_count,
            ..Status::default()
        }
    }

    fn news(&self) -> &News {
        &self.news
    }
}

impl<C: Content> Form<C> for Typed {
    type Type = C;

    fn topic(participant: &DomainParticipant, name: &str) -> Result<Topic<C>> {
        Ok(participant.topic::<C>(name)?)
    }

    fn write(writer: &DataWriter<C>, sample: &C) -> Result<()> {
        writer.write(sample)?;
        Ok(())
    }

    fn dispose(writer: &DataWriter<C>, sample: &C) -> Result<()> {
        writer.dispose(sample)?;
        Ok(())
    }

    fn unregister(writer: &DataWriter<C>, sample: &C) -> Result<()> {
        writer.unregister_instance(sample)?;
        Ok(())
    }

    fn take(reader: &DataReader<C>, selector: &Selector) -> Result<Vec<Taken>> {
        let samples = reader.take_selected(selector)?;
        Ok(samples.iter().map(|sample| describe(sample.info(), sample.value())).collect())
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

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
