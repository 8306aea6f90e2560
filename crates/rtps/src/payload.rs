//! Serialized samples shared by reference, and the pool of their buffers.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::ops::{Deref, Range};

/// A serialized sample (encapsulation header first) or a part of one, shared by reference.
///
/// Cloning counts a reference, or copies up to [`Payload::HERE_MAX`] bytes. Copied bytes move with the payload, shared
/// ones stay in place. The bytes never change, except those of an [`Octets`] that documents it.
#[derive(Clone, Default)]
#[repr(C)]
pub struct Payload {
    memory: Memory,
    start: u32,
    len: u32,
}

/// The location of the bytes. The layout is fixed so that those of a short payload start four bytes into it.
#[derive(Clone)]
#[repr(u32)]
enum Memory {
    /// `None` for the empty payload, which costs nothing to create. The pool of the last owner may keep the buffer.
    Buffer(Option<Arc<Vec<u8>>>),
    /// A buffer of the lender's pool, which no other pool keeps.
    Lent(Arc<Vec<u8>>),
    Foreign(Arc<dyn Octets>),
    /// Few bytes, stored inline: copying them costs less than counting references to them.
    Here([u8; Payload::HERE_MAX]),
}

/// Overwrites bytes that were secret. The compiler must not be able to leave the call out, although nothing reads the
/// bytes afterwards.
pub type Wipe = fn(&mut [u8]);

/// The length of a payload that consists of a whole [`Octets`], whose bytes perhaps do not exist yet.
const WHOLE: u32 = u32::MAX;

// In a short payload that starts with an encapsulation header, the body is aligned for any primitive type.
const _: () = assert!(size_of::<Payload>() == 48 && align_of::<Payload>() == 8);

/// A serialized sample that is not in a buffer: bytes in memory shared with another process, or a value that this
/// process passes on unserialized and encodes when bytes are needed.
pub trait Octets: Send + Sync + fmt::Debug {
    /// The whole payload, encapsulation header first. The same memory each time; less than 4 GiB.
    fn octets(&self) -> &[u8];

    /// The number of bytes, if known without encoding.
    fn known_len(&self) -> Option<usize> {
        Some(self.octets().len())
    }

    /// Whether the bytes are unchanged since reception, as far as this can be detected.
    fn is_consistent(&self) -> bool {
        true
    }

    /// The memory that this sample occupies, in bytes. The number never changes, because it is charged and credited to
    /// accounts.
    fn held_bytes(&self) -> usize {
        self.known_len().unwrap_or(0)
    }

    /// The unserialized value, for users that know its type.
    fn value(&self) -> Option<&(dyn Any + Send + Sync)> {
        None
    }

    /// The serialized key, if available without encoding.
    fn key(&self) -> Option<Vec<u8>> {
        None
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::Buffer(None)
    }
}

impl Payload {
    /// The greatest number of bytes stored in the payload itself: a body of 32 after the encapsulation header.
    pub const HERE_MAX: usize = 36;

