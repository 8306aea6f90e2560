//! Where no way is known to notice that interfaces have changed.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Would notice that an interface or an address of one has come, gone or changed. Of no such system is there one yet.
#[derive(Debug)]
pub struct InterfaceWatcher {
    none: Infallible,
}

impl InterfaceWatcher {
    /// There is none on this system.
    ///
    /// # Errors
    /// Always `Unsupported`.
    pub fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether something has changed since the last call.
    pub fn changed(&self) -> bool {
        match self.none {}
    }
}

impl AsFd for InterfaceWatcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.none {}
    }
}
