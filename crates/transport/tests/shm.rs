//! Shared memory between a writer and its readers, all in this process: publishing, holding, evicting, freeing memory.
#![cfg(target_os = "linux")]

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event;
use peregrine_transport::shm::{
    ConnectError, Gone, Listener, LoanError, Metadata, Namespaces, Overflow, Reader, ReaderConfig, ReaderId, ReaderKey,
    Refusal, SLOT_ALIGN, Sample, SharedSlot, Trust, Wake, Writer, WriterConfig, WriterId, WriterKey,
};
use std::time::Duration;

struct Setup {
    listener: Listener,
    writer: Writer,
}

impl Setup {
    fn new(config: WriterConfig) -> Self {
        Self { listener: Listener::new(Trust::SameUser).unwrap(), writer: Writer::new(config).unwrap() }
    }

    fn admit(&mut self, reader: &mut Reader, overflow: Overflow) -> (ReaderId, WriterId) {
        let mut connecting = reader.connect(self.listener.address(), WriterKey([7; 16])).unwrap();
        let request = self.listener.accept().unwrap().expect("the reader has connected");
        assert_eq!(request.writer(), WriterKey([7; 16]));
        assert_eq!(request.peer().process, std::process::id() as i32);
        let reader_id = self.writer.admit(request, overflow).unwrap();
        let connection = connecting.poll().unwrap().expect("the writer has answered");
        (reader_id, reader.add(connection).unwrap())
    }

    fn publish(&mut self, number: u64, len: usize) {
        let mut slot = self.writer.loan(len).unwrap();
        slot.fill(number as u8);
        self.writer.publish(slot, Metadata([number; 5])).unwrap();
    }
}

fn reader() -> Reader {
    Reader::new(ReaderConfig::default()).unwrap()
}

fn number(sample: &Sample) -> u64 {
    let number = sample.metadata().0[0];
    assert_eq!(sample.metadata(), Metadata([number; 5]));
    assert!(sample.iter().all(|&byte| byte == number as u8), "sample {number} is torn");
    number
}

fn take(reader: &mut Reader) -> Option<u64> {
    reader.take().unwrap().map(|sample| number(&sample))
}

fn take_all(reader: &mut Reader) -> Vec<u64> {
    std::iter::from_fn(|| take(reader)).collect()
}

fn soon() -> MonotonicNs {
    MonotonicNs::now().after(Duration::from_secs(20))
}

#[test]
fn samples_of_any_length_arrive_in_order_at_every_reader() {
    let mut setup = Setup::new(WriterConfig::default());
    let mut readers = [reader(), reader()];
    for reader in &mut readers {
        setup.admit(reader, Overflow::Block);
    }
    let lengths = [32, 0, 1, 63, 64, 65, 1000, 63_000, 1 << 20, 52_428_800];
    for (number, len) in lengths.into_iter().enumerate() {
        setup.publish(number as u64, len);
    }
    for reader in &mut readers {
        for (index, len) in lengths.into_iter().enumerate() {
            let sample = reader.take().unwrap().expect("a sample was published");
            assert_eq!((number(&sample), sample.len()), (index as u64, len));
            assert_eq!(sample.as_ptr().addr() % SLOT_ALIGN, 0);
        }
        assert!(reader.take().unwrap().is_none());
    }
}

#[test]
fn readers_map_same_memory() {
    let mut setup = Setup::new(WriterConfig::default());
    let mut readers = [reader(), reader()];
    for reader in &mut readers {
        setup.admit(reader, Overflow::Block);
    }
    let kept = setup.writer.loan(4).unwrap().share();
    setup.writer.publish_shared(&kept, Metadata::default()).unwrap();
    let samples = readers.each_mut().map(|reader| reader.take().unwrap().unwrap());
    assert_eq!(setup.writer.statistics().slots_in_use, 1);
    drop((samples, kept));
    setup.writer.trim();
    assert_eq!(setup.writer.statistics().slots_in_use, 0);
}

