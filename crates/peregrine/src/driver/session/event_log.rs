//! Log lines about discovery.

use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::participant::LostReason;
use peregrine_rtps::qos::NonMatch;
use peregrine_rtps::writer::MatchedReader;
use tracing::Level;

use crate::driver::base::user_code::log;

pub(super) fn log_matched_reader(writer: Guid, reader: &MatchedReader) {
    let (reader, to) = (reader.guid, reader.to.clone());
    log(Level::DEBUG, move || tracing::debug!(%writer, %reader, ?to, "matched"));
}

pub(super) fn log_matched_writer(reader: Guid, writer: Guid) {
    log(Level::DEBUG, move || tracing::debug!(%reader, %writer, "matched"));
}

pub(super) fn log_refusal(local: EntityId, remote: Guid, reason: NonMatch) {
    log(Level::INFO, move || tracing::info!(%local, %remote, %reason, "endpoints of the same topic do not match"));
}

pub(super) fn log_lost(participant: GuidPrefix, reason: LostReason) {
    let is_failure = matches!(reason, LostReason::LeaseExpired | LostReason::ProcessEnded);
    let level = if is_failure { Level::WARN } else { Level::DEBUG };
    log(level, move || match reason {
        LostReason::LeaseExpired => tracing::warn!(%participant, "participant lost: its lease ran out"),
        LostReason::ProcessEnded => tracing::warn!(%participant, "participant lost: its process has ended"),
        reason => tracing::debug!(%participant, ?reason, "participant gone"),
    });
}
