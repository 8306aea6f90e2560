//! The terms of a participant, and other ones that an announcement states.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::discovery::data::{BuiltinEndpointSet, ParticipantData, SharedMemoryAddress};
use crate::locator::Locator;
use crate::time::{Instant, Span};
use crate::vendor::{ProtocolVersion, VendorId};

/// The part of an announcement on which matches and the lease depend, without the addresses: see
/// [`Ways`](super::ways::Ways) for these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Terms {
    pub(super) vendor: VendorId,
    pub(super) version: ProtocolVersion,
    pub(super) lease_duration: Span,
    pub(super) builtin_endpoints: BuiltinEndpointSet,
    pub(super) default_multicast: Vec<Locator>,
    pub(super) shared_memory: Option<Box<SharedMemoryAddress>>,
}

/// Other terms than those that hold were announced, and the participant is asked about them.
#[derive(Debug)]
pub(super) struct NewTerms {
    pub(super) stated: Terms,
    pub(super) since: Instant,
    pub(super) asked: u32,
    pub(super) next_question: Instant,
}

/// Whether two announcements state the same terms.
pub(super) fn are_same(one: &ParticipantData, other: &ParticipantData) -> bool {
    one.vendor == other.vendor
        && one.version == other.version
        && one.lease_duration == other.lease_duration
        && one.builtin_endpoints == other.builtin_endpoints
        && one.default_multicast == other.default_multicast
        && one.shared_memory == other.shared_memory
}

impl Terms {
    pub(super) fn of(data: &ParticipantData) -> Self {
        Self {
            vendor: data.vendor,
            version: data.version,
            lease_duration: data.lease_duration,
            builtin_endpoints: data.builtin_endpoints,
            default_multicast: data.default_multicast.clone(),
            shared_memory: data.shared_memory.clone(),
        }
    }

    /// Whether the only difference is that there are further built-in endpoints.
    pub(super) fn is_only_extended_by(&self, other: &Self) -> bool {
        let builtin_endpoints = self.builtin_endpoints;
        other.builtin_endpoints.contains(builtin_endpoints) && Self { builtin_endpoints, ..other.clone() } == *self
    }

    pub(super) fn replace_those_of(self, data: &mut ParticipantData) {
        data.vendor = self.vendor;
        data.version = self.version;
        data.lease_duration = self.lease_duration;
        data.builtin_endpoints = self.builtin_endpoints;
        data.default_multicast = self.default_multicast;
        data.shared_memory = self.shared_memory;
    }
}

impl NewTerms {
    /// Whether the participant was asked often enough to be believed.
    pub(super) const fn was_asked(&self, repeats: bool) -> bool {
        !repeats || self.asked >= 2
    }
}
