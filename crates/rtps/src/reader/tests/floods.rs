//! Messages that a reader sends because of what it received: bounded for each writer, whatever the writer says.

use super::*;
use crate::address_budget::AddressBudget;
use crate::limits::{ADDRESS_REQUEST_BYTES_MAX, FRAGMENT_BYTES_MIN, REPAIR_REQUESTS_MAX, REQUEST_CREDIT_MAX};
use crate::reader::ReaderCounters;
use crate::reader::request_budget::Charged;
use crate::seq::FragmentNumber;

const SAMPLE_SIZE: u32 = 8 << 20;
/// Header, INFO_DST and the fields of a DATA_FRAG, or of a HEARTBEAT.
const MESSAGE_OVERHEAD: usize = 20 + 16 + 36;

/// A reader of one writer, and the bytes in both directions.
struct Victim {
    reader: Reader,
    now: Instant,
    received: usize,
    sent: usize,
    heartbeats: i32,
}

impl Victim {
    fn new() -> Self {
        let mut reader = Reader::new(ReaderConfig { wants_history: true, ..reliable() });
        let now = Instant(1_000_000_000);
        assert!(reader.match_writer(now, matched_writer(writer_guid())));
        Self { reader, now, received: 0, sent: 0, heartbeats: 0 }
    }

    fn reception(&self) -> Reception<'static> {
        Reception { now: self.now, wall: Timestamp::INVALID, buffer: None, source: crate::pair::NOWHERE }
    }

    fn fragment(&mut self, sequence_number: i64, number: u32, fragment_size: u16) {
        let payload = std::vec![0; usize::from(fragment_size)];
        let frag = DataFrag {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            sequence_number: SequenceNumber(sequence_number),
            starting: FragmentNumber(number),
            count: 1,
            fragment_size,
            sample_size: SAMPLE_SIZE,
            inline_qos: None,
            is_key: false,
            non_standard_payload: false,
            payload: &payload,
        };
        self.received += MESSAGE_OVERHEAD + payload.len();
        self.reader.handle_data_frag(&self.reception(), writer_guid(), PLAIN, &frag);
        self.transmit();
    }

    fn heartbeat(&mut self, last: i64) {
        self.heartbeats += 1;
        self.repeated_heartbeat(last);
    }

    fn repeated_heartbeat(&mut self, last: i64) {
        let heartbeat = Heartbeat {
            reader: reader_guid(0).entity,
            writer: writer_guid().entity,
            first: SequenceNumber::FIRST,
            last: SequenceNumber(last),
            count: Count(self.heartbeats),
            is_final: false,
            liveliness: false,
            group: None,
        };
        self.received += MESSAGE_OVERHEAD;
        self.reader.handle_heartbeat(&self.reception(), writer_guid(), &heartbeat);
        self.transmit();
    }

    fn transmit(&mut self) {
        let mut batch = TransmitBatch::default();
        self.reader.poll_transmit(self.now, &mut batch);
        self.sent += batch.total_bytes();
    }

    /// Lets the timers of the reader expire, for so long.
    fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while let Some((at, _)) = self.reader.poll_timeout().filter(|(at, _)| *at <= end) {
            self.now = at.max(self.now);
            self.reader.handle_timeout(self.now, Timestamp::INVALID);
            self.transmit();
        }
        self.now = end;
    }
}

#[test]
fn large_samples_in_tiny_fragments_cause_no_flood_of_requests() {
    let mut victim = Victim::new();
    (1..=64).for_each(|number| victim.fragment(number, 1, 8));
    victim.heartbeat(64);
    victim.pass(Span::from_secs(60));
    assert!(victim.sent <= 10 * victim.received, "{} bytes for {}", victim.sent, victim.received);
    assert_eq!(victim.reader.waiting().bytes, 0);
}

#[test]
fn requests_for_many_fragments_are_bounded_by_what_the_writer_sends() {
    let mut victim = Victim::new();
    (1..=16).for_each(|number| victim.fragment(number, 1, FRAGMENT_BYTES_MIN));
    victim.heartbeat(16);
    victim.pass(Span::from_secs(60));
    let burst = REQUEST_CREDIT_MAX + 10 * victim.received;
    assert!(victim.sent < burst, "{} bytes for {}", victim.sent, victim.received);
    assert_eq!(victim.reader.poll_timeout(), None, "requests that stay unanswered end");
    // A HEARTBEAT each millisecond asks for all that is missing.
    let before = (victim.sent, victim.received);
    for _ in 0..2000 {
        victim.heartbeat(16);
        victim.pass(Span::from_millis(1));
    }
    let (sent, received) = (victim.sent - before.0, victim.received - before.1);
    assert!(sent <= 10 * received, "{sent} bytes for {received}");
}

