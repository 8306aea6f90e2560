use super::*;
use crate::shm::{Listener, Writer, WriterConfig};

#[test]
fn claimed_losses_saturate_the_counter() {
    assert_eq!(total_lost(3, [4, 5]), 12);
    assert_eq!(total_lost(u64::MAX - 1, [1, u64::MAX]), u64::MAX);
}

/// The listener and the writer of another process, and a connection to the writer.
fn connect(reader: &Reader, listener: &mut Listener, writer: &mut Writer) -> Connection {
    let mut connecting = reader.connect(listener.address(), WriterKey::default()).unwrap();
    writer.admit(listener.accept().unwrap().expect("the reader has connected"), Overflow::Block).unwrap();
    connecting.poll().unwrap().expect("the writer has answered")
}

#[test]
fn reader_with_too_many_unreported_ends_refuses_a_channel_until_they_are_polled() {
    let (mut listener, mut writer) =
        (Listener::new(Trust::SameUser).unwrap(), Writer::new(WriterConfig::default()).unwrap());
    let mut reader = Reader::new(ReaderConfig::default()).unwrap();
    let first = connect(&reader, &mut listener, &mut writer);
    let first = reader.add(first).unwrap();
    let end = WriterGone { writer: WriterId(u64::MAX), reason: Gone::Closed, lost: 0 };
    reader.gone.extend(std::iter::repeat_n(end, CHANNELS_MAX - 2));
    reader.remove(first);
    let last = connect(&reader, &mut listener, &mut writer);
    let last = reader.add(last).unwrap();
    let refused = connect(&reader, &mut listener, &mut writer);
    assert_eq!(reader.add(refused), Err(TooManyWriters::Channels));
    // The end of the last channel has its place in the queue.
    reader.remove(last);
    assert_eq!(reader.gone.len(), CHANNELS_MAX);
    assert!(reader.poll_gone().is_some());
    let accepted = connect(&reader, &mut listener, &mut writer);
    assert!(reader.add(accepted).is_ok());
}

#[test]
fn end_of_a_writer_is_found_while_another_one_always_has_samples() {
    let mut listener = Listener::new(Trust::SameUser).unwrap();
    let [mut busy, mut ending] = std::array::from_fn(|_| Writer::new(WriterConfig::default()).unwrap());
    let mut reader = Reader::new(ReaderConfig::default()).unwrap();
    let connections = [&mut busy, &mut ending].map(|writer| connect(&reader, &mut listener, writer));
    let [_, ended] = connections.map(|connection| reader.add(connection).unwrap());
    let publish = |writer: &mut Writer| {
        let slot = writer.loan(8).unwrap();
        writer.publish(slot, Metadata::default()).unwrap();
    };
    publish(&mut ending);
    drop(ending);
    reader.service();
    let mut from_ended = 0;
    for _ in 0..4 {
        publish(&mut busy);
        let sample = reader.take().unwrap().expect("the busy writer has a sample");
        from_ended += u32::from(sample.writer() == ended);
        // The last sample of a writer precedes its end.
        reader.look_for_ends();
        let gone = reader.poll_gone().map(|gone| gone.writer);
        assert!(gone.is_none_or(|writer| writer == ended && from_ended == 1), "{gone:?}, {from_ended}");
        if gone.is_some() {
            assert_eq!(reader.writers().count(), 1);
            return;
        }
    }
    panic!("the end was not found");
}
