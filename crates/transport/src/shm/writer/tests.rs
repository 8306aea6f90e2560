use super::*;
use crate::shm::{Listener, Reader, ReaderConfig, Trust, WriterKey};
use std::time::Duration;

/// A writer whose memory holds one sample, and a reader in the same process.
fn pair_with_one_slot() -> (Writer, Reader) {
    let mut listener = Listener::new(Trust::SameUser).unwrap();
    let mut writer = Writer::new(WriterConfig { max_bytes: 64 << 10, ..WriterConfig::default() }).unwrap();
    let mut reader = Reader::new(ReaderConfig::default()).unwrap();
    let mut connecting = reader.connect(listener.address(), WriterKey::default()).unwrap();
    let request = listener.accept().unwrap().expect("the reader has connected");
    writer.admit(request, Overflow::Block).unwrap();
    reader.add(connecting.poll().unwrap().expect("the writer has answered")).unwrap();
    (writer, reader)
}

/// Admits readers that end at once, while no end is polled.
#[test]
fn writer_with_too_many_unreported_ends_refuses_a_reader_until_they_are_polled() {
    let mut listener = Listener::new(Trust::SameUser).unwrap();
    let mut writer = Writer::new(WriterConfig { max_readers: 3, ..WriterConfig::default() }).unwrap();
    let mut admit = |writer: &mut Writer| {
        let reader = Reader::new(ReaderConfig::default()).unwrap();
        let _connecting = reader.connect(listener.address(), WriterKey::default()).unwrap();
        writer.admit(listener.accept().unwrap().expect("the reader has connected"), Overflow::Block)
    };
    for _ in 0..6 {
        let id = admit(&mut writer).unwrap();
        writer.reject(id, "a test says so");
    }
    assert_eq!(writer.gone.len(), 6);
    assert_eq!(admit(&mut writer).unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
    assert!(writer.poll_gone().is_some());
    assert!(admit(&mut writer).is_ok());
}

/// A failed loan checks for returned slots first and reads messages afterwards. The reader returns the slot in between,
/// so the loan reads the only notification, and the descriptor on which the writer then waits never becomes readable.
#[test]
fn slot_returned_and_notified_between_two_checks_ends_wait() {
    const LEN: usize = 60 << 10;
    let (mut writer, mut reader) = pair_with_one_slot();
    let slot = writer.loan(LEN).unwrap();
    writer.publish(slot, Metadata::default()).unwrap();
    let mut held = reader.take().unwrap();
    assert!(held.is_some());

    let deadline = MonotonicNs::now().after(Duration::from_secs(20));
    let is_loaned = writer.wait(deadline, true, |writer| {
        let is_loaned = writer.loan(LEN).is_ok();
        if let Some(sample) = held.take() {
            drop(sample);
            writer.service();
        }
        is_loaned
    });
    assert!(is_loaned.unwrap());
    assert!(MonotonicNs::now() < deadline, "the writer slept until its deadline");
}
