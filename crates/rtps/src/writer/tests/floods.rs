//! Messages that a writer sends because of what it received: bounded for each reader, whatever the reader requests.

use super::*;
use crate::limits::{REPAIR_CREDIT_START, REPAIR_REFILL_MAX};

const SAMPLES: i64 = 256;
const LEN: usize = 1000;
/// An ACKNACK that requests no sample.
const NOTHING: core::ops::RangeInclusive<i64> = core::ops::RangeInclusive::new(1, 0);
/// Header and INFO_DST of a message.
const MESSAGE_HEAD: usize = 20 + 16;
/// Submessage header and fields without bits.
const ACKNACK_LEN: usize = 28;

/// A writer with samples that its only reader has been sent and has not acknowledged, and the bytes in both directions.
struct Victim {
    writer: Writer,
    now: Instant,
    entitled: usize,
    received: usize,
    sent: usize,
    count: i32,
}

impl Victim {
    fn new() -> Self {
        Self::of_samples(SAMPLES, LEN)
    }

    fn of_samples(samples: i64, len: usize) -> Self {
        let now = Instant(1_000_000_000);
        let mut writer = Writer::new(keep_all(samples as u32));
        let to = Arc::new([crate::pair::locator(0)]);
        writer.match_reader(now, MatchedReader { to, max_message_bytes: 1472, ..foreign_reader(0, VendorId::CYCLONE) });
        let pair = Pair::new(keep_all(1), vec![]);
        let mut victim = Self { writer, now, entitled: 0, received: 0, sent: 0, count: 0 };
        victim.write(&pair, samples, len);
        victim
    }

    fn write(&mut self, pair: &Pair, samples: i64, len: usize) {
        for _ in 0..samples {
            let payload = crate::payload::Payload::copy_of(&vec![0; len]);
            self.writer.write(self.now, Change { payload, ..pair.change(7, b"") }).unwrap();
            self.transmit();
        }
        self.entitled += core::mem::take(&mut self.sent);
    }

    fn transmit(&mut self) {
        let mut batch = TransmitBatch::default();
        while self.writer.poll_transmit(&mut batch) {
            self.sent += batch.total_bytes();
            self.writer.reclaim(&mut batch);
        }
    }

    fn acknack(&mut self, count: i32, base: i64, numbers: core::ops::RangeInclusive<i64>) {
        self.acknack_of(0, count, base, numbers);
    }

    fn acknack_of(&mut self, reader: usize, count: i32, base: i64, numbers: core::ops::RangeInclusive<i64>) {
        let state = SequenceNumberSet::from_ascending(SequenceNumber(base), numbers.map(SequenceNumber));
        let acknack = AckNack {
            reader: reader_guid(reader).entity,
            writer: self.writer.guid().entity,
            state,
            count: Count(count),
            is_final: false,
        };
        self.received += ACKNACK_LEN + 4 * state.words().len();
        self.writer.handle_acknack(self.now, reader_guid(reader), &acknack);
    }

    /// One datagram that requests two stretches in turn, a thousand times.
    fn datagram_of_requests(&mut self) {
        for _ in 0..500 {
            self.count += 2;
            self.acknack(self.count - 1, 1, 1..=128);
            self.acknack(self.count, 1, 129..=256);
        }
        self.transmit();
    }

    /// Lets the timers of the writer expire, for so long.
    fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while let Some((at, _)) = self.writer.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = at.max(self.now);
            self.writer.handle_timeout(self.now);
            self.transmit();
        }
        self.now = end;
    }
}

#[test]
fn datagram_of_a_thousand_requests_is_answered_once() {
    let mut victim = Victim::new();
    victim.datagram_of_requests();
    victim.pass(Span::from_millis(1));
    assert!(victim.sent < victim.entitled + 10 * 1024, "{} bytes for {}", victim.sent, victim.entitled);
}

#[test]
fn requests_without_end_are_paid_for() {
    let mut victim = Victim::new();
    for _ in 0..50 {
        victim.datagram_of_requests();
        victim.pass(Span::from_millis(5));
    }
    let allowed = 10 * victim.received + victim.entitled + REPAIR_CREDIT_START + REPAIR_REFILL_MAX;
    assert!(victim.sent < allowed, "{} bytes for {}", victim.sent, victim.received);
    // Few requests, each for much.
    let mut victim = Victim::new();
    for _ in 0..3000 {
        victim.count += 1;
        victim.acknack(victim.count, 1, 1..=256);
        victim.received += MESSAGE_HEAD;
        victim.transmit();
        victim.pass(Span::from_millis(100));
    }
    let allowed = 10 * victim.received + victim.entitled + REPAIR_CREDIT_START + REPAIR_REFILL_MAX;
    assert!(victim.sent < allowed, "{} bytes for {}", victim.sent, victim.received);
}

#[test]
fn preemptive_acknack_without_a_count_is_answered_once_however_often_it_comes() {
    let mut victim = Victim::new();
    (0..1000).for_each(|_| victim.acknack(0, 1, NOTHING));
    victim.transmit();
    assert!(victim.sent < 100, "{} bytes", victim.sent);
    victim.acknack(0, 1, 1..=1);
    victim.transmit();
    let before = victim.sent;
    (0..1000).for_each(|_| victim.acknack(0, 1, 1..=1));
    victim.transmit();
    assert_eq!(victim.sent, before, "a request with the count 0 is one like any other");
}