#[test]
fn held_sample_stays_unchanged_while_thousands_follow() {
    let mut setup = Setup::new(WriterConfig { entries: 4, ..Default::default() });
    let mut reader = reader();
    setup.admit(&mut reader, Overflow::Block);
    setup.publish(0, 100);
    let held = reader.take().unwrap().unwrap();
    for round in 1..3000 {
        setup.publish(round, 100);
        assert_eq!(take(&mut reader), Some(round));
    }
    assert_eq!(number(&held), 0);
    assert_eq!(setup.writer.statistics().segments, 1, "slots are used again");
}

#[test]
fn full_blocking_reader_blocks_writer_until_it_takes() {
    let mut setup = Setup::new(WriterConfig { entries: 4, ..Default::default() });
    let mut reader = reader();
    setup.admit(&mut reader, Overflow::Block);
    (0..4).for_each(|number| setup.publish(number, 8));
    let mut slot = setup.writer.loan(8).unwrap();
    slot.fill(4);
    let error = setup.writer.publish(slot, Metadata([4; 5])).unwrap_err();
    assert!(error.to_string().contains("blocking reader is full"), "{error}");
    assert!(!setup.writer.wait_for_room(MonotonicNs::now()).unwrap());

    let thread = std::thread::spawn(move || {
        let mut numbers = Vec::new();
        while numbers.len() < 5 {
            assert_eq!(reader.wait(Duration::ZERO, Some(soon())), Wake::Ready);
            numbers.extend(take(&mut reader));
        }
        numbers
    });
    assert!(setup.writer.wait_for_room(soon()).unwrap());
    setup.writer.publish(error.slot, Metadata([4; 5])).unwrap();
    assert_eq!(thread.join().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(setup.writer.statistics().missed, 0);
}

#[test]
fn slow_evicting_reader_receives_last_samples() {
    let mut setup = Setup::new(WriterConfig { entries: 4, ..Default::default() });
    let mut reader = reader();
    let (_, writer) = setup.admit(&mut reader, Overflow::Evict);
    (0..11).for_each(|number| setup.publish(number, 8));
    assert_eq!(take_all(&mut reader), [7, 8, 9, 10]);
    assert_eq!(reader.statistics().lost, 7);
    assert_eq!(setup.writer.statistics().missed, 7);
    (11..13).for_each(|number| setup.publish(number, 8));
    assert_eq!(take_all(&mut reader), [11, 12]);
    drop(setup);
    reader.service();
    assert_eq!(take(&mut reader), None);
    let gone = reader.poll_gone().unwrap();
    assert_eq!((gone.writer, gone.reason, gone.lost), (writer, Gone::Ended, 7));
}

#[test]
fn paused_reader_takes_samples_of_an_ended_writer_later() {
    let mut setups = [Setup::new(WriterConfig::default()), Setup::new(WriterConfig::default())];
    let mut reader = reader();
    let ids = setups.each_mut().map(|setup| setup.admit(&mut reader, Overflow::Evict).1);
    for setup in &mut setups {
        (0..3).for_each(|number| setup.publish(number, 8));
    }
    reader.pause(ids[0], true);
    drop(setups);
    reader.service();
    assert_eq!(take_all(&mut reader), [0, 1, 2]);
    assert_eq!(reader.poll_gone().map(|gone| gone.writer), Some(ids[1]));
    assert_eq!((take(&mut reader), reader.poll_gone()), (None, None));
    reader.pause(ids[0], false);
    assert_eq!(take_all(&mut reader), [0, 1, 2]);
    assert_eq!(reader.poll_gone().map(|gone| (gone.writer, gone.reason)), Some((ids[0], Gone::Ended)));
}

#[test]
fn slow_reader_does_not_delay_others() {
    let mut setup = Setup::new(WriterConfig { entries: 2, ..Default::default() });
    let (mut slow, mut quick) = (reader(), reader());
    setup.admit(&mut slow, Overflow::Evict);
    setup.admit(&mut quick, Overflow::Block);
    for number in 0..100 {
        setup.publish(number, 8);
        assert_eq!(take(&mut quick), Some(number));
    }
    assert_eq!(take_all(&mut slow), [98, 99]);
}

#[test]
fn full_memory_evicts_samples_of_slow_readers() {
    let mut setup = Setup::new(WriterConfig { max_bytes: 10 << 20, ..Default::default() });
    let mut reader = reader();
    setup.admit(&mut reader, Overflow::Evict);
    for number in 0..50 {
        setup.publish(number, 3_000_000);
    }
    let statistics = setup.writer.statistics();
    assert!(statistics.bytes <= 10 << 20, "{statistics:?}");
    let numbers = take_all(&mut reader);
    assert_eq!(numbers, [47, 48, 49]);

    // Held samples cannot be evicted.
    for number in 0..3 {
        setup.publish(number, 3_000_000);
    }
    let held: Vec<Sample> = std::iter::from_fn(|| reader.take().unwrap()).collect();
    let error = setup.writer.loan(3_000_000).unwrap_err();
    assert!(matches!(error, LoanError::Exhausted { .. }), "{error}");
    assert!(matches!(setup.writer.loan(11 << 20).unwrap_err(), LoanError::TooLong { .. }));
    let thread = std::thread::spawn(move || drop(held));
    assert!(setup.writer.wait_for_slot(3_000_000, soon()).unwrap());
    thread.join().unwrap();
    // Unused memory is freed for slots of another size.
    assert!(setup.writer.loan(9 << 20).is_ok());
}

#[test]
fn unused_segments_are_unmapped_on_both_sides() {
    let mut setup = Setup::new(WriterConfig::default());
    let mut reader = reader();
    setup.admit(&mut reader, Overflow::Block);
    (0..5).for_each(|number| setup.publish(number, 5_000_000));
    assert_eq!(take_all(&mut reader).len(), 5);
    setup.publish(5, 32);
    let held = reader.take().unwrap().unwrap();
    assert_eq!((setup.writer.statistics().segments, reader.statistics().segments), (6, 6));
    assert_eq!(setup.writer.trim(), 5, "the segments were in use until now");
    assert_eq!(setup.writer.trim(), 0);
    assert_eq!((setup.writer.statistics().segments, setup.writer.awaits_returns()), (1, true));
    assert!(take(&mut reader).is_none());
    assert_eq!(reader.statistics().segments, 1);
    assert_eq!(number(&held), 5);
    drop(held);
    assert_eq!((setup.writer.trim(), setup.writer.awaits_returns()), (1, false));
    setup.publish(6, 5_000_000);
    assert_eq!(take(&mut reader), Some(6));
}

#[test]
fn sample_outlives_reader_and_writer() {
    let mut setup = Setup::new(WriterConfig::default());
    let mut reader = reader();
    setup.admit(&mut reader, Overflow::Block);
    (0..2).for_each(|number| setup.publish(number, 4096));
    let held = reader.take().unwrap().unwrap();
    drop(setup);
    reader.service();
    assert_eq!(take(&mut reader), Some(1), "the sample published before the end");
    assert_eq!(take(&mut reader), None);
    assert_eq!(reader.poll_gone().unwrap().reason, Gone::Ended);
    drop(reader);
    assert_eq!(number(&held), 0);
}

#[test]
fn retained_sample_can_be_sent_to_a_late_reader() {
    let mut setup = Setup::new(WriterConfig::default());
    let kept: Vec<SharedSlot> = (0..3)
        .map(|number| {
            let mut slot = setup.writer.loan(16).unwrap();
            slot.fill(number);
            slot.share()
        })
        .collect();
    let (mut early, mut late) = (reader(), reader());
    setup.admit(&mut early, Overflow::Block);
    for (number, slot) in kept.iter().enumerate() {
        setup.writer.publish_shared(slot, Metadata([number as u64; 5])).unwrap();
    }
    let (id, _) = setup.admit(&mut late, Overflow::Block);
    for (number, slot) in kept.iter().enumerate() {
        setup.writer.publish_to(id, slot, Metadata([number as u64; 5])).unwrap();
    }
    assert_eq!(take_all(&mut early), [0, 1, 2]);
    assert_eq!(take_all(&mut late), [0, 1, 2]);
    setup.writer.trim();
    assert_eq!(setup.writer.statistics().slots_in_use, 3);
    drop(kept);
    setup.writer.trim();
    assert_eq!(setup.writer.statistics().slots_in_use, 0);
    let slot = setup.writer.loan(1).unwrap().share();
    let error = setup.writer.publish_to(ReaderId(99), &slot, Metadata::default()).unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
}

#[test]
fn notification_read_by_another_call_is_kept() {
    let mut setup = Setup::new(WriterConfig { max_bytes: 1 << 20, ..WriterConfig::default() });
    let mut reader = reader();
    setup.admit(&mut reader, Overflow::Block);
    setup.publish(0, 600_000);
    setup.publish(1, 100);
    setup.writer.request_room_notification(true);
    let held = reader.take().unwrap().unwrap();
    assert_eq!(take(&mut reader), Some(1));
    assert!(!setup.writer.take_notified(), "no call has read the link");
    assert!(setup.writer.loan(600_000).is_err(), "the reader holds the slot");
    assert!(setup.writer.take_notified());
    assert!(!setup.writer.take_notified());
    assert_eq!(number(&held), 0);
}

#[test]
fn unpublished_slot_returns() {
    let mut setup = Setup::new(WriterConfig::default());
    let mut slot = setup.writer.loan(100).unwrap();
    let room = slot.room();
    assert!(room >= 100 && slot.len() == 100);
    slot.set_len(room).unwrap();
    assert!(slot.set_len(room + 1).unwrap_err().to_string().contains("loan a larger one"));
    drop(slot);
    setup.writer.trim();
    assert_eq!(setup.writer.statistics().slots_in_use, 0);

    let mut other = Writer::new(WriterConfig::default()).unwrap();
    let slot = other.loan(1).unwrap();
    let error = setup.writer.publish(slot, Metadata::default()).unwrap_err();
    assert!(error.to_string().contains("another writer"), "{error}");
}

#[test]
fn reader_at_its_hold_limit_gets_an_error_until_it_releases() {
    let mut setup = Setup::new(WriterConfig { max_holds: 2, ..Default::default() });
    let mut reader = reader();
    let (_, writer) = setup.admit(&mut reader, Overflow::Block);
    (0..3).for_each(|number| setup.publish(number, 8));
    let mut held = [reader.take().unwrap(), reader.take().unwrap()];
    assert_eq!(reader.take().unwrap_err().writer, writer);
    held[1] = None;
    assert_eq!(take(&mut reader), Some(2));
    assert_eq!(number(held[0].as_ref().unwrap()), 0);
}

#[test]
fn writers_take_turns() {
    let mut reader = reader();
    let mut setups = [(); 3].map(|()| Setup::new(WriterConfig::default()));
    let ids = setups.each_mut().map(|setup| setup.admit(&mut reader, Overflow::Block).1);
    for setup in &mut setups {
        (0..2).for_each(|number| setup.publish(number, 8));
    }
    let order: Vec<_> = std::iter::from_fn(|| reader.take().unwrap()).map(|s| (s.writer(), number(&s))).collect();
    let expected: Vec<_> = (0..2).flat_map(|number| ids.map(|id| (id, number))).collect();
    assert_eq!(order, expected);
}

#[test]
fn thread_that_sleeps_for_all_writers_is_woken_by_any() {
    const ROUNDS: u64 = 300;
    let mut reader = reader();
    let mut setups = [(); 2].map(|()| Setup::new(WriterConfig::default()));
    for setup in &mut setups {
        setup.admit(&mut reader, Overflow::Block);
    }
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            // The message about a new segment wakes the reader a moment before the first sample in it.
            let taken = loop {
                assert_eq!(reader.wait(Duration::ZERO, Some(soon())), Wake::Ready, "a wake-up was lost");
                if let Some(number) = take(&mut reader) {
                    break number;
                }
            };
            assert_eq!(taken, round);
            tell.send(()).unwrap();
        }
        reader
    });
    for round in 0..ROUNDS {
        setups[round as usize % 2].publish(round, 8);
        told.recv().unwrap();
    }
    let mut reader = thread.join().unwrap();
    // A reader that found a sample at each look has not read the message about its segment.
    assert_eq!(take(&mut reader), None);
    assert_eq!(reader.wait(Duration::ZERO, Some(MonotonicNs::now())), Wake::TimedOut);
    let interrupt = reader.interrupt();
    std::thread::spawn(move || interrupt.interrupt());
    assert_eq!(reader.wait(Duration::ZERO, None), Wake::Interrupted);
    assert_eq!(reader.wait(Duration::from_micros(50), Some(MonotonicNs::now())), Wake::TimedOut);
}

