//! A writer and a reader, with any network between them and any application. Without forged messages every sample
//! arrives once and in order; with them nothing panics and the stored state stays within its bounds.
#![no_main]

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use peregrine_rtps::history::{Change, ChangeKind, HistoryKind, ResourceLimits, Selector};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix, KeyHash};
use peregrine_rtps::locator::{Locator, Source};
use peregrine_rtps::payload::Payload;
use peregrine_rtps::reader::{KeyExtractor, MatchedWriter, MessageBuffer, Reader, ReaderConfig, Reception, SampleMeta};
use peregrine_rtps::receiver::{DropReason, Envelope, Input, Receive, interpret};
use peregrine_rtps::seq::{Count, FragmentNumber, FragmentNumberSet, SequenceNumber, SequenceNumberSet};
use peregrine_rtps::time::{Instant, Span, Timestamp};
use peregrine_rtps::transmit::TransmitBatch;
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::wire::{AckNack, Data, DataFrag, Gap, Heartbeat, HeartbeatFrag, NackFrag, Payload as WirePayload};
use peregrine_rtps::writer::{MatchedReader, Writer, WriterConfig};

const WRITER: Guid = Guid::new(GuidPrefix([1; 12]), EntityId::user_writer(1, true));
const READER: Guid = Guid::new(GuidPrefix([2; 12]), EntityId::user_reader(1, true));
/// The source of all messages; nothing depends on it.
const SOURCE: Source = Source::Datagram(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7410));
const MESSAGE_BYTES: usize = 600;
const MEMORY_PER_WRITER: usize = 1 << 18;
const SAMPLE_BYTES_MAX: u32 = 1 << 17;
const READER_LIMITS: ResourceLimits =
    ResourceLimits { max_samples: 16, max_instances: 8, max_samples_per_instance: 16 };
const WRITER_LIMITS: ResourceLimits =
    ResourceLimits { max_samples: 32, max_instances: 8, max_samples_per_instance: 32 };

#[derive(Arbitrary, Debug)]
enum Step {
    Write {
        instance: u8,
        len: u16,
        kind: u8,
    },
    /// Messages in flight arrive, are lost, are duplicated, or overtake each other.
    Deliver,
    Lose,
    Double,
    Overtake,
    Wait {
        micros: u32,
    },
    Take {
        at_most: u8,
    },
    Flush,
    Forge(Forgery),
}

/// A message that neither the writer nor the reader has sent.
#[derive(Arbitrary, Debug)]
enum Forgery {
    Data { number: i64, instance: u8, is_key: bool },
    Frag { number: i64, starting: u32, count: u16, fragment_size: u16, sample_size: u32, len: u16 },
    Heartbeat { first: i64, last: i64, count: i32, is_final: bool, liveliness: bool },
    HeartbeatFrag { number: i64, last: u32, count: i32 },
    Gap { start: i64, base: i64, bits: u8, words: [u32; 8] },
    AckNack { base: i64, bits: u8, words: [u32; 8], count: i32, is_final: bool },
    NackFrag { number: i64, base: u32, bits: u8, words: [u32; 8], count: i32 },
}

struct Pair {
    now: Instant,
    writer: Writer,
    reader: Reader,
    to_reader: VecDeque<Vec<u8>>,
    to_writer: VecDeque<Vec<u8>>,
    written: Vec<i64>,
    taken: Vec<i64>,
    is_honest: bool,
}

fuzz_target!(|steps: Vec<Step>| {
    let mut pair = Pair::new();
    for step in steps.into_iter().take(300) {
        pair.step(step);
        pair.pump();
        pair.check();
    }
    pair.finish();
});

fn instance_of(payload: &[u8], _: bool) -> Option<KeyHash> {
    payload.get(4).map(|id| KeyHash([*id; 16]))
}

