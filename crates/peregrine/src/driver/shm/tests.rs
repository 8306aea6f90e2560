//! Peers in another process that do not answer, repeat requests, or end during an operation. The other process is
//! another domain of this process, with separate sockets, threads and memory.

mod bounds;
mod eager;
mod retries;
mod sharing;

use std::task::Waker;
use std::time::{Duration, Instant as Moment};

use peregrine_rtps::history::{Change, ChangeKind};
use peregrine_rtps::id::{EntityId, GuidPrefix, KeyHash};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;
use peregrine_transport::shm::{Connecting, Connection, ReaderConfig, ReaderKey, WriterKey};

use super::requests::{ANSWER_TIMEOUT, CANCELLED_MAX, Cancelled, UNANSWERED_MAX};
use super::sample_order::COMMANDS_MAX;
use super::*;
use crate::driver::base::sync::lock_leaf;
use crate::driver::endpoint::reader::ReaderCore;
use crate::driver::endpoint::waiting::Waitable;
use crate::driver::endpoint::wakers::Awaited;
use crate::driver::endpoint::writer::PayloadSlot;
use crate::driver::session::participant::ChannelRequests;
use crate::qos::{DataWriterQos, History, Lifespan, Limit, Reliability, ResourceLimits};
use crate::{
    DataReader, DataWriter, DataWriterBuilder, DdsType, DiscoveryEvent, DomainConfig, DomainParticipant,
    InterfaceSelection, Selector, StatusMask, Topic, WaitStrategy,
};

/// Long enough for a loaded machine with concurrent tests.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Number {
    value: u64,
}

fn participant(domain: u32, prefix: &str) -> DomainParticipant {
    participant_that_waits(domain, prefix, WaitStrategy::default())
}

fn participant_that_waits(domain: u32, prefix: &str, wait: WaitStrategy) -> DomainParticipant {
    participant_with(domain, prefix, DomainConfig { wait, ..DomainConfig::default() })
}

fn participant_with(domain: u32, prefix: &str, mut config: DomainConfig) -> DomainParticipant {
    config.same_process = false;
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    config.threads.name_prefix = prefix.to_owned();
    DomainParticipant::builder(domain).config(config).build().unwrap()
}

fn shared(participant: &DomainParticipant) -> &SharedMemory {
    participant.inner.domain.shared_memory.as_ref().unwrap()
}

/// A unique topic, because the tests may run in several processes at a time.
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

/// A listening process that never answers.
fn silent() -> (Listener, SharedMemoryAddress) {
    let listener = Listener::new(Trust::SameUser).unwrap();
    let at = SharedMemoryAddress { address: listener.address().0, host: HostIdentity::current().unwrap().0 };
    (listener, at)
}

fn asked(shared: &SharedMemory) -> usize {
    shared.connections().sources.count()
}

