//! The readers that receive new samples, and the length of messages for them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::HashSet;

use super::Writer;
use super::filter::{RejectedRun, is_same_filter};
use super::group::{Targets, addresses_that_ask};
use super::proxy::{MatchedReader, ReaderProxy};
use super::tally::Tally;
use super::witness;
use crate::history::Change;
use crate::limits::{MESSAGE_BYTES_MAX, MESSAGE_BYTES_MIN};
use crate::locator::Locator;

/// The fragment size of an unencoded value, which no reader receives in messages: the value was written while there was
/// no such reader, and a volatile writer sends later ones what is written from then on.
const UNPLANNED: u32 = u32::MAX;

impl Writer {
    /// The fragment size of a change, or 0 when it fits into one message.
    #[inline]
    pub(super) fn plan(&self, change: &Change) -> u32 {
        if !self.group.has_readers && change.payload.known_len().is_none() {
            return UNPLANNED;
        }
        let whole = self.packer.head_len() + self.packer.sample_len(change.kind, change.payload.len());
        if whole <= self.group.room() { 0 } else { self.packer.fragment_size(self.group.room()) }
    }

    /// Adds the newest reader, which receives messages, to the group.
    pub(super) fn join_group(&mut self) {
        let Some(newest) = self.readers.last() else { return };
        if !self.is_plain() || newest.info.filter.is_some() {
            return self.regroup();
        }
        self.tally.add(&newest.info);
        let guid = newest.info.guid;
        // Readers of one participant match in a row, and what goes to the one before reaches the newest one as well.
        let is_reached = self.newest_is_like_the_one_before();
        self.meet_readers();
        if !is_reached || !self.group.join(guid) {
            self.forget_targets();
        }
        if self.hand_over.has_readers {
            self.hand_over.refresh(&self.readers);
        }
    }

    /// A reader has been removed.
    pub(super) fn leave_group(&mut self, removed: &ReaderProxy) {
        if !self.is_plain() {
            return self.regroup();
        }
        if self.hand_over.has_readers {
            self.hand_over.refresh(&self.readers);
        }
        if removed.is_messaged() {
            self.tally.remove(&removed.info);
            self.meet_readers();
            self.forget_targets();
        }
    }

    /// The next message for all readers computes its targets. The targets of a single reader are made at once, because
    /// its repairs share them.
    fn forget_targets(&mut self) {
        self.group.forget_targets();
        if self.readers.len() == 1 {
            self.group.targets(&self.readers);
        }
    }

    /// Whether new samples go to each reader that receives messages alike. Only then is the cost of a match independent
    /// of the number of readers.
    const fn is_plain(&self) -> bool {
        self.group.is_plain() && !self.config.names_reader
    }

    fn newest_is_like_the_one_before(&self) -> bool {
        let Some(before) = self.readers.len().checked_sub(2).and_then(|index| self.readers.get(index)) else {
            return false;
        };
        let Some(newest) = self.readers.last() else { return false };
        let is_plain = |reader: &ReaderProxy| {
            let info = &reader.info;
            reader.is_messaged() && reader.push_from.is_none() && info.filter.is_none() && !info.expects_inline_qos
        };
        let (old, new) = (&before.info, &newest.info);
        is_plain(before)
            && is_plain(newest)
            && old.to == new.to
            && old.group == new.group
            && old.vendor == new.vendor
            && old.max_message_bytes <= new.max_message_bytes
    }

    /// Computes again which readers receive new samples, and the size of messages.
    pub(super) fn regroup(&mut self) {
        self.end_separations();
        self.hand_over.refresh(&self.readers);
        self.tally = Tally::of(self.readers.iter().filter(|r| r.is_messaged()).map(|r| &r.info));
        self.group.has_apart = self.readers.iter().any(ReaderProxy::is_apart);
        let has_selections = self.config.names_reader || self.tally.has_filters();
        let has_exceptions = has_selections || !self.group.is_plain();
        if has_exceptions {
            self.regroup_with_exceptions(has_selections);
        }
        self.meet_readers();
        if !has_exceptions {
            self.forget_targets();
        }
    }

    /// Computes the targets while some readers receive other messages than the rest.
    fn regroup_with_exceptions(&mut self, has_selections: bool) {
        witness::count_regrouped(self.readers.len());
        let messaged = || self.readers.iter().filter(|r| r.is_messaged()).map(|r| &r.info);
        let asking = addresses_that_ask(messaged(), self.readers.hasher());
        let receivers_max = self.packer.receivers_max(self.max_message());
        let mut targets = Targets::NONE;
        if !has_selections {
            // A reader that still receives history would count the rest of the history as lost at a new sample.
            let current = self.readers.iter().filter(|r| r.is_messaged() && r.push_from.is_none() && !r.is_apart());
            let current: Vec<&MatchedReader> = current.map(|r| &r.info).collect();
            let without_groups = self.without_groups_of_apart(&current);
            let current = if without_groups.is_empty() { current } else { without_groups.iter().collect() };
            targets.add_all(&current, receivers_max, &asking);
        }
        if has_selections || !self.group.selections.is_empty() {
            self.select(&mut targets, &asking, receivers_max, has_selections);
        }
        if self.group.selections.is_empty() {
            targets = targets.or_nobody();
        }
        self.group.set_targets(targets);
    }

