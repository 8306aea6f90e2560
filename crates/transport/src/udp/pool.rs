//! Receive buffers that are reused as soon as no reader holds them.

use std::collections::VecDeque;
use std::sync::Arc;

/// Held buffers that are checked for a free one, each time one is needed.
const SCAN: usize = 8;

/// Buffers of one length, each free or held by a reader. A buffer is free when the pool has the only reference to it.
pub(super) struct Pool {
    /// Buffers that were handed out and may still be held, in the order of handing out. Readers usually release them in
    /// that order too, so the first is the most likely to be free.
    held: VecDeque<Arc<Vec<u8>>>,
    /// Buffers in existence: those in `held` and those lent to the receiver.
    existing: usize,
    capacity: usize,
    buffer_bytes: usize,
}

impl Pool {
    pub(super) fn new(capacity: usize, buffer_bytes: usize) -> Self {
        // With its capacity reserved the queue never allocates again.
        Self { held: VecDeque::with_capacity(capacity), existing: 0, capacity, buffer_bytes }
    }

    /// A buffer without another owner, or `None` if all of them are held.
    pub(super) fn take(&mut self) -> Option<Arc<Vec<u8>>> {
        for _ in 0..SCAN.min(self.held.len()) {
            let mut buffer = self.held.pop_front()?;
            if Arc::get_mut(&mut buffer).is_some() {
                return Some(buffer);
            }
            self.held.push_back(buffer);
        }
        if self.existing >= self.capacity {
            return None;
        }
        self.existing += 1;
        Some(Arc::new(vec![0; self.buffer_bytes]))
    }

    /// Takes back a buffer that a reader may still hold.
    pub(super) fn put_back(&mut self, buffer: Arc<Vec<u8>>) {
        self.held.push_back(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_buffer_is_never_lent_twice_and_free_one_is_reused() {
        let mut pool = Pool::new(2, 16);
        let first = pool.take().unwrap();
        let second = pool.take().unwrap();
        assert!(pool.take().is_none(), "at capacity");
        let (held, address) = (Arc::clone(&first), Arc::as_ptr(&second));
        pool.put_back(first);
        pool.put_back(second);
        let reused = pool.take().unwrap();
        assert_eq!(Arc::as_ptr(&reused), address);
        assert!(pool.take().is_none(), "the other is still held");
        drop(held);
        assert_eq!(pool.take().unwrap().len(), 16);
    }

    #[test]
    fn weak_reference_holds_a_buffer_too() {
        let mut pool = Pool::new(1, 16);
        let buffer = pool.take().unwrap();
        let weak = Arc::downgrade(&buffer);
        pool.put_back(buffer);
        assert!(pool.take().is_none());
        drop(weak);
        assert!(pool.take().is_some());
    }
}