impl Pair {
    fn new() -> Self {
        let mut config = WriterConfig::new(WRITER);
        config.history = HistoryKind::KeepAll;
        config.limits = WRITER_LIMITS;
        config.default_message_bytes = MESSAGE_BYTES;
        let mut writer = Writer::new(config);
        let mut config = ReaderConfig::new(READER);
        config.reliable = true;
        config.cache.history = HistoryKind::KeepAll;
        config.cache.limits = READER_LIMITS;
        config.cache.topic_order = true;
        config.keys = Some(KeyExtractor(instance_of));
        config.max_sample_bytes = SAMPLE_BYTES_MAX;
        config.memory_per_writer = MEMORY_PER_WRITER;
        let mut reader = Reader::new(config);
        let now = Instant(1_000_000_000);
        let to: Arc<[Locator]> = Arc::new([Locator { kind: Locator::UDP_V4, port: 1, address: [1; 16], scope: 0 }]);
        assert!(reader.match_writer(now, matched_writer(&to)));
        assert!(writer.match_reader(now, matched_reader(&to)));
        let (to_reader, to_writer) = (VecDeque::new(), VecDeque::new());
        let mut pair =
            Self { now, writer, reader, to_reader, to_writer, written: vec![], taken: vec![], is_honest: true };
        pair.pump();
        pair
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_unix_nanos(self.now.0 + 1_700_000_000_000_000_000)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write { instance, len, kind } => self.write(instance % 6, usize::from(len), kind),
            Step::Deliver => self.deliver(),
            Step::Lose => {
                self.to_reader.pop_front();
                self.to_writer.pop_front();
            }
            Step::Double => {
                self.to_reader.extend(self.to_reader.front().cloned());
                self.to_writer.extend(self.to_writer.front().cloned());
            }
            Step::Overtake => {
                self.to_reader.rotate_left(usize::from(self.to_reader.len() > 1));
                self.to_writer.rotate_left(usize::from(self.to_writer.len() > 1));
            }
            Step::Wait { micros } => self.wait(Span::from_micros(u64::from(micros % 1_000_000))),
            Step::Take { at_most } => self.take(usize::from(at_most)),
            Step::Flush => self.writer.flush(self.now),
            Step::Forge(forgery) => self.forge(forgery),
        }
    }

    fn write(&mut self, instance: u8, len: usize, kind: u8) {
        let kind = match kind % 8 {
            0 => ChangeKind::Disposed,
            1 => ChangeKind::Unregistered,
            _ => ChangeKind::Alive,
        };
        let mut payload = vec![0, 1, 0, 0, instance];
        payload.resize(8 + if kind.is_alive() { len } else { 0 }, 7);
        let change = Change {
            kind,
            instance: KeyHash([instance; 16]),
            source_timestamp: self.wall(),
            payload: Payload::copy_of(&payload),
        };
        if let Ok(number) = self.writer.write(self.now, change)
            && kind.is_alive()
        {
            self.written.push(number.0);
        }
    }

    fn deliver(&mut self) {
        let (now, wall) = (self.now, self.wall());
        if let Some(bytes) = self.to_reader.pop_front() {
            let buffer = Arc::new(bytes);
            let rx = Reception { now, wall, buffer: Some(MessageBuffer::Received(&buffer)), source: SOURCE };
            interpret(&buffer, READER.prefix, &mut Arrival { rx, writer: None, reader: Some(&mut self.reader) });
        }
        if let Some(bytes) = self.to_writer.pop_front() {
            let rx = Reception { now, wall, buffer: None, source: SOURCE };
            interpret(&bytes, WRITER.prefix, &mut Arrival { rx, writer: Some(&mut self.writer), reader: None });
        }
    }

    /// Collects the messages that the writer and the reader have to send.
    fn pump(&mut self) {
        let mut batch = TransmitBatch::default();
        let copy = |batch: &TransmitBatch, to: &mut VecDeque<Vec<u8>>| {
            for message in batch.messages() {
                assert!(message.len() <= MESSAGE_BYTES, "a message of {} bytes", message.len());
                let mut bytes = Vec::new();
                message.copy_to(&mut bytes);
                to.push_back(bytes);
            }
        };
        while self.writer.poll_transmit(&mut batch) {
            copy(&batch, &mut self.to_reader);
            self.writer.reclaim(&mut batch);
        }
        while self.reader.poll_transmit(self.now, &mut batch) {
            copy(&batch, &mut self.to_writer);
            batch.clear();
        }
        while self.writer.poll_event().is_some() {}
        while self.reader.poll_event().is_some() {}
    }

    fn next_timeout(&self) -> Option<Instant> {
        let (writer, reader) = (self.writer.poll_timeout(), self.reader.poll_timeout());
        writer.map(|(at, _)| at).into_iter().chain(reader.map(|(at, _)| at)).min()
    }

    /// Lets time pass without delivering a message.
    fn wait(&mut self, span: Span) {
        let end = self.now + span;
        let mut rounds = 0;
        while let Some(at) = self.next_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let (now, wall) = (self.now, self.wall());
            self.writer.handle_timeout(now);
            self.reader.handle_timeout(now, wall);
            self.pump();
            rounds += 1;
            assert!(rounds < 10_000, "a timer expires endlessly at {at:?}");
        }
        self.now = end;
    }

    fn take(&mut self, at_most: usize) {
        let mut out = Vec::new();
        let selector = Selector { max_samples: at_most, ..Selector::ANY };
        let (now, wall) = (self.now, self.wall());
        self.reader.select(&selector, true, &mut out);
        self.reader.resume(now, wall);
        for sample in out {
            if sample.info.valid_data {
                self.taken.push(sample.info.sequence_number.0);
            }
            self.reader.recycle(sample.payload);
        }
    }

    fn check(&self) {
        let marks = 2 * READER_LIMITS.max_instances as usize;
        assert!(self.reader.cache().len() <= READER_LIMITS.max_samples as usize + marks + 64);
        assert!(self.reader.cache().instances() <= READER_LIMITS.max_instances as usize);
        assert!(self.reader.waiting().bytes <= 2 * MEMORY_PER_WRITER + 2 * SAMPLE_BYTES_MAX as usize);
        assert!(self.writer.history().len() <= 2 * WRITER_LIMITS.max_samples as usize + 300);
        let is_ascending = self.taken.windows(2).all(|w| w[0] < w[1]);
        assert!(is_ascending || !self.is_honest, "{:?}", self.taken);
    }

    /// Ends the faults of the network. Unless messages were forged, all samples arrive after a while.
    fn finish(&mut self) {
        for _ in 0..400 {
            let mut rounds = 0;
            while !self.to_reader.is_empty() || !self.to_writer.is_empty() {
                self.deliver();
                self.pump();
                rounds += 1;
                assert!(rounds < 10_000, "the writer and the reader answer each other endlessly");
            }
            self.take(usize::MAX);
            self.pump();
            let next = self.next_timeout().map_or(self.now, |at| at.max(self.now));
            self.wait(next.since(self.now));
            if self.is_honest && self.writer.is_acknowledged(self.writer.last()) && self.next_timeout().is_none() {
                break;
            }
            self.check();
        }
        self.take(usize::MAX);
        if self.is_honest {
            assert_eq!(self.taken, self.written);
            assert_eq!(self.reader.waiting().samples, 0);
            assert!(self.writer.history().is_empty());
        }
    }

    fn forge(&mut self, forgery: Forgery) {
        self.is_honest = false;
        let rx = Reception { now: self.now, wall: self.wall(), buffer: None, source: SOURCE };
        let (reader, writer) = (READER.entity, WRITER.entity);
        match forgery {
            Forgery::Data { number, instance, is_key } => {
                let bytes = [0, 1, 0, 0, instance, 0, 0, 0];
                let payload = if is_key { WirePayload::Key(&bytes) } else { WirePayload::Data(&bytes) };
                let sequence_number = SequenceNumber(number.max(1));
                let data =
                    Data { reader, writer, sequence_number, inline_qos: None, payload, non_standard_payload: false };
                self.reader.handle_data(&rx, WRITER, meta(is_key), &data);
            }
            Forgery::Frag { number, starting, count, fragment_size, sample_size, len } => {
                let payload = vec![1; usize::from(len)];
                let frag = DataFrag {
                    reader,
                    writer,
                    sequence_number: SequenceNumber(number.max(1)),
                    starting: FragmentNumber(starting),
                    count,
                    fragment_size,
                    sample_size,
                    inline_qos: None,
                    is_key: false,
                    non_standard_payload: false,
                    payload: &payload,
                };
                self.reader.handle_data_frag(&rx, WRITER, meta(false), &frag);
            }
            Forgery::Heartbeat { first, last, count, is_final, liveliness } => {
                let (first, last, count) = (SequenceNumber(first.max(1)), SequenceNumber(last.max(0)), Count(count));
                let heartbeat = Heartbeat { reader, writer, first, last, count, is_final, liveliness, group: None };
                self.reader.handle_heartbeat(&rx, WRITER, &heartbeat);
            }
            Forgery::HeartbeatFrag { number, last, count } => {
                let (sequence_number, last) = (SequenceNumber(number.max(1)), FragmentNumber(last));
                let heartbeat = HeartbeatFrag { reader, writer, sequence_number, last, count: Count(count) };
                self.reader.handle_heartbeat_frag(&rx, WRITER, &heartbeat);
            }
            Forgery::Gap { start, base, bits, words } => {
                let start = SequenceNumber(start.max(1));
                let base = SequenceNumber(base.max(start.0));
                let Some(list) = SequenceNumberSet::from_words(base, u32::from(bits), words) else { return };
                let gap = Gap { reader, writer, start, list, group: None, filtered_count: None };
                self.reader.handle_gap(&rx, WRITER, &gap);
            }
            Forgery::AckNack { base, bits, words, count, is_final } => {
                let base = SequenceNumber(base.max(0));
                let Some(state) = SequenceNumberSet::from_words(base, u32::from(bits), words) else { return };
                let acknack = AckNack { reader, writer, state, count: Count(count), is_final };
                self.writer.handle_acknack(rx.now, READER, &acknack);
            }
            Forgery::NackFrag { number, base, bits, words, count } => {
                let base = FragmentNumber(base.max(1));
                let Some(state) = FragmentNumberSet::from_words(base, u32::from(bits), words) else { return };
                let sequence_number = SequenceNumber(number.max(1));
                let nack = NackFrag { reader, writer, sequence_number, state, count: Count(count) };
                self.writer.handle_nack_frag(rx.now, READER, &nack);
            }
        }
    }
}

