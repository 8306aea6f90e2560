//! Sleeping and waking, between processes and within one. A lost wake-up is a deadlock, which loom reports.

use super::process::Process;
use super::{bounded, channel, descriptor, send, thread};
use crate::shm::doorbell::{Doorbell, DoorbellPage};
use crate::shm::page::{OwnedPage, PeerPage, Words};
use crate::shm::ring::Overflow;
use crate::shm::sync::{AtomicBool, AtomicU64, Ordering};
use crate::shm::take_lock::TakeLock;
use crate::shm::turns::Wake;
use std::sync::Arc;

fn doorbell(page: &Arc<DoorbellPage<char, ()>>, identity: char) -> Doorbell<char, ()> {
    Doorbell::new::<()>(page, identity, || Ok(())).unwrap().unwrap()
}

/// Each writer, of this process, publishes this number of samples.
fn check_wake_ups(preemptions: usize, writers: &'static [usize], samples: u64) {
    bounded(preemptions).check(move || {
        let (mut process, writers) = Process::reading_from(writers);
        let writers: Vec<_> = writers.into_iter().map(|writer| writer.publish(samples)).collect();
        process.wait_until(samples * writers.len() as u64);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

#[test]
fn sample_published_before_sleep_wakes_the_reader() {
    check_wake_ups(3, &[1], 2);
}

/// Two writers of different processes have two doorbells; the reader waits for either.
#[test]
fn wake_up_by_one_of_two_processes_is_not_lost() {
    check_wake_ups(2, &[1, 1], 1);
}

/// Two writers of one process, each on its own thread, share the doorbell of the reader's process.
#[test]
fn wake_up_by_a_doorbell_that_two_writers_share_is_not_lost() {
    check_wake_ups(2, &[2], 1);
}

/// A channel ends while others begin, one to the same process. All channels to one process share a doorbell, from the
/// first channel to the last, and no channel to another process does.
#[test]
fn doorbell_belongs_to_one_process_while_channels_begin_and_end() {
    bounded(3).check(|| {
        let bells = DoorbellPage::new(OwnedPage::new(Words::new(2)));
        let first = doorbell(&bells, 'a');
        let ends = thread::spawn(move || drop(first));
        let to_another = thread::spawn({
            let bells = Arc::clone(&bells);
            move || doorbell(&bells, 'b')
        });
        let again = doorbell(&bells, 'a');
        let another = to_another.join().unwrap();
        ends.join().unwrap();
        let beside = doorbell(&bells, 'a');
        assert_ne!(again.index(), another.index());
        assert_eq!(again.index(), beside.index());
    });
}

/// A thread of the reader's process rings without checking whether the reader sleeps, while a writer of another process
/// publishes. Changes before the interrupt are visible after it.
#[test]
fn interrupt_before_sleep_is_not_lost() {
    bounded(3).check(|| {
        let (mut process, writers) = Process::reading_from(&[1]);
        let is_closing = Arc::new(AtomicBool::new(false));
        let other = thread::spawn({
            let (interrupt, is_closing) = (process.turns.interrupt(), Arc::clone(&is_closing));
            move || {
                is_closing.store(true, Ordering::Relaxed);
                interrupt.interrupt();
            }
        });
        let writers: Vec<_> = writers.into_iter().map(|writer| writer.publish(1)).collect();
        let mut is_interrupted = false;
        while !is_interrupted || process.taken == 0 {
            match process.wait() {
                Wake::Interrupted => {
                    assert!(is_closing.load(Ordering::Relaxed), "interrupted before the change was visible");
                    is_interrupted = true;
                }
                _ => process.take_all(),
            }
        }
        other.join().unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

/// Each of several interrupts ends a wait, or precedes a check that observes its effects.
#[test]
fn second_interrupt_is_not_lost() {
    bounded(3).check(|| {
        let mut process = Process::alone();
        let done = Arc::new(AtomicU64::new(0));
        let others = [(); 2].map(|()| {
            let (interrupt, done) = (process.turns.interrupt(), Arc::clone(&done));
            thread::spawn(move || {
                done.fetch_add(1, Ordering::Relaxed);
                interrupt.interrupt();
            })
        });
        while done.load(Ordering::Relaxed) < 2 {
            assert_eq!(process.wait(), Wake::Interrupted);
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A process whose threads take turns. No commands are sent.
type Turns = TakeLock<Process, (), ()>;

/// Takes all samples as the follower.
fn run_follower(turns: &Turns, expected: u64) {
    let mut follower = turns.follower();
    loop {
        let Some(mut process) = turns.lock_as_follower(&mut follower) else { continue };
        process.take_all();
        if process.taken == expected {
            return;
        }
        turns.follow(process, &mut follower);
    }
}

fn lead_once(turns: &Turns) {
    if let Some(mut process) = turns.try_lead() {
        process.take_all();
    }
}

/// A follower, which sleeps without the lead, threads that lead beside it, each this number of times, and a writer of
/// another process: all samples are taken, whichever thread finds another one leading.
fn check_turns(preemptions: usize, expected: u64, leads: &'static [usize]) {
    bounded(preemptions).check(move || {
        let (mut process, writers) = Process::reading_from(&[1]);
        process.last = Some(expected);
        let turns = Arc::new(Turns::new(process, 1));
        let writers: Vec<_> = writers.into_iter().map(|writer| writer.publish(expected)).collect();
        let lead = |leads: usize| {
            let turns = Arc::clone(&turns);
            thread::spawn(move || (0..leads).for_each(|_| lead_once(&turns)))
        };
        let leaders: Vec<_> = leads.iter().map(|leads| lead(*leads)).collect();
        run_follower(&turns, expected);
        writers.into_iter().chain(leaders).for_each(|thread| thread.join().unwrap());
        assert_eq!(turns.lock().taken, expected);
    });
}

#[test]
fn sample_is_taken_although_threads_take_turns() {
    check_turns(3, 1, &[1]);
}

#[test]
fn samples_are_taken_although_a_thread_leads_repeatedly() {
    check_turns(2, 2, &[2]);
}

#[test]
fn sample_is_taken_although_two_threads_lead_beside_the_follower() {
    check_turns(2, 1, &[1, 1]);
}

/// The other direction: the writer requests a notification, checks again, and only then waits.
#[test]
fn writer_waiting_for_room_is_notified() {
    bounded(3).check(|| {
        let (mut sender, shared, mut receiver) = channel(1, 1, Overflow::Block);
        sender.send(&descriptor(0, 1), 0);
        let told = Words::new(1);
        let reader = thread::spawn({
            let told = OwnedPage::new(told.clone());
            move || {
                let taken = receiver.take(&shared).unwrap().unwrap();
                if taken.notify {
                    told.increment_and_wake(0);
                }
                if shared.release(taken.cell) {
                    told.increment_and_wake(0);
                }
            }
        });
        let told = PeerPage::new(told);
        let mut free = None;
        while free.is_none() {
            let noted = told.load_acquire(0);
            sender.request_room_notification(true);
            sender.reclaim(|slot| free = Some(slot)).unwrap();
            if free.is_none() {
                told.words().wait(0, noted);
            }
        }
        sender.cancel_room_notification();
        reader.join().unwrap();
    });
}

/// The same for a reader that passes several entries and then checks once whether to notify the writer, of room or of
/// the acknowledgement.
#[test]
fn batch_notifies_writer_waiting_for_room_or_ack_once() {
    for wants_note in [false, true] {
        bounded(3).check(move || {
            let (mut sender, shared, mut receiver) = channel(2, 1, Overflow::Block);
            (0..2).for_each(|slot| send(&mut sender, slot, slot as u64));
            let told = Words::new(1);
            let reader = thread::spawn({
                let told = OwnedPage::new(told.clone());
                move || {
                    for _ in 0..2 {
                        assert!(receiver.peek(&shared).is_some());
                        receiver.pass(&shared);
                    }
                    if shared.finish_batch(Some(2)) {
                        told.increment_and_wake(0);
                    }
                }
            });
            let told = PeerPage::new(told);
            let mut free = 0;
            loop {
                let noted = told.load_acquire(0);
                let is_done = if wants_note {
                    sender.request_ack_notification(2);
                    sender.ack() == 2
                } else {
                    sender.request_room_notification(true);
                    sender.reclaim(|_| free += 1).unwrap();
                    free == 2
                };
                if is_done {
                    break;
                }
                told.words().wait(0, noted);
            }
            reader.join().unwrap();
        });
    }
}
