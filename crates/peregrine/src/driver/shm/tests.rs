//! What peers of another process leave behind that do not answer, ask again and again, or end at an awkward moment. The other
//! process is another domain of this one, with sockets, threads and memory of its own.

use std::time::{Duration, Instant as Moment};

use peregrine_rtps::id::{EntityId, GuidPrefix};
use peregrine_transport::shm::{ReaderConfig, ReaderKey, WriterKey};

use super::questions::{ANSWER_PATIENCE, UNANSWERED_MAX};
use super::*;
use crate::driver::reader::ReaderCore;
use crate::{DataReader, DdsType, DiscoveryEvent, DomainConfig, DomainParticipant, InterfaceSelection, Topic};

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Number {
    value: u64,
}

fn participant(domain: u32, prefix: &str) -> DomainParticipant {
    let mut config = DomainConfig { same_process: false, ..DomainConfig::default() };
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    config.threads.name_prefix = prefix.to_owned();
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

fn shared(participant: &DomainParticipant) -> &SharedMemory {
    participant.inner.core.domain.shared_memory().unwrap()
}

/// The same tests may run in several processes at a time.
fn topic(participant: &DomainParticipant) -> Topic<Number> {
    participant.topic(&format!("numbers of {}", std::process::id())).unwrap()
}

fn reader(participant: &DomainParticipant) -> DataReader<Number> {
    topic(participant).reader_builder().reliable().keep_last(4).build().unwrap()
}

fn core_of(participant: &DomainParticipant, reader: &DataReader<Number>) -> Arc<ReaderCore> {
    Arc::clone(participant.inner.core.lock().readers.get(&reader.guid().entity).unwrap())
}

fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let end = Moment::now() + PATIENCE;
    while !happened() {
        assert!(Moment::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

fn stranger(number: u8) -> Guid {
    Guid { prefix: GuidPrefix([9; 12]), entity: EntityId([0, 0, number, 3]) }
}

/// Where somebody listens who never looks.
fn silent() -> (Listener, SharedMemoryAddress) {
    let listener = Listener::new(Trust::SameUser).unwrap();
    let at = SharedMemoryAddress { address: listener.address().0, host: Place::here().unwrap().0 };
    (listener, at)
}

fn asked(shared: &SharedMemory) -> usize {
    shared.tending().sources.len()
}

#[test]
fn who_does_not_answer_is_asked_little_at_a_time_and_given_up() {
    let participant = participant(90, "silent");
    let (reader, shared) = (reader(&participant), shared(&participant));
    let mut events = participant.discovery_events();
    let (_listener, at) = silent();
    for number in 0..100 {
        shared.want_at(&core_of(&participant, &reader), stranger(number), at);
    }
    eventually("the others wait", || shared.tending().queued.len() == 100 - UNANSWERED_MAX);
    assert_eq!(asked(shared), UNANSWERED_MAX);
    let deadline = shared.deadline();
    assert!(deadline <= (now() + ANSWER_PATIENCE).0, "somebody looks by then");
    shared.tend_at(now() + ANSWER_PATIENCE);
    assert_eq!((asked(shared), shared.tending().queued.len(), shared.deadline()), (0, 0, NEVER));
    assert_eq!(participant.shared_memory_statistics().fallbacks, 100);
    let path = loop {
        if let DiscoveryEvent::PathChanged { path, .. } = events.wait_next(PATIENCE).unwrap() {
            break path;
        }
    };
    let DeliveryPath::Messages(reason) = path else { panic!("{path:?}") };
    assert!(reason.to_string().contains("has not answered for 15"), "{reason}");
}

#[test]
fn nobody_is_asked_for_who_does_not_match_any_more() {
    let participant = participant(91, "unmatched");
    let (reader, shared) = (reader(&participant), shared(&participant));
    let (_listener, at) = silent();
    for number in 0..50 {
        shared.want_at(&core_of(&participant, &reader), stranger(number), at);
    }
    eventually("some wait", || shared.tending().queued.len() == 50 - UNANSWERED_MAX);
    shared.unwant(reader.guid(), stranger(0));
    eventually("the next one has its turn", || shared.tending().queued.len() == 49 - UNANSWERED_MAX);
    assert_eq!(asked(shared), UNANSWERED_MAX);
    shared.forget_reader(reader.guid());
    eventually("nothing is left", || asked(shared) == 0 && shared.tending().queued.is_empty());
    assert_eq!(participant.shared_memory_statistics().fallbacks, 0);
}

#[test]
fn a_reader_that_asks_again_and_again_has_one_channel() {
    let (here, there) = (participant(92, "here"), participant(92, "there"));
    let writer = topic(&here).writer_builder().reliable().keep_last(4).build().unwrap();
    let reader = reader(&there);
    eventually("shared memory is used", || here.shared_memory_statistics().readers == 1);
    // As a program would that does not keep to anything.
    let stubborn = peregrine_transport::shm::Reader::new(ReaderConfig::default()).unwrap();
    let address = Address(shared(&here).address.0);
    let keys = (WriterKey(writer.guid().to_bytes()), ReaderKey(reader.guid().to_bytes()));
    let mut connections = Vec::new();
    for count in 1..=40 {
        let mut connecting = stubborn.connector().connect(address, keys.0, keys.1).unwrap();
        eventually("it is admitted", || {
            connections.extend(connecting.poll().unwrap());
            connections.len() == count
        });
    }
    assert!(asked(shared(&here)) <= 2, "{} channels are looked after", asked(shared(&here)));
}

/// Who writes may be the first to see that a channel is closed. By that its descriptor is closed here too, and tells nobody.
#[test]
fn a_channel_whose_end_the_writer_finds_is_replaced_by_messages() {
    let (here, there) = (participant(93, "here"), participant(93, "there"));
    let writer = topic(&here).writer_builder().reliable().keep_last(4).build().unwrap();
    let reader = reader(&there);
    eventually("shared memory is used", || here.shared_memory_statistics().readers == 1);
    eventually("shared memory is used", || there.shared_memory_statistics().writers == 1);
    // The control thread sees nothing meanwhile.
    let tending = shared(&here).tending();
    shared(&there).incoming.remove(reader.guid(), Some(writer.guid()));
    eventually("the channel is closed", || there.shared_memory_statistics().writers == 0);
    (0..100).for_each(|value| drop(writer.write(&Number { value })));
    drop(tending);
    eventually("messages come", || {
        let mut samples = reader.take().unwrap().into_iter().filter_map(|sample| sample.data);
        samples.next_back() == Some(Number { value: 99 })
    });
    assert_eq!((here.shared_memory_statistics().readers, here.shared_memory_statistics().fallbacks), (0, 1));
}
