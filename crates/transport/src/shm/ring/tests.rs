//! Tests of the ring with both sides in one process on one mapping, so that the thread sanitizer sees all accesses.

use super::*;
use crate::shm::memory::Memory;
use crate::shm::page::Words;
use proptest::prelude::*;
use std::cell::UnsafeCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

struct Pages {
    ring: Memory,
    hold: Memory,
    shape: Shape,
}

impl Pages {
    fn new(entries: u32, holds: u32, overflow: Overflow) -> Self {
        let shape = Shape { entries, holds, overflow };
        let memory = |words: usize| Memory::new("peregrine-test", words * 8).unwrap();
        Self { ring: memory(shape.ring_words()), hold: memory(shape.hold_words()), shape }
    }

    fn sender(&self) -> Sender<usize> {
        Sender::new(OwnedPage::new(Words::of(&self.ring)), PeerPage::new(Words::of(&self.hold)), self.shape).unwrap()
    }

    fn shared(&self) -> Arc<Shared> {
        let (ring, hold) = (PeerPage::new(Words::of(&self.ring)), OwnedPage::new(Words::of(&self.hold)));
        Arc::new(Shared::new(ring, hold, self.shape).unwrap())
    }
}

fn descriptor(slot: usize, value: u64) -> Descriptor {
    Descriptor { offset: slot as u32, metadata: Metadata([value; 5]), ..Default::default() }
}

/// A segment whose slots are one word each, protected only by the protocol.
struct Slots([UnsafeCell<u64>; 6]);

// SAFETY: the tested protocol keeps accesses apart; the thread sanitizer reports a violation.
unsafe impl Sync for Slots {}

/// The number of samples of a test with threads: fewer under `cargo xtask hunt`, where each yield of a thread gives the
/// core to a busy loop for some milliseconds.
fn samples_between_threads() -> u64 {
    if std::env::var_os("PEREGRINE_HUNTED").is_some() { 1_000 } else { 30_000 }
}

fn pass_between_threads(overflow: Overflow) {
    let last = samples_between_threads();
    let pages = Pages::new(4, 2, overflow);
    let (mut sender, shared, mut receiver) = (pages.sender(), pages.shared(), Receiver::new(pages.shape));
    let slots = Arc::new(Slots([const { UnsafeCell::new(0) }; 6]));
    let writer = std::thread::spawn({
        let slots = Arc::clone(&slots);
        move || {
            let mut free: Vec<usize> = (0..6).collect();
            for value in 1..=last {
                while free.is_empty() || !sender.has_room().unwrap() {
                    if overflow == Overflow::Evict {
                        sender.withdraw_oldest().unwrap();
                    }
                    sender.reclaim(|slot| free.push(slot)).unwrap();
                    std::thread::yield_now();
                }
                let slot = free.pop().unwrap();
                // SAFETY: no other thread accesses a free slot.
                unsafe { *slots.0[slot].get() = value };
                sender.send(&descriptor(slot, value), slot);
            }
        }
    });
    let (mut before, mut count) = (0, 0);
    let mut held: Option<(u64, Taken)> = None;
    while before < last {
        let Some(taken) = receiver.take(&shared).unwrap() else {
            std::thread::yield_now();
            continue;
        };
        let value = taken.descriptor.metadata.0[4];
        assert!(value > before);
        before = value;
        count += 1;
        // The previous sample is held until now.
        for (value, taken) in held.iter().chain([&(value, taken)]) {
            // SAFETY: the writer does not write a held slot.
            assert_eq!(unsafe { *slots.0[taken.descriptor.offset as usize].get() }, *value, "a torn sample");
        }
        if let Some((_, taken)) = held.replace((value, taken)) {
            let shared = Arc::clone(&shared);
            if value % (last / 60) == 1 {
                // Released on another thread, as applications do.
                std::thread::spawn(move || shared.release(taken.cell)).join().unwrap();
            } else {
                shared.release(taken.cell);
            }
        }
    }
    assert_eq!(count + receiver.lost(), last);
    writer.join().unwrap();
}

#[test]
fn blocking_ring_between_threads_loses_no_entry() {
    pass_between_threads(Overflow::Block);
}

#[test]
fn evicting_ring_between_threads_tears_no_sample() {
    pass_between_threads(Overflow::Evict);
}

