//! Messages of the handshake that come in fragments. Any host can send them, in any name: what is kept is bounded for
//! each sender, and in all. Only bytes that have arrived take room.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use super::origin::Origin;
use crate::id::GuidPrefix;
use crate::limits::{
    FRAGMENT_BYTES_MIN, PARTIAL_HANDSHAKE_BYTES_MAX, PARTIAL_HANDSHAKE_IDLE, PARTIAL_HANDSHAKES_MAX,
    PARTIAL_HANDSHAKES_PER_SENDER, PIECE_RECORD_BYTES, SECURE_MESSAGE_BYTES_MAX,
};
use crate::payload::Payload;
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::wire::DataFrag;

/// Identifies a message. Fragments that disagree on sizes are of different messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Name {
    sender: GuidPrefix,
    number: SequenceNumber,
    sample_size: u32,
    fragment_size: u16,
}

#[derive(Debug)]
struct Partial {
    name: Name,
    origin: Origin,
    /// By fragment number.
    pieces: BTreeMap<u32, Box<[u8]>>,
    arrived: usize,
    held: usize,
    last: Instant,
}

/// The effect of a fragment.
#[derive(Debug)]
pub(super) enum Piece {
    /// The fragment has completed its message.
    Complete(Payload),
    /// Further fragments are missing.
    Kept,
    /// The fragment cannot be used.
    Refused,
}

/// All incomplete messages, the oldest first.
#[derive(Debug, Default)]
pub(super) struct PartialMessages {
    all: VecDeque<Partial>,
    held: usize,
    /// Messages that were dropped incomplete.
    pub(super) dropped: u64,
}

impl PartialMessages {
    /// Adds fragments of a message of this sender, which came from `origin`.
    pub(super) fn add(&mut self, now: Instant, sender: GuidPrefix, origin: Origin, frag: &DataFrag<'_>) -> Piece {
        let DataFrag { sequence_number: number, sample_size, fragment_size, .. } = *frag;
        let is_single = u32::from(fragment_size) >= sample_size;
        if sample_size as usize > SECURE_MESSAGE_BYTES_MAX || fragment_size < FRAGMENT_BYTES_MIN && !is_single {
            return Piece::Refused;
        }
        self.drop_idle(now);
        let name = Name { sender, number, sample_size, fragment_size };
        let at = self.all.iter().position(|partial| partial.name == name);
        let mut partial = match at.and_then(|at| self.all.remove(at)) {
            Some(partial) => partial,
            None => {
                self.make_room_for(sender);
                Partial { name, origin, pieces: BTreeMap::new(), arrived: 0, held: 0, last: now }
            }
        };
        self.held = self.held.saturating_sub(partial.held);
        partial.last = now;
        partial.add(frag);
        if partial.arrived >= sample_size as usize {
            return Piece::Complete(partial.into_payload());
        }
        self.held = self.held.saturating_add(partial.held);
        self.all.push_back(partial);
        while self.held > PARTIAL_HANDSHAKE_BYTES_MAX || self.all.len() > PARTIAL_HANDSHAKES_MAX {
            self.drop_greedy();
        }
        debug_assert!(self.all.len() <= PARTIAL_HANDSHAKES_MAX && self.held <= PARTIAL_HANDSHAKE_BYTES_MAX);
        Piece::Kept
    }

    fn drop_idle(&mut self, now: Instant) {
        // Each fragment moves its message to the end.
        while self.all.front().is_some_and(|oldest| now.since(oldest.last) >= PARTIAL_HANDSHAKE_IDLE) {
            self.drop_at(0);
        }
    }

    fn make_room_for(&mut self, sender: GuidPrefix) {
        let mut of_sender = self.all.iter().enumerate().filter(|(_, partial)| partial.name.sender == sender);
        if let Some((oldest, _)) = of_sender.next()
            && of_sender.count() + 1 >= PARTIAL_HANDSHAKES_PER_SENDER
        {
            self.drop_at(oldest);
        }
    }

    /// Drops the oldest message from the place from which most bytes came.
    fn drop_greedy(&mut self) {
        let mut by_origin: BTreeMap<Origin, usize> = BTreeMap::new();
        for partial in &self.all {
            let held = by_origin.entry(partial.origin).or_default();
            *held = held.saturating_add(partial.held);
        }
        let greedy = by_origin.into_iter().max_by_key(|(_, held)| *held).map(|(origin, _)| origin);
        let oldest = self.all.iter().position(|partial| Some(partial.origin) == greedy);
        self.drop_at(oldest.unwrap_or(0));
    }

    fn drop_at(&mut self, at: usize) {
        if let Some(partial) = self.all.remove(at) {
            self.held = self.held.saturating_sub(partial.held);
            self.dropped += 1;
        }
    }
}

impl Partial {
    /// Adds each fragment that has the length that its number requires.
    fn add(&mut self, frag: &DataFrag<'_>) {
        let (size, whole) = (usize::from(frag.fragment_size), self.name.sample_size as usize);
        for (index, octets) in (0_u32..).zip(frag.payload.chunks(size.max(1))) {
            let Some(number) = frag.starting.0.checked_add(index) else { return };
            let start = (number.saturating_sub(1) as usize).saturating_mul(size);
            let len = whole.saturating_sub(start).min(size);
            if number == 0 || octets.len() < len || len == 0 || self.pieces.contains_key(&number) {
                continue;
            }
            let Some(octets) = octets.get(..len) else { continue };
            self.pieces.insert(number, octets.into());
            self.arrived = self.arrived.saturating_add(len);
            self.held = self.held.saturating_add(len).saturating_add(PIECE_RECORD_BYTES);
        }
    }

