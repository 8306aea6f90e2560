//! Outgoing messages: small parts written inline, large payloads by reference.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, Range};
use core::{ptr, slice};

use crate::id::{Guid, GuidPrefix};
use crate::locator::Locator;
use crate::payload::{BufferPool, Payload};
use crate::wire::{Header, InfoDestination, SubmessageId};

/// Payloads up to this many bytes are copied into the message; the message refers to longer ones.
///
/// A copy of this size costs less than a second reference count and a second gather element.
pub const INLINE_PAYLOAD_MAX: usize = 4096;

/// Like [`INLINE_PAYLOAD_MAX`] for fragments, which share one reference count.
const INLINE_FRAGMENT_MAX: usize = 512;

/// The locators and the recipients of a message. Each locator receives the same bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Destination {
    /// The addresses to send to.
    pub locators: Arc<[Locator]>,
    /// The endpoints that the message is for, ascending; empty for announcements to unknown participants.
    pub peers: Peers,
}

/// Endpoints, ascending. A list of one, which each association has for itself, needs no memory of its own.
#[derive(Clone, Debug)]
pub enum Peers {
    /// One endpoint.
    One(Guid),
    /// Any number of endpoints.
    List(Vec<Guid>),
}

impl Default for Peers {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl From<Vec<Guid>> for Peers {
    fn from(peers: Vec<Guid>) -> Self {
        match peers.as_slice() {
            [only] => Self::One(*only),
            _ => Self::List(peers),
        }
    }
}

impl Deref for Peers {
    type Target = [Guid];

    fn deref(&self) -> &[Guid] {
        match self {
            Self::One(only) => slice::from_ref(only),
            Self::List(peers) => peers,
        }
    }
}

impl PartialEq for Peers {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Peers {}

impl Destination {
    /// A destination with these locators and peers.
    #[must_use]
    pub fn new(locators: Arc<[Locator]>, mut peers: Vec<Guid>) -> Self {
        peers.sort_unstable();
        peers.dedup();
        Self { locators, peers: peers.into() }
    }

    /// Adds a peer.
    pub fn add_peer(&mut self, peer: Guid) {
        let Err(place) = self.peers.binary_search(&peer) else { return };
        match &mut self.peers {
            Peers::List(peers) => peers.insert(place, peer),
            Peers::One(only) => {
                let both = if place == 0 { [peer, *only] } else { [*only, peer] };
                self.peers = Peers::List(both.into());
            }
        }
    }

    /// The participant of all peers, if they have one in common.
    #[must_use]
    pub fn sole_participant(&self) -> Option<GuidPrefix> {
        // The peers are in ascending order.
        let (first, last) = (self.peers.first()?, self.peers.last()?);
        (first.prefix == last.prefix).then_some(first.prefix)
    }

    /// The participants of the peers, each once.
    pub fn participants(&self) -> impl Iterator<Item = GuidPrefix> + Clone + '_ {
        self.peers.chunk_by(|a, b| a.prefix == b.prefix).filter_map(|of_one| of_one.first()).map(|peer| peer.prefix)
    }
}

/// A contiguous part of a message.
#[derive(Debug)]
enum Part {
    /// Bytes of the batch's own buffer.
    Inline { start: usize, end: usize },
    /// Bytes of the sample at `index`.
    Payload { index: usize, start: usize, end: usize },
}

#[derive(Debug)]
struct MessageMeta {
    parts_end: usize,
    len: usize,
    /// The index of its destination in the batch.
    to: usize,
}

/// Messages to send, in order. The batch is reused, so that a steady state allocates nothing.
#[derive(Debug, Default)]
pub struct TransmitBatch {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    /// The samples that messages refer to; consecutive parts of one sample share an entry.
    payloads: Vec<Payload>,
    messages: Vec<MessageMeta>,
    /// The destinations; consecutive messages to the same destination share an entry.
    destinations: Vec<Arc<Destination>>,
    /// An empty destination, used for an index that does not exist. No message has such an index.
    nowhere: Destination,
    /// The start of the inline part being written.
    inline_start: usize,
    /// Bytes of all complete messages.
    complete_bytes: usize,
    /// Bytes of the message being written in parts that are complete.
    open_len: usize,
    open: bool,
    /// Whether payloads of any length are copied into the message being written.
    is_one_piece: bool,
    /// The participants of the last message, if submessages may be appended to it.
    directed: Option<Directed>,
}

/// A message of submessages from one participant for another one, without payloads and unprotected.
#[derive(Clone, Copy, Debug)]
struct Directed {
    from: GuidPrefix,
    to: GuidPrefix,
    /// The length in bytes up to which it may grow.
    max_len: usize,
}

/// The length in bytes of header and INFO_DST, with which a message for one participant begins.
pub(crate) const DIRECTED_HEAD: usize = Header::LEN + InfoDestination::LEN;

/// One message of a batch.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    batch: &'a TransmitBatch,
    parts: &'a [Part],
    len: usize,
    destination: &'a Destination,
}

