//! The readers that a writer matches, and what they have acknowledged.

use super::filter::is_same_filter;
use super::proxy::ReaderProxy;
use super::{MatchedReader, ReaderPath, Writer, acknowledged_below, repair_budget};
use crate::id::Guid;
use crate::limits::{MATCHES_MAX, UNACKNOWLEDGED_KEEP};
use crate::round_trip::RoundTrip;
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::vendor::Quirks;

impl Writer {
    /// Matches a reader, or updates a matched one. `false` when the writer has reached its limit of matches. A new
    /// reader receives messages.
    pub fn match_reader(&mut self, now: Instant, reader: MatchedReader) -> bool {
        self.match_reader_by(now, reader, ReaderPath::Messages)
    }

    /// Like [`Self::match_reader`], with a path for a new reader. The path of a known reader stays: see
    /// [`Self::set_path`]. A reader with a filter receives messages.
    pub fn match_reader_by(&mut self, now: Instant, mut reader: MatchedReader, path: ReaderPath) -> bool {
        self.finish_group(now);
        reader.reliable &= self.config.reliable;
        reader.max_message_bytes = reader.max_message_bytes.min(Quirks::of(reader.vendor).max_message_bytes);
        let path = if reader.filter.is_some() { ReaderPath::Messages } else { path };
        if self.readers.find(reader.guid).is_some() {
            self.update_reader(now, reader);
            return true;
        }
        if self.readers.len() >= MATCHES_MAX {
            self.counters.matches_refused += 1;
            return false;
        }
        let guid = reader.guid;
        let history = self.config.durable && reader.wants_history;
        let next = if path == ReaderPath::Messages { self.next_to_send } else { self.next_new() };
        let first = if history { SequenceNumber::FIRST } else { next };
        let mut proxy = ReaderProxy::new(reader, path, first, self.config.unanswered_heartbeats);
        (proxy.joined_at, proxy.paced_from) = (next, next);
        proxy.repairs_paid.refill(now, repair_budget::first_sent(&self.counters));
        if path == ReaderPath::HandOver {
            self.readers.push(guid, proxy);
            self.hand_over.refresh(&self.readers);
            return true;
        }
        if proxy.info.reliable && first < self.next_to_send {
            // That HEARTBEAT, or the only answer to it, may be lost.
            self.flow.ask_within(now, proxy.patience());
        }
        if proxy.info.reliable {
            // A HEARTBEAT opens the association, even without a sample to send. Between secured participants, the
            // reader's side may get the keys later, and drop this HEARTBEAT.
            proxy.owe_first_heartbeat(now, self.config.protection.is_none());
            proxy.begin_opening(now);
            self.is_opening |= proxy.awaits_first_heartbeat();
            if proxy.retains_unacknowledged() {
                self.release_at.get_or_insert(now + UNACKNOWLEDGED_KEEP);
            }
        } else if history {
            proxy.push_from.set(self.history.first());
        }
        self.readers.push(guid, proxy);
        self.join_group();
        self.serve_reader(now, self.readers.len().saturating_sub(1));
        true
    }

    /// Updates a matched reader. A changed filter applies from the next sample on.
    fn update_reader(&mut self, now: Instant, reader: MatchedReader) {
        let (guid, is_filtered) = (reader.guid, reader.filter.is_some());
        let Some(known) = self.readers.find_mut(guid) else { return };
        let has_new_filter = !is_same_filter(known.info.filter.as_ref(), reader.filter.as_ref());
        known.owed_heartbeat |= has_new_filter && known.repairs();
        known.set_info(reader);
        self.regroup();
        if has_new_filter {
            self.serve_or_defer(now);
        }
        if is_filtered {
            self.set_path(now, guid, ReaderPath::Messages);
        }
    }

    /// Removes a reader. Returns whether it was matched.
    pub fn unmatch_reader(&mut self, now: Instant, reader: Guid) -> bool {
        self.finish_group(now);
        self.end_stall_of(now, reader);
        let Some(removed) = self.readers.remove(reader) else { return false };
        self.end_openings();
        self.leave_group(&removed);
        // Sends first the samples that only this reader delayed: other readers perhaps do not need them any longer
        // after the release.
        self.pump(now);
        self.release_acknowledged();
        true
    }

    /// The matched readers.
    pub fn matched_readers(&self) -> impl Iterator<Item = &MatchedReader> {
        self.readers.iter().map(|r| &r.info)
    }

    /// Whether a reader may request a sample later that is written now.
    pub(super) fn holds_changes(&self) -> bool {
        self.config.durable || self.readers.iter().any(|r| r.info.reliable || self.config.asynchronous)
    }

    /// The number before which every reader that the writer waits for has acknowledged all changes.
    #[must_use]
    pub fn acknowledged_below(&self) -> SequenceNumber {
        acknowledged_below(&self.readers, self.acknowledgeable_below())
    }

    /// Whether every reader that the writer waits for has acknowledged all changes up to and including `number`.
    #[must_use]
    pub fn is_acknowledged(&self, number: SequenceNumber) -> bool {
        self.acknowledged_below() > number
    }

    /// Whether every matched reliable reader has acknowledged, including inactive ones. Readers that never acknowledge
    /// are excluded.
    #[must_use]
    pub fn is_acknowledged_by_all(&self, number: SequenceNumber) -> bool {
        self.acknowledged_below_by_all() > number
    }

    /// The number before which every matched reliable reader has acknowledged all changes; see
    /// [`Self::is_acknowledged_by_all`].
    #[must_use]
    pub fn acknowledged_below_by_all(&self) -> SequenceNumber {
        let silent = self.readers.iter().filter(|r| r.info.reliable && r.is_inactive() && !r.retains_unacknowledged());
        silent.map(|r| r.acknowledged_below).fold(self.acknowledged_below(), SequenceNumber::min)
    }

    /// The round trip to a reader; unmeasured if the reader is not matched.
    pub(crate) fn round_trip_to(&self, reader: Guid) -> RoundTrip {
        self.readers.find(reader).map(|reader| reader.round_trip).unwrap_or_default()
    }

    /// Whether this reader is matched and has acknowledged all changes up to and including `number`.
    pub(crate) fn is_acknowledged_by(&self, reader: Guid, number: SequenceNumber) -> bool {
        self.readers.find(reader).is_some_and(|r| r.acknowledged_below > number)
    }

    /// The matched reliable readers that have not acknowledged everything up to and including `number`, also those for
    /// which the writer no longer waits.
    pub fn readers_behind(&self, number: SequenceNumber) -> impl Iterator<Item = Guid> {
        let behind =
            move |r: &&ReaderProxy| r.info.reliable && !r.retains_unacknowledged() && r.acknowledged_below <= number;
        self.readers.iter().filter(behind).map(|r| r.info.guid)
    }
}
