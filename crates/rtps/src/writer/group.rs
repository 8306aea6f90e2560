//! The destinations of new samples, and their messages: one datagram to a multicast group if that replaces several to
//! single addresses.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::HashSet;

use crate::by_guid::ByGuid;
use crate::id::{EntityId, Guid};
use crate::locator::Locator;
use crate::seq::SequenceNumberSet;
use crate::transmit::Destination;

use super::filter::{RejectedRun, SampleFilter, admits, is_same_filter};
use super::pack::{Outgoing, Packer};
use super::proxy::{MatchedReader, ReaderProxy};
use super::witness;

/// The readers that receive new samples by messages.
#[derive(Debug)]
pub(super) struct Group {
    /// Whether there are such readers.
    pub(super) has_readers: bool,
    pub(super) max_message: usize,
    /// Bytes of the inline QoS that readers request, per message.
    pub(super) qos_bytes: usize,
    /// The greatest number of receivers of a message.
    pub(super) receivers_max: usize,
    /// The readers outside the parts of the targets, by their filters. Empty while no reader has a filter.
    pub(super) selections: Vec<Selection>,
    /// Whether a reader is sent to apart from others.
    pub(super) has_apart: bool,
    /// `None` after a reader was matched or unmatched: the next message for all readers computes them, so that the
    /// arrivals and departures between two messages cost one computation.
    targets: Option<Targets>,
}

/// The destinations of messages for all readers outside the selections.
#[derive(Debug)]
pub(super) struct Targets {
    /// The destinations of a message for all readers: one, unless each reader needs its own MAC and there are many
    /// readers.
    pub(super) everyone: Vec<Arc<Destination>>,
    /// The destinations of samples. Each reader belongs to one part.
    parts: Vec<Part>,
}

/// Readers that receive the same messages.
#[derive(Debug)]
pub(super) struct Part {
    to: Arc<Destination>,
    /// Whether one of them requests inline QoS.
    is_asked: bool,
}

/// Readers with the same filter. Messages for them reach no reader with another filter.
#[derive(Debug)]
pub(super) struct Selection {
    /// `None` for readers without a filter that share an address with a reader that has one.
    pub(super) filter: Option<Arc<dyn SampleFilter>>,
    /// The samples that the filter has rejected since the last sample that passed.
    pub(super) rejected: RejectedRun,
    /// Whether some of the readers are reliable, and so need GAPs for rejected samples.
    pub(super) is_reliable: bool,
    /// Readers at addresses where all readers have this filter.
    parts: Vec<Part>,
    /// Readers at addresses shared with another filter: messages name the reader.
    singles: Vec<Single>,
}

/// A reader that receives separate messages.
#[derive(Debug)]
struct Single {
    reader: Guid,
    to: Arc<Destination>,
    is_asked: bool,
    is_reliable: bool,
    max_message: usize,
}

impl Group {
    pub(super) fn empty(max_message: usize) -> Self {
        Self {
            has_readers: false,
            max_message,
            qos_bytes: 0,
            receivers_max: usize::MAX,
            selections: Vec::new(),
            has_apart: false,
            targets: None,
        }
    }

    /// The largest message, without the inline QoS that readers request.
    pub(super) const fn room(&self) -> usize {
        self.max_message.saturating_sub(self.qos_bytes)
    }
}

impl Group {
    /// The destinations of messages for all of these readers, which are the matched ones.
    pub(super) fn targets(&mut self, readers: &ByGuid<ReaderProxy>) -> &Targets {
        self.targets.get_or_insert_with(|| Targets::of(readers, self.receivers_max))
    }

    /// The readers have changed. The caller sets the targets itself while there are [exceptions](Self::is_plain).
    pub(super) fn forget_targets(&mut self) {
        debug_assert!(self.is_plain());
        self.targets = None;
    }

    pub(super) fn set_targets(&mut self, targets: Targets) {
        self.targets = Some(targets);
    }

    /// Whether each reader that receives new samples receives those for all.
    pub(super) const fn is_plain(&self) -> bool {
        self.selections.is_empty() && !self.has_apart
    }

