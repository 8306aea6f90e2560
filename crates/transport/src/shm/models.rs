//! Loom models of the ring, the life of a slot, and the wake-ups: loom runs every interleaving that it distinguishes.
//! The payload is a cell that reports any unordered access.

use super::page::{OwnedPage, PeerPage, Words};
use super::return_queue::{ReturnQueue, SlotId};
use super::ring::{Descriptor, Metadata, Overflow, Receiver, Sender, Shape, Shared, TakeError, Withdrawn};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

mod acknowledgements;
mod commands;
pub(in crate::shm) mod kernel;
mod process;
mod slot_cache;
mod wake_ups;

/// The segment of a model: slots of one word.
struct Slots(Vec<UnsafeCell<u64>>);

// SAFETY: loom checks every access and fails on a race.
unsafe impl Sync for Slots {}
// SAFETY: as above.
unsafe impl Send for Slots {}

impl Slots {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self((0..count).map(|_| UnsafeCell::new(0)).collect()))
    }

    fn write(&self, slot: usize, value: u64) {
        // SAFETY: loom fails if another thread accesses the slot.
        self.0[slot].with_mut(|place| unsafe { *place = value });
    }

    fn read(&self, slot: usize) -> u64 {
        // SAFETY: loom fails if another thread writes the slot.
        self.0[slot].with(|place| unsafe { *place })
    }
}

fn channel(entries: u32, holds: u32, overflow: Overflow) -> (Sender<usize>, Arc<Shared>, Receiver) {
    let shape = Shape { entries, holds, overflow };
    let (ring, hold) = (Words::new(shape.ring_words()), Words::new(shape.hold_words()));
    let sender = Sender::new(OwnedPage::new(ring.clone()), PeerPage::new(hold.clone()), shape).unwrap();
    let shared = Shared::new(PeerPage::new(ring), OwnedPage::new(hold), shape).unwrap();
    (sender, Arc::new(shared), Receiver::new(shape))
}

fn descriptor(slot: usize, value: u64) -> Descriptor {
    Descriptor { offset: slot as u32, metadata: Metadata([value, 0, 0, 0, 0]), ..Default::default() }
}

fn send(sender: &mut Sender<usize>, slot: usize, value: u64) {
    assert!(sender.has_room().unwrap());
    sender.send(&descriptor(slot, value), slot);
}

fn bounded(preemptions: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder
}

/// A writer that sends 1, 2 and 3 in these slots, each as soon as there is room.
fn start_writer(mut sender: Sender<usize>, slots: &Arc<Slots>) -> thread::JoinHandle<()> {
    let slots = Arc::clone(slots);
    thread::spawn(move || {
        let mut free: Vec<usize> = (0..slots.0.len()).collect();
        for value in 1..=3 {
            while free.is_empty() || !sender.has_room().unwrap() {
                thread::yield_now();
                sender.reclaim(|slot| free.push(slot)).unwrap();
            }
            let slot = free.pop().unwrap();
            slots.write(slot, value);
            sender.send(&descriptor(slot, value), slot);
        }
    })
}

/// Takes samples until `last`; checks that values rise and that each slot holds the announced value.
fn take_until(last: u64, shared: &Shared, receiver: &mut Receiver, slots: &Slots) -> u64 {
    let (mut before, mut count) = (0, 0);
    while before < last {
        let Some(taken) = receiver.take(shared).unwrap() else {
            thread::yield_now();
            continue;
        };
        let value = taken.descriptor.metadata.0[0];
        assert!(value > before);
        assert_eq!(slots.read(taken.descriptor.offset as usize), value, "a torn sample");
        shared.release(taken.cell);
        (before, count) = (value, count + 1);
    }
    count
}

#[test]
fn sent_entries_are_taken_once_in_order_and_used_slots_stay_unchanged() {
    bounded(3).check(|| {
        let (sender, shared, mut receiver) = channel(2, 1, Overflow::Block);
        let slots = Slots::new(2);
        let writer = start_writer(sender, &slots);
        assert_eq!(take_until(3, &shared, &mut receiver, &slots), 3);
        assert_eq!(receiver.lost(), 0);
        writer.join().unwrap();
    });
}

/// The same without holding: a slot that was read in place is free as soon as `tail` moves.
#[test]
fn slot_read_in_place_is_not_rewritten_meanwhile() {
    bounded(2).check(|| {
        let (sender, shared, mut receiver) = channel(2, 1, Overflow::Block);
        let slots = Slots::new(1);
        let writer = start_writer(sender, &slots);
        let mut before = 0;
        while before < 3 {
            let Some(Descriptor { offset, metadata, .. }) = receiver.peek(&shared) else {
                thread::yield_now();
                continue;
            };
            assert_eq!((metadata.0[0], slots.read(offset as usize)), (before + 1, before + 1), "a torn sample");
            receiver.pass(&shared);
            before += 1;
        }
        writer.join().unwrap();
    });
}

