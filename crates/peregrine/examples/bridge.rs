//! Forwards one topic from one domain to another without knowing the type: `cargo run -p peregrine --example bridge --
//! FROM TO TOPIC`
//!
//! The first member identifies the instances of a topic with a key; it has to be a key of four bytes.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::time::Duration;

use peregrine::qos::{ReliabilityKind, RepresentationId};
use peregrine::xtypes::{Encapsulation, Endianness, PayloadKind, Representation};
use peregrine::{
    DataWriter, DiscoveryEvent, DomainParticipant, Error, InstanceHandle, InstanceState, LoanedSample, PublicationData,
    Selector, Serialized, SerializedType, Topic,
};

const FOREVER: Duration = Duration::MAX;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [from, to, name] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else {
        return Err("usage: bridge FROM TO TOPIC, such as: bridge 0 1 Square".into());
    };
    let (from, to) = (DomainParticipant::new(from.parse()?)?, DomainParticipant::new(to.parse()?)?);
    let publication = await_writer(&from, name);
    let has_key = publication.guid.entity.has_key();
    let data_type = if has_key {
        SerializedType::with_key(publication.type_name, first_member)
    } else {
        SerializedType::new(publication.type_name)
    };
    println!("{name} is of type {}{}", data_type.name(), if has_key { ", with a key" } else { "" });

    let builder = from.serialized_topic(name, data_type.clone())?.reader_builder().keep_all();
    let reader = match publication.qos.reliability.kind {
        ReliabilityKind::Reliable => builder.reliable().build()?,
        ReliabilityKind::BestEffort => builder.best_effort().build()?,
    };
    let mut bridge = Bridge { topic: to.serialized_topic(name, data_type)?, writers: HashMap::new() };
    loop {
        reader.wait_for_data(FOREVER)?;
        for sample in &reader.take_loaned(&Selector::ANY)? {
            if let Err(error) = bridge.forward(sample) {
                eprintln!("not forwarded: {error}");
            }
        }
    }
}

/// Waits for a writer of the topic.
fn await_writer(participant: &DomainParticipant, topic: &str) -> PublicationData {
    let mut events = participant.discovery_events();
    loop {
        match events.wait_next(FOREVER) {
            Some(DiscoveryEvent::PublicationFound(data)) if data.topic_name == topic => return data,
            _ => {}
        }
    }
}

/// Finds the instance of a sample, or of a serialized key. The key of a type with an extensibility of APPENDABLE or
/// MUTABLE has headers in XCDR2, which this function does not know.
fn first_member(payload: &[u8], _: PayloadKind) -> Option<InstanceHandle> {
    let header = Encapsulation::parse(payload).ok()?;
    let mut key: [u8; 4] = payload.get(Encapsulation::LEN..)?.first_chunk().copied()?;
    if header.endianness == Endianness::Little {
        key.reverse();
    }
    Some(SerializedType::instance(&key, Some(key.len())))
}

struct Bridge {
    topic: Topic<Serialized>,
    /// A writer offers one representation.
    writers: HashMap<Representation, DataWriter<Serialized>>,
}

impl Bridge {
    fn forward(&mut self, sample: &LoanedSample<Serialized>) -> Result<(), Error> {
        let writer = self.writer(sample.encapsulation()?.representation)?;
        let at = sample.info().source_timestamp;
        match sample.info().instance_state {
            _ if sample.info().valid_data => writer.write_at(sample.bytes(), at)?,
            // The bytes of a sample without a value are the serialized key.
            InstanceState::NotAliveDisposed => writer.dispose_at(sample.bytes(), at)?,
            _ => writer.unregister_instance_at(sample.bytes(), at)?,
        };
        Ok(())
    }

    fn writer(&mut self, representation: Representation) -> Result<&DataWriter<Serialized>, Error> {
        let id = match representation {
            Representation::Xcdr1 => RepresentationId::XCDR1,
            Representation::Xcdr2 => RepresentationId::XCDR2,
        };
        if !self.writers.contains_key(&representation) {
            let builder = self.topic.writer_builder().reliable().keep_all().representation(id);
            self.writers.insert(representation, builder.autodispose(false).build()?);
        }
        Ok(&self.writers[&representation])
    }
}