    /// The destination of messages for this reader alone. If no other reader receives new samples, this is their
    /// destination, so that repairs of a single reader allocate none.
    pub(super) fn own_destination(&self, reader: &ReaderProxy) -> Arc<Destination> {
        match self.targets.as_ref().map(|targets| targets.parts.as_slice()) {
            Some([Part { to, .. }]) if *to.peers == [reader.info.guid] && *to.locators == *reader.own_locators() => {
                Arc::clone(to)
            }
            _ => reader.own_destination(),
        }
    }

    /// Adds a reader that is reached with one that is known, if all readers receive the same messages. Returns whether
    /// they do.
    pub(super) fn join(&mut self, reader: Guid) -> bool {
        let is_one = self.has_readers && self.selections.is_empty() && self.receivers_max == usize::MAX;
        is_one && self.targets.as_mut().is_some_and(|targets| targets.join(reader))
    }

    /// The index of the selection of readers with this filter.
    pub(super) fn selection(&mut self, filter: Option<&Arc<dyn SampleFilter>>) -> usize {
        let known = self.selections.iter().position(|known| known.is_for(filter));
        known.unwrap_or_else(|| {
            self.selections.push(Selection {
                filter: filter.cloned(),
                rejected: RejectedRun::EMPTY,
                is_reliable: false,
                parts: Vec::new(),
                singles: Vec::new(),
            });
            self.selections.len() - 1
        })
    }
}

impl Targets {
    pub(super) const NONE: Self = Self { everyone: Vec::new(), parts: Vec::new() };

    /// The targets of all of these readers that receive new samples.
    fn of(readers: &ByGuid<ReaderProxy>, receivers_max: usize) -> Self {
        witness::count_regrouped(readers.len());
        let messaged = || readers.iter().filter(|reader| reader.is_messaged());
        let asking = addresses_that_ask(messaged().map(|reader| &reader.info), readers.hasher());
        // A reader that still receives history would count the rest of the history as lost at a new sample.
        let current: Vec<&MatchedReader> = messaged().filter(|r| r.push_from.is_none()).map(|r| &r.info).collect();
        let mut targets = Self::NONE;
        targets.add_all(&current, receivers_max, &asking);
        targets.or_nobody()
    }

    /// Adds readers in messages for so many of them.
    pub(super) fn add_all<S: BuildHasher>(
        &mut self,
        readers: &[&MatchedReader],
        receivers_max: usize,
        asking: &HashSet<Locator, S>,
    ) {
        for readers in readers.chunks(receivers_max) {
            self.add(readers, asking);
        }
    }

    /// Adds readers that receive the same messages, except for inline QoS.
    pub(super) fn add<S: BuildHasher>(&mut self, readers: &[&MatchedReader], asking: &HashSet<Locator, S>) {
        let everyone = add_parts(&mut self.parts, readers, asking);
        self.everyone.push(everyone);
    }

    /// These targets, or one without readers in place of none.
    pub(super) fn or_nobody(self) -> Self {
        if !self.parts.is_empty() {
            return self;
        }
        Self { everyone: vec![Arc::default()], parts: vec![Part { to: Arc::default(), is_asked: false }] }
    }

    fn join(&mut self, reader: Guid) -> bool {
        if self.everyone.len() != 1 || self.parts.len() != 1 {
            return false;
        }
        let (Some(mut to), Some(part)) = (self.everyone.pop(), self.parts.pop()) else { return false };
        let Part { to: same, is_asked } = part;
        debug_assert_eq!(same, to);
        // Without this reference, the destination is usually changed in place.
        drop(same);
        Arc::make_mut(&mut to).add_peer(reader);
        self.everyone.push(Arc::clone(&to));
        self.parts.push(Part { to, is_asked });
        true
    }
}

impl Selection {
    /// Whether this is the selection of readers with this filter.
    pub(super) fn is_for(&self, filter: Option<&Arc<dyn SampleFilter>>) -> bool {
        is_same_filter(self.filter.as_ref(), filter)
    }

    /// Adds readers that receive the same messages, except for inline QoS.
    pub(super) fn add<S: BuildHasher>(&mut self, readers: &[&MatchedReader], asking: &HashSet<Locator, S>) {
        add_parts(&mut self.parts, readers, asking);
        self.is_reliable |= readers.iter().any(|reader| reader.reliable);
    }

