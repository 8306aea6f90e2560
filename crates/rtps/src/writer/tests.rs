use super::*;
use crate::history::{ChangeKind, HistoryKind, ResourceLimits};
use crate::limits::{HISTORY_PUSH_BYTES, HISTORY_PUSH_INTERVAL, ONE_BY_ONE_AFTER_LOSS, RETRY_IN_LASTING_FLOW};
use crate::pair::{Pair, perfect, random, reader_guid, rough, writer_guid};
use crate::reader::{ReaderConfig, ReaderEvent, SampleLostReason};
use crate::seq::{Count, FragmentNumber, FragmentNumberSet, SequenceNumberSet};
use crate::wire::{AckNack, InfoDestination, NackFrag, Submessage, Submessages};
use std::vec;
use std::vec::Vec;

mod apart;
mod bounds;
mod cache;
mod cork;
mod dense_flow;
mod filtered;
mod floods;
mod floods_of_many;
mod forged;
mod gone;
mod held_back;
mod inactive;
mod inline_qos;
mod kept;
mod lasting_flow;
mod late_joiners;
mod left_behind;
mod match_limit;
mod opening;
mod owed_answers;
mod progress;
mod protected_keys;
mod room;
mod stalls;
mod steady;
mod together;
mod witness;

fn keep_all(max_samples: u32) -> WriterConfig {
    WriterConfig {
        history: HistoryKind::KeepAll,
        limits: ResourceLimits { max_samples, ..ResourceLimits::UNLIMITED },
        ..WriterConfig::new(writer_guid())
    }
}

fn reader(index: usize) -> ReaderConfig {
    let mut config = ReaderConfig::new(reader_guid(index));
    config.reliable = true;
    config.cache.history = HistoryKind::KeepAll;
    config
}

/// The abbreviated names of the submessages of a message.
fn shape(message: &[u8]) -> Vec<&'static str> {
    let submessages = Submessages::new(&message[20..]).map(|s| s.unwrap());
    submessages
        .map(|s| match s {
            Submessage::Data(_) => "DATA",
            Submessage::DataFrag(_) => "DATA_FRAG",
            Submessage::Heartbeat(h) if h.is_final => "HEARTBEAT(F)",
            Submessage::Heartbeat(_) => "HEARTBEAT",
            Submessage::Gap(_) => "GAP",
            Submessage::InfoTimestamp(_) => "INFO_TS",
            Submessage::InfoDestination(_) => "INFO_DST",
            Submessage::AckNack(_) => "ACKNACK",
            Submessage::NackFrag(_) => "NACK_FRAG",
            _ => "other",
        })
        .collect()
}

fn shapes(pair: &Pair) -> Vec<Vec<&'static str>> {
    pair.sent.iter().map(|(_, m)| shape(m)).collect()
}

#[test]
fn association_opens_with_heartbeat_and_samples_are_sent_singly() {
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    assert_eq!(shapes(&pair), [["INFO_DST", "HEARTBEAT(F)"]], "a reader asks until this message arrives");
    pair.run(Span::from_millis(5));
    assert!(pair.answered.is_empty(), "there is nothing to acknowledge");
    pair.sent.clear();
    for _ in 0..3 {
        pair.write(1, b"x");
    }
    let expected = [vec!["INFO_TS", "DATA", "HEARTBEAT"], vec!["INFO_TS", "DATA"], vec!["INFO_TS", "DATA"]];
    assert_eq!(shapes(&pair), expected);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [1, 2, 3]);
    assert!(pair.writer.is_acknowledged(SequenceNumber(3)));
    assert!(pair.writer.history().is_empty());
}

#[test]
fn reader_of_another_vendor_is_asked_to_answer_first_heartbeat() {
    let mut writer = Writer::new(keep_all(50));
    assert!(writer.match_reader(Instant(0), foreign_reader(0, VendorId::CYCLONE)));
    assert_eq!(shape(&sent(&mut writer)[0]), ["INFO_DST", "HEARTBEAT"]);
}

#[test]
fn idle_writer_sends_nothing() {
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    pair.write(1, b"x");
    pair.run(Span::from_secs(1));
    pair.sent.clear();
    pair.answered.clear();
    pair.run(Span::from_secs(3600));
    assert!(pair.sent.is_empty() && pair.answered.is_empty());
    assert_eq!(pair.writer.poll_timeout(), None);
    assert_eq!(pair.readers[0].poll_timeout(), None);
}

#[test]
fn acknowledgement_of_last_sample_of_burst_is_requested_by_timer() {
    let mut pair = Pair::new(keep_all(1000), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(10));
    pair.write(1, b"a");
    pair.fate = |_, _| vec![];
    pair.write(1, b"b");
    pair.fate = perfect;
    pair.run(Span::from_millis(20));
    assert_eq!(pair.taken_numbers(0), [1, 2]);
    assert_eq!(pair.writer.counters().samples_repaired, 1);
}

