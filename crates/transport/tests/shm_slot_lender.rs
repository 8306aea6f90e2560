//! Slots that are loaned without their writer's lock.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use peregrine_transport::shm::{
    Listener, Metadata, Overflow, Reader, ReaderConfig, RetainedSlot, Slot, SlotLender, Trust, Writer, WriterConfig,
    WriterKey,
};

const LEN: usize = 100;

struct Setup {
    writer: Writer,
    reader: Reader,
    lender: Arc<SlotLender>,
    given_back: Arc<AtomicU64>,
}

impl Setup {
    fn new(config: WriterConfig) -> Self {
        let given_back = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&given_back);
        let lender = SlotLender::new(move || _ = count.fetch_add(1, Ordering::Relaxed));
        let (writer, reader) = channel(config, &lender);
        Self { writer, reader, lender, given_back }
    }

    /// Publishes like a writer in a steady flow.
    fn publish(&mut self, slot: Slot) -> RetainedSlot {
        let (retained, spent) = self.writer.publish_and_retain(slot, Metadata::default()).unwrap();
        self.writer.wake_sleepers();
        self.writer.cache_next_slot(spent);
        retained
    }

    /// Takes the sample and releases the retained slot.
    fn have_done(&mut self, retained: RetainedSlot) {
        assert!(self.reader.take().unwrap().is_some());
        self.writer.release(retained);
    }

    fn slots_in_use(&self) -> usize {
        self.writer.statistics().slots_in_use
    }
}

fn channel(config: WriterConfig, lender: &Arc<SlotLender>) -> (Writer, Reader) {
    let mut listener = Listener::new(Trust::SameUser).unwrap();
    let mut writer = Writer::with_lender(config, Arc::clone(lender)).unwrap();
    let mut reader = Reader::new(ReaderConfig::default()).unwrap();
    let mut connecting = reader.connect(listener.address(), WriterKey::default()).unwrap();
    writer.admit(listener.accept().unwrap().expect("the reader has connected"), Overflow::Block).unwrap();
    reader.add(connecting.poll().unwrap().expect("the writer has answered")).unwrap();
    (writer, reader)
}

#[test]
fn cached_slot_serves_a_sample_of_the_last_size() {
    let mut setup = Setup::new(WriterConfig::default());
    assert!(setup.lender.take(LEN).is_none(), "no sample was published");
    let first = setup.writer.loan(LEN).unwrap();
    let first = setup.publish(first);
    assert_eq!(setup.slots_in_use(), 1, "the cached slot is not in use");
    assert!(setup.lender.take(1000).is_none() && setup.lender.take(usize::MAX).is_none());
    let mut slot = setup.lender.take(LEN + 1).expect("the cached slot has room");
    assert!(slot.len() == LEN + 1 && slot.room() > LEN && setup.lender.has_lent(&slot));
    assert_eq!(setup.slots_in_use(), 2);
    assert!(setup.lender.take(LEN).is_none(), "there was one cached slot");
    slot.fill(7);
    let second = setup.publish(slot);
    setup.have_done(first);
    let sample = setup.reader.take().unwrap().unwrap();
    assert_eq!(&*sample, [7; LEN + 1]);
    drop(sample);
    setup.writer.release(second);
    setup.writer.trim();
    assert_eq!((setup.slots_in_use(), setup.given_back.load(Ordering::Relaxed)), (0, 0));
}

/// With alternating sizes, the cached slot has the size of the last sample.
#[test]
fn sample_of_another_size_replaces_the_cached_slot() {
    let mut setup = Setup::new(WriterConfig::default());
    for _ in 0..3 {
        for len in [LEN, 5000] {
            assert!(setup.lender.take(len).is_none());
            let slot = setup.writer.loan(len).unwrap();
            let retained = setup.publish(slot);
            setup.have_done(retained);
        }
        drop(setup.lender.take(5000).expect("of the last size"));
    }
    setup.writer.trim();
    assert_eq!(setup.slots_in_use(), 0);
}

#[test]
fn cached_slot_is_freed_with_its_segment() {
    let mut setup = Setup::new(WriterConfig::default());
    let slot = setup.writer.loan(5 << 20).unwrap();
    let retained = setup.publish(slot);
    setup.have_done(retained);
    // A second slot of a class; the first is then cached.
    let slots = [setup.writer.loan(5 << 20).unwrap(), setup.writer.loan(5 << 20).unwrap()];
    let [retained, other] = slots.map(|slot| setup.publish(slot));
    setup.have_done(retained);
    setup.have_done(other);
    setup.writer.trim();
    let slot = setup.writer.loan(5 << 20).unwrap();
    let retained = setup.publish(slot);
    setup.have_done(retained);
    assert!(setup.writer.statistics().segments > 1);
    let end = |setup: &mut Setup| (setup.writer.trim(), setup.writer.trim()).1;
    assert_eq!(end(&mut setup), 0);
    assert_eq!((setup.writer.statistics().segments, setup.writer.memory_bytes()), (0, 0));
    assert!(setup.lender.take(5 << 20).is_none());
}

