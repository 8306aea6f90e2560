//! System-call helpers that all modules share.

use std::io;
use std::os::fd::RawFd;

/// How often a call interrupted by a signal is repeated before the interruption is reported.
pub(crate) const MAX_INTERRUPTIONS: u32 = 64;

/// Turns the `-1` of a C function into the error that `errno` names.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// As [`check`], for the functions that return a length.
pub(crate) fn check_length(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Prefixes the text of an error with the operation that failed.
pub(crate) fn in_operation(operation: impl std::fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{operation}: {error}"))
}

/// Sets one integer socket option.
pub(crate) fn set_option(fd: RawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` lives across the call and `size` is its length; a wrong `fd` or option is an error, not a fault.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), size) }).map(drop)
}

/// A duration as the `timespec` of a relative timeout.
pub(crate) fn timespec_of(duration: std::time::Duration) -> libc::timespec {
    // SAFETY: `timespec` is plain integers, for which all-zero bytes are a value.
    let mut timeout: libc::timespec = unsafe { std::mem::zeroed() };
    timeout.tv_sec = libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX);
    timeout.tv_nsec = duration.subsec_nanos() as _;
    timeout
}
