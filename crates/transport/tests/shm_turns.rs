//! Threads of a reader process that take turns: a follower, which sleeps without the right to take, and leaders.
#![cfg(target_os = "linux")]

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::shm::{
    Connection, Follower, FollowerWatch, Interrupt, Listener, Metadata, Overflow, Reader, ReaderConfig, Trust, Wake,
    Writer, WriterConfig, WriterKey,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A process of writers, as its readers see it: its doorbells are its own.
struct WriterProcess {
    listener: Listener,
    writer: Writer,
}

impl WriterProcess {
    fn new() -> Self {
        let config = WriterConfig { entries: 16_384, ..WriterConfig::default() };
        Self { listener: Listener::new(Trust::SameUser).unwrap(), writer: Writer::new(config).unwrap() }
    }

    fn connect(&mut self, reader: &Reader) -> Connection {
        let mut connecting = reader.connect(self.listener.address(), WriterKey::default()).unwrap();
        self.writer.admit(self.listener.accept().unwrap().unwrap(), Overflow::Block).unwrap();
        connecting.poll().unwrap().unwrap()
    }

    fn publish(&mut self) {
        let slot = self.writer.loan(8).unwrap();
        self.writer.publish(slot, Metadata::default()).unwrap();
    }

    fn wakes(&self) -> u64 {
        self.writer.statistics().wakes
    }
}

/// A reader whose threads take turns under a lock.
struct Turns {
    taking: Mutex<Reader>,
    watch: FollowerWatch,
    interrupt: Interrupt,
    is_closing: AtomicBool,
    /// Number of samples that the follower has taken.
    by_follower: AtomicU64,
    /// The follower sleeps, or is about to, or has just ended its sleep. [`Reader::sleeps`] does not count sleeps after
    /// an announcement.
    is_asleep: AtomicBool,
}

/// Ends the thread of the follower, also after a failed check.
struct ClosesOnDrop<'t>(&'t Turns);

impl Drop for ClosesOnDrop<'_> {
    fn drop(&mut self) {
        self.0.is_closing.store(true, Ordering::SeqCst);
        self.0.interrupt.interrupt();
    }
}

impl Turns {
    fn new(reader: Reader) -> Self {
        let (watch, interrupt) = (reader.follower_watch(), reader.interrupt());
        let (is_closing, by_follower) = (AtomicBool::new(false), AtomicU64::new(0));
        let is_asleep = AtomicBool::new(false);
        Self { taking: Mutex::new(reader), watch, interrupt, is_closing, by_follower, is_asleep }
    }

    fn run_beside_follower(&self, act: impl FnOnce()) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.run_follower());
            let _closing = ClosesOnDrop(self);
            act();
        });
    }

    /// The body of the follower's thread.
    fn run_follower(&self) {
        let mut follower = self.watch.follower();
        while !self.is_closing.load(Ordering::SeqCst) {
            let Some(mut reader) = self.take_over(&mut follower) else { continue };
            self.by_follower.fetch_add(take_all(&mut reader), Ordering::SeqCst);
            if reader.follow(&mut follower, || self.is_closing.load(Ordering::SeqCst)) {
                drop(reader);
                self.sleep(&follower);
            }
        }
    }

    fn sleep(&self, follower: &Follower) {
        self.is_asleep.store(true, Ordering::SeqCst);
        follower.sleep();
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    fn take_over(&self, follower: &mut Follower) -> Option<MutexGuard<'_, Reader>> {
        let mut reader = self.taking.try_lock().ok();
        if reader.is_none() {
            follower.announce();
            reader = self.taking.try_lock().ok();
        }
        if reader.is_none() && !self.is_closing.load(Ordering::SeqCst) {
            self.sleep(follower);
        }
        reader.as_mut()?.end_following();
        reader
    }

    /// Leads with `act`, unless another thread has the lock, and hands over.
    fn lead<R>(&self, act: impl FnOnce(&mut Reader) -> R) -> Option<R> {
        let mut reader = self.taking.try_lock().ok()?;
        reader.lead();
        let result = act(&mut reader);
        if !reader.hand_over(|| false) {
            self.interrupt.interrupt();
        }
        drop(reader);
        while self.watch.has_announced()
            && let Ok(mut reader) = self.taking.try_lock()
        {
            if !reader.hand_over_again(|| false) {
                self.interrupt.interrupt();
            }
        }
        Some(result)
    }

    /// Without leading, for which the follower would announce itself.
    fn await_sleep(&self) {
        await_that("the follower sleeps", || self.is_asleep.load(Ordering::SeqCst));
    }

    fn await_sleeps(&self, sleeps: u64) {
        let is_asleep = |reader: &mut Reader| reader.sleeps() >= sleeps;
        await_that("the follower sleeps", || self.lead(is_asleep).unwrap_or(false));
    }

    /// Without leading, which could wake a follower that has lost a sample.
    fn await_samples_of_follower(&self, samples: u64) {
        await_that("the follower takes the samples", || self.by_follower.load(Ordering::SeqCst) == samples);
    }
}

fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn reader() -> Reader {
    Reader::new(ReaderConfig::default()).unwrap()
}

fn take_all(reader: &mut Reader) -> u64 {
    std::iter::from_fn(|| reader.take().unwrap()).count() as u64
}

fn soon() -> Option<MonotonicNs> {
    Some(MonotonicNs::now().after(PATIENCE))
}

#[test]
fn sample_while_a_thread_leads_wakes_it_and_not_the_follower() {
    let mut process = WriterProcess::new();
    let mut reader = reader();
    reader.add(process.connect(&reader)).unwrap();
    let turns = Turns::new(reader);
    turns.run_beside_follower(|| {
        turns.await_sleeps(1);
        let samples = 100;
        for number in 0..samples {
            // The first sample is there before the leader waits, the others wake the leader.
            let taken = turns.lead(|reader| {
                std::thread::scope(|scope| {
                    scope.spawn(|| process.publish());
                    assert_eq!(reader.wait(Duration::ZERO, soon()), Wake::Ready, "sample {number}");
                });
                take_all(reader)
            });
            assert_eq!(taken, Some(1));
        }
        // The follower has slept once, and takes what comes when no thread leads.
        process.publish();
        turns.await_samples_of_follower(1);
    });
}

#[test]
fn sample_that_comes_before_the_handover_is_taken() {
    let mut process = WriterProcess::new();
    let mut reader = reader();
    reader.add(process.connect(&reader)).unwrap();
    let turns = Turns::new(reader);
    turns.run_beside_follower(|| {
        for round in 1..=100 {
            turns.await_sleep();
            assert!(turns.lead(|_| process.publish()).is_some());
            turns.await_samples_of_follower(round);
        }
        assert_eq!(process.wakes(), 0, "no thread slept that a writer could have woken");
    });
}

/// The follower does not wait for the doorbell of a process with which a leader has connected.
#[test]
fn follower_takes_samples_of_a_process_that_a_leader_has_added() {
    let (mut first, mut second) = (WriterProcess::new(), WriterProcess::new());
    let mut reader = reader();
    reader.add(first.connect(&reader)).unwrap();
    let turns = Turns::new(reader);
    turns.run_beside_follower(|| {
        turns.await_sleeps(1);
        let added = turns.lead(|reader| reader.add(second.connect(reader)).unwrap());
        assert!(added.is_some());
        turns.await_sleeps(2);
        second.publish();
        turns.await_samples_of_follower(1);
    });
}

#[test]
fn interrupt_of_leaders_ends_the_wait_of_a_leader_and_no_sleep_of_the_follower() {
    let reader = reader();
    let leader_interrupt = reader.leader_interrupt();
    let turns = Turns::new(reader);
    turns.run_beside_follower(|| {
        turns.await_sleeps(1);
        leader_interrupt.interrupt();
        let wake = turns.lead(|reader| reader.wait(Duration::ZERO, soon()));
        assert_eq!(wake, Some(Wake::Interrupted));
        turns.await_sleeps(1);
    });
}

/// Two processes publish while two threads lead again and again beside the follower: whichever thread finds another one
/// leading, all samples are taken.
#[test]
fn no_sample_is_lost_between_threads_that_take_turns() {
    const SAMPLES: u64 = 8_000;
    let mut processes = [WriterProcess::new(), WriterProcess::new()];
    let mut reader = reader();
    for process in &mut processes {
        reader.add(process.connect(&reader)).unwrap();
    }
    let turns = Turns::new(reader);
    let (total, leads) = (SAMPLES * processes.len() as u64, AtomicBool::new(true));
    let lead_repeatedly = || {
        let mut taken = 0;
        while leads.load(Ordering::Relaxed) {
            let briefly = || Some(MonotonicNs::now().after(Duration::from_micros(200)));
            let lead = |reader: &mut Reader| (reader.wait(Duration::ZERO, briefly()), take_all(reader)).1;
            taken += turns.lead(lead).unwrap_or(0);
        }
        taken
    };
    std::thread::scope(|scope| {
        scope.spawn(|| turns.run_follower());
        let _closing = ClosesOnDrop(&turns);
        let leaders = [(); 2].map(|()| scope.spawn(lead_repeatedly));
        let writers = processes.each_mut().map(|process| {
            scope.spawn(|| {
                for number in 0..SAMPLES {
                    process.publish();
                    if number % 16 == 0 {
                        std::thread::yield_now();
                    }
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        // From here on the follower is alone, and takes what the leaders have left.
        leads.store(false, Ordering::Relaxed);
        let by_leaders: u64 = leaders.into_iter().map(|leader| leader.join().unwrap()).sum();
        turns.await_samples_of_follower(total - by_leaders);
    });
}