struct Arrival<'p> {
    rx: Reception<'p>,
    writer: Option<&'p mut Writer>,
    reader: Option<&'p mut Reader>,
}

impl Receive for Arrival<'_> {
    fn input(&mut self, Envelope { from, .. }: Envelope, input: Input<'_>) {
        if let Some(reader) = &mut self.reader {
            match input {
                Input::Data(meta, data) => reader.handle_data(&self.rx, from, meta, &data),
                Input::DataFrag(meta, frag) => reader.handle_data_frag(&self.rx, from, meta, &frag),
                Input::Heartbeat(heartbeat) => reader.handle_heartbeat(&self.rx, from, &heartbeat),
                Input::HeartbeatFrag(heartbeat) => reader.handle_heartbeat_frag(&self.rx, from, &heartbeat),
                Input::Gap(gap) => reader.handle_gap(&self.rx, from, &gap),
                other => panic!("not for a reader: {other:?}"),
            }
        }
        if let Some(writer) = &mut self.writer {
            match input {
                Input::AckNack(acknack) => writer.handle_acknack(self.rx.now, from, &acknack),
                Input::NackFrag(nack) => writer.handle_nack_frag(self.rx.now, from, &nack),
                other => panic!("not for a writer: {other:?}"),
            }
        }
    }

    fn dropped(&mut self, _: GuidPrefix, _: VendorId, reason: DropReason) {
        panic!("our own message was dropped: {reason}");
    }
}

