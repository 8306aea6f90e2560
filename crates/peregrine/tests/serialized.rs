//! Endpoints whose samples stay serialized: with each other, and with typed endpoints of the same topic, on every path.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use common::{Named, PATIENCE, Reading, config, participant};
use peregrine::error::{BadParameter, Precondition};
use peregrine::qos::RepresentationId;
use peregrine::xtypes::{
    Encapsulation, Endianness, PayloadKind, Representation, decode, encode, encode_key, encoded_len,
};
use peregrine::{
    DataReader, DataWriter, DdsType, DomainConfig, DomainParticipant, Error, InstanceHandle, InstanceState, Selector,
    Serialized, SerializedType, Topic, WaitSet, WaitStrategy,
};

/// Two participants for each path of samples: messages, shared memory, within the process.
fn paths(domain: u32) -> impl Iterator<Item = (&'static str, DomainParticipant, DomainParticipant)> {
    let apart = |mut config: DomainConfig| {
        config.threads.name_prefix = "b".to_owned();
        config
    };
    let messages = config().with_shared_memory(false);
    let within = config().with_same_process(true);
    let mut paths = vec![("messages", messages.clone(), apart(messages)), ("same process", within.clone(), within)];
    if cfg!(target_os = "linux") {
        paths.push(("shared memory", config(), apart(config())));
    }
    // One pair at a time, because a writer would match readers of the previous pair that are being deleted.
    let with = move |config: DomainConfig| DomainParticipant::builder(domain).config(config).build().unwrap();
    paths.into_iter().map(move |(path, a, b)| (path, with(a), with(b)))
}

/// Waits for the match and for the intended path.
fn await_match<A: peregrine::TopicType, B: peregrine::TopicType>(
    path: &str,
    writer: &DataWriter<A>,
    reader: &DataReader<B>,
) {
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    if path == "shared memory" {
        common::eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    }
}

fn payload_of<T: DdsType>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; encoded_len(value, Representation::Xcdr1)];
    encode(value, Representation::Xcdr1, Endianness::NATIVE, &mut bytes).unwrap();
    bytes
}