#[test]
fn silent_process_gets_bounded_requests_until_timeout() {
    let participant = participant(90, "silent");
    let (reader, shared) = (reader(&participant), shared(&participant));
    let mut events = participant.discovery_events();
    let (_listener, at) = silent();
    for number in 0..100 {
        shared.request_at(&core_of(&participant, &reader), stranger(number), at);
    }
    eventually("the others wait", || shared.connections().queued.len() == 100 - UNANSWERED_MAX);
    assert_eq!(asked(shared), UNANSWERED_MAX);
    let deadline = shared.deadline();
    assert!(deadline <= (now() + ANSWER_TIMEOUT).0, "the next poll is due by then");
    shared.poll_connections_at(now() + ANSWER_TIMEOUT);
    assert_eq!((asked(shared), shared.connections().queued.len()), (0, 0));
    eventually("writers without a match are not asked again", || shared.deadline() == NEVER);
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
fn unmatched_reader_cancels_its_requests() {
    let participant = participant(91, "unmatched");
    let (reader, shared) = (reader(&participant), shared(&participant));
    let (_listener, at) = silent();
    for number in 0..50 {
        shared.request_at(&core_of(&participant, &reader), stranger(number), at);
    }
    eventually("some wait", || shared.connections().queued.len() == 50 - UNANSWERED_MAX);
    shared.cancel(reader.guid(), stranger(0));
    eventually("the next one has its turn", || shared.connections().queued.len() == 49 - UNANSWERED_MAX);
    assert_eq!(asked(shared), UNANSWERED_MAX);
    shared.forget_reader(reader.guid());
    eventually("nothing is left", || asked(shared) == 0 && shared.connections().queued.is_empty());
    assert_eq!(participant.shared_memory_statistics().fallbacks, 0);
}

#[test]
fn cancellations_past_the_bound_end_all_requests_without_a_match() {
    let participant = participant(64, "cancelled");
    let (reader, shared) = (reader(&participant), shared(&participant));
    let (_listener, at) = silent();
    for number in 0..50 {
        shared.request_at(&core_of(&participant, &reader), stranger(number), at);
    }
    eventually("some wait", || shared.connections().queued.len() == 50 - UNANSWERED_MAX);
    // The control thread takes no requests meanwhile.
    let connections = shared.connections();
    (0..=CANCELLED_MAX).for_each(|_| shared.cancel(reader.guid(), stranger(0)));
    assert!(matches!(lock(&shared.connect_queue).cancelled, Cancelled::Unmatched));
    drop(connections);
    eventually("nothing is left", || asked(shared) == 0 && shared.connections().queued.is_empty());
    assert!(lock(&shared.connect_queue).cancelled.is_empty());
}

#[test]
fn repeated_requests_leave_one_channel() {
    let (here, there) = (participant(92, "here"), participant(92, "there"));
    let writer = topic(&here).writer_builder().reliable().keep_last(4).build().unwrap();
    let reader = reader(&there);
    eventually("shared memory is used", || here.shared_memory_statistics().readers == 1);
    // Like a program that violates the protocol.
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
    let core = Arc::clone(here.inner.core.lock().writers.get(&writer.guid().entity).unwrap());
    assert_eq!(lock_leaf(&core.outgoing.channels).as_ref().unwrap().channel_count(), 1);
    drop(connections);
    eventually("the others are closed", || asked(shared(&here)) == 0);
}

/// The writer thread may be the first to see that a channel is closed. It then closes its descriptor, so the poller
/// reports nothing.
#[test]
fn channel_end_found_by_writer_falls_back_to_messages() {
    let (here, there) = (participant(93, "here"), participant(93, "there"));
    let writer = topic(&here).writer_builder().reliable().keep_last(4).build().unwrap();
    let reader = reader(&there);
    eventually("shared memory is used", || here.shared_memory_statistics().readers == 1);
    eventually("shared memory is used", || there.shared_memory_statistics().writers == 1);
    // The control thread polls nothing meanwhile.
    let connections = lock_leaf(&shared(&here).connections);
    shared(&there).incoming.remove(reader.guid(), Some(writer.guid()));
    eventually("the channel is closed", || there.shared_memory_statistics().writers == 0);
    (0..100).for_each(|value| drop(writer.write(&Number { value })));
    drop(connections);
    eventually("messages come", || {
        let mut samples = reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value());
        samples.next_back() == Some(Number { value: 99 })
    });
    assert_eq!((here.shared_memory_statistics().readers, here.shared_memory_statistics().fallbacks), (0, 1));
}

/// Under `Poll`, no thread executes the commands while the application does not poll.
#[test]
fn readers_without_room_for_their_removal_are_removed_at_the_next_poll() {
    let (here, there) =
        (participant(63, "removals here"), participant_that_waits(63, "removals there", WaitStrategy::Poll));
    let writer = topic(&here).writer_builder().reliable().keep_last(4).build().unwrap();
    let reader = reader(&there);
    eventually("shared memory is used", || {
        there.poll(Duration::from_millis(1));
        there.shared_memory_statistics().writers == 1
    });
    let incoming = &shared(&there).incoming;
    (0..10 * COMMANDS_MAX).for_each(|_| incoming.remove(stranger(1), None));
    drop(reader);
    eventually("the reader is removed", || {
        there.poll(Duration::from_millis(1));
        there.shared_memory_statistics().writers == 0
    });
    eventually("the writer has seen it", || writer.shared_memory_readers() == 0);
}

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Block {
    octets: Vec<u8>,
}

