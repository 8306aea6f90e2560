//! Samples that several readers of a participant get.

use super::*;
use crate::limits::{COPY_PAYLOAD_MAX, SHARED_COPIES_BYTES_MAX};
use crate::reader::MessageBuffer;
use crate::wire::{DataHead, Endianness};

/// A domain in which host 2 has this number of readers on the topic of host 1.
fn domain(readers: u32) -> Domain {
    let mut domain = Domain::of(&[1, 2]);
    domain.put_writer(1, publication(1, 1, "topic"));
    (1..=readers).for_each(|key| domain.put_reader(2, subscription(2, key, "topic")));
    domain.run(Span::from_secs(1));
    domain
}

/// A message with a sample for all readers.
fn sample(number: i64, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![];
    Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(1) }
        .emit(&mut message);
    let head = DataHead {
        reader: EntityId::UNKNOWN,
        writer: publication(1, 1, "topic").guid.entity,
        sequence_number: SequenceNumber(number),
        inline_qos: &[],
        payload: PayloadKind::Data,
    };
    head.emit(Endianness::Little, payload.len(), &mut message);
    message.extend_from_slice(payload);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

/// The address of the copy that each reader gets: `None` for a reader that gets the receive buffer.
fn copies(domain: &mut Domain, message: &[u8], payload: &[u8]) -> Vec<Option<usize>> {
    let buffer = Arc::new(message.to_vec());
    let rx = Reception {
        now: domain.now,
        wall: domain.wall(),
        buffer: Some(MessageBuffer::Received(&buffer)),
        source: address(1, 7410).into(),
    };
    let mut copies = vec![];
    domain.at(2).handle_datagram(&rx, message, &mut FragmentRun::default(), |rx, _, input| {
        let Input::Data(_, data) = input else { panic!("{input:?}") };
        assert_eq!(data.payload.as_bytes(), payload);
        copies.push(match rx.buffer {
            Some(MessageBuffer::Copied(copy)) => {
                assert_eq!(&**copy, payload);
                Some(copy.as_ptr() as usize)
            }
            Some(MessageBuffer::Received(received)) => {
                assert!(Arc::ptr_eq(received, &buffer));
                None
            }
            None => panic!("the receive buffer was lost"),
        });
    });
    copies
}

/// Adds the copies that the readers get to `held`. Returns whether there were any.
fn hold_copies(domain: &mut Domain, message: &[u8], held: &mut Vec<Payload>) -> bool {
    let rx = Reception { now: domain.now, wall: domain.wall(), buffer: None, source: address(1, 7410).into() };
    let before = held.len();
    domain.at(2).handle_datagram(&rx, message, &mut FragmentRun::default(), |rx, _, _| {
        if let Some(MessageBuffer::Copied(copy)) = rx.buffer {
            held.push(copy.clone());
        }
    });
    held.len() > before
}

#[test]
fn sample_for_several_readers_is_copied_once() {
    let mut domain = domain(3);
    let payload: Vec<u8> = (0..100).collect();
    let first = copies(&mut domain, &sample(1, &payload), &payload);
    assert_eq!(first.len(), 3);
    assert!(first[0].is_some() && first.iter().all(|copy| *copy == first[0]), "{first:?}");
    // The readers have dropped the copy, so the next sample uses its memory again.
    assert_eq!(copies(&mut domain, &sample(2, &payload), &payload), first);
}

#[test]
fn sample_is_not_copied_for_sole_reader_nor_beyond_the_sizes_of_copies() {
    let (short, small, large) = (Payload::HERE_MAX, Payload::HERE_MAX + 4, COPY_PAYLOAD_MAX + 4);
    for (readers, len, is_copied) in
        [(1, small, false), (2, short, false), (2, small, true), (2, COPY_PAYLOAD_MAX, true), (2, large, false)]
    {
        let payload = vec![7; len];
        let copies = copies(&mut domain(readers), &sample(1, &payload), &payload);
        assert_eq!(copies.len(), readers as usize);
        assert!(copies.iter().all(|copy| copy.is_some() == is_copied), "{readers} {len} {copies:?}");
    }
}

/// A copy that the pool does not track would end in the pool of a reader, which never lends it.
#[test]
fn readers_copy_by_themselves_while_they_hold_all_tracked_copies() {
    let mut domain = domain(2);
    for len in [100, COPY_PAYLOAD_MAX] {
        let payload = vec![7; len];
        let (mut held, mut number) = (vec![], 0);
        let mut next = |domain: &mut Domain, held: &mut Vec<Payload>| {
            number += 1;
            hold_copies(domain, &sample(number, &payload), held)
        };
        while next(&mut domain, &mut held) {
            assert!(held.len() <= 2 * 1024 && domain.at(2).copies.held_bytes() <= SHARED_COPIES_BYTES_MAX);
        }
        assert!(held.len() >= 2 * 128, "{len}: {}", held.len());
        assert!(held.iter().all(|copy| !copy.is_sole_buffer()), "the pool tracks each copy");
        // The oldest copies have been dropped: the pool finds them, a few with each sample.
        held.drain(..held.len() / 2);
        assert!(next(&mut domain, &mut held));
    }
}

#[test]
fn copies_are_released_with_the_last_matched_writer() {
    let mut domain = domain(2);
    let payload = vec![7; 100];
    copies(&mut domain, &sample(1, &payload), &payload);
    assert!(domain.at(2).copies.held_bytes() > 0);
    let (now, wall, writer) = (domain.now, domain.wall(), publication(1, 1, "topic").guid.entity);
    domain.at(1).remove_writer(now, wall, writer);
    domain.run(Span::from_secs(1));
    assert_eq!(domain.at(2).copies.held_bytes(), 0);
}