fn key_of<T: DdsType>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let len = encode_key(value, Representation::Xcdr1, Endianness::NATIVE, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// A run-time description of [`Reading`]: the key is the first member.
fn reading_by_hand() -> SerializedType {
    SerializedType::with_key(Reading::TYPE_NAME, |payload, _| {
        let header = Encapsulation::parse(payload).ok()?;
        let id = payload.get(4..8)?.try_into().ok()?;
        let id = if header.endianness == Endianness::Big { u32::from_be_bytes(id) } else { u32::from_le_bytes(id) };
        Some(SerializedType::instance(&id.to_be_bytes(), Some(4)))
    })
}

fn serialized(participant: &DomainParticipant, topic: &str) -> Topic<Serialized> {
    participant.serialized_topic(topic, reading_by_hand()).unwrap()
}

/// The next sample: its bytes, whether it has data, its instance, and the instance state.
fn take_one(reader: &DataReader<Serialized>) -> (Vec<u8>, bool, InstanceHandle, InstanceState) {
    reader.wait_for_data(PATIENCE).unwrap_or_else(|error| panic!("no sample: {error}"));
    let loan = reader.take_loaned(&Selector { max_samples: 1, ..Selector::ANY }).unwrap();
    let (bytes, info) = (loan[0].bytes().to_vec(), loan[0].info());
    (bytes, info.valid_data, info.instance, info.instance_state)
}

#[test]
fn serialized_reader_gets_bytes_and_instances_of_typed_samples() {
    for (path, a, b) in paths(28) {
        let writer = a.topic::<Reading>("readings").unwrap().writer_builder().reliable().keep_all().build().unwrap();
        let topic = serialized(&b, "readings");
        let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
        await_match(path, &writer, &reader);
        for value in 0..20 {
            writer.write(&Reading::new(value % 3, value)).unwrap();
        }
        writer.write_shared(Arc::new(Reading::new(3, 20))).unwrap();
        writer.dispose(&Reading::new(1, 0)).unwrap();
        for value in 0..21 {
            let expected = Reading::new(if value == 20 { 3 } else { value % 3 }, value);
            let (bytes, is_value, instance, _) = take_one(&reader);
            assert!(is_value, "{path}: {value}");
            assert_eq!(decode::<Reading>(&bytes).unwrap(), expected, "{path}");
            let handle = SerializedType::instance(&expected.id.to_be_bytes(), Some(4));
            assert_eq!(instance, handle, "{path}");
        }
        let (bytes, is_value, instance, state) = take_one(&reader);
        assert_eq!((is_value, state), (false, InstanceState::NotAliveDisposed), "{path}");
        assert_eq!(instance, SerializedType::instance(&1_u32.to_be_bytes(), Some(4)), "{path}");
        assert!(bytes.is_empty() || bytes[4..8] == 1_u32.to_ne_bytes(), "{path}: {bytes:?}");
        assert_eq!(reader.counters().undecodable, 0, "{path}");
    }
}

#[test]
fn typed_reader_gets_values_and_instances_of_serialized_samples() {
    for (path, a, b) in paths(29) {
        let topic = serialized(&a, "readings");
        assert!(topic.has_key() && topic.type_name() == Reading::TYPE_NAME);
        let writer = topic.writer_builder().reliable().keep_all().autodispose(false).build().unwrap();
        let reader = b.topic::<Reading>("readings").unwrap().reader_builder().reliable().keep_all().build().unwrap();
        await_match(path, &writer, &reader);
        writer.write(&payload_of(&Reading::new(1, 10))).unwrap();
        writer.write(&payload_of(&Reading::new(2, 20))).unwrap();
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(1, 10)), "{path}");
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Reading::new(2, 20)), "{path}");
        writer.dispose(&key_of(&Reading::new(1, 0))).unwrap();
        writer.unregister_instance(&key_of(&Reading::new(2, 0))).unwrap();
        for (id, state) in [(1, InstanceState::NotAliveDisposed), (2, InstanceState::NotAliveNoWriters)] {
            let sample = reader.wait_and_take(PATIENCE).unwrap();
            assert_eq!(sample.info().instance_state, state, "{path}");
            let instance = reader.lookup_instance(&Reading::new(id, 0));
            assert!(instance.is_none_or(|instance| instance == sample.info().instance), "{path}");
        }
        let again = writer.unregister_instance(&key_of(&Reading::new(2, 0)));
        assert!(matches!(again, Err(Error::PreconditionNotMet(Precondition::NotRegistered(_)))), "{again:?}");
    }
}

#[test]
fn bytes_pass_unchanged_between_serialized_endpoints_of_a_type_without_key() {
    for (path, a, b) in paths(30) {
        let topic = |participant: &DomainParticipant| {
            participant.serialized_topic("bytes", SerializedType::new("any::Type")).unwrap()
        };
        let writer = topic(&a).writer_builder().reliable().keep_all().build().unwrap();
        let reader = topic(&b).reader_builder().reliable().keep_all().build().unwrap();
        await_match(path, &writer, &reader);
        // One length of each class: in a message, by reference, in fragments.
        for len in [4, 8, 1000, 20_000, 300_000] {
            let mut payload: Vec<u8> = (0..len).map(|at| at as u8).collect();
            payload[..4].copy_from_slice(&[0, 1, 0, 0]);
            writer.write(&payload).unwrap();
            let (bytes, is_value, instance, _) = take_one(&reader);
            assert!(is_value && instance == InstanceHandle::NIL, "{path}");
            assert_eq!(bytes, payload, "{path}");
        }
        let dispose = writer.dispose(&[0, 1, 0, 0]);
        assert!(matches!(dispose, Err(Error::PreconditionNotMet(Precondition::NoKeys { .. }))), "{dispose:?}");
    }
}

#[test]
fn keep_last_keeps_the_last_sample_of_each_instance() {
    for (path, a, b) in paths(31) {
        let writer = serialized(&a, "readings").writer_builder().reliable().keep_all().build().unwrap();
        let topic = serialized(&b, "readings");
        let reader = topic.reader_builder().reliable().keep_last(1).build().unwrap();
        await_match(path, &writer, &reader);
        for value in 0..30 {
            writer.write(&payload_of(&Reading::new(value % 3, value))).unwrap();
        }
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
        let mut values = Vec::new();
        // Acknowledged samples may still wait for a thread that runs the key function.
        common::eventually("the last samples", || {
            reader
                .read_loaned(&Selector::ANY)
                .unwrap()
                .iter()
                .any(|sample| decode::<Reading>(sample.bytes()).unwrap().value == 29)
        });
        reader
            .take_each(&Selector::ANY, |sample| values.push(decode::<Reading>(sample.bytes()).unwrap().value))
            .unwrap();
        values.sort_unstable();
        assert_eq!(values, [27, 28, 29], "{path}");
    }
}