    /// Adds a reader that receives separate messages.
    pub(super) fn add_single(&mut self, reader: &MatchedReader, to: Arc<Destination>) {
        self.is_reliable |= reader.reliable;
        self.singles.push(Single {
            reader: reader.guid,
            to,
            is_asked: reader.expects_inline_qos,
            is_reliable: reader.reliable,
            max_message: reader.max_message_bytes,
        });
    }

    /// Sends a change to the readers if the filter accepts it, after a GAP for earlier rejected samples. Returns
    /// whether the change was sent.
    fn send(&mut self, packer: &mut Packer, group: &GroupSize, sample: &Outgoing<'_>) -> bool {
        if !admits(self.filter.as_deref(), sample.kind, sample.payload) {
            self.rejected.push(sample.sequence_number);
            return false;
        }
        let rejected = core::mem::replace(&mut self.rejected, RejectedRun::EMPTY);
        let announces = !rejected.is_empty();
        for part in &self.parts {
            packer.close();
            packer.set_asked(part.is_asked);
            if announces && self.is_reliable {
                packer.open(&part.to);
                packer.gap(EntityId::UNKNOWN, rejected.start, SequenceNumberSet::empty(rejected.end));
            }
            put_new(packer, group.room, &part.to, sample);
        }
        for single in &self.singles {
            packer.close();
            packer.set_asked(single.is_asked);
            if announces && single.is_reliable {
                packer.open_to(single.reader.prefix, &single.to);
                packer.gap(single.reader.entity, rejected.start, SequenceNumberSet::empty(rejected.end));
            }
            let max_message = single.max_message.min(group.max_message).saturating_sub(group.qos_bytes);
            packer.directed(single.reader, &single.to, sample, max_message);
        }
        packer.close();
        true
    }
}

/// Lengths of the messages of a group.
#[derive(Clone, Copy)]
struct GroupSize {
    max_message: usize,
    qos_bytes: usize,
    room: usize,
}

/// The addresses of readers that request inline QoS. Peers choose their addresses, and there may be thousands of peers:
/// `hasher` is unpredictable to them.
pub(super) fn addresses_that_ask<'r, S: BuildHasher + Clone>(
    readers: impl Iterator<Item = &'r MatchedReader>,
    hasher: &S,
) -> HashSet<Locator, S> {
    let mut addresses = HashSet::with_hasher(hasher.clone());
    let asking = readers.filter(|info| info.expects_inline_qos);
    addresses.extend(asking.flat_map(|info| info.to.iter().chain(&info.group)));
    addresses
}

/// Adds the parts of these readers: those that request inline QoS, and the others. Returns a destination for all of
/// them.
fn add_parts<S: BuildHasher>(
    parts: &mut Vec<Part>,
    readers: &[&MatchedReader],
    asking: &HashSet<Locator, S>,
) -> Arc<Destination> {
    let ways = Ways::of(readers);
    let to = destinations(ways.first_readers());
    let everyone = ways.reached(to.clone());
    let (asking, plain): (Vec<_>, Vec<_>) = to.into_iter().partition(|to| asking.contains(to));
    if asking.is_empty() || plain.is_empty() {
        parts.push(Part { to: Arc::clone(&everyone), is_asked: !asking.is_empty() });
    } else {
        parts.push(Part { to: ways.reached(plain), is_asked: false });
        parts.push(Part { to: ways.reached(asking), is_asked: true });
    }
    everyone
}

/// Adds a change to the message for all readers, starting and ending messages as needed. Returns whether the change is
/// sent to any reader; only filters prevent that.
///
/// Inline QoS is sent to addresses of readers that request it, and so to all readers at these addresses. Each reader
/// receives each sample once.
#[inline(always)]
pub(super) fn send_new(
    packer: &mut Packer,
    group: &mut Group,
    readers: &ByGuid<ReaderProxy>,
    sample: &Outgoing<'_>,
) -> bool {
    if let Some(targets) = &group.targets
        && let [all] = targets.parts.as_slice()
        && group.selections.is_empty()
    {
        packer.set_asked(all.is_asked);
        put_new(packer, group.room(), &all.to, sample);
        return true;
    }
    send_apart(packer, group, readers, sample)
}

