//! Whether two processes can share memory: on one host, in the same namespaces, as the same user.
//!
//! A process announces its host identity as a hint, so that peers need not attempt useless connections and can report
//! the reason. The decision uses only the kernel's report about the peer of a link.

use super::link::Peer;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Host, namespaces and user of a process, as it announces them. This proves nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostIdentity(pub [u32; 5]);

/// The namespaces of a process, as its kernel names them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Namespaces([PathBuf; NAMESPACES.len()]);

/// The first item that two processes do not share, which excludes shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NotColocated {
    /// They run on different systems.
    System,
    /// Their sockets are in different network namespaces.
    NetworkNamespace,
    /// They are in different namespaces of interprocess communication, as in different containers.
    IpcNamespace,
    /// They are in different user namespaces.
    UserNamespace,
    /// They run as different users.
    User,
    /// They do not see each other's process numbers, or are in different namespaces of them, as in different
    /// containers.
    PidNamespace,
    /// The kernel does not let this process see in which namespaces the other one is.
    NamespaceUnknown,
}

/// Namespaces that must be the same, by the names that the kernel uses.
const NAMESPACES: [(&str, NotColocated); 4] = [
    ("net", NotColocated::NetworkNamespace),
    ("ipc", NotColocated::IpcNamespace),
    ("user", NotColocated::UserNamespace),
    ("pid", NotColocated::PidNamespace),
];

impl HostIdentity {
    /// Identity of the calling thread's host, namespaces and user.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn current() -> io::Result<Self> {
        #[cfg_attr(not(feature = "simulation"), expect(unused_mut))]
        let mut boot = std::fs::read("/proc/sys/kernel/random/boot_id")?;
        #[cfg(feature = "simulation")]
        if let Some(host) = crate::simulation::with(|machine| machine.host()) {
            boot.extend(host.to_ne_bytes());
        }
        let part = |kind: u8, what: &[u8]| {
            // FNV-1a. Hashing the boot id first hides everything but equality from peers.
            let bytes = boot.iter().chain([&kind]).chain(what);
            bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
        };
        let namespace = |name: &str| std::fs::read_link(format!("/proc/thread-self/ns/{name}"));
        let user = rustix::process::geteuid().as_raw().to_ne_bytes();
        Ok(Self([
            part(0, &[]),
            part(1, namespace("net")?.as_os_str().as_encoded_bytes()),
            part(2, namespace("ipc")?.as_os_str().as_encoded_bytes()),
            part(3, namespace("user")?.as_os_str().as_encoded_bytes()),
            part(4, &user),
        ]))
    }

    /// The first item that the two processes do not share; `None` if they seem colocated.
    #[must_use]
    pub fn separation_from(&self, other: &Self) -> Option<NotColocated> {
        let kinds = [
            NotColocated::System,
            NotColocated::NetworkNamespace,
            NotColocated::IpcNamespace,
            NotColocated::UserNamespace,
            NotColocated::User,
        ];
        let differing = self.0.iter().zip(&other.0).position(|(own, theirs)| own != theirs)?;
        kinds.get(differing).copied()
    }
}

impl Namespaces {
    /// The namespaces of the calling thread.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn current() -> io::Result<Self> {
        let mut own = Self(std::array::from_fn(|_| PathBuf::new()));
        for (own, (name, _)) in own.0.iter_mut().zip(NAMESPACES) {
            *own = std::fs::read_link(format!("/proc/thread-self/ns/{name}"))?;
        }
        Ok(own)
    }

    /// Checks that a peer is in these namespaces, as the kernel reports. The kernel reports that only to a process that
    /// may trace the peer, so shared memory gives neither process a power over the other that it did not have.
    ///
    /// # Errors
    /// The first item that the processes do not share, or [`NotColocated::NamespaceUnknown`].
    pub fn check(&self, peer: Peer) -> Result<(), NotColocated> {
        if peer.process == 0 {
            return Err(NotColocated::PidNamespace);
        }
        for (own, (name, apart)) in self.0.iter().zip(NAMESPACES) {
            let theirs = std::fs::read_link(format!("/proc/{}/ns/{name}", peer.process))
                .map_err(|_| NotColocated::NamespaceUnknown)?;
            if *own != theirs {
                return Err(apart);
            }
        }
        Ok(())
    }
}

impl fmt::Display for NotColocated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "the two processes run on different hosts",
            Self::NetworkNamespace => "the two processes are in different network namespaces",
            Self::IpcNamespace => "the two processes are in different IPC namespaces",
            Self::UserNamespace => "the two processes are in different user namespaces",
            Self::User => "the two processes run as different users",
            Self::PidNamespace => "the two processes are in different PID namespaces",
            Self::NamespaceUnknown => "the system does not let this process see in which namespaces the other one is",
        })
    }
}

impl std::error::Error for NotColocated {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_colocated_and_any_difference_is_named() {
        let here = HostIdentity::current().unwrap();
        assert_eq!(here.separation_from(&HostIdentity::current().unwrap()), None);
        let kinds = [
            NotColocated::System,
            NotColocated::NetworkNamespace,
            NotColocated::IpcNamespace,
            NotColocated::UserNamespace,
            NotColocated::User,
        ];
        for (place, kind) in kinds.into_iter().enumerate() {
            let mut other = here;
            other.0[place] ^= 1;
            assert_eq!(here.separation_from(&other), Some(kind));
        }
    }

    #[test]
    fn peer_namespaces_are_compared_by_the_kernel() {
        let own = Peer { process: std::process::id() as i32, user: 0 };
        let namespaces = Namespaces::current().unwrap();
        assert_eq!(namespaces.check(own), Ok(()));
        assert_eq!(namespaces.check(Peer { process: 0, ..own }), Err(NotColocated::PidNamespace));
        // No process has this number.
        assert_eq!(namespaces.check(Peer { process: i32::MAX, ..own }), Err(NotColocated::NamespaceUnknown));
    }
}