const LARGE: usize = 5 << 20;

/// A writer with these settings, and a reader in another domain that has received its history.
fn large_pair(
    sides: &[DomainParticipant; 2],
    describe: impl FnOnce(DataWriterBuilder<Block>) -> DataWriterBuilder<Block>,
) -> (DataWriter<Block>, Arc<WriterCore>, DataReader<Block>) {
    let name = format!("blocks of {}", std::process::id());
    let [here, there] = sides.each_ref().map(|side| side.topic::<Block>(&name).unwrap());
    let writer = describe(here.writer_builder().reliable()).build().unwrap();
    let reader = there.reader_builder().reliable().keep_all().build().unwrap();
    eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    let core = Arc::clone(sides[0].inner.core.lock().writers.get(&writer.guid().entity).unwrap());
    (writer, core, reader)
}

fn exchange(writer: &DataWriter<Block>, reader: &DataReader<Block>, count: u8) {
    for value in 0..count {
        writer.write(&Block { octets: vec![value; LARGE] }).unwrap();
    }
    for value in 0..count {
        let block = reader.wait_and_take(PATIENCE).unwrap().into_value().unwrap();
        assert!(block.octets == vec![value; LARGE], "sample {value}");
    }
}

/// Waits until the writer retains memory for only this many large samples and its trim timer has stopped.
fn await_rest(core: &WriterCore, samples: usize) {
    let bytes = || core.shared_memory_use().bytes as usize;
    let as_many = || bytes() >= samples * LARGE && bytes() < (samples + 1) * LARGE;
    eventually("unused memory goes, and then the timer is silent", || core.deadline() == NEVER && as_many());
}

#[test]
fn idle_writer_frees_memory_and_stops_its_timer() {
    type Describe = fn(DataWriterBuilder<Block>) -> DataWriterBuilder<Block>;
    let histories: [(Describe, usize); 4] = [
        (|writer| writer.keep_all(), 0),
        (|writer| writer.keep_last(2), 0),
        (|writer| writer.keep_last(1).transient_local(), 1),
        (|writer| writer.keep_all().transient_local(), 4),
    ];
    let sides = [participant(21, "here"), participant(21, "there")];
    for (describe, kept) in histories {
        let (writer, core, reader) = large_pair(&sides, describe);
        for _ in 0..2 {
            exchange(&writer, &reader, 2);
            assert!(core.shared_memory_use().bytes as usize >= 2 * LARGE);
        }
        await_rest(&core, kept);
    }
}

/// A reader that holds samples does not keep the trim timer of the writer running. The reader notifies the writer on
/// release.
#[test]
fn samples_held_by_reader_are_freed_on_release() {
    let sides = [participant(22, "here"), participant(22, "there")];
    let (writer, core, reader) = large_pair(&sides, |writer| writer.keep_all());
    writer.write(&Block { octets: vec![1; LARGE] }).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let held = reader.take_loaned(&Selector::ANY).unwrap();
    assert_eq!(held.len(), 1);
    exchange(&writer, &reader, 3);
    await_rest(&core, 1);
    drop(held);
    await_rest(&core, 0);
}

/// No other process is notified of a loan that was not published.
#[test]
fn unpublished_loan_is_given_back() {
    let sides = [participant(33, "here"), participant(33, "there")];
    let name = format!("arrays of {}", std::process::id());
    let [here, there] = sides.each_ref().map(|side| side.topic::<[u64; LARGE / 8]>(&name).unwrap());
    let writer = here.writer_builder().reliable().build().unwrap();
    let _reader = there.reader_builder().reliable().build().unwrap();
    eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    let core = Arc::clone(sides[0].inner.core.lock().writers.get(&writer.guid().entity).unwrap());
    let lent = writer.loan().unwrap();
    assert!(core.shared_memory_use().bytes as usize >= LARGE);
    drop(lent);
    await_rest(&core, 0);
}

