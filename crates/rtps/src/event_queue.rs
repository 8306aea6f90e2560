//! Events that wait for the caller.

use alloc::collections::VecDeque;

/// The capacity that an empty queue keeps.
const KEPT: usize = 16;

/// A queue that gives its memory back when it is empty. A participant that matches forty thousand pairs of endpoints
/// queues an event for each, and hardly any afterwards.
#[derive(Debug)]
pub(crate) struct EventQueue<T>(VecDeque<T>);

impl<T> EventQueue<T> {
    pub(crate) const fn new() -> Self {
        Self(VecDeque::new())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn back(&self) -> Option<&T> {
        self.0.back()
    }

    pub(crate) fn push_back(&mut self, event: T) {
        self.0.push_back(event);
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let event = self.0.pop_front();
        if event.is_none() && self.0.capacity() > KEPT {
            self.0 = VecDeque::new();
        }
        event
    }
}

impl<T> Extend<T> for EventQueue<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, events: I) {
        self.0.extend(events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_burst_is_given_back_after_its_last_event() {
        let mut queue = EventQueue::new();
        queue.extend(0..1000);
        for event in 0..1000 {
            assert_eq!(queue.pop_front(), Some(event));
        }
        assert_eq!((queue.pop_front(), queue.0.capacity()), (None, 0));
    }

    #[test]
    fn few_events_keep_their_place() {
        let mut queue = EventQueue::new();
        queue.push_back(1);
        let capacity = queue.0.capacity();
        assert_eq!((queue.back().copied(), queue.pop_front(), queue.pop_front()), (Some(1), Some(1), None));
        assert_eq!(queue.0.capacity(), capacity);
    }
}
