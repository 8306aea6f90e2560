//! A writer and readers joined by a faulty network and a virtual clock: the smallest useful simulation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use crate::address_budget::AddressBudget;
use crate::history::{Change, ChangeKind, Selected, Selector};
use crate::id::{EntityId, Guid, GuidPrefix, KeyHash};
use crate::locator::Locator;
use crate::payload::Payload;
use crate::reader::{
    KeyExtractor, MatchedWriter, MessageBuffer, Reader, ReaderConfig, ReaderEvent, Reception, SampleMeta,
};
use crate::receiver::{DropReason, Envelope, Input, Receive, interpret};
use crate::seq::SequenceNumber;
use crate::time::{Instant, Span, Timestamp};
use crate::transmit::TransmitBatch;
use crate::vendor::VendorId;
use crate::writer::{
    HandOverBatch, MatchedReader, ReaderPath, Recipient, SampleFilter, Writer, WriterConfig, WriterEvent,
};

/// The source address of all messages in tests that do not depend on it.
pub(crate) const NOWHERE: crate::locator::Source = crate::locator::Source::Datagram(core::net::SocketAddr::new(
    core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST),
    0,
));

pub(crate) const WRITER_PREFIX: GuidPrefix = GuidPrefix([1; 12]);

/// The instance is the first byte after the encapsulation header.
pub(crate) fn first_octet() -> KeyExtractor {
    KeyExtractor(|payload, _| {
        let mut key = KeyHash([0xff; 16]);
        key.0[0] = *payload.get(4)?;
        Some(key)
    })
}

pub(crate) fn key(k: u8) -> KeyHash {
    let mut key = KeyHash([0xff; 16]);
    key.0[0] = k;
    key
}

pub(crate) fn locator(index: usize) -> Locator {
    Locator { kind: Locator::UDP_V4, port: 1000 + index as u32, address: [9; 16], scope: 0 }
}

pub(crate) fn writer_guid() -> Guid {
    Guid::new(WRITER_PREFIX, EntityId::user_writer(1, true))
}

pub(crate) fn reader_guid(index: usize) -> Guid {
    Guid::new(GuidPrefix([10 + index as u8; 12]), EntityId::user_reader(1, true))
}

/// A reliable writer, known from its first sample on, without an address for answers.
pub(crate) fn matched_writer(guid: Guid) -> MatchedWriter {
    MatchedWriter {
        guid,
        reliable: true,
        has_history: true,
        strength: 0,
        lifespan: Span::INFINITE,
        liveliness_lease: Span::INFINITE,
        to: Arc::new([]),
        max_message_bytes: 1400,
        vendor: VendorId::PEREGRINE,
        memory: Arc::default(),
        address_budget: Arc::default(),
    }
}

/// Sample metadata without any information.
pub(crate) const PLAIN: SampleMeta = SampleMeta {
    kind: ChangeKind::Alive,
    key_hash: None,
    source_timestamp: Timestamp::INVALID,
    lifespan: None,
    is_filtered: false,
    is_directed: false,
    is_instance_certain: false,
};

/// The fate of a message with this running number on its way to (`true`) or from the readers: the delays of its copies.
pub(crate) type Fate = fn(&mut u64, bool) -> Vec<Span>;

pub(crate) fn perfect(_: &mut u64, _: bool) -> Vec<Span> {
    vec![Span::from_micros(50)]
}

pub(crate) fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) ^ (*state >> 50)
}

