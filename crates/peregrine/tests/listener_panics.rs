//! A listener method that panics hides no other status: for the listeners of each kind of entity.

mod common;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use common::{Named, PATIENCE, Reading, eventually, participant};
use peregrine::qos::{PublisherQos, SubscriberQos};
use peregrine::status::{IncompatibleQosStatus, InconsistentTopicStatus, LivelinessChangedStatus, MatchedStatus};
use peregrine::{
    AnyDataReader, AnyDataWriter, DataReader, DataReaderListener, DataWriter, DataWriterListener, DomainParticipant,
    PublisherListener, StatusMask, Subscriber, SubscriberListener, TopicListener,
};

/// A listener that reports each call, and panics in all of them but the last one of an endpoint.
struct Panicking(SyncSender<&'static str>);

impl Panicking {
    fn new() -> (Arc<Self>, Receiver<&'static str>) {
        let (told, calls) = sync_channel(100);
        (Arc::new(Self(told)), calls)
    }

    fn say(&self, method: &'static str) {
        self.0.send(method).unwrap();
    }

    fn panic(&self, method: &'static str) {
        self.say(method);
        panic!("on purpose");
    }
}

impl DataReaderListener<Reading> for Panicking {
    fn on_subscription_matched(&self, _: &DataReader<Reading>, _: MatchedStatus) {
        self.panic("matched");
    }

    fn on_data_available(&self, reader: &DataReader<Reading>) {
        assert_eq!(reader.take().unwrap().len(), 1);
        self.panic("data");
    }

    fn on_liveliness_changed(&self, _: &DataReader<Reading>, _: LivelinessChangedStatus) {
        self.say("liveliness");
    }
}

impl SubscriberListener for Panicking {
    fn on_subscription_matched(&self, _: &AnyDataReader, _: MatchedStatus) {
        self.panic("matched");
    }

    fn on_data_on_readers(&self, _: &Subscriber) {
        self.panic("readers");
    }

    fn on_data_available(&self, _: &AnyDataReader) {
        self.panic("data");
    }

    fn on_liveliness_changed(&self, _: &AnyDataReader, _: LivelinessChangedStatus) {
        self.say("liveliness");
    }
}

impl DataWriterListener<Reading> for Panicking {
    fn on_publication_matched(&self, _: &DataWriter<Reading>, _: MatchedStatus) {
        self.panic("matched");
    }

    fn on_offered_incompatible_qos(&self, _: &DataWriter<Reading>, _: IncompatibleQosStatus) {
        self.say("incompatible");
    }
}

impl PublisherListener for Panicking {
    fn on_publication_matched(&self, _: &AnyDataWriter, _: MatchedStatus) {
        self.panic("matched");
    }

    fn on_offered_incompatible_qos(&self, _: &AnyDataWriter, _: IncompatibleQosStatus) {
        self.say("incompatible");
    }
}

impl TopicListener for Panicking {
    fn on_inconsistent_topic(&self, _: &str, _: InconsistentTopicStatus) {
        self.panic("inconsistent");
    }
}

fn next(calls: &Receiver<&'static str>) -> &'static str {
    calls.recv_timeout(PATIENCE).unwrap()
}

/// A reader that has matched a writer and holds one sample of it, with no listener so far. `set` sets one, which is
/// then notified of all statuses in one call.
fn assert_reader_reports_all(
    domain: u32,
    expected: &[&'static str],
    panics: u64,
    set: impl FnOnce(&DataReader<Reading>, Arc<Panicking>),
) {
    let participant = participant(domain);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let subscriber = participant.subscriber(SubscriberQos::default()).unwrap();
    let reader = subscriber.reader(&topic).reliable().keep_all().build().unwrap();
    let writer = topic.writer_builder().reliable().keep_all().build().unwrap();
    writer.wait_for_readers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    let all = [StatusMask::SUBSCRIPTION_MATCHED, StatusMask::DATA_AVAILABLE, StatusMask::LIVELINESS_CHANGED];
    eventually("all statuses have changed", || all.iter().all(|status| reader.status_changes().contains(*status)));
    let (listener, calls) = Panicking::new();
    set(&reader, listener);
    expected.iter().for_each(|method| assert_eq!(next(&calls), *method));
    eventually("each panic is counted", || reader.listener_panics() == panics);
    assert_eq!(AnyDataReader::from(&reader).listener_panics(), panics);
}

#[test]
fn panic_of_reader_listener_hides_no_other_status() {
    assert_reader_reports_all(60, &["matched", "data", "liveliness"], 2, |reader, listener| {
        reader.set_listener(Some(listener), StatusMask::ALL);
    });
}

#[test]
fn panic_of_subscriber_listener_hides_no_other_status() {
    assert_reader_reports_all(61, &["matched", "readers", "liveliness"], 2, |reader, listener| {
        reader.subscriber().set_listener(Some(listener), StatusMask::ALL);
    });
    let mask = StatusMask::SUBSCRIPTION_MATCHED | StatusMask::DATA_AVAILABLE | StatusMask::LIVELINESS_CHANGED;
    assert_reader_reports_all(62, &["matched", "data", "liveliness"], 2, |reader, listener| {
        reader.subscriber().set_listener(Some(listener), mask);
    });
}

#[test]
fn panic_of_participant_listener_hides_no_other_status_of_a_reader() {
    let mask = StatusMask::SUBSCRIPTION_MATCHED | StatusMask::DATA_ON_READERS | StatusMask::LIVELINESS_CHANGED;
    assert_reader_reports_all(63, &["matched", "readers", "liveliness"], 2, |reader, listener| {
        reader.subscriber().participant().set_listener(Some(listener), mask);
    });
}

/// The same for a writer with a reader that matches and another one that does not.
fn assert_writer_reports_all(domain: u32, set: impl FnOnce(&DataWriter<Reading>, Arc<Panicking>)) {
    let participant = participant(domain);
    let topic = participant.topic::<Reading>("readings").unwrap();
    let publisher = participant.publisher(PublisherQos::default()).unwrap();
    let writer = publisher.writer(&topic).reliable().build().unwrap();
    let _matching = topic.reader_builder().reliable().build().unwrap();
    let _incompatible = topic.reader_builder().reliable().transient_local().build().unwrap();
    let both = [StatusMask::PUBLICATION_MATCHED, StatusMask::OFFERED_INCOMPATIBLE_QOS];
    eventually("both statuses have changed", || both.iter().all(|status| writer.status_changes().contains(*status)));
    let (listener, calls) = Panicking::new();
    set(&writer, listener);
    assert_eq!([next(&calls), next(&calls)], ["matched", "incompatible"]);
    eventually("the panic is counted", || writer.listener_panics() == 1);
    assert_eq!(AnyDataWriter::from(&writer).listener_panics(), 1);
}

#[test]
fn panic_of_writer_listener_hides_no_other_status() {
    assert_writer_reports_all(64, |writer, listener| writer.set_listener(Some(listener), StatusMask::ALL));
}

#[test]
fn panic_of_publisher_listener_hides_no_other_status() {
    assert_writer_reports_all(65, |writer, listener| {
        writer.publisher().set_listener(Some(listener), StatusMask::ALL);
    });
}

#[test]
fn panic_of_participant_listener_hides_no_other_status_of_a_writer() {
    let mask = StatusMask::PUBLICATION_MATCHED | StatusMask::OFFERED_INCOMPATIBLE_QOS;
    assert_writer_reports_all(66, |writer, listener| {
        writer.publisher().participant().set_listener(Some(listener), mask);
    });
}

/// Each further endpoint of another type calls the listener again.
fn assert_topic_counts(domain: u32, set: impl FnOnce(&DomainParticipant, &peregrine::Topic<Reading>, Arc<Panicking>)) {
    let (here, there) = (participant(domain), participant(domain));
    let topic = here.topic::<Reading>("readings").unwrap();
    let _endpoint = topic.reader_builder().build().unwrap();
    let (listener, calls) = Panicking::new();
    set(&here, &topic, listener);
    let other = there.topic::<Named>("readings").unwrap();
    let mut endpoints = Vec::new();
    for panics in 1..=2 {
        endpoints.push(other.writer().unwrap());
        assert_eq!(next(&calls), "inconsistent");
        eventually("each panic is counted", || topic.listener_panics() == panics);
    }
}

#[test]
fn panic_of_topic_listener_is_counted_and_listener_is_called_again() {
    assert_topic_counts(68, |_, topic, listener| topic.set_listener(Some(listener), StatusMask::ALL));
}

#[test]
fn panic_of_participant_listener_for_a_topic_is_counted_and_listener_is_called_again() {
    let mask = StatusMask::INCONSISTENT_TOPIC;
    assert_topic_counts(69, |participant, _, listener| participant.set_listener(Some(listener), mask));
}
