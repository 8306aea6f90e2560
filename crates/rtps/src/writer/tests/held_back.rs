//! Samples that the flow controller of an asynchronous writer does not release are reported, and so is the end of that.

use super::*;
use crate::limits::STALL_AFTER;
use crate::transmit::TransmitBatch;
use crate::writer::HeldBack;
use core::time::Duration;

const INTERVAL: Span = Span::from_millis(100);

/// A writer whose flow controller is the test, with a matched reader.
fn pair_with_controller(is_reliable: bool) -> Pair {
    let config = WriterConfig { asynchronous: true, ..keep_all(1000) };
    let mut pair = Pair::new(config, vec![ReaderConfig { reliable: is_reliable, ..reader(0) }]);
    pair.match_one_of(0, 1472, VendorId::PEREGRINE, is_reliable);
    pair.run(Span::from_millis(10));
    pair.publishes = None;
    pair
}

/// Reports of samples that are held back, and of the end, since the last call.
fn reported(pair: &mut Pair) -> Vec<WriterEvent> {
    let concerns = |e: &WriterEvent| matches!(e, WriterEvent::HeldBack { .. } | WriterEvent::HoldEnded { .. });
    core::mem::take(&mut pair.writer_events).into_iter().filter(concerns).collect()
}

/// The controller releases one sample, which no reader acknowledges.
fn release_one(pair: &mut Pair) {
    let mut batch = TransmitBatch::default();
    pair.writer.publish(pair.now, 1);
    assert!(pair.writer.poll_transmit(&mut batch));
    pair.writer.reclaim(&mut batch);
    pair.writer.note_sent(pair.now);
}

#[test]
fn sample_that_flow_controller_does_not_release_is_reported_after_a_second_and_its_release_at_once() {
    let mut pair = pair_with_controller(true);
    pair.write(1, b"sample");
    pair.run(Span::from_millis(900));
    assert_eq!(reported(&mut pair), []);
    pair.write(1, b"sample");
    pair.run(Span::from_millis(500));
    let reports = reported(&mut pair);
    assert!(
        matches!(reports[..], [WriterEvent::HeldBack { cause: HeldBack::FlowController, lasting }] if lasting == STALL_AFTER),
        "{reports:?}"
    );
    pair.run(Span::from_secs(3));
    assert_eq!(reported(&mut pair), [], "samples that are held back are reported once");
    let status = pair.writer.status(pair.now);
    assert_eq!((status.unsent, status.held_back), (2, Some(HeldBack::FlowController)));
    assert_eq!(status.held_back_for, Some(Duration::from_millis(4400)));
    assert_eq!(status.stalls(), [], "the reader is not the cause");
    assert_eq!(pair.writer.counters().stalls, 1);

    pair.publishes = Some(1 << 16);
    pair.pump();
    let reports = reported(&mut pair);
    assert!(
        matches!(reports[..], [WriterEvent::HoldEnded { lasted }] if lasted == Span::from_millis(4400)),
        "{reports:?}"
    );
    assert_eq!(pair.writer.status(pair.now).held_back_for, None);
    pair.run(Span::from_secs(5));
    assert_eq!((reported(&mut pair), pair.writer.poll_timeout()), (vec![], None));
}

#[test]
fn samples_that_always_leave_late_are_reported_once_until_they_leave_in_time() {
    let mut pair = pair_with_controller(false);
    for _ in 0..50 {
        pair.write(1, b"sample");
        pair.run(INTERVAL);
    }
    assert_eq!(reported(&mut pair).len(), 1);
    for _ in 0..200 {
        pair.write(1, b"sample");
        release_one(&mut pair);
        pair.run(INTERVAL);
    }
    assert_eq!((reported(&mut pair), pair.writer.status(pair.now).unsent), (vec![], 50));
    // The controller catches up: the last samples wait for less than a second.
    for _ in 0..45 {
        pair.write(1, b"sample");
        release_one(&mut pair);
        release_one(&mut pair);
        pair.run(INTERVAL);
    }
    let reports = reported(&mut pair);
    assert!(matches!(reports[..], [WriterEvent::HoldEnded { lasted }] if lasted > Span::from_secs(20)), "{reports:?}");
}

#[test]
fn samples_that_leave_in_time_are_not_reported_and_set_one_timer_per_second() {
    let mut pair = pair_with_controller(false);
    let mut wake_ups = std::collections::BTreeSet::new();
    for _ in 0..100 {
        pair.write(1, b"sample");
        let (at, timer) = pair.writer.poll_timeout().unwrap();
        if timer == WriterTimer::Stall {
            wake_ups.insert(at);
        }
        pair.run(INTERVAL);
        release_one(&mut pair);
    }
    assert_eq!(reported(&mut pair), []);
    assert!((5..=12).contains(&wake_ups.len()), "{wake_ups:?}");
}

#[test]
fn reader_that_acknowledges_nothing_is_reported_in_place_of_the_samples_that_wait_for_it() {
    let mut pair = pair_with_controller(true);
    pair.publishes = Some(1 << 20);
    pair.silenced.insert(0);
    for _ in 0..40 {
        pair.write(1, &[7; 60_000]);
    }
    assert!(pair.writer.unsent() > 0, "the window is closed");
    pair.run(Span::from_secs(3));
    let is_stall = |event: &WriterEvent| matches!(event, WriterEvent::Stalled(_));
    assert_eq!(pair.writer_events.iter().filter(|event| is_stall(event)).count(), 1);
    assert_eq!(reported(&mut pair), []);
    assert_eq!(pair.writer.status(pair.now).held_back, Some(HeldBack::Acknowledgements));
    // The window opens before the flow controller can release anything.
    pair.silenced.clear();
    pair.run(Span::from_secs(3));
    assert_eq!((reported(&mut pair), pair.writer.unsent()), (vec![], 0));
}

#[test]
fn sample_whose_messages_the_driver_has_not_sent_is_held_back() {
    let mut pair = pair_with_controller(false);
    let mut batch = TransmitBatch::default();
    pair.write(1, b"sample");
    pair.writer.publish(pair.now, 1);
    assert!(pair.writer.poll_transmit(&mut batch));
    pair.run(Span::from_secs(2));
    assert_eq!(reported(&mut pair).len(), 1);
    let status = pair.writer.status(pair.now);
    assert_eq!((status.unsent, status.held_back), (0, Some(HeldBack::FlowController)));
    pair.writer.reclaim(&mut batch);
    pair.writer.note_sent(pair.now);
    pair.pump();
    let reports = reported(&mut pair);
    assert!(matches!(reports[..], [WriterEvent::HoldEnded { .. }]), "{reports:?}");
}

#[test]
fn hold_ends_within_a_second_after_the_last_reader_has_left() {
    let mut pair = pair_with_controller(true);
    pair.write(1, b"sample");
    pair.run(Span::from_secs(2));
    assert_eq!(reported(&mut pair).len(), 1);
    pair.writer.unmatch_reader(pair.now, reader_guid(0));
    pair.run(STALL_AFTER);
    let reports = reported(&mut pair);
    assert!(matches!(reports[..], [WriterEvent::HoldEnded { .. }]), "{reports:?}");
    assert_eq!(pair.writer.poll_timeout(), None);
}