fn meta(is_key: bool) -> SampleMeta {
    SampleMeta {
        kind: if is_key { ChangeKind::Disposed } else { ChangeKind::Alive },
        key_hash: None,
        source_timestamp: Timestamp::INVALID,
        lifespan: None,
        is_filtered: false,
        is_directed: false,
        is_instance_certain: false,
    }
}

fn matched_writer(to: &Arc<[Locator]>) -> MatchedWriter {
    MatchedWriter {
        guid: WRITER,
        reliable: true,
        has_history: false,
        strength: 0,
        lifespan: Span::INFINITE,
        liveliness_lease: Span::INFINITE,
        to: Arc::clone(to),
        max_message_bytes: MESSAGE_BYTES,
        vendor: VendorId::PEREGRINE,
        memory: Arc::default(),
        address_budget: Arc::default(),
    }
}

fn matched_reader(to: &Arc<[Locator]>) -> MatchedReader {
    MatchedReader {
        guid: READER,
        reliable: true,
        wants_history: false,
        to: Arc::clone(to),
        group: None,
        max_message_bytes: MESSAGE_BYTES,
        expects_inline_qos: false,
        positive_acks_disabled: false,
        vendor: VendorId::PEREGRINE,
        filter: None,
        owed_answers: Arc::default(),
        address_budget: Arc::default(),
    }
}