    /// A payload of `len` bytes, at most [`Self::HERE_MAX`]. `fill` receives the bytes as zeros and writes them.
    ///
    /// # Errors
    /// The error of `fill`.
    #[inline]
    pub fn filled<E>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut octets = [0; Self::HERE_MAX];
        let len = len.min(Self::HERE_MAX);
        fill(octets.get_mut(..len).unwrap_or_default())?;
        Ok(Self { memory: Memory::Here(octets), start: 0, len: len as u32 })
    }

    /// The bytes `range` of a shared buffer. `None` when the range lies outside, or past 4 GiB.
    #[must_use]
    pub fn new(buffer: Arc<Vec<u8>>, range: Range<usize>) -> Option<Self> {
        buffer.get(range.clone())?;
        let start = u32::try_from(range.start).ok()?;
        let len = u32::try_from(range.len()).ok().filter(|len| *len != WHOLE)?;
        Some(Self { memory: Memory::Buffer(Some(buffer)), start, len })
    }

    /// A payload that consists of a whole [`Octets`].
    #[must_use]
    pub fn foreign(octets: Arc<dyn Octets>) -> Self {
        Self { memory: Memory::Foreign(octets), start: 0, len: WHOLE }
    }

    /// A payload with a copy of the bytes.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        if let Some(short) = Self::short(bytes) {
            return short;
        }
        let len = bytes.len();
        Self::new(Arc::new(bytes.to_vec()), 0..len).unwrap_or_default()
    }

    #[inline]
    fn short(bytes: &[u8]) -> Option<Self> {
        let mut octets = [0; Self::HERE_MAX];
        octets.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { memory: Memory::Here(octets), start: 0, len: bytes.len() as u32 })
    }

    /// Another reference for an owner with a pool of its own, which must not keep the buffer. The lender later
    /// [puts away](BufferPool::put_away) this payload.
    #[must_use]
    #[inline]
    pub fn lend(&self) -> Self {
        let memory = match &self.memory {
            Memory::Buffer(Some(buffer)) => Memory::Lent(Arc::clone(buffer)),
            other => other.clone(),
        };
        Self { memory, start: self.start, len: self.len }
    }

    /// A part of this payload.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        self.get(range.clone())?;
        let start = self.start.checked_add(u32::try_from(range.start).ok()?)?;
        let len = u32::try_from(range.len()).ok().filter(|len| *len != WHOLE)?;
        Some(Self { memory: self.memory.clone(), start, len })
    }

    /// The number of bytes. Encodes a value that has not been encoded.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        if self.len == WHOLE { self.deref().len() } else { self.len as usize }
    }

    /// The number of bytes; `None` for a value that has not been encoded yet.
    #[must_use]
    #[inline]
    pub fn known_len(&self) -> Option<usize> {
        match &self.memory {
            Memory::Foreign(octets) if self.len == WHOLE => octets.known_len(),
            _ => Some(self.len as usize),
        }
    }

    /// Whether the payload has neither bytes nor a value.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.known_len() == Some(0)
    }

    /// The value of a payload that consists of a whole value, not of a part.
    #[must_use]
    pub fn value(&self) -> Option<&(dyn Any + Send + Sync)> {
        match &self.memory {
            Memory::Foreign(octets) if self.len == WHOLE => octets.value(),
            _ => None,
        }
    }

    /// The serialized key, if available without encoding.
    #[must_use]
    pub fn key(&self) -> Option<Vec<u8>> {
        match &self.memory {
            Memory::Foreign(octets) => octets.key(),
            Memory::Buffer(_) | Memory::Lent(_) | Memory::Here(_) => None,
        }
    }

    /// Whether the bytes are unchanged since reception, as far as this can be detected: always true for memory of this
    /// process.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        match &self.memory {
            Memory::Buffer(_) | Memory::Lent(_) | Memory::Here(_) => true,
            Memory::Foreign(octets) => octets.is_consistent(),
        }
    }

    /// Returns the buffer. `None` for an empty, short or [lent](Self::lend) payload and for [`Octets`].
    #[must_use]
    pub fn into_buffer(self) -> Option<Arc<Vec<u8>>> {
        match self.memory {
            Memory::Buffer(buffer) => buffer,
            Memory::Lent(_) | Memory::Foreign(_) | Memory::Here(_) => None,
        }
    }

    /// Whether the payload is the only reference to its buffer, which a [`BufferPool`] may therefore keep.
    #[must_use]
    #[inline]
    pub fn is_sole_buffer(&self) -> bool {
        matches!(&self.memory, Memory::Buffer(Some(buffer)) if Arc::strong_count(buffer) == 1)
    }

    /// The size of the memory that this payload keeps allocated, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match &self.memory {
            Memory::Buffer(buffer) => buffer.as_ref().map_or(0, |buffer| buffer.len()),
            Memory::Lent(buffer) => buffer.len(),
            Memory::Foreign(octets) => octets.held_bytes(),
            Memory::Here(_) => size_of::<Self>(),
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let start = self.start as usize;
        match &self.memory {
            Memory::Buffer(buffer) => {
                buffer.as_ref().and_then(|b| b.get(start..start + self.len as usize)).unwrap_or(&[])
            }
            Memory::Lent(buffer) => buffer.get(start..start + self.len as usize).unwrap_or(&[]),
            Memory::Foreign(octets) if self.len == WHOLE => octets.octets(),
            Memory::Foreign(octets) => octets.octets().get(start..start + self.len as usize).unwrap_or(&[]),
            Memory::Here(octets) => octets.get(start..start + self.len as usize).unwrap_or(&[]),
        }
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known_len() {
            Some(len) => write!(f, "Payload({len} bytes)"),
            None => f.write_str("Payload(a value)"),
        }
    }
}