#[test]
fn waiting_thread_requests_acknowledgement_without_timer() {
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    pair.write(1, b"requested, after a silence");
    pair.run(Span::from_micros(200));
    let last = pair.write(1, b"not requested");
    pair.run(Span::from_micros(200));
    assert!(!pair.writer.is_acknowledged(last));
    let heartbeats = pair.writer.counters().heartbeats;
    pair.writer.request_acknowledgement(pair.now);
    pair.pump();
    assert_eq!(pair.writer.counters().heartbeats, heartbeats + 1);
    pair.run(Span::from_micros(200));
    assert!(pair.writer.is_acknowledged(last));
    pair.writer.request_acknowledgement(pair.now);
    assert_eq!(pair.writer.counters().heartbeats, heartbeats + 1, "no further request is needed");
}

#[test]
fn writer_in_full_flow_sets_no_timer_per_millisecond() {
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    let mut timers = 0;
    for _ in 0..4000 {
        pair.write(1, b"x");
        let (before, due) = (pair.now, pair.writer.poll_timeout());
        timers += u32::from(due.is_some_and(|(at, _)| at <= before + Span::from_micros(990)));
        pair.run(Span::from_micros(10));
        pair.take(0);
    }
    assert!(timers < 100, "{timers} timers were less than a millisecond ahead");
    // A timer still requests acknowledgement of the end of the stream.
    let last = pair.writer.last();
    pair.run(RETRY_IN_LASTING_FLOW + Span::from_millis(1));
    assert!(pair.writer.is_acknowledged(last));
}

#[test]
fn blocking_writer_reports_samples_that_wait_for_window() {
    let asynchronous = WriterConfig { asynchronous: true, ..keep_all(50) };
    let keep_last = WriterConfig { history: HistoryKind::KeepLast(50), ..keep_all(50) };
    for (config, may_block) in [(keep_all(50), true), (asynchronous, false), (keep_last, false)] {
        let mut pair = Pair::new(config, vec![reader(0)]);
        pair.match_all(1472);
        pair.run(Span::from_millis(5));
        pair.fate = |_, _| vec![];
        (0..2).for_each(|_| _ = pair.write(1, &[0; 400_000]));
        assert!(!pair.writer.is_held_up(), "a megabyte may be in flight");
        pair.write(1, &[0; 400_000]);
        assert_eq!(pair.writer.is_held_up(), may_block);
        pair.fate = perfect;
        pair.run(Span::from_secs(1));
        assert!(!pair.writer.is_held_up());
    }
    let mut alone = Pair::new(keep_all(50), vec![]);
    alone.write(1, &[0; 4_000_000]);
    assert!(!alone.writer.is_held_up());
}

/// A link that is slower than its ends is never idle, and neither side holds more than two samples.
#[test]
fn sample_beyond_window_is_sent_before_last_is_acknowledged() {
    let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    pair.fate = |_, to_readers| if to_readers { vec![Span::from_micros(50)] } else { vec![] };
    (0..2).for_each(|_| _ = pair.write(1, &[0; 5_000_000]));
    pair.run(Span::from_millis(1));
    assert_eq!(pair.writer.counters().samples_sent, 2);
    assert_eq!(pair.taken_numbers(0), [1, 2], "the acknowledgements are lost");
    assert!(!pair.writer.is_held_up());
    pair.write(1, &[0; 5_000_000]);
    assert!(pair.writer.is_held_up(), "two samples are in flight");
    pair.fate = perfect;
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [3]);
}

#[test]
fn samples_beyond_window_are_sent_singly_after_loss() {
    let mut pair = Pair::new(keep_all(100), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    pair.fate = |count, to_readers| {
        *count += u64::from(to_readers);
        if to_readers && *count == 1000 { vec![] } else { vec![Span::from_micros(50)] }
    };
    pair.write(1, &[0; 5_000_000]);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [1]);
    assert!(pair.writer.counters().fragments_repaired > 0);
    let mut alone = 0;
    while alone < 1000 {
        (0..2).for_each(|_| _ = pair.write(1, &[0; 5_000_000]));
        let follows = !pair.writer.is_held_up();
        pair.run(Span::from_secs(1));
        if follows {
            break;
        }
        alone += 2;
    }
    assert!((10..=ONE_BY_ONE_AFTER_LOSS).contains(&alone), "{alone}");
}