#[derive(Clone, Debug)]
enum Step {
    Send,
    Take,
    /// Releases the n-th of the held entries.
    Release(usize),
    Withdraw,
    Reclaim,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Send),
        3 => Just(Step::Take),
        2 => any::<usize>().prop_map(Step::Release),
        1 => Just(Step::Withdraw),
        1 => Just(Step::Reclaim),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Compares the ring with a plain model: taken entries, lost entries, and free slots.
    #[test]
    fn ring_equals_queue_model_and_frees_unused_slots(steps in steps(), evicts: bool) {
        let overflow = if evicts { Overflow::Evict } else { Overflow::Block };
        let pages = Pages::new(4, 3, overflow);
        let (mut sender, shared, mut receiver) = (pages.sender(), pages.shared(), Receiver::new(pages.shape));
        let mut queue: Vec<usize> = Vec::new();
        let mut held: BTreeMap<usize, Cell> = BTreeMap::new();
        let mut busy: BTreeSet<usize> = BTreeSet::new();
        let (mut next, mut lost) = (0, 0);
        for step in steps {
            match step {
                Step::Send => {
                    let has_room = sender.has_room().unwrap();
                    prop_assert_eq!(has_room, queue.len() < 4);
                    if has_room {
                        sender.send(&descriptor(next, next as u64), next);
                        queue.push(next);
                        busy.insert(next);
                        next += 1;
                    }
                }
                Step::Take => match receiver.take(&shared) {
                    Ok(Some(taken)) => {
                        let number = queue.remove(0);
                        prop_assert_eq!(taken.descriptor, descriptor(number, number as u64));
                        held.insert(number, taken.cell);
                    }
                    Ok(None) => prop_assert!(queue.is_empty()),
                    Err(error) => {
                        prop_assert_eq!(error, TakeError::TooManyHeld);
                        prop_assert_eq!(held.len(), 3);
                    }
                },
                Step::Release(which) if !held.is_empty() => {
                    let number = *held.keys().nth(which % held.len()).unwrap();
                    shared.release(held.remove(&number).unwrap());
                }
                Step::Release(_) => {}
                Step::Withdraw if evicts => {
                    let expected = if queue.is_empty() { Withdrawn::Empty } else { Withdrawn::Done };
                    prop_assert_eq!(sender.withdraw_oldest().unwrap(), expected);
                    if expected == Withdrawn::Done {
                        queue.remove(0);
                        lost += 1;
                    }
                }
                Step::Withdraw => {}
                Step::Reclaim => {
                    let mut freed = BTreeSet::new();
                    sender.reclaim(|slot| assert!(freed.insert(slot))).unwrap();
                    busy = &busy - &freed;
                    let used: BTreeSet<usize> = queue.iter().chain(held.keys()).copied().collect();
                    prop_assert_eq!(&busy, &used);
                }
            }
        }
        while let Ok(Some(taken)) = receiver.take(&shared) {
            queue.remove(0);
            shared.release(taken.cell);
        }
        if held.len() < 3 {
            prop_assert!(queue.is_empty());
            prop_assert_eq!(receiver.lost(), lost);
        }
    }

    /// With any content of the reader's page, no slot is returned twice, and only sent slots are returned.
    #[test]
    fn hold_page_of_any_content_frees_each_slot_once(
        writes in proptest::collection::vec((0_usize..6, prop_oneof![0_u64..12, any::<u64>()]), 0..60)
    ) {
        let pages = Pages::new(4, 3, Overflow::Evict);
        let mut sender = pages.sender();
        let hostile = OwnedPage::new(Words::of(&pages.hold));
        let mut free: BTreeSet<usize> = (0..6).collect();
        for (place, value) in writes {
            hostile.store(place, value, Ordering::Relaxed);
            let result = sender.has_room().and_then(|has_room| {
                if !has_room {
                    sender.withdraw_oldest()?;
                }
                sender.reclaim(|slot| assert!(free.insert(slot)))
            });
            if result.is_err() {
                break;
            }
            if sender.has_room() == Ok(true) && let Some(slot) = free.pop_first() {
                sender.send(&descriptor(slot, 0), slot);
            }
        }
        for slot in sender.into_slots() {
            assert!(free.insert(slot));
        }
        prop_assert_eq!(free.len(), 6);
    }

    /// With any content of the writer's ring, taking ends, and the reader holds no more than agreed.
    #[test]
    fn ring_of_any_content_yields_samples_or_an_error(
        writes in proptest::collection::vec((0_usize..48, prop_oneof![0_u64..12, any::<u64>()]), 0..100), evicts: bool
    ) {
        let overflow = if evicts { Overflow::Evict } else { Overflow::Block };
        let pages = Pages::new(4, 3, overflow);
        let (shared, mut receiver) = (pages.shared(), Receiver::new(pages.shape));
        let hostile = OwnedPage::new(Words::of(&pages.ring));
        let mut held = Vec::new();
        for (place, value) in writes {
            hostile.store(place, value, Ordering::Relaxed);
            if value % 2 == 0 && receiver.peek(&shared).is_some() {
                prop_assert!(!evicts);
                receiver.pass(&shared);
                shared.finish_batch(Some(value));
                continue;
            }
            match receiver.take(&shared) {
                Ok(Some(taken)) => held.push(taken.cell),
                Ok(None) => {}
                Err(TakeError::TooManyHeld) => {
                    prop_assert_eq!(held.len(), 3);
                    for cell in held.drain(..) {
                        shared.release(cell);
                    }
                }
                Err(TakeError::Corrupt(_)) => break,
            }
        }
    }
}

