//! Prefetching of memory into this CPU's caches.
//!
//! A cache line that another CPU has accessed takes a tenth of a microsecond or more to arrive. A prefetch starts the
//! transfer as soon as the address is known, and has no other effect.

use std::ptr::NonNull;

pub(super) const CACHE_LINE: usize = 64;
/// Lines that the CPU does not fetch by itself in time.
const LINES: usize = 2;

/// Prefetches the first of `len` bytes for reading.
#[inline]
pub(super) fn to_read(start: NonNull<u8>, len: usize) {
    lines(start, len).for_each(read);
}

/// Prefetches the first of `len` bytes for writing.
#[inline]
pub(super) fn to_write(start: NonNull<u8>, len: usize) {
    lines(start, len).for_each(write);
}

fn lines(start: NonNull<u8>, len: usize) -> impl Iterator<Item = *const u8> {
    (0..len.min(LINES * CACHE_LINE))
        .step_by(CACHE_LINE)
        .map(move |offset| start.as_ptr().wrapping_add(offset).cast_const())
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn read(place: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch has no visible effect, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn write(place: *const u8) {
    // The intrinsic emits a prefetch for reading unless the whole program is compiled for newer CPUs.
    // SAFETY: a prefetch has no visible effect, whatever the address; CPUs without this instruction ignore it.
    unsafe { std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly)) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn read(_: *const u8) {}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn write(_: *const u8) {}
