//! The state of a remote participant that only a participant with a gate keeps.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::net::SocketAddrV6;

use super::addresses::Addresses;
use super::gate::Admission;
use crate::id::EntityId;
use crate::time::Instant;
use crate::vendor::VendorId;

/// The admission of a remote participant, and which of its endpoints it has announced protected.
#[derive(Debug)]
pub(super) struct RemoteSecurity {
    pub(super) admission: Admission,
    /// The endpoints that the secure endpoints of discovery have announced: unprotected announcements cannot change
    /// them.
    pub(super) secure: BTreeSet<EntityId>,
    /// Whether what is known of the participant is what it has signed in its handshake.
    pub(super) is_signed: bool,
    /// The vendor that it has signed.
    pub(super) signed_vendor: Option<VendorId>,
    /// The former addresses of this participant, and when it has left them, if it has moved since the latest handshake:
    /// the next one may state them.
    pub(super) former_addresses: Option<(Instant, Arc<Addresses>)>,
    /// Whether the handshake may have stated former addresses of this participant, which the participant then uses.
    pub(super) may_use_former: bool,
    /// The source of the latest datagram with a message of the handshake or a secure announcement that came from a
    /// link-local address. Its scope is the link.
    pub(super) link_local_source: Option<SocketAddrV6>,
}

impl RemoteSecurity {
    pub(super) fn new(admission: Admission) -> Self {
        Self {
            admission,
            secure: BTreeSet::new(),
            is_signed: false,
            signed_vendor: None,
            former_addresses: None,
            may_use_former: false,
            link_local_source: None,
        }
    }

    pub(super) fn is_authenticated(&self) -> bool {
        self.admission == Admission::Authenticated
    }

    /// Begins anew: the participant is not the one that it was, or has forgotten everything.
    pub(super) fn begin(&mut self) {
        self.secure.clear();
    }

    /// The participant is not authenticated any more.
    pub(super) const fn forget_signed(&mut self) {
        (self.is_signed, self.signed_vendor) = (false, None);
    }

    /// A remote endpoint is gone.
    pub(super) fn forget(&mut self, entity: EntityId) {
        self.secure.remove(&entity);
    }
}
