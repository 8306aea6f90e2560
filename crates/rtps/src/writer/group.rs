//! Where new samples go, and in which messages: one datagram to a multicast group where that replaces several to single
//! addresses.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashSet;

use crate::id::EntityId;
use crate::locator::Locator;
use crate::transmit::Destination;

use super::pack::{Outgoing, Packer};
use super::proxy::MatchedReader;

/// The readers that get new samples by messages.
#[derive(Debug)]
pub(super) struct Group {
    /// Whether there are any.
    pub(super) has_readers: bool,
    /// Where a message for all readers goes: one destination, unless each reader gets a proof of its own and they are
    /// many.
    pub(super) everyone: Vec<Arc<Destination>>,
    /// Where samples go. Each reader is reached by one part.
    pub(super) parts: Vec<Part>,
    pub(super) max_message: usize,
    /// What of a message the inline QoS takes that readers ask for.
    pub(super) qos_bytes: usize,
}

/// Readers that get the same messages.
#[derive(Debug)]
pub(super) struct Part {
    to: Arc<Destination>,
    /// Whether one of them asks for inline QoS.
    is_asked: bool,
}

impl Group {
    pub(super) fn empty(max_message: usize) -> Self {
        let nobody = Part { to: Arc::default(), is_asked: false };
        let everyone = vec![Arc::default()];
        Self { has_readers: false, everyone, parts: vec![nobody], max_message, qos_bytes: 0 }
    }

    /// The largest message, less the inline QoS that readers ask for.
    pub(super) const fn room(&self) -> usize {
        self.max_message.saturating_sub(self.qos_bytes)
    }
}

impl Group {
    /// Adds readers that get the same messages, but for inline QoS.
    pub(super) fn add<S: core::hash::BuildHasher>(&mut self, readers: &[&MatchedReader], asking: &HashSet<Locator, S>) {
        let to = destinations(readers.iter().copied());
        let everyone = reached(readers, to.clone());
        let (asking, plain): (Vec<_>, Vec<_>) = to.into_iter().partition(|to| asking.contains(to));
        if asking.is_empty() || plain.is_empty() {
            self.parts.push(Part { to: Arc::clone(&everyone), is_asked: !asking.is_empty() });
        } else {
            self.parts.push(Part { to: reached(readers, plain), is_asked: false });
            self.parts.push(Part { to: reached(readers, asking), is_asked: true });
        }
        self.everyone.push(everyone);
    }
}

/// Puts a change into the message for all readers, starting and ending messages as needed.
///
/// Inline QoS goes where readers listen that ask for it, and so to all readers at that address. Each reader gets each
/// sample once.
#[inline]
pub(super) fn send_new(packer: &mut Packer, group: &Group, sample: &Outgoing<'_>) {
    if let [all] = group.parts.as_slice() {
        packer.set_asked(all.is_asked);
        put_new(packer, group, &all.to, sample);
        return;
    }
    for part in &group.parts {
        packer.close();
        packer.set_asked(part.is_asked);
        put_new(packer, group, &part.to, sample);
        packer.close();
    }
}

#[inline]
fn put_new(packer: &mut Packer, group: &Group, to: &Arc<Destination>, sample: &Outgoing<'_>) {
    let fragments = sample.fragments(sample.payload.len());
    if fragments > 0 {
        packer.fragments(sample, fragments, to);
        return;
    }
    if packer.is_open() && packer.open_len() + packer.sample_len(sample.kind, sample.payload.len()) > group.room() {
        packer.close();
    }
    if !packer.is_open() {
        packer.open(to);
    }
    packer.sample(EntityId::UNKNOWN, sample);
}

/// The destinations that together reach all of these readers.
///
/// A group stands for its members when it saves a datagram: when they are at two or more addresses that no reader
/// outside needs a datagram at. It is also used for a reader that offers nothing else.
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
    // A reader without an address of its own has the empty one, so that its group is worth it by itself.
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

/// These locators, with the readers that listen at one of them.
fn reached(readers: &[&MatchedReader], locators: Vec<Locator>) -> Arc<Destination> {
    let at: BTreeSet<Locator> = locators.iter().copied().collect();
    let listens = |reader: &&&MatchedReader| reader.to.iter().chain(&reader.group).any(|locator| at.contains(locator));
    let peers = readers.iter().filter(listens).map(|reader| reader.guid).collect();
    Arc::new(Destination::new(locators.into(), peers))
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
        }
    }

    fn to(readers: &[MatchedReader]) -> Vec<Locator> {
        destinations(readers.iter())
    }

    #[test]
    fn a_group_replaces_two_addresses_and_not_one() {
        let (first, second) = (reader("10.0.0.1:7411", Some(GROUP)), reader("10.0.0.2:7411", Some(GROUP)));
        assert_eq!(to(core::slice::from_ref(&first)), [locator("10.0.0.1:7411")]);
        assert_eq!(to(&[first.clone(), first.clone()]), [locator("10.0.0.1:7411")], "both are at one address");
        assert_eq!(to(&[first.clone(), second.clone()]), [locator(GROUP)]);
        let third = reader("10.0.0.3:7411", None);
        assert_eq!(to(&[first, third, second]), [locator(GROUP), locator("10.0.0.3:7411")]);
    }

    #[test]
    fn reader_with_only_a_group_is_reached_by_it() {
        let (lonely, near) = (reader("", Some(GROUP)), reader("10.0.0.1:7411", Some(GROUP)));
        assert_eq!(to(core::slice::from_ref(&lonely)), [locator(GROUP)]);
        assert_eq!(to(&[near, lonely]), [locator(GROUP)]);
        assert_eq!(to(&[reader("", None)]), []);
    }

    #[test]
    fn an_address_that_gets_a_datagram_anyway_is_no_reason_for_a_group() {
        let member = |at| reader(at, Some(GROUP));
        let plain = reader("10.0.0.1:7411", None);
        let expected = vec![locator("10.0.0.1:7411"), locator("10.0.0.2:7411")];
        assert_eq!(to(&[plain, member("10.0.0.1:7411"), member("10.0.0.2:7411")]), expected);
    }

    #[test]
    fn each_group_is_judged_by_its_own_members() {
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
