//! Events that wait for the caller.

use alloc::collections::VecDeque;

/// Events that wait at most. The caller drains the queue after each call, and a call queues a few events for each
/// instance, sample or pair of endpoints that it concerns: forty thousand pairs in the largest systems. A queue that
/// no thread drains reaches this bound.
const EVENTS_MAX: usize = 1 << 20;

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
        debug_assert!(self.0.len() <= EVENTS_MAX, "the caller does not drain the events");
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
        debug_assert!(self.0.len() <= EVENTS_MAX, "the caller does not drain the events");
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
    fn queue_accepts_events_up_to_its_bound() {
        let mut queue = EventQueue::new();
        queue.extend(0..EVENTS_MAX - 1);
        queue.push_back(EVENTS_MAX);
        assert_eq!(queue.0.len(), EVENTS_MAX);
    }

    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "the caller does not drain the events")]
    fn queue_that_is_not_drained_is_noticed() {
        let mut queue = EventQueue::new();
        queue.extend(0..EVENTS_MAX);
        queue.push_back(EVENTS_MAX);
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
