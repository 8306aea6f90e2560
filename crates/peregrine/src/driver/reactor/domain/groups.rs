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
        let (locator, opened) = self.network.join(group)?;
        if let Some(socket) = opened {
            self.group_sockets().push(Arc::clone(&socket));
            self.group_sockets_so_far.fetch_add(1, Ordering::Release);
            if self.is_polled() {
                self.waker.wake();
            } else {
                let receiver = self.open_receiver(&socket, false)?;
                self.start_receive_thread(&receiver)?;
            }
        }
        Ok(locator)
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
