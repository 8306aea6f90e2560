//! Memory that is on its way to this CPU's caches before somebody waits for it.
//!
//! A line that another CPU has looked at or written comes over in a tenth of a microsecond or more. Whoever needs it next
//! says so as soon as its address is known. Neither has any effect but on the caches.

use std::ptr::NonNull;

pub(super) const CACHE_LINE: usize = 64;
/// What the CPU does not fetch by itself in time.
const LINES: usize = 2;

/// The first bytes of `len` are going to be looked at.
#[inline]
pub(super) fn to_read(start: NonNull<u8>, len: usize) {
    lines(start, len).for_each(read);
}

/// The first bytes of `len` are going to be written, and nobody else looks at them.
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
    // SAFETY: it has no effect that a program could see, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn write(place: *const u8) {
    // The intrinsic for it asks for a line to read, unless the whole program is compiled for newer CPUs.
    // SAFETY: it has no effect that a program could see, whatever the address; CPUs that do not know it pass it over.
    unsafe { std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly)) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn read(_: *const u8) {}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn write(_: *const u8) {}