#[test]
fn awake_reader_is_not_woken() {
    let mut setup = Setup::new(WriterConfig::default());
    let mut reader = reader();
    setup.admit(&mut reader, Overflow::Block);
    (0..10).for_each(|number| setup.publish(number, 8));
    assert_eq!(reader.wait(Duration::ZERO, None), Wake::Ready);
    assert_eq!(take_all(&mut reader).len(), 10);
    assert_eq!((setup.writer.statistics().wakes, reader.statistics().sleeps), (0, 0));
}

#[test]
fn request_names_writer_and_reader() {
    let mut setup = Setup::new(WriterConfig::default());
    let reader = reader();
    let (writer, behalf) = (WriterKey([1; 16]), ReaderKey([2; 16]));
    let connecting = reader.connector().connect(setup.listener.address(), writer, behalf).unwrap();
    let request = setup.listener.accept().unwrap().expect("the reader has connected");
    assert_eq!((request.writer(), request.reader()), (writer, behalf));
    let own = std::process::id() as i32;
    assert_eq!((request.peer().process, connecting.peer().unwrap().process), (own, own));
    assert_eq!(Namespaces::current().unwrap().check(request.peer()), Ok(()));
}

#[test]
fn acknowledgement_reaches_writer() {
    let mut setup = Setup::new(WriterConfig::default());
    let mut reader = reader();
    let (reader_id, writer_id) = setup.admit(&mut reader, Overflow::Block);
    let ack = reader.ack_handle(writer_id).unwrap();
    let is_told = |writer: &Writer| {
        let descriptor = writer.descriptor(reader_id).unwrap();
        event::wait_readable(descriptor, MonotonicNs::now()).unwrap()
    };
    assert_eq!(setup.writer.ack_of(reader_id), Some(0));
    ack.set(3);
    assert_eq!(setup.writer.ack_of(reader_id), Some(3));
    assert!(!is_told(&setup.writer), "the writer has requested no notification");
    assert_eq!(setup.writer.request_ack_notification(reader_id, 5), Some(3));
    ack.set(4);
    assert!(!is_told(&setup.writer), "the acknowledgement is below the requested one");
    ack.set(5);
    assert!(is_told(&setup.writer));
    setup.writer.service();
    ack.set(6);
    assert!(!is_told(&setup.writer), "the writer was notified once");
    assert_eq!(setup.writer.request_ack_notification(reader_id, 6), Some(6));
    reader.remove(writer_id);
    drop(ack);
    drop(reader);
    setup.writer.service();
    assert_eq!((setup.writer.ack_of(reader_id), setup.writer.request_ack_notification(reader_id, 7)), (None, None));
}

