//! Samples that stay serialized at their endpoints: this program encodes and decodes the samples, and finds their keys.

use anyhow::Result;
use peregrine::xtypes::{
    Encapsulation, Endianness, PayloadKind, Representation, decode, encode, encode_key, encoded_key_len, encoded_len,
};
use peregrine::{
    DataReader, DataWriter, DomainParticipant, InstanceHandle, Selector, Serialized, SerializedType, Topic,
};

use crate::answer::Taken;
use crate::endpoint::{Form, describe};
use crate::types::Content;

impl<C: Content> Form<C> for Serialized {
    type Type = Self;

    fn topic(participant: &DomainParticipant, name: &str) -> Result<Topic<Self>> {
        let data_type = if C::HAS_KEY {
            SerializedType::with_key(C::TYPE_NAME, find_key)
        } else {
            SerializedType::new(C::TYPE_NAME)
        };
        Ok(participant.serialized_topic(name, data_type)?)
    }

    fn write(writer: &DataWriter<Self>, sample: &C) -> Result<()> {
        let mut bytes = vec![0; encoded_len(sample, Representation::Xcdr1)];
        encode(sample, Representation::Xcdr1, Endianness::NATIVE, &mut bytes)?;
        writer.write(&bytes)?;
        Ok(())
    }

    fn dispose(writer: &DataWriter<Self>, sample: &C) -> Result<()> {
        writer.dispose(&key_payload(sample)?)?;
        Ok(())
    }

    fn unregister(writer: &DataWriter<Self>, sample: &C) -> Result<()> {
        writer.unregister_instance(&key_payload(sample)?)?;
        Ok(())
    }

    fn take(reader: &DataReader<Self>, selector: &Selector) -> Result<Vec<Taken>> {
        let mut taken = Vec::new();
        for sample in &reader.take_loaned(selector)? {
            let value = sample.info().valid_data.then(|| decode::<C>(sample.bytes())).transpose()?;
            taken.push(describe(sample.info(), value.as_ref()));
        }
        Ok(taken)
    }
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

fn key_payload<C: Content>(sample: &C) -> Result<Vec<u8>> {
    let mut bytes = vec![0; encoded_key_len(sample, Representation::Xcdr1)];
    encode_key(sample, Representation::Xcdr1, Endianness::NATIVE, &mut bytes)?;
    Ok(bytes)
}
