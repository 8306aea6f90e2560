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

/// Passes the message to the participant. Each reader that gets a shared copy adds it to the result.
fn copies(domain: &mut Domain, message: &[u8], payload: &[u8]) -> Vec<Option<Payload>> {
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
            Some(MessageBuffer::SharedCopy(copy)) => {
                let copy = copy.of(payload);
                assert_eq!(&*copy, payload);
                Some(copy)
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

/// The address of the copy that each reader gets: `None` for a reader that gets the receive buffer.
fn addresses(domain: &mut Domain, message: &[u8], payload: &[u8]) -> Vec<Option<usize>> {
    let copies = copies(domain, message, payload);
    copies.iter().map(|copy| copy.as_ref().map(|copy| copy.as_ptr() as usize)).collect()
}

fn held_bytes(domain: &mut Domain) -> usize {
    domain.at(2).copies.borrow().held_bytes()
}

#[test]
fn sample_for_several_readers_is_copied_once() {
    let mut domain = domain(3);
    let payload: Vec<u8> = (0..100).collect();
    let first = addresses(&mut domain, &sample(1, &payload), &payload);
    assert_eq!(first.len(), 3);
    assert!(first[0].is_some() && first.iter().all(|copy| *copy == first[0]), "{first:?}");
    // The readers have dropped the copy, so the next sample uses its memory again.
    assert_eq!(addresses(&mut domain, &sample(2, &payload), &payload), first);
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

#[test]
fn sample_that_no_reader_keeps_is_not_copied() {
    let mut domain = domain(2);
    let rx = Reception { now: domain.now, wall: domain.wall(), buffer: None, source: address(1, 7410).into() };
    let mut readers = 0;
    domain.at(2).handle_datagram(&rx, &sample(1, &[7; 100]), &mut FragmentRun::default(), |_, _, _| readers += 1);
    assert_eq!((readers, held_bytes(&mut domain)), (2, 0));
}

#[test]
fn copies_beyond_the_bound_of_the_pool_are_shared_and_kept_by_no_pool() {
    for len in [100, COPY_PAYLOAD_MAX] {
        let mut domain = domain(2);
        let payload = vec![7; len];
        let mut reader = BufferPool::new(32 << 20);
        let mut held = vec![];
        for number in 1..=1100 {
            let mut copies = copies(&mut domain, &sample(number, &payload), &payload).into_iter().map(Option::unwrap);
            held.push(copies.next().unwrap());
            let second = copies.next().unwrap();
            assert_eq!(second.as_ptr(), held.last().unwrap().as_ptr(), "{len} {number}");
            reader.recycle(second);
            assert!(held_bytes(&mut domain) <= SHARED_COPIES_BYTES_MAX);
        }
        held.into_iter().for_each(|copy| reader.recycle(copy));
        assert_eq!(reader.held_bytes(), 0, "{len}: a reader keeps no copy of the participant");
        let before = held_bytes(&mut domain);
        copies(&mut domain, &sample(1101, &payload), &payload);
        assert_eq!(held_bytes(&mut domain), before, "{len}: the pool uses the buffer of a copy again");
    }
}

#[test]
fn copies_of_one_size_make_room_for_those_of_another() {
    let mut domain = domain(2);
    let mut number = 0;
    let mut next = |domain: &mut Domain, len: usize| {
        number += 1;
        let payload = vec![7; len];
        copies(domain, &sample(number, &payload), &payload)
    };
    let held: Vec<_> = (0..600).map(|_| next(&mut domain, COPY_PAYLOAD_MAX)).collect();
    drop(held);
    assert!(held_bytes(&mut domain) > SHARED_COPIES_BYTES_MAX - 3 * COPY_PAYLOAD_MAX);
    // With each sample, the pool looks at some of the buffers that it has lent.
    let mut small = |count: u32| (0..count).map(|_| next(&mut domain, 100)[0].as_ref().unwrap().as_ptr()).collect();
    let first: BTreeSet<_> = small(300);
    let second: BTreeSet<_> = small(300);
    assert!(second.len() < 100 && second.is_subset(&first), "{} of {}", second.len(), first.len());
}

#[test]
fn copies_are_released_with_the_last_matched_writer() {
    let mut domain = domain(2);
    let payload = vec![7; 100];
    copies(&mut domain, &sample(1, &payload), &payload);
    assert!(held_bytes(&mut domain) > 0);
    let (now, wall, writer) = (domain.now, domain.wall(), publication(1, 1, "topic").guid.entity);
    domain.at(1).remove_writer(now, wall, writer);
    domain.run(Span::from_secs(1));
    assert_eq!(held_bytes(&mut domain), 0);
}
