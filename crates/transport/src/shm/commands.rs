//! Commands from other threads to the thread that takes samples, and whether such a thread runs.

use super::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use super::wake::Interrupt;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::PoisonError;

/// Commands to the thread that takes from a [`Reader`](super::Reader). Each ends the current wait of that thread, or
/// the next one.
///
/// - *Commands* (`C`) are all executed, in the order in which they were sent.
/// - *Requests* (`R`) are executed after the commands, equal ones once. A request makes the taking thread check a state
///   that the sender has changed before, so one check after the last change suffices. Without merging, a thread that
///   repeats a request would fill the queue while the taking thread is busy.
///
/// At most `limit` commands wait; further refusable commands are refused. [`Self::send`] is for commands that must not
/// be lost; each belongs to an accepted command, with at most [`FOLLOW_UPS_MAX`] for each.
pub struct Commands<C, R> {
    queue: Mutex<Queue<C, R>>,
    limit: usize,
    /// Set after the command was queued. A check is cheap while the queue is empty.
    has_some: AtomicBool,
    /// Whether a thread that executes commands runs. Locked before the queue.
    is_running: Mutex<bool>,
    interrupt: Interrupt,
}

/// Content of a queue, for one thread: first execute `commands`, then `requests`.
#[derive(Debug)]
pub struct TakenCommands<C, R> {
    /// In the order in which they were sent.
    pub commands: Vec<C>,
    /// Each once, in the order in which each was first sent.
    pub requests: Vec<R>,
}

/// Most commands that cannot be refused for each accepted one: a channel begins and ends.
pub const FOLLOW_UPS_MAX: usize = 4;

struct Queue<C, R> {
    commands: Vec<C>,
    requests: Vec<R>,
    /// The same requests, for lookup.
    requested: HashSet<R>,
}

impl<C, R> Queue<C, R> {
    fn new() -> Self {
        Self { commands: Vec::new(), requests: Vec::new(), requested: HashSet::new() }
    }

    fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.requests.is_empty()
    }
}

impl<C, R: Copy + Eq + Hash> Commands<C, R> {
    /// Creates a queue whose commands end the waits of the reader of `interrupt`.
    #[must_use]
    pub fn new(interrupt: Interrupt, limit: usize) -> Self {
        Self {
            queue: Mutex::new(Queue::new()),
            limit,
            has_some: AtomicBool::new(false),
            is_running: Mutex::new(false),
            interrupt,
        }
    }

    /// Sends a command that must not be lost, whether or not an executing thread runs.
    pub fn send(&self, command: C) {
        let mut queue = self.lock_queue();
        queue.commands.push(command);
        debug_assert!(
            queue.commands.len() <= self.limit.saturating_mul(FOLLOW_UPS_MAX + 1),
            "{} commands wait, which is more than belong to the {} that may be accepted",
            queue.commands.len(),
            self.limit
        );
        drop(queue);
        self.announce();
    }

    /// Sends a request unless an equal one waits. The executing thread sees all changes that the calling thread made
    /// before.
    pub fn request(&self, request: R) {
        let mut queue = self.lock_queue();
        if !queue.requested.insert(request) {
            // The thread that sent the equal request also announces it, and the executing thread checks the queue
            // before it waits.
            return;
        }
        queue.requests.push(request);
        debug_assert!(queue.requests.len() == queue.requested.len());
        drop(queue);
        self.announce();
    }

    /// Sends a command and calls `start` if no executing thread runs; `start` returns whether it started one. That
    /// thread ends when [`Self::has_ended`] returns true.
    ///
    /// # Errors
    /// The limit is reached; the command comes back.
    pub fn send_and_start(&self, command: C, start: impl FnOnce() -> bool) -> Result<(), C> {
        self.try_send(command)?;
        let mut is_running = self.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_running {
            *is_running = start();
        }
        Ok(())
    }

    /// Sends the command that `command` makes of `subject`. The subject comes back if no executing thread runs or the
    /// limit is reached; then the caller executes the command itself.
    pub fn send_if_running<S>(&self, subject: S, command: impl FnOnce(S) -> C) -> Option<S> {
        let is_running = self.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_running {
            return Some(subject);
        }
        let mut queue = self.lock_queue();
        if queue.commands.len() >= self.limit {
            return Some(subject);
        }
        queue.commands.push(command(subject));
        drop(queue);
        self.announce();
        None
    }