/// A thread that writes or trims may notice ring space before the control thread, which then gets no notification of
/// its own.
#[test]
fn waiting_reader_resumes_when_any_thread_notices_room() {
    let sides = [participant(35, "here"), participant(35, "there")];
    let (writer, core, reader) =
        large_pair(&sides, |writer| writer.keep_all().transient_local().shared_memory_bytes(2 << 20));
    let block = |value: u8| Block { octets: vec![value; 100_000] };
    let take =
        |value| assert!(reader.wait_and_take(PATIENCE).unwrap().into_value() == Some(block(value)), "sample {value}");
    // The control thread gets no notification meanwhile.
    let connections = lock_leaf(&shared(&sides[0]).connections);
    for value in 0..40 {
        writer.write(&block(value)).unwrap();
    }
    // The control thread makes the reader ready and may still be delivering.
    eventually("there is no room", || core.is_without_room(reader.guid()));
    let sent = sides[0].shared_memory_statistics().sent as u8;
    assert!((1..40).contains(&sent), "{sent}");
    (0..sent).for_each(take);
    core.trim_idle_memory(Instant(core.deadline()) + Span::from_secs(5));
    drop(connections);
    (sent..40).for_each(take);
}

/// The case in which discovery reports the deletion of a reader before its process closes the channel: the descriptor
/// must not be reported for ever.
#[test]
fn channel_ended_by_writer_is_polled_until_closed() {
    let (here, there) = (participant(36, "here"), participant(36, "there"));
    let writer = topic(&here).writer_builder().reliable().keep_last(4).build().unwrap();
    let readers = [reader(&there), reader(&there)];
    eventually("shared memory is used", || writer.shared_memory_readers() == 2);
    let core = Arc::clone(here.inner.core.lock().writers.get(&writer.guid().entity).unwrap());
    core.unmatch_reader(now(), readers[0].guid());
    let is_leaving =
        || lock_leaf(&core.outgoing.channels).as_ref().is_some_and(|channels| channels.writer.is_closing());
    eventually("both sides have closed it", || !is_leaving() && asked(shared(&here)) == 1);
    assert_eq!(writer.shared_memory_readers(), 1);
}

/// A writer, and a reader with room for one sample, which acknowledges one more sample with each take.
fn narrow_pair(sides: &[DomainParticipant; 2]) -> (DataWriter<Number>, Arc<WriterCore>, DataReader<Number>) {
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let limits = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    let reader = topic(&sides[1]).reader_builder().reliable().keep_all().resource_limits(limits).build().unwrap();
    eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    let core = Arc::clone(sides[0].inner.core.lock().writers.get(&writer.guid().entity).unwrap());
    (writer, core, reader)
}

/// Writes four samples and returns the number of the last one.
fn write_four(writer: &DataWriter<Number>) -> SequenceNumber {
    (0..3).for_each(|value| _ = writer.write(&Number { value }).unwrap());
    writer.write(&Number { value: 3 }).unwrap()
}

/// A waiter for the acknowledgement of samples up to this one.
fn add_waiter(core: &WriterCore, awaited: Awaited) {
    let mut state = core.lock();
    state.wakers.add(awaited, Waker::noop().clone());
    core.sync_demand(&mut state);
}