    fn into_payload(self) -> Payload {
        let mut octets = Vec::with_capacity(self.arrived);
        self.pieces.values().for_each(|piece| octets.extend_from_slice(piece));
        Payload::copy_of(&octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::EntityId;
    use crate::seq::FragmentNumber;
    use crate::time::Span;
    use core::net::Ipv4Addr;

    const NOW: Instant = Instant(1_000_000_000);

    fn frag(number: i64, starting: u32, sample_size: u32, payload: &[u8]) -> DataFrag<'_> {
        DataFrag {
            reader: EntityId::STATELESS_MESSAGE_READER,
            writer: EntityId::STATELESS_MESSAGE_WRITER,
            sequence_number: SequenceNumber(number),
            starting: FragmentNumber(starting),
            count: 1,
            fragment_size: 100,
            sample_size,
            inline_qos: None,
            is_key: false,
            payload,
            non_standard_payload: false,
        }
    }

    fn sender(number: u32) -> GuidPrefix {
        let [a, b, c, d] = number.to_be_bytes();
        GuidPrefix([a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    fn origin(host: u32) -> Origin {
        Origin::V4(Ipv4Addr::from_bits(host))
    }

    #[test]
    fn message_is_complete_in_any_order_and_with_repetitions() {
        let octets: Vec<u8> = (0..250).map(|n| n as u8).collect();
        let mut partials = PartialMessages::default();
        let mut add = |starting, range: core::ops::Range<usize>| {
            partials.add(NOW, sender(1), origin(1), &frag(7, starting, 250, &octets[range]))
        };
        assert!(matches!(add(3, 200..250), Piece::Kept));
        assert!(matches!(add(3, 200..250), Piece::Kept), "a repetition");
        assert!(matches!(add(1, 0..100), Piece::Kept));
        let Piece::Complete(payload) = add(1, 0..200) else { panic!("two fragments in one submessage") };
        assert_eq!(*payload, octets[..]);
        assert_eq!((partials.held, partials.all.len(), partials.dropped), (0, 0, 0));
    }

    #[test]
    fn fragments_that_cannot_be_used_are_refused() {
        let mut partials = PartialMessages::default();
        let mut add = |frag: &DataFrag<'_>| partials.add(NOW, sender(1), origin(1), frag);
        let too_long = SECURE_MESSAGE_BYTES_MAX as u32 + 1;
        assert!(matches!(add(&frag(1, 1, too_long, &[0; 100])), Piece::Refused));
        let small = DataFrag { fragment_size: FRAGMENT_BYTES_MIN - 1, ..frag(1, 1, 1000, &[0; 63]) };
        assert!(matches!(add(&small), Piece::Refused));
        // Numbers outside the message, and one that is shorter than its number requires, complete nothing.
        for (number, octets) in [(0, &[0_u8; 100][..]), (4, &[0; 100]), (u32::MAX, &[0; 100]), (1, &[0; 99])] {
            assert!(matches!(add(&frag(1, number, 250, octets)), Piece::Kept), "{number}");
        }
        assert_eq!(partials.held, 0);
    }

    #[test]
    fn incomplete_messages_of_one_sender_are_bounded() {
        let mut partials = PartialMessages::default();
        for number in 1..100 {
            partials.add(NOW, sender(1), origin(1), &frag(number, 1, 250, &[0; 100]));
        }
        assert_eq!(partials.all.len(), PARTIAL_HANDSHAKES_PER_SENDER);
        assert_eq!(partials.dropped, 99 - PARTIAL_HANDSHAKES_PER_SENDER as u64);
    }

    #[test]
    fn flood_from_one_place_gives_way_to_a_message_from_another() {
        let mut partials = PartialMessages::default();
        partials.add(NOW, sender(u32::MAX), origin(2), &frag(1, 1, 200, &[1; 100]));
        for number in 0..100_000 {
            partials.add(NOW, sender(number), origin(1), &frag(1, 1, 250, &[0; 100]));
            assert!(partials.held <= PARTIAL_HANDSHAKE_BYTES_MAX && partials.all.len() <= PARTIAL_HANDSHAKES_MAX);
        }
        let last = partials.add(NOW, sender(u32::MAX), origin(2), &frag(1, 2, 200, &[1; 100]));
        assert!(matches!(last, Piece::Complete(_)));
        assert!(partials.dropped > 90_000);
    }

    #[test]
    fn bytes_of_incomplete_messages_are_bounded() {
        let mut partials = PartialMessages::default();
        let size = SECURE_MESSAGE_BYTES_MAX as u32;
        let octets = std::vec![0; SECURE_MESSAGE_BYTES_MAX - 100];
        for number in 0..100 {
            partials.add(NOW, sender(number), origin(number), &frag(1, 1, size, &octets));
            assert!(partials.held <= PARTIAL_HANDSHAKE_BYTES_MAX);
        }
        assert!(partials.dropped > 0);
    }

    #[test]
    fn message_without_further_fragments_is_dropped_after_a_while() {
        let mut partials = PartialMessages::default();
        partials.add(NOW, sender(1), origin(1), &frag(1, 1, 200, &[1; 100]));
        partials.add(NOW + PARTIAL_HANDSHAKE_IDLE, sender(2), origin(1), &frag(1, 1, 200, &[1; 100]));
        assert_eq!((partials.all.len(), partials.dropped), (1, 1));
        partials.add(NOW + PARTIAL_HANDSHAKE_IDLE + Span(1), sender(1), origin(1), &frag(1, 2, 200, &[1; 100]));
        assert_eq!(partials.all.len(), 2, "the first half is gone");
    }
}