#[test]
fn full_window_blocks_until_acknowledgement() {
    let mut pair = Pair::new(keep_all(4), vec![reader(0)]);
    pair.match_all(1472);
    for n in 0..4 {
        let change = pair.change(1, &[n]);
        assert!(pair.writer.write(pair.now, change).is_ok());
    }
    let change = pair.change(1, &[4]);
    let (full, change) = pair.writer.write(pair.now, change).unwrap_err();
    assert_eq!(full, Full::Samples);
    pair.pump();
    pair.run(Span::from_millis(1));
    assert!(pair.writer_events.contains(&WriterEvent::Acknowledged));
    assert!(pair.writer.write(pair.now, change).is_ok());
}

#[test]
fn batch_is_sent_when_full_late_or_flushed() {
    let mut config = keep_all(1000);
    config.batching = Some(Batching { max_bytes: 40, max_delay: Span::from_millis(3) });
    let mut pair = Pair::new(config, vec![reader(0)]);
    pair.match_all(1472);
    pair.sent.clear();
    for _ in 0..4 {
        pair.write(1, b"12345");
    }
    assert_eq!(pair.sent.len(), 1, "10 bytes each: the fifth would exceed 40");
    assert_eq!(shapes(&pair)[0].iter().filter(|s| **s == "DATA").count(), 4);
    pair.write(1, b"12345");
    assert_eq!(pair.sent.len(), 1);
    assert_eq!(pair.writer.poll_timeout().unwrap().1, WriterTimer::Batch);
    let before = pair.now;
    while pair.sent.len() == 1 {
        assert!(pair.step());
    }
    assert!(pair.now.since(before) <= Span::from_millis(3));
    pair.write(1, b"12345");
    let sent = pair.sent.len();
    pair.writer.flush(pair.now);
    pair.pump();
    assert_eq!(pair.sent.len(), sent + 1);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn batch_does_not_exceed_message() {
    let mut config = keep_all(1000);
    config.batching = Some(Batching { max_bytes: 100_000, max_delay: Span::INFINITE });
    let mut pair = Pair::new(config, vec![reader(0)]);
    pair.match_all(1472);
    for n in 0..100 {
        pair.write(1, &[n; 95]);
    }
    pair.writer.flush(pair.now);
    pair.pump();
    assert!(pair.sent.iter().all(|(_, m)| m.len() <= 1472));
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0).len(), 100);
}

#[test]
fn large_sample_is_sent_in_equal_fragments() {
    let mut pair = Pair::new(keep_all(10), vec![reader(0)]);
    pair.match_all(1472);
    pair.sent.clear();
    let bytes: Vec<u8> = (0..10_000_u32).map(|i| i as u8).collect();
    pair.write(1, &bytes);
    let lengths: Vec<usize> = pair.sent.iter().map(|(_, m)| m.len()).collect();
    // A repair of such a fragment also has an INFO_DST, and then fills the message.
    assert!(lengths[..lengths.len() - 1].iter().all(|l| *l == 1472 - InfoDestination::LEN), "{lengths:?}");
    pair.run(Span::from_secs(1));
    let taken = pair.take(0);
    assert_eq!(taken[0].payload[5..], bytes);
}

#[test]
fn lost_fragments_are_repaired_singly() {
    let mut pair = Pair::new(keep_all(10), vec![reader(0)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    // Every third message to the reader is lost, up to the 40th.
    pair.fate = |state, to_reader| {
        *state += 1;
        if to_reader && *state % 3 == 0 && *state < 40 { vec![] } else { vec![Span::from_micros(50)] }
    };
    let bytes: Vec<u8> = (0..40_000_u32).map(|i| (i / 7) as u8).collect();
    pair.write(1, &bytes);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.take(0)[0].payload[5..], bytes);
    let counters = pair.writer.counters();
    assert_eq!(counters.samples_repaired, 0);
    assert!((1..=16).contains(&counters.fragments_repaired), "{counters:?}");
}

#[test]
fn late_joiner_receives_held_samples() {
    let mut config = WriterConfig { durable: true, ..WriterConfig::new(writer_guid()) };
    config.history = HistoryKind::KeepLast(2);
    let mut late = reader(0);
    late.wants_history = true;
    let mut volatile = reader(1);
    volatile.wants_history = false;
    let mut pair = Pair::new(config, vec![late, volatile]);
    for k in [1, 1, 1, 2] {
        pair.write(k, b"x");
    }
    pair.match_all(1472);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [2, 3, 4]);
    pair.write(1, b"y");
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [5]);
    assert_eq!(pair.readers[0].counters().lost, 1, "the first sample was replaced before the match");
    let lost = ReaderEvent::SampleLost(1, SampleLostReason::NoLongerHeld);
    assert!(pair.reader_events[0].contains(&lost), "{:?}", pair.reader_events[0]);
}