#[test]
fn key_function_can_use_its_reader_and_writer() {
    let (a, b) = (participant(33), participant(33));
    let reader: Arc<Mutex<Option<DataReader<Serialized>>>> = Arc::default();
    let writer: Arc<Mutex<Option<DataWriter<Serialized>>>> = Arc::default();
    let calls = Arc::new(AtomicU32::new(0));
    let reentrant = {
        let (reader, writer, calls) = (Arc::clone(&reader), Arc::clone(&writer), Arc::clone(&calls));
        SerializedType::with_key(Reading::TYPE_NAME, move |payload, _| {
            calls.fetch_add(1, Ordering::Relaxed);
            // Each of these calls takes the lock of the endpoint or of its participant.
            let (reader, writer) = (reader.lock().unwrap().clone(), writer.lock().unwrap().clone());
            reader.iter().for_each(|reader| drop((reader.counters(), reader.read_loaned(&Selector::ANY).unwrap())));
            reader.iter().for_each(|reader| drop(reader.subscriber().participant().discovered_participants()));
            writer.iter().for_each(|writer| drop((writer.counters(), writer.matched_subscriptions())));
            Some(SerializedType::instance(payload.get(4..8)?, Some(4)))
        })
    };
    let topic = |participant: &DomainParticipant| participant.serialized_topic("readings", reentrant.clone()).unwrap();
    let its_writer = topic(&a).writer_builder().reliable().keep_all().build().unwrap();
    let its_reader = topic(&b).reader_builder().reliable().keep_all().build().unwrap();
    await_match("messages", &its_writer, &its_reader);
    *reader.lock().unwrap() = Some(its_reader.clone());
    *writer.lock().unwrap() = Some(its_writer.clone());
    for value in 0..10 {
        its_writer.write(&payload_of(&Reading::new(1, value))).unwrap();
        assert_eq!(decode::<Reading>(&take_one(&its_reader).0).unwrap().value, value);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 20, "once for each sample at each end");
    // The closure and the endpoints refer to each other.
    reader.lock().unwrap().take();
    writer.lock().unwrap().take();
}

#[test]
fn sample_without_found_instance_uses_key_hash_or_is_counted() {
    let (a, b) = (participant(34), participant(34));
    let is_panicking = Arc::new(AtomicBool::new(false));
    let clueless = {
        let is_panicking = Arc::clone(&is_panicking);
        SerializedType::with_key(Reading::TYPE_NAME, move |_, _| {
            assert!(!is_panicking.load(Ordering::Relaxed), "on purpose");
            None
        })
    };
    let writer = a.topic::<Reading>("readings").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let topic = b.serialized_topic("readings", clueless).unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    await_match("messages", &writer, &reader);
    for value in 0..4 {
        is_panicking.store(value % 2 == 1, Ordering::Relaxed);
        writer.write(&Reading::new(5, value)).unwrap();
        common::eventually("the sample is counted", || reader.counters().undecodable == u64::from(value) + 1);
    }
    // A writer of Peregrine sends the key hash with the end of an instance.
    writer.dispose(&Reading::new(5, 0)).unwrap();
    let (_, is_value, instance, state) = take_one(&reader);
    assert_eq!((is_value, state), (false, InstanceState::NotAliveDisposed));
    assert_eq!(instance, SerializedType::instance(&5_u32.to_be_bytes(), Some(4)));
    is_panicking.store(false, Ordering::Relaxed);
    let refused = topic.writer().unwrap().write(&payload_of(&Reading::new(1, 1)));
    assert!(matches!(refused, Err(Error::BadParameter(BadParameter::NoInstance { .. }))), "{refused:?}");
}