#[test]
fn fragment_under_way_is_not_sent_again() {
    let now = Instant(1_000_000_000);
    let mut writer = Writer::new(keep_all(10));
    writer.match_reader(now, MatchedReader { max_message_bytes: 1472, ..foreign_reader(0, VendorId::CYCLONE) });
    let payload = crate::payload::Payload::copy_of(&[0; 1_000_000]);
    let change = Change { payload, ..Pair::new(keep_all(1), vec![]).change(7, b"") };
    writer.write(now, change).unwrap();
    drop(sent(&mut writer));
    let mut received = 0;
    for count in 1..=1000 {
        let base = FragmentNumber(if count % 2 == 0 { 1 } else { 257 });
        let state = FragmentNumberSet::from_ascending(base, (base.0..base.0 + 256).map(FragmentNumber));
        let nack = NackFrag {
            reader: reader_guid(0).entity,
            writer: writer.guid().entity,
            sequence_number: SequenceNumber(1),
            state,
            count: Count(count),
        };
        received += 32 + 32;
        writer.handle_nack_frag(now, reader_guid(0), &nack);
    }
    let bytes: usize = sent(&mut writer).iter().map(Vec::len).sum();
    assert!(bytes < 1_100_000, "{bytes} bytes for {received}");
    assert_eq!(writer.counters().fragments_repaired, 512);
}

#[test]
fn requests_that_acknowledge_samples_are_each_answered_by_a_heartbeat() {
    let mut victim = Victim::new();
    for base in 2..10 {
        let before = victim.writer.counters().heartbeats;
        victim.acknack(base, i64::from(base), NOTHING);
        victim.transmit();
        assert_eq!(victim.writer.counters().heartbeats, before + 1, "request {base}");
    }
}

#[test]
fn repairs_of_short_samples_are_paid_by_their_acknowledgements() {
    const COUNT: i64 = 4096;
    let mut victim = Victim::of_samples(COUNT, 8);
    for base in (1..COUNT).step_by(256) {
        let before = victim.writer.counters().samples_repaired;
        victim.count += 1;
        victim.acknack(victim.count, base, base..=base + 255);
        victim.pass(Span::from_micros(100));
        let repaired = victim.writer.counters().samples_repaired - before;
        assert_eq!(repaired, 256, "request of {base} and the following");
    }
}

#[test]
fn acknowledgement_withdrawn_and_repeated_adds_nothing_to_the_budget() {
    let mut victim = Victim::of_samples(SAMPLES, LEN);
    // Later samples stay in the history for a reader that lacks them.
    victim.writer.match_reader(victim.now, foreign_reader(1, VendorId::CYCLONE));
    victim.acknack(1, SAMPLES + 1, NOTHING);
    victim.write(&Pair::new(keep_all(1), vec![]), SAMPLES / 2, LEN);
    let (first, last) = (SAMPLES + 1, SAMPLES + SAMPLES / 2);
    victim.count = 1;
    for _ in 0..500 {
        victim.count += 2;
        victim.acknack(victim.count - 1, last + 1, NOTHING);
        victim.acknack(victim.count, first, first..=last);
        victim.acknack_of(1, victim.count, first, NOTHING);
        victim.received += 3 * MESSAGE_HEAD;
        victim.pass(Span::from_millis(2));
    }
    let withdrawn = victim.writer.counters().acknowledgements_withdrawn;
    assert!(withdrawn > 100, "the history had the samples {withdrawn} times only: {:?}", victim.writer.counters());
    let allowed = 10 * victim.received + victim.entitled + REPAIR_CREDIT_START + REPAIR_REFILL_MAX;
    assert!(victim.sent < allowed, "{} bytes for {}", victim.sent, victim.received);
}

#[test]
fn sample_larger_than_the_budget_is_repaired_whatever_was_lost() {
    const LEN: usize = 26 << 20;
    const LIMIT: Span = Span::from_secs(2);
    let mut pair = Pair::new(keep_all(5), vec![reader(0)]);
    pair.match_all(65_000);
    pair.run(Span::from_millis(10));
    // Three of four messages to the reader are lost, also of the first repairs.
    pair.fate = |state, to_reader| {
        let is_lost = to_reader && *state < 1_000 && *state % 4 != 0;
        *state += 1;
        if is_lost { vec![] } else { vec![Span::from_micros(50)] }
    };
    let start = pair.now;
    let last = pair.write(1, &vec![7; LEN]);
    while !pair.writer.is_acknowledged(last) {
        assert!(pair.step());
        assert!(pair.now.since(start) < LIMIT, "{:?}", pair.writer.counters());
    }
    assert_eq!(pair.taken_numbers(0), [1]);
}

#[test]
fn repair_that_is_withheld_does_not_take_the_heartbeat_that_the_reader_is_owed() {
    let mut victim = Victim::of_samples(3, 1);
    victim.writer.readers.get_mut(0).unwrap().repairs_paid.charge(1 << 40);
    // The first answer of a volatile reader of Cyclone DDS: it is owed a HEARTBEAT that names all samples.
    victim.acknack(1, 1, 1..=3);
    let messages = sent(&mut victim.writer);
    assert_eq!(messages.iter().map(|message| shape(message)).collect::<Vec<_>>(), [["INFO_DST", "HEARTBEAT"]]);
    let counters = victim.writer.counters();
    assert_eq!((counters.samples_repaired, counters.repairs_withheld), (0, 1), "{counters:?}");
}
