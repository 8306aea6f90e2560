//! Readers that are sent to apart, since they are much slower than others: what ends that, and what it must not cost.

use super::*;
use crate::locator::Locator;
use crate::pair::locator;

const SLOW: usize = 1;

/// A KEEP_ALL writer with readers that have its first ten samples. The reader [`SLOW`] hears nothing afterwards, lacks
/// ten further samples, and is separated.
fn separated(readers: usize) -> Pair {
    let mut pair = Pair::new(keep_all(u32::MAX), (0..readers).map(reader).collect());
    pair.match_all(1472);
    for _ in 0..10 {
        pair.write(1, b"x");
        pair.run(Span::from_millis(5));
    }
    pair.silenced.insert(SLOW);
    for _ in 0..10 {
        pair.write(1, b"x");
        pair.run(Span::from_micros(200));
    }
    separate(&mut pair);
    pair
}

fn separate(pair: &mut Pair) {
    let sent_below = pair.writer.next_to_send;
    pair.writer.readers.find_mut(reader_guid(SLOW)).unwrap().separate(sent_below);
    pair.writer.regroup();
}

fn is_apart(pair: &Pair) -> bool {
    pair.writer.readers.find(reader_guid(SLOW)).unwrap().is_apart()
}

/// The addresses to which HEARTBEATs for all, and new samples, go.
fn destinations(pair: &mut Pair) -> Vec<Locator> {
    let Writer { group, readers, .. } = &mut pair.writer;
    group.targets(readers).everyone.iter().flat_map(|to| to.locators.iter().copied()).collect()
}

/// Matches the readers again with these changes of their data.
fn rematch(pair: &mut Pair, change: impl Fn(&mut MatchedReader)) {
    for index in 0..pair.readers.len() {
        let mut info = pair.writer.readers.find(reader_guid(index)).unwrap().info.clone();
        change(&mut info);
        pair.writer.match_reader(pair.now, info);
    }
}

#[test]
fn samples_for_others_go_to_no_address_of_a_reader_that_is_apart() {
    let mut pair = separated(3);
    assert!(is_apart(&pair));
    assert_eq!(destinations(&mut pair), [locator(0), locator(2)]);
    let group = locator(500);
    rematch(&mut pair, |info| info.group = Some(group));
    separate(&mut pair);
    assert_eq!(destinations(&mut pair), [locator(0), locator(2)], "the group would reach it");
    pair.writer.readers.find_mut(reader_guid(SLOW)).unwrap().apart.clear();
    pair.writer.regroup();
    assert_eq!(destinations(&mut pair), [group]);
}

#[test]
fn reader_that_others_share_an_address_with_is_not_apart() {
    let mut pair = separated(3);
    let address = Arc::new([locator(SLOW)]);
    rematch(&mut pair, |info| {
        if info.guid == reader_guid(2) {
            info.to = Arc::clone(&address) as Arc<[Locator]>;
        }
    });
    assert!(!is_apart(&pair));
}

#[test]
fn reader_is_not_apart_when_no_faster_one_is_left() {
    let mut pair = separated(2);
    assert!(is_apart(&pair));
    assert!(pair.writer.unmatch_reader(pair.now, reader_guid(0)));
    assert!(!is_apart(&pair));
    pair.silenced.clear();
    pair.run(Span::from_secs(2));
    assert_eq!(pair.taken_numbers(SLOW), Vec::from_iter(1..=20));
}

#[test]
fn reader_that_withdraws_acknowledgements_is_not_sent_everything_again() {
    let mut pair = separated(2);
    let slow = pair.writer.readers.find_mut(reader_guid(SLOW)).unwrap();
    slow.apart.clear();
    let paid_below = slow.paid_below;
    assert!(paid_below >= SequenceNumber(10), "{paid_below}");
    slow.acknowledged_below = SequenceNumber::FIRST;
    separate(&mut pair);
    let slow = pair.writer.readers.find(reader_guid(SLOW)).unwrap();
    assert_eq!(slow.sent_below(SequenceNumber::MAX), paid_below);
}

#[test]
fn heartbeats_to_a_reader_that_is_apart_name_no_less_than_before() {
    let pair = separated(2);
    let index = pair.writer.readers.position(reader_guid(SLOW)).unwrap();
    let (first, last) = pair.writer.announced_to(pair.now, index);
    assert_eq!((first, last), (pair.writer.history().first(), SequenceNumber(20)));
}

#[test]
fn separated_reader_that_answers_again_gets_everything_once_and_follows() {
    let mut pair = separated(2);
    pair.silenced.clear();
    for _ in 0..50 {
        pair.write(1, b"x");
        pair.run(Span::from_millis(5));
    }
    pair.run(Span::from_secs(2));
    for index in 0..2 {
        assert_eq!(pair.taken_numbers(index), Vec::from_iter(1..=70));
    }
    assert!(!is_apart(&pair));
}
