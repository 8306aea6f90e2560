//! The last samples of a deleted writer or participant are received, although the message about its deletion arrives at
//! another socket, on another thread.

mod common;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Block, PATIENCE, Reading, config, eventually, polled};
use peregrine::{
    DataReader, DataReaderListener, DataWriter, DomainConfig, DomainParticipant, Selector, StatusMask, WaitStrategy,
};

/// Participants with different settings share no sockets.
fn apart(domain: u32, mut config: DomainConfig, number: usize) -> DomainParticipant {
    config.receive_buffers += number;
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

/// A listener that reports its call and then blocks until it is released.
struct Busy {
    is_there: SyncSender<()>,
    go: Mutex<Receiver<()>>,
}

impl DataReaderListener<Reading> for Busy {
    fn on_data_available(&self, _: &DataReader<Reading>) {
        let _ = self.is_there.try_send(());
        let _ = self.go.lock().unwrap().recv_timeout(PATIENCE);
    }
}

/// Number of discovery datagrams that a participant has received.
fn discovery_heard(participant: &DomainParticipant) -> u64 {
    let discovery = |port: u16| port.is_multiple_of(2);
    let statistics = participant.transport_statistics();
    statistics.iter().filter(|(address, _)| discovery(address.port())).map(|(_, s)| s.datagrams_received).sum()
}

fn best_effort(participant: &DomainParticipant) -> DataWriter<Reading> {
    participant.topic("readings").unwrap().writer_builder().best_effort().build().unwrap()
}

/// The same configuration for samples in datagrams, and in shared memory.
fn by_both_paths(config: &DomainConfig) -> [DomainConfig; 2] {
    let by = |shared_memory| {
        let mut config = config.clone();
        config.shared_memory = shared_memory;
        config
    };
    [by(false), by(true)]
}

/// The listener blocks on the first sample while two more samples and the message about the deletion arrive.
fn assert_samples_before_the_end_are_received(domain: u32, does_leave: bool) {
    for config in by_both_paths(&config()) {
        assert_samples_before_the_end_are_received_by(&config, domain, does_leave);
    }
}

fn assert_samples_before_the_end_are_received_by(config: &DomainConfig, domain: u32, does_leave: bool) {
    let (here, there) = (apart(domain, config.clone(), 0), apart(domain, config.clone(), 1));
    let (is_there, called) = sync_channel(1);
    let (release, go) = sync_channel(16);
    let busy = Busy { is_there, go: Mutex::new(go) };
    let topic = there.topic::<Reading>("readings").unwrap();
    let reader = topic.reader_builder().keep_all().listener(busy, StatusMask::DATA_AVAILABLE).build().unwrap();
    let writer = best_effort(&here);
    writer.wait_for_readers(1, PATIENCE).unwrap();
    reader.wait_for_writers(1, PATIENCE).unwrap();
    writer.write(&Reading::new(1, 0)).unwrap();
    called.recv_timeout(PATIENCE).unwrap();
    writer.write(&Reading::new(1, 1)).unwrap();
    writer.write(&Reading::new(1, 2)).unwrap();
    let before = discovery_heard(&there);
    drop(writer);
    let here = (!does_leave).then_some(here);
    eventually("the news of the end", || discovery_heard(&there) > before);
    (0..16).for_each(|_| _ = release.try_send(()));
    let mut values = Vec::new();
    eventually("the unmatched status", || {
        values.extend(reader.take().unwrap().into_iter().filter_map(|s| s.into_value()).map(|r| r.value));
        reader.subscription_matched_status().current_count == 0
    });
    values.extend(reader.take().unwrap().into_iter().filter_map(|s| s.into_value()).map(|r| r.value));
    assert_eq!(values, [0, 1, 2]);
    drop(here);
}

#[test]
fn last_samples_of_a_deleted_writer_are_received() {
    assert_samples_before_the_end_are_received(123, false);
}

#[test]
fn last_samples_of_a_leaving_participant_are_received() {
    assert_samples_before_the_end_are_received(124, true);
}

/// Samples taken that carry a value.
fn valid(reader: &DataReader<Reading>) -> usize {
    let mut valid = 0;
    reader.take_each(&Selector::ANY, |sample| valid += usize::from(sample.info().valid_data)).unwrap();
    valid
}

/// Many repetitions under each wait strategy, so that a wrong order does not pass by chance.
#[test]
fn last_samples_are_received_under_each_wait_strategy() {
    let mut spinning = config();
    spinning.wait = WaitStrategy::SpinThenBlock(Duration::from_micros(50));
    let strategies = [config(), polled(), spinning];
    for (number, strategy) in strategies.iter().flat_map(by_both_paths).enumerate() {
        let here = apart(25, by_both_paths(&config())[number % 2].clone(), 10);
        let there = apart(25, strategy, number + 1);
        let reader = there.topic::<Reading>("readings").unwrap().reader_builder().keep_all().build().unwrap();
        for round in 0..50 {
            let writer = best_effort(&here);
            let end = Instant::now() + PATIENCE;
            while writer.wait_for_readers(1, Duration::ZERO).is_err() {
                there.poll(Duration::from_millis(1));
                assert!(Instant::now() < end, "{number}: not matched in round {round}");
            }
            reader.wait_for_writers(1, PATIENCE).unwrap();
            (0..10).for_each(|value| _ = writer.write(&Reading::new(round, value)).unwrap());
            drop(writer);
            let mut got = 0;
            eventually("the writer is gone", || {
                there.poll(Duration::ZERO);
                got += valid(&reader);
                reader.subscription_matched_status().current_count == 0
            });
            got += valid(&reader);
            assert_eq!(got, 10, "{number}: {got} of 10 in round {round}");
        }
    }
}

/// The entities that the listener drops.
type Handles = (DataWriter<Block>, DataReader<Reading>);

/// More samples and bytes than a writer sends before its readers acknowledge.
const UNSENT: (u64, usize) = (64, 100_000);

#[test]
fn samples_before_last_handle_is_dropped_in_listener_are_received() {
    let [mut polled, mut blocking] = [polled(), config().with_linger(PATIENCE)];
    polled.shared_memory = false;
    blocking.shared_memory = false;
    let (reading, writing) = (apart(26, polled, 0), apart(26, blocking, 1));
    let poll_until = |what: &str, is_so: &mut dyn FnMut() -> bool| {
        eventually(what, || {
            reading.poll(Duration::from_millis(1));
            is_so()
        });
    };
    let last = reading.topic::<Block>("last").unwrap().reader_builder().reliable().keep_all().build().unwrap();
    let end = reading.topic::<Reading>("end").unwrap().writer_builder().reliable().build().unwrap();
    let writer = writing.topic::<Block>("last").unwrap().writer_builder().reliable().keep_all().build().unwrap();
    let handles: Arc<Mutex<Option<Handles>>> = Arc::default();
    let (dropped, has_dropped) = sync_channel(1);
    let held = Arc::clone(&handles);
    let listener = move |_: &DataReader<Reading>| {
        let Some((writer, reader)) = held.lock().unwrap().take() else { return };
        for number in 0..UNSENT.0 {
            writer.write(&Block::new(number, UNSENT.1)).unwrap();
        }
        drop((writer, reader));
        dropped.send(()).unwrap();
    };
    let reader =
        writing.topic::<Reading>("end").unwrap().reader_builder().reliable().on_data(listener).build().unwrap();
    poll_until("the endpoints match", &mut || {
        let matched = [writer.matched_subscriptions().len(), last.matched_publications().len()];
        matched == [1, 1] && end.matched_subscriptions().len() == 1 && reader.matched_publications().len() == 1
    });
    *handles.lock().unwrap() = Some((writer, reader));
    drop(writing);
    end.write(&Reading::new(1, 1)).unwrap();
    poll_until("the listener has dropped the handles", &mut || has_dropped.try_recv().is_ok());
    let mut received = 0;
    poll_until("the last samples are received", &mut || {
        received += last.take().unwrap().len() as u64;
        received >= UNSENT.0
    });
}
