//! Calls of several threads on one entity: the result equals that of the calls in some sequential order.
//!
//! The tests repeat a race many times. Every permitted result passes, so no test fails by chance.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use common::sets_on_drop::SetsOnDrop;
use common::{PATIENCE, Reading, config, eventually, participant};
use peregrine::error::BadParameter;
use peregrine::qos::{
    DataReaderQos, DataWriterQos, GroupData, ParticipantQos, PublisherQos, SubscriberQos, TopicData, TopicQos, UserData,
};
use peregrine::status::MatchedStatus;
use peregrine::xtypes::flat::Flat;
use peregrine::{
    AnyDataReader, AnyDataWriter, DataWriter, DdsType, DomainParticipant, Error, PublisherListener, SequenceNumber,
    StatusMask, SubscriberListener,
};

const ROUNDS: u32 = 5_000;

/// One thread begins up to this many loop iterations after the other.
const DELAYS: u32 = 256;

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final", flat)]
struct Frame {
    #[dds(key)]
    id: u32,
    value: u32,
}

/// A sample of another publisher is sent later to the same socket. When it arrives, any earlier sample has arrived as
/// well.
#[test]
fn last_of_concurrent_calls_decides_suspension() {
    let messages = config().with_shared_memory(false);
    let [a, b] = [(); 2].map(|()| DomainParticipant::builder(10).config(messages.clone()).build().unwrap());
    let publisher = a.publisher(PublisherQos::default()).unwrap();
    let [(topic, reader), (later_topic, later_reader)] = ["readings", "later readings"].map(|name| {
        let reader = b.topic::<Reading>(name).unwrap().reader_builder().best_effort().keep_all().build().unwrap();
        (a.topic::<Reading>(name).unwrap(), reader)
    });
    let writers = [(); 4].map(|()| publisher.writer(&topic).best_effort().build().unwrap());
    let later = later_topic.writer_builder().best_effort().build().unwrap();
    writers.iter().chain([&later]).for_each(|writer| writer.wait_for_readers(1, PATIENCE).unwrap());
    reader.wait_for_writers(writers.len(), PATIENCE).unwrap();
    later_reader.wait_for_writers(1, PATIENCE).unwrap();
    publisher.suspend_publications();
    race(
        ROUNDS,
        || publisher.suspend_publications(),
        || publisher.resume_publications().unwrap(),
        |(), ()| {
            writers.iter().for_each(|writer| assert!(writer.write(&Reading::new(1, 1)).is_ok()));
            later.write(&Reading::new(1, 1)).unwrap();
            later_reader.wait_and_take(PATIENCE).unwrap();
            assert_eq!(reader.take().unwrap().len(), 0, "the samples are gathered");
            publisher.resume_publications().unwrap();
            writers.iter().for_each(|_| assert!(reader.wait_and_take(PATIENCE).is_ok()));
            publisher.suspend_publications();
        },
    );
}

#[test]
fn write_of_instance_unregistered_during_fill_is_refused() {
    let participant = participant(11);
    let writer = participant.topic::<Reading>("readings").unwrap().writer().unwrap();
    let instance = writer.register_instance(&Reading::new(1, 0)).unwrap();
    let written = writer.write_serialized(instance, 12, |bytes| {
        bytes.fill(0);
        writer.unregister_instance(&Reading::new(1, 0)).unwrap();
    });
    assert!(matches!(written, Err(Error::BadParameter(BadParameter::UnknownInstance(_)))), "{written:?}");
}

#[test]
fn asynchronous_write_registers_instance_unregistered_meanwhile() {
    let participant = participant(12);
    let writer = participant.topic::<Reading>("readings").unwrap().writer().unwrap();
    race_with_unregistration(&writer, &Reading::new(1, 0), || {
        let sample = Reading::new(1, 1);
        match std::pin::pin!(writer.write_async(&sample)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(written) => written,
            Poll::Pending => panic!("there is room"),
        }
    });
}

