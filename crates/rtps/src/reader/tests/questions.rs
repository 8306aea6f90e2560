//! Pre-emptive ACKNACKs of a reader that no HEARTBEAT has reached.

use super::*;
use crate::seq::SequenceNumberSet;
use crate::wire::{Submessage, Submessages};

#[test]
fn preemptive_acknack_has_the_base_that_the_vendor_answers_at_once() {
    let cases = [(VendorId::PEREGRINE, 1), (VendorId::CYCLONE, 1), (VendorId::FAST_DDS, 0), (VendorId::RTI, 0)];
    for (vendor, base) in cases {
        let mut pair = Pair::new(writer(), vec![reliable()]);
        pair.fate = |_, _| vec![];
        pair.match_one_of(0, 1472, vendor, true);
        pair.run(Span::from_millis(200));
        let acknacks = pair.answered.iter().flat_map(|message| {
            Submessages::new(&message[20..]).filter_map(|submessage| match submessage.unwrap() {
                Submessage::AckNack(acknack) => Some((acknack.state, acknack.is_final)),
                _ => None,
            })
        });
        let acknacks: Vec<_> = acknacks.collect();
        assert!(!acknacks.is_empty(), "{vendor}");
        let expected = (SequenceNumberSet::empty(SequenceNumber(base)), false);
        assert!(acknacks.iter().all(|acknack| *acknack == expected), "{vendor} {acknacks:?}");
    }
}
