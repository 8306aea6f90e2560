//! Many readers at one address: what they have not paid for does not grow with their number.

use super::*;
use crate::address_budget::AddressBudget;
use crate::limits::{ADDRESS_REPAIR_BYTES_MAX, ADDRESS_REPAIR_REFILL_PER_SECOND, ANSWER_BYTES_PER_BYTE};

const READERS: usize = 64;
const SAMPLES: i64 = 256;
const LEN: usize = 1000;
const SECONDS: usize = 30;

/// A writer whose readers have been sent everything and acknowledge nothing.
fn writer_of_samples(samples: i64, len: usize, now: Instant) -> Writer {
    let mut writer = Writer::new(keep_all(samples as u32));
    let address_budget: Arc<AddressBudget> = Arc::default();
    for index in 0..READERS {
        let to = Arc::new([crate::pair::locator(index)]);
        let reader = foreign_reader(index, VendorId::CYCLONE);
        let address_budget = Arc::clone(&address_budget);
        writer.match_reader(now, MatchedReader { to, max_message_bytes: 1472, address_budget, ..reader });
    }
    let pair = Pair::new(keep_all(1), vec![]);
    for _ in 0..samples {
        let payload = crate::payload::Payload::copy_of(&vec![0; len]);
        writer.write(now, Change { payload, ..pair.change(7, b"") }).unwrap();
        drop(sent(&mut writer));
    }
    writer
}

/// Bytes that all readers may be sent again within [`SECONDS`], when each of their requests has this length.
fn allowed(requests: usize, request_len: usize, entitled: usize) -> usize {
    let of_address = ADDRESS_REPAIR_BYTES_MAX as usize + SECONDS * ADDRESS_REPAIR_REFILL_PER_SECOND;
    READERS * entitled + of_address + requests * request_len * ANSWER_BYTES_PER_BYTE
}

#[test]
fn readers_at_one_address_share_what_repairs_they_have_not_paid_for() {
    let mut now = Instant(1_000_000_000);
    let mut writer = writer_of_samples(SAMPLES, LEN, now);
    let mut requests = 0;
    for count in 1..=SECONDS as i32 {
        now = now + Span::from_secs(1);
        for index in 0..READERS {
            let numbers = (1..=SAMPLES).map(SequenceNumber);
            let state = SequenceNumberSet::from_ascending(SequenceNumber::FIRST, numbers);
            let (reader, writer_id) = (reader_guid(index).entity, writer.guid().entity);
            let acknack = AckNack { reader, writer: writer_id, state, count: Count(count), is_final: true };
            writer.handle_acknack(now, reader_guid(index), &acknack);
            requests += 1;
            drop(sent(&mut writer));
        }
    }
    let counters = writer.counters();
    let again = counters.samples_repaired as usize * LEN;
    let allowed = allowed(requests, 28 + 32, SAMPLES as usize * LEN);
    assert!(again <= allowed, "{again} bytes, {allowed} allowed: {counters:?}");
    assert!(again >= READERS * SAMPLES as usize * LEN, "each reader is sent each sample again, once: {counters:?}");
    assert!(counters.repairs_withheld_by_address > 0, "{counters:?}");
}

#[test]
fn readers_at_one_address_share_what_fragments_they_have_not_paid_for() {
    const FRAGMENTS: u32 = 256;
    let mut now = Instant(1_000_000_000);
    let mut writer = writer_of_samples(1, 400_000, now);
    let fragment_size = 400_000 / FRAGMENTS as usize;
    let mut requests = 0;
    for count in 1..=SECONDS as i32 {
        now = now + Span::from_secs(1);
        for index in 0..READERS {
            let nack = NackFrag {
                reader: reader_guid(index).entity,
                writer: writer.guid().entity,
                sequence_number: SequenceNumber::FIRST,
                state: FragmentNumberSet::from_ascending(FragmentNumber(1), (1..=FRAGMENTS).map(FragmentNumber)),
                count: Count(count),
            };
            writer.handle_nack_frag(now, reader_guid(index), &nack);
            requests += 1;
            drop(sent(&mut writer));
        }
    }
    let counters = writer.counters();
    let again = counters.fragments_repaired as usize * 1300;
    let allowed = allowed(requests, 32 + 32, FRAGMENTS as usize * fragment_size);
    assert!(again <= allowed, "{again} bytes, {allowed} allowed: {counters:?}");
    assert!(counters.fragments_repaired as usize >= READERS * FRAGMENTS as usize, "{counters:?}");
    assert!(counters.repairs_withheld_by_address > 0, "{counters:?}");
}

#[test]
fn reader_that_makes_progress_needs_nothing_of_its_address() {
    const LIMIT: Span = Span::from_secs(2);
    let mut pair = Pair::new(keep_all(SAMPLES as u32), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.address_budget.repairs.take(1 << 40);
    pair.fate = rough;
    let start = pair.now;
    let last = (0..4 * SAMPLES).map(|_| pair.write(1, &[7; LEN])).last().unwrap();
    while !pair.writer.is_acknowledged(last) {
        assert!(pair.step());
        assert!(pair.now.since(start) < LIMIT, "{:?}", pair.writer.counters());
    }
    assert_eq!(pair.taken_numbers(0).len(), 4 * SAMPLES as usize);
}

#[test]
fn readers_of_one_process_that_lose_half_of_all_messages_are_repaired_without_a_wait() {
    const READERS: usize = 100;
    const LIMIT: Span = Span::from_secs(30);
    let mut pair = Pair::new(keep_all(SAMPLES as u32), (0..READERS).map(reader).collect());
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.fate = |state, _| {
        let is_lost = random(state).is_multiple_of(2);
        if is_lost { vec![] } else { vec![Span::from_micros(200)] }
    };
    let start = pair.now;
    let last = (0..SAMPLES / 4).map(|_| pair.write(1, &[7; LEN])).last().unwrap();
    while !pair.writer.is_acknowledged(last) {
        assert!(pair.step());
        assert!(pair.now.since(start) < LIMIT, "{:?}", pair.writer.counters());
    }
    assert_eq!(pair.writer.counters().repairs_withheld_by_address, 0, "{:?}", pair.writer.counters());
}