/// The smallest buffer the pool hands out, in bytes, as a power of two.
const SMALLEST_CLASS: u32 = 7;
/// Bytes before a copied payload: with the four bytes of the encapsulation header, the body starts at a multiple of 8.
const ALIGNING: usize = 4;
/// The number of size classes: 128 bytes to 64 MiB.
const CLASSES: usize = 20;

/// Lent buffers that a pool tracks: as many samples may be in use by readers of this process without an allocation for
/// each new sample.
const LENT_MAX: usize = 1024;
/// Lent buffers examined to find one that has no other reference any more.
const LENT_LOOKS: usize = 4;

/// Idle buffers by size class (powers of two).
///
/// A buffer returns only when there is no other reference, so the pool needs no knowledge of its users.
#[derive(Debug)]
pub struct BufferPool {
    classes: [Vec<Arc<Vec<u8>>>; CLASSES],
    /// Buffers with other references, oldest first. They count as held, because the last reference may end at any time.
    lent: VecDeque<Arc<Vec<u8>>>,
    held_bytes: usize,
    held_bytes_max: usize,
    /// Applied to buffers that the pool does not keep.
    wipe: Option<Wipe>,
}

impl BufferPool {
    /// A pool that keeps at most `held_bytes_max` bytes of idle buffers.
    #[must_use]
    pub const fn new(held_bytes_max: usize) -> Self {
        let lent = VecDeque::new();
        Self { classes: [const { Vec::new() }; CLASSES], lent, held_bytes: 0, held_bytes_max, wipe: None }
    }

    /// A pool for secrets: keeps no buffer, and overwrites each one that returns without other references.
    #[must_use]
    pub const fn wiping(wipe: Wipe) -> Self {
        let mut pool = Self::new(0);
        pool.wipe = Some(wipe);
        pool
    }

    /// A buffer of at least `len` bytes without other references. Its contents are those of earlier use.
    #[must_use]
    pub fn take(&mut self, len: usize) -> Arc<Vec<u8>> {
        let (class, size) = class_of(len);
        if let Some(buffer) = self.classes.get_mut(class).and_then(Vec::pop) {
            self.held_bytes -= buffer.len();
            return buffer;
        }
        self.take_back(size).unwrap_or_else(|| Arc::new(vec![0; size]))
    }

    /// A lent buffer of this size without other references, if one is among the oldest. Buffers of other sizes
    /// without other references become idle.
    fn take_back(&mut self, size: usize) -> Option<Arc<Vec<u8>>> {
        for _ in 0..self.lent.len().min(LENT_LOOKS) {
            let mut buffer = self.lent.pop_front()?;
            if Arc::get_mut(&mut buffer).is_none() {
                self.lent.push_back(buffer);
                continue;
            }
            if buffer.len() == size {
                self.held_bytes -= size;
                return Some(buffer);
            }
            match self.classes.get_mut(class_of(buffer.len()).0) {
                Some(idle) => idle.push(buffer),
                None => self.held_bytes -= buffer.len(),
            }
        }
        None
    }

    /// The size of the buffer that [`Self::take`] returns for `len` bytes.
    #[must_use]
    pub fn buffer_len(len: usize) -> usize {
        class_of(len).1
    }

    /// A payload with a copy of `bytes`, in a buffer of the pool unless it is short. The body after the encapsulation
    /// header is aligned for any primitive type, so that it can be read in place.
    #[must_use]
    pub fn copy_of(&mut self, bytes: &[u8]) -> Payload {
        if let Some(short) = Payload::short(bytes) {
            return short;
        }
        let range = ALIGNING..ALIGNING.saturating_add(bytes.len());
        let mut buffer = self.take(range.end);
        if let Some(target) = Arc::get_mut(&mut buffer).and_then(|b| b.get_mut(range.clone())) {
            target.copy_from_slice(bytes);
        }
        Payload::new(buffer, range).unwrap_or_default()
    }