/// A thread waits for acknowledgements of four samples, one of which has arrived. The actions of another thread must
/// not prevent the waiter from getting any of the others.
fn await_one_after_the_other(domain: u32, meanwhile: impl FnOnce(&WriterCore)) {
    let sides = [participant(domain, "here"), participant(domain, "there")];
    let (writer, core, reader) = narrow_pair(&sides);
    let last = write_four(&writer);
    let is_acknowledged = |number| core.lock().writer.is_acknowledged_by_all(SequenceNumber(number));
    add_waiter(&core, Awaited::Acknowledged(last));
    eventually("one sample is there", || {
        core.sync_demand(&mut core.lock());
        is_acknowledged(1)
    });
    assert!(!is_acknowledged(2));
    meanwhile(&core);
    for number in 1..=4 {
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value().unwrap().value, number as u64 - 1);
        eventually("the writer sees the next acknowledgement", || is_acknowledged((number + 1).min(4)));
    }
}

/// The other thread has read the last number before the later samples were written.
#[test]
fn stale_ack_poll_does_not_cancel_waiter() {
    await_one_after_the_other(39, |core| core.acknowledge(&core.outgoing.acknowledged_now(SequenceNumber(1))));
}

#[test]
fn waiter_for_fewer_samples_does_not_cancel_the_demand_of_another() {
    await_one_after_the_other(48, |core| add_waiter(core, Awaited::Acknowledged(SequenceNumber(1))));
}

#[test]
fn demand_ends_with_its_waiters() {
    let sides = [participant(49, "here"), participant(49, "there")];
    let (writer, core, reader) = narrow_pair(&sides);
    let last = write_four(&writer);
    let demand = || lock_leaf(&core.outgoing.channels).as_ref().unwrap().demand;
    assert_eq!(demand(), None);
    assert!(writer.wait_for_acknowledgments(Duration::from_millis(1)).is_err());
    assert_eq!(demand(), None, "the thread waits no more");
    add_waiter(&core, Awaited::Acknowledged(last));
    assert_eq!(demand(), Some(last));
    add_waiter(&core, Awaited::Status(StatusMask::ALL));
    assert_eq!(demand(), Some(last));
    drop(reader);
}

/// The acknowledgement of a best-effort reader never advances, so each poll would request it again.
#[test]
fn waiter_for_acknowledgements_requests_none_of_best_effort_readers() {
    let sides = [participant(67, "here"), participant(67, "there")];
    let (writer, core, reliable) = narrow_pair(&sides);
    let best_effort = topic(&sides[1]).reader_builder().best_effort().build().unwrap();
    eventually("both get samples by shared memory", || writer.shared_memory_readers() == 2);
    let last = write_four(&writer);
    add_waiter(&core, Awaited::Acknowledged(last));
    let is_requested =
        |reader: Guid| lock_leaf(&core.outgoing.channels).as_ref().unwrap().is_ack_notification_requested(reader);
    assert!(is_requested(reliable.guid()), "the writer waits for this reader");
    assert!(!is_requested(best_effort.guid()));
}

#[test]
fn stale_ack_poll_sees_later_acknowledgements() {
    let sides = [participant(41, "here"), participant(41, "there")];
    let (writer, core, reader) = narrow_pair(&sides);
    // Holding this lock keeps the control thread from polling the connections.
    let connections = lock_leaf(&shared(&sides[0]).connections);
    let last = write_four(&writer);
    add_waiter(&core, Awaited::Acknowledged(last));
    (0..4).for_each(|value| assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value })));
    eventually("all of them are acknowledged", || {
        core.acknowledge(&core.outgoing.acknowledged_now(SequenceNumber(1)));
        core.lock().writer.is_acknowledged_by_all(last)
    });
    drop(connections);
}

#[test]
fn ack_waiter_is_notified_while_others_wait_for_more() {
    await_one_after_the_other(40, |core| {
        assert!(lock_leaf(&core.outgoing.channels).as_mut().unwrap().is_any_behind());
    });
}

/// Repeated connections to a writer for one reader, as by a program that violates the protocol. Only the last one is
/// used.
struct Stubborn {
    reader: peregrine_transport::shm::Reader,
    address: Address,
    keys: (WriterKey, ReaderKey),
}

