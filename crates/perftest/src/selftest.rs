//! `perftest selftest`: the cost of measuring on this machine.

use std::hint::black_box;

use crate::clock::MonotonicNs;
use crate::error::Error;
use crate::payload;
use crate::recorder::Collector;
use crate::terminal::print_text;

/// Highest cost of recording one value.
const RECORDER_LIMIT_NS: f64 = 60.0;
/// The median of this many measurements counts, so that single disturbances do not.
const ROUNDS: usize = 15;
const VALUES: u64 = 200_000;
/// Bytes written or checked in one measurement of a pattern.
const PATTERN_OCTETS: usize = 16 << 20;
const SIZES: [usize; 4] = [64, 1024, 16_384, 63_000];

/// Cost of writing and checking the pattern of one sample, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PatternCost {
    /// Writing.
    pub write_ns: f64,
    /// Checking.
    pub check_ns: f64,
}

/// Prints the cost of the clock, of recording, and of the patterns.
pub fn run() -> Result<(), Error> {
    let clock = per_turn(VALUES, |_| {
        black_box(MonotonicNs::now());
    });
    let mut collector = Collector::new(0);
    let mut recorder = collector.recorder();
    // Neighbouring values share a bucket and its cache line; these are spread like latencies of some milliseconds.
    let record = per_turn(VALUES, |turn| recorder.record(black_box(turn.wrapping_mul(2_654_435_761) % 8_000_000)));
    let verdict = if record < RECORDER_LIMIT_NS { "met" } else { "missed" };
    let mut text = format!(
        "reading the clock     {clock:>9.1} ns\nrecording one value   {record:>9.1} ns, target < {RECORDER_LIMIT_NS} {verdict}\n"
    );
    for len in SIZES {
        let PatternCost { write_ns, check_ns } = pattern_cost(len);
        text += &format!("pattern of {len:>6} B    {write_ns:>9.1} ns to write, {check_ns:.1} ns to check\n");
    }
    if cfg!(debug_assertions) {
        text += "This is a debug build: an optimised one is several times faster.\n";
    }
    print_text(&text)
}

/// Measures [`payload::write_some`] and its check for a payload of `len` bytes; takes less than a millisecond.
pub fn partial_pattern_cost(len: usize) -> PatternCost {
    const TURNS: u64 = 200;
    let mut bytes = vec![0; len];
    let write_ns = per_turn(TURNS, |turn| payload::write_some(black_box(&mut bytes), turn));
    let check_ns = per_turn(TURNS, |turn| {
        black_box(payload::are_some_intact(black_box(&bytes), turn));
    });
    PatternCost { write_ns, check_ns }
}

/// Measures writing and checking a pattern of `len` bytes; takes some milliseconds.
pub fn pattern_cost(len: usize) -> PatternCost {
    let mut bytes = vec![0; len];
    let turns = (PATTERN_OCTETS / ROUNDS / len.max(1)).max(1) as u64;
    let write_ns = per_turn(turns, |turn| payload::write(black_box(&mut bytes), turn));
    payload::write(&mut bytes, 1);
    let check_ns = per_turn(turns, |_| {
        black_box(payload::is_intact(black_box(&bytes), black_box(1)));
    });
    PatternCost { write_ns, check_ns }
}

/// Nanoseconds per turn, the median of the rounds.
fn per_turn(turns: u64, mut turn: impl FnMut(u64)) -> f64 {
    let mut rounds: [u64; ROUNDS] = std::array::from_fn(|round| {
        let start = MonotonicNs::now();
        let first = round as u64 * turns;
        (first..first + turns).for_each(&mut turn);
        MonotonicNs::now().since_ns(start)
    });
    rounds.sort_unstable();
    rounds[ROUNDS / 2] as f64 / turns as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_measured_per_turn() {
        let mut turns = 0;
        let cost = per_turn(100, |turn| {
            assert_eq!(turn, turns);
            turns += 1;
        });
        assert_eq!(turns, 100 * ROUNDS as u64);
        assert!(cost >= 0.0);
        let pattern = pattern_cost(1 << 20);
        assert!(pattern.write_ns > 0.0 && pattern.check_ns > 0.0);
    }
}
