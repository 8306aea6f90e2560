//! Words of shared memory that one process writes and another one reads.

use super::sync::{AtomicU64, Ordering, fence};
use std::io;
use std::ops::Range;

#[cfg(not(all(loom, test)))]
pub(super) use mapped::Words;
#[cfg(all(loom, test))]
pub(super) use modelled::Words;

/// Words that this process writes and other processes read.
#[derive(Debug)]
pub(super) struct OwnedPage(Words);

impl OwnedPage {
    pub(super) fn new(words: Words) -> Self {
        Self(words)
    }

    pub(super) fn load(&self, index: usize, order: Ordering) -> u64 {
        self.0.at(index).load(order)
    }

    pub(super) fn store(&self, index: usize, value: u64, order: Ordering) {
        self.0.at(index).store(value, order);
    }

    /// Allocates the memory of these words. An access before may fail with SIGBUS.
    ///
    /// # Errors
    /// The system is short of memory.
    pub(super) fn populate(&self, words: Range<usize>) -> io::Result<()> {
        self.0.populate(words)
    }

    /// Adjacent words.
    #[inline]
    pub(super) fn block<const N: usize>(&self, index: usize) -> &[AtomicU64; N] {
        self.0.block(index)
    }

    /// Increments a word and wakes all threads that wait on it.
    pub(super) fn increment_and_wake(&self, index: usize) {
        self.0.at(index).fetch_add(1, Ordering::AcqRel);
        self.0.wake(index);
    }
}

/// Words that another process writes. They may hold any value.
#[derive(Debug)]
pub(super) struct PeerPage(Words);

impl PeerPage {
    pub(super) fn new(words: Words) -> Self {
        Self(words)
    }

    /// Number of words.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Allocates and maps the memory of these words. An access before may fail with SIGBUS.
    ///
    /// # Errors
    /// The system is short of memory.
    pub(super) fn populate(&self, words: Range<usize>) -> io::Result<()> {
        self.0.populate(words)
    }

    pub(super) fn load_relaxed(&self, index: usize) -> u64 {
        self.0.at(index).load(Ordering::Relaxed)
    }

    /// A relaxed load and a fence: on read-only pages the language guarantees no more than relaxed loads.
    pub(super) fn load_acquire(&self, index: usize) -> u64 {
        // The thread sanitizer does not model fences. The restriction on read-only pages does not concern it.
        if cfg!(peregrine_tsan) {
            return self.0.at(index).load(Ordering::Acquire);
        }
        let value = self.load_relaxed(index);
        fence(Ordering::Acquire);
        value
    }

    /// Words from `index` on. All but the first are loaded after the first, as by [`Self::load_acquire`].
    #[inline]
    pub(super) fn load_line<const N: usize>(&self, index: usize) -> [u64; N] {
        let line = self.0.block::<N>(index);
        let mut values = [0; N];
        if let ([first, rest @ ..], [first_value, rest_values @ ..]) = (line.as_slice(), values.as_mut_slice()) {
            *first_value = first.load(if cfg!(peregrine_tsan) { Ordering::Acquire } else { Ordering::Relaxed });
            if !cfg!(peregrine_tsan) {
                fence(Ordering::Acquire);
            }
            for (value, word) in rest_values.iter_mut().zip(rest) {
                *value = word.load(Ordering::Relaxed);
            }
        }
        values
    }

    pub(super) fn words(&self) -> &Words {
        &self.0
    }
}

#[cfg(not(all(loom, test)))]
mod mapped {
    use super::AtomicU64;
    use crate::shm::memory::{Mapping, Memory, View};
    use rustix::thread::futex;
    use std::ffi::c_void;
    use std::io;
    use std::ops::Range;
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    /// Words of a mapping.
    #[derive(Debug)]
    pub(in crate::shm) struct Words {
        start: NonNull<AtomicU64>,
        len: usize,
        mapping: Arc<Mapping>,
    }

    // SAFETY: the words are atomics in memory that stays mapped as long as `mapping`.
    unsafe impl Send for Words {}
    // SAFETY: as above.
    unsafe impl Sync for Words {}

