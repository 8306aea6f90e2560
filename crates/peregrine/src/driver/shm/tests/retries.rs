//! Readers that request a channel again after a failure.

use super::super::requests::{ChannelKey, ChannelRequest, RETRY_AFTER, RETRY_AFTER_MAX, ReaderRequest, Retries};
use super::*;
use crate::NoSharedMemory;

fn wanted(reader: &Arc<ReaderCore>, attempts: u8) -> ChannelRequest {
    let request = ReaderRequest {
        core: Arc::downgrade(reader),
        guid: reader.guid,
        until: now(),
        attempts,
        is_reported: false,
        is_demanded: false,
    };
    ChannelRequest { key: ChannelKey { writer: stranger(1), is_reliable: true }, at: silent().1, reader: request }
}

fn retries(shared: &SharedMemory) -> usize {
    lock(&shared.connect_queue).retries.len()
}

/// The next paths that the participant reports.
pub(super) fn next_paths<const N: usize>(events: &mut crate::DiscoveryEvents) -> [DeliveryPath; N] {
    std::array::from_fn(|_| {
        loop {
            if let DiscoveryEvent::PathChanged { path, .. } = events.wait_next(PATIENCE).expect("a path is reported") {
                break path;
            }
        }
    })
}

#[test]
fn each_failure_in_a_row_doubles_the_pause_up_to_its_maximum() {
    let participant = participant(210, "pauses");
    let reader = reader(&participant);
    let core = core_of(&participant, &reader);
    let start = now();
    let pause_after = |attempts| {
        let mut retries = Retries::default();
        retries.add(start, wanted(&core, attempts));
        retries.due().unwrap().since(start)
    };
    assert_eq!([1, 2, 3].map(pause_after), [RETRY_AFTER, Span(RETRY_AFTER.0 * 2), Span(RETRY_AFTER.0 * 4)]);
    assert_eq!([40, u8::MAX].map(pause_after), [RETRY_AFTER_MAX; 2]);
}

#[test]
fn retries_are_taken_when_due_and_removed_with_their_reader_or_pair() {
    let participant = participant(211, "due");
    let readers = [reader(&participant), reader(&participant)];
    let [one, other] = readers.each_ref().map(|reader| core_of(&participant, reader));
    let (mut retries, start) = (Retries::default(), now());
    retries.add(start, wanted(&one, 1));
    retries.add(start, wanted(&one, 2));
    retries.add(start, wanted(&other, 3));
    assert_eq!(retries.len(), 2, "one for each pair");
    assert!(retries.take_due(start).is_empty());
    let due = retries.take_due(start + Span(RETRY_AFTER.0 * 2));
    assert_eq!(due.iter().map(|wanted| wanted.reader.guid).collect::<Vec<_>>(), [one.guid]);
    assert_eq!(retries.due(), Some(start + Span(RETRY_AFTER.0 * 4)));
    retries.remove(other.guid, Some(stranger(2)));
    assert_eq!(retries.len(), 1);
    retries.remove(other.guid, Some(stranger(1)));
    assert_eq!((retries.len(), retries.due()), (0, None));
    retries.add(start, wanted(&one, 1));
    retries.remove(one.guid, None);
    assert_eq!((retries.len(), retries.due()), (0, None));
}

/// Under `Poll`, no thread executes the commands while the application does not poll.
#[test]
fn reader_that_finds_the_queue_of_commands_full_joins_later() {
    let sides = [participant(212, "here"), participant_that_waits(212, "there", WaitStrategy::Poll)];
    let [here, there] = &sides;
    let writer = topic(here).writer_builder().reliable().keep_last(4).build().unwrap();
    let _first = reader(there);
    let is_reached_by = |count| {
        there.poll(Duration::from_millis(1));
        writer.shared_memory_readers() == count
    };
    eventually("the first one has a channel", || is_reached_by(1));
    let incoming = &shared(there).incoming;
    (0..2 * COMMANDS_MAX).for_each(|_| incoming.remove(stranger(1), None));
    let mut events = there.discovery_events();
    let second = reader(there);
    shared(there).request_at(&core_of(there, &second), writer.guid(), shared(here).announcement());
    shared(there).poll_connections();
    let [DeliveryPath::Messages(NoSharedMemory::NotConnected(reason))] = next_paths(&mut events) else {
        panic!("the reader gets messages")
    };
    assert!(reason.contains(&format!("{COMMANDS_MAX} changes of channels wait")), "{reason}");
    eventually("the second one has joined", || is_reached_by(2));
    // The match, which discovery may find while the queue is full, requests the channel as well.
    assert!((1..=2).contains(&there.shared_memory_statistics().fallbacks));
    assert_eq!(retries(shared(there)), 0);
}

#[test]
fn reader_whose_channel_was_rejected_gets_another_one() {
    let sides = [participant(213, "here"), participant(213, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_last(4).build().unwrap();
    let mut events = sides[1].discovery_events();
    let reader = reader(&sides[1]);
    eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    let core = Arc::clone(sides[0].inner.core.lock().writers.get(&writer.guid().entity).unwrap());
    let reject = || {
        let mut channels = lock_leaf(&core.outgoing.channels);
        let channels = channels.as_mut().unwrap();
        let channel = channels.channel_of(reader.guid()).unwrap();
        channels.writer.reject(channel, "the test says so");
    };
    reject();
    shared(&sides[0]).note_ended(writer.guid());
    let [first, fallback, second] = next_paths(&mut events);
    assert_eq!([first, second], [DeliveryPath::SharedMemory, DeliveryPath::SharedMemory]);
    assert!(matches!(fallback, DeliveryPath::Messages(_)), "{fallback:?}");
    eventually("the writer uses the new channel", || writer.shared_memory_readers() == 1);
    writer.write(&Number { value: 7 }).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value: 7 }));
    assert_eq!(sides[1].shared_memory_statistics().fallbacks, 1);
}

#[test]
fn reader_of_a_writer_without_shared_memory_requests_no_channel_again() {
    let sides = [participant(214, "here"), participant(214, "there")];
    let mut events = sides[1].discovery_events();
    let writer = topic(&sides[0]).writer_builder().reliable().shared_memory_bytes(0).build().unwrap();
    let reader = reader(&sides[1]);
    let [path] = next_paths(&mut events);
    assert!(matches!(path, DeliveryPath::Messages(NoSharedMemory::Refused(_))), "{path:?}");
    writer.write(&Number { value: 7 }).unwrap();
    assert_eq!(reader.wait_and_take(PATIENCE).unwrap().into_value(), Some(Number { value: 7 }));
    assert_eq!((retries(shared(&sides[1])), shared(&sides[1]).deadline()), (0, NEVER));
}

/// The reader would ask for ever otherwise: nothing cancels requests after the end of a match.
#[test]
fn reader_unmatched_while_its_request_failed_requests_no_channel_again() {
    let participant = participant(215, "unmatched");
    let (reader, shared) = (reader(&participant), shared(&participant));
    let core = core_of(&participant, &reader);
    shared.fall_back(wanted(&core, 1), NoSharedMemory::Ended);
    assert_eq!(retries(shared), 1);
    eventually("the retry is dropped", || retries(shared) == 0);
    eventually("nothing is requested", || shared.deadline() == NEVER && asked(shared) == 0);
}
