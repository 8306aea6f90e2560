//! Steady flows: the writer requests acknowledgement rarely, and this delays no repair.

use super::*;
use crate::limits::{
    LASTING_INTERVALS, LASTING_SAMPLES, LASTING_WAIT_MAX, STEADY_ASK_EVERY, STEADY_GAPS, STEADY_INTERVALS,
};
use crate::pair::{Fate, locator, matched_writer};
use crate::reader::{MatchedWriter, Reader};
use crate::vendor::VendorId;

const INTERVAL: Span = Span::from_millis(10);

fn lost(_: &mut u64, _: bool) -> Vec<Span> {
    vec![]
}

fn answers_lost(_: &mut u64, to_reader: bool) -> Vec<Span> {
    if to_reader { vec![Span::from_micros(50)] } else { vec![] }
}

fn far(_: &mut u64, _: bool) -> Vec<Span> {
    vec![Span::from_millis(4)]
}

/// Writes `count` samples at this interval. Returns the samples that the readers have taken.
fn send(pair: &mut Pair, interval: Span, count: usize) -> Vec<Vec<i64>> {
    let mut taken = vec![vec![]; pair.readers.len()];
    for _ in 0..count {
        pair.write(1, b"x");
        pair.run(interval);
        for (index, taken) in taken.iter_mut().enumerate() {
            taken.extend(pair.taken_numbers(index));
        }
    }
    taken
}

/// A pair with a steady flow.
fn steady_pair(config: WriterConfig, readers: usize, interval: Span) -> Pair {
    steady_pair_at(perfect, config, readers, interval)
}

/// Like [`steady_pair`], with this fate of messages.
fn steady_pair_at(fate: Fate, config: WriterConfig, readers: usize, interval: Span) -> Pair {
    let mut pair = Pair::new(config, (0..readers).map(reader).collect());
    pair.fate = fate;
    pair.match_all(1472);
    pair.run(Span::from_millis(50));
    send(&mut pair, interval, STEADY_GAPS as usize + 4);
    pair.sent.clear();
    pair.answered.clear();
    pair
}

#[test]
fn steady_flow_causes_one_answer_per_fifty_samples_or_per_second() {
    let intervals = [Span::from_micros(100), Span::from_millis(1), Span::from_millis(10), Span::from_millis(100)];
    for (fate, name) in [(perfect as Fate, "near"), (far, "far")] {
        for interval in intervals {
            let mut pair = steady_pair_at(fate, keep_all(4096), 1, interval);
            send(&mut pair, interval, 300);
            pair.answered.clear();
            send(&mut pair, interval, 1000);
            let answers = pair.answered.len();
            let at_most = if interval == Span::from_millis(100) { 101 } else { 20 };
            assert!((4..=at_most).contains(&answers), "{answers} answers to 1000 samples every {interval}, {name}");
            pair.run(Span::from_secs(10));
            assert!(
                pair.writer.is_acknowledged(pair.writer.last()),
                "the writer requests acknowledgement of the end of the flow"
            );
        }
    }
}

#[test]
fn delay_of_application_does_not_end_steady_flow() {
    for interval in [Span::from_millis(1), Span::from_micros(2500), INTERVAL] {
        let mut pair = steady_pair(keep_all(4096), 1, interval);
        send(&mut pair, interval, 200);
        pair.answered.clear();
        for _ in 0..20 {
            // Five samples are late; then they are sent at once.
            pair.run(interval.times(5));
            send(&mut pair, Span::from_micros(10), 5);
            send(&mut pair, interval, 45);
        }
        let answers = pair.answered.len();
        // The writer requests once per delay by a timer, and once per 64 samples.
        assert!((20..=40).contains(&answers), "{answers} answers to 1000 samples every {interval}");
    }
}

#[test]
fn lost_last_sample_of_burst_is_repaired_after_few_gaps() {
    let gap = Span::from_millis(1);
    let mut pair = steady_pair(keep_all(4096), 1, gap);
    for _ in 0..5 {
        send(&mut pair, gap, 20);
        pair.run(Span::from_millis(100));
    }
    send(&mut pair, gap, 19);
    pair.fate = lost;
    let last = pair.write(1, b"lost").0;
    pair.fate = perfect;
    pair.run(gap.times(u64::from(STEADY_INTERVALS) + 1));
    assert_eq!(pair.taken_numbers(0), [last]);
}