/// Some readers request announced samples once, and then only after another HEARTBEAT.
#[test]
fn history_is_announced_to_late_joiner_until_it_answers() {
    let config = WriterConfig { durable: true, ..WriterConfig::new(writer_guid()) };
    let mut late = reader(0);
    late.wants_history = true;
    let mut pair = Pair::new(config, vec![late]);
    pair.write(1, b"x");
    pair.run(Span::from_secs(1));
    pair.fate = |_, _| vec![];
    pair.match_all(1472);
    pair.sent.clear();
    pair.run(Span::from_secs(1));
    assert!(pair.sent.len() > 3, "{:?}", shapes(&pair));
    assert!(shapes(&pair).iter().all(|shape| *shape == ["INFO_DST", "HEARTBEAT"]), "{:?}", shapes(&pair));
}

#[test]
fn best_effort_late_joiner_receives_history_without_request() {
    let config = WriterConfig { durable: true, history: HistoryKind::KeepAll, ..WriterConfig::new(writer_guid()) };
    let mut best_effort = reader(0);
    best_effort.reliable = false;
    best_effort.wants_history = true;
    let mut pair = Pair::new(config, vec![best_effort]);
    (0..5).for_each(|n| _ = pair.write(n, &[n; 3000]));
    pair.match_one_of(0, 1472, VendorId::CYCLONE, false);
    pair.run(Span::from_secs(1));
    assert_eq!(pair.taken_numbers(0), [1, 2, 3, 4, 5]);
    assert!(pair.answered.is_empty());
}

/// At any length of the history, at most one burst is sent at once, and new samples follow it.
#[test]
fn history_to_best_effort_late_joiner_is_sent_in_bursts() {
    let config = WriterConfig { durable: true, history: HistoryKind::KeepAll, ..WriterConfig::new(writer_guid()) };
    let mut best_effort = reader(0);
    best_effort.reliable = false;
    best_effort.wants_history = true;
    let mut pair = Pair::new(config, vec![best_effort]);
    (0..40).for_each(|n| _ = pair.write(n, &[n; 100_000]));
    pair.match_one_of(0, 60_000, VendorId::CYCLONE, false);
    let octets = |pair: &Pair| pair.sent.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    let burst = HISTORY_PUSH_BYTES + 110_000;
    assert!((HISTORY_PUSH_BYTES..burst).contains(&octets(&pair)), "{}", octets(&pair));
    pair.write(40, &[40; 100]);
    assert!(octets(&pair) < burst, "new samples overtake the history");
    pair.run(HISTORY_PUSH_INTERVAL.times(2));
    assert!(octets(&pair) < 3 * burst, "{}", octets(&pair));
    pair.run(Span::from_secs(1));
    pair.write(41, &[41; 100]);
    pair.run(Span::from_millis(1));
    assert_eq!(pair.taken_numbers(0), (1..=42).collect::<Vec<_>>());
    assert_eq!(pair.writer.poll_timeout(), None);
}

#[test]
fn silent_reader_is_inactive_until_it_answers() {
    let mut pair = Pair::new(keep_all(2), vec![reader(0), reader(1)]);
    pair.match_all(1472);
    pair.run(Span::from_millis(5));
    // Reader 1 neither sends nor receives.
    pair.fate = |_, _| vec![Span::from_micros(50)];
    let deaf = pair.readers.remove(1);
    pair.readers.push(crate::reader::Reader::new(ReaderConfig::new(reader_guid(1))));
    let start = pair.now;
    for n in 0..20 {
        pair.write(1, &[n]);
    }
    assert!(pair.now.since(start) < Span::from_secs(30), "{} passed", pair.now.since(start));
    assert!(pair.writer_events.contains(&WriterEvent::ReaderInactive(reader_guid(1))));
    assert_eq!(pair.writer.counters().readers_inactive, 1);
    assert!(pair.writer.is_acknowledged(SequenceNumber(1)), "the writer does not wait for the inactive reader");
    assert!(
        !pair.writer.is_acknowledged_by_all(SequenceNumber(1)),
        "the inactive reader is matched and has not acknowledged"
    );
    pair.readers[1] = deaf;
    pair.run(Span::from_secs(5));
    assert!(pair.writer.is_acknowledged_by_all(SequenceNumber(20)));
    assert!(pair.writer_events.contains(&WriterEvent::ReaderActive(reader_guid(1))));
    assert_eq!(pair.taken_numbers(0).len(), 20);
}

