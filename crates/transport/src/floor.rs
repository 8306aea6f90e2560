//! A floor for shared memory between two processes: a ring of slots in a memory file that each side maps.
//!
//! Measurements compare shared-memory transports with this floor. It is not a transport: one sender and one receiver
//! trust each other, and neither recovers from the death of the other.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::clock::MonotonicNs;
use crate::sys;

/// How a side waits for the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Spins and never gives up its core.
    Spin,
    /// Sleeps in the kernel at once. The other side makes a system call only to wake a sleeper.
    Futex,
}

/// The writing side.
#[derive(Debug)]
pub struct Sender(Side);

/// The reading side.
#[derive(Debug)]
pub struct Receiver(Side);

/// A slot that may be written.
const EMPTY: u32 = 0;
/// A slot that may be read.
const FULL: u32 = 1;
/// As [`EMPTY`], and the receiver sleeps until it is full.
const EMPTY_AWAITED: u32 = 2;
/// As [`FULL`], and the sender sleeps until it is empty.
const FULL_AWAITED: u32 = 3;
/// State and length of a slot precede its bytes, on their own cache line.
const LINE_BYTES: usize = 64;
/// Offset of the length in that line.
const LENGTH_OFFSET: usize = 4;
/// Checks of the slot between two readings of the clock while spinning.
const SPINS_PER_CLOCK: u32 = 1024;
/// Largest memory file; a floor needs far less.
const MAX_BYTES: usize = 1 << 30;

/// A ring of `slots` messages of at most `slot_bytes` bytes each.
///
/// # Errors
/// There is no slot, the ring is longer than 1 GiB, or the system has no memory for it.
pub fn ring(slots: usize, slot_bytes: usize, wait: Wait) -> io::Result<(Sender, Receiver)> {
    let refuse = || io::Error::new(io::ErrorKind::InvalidInput, "a ring has at least one slot and at most 1 GiB");
    let stride = slot_bytes.checked_next_multiple_of(LINE_BYTES).and_then(|bytes| bytes.checked_add(LINE_BYTES));
    let length = stride.and_then(|stride| stride.checked_mul(slots)).filter(|&length| length <= MAX_BYTES);
    let (Some(stride), Some(length), true) = (stride, length, slots > 0) else { return Err(refuse()) };
    let file = memory_file(length)?;
    let side = || Mapping::of(&file, length).map(|mapping| Side { mapping, slots, stride, slot_bytes, next: 0, wait });
    Ok((Sender(side()?), Receiver(side()?)))
}

impl Sender {
    /// Copies a message into the next slot. Returns `false` if no slot became free within `patience`.
    ///
    /// # Errors
    /// The message is longer than a slot.
    pub fn send(&mut self, message: &[u8], patience: Duration) -> io::Result<bool> {
        let Self(side) = self;
        let length =
            u32::try_from(message.len()).ok().filter(|_| message.len() <= side.slot_bytes).ok_or_else(|| {
                let text = format!(
                    "a message of {} bytes does not fit into a slot of {} bytes",
                    message.len(),
                    side.slot_bytes
                );
                io::Error::new(io::ErrorKind::InvalidInput, text)
            })?;
        if !side.wait_while(FULL, FULL_AWAITED, patience)? {
            return Ok(false);
        }
        // SAFETY: the slot is empty, so the receiver does not access its bytes before `hand_over`. There is no other
        // sender, because `self` is borrowed exclusively and cannot be cloned. `length` is at most `slot_bytes`.
        unsafe { side.bytes().copy_from_nonoverlapping(NonNull::from(message).cast(), message.len()) };
        side.word(LENGTH_OFFSET).store(length, Ordering::Relaxed);
        side.hand_over(FULL, EMPTY_AWAITED)?;
        Ok(true)
    }
}

