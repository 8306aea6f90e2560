//! A shortage of descriptors, as a simulated machine stages it. Files that open descriptors, and that the simulation
//! uses itself, ask here.

use std::cell::Cell;
use std::io;

thread_local! {
    /// Asks the machine of the calling thread, once a thread has entered one.
    static CHECK: Cell<fn() -> io::Result<()>> = const { Cell::new(|| Ok(())) };
}

/// Whether the process of the calling thread gets another descriptor.
pub(crate) fn check() -> io::Result<()> {
    CHECK.try_with(Cell::get).map_or(Ok(()), |check| check())
}

/// From now on, `check` decides for the calling thread.
pub(crate) fn check_by(check: fn() -> io::Result<()>) {
    CHECK.set(check);
}
