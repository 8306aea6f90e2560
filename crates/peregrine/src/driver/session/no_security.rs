//! In place of `security` in a build without DDS Security: a type without values.

use std::collections::VecDeque;
use std::convert::Infallible;

use peregrine_rtps::id::EntityId;
use peregrine_rtps::participant::{Participant, ParticipantEvent};
use peregrine_rtps::qos::Partition;
use peregrine_rtps::time::Instant;

use crate::error::Error;

/// The security of one participant, which does not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Security {}

/// An event of the security of a participant.
pub(super) type SecurityReport = Infallible;

impl Security {
    pub(crate) const fn endpoint_made(&self, _: EntityId, _: &str, _: &Partition) -> Result<(), Error> {
        match *self {}
    }

    pub(crate) const fn endpoint_removed(&self, _: EntityId) {
        match *self {}
    }

    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        match *self {}
    }

    pub(super) const fn handle_timeout(&self, _: Instant) {
        match *self {}
    }

    pub(super) const fn handle_event(&self, _: Instant, _: &ParticipantEvent, _: &mut Participant) {
        match *self {}
    }

    pub(super) const fn process(&self, _: Instant, _: &mut Participant, _: &mut VecDeque<SecurityReport>) -> bool {
        match *self {}
    }
}