    /// Sends a command, whether or not an executing thread runs.
    ///
    /// # Errors
    /// The limit is reached; the command comes back.
    pub fn try_send(&self, command: C) -> Result<(), C> {
        let mut queue = self.lock_queue();
        if queue.commands.len() >= self.limit {
            return Err(command);
        }
        queue.commands.push(command);
        drop(queue);
        self.announce();
        Ok(())
    }

    /// Whether the executing thread ends: the queue is empty. Only that thread calls this, when it has no other work;
    /// after `true` it counts as ended.
    pub fn has_ended(&self) -> bool {
        let mut is_running = self.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        *is_running = !self.lock_queue().is_empty();
        !*is_running
    }

    /// Whether [`Self::take`] would return any. The taking thread calls this before it waits: another taking thread may
    /// have consumed the interrupt.
    #[must_use]
    pub fn has_some(&self) -> bool {
        self.has_some.load(Ordering::SeqCst)
    }

    /// Takes all commands and requests sent so far.
    #[must_use]
    pub fn take(&self) -> TakenCommands<C, R> {
        // A polling thread calls this repeatedly and must not pull the cache line from sending threads.
        if !self.has_some.load(Ordering::Acquire) || !self.has_some.swap(false, Ordering::SeqCst) {
            return TakenCommands { commands: Vec::new(), requests: Vec::new() };
        }
        let mut queue = self.lock_queue();
        queue.requested.clear();
        let Queue { commands, requests, .. } = &mut *queue;
        TakenCommands { commands: std::mem::take(commands), requests: std::mem::take(requests) }
    }

    /// Drops all commands and requests sent so far.
    pub fn clear(&self) {
        let dropped = std::mem::replace(&mut *self.lock_queue(), Queue::new());
        // Dropped without the lock: a command may own a value whose drop sends another command.
        drop(dropped);
    }

    fn announce(&self) {
        self.has_some.store(true, Ordering::SeqCst);
        self.interrupt.interrupt();
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue<C, R>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C, R> fmt::Debug for Commands<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::shm::{Reader, ReaderConfig};

    const LIMIT: usize = 8;

    fn commands() -> Commands<usize, char> {
        Commands::new(Reader::new(ReaderConfig::default()).unwrap().interrupt(), LIMIT)
    }

    #[test]
    fn repeated_request_is_queued_once_and_again_after_it_was_taken() {
        let commands = commands();
        for _ in 0..100_000 {
            ['a', 'b', 'c'].into_iter().for_each(|request| commands.request(request));
        }
        commands.send(1);
        let TakenCommands { commands: ordered, requests } = commands.take();
        assert_eq!((ordered, requests), (vec![1], vec!['a', 'b', 'c']));
        assert!(!commands.has_some());
        commands.request('a');
        assert_eq!(commands.take().requests, ['a']);
    }

    #[test]
    fn command_past_the_limit_comes_back() {
        let commands = commands();
        assert_eq!(commands.send_if_running(0, |number| number), Some(0), "no thread runs");
        assert_eq!(commands.send_and_start(0, || true), Ok(()));
        for number in 1..LIMIT {
            assert_eq!(commands.try_send(number), Ok(()));
        }
        assert_eq!(commands.try_send(LIMIT), Err(LIMIT));
        assert_eq!(commands.send_and_start(LIMIT, || unreachable!("a thread runs")), Err(LIMIT));
        assert_eq!(commands.send_if_running(LIMIT, |number| number), Some(LIMIT));
        let queued = || commands.lock_queue().commands.len();
        assert_eq!(queued(), LIMIT);
        (0..LIMIT * FOLLOW_UPS_MAX).for_each(|number| commands.send(number));
        assert_eq!(queued(), LIMIT * (FOLLOW_UPS_MAX + 1));
        assert_eq!(commands.take().commands.len(), LIMIT * (FOLLOW_UPS_MAX + 1));
        assert!(commands.has_ended());
    }

    #[test]
    #[should_panic(expected = "more than belong to")]
    #[cfg(debug_assertions)]
    fn commands_past_the_asserted_bound_panic_in_debug_builds() {
        let commands = commands();
        (0..=LIMIT * (FOLLOW_UPS_MAX + 1)).for_each(|number| commands.send(number));
    }
}
