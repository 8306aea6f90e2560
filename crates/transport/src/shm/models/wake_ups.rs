//! Sleeping and waking, between processes and within one. A lost wake-up is a deadlock, which loom reports.

use super::{bounded, channel, descriptor, send, thread};
use crate::shm::doorbell::{Doorbell, DoorbellPage};
use crate::shm::page::{OwnedPage, PeerPage, Words};
use crate::shm::ring::Overflow;
use crate::shm::sync::Mutex;
use crate::shm::sync::{AtomicBool, AtomicU64, Ordering, fence};
use crate::shm::wake::{self, FollowerWords, Interrupt, Role, SLEEPER_WORDS, Sleeper};
use std::sync::Arc;

/// The process of a reader: its sleeper, its doorbells and its rings.
struct Process {
    sleeper: Sleeper,
    bells: Vec<(PeerPage, u32)>,
    rings: Vec<PeerPage>,
}

impl Process {
    /// Sleeps on `page`, waits for `bells` (each a doorbell of a page) and looks at `rings`.
    fn new(page: &Words, bells: &[(&Words, u32)], rings: &[Words]) -> Self {
        let seen = |words: &Words| PeerPage::new(words.clone());
        Self {
            sleeper: Sleeper::new(OwnedPage::new(page.clone())),
            bells: bells.iter().map(|(page, index)| (seen(page), *index)).collect(),
            rings: rings.iter().map(seen).collect(),
        }
    }

    /// Number of published samples.
    fn published(&self) -> u64 {
        self.rings.iter().map(|ring| ring.load_acquire(0)).sum()
    }

    /// Like `Reader::sleep`.
    fn sleep_unless(&mut self, is_ready: impl FnOnce(u64) -> bool) {
        let Self { sleeper, bells, rings } = self;
        let published = || rings.iter().map(|ring| ring.load_acquire(0)).sum();
        sleeper.sleep_unless(bells.iter().map(|(page, index)| (page, *index)), || is_ready(published()), None);
    }

    /// Sleeps until `count` samples were published.
    fn sleep_until(&mut self, count: u64) {
        let mut seen = self.published();
        while seen < count {
            self.sleep_unless(|published| published > seen);
            seen = self.published();
        }
    }
}

/// Like `Writer::publish` and `Writer::wake`, for one reader.
fn publish(ring: &OwnedPage, value: u64, asleep: &PeerPage, ring_bell: impl FnOnce(Role)) {
    ring.store(0, value, Ordering::Release);
    fence(Ordering::SeqCst);
    if let Some(role) = wake::sleeping(asleep) {
        ring_bell(role);
    }
}

fn doorbell(page: &Arc<DoorbellPage<char, ()>>, identity: char) -> Doorbell<char, ()> {
    Doorbell::new::<()>(page, identity, || Ok(())).unwrap().unwrap()
}

#[test]
fn sample_published_before_sleep_wakes_the_reader() {
    bounded(3).check(|| {
        let (page, bell, ring) = (Words::new(SLEEPER_WORDS), Words::new(2), Words::new(1));
        let writer = thread::spawn({
            let (asleep, bell, ring) =
                (PeerPage::new(page.clone()), OwnedPage::new(bell.clone()), OwnedPage::new(ring.clone()));
            move || {
                (1..=2).for_each(|value| publish(&ring, value, &asleep, |role| bell.increment_and_wake(role.word(0))))
            }
        });
        Process::new(&page, &[(&bell, 0)], &[ring]).sleep_until(2);
        writer.join().unwrap();
    });
}

