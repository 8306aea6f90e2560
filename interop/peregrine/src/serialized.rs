//! Writers and readers whose samples stay serialized: this program encodes and decodes the samples, and finds their
//! keys.

use std::time::Duration;

use anyhow::{Context, Result};
use peregrine::status::StatusMask;
use peregrine::xtypes::{
    Encapsulation, Endianness, PayloadKind, Representation, decode, encode, encode_key, encoded_key_len, encoded_len,
};
use peregrine::{
    DataReader, DataWriter, DomainParticipant, InstanceHandle, Selector, Serialized, SerializedType, Topic,
};

use crate::answer::{Status, Taken};
use crate::endpoint::{Load, Reader, Writer, describe, reader_status, unix_ns, writer_status};
use crate::news::News;
use crate::qos::EndpointQos;
use crate::types::{Content, payload};

struct WriterOf<T: Content> {
    writer: DataWriter<Serialized>,
    news: News,
    marker: std::marker::PhantomData<T>,
}

struct ReaderOf<T: Content> {
    reader: DataReader<Serialized>,
    news: News,
    marker: std::marker::PhantomData<T>,
}

/// The key is the first member in all types.
fn find_key(payload: &[u8], _: PayloadKind) -> Option<InstanceHandle> {
    let header = Encapsulation::parse(payload).ok()?;
    let mut key: [u8; 4] = payload.get(Encapsulation::LEN..)?.first_chunk().copied()?;
    if header.endianness == Endianness::Little {
        key.reverse();
    }
    Some(SerializedType::instance(&key, Some(key.len())))
}

fn topic_of<T: Content>(participant: &DomainParticipant, name: &str) -> Result<Topic<Serialized>> {
    let data_type =
        if T::HAS_KEY { SerializedType::with_key(T::TYPE_NAME, find_key) } else { SerializedType::new(T::TYPE_NAME) };
    Ok(participant.serialized_topic(name, data_type)?)
}

pub(crate) fn create_writer<T: Content>(
    participant: &DomainParticipant,
    topic: &str,
    qos: EndpointQos,
) -> Result<Box<dyn Writer>> {
    let news = News::default();
    let publisher = participant.publisher(qos.publisher())?;
    let topic = topic_of::<T>(participant, topic)?;
    let writer = publisher
        .writer(&topic)
        .data_tags(qos.tags())
        .qos(qos.writer())
        .listener(news.clone(), StatusMask::ALL)
        .build()?;
    Ok(Box::new(WriterOf::<T> { writer, news, marker: std::marker::PhantomData }))
}

pub(crate) fn create_reader<T: Content>(
    participant: &DomainParticipant,
    topic: &str,
    qos: EndpointQos,
) -> Result<Box<dyn Reader>> {
    let news = News::default();
    let subscriber = participant.subscriber(qos.subscriber())?;
    let topic = topic_of::<T>(participant, topic)?;
    let reader = subscriber
        .reader(&topic)
        .data_tags(qos.tags())
        .qos(qos.reader())
        .listener(news.clone(), StatusMask::ALL)
        .build()?;
    Ok(Box::new(ReaderOf::<T> { reader, news, marker: std::marker::PhantomData }))
}

fn key_payload<T: Content>(key: u32) -> Result<Vec<u8>> {
    let holder = T::new(key, 0, 0, Vec::new());
    let mut bytes = vec![0; encoded_key_len(&holder, Representation::Xcdr1)];
    encode_key(&holder, Representation::Xcdr1, Endianness::NATIVE, &mut bytes)?;
    Ok(bytes)
}

impl<T: Content> Writer for WriterOf<T> {
    fn write(&self, load: &Load) -> Result<()> {
        for seq in (load.first_seq..).take(load.count as usize) {
            let sample = T::new(load.key, seq, unix_ns(), payload(seq, load.size_bytes));
            let mut bytes = vec![0; encoded_len(&sample, Representation::Xcdr1)];
            encode(&sample, Representation::Xcdr1, Endianness::NATIVE, &mut bytes)?;
            self.writer.write(&bytes).with_context(|| format!("seq {seq}"))?;
            if !load.period.is_zero() {
                std::thread::sleep(load.period);
            }
        }
        Ok(())
    }

    fn dispose(&self, key: u32) -> Result<()> {
        self.writer.dispose(&key_payload::<T>(key)?)?;
        Ok(())
    }

    fn unregister(&self, key: u32) -> Result<()> {
        self.writer.unregister_instance(&key_payload::<T>(key)?)?;
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
            for sample in &self.reader.take_loaned(&selector)? {
                let value = sample.info().valid_data.then(|| decode::<T>(sample.bytes())).transpose()?;
                taken.push(describe(sample.info(), value.as_ref()));
            }
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
