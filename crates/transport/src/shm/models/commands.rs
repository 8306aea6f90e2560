//! Commands to whoever takes: they end its sleep, reach whoever takes next, and find a thread that obeys. The loops of those who
//! take (`driver/shm/incoming.rs` of the middleware) are told here in a few lines; the rest is real.

use super::{bounded, thread};
use crate::shm::commands::Commands;
use crate::shm::page::{OwnedPage, PeerPage, Words};
use crate::shm::sync::{Mutex, Ordering, fence};
use crate::shm::wake::{self, SLEEPER_WORDS, Sleeper};
use std::sync::Arc;

/// Looks and sleeps as `Reader::wait` does, with nothing to be taken.
fn wait(sleeper: &mut Sleeper) {
    while !sleeper.is_interrupted() {
        sleeper.sleep_unless(std::iter::empty(), || false, None);
    }
}

/// As `Incoming::wait` does.
fn wait_with(hands: &Mutex<Sleeper>, commands: &Commands<u32>) {
    match hands.try_lock() {
        Ok(mut sleeper) if !commands.has_some() => wait(&mut sleeper),
        _ => thread::yield_now(),
    }
}

/// The thread that takes sleeps when it has found neither samples nor commands; another sends commands, and a writer of another
/// process publishes.
#[test]
fn a_command_ends_the_sleep_of_who_takes() {
    bounded(2).check(|| {
        let (page, bell, ring) = (Words::new(SLEEPER_WORDS), Words::new(1), Words::new(1));
        let mut sleeper = Sleeper::new(OwnedPage::new(page.clone()));
        let commands = Arc::new(Commands::new(sleeper.interrupt()));
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
                if wake::is_asleep(&asleep) {
                    bell.increment_and_wake(0);
                }
            }
        });
        let (bell, ring) = (PeerPage::new(bell), PeerPage::new(ring));
        let (mut obeyed, mut has_taken) = (Vec::new(), false);
        loop {
            obeyed.extend(commands.take());
            has_taken |= ring.load_acquire(0) > 0;
            if obeyed.len() == 2 && has_taken {
                break;
            }
            if !commands.has_some() && !sleeper.is_interrupted() {
                let is_ready = || !has_taken && ring.load_acquire(0) > 0;
                sleeper.sleep_unless([(&bell, 0)].into_iter(), is_ready, None);
            }
        }
        assert_eq!(obeyed, [1, 2]);
        sender.join().unwrap();
        writer.join().unwrap();
    });
}

/// Two threads that poll take in turns. One waits once, and its end comes before it has looked at commands again: the
/// interruption that it had was meant for the other.
#[test]
fn a_command_is_obeyed_although_another_thread_had_its_interruption() {
    bounded(3).check(|| {
        let sleeper = Sleeper::new(OwnedPage::new(Words::new(SLEEPER_WORDS)));
        let interrupt = sleeper.interrupt();
        let commands = Arc::new(Commands::new(interrupt.clone()));
        let hands = Arc::new(Mutex::new(sleeper));
        let leaving = thread::spawn({
            let (commands, hands) = (Arc::clone(&commands), Arc::clone(&hands));
            move || wait_with(&hands, &commands)
        });
        let sender = thread::spawn({
            let commands = Arc::clone(&commands);
            move || commands.send(1)
        });
        while hands.try_lock().map_or(Vec::new(), |_hands| commands.take()).is_empty() {
            wait_with(&hands, &commands);
        }
        // What else it would wait for comes.
        interrupt.interrupt();
        leaving.join().unwrap();
        sender.join().unwrap();
    });
}

/// The thread that takes ends when it has nothing to do, while commands are sent that start one if there is none, or that
/// somebody else obeys then. Each is obeyed once.
#[test]
fn a_command_finds_a_thread_that_obeys() {
    bounded(3).check(|| {
        let commands = Arc::new(Commands::new(Sleeper::new(OwnedPage::new(Words::new(SLEEPER_WORDS))).interrupt()));
        let (obeyed, mut started) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
        let run = {
            let (commands, obeyed) = (Arc::clone(&commands), Arc::clone(&obeyed));
            move || loop {
                let taken = commands.take();
                if !taken.is_empty() {
                    obeyed.lock().unwrap().extend(taken);
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
        commands.send_and_start(1, &mut start);
        commands.send_and_start(2, &mut start);
        let not_sent = commands.send_if_running(3, |command| command);
        started.into_iter().for_each(|taker| taker.join().unwrap());
        let mut obeyed = std::mem::take(&mut *obeyed.lock().unwrap());
        obeyed.extend(not_sent);
        obeyed.sort_unstable();
        assert_eq!(obeyed, [1, 2, 3]);
    });
}
