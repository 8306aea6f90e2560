//! Serialized samples of endpoints whose type the program does not name: what recorders and routers do.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Named, PATIENCE, Reading, config};
use peregrine::error::{BadParameter, Precondition};
use peregrine::qos::RepresentationId;
use peregrine::xtypes::{Endianness, Representation, encode, encoded_len};
use peregrine::{
    AnyDataReader, AnyDataWriter, DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, Error,
    InstanceState, SampleInfo, Selector, Timestamp,
};

#[derive(Clone, Debug, PartialEq, DdsType)]
struct Plain {
    number: u32,
    text: String,
}

fn participant(domain: u32, config: DomainConfig) -> DomainParticipant {
    DomainParticipant::builder(domain).domain_tag(std::process::id().to_string()).config(config).build().unwrap()
}

/// A reliable writer and reader of one participant that keep all.
fn pair<T: DdsType>(participant: &DomainParticipant, name: &str) -> (DataWriter<T>, DataReader<T>) {
    let topic = participant.topic::<T>(name).unwrap();
    let writer = topic.writer_builder().reliable().keep_all().autodispose(false).build().unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    (writer, reader)
}

/// Moves one sample on, whatever it is.
fn forward(from: &AnyDataReader, to: &AnyDataWriter) {
    from.wait_for_data(PATIENCE).unwrap();
    let one = Selector { max_samples: 1, ..Selector::ANY };
    let forwarded = from.take_each(&one, |sample| {
        let (info, bytes) = (sample.info(), sample.bytes());
        let at = info.source_timestamp;
        let number = match (info.valid_data, info.instance_state) {
            (true, _) => to.write_serialized_at(bytes, at),
            (false, InstanceState::NotAliveDisposed) => to.dispose_serialized_at(bytes, at),
            (false, _) => to.unregister_serialized_at(bytes, at),
        };
        number.unwrap();
    });
    assert_eq!(forwarded.unwrap(), 1);
}

fn bytes_of<T: DdsType>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; encoded_len(value, Representation::Xcdr1)];
    encode(value, Representation::Xcdr1, Endianness::NATIVE, &mut bytes).unwrap();
    bytes
}

/// The next sample of the reader, without its type and with it.
fn next<T: DdsType>(reader: &DataReader<T>) -> (Vec<u8>, Option<T>, SampleInfo) {
    let any = AnyDataReader::from(reader);
    any.wait_for_data(PATIENCE).unwrap();
    let one = Selector { max_samples: 1, ..Selector::ANY };
    let bytes = any.read_loaned(&one).unwrap()[0].bytes().to_vec();
    let sample = reader.take_selected(&one).unwrap().pop().unwrap();
    let info = *sample.info();
    (bytes, sample.into_value(), info)
}

/// Within the process and over sockets.
fn configs() -> [(u32, DomainConfig); 2] {
    [(36, config()), (37, config().with_same_process(true))]
}

#[test]
fn samples_of_a_type_with_key_and_their_ends_pass_a_router() {
    for (domain, config) in configs() {
        let participant = participant(domain, config);
        let (writer, between) = pair::<Named>(&participant, "in");
        let (forwarder, reader) = pair::<Named>(&participant, "out");
        let (from, to) = (AnyDataReader::from(&between), AnyDataWriter::from(&forwarder));
        assert!(from.has_key() && to.has_key());
        let [one, two] = ["one", "two"].map(|name| Named { name: name.to_owned(), value: 7 });
        let at = Timestamp::from_unix_nanos(1_700_000_000_000_000_000);
        writer.write_at(&one, at).unwrap();
        writer.write_shared(Arc::new(two.clone())).unwrap();
        writer.dispose(&one).unwrap();
        writer.unregister_instance(&two).unwrap();
        for _ in 0..4 {
            forward(&from, &to);
        }
        let (bytes, value, of_one) = next(&reader);
        assert_eq!((bytes, value, of_one.source_timestamp), (bytes_of(&one), Some(one), at));
        let (bytes, value, of_two) = next(&reader);
        assert_eq!((bytes, value), (bytes_of(&two), Some(two)));
        for (state, of_instance) in
            [(InstanceState::NotAliveDisposed, of_one), (InstanceState::NotAliveNoWriters, of_two)]
        {
            let (key, value, info) = next(&reader);
            assert_eq!((value, info.instance_state, info.instance), (None, state, of_instance.instance));
            assert!(!key.is_empty(), "the serialized key");
        }
    }
}