#[test]
fn payload_in_another_representation_is_refused() {
    let participant = participant(35);
    let topic = serialized(&participant, "readings");
    let writer = topic.writer_builder().representation(RepresentationId::XCDR2).build().unwrap();
    let given = writer.write(&payload_of(&Reading::new(1, 1)));
    let (xcdr1, xcdr2) = (Some(Representation::Xcdr1), Representation::Xcdr2);
    let Err(Error::BadParameter(refused)) = given else { panic!("{given:?}") };
    assert_eq!(refused, BadParameter::Representation { given: xcdr1, offered: xcdr2 });
    let short = writer.write(&[0, 7]);
    let Err(Error::BadParameter(refused)) = short else { panic!("{short:?}") };
    assert_eq!(refused, BadParameter::Representation { given: None, offered: xcdr2 });
    let nameless = participant.serialized_topic("nameless", SerializedType::new(""));
    assert!(matches!(nameless, Err(Error::BadParameter(BadParameter::EmptyTypeName))), "{nameless:?}");
}

#[test]
fn long_key_of_rust_type_needs_no_key_function() {
    for (path, a, b) in paths(36) {
        let topic = |participant: &DomainParticipant| {
            participant.serialized_topic("named", SerializedType::of::<Named>()).unwrap()
        };
        let writer = topic(&a).writer_builder().reliable().keep_all().build().unwrap();
        let reader = topic(&b).reader_builder().reliable().keep_all().build().unwrap();
        let typed = b.topic::<Named>("named").unwrap().reader_builder().reliable().keep_all().build().unwrap();
        writer.wait_for_readers(2, PATIENCE).unwrap();
        let named = Named { name: "a name of more than sixteen bytes".to_owned(), value: 7 };
        writer.write(&payload_of(&named)).unwrap();
        let (bytes, _, instance, _) = take_one(&reader);
        assert_eq!(decode::<Named>(&bytes).unwrap(), named, "{path}");
        assert_eq!(typed.wait_and_take(PATIENCE).unwrap().info().instance, instance, "{path}");
    }
}

#[test]
fn serialized_reader_supports_waits_listeners_and_polling() {
    let (a, b) = (participant(38), participant(38));
    let writer = a.topic::<Reading>("readings").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let (told, is_told) = std::sync::mpsc::sync_channel(8);
    let topic = serialized(&b, "readings");
    let listening = topic.reader_builder().reliable().keep_all();
    let listening =
        listening.on_data(move |reader| _ = told.try_send(reader.take_loaned(&Selector::ANY).unwrap().len()));
    let listening = listening.build().unwrap();
    let waiting = topic.reader_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(2, PATIENCE).unwrap();
    let (set, condition) = (WaitSet::new(), waiting.read_condition(Selector::NOT_READ));
    set.attach(&condition);
    writer.write(&Reading::new(1, 1)).unwrap();
    assert!(set.wait(PATIENCE).unwrap()[0] == condition);
    assert_eq!(waiting.take_loaned(condition.selector()).unwrap().len(), 1);
    assert_eq!(is_told.recv_timeout(PATIENCE), Ok(1));
    drop(listening);

    let polling = config().with_wait(WaitStrategy::Poll);
    let polling = DomainParticipant::builder(38).config(polling).build().unwrap();
    let reader = serialized(&polling, "readings").reader_builder().reliable().keep_all().build().unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    common::eventually("the writer matches the polling reader too", || {
        polling.poll(std::time::Duration::ZERO);
        writer.matched_subscriptions().contains(&reader.guid())
    });
    writer.write(&Reading::new(1, 2)).unwrap();
    assert_eq!(decode::<Reading>(&take_one(&reader).0).unwrap().value, 2);
}

#[test]
fn key_function_of_dispose_gets_payload_kind_key() {
    let (a, b) = (participant(39), participant(39));
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let noting = {
        let kinds = Arc::clone(&kinds);
        SerializedType::with_key(Reading::TYPE_NAME, move |payload, kind| {
            kinds.lock().unwrap().push(kind);
            Some(SerializedType::instance(payload.get(4..8)?, Some(4)))
        })
    };
    let writer = serialized(&a, "readings").writer_builder().reliable().keep_all().build().unwrap();
    let topic = b.serialized_topic("readings", noting).unwrap();
    let reader = topic.reader_builder().reliable().keep_all().build().unwrap();
    await_match("messages", &writer, &reader);
    writer.write(&payload_of(&Reading::new(1, 1))).unwrap();
    take_one(&reader);
    writer.dispose(&key_of(&Reading::new(1, 0))).unwrap();
    take_one(&reader);
    assert_eq!(*kinds.lock().unwrap(), [PayloadKind::Data, PayloadKind::Key]);
}