impl Receiver {
    /// Copies the next message to the front of `buffer` and returns its length; `None` if none arrived within
    /// `patience`.
    ///
    /// # Errors
    /// `buffer` is shorter than the message, which stays in the ring.
    pub fn receive(&mut self, buffer: &mut [u8], patience: Duration) -> io::Result<Option<usize>> {
        let Self(side) = self;
        if !side.wait_while(EMPTY, EMPTY_AWAITED, patience)? {
            return Ok(None);
        }
        let length = (side.word(LENGTH_OFFSET).load(Ordering::Relaxed) as usize).min(side.slot_bytes);
        let Some(front) = buffer.get_mut(..length) else {
            let text = format!("a message of {length} bytes does not fit into {} bytes", buffer.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        // SAFETY: the slot is full, so the sender does not touch its bytes before `hand_over`; `length` is at most
        // `slot_bytes`, and `front` is as long.
        unsafe { side.bytes().copy_to_nonoverlapping(NonNull::from(front).cast(), length) };
        side.hand_over(EMPTY, FULL_AWAITED)?;
        Ok(Some(length))
    }
}

/// State of either side: its mapping of the ring, and the next slot.
#[derive(Debug)]
struct Side {
    mapping: Mapping,
    slots: usize,
    stride: usize,
    slot_bytes: usize,
    next: usize,
    wait: Wait,
}

impl Side {
    /// Waits until the next slot has another state than these two. Returns `false` if `patience` ended before.
    fn wait_while(&self, state: u32, awaited: u32, patience: Duration) -> io::Result<bool> {
        let word = self.word(0);
        let is_ready = |found: u32| found != state && found != awaited;
        if is_ready(word.load(Ordering::Acquire)) {
            return Ok(true);
        }
        let deadline = MonotonicNs::now().after(patience);
        loop {
            match self.wait {
                Wait::Spin => {
                    for _ in 0..SPINS_PER_CLOCK {
                        if is_ready(word.load(Ordering::Acquire)) {
                            return Ok(true);
                        }
                        std::hint::spin_loop();
                    }
                }
                Wait::Futex => {
                    // Fails if the slot is ready by now, or is already marked as awaited.
                    let _ = word.compare_exchange(state, awaited, Ordering::AcqRel, Ordering::Acquire);
                    if !is_ready(word.load(Ordering::Acquire)) {
                        futex_wait(word, awaited, deadline.since(MonotonicNs::now()))?;
                    }
                    if is_ready(word.load(Ordering::Acquire)) {
                        return Ok(true);
                    }
                }
            }
            if MonotonicNs::now() >= deadline {
                return Ok(false);
            }
        }
    }

    /// Hands the next slot to the other side, wakes that side if it sleeps, and moves on.
    fn hand_over(&mut self, state: u32, awaited: u32) -> io::Result<()> {
        let word = self.word(0);
        if word.swap(state, Ordering::AcqRel) == awaited {
            futex_wake(word)?;
        }
        self.next = (self.next + 1) % self.slots;
        Ok(())
    }

    /// A word of the line before the next slot.
    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset + size_of::<AtomicU32>() <= LINE_BYTES, "inside the line");
        // SAFETY: `next` is below `slots` and the line is the beginning of a slot, so the word lies in the mapping,
        // which lives as long as `self`. It is aligned, as mappings begin on pages and slots on lines. Both sides
        // access it only as an atomic.
        unsafe { AtomicU32::from_ptr(self.mapping.address.add(self.next * self.stride + offset).cast().as_ptr()) }
    }

    /// Start of the bytes of the next slot, of which there are `slot_bytes`.
    fn bytes(&self) -> NonNull<u8> {
        // SAFETY: `next` is below `slots` and a slot is a line and its bytes, so this lies in the mapping.
        unsafe { self.mapping.address.add(self.next * self.stride + LINE_BYTES) }
    }
}

/// Memory that is mapped until it is dropped.
#[derive(Debug)]
struct Mapping {
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to no thread; the states of the slots control which side accesses which bytes.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of(file: &OwnedFd, length: usize) -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: the kernel chooses an address where nothing is; the descriptor is open across the call.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(sys::in_operation("mapping shared memory", &io::Error::last_os_error()));
        }
        let address = NonNull::new(address.cast()).ok_or_else(|| io::Error::other("memory was mapped at address 0"))?;
        Ok(Self { address, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and nothing that refers to it outlives `self`.
        let result = unsafe { libc::munmap(self.address.as_ptr().cast(), self.length) };
        debug_assert_eq!(result, 0, "`address` was mapped");
    }
}

