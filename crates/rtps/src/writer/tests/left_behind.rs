//! Readers that do not answer delay no others.

use super::*;
use crate::limits::WINDOW_BYTES_MAX;

const INTERVAL: Span = Span::from_millis(2);
const LEN: usize = 20_000;
/// As many samples as the window holds, and one that exceeds it.
const IN_FLIGHT_MAX: u64 = (WINDOW_BYTES_MAX / LEN) as u64 + 1;

/// A KEEP_ALL writer with readers that all receive, after an exchange from which it knows the round trip.
fn flowing(readers: usize) -> Pair {
    let mut pair = Pair::new(keep_all(u32::MAX), (0..readers).map(reader).collect());
    pair.match_all(1472);
    for _ in 0..100 {
        pair.write(1, &[7; LEN]);
        pair.run(INTERVAL);
    }
    (0..readers).for_each(|index| assert_eq!(pair.taken_numbers(index), Vec::from_iter(1..=100)));
    pair
}

/// Writes so many samples at a fixed rate. Returns how many of them the reader lacked at most.
fn greatest_lag(pair: &mut Pair, samples: i64, reader: usize) -> i64 {
    let (mut lag, mut taken) = (0, pair.writer.last().0);
    for _ in 0..samples {
        let last = pair.write(1, &[7; LEN]).0;
        pair.run(INTERVAL);
        for number in pair.taken_numbers(reader) {
            assert_eq!(number, taken + 1);
            taken = number;
        }
        lag = lag.max(last - taken);
    }
    lag
}

#[test]
fn silent_readers_delay_others_for_a_few_round_trips() {
    let mut pair = flowing(4);
    pair.silenced.extend([1, 2]);
    // 500 samples are twice the largest window.
    let lag = greatest_lag(&mut pair, 500, 0);
    assert!(lag <= 25, "the reader lacked {lag} samples, which are {} ms", lag * 2);
    pair.take(3);
    assert_eq!(greatest_lag(&mut pair, 500, 3), 0, "a reader that was left behind delays others again");
}

#[test]
fn reader_left_behind_gets_all_samples_and_delays_no_others_meanwhile() {
    let mut pair = flowing(2);
    pair.silenced.insert(1);
    greatest_lag(&mut pair, 500, 0);
    pair.silenced.clear();
    assert_eq!(greatest_lag(&mut pair, 500, 0), 0);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(1), Vec::from_iter(101..=1100));
    assert!(pair.writer.is_acknowledged_by_all(pair.writer.last()));
}

#[test]
fn only_reader_is_waited_for_however_long_it_is_silent() {
    let mut pair = flowing(1);
    pair.silenced.insert(0);
    for _ in 0..500 {
        pair.write(1, &[7; LEN]);
        pair.run(INTERVAL);
    }
    let in_flight = pair.writer.counters().samples_sent - 100;
    assert!((1..=IN_FLIGHT_MAX).contains(&in_flight), "{in_flight}");
    pair.silenced.clear();
    pair.run(Span::from_secs(2));
    assert_eq!(pair.taken_numbers(0), Vec::from_iter(101..=600));
}

#[test]
fn readers_that_are_all_silent_are_all_waited_for() {
    let mut pair = flowing(3);
    pair.silenced.extend([0, 1, 2]);
    for _ in 0..500 {
        pair.write(1, &[7; LEN]);
        pair.run(INTERVAL);
    }
    let in_flight = pair.writer.counters().samples_sent - 100;
    assert!((1..=IN_FLIGHT_MAX).contains(&in_flight), "{in_flight}");
    pair.silenced.clear();
    pair.run(Span::from_secs(2));
    (0..3).for_each(|index| assert_eq!(pair.taken_numbers(index), Vec::from_iter(101..=600)));
}

#[test]
fn silence_of_a_reader_does_not_use_up_the_patience_with_another() {
    let mut pair = flowing(3);
    let inactive = |pair: &Pair, index| pair.writer_events.contains(&WriterEvent::ReaderInactive(reader_guid(index)));
    pair.silenced.insert(1);
    greatest_lag(&mut pair, 1500, 0);
    pair.silenced.insert(2);
    greatest_lag(&mut pair, 1000, 0);
    assert!(!inactive(&pair, 1) && !inactive(&pair, 2), "after 5 and 2 seconds");
    greatest_lag(&mut pair, 5000, 0);
    assert!(inactive(&pair, 1) && inactive(&pair, 2));
}