#[test]
fn dispose_has_key_hash_and_key() {
    let mut pair = Pair::new(keep_all(10), vec![reader(0)]);
    pair.match_all(1472);
    pair.sent.clear();
    let mut change = pair.change(7, b"");
    change.kind = ChangeKind::Disposed;
    pair.writer.write(pair.now, change).unwrap();
    pair.pump();
    let (_, message) = &pair.sent[0];
    let data = Submessages::new(&message[20..]).find_map(|s| match s.unwrap() {
        Submessage::Data(data) => Some(data),
        _ => None,
    });
    let data = data.unwrap();
    assert!(matches!(data.payload, crate::wire::Payload::Key(bytes) if bytes[..5] == [0, 1, 0, 0, 7]));
    let qos = crate::wire::InlineQos::parse(&data.inline_qos.unwrap(), VendorId::PEREGRINE).unwrap();
    assert_eq!(qos.key_hash, Some(crate::pair::key(7)));
    assert_eq!(qos.status_info, crate::wire::StatusInfo::DISPOSED);
    pair.run(Span::from_secs(1));
    let info = pair.take(0)[0].info;
    assert!(!info.valid_data);
    assert_eq!(info.instance_state, crate::history::InstanceState::NotAliveDisposed);
}

/// A reader of this vendor that accepts the largest messages.
fn foreign_reader(index: usize, vendor: VendorId) -> MatchedReader {
    MatchedReader {
        guid: reader_guid(index),
        reliable: true,
        wants_history: false,
        to: Arc::new([]),
        group: None,
        max_message_bytes: MESSAGE_BYTES_MAX,
        expects_inline_qos: false,
        positive_acks_disabled: false,
        vendor,
        filter: None,
        owed_answers: Arc::default(),
        address_budget: Arc::default(),
    }
}

/// The messages that a writer has to send.
fn sent(writer: &mut Writer) -> Vec<Vec<u8>> {
    let mut batch = TransmitBatch::default();
    let mut messages = vec![];
    while writer.poll_transmit(&mut batch) {
        messages.extend(batch.messages().map(|m| m.parts().flatten().copied().collect::<Vec<u8>>()));
        batch.clear();
    }
    messages
}

#[test]
fn short_key_is_not_sent_while_fast_dds_reader_is_matched() {
    let now = Instant(1);
    let pair = Pair::new(keep_all(10), vec![]);
    let key_of_disposal = |readers: &[VendorId], key_octets: usize| {
        let mut writer = Writer::new(keep_all(10));
        for (index, vendor) in readers.iter().enumerate() {
            writer.match_reader(now, foreign_reader(index, *vendor));
        }
        drop(sent(&mut writer));
        let mut change = pair.change(7, b"");
        change.kind = ChangeKind::Disposed;
        change.payload = crate::payload::Payload::copy_of(&vec![0; key_octets]);
        writer.write(now, change).unwrap();
        let messages = sent(&mut writer);
        let mut submessages = Submessages::new(&messages[0][20..]);
        let data = submessages.find_map(|s| match s.unwrap() {
            Submessage::Data(data) => Some(data),
            _ => None,
        });
        let data = data.unwrap();
        let qos = crate::wire::InlineQos::parse(&data.inline_qos.unwrap(), VendorId::PEREGRINE).unwrap();
        assert_eq!(qos.key_hash, Some(crate::pair::key(7)));
        data.payload.as_bytes().len()
    };
    assert_eq!(key_of_disposal(&[VendorId::CYCLONE], 8), 8);
    assert_eq!(key_of_disposal(&[VendorId::FAST_DDS], 8), 0);
    assert_eq!(key_of_disposal(&[VendorId::CYCLONE, VendorId::FAST_DDS], 16), 0);
    assert_eq!(key_of_disposal(&[VendorId::FAST_DDS], 20), 20);
}

#[test]
fn messages_to_fast_dds_fit_into_receive_buffer() {
    let longest = |vendor| {
        let now = Instant(1);
        let mut writer = Writer::new(keep_all(10));
        writer.match_reader(now, foreign_reader(0, vendor));
        let payload = crate::payload::Payload::copy_of(&[0; 200_000]);
        let change = Change { payload, ..Pair::new(keep_all(1), vec![]).change(7, b"") };
        writer.write(now, change).unwrap();
        sent(&mut writer).iter().map(Vec::len).max().unwrap()
    };
    assert!(longest(VendorId::FAST_DDS) <= 65_500);
    assert!(longest(VendorId::CYCLONE) > longest(VendorId::FAST_DDS));
}