#[test]
fn samples_of_a_paused_writer_wait_in_its_ring() {
    let mut setups = [0, 1].map(|_| Setup::new(WriterConfig::default()));
    let mut reader = reader();
    let [(_, first), _] = setups.each_mut().map(|setup| setup.admit(&mut reader, Overflow::Block));
    reader.pause(first, true);
    setups[0].publish(1, 10);
    assert_eq!(take(&mut reader), None);
    assert_eq!(reader.wait(Duration::ZERO, Some(MonotonicNs::now())), Wake::TimedOut);
    setups[1].publish(2, 10);
    assert_eq!(take_all(&mut reader), [2]);
    reader.pause(first, false);
    assert_eq!(reader.wait(Duration::ZERO, None), Wake::Ready);
    assert_eq!(take_all(&mut reader), [1]);
}

#[test]
fn requested_room_notification_arrives() {
    let mut setup = Setup::new(WriterConfig { entries: 2, ..Default::default() });
    let mut reader = reader();
    let (reader_id, _) = setup.admit(&mut reader, Overflow::Block);
    (0..2).for_each(|number| setup.publish(number, 10));
    let slot = setup.writer.loan(10).unwrap();
    let slot = setup.writer.publish(slot, Metadata::default()).unwrap_err().slot;
    setup.writer.request_room_notification(false);
    assert_eq!(take_all(&mut reader), [0, 1]);
    assert!(event::wait_readable(setup.writer.descriptor(reader_id).unwrap(), MonotonicNs::now()).unwrap());
    setup.writer.cancel_room_notification();
    setup.writer.service();
    setup.writer.publish(slot, Metadata::default()).unwrap();
}

