//! What other threads ask of the one that takes, and whether there is one.

use super::sync::{AtomicBool, Mutex, Ordering};
use super::wake::Interrupt;
use std::fmt;
use std::sync::PoisonError;

/// Commands to whoever takes from a [`Reader`](super::Reader), in the order in which they were sent. Each ends the wait that is
/// under way, or the next one.
///
/// It has no bound of its own: senders are to have one.
pub struct Commands<C> {
    queue: Mutex<Vec<C>>,
    /// Set behind the command, so that to look costs nothing while there is none.
    has_some: AtomicBool,
    /// Whether a thread runs that obeys. Locked before the queue.
    is_running: Mutex<bool>,
    interrupt: Interrupt,
}

impl<C> Commands<C> {
    /// Commands that end the waits of this reader.
    #[must_use]
    pub fn new(interrupt: Interrupt) -> Self {
        Self {
            queue: Mutex::new(Vec::new()),
            has_some: AtomicBool::new(false),
            is_running: Mutex::new(false),
            interrupt,
        }
    }

    /// Sends one, whether or not anybody obeys.
    pub fn send(&self, command: C) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        self.has_some.store(true, Ordering::SeqCst);
        self.interrupt.interrupt();
    }

    /// Sends one, and has `start` start a thread that obeys if none runs; it says whether it did. The thread is to end when
    /// [`Self::has_ended`] says so.
    pub fn send_and_start(&self, command: C, start: impl FnOnce() -> bool) {
        self.send(command);
        let mut is_running = self.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_running {
            *is_running = start();
        }
    }

    /// Sends the command that `command` makes of `subject`, if a thread runs that obeys; gives the subject back otherwise.
    pub fn send_if_running<S>(&self, subject: S, command: impl FnOnce(S) -> C) -> Option<S> {
        let is_running = self.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_running {
            return Some(subject);
        }
        self.send(command(subject));
        None
    }

    /// Whether the thread that obeys is to end, having nothing to do: nobody has asked for more. To be asked by that thread;
    /// with `true` it counts as ended.
    pub fn has_ended(&self) -> bool {
        let mut is_running = self.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        *is_running = !self.queue.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        !*is_running
    }

    /// Whether [`Self::take`] would give some. To be asked before a wait: another thread that takes may have had the
    /// interruption that was meant for it.
    #[must_use]
    pub fn has_some(&self) -> bool {
        self.has_some.load(Ordering::SeqCst)
    }

    /// All that have come so far.
    #[must_use]
    pub fn take(&self) -> Vec<C> {
        // Whoever polls looks here again and again: it must not take the line from those who write it.
        if !self.has_some.load(Ordering::Acquire) || !self.has_some.swap(false, Ordering::SeqCst) {
            return Vec::new();
        }
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets go of all that have come so far.
    pub fn clear(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl<C> fmt::Debug for Commands<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Commands").finish_non_exhaustive()
    }
}