#[test]
fn samples_of_a_type_without_key_pass_a_router() {
    let participant = participant(38, config());
    let (writer, between) = pair::<Plain>(&participant, "in");
    let (forwarder, reader) = pair::<Plain>(&participant, "out");
    let (from, to) = (AnyDataReader::from(&between), AnyDataWriter::from(&forwarder));
    assert!(!from.has_key() && !to.has_key());
    // In a message, by reference, in fragments.
    for len in [1, 20_000, 300_000] {
        let value = Plain { number: 9, text: "x".repeat(len) };
        writer.write(&value).unwrap();
        forward(&from, &to);
        let (bytes, taken, _) = next(&reader);
        assert_eq!((bytes, taken), (bytes_of(&value), Some(value)));
    }
    let key = bytes_of(&Plain { number: 1, text: String::new() });
    for refused in [to.dispose_serialized(&key), to.unregister_serialized(&key)] {
        assert!(matches!(refused, Err(Error::PreconditionNotMet(Precondition::NoKeys { .. }))), "{refused:?}");
    }
}

/// The deletion of a typed writer disposes instances by their keys: also of those that came serialized.
#[test]
fn deleted_writer_disposes_instances_that_were_written_serialized() {
    let participant = participant(39, config());
    let topic = participant.topic::<Reading>("readings").unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    let any = AnyDataWriter::from(&writer);
    any.write_serialized(&bytes_of(&Reading::new(5, 50))).unwrap();
    let instance = writer.lookup_instance(&Reading::new(5, 0)).expect("registered by the write");
    assert_eq!(writer.get_key_value(instance).unwrap().id, 5);
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(5, 50)));
    any.close(PATIENCE).unwrap();
    let end = reader.wait_and_take(PATIENCE).unwrap();
    assert_eq!((end.info().instance, end.info().instance_state), (instance, InstanceState::NotAliveDisposed));
}

#[test]
fn payloads_that_no_reader_understands_are_refused() {
    let participant = participant(40, config());
    let topic = participant.topic::<Reading>("readings").unwrap();
    let writer = topic.writer_builder().representation(RepresentationId::XCDR2).build().unwrap();
    let any = AnyDataWriter::from(&writer);
    let bytes = bytes_of(&Reading::new(1, 1));
    let refused = any.write_serialized(&bytes);
    assert!(matches!(refused, Err(Error::BadParameter(BadParameter::Representation { .. }))), "{refused:?}");
    let writer = topic.writer_builder().representation(RepresentationId::XCDR1).build().unwrap();
    let any = AnyDataWriter::from(&writer);
    let refused = any.write_serialized(&bytes[..6]);
    assert!(matches!(refused, Err(Error::BadParameter(BadParameter::NoInstance { .. }))), "{refused:?}");
    any.write_serialized(&bytes).unwrap();
    any.close(PATIENCE).unwrap();
    assert!(matches!(any.write_serialized(&bytes), Err(Error::AlreadyDeleted)));
}

#[test]
fn calls_of_deleted_and_disabled_readers_fail() {
    let participant = participant(41, config());
    let mut qos = participant.default_subscriber_qos();
    qos.entity_factory.autoenable_created_entities = false;
    let topic = participant.topic::<Reading>("readings").unwrap();
    let reader = participant.subscriber(qos).unwrap().reader(&topic).build().unwrap();
    let any = AnyDataReader::from(&reader);
    assert!(matches!(any.take_loaned(&Selector::ANY), Err(Error::NotEnabled)));
    assert!(matches!(any.wait_for_data(Duration::ZERO), Err(Error::NotEnabled)));
    reader.enable().unwrap();
    assert!(any.take_loaned(&Selector::ANY).unwrap().is_empty());
    assert_eq!(any.take_each(&Selector::ANY, |_| unreachable!("there is none")).unwrap(), 0);
    assert!(matches!(any.wait_for_data(Duration::ZERO), Err(Error::Timeout(_))));
    any.close().unwrap();
    assert!(matches!(any.read_loaned(&Selector::ANY), Err(Error::AlreadyDeleted)));
    assert!(matches!(any.wait_for_data(Duration::ZERO), Err(Error::AlreadyDeleted)));
}