#[test]
fn samples_kept_for_unmatched_reader_are_released() {
    let now = Instant(1);
    let mut writer = Writer::new(keep_all(100));
    writer.match_reader(now, foreign_reader(0, VendorId::CYCLONE));
    writer.match_reader(now, MatchedReader { reliable: false, ..foreign_reader(1, VendorId::CYCLONE) });
    let payload = crate::payload::Payload::copy_of(&[0; 200_000]);
    let change = || Change { payload: payload.clone(), ..Pair::new(keep_all(1), vec![]).change(7, b"") };
    (0..20).for_each(|_| _ = writer.write(now, change()).unwrap());
    assert!(writer.counters().samples_sent < 20, "the window closes before the last sample");
    assert!(writer.unmatch_reader(now, reader_guid(0)));
    assert_eq!(writer.counters().samples_sent, 20);
    assert!(writer.history().is_empty());
}

#[test]
fn repairs_and_repeated_requests_do_not_measure_round_trip() {
    let acknack = |base, count| AckNack {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        state: SequenceNumberSet::empty(SequenceNumber(base)),
        count: Count(count),
        is_final: true,
    };
    let nack_frag = NackFrag {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        sequence_number: SequenceNumber(1),
        state: FragmentNumberSet::from_ascending(FragmentNumber(2), [FragmentNumber(2)]),
        count: Count(1),
    };
    let started = Instant(1_000_000_000);
    for is_repaired in [true, false] {
        let mut now = started;
        let mut writer = Writer::new(keep_all(10));
        writer.match_reader(now, foreign_reader(0, VendorId::CYCLONE));
        let payload = crate::payload::Payload::copy_of(&[0; 200_000]);
        let change = || Change { payload: payload.clone(), ..Pair::new(keep_all(1), vec![]).change(7, b"") };
        writer.write(now, change()).unwrap();
        now = now + Span::from_secs(5);
        if is_repaired {
            writer.handle_nack_frag(now, reader_guid(0), &nack_frag);
        } else {
            writer.handle_timeout(now);
        }
        writer.handle_acknack(now, reader_guid(0), &acknack(2, 1));
        assert!(writer.is_acknowledged(SequenceNumber(1)));
        writer.write(now, change()).unwrap();
        let (again, timer) = writer.poll_timeout().unwrap();
        assert_eq!(timer, WriterTimer::Heartbeat);
        assert!(again.since(now) < Span::from_millis(100), "{is_repaired} {}", again.since(now));
    }
}

#[test]
fn acknowledgements_of_unmatched_readers_and_future_samples_are_ignored() {
    let mut pair = Pair::new(keep_all(10), vec![reader(0)]);
    pair.match_all(1472);
    pair.fate = |_, _| vec![];
    pair.write(1, b"x");
    let acknack = |base: i64, count: i32| AckNack {
        reader: reader_guid(0).entity,
        writer: writer_guid().entity,
        state: SequenceNumberSet::empty(SequenceNumber(base)),
        count: Count(count),
        is_final: true,
    };
    let stranger = Guid::new(crate::id::GuidPrefix([99; 12]), reader_guid(0).entity);
    pair.writer.handle_acknack(pair.now, stranger, &acknack(2, 1));
    assert!(!pair.writer.is_acknowledged(SequenceNumber(1)));
    pair.writer.handle_acknack(pair.now, reader_guid(0), &acknack(i64::MAX, 1));
    pair.writer.handle_acknack(pair.now, reader_guid(0), &acknack(3, 2));
    assert!(!pair.writer.is_acknowledged(SequenceNumber(1)), "it was never written");
    pair.writer.handle_acknack(pair.now, reader_guid(0), &acknack(2, 3));
    assert!(pair.writer.is_acknowledged(SequenceNumber(1)));
    pair.write(1, b"y");
    assert!(!pair.writer.is_acknowledged(SequenceNumber(2)), "a sample sent later is not acknowledged");
}

#[test]
fn rough_network_loses_duplicates_and_reorders_no_sample() {
    for seed in 1..=60 {
        let mut pair = Pair::new(keep_all(20), vec![reader(0), reader(1)]);
        pair.seed = seed;
        pair.fate = rough;
        pair.match_all(600);
        let mut expected = vec![];
        let mut sizes = seed;
        for n in 0..60_u32 {
            let len = random(&mut sizes) as usize % 3000;
            pair.write((n % 3) as u8, &vec![n as u8; len]);
            expected.push((n as u8, len));
        }
        pair.run(Span::from_secs(20));
        assert!(pair.writer.is_acknowledged(SequenceNumber(60)), "seed {seed}");
        for index in 0..2 {
            let taken = pair.take(index);
            let numbers: Vec<i64> = taken.iter().map(|s| s.info.sequence_number.0).collect();
            assert_eq!(numbers, (1..=60).collect::<Vec<_>>(), "seed {seed} reader {index}");
            for (sample, (value, len)) in taken.iter().zip(&expected) {
                // An unfragmented sample is padded to a multiple of four.
                assert_eq!(sample.payload.len().next_multiple_of(4), (5 + len).next_multiple_of(4));
                assert!(sample.payload[5..5 + len].iter().all(|b| b == value));
            }
        }
    }
}