#[test]
fn refused_request_states_the_reason() {
    let mut setup = Setup::new(WriterConfig { max_readers: 1, ..Default::default() });
    let mut reader = reader();
    setup.admit(&mut reader, Overflow::Block);
    let mut refused = reader.connect(setup.listener.address(), WriterKey::default()).unwrap();
    let request = setup.listener.accept().unwrap().unwrap();
    assert!(setup.writer.admit(request, Overflow::Block).is_err());
    assert!(matches!(refused.poll(), Err(ConnectError::Refused(Refusal::TooManyReaders))));

    let mut refused = reader.connect(setup.listener.address(), WriterKey::default()).unwrap();
    assert!(refused.poll().unwrap().is_none(), "no answer yet");
    setup.listener.accept().unwrap().unwrap().refuse(Refusal::NoSuchWriter);
    assert!(matches!(refused.poll(), Err(ConnectError::Refused(Refusal::NoSuchWriter))));

    let mut closed = reader.connect(setup.listener.address(), WriterKey::default()).unwrap();
    drop(setup);
    assert!(matches!(closed.poll(), Err(ConnectError::Closed)));
}

#[test]
fn held_sample_is_consistent_while_its_writer_lives() {
    let mut setup = Setup::new(WriterConfig::default());
    let mut reader = reader();
    let (id, _) = setup.admit(&mut reader, Overflow::Block);
    setup.publish(1, 8);
    let held = reader.take().unwrap().unwrap();
    (2..100).for_each(|number| setup.publish(number, 8));
    assert!(held.is_consistent());
    setup.writer.remove(id);
    (100..200).for_each(|number| setup.publish(number, 8));
    assert!(held.is_consistent() && number(&held) == 1, "also after the end of the channel");
    drop(setup);
    assert!(!held.is_consistent());
}