/// Like [`send_new`] for several parts or selections, and for the first sample after a change of the readers.
#[inline(never)]
fn send_apart(packer: &mut Packer, group: &mut Group, readers: &ByGuid<ReaderProxy>, sample: &Outgoing<'_>) -> bool {
    let size = GroupSize { max_message: group.max_message, qos_bytes: group.qos_bytes, room: group.room() };
    let (is_plain, parts) = (group.is_plain(), &group.targets(readers).parts);
    if is_plain && let [all] = parts.as_slice() {
        packer.set_asked(all.is_asked);
        put_new(packer, size.room, &all.to, sample);
        return true;
    }
    for part in parts {
        packer.close();
        packer.set_asked(part.is_asked);
        put_new(packer, size.room, &part.to, sample);
        packer.close();
    }
    let mut is_sent = !parts.is_empty();
    for selection in &mut group.selections {
        is_sent |= selection.send(packer, &size, sample);
    }
    is_sent
}

#[inline]
fn put_new(packer: &mut Packer, room: usize, to: &Arc<Destination>, sample: &Outgoing<'_>) {
    let fragments = sample.fragments(sample.payload.len());
    if fragments > 0 {
        packer.fragments(sample, fragments, to);
        return;
    }
    if packer.is_open() && packer.open_len() + packer.sample_len(sample.kind, sample.payload.len()) > room {
        packer.close();
    }
    if !packer.is_open() {
        packer.open(to);
    }
    packer.sample(EntityId::UNKNOWN, sample);
}

/// The destinations that together reach all of these readers.
///
/// A multicast group replaces its members when that saves a datagram: when the members have two or more addresses at
/// which no other reader needs a datagram. It is also used for a reader without another address.
fn destinations<'r>(readers: impl Iterator<Item = &'r MatchedReader> + Clone) -> Vec<Locator> {
    let alone: BTreeSet<&[Locator]> = readers.clone().filter(|r| r.group.is_none()).map(|r| &*r.to).collect();
    let mut members: BTreeMap<Locator, BTreeSet<&[Locator]>> = BTreeMap::new();
    for reader in readers.clone() {
        if let Some(group) = reader.group
            && !alone.contains(&*reader.to)
        {
            members.entry(group).or_default().insert(&reader.to);
        }
    }
    // A reader without an address counts as one at an empty address, so that its group is used.
    let is_worth_it = |at: &BTreeSet<&[Locator]>| at.len() > 1 || at.iter().any(|to| to.is_empty());
    members.retain(|_, at| is_worth_it(at));
    let mut known = BTreeSet::new();
    let mut to = Vec::new();
    for reader in readers {
        let is_member = |group: &Locator| members.contains_key(group) && !alone.contains(&*reader.to);
        let through: &[Locator] = match &reader.group {
            Some(group) if is_member(group) => core::slice::from_ref(group),
            _ => &reader.to,
        };
        to.extend(through.iter().copied().filter(|locator| known.insert(*locator)));
    }
    to
}

/// Readers by the addresses at which they listen: many readers of one participant share theirs.
struct Ways<'r> {
    ways: Vec<Way<'r>>,
}

/// The readers with the same addresses, at least one.
struct Way<'r> {
    first: &'r MatchedReader,
    readers: Vec<Guid>,
}

