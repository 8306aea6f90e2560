//! Several readers of one process that share the channel from a writer.

use std::sync::mpsc;

use peregrine_rtps::writer::{MatchedReader, SampleFilter};
use peregrine_transport::shm::{USER_WORDS, UserMessage};

use super::super::incoming::BACKLOG_MAX;
use super::*;
use crate::driver::route::shm::attachment::{Attachment, AttachmentKind};
use crate::qos::Durability;

const COUNT: u64 = 500;

fn narrow(participant: &DomainParticipant) -> DataReader<Number> {
    let limits = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    topic(participant).reader_builder().reliable().keep_all().resource_limits(limits).build().unwrap()
}

fn wide(participant: &DomainParticipant) -> DataReader<Number> {
    topic(participant).reader_builder().reliable().keep_all().build().unwrap()
}

fn writer_core(participant: &DomainParticipant, writer: &DataWriter<Number>) -> Arc<WriterCore> {
    Arc::clone(participant.inner.core.lock().writers.get(&writer.guid().entity).unwrap())
}

fn write(writer: &DataWriter<Number>, values: std::ops::Range<u64>) {
    values.for_each(|value| _ = writer.write(&Number { value }).unwrap());
}

fn expect(reader: &DataReader<Number>, values: std::ops::Range<u64>) {
    for value in values {
        assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value }));
    }
}

fn await_readers(writer: &DataWriter<Number>, readers: usize) {
    eventually("all get samples by shared memory", || writer.shared_memory_readers() == readers);
}

/// Number of channels between the processes.
fn channels(core: &WriterCore) -> usize {
    lock_leaf(&core.outgoing.channels).as_ref().map_or(0, |channels| channels.channel_count())
}

#[test]
fn readers_of_one_process_share_one_channel_for_each_reliability() {
    let sides = [participant(50, "here"), participant(50, "there")];
    let writers: Vec<_> =
        (0..10).map(|_| topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap()).collect();
    let reliable: Vec<_> = (0..20).map(|_| wide(&sides[1])).collect();
    let best_effort: Vec<_> =
        (0..5).map(|_| topic(&sides[1]).reader_builder().best_effort().keep_all().build().unwrap()).collect();
    for writer in &writers {
        await_readers(writer, 25);
        assert_eq!(channels(&writer_core(&sides[0], writer)), 2);
    }
    for (place, writer) in writers.iter().enumerate() {
        writer.write(&Number { value: place as u64 }).unwrap();
    }
    for reader in reliable.iter().chain(&best_effort) {
        let mut values: Vec<_> =
            (0..10).map(|_| reader.wait_and_take(PATIENCE).unwrap().into_value().unwrap().value).collect();
        values.sort_unstable();
        assert!(values.into_iter().eq(0..10));
    }
    let statistics = sides.each_ref().map(|side| side.shared_memory_statistics());
    assert_eq!((statistics[0].sent, statistics[1].received), (250, 250));
    assert_eq!((statistics[0].fallbacks, statistics[1].fallbacks), (0, 0));
}