#[test]
fn flat_write_registers_instance_unregistered_meanwhile() {
    let participant = participant(13);
    let writer = participant.topic::<Flat<Frame>>("frames").unwrap().writer().unwrap();
    let frame = Frame { id: 1, value: 0 };
    race_with_unregistration(&writer, &Flat::from_value(&frame).unwrap(), || {
        writer.write_flat(writer.loan_flat(16, |built| built.id(1)?.value(0)?.finish())?)
    });
}

/// The listener is notified of the match of the endpoint.
#[test]
fn listener_set_during_build_reaches_endpoint() {
    struct Matched(SyncSender<()>);
    impl PublisherListener for Matched {
        fn on_publication_matched(&self, _: &AnyDataWriter, _: MatchedStatus) {
            let _ = self.0.try_send(());
        }
    }
    impl SubscriberListener for Matched {
        fn on_subscription_matched(&self, _: &AnyDataReader, _: MatchedStatus) {
            let _ = self.0.try_send(());
        }
    }
    let participant = participant(14);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let publisher = participant.publisher(PublisherQos::default()).unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    let (_writer, _reader) = (topic.writer().unwrap(), topic.reader().unwrap());
    let (sender, matched) = sync_channel(64);
    let listener = Arc::new(Matched(sender));
    let rounds = 500;
    race(
        rounds,
        || publisher.set_listener(Some(Arc::clone(&listener) as _), StatusMask::PUBLICATION_MATCHED),
        || publisher.writer(&topic).build().unwrap(),
        |(), writer| {
            matched.recv_timeout(PATIENCE).expect("the writer knows the listener");
            publisher.set_listener(None, StatusMask::NONE);
            drop(writer);
            while matched.try_recv().is_ok() {}
        },
    );
    race(
        rounds,
        || subscriber.set_listener(Some(Arc::clone(&listener) as _), StatusMask::SUBSCRIPTION_MATCHED),
        || subscriber.reader(&topic).build().unwrap(),
        |(), reader| {
            matched.recv_timeout(PATIENCE).expect("the reader knows the listener");
            subscriber.set_listener(None, StatusMask::NONE);
            drop(reader);
            while matched.try_recv().is_ok() {}
        },
    );
}

/// The change of a later entity reaches the peer behind the concurrent ones.
#[test]
fn last_of_concurrent_changes_of_policies_holds_here_and_at_the_peer() {
    let (here, there) = (participant(15), participant(15));
    let topic = here.topic::<Reading>("changes").unwrap();
    let publisher = here.publisher(PublisherQos::default()).unwrap();
    let subscriber = here.subscriber(SubscriberQos::default()).unwrap();
    let (writer, reader) = (publisher.writer(&topic).build().unwrap(), subscriber.reader(&topic).build().unwrap());
    let later_topic = here.topic::<Reading>("later changes").unwrap();
    let (later_writer, later_reader) = (later_topic.writer().unwrap(), later_topic.reader().unwrap());
    let publication = |guid| there.discovered_publications().into_iter().find(|known| known.guid == guid);
    let subscription = |guid| there.discovered_subscriptions().into_iter().find(|known| known.guid == guid);
    let await_later = |value: &[u8]| {
        let user_data = UserData(value.to_vec());
        later_writer.set_qos(DataWriterQos { user_data: user_data.clone(), ..later_writer.qos() }).unwrap();
        later_reader.set_qos(DataReaderQos { user_data: user_data.clone(), ..later_reader.qos() }).unwrap();
        eventually("the later changes are known", || {
            publication(later_writer.guid()).is_some_and(|known| known.qos.user_data == user_data)
                && subscription(later_reader.guid()).is_some_and(|known| known.qos.user_data == user_data)
        });
    };
    let (of_writer, of_reader) = (|| publication(writer.guid()).unwrap(), || subscription(reader.guid()).unwrap());
    change_concurrently(
        |value| writer.set_qos(DataWriterQos { user_data: UserData(value), ..writer.qos() }),
        await_later,
        || [writer.qos().user_data.0, of_writer().qos.user_data.0],
    );
    change_concurrently(
        |value| reader.set_qos(DataReaderQos { user_data: UserData(value), ..reader.qos() }),
        await_later,
        || [reader.qos().user_data.0, of_reader().qos.user_data.0],
    );
    change_concurrently(
        |value| publisher.set_qos(PublisherQos { group_data: GroupData(value), ..publisher.qos() }),
        await_later,
        || [publisher.qos().group_data.0, of_writer().publisher.group_data.0],
    );
    change_concurrently(
        |value| subscriber.set_qos(SubscriberQos { group_data: GroupData(value), ..subscriber.qos() }),
        await_later,
        || [subscriber.qos().group_data.0, of_reader().subscriber.group_data.0],
    );
    change_concurrently(
        |value| topic.set_qos(TopicQos { topic_data: TopicData(value), ..topic.qos() }),
        await_later,
        || [topic.qos().topic_data.0, of_writer().topic_data.0],
    );
    // Announcements of participants are repeated, and no later one shows that all have come. The threads send outside
    // the lock: the announcement that was overtaken has no effect at the peer.
    let known = || there.discovered_participants().into_iter().find(|known| known.prefix == here.guid().prefix);
    change_concurrently(
        |value| here.set_qos(ParticipantQos { user_data: UserData(value), ..here.qos() }),
        |_| eventually("the participant is known", || known().unwrap().user_data == here.qos().user_data),
        || [here.qos().user_data.0, known().unwrap().user_data.0],
    );
}

