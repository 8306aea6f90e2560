//! Readers with content filters. Rejected samples count as acknowledged once no earlier sample is missing. A GAP names
//! them before the next submessage from which the reader would conclude that they are missing.

use crate::limits::MESSAGE_BYTES_MAX;
use crate::seq::{SequenceNumber, SequenceNumberSet};
use crate::time::Instant;

use super::Writer;
use super::filter::RejectedRun;
use super::flow::Answers;
use super::proxy::ReaderProxy;

impl Writer {
    /// Whether the driver may hand changes over to this matched reader. A reader with a filter receives messages.
    #[must_use]
    pub fn allows_hand_over(&self, reader: crate::id::Guid) -> bool {
        self.readers.find(reader).is_none_or(|reader| reader.info.filter.is_none())
    }

    /// Whether messages for some readers name the reader, or are for the readers with one filter.
    pub(super) const fn has_selections(&self) -> bool {
        !self.group.selections.is_empty()
    }

    /// Counts rejected samples as acknowledged after a change was sent, for readers without earlier missing samples.
    pub(super) fn pass_over_rejected(&mut self) {
        let mut is_news = false;
        for reader in self.readers.iter_mut() {
            let selection = reader.selection.get().and_then(|index| self.group.selections.get(index));
            is_news |= selection.is_some_and(|selection| reader.pass_over(&selection.rejected));
        }
        if is_news {
            self.release_acknowledged();
        }
    }

    /// The state of the readers when some of them are in selections; see `Writer::answers`.
    #[inline(never)]
    pub(super) fn answers_with_selections(&self) -> Answers {
        let (mut answers, mut any) = (Answers::Settled, false);
        for reader in self.readers.iter().filter(|reader| reader.repairs()) {
            any |= reader.counts() || reader.retains_unacknowledged();
            answers = answers.worse_of(match reader.selection.get() {
                Some(_) => reader.answers_in_selection(self.next_to_send),
                None if !reader.is_current() => Answers::CatchingUp,
                None if !reader.is_settled() => Answers::Asked,
                None => Answers::Settled,
            });
        }
        if any { answers } else { self.answers_of_inactive() }
    }

    /// Requests acknowledgement from the readers of selections that owe one, each by a separate message: a shared
    /// HEARTBEAT would make readers with other filters at the same address request samples that their filters have
    /// rejected.
    pub(super) fn ask_selections(&mut self, now: Instant) {
        for index in 0..self.readers.len() {
            let is_selected = |reader: &&ReaderProxy| reader.selection.is_some() && reader.repairs();
            let Some(reader) = self.readers.get(index).filter(is_selected) else { continue };
            if reader.acknowledged_below < self.next_to_send {
                self.directed_heartbeat(now, index);
            }
        }
        self.await_answers(now);
    }

    /// Asserts liveliness to each of these readers by a separate message.
    pub(super) fn assert_liveliness_singly(&mut self, now: Instant, is_meant: impl Fn(&ReaderProxy) -> bool) {
        for index in 0..self.readers.len() {
            let is_meant = |reader: &&ReaderProxy| reader.is_messaged() && is_meant(reader);
            let Some(reader) = self.readers.get(index).filter(is_meant) else { continue };
            self.packer.open_to(reader.info.guid.prefix, &self.group.own_destination(reader));
            self.put_own_heartbeat(now, index, true, true);
            self.packer.close();
        }
    }

    /// Adds a HEARTBEAT for one reader to the open message, after the GAPs that the reader needs first.
    pub(super) fn put_own_heartbeat(&mut self, now: Instant, index: usize, is_final: bool, liveliness: bool) {
        let rejected = self.unannounced(index);
        let (first, last) = self.announced_to(now, index);
        let own_first = self.first_for(index);
        let Some(reader) = self.readers.get(index) else { return };
        for run in rejected.iter().filter(|run| !run.is_empty()) {
            self.packer.gap(reader.entity(), run.start, SequenceNumberSet::empty(run.end));
        }
        let first = first.max(own_first).min(last.next());
        self.packer.heartbeat(reader.entity(), first, last, is_final, liveliness);
        self.counters.heartbeats += 1;
    }

    /// Bytes that [`Self::put_own_heartbeat`] adds.
    pub(super) fn own_heartbeat_len(&self, index: usize) -> usize {
        let runs = self.unannounced(index).iter().filter(|run| !run.is_empty()).count();
        self.packer.heartbeat_len() + runs * self.packer.gap_len()
    }

    /// The rejected samples of a reader that no GAP or accepted sample has announced to it.
    fn unannounced(&self, index: usize) -> [RejectedRun; 2] {
        let Some(reader) = self.readers.get(index).filter(|reader| reader.info.reliable) else {
            return [RejectedRun::EMPTY; 2];
        };
        let selection = reader.selection.get().and_then(|index| self.group.selections.get(index));
        let waiting = selection.map(|selection| selection.rejected);
        let waiting = waiting.filter(|run| run.end > reader.acknowledged_below).unwrap_or(RejectedRun::EMPTY);
        [reader.passed_over(), waiting]
    }

    /// Adds a GAP for the requested samples that the reader's filter rejects. Returns the other requested samples.
    pub(super) fn reject_requested(&mut self, index: usize, requested: &SequenceNumberSet) -> SequenceNumberSet {
        let Some(reader) = self.readers.get(index).filter(|reader| reader.info.filter.is_some()) else {
            return *requested;
        };
        let is_rejected = |number: &SequenceNumber| {
            *number < self.next_to_send
                && *number >= reader.first_relevant
                && self.history.get(*number).is_some_and(|change| !reader.admits(change))
        };
        let rejected = SequenceNumberSet::from_ascending(requested.base(), requested.iter().filter(is_rejected));
        let Some(start) = rejected.iter().next() else { return *requested };
        let mut end = start.next();
        while rejected.contains(end) {
            end = end.next();
        }
        let others = SequenceNumberSet::from_ascending(end, rejected.iter().filter(|number| *number > end));
        self.packer.close();
        self.packer.open_to(reader.info.guid.prefix, &self.group.own_destination(reader));
        self.packer.gap(reader.entity(), start, others);
        debug_assert!(self.packer.open_len() <= MESSAGE_BYTES_MAX);
        let rest = requested.iter().filter(|number| !rejected.contains(*number));
        SequenceNumberSet::from_ascending(requested.base(), rest)
    }

    /// Whether the filter of a reader rejects a held change.
    pub(super) fn is_rejected(&self, index: usize, number: SequenceNumber) -> bool {
        let (reader, change) = (self.readers.get(index), self.history.get(number));
        reader.zip(change).is_some_and(|(reader, change)| !reader.admits(change))
    }
}