#[test]
fn sample_in_the_backlog_is_a_sign_of_life_when_it_comes_and_not_when_it_is_taken() {
    let sides = [participant(72, "here"), participant(72, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let reader = narrow(&sides[1]);
    await_readers(&writer, 1);
    let core = core_of(&sides[1], &reader);
    let heard_at = || core.lock().last_heard.at(writer.guid().prefix);
    write(&writer, 0..1);
    eventually("the first sample", || heard_at().is_some() && core.status().untaken_samples == 1);
    let first_at = heard_at();
    write(&writer, 1..2);
    eventually("the second sample, for which there is no room", || heard_at() > first_at);
    let second_at = heard_at();
    expect(&reader, 0..2);
    assert_eq!(heard_at(), second_at);
}

#[test]
fn reader_without_room_does_not_stop_others_of_its_channel() {
    let sides = [participant(51, "here"), participant(51, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let (full, other) = (narrow(&sides[1]), wide(&sides[1]));
    await_readers(&writer, 2);
    write(&writer, 0..COUNT);
    expect(&other, 0..COUNT);
    // The backlog of the reader is full: the writer delivers the rest again.
    expect(&full, 0..COUNT);
    write(&writer, COUNT..2 * COUNT);
    expect(&full, COUNT..2 * COUNT);
    expect(&other, COUNT..2 * COUNT);
    assert!(full.take().unwrap().is_empty() && other.take().unwrap().is_empty());
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(sides[0].shared_memory_statistics().fallbacks, 0);
}

#[test]
fn all_readers_without_room_get_every_sample() {
    let sides = [participant(52, "here"), participant(52, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let readers: Vec<_> = (0..4).map(|_| narrow(&sides[1])).collect();
    await_readers(&writer, 4);
    write(&writer, 0..COUNT);
    for value in 0..COUNT {
        readers.iter().for_each(|reader| expect(reader, value..value + 1));
    }
    write(&writer, 0..COUNT);
    readers.iter().for_each(|reader| expect(reader, 0..COUNT));
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

#[test]
fn reader_behind_more_siblings_than_may_ask_at_once_gets_every_sample() {
    let sides = [participant(65, "here"), participant(65, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let readers: Vec<_> = (0..=UNANSWERED_MAX).map(|_| narrow(&sides[1])).collect();
    await_readers(&writer, readers.len());
    // The last reader of the channel: what it has, the others have got as well.
    let last = wide(&sides[1]);
    await_readers(&writer, readers.len() + 1);
    // One sample in the cache of each reader, a full backlog, and one more.
    let held = 1 + BACKLOG_MAX as u64;
    write(&writer, 0..held + 1);
    expect(&last, 0..held + 1);
    // Rewinds are not answered while another thread holds the lock of the writer.
    let core = writer_core(&sides[0], &writer);
    let (locked, is_locked) = mpsc::sync_channel(1);
    let (release, released) = mpsc::sync_channel::<()>(1);
    let holder = std::thread::spawn(move || {
        let guard = core.lock();
        locked.send(()).unwrap();
        let _ = released.recv_timeout(PATIENCE);
        drop(guard);
    });
    is_locked.recv_timeout(PATIENCE).unwrap();
    readers.iter().for_each(|reader| expect(reader, 0..held));
    drop(release);
    holder.join().unwrap();
    readers.iter().for_each(|reader| expect(reader, held..held + 1));
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

#[test]
fn late_joiner_gets_history_that_its_siblings_have() {
    let sides = [participant(53, "here"), participant(53, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().transient_local().keep_all().build().unwrap();
    let durable = || topic(&sides[1]).reader_builder().reliable().transient_local().keep_all().build().unwrap();
    let first = durable();
    await_readers(&writer, 1);
    write(&writer, 0..COUNT);
    expect(&first, 0..COUNT);
    let second = durable();
    expect(&second, 0..COUNT);
    let volatile = wide(&sides[1]);
    await_readers(&writer, 3);
    write(&writer, COUNT..2 * COUNT);
    for reader in [&first, &second, &volatile] {
        expect(reader, COUNT..2 * COUNT);
        assert!(reader.take().unwrap().is_empty());
    }
    assert_eq!(channels(&writer_core(&sides[0], &writer)), 1);
    assert_eq!(volatile.qos().durability, Durability::Volatile);
}

#[test]
fn removed_reader_does_not_delay_its_siblings() {
    let sides = [participant(54, "here"), participant(54, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let stays = wide(&sides[1]);
    await_readers(&writer, 1);
    let mut value = 0;
    for round in 0..30 {
        // The first reader of the channel leaves like any other.
        let leaves = if round % 2 == 0 { narrow(&sides[1]) } else { wide(&sides[1]) };
        if round % 3 == 0 {
            await_readers(&writer, 2);
        }
        write(&writer, value..value + 50);
        if round % 4 == 0 {
            expect(&stays, value..value + 50);
        }
        drop(leaves);
        if round % 4 != 0 {
            expect(&stays, value..value + 50);
        }
        value += 50;
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    await_readers(&writer, 1);
    assert!(stays.take().unwrap().is_empty());
}

#[test]
fn first_reader_leaves_and_others_keep_the_channel() {
    let sides = [participant(55, "here"), participant(55, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let first = wide(&sides[1]);
    await_readers(&writer, 1);
    let core = writer_core(&sides[0], &writer);
    let channel = lock_leaf(&core.outgoing.channels).as_ref().unwrap().channel_of(first.guid());
    let others = [wide(&sides[1]), wide(&sides[1])];
    await_readers(&writer, 3);
    drop(first);
    await_readers(&writer, 2);
    write(&writer, 0..COUNT);
    for other in &others {
        expect(other, 0..COUNT);
        assert_eq!(lock_leaf(&core.outgoing.channels).as_ref().unwrap().channel_of(other.guid()), channel);
    }
}

/// The writer dismisses one reader, as when the application ignores it. Other readers are not affected.
#[test]
fn unmatched_reader_is_dismissed_from_its_channel() {
    let sides = [participant(56, "here"), participant(56, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let (ignored, other) = (wide(&sides[1]), wide(&sides[1]));
    await_readers(&writer, 2);
    eventually("the reader process knows", || sides[1].shared_memory_statistics().writers == 2);
    writer_core(&sides[0], &writer).unmatch_reader(now(), ignored.guid());
    eventually("the reader process knows", || sides[1].shared_memory_statistics().writers == 1);
    write(&writer, 0..COUNT);
    expect(&other, 0..COUNT);
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(writer.shared_memory_readers(), 1);
}

/// The writer process ignores four readers. Other readers, which wait for the answer to one of these, get shared
/// memory.
#[test]
fn refused_readers_do_not_keep_shared_memory_from_others() {
    let sides = [participant(61, "here"), participant(61, "there")];
    let ignored: Vec<_> = (0..4).map(|_| wide(&sides[1])).collect();
    let other = wide(&sides[1]);
    let known_readers = || sides[0].inner.core.lock().rtps.remote_subscriptions().count();
    eventually("the readers are known", || known_readers() == 5);
    // No request is answered before the writer has left the readers.
    let connections = lock_leaf(&shared(&sides[0]).connections);
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    for reader in &ignored {
        eventually("the writer matches the reader", || writer.matched_subscriptions().contains(&reader.guid()));
        writer_core(&sides[0], &writer).unmatch_reader(now(), reader.guid());
    }
    drop(connections);
    eventually("the other reader is attached", || {
        // Refuses the requests that wait for a match.
        shared(&sides[0]).poll_connections_at(now() + Span::from_secs(11));
        writer.shared_memory_readers() == 1
    });
    write(&writer, 0..COUNT);
    expect(&other, 0..COUNT);
}

/// Whether the number is even.
#[derive(Debug)]
struct Even;

impl SampleFilter for Even {
    fn matches(&self, payload: &[u8]) -> bool {
        payload.get(4).is_some_and(|low| low.is_multiple_of(2))
    }
}

#[test]
fn readers_with_a_content_filter_get_messages_beside_siblings_with_shared_memory() {
    let sides = [participant(62, "here"), participant(62, "there")];
    let (filtered, other) = ([wide(&sides[1]), wide(&sides[1])], wide(&sides[1]));
    let known_readers = || sides[0].inner.core.lock().rtps.remote_subscriptions().count();
    eventually("the readers are known", || known_readers() == 3);
    // The writer knows the filters before the first request for shared memory is sent.
    let connections = shared(&sides[1]).connections();
    // A thread that holds the lock must not create writers: that may run user code.
    let create = || topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let writer = std::thread::scope(|scope| scope.spawn(create).join().unwrap());
    let core = writer_core(&sides[0], &writer);
    eventually("the writer matches the readers", || writer.matched_subscriptions().len() == 3);
    let known: Vec<_> = core.lock().writer.matched_readers().cloned().collect();
    for reader in known.into_iter().filter(|reader| reader.guid != other.guid()) {
        core.match_reader(now(), MatchedReader { filter: Some(Arc::new(Even)), ..reader });
    }
    drop(connections);
    await_readers(&writer, 1);
    write(&writer, 0..COUNT);
    expect(&other, 0..COUNT);
    for value in (0..COUNT).step_by(2) {
        filtered.iter().for_each(|reader| expect(reader, value..value + 1));
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
    assert_eq!(writer.shared_memory_readers(), 1);
    assert!(filtered.iter().all(|reader| reader.take().unwrap().is_empty()));
}

#[test]
fn best_effort_readers_of_one_channel_see_samples_in_order() {
    let sides = [participant(57, "here"), participant(57, "there")];
    let writer = topic(&sides[0]).writer_builder().best_effort().build().unwrap();
    let limits = ResourceLimits { max_samples: Limit::At(1), ..ResourceLimits::default() };
    let best_effort = || topic(&sides[1]).reader_builder().best_effort().keep_all();
    let full = best_effort().resource_limits(limits).build().unwrap();
    let others = [best_effort().build().unwrap(), best_effort().build().unwrap()];
    await_readers(&writer, 3);
    for value in 0..COUNT {
        writer.write(&Number { value }).unwrap();
        others.iter().for_each(|other| expect(other, value..value + 1));
    }
    // A best-effort reader loses samples for which it has no room.
    expect(&full, 0..1);
    write(&writer, COUNT..COUNT + 1);
    expect(&full, COUNT..COUNT + 1);
    others.iter().for_each(|other| expect(other, COUNT..COUNT + 1));
}

/// A reader, with the first sample after the writer has matched it. Before, it may see some messages for its siblings.
struct Follower {
    reader: DataReader<Number>,
    relevant: u64,
    next: u64,
}

impl Follower {
    fn take(&mut self, most: usize) {
        for _ in 0..most {
            let Some(sample) = self.reader.take_next().unwrap() else { return };
            let value = sample.into_value().unwrap().value;
            assert!(
                value == self.next || self.next < self.relevant && value <= self.relevant,
                "{value} for {}",
                self.next
            );
            self.next = value + 1;
        }
    }
}

/// Readers are added and removed, and take or do not take; each remaining reader gets all samples once and in order.
#[test]
fn changing_readers_get_samples_once_and_in_order() {
    for seed in 0..4 {
        let sides = [participant(58, "here"), participant(58, "there")];
        let mut random = fastrand::Rng::with_seed(seed);
        let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
        let mut followers: Vec<Follower> = Vec::new();
        let mut written = 0;
        for _ in 0..400 {
            match random.u8(..10) {
                0 if followers.len() < 8 => {
                    let reader = if random.bool() { narrow(&sides[1]) } else { wide(&sides[1]) };
                    eventually("the writer matches the reader", || {
                        writer.matched_subscriptions().contains(&reader.guid())
                    });
                    followers.push(Follower { reader, relevant: written, next: 0 });
                }
                1 if !followers.is_empty() => drop(followers.swap_remove(random.usize(..followers.len()))),
                2 => await_readers(&writer, followers.len()),
                3..6 => followers.iter_mut().filter(|_| random.bool()).for_each(|follower| follower.take(20)),
                _ => {
                    let more = random.u64(1..60);
                    write(&writer, written..written + more);
                    written += more;
                }
            }
        }
        await_readers(&writer, followers.len());
        write(&writer, written..written + 1);
        for follower in &mut followers {
            eventually("each has the last sample", || {
                follower.take(usize::MAX);
                follower.next == written + 1
            });
        }
        writer.wait_for_acknowledgments(PATIENCE).unwrap();
    }
}

/// A process that violates the protocol loses its channel. Readers of other processes are not affected.
#[test]
fn protocol_violation_ends_only_the_channel_of_its_process() {
    let hostile = [
        UserMessage([0; USER_WORDS]),
        UserMessage([u64::MAX; USER_WORDS]),
        Attachment { index: 0, kind: AttachmentKind::Accepted }.encode(),
        Attachment { index: 1, kind: AttachmentKind::Dismissed }.encode(),
        // The index of the first reader.
        Attachment { index: 0, kind: AttachmentKind::Attach { reader: stranger(1) } }.encode(),
    ];
    let sides = [participant(59, "here"), participant(59, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let (good, bad) = (wide(&sides[1]), topic(&sides[1]).reader_builder().best_effort().build().unwrap());
    await_readers(&writer, 2);
    let core = writer_core(&sides[0], &writer);
    for message in hostile {
        let mut stubborn = Stubborn::new(&sides[0], writer.guid(), bad.guid());
        let connection = answer(stubborn.ask()).unwrap();
        let id = stubborn.reader.add(connection).unwrap();
        assert_eq!(channels(&core), 2);
        assert!(stubborn.reader.send_messages(id, &[message]));
        eventually("the channel has ended", || channels(&core) == 1);
        eventually("the hostile process sees the end", || {
            stubborn.reader.service();
            while let Ok(Some(_)) = stubborn.reader.take() {}
            stubborn.reader.poll_gone().is_some_and(|gone| gone.writer == id)
        });
    }
    write(&writer, 0..COUNT);
    expect(&good, 0..COUNT);
}

/// A process may attach readers that the writer never matches, and send messages about unknown readers. The number of
/// waiting requests is bounded, and each one is answered: the reader is dismissed, or the channel ends if the process
/// does not read the answers as fast as it asks.
#[test]
fn flood_of_attachments_is_bounded() {
    let sides = [participant(60, "here"), participant(60, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_all().build().unwrap();
    let (good, bad) = (wide(&sides[1]), topic(&sides[1]).reader_builder().best_effort().build().unwrap());
    await_readers(&writer, 2);
    let mut stubborn = Stubborn::new(&sides[0], writer.guid(), bad.guid());
    let connection = answer(stubborn.ask()).unwrap();
    let id = stubborn.reader.add(connection).unwrap();
    let mut index = 0;
    eventually("the writer process dismisses readers or ends the channel", || {
        index += 1;
        let message = Attachment { index, kind: AttachmentKind::Attach { reader: stranger(1) } }.encode();
        let ready = Attachment { index: index * 7, kind: AttachmentKind::Ready }.encode();
        // The link is full until the writer process has read it.
        if !stubborn.reader.send_messages(id, &[message, ready]) {
            std::thread::yield_now();
        }
        stubborn.reader.service();
        let (_, answers) = stubborn.reader.poll_messages().unwrap_or((id, Vec::new()));
        let is_dismissed = |answer| Attachment::decode(answer).unwrap().kind == AttachmentKind::Dismissed;
        // Without samples, only `take` notices that a channel has ended.
        while let Ok(Some(_)) = stubborn.reader.take() {}
        answers.into_iter().any(is_dismissed) || stubborn.reader.poll_gone().is_some_and(|gone| gone.writer == id)
    });
    let connections = lock_leaf(&shared(&sides[0]).connections);
    assert!(connections.waiting_count() <= WAITING_MAX);
    drop(connections);
    write(&writer, 0..COUNT);
    expect(&good, 0..COUNT);
}