/// For any number of checks by the reader.
#[test]
fn overwritten_entry_is_not_held() {
    let pages = Pages::new(4, 3, Overflow::Block);
    let (shared, mut receiver) = (pages.shared(), Receiver::new(pages.shape));
    OwnedPage::new(Words::of(&pages.ring)).store(Layout::first(pages.shape.entries).entry(0), 7, Ordering::Relaxed);
    for _ in 0..5 {
        assert!(matches!(receiver.take(&shared), Err(TakeError::Corrupt(_))));
    }
}

#[test]
fn descriptor_range_stays_within_its_segment() {
    let descriptor = |offset, len| Descriptor { offset, len, ..Default::default() };
    assert_eq!(descriptor(1, 64).range(128), Some(64..128));
    assert_eq!(descriptor(2, 0).range(128), Some(128..128));
    for (offset, len) in [(1, 65), (3, 0), (0, u64::MAX), (u32::MAX, u64::MAX), (u32::MAX, 0)] {
        assert_eq!(descriptor(offset, len).range(128), None);
    }
}

#[test]
fn pages_smaller_than_agreed_are_refused() {
    let small = Pages::new(1, 1, Overflow::Block);
    let large = Shape { entries: 1 << 14, holds: 1 << 14, overflow: Overflow::Block };
    let (ring, hold) = (|| Words::of(&small.ring), || Words::of(&small.hold));
    assert!(Sender::<usize>::new(OwnedPage::new(ring()), PeerPage::new(hold()), large).is_err());
    assert!(Shared::new(PeerPage::new(ring()), OwnedPage::new(hold()), large).is_err());
    for (entries, holds) in [(0, 1), (3, 1), (1 << 15, 1), (1, 0), (1, 1 << 15), (u32::MAX, u32::MAX)] {
        assert!(Shape { entries, holds, overflow: Overflow::Block }.check().is_err());
    }
}

/// A passed entry was not held, and counts like a taken one.
#[test]
fn entries_passed_and_taken_in_turn_keep_their_order() {
    let pages = Pages::new(4, 3, Overflow::Block);
    let (mut sender, shared, mut receiver) = (pages.sender(), pages.shared(), Receiver::new(pages.shape));
    let mut free = Vec::new();
    for number in 0..40_u64 {
        let sent = Descriptor { offset: number as u32, len: number, ..Default::default() };
        sender.send(&sent, number as usize);
        assert_eq!(receiver.peek(&shared), Some(sent));
        assert_eq!(receiver.peek(&shared), Some(sent), "the entry was neither taken nor passed");
        if number % 3 == 0 {
            let taken = receiver.take(&shared).unwrap().unwrap();
            assert_eq!(taken.descriptor, sent);
            shared.release(taken.cell);
        } else {
            receiver.pass(&shared);
            assert!(!shared.finish_batch(Some(number)));
            assert_eq!(sender.ack(), number);
        }
        assert_eq!(receiver.peek(&shared), None);
        assert!(!receiver.has_entries_in_place(&shared));
        sender.reclaim(|slot| free.push(slot)).unwrap();
    }
    assert_eq!(free, (0..40).collect::<Vec<_>>());
    assert_eq!(receiver.lost(), 0);
}