impl TransmitBatch {
    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The number of complete messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Bytes of all complete messages.
    #[must_use]
    pub const fn total_bytes(&self) -> usize {
        self.complete_bytes
    }

    /// The complete messages, in the order of sending.
    pub fn messages(&self) -> impl ExactSizeIterator<Item = Message<'_>> {
        let mut start = 0;
        self.messages.iter().map(move |meta| {
            let parts = self.parts.get(start..meta.parts_end).unwrap_or(&[]);
            start = meta.parts_end;
            let destination = self.destinations.get(meta.to).map_or(&self.nowhere, |destination| &**destination);
            Message { batch: self, parts, len: meta.len, destination }
        })
    }

    /// Removes all messages and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.parts.clear();
        self.payloads.clear();
        self.messages.clear();
        self.destinations.clear();
        self.inline_start = 0;
        self.complete_bytes = 0;
        self.open_len = 0;
        self.open = false;
        self.directed = None;
    }

    /// Clears the batch; buffers of samples without other references return to the pool.
    pub fn clear_into(&mut self, pool: &mut BufferPool) {
        while let Some(payload) = self.payloads.pop() {
            pool.recycle(payload);
        }
        self.clear();
    }

    /// Adds a message of assembled bytes that is for no particular peer.
    pub fn push_message(&mut self, bytes: &[u8], to: Arc<[Locator]>) {
        let last = self.destinations.last();
        let known = last.filter(|last| Arc::ptr_eq(&last.locators, &to) && last.peers.is_empty()).cloned();
        let destination = known.unwrap_or_else(|| Arc::new(Destination::new(to, Vec::new())));
        self.begin(&destination);
        self.bytes.extend_from_slice(bytes);
        self.finish();
    }

    /// Starts a message to this destination. The caller appends to [`Self::inline`] and refers to payloads, then calls
    /// [`Self::finish`].
    pub(crate) fn begin(&mut self, to: &Arc<Destination>) {
        debug_assert!(!self.open, "a message is already being written");
        if self.destinations.last().is_none_or(|last| !Arc::ptr_eq(last, to)) {
            self.destinations.push(Arc::clone(to));
        }
        self.inline_start = self.bytes.len();
        self.open_len = 0;
        self.open = true;
        self.is_one_piece = false;
        self.directed = None;
    }

    /// Permits that submessages are appended to the message being written after its end, up to `max_len` bytes: it is
    /// unprotected, has no payloads, begins with INFO_DST, and has only submessages from one participant for another
    /// one.
    pub(crate) const fn may_grow(&mut self, from: GuidPrefix, to: GuidPrefix, max_len: usize) {
        self.directed = Some(Directed { from, to, max_len });
    }

    /// Opens the last message again if it [may grow](Self::may_grow) by submessages between the same participants, goes
    /// to the same locators and has at most `max_len` bytes so far.
    pub(crate) fn reopen(&mut self, from: GuidPrefix, to: GuidPrefix, locators: &[Locator], max_len: usize) -> bool {
        let Some(MessageMeta { len, to: destination, .. }) = self.messages.last() else { return false };
        let has_same_way = self.destinations.get(*destination).is_some_and(|known| *known.locators == *locators);
        let is_same = self.directed.is_some_and(|directed| directed.from == from && directed.to == to);
        if self.open || !is_same || !has_same_way || *len > max_len {
            return false;
        }
        let len = *len;
        self.messages.pop();
        let Some(Part::Inline { start, .. }) = self.parts.pop() else {
            debug_assert!(false, "the message has a payload");
            return false;
        };
        self.complete_bytes -= len;
        self.inline_start = start;
        self.open_len = 0;
        self.open = true;
        true
    }

    /// Appends the only message of `other`, if that [may grow](Self::may_grow): to the last message if both are between
    /// the same participants and locators. `false`: `other` is not such a batch, and nothing was appended.
    pub(crate) fn append_directed(&mut self, other: &Self) -> bool {
        let (Some(theirs), [message], false) = (other.directed, &*other.messages, self.open || other.open) else {
            return false;
        };
        let Some(destination) = other.destinations.get(message.to) else { return false };
        let Some(bytes) = other.bytes.get(..message.len) else { return false };
        let Some((_, submessages)) = bytes.split_at_checked(DIRECTED_HEAD) else { return false };
        debug_assert!(other.payloads.is_empty(), "a directed message has no payloads");
        let max_len = self.directed.map_or(theirs.max_len, |ours| ours.max_len.min(theirs.max_len));
        let room = max_len.saturating_sub(submessages.len());
        if self.reopen(theirs.from, theirs.to, &destination.locators, room) {
            self.bytes.extend_from_slice(submessages);
            self.may_grow(theirs.from, theirs.to, max_len);
        } else {
            self.begin(destination);
            self.bytes.extend_from_slice(bytes);
            self.may_grow(theirs.from, theirs.to, theirs.max_len);
        }
        self.finish();
        true
    }

    /// Copies all payloads into the message being written, because its protection needs contiguous bytes.
    pub(crate) const fn keep_in_one_piece(&mut self) {
        self.is_one_piece = true;
    }

    /// The start, in [`Self::inline`], of a message that is being written in one piece.
    pub(crate) const fn open_start(&self) -> usize {
        self.inline_start
    }

    /// The destination of the message being written.
    pub(crate) fn open_destination(&self) -> Option<&Arc<Destination>> {
        self.destinations.last()
    }

    /// The destination of the message being written, and the buffer of [`Self::inline`].
    pub(crate) fn open_destination_and_inline(&mut self) -> (Option<&Destination>, &mut Vec<u8>) {
        (self.destinations.last().map(|destination| &**destination), &mut self.bytes)
    }

    /// Discards the message that is being written in one piece.
    pub(crate) fn abandon(&mut self) {
        debug_assert!(self.is_one_piece, "parts of the message refer to payloads");
        self.bytes.truncate(self.inline_start);
        self.open = false;
    }

    /// Whether a message is being written.
    pub(crate) const fn is_open(&self) -> bool {
        self.open
    }

    /// The buffer to append to. Submessages are 4-aligned relative to the start of the message, because every part is.
    pub(crate) const fn inline(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes of the message being written, so far.
    pub(crate) fn open_len(&self) -> usize {
        if self.open { self.open_len + (self.bytes.len() - self.inline_start) } else { 0 }
    }

    /// Appends a payload, by copy when it is small and by reference otherwise; pads to a multiple of 4.
    pub(crate) fn payload(&mut self, payload: &Payload) {
        self.put(payload, payload, 0, INLINE_PAYLOAD_MAX);
    }

    /// Like [`Self::payload`] for a fragment. A range outside the payload appends no bytes.
    pub(crate) fn fragment(&mut self, payload: &Payload, range: Range<usize>) {
        let octets = payload.get(range.clone()).unwrap_or(&[]);
        self.put(payload, octets, range.start, INLINE_FRAGMENT_MAX);
    }

    /// Appends these bytes of a payload, which begin at `start`.
    #[inline]
    fn put(&mut self, payload: &Payload, octets: &[u8], start: usize, inline_max: usize) {
        let len = octets.len();
        if len <= inline_max || self.is_one_piece {
            self.bytes.extend_from_slice(octets);
            self.bytes.extend_from_slice(padding(len));
            return;
        }
        self.close_inline();
        self.open_len += len;
        let index = self.refer_to(payload);
        self.parts.push(Part::Payload { index, start, end: start + len });
        if !len.is_multiple_of(4) {
            self.bytes.extend_from_slice(padding(len));
            self.close_inline();
            // The next inline part begins at a multiple of 4, in the buffer and in the message.
            self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
            self.inline_start = self.bytes.len();
        }
    }

    /// Keeps a reference to the payload and returns its index.
    fn refer_to(&mut self, payload: &Payload) -> usize {
        // Referenced payloads are neither moved nor reused: the same address is the same payload.
        if self.payloads.last().is_none_or(|last| !ptr::eq::<[u8]>(&**last, &**payload)) {
            self.payloads.push(payload.clone());
        }
        self.payloads.len() - 1
    }

    /// Repeats the last message with other bytes of its payload, of the same length, and with a head that `change`
    /// modifies. Adds the message only if the last message is finished and consists of one inline part followed by one
    /// part of a payload. Otherwise returns `false`.
    #[inline]
    pub(crate) fn repeat(&mut self, range: Range<usize>, change: impl FnOnce(&mut [u8])) -> bool {
        let [before @ .., Part::Inline { start: head, end }, Part::Payload { index, start, end: payload_end }] =
            self.parts.as_slice()
        else {
            return false;
        };
        let (head, index) = (*head..*end, *index);
        let own_parts = match self.messages.as_slice() {
            [.., previous, _] => previous.parts_end == before.len(),
            [_] => before.is_empty(),
            [] => false,
        };
        let Some(&MessageMeta { len, to, .. }) = self.messages.last() else { return false };
        let is_inside = self.payloads.get(index).is_some_and(|payload| range.end <= payload.len());
        if self.open || !own_parts || !is_inside || range.len() != payload_end - start {
            return false;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_within(head);
        change(self.bytes.get_mut(start..).unwrap_or_default());
        let end = self.bytes.len();
        self.parts.push(Part::Inline { start, end });
        self.parts.push(Part::Payload { index, start: range.start, end: range.end });
        self.messages.push(MessageMeta { parts_end: self.parts.len(), len, to });
        self.complete_bytes += len;
        self.inline_start = end;
        true
    }

    /// Ends the message being written.
    pub(crate) fn finish(&mut self) {
        debug_assert!(self.open, "no message is being written");
        self.close_inline();
        let to = self.destinations.len() - 1;
        self.messages.push(MessageMeta { parts_end: self.parts.len(), len: self.open_len, to });
        self.complete_bytes += self.open_len;
        self.open = false;
        self.inline_start = self.bytes.len();
    }

    fn close_inline(&mut self) {
        let end = self.bytes.len();
        if end > self.inline_start {
            self.open_len += end - self.inline_start;
            self.parts.push(Part::Inline { start: self.inline_start, end });
            self.inline_start = end;
        }
    }
}

impl<'a> Message<'a> {
    /// Length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The locators. Each receives the same bytes.
    #[must_use]
    pub const fn to(&self) -> &'a Arc<[Locator]> {
        &self.destination.locators
    }

    /// The endpoints that the message is for; empty for announcements to unknown participants. Of acknowledgements that
    /// travel together only the first one, because they are for one participant.
    #[must_use]
    pub fn peers(&self) -> &'a [Guid] {
        &self.destination.peers
    }

    /// The submessages of `other`, a complete contiguous message, if they may be appended to this message: both
    /// messages have the same source participant, and neither is protected as a whole.
    #[must_use]
    pub fn submessages_to_append<'o>(&self, other: &'o [u8]) -> Option<&'o [u8]> {
        let is_protected = |submessages: &[u8]| submessages.first() == Some(&SubmessageId::SRTPS_PREFIX.0);
        let (header, submessages) = self.parts().next()?.split_first_chunk::<{ Header::LEN }>()?;
        let (other_header, other_submessages) = other.split_first_chunk::<{ Header::LEN }>()?;
        let may_follow = header == other_header && !is_protected(submessages) && !is_protected(other_submessages);
        may_follow.then_some(other_submessages)
    }

    /// Its parts in order, for gathered sending.
    pub fn parts(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let batch = self.batch;
        self.parts.iter().map(move |part| match part {
            Part::Inline { start, end } => batch.bytes.get(*start..*end).unwrap_or(&[]),
            Part::Payload { index, start, end } => {
                batch.payloads.get(*index).and_then(|payload| payload.get(*start..*end)).unwrap_or(&[])
            }
        })
    }

    /// The number of parts.
    #[must_use]
    pub const fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Appends all bytes to `out`.
    pub fn copy_to(&self, out: &mut Vec<u8>) {
        self.parts().for_each(|part| out.extend_from_slice(part));
    }
}