#[test]
fn closed_reader_returns_all_slots() {
    let mut setup = Setup::new(WriterConfig { entries: 2, ..Default::default() });
    let mut reader = reader();
    let (id, writer) = setup.admit(&mut reader, Overflow::Block);
    (0..2).for_each(|number| setup.publish(number, 8));
    let held = reader.take().unwrap().unwrap();
    reader.remove(writer);
    assert_eq!(reader.poll_gone().unwrap().reason, Gone::Closed);
    // The writer sees the end at once, and leaves the sample that is still held alone.
    setup.writer.service();
    assert_eq!(setup.writer.poll_gone().map(|gone| (gone.reader, gone.reason)), Some((id, Gone::Ended)));
    assert_eq!((setup.writer.statistics().readers, setup.writer.is_closing()), (0, true));
    for number in 10..3000 {
        setup.publish(number, 1000);
    }
    assert_eq!(number(&held), 0);
    setup.writer.trim();
    assert_eq!(setup.writer.statistics().slots_in_use, 2, "the held sample, and one that was not taken");
    drop(held);
    setup.writer.service();
    setup.writer.trim();
    assert_eq!((setup.writer.statistics().slots_in_use, setup.writer.is_closing()), (0, false));
    assert!(setup.writer.poll_gone().is_none(), "the end is reported once");
}