impl Stubborn {
    fn new(here: &DomainParticipant, writer: Guid, reader: Guid) -> Self {
        Self {
            reader: peregrine_transport::shm::Reader::new(ReaderConfig::default()).unwrap(),
            address: Address(shared(here).address.0),
            keys: (WriterKey(writer.to_bytes()), ReaderKey(reader.to_bytes())),
        }
    }

    fn ask(&self) -> Connecting {
        self.reader.connector().connect(self.address, self.keys.0, self.keys.1).unwrap()
    }
}

/// `None` for a refusal.
fn answer(mut connecting: Connecting) -> Option<Connection> {
    let mut connection = None;
    eventually("there is an answer", || match connecting.poll() {
        Ok(answered) => {
            connection = answered;
            connection.is_some()
        }
        Err(_) => true,
    });
    connection
}

/// The next thread that polls the writer's channels consumes a notification, which is not repeated.
#[test]
fn refused_reader_keeps_acknowledgements_of_others() {
    let sides = [participant(42, "here"), participant(42, "there")];
    let (writer, core, narrow) = narrow_pair(&sides);
    let other = topic(&sides[1]).reader_builder().best_effort().build().unwrap();
    eventually("both get samples by shared memory", || writer.shared_memory_readers() == 2);
    let stubborn = Stubborn::new(&sides[0], writer.guid(), other.guid());
    let connections: Vec<_> = std::iter::from_fn(|| answer(stubborn.ask())).take(200).collect();
    assert!(connections.len() < 200, "no writer has so many");
    let last = write_four(&writer);
    add_waiter(&core, Awaited::Acknowledged(last));
    let shared = shared(&sides[0]);
    let mut connections = lock_leaf(&shared.connections);
    let refused = stubborn.ask();
    assert_eq!(narrow.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value: 0 }));
    eventually("the next one is there, and its acknowledgement", || {
        let channels = lock_leaf(&core.outgoing.channels);
        let channels = channels.as_ref().unwrap();
        let channel = channels.channel_of(narrow.guid()).unwrap();
        channels.writer.ack_of(channel).is_none_or(|acknowledged| acknowledged >= 3)
    });
    shared.accept(&mut connections, &*sides[0].inner.domain);
    drop(connections);
    assert!(answer(refused).is_none());
    let is_acknowledged = || core.lock().writer.is_acknowledged_by_all(SequenceNumber(2));
    eventually("the control thread has heard of it", is_acknowledged);
}

/// Otherwise its descriptor would be reported for ever, and its memory would not be released.
#[test]
fn replaced_channel_is_polled_until_closed() {
    let sides = [participant(43, "here"), participant(43, "there")];
    let (writer, core, reader) = large_pair(&sides, |writer| writer.keep_all());
    // Too little memory for the trim timer.
    writer.write(&Block { octets: vec![1; 100_000] }).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let held = reader.take_loaned(&Selector::ANY).unwrap();
    assert_eq!(held.len(), 1);
    let stubborn = Stubborn::new(&sides[0], writer.guid(), reader.guid());
    let _connection = answer(stubborn.ask()).unwrap();
    let is_leaving =
        || lock_leaf(&core.outgoing.channels).as_ref().is_some_and(|channels| channels.writer.is_closing());
    assert!(is_leaving());
    drop(held);
    eventually("both sides have closed it", || !is_leaving());
}

/// Memory that other readers hold, or that the application has on loan, is released without a notification by the
/// waiting reader.
#[test]
fn reader_waiting_for_memory_resumes_after_any_release() {
    let sides = [participant(44, "here"), participant(44, "there")];
    let (writer, core, reader) = large_pair(&sides, |writer| writer.keep_all().shared_memory_bytes(600_000));
    let block = |value| Block { octets: vec![value; 100_000] };
    writer.write(&block(1)).unwrap();
    reader.wait_for_data(PATIENCE).unwrap();
    let held = reader.take_loaned(&Selector::ANY).unwrap();
    assert_eq!(held.len(), 1);
    let lent: Vec<_> = std::iter::from_fn(|| core.loan_slot(100_000)).take(20).collect();
    assert!((1..20).contains(&lent.len()), "{} slots", lent.len());
    writer.write(&block(2)).unwrap();
    eventually("there is no room", || core.is_without_room(reader.guid()));
    // All earlier notifications of the reader are consumed.
    shared(&sides[0]).poll_connections();
    eventually("there is no room", || core.is_without_room(reader.guid()));
    lent.into_iter().for_each(PayloadSlot::give_back);
    assert!(reader.wait_and_take(PATIENCE).unwrap().into_value() == Some(block(2)));
    drop(held);
}

