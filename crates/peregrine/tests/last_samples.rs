//! The last samples of a writer that is gone, and of a participant that is, are received although the news of its end
//! comes by another socket, to another thread.

mod common;

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use common::{PATIENCE, Reading, config, eventually, polled};
use peregrine::{
    DataReader, DataReaderListener, DataWriter, DomainConfig, DomainParticipant, Selector, StatusMask, WaitStrategy,
};

/// Participants with different settings share no sockets.
fn apart(domain: u32, mut config: DomainConfig, number: usize) -> DomainParticipant {
    config.receive_buffers += number;
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

/// Says that it was called, then stays until it is let go.
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

/// Datagrams that have come to a participant for discovery.
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

/// The thread that receives is busy with the first sample while two more come, and news that there will be none.
fn what_came_before_the_end_is_received(domain: u32, does_leave: bool) {
    for config in by_both_paths(&config()) {
        what_came_before_the_end_is_received_by(&config, domain, does_leave);
    }
}

fn what_came_before_the_end_is_received_by(config: &DomainConfig, domain: u32, does_leave: bool) {
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
    what_came_before_the_end_is_received(123, false);
}

#[test]
fn last_samples_of_a_participant_that_leaves_are_received() {
    what_came_before_the_end_is_received(124, true);
}

/// Samples taken that carry a value.
fn valid(reader: &DataReader<Reading>) -> usize {
    let mut valid = 0;
    reader.take_each(&Selector::ANY, |sample| valid += usize::from(sample.info().valid_data)).unwrap();
    valid
}

/// Many times, whoever receives: no two threads agree on an order by chance so often.
#[test]
fn nothing_is_lost_at_the_end_whatever_the_wait_strategy() {
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
