//! Threads of a reader process that take turns: a follower, which sleeps without the right to take, and leaders.
#![cfg(target_os = "linux")]

use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::shm::{
    Connection, Follower, FollowerWatch, Interrupt, Listener, Metadata, Overflow, Reader, ReaderConfig, Trust, Wake,
    Writer, WriterConfig, WriterKey,
};
use std::sync::atomic::{AtomicBool, Ordering};
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
}

impl Turns {
    fn new(reader: Reader) -> Self {
        let (watch, interrupt) = (reader.follower_watch(), reader.interrupt());
        Self { taking: Mutex::new(reader), watch, interrupt, is_closing: AtomicBool::new(false) }
    }

    /// The body of the follower's thread. Returns the number of samples that it has taken.
    fn run_follower(&self) -> u64 {
        let (mut follower, mut taken) = (self.watch.follower(), 0);
        while !self.is_closing.load(Ordering::SeqCst) {
            let Some(mut reader) = self.take_over(&mut follower) else { continue };
            taken += take_all(&mut reader);
            if reader.follow(&mut follower, || self.is_closing.load(Ordering::SeqCst)) {
                drop(reader);
                follower.sleep();
            }
        }
        taken
    }

    fn take_over(&self, follower: &mut Follower) -> Option<MutexGuard<'_, Reader>> {
        let mut reader = self.taking.try_lock().ok();
        if reader.is_none() {
            follower.announce();
            reader = self.taking.try_lock().ok();
        }
        if reader.is_none() && !self.is_closing.load(Ordering::SeqCst) {
            follower.sleep();
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

    fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.interrupt.interrupt();
    }

    fn await_that(&self, what: &str, is_so: impl Fn(&Reader) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !self.lead(|reader| is_so(reader)).unwrap_or(false) {
            assert!(Instant::now() < end, "{what}");
            std::thread::yield_now();
        }
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
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| turns.run_follower());
        turns.await_that("the follower sleeps", |reader| reader.sleeps() == 1);
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
        turns.await_that("the follower has taken the sample", |reader| reader.statistics().taken == samples + 1);
        turns.close();
        assert_eq!(follower.join().unwrap(), 1);
    });
}

#[test]
fn sample_that_comes_before_the_handover_is_taken() {
    let mut process = WriterProcess::new();
    let mut reader = reader();
    reader.add(process.connect(&reader)).unwrap();
    let turns = Turns::new(reader);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| turns.run_follower());
        for round in 1..=100 {
            turns.await_that("the follower sleeps", |reader| reader.sleeps() >= round);
            assert!(turns.lead(|_| process.publish()).is_some());
            turns.await_that("the follower has taken the sample", |reader| reader.statistics().taken == round);
        }
        assert_eq!(process.wakes(), 0, "no thread slept that a writer could have woken");
        turns.close();
        assert_eq!(follower.join().unwrap(), 100);
    });
}

/// The follower does not wait for the doorbell of a process with which a leader has connected.
#[test]
fn follower_takes_samples_of_a_process_that_a_leader_has_added() {
    let (mut first, mut second) = (WriterProcess::new(), WriterProcess::new());
    let mut reader = reader();
    reader.add(first.connect(&reader)).unwrap();
    let turns = Turns::new(reader);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| turns.run_follower());
        turns.await_that("the follower sleeps", |reader| reader.sleeps() == 1);
        let added = turns.lead(|reader| reader.add(second.connect(reader)).unwrap());
        assert!(added.is_some());
        turns.await_that("the follower sleeps again", |reader| reader.sleeps() == 2);
        second.publish();
        turns.await_that("the follower has taken the sample", |reader| reader.statistics().taken == 1);
        turns.close();
        assert_eq!(follower.join().unwrap(), 1);
    });
}

#[test]
fn interrupt_of_leaders_ends_the_wait_of_a_leader_and_no_sleep_of_the_follower() {
    let reader = reader();
    let leader_interrupt = reader.leader_interrupt();
    let turns = Turns::new(reader);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| turns.run_follower());
        turns.await_that("the follower sleeps", |reader| reader.sleeps() == 1);
        leader_interrupt.interrupt();
        let wake = turns.lead(|reader| reader.wait(Duration::ZERO, soon()));
        assert_eq!(wake, Some(Wake::Interrupted));
        turns.await_that("the follower sleeps", |reader| reader.sleeps() == 1);
        turns.close();
        follower.join().unwrap();
    });
}

/// Two processes publish while a thread leads again and again beside the follower: whichever thread finds the other
/// one leading, all samples are taken.
#[test]
fn no_sample_is_lost_between_threads_that_take_turns() {
    const SAMPLES: u64 = 8_000;
    let mut processes = [WriterProcess::new(), WriterProcess::new()];
    let mut reader = reader();
    for process in &mut processes {
        reader.add(process.connect(&reader)).unwrap();
    }
    let turns = Turns::new(reader);
    let total = SAMPLES * processes.len() as u64;
    let leads = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| turns.run_follower());
        let leader = scope.spawn(|| {
            let mut taken = 0;
            while leads.load(Ordering::Relaxed) {
                let briefly = || Some(MonotonicNs::now().after(Duration::from_micros(200)));
                let lead = |reader: &mut Reader| (reader.wait(Duration::ZERO, briefly()), take_all(reader)).1;
                taken += turns.lead(lead).unwrap_or(0);
            }
            taken
        });
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
        // From here on the follower is alone, and takes what the leader has left.
        leads.store(false, Ordering::Relaxed);
        let by_leader = leader.join().unwrap();
        turns.await_that("all samples are taken", |reader| reader.statistics().taken == total);
        turns.close();
        assert_eq!(by_leader + follower.join().unwrap(), total);
    });
}
