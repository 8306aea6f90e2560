//! Channels that are created before samples come, and the others.

use super::super::requests::{ANSWER_TIMEOUT, ChannelRequest, ReaderRequest};
use super::retries::next_paths;
use super::*;
use crate::NoSharedMemory;

const EAGER: usize = 2;
const TOPICS: usize = 5;

/// A writer of one process and a reader of another one on each of some topics. The readers' process creates two
/// channels before samples come.
struct Pairs {
    sides: [DomainParticipant; 2],
    writers: Vec<DataWriter<Number>>,
    readers: Vec<DataReader<Number>>,
}

impl Pairs {
    fn new(domain: u32, wait: WaitStrategy) -> Self {
        let eager = DomainConfig { eager_channels: EAGER, wait, ..DomainConfig::default() };
        let sides = [participant(domain, "here"), participant_with(domain, "there", eager)];
        let name = |number: usize| format!("numbers {number} of {}", std::process::id());
        let topics = |side: usize| (0..TOPICS).map(move |number| (side, name(number)));
        let topic = |(side, name): (usize, String)| sides[side].topic::<Number>(&name).unwrap();
        let writer = |at| topic(at).writer_builder().reliable().keep_last(4).build().unwrap();
        let reader = |at| topic(at).reader_builder().reliable().keep_last(4).build().unwrap();
        let (writers, readers) = (topics(0).map(writer).collect(), topics(1).map(reader).collect());
        let pairs = Self { sides, writers, readers };
        pairs.eventually("two pairs have channels, the others none", || {
            pairs.reached().iter().filter(|is_reached| **is_reached).count() == EAGER
                && pairs.deferred() == TOPICS - EAGER
        });
        pairs
    }

    /// Whether each writer reaches its reader by shared memory.
    fn reached(&self) -> Vec<bool> {
        self.writers.iter().map(|writer| writer.shared_memory_readers() == 1).collect()
    }

    fn deferred(&self) -> usize {
        lock(&shared(&self.sides[1]).connect_queue).deferred.len()
    }

    /// The first pair without a channel.
    fn without(&self) -> usize {
        self.reached().iter().position(|is_reached| !is_reached).expect("a pair has no channel")
    }

    fn write_and_take(&self, pair: usize, value: u64) {
        self.writers[pair].write(&Number { value }).unwrap();
        assert_eq!(self.readers[pair].wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value }));
    }

    fn eventually(&self, what: &str, happened: impl Fn() -> bool) {
        let is_polling = shared(&self.sides[1]).host().unwrap().is_polling();
        eventually(what, || {
            if is_polling {
                self.sides[1].poll(Duration::from_millis(1));
            }
            happened()
        });
    }
}

#[test]
fn channel_past_the_eager_ones_is_created_when_samples_come() {
    for (domain, wait) in [(220, WaitStrategy::default()), (221, WaitStrategy::Poll)] {
        let pairs = Pairs::new(domain, wait);
        let pair = pairs.without();
        pairs.write_and_take(pair, 1);
        assert_eq!(pairs.deferred(), TOPICS - EAGER, "one sample needs no channel");
        pairs.write_and_take(pair, 2);
        pairs.eventually("a second sample does", || pairs.reached()[pair]);
        assert_eq!(pairs.deferred(), TOPICS - EAGER - 1);
        pairs.write_and_take(pair, 3);
        assert_eq!(pairs.reached().iter().filter(|is_reached| **is_reached).count(), EAGER + 1);
        assert_eq!(pairs.sides[1].shared_memory_statistics().fallbacks, 0, "no pair has fallen back");
    }
}

#[test]
fn application_learns_why_a_pair_uses_messages_and_when_that_ends() {
    let sides = [
        participant(222, "here"),
        participant_with(222, "there", DomainConfig { eager_channels: 0, ..DomainConfig::default() }),
    ];
    let mut events = sides[1].discovery_events();
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let reader = reader(&sides[1]);
    assert_eq!(next_paths(&mut events), [DeliveryPath::Messages(NoSharedMemory::NoSamplesYet)]);
    // The reader may match first: a volatile writer sends it nothing from before the match.
    writer.wait_for_readers(1, PATIENCE).unwrap();
    for value in 0..2 {
        writer.write(&Number { value }).unwrap();
    }
    assert_eq!(next_paths(&mut events), [DeliveryPath::SharedMemory]);
    for value in 2..4 {
        writer.write(&Number { value }).unwrap();
    }
    for value in 0..4 {
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value }));
    }
}

#[test]
fn deferred_request_ends_with_its_reader_or_match() {
    let mut pairs = Pairs::new(223, WaitStrategy::default());
    let pair = pairs.without();
    drop(pairs.readers.remove(pair));
    drop(pairs.writers.remove(pair));
    assert_eq!(pairs.deferred(), TOPICS - EAGER - 1);
    let pair = pairs.without();
    drop(pairs.writers.remove(pair));
    pairs.eventually("the match ends", || pairs.deferred() == TOPICS - EAGER - 2);
}

/// Most processes come within the time in which further requests wait for rest.
#[test]
fn channels_to_processes_that_start_together_are_created_without_samples() {
    const PROCESSES: usize = 9;
    let heres: Vec<_> = (0..PROCESSES).map(|_| participant(224, "here")).collect();
    let there = participant(224, "there");
    let reader = reader(&there);
    let writers: Vec<_> = heres.iter().map(|here| topic(here).writer().unwrap()).collect();
    eventually("each writer has a channel", || writers.iter().all(|writer| writer.shared_memory_readers() == 1));
    assert_eq!(there.shared_memory_statistics().fallbacks, 0, "no pair has fallen back");
    assert_eq!(lock(&shared(&there).connect_queue).deferred.len(), 0);
    for (value, writer) in writers.iter().enumerate() {
        writer.write(&Number { value: value as u64 }).unwrap();
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value: value as u64 }));
    }
}

#[test]
fn samples_that_came_while_the_request_waited_create_the_channel() {
    let pairs = Pairs::new(225, WaitStrategy::default());
    let pair = pairs.without();
    let (reader, writer) = (pairs.readers[pair].guid(), pairs.writers[pair].guid());
    let there = shared(&pairs.sides[1]);
    let waiting = lock(&there.connect_queue).deferred.take(reader, writer, now() + ANSWER_TIMEOUT).unwrap();
    (1..=2).for_each(|value| pairs.write_and_take(pair, value));
    pairs.eventually("the samples find no request", || {
        !core_of(&pairs.sides[1], &pairs.readers[pair]).lock().samples.has_active()
    });
    let request = ReaderRequest { is_demanded: false, ..waiting.reader };
    lock(&there.connect_queue).want(now(), ChannelRequest { reader: request, ..waiting });
    there.wake();
    pairs.eventually("no further sample is needed", || pairs.reached()[pair]);
    assert_eq!(pairs.deferred(), TOPICS - EAGER - 1);
}
