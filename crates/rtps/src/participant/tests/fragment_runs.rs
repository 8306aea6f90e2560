//! Runs of fragments.

use proptest::prelude::*;

use super::*;
use crate::seq::FragmentNumber;
use crate::wire::{DataFragHead, Endianness, InfoDestination, InfoTimestamp};

const FRAGMENT: usize = 40;
const SAMPLE: usize = 390;

/// A message with one fragment, as host 1 sends it to all.
fn fragment(number: u32, endianness: Endianness, timestamp: Option<Timestamp>) -> Vec<u8> {
    fragment_for(None, number, endianness, timestamp)
}

/// The same message for one host.
fn fragment_for(host: Option<u32>, number: u32, endianness: Endianness, timestamp: Option<Timestamp>) -> Vec<u8> {
    let mut message = vec![];
    let header =
        Header { version: crate::vendor::ProtocolVersion::V2_5, vendor: VendorId::PEREGRINE, prefix: prefix(1) };
    header.emit(&mut message);
    if let Some(host) = host {
        InfoDestination { prefix: prefix(host) }.emit(endianness, &mut message);
    }
    InfoTimestamp { timestamp }.emit(endianness, &mut message);
    let head = DataFragHead {
        reader: EntityId::UNKNOWN,
        writer: publication(1, 1, "topic").guid.entity,
        sequence_number: SequenceNumber(5),
        starting: FragmentNumber(number),
        count: 1,
        fragment_size: FRAGMENT as u16,
        sample_size: SAMPLE as u32,
        inline_qos: &[],
        is_key: false,
    };
    let start = (number as usize).saturating_sub(1) * FRAGMENT;
    let len = FRAGMENT.min(SAMPLE.saturating_sub(start));
    head.emit(endianness, len, &mut message);
    message.extend((0..len).map(|at| (start + at) as u8));
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

/// The inputs of host 2 from these messages, and its counters. A run continues through `row` messages.
fn heard(messages: &[Vec<u8>], row: usize) -> (Vec<String>, ParticipantCounters) {
    let mut domain = Domain::of_a_pair();
    let rx = Reception { now: domain.now, wall: domain.wall(), buffer: None, source: address(1, 7410).into() };
    let mut heard = vec![];
    for messages in messages.chunks(row) {
        let mut run = FragmentRun::default();
        for message in messages {
            domain.at(2).handle_datagram(&rx, message, &mut run, |_, delivery, input| {
                heard.push(std::format!("{delivery:?} {input:?}"));
            });
        }
    }
    let counters = domain.counters(2);
    (heard, counters)
}

/// The fate of a message in transit.
#[derive(Clone, Debug)]
enum Fate {
    Arrives,
    Changed(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Doubled,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Arrives),
        2 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, octet)| Fate::Changed(at, octet)),
        1 => any::<prop::sample::Index>().prop_map(Fate::Cut),
        1 => Just(Fate::Doubled),
    ]
}

#[test]
fn all_fragments_of_run_are_delivered() {
    for endianness in [Endianness::Little, Endianness::Big] {
        let messages: Vec<_> =
            (1..=10).map(|number| fragment(number, endianness, Some(Timestamp { seconds: 1, fraction: 0 }))).collect();
        let (heard, counters) = heard(&messages, 10);
        assert_eq!(heard.len(), 10);
        for (number, input) in (1..).zip(&heard) {
            assert!(input.contains(&std::format!("starting: FragmentNumber({number})")), "{input}");
        }
        assert_eq!(counters.drops.malformed, 0);
    }
}

#[test]
fn fragments_for_one_participant_continue_run() {
    let mut domain = Domain::of_a_pair();
    let rx = Reception { now: domain.now, wall: domain.wall(), buffer: None, source: address(1, 7410).into() };
    let stamp = Some(Timestamp { seconds: 1, fraction: 0 });
    let directed = |host, number| fragment_for(Some(host), number, Endianness::Little, stamp);
    let (first, second, for_another) = (directed(2, 1), directed(2, 2), directed(3, 2));
    let mut run = FragmentRun::default();
    domain.at(2).handle_datagram(&rx, &first, &mut run, |_, _, _| {});
    assert!(run.follow(&second).is_some());
    assert!(run.follow(&for_another).is_none());
    domain.at(2).handle_datagram(&rx, &for_another, &mut run, |_, _, _| panic!("the fragment is for host 3"));
    assert!(run.follow(&for_another).is_none());
}

proptest! {
    #[test]
    fn run_delivers_same_inputs_as_single_messages(
        parts in prop::collection::vec(
            (prop::option::of(2..4_u32), 0..13_u32, any::<bool>(), prop::option::of(0..3_u32), fate()),
            1..40,
        ),
    ) {
        let mut messages = vec![];
        for (host, number, is_big, stamp, fate) in parts {
            let endianness = if is_big { Endianness::Big } else { Endianness::Little };
            let stamp = stamp.map(|seconds| Timestamp { seconds, fraction: 0 });
            let mut message = fragment_for(host, number, endianness, stamp);
            match fate {
                Fate::Arrives => {}
                Fate::Changed(at, octet) => *at.get_mut(&mut message[20..]) = octet,
                Fate::Cut(at) => message.truncate(at.index(message.len())),
                Fate::Doubled => message.extend_from_within(20..),
            }
            messages.push(message);
        }
        prop_assert_eq!(heard(&messages, usize::MAX), heard(&messages, 1));
    }
}