/// Two threads change an entity at the same time. Both changes are in effect when `await_later`, with a value of its
/// own, returns; then the values of the entity and of its peer are the same, one of the two.
fn change_concurrently(
    change: impl Fn(Vec<u8>) -> Result<(), Error> + Sync,
    await_later: impl Fn(&[u8]),
    values: impl Fn() -> [Vec<u8>; 2],
) {
    let number = AtomicU32::new(0);
    let change_to_next = || {
        let value = number.fetch_add(1, Ordering::SeqCst).to_be_bytes().to_vec();
        change(value.clone()).unwrap();
        value
    };
    race(10, change_to_next, change_to_next, |one, other| {
        await_later(&one);
        let [here, there] = values();
        assert_eq!(here, there);
        assert!(here == one || here == other, "{here:?} is neither {one:?} nor {other:?}");
    });
}

/// One thread writes a sample of a registered instance while another thread unregisters the instance. The later of the
/// two changes decides whether the instance is registered afterwards.
fn race_with_unregistration<T: DdsType + Sync>(
    writer: &DataWriter<T>,
    key_holder: &T,
    write: impl Fn() -> Result<SequenceNumber, Error> + Sync,
) {
    writer.register_instance(key_holder).unwrap();
    race(
        ROUNDS,
        || writer.unregister_instance(key_holder).unwrap(),
        || write().unwrap(),
        |unregistered, written| {
            let is_known = writer.lookup_instance(key_holder).is_some();
            assert_eq!(is_known, written > unregistered, "written {written:?}, unregistered {unregistered:?}");
            writer.register_instance(key_holder).unwrap();
        },
    );
}

/// Runs `act` and `other_act` on two threads at nearly the same time, round by round. The threads spin, because waking
/// a thread takes longer than the racing calls. `check` gets both results while neither thread acts.
fn race<A, B: Send>(rounds: u32, act: impl Fn() -> A, other_act: impl Fn() -> B + Sync, check: impl Fn(A, B)) {
    let (begun, is_over, other_result) = (AtomicU32::new(0), AtomicBool::new(false), Mutex::new(None));
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            for round in 1..=rounds {
                while begun.load(Ordering::SeqCst) < round {
                    if is_over.load(Ordering::SeqCst) {
                        return;
                    }
                    std::hint::spin_loop();
                }
                let result = other_act();
                *other_result.lock().unwrap() = Some(result);
            }
        });
        // A failed check ends the other thread as well.
        let _over = SetsOnDrop(&is_over);
        for round in 1..=rounds {
            begun.store(round, Ordering::SeqCst);
            (0..round % DELAYS).for_each(|_| std::hint::spin_loop());
            let result = act();
            let other_result = loop {
                if let Some(result) = other_result.lock().unwrap().take() {
                    break result;
                }
                assert!(!other.is_finished() || round == rounds, "the other thread has panicked");
                std::hint::spin_loop();
            };
            check(result, other_result);
        }
    });
}