/// An anonymous memory file, freed with its last mapping.
fn memory_file(length: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string.
    let descriptor = sys::check(unsafe { libc::memfd_create(c"peregrine-floor".as_ptr(), libc::MFD_CLOEXEC) })
        .map_err(|error| sys::in_operation("creating a memory file", &error))?;
    // SAFETY: the descriptor is new and has no other owner.
    let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let size = libc::off_t::try_from(length).map_err(io::Error::other)?;
    // SAFETY: takes no pointer; the descriptor is open.
    sys::check(unsafe { libc::ftruncate(file.as_raw_fd(), size) })
        .map_err(|error| sys::in_operation("setting the length of a memory file", &error))?;
    Ok(file)
}

/// Sleeps while `word` is `value`, for at most `timeout`. Spurious returns are possible.
fn futex_wait(word: &AtomicU32, value: u32, timeout: Duration) -> io::Result<()> {
    let timeout = sys::timespec_of(timeout);
    // SAFETY: word and timeout live across the call. The futex is shared: the other side has mapped it elsewhere.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const timeout) };
    match io::Error::last_os_error() {
        _ if result == 0 => Ok(()),
        error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ETIMEDOUT | libc::EINTR)) => Ok(()),
        error => Err(sys::in_operation("waiting on a futex", &error)),
    }
}

/// Wakes one thread that sleeps on `word`.
fn futex_wake(word: &AtomicU32) -> io::Result<()> {
    // SAFETY: the word lives across the call, and is not accessed by it.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
    if result < 0 { Err(sys::in_operation("waking by a futex", &io::Error::last_os_error())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn messages_arrive_in_order_and_unchanged_whichever_side_waits() {
        for wait in [Wait::Spin, Wait::Futex] {
            let (mut sender, mut receiver) = ring(3, 100, wait).unwrap();
            let sending = std::thread::spawn(move || {
                for number in 0..2000_u32 {
                    let message = vec![number as u8; number as usize % 101];
                    assert!(sender.send(&message, LONG).unwrap());
                }
            });
            let mut buffer = [0; 100];
            for number in 0..2000_u32 {
                let length = receiver.receive(&mut buffer, LONG).unwrap().unwrap();
                assert_eq!(length, number as usize % 101, "{wait:?}");
                assert!(buffer[..length].iter().all(|&byte| byte == number as u8), "{wait:?}");
            }
            sending.join().unwrap();
        }
    }

    #[test]
    fn timeout_ends_the_wait_on_an_empty_and_on_a_full_ring() {
        for wait in [Wait::Spin, Wait::Futex] {
            let (mut sender, mut receiver) = ring(1, 8, wait).unwrap();
            let short = Duration::from_micros(100);
            assert_eq!(receiver.receive(&mut [0; 8], short).unwrap(), None);
            assert!(sender.send(b"first", short).unwrap());
            assert!(!sender.send(b"second", short).unwrap());
            assert_eq!(receiver.receive(&mut [0; 8], short).unwrap(), Some(5));
            assert!(sender.send(b"third", short).unwrap());
        }
    }

    #[test]
    fn message_longer_than_slot_is_refused() {
        let (mut sender, mut receiver) = ring(2, 8, Wait::Spin).unwrap();
        let error = sender.send(&[1; 9], LONG).unwrap_err().to_string();
        assert!(error.contains("9 bytes") && error.contains('8'), "{error}");
        assert!(sender.send(&[2; 8], LONG).unwrap());
        assert!(receiver.receive(&mut [0; 7], LONG).unwrap_err().to_string().contains("does not fit into 7"));
        let mut buffer = [0; 8];
        assert_eq!(receiver.receive(&mut buffer, LONG).unwrap(), Some(8));
        assert_eq!(buffer, [2; 8]);
    }

    #[test]
    fn ring_without_slots_or_beyond_the_bound_is_refused() {
        for (slots, bytes) in [(0, 8), (1, MAX_BYTES), (usize::MAX, 8), (1, usize::MAX)] {
            assert_eq!(ring(slots, bytes, Wait::Spin).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
