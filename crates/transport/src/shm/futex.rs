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

/// Most words that one thread can wait for: the kernel's limit.
pub(super) const MAX_WORDS: usize = 128;

/// A word within this process that wakes a thread which waits for words of other processes.
#[derive(Debug, Default)]
pub(super) struct LocalDoorbell(AtomicU32);

impl LocalDoorbell {
    pub(super) fn ring(&self) {
        self.0.fetch_add(1, Ordering::Release);
        wake(&self.0);
    }

    /// Number of rings.
    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// The word that the kernel compares.
    #[cfg(all(loom, test))]
    pub(super) fn word(&self) -> &AtomicU32 {
        &self.0
    }
}

/// Words that a thread is about to wait for, with their recorded values.
#[derive(Debug, Default)]
pub(super) struct Words {
    waits: Vec<Wait>,
}

// SAFETY: only the kernel uses the addresses, and it checks them.
#[cfg(not(all(loom, test)))]
unsafe impl Send for Words {}

impl Words {
    pub(super) fn clear(&mut self) {
        self.waits.clear();
    }

    /// Adds a word with its current value. Words beyond [`MAX_WORDS`] are ignored.
    pub(super) fn add(&mut self, page: &PeerPage, index: usize) {
        if self.waits.len() < MAX_WORDS {
            self.waits.push(page.words().futex_wait(index, page.load_acquire(index)));
        }
    }

    /// Adds the local doorbell with the value after `count` rings.
    pub(super) fn add_local(&mut self, bell: &Arc<LocalDoorbell>, count: u32) {
        self.waits.push(wait_for(bell, count));
    }

    /// Waits until a word is woken or differs from its recorded value, or until the deadline. Spurious wake-ups are
    /// possible.
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

    /// Checks that the kernel can wait for several words (Linux 5.16) and permits this process to.
    ///
    /// # Errors
    /// The kernel is older, or a filter of system calls forbids the call.
    pub(in crate::shm) fn probe() -> io::Result<()> {
        // With no words the call fails with EINVAL where it exists.
        match futex::waitv(&[], futex::WaitvFlags::empty(), None, rustix::thread::ClockId::Monotonic) {
            Err(Errno::INVAL) | Ok(_) => Ok(()),
            Err(error) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("futex_waitv (Linux 5.16 or newer, and no seccomp filter against it): {error}"),
            )),
        }
    }

    /// Wakes all threads that wait for a word of this process.
    pub(super) fn wake(word: &AtomicU32) {
        // The call fails only for an unmapped address.
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
        #[cfg(feature = "simulation")]
        if let Some(machine) = crate::simulation::current() {
            return wait_in_simulation(&*machine, waits, deadline);
        }
        let deadline = deadline.map(|deadline| rustix::thread::Timespec {
            tv_sec: i64::try_from(deadline.0 / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: (deadline.0 % 1_000_000_000) as _,
        });
        let clock = rustix::thread::ClockId::Monotonic;
        // The caller checks again after every failure (another value, a signal, the deadline). The words are mapped.
        let _ = futex::waitv(waits, futex::WaitvFlags::empty(), deadline.as_ref(), clock);
    }

    /// The machine compares the words, as the kernel would.
    #[cfg(feature = "simulation")]
    fn wait_in_simulation(machine: &dyn crate::simulation::Machine, waits: &[Wait], deadline: Option<MonotonicNs>) {
        let words: Vec<(usize, u32)> =
            waits.iter().map(|wait| (wait.uaddr.ptr.expose_provenance(), wait.val as u32)).collect();
        let is_changed = move || {
            words.iter().any(|&(address, value)| {
                // SAFETY: the word is mapped and aligned as long as the calling thread is blocked, and a machine calls
                // no condition of a thread that is not blocked.
                let word = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(address) };
                word.load(super::Ordering::SeqCst) != value
            })
        };
        machine.block(crate::simulation::Place::Elsewhere, deadline.map(|at| at.0), Arc::new(is_changed));
    }
}
