//! Multicast groups whose user data the domain receives.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use peregrine_rtps::locator::Locator;
use peregrine_transport::udp::Socket;

use super::Domain;
use crate::driver::base::sync::{Guard, lock};
use crate::error::Error;

impl Domain {
    /// Receives user data at this group until each join was followed by a leave.
    pub(crate) fn join(self: &Arc<Self>, group: IpAddr) -> Result<Locator, Error> {
        self.network.join(group, |socket| self.receive_at(socket))
    }

    /// Receives user data at this socket of groups from now on.
    fn receive_at(self: &Arc<Self>, socket: &Arc<Socket>) -> Result<(), Error> {
        self.group_sockets().push(Arc::clone(socket));
        if self.is_polled() {
            self.group_sockets_so_far.fetch_add(1, Ordering::Release);
            self.waker.wake();
            return Ok(());
        }
        let started = self.open_receiver(socket, false).and_then(|receiver| {
            let started = self.start_receive_thread(&receiver);
            started.inspect_err(|_| self.receivers().retain(|known| !Arc::ptr_eq(known, &receiver)))
        });
        started.inspect_err(|_| self.group_sockets().retain(|known| !Arc::ptr_eq(known, socket)))
    }

    pub(crate) fn leave(&self, group: IpAddr) {
        self.network.leave(group);
    }

    pub(super) fn group_sockets(&self) -> Guard<'_, Vec<Arc<Socket>>> {
        lock(&self.group_sockets)
    }
}

/// The membership in a multicast group; the drop ends it.
#[derive(Debug)]
pub(crate) struct Membership {
    domain: Arc<Domain>,
    group: IpAddr,
    locator: Locator,
}

impl Membership {
    pub(crate) fn new(domain: &Arc<Domain>, group: IpAddr) -> Result<Self, Error> {
        Ok(Self { locator: domain.join(group)?, domain: Arc::clone(domain), group })
    }

    /// The locator to announce.
    pub(crate) const fn locator(&self) -> Locator {
        self.locator
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.domain.leave(self.group);
    }
}