#[test]
fn keep_last_delivers_last_sample_of_each_instance_over_rough_network() {
    for seed in 1..=30 {
        let mut config = keep_all(u32::MAX);
        config.history = HistoryKind::KeepLast(1);
        let mut last = reader(0);
        last.cache.history = HistoryKind::KeepLast(1);
        last.keys = Some(crate::pair::first_octet());
        let mut pair = Pair::new(config, vec![last]);
        pair.seed = seed;
        pair.fate = rough;
        pair.match_all(1472);
        for n in 0..100_u8 {
            pair.write(n % 5, &[n]);
        }
        pair.run(Span::from_secs(20));
        let mut values: Vec<u8> = pair.take(0).iter().map(|s| s.payload[5]).collect();
        values.sort_unstable();
        assert_eq!(values, [95, 96, 97, 98, 99], "seed {seed}");
    }
}

#[test]
fn writer_does_not_wait_for_reader_that_never_acknowledges() {
    let mut now = Instant(1_000_000_000);
    let mut writer = Writer::new(keep_all(4));
    let silent = MatchedReader { positive_acks_disabled: true, ..foreign_reader(0, VendorId::RTI) };
    assert!(writer.match_reader(now, silent));
    drop(sent(&mut writer));
    let pair = Pair::new(keep_all(1), vec![]);
    for n in 1..=10 {
        let number = writer.write(now, pair.change(7, &[n])).unwrap();
        assert!(writer.is_acknowledged(number));
    }
    assert_eq!(writer.counters().samples_sent, 10, "readers that never acknowledge have no window");
    assert_eq!(writer.history().len(), 4, "RESOURCE_LIMITS bounds the kept samples");
    drop(sent(&mut writer));
    // The reader requests missing samples and receives those still held.
    let state = SequenceNumberSet::from_ascending(SequenceNumber(3), [SequenceNumber(3), SequenceNumber(8)]);
    let (reader, writer_id) = (reader_guid(0).entity, writer_guid().entity);
    let acknack = AckNack { reader, writer: writer_id, state, count: Count(1), is_final: true };
    writer.handle_acknack(now, reader_guid(0), &acknack);
    let repair = sent(&mut writer).concat();
    let message: Vec<_> = Submessages::new(&repair[20..]).map(|s| s.unwrap()).collect();
    assert!(message.iter().any(|s| matches!(s, Submessage::Heartbeat(h) if h.first == SequenceNumber(7))));
    assert!(message.iter().any(|s| matches!(s, Submessage::Data(data) if data.sequence_number == SequenceNumber(8))));
    // HEARTBEATs announce held samples until these are released, and never require an answer.
    let started = now;
    let mut reminders = 0;
    while let Some((at, _)) = writer.poll_timeout() {
        now = at;
        writer.handle_timeout(now);
        for message in sent(&mut writer) {
            assert_eq!(shape(&message), ["INFO_DST", "HEARTBEAT(F)"]);
            reminders += 1;
        }
        assert!(now.since(started) <= UNACKNOWLEDGED_KEEP.times(2), "timers without bound");
    }
    assert!((5..30).contains(&reminders), "{reminders}");
    assert!(now.since(started) >= UNACKNOWLEDGED_KEEP);
    assert!(writer.history().is_empty());
    let events: Vec<_> = core::iter::from_fn(|| writer.poll_event()).collect();
    assert!(events.iter().all(|e| *e == WriterEvent::Acknowledged), "{events:?}");
}

#[test]
fn samples_kept_for_readers_that_never_acknowledge_are_bounded() {
    let now = Instant(1);
    let mut writer = Writer::new(keep_all(u32::MAX));
    writer.match_reader(now, MatchedReader { positive_acks_disabled: true, ..foreign_reader(0, VendorId::RTI) });
    let payload = crate::payload::Payload::copy_of(&[0; 1 << 20]);
    for _ in 0..100 {
        let change = Change { payload: payload.clone(), ..Pair::new(keep_all(1), vec![]).change(7, b"") };
        writer.write(now, change).unwrap();
        drop(sent(&mut writer));
        let held = writer.history().bytes_held();
        assert!(held <= (UNACKNOWLEDGED_KEEP_BYTES + (2 << 20)) as u64, "{held}");
    }
}

