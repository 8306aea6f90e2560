//! Serialized samples shared by reference, and the pool their buffers come from.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, Range};

/// A serialized sample (encapsulation header first) or a part of one, shared by reference.
///
/// Cloning counts a reference; the bytes never move and never change while anyone holds one.
#[derive(Clone, Default)]
pub struct Payload {
    /// None for the empty payload, which costs nothing to make.
    buffer: Option<Arc<Vec<u8>>>,
    start: u32,
    len: u32,
}

impl Payload {
    /// The octets `range` of a shared buffer. `None` when the range lies outside, or past 4 GiB.
    #[must_use]
    pub fn new(buffer: Arc<Vec<u8>>, range: Range<usize>) -> Option<Self> {
        buffer.get(range.clone())?;
        let start = u32::try_from(range.start).ok()?;
        let len = u32::try_from(range.len()).ok()?;
        Some(Self { buffer: Some(buffer), start, len })
    }

    /// A payload of its own, copied.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let len = bytes.len();
        Self::new(Arc::new(bytes.to_vec()), 0..len).unwrap_or_default()
    }

    /// A part of this payload.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        self.get(range.clone())?;
        let start = self.start.checked_add(u32::try_from(range.start).ok()?)?;
        Some(Self { buffer: self.buffer.clone(), start, len: u32::try_from(range.len()).ok()? })
    }

    /// Gives the buffer up; the empty payload may have none.
    #[must_use]
    pub fn into_buffer(self) -> Option<Arc<Vec<u8>>> {
        self.buffer
    }

    /// How large the buffer behind this payload is: what holding it costs.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.len())
    }
}

impl Deref for Payload {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        let start = self.start as usize;
        self.buffer.as_ref().and_then(|b| b.get(start..start + self.len as usize)).unwrap_or(&[])
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} octets)", self.len)
    }
}

/// The smallest buffer the pool hands out, in octets, as a power of two.
const SMALLEST_CLASS: u32 = 7;
/// Octets before a copied payload: with the four of the encapsulation header, the body starts at a multiple of 8.
const ALIGNING: usize = 4;
/// The number of size classes: 128 octets to 64 MiB.
const CLASSES: usize = 20;

/// Buffers waiting for their next sample, by size class (powers of two).
///
/// A buffer comes back only when nobody else refers to it, so the pool needs no knowledge of who shares what.
#[derive(Debug)]
pub struct BufferPool {
    classes: [Vec<Arc<Vec<u8>>>; CLASSES],
    held_bytes: usize,
    held_bytes_max: usize,
}

impl BufferPool {
    /// A pool that keeps at most `held_bytes_max` octets of idle buffers.
    #[must_use]
    pub const fn new(held_bytes_max: usize) -> Self {
        Self { classes: [const { Vec::new() }; CLASSES], held_bytes: 0, held_bytes_max }
    }

    /// A buffer of at least `len` octets that nobody else refers to. Its contents are left over from before.
    #[must_use]
    pub fn take(&mut self, len: usize) -> Arc<Vec<u8>> {
        let (class, size) = class_of(len);
        if let Some(buffer) = self.classes.get_mut(class).and_then(Vec::pop) {
            self.held_bytes -= buffer.len();
            return buffer;
        }
        Arc::new(vec![0; size])
    }

    /// The size of the buffer that [`Self::take`] gives for `len` octets.
    #[must_use]
    pub fn buffer_len(len: usize) -> usize {
        class_of(len).1
    }

    /// A payload holding a copy of `bytes`, in a buffer of the pool. What follows its encapsulation header is aligned
    /// for any primitive type, so that it can be looked at in place.
    #[must_use]
    pub fn copy_of(&mut self, bytes: &[u8]) -> Payload {
        let range = ALIGNING..ALIGNING.saturating_add(bytes.len());
        let mut buffer = self.take(range.end);
        if let Some(target) = Arc::get_mut(&mut buffer).and_then(|b| b.get_mut(range.clone())) {
            target.copy_from_slice(bytes);
        }
        Payload::new(buffer, range).unwrap_or_default()
    }

    /// Takes a payload's buffer back if nobody else refers to it and the pool has room; else lets go of it.
    pub fn recycle(&mut self, payload: Payload) {
        if let Some(buffer) = payload.into_buffer() {
            self.recycle_buffer(buffer);
        }
    }

    /// Takes a buffer back if nobody else refers to it and the pool has room; else lets go of it.
    pub fn recycle_buffer(&mut self, mut buffer: Arc<Vec<u8>>) {
        if Arc::get_mut(&mut buffer).is_none() {
            return;
        }
        let (class, size) = class_of(buffer.len());
        let held = self.held_bytes.saturating_add(size);
        if size != buffer.len() || held > self.held_bytes_max {
            return;
        }
        if let Some(idle) = self.classes.get_mut(class) {
            idle.push(buffer);
            self.held_bytes = held;
        }
    }

    /// Octets of idle buffers.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

/// The class for `len` octets and its buffer size. Beyond the largest class: no class, exactly `len`.
fn class_of(len: usize) -> (usize, usize) {
    let bits = usize::BITS - len.saturating_sub(1).leading_zeros();
    let class = bits.saturating_sub(SMALLEST_CLASS) as usize;
    if class >= CLASSES { (CLASSES, len) } else { (class, 1 << (class as u32 + SMALLEST_CLASS)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two_that_fit() {
        assert_eq!(class_of(0), (0, 128));
        assert_eq!(class_of(128), (0, 128));
        assert_eq!(class_of(129), (1, 256));
        assert_eq!(class_of(65_536), (9, 65_536));
        assert_eq!(class_of(1 << 26), (19, 1 << 26));
        assert_eq!(class_of((1 << 26) + 1), (CLASSES, (1 << 26) + 1));
    }

    #[test]
    fn a_buffer_comes_back_only_when_it_is_the_last_reference() {
        let mut pool = BufferPool::new(1 << 20);
        let payload = pool.copy_of(&[1, 2, 3]);
        let other = payload.clone();
        pool.recycle(payload);
        assert_eq!(pool.held_bytes(), 0);
        assert_eq!(&*other, [1, 2, 3]);
        pool.recycle(other);
        assert_eq!(pool.held_bytes(), 128);
        let again = pool.take(100);
        assert_eq!(again.len(), 128);
        assert_eq!(pool.held_bytes(), 0);
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_bound() {
        let mut pool = BufferPool::new(300);
        let buffers: Vec<_> = (0..4).map(|_| pool.take(10)).collect();
        buffers.into_iter().for_each(|b| pool.recycle_buffer(b));
        assert_eq!(pool.held_bytes(), 256);
    }

    #[test]
    fn slices_stay_inside() {
        let payload = Payload::copy_of(&[0, 1, 2, 3, 4]);
        assert_eq!(&*payload.slice(1..4).unwrap().slice(1..3).unwrap(), [2, 3]);
        assert!(payload.slice(3..6).is_none());
        assert!(Payload::new(Arc::new(vec![0; 4]), 2..5).is_none());
    }
}