    /// A payload of `len` bytes, aligned as by [`Self::copy_of`], which `fill` fills.
    ///
    /// # Errors
    /// The error of `fill`.
    pub(crate) fn filled<E>(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Payload, E> {
        if len <= Payload::HERE_MAX {
            return Payload::filled(len, fill);
        }
        let range = ALIGNING..ALIGNING.saturating_add(len);
        let mut buffer = self.take(range.end);
        let target = Arc::get_mut(&mut buffer).and_then(|b| b.get_mut(range.clone())).unwrap_or_default();
        if let Err(error) = fill(target) {
            self.recycle_buffer(buffer);
            return Err(error);
        }
        Ok(Payload::new(buffer, range).unwrap_or_default())
    }

    /// A copy of `bytes` for other owners, each of which gets a clone. The buffer returns to this pool after the last
    /// one has dropped it, if the pool has room to [track](Self::put_away) it until then.
    #[must_use]
    pub fn lend_copy_of(&mut self, bytes: &[u8]) -> Payload {
        let copy = self.copy_of(bytes);
        let lent = copy.lend();
        self.put_away(copy);
        lent
    }

    /// Returns a payload's buffer to the pool if there is no other reference and the pool has room. Otherwise drops it.
    pub fn recycle(&mut self, payload: Payload) {
        if let Some(buffer) = payload.into_buffer() {
            self.recycle_buffer(buffer);
        }
    }

    /// Returns a buffer to the pool if there is no other reference and the pool has room. Otherwise drops it.
    pub fn recycle_buffer(&mut self, mut buffer: Arc<Vec<u8>>) {
        // [`Self::take`] checks again with `Arc::get_mut`; there are no weak references.
        if Arc::strong_count(&buffer) != 1 {
            return;
        }
        let (class, size) = class_of(buffer.len());
        if size != buffer.len() || !self.evict_idle_for(size) {
            if let (Some(wipe), Some(bytes)) = (self.wipe, Arc::get_mut(&mut buffer)) {
                wipe(bytes);
            }
            return;
        }
        if let Some(idle) = self.classes.get_mut(class) {
            idle.push(buffer);
            self.held_bytes += size;
        }
    }

    /// Returns a payload's buffer to the pool, immediately or when its last other reference ends. Only the first owner
    /// of a buffer may call this.
    pub fn put_away(&mut self, payload: Payload) {
        let Some(mut buffer) = payload.into_buffer() else { return };
        if Arc::get_mut(&mut buffer).is_some() {
            self.recycle_buffer(buffer);
            return;
        }
        let size = buffer.len();
        if class_of(size).1 != size {
            return;
        }
        while self.lent.len() >= LENT_MAX || !self.evict_idle_for(size) {
            let Some(oldest) = self.lent.pop_front() else { return };
            self.held_bytes -= oldest.len();
        }
        self.lent.push_back(buffer);
        self.held_bytes += size;
    }

    /// Makes room for a buffer of this size: drops idle buffers of other sizes, the largest first. Returns false and
    /// drops none if that is not enough.
    fn evict_idle_for(&mut self, size: usize) -> bool {
        let mut excess = self.held_bytes.saturating_add(size).saturating_sub(self.held_bytes_max);
        if excess == 0 {
            return true;
        }
        let is_other = |buffers: &&mut Vec<Arc<Vec<u8>>>| buffers.first().is_some_and(|buffer| buffer.len() != size);
        let idle_bytes = |buffers: &mut Vec<Arc<Vec<u8>>>| buffers.iter().map(|buffer| buffer.len()).sum::<usize>();
        if self.classes.iter_mut().filter(is_other).map(idle_bytes).sum::<usize>() < excess {
            return false;
        }
        for buffers in self.classes.iter_mut().rev().filter(is_other) {
            while excess > 0
                && let Some(evicted) = buffers.pop()
            {
                self.held_bytes -= evicted.len();
                excess = excess.saturating_sub(evicted.len());
            }
        }
        debug_assert_eq!(excess, 0, "the idle buffers were enough");
        true
    }

    /// Drops all buffers; other references to lent ones stay valid.
    pub fn clear(&mut self) {
        *self = Self { wipe: self.wipe, ..Self::new(self.held_bytes_max) };
    }

    /// Bytes of idle and of lent buffers.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

/// The class for `len` bytes and its buffer size. Above the largest class: no class, and exactly `len`.
fn class_of(len: usize) -> (usize, usize) {
    let bits = usize::BITS - len.saturating_sub(1).leading_zeros();
    let class = bits.saturating_sub(SMALLEST_CLASS) as usize;
    if class >= CLASSES { (CLASSES, len) } else { (class, 1 << (class as u32 + SMALLEST_CLASS)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Too long to be stored in the payload itself.
    const LONG: [u8; 100] = [7; 100];

    #[test]
    fn buffer_classes_are_powers_of_two_that_fit() {
        assert_eq!(class_of(0), (0, 128));
        assert_eq!(class_of(128), (0, 128));
        assert_eq!(class_of(129), (1, 256));
        assert_eq!(class_of(65_536), (9, 65_536));
        assert_eq!(class_of(1 << 26), (19, 1 << 26));
        assert_eq!(class_of((1 << 26) + 1), (CLASSES, (1 << 26) + 1));
    }

    #[test]
    fn short_payload_needs_no_buffer_and_has_aligned_body() {
        let mut pool = BufferPool::new(1 << 20);
        for len in 0..=Payload::HERE_MAX {
            let octets = &LONG[..len];
            let filled = Payload::filled(len, |out| {
                out.copy_from_slice(octets);
                Ok::<_, ()>(())
            });
            for payload in [pool.copy_of(octets), Payload::copy_of(octets), filled.unwrap()] {
                assert_eq!(&*payload, octets);
                assert_eq!(payload.clone().slice(0..len / 2).as_deref(), Some(&octets[..len / 2]));
                assert_eq!(payload.is_empty(), len == 0);
                assert_eq!(payload.as_ptr() as usize % 8, 4);
                pool.recycle(payload.clone());
                assert!(payload.into_buffer().is_none());
            }
        }
        assert_eq!(pool.held_bytes(), 0);
        assert!(pool.copy_of(&LONG[..=Payload::HERE_MAX]).into_buffer().is_some());
        assert_eq!(Payload::filled(4, |_| Err(1)).unwrap_err(), 1);
    }

    #[test]
    fn buffer_is_recycled_with_last_reference_only() {
        let mut pool = BufferPool::new(1 << 20);
        let payload = pool.copy_of(&LONG);
        let other = payload.clone();
        pool.recycle(payload);
        assert_eq!(pool.held_bytes(), 0);
        assert_eq!(&*other, LONG);
        pool.recycle(other);
        assert_eq!(pool.held_bytes(), 128);
        let again = pool.take(100);
        assert_eq!(again.len(), 128);
        assert_eq!(pool.held_bytes(), 0);
    }

    #[test]
    fn wiping_pool_overwrites_each_buffer_that_returns_and_keeps_none() {
        use std::sync::Mutex;
        static WIPED: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        let mut pool = BufferPool::wiping(|bytes| {
            assert!(bytes.windows(LONG.len()).any(|part| part == LONG));
            WIPED.lock().unwrap().push(bytes.len());
        });
        let payload = pool.copy_of(&LONG);
        let other = payload.clone();
        pool.recycle(payload);
        assert_eq!(*WIPED.lock().unwrap(), [], "there is another reference");
        pool.recycle(other);
        assert_eq!((WIPED.lock().unwrap().as_slice(), pool.held_bytes()), (&[128][..], 0));
    }

    #[test]
    fn pool_keeps_no_more_than_its_bound() {
        let mut pool = BufferPool::new(300);
        let buffers: Vec<_> = (0..4).map(|_| pool.take(10)).collect();
        buffers.into_iter().for_each(|b| pool.recycle_buffer(b));
        assert_eq!(pool.held_bytes(), 256);
    }

    #[test]
    fn lent_buffer_returns_after_its_last_reference() {
        let mut pool = BufferPool::new(1 << 20);
        let payload = pool.copy_of(&LONG);
        let (first, second) = (payload.clone(), payload.clone());
        let memory = payload.as_ptr();
        pool.put_away(payload);
        drop(first);
        assert_ne!(pool.take(100).as_ptr(), memory.wrapping_sub(ALIGNING), "another reference exists");
        drop(second);
        assert_eq!(pool.take(100).as_ptr(), memory.wrapping_sub(ALIGNING));
        assert_eq!(pool.held_bytes(), 0);
    }

    #[test]
    fn lent_buffers_are_bounded() {
        let mut pool = BufferPool::new(300);
        let readers: Vec<_> = (0..10)
            .map(|_| {
                let payload = pool.copy_of(&LONG);
                pool.put_away(payload.clone());
                payload
            })
            .collect();
        assert_eq!(pool.held_bytes(), 256);
        drop(readers);
        assert_eq!(pool.take(1).len() + pool.take(1).len(), 256);
        assert_eq!(pool.held_bytes(), 0);
    }

    #[test]
    fn lent_payload_returns_to_the_pool_of_its_lender_only() {
        let (mut lender, mut other) = (BufferPool::new(1 << 20), BufferPool::new(1 << 20));
        let lent = lender.lend_copy_of(&LONG);
        let (memory, clone) = (lent.as_ptr(), lent.clone());
        assert_eq!((&*clone, lent.slice(1..3).as_deref()), (&LONG[..], Some(&LONG[1..3])));
        assert!(!lent.is_sole_buffer());
        other.recycle(lent);
        other.put_away(clone);
        assert_eq!((other.held_bytes(), lender.held_bytes()), (0, 128));
        assert_eq!(lender.lend_copy_of(&LONG).as_ptr(), memory);
        // Without room to track the copy, no pool keeps its buffer.
        let mut small = BufferPool::new(100);
        other.recycle(small.lend_copy_of(&LONG));
        assert_eq!((other.held_bytes(), small.held_bytes()), (0, 0));
        assert_eq!(&*lender.lend_copy_of(&LONG[..3]), &LONG[..3]);
    }

    #[test]
    fn idle_buffers_of_other_sizes_make_room() {
        let mut pool = BufferPool::new(1024);
        let large: Vec<_> = (0..2).map(|_| pool.take(512)).collect();
        large.into_iter().for_each(|buffer| pool.recycle_buffer(buffer));
        assert_eq!(pool.held_bytes(), 1024);
        let lent = pool.lend_copy_of(&LONG);
        assert_eq!(pool.held_bytes(), 512 + 128, "one idle buffer made room");
        drop(lent);
        let small: Vec<_> = (0..9).map(|_| pool.take(128)).collect();
        small.into_iter().for_each(|buffer| pool.recycle_buffer(buffer));
        assert_eq!(pool.held_bytes(), 1024);
        let before = pool.take(128).as_ptr();
        pool.recycle_buffer(Arc::new(vec![0; 2048]));
        assert_ne!(pool.take(128).as_ptr(), before, "a buffer beyond the bound evicts none");
    }

    /// Counts the encodings.
    #[derive(Debug, Default)]
    struct Lazy(core::sync::atomic::AtomicUsize);

    impl Octets for Lazy {
        fn octets(&self) -> &[u8] {
            self.0.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            &[0, 1, 2, 3, 4]
        }

        fn known_len(&self) -> Option<usize> {
            None
        }

        fn value(&self) -> Option<&(dyn Any + Send + Sync)> {
            Some(&42_u32)
        }
    }

    #[test]
    fn value_is_encoded_on_access_to_bytes() {
        let lazy = Arc::new(Lazy::default());
        let payload = Payload::foreign(lazy.clone());
        assert!(!payload.is_empty() && payload.known_len().is_none());
        assert_eq!(payload.value().and_then(|v| v.downcast_ref::<u32>()), Some(&42));
        assert_eq!(lazy.0.load(core::sync::atomic::Ordering::Relaxed), 0);
        assert_eq!(payload.len(), 5);
        let part = payload.slice(1..4).unwrap();
        assert_eq!((&*part, part.value().is_none()), (&[1, 2, 3][..], true));
        assert_eq!(&*part.slice(1..3).unwrap(), [2, 3]);
        assert!(part.slice(1..4).is_none() && payload.into_buffer().is_none());
    }

    #[test]
    fn slice_past_end_is_refused() {
        let payload = Payload::copy_of(&[0, 1, 2, 3, 4]);
        assert_eq!(&*payload.slice(1..4).unwrap().slice(1..3).unwrap(), [2, 3]);
        assert!(payload.slice(3..6).is_none());
        assert!(Payload::new(Arc::new(vec![0; 4]), 2..5).is_none());
    }
}
