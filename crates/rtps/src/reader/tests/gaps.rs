//! Gaps that a sample shows, without a HEARTBEAT.

use super::*;
use crate::limits::{GAP_REQUEST_INTERVAL, GAP_REQUESTS_MAX};

/// A reader that has all samples up to 3, with a pause since the last HEARTBEAT.
fn steady() -> Fragments {
    let mut fragments = Fragments::new();
    (1..=3).for_each(|number| fragments.whole(number));
    fragments.heartbeat(3, false);
    assert_eq!(fragments.says(), ["ACKNACK 4/0:"]);
    fragments.pass(GAP_REQUEST_INTERVAL);
    fragments
}

#[test]
fn gap_shown_by_sample_is_requested_at_once() {
    let mut fragments = steady();
    fragments.whole(5);
    assert_eq!(fragments.says(), ["ACKNACK 4/1: 4"]);
    fragments.whole(4);
    fragments.whole(6);
    assert!(fragments.says().is_empty());
    assert_eq!(fragments.reader.counters().samples, 6);
    assert_eq!(fragments.reader.poll_timeout(), None);
}

#[test]
fn gap_shown_by_fragment_is_requested_at_once() {
    let mut fragments = steady();
    [1, 2, 4].into_iter().for_each(|number| fragments.fragment(4, number));
    fragments.fragment(6, 1);
    assert_eq!(fragments.says(), ["NACK_FRAG 4 3/1: 3", "ACKNACK 4/2: 5"]);
}

#[test]
fn gap_after_recent_request_is_requested_by_timer() {
    let mut fragments = steady();
    fragments.whole(5);
    assert_eq!(fragments.says(), ["ACKNACK 4/1: 4"]);
    fragments.whole(4);
    fragments.whole(7);
    fragments.whole(9);
    assert!(fragments.says().is_empty(), "at most one such request per interval");
    let (at, timer) = fragments.reader.poll_timeout().unwrap();
    assert_eq!((at.since(fragments.now), timer), (GAP_REQUEST_INTERVAL, ReaderTimer::Repair));
    fragments.pass(GAP_REQUEST_INTERVAL);
    assert_eq!(fragments.says(), ["ACKNACK 6/3: 6 8"]);
}

#[test]
fn gap_after_recent_heartbeat_waits_for_next_heartbeat() {
    let mut fragments = Fragments::new();
    fragments.whole(1);
    fragments.heartbeat(1, true);
    fragments.whole(3);
    assert!(fragments.says().is_empty());
    fragments.heartbeat(4, false);
    assert_eq!(fragments.says(), ["ACKNACK 2/3: 2 4"]);
}

#[test]
fn unconfirmed_gap_is_requested_a_bounded_number_of_times() {
    let mut fragments = steady();
    fragments.whole(5);
    let mut requests = fragments.says().len() as u32;
    while let Some((at, _)) = fragments.reader.poll_timeout() {
        fragments.pass(at.since(fragments.now));
        requests += fragments.says().len() as u32;
        assert!(requests <= GAP_REQUESTS_MAX);
    }
    assert_eq!(requests, GAP_REQUESTS_MAX);
    // The HEARTBEAT that confirms the gap renews the requests.
    fragments.pass(crate::limits::NACK_REPEAT_MAX);
    fragments.heartbeat(5, false);
    assert_eq!(fragments.says(), ["ACKNACK 4/1: 4"]);
    assert!(fragments.reader.poll_timeout().is_some());
}

#[test]
fn gap_longer_than_one_request_waits_for_next_heartbeat() {
    let mut fragments = steady();
    fragments.whole(5 + i64::from(crate::seq::SET_BITS_MAX));
    assert!(fragments.says().is_empty());
    assert_eq!(fragments.reader.poll_timeout(), None);
}
