//! Waiting for words of several processes at once.

use super::page::Seen;
use crate::clock::MonotonicNs;
use rustix::io::Errno;
use rustix::thread::futex;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// The most words that one thread can wait for: the kernel's limit.
pub(super) const MAX_WORDS: usize = 128;

/// Whether the kernel can wait for several words (Linux 5.16), and lets this process do it.
///
/// # Errors
/// It does not: older, or forbidden by a filter of system calls.
pub(super) fn probe() -> io::Result<()> {
    // No words are an invalid argument where the call exists.
    match futex::waitv(&[], futex::WaitvFlags::empty(), None, rustix::thread::ClockId::Monotonic) {
        Err(Errno::INVAL) | Ok(_) => Ok(()),
        Err(error) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            format!("futex_waitv (Linux 5.16 or newer, and no seccomp filter against it): {error}"),
        )),
    }
}

/// A word within the process: wakes who waits for words of other processes.
#[derive(Debug, Default)]
pub(super) struct Bell(AtomicU32);

impl Bell {
    pub(super) fn ring(&self) {
        self.0.fetch_add(1, Ordering::Release);
        // It can fail only if the word were not there.
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX.unsigned_abs());
    }

    /// How often it was rung.
    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

/// The words a thread is about to wait for, with the values they had.
#[derive(Debug, Default)]
pub(super) struct Words {
    waits: Vec<futex::Wait>,
}

// SAFETY: the addresses are only handed to the kernel, which checks them.
unsafe impl Send for Words {}

impl Words {
    pub(super) fn clear(&mut self) {
        self.waits.clear();
    }

    /// Adds a word as it is now. Past [`MAX_WORDS`] it is left out.
    pub(super) fn add(&mut self, page: &Seen, index: usize) {
        if self.waits.len() < MAX_WORDS {
            self.waits.push(page.words().futex_wait(index, page.load_acquire(index)));
        }
    }

    /// Adds the word of this process, as it was when it was rung `count` times.
    pub(super) fn add_bell(&mut self, bell: &Bell, count: u32) {
        let mut wait = futex::Wait::new();
        wait.uaddr = futex::WaitPtr::new(std::ptr::from_ref(&bell.0).cast_mut().cast());
        wait.val = u64::from(count);
        wait.flags = futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE;
        self.waits.push(wait);
    }

    /// Waits until one of them has another value than when it was added and somebody wakes whoever waits for it, or until
    /// the deadline. A wrong wake-up is possible.
    pub(super) fn wait(&self, deadline: Option<MonotonicNs>) {
        let deadline = deadline.map(|deadline| rustix::thread::Timespec {
            tv_sec: i64::try_from(deadline.0 / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (deadline.0 % 1_000_000_000) as _,
        });
        let clock = rustix::thread::ClockId::Monotonic;
        // Every failure is a reason to look again: another value, a signal, the deadline. The words are mapped.
        let _ = futex::waitv(&self.waits, futex::WaitvFlags::empty(), deadline.as_ref(), clock);
    }
}
