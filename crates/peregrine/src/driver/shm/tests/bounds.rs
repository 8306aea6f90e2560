//! Queues of shared memory that peers, or many endpoints, fill to their bounds.

use peregrine_transport::shm::WriterId;

use super::*;
use crate::driver::host::SharedMemoryHost;
use crate::driver::route::shm::attachment::{Attachment, AttachmentKind};
use crate::driver::route::shm::outgoing::CHANNELS_MAX;

fn writer_core(participant: &DomainParticipant, writer: &DataWriter<Number>) -> Arc<WriterCore> {
    Arc::clone(participant.inner.core.lock().writers.get(&writer.guid().entity).unwrap())
}

fn best_effort(participant: &DomainParticipant) -> DataReader<Number> {
    topic(participant).reader_builder().best_effort().build().unwrap()
}

/// A participant that connects to no writer: a test does so in its place.
fn without_shared_memory(domain: u32) -> DomainParticipant {
    participant_with(domain, "there", DomainConfig { shared_memory: false, ..DomainConfig::default() })
}

/// A connection to `writer` for `reader`.
fn connect(here: &DomainParticipant, writer: Guid, reader: Guid) -> (peregrine_transport::shm::Reader, WriterId) {
    let Stubborn { mut reader, address, keys } = Stubborn::new(here, writer, reader);
    let connection = answer(reader.connector().connect(address, keys.0, keys.1).unwrap()).unwrap();
    let id = reader.add(connection).unwrap();
    (reader, id)
}

/// The writer never matches the readers of these requests.
#[test]
fn requests_to_attach_past_the_bound_are_dismissed() {
    let sides = [participant(68, "here"), without_shared_memory(68)];
    let writer = topic(&sides[0]).writer_builder().reliable().build().unwrap();
    let reader = best_effort(&sides[1]);
    writer.wait_for_readers(1, PATIENCE).unwrap();
    let (mut hostile, id) = connect(&sides[0], writer.guid(), reader.guid());
    let shared = shared(&sides[0]);
    let mut attach = |index: usize| {
        let kind = AttachmentKind::Attach { reader: stranger(1) };
        let message = Attachment { index: u32::try_from(index).unwrap(), kind }.encode();
        eventually("the link has room", || {
            shared.poll_connections();
            hostile.send_messages(id, &[message])
        });
    };
    (1..=WAITING_MAX).for_each(&mut attach);
    eventually("all of them wait", || {
        shared.poll_connections();
        shared.connections().waiting_count() == WAITING_MAX
    });
    attach(WAITING_MAX + 1);
    eventually("the next one is dismissed", || {
        shared.poll_connections();
        hostile.service();
        let (_, answers) = hostile.poll_messages().unwrap_or((id, Vec::new()));
        answers.into_iter().any(|answer| Attachment::decode(answer).unwrap().kind == AttachmentKind::Dismissed)
    });
    assert_eq!(shared.connections().waiting_count(), WAITING_MAX);
}

#[test]
fn channels_of_a_writer_past_the_bound_are_refused() {
    let sides = [participant(69, "here"), without_shared_memory(69)];
    let writer = topic(&sides[0]).writer_builder().reliable().build().unwrap();
    let readers: Vec<_> = (0..=CHANNELS_MAX).map(|_| best_effort(&sides[1])).collect();
    writer.wait_for_readers(readers.len(), PATIENCE).unwrap();
    let core = writer_core(&sides[0], &writer);
    let channels = || lock_leaf(&core.outgoing.channels).as_ref().unwrap().channel_count();
    let (last, others) = readers.split_last().unwrap();
    let _connections: Vec<_> = others.iter().map(|reader| connect(&sides[0], writer.guid(), reader.guid())).collect();
    assert_eq!(channels(), CHANNELS_MAX);
    assert!(answer(Stubborn::new(&sides[0], writer.guid(), last.guid()).ask()).is_none());
    assert_eq!(channels(), CHANNELS_MAX);
}

#[test]
fn writers_that_find_channels_ended_are_taken_from_their_list() {
    let participant = participant(70, "ended");
    let shared = shared(&participant);
    (1..=100).for_each(|number| shared.note_ended(stranger(number)));
    eventually("the list is empty", || shared.ended.is_empty());
}

/// The channel of the writer beyond the bound has ended like those of the writers in the list.
#[test]
fn channel_end_past_the_bound_of_the_list_falls_back_to_messages() {
    let (here, there) = (participant(77, "here"), participant(77, "there"));
    let writer = topic(&here).writer_builder().reliable().keep_last(4).build().unwrap();
    let reader = reader(&there);
    eventually("shared memory is used", || here.shared_memory_statistics().readers == 1);
    eventually("shared memory is used", || there.shared_memory_statistics().writers == 1);
    // The control thread polls nothing meanwhile.
    let connections = lock_leaf(&shared(&here).connections);
    (0..=u8::MAX).for_each(|high| {
        (0..8).for_each(|low| {
            let entity = EntityId([1, low, high, 3]);
            shared(&here).note_ended(Guid { entity, ..stranger(1) });
        });
    });
    shared(&there).incoming.remove(reader.guid(), Some(writer.guid()));
    eventually("the channel is closed", || there.shared_memory_statistics().writers == 0);
    (0..100).for_each(|value| drop(writer.write(&Number { value })));
    drop(connections);
    eventually("messages come", || {
        let mut samples = reader.take().unwrap().into_iter().filter_map(|sample| sample.into_value());
        samples.next_back() == Some(Number { value: 99 })
    });
}

#[test]
fn samples_retained_on_the_fast_path_are_as_many_as_the_history_may_hold() {
    let sides = [participant(74, "here"), participant(74, "there")];
    let writer = topic(&sides[0]).writer_builder().reliable().keep_last(4).build().unwrap();
    let _reader = reader(&sides[1]);
    eventually("shared memory is used", || writer.shared_memory_readers() == 1);
    let core = writer_core(&sides[0], &writer);
    let mut most = 0;
    for value in 0..1_000 {
        writer.write(&Number { value }).unwrap();
        most = most.max(lock_leaf(&core.outgoing.channels).as_ref().unwrap().kept.len());
    }
    // Acknowledgements release samples meanwhile.
    assert!((1..=4).contains(&most), "{most} samples");
}
