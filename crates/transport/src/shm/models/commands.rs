//! Commands to the thread that takes samples: they end its sleep, reach the thread that takes next, and find a thread
//! that executes them. The loops of the taking threads (`driver/shm/incoming.rs` of the middleware) are abridged here;
//! the rest is the real code.

use super::{bounded, thread};
use crate::shm::commands::{Commands, TakenCommands};
use crate::shm::page::{OwnedPage, PeerPage, Words};
use crate::shm::sync::{AtomicU64, Mutex, Ordering, fence};
use crate::shm::wake::{self, SLEEPER_WORDS, Sleeper};
use std::sync::Arc;

type TestCommands = Commands<u32, char>;

/// More than any model sends.
const LIMIT: usize = 8;

/// Checks and sleeps like `Reader::wait` without samples.
fn wait(sleeper: &mut Sleeper) {
    while !sleeper.is_interrupted() {
        sleeper.sleep_unless(std::iter::empty(), || false, None);
    }
}

/// Like `Incoming::wait`.
fn wait_with(hands: &Mutex<Sleeper>, commands: &TestCommands) {
    match hands.try_lock() {
        Ok(mut sleeper) if !commands.has_some() => wait(&mut sleeper),
        _ => thread::yield_now(),
    }
}

/// The taking thread sleeps when it has found neither samples nor commands. Another thread sends commands, and a writer
/// of another process publishes.
#[test]
fn command_sent_while_taking_thread_goes_to_sleep_wakes_it() {
    bounded(2).check(|| {
        let (page, bell, ring) = (Words::new(SLEEPER_WORDS), Words::new(2), Words::new(1));
        let mut sleeper = Sleeper::new(OwnedPage::new(page.clone()));
        let commands = Arc::new(TestCommands::new(sleeper.interrupt(), LIMIT));
        let sender = thread::spawn({
            let commands = Arc::clone(&commands);
            move || [1, 2].map(|command| commands.send(command))
        });
        let writer = thread::spawn({
            let (asleep, bell, ring) =
                (PeerPage::new(page), OwnedPage::new(bell.clone()), OwnedPage::new(ring.clone()));
            move || {
                ring.store(0, 1, Ordering::Release);
                fence(Ordering::SeqCst);
                if let Some(role) = wake::sleeping(&asleep) {
                    bell.increment_and_wake(role.word(0));
                }
            }
        });
        let (bell, ring) = (PeerPage::new(bell), PeerPage::new(ring));
        let (mut executed, mut has_taken) = (Vec::new(), false);
        loop {
            executed.extend(commands.take().commands);
            has_taken |= ring.load_acquire(0) > 0;
            if executed.len() == 2 && has_taken {
                break;
            }
            if !commands.has_some() && !sleeper.is_interrupted() {
                let is_ready = || !has_taken && ring.load_acquire(0) > 0;
                sleeper.sleep_unless([(&bell, 0)].into_iter(), is_ready, None);
            }
        }
        assert_eq!(executed, [1, 2]);
        sender.join().unwrap();
        writer.join().unwrap();
    });
}

/// Two threads take turns polling. One waits once and does not check the commands afterwards, so it may consume the
/// interrupt that was meant for the other.
#[test]
fn command_whose_interruption_another_thread_consumed_is_executed() {
    bounded(3).check(|| {
        let sleeper = Sleeper::new(OwnedPage::new(Words::new(SLEEPER_WORDS)));
        let interrupt = sleeper.interrupt();
        let commands = Arc::new(TestCommands::new(interrupt.clone(), LIMIT));
        let hands = Arc::new(Mutex::new(sleeper));
        let leaving = thread::spawn({
            let (commands, hands) = (Arc::clone(&commands), Arc::clone(&hands));
            move || wait_with(&hands, &commands)
        });
        let sender = thread::spawn({
            let commands = Arc::clone(&commands);
            move || commands.send(1)
        });
        while hands.try_lock().map_or(Vec::new(), |_hands| commands.take().commands).is_empty() {
            wait_with(&hands, &commands);
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
        let sleeper = Sleeper::new(OwnedPage::new(Words::new(SLEEPER_WORDS)));
        let commands = Arc::new(TestCommands::new(sleeper.interrupt(), LIMIT));
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
        let mut sleeper = Sleeper::new(OwnedPage::new(Words::new(SLEEPER_WORDS)));
        let commands = Arc::new(TestCommands::new(sleeper.interrupt(), LIMIT));
        let changes = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let senders = [0, 1].map(|number: usize| {
            let (commands, changes) = (Arc::clone(&commands), Arc::clone(&changes));
            thread::spawn(move || {
                changes[number].store(1, Ordering::Relaxed);
                commands.request('r');
            })
        });
        let mut seen = 0;
        while seen < 2 {
            let TakenCommands { requests, .. } = commands.take();
            if !requests.is_empty() {
                assert_eq!(requests, ['r']);
                seen = changes.iter().map(|change| change.load(Ordering::Relaxed)).sum();
            } else if !commands.has_some() {
                wait(&mut sleeper);
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(commands.take().requests.len() <= 1);
    });
}