impl<'r> Ways<'r> {
    fn of(readers: &[&'r MatchedReader]) -> Self {
        let mut by_addresses: BTreeMap<(&[Locator], Option<Locator>), usize> = BTreeMap::new();
        let mut ways: Vec<Way<'r>> = Vec::new();
        for reader in readers.iter().copied() {
            // The last reader is usually of the same participant.
            let last = ways.len().wrapping_sub(1);
            let is_like_last = ways.get(last).is_some_and(|way| way.is_for(reader));
            let index = if is_like_last {
                last
            } else {
                *by_addresses.entry((&reader.to, reader.group)).or_insert_with(|| {
                    ways.push(Way { first: reader, readers: Vec::new() });
                    ways.len() - 1
                })
            };
            if let Some(way) = ways.get_mut(index) {
                way.readers.push(reader.guid);
            }
        }
        Self { ways }
    }

    fn first_readers(&self) -> impl Iterator<Item = &'r MatchedReader> + Clone + '_ {
        self.ways.iter().map(|way| way.first)
    }

    /// These locators, and the readers that listen at one of them.
    fn reached(&self, locators: Vec<Locator>) -> Arc<Destination> {
        let at: BTreeSet<Locator> = locators.iter().copied().collect();
        let listens = |way: &&Way<'_>| way.first.to.iter().chain(&way.first.group).any(|locator| at.contains(locator));
        let peers = self.ways.iter().filter(listens).flat_map(|way| way.readers.iter().copied()).collect();
        Arc::new(Destination::new(locators.into(), peers))
    }
}

impl Way<'_> {
    fn is_for(&self, reader: &MatchedReader) -> bool {
        let is_same = Arc::ptr_eq(&self.first.to, &reader.to) || self.first.to == reader.to;
        is_same && self.first.group == reader.group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{EntityId, Guid, GuidPrefix};
    use crate::vendor::VendorId;
    use core::net::SocketAddr;
    use std::vec;

    const GROUP: &str = "239.255.1.1:7401";
    const OTHER_GROUP: &str = "239.255.1.2:7401";

    fn locator(text: &str) -> Locator {
        Locator::from(text.parse::<SocketAddr>().unwrap())
    }

    fn reader(to: &str, group: Option<&str>) -> MatchedReader {
        MatchedReader {
            guid: Guid::new(GuidPrefix([1; 12]), EntityId::user_reader(1, false)),
            reliable: true,
            wants_history: false,
            to: to.split_whitespace().map(locator).collect::<Vec<_>>().into(),
            group: group.map(locator),
            max_message_bytes: 1400,
            expects_inline_qos: false,
            positive_acks_disabled: false,
            vendor: VendorId::PEREGRINE,
            filter: None,
            owed_answers: Arc::default(),
            address_budget: Arc::default(),
        }
    }

    fn to(readers: &[MatchedReader]) -> Vec<Locator> {
        destinations(readers.iter())
    }

    #[test]
    fn group_replaces_two_addresses_but_not_one() {
        let (first, second) = (reader("10.0.0.1:7411", Some(GROUP)), reader("10.0.0.2:7411", Some(GROUP)));
        assert_eq!(to(core::slice::from_ref(&first)), [locator("10.0.0.1:7411")]);
        assert_eq!(to(&[first.clone(), first.clone()]), [locator("10.0.0.1:7411")], "both readers have one address");
        assert_eq!(to(&[first.clone(), second.clone()]), [locator(GROUP)]);
        let third = reader("10.0.0.3:7411", None);
        assert_eq!(to(&[first, third, second]), [locator(GROUP), locator("10.0.0.3:7411")]);
    }

    #[test]
    fn reader_with_group_only_is_reached_by_group() {
        let (lonely, near) = (reader("", Some(GROUP)), reader("10.0.0.1:7411", Some(GROUP)));
        assert_eq!(to(core::slice::from_ref(&lonely)), [locator(GROUP)]);
        assert_eq!(to(&[near, lonely]), [locator(GROUP)]);
        assert_eq!(to(&[reader("", None)]), []);
    }

    #[test]
    fn address_of_other_reader_does_not_justify_group() {
        let member = |at| reader(at, Some(GROUP));
        let plain = reader("10.0.0.1:7411", None);
        let expected = vec![locator("10.0.0.1:7411"), locator("10.0.0.2:7411")];
        assert_eq!(to(&[plain, member("10.0.0.1:7411"), member("10.0.0.2:7411")]), expected);
    }

    #[test]
    fn each_group_is_chosen_by_its_own_members() {
        let readers = [
            reader("10.0.0.1:7411", Some(GROUP)),
            reader("10.0.0.2:7411", Some(OTHER_GROUP)),
            reader("10.0.0.3:7411", Some(GROUP)),
        ];
        assert_eq!(to(&readers), [locator(GROUP), locator("10.0.0.2:7411")]);
        let same: Arc<[Locator]> = readers[0].to.clone();
        assert_eq!(to(&readers[..2]), [same[0], locator("10.0.0.2:7411")]);
    }
}
