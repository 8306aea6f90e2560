//! Waiting for words of several processes at once.

use super::page::PeerPage;
use super::sync::{AtomicU32, Ordering};
use crate::clock::MonotonicNs;
use std::sync::Arc;

#[cfg(not(all(loom, test)))]
pub(super) use kernel::probe;
#[cfg(not(all(loom, test)))]
use kernel::{Wait, wait, wait_for, wake};

#[cfg(all(loom, test))]
use super::models::kernel::{Wait, wait, wait_for, wake};

/// The most words that one thread can wait for: the kernel's limit.
pub(super) const MAX_WORDS: usize = 128;

/// A word within the process: wakes who waits for words of other processes.
#[derive(Debug, Default)]
pub(super) struct LocalDoorbell(AtomicU32);

impl LocalDoorbell {
    pub(super) fn ring(&self) {
        self.0.fetch_add(1, Ordering::Release);
        wake(&self.0);
    }

    /// How often it was rung.
    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// As the kernel compares it.
    #[cfg(all(loom, test))]
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.0
    }
}

/// The words a thread is about to wait for, with the values they had.
#[derive(Debug, Default)]
pub(super) struct Words {
    waits: Vec<Wait>,
}

// SAFETY: the addresses are only handed to the kernel, which checks them.
#[cfg(not(all(loom, test)))]
unsafe impl Send for Words {}

impl Words {
    pub(super) fn clear(&mut self) {
        self.waits.clear();
    }

    /// Adds a word as it is now. Past [`MAX_WORDS`] it is left out.
    pub(super) fn add(&mut self, page: &PeerPage, index: usize) {
        if self.waits.len() < MAX_WORDS {
            self.waits.push(page.words().futex_wait(index, page.load_acquire(index)));
        }
    }

    /// Adds the word of this process, as it was when it was rung `count` times.
    pub(super) fn add_local(&mut self, bell: &Arc<LocalDoorbell>, count: u32) {
        self.waits.push(wait_for(bell, count));
    }

    /// Waits until one of them has another value than when it was added and somebody wakes whoever waits for it, or until
    /// the deadline. A wrong wake-up is possible.
    pub(super) fn wait(&self, deadline: Option<MonotonicNs>) {
        wait(&self.waits, deadline);
    }
}

#[cfg(not(all(loom, test)))]
mod kernel {
    use super::{Arc, AtomicU32, LocalDoorbell, MonotonicNs};
    use rustix::io::Errno;
    use rustix::thread::futex;
    use std::io;

    pub(super) use futex::Wait;

    /// Whether the kernel can wait for several words (Linux 5.16), and lets this process do it.
    ///
    /// # Errors
    /// It does not: older, or forbidden by a filter of system calls.
    pub(in crate::shm) fn probe() -> io::Result<()> {
        // No words are an invalid argument where the call exists.
        match futex::waitv(&[], futex::WaitvFlags::empty(), None, rustix::thread::ClockId::Monotonic) {
            Err(Errno::INVAL) | Ok(_) => Ok(()),
            Err(error) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("futex_waitv (Linux 5.16 or newer, and no seccomp filter against it): {error}"),
            )),
        }
    }

    /// Wakes who waits for a word of this process.
    pub(super) fn wake(word: &AtomicU32) {
        // It can fail only if the word were not there.
        let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }

    pub(super) fn wait_for(bell: &Arc<LocalDoorbell>, count: u32) -> Wait {
        let mut wait = Wait::new();
        wait.uaddr = futex::WaitPtr::new(std::ptr::from_ref(&bell.0).cast_mut().cast());
        wait.val = u64::from(count);
        wait.flags = futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE;
        wait
    }

    pub(super) fn wait(waits: &[Wait], deadline: Option<MonotonicNs>) {
        let deadline = deadline.map(|deadline| rustix::thread::Timespec {
            tv_sec: i64::try_from(deadline.0 / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (deadline.0 % 1_000_000_000) as _,
        });
        let clock = rustix::thread::ClockId::Monotonic;
        // Every failure is a reason to look again: another value, a signal, the deadline. The words are mapped.
        let _ = futex::waitv(waits, futex::WaitvFlags::empty(), deadline.as_ref(), clock);
    }
}
