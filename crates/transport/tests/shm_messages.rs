//! Messages between the users of the two ends of a channel.
#![cfg(target_os = "linux")]

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event;
use peregrine_transport::shm::{
    Gone, Listener, Metadata, Overflow, Reader, ReaderConfig, ReaderId, Trust, USER_WORDS, UserMessage, Wake, Writer,
    WriterConfig, WriterId, WriterKey,
};
use std::time::Duration;

/// A writer, a reader, and the channel between them.
struct Pair {
    _listener: Listener,
    writer: Writer,
    reader: Reader,
    to_reader: ReaderId,
    to_writer: WriterId,
}

impl Pair {
    fn new() -> Self {
        let mut listener = Listener::new(Trust::SameUser).unwrap();
        let mut writer = Writer::new(WriterConfig::default()).unwrap();
        let mut reader = Reader::new(ReaderConfig::default()).unwrap();
        let mut connecting = reader.connect(listener.address(), WriterKey([7; 16])).unwrap();
        let request = listener.accept().unwrap().expect("the reader has connected");
        let to_reader = writer.admit(request, Overflow::Block).unwrap();
        let to_writer = reader.add(connecting.poll().unwrap().expect("the writer has answered")).unwrap();
        Self { _listener: listener, writer, reader, to_reader, to_writer }
    }

    fn publish(&mut self) {
        let slot = self.writer.loan(10).unwrap();
        self.writer.publish(slot, Metadata::default()).unwrap();
    }
}

fn message(number: u64) -> UserMessage {
    let mut words = [u64::MAX; USER_WORDS];
    words[0] = number;
    UserMessage(words)
}

#[test]
fn messages_arrive_in_order_in_both_directions() {
    let mut pair = Pair::new();
    for number in 0..3 {
        assert!(pair.reader.send_messages(pair.to_writer, &[message(number)]));
        assert!(pair.writer.send_messages(pair.to_reader, &[message(number)]));
    }
    assert_eq!(pair.writer.poll_messages(), None, "the writer has not read the link");
    assert!(event::wait_readable(pair.writer.descriptor(pair.to_reader).unwrap(), MonotonicNs::now()).unwrap());
    pair.writer.service();
    assert!(pair.writer.take_notified());
    assert!(pair.reader.is_ready() && pair.reader.take().unwrap().is_none());
    let all: Vec<UserMessage> = (0..3).map(message).collect();
    assert_eq!(pair.writer.poll_messages(), Some((pair.to_reader, all.clone())));
    assert_eq!(pair.reader.poll_messages(), Some((pair.to_writer, all)));
    assert_eq!((pair.writer.poll_messages(), pair.reader.poll_messages()), (None, None));
    assert!(!pair.reader.is_ready());
}

#[test]
fn messages_sent_together_arrive_together_and_in_order() {
    let mut pair = Pair::new();
    let all: Vec<UserMessage> = (0..50).map(message).collect();
    assert!(pair.reader.send_messages(pair.to_writer, &all));
    assert!(pair.writer.send_messages(pair.to_reader, &all));
    let mut received = Vec::new();
    while received.len() < all.len() {
        pair.writer.service();
        received.extend(pair.writer.poll_messages().expect("messages wait").1);
    }
    assert_eq!(received, all);
    assert!(pair.reader.is_ready() && pair.reader.take().unwrap().is_none());
    assert_eq!(pair.reader.poll_messages(), Some((pair.to_writer, all)));
}

#[test]
fn message_wakes_a_reader_and_passes_samples_that_wait() {
    let mut pair = Pair::new();
    pair.reader.pause(pair.to_writer, true);
    pair.publish();
    assert!(pair.reader.take().unwrap().is_none(), "the channel is paused");
    assert_eq!(pair.reader.wait(Duration::ZERO, Some(MonotonicNs::now())), Wake::TimedOut);
    assert!(pair.writer.send_messages(pair.to_reader, &[message(1)]));
    assert_eq!(pair.reader.wait(Duration::ZERO, None), Wake::Ready);
    assert!(pair.reader.take().unwrap().is_none(), "the channel is paused");
    assert_eq!(pair.reader.poll_messages(), Some((pair.to_writer, vec![message(1)])));
    pair.reader.pause(pair.to_writer, false);
    assert!(pair.reader.take().unwrap().is_some());
}

#[test]
fn ring_that_is_never_empty_does_not_delay_messages() {
    let mut pair = Pair::new();
    pair.publish();
    pair.publish();
    assert!(pair.writer.send_messages(pair.to_reader, &[message(1)]));
    let mut samples = pair.reader.in_place().unwrap();
    assert!(samples.next(100, |_, _| true));
    drop(samples);
    assert_eq!(pair.reader.poll_messages(), Some((pair.to_writer, vec![message(1)])));
}

#[test]
fn flood_from_a_reader_waits_in_the_link_and_is_all_received() {
    let mut pair = Pair::new();
    let sent = (0..100_000).take_while(|number| pair.reader.send_messages(pair.to_writer, &[message(*number)])).count();
    assert!((64..100_000).contains(&sent), "{sent} messages fit into the link");
    let mut received = 0;
    while received < sent as u64 {
        pair.writer.service();
        let mut at_once = 0;
        while let Some((_, messages)) = pair.writer.poll_messages() {
            for received_message in messages {
                assert_eq!(received_message, message(received));
                received += 1;
                at_once += 1;
            }
        }
        assert!((1..=64).contains(&at_once), "{at_once} messages wait at once");
    }
    pair.publish();
    assert!(pair.reader.take().unwrap().is_some(), "the channel is as it was");
}

#[test]
fn flood_from_a_writer_ends_its_channel() {
    let mut pair = Pair::new();
    for number in 0..100_000 {
        pair.writer.send_messages(pair.to_reader, &[message(number)]);
        assert!(pair.reader.take().unwrap().is_none());
        if let Some(gone) = pair.reader.poll_gone() {
            assert!(matches!(gone.reason, Gone::Broken(_)), "{gone:?}");
            assert!((256..=257).contains(&number), "{number} messages wait");
            return;
        }
    }
    panic!("the reader keeps any number of messages");
}

#[test]
fn rejected_reader_sees_the_end_and_others_go_on() {
    let mut pair = Pair::new();
    pair.writer.reject(pair.to_reader, "a test says so");
    let gone = pair.writer.poll_gone().unwrap();
    assert!(gone.reader == pair.to_reader && matches!(gone.reason, Gone::Broken("a test says so")), "{gone:?}");
    assert!(!pair.writer.send_messages(pair.to_reader, &[message(1)]));
    pair.reader.service();
    assert!(pair.reader.take().unwrap().is_none());
    assert_eq!(pair.reader.poll_gone().map(|gone| gone.writer), Some(pair.to_writer));
    assert!(!pair.reader.send_messages(pair.to_writer, &[message(1)]));
}