/// A ring that starts with two entries and grows: the reader finds entries that were copied to another place, even if
/// it loaded the layout before.
#[test]
fn entries_in_flight_while_ring_grows_are_taken_once_in_order() {
    for takes_in_place in [false, true] {
        bounded(2).check(move || {
            let (mut sender, shared, mut receiver) = channel(4, 4, Overflow::Block);
            let writer = thread::spawn(move || (1..=4).for_each(|value| send(&mut sender, value as usize, value)));
            let mut before = 0;
            while before < 4 {
                let taken = if takes_in_place {
                    receiver.peek(&shared).inspect(|_| receiver.pass(&shared))
                } else {
                    let taken = receiver.take(&shared).unwrap();
                    taken.inspect(|taken| _ = shared.release(taken.cell)).map(|taken| taken.descriptor)
                };
                let Some(taken) = taken else {
                    thread::yield_now();
                    continue;
                };
                before += 1;
                assert_eq!((u64::from(taken.offset), taken.metadata.0[0]), (before, before), "a torn entry");
            }
            writer.join().unwrap();
        });
    }
}

#[test]
fn evicted_entry_is_taken_or_lost_and_never_torn() {
    bounded(3).check(|| {
        let (mut sender, shared, mut receiver) = channel(1, 1, Overflow::Evict);
        let slots = Slots::new(2);
        let writer = thread::spawn({
            let slots = Arc::clone(&slots);
            move || {
                let mut free = vec![0, 1];
                for value in 1..=3 {
                    while free.is_empty() || !sender.has_room().unwrap() {
                        if sender.withdraw_oldest().unwrap() == Withdrawn::Busy {
                            thread::yield_now();
                        }
                        sender.reclaim(|slot| free.push(slot)).unwrap();
                        if free.is_empty() {
                            thread::yield_now();
                        }
                    }
                    let slot = free.pop().unwrap();
                    slots.write(slot, value);
                    sender.send(&descriptor(slot, value), slot);
                }
            }
        });
        let count = take_until(3, &shared, &mut receiver, &slots);
        assert_eq!(count + receiver.lost(), 3);
        writer.join().unwrap();
    });
}

#[test]
fn sample_released_on_another_thread_frees_its_slot() {
    bounded(2).check(|| {
        let (mut sender, shared, mut receiver) = channel(2, 2, Overflow::Block);
        let slots = Slots::new(1);
        slots.write(0, 1);
        send(&mut sender, 0, 1);
        let taken = receiver.take(&shared).unwrap().unwrap();
        let other = thread::spawn({
            let (shared, slots) = (Arc::clone(&shared), Arc::clone(&slots));
            move || {
                assert_eq!(slots.read(0), 1);
                shared.release(taken.cell);
            }
        });
        let mut free = None;
        while free.is_none() {
            thread::yield_now();
            sender.reclaim(|slot| free = Some(slot)).unwrap();
        }
        slots.write(0, 2);
        other.join().unwrap();
    });
}

/// Slots that the writer's own process keeps (a dropped loan, a history that evicts) return from any thread, once, and
/// are written only after the last read.
#[test]
fn slots_released_on_other_threads_return_once() {
    bounded(3).check(|| {
        let (return_queue, slots) = (Arc::new(ReturnQueue::default()), Slots::new(2));
        let keepers = [0, 1].map(|index| {
            let (return_queue, slots) = (Arc::clone(&return_queue), Arc::clone(&slots));
            thread::spawn(move || {
                assert_eq!(slots.read(index), 0);
                return_queue.push(SlotId { place: 0, index: index as u32 });
            })
        });
        let look = || {
            let back = return_queue.take();
            back.iter().for_each(|slot| slots.write(slot.index as usize, 1));
            back.len()
        };
        let early = look() + look();
        keepers.into_iter().for_each(|keeper| keeper.join().unwrap());
        assert_eq!(early + look(), 2);
        assert!(return_queue.take().is_empty());
    });
}

#[test]
fn reader_holds_no_more_than_agreed() {
    bounded(2).check(|| {
        let (mut sender, shared, mut receiver) = channel(2, 1, Overflow::Block);
        send(&mut sender, 0, 1);
        send(&mut sender, 1, 2);
        let taken = receiver.take(&shared).unwrap().unwrap();
        assert_eq!(receiver.take(&shared), Err(TakeError::TooManyHeld));
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.release(taken.cell)
        });
        loop {
            match receiver.take(&shared) {
                Err(TakeError::TooManyHeld) => thread::yield_now(),
                taken => break assert_eq!(taken.unwrap().unwrap().descriptor, descriptor(1, 2)),
            }
        }
        other.join().unwrap();
    });
}
