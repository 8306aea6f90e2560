//! The multicast groups that one socket receives, on every interface in use.

use std::net::IpAddr;
use std::sync::Arc;

use peregrine_transport::interface::InterfaceIndex;
use peregrine_transport::udp::Socket;
use tracing::Level;

use crate::driver::base::user_code::log;

/// A socket and the groups that it has joined.
#[derive(Debug)]
pub(in crate::driver) struct Groups {
    pub(in crate::driver) socket: Arc<Socket>,
    /// Each wanted group, with its number of users.
    wanted: Vec<(IpAddr, usize)>,
    joined: Vec<(IpAddr, InterfaceIndex)>,
}

impl Groups {
    pub(in crate::driver) const fn new(socket: Arc<Socket>) -> Self {
        Self { socket, wanted: Vec::new(), joined: Vec::new() }
    }

    pub(in crate::driver) fn want(&mut self, group: IpAddr) {
        match self.wanted.iter_mut().find(|(wanted, _)| *wanted == group) {
            Some((_, times)) => *times += 1,
            None => self.wanted.push((group, 1)),
        }
    }

    pub(in crate::driver) fn cancel(&mut self, group: IpAddr) {
        for (_, times) in self.wanted.iter_mut().filter(|(wanted, _)| *wanted == group) {
            *times = times.saturating_sub(1);
        }
        self.wanted.retain(|(_, times)| *times > 0);
    }

    pub(super) fn has_joined(&self, group: IpAddr) -> bool {
        self.joined.iter().any(|(joined, _)| *joined == group)
    }

    /// Joins the wanted groups on these interfaces, and leaves other ones.
    pub(in crate::driver) fn follow(&mut self, interfaces: &[InterfaceIndex]) {
        let Self { socket, wanted, joined } = self;
        joined.retain(|&(group, interface)| {
            let stays = interfaces.contains(&interface) && wanted.iter().any(|(wanted, _)| *wanted == group);
            // The call fails only for an interface that no longer exists, whose membership the kernel has removed.
            if !stays && let Err(error) = socket.leave(group, interface) {
                log(Level::DEBUG, move || tracing::debug!(%error, "was not in this group any more"));
            }
            stays
        });
        for &(group, _) in wanted.iter() {
            for &interface in interfaces {
                if joined.contains(&(group, interface)) {
                    continue;
                }
                match socket.join(group, interface) {
                    Ok(()) => joined.push((group, interface)),
                    Err(error) => log(Level::WARN, move || tracing::warn!(%error, "no multicast on this interface")),
                }
            }
        }
    }
}