#[test]
fn request_that_stays_unanswered_ends_and_a_heartbeat_renews_it() {
    let mut victim = Victim::new();
    victim.heartbeat(3);
    victim.pass(Span::from_secs(60));
    let requests = victim.reader.counters().acknowledgements;
    assert!((10..=u64::from(REPAIR_REQUESTS_MAX)).contains(&requests), "{requests} requests");
    assert_eq!(victim.reader.poll_timeout(), None);
    victim.heartbeat(3);
    assert_eq!(victim.reader.counters().acknowledgements, requests + 1);
}

#[test]
fn heartbeat_that_comes_a_thousand_times_is_answered_once() {
    let mut victim = Victim::new();
    victim.heartbeat(3);
    let once = victim.sent;
    (0..1000).for_each(|_| victim.repeated_heartbeat(3));
    assert_eq!(victim.sent, once);
}

#[test]
fn writers_at_one_address_share_what_requests_for_fragments_they_have_not_paid_for() {
    const WRITERS: u32 = 200;
    const SECONDS: usize = 30;
    let mut victim = Victim::new();
    let address_budget: Arc<AddressBudget> = Arc::default();
    let writer = |n| Guid::new(writer_guid().prefix, EntityId::user_writer(n, true));
    let mut paid = 0;
    for n in 2..WRITERS {
        let address_budget = Arc::clone(&address_budget);
        let info = MatchedWriter { address_budget, ..matched_writer(writer(n)) };
        assert!(victim.reader.match_writer(victim.now, info));
        // Each writer alone stays within what it may be sent.
        let payload = [0; FRAGMENT_BYTES_MIN as usize];
        let frag = DataFrag {
            reader: reader_guid(0).entity,
            writer: writer(n).entity,
            sequence_number: SequenceNumber::FIRST,
            starting: FragmentNumber(1),
            count: 1,
            fragment_size: FRAGMENT_BYTES_MIN,
            sample_size: SAMPLE_SIZE,
            inline_qos: None,
            is_key: false,
            non_standard_payload: false,
            payload: &payload,
        };
        victim.reader.handle_data_frag(&victim.reception(), writer(n), PLAIN, &frag);
        paid += payload.len();
    }
    for count in 1..=SECONDS as i32 {
        for n in 2..WRITERS {
            let heartbeat = Heartbeat {
                reader: reader_guid(0).entity,
                writer: writer(n).entity,
                first: SequenceNumber::FIRST,
                last: SequenceNumber::FIRST,
                count: Count(count),
                is_final: false,
                liveliness: false,
                group: None,
            };
            paid += MESSAGE_OVERHEAD;
            victim.reader.handle_heartbeat(&victim.reception(), writer(n), &heartbeat);
            victim.transmit();
        }
        victim.pass(Span::from_secs(1));
    }
    let counters = victim.reader.counters();
    // ACKNACKs are answers to HEARTBEATs, and do not count.
    let allowed = ADDRESS_REQUEST_BYTES_MAX as usize + 10 * paid;
    assert!(victim.sent <= allowed, "{} bytes for {paid}: {counters:?}", victim.sent);
    assert!(counters.requests_withheld_by_address > 0, "{counters:?}");
}

#[test]
fn request_for_fragments_that_is_withheld_does_not_count_as_unanswered() {
    let mut victim = Victim::new();
    victim.fragment(1, 1, 1000);
    let proxy = victim.reader.writers.get_mut(0).unwrap();
    // Neither the writer nor its address has any bytes left.
    let address_budget = AddressBudget::default();
    while proxy.requests_paid.take(victim.now, 1, &address_budget) == Charged::Paid {}
    proxy.info.address_budget.requests.take(1 << 40);
    // No fragment is in transit any more. The HEARTBEAT pays for a part of the request.
    victim.pass(Span::from_millis(20));
    victim.heartbeat(1);
    let withheld = |counters: &ReaderCounters| counters.requests_withheld + counters.requests_withheld_by_address;
    let before = victim.reader.counters();
    assert!(before.requested > 0 && withheld(&before) > 0, "{before:?}");
    // Repetitions that are not sent leave nothing unanswered: the reader does not request the whole sample.
    victim.pass(Span::from_secs(10));
    let after = victim.reader.counters();
    assert!(withheld(&after) > withheld(&before) + 6, "{after:?}");
    assert_eq!(after.requested, before.requested);
}
