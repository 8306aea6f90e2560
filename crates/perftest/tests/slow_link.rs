//! A link of 100 Mbit/s is filled. What else runs on the machine keeps two processes from filling a link, so nothing does:
//! these tests have a target of their own, take turns, and of a few attempts the best one counts.

mod common;
#[path = "two_host/pair.rs"]
mod pair;

use std::sync::{Mutex, PoisonError};

use common::columns;
use pair::pair;
use peregrine_interop::{Link, Rate, TwoHosts};

/// 100 Mbit/s of Ethernet frames. What a sender is granted at once and what may wait are less than a socket's send
/// buffer, so that the sender is slowed down and nothing is dropped.
const FAST_ETHERNET: Rate = Rate { bits_per_second: 100_000_000, burst_bytes: 16 << 10, queue_bytes: 4 << 20 };

const ATTEMPTS: usize = 3;

static TURN: Mutex<()> = Mutex::new(());

/// Every size reaches so many Mbit/s of payload, and nothing is lost.
fn assert_fills_the_link(both: &str, publisher: &str, sizes: usize, at_least_mbit_per_s: f64) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut best = vec![0.0_f64; sizes];
    for _ in 0..ATTEMPTS {
        let hosts = TwoHosts::joined_by(&Link { rate: Some(FAST_ETHERNET), ..Link::default() }).unwrap();
        let (_, subscriber) = pair(&hosts, both, publisher);
        assert_eq!(subscriber.stdout.len(), sizes, "{subscriber:?}");
        for (best, row) in best.iter_mut().zip(&subscriber.stdout) {
            let row = columns(row);
            assert_eq!(row[4], 0.0, "{subscriber:?}");
            *best = best.max(row[3]);
        }
        println!("{both:?}: {best:?} Mbit/s");
        if best.iter().all(|rate| *rate >= at_least_mbit_per_s) {
            return;
        }
    }
    panic!("{best:?} Mbit/s, which is less than {at_least_mbit_per_s}");
}

const SCAN: &str = "-batchSize 0 -scan 4096:16384:63000 -executionTime 5";

#[test]
fn messages_of_one_packet_fill_a_slow_link() {
    assert_fills_the_link("", SCAN, 3, 92.0);
}

#[test]
fn messages_of_many_packets_fill_a_slow_link_further() {
    assert_fills_the_link("-messageSizeMax 65507", SCAN, 3, 95.0);
}

#[test]
fn a_megabyte_fills_a_slow_link() {
    assert_fills_the_link("-dataLen 1000000", "-executionTime 3", 1, 92.0);
}
