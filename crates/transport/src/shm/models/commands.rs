//! Commands to the thread that takes samples: they end its sleep, reach the thread that takes next, and find a thread
//! that executes them.

use super::process::Process;
use super::{bounded, thread};
use crate::shm::commands::{Commands, TakenCommands};
use crate::shm::sync::{AtomicU64, Mutex, Ordering};
use crate::shm::take_lock::TakeLock;
use std::sync::Arc;

type TestLock = TakeLock<Process, u32, char>;

/// More than any model sends.
const LIMIT: usize = 8;

fn lock(process: Process) -> Arc<TestLock> {
    Arc::new(TestLock::new(process, LIMIT))
}

/// The taking thread sleeps when it has found neither samples nor commands, as a follower. Another thread sends
/// commands, and a writer of another process publishes.
#[test]
fn command_sent_while_taking_thread_goes_to_sleep_wakes_it() {
    bounded(2).check(|| {
        let (process, writers) = Process::reading_from(&[1]);
        let lock = lock(process);
        let sender = thread::spawn({
            let lock = Arc::clone(&lock);
            move || [1, 2].map(|command| lock.commands.send(command))
        });
        let writers: Vec<_> = writers.into_iter().map(|writer| writer.publish(1)).collect();
        let (mut follower, mut executed) = (lock.follower(), Vec::new());
        loop {
            let Some(mut process) = lock.lock_as_follower(&mut follower) else { continue };
            executed.extend(lock.commands.take().commands);
            process.take_all();
            if executed.len() == 2 && process.taken == 1 {
                break;
            }
            lock.follow(process, &mut follower);
        }
        assert_eq!(executed, [1, 2]);
        sender.join().unwrap();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

/// A command is sent while a thread of the application leads, beside a follower that executes commands, too. Executed
/// commands count like samples.
#[test]
fn command_sent_while_a_thread_leads_is_executed_once() {
    fn execute(lock: &TestLock, process: &mut Process) {
        process.taken += lock.commands.take().commands.len() as u64;
    }
    bounded(3).check(|| {
        let mut process = Process::alone();
        process.last = Some(1);
        let lock = lock(process);
        let sender = thread::spawn({
            let lock = Arc::clone(&lock);
            move || lock.commands.send(1)
        });
        let leader = thread::spawn({
            let lock = Arc::clone(&lock);
            move || {
                if let Some(mut process) = lock.try_lead() {
                    execute(&lock, &mut process);
                }
            }
        });
        let mut follower = lock.follower();
        loop {
            let Some(mut process) = lock.lock_as_follower(&mut follower) else { continue };
            execute(&lock, &mut process);
            if process.taken > 0 {
                break;
            }
            lock.follow(process, &mut follower);
        }
        sender.join().unwrap();
        leader.join().unwrap();
        assert_eq!(lock.lock().taken, 1);
    });
}

/// Two threads take turns polling. One waits once and does not check the commands afterwards, so it may consume the
/// interrupt that was meant for the other.
#[test]
fn command_whose_interruption_another_thread_consumed_is_executed() {
    bounded(3).check(|| {
        let process = Process::alone();
        let interrupt = process.turns.interrupt();
        let lock = lock(process);
        let leaving = thread::spawn({
            let lock = Arc::clone(&lock);
            move || lock.wait(None)
        });
        let sender = thread::spawn({
            let lock = Arc::clone(&lock);
            move || lock.commands.send(1)
        });
        while lock.try_lock().map_or(Vec::new(), |_process| lock.commands.take().commands).is_empty() {
            lock.wait(None);
            thread::yield_now();
        }
        // The leaving thread may still wait; end its wait.
        interrupt.interrupt();
        leaving.join().unwrap();
        sender.join().unwrap();
    });
}

/// The executing thread ends when it has no work, while another thread sends commands that start an executing thread if
/// none runs, or that come back. Each command is executed once.
#[test]
fn command_sent_while_executing_thread_ends_is_executed_once() {
    bounded(3).check(|| {
        let commands = Arc::new(Commands::<u32, char>::new(Process::alone().turns.interrupt(), LIMIT));
        let (executed, mut started) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
        let run = {
            let (commands, executed) = (Arc::clone(&commands), Arc::clone(&executed));
            move || loop {
                let taken = commands.take().commands;
                if !taken.is_empty() {
                    executed.lock().unwrap().extend(taken);
                } else if commands.has_ended() {
                    return;
                } else {
                    thread::yield_now();
                }
            }
        };
        let mut start = || {
            started.push(thread::spawn(run.clone()));
            true
        };
        for command in [1, 2] {
            commands.send_and_start(command, &mut start).unwrap();
        }
        let not_sent = commands.send_if_running(3, |command| command);
        started.into_iter().for_each(|taker| taker.join().unwrap());
        let mut executed = std::mem::take(&mut *executed.lock().unwrap());
        executed.extend(not_sent);
        executed.sort_unstable();
        assert_eq!(executed, [1, 2, 3]);
    });
}

/// Two threads each change a state and send the same request, which may be queued once for both. The taking thread,
/// which sleeps in between, sees both changes.
#[test]
fn request_coalesced_with_an_equal_one_is_executed_behind_both_changes() {
    bounded(2).check(|| {
        let lock = lock(Process::alone());
        let changes = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let senders = [0, 1].map(|number: usize| {
            let (lock, changes) = (Arc::clone(&lock), Arc::clone(&changes));
            thread::spawn(move || {
                changes[number].store(1, Ordering::Relaxed);
                lock.commands.request('r');
            })
        });
        let mut seen = 0;
        while seen < 2 {
            let TakenCommands { requests, .. } = lock.commands.take();
            if !requests.is_empty() {
                assert_eq!(requests, ['r']);
                seen = changes.iter().map(|change| change.load(Ordering::Relaxed)).sum();
            } else {
                lock.wait(None);
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(lock.commands.take().requests.len() <= 1);
    });
}
