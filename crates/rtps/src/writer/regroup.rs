//! The readers that receive new samples, and the length of messages for them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::HashSet;

use super::Writer;
use super::filter::{RejectedRun, is_same_filter};
use super::group::Group;
use super::proxy::{MatchedReader, ReaderProxy};
use crate::history::Change;
use crate::limits::{MESSAGE_BYTES_MAX, MESSAGE_BYTES_MIN};
use crate::locator::Locator;
use crate::vendor::Quirks;

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

    /// Adds the newest reader to the group. Readers of one participant match in a row, and what goes to the one before
    /// reaches the newest one as well.
    pub(super) fn join_group(&mut self) {
        if !self.newest_is_like_the_one_before() {
            self.regroup();
            return;
        }
        let Some(newest) = self.readers.last() else { return };
        self.group.join(newest.info.guid);
    }

    fn newest_is_like_the_one_before(&self) -> bool {
        let Some(before) = self.readers.len().checked_sub(2).and_then(|index| self.readers.get(index)) else {
            return false;
        };
        let Some(newest) = self.readers.last() else { return false };
        if self.readers.iter().any(ReaderProxy::is_apart) {
            return false;
        }
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
            && self.group.has_one_destination()
            && self.packer.receivers_max(self.group.max_message) == usize::MAX
    }

    /// Computes again which readers receive new samples, and the size of messages.
    pub(super) fn regroup(&mut self) {
        self.end_separations();
        self.hand_over.refresh(&self.readers);
        let messaged = || self.readers.iter().filter(|r| r.is_messaged()).map(|r| &r.info);
        let has_readers = messaged().next().is_some();
        let smallest = messaged().map(|info| info.max_message_bytes).min();
        let max_message = smallest
            .unwrap_or(self.config.default_message_bytes)
            .min(self.config.max_message_bytes)
            .clamp(MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX);
        // Peers choose their addresses, and there may be thousands of peers.
        let hasher = foldhash::quality::FixedState::with_seed(self.config.seed);
        let mut asking: HashSet<Locator, _> = HashSet::with_hasher(hasher);
        let asks = messaged().filter(|info| info.expects_inline_qos);
        asking.extend(asks.flat_map(|info| info.to.iter().chain(&info.group)));
        // A reader that still receives history would count the rest of the history as lost at a new sample.
        let current = self.readers.iter().filter(|r| r.is_messaged() && r.push_from.is_none() && !r.is_apart());
        let current: Vec<&MatchedReader> = current.map(|r| &r.info).collect();
        let without_groups = self.without_groups_of_apart(&current);
        let current = if without_groups.is_empty() { current } else { without_groups.iter().collect() };
        let per_message = self.packer.receivers_max(max_message);
        let mut group = Group { everyone: Vec::new(), parts: Vec::new(), ..Group::empty(max_message) };
        let has_selections = self.config.names_reader || messaged().any(|info| info.filter.is_some());
        if !has_selections {
            for readers in current.chunks(per_message) {
                group.add(readers, &asking);
            }
        }
        let is_asked_for = messaged().any(|info| info.expects_inline_qos);
        // A sample gets at least half of the smallest message. A message that is then too long for its path is
        // fragmented by IP.
        let qos_bytes = if is_asked_for { self.packer.standing_qos_len() } else { 0 };
        group.qos_bytes = qos_bytes.min(max_message - MESSAGE_BYTES_MIN / 2);
        group.has_readers = has_readers;
        // One message serves all readers, so it meets the strictest requirement.
        let mistaken = messaged().map(|info| Quirks::of(info.vendor).mistaken_key_bytes).max();
        self.packer.set_mistaken_key_bytes(mistaken.unwrap_or(0));
        self.packer.set_needs_key_hash(messaged().any(|info| !Quirks::of(info.vendor).finds_instance_by_key));
        if has_selections || !self.group.selections.is_empty() {
            self.select(&mut group, &asking, per_message, has_selections);
        }
        if group.parts.is_empty() && group.selections.is_empty() {
            group.add(&[], &asking);
        }
        self.packer.set_receivers(per_message);
        let (room, packer, is_durable) = (group.room(), &self.packer, self.config.durable);
        if room < self.group.room() || has_readers && !self.group.has_readers {
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
        self.group = group;
    }

    /// Assigns each reader to the selection of its filter, if there are selections. A reader without a filter belongs
    /// to a selection only if messages must name it: it shares an address with a reader that has a filter, or messages
    /// of this writer name their reader in any case.
    fn select<S: BuildHasher>(
        &mut self,
        group: &mut Group,
        asking: &HashSet<Locator, S>,
        per_message: usize,
        has_selections: bool,
    ) {
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
                let index = group.selection(filter);
                reader.selection.set(index);
                if let Some(selection) = group.selections.get_mut(index).filter(|_| is_apart) {
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
            for readers in readers.chunks(per_message) {
                match index.and_then(|index| group.selections.get_mut(index)) {
                    Some(selection) => selection.add(readers, asking),
                    None => group.add(readers, asking),
                }
            }
        }
        for selection in &mut group.selections {
            let before = self.group.selections.iter().find(|known| known.is_for(selection.filter.as_ref()));
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