#[test]
fn cached_slot_does_not_block_samples_of_other_sizes() {
    let mut setup = Setup::new(WriterConfig { max_bytes: 128 << 10, ..WriterConfig::default() });
    let slots = [setup.writer.loan(60_000).unwrap(), setup.writer.loan(60_000).unwrap()];
    let [first, second] = slots.map(|slot| setup.publish(slot));
    setup.have_done(first);
    setup.have_done(second);
    let third = setup.writer.loan(60_000).unwrap();
    let third = setup.publish(third);
    setup.have_done(third);
    // A segment for it fits in the memory of all the others.
    let large = setup.writer.loan(120_000).unwrap();
    assert!(setup.lender.take(60_000).is_none());
    assert_eq!(setup.slots_in_use(), 1);
    drop(large);
}

#[test]
fn returned_slot_notifies_and_dropped_slot_does_not() {
    let mut setup = Setup::new(WriterConfig::default());
    let slots = [setup.writer.loan(LEN).unwrap(), setup.writer.loan(LEN).unwrap()];
    let [given_back, dropped] = slots;
    drop(dropped);
    assert_eq!(setup.given_back.load(Ordering::Relaxed), 0);
    given_back.give_back();
    assert_eq!(setup.given_back.load(Ordering::Relaxed), 1);
    setup.writer.trim();
    assert_eq!(setup.slots_in_use(), 0);
}

#[test]
fn slot_of_a_dropped_writer_is_not_owned_by_the_next_writer() {
    let mut setup = Setup::new(WriterConfig::default());
    let slot = setup.writer.loan(LEN).unwrap();
    let _ = setup.publish(slot);
    let mut held = setup.lender.take(LEN).unwrap();
    let slot = setup.writer.loan(LEN).unwrap();
    let _ = setup.publish(slot);
    // Only one of two writers fills the cache.
    let (mut beside, _reader) = channel(WriterConfig::default(), &setup.lender);
    let slot = beside.loan(5000).unwrap();
    let (_, spent) = beside.publish_and_retain(slot, Metadata::default()).unwrap();
    beside.cache_next_slot(spent);
    assert!(setup.lender.take(5000).is_none());
    drop(beside);
    (setup.writer, setup.reader) = channel(WriterConfig::default(), &SlotLender::new(|| {}));
    assert!(setup.lender.take(LEN).is_none(), "the cached slot was freed with its writer");
    (setup.writer, setup.reader) = channel(WriterConfig::default(), &setup.lender);
    held.fill(9);
    assert!(setup.lender.has_lent(&held) && held.iter().all(|byte| *byte == 9));
    let error = setup.writer.publish_and_retain(held, Metadata::default()).unwrap_err();
    assert!(error.to_string().contains("another writer"), "{error}");
    let slot = setup.writer.loan(LEN).unwrap();
    let _ = setup.publish(slot);
    assert!(setup.lender.take(LEN).is_some(), "the next writer fills the cache");
}

/// Two threads loan slots while a third one publishes: no two threads own the same slot.
#[test]
fn slots_loaned_to_several_threads_never_overlap() {
    const EACH: u64 = 2000;
    let mut setup = Setup::new(WriterConfig::default());
    let (sender, made) = std::sync::mpsc::sync_channel::<Slot>(8);
    let makers = [1_u64, 2].map(|maker| {
        let (lender, sender) = (Arc::clone(&setup.lender), sender.clone());
        thread::spawn(move || {
            let mut number = 0;
            while number < EACH {
                let Some(mut slot) = lender.take(16) else {
                    thread::yield_now();
                    continue;
                };
                slot[..8].copy_from_slice(&maker.to_ne_bytes());
                slot[8..].copy_from_slice(&number.to_ne_bytes());
                number += 1;
                sender.send(slot).unwrap();
            }
        })
    });
    drop(sender);
    let mut seen = BTreeSet::new();
    loop {
        // Slots that the publishing thread loans itself refill the cache for the other threads.
        let own = setup.writer.loan(16).unwrap();
        let retained = setup.publish(own);
        setup.have_done(retained);
        let Ok(slot) = made.recv() else { break };
        let (retained, spent) = setup.writer.publish_and_retain(slot, Metadata::default()).unwrap();
        setup.writer.cache_next_slot(spent);
        let sample = setup.reader.take().unwrap().unwrap();
        assert!(seen.insert(sample.to_vec()), "{:?} came twice", &*sample);
        drop(sample);
        setup.writer.release(retained);
    }
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    assert_eq!(seen.len() as u64, 2 * EACH);
    setup.writer.trim();
    assert_eq!(setup.slots_in_use(), 0);
}