    impl Words {
        /// Words for an [`super::OwnedPage`], or in tests for a [`super::PeerPage`].
        pub(in crate::shm) fn of(memory: &Memory) -> Self {
            Self::new(memory.mapping())
        }

        /// Words for a [`super::PeerPage`] only: a store to a read-only mapping would fault.
        pub(in crate::shm) fn seen(view: &View) -> Self {
            Self::new(view.mapping())
        }

        fn new(mapping: &Arc<Mapping>) -> Self {
            let (start, len) = (mapping.start().cast(), mapping.len() / size_of::<AtomicU64>());
            Self { start, len, mapping: Arc::clone(mapping) }
        }

        pub(super) fn populate(&self, words: Range<usize>) -> io::Result<()> {
            self.mapping.populate(words.start * size_of::<AtomicU64>()..words.end * size_of::<AtomicU64>())
        }

        pub(super) fn len(&self) -> usize {
            self.len
        }

        #[inline]
        pub(super) fn at(&self, index: usize) -> &AtomicU64 {
            assert!(index < self.len, "word {index} of {}", self.len);
            // SAFETY: the word is within a mapping that lives as long as `self`, and aligned because pages are. Any
            // bytes are a valid value, and every process accesses them by atomics.
            unsafe { self.start.add(index).as_ref() }
        }

        #[inline]
        pub(super) fn block<const N: usize>(&self, index: usize) -> &[AtomicU64; N] {
            assert!(index < self.len && N <= self.len - index, "{N} words from {index} of {}", self.len);
            // SAFETY: as above, for all words of the block.
            unsafe { self.start.add(index).cast().as_ref() }
        }

        /// The half of the word that the kernel compares: the lower one.
        fn futex(&self, index: usize) -> *mut AtomicU32 {
            let half = usize::from(cfg!(target_endian = "big"));
            std::ptr::from_ref(self.at(index)).cast_mut().cast::<AtomicU32>().wrapping_add(half)
        }

        /// Address and expected value for [`crate::shm::futex`].
        pub(in crate::shm) fn futex_wait(&self, index: usize, value: u64) -> futex::Wait {
            let mut wait = futex::Wait::new();
            wait.uaddr = futex::WaitPtr::new(self.futex(index).cast::<c_void>());
            wait.val = value & u64::from(u32::MAX);
            wait.flags = futex::WaitFlags::SIZE_U32;
            wait
        }

        pub(super) fn wake(&self, index: usize) {
            // SAFETY: half of a word of the mapping; only the kernel uses the reference, and only its address.
            let word = unsafe { &*self.futex(index) };
            // The call fails only for an unmapped page.
            let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.unsigned_abs());
        }
    }
}

#[cfg(all(loom, test))]
mod modelled {
    use super::{AtomicU64, Ordering};
    use crate::shm::models::kernel;
    use std::io;
    use std::ops::Range;
    use std::sync::Arc;

    /// Words that both processes of a model have "mapped".
    #[derive(Clone, Debug)]
    pub(in crate::shm) struct Words(Arc<Vec<AtomicU64>>);

    impl Words {
        pub(in crate::shm) fn new(len: usize) -> Self {
            Self(Arc::new((0..len).map(|_| AtomicU64::new(0)).collect()))
        }

        pub(super) fn len(&self) -> usize {
            self.0.len()
        }

        #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
        pub(super) fn populate(&self, words: Range<usize>) -> io::Result<()> {
            assert!(words.end <= self.len());
            Ok(())
        }

        pub(super) fn at(&self, index: usize) -> &AtomicU64 {
            &self.0[index]
        }

        pub(super) fn block<const N: usize>(&self, index: usize) -> &[AtomicU64; N] {
            self.0[index..][..N].try_into().unwrap()
        }

        pub(super) fn wake(&self, index: usize) {
            kernel::wake(self.at(index));
        }

        pub(in crate::shm) fn futex_wait(&self, index: usize, value: u64) -> kernel::Wait {
            let words = self.clone();
            kernel::Wait::new(self.at(index), move || words.at(index).load(Ordering::Relaxed) == value)
        }

        pub(in crate::shm) fn wait(&self, index: usize, value: u64) {
            kernel::wait(&[self.futex_wait(index, value)], None);
        }
    }
}