    /// The largest message for all readers.
    fn max_message(&self) -> usize {
        self.tally
            .max_message()
            .unwrap_or(self.config.default_message_bytes)
            .min(self.config.max_message_bytes)
            .clamp(MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX)
    }

    /// Sets what messages for all readers must meet: one message serves all of them, so it meets the strictest
    /// requirement.
    fn meet_readers(&mut self) {
        // In great crowds, the tests measure the work.
        #[cfg(test)]
        assert!(
            self.readers.len() > 100
                || self.tally == Tally::of(self.readers.iter().filter(|r| r.is_messaged()).map(|r| &r.info)),
            "the tally follows each change of the readers"
        );
        let (room_before, had_readers) = (self.group.room(), self.group.has_readers);
        let (max_message, has_readers) = (self.max_message(), self.tally.has_readers());
        // A sample gets at least half of the smallest message. A message that is then too long for its path is
        // fragmented by IP.
        let qos_bytes = if self.tally.is_asked_for_qos() { self.packer.standing_qos_len() } else { 0 };
        self.group.max_message = max_message;
        self.group.qos_bytes = qos_bytes.min(max_message - MESSAGE_BYTES_MIN / 2);
        self.group.has_readers = has_readers;
        self.group.receivers_max = self.packer.receivers_max(max_message);
        self.packer.set_mistaken_key_bytes(self.tally.mistaken_key_bytes());
        self.packer.set_needs_key_hash(self.tally.needs_key_hash());
        self.packer.set_receivers(self.group.receivers_max);
        let (room, packer, is_durable) = (self.group.room(), &self.packer, self.config.durable);
        if room < room_before || has_readers && !had_readers {
            self.history.refit(|change| {
                // Encoding is application code, and the caller holds locks.
                let stays_unencoded = !is_durable && change.payload.known_len().is_none();
                if change.fragment_size == UNPLANNED && (!has_readers || stays_unencoded) {
                    return UNPLANNED;
                }
                let whole = packer.head_len() + packer.sample_len(change.kind, change.payload.len());
                match change.fragment_size {
                    0 | UNPLANNED if whole <= room => 0,
                    size if size != 0 && size <= packer.fragment_size(room) => size,
                    _ => packer.fragment_size(room),
                }
            });
        }
    }

    /// Assigns each reader to the selection of its filter, if there are selections. A reader without a filter belongs
    /// to a selection only if messages must name it: it shares an address with a reader that has a filter, or messages
    /// of this writer name their reader in any case.
    fn select<S: BuildHasher>(
        &mut self,
        targets: &mut Targets,
        asking: &HashSet<Locator, S>,
        receivers_max: usize,
        has_selections: bool,
    ) {
        let before = core::mem::take(&mut self.group.selections);
        let shared = shared_addresses(self.readers.iter().filter(|r| r.is_messaged()).map(|r| &r.info));
        // Readers by the index of their selection, if messages need not name the reader.
        let mut together: BTreeMap<Option<usize>, Vec<MatchedReader>> = BTreeMap::new();
        for reader in self.readers.iter_mut() {
            reader.selection.clear();
            if !has_selections || !reader.is_messaged() || reader.push_from.is_some() {
                continue;
            }
            let filter = reader.info.filter.as_ref();
            let is_apart =
                self.config.names_reader || reader.own_locators().iter().any(|locator| shared.contains(locator));
            if is_apart || filter.is_some() {
                let index = self.group.selection(filter);
                reader.selection.set(index);
                if let Some(selection) = self.group.selections.get_mut(index).filter(|_| is_apart) {
                    selection.add_single(&reader.info, reader.own_destination());
                    continue;
                }
            }
            let usable = reader.info.group.filter(|locator| !shared.contains(locator));
            let info = MatchedReader { group: usable, ..reader.info.clone() };
            together.entry(reader.selection.get()).or_default().push(info);
        }
        for (index, readers) in together {
            let readers: Vec<&MatchedReader> = readers.iter().collect();
            for readers in readers.chunks(receivers_max) {
                match index.and_then(|index| self.group.selections.get_mut(index)) {
                    Some(selection) => selection.add(readers, asking),
                    None => targets.add(readers, asking),
                }
            }
        }
        for selection in &mut self.group.selections {
            let before = before.iter().find(|known| known.is_for(selection.filter.as_ref()));
            selection.rejected = before.map_or(RejectedRun::EMPTY, |known| known.rejected);
        }
    }
}

/// The addresses shared by readers with different filters.
fn shared_addresses<'r>(readers: impl Iterator<Item = &'r MatchedReader>) -> BTreeSet<Locator> {
    let (mut filters, mut shared) = (BTreeMap::new(), BTreeSet::new());
    for reader in readers {
        for locator in reader.to.iter().chain(&reader.group) {
            let filter = *filters.entry(*locator).or_insert(reader.filter.as_ref());
            if !is_same_filter(filter, reader.filter.as_ref()) {
                shared.insert(*locator);
            }
        }
    }
    shared
}