#[test]
fn lost_sample_of_steady_flow_is_repaired_at_next_sample() {
    for interval in [INTERVAL, Span::from_millis(100)] {
        let mut pair = steady_pair(keep_all(4096), 1, interval);
        pair.fate = lost;
        let missing = pair.write(1, b"lost").0;
        pair.run(interval);
        pair.fate = perfect;
        pair.write(1, b"next");
        pair.run(Span::from_micros(200));
        assert_eq!(pair.taken_numbers(0), [missing, missing + 1], "{interval}");
    }
}

#[test]
fn lost_last_sample_of_steady_flow_is_repaired_after_few_intervals() {
    for interval in [Span::from_millis(1), INTERVAL, Span::from_millis(100)] {
        let mut pair = steady_pair(keep_all(4096), 1, interval);
        pair.fate = lost;
        let last = pair.write(1, b"lost").0;
        pair.fate = perfect;
        pair.run(interval.times(u64::from(STEADY_INTERVALS) + 1));
        assert_eq!(pair.taken_numbers(0), [last], "{interval}");
    }
}

#[test]
fn lost_last_sample_of_lasting_flow_is_repaired_within_bound() {
    for interval in [Span::from_millis(1), INTERVAL, Span::from_millis(100)] {
        let mut pair = steady_pair(keep_all(4096), 1, interval);
        send(&mut pair, interval, LASTING_SAMPLES as usize);
        pair.fate = lost;
        let last = pair.write(1, b"lost").0;
        pair.fate = perfect;
        let lasting = interval.times(u64::from(LASTING_INTERVALS)).min(LASTING_WAIT_MAX);
        pair.run(lasting.max(interval.times(u64::from(STEADY_INTERVALS))) + interval);
        assert_eq!(pair.taken_numbers(0), [last], "{interval}");
    }
}

/// The thread that waits for the timer sets it again only when it expires.
#[test]
fn timer_of_lasting_flow_expires_once_in_many_samples() {
    for interval in [Span::from_micros(500), Span::from_millis(1), INTERVAL] {
        let mut pair = steady_pair(keep_all(4096), 1, interval);
        send(&mut pair, interval, LASTING_SAMPLES as usize);
        let (mut timer, mut expired) = (None, 0);
        for _ in 0..LASTING_SAMPLES {
            send(&mut pair, interval, 1);
            let due = pair.writer.poll_timeout().map(|(at, _)| at);
            if timer.is_none_or(|at| at <= pair.now) {
                expired += u32::from(timer.is_some());
                timer = due;
            }
        }
        let intervals = (LASTING_WAIT_MAX.0 / interval.0).min(u64::from(LASTING_INTERVALS));
        assert!(u64::from(expired) <= u64::from(LASTING_SAMPLES) / (intervals - 2), "{interval}: {expired}");
    }
}

#[test]
fn lost_opening_heartbeat_is_repeated_with_next_sample() {
    let mut pair = steady_pair(keep_all(4096), 2, INTERVAL);
    pair.writer.unmatch_reader(pair.now, reader_guid(1));
    pair.readers[1] = Reader::new(reader(1));
    let first = pair.writer.last().0 + 1;
    pair.fate = lost;
    pair.match_one(1, 1472);
    pair.run(Span::from_micros(100));
    pair.fate = perfect;
    let taken = send(&mut pair, INTERVAL, 3);
    assert_eq!(taken[1], [first, first + 1, first + 2]);
}

#[test]
fn rematched_reader_gets_request_with_each_sample_until_it_answers() {
    let mut pair = steady_pair(keep_all(4096), 1, INTERVAL);
    // The reader has lost and rediscovered the writer, and the writer has not noticed.
    let wall = pair.wall();
    pair.readers[0].unmatch_writer(pair.now, wall, writer_guid());
    let to = Arc::new([locator(0)]);
    pair.readers[0].match_writer(pair.now, MatchedWriter { to, ..matched_writer(writer_guid()) });
    let first = pair.writer.last().0 + 1;
    let taken = send(&mut pair, INTERVAL, 10);
    let new = taken[0].iter().filter(|number| **number >= first);
    assert_eq!(Vec::from_iter(new.copied()), Vec::from_iter(first..first + 10));
}

#[test]
fn first_sample_after_silence_requests_acknowledgement() {
    let mut pair = steady_pair(keep_all(4096), 1, INTERVAL);
    pair.run(Span::from_secs(10));
    assert_eq!(pair.writer.poll_timeout(), None, "all samples are acknowledged");
    pair.sent.clear();
    pair.write(1, b"x");
    assert_eq!(shapes(&pair), [["INFO_TS", "DATA", "HEARTBEAT"]]);
}

