use peregrine_rtps::history::{ChangeKind, HistoryKind};
use peregrine_rtps::id::{EntityId, GuidPrefix, KeyHash};
use peregrine_rtps::limits::SEND_QUEUE_BYTES_MAX;
use peregrine_rtps::payload::Payload;
use peregrine_rtps::seq::{Count, SequenceNumberSet};
use peregrine_rtps::time::Timestamp;
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::wire::AckNack;
use peregrine_rtps::writer::{HandOverBatch, WriterConfig};

use super::*;

fn guid(prefix: u8) -> Guid {
    Guid { prefix: GuidPrefix([prefix; 12]), entity: EntityId([0, 0, 1, prefix]) }
}

/// A write waits for a reader that keeps up, and only once for a slow one.
#[test]
fn second_write_does_not_wait_for_slow_reader() {
    let config = WriterConfig { history: HistoryKind::KeepAll, ..WriterConfig::new(guid(2)) };
    let mut state = WriterState::new(Writer::new(config));
    let reader = guid(7);
    assert!(state.writer.match_reader(Instant(0), matched(reader)));
    for _ in 0..2 {
        write(&mut state);
        assert!(!state.must_wait_for_readers(), "the window is open");
    }
    write(&mut state);
    assert!(state.must_wait_for_readers());
    state.is_outpaced = true;
    (0..7).for_each(|_| write(&mut state));
    assert!(!state.must_wait_for_readers(), "it was in vain before");
    // One sample was acknowledged, so another is sent: the reader is still behind.
    acknowledge(&mut state, reader, 2);
    assert!(!state.must_wait_for_readers());
    (3..=11).for_each(|below| acknowledge(&mut state, reader, below));
    assert!(!state.must_wait_for_readers() && !state.is_outpaced, "everything has left");
    (0..12).for_each(|_| write(&mut state));
    assert!(state.must_wait_for_readers());
}

/// The thread that runs the listener may be the one that receives the reader's acknowledgements.
#[test]
fn writing_listener_does_not_wait_for_readers() {
    let config = WriterConfig { history: HistoryKind::KeepAll, ..WriterConfig::new(guid(2)) };
    let mut state = WriterState::new(Writer::new(config));
    assert!(state.writer.match_reader(Instant(0), matched(guid(7))));
    (0..3).for_each(|_| write(&mut state));
    let mut in_listener = None;
    let gate = ListenerGate::default();
    assert!(gate.add(StatusMask::ACKNOWLEDGED));
    let _ = gate.run(|_| in_listener = Some(state.must_wait_for_readers()));
    assert_eq!(in_listener, Some(false));
    assert!(state.must_wait_for_readers());
}

#[test]
fn writer_with_unsent_samples_is_not_settled() {
    let mut state = WriterState::new(Writer::new(WriterConfig::new(guid(2))));
    write(&mut state);
    assert!(state.is_settled(), "no reader is there to miss anything");
    state.sending = Sending::Busy;
    assert!(!state.is_settled(), "another thread sends");
    state.sending = Sending::Parked(Box::default());
    assert!(!state.is_settled(), "the publishing thread is to send");
}

fn matched(guid: Guid) -> MatchedReader {
    MatchedReader {
        guid,
        reliable: true,
        wants_history: false,
        to: Arc::new([]),
        group: None,
        max_message_bytes: 65_507,
        expects_inline_qos: false,
        positive_acks_disabled: false,
        vendor: VendorId::PEREGRINE,
        filter: None,
        owed_answers: Arc::default(),
        address_budget: Arc::default(),
    }
}

/// Writes 0.4 MB; at first one such sample may be in transit.
fn write(state: &mut WriterState) {
    let change = Change {
        kind: ChangeKind::Alive,
        instance: KeyHash::default(),
        source_timestamp: Timestamp::from_unix_nanos(0),
        payload: Payload::copy_of(&[0; 400_000]),
    };
    state.writer.write(Instant(0), change).unwrap();
}

fn acknowledge(state: &mut WriterState, reader: Guid, below: i64) {
    let acknack = AckNack {
        reader: reader.entity,
        writer: state.writer.guid().entity,
        state: SequenceNumberSet::empty(SequenceNumber(below)),
        count: Count(below as i32),
        is_final: true,
    };
    state.writer.handle_acknack(Instant(0), reader, &acknack);
}

/// While another thread sends without end, the samples that this thread writes are bounded.
#[test]
fn best_effort_writes_while_another_thread_sends_are_bounded() {
    const LEN: usize = 1_000;
    let config = WriterConfig { reliable: false, ..WriterConfig::new(guid(2)) };
    let mut state = WriterState::new(Writer::new(config));
    assert!(state.writer.match_reader(Instant(0), MatchedReader { reliable: false, ..matched(guid(7)) }));
    state.sending = Sending::Busy;
    let refused = (0..100_000).find_map(|_| {
        let payload = Payload::new(Arc::new(vec![0; LEN]), 0..LEN).unwrap();
        let (kind, instance, source_timestamp) = (ChangeKind::Alive, KeyHash::NIL, Timestamp::from_unix_nanos(0));
        state.write(Instant(0), Change { kind, instance, source_timestamp, payload }).err().map(|(full, _)| full)
    });
    assert_eq!(refused, Some(Full::SendQueue));
    let mut batch = TransmitBatch::default();
    assert!(state.writer.poll_transmit(&mut batch));
    let queued = batch.total_bytes();
    assert!((SEND_QUEUE_BYTES_MAX..SEND_QUEUE_BYTES_MAX + 2 * LEN).contains(&queued), "{queued}");
    assert!(!state.writer.is_send_queue_full(), "the thread that sends has taken it");
}

/// The same bound holds for delivery by reference, where changes of a slow reader wait in memory.
#[test]
fn undelivered_changes_are_bounded() {
    const LEN: usize = 10_000;
    let mut state = WriterState::new(Writer::new(WriterConfig::new(guid(2))));
    assert!(state.writer.match_reader_by(Instant(0), matched(guid(7)), ReaderPath::HandOver));
    state.sending = Sending::Busy;
    let accepted = (0..100_000).take_while(|_| {
        let payload = Payload::new(Arc::new(vec![0; LEN]), 0..LEN).unwrap();
        let (kind, instance, source_timestamp) = (ChangeKind::Alive, KeyHash::NIL, Timestamp::from_unix_nanos(0));
        state.write(Instant(0), Change { kind, instance, source_timestamp, payload }).is_ok()
    });
    assert!(accepted.count() * LEN <= SEND_QUEUE_BYTES_MAX + LEN);
    let mut batch = HandOverBatch::default();
    assert!(state.writer.poll_hand_over(&mut batch));
    assert!(!state.writer.is_send_queue_full());
}