/// A fifth of the messages is lost, a tenth duplicated, all are delayed by 50 us to 2 ms.
pub(crate) fn rough(state: &mut u64, _: bool) -> Vec<Span> {
    let copies = match random(state) % 10 {
        0 | 1 => 0,
        2 => 2,
        _ => 1,
    };
    (0..copies).map(|_| Span::from_micros(50 + random(state) % 1950)).collect()
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) writer: Writer,
    pub(crate) readers: Vec<Reader>,
    pub(crate) fate: Fate,
    pub(crate) seed: u64,
    pub(crate) in_flight: BTreeMap<(Instant, u64), (Option<usize>, Vec<u8>)>,
    order: u64,
    /// Bytes of queued samples published at once; `None` if the test publishes them.
    pub(crate) publishes: Option<usize>,
    pub(crate) writer_events: Vec<WriterEvent>,
    pub(crate) reader_events: Vec<Vec<ReaderEvent>>,
    /// Messages that left the writer, newest last.
    pub(crate) sent: VecDeque<(Vec<Locator>, Vec<u8>)>,
    /// Messages that left the readers.
    pub(crate) answered: VecDeque<Vec<u8>>,
    /// Readers that refused a sample of the hand-over path.
    pub(crate) refusing: BTreeSet<usize>,
    /// The content filters of readers that have one. Applied when the readers are matched.
    pub(crate) filters: BTreeMap<usize, Arc<dyn SampleFilter>>,
    /// Readers that are cut off: what is sent to them or by them is lost.
    pub(crate) silenced: BTreeSet<usize>,
    /// Messages of the writer that are longer than this are dropped.
    pub(crate) dropped_above: Option<usize>,
    /// How much longer than others messages to these readers take.
    pub(crate) delays: BTreeMap<usize, Span>,
    /// Readers that use the address of another reader.
    pub(crate) addresses: BTreeMap<usize, usize>,
    /// The budget that all readers share: they are on one host.
    pub(crate) address_budget: Arc<AddressBudget>,
}