/// The zero bytes that pad `len` to a multiple of 4.
pub(crate) const fn padding(len: usize) -> &'static [u8] {
    match len % 4 {
        1 => &[0; 3],
        2 => &[0; 2],
        3 => &[0; 1],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::EntityId;
    use std::vec;

    fn assembled(batch: &TransmitBatch) -> Vec<Vec<u8>> {
        batch
            .messages()
            .map(|m| {
                let mut out = vec![];
                m.copy_to(&mut out);
                assert_eq!(out.len(), m.len());
                out
            })
            .collect()
    }

    #[test]
    fn small_payloads_are_copied_and_large_ones_referenced() {
        let to = Arc::new(Destination::new(Arc::new([Locator::INVALID]), vec![]));
        let small = Payload::copy_of(&[7; 5]);
        let large = Payload::copy_of(&[9; INLINE_PAYLOAD_MAX + 2]);
        let mut batch = TransmitBatch::default();
        batch.begin(&to);
        batch.inline().extend_from_slice(&[1, 2, 3, 4]);
        batch.payload(&small);
        batch.payload(&large);
        batch.inline().extend_from_slice(&[5, 6, 7, 8]);
        assert_eq!(batch.open_len(), 4 + 8 + INLINE_PAYLOAD_MAX + 4 + 4);
        batch.finish();
        batch.push_message(&[1; 8], Arc::clone(&to.locators));

        let mut expected = vec![1, 2, 3, 4, 7, 7, 7, 7, 7, 0, 0, 0];
        expected.extend_from_slice(&large);
        expected.extend_from_slice(&[0, 0, 5, 6, 7, 8]);
        assert_eq!(assembled(&batch), [expected, vec![1; 8]]);
        assert_eq!(batch.messages().next().unwrap().part_count(), 4);
    }

    #[test]
    fn fragments_share_one_reference_to_sample() {
        let to = Arc::new(Destination::new(Arc::new([Locator::INVALID]), vec![]));
        let octets: Vec<u8> = (0..2503_u32).map(|octet| octet as u8).collect();
        let [payload, other] = [Payload::copy_of(&octets), Payload::copy_of(&octets)];
        let mut batch = TransmitBatch::default();
        for (payload, range) in [(&payload, 0..1200), (&payload, 1200..2400), (&payload, 2400..2503), (&other, 0..1201)]
        {
            batch.begin(&to);
            batch.inline().extend_from_slice(&[1, 2, 3, 4]);
            batch.fragment(payload, range);
            batch.finish();
        }
        let fragment =
            |range: Range<usize>, padding: usize| [&[1, 2, 3, 4], &octets[range], &vec![0; padding]].concat();
        let expected = [fragment(0..1200, 0), fragment(1200..2400, 0), fragment(2400..2503, 1), fragment(0..1201, 3)];
        assert_eq!(assembled(&batch), expected);
        assert!(batch.messages().all(|message| Arc::ptr_eq(message.to(), &to.locators)));
        assert_eq!((batch.payloads.len(), batch.destinations.len()), (2, 1));
        assert_eq!(batch.messages().map(|message| message.part_count()).collect::<Vec<_>>(), [2, 2, 1, 3]);
    }

    #[test]
    fn peers_of_one_participant_are_one_participant() {
        let peer = |host, key| Guid::new(GuidPrefix([host; 12]), EntityId::user_reader(key, false));
        let to = Destination::new(Arc::default(), vec![peer(2, 1), peer(1, 1), peer(2, 2), peer(1, 1)]);
        assert_eq!(*to.peers, [peer(1, 1), peer(2, 1), peer(2, 2)]);
        assert_eq!(to.participants().collect::<Vec<_>>(), [GuidPrefix([1; 12]), GuidPrefix([2; 12])]);
        assert_eq!(to.sole_participant(), None);
        let sole = Destination::new(Arc::default(), vec![peer(2, 1), peer(2, 2)]);
        assert_eq!(sole.sole_participant(), Some(GuidPrefix([2; 12])));
        assert_eq!(Destination::default().sole_participant(), None);
    }

    #[test]
    fn added_peers_are_in_ascending_order_and_each_once() {
        let peer = |key| Guid::new(GuidPrefix([1; 12]), EntityId::user_reader(key, false));
        let mut to = Destination::new(Arc::default(), vec![peer(2)]);
        let mut expected = vec![peer(2)];
        for key in [2, 1, 3, 1, 2, 5, 4, 3] {
            to.add_peer(peer(key));
            expected.push(peer(key));
            expected.sort_unstable();
            expected.dedup();
            assert_eq!(*to.peers, *expected);
        }
        let mut to = Destination::default();
        to.add_peer(peer(1));
        assert_eq!(to, Destination::new(Arc::default(), vec![peer(1)]));
    }

    #[test]
    fn submessages_are_appended_to_unprotected_message_of_same_participant_only() {
        let message = |host: u8, submessage: u8| {
            let mut bytes = vec![b'R', b'T', b'P', b'S', 2, 5, 1, 0x7e];
            bytes.extend_from_slice(&[host; 12]);
            bytes.extend_from_slice(&[submessage, 1, 0, 0]);
            bytes
        };
        let mut batch = TransmitBatch::default();
        let (data, acknack, protected) = (0x15, 0x06, SubmessageId::SRTPS_PREFIX.0);
        for bytes in [message(1, data), message(2, data), message(1, protected), vec![b'R', b'T', b'P', b'S']] {
            batch.push_message(&bytes, Arc::default());
        }
        let other = message(1, acknack);
        let appended: Vec<_> = batch.messages().map(|message| message.submessages_to_append(&other)).collect();
        assert_eq!(appended, [Some(&[acknack, 1, 0, 0][..]), None, None, None]);
        let first = batch.messages().next().unwrap();
        assert_eq!(first.submessages_to_append(&message(1, protected)), None);
        assert_eq!(first.submessages_to_append(&other[..19]), None);
    }

    #[test]
    fn clear_into_returns_buffers_to_pool() {
        let mut pool = BufferPool::new(1 << 20);
        let mut batch = TransmitBatch::default();
        batch.begin(&Arc::default());
        let payload = pool.copy_of(&[0; 10_000]);
        batch.payload(&payload);
        drop(payload);
        batch.finish();
        batch.clear_into(&mut pool);
        assert_eq!(pool.held_bytes(), 16_384);
        assert!(batch.is_empty());
    }
}
