//! In place of `security` in a build without DDS Security: a type without values.

use std::convert::Infallible;

use peregrine_rtps::discovery::data::OpaqueValue;
use peregrine_rtps::id::EntityId;
use peregrine_rtps::participant::{Participant, ParticipantEvent};
use peregrine_rtps::qos::Partition;
use peregrine_rtps::time::Instant;

use super::observer::DiscoveryEvent;
use crate::error::{BadParameter, Error};

/// The security of one participant, which does not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Security {}

/// The registration of an endpoint, which does not exist either.
#[derive(Debug)]
pub(crate) enum Registration {}

impl Registration {
    pub(crate) const fn keep(self) {
        match self {}
    }
}

/// An event of the security of a participant.
pub(super) type SecurityReport = Infallible;

impl Security {
    pub(crate) const fn register(
        &self,
        _: EntityId,
        _: &str,
        _: &Partition,
        _: Option<&OpaqueValue>,
    ) -> Result<Option<Registration>, Error> {
        match *self {}
    }

    pub(crate) const fn check(
        &self,
        _: EntityId,
        _: &str,
        _: &Partition,
        _: Option<&OpaqueValue>,
    ) -> Result<(), Error> {
        match *self {}
    }

    pub(super) const fn endpoint_announced(&self, _: EntityId, _: &str, _: &Partition, _: Option<&OpaqueValue>) {
        match *self {}
    }

    pub(super) const fn endpoint_removed(&self, _: EntityId) {
        match *self {}
    }

    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        match *self {}
    }

    pub(super) const fn handle_timeout(&self, _: Instant) {
        match *self {}
    }

    pub(super) const fn report_of_discovery(&self, _: &ParticipantEvent) -> Option<SecurityReport> {
        match *self {}
    }

    pub(super) const fn process(&self, _: Instant, _: &mut Participant, _: &mut dyn FnMut(SecurityReport)) -> bool {
        match *self {}
    }
}

/// Endpoints have no tags.
pub(crate) const fn announced_tags(_: &[(String, String)]) -> Result<Option<OpaqueValue>, BadParameter> {
    Ok(None)
}

pub(super) const fn event_of(report: SecurityReport) -> DiscoveryEvent {
    match report {}
}