#[test]
fn removed_reader_keeps_held_and_sent_samples() {
    let mut setup = Setup::new(WriterConfig { max_bytes: 1 << 20, ..Default::default() });
    let mut reader = reader();
    let (id, _) = setup.admit(&mut reader, Overflow::Block);
    (0..3).for_each(|number| setup.publish(number, 1000));
    let held = reader.take().unwrap().unwrap();
    setup.writer.remove(id);
    assert_eq!(setup.writer.poll_gone().map(|gone| (gone.reader, gone.reason)), Some((id, Gone::Closed)));
    assert_eq!(setup.writer.statistics().readers, 0);
    // All other memory is reused.
    for number in 10..3000 {
        setup.publish(number, 1000);
    }
    reader.service();
    assert_eq!(take_all(&mut reader), [1, 2]);
    assert_eq!(reader.poll_gone().map(|gone| (gone.reason, gone.lost)), Some((Gone::Ended, 0)));
    assert_eq!(number(&held), 0);
    setup.writer.trim();
    assert_eq!(setup.writer.statistics().slots_in_use, 1, "slots of untaken samples have returned");
    drop(held);
    setup.writer.trim();
    assert_eq!(setup.writer.statistics().slots_in_use, 0);
}

#[test]
fn removed_reader_counts_while_it_holds_samples() {
    let mut setup = Setup::new(WriterConfig { max_readers: 1, ..Default::default() });
    let mut reader = reader();
    let (id, _) = setup.admit(&mut reader, Overflow::Block);
    setup.publish(1, 8);
    let held = reader.take().unwrap().unwrap();
    setup.writer.remove(id);
    reader.service();
    assert!(reader.take().unwrap().is_none());
    let mut connecting = reader.connect(setup.listener.address(), WriterKey([7; 16])).unwrap();
    let request = setup.listener.accept().unwrap().expect("the reader has connected");
    assert!(setup.writer.admit(request, Overflow::Block).is_err());
    assert!(matches!(connecting.poll(), Err(ConnectError::Refused(Refusal::TooManyReaders))));
    drop(held);
    setup.admit(&mut reader, Overflow::Block);
}

/// Two readers, where the first one, whose channel the writer has ended, holds all memory.
fn removed_reader_holding_all_memory() -> (Setup, [Reader; 2], Vec<Sample>) {
    let mut setup = Setup::new(WriterConfig { max_bytes: 1 << 20, ..Default::default() });
    let mut readers = [reader(), reader()];
    let [(parted, _), _] = readers.each_mut().map(|reader| setup.admit(reader, Overflow::Block));
    (0..2).for_each(|number| setup.publish(number, 400_000));
    let [first, second] = &mut readers;
    let held = std::iter::from_fn(|| first.take().unwrap()).collect();
    assert_eq!(take_all(second), [0, 1]);
    setup.writer.remove(parted);
    assert!(setup.writer.poll_gone().is_some() && setup.writer.is_closing());
    assert!(setup.writer.loan(400_000).is_err());
    (setup, readers, held)
}

#[test]
fn removed_reader_notifies_a_writer_waiting_for_memory() {
    let (mut setup, _readers, mut held) = removed_reader_holding_all_memory();
    setup.writer.request_room_notification(true);
    assert!(setup.writer.loan(400_000).is_err() && !setup.writer.take_notified());
    held.pop();
    let is_readable = |fd| event::wait_readable(fd, MonotonicNs::now()).unwrap();
    assert!(setup.writer.descriptors().any(is_readable));
    setup.writer.service();
    assert!(setup.writer.take_notified());
    assert!(setup.writer.loan(400_000).is_ok());
    setup.writer.request_room_notification(true);
    setup.writer.cancel_room_notification();
    held.pop();
    setup.writer.service();
    assert!(!setup.writer.take_notified(), "no request is pending");
}