/// Samples that were gathered while the reader got messages precede those by shared memory.
#[test]
fn ready_reader_gets_gathered_samples_first() {
    let sides = [participant(45, "here"), participant(45, "there")];
    // The reader's side does not answer yet.
    let leading = shared(&sides[1]).incoming.try_lead().expect("no thread takes yet");
    let writer = topic(&sides[0]).writer_builder().best_effort().batching(1000, PATIENCE).build().unwrap();
    let reader = topic(&sides[1]).reader_builder().keep_all().build().unwrap();
    let core = Arc::clone(sides[0].inner.core.lock().writers.get(&writer.guid().entity).unwrap());
    eventually("the writer has a channel", || {
        lock_leaf(&core.outgoing.channels).as_ref().is_some_and(|channels| channels.channel_of(reader.guid()).is_some())
    });
    let connections = lock_leaf(&shared(&sides[0]).connections);
    drop(leading);
    (0..2).for_each(|value| _ = writer.write(&Number { value }).unwrap());
    eventually("it is ready", || !core.poll_channels(None).ready.is_empty());
    writer.write(&Number { value: 2 }).unwrap();
    eventually("they have left", || !core.lock().messages_first);
    core.after();
    drop(connections);
    for value in 0..3 {
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value }));
    }
}

/// The reader has room again although no thread has taken a sample.
#[test]
fn expired_samples_release_waiting_acknowledgement() {
    let sides = [participant(46, "here"), participant(46, "there")];
    let limits = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    let qos = DataWriterQos {
        reliability: Reliability::RELIABLE,
        history: History::KeepAll,
        lifespan: Lifespan { duration: Span::from_millis(200) },
        ..DataWriterQos::default()
    };
    let writer = topic(&sides[0]).writer_builder().qos(qos).build().unwrap();
    let _reader = topic(&sides[1]).reader_builder().reliable().keep_all().resource_limits(limits).build().unwrap();
    eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    (0..2).for_each(|value| _ = writer.write(&Number { value }).unwrap());
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

/// The writer was notified of room that an earlier write then took. The reader notifies once per request, so the writer
/// must ask again.
#[test]
fn writer_asks_again_when_room_is_taken() {
    let sides = [participant(47, "here"), participant(47, "there")];
    let limits = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().resource_limits(limits).build().unwrap();
    let reader = topic(&sides[1]).reader_builder().reliable().keep_all().resource_limits(limits).build().unwrap();
    eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    let core = Arc::clone(sides[0].inner.core.lock().writers.get(&writer.guid().entity).unwrap());
    let first = writer.write(&Number { value: 0 }).unwrap();
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert!(writer.write(&Number { value: 1 }).unwrap() > first);
    let payload = Payload::default();
    let change =
        Change { kind: ChangeKind::Alive, instance: KeyHash::NIL, source_timestamp: Timestamp::INVALID, payload };
    add_waiter(&core, Awaited::Room);
    let has_room = || {
        let mut state = core.lock();
        core.spill_to_history(&mut state);
        core.sync_demand(&mut state);
        state.has_room(&change)
    };
    // Holding this lock keeps the control thread from polling the connections.
    let connections = lock_leaf(&shared(&sides[0]).connections);
    assert!(!has_room());
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value: 0 }));
    eventually("the second one is acknowledged", has_room);
    drop(connections);
}
