//! Messages that wait until their markers have been received: the order of the [socket barrier](super::socket_barrier),
//! without its sockets.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use peregrine_rtps::time::{Instant, Span};

use crate::driver::base::clock::NEVER;
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::system::{AtomicUsize, Mutex};

/// Timeout of a marker. A receive thread that runs a listener may delay it.
pub(super) const PATIENCE: Span = Span::from_secs(1);

/// Maximum number of waiting messages; beyond it, a message takes effect at once.
pub(super) const WAITING_MAX: usize = 256;

pub(in crate::driver) struct MarkedMessages<T> {
    /// Number of waiting messages; usually 0.
    count: AtomicUsize,
    waiting: Mutex<Waiting<T>>,
}

struct Waiting<T> {
    /// In the order of their numbers, and so of their timeouts.
    messages: VecDeque<Marked<T>>,
    next: u64,
}

/// A message with the number of its marker.
pub(in crate::driver) struct Marked<T> {
    pub(super) number: u64,
    until: Instant,
    pub(in crate::driver) content: T,
}

impl<T> Marked<T> {
    /// A message without a marker.
    #[cfg(test)]
    pub(super) const fn unmarked(content: T) -> Self {
        Self { number: 0, until: Instant(NEVER), content }
    }
}

impl<T> MarkedMessages<T> {
    pub(in crate::driver) fn new() -> Self {
        let waiting = Waiting { messages: VecDeque::new(), next: 0 };
        Self { count: AtomicUsize::new(0), waiting: Mutex::new(waiting) }
    }

    /// Whether messages wait.
    pub(in crate::driver) fn is_in_use(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Lets a message wait for its marker, which `send_marker` sends. Returns `false` if the message has to take effect
    /// at once: too many wait, or the marker was not sent.
    pub(in crate::driver) fn defer(&self, now: Instant, content: T, send_marker: impl FnOnce(u64) -> bool) -> bool {
        let Some(number) = self.add(now, content) else { return false };
        // A message whose marker was not sent may have timed out and taken effect already.
        send_marker(number) || self.take(number).is_none()
    }

    /// The message of a marker that was received; `None` if it has taken effect already.
    pub(in crate::driver) fn take(&self, number: u64) -> Option<Marked<T>> {
        let mut waiting = self.lock();
        let at = waiting.messages.iter().position(|message| message.number == number)?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        waiting.messages.remove(at)
    }

    /// The messages whose timeout is over.
    pub(in crate::driver) fn take_overdue(&self, now: Instant) -> Vec<Marked<T>> {
        if !self.is_in_use() {
            return Vec::new();
        }
        let mut waiting = self.lock();
        let overdue = waiting.messages.iter().take_while(|message| message.until <= now).count();
        self.count.fetch_sub(overdue, Ordering::Relaxed);
        waiting.messages.drain(..overdue).collect()
    }

    /// The next timeout.
    pub(in crate::driver) fn deadline(&self) -> u64 {
        if self.is_in_use() { self.lock().messages.front().map_or(NEVER, |message| message.until.0) } else { NEVER }
    }

    pub(super) fn add(&self, now: Instant, content: T) -> Option<u64> {
        let mut waiting = self.lock();
        if waiting.messages.len() >= WAITING_MAX {
            return None;
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.messages.push_back(Marked { number, until: now + PATIENCE, content });
        debug_assert!(waiting.messages.len() <= WAITING_MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(number)
    }

    fn lock(&self) -> Guard<'_, Waiting<T>> {
        lock(&self.waiting)
    }
}