impl Pair {
    pub(crate) fn new(writer: WriterConfig, readers: Vec<ReaderConfig>) -> Self {
        let reader_events = readers.iter().map(|_| vec![]).collect();
        Self {
            now: Instant(1_000_000_000),
            writer: Writer::new(writer),
            readers: readers.into_iter().map(Reader::new).collect(),
            fate: perfect,
            seed: 1,
            in_flight: BTreeMap::new(),
            order: 0,
            writer_events: vec![],
            reader_events,
            publishes: Some(1 << 16),
            sent: VecDeque::new(),
            answered: VecDeque::new(),
            refusing: BTreeSet::new(),
            filters: BTreeMap::new(),
            silenced: BTreeSet::new(),
            dropped_above: None,
            delays: BTreeMap::new(),
            addresses: BTreeMap::new(),
            address_budget: Arc::default(),
        }
    }

    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp::from_unix_nanos(self.now.0 + 1_700_000_000_000_000_000)
    }

    pub(crate) fn match_all(&mut self, max_message: usize) {
        (0..self.readers.len()).for_each(|index| self.match_one(index, max_message));
    }

    pub(crate) fn match_one(&mut self, index: usize, max_message: usize) {
        self.match_one_of(index, max_message, VendorId::PEREGRINE, true);
    }

    pub(crate) fn match_one_of(&mut self, index: usize, max_message: usize, vendor: VendorId, reliable: bool) {
        self.match_one_by(index, max_message, vendor, reliable, ReaderPath::Messages);
    }

    pub(crate) fn match_one_by(
        &mut self,
        index: usize,
        max_message: usize,
        vendor: VendorId,
        reliable: bool,
        path: ReaderPath,
    ) {
        let to: Arc<[Locator]> = Arc::new([locator(self.address(index))]);
        let writer = MatchedWriter {
            to: Arc::new([locator(999)]),
            max_message_bytes: max_message,
            vendor,
            address_budget: Arc::clone(&self.address_budget),
            ..matched_writer(writer_guid())
        };
        assert!(self.readers[index].match_writer(self.now, writer));
        let reader = MatchedReader {
            guid: reader_guid(index),
            reliable,
            wants_history: true,
            to,
            group: None,
            max_message_bytes: max_message,
            expects_inline_qos: false,
            positive_acks_disabled: false,
            vendor,
            filter: self.filters.get(&index).cloned(),
            owed_answers: Arc::default(),
            address_budget: Arc::clone(&self.address_budget),
        };
        assert!(self.writer.match_reader_by(self.now, reader, path));
        self.pump();
    }

    fn address(&self, index: usize) -> usize {
        self.addresses.get(&index).copied().unwrap_or(index)
    }

    pub(crate) fn change(&self, k: u8, bytes: &[u8]) -> Change {
        let mut payload = vec![0, 1, 0, 0, k];
        payload.extend_from_slice(bytes);
        Change {
            kind: ChangeKind::Alive,
            instance: key(k),
            source_timestamp: self.wall(),
            payload: Payload::copy_of(&payload),
        }
    }

    /// Writes a sample; waits in virtual time for room.
    pub(crate) fn write(&mut self, k: u8, bytes: &[u8]) -> SequenceNumber {
        let mut change = self.change(k, bytes);
        for _ in 0..100_000 {
            match self.writer.write(self.now, change) {
                Ok(number) => {
                    self.pump();
                    return number;
                }
                Err((_, back)) => change = back,
            }
            self.pump();
            assert!(self.step(), "no event is left that could make room");
        }
        panic!("no room for a write");
    }

    /// Collects messages and events of writer and readers.
    pub(crate) fn pump(&mut self) {
        self.deliver_hand_over();
        let mut batch = TransmitBatch::default();
        while self.poll_writer(&mut batch) {
            let messages: Vec<_> = batch
                .messages()
                .map(|m| {
                    let mut bytes = vec![];
                    m.copy_to(&mut bytes);
                    (m.to().to_vec(), bytes)
                })
                .collect();
            self.writer.reclaim(&mut batch);
            self.writer.note_sent(self.now);
            for (to, bytes) in messages {
                for locator in &to {
                    let address = locator.port as usize - 1000;
                    let listening = (0..self.readers.len())
                        .filter(|index| self.address(*index) == address && !self.silenced.contains(index));
                    listening.collect::<Vec<_>>().into_iter().for_each(|index| self.launch(Some(index), &bytes));
                }
                self.sent.push_back((to, bytes));
            }
        }
        while let Some(event) = self.writer.poll_event() {
            self.writer_events.push(event);
        }
        for index in 0..self.readers.len() {
            while let Some(event) = self.readers[index].poll_event() {
                self.reader_events[index].push(event);
            }
            while self.readers[index].poll_transmit(self.now, &mut batch) {
                let messages: Vec<Vec<u8>> = batch
                    .messages()
                    .map(|m| {
                        let mut bytes = vec![];
                        m.copy_to(&mut bytes);
                        bytes
                    })
                    .collect();
                batch.clear();
                for bytes in messages {
                    if !self.silenced.contains(&index) {
                        self.launch(None, &bytes);
                    }
                    self.answered.push_back(bytes);
                }
            }
        }
    }

    /// Delivers samples by the hand-over path: immediately and without loss.
    fn deliver_hand_over(&mut self) {
        if self.writer.has_to_publish()
            && let Some(octets) = self.publishes
        {
            self.writer.publish(self.now, octets);
        }
        let mut batch = HandOverBatch::default();
        while self.writer.poll_hand_over(&mut batch) {
            let rx = Reception { now: self.now, wall: self.wall(), buffer: None, source: NOWHERE };
            let recipients = batch.recipients().to_vec();
            for recipient in recipients {
                let index = (0..self.readers.len()).find(|i| reader_guid(*i) == recipient.reader).unwrap();
                let delivered = batch.deliver(&rx, writer_guid(), recipient, true, &mut self.readers[index]);
                if let Some(below) = delivered.acknowledged_below {
                    self.writer.acknowledge(self.now, recipient.reader, below);
                }
                if let Some(from) = delivered.refused {
                    self.writer.pause_reader(self.now, Recipient { from, ..recipient });
                    self.refusing.insert(index);
                }
            }
            self.writer.reclaim_hand_over(&mut batch);
        }
    }

    /// An asynchronous writer publishes at once, unless the test does it.
    fn poll_writer(&mut self, batch: &mut TransmitBatch) -> bool {
        if self.writer.has_to_publish() {
            let Some(octets) = self.publishes else { return false };
            self.writer.publish(self.now, octets);
        }
        self.writer.poll_transmit(batch)
    }

    fn launch(&mut self, to: Option<usize>, bytes: &[u8]) {
        assert!(bytes.len() <= 65_507);
        if to.is_some() && self.dropped_above.is_some_and(|most| bytes.len() > most) {
            return;
        }
        let longer = to.and_then(|index| self.delays.get(&index)).copied().unwrap_or(Span::ZERO);
        for delay in (self.fate)(&mut self.seed, to.is_some()) {
            let delay = delay + longer;
            self.order += 1;
            self.in_flight.insert((self.now + delay, self.order), (to, bytes.to_vec()));
        }
    }

    /// Advances to the next event. `false` when there is none.
    pub(crate) fn step(&mut self) -> bool {
        let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
        let timers = self.readers.iter().filter_map(|r| r.poll_timeout().map(|(at, _)| at));
        let timers = timers.chain(self.writer.poll_timeout().map(|(at, _)| at));
        let Some(next) = timers.chain(arrival).min() else { return false };
        self.now = self.now.max(next);
        let now = self.now;
        while let Some((&at, _)) = self.in_flight.first_key_value()
            && at.0 <= now
        {
            let (to, bytes) = self.in_flight.remove(&at).unwrap();
            self.arrive(to, bytes);
        }
        let wall = self.wall();
        self.readers.iter_mut().for_each(|r| _ = r.handle_timeout(now, wall));
        self.writer.handle_timeout(now);
        self.pump();
        true
    }

    fn arrive(&mut self, to: Option<usize>, bytes: Vec<u8>) {
        let (now, wall) = (self.now, self.wall());
        let buffer = Arc::new(bytes);
        let own = to.map_or(WRITER_PREFIX, |i| reader_guid(i).prefix);
        let rx = Reception { now, wall, buffer: Some(MessageBuffer::Received(&buffer)), source: NOWHERE };
        let mut arrival = Arrival { rx, to, readers: &mut self.readers, writer: &mut self.writer };
        interpret(&buffer, own, &mut arrival);
    }

    /// Runs until no event is left, or for this time.
    pub(crate) fn run(&mut self, at_most: Span) {
        let end = self.now + at_most;
        while self.next_event().is_some_and(|at| at <= end) {
            assert!(self.step());
        }
        self.now = end;
    }

    fn next_event(&self) -> Option<Instant> {
        let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
        let timers = self.readers.iter().filter_map(|r| r.poll_timeout().map(|(at, _)| at));
        timers.chain(self.writer.poll_timeout().map(|(at, _)| at)).chain(arrival).min()
    }

    pub(crate) fn take(&mut self, index: usize) -> Vec<Selected> {
        let mut out = vec![];
        let (now, wall) = (self.now, self.wall());
        self.readers[index].select(&Selector::ANY, true, &mut out);
        self.readers[index].resume(now, wall);
        // Taking has acknowledged the samples of the hand-over path.
        if let Some(below) = self.readers[index].acknowledged_below(writer_guid()) {
            self.writer.acknowledge(now, reader_guid(index), below);
        }
        if self.refusing.remove(&index) {
            self.writer.resume_reader(reader_guid(index));
        }
        self.pump();
        out
    }

    pub(crate) fn taken_numbers(&mut self, index: usize) -> Vec<i64> {
        self.take(index).iter().map(|s| s.info.sequence_number.0).collect()
    }
}

