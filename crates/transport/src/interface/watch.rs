//! Watches for changes of interfaces and their addresses.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// The most notices that one call reads; the next call reads the others.
const MAX_NOTICES: u32 = 256;

/// Becomes readable when an interface or one of its addresses was added, removed or changed (rtnetlink).
#[derive(Debug)]
pub struct InterfaceWatcher {
    netlink: OwnedFd,
}

impl InterfaceWatcher {
    /// Starts watching the interfaces of this network namespace.
    ///
    /// # Errors
    /// The process has too many descriptors, or may not open a netlink socket (sandboxes forbid it).
    pub fn new() -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        if crate::simulation::current().is_some() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "simulated interfaces do not change"));
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers are involved.
        let fd = sys::check(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) })
            .map_err(|error| sys::in_operation("opening a netlink socket to watch the interfaces", &error))?;
        // SAFETY: the descriptor was just created and has no other owner.
        let netlink = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: plain integers, for which all-zero bytes are a value.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        address.nl_groups = (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
        let size = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: `address` lives across the call and `size` is its length.
        sys::check(unsafe { libc::bind(netlink.as_raw_fd(), (&raw const address).cast(), size) })
            .map_err(|error| sys::in_operation("binding the netlink socket that watches the interfaces", &error))?;
        Ok(Self { netlink })
    }

    /// Whether an interface has changed since the last call. [`list`](super::list) returns the new state.
    pub fn changed(&self) -> bool {
        let mut changed = false;
        for _ in 0..MAX_NOTICES {
            // The content does not matter, so one byte of each notice is enough; the rest is cut off.
            let mut byte = 0_u8;
            let place = (&raw mut byte).cast();
            // SAFETY: `place` is writable memory of one byte.
            match sys::check_length(unsafe { libc::recv(self.netlink.as_raw_fd(), place, 1, 0) }) {
                Ok(_) => changed = true,
                // Lost notices mean that there were changes.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        changed
    }
}

impl AsFd for InterfaceWatcher {
    /// Readable after a change, for a [`Poller`](crate::event::Poller).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.netlink.as_fd()
    }
}
