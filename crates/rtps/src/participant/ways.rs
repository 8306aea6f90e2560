//! The addresses in use of a participant, and the doubt whether it is still there.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::discovery::data::ParticipantData;
use crate::locator::Locator;
use crate::time::Instant;

/// The addresses among which the ways to a participant are chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ways {
    pub(super) metatraffic_unicast: Vec<Locator>,
    pub(super) default_unicast: Vec<Locator>,
    pub(super) streams: Vec<Locator>,
}

/// Whether a participant is still at its old addresses is being found out.
#[derive(Debug)]
pub(super) struct Doubt {
    /// The addresses in use that the participant no longer announces.
    pub(super) to: Arc<[Locator]>,
    pub(super) asked: u32,
    pub(super) next: Instant,
}

impl Ways {
    pub(super) fn of(data: &ParticipantData) -> Self {
        Self {
            metatraffic_unicast: data.metatraffic_unicast.clone(),
            default_unicast: data.default_unicast.clone(),
            streams: data.streams.clone(),
        }
    }

    pub(super) fn are_of(&self, data: &ParticipantData) -> bool {
        self.metatraffic_unicast == data.metatraffic_unicast
            && self.default_unicast == data.default_unicast
            && self.streams == data.streams
    }
}