/// A message arriving at the writer (`to` is `None`) or at one of the readers.
struct Arrival<'p> {
    rx: Reception<'p>,
    to: Option<usize>,
    readers: &'p mut Vec<Reader>,
    writer: &'p mut Writer,
}

impl Receive for Arrival<'_> {
    fn input(&mut self, envelope: Envelope, input: Input<'_>) {
        match (self.to, input) {
            (Some(index), input) => deliver(&mut self.readers[index], &self.rx, envelope, input),
            (None, Input::AckNack(a)) => self.writer.handle_acknack(self.rx.now, envelope.from, &a),
            (None, Input::NackFrag(n)) => self.writer.handle_nack_frag(self.rx.now, envelope.from, &n),
            (None, other) => panic!("not for a writer: {other:?}"),
        }
    }

    fn dropped(&mut self, _: GuidPrefix, _: VendorId, reason: DropReason) {
        panic!("{reason}");
    }
}

fn deliver(reader: &mut Reader, rx: &Reception<'_>, envelope: Envelope, input: Input<'_>) {
    match input {
        Input::Data(meta, data) => reader.handle_data(rx, envelope.from, meta, &data),
        Input::DataFrag(meta, frag) => reader.handle_data_frag(rx, envelope.from, meta, &frag),
        Input::Heartbeat(h) => reader.handle_heartbeat(rx, envelope.from, &h),
        Input::HeartbeatFrag(h) => reader.handle_heartbeat_frag(rx, envelope.from, &h),
        Input::Gap(gap) => reader.handle_gap(rx, envelope.from, &gap),
        Input::AckNack(_) | Input::NackFrag(_) => panic!("not for a reader"),
    }
}