/// Two writers of different processes have two doorbells; the reader waits for either.
#[test]
fn wake_up_by_one_of_two_processes_is_not_lost() {
    bounded(2).check(|| {
        let page = Words::new(SLEEPER_WORDS);
        let (bells, rings) = ([Words::new(2), Words::new(2)], [Words::new(1), Words::new(1)]);
        let writers = [0, 1].map(|place: usize| {
            let (bell, ring) = (OwnedPage::new(bells[place].clone()), OwnedPage::new(rings[place].clone()));
            let asleep = PeerPage::new(page.clone());
            thread::spawn(move || publish(&ring, 1, &asleep, |role| bell.increment_and_wake(role.word(0))))
        });
        Process::new(&page, &[(&bells[0], 0), (&bells[1], 0)], &rings).sleep_until(2);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

/// Two writers of one process, each on its own thread, share the doorbell of the reader's process.
#[test]
fn wake_up_by_a_doorbell_that_two_writers_share_is_not_lost() {
    bounded(2).check(|| {
        let (page, bell_page) = (Words::new(SLEEPER_WORDS), Words::new(4));
        let (bells, rings) = (DoorbellPage::new(OwnedPage::new(bell_page.clone())), [Words::new(1), Words::new(1)]);
        let channels = [(); 2].map(|()| doorbell(&bells, 'r'));
        let index = channels[0].index();
        assert_eq!(channels[1].index(), index);
        let writers: Vec<_> = (rings.iter().zip(channels))
            .map(|(ring, bell)| {
                let (ring, asleep) = (OwnedPage::new(ring.clone()), PeerPage::new(page.clone()));
                thread::spawn(move || publish(&ring, 1, &asleep, |role| bell.ring(role)))
            })
            .collect();
        Process::new(&page, &[(&bell_page, index)], &rings).sleep_until(2);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
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
        let (page, bell, ring) = (Words::new(SLEEPER_WORDS), Words::new(2), Words::new(1));
        let mut process = Process::new(&page, &[(&bell, 0)], std::slice::from_ref(&ring));
        let is_closing = Arc::new(AtomicBool::new(false));
        let other = thread::spawn({
            let (interrupt, is_closing) = (process.sleeper.interrupt(), Arc::clone(&is_closing));
            move || {
                is_closing.store(true, Ordering::Relaxed);
                interrupt.interrupt();
            }
        });
        let writer = thread::spawn({
            let (asleep, bell, ring) = (PeerPage::new(page), OwnedPage::new(bell), OwnedPage::new(ring));
            move || publish(&ring, 1, &asleep, |role| bell.increment_and_wake(role.word(0)))
        });
        let (mut is_interrupted, mut seen) = (false, 0);
        while !is_interrupted || seen == 0 {
            if process.sleeper.is_interrupted() {
                assert!(is_closing.load(Ordering::Relaxed), "interrupted before the change was visible");
                is_interrupted = true;
            } else if process.published() > seen {
                seen = process.published();
            } else {
                process.sleep_unless(|published| published > seen);
            }
        }
        other.join().unwrap();
        writer.join().unwrap();
    });
}

/// Each of several interrupts ends a wait, or precedes a check that observes its effects.
#[test]
fn second_interrupt_is_not_lost() {
    bounded(3).check(|| {
        let mut process = Process::new(&Words::new(SLEEPER_WORDS), &[], &[]);
        let done = Arc::new(AtomicU64::new(0));
        let others = [(); 2].map(|()| {
            let (interrupt, done) = (process.sleeper.interrupt(), Arc::clone(&done));
            thread::spawn(move || {
                done.fetch_add(1, Ordering::Relaxed);
                interrupt.interrupt();
            })
        });
        while done.load(Ordering::Relaxed) < 2 {
            while !process.sleeper.is_interrupted() {
                process.sleep_unless(|_| false);
            }
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// The process of a reader in which threads take turns, under a lock.
struct Turns {
    hands: Mutex<Taking>,
    watch: wake::FollowerWatch,
    interrupt: Interrupt,
    /// The page of the only writer process.
    bell: PeerPage,
    /// Number of samples of all writers.
    expected: u64,
}

struct Taking {
    process: Process,
    /// Number of samples taken.
    taken: u64,
}

impl Taking {
    /// Takes all samples and returns whether none is missing.
    fn take_all(&mut self, expected: u64) -> bool {
        self.taken = self.process.published();
        self.taken == expected
    }
}

impl Turns {
    /// Like the shared-memory thread of a domain.
    fn run_follower(&self, mut follower: FollowerWords) {
        let mut is_announced = false;
        loop {
            let Ok(mut taking) = self.hands.try_lock() else {
                if is_announced {
                    follower.sleep();
                } else {
                    follower.announce(0, std::iter::once((&self.bell, 0)));
                }
                is_announced = !is_announced;
                continue;
            };
            is_announced = false;
            taking.process.sleeper.end_following();
            if taking.take_all(self.expected) {
                return;
            }
            if taking.process.sleeper.is_interrupted() {
                continue;
            }
            let Taking { process: Process { sleeper, bells, rings }, taken } = &mut *taking;
            let is_ready = || rings.iter().map(|ring| ring.load_acquire(0)).sum::<u64>() > *taken;
            let bells = bells.iter().map(|(page, index)| (page, *index));
            let sleeps = sleeper.follow_unless(&mut follower, bells, is_ready);
            drop(taking);
            if sleeps {
                follower.sleep();
            }
        }
    }

    /// Like a thread of the application that leads.
    fn lead_once(&self) {
        let Ok(mut taking) = self.hands.try_lock() else { return };
        taking.process.sleeper.lead();
        taking.take_all(self.expected);
        self.hand_over(&mut taking);
        drop(taking);
        while self.watch.has_announced()
            && let Ok(mut taking) = self.hands.try_lock()
        {
            taking.process.sleeper.lead();
            taking.process.sleeper.take_announcement();
            self.hand_over(&mut taking);
        }
    }

    /// Without a further sample to come, the follower has to end.
    fn hand_over(&self, taking: &mut Taking) {
        let Taking { process: Process { sleeper, rings, .. }, taken } = taking;
        let is_over = *taken == self.expected;
        let is_ready = || is_over || rings.iter().map(|ring| ring.load_acquire(0)).sum::<u64>() > *taken;
        if !sleeper.hand_over_unless(is_ready) {
            self.interrupt.interrupt();
        }
    }
}

/// A follower, which sleeps without the lead, threads that lead beside it, each this number of times, and a writer of
/// another process: all samples are taken, whichever thread finds another one leading.
fn check_turns(preemptions: usize, expected: u64, leads: &'static [usize]) {
    bounded(preemptions).check(move || {
        let (page, bell, ring) = (Words::new(SLEEPER_WORDS), Words::new(2), Words::new(1));
        let process = Process::new(&page, &[(&bell, 0)], std::slice::from_ref(&ring));
        let (watch, interrupt) = (process.sleeper.follower_watch(), process.sleeper.interrupt());
        let follower = watch.words();
        let bell_page = PeerPage::new(bell.clone());
        let hands = Mutex::new(Taking { process, taken: 0 });
        let turns = Arc::new(Turns { hands, watch, interrupt, bell: bell_page, expected });
        let writer = thread::spawn({
            let (asleep, bell, ring) = (PeerPage::new(page), OwnedPage::new(bell), OwnedPage::new(ring));
            move || {
                let ring_bell = |role: Role| bell.increment_and_wake(role.word(0));
                (1..=expected).for_each(|value| publish(&ring, value, &asleep, ring_bell));
            }
        });
        let lead = |leads: usize| {
            let turns = Arc::clone(&turns);
            thread::spawn(move || (0..leads).for_each(|_| turns.lead_once()))
        };
        let leaders: Vec<_> = leads.iter().map(|leads| lead(*leads)).collect();
        turns.run_follower(follower);
        writer.join().unwrap();
        leaders.into_iter().for_each(|leader| leader.join().unwrap());
        assert_eq!(turns.hands.lock().unwrap().taken, expected);
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