#[test]
fn unanswered_request_leads_to_request_with_each_sample() {
    let mut pair = steady_pair(keep_all(4096), 1, INTERVAL);
    pair.fate = answers_lost;
    send(&mut pair, INTERVAL, STEADY_ASK_EVERY as usize);
    assert!(pair.writer.counters().heartbeats > 0);
    send(&mut pair, INTERVAL, 10);
    pair.sent.clear();
    send(&mut pair, INTERVAL, 10);
    let asking = shapes(&pair).iter().filter(|shape| **shape == ["INFO_TS", "DATA", "HEARTBEAT"]).count();
    assert_eq!(asking, 10, "{:?}", shapes(&pair));
}

#[test]
fn loss_leads_to_request_with_each_sample_for_a_while() {
    let mut pair = steady_pair(keep_all(4096), 1, INTERVAL);
    pair.fate = lost;
    pair.write(1, b"lost");
    pair.fate = perfect;
    send(&mut pair, INTERVAL, 5);
    pair.answered.clear();
    send(&mut pair, INTERVAL, 20);
    assert_eq!(pair.answered.len(), 20);
}

#[test]
fn waiting_thread_is_notified_within_a_round_trip() {
    let mut pair = steady_pair(keep_all(4096), 1, INTERVAL);
    let last = pair.write(1, b"x");
    assert!(!pair.writer.is_acknowledged(last));
    pair.writer.request_acknowledgement(pair.now);
    pair.pump();
    pair.run(Span::from_micros(150));
    assert!(pair.writer.is_acknowledged(last));
}

/// The share of samples that carry a HEARTBEAT, in percent.
fn asking(pair: &mut Pair) -> usize {
    pair.sent.clear();
    send(pair, INTERVAL, 100);
    shapes(pair).iter().filter(|shape| shape.contains(&"DATA") && shape.contains(&"HEARTBEAT")).count()
}

#[test]
fn readers_of_other_vendors_get_request_with_each_sample() {
    let mut pair = Pair::new(keep_all(4096), vec![reader(0)]);
    pair.match_one_of(0, 1472, VendorId::CYCLONE, true);
    pair.run(Span::from_millis(50));
    assert_eq!(asking(&mut pair), 100);
}

#[test]
fn short_history_leads_to_request_with_each_sample() {
    let keep_last = |depth| WriterConfig { history: HistoryKind::KeepLast(depth), ..keep_all(4096) };
    for depth in [1, STEADY_INTERVALS] {
        assert_eq!(asking(&mut steady_pair(keep_last(depth), 1, INTERVAL)), 100, "{depth}");
    }
    assert!(asking(&mut steady_pair(keep_last(STEADY_INTERVALS + 1), 1, INTERVAL)) <= 2);
    let short_lived = WriterConfig { lifespan: Span::from_millis(60), ..keep_all(4096) };
    assert_eq!(asking(&mut steady_pair(short_lived, 1, INTERVAL)), 100);
}

#[test]
fn half_unacknowledged_history_leads_to_request_with_each_sample() {
    let mut pair = steady_pair(keep_all(64), 1, INTERVAL);
    pair.fate = answers_lost;
    // The writer requests acknowledgement once half of its samples are unacknowledged, and then with each sample.
    for _ in 0..32 {
        pair.write(1, b"x");
        pair.run(Span::from_micros(1));
    }
    send(&mut pair, INTERVAL, 1);
    pair.sent.clear();
    send(&mut pair, INTERVAL, 5);
    let shapes = shapes(&pair);
    assert_eq!(shapes.iter().filter(|shape| shape.contains(&"DATA") && shape.contains(&"HEARTBEAT")).count(), 5);
}

#[test]
fn rough_network_delivers_all_samples_of_steady_flow() {
    for seed in 1..60 {
        let mut pair = Pair::new(keep_all(4096), vec![reader(0), reader(1)]);
        (pair.fate, pair.seed) = (rough, seed);
        pair.match_all(1472);
        let taken = send(&mut pair, Span::from_millis(1 + seed % 5), 200);
        pair.run(Span::from_secs(30));
        for (index, mut taken) in taken.into_iter().enumerate() {
            taken.extend(pair.taken_numbers(index));
            assert_eq!(taken, Vec::from_iter(1..=200), "seed {seed}");
        }
        assert!(pair.writer.is_acknowledged(SequenceNumber(200)), "seed {seed}");
    }
}