#[test]
fn writer_waits_for_acknowledging_reader_beside_one_that_does_not() {
    let mut pair = Pair::new(keep_all(5), vec![reader(0)]);
    pair.match_all(1472);
    let silent = MatchedReader { positive_acks_disabled: true, ..foreign_reader(7, VendorId::RTI) };
    pair.writer.match_reader(pair.now, silent);
    let number = pair.write(1, b"x");
    assert!(!pair.writer.is_acknowledged(number));
    pair.run(Span::from_millis(100));
    assert!(pair.writer.is_acknowledged(number));
    assert_eq!(pair.writer.history().len(), 1, "the writer keeps the sample for the other reader");
    pair.run(Span::from_secs(5));
    assert!(pair.writer.history().is_empty());
}

#[test]
fn submessage_after_payload_of_any_length_is_aligned() {
    // Payloads up to 4096 bytes are copied into the message; longer ones are referenced.
    for len in (90..100).chain(4080..4110).chain(6000..6008) {
        let mut pair = Pair::new(keep_all(50), vec![reader(0)]);
        pair.match_all(9000);
        pair.run(Span::from_millis(100));
        for _ in 0..3 {
            pair.sent.clear();
            pair.write(1, &vec![0; len]);
            let (_, message) = &pair.sent[0];
            assert_eq!(shape(message), ["INFO_TS", "DATA", "HEARTBEAT"], "{len}");
            assert_eq!(message.len(), 20 + 12 + 24 + (5 + len).next_multiple_of(4) + 32, "{len}");
            pair.run(Span::from_millis(100));
        }
        assert_eq!(pair.taken_numbers(0), [1, 2, 3]);
    }
}

mod extremes {
    use super::*;
    use proptest::prelude::*;

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![0i64..30, (0i64..300).prop_map(|n| i64::MAX - n), any::<i64>()]
    }

    fn fragment() -> impl Strategy<Value = u32> {
        prop_oneof![1u32..30, (0u32..300).prop_map(|n| u32::MAX - n), 1..=u32::MAX]
    }

    proptest! {
        #[test]
        fn any_numbers_cause_bounded_work(
            all in proptest::collection::vec((number(), fragment(), any::<[u32; 8]>(), any::<bool>()), 1..30),
        ) {
            let now = Instant(1);
            let mut writer = Writer::new(keep_all(100));
            writer.match_reader(now, foreign_reader(0, VendorId::CYCLONE));
            let change = |len: usize| {
                let payload = crate::payload::Payload::copy_of(&vec![0; len]);
                Change { payload, ..Pair::new(keep_all(1), vec![]).change(7, b"") }
            };
            (0..10).for_each(|n| _ = writer.write(now, change(n * 20_000)).unwrap());
            drop(sent(&mut writer));
            let (reader, writer_id) = (reader_guid(0).entity, writer_guid().entity);
            for (index, (number, first, words, is_acknack)) in all.into_iter().enumerate() {
                let count = Count(index as i32 + 1);
                if is_acknack {
                    let state = SequenceNumberSet::from_words(SequenceNumber(number), 256, words).unwrap();
                    let acknack = AckNack { reader, writer: writer_id, state, count, is_final: false };
                    writer.handle_acknack(now, reader_guid(0), &acknack);
                } else {
                    let state = FragmentNumberSet::from_words(FragmentNumber(first), 256, words).unwrap();
                    let sequence_number = SequenceNumber(number);
                    let nack = NackFrag { reader, writer: writer_id, sequence_number, state, count };
                    writer.handle_nack_frag(now, reader_guid(0), &nack);
                }
                let answer = sent(&mut writer);
                prop_assert!(answer.len() <= 600, "{} messages", answer.len());
                prop_assert!(writer.last() == SequenceNumber(10));
            }
        }
    }
}

/// A latency budget bounds the delay of a batch, but the default, zero, does not disable batching.
#[test]
fn latency_budget_bounds_time_of_gathering() {
    for (budget, waits) in [(Span::ZERO, Span::from_secs(9)), (Span::from_millis(3), Span::from_millis(3))] {
        let mut config = keep_all(1000);
        config.batching = Some(Batching { max_bytes: 10_000, max_delay: Span::from_secs(9) });
        config.latency_budget = budget;
        // No reader acknowledges, so no other timer runs.
        let mut pair = Pair::new(config, vec![ReaderConfig { reliable: false, ..reader(0) }]);
        pair.match_one_of(0, 1472, VendorId::PEREGRINE, false);
        pair.write(1, b"12345");
        assert_eq!(pair.writer.poll_timeout(), Some((pair.now + waits, WriterTimer::Batch)));
        pair.writer.flush(pair.now);
        pair.writer.set_latency_budget(Span::from_millis(1));
        pair.write(1, b"12345");
        assert_eq!(pair.writer.poll_timeout(), Some((pair.now + Span::from_millis(1), WriterTimer::Batch)));
    }
}