#[test]
fn wait_for_slot_ends_when_a_removed_reader_releases() {
    let (mut setup, _readers, held) = removed_reader_holding_all_memory();
    std::thread::scope(|threads| {
        threads.spawn(move || drop(held));
        assert!(setup.writer.wait_for_slot(400_000, soon()).unwrap());
    });
}

/// A process that ends sends no message, and the call that sees its closed link need not be the one that waits for
/// memory.
#[test]
fn end_of_a_removed_reader_ends_the_wait_for_memory() {
    let mut setup = Setup::new(WriterConfig { max_bytes: 1 << 20, ..Default::default() });
    let mut parted = reader();
    let (id, _) = setup.admit(&mut parted, Overflow::Block);
    setup.publish(0, 600_000);
    setup.writer.remove(id);
    assert!(setup.writer.poll_gone().is_some());
    setup.writer.request_room_notification(true);
    assert!(setup.writer.loan(600_000).is_err() && !setup.writer.take_notified());
    drop(parted);
    setup.writer.trim();
    assert!(setup.writer.take_notified());
    assert!(setup.writer.loan(600_000).is_ok());
}

#[test]
fn invalid_configuration_is_refused() {
    for (entries, max_holds) in [(0, 1), (3, 1), (1 << 15, 1), (1, 0), (1, 1 << 15)] {
        let error = Writer::new(WriterConfig { entries, max_holds, ..Default::default() }).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    }
    assert!(Reader::new(ReaderConfig { holds: 0, ..Default::default() }).is_err());
}

#[test]
fn short_samples_are_read_in_place_and_others_taken() {
    let mut setup = Setup::new(WriterConfig::default());
    let mut reader = reader();
    let (reader_id, writer_id) = setup.admit(&mut reader, Overflow::Block);
    assert!(reader.in_place().is_none());
    let lengths = [32, 64, 5000, 0, 63];
    (0..).zip(lengths).for_each(|(number, len)| setup.publish(number, len));
    let mut seen = Vec::new();
    // The first sample is known only once its segment is: `take` reads that message from the link.
    while seen.len() < lengths.len() {
        if let Some(mut samples) = reader.in_place() {
            assert_eq!(samples.writer(), writer_id);
            let mut look = |Metadata(words): Metadata, bytes: &[u8]| {
                assert_eq!(bytes.len(), lengths[words[0] as usize]);
                assert!(bytes.iter().all(|byte| u64::from(*byte) == words[0]));
                seen.push(words[0]);
                true
            };
            while samples.next(64, &mut look) {}
            samples.acknowledge(seen.len() as u64);
        }
        if let Some(sample) = reader.take().unwrap() {
            seen.push(number(&sample));
        }
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
    assert!(setup.writer.ack_of(reader_id).is_some_and(|ack| ack >= 1));
    assert_eq!(reader.statistics().taken, 5);
    // A sample that was not accepted stays, and all slots return.
    setup.publish(5, 32);
    assert!(!reader.in_place().unwrap().next(64, |_, _| false));
    assert_eq!(take(&mut reader), Some(5));
    setup.writer.trim();
    assert_eq!(setup.writer.statistics().slots_in_use, 0);
}

/// No writer starves another one.
#[test]
fn in_place_reading_alternates_between_writers() {
    let mut setups = [Setup::new(WriterConfig::default()), Setup::new(WriterConfig::default())];
    let mut reader = reader();
    let ids = setups.each_mut().map(|setup| setup.admit(&mut reader, Overflow::Block).1);
    for number in 0..4 {
        setups.iter_mut().for_each(|setup| setup.publish(number, 32));
    }
    for _ in 0..2 {
        take(&mut reader).expect("a sample was published");
    }
    let mut seen = Vec::new();
    while let Some(mut samples) = reader.in_place() {
        assert!(samples.next(64, |_, _| true));
        seen.push(samples.writer());
    }
    assert_eq!(seen, [ids[0], ids[1]].repeat(3));
}