/// The reader notifies a waiting writer once, for any number of passed entries, and again only after a new request.
#[test]
fn passed_entries_notify_a_waiting_writer_once() {
    let pages = Pages::new(4, 3, Overflow::Block);
    let (mut sender, shared, mut receiver) = (pages.sender(), pages.shared(), Receiver::new(pages.shape));
    for asks_for_room in [true, false] {
        (0..4).for_each(|number| sender.send(&Descriptor::default(), number));
        match asks_for_room {
            true => sender.request_room_notification(false),
            false => sender.request_ack_notification(9),
        }
        for _ in 0..4 {
            assert!(receiver.peek(&shared).is_some());
            receiver.pass(&shared);
        }
        assert!(!asks_for_room && !shared.finish_batch(Some(8)) || shared.finish_batch(None));
        assert_eq!(shared.finish_batch(Some(9)), !asks_for_room);
        assert!(!shared.finish_batch(Some(10)));
        sender.cancel_room_notification();
        sender.reclaim(|_| {}).unwrap();
    }
}

/// A thread that waits for memory is notified of a slot even after another thread has requested room in the ring, once.
#[test]
fn request_for_room_keeps_an_earlier_request_for_any_slot() {
    let pages = Pages::new(4, 4, Overflow::Block);
    let (mut sender, shared, mut receiver) = (pages.sender(), pages.shared(), Receiver::new(pages.shape));
    (0..4).for_each(|number| sender.send(&Descriptor::default(), number));
    let held = receiver.take(&shared).unwrap().unwrap();
    sender.request_room_notification(true);
    sender.request_room_notification(false);
    assert!(shared.release(held.cell), "the first request is for any slot");
    let held = receiver.take(&shared).unwrap().unwrap();
    assert!(!held.notify && !shared.release(held.cell), "the writer was notified, and has not requested again");
    // A new request does not depend on the earlier ones.
    sender.cancel_room_notification();
    sender.reclaim(|_| {}).unwrap();
    (4..6).for_each(|number| sender.send(&Descriptor::default(), number));
    sender.request_room_notification(false);
    let held = receiver.take(&shared).unwrap().unwrap();
    assert!(!held.notify && !shared.release(held.cell), "the reader has not passed half of the ring");
    assert!(receiver.take(&shared).unwrap().unwrap().notify);
}

#[test]
fn entries_of_an_evicting_writer_are_not_shown_in_place() {
    let pages = Pages::new(4, 3, Overflow::Evict);
    let (mut sender, shared, receiver) = (pages.sender(), pages.shared(), Receiver::new(pages.shape));
    sender.send(&Descriptor::default(), 0);
    assert!(receiver.has_entries(&shared));
    assert!(!receiver.has_entries_in_place(&shared));
    assert_eq!(receiver.peek(&shared), None);
}

/// The writer reclaims the slots of passed entries late, so there may be more of them than the ring has entries.
#[test]
fn ring_that_grows_before_passed_slots_are_reclaimed_keeps_all_entries() {
    const ENTRIES: u64 = 1024;
    let pages = Pages::new(ENTRIES as u32, 8, Overflow::Block);
    let (mut sender, shared, mut receiver) = (pages.sender(), pages.shared(), Receiver::new(pages.shape));
    let (mut sent, mut taken) = (0, 0);
    let mut take = |count: u64, taken: &mut u64| {
        for _ in 0..count {
            assert_eq!(receiver.peek(&shared), Some(descriptor(0, *taken)));
            receiver.pass(&shared);
            *taken += 1;
        }
    };
    // Passed far beyond the first size, to a number at which the ring wraps around.
    for backlog in [1, 1, 77, 30, 33, 100, 600, ENTRIES] {
        while sent - taken < backlog {
            assert!(sender.has_room().unwrap());
            sender.send(&descriptor(0, sent), sent as usize);
            sent += 1;
        }
        take(backlog - backlog / 3, &mut taken);
    }
    while sender.has_room().unwrap() {
        sender.send(&descriptor(0, sent), sent as usize);
        sent += 1;
    }
    assert_eq!(sent - taken, ENTRIES, "the agreed number of entries is in use");
    take(ENTRIES, &mut taken);
    let mut reclaimed = Vec::new();
    sender.reclaim(|slot| reclaimed.push(slot as u64)).unwrap();
    assert_eq!(reclaimed, (0..sent).collect::<Vec<_>>());
}
