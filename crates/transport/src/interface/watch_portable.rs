//! For systems on which changes of interfaces cannot be watched.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A watcher of interfaces, which cannot be created on this system.
#[derive(Debug)]
pub struct InterfaceWatcher {
    none: Infallible,
}

impl InterfaceWatcher {
    /// Fails on this system.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether an interface has changed since the last call.
    pub fn changed(&self) -> bool {
        match self.none {}
    }
}

impl AsFd for InterfaceWatcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.none {}
    }
}
