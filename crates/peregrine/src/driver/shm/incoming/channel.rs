//! The readers of a channel: the entries that each one takes, and the backlog of a reader without room.

use std::sync::Arc;

use peregrine_rtps::id::Guid;
use peregrine_rtps::payload::{BufferPool, Octets, Payload};
use peregrine_rtps::reader::{Reception, SampleMeta};
use peregrine_rtps::seq::SequenceNumber;
use peregrine_rtps::time::Timestamp;
use peregrine_transport::shm::{InPlace, Metadata, Reader, Sample, UserMessage, WriterId};

use super::super::requests::{
    ANSWER_TIMEOUT, ChannelKey, ChannelRequest, RETRY_AFTER_MAX, ReaderRequest, UNANSWERED_MAX,
};
use super::super::sample_order::Order;
use super::{AttachedReader, BACKLOG_MAX, Backlog, Channel, Held, Pending, Stage, acknowledgement};
use crate::driver::base::clock::now;
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::reader::ReaderCore;
use crate::driver::route::shm::attachment::{Attachment, AttachmentKind};
use crate::driver::route::shm::metadata::{ALIGNING, Addressed, Addressees, Entry};

/// Samples of up to this many bytes are copied: a copy costs less than holding their slot.
const COPIED_MAX: usize = 4096;

/// Maximum number of samples of one channel that readers hold in place. Further ones are copied, so that the slots of a
/// writer do not run out because a reader keeps its history.
const HELD_MAX: usize = 512;

/// A message or an entry that no working peer sends.
pub(super) struct ProtocolViolation;

/// Result of inserting samples on the fast path.
pub(super) struct Inserted {
    pub(super) samples: usize,
    /// Waiting threads or a listener must be notified.
    pub(super) must_notify: bool,
}

/// Result of passing on an entry.
pub(super) struct Given {
    /// Number of readers that got a sample.
    pub(super) samples: u64,
    /// The writer process has answered a request of a reader, so that another one may ask.
    pub(super) is_answer: bool,
}

/// Change of an attachment that the writer process has decided.
pub(super) enum Decision {
    Accepted { index: u32, reader: Guid, writer: Guid },
    Dismissed(ChannelRequest),
}

/// The payload of an entry, made once for all readers that take it.
struct Content<'c> {
    /// Until the payload is made.
    sample: Option<Sample>,
    payload: Payload,
    /// The pool for a copy that several readers may get. The copy for a single one is in a buffer of its reader.
    copies: Option<&'c mut BufferPool>,
}

impl Channel {
    /// Attaches a reader, once [`Self::send_requests`] has room for its request.
    pub(super) fn join(&mut self, request: &ReaderRequest, core: Arc<ReaderCore>) {
        let index = self.next_index;
        self.next_index = self.next_index.saturating_add(1);
        let order = Order::first(self.key.is_reliable);
        self.readers.push(AttachedReader::new(request, core, index, order, Stage::Queued));
    }

    /// The first reader, which the writer process has accepted with the channel.
    pub(super) fn start_first(&mut self, request: &ReaderRequest, core: Arc<ReaderCore>) {
        let mut reader = AttachedReader::new(request, core, 0, Order::first(self.key.is_reliable), Stage::Asked);
        reader.start(self.key.writer);
        self.readers.push(reader);
    }

    /// Passes an entry to the readers that it is for. A reader without room keeps it in its backlog. The caller calls
    /// [`Self::acknowledge_if_owed`] later, once for several entries. Adds readers to `begun` whose first entry now
    /// waits for datagrams. A copy for several readers is made in a buffer of `copies`.
    pub(super) fn give(
        &mut self,
        rx: &Reception<'_>,
        sample: Sample,
        copies: &mut BufferPool,
        dirty: &mut DirtyEndpoints,
        begun: &mut Vec<(Guid, Guid)>,
    ) -> Result<Given, ProtocolViolation> {
        let Addressed { to, entry } = Addressed::from_metadata(sample.metadata()).ok_or(ProtocolViolation)?;
        let (mut samples, mut is_answer) = (0, false);
        let readers = match to {
            None => self.readers.as_mut_slice(),
            Some(to) => {
                let first = self.readers.partition_point(|reader| reader.index < to.first());
                let beyond = to.first().saturating_add(Addressees::COVERED);
                let end = self.readers.partition_point(|reader| reader.index < beyond);
                self.readers.get_mut(first..end).unwrap_or_default()
            }
        };
        let mut content = Content::of(entry, sample, (readers.len() > 1).then_some(copies))?;
        for reader in readers {
            if to.is_some_and(|to| !to.contains(reader.index)) {
                continue;
            }
            is_answer |= reader.stage == Stage::Rewinding && matches!(entry, Entry::NotLive { .. });
            let Some(entry) = reader.admit(to.is_some(), entry) else { continue };
            if reader.order.begins_to_wait() {
                begun.push((reader.core.guid, self.key.writer));
            }
            if reader.give(self.key, rx, entry, &mut content) {
                self.owes_ack = true;
                samples += u64::from(matches!(entry, Entry::Change { .. }));
            }
            dirty.reader(&reader.core);
        }
        Ok(Given { samples, is_answer })
    }

    /// Inserts up to `most` samples into the only reader on the fast path, and acknowledges them.
    pub(super) fn insert_in_place(&mut self, rx: &Reception<'_>, mut samples: InPlace<'_>, most: usize) -> Inserted {
        let nothing = Inserted { samples: 0, must_notify: false };
        if !self.has_fast_path() {
            return nothing;
        }
        let Some(only) = self.readers.first_mut() else { return nothing };
        let mut state = only.core.lock();
        let mut inserted = 0;
        if let Some(mut inserter) = state.reader.fast_inserter(self.key.writer) {
            let mut insert = |metadata, octets: &[u8]| {
                only.value(metadata).zip(octets.get(ALIGNING..)).is_some_and(|((number, source_timestamp), octets)| {
                    inserter.insert(rx, number, source_timestamp, octets)
                })
            };
            while inserted < most && samples.next(COPIED_MAX, &mut insert) {
                inserted += 1;
            }
            if inserted > 0 {
                let below = inserter.acknowledged_below();
                samples.acknowledge(acknowledgement(below));
                self.owes_ack = false;
                only.below = below;
            }
        }
        if inserted > 0 {
            state.note_heard(self.key.writer.prefix, rx.now);
        }
        let must_notify = inserted > 0 && !state.note_data_quietly();
        drop(state);
        drop(samples);
        Inserted { samples: inserted, must_notify }
    }

    /// Whether the next sample may take the fast path.
    #[inline]
    pub(super) fn has_fast_path(&self) -> bool {
        match self.readers.as_slice() {
            [only] => only.order == Order::Certain && only.backlog.is_empty() && !self.key.writer.entity.has_key(),
            _ => false,
        }
    }

    /// Passes the backlog to a reader that has room again. Returns the number of samples.
    pub(super) fn drain(&mut self, place: usize, rx: &Reception<'_>) -> u64 {
        let Some(reader) = self.readers.get_mut(place) else { return 0 };
        let samples = reader.drain(self.key.writer, rx);
        // The reader may have taken samples from its own backlog since the last acknowledgement.
        reader.below = reader.core.lock().reader.acknowledged_below(self.key.writer);
        self.acknowledge();
        samples
    }

    /// Pauses the channel while its only reader has no room. With several readers, each has a backlog.
    pub(super) fn update_pause(&mut self, source: &mut Reader, id: WriterId) {
        let must_pause = matches!(self.readers.as_slice(), [only] if !only.backlog.is_empty());
        if must_pause != self.is_paused {
            self.is_paused = must_pause;
            source.pause(id, must_pause);
        }
    }

    /// Sends requests of readers to the writer process, within the bound of unanswered ones. Returns false if the link
    /// to it is full.
    pub(super) fn send_requests(&mut self, source: &Reader, id: WriterId) -> bool {
        let is_rewinding = |reader: &&AttachedReader| reader.stage == Stage::Rewinding;
        let mut unanswered = self.asked.len() + self.readers.iter().filter(is_rewinding).count();
        let mut messages = Vec::new();
        for reader in &mut self.readers {
            if unanswered >= UNANSWERED_MAX {
                break;
            }
            let Some(kind) = reader.next_request(self.key.writer) else { continue };
            if matches!(kind, AttachmentKind::Attach { .. }) {
                self.asked.push(reader.index);
            }
            unanswered += 1;
            messages.push(Attachment { index: reader.index, kind }.encode());
        }
        messages.is_empty() || source.send_messages(id, &messages)
    }

    /// Handles a message of the writer process. After a message that accepts a reader, the caller calls
    /// [`Self::acknowledge`] and sends `Ready`.
    pub(super) fn handle_message(&mut self, message: UserMessage) -> Result<Option<Decision>, ProtocolViolation> {
        let Attachment { index, kind } = Attachment::decode(message).ok_or(ProtocolViolation)?;
        let is_answer = self.asked.extract_if(.., |asked| *asked == index).count() > 0;
        let place = self.readers.binary_search_by_key(&index, |reader| reader.index).ok();
        match kind {
            AttachmentKind::Accepted if is_answer => {
                let reader = place.and_then(|place| self.readers.get_mut(place));
                Ok(reader.map(|reader| {
                    reader.start(self.key.writer);
                    Decision::Accepted { index, reader: reader.core.guid, writer: self.key.writer }
                }))
            }
            // The reader has detached meanwhile, or the process violates the protocol without effect.
            AttachmentKind::Accepted => Ok(None),
            AttachmentKind::Dismissed => Ok(place.map(|place| {
                let reader = self.readers.remove(place).request();
                Decision::Dismissed(ChannelRequest { key: self.key, at: self.at, reader })
            })),
            AttachmentKind::Attach { .. }
            | AttachmentKind::Ready
            | AttachmentKind::Rewind { .. }
            | AttachmentKind::Detach => Err(ProtocolViolation),
        }
    }

    /// Called once for several entries: before each acknowledgement, the samples must be in their readers.
    pub(super) fn acknowledge_if_owed(&mut self) {
        if self.owes_ack {
            self.acknowledge();
        }
    }

    /// Writes the acknowledgement of all attached readers.
    pub(super) fn acknowledge(&mut self) {
        self.owes_ack = false;
        let attached = self.readers.iter().filter(|reader| reader.is_attached());
        if let Some(below) = attached.map(|reader| acknowledgement(reader.below)).min() {
            self.notes.set(below);
        }
    }
}

impl AttachedReader {
    fn new(request: &ReaderRequest, core: Arc<ReaderCore>, index: u32, order: Order, stage: Stage) -> Self {
        let (attempts, is_reported) = (request.attempts, request.is_reported);
        let (backlog, attached_at) = (Backlog::default(), None);
        Self { core, index, attempts, is_reported, order, attached_at, stage, backlog, epoch: 0, below: None }
    }

    /// The request by which the reader was attached, to be made again.
    pub(super) fn request(&self) -> ReaderRequest {
        let now = now();
        let has_lasted = self.attached_at.is_some_and(|at| now.since(at) >= RETRY_AFTER_MAX);
        ReaderRequest {
            core: Arc::downgrade(&self.core),
            guid: self.core.guid,
            until: now + ANSWER_TIMEOUT,
            attempts: if has_lasted { 1 } else { self.attempts },
            is_reported: self.is_reported,
            is_demanded: true,
        }
    }

    /// The writer process has accepted the reader, which takes entries of this writer from now on.
    fn start(&mut self, writer: Guid) {
        self.stage = Stage::Attached { live_from: None };
        self.attached_at = Some(now());
        self.is_reported = false;
        let mut state = self.core.lock();
        state.samples.forget(writer);
        self.below = state.reader.acknowledged_below(writer);
    }

    /// Number and timestamp of an entry, if it is a value that the reader takes.
    #[inline]
    pub(super) fn value(&self, metadata: Metadata) -> Option<(SequenceNumber, Timestamp)> {
        let Stage::Attached { live_from: Some(from) } = self.stage else { return None };
        Addressed::value(metadata).filter(|(number, _)| *number >= from)
    }

    /// Whether acknowledgements of the channel cover the reader.
    const fn is_attached(&self) -> bool {
        !matches!(self.stage, Stage::Queued | Stage::Asked)
    }

    /// The part of an entry that is for this reader. Entries that begin and end a stage are for nothing else.
    fn admit(&mut self, is_addressed: bool, entry: Entry) -> Option<Entry> {
        match (self.stage, entry) {
            (Stage::Attached { .. } | Stage::Rewinding, Entry::NotLive { epoch }) => {
                if epoch == self.epoch {
                    self.stage = Stage::Attached { live_from: None };
                }
                None
            }
            (Stage::Attached { .. }, Entry::Live { from }) => {
                self.stage = Stage::Attached { live_from: Some(from) };
                None
            }
            (_, Entry::Live { .. } | Entry::NotLive { .. }) => None,
            (Stage::Attached { .. }, entry) if is_addressed => Some(entry),
            (Stage::Attached { live_from: Some(from) }, entry) => entry.not_before(from),
            (Stage::Attached { live_from: None }, _) => None,
            (Stage::Queued | Stage::Asked | Stage::CatchingUp { .. } | Stage::Rewinding, _) => None,
        }
    }

    /// Passes an entry to the reader, or keeps it until there is room. Returns whether the reader has taken the entry.
    fn give(&mut self, key: ChannelKey, rx: &Reception<'_>, entry: Entry, content: &mut Content<'_>) -> bool {
        if self.order != Order::Certain || !self.backlog.is_empty() {
            self.core.lock().note_heard(key.writer.prefix, rx.now);
        } else if self.deliver(key.writer, rx, entry, content, true) {
            return true;
        }
        if self.backlog.len() < BACKLOG_MAX {
            let payload = content.payload(Payload::copy_of).clone();
            self.backlog.push_back(Pending { entry, payload });
        } else if key.is_reliable
            && let Some(from) = entry.first()
        {
            self.stage = Stage::CatchingUp { from };
        }
        // A best-effort reader counts the sample as lost when the next one arrives.
        false
    }

    fn drain(&mut self, writer: Guid, rx: &Reception<'_>) -> u64 {
        let mut samples = 0;
        while let Some(Pending { entry, payload }) = self.backlog.pop_front() {
            let mut content = Content { sample: None, payload, copies: None };
            if !self.deliver(writer, rx, entry, &mut content, false) {
                self.backlog.push_front(Pending { entry, payload: content.payload });
                break;
            }
            samples += u64::from(matches!(entry, Entry::Change { .. }));
        }
        samples
    }

    /// Passes an entry to the reader, which has come just now or was in the backlog. Returns false if the reader has no
    /// room.
    fn deliver(
        &mut self,
        writer: Guid,
        rx: &Reception<'_>,
        entry: Entry,
        content: &mut Content<'_>,
        has_just_come: bool,
    ) -> bool {
        let mut state = self.core.lock();
        if has_just_come {
            state.note_heard(writer.prefix, rx.now);
        }
        let reader = &mut state.reader;
        let is_taken = match entry {
            Entry::Alive => {
                reader.writer_alive(rx.now, writer);
                true
            }
            Entry::Available { first, last } => reader.handle_available(rx, writer, first, last),
            Entry::Unavailable { from, to } => {
                reader.handle_unavailable(rx, writer, from, to);
                true
            }
            Entry::Change { number, kind, instance, source_timestamp } => {
                let meta = SampleMeta {
                    kind,
                    key_hash: writer.entity.has_key().then_some(instance),
                    source_timestamp,
                    lifespan: None,
                    is_filtered: false,
                    is_directed: false,
                    is_instance_certain: false,
                };
                let payload = content.payload(|octets| reader.copy_of(octets)).clone();
                reader.handle_change(rx, writer, number, meta, payload)
            }
            // These entries concern only the channel.
            Entry::Live { .. } | Entry::NotLive { .. } => true,
        };
        if is_taken {
            self.below = reader.acknowledged_below(writer);
        }
        is_taken
    }

    /// The next request of the reader to the writer process.
    fn next_request(&mut self, writer: Guid) -> Option<AttachmentKind> {
        match self.stage {
            Stage::Queued => {
                self.stage = Stage::Asked;
                Some(AttachmentKind::Attach { reader: self.core.guid })
            }
            Stage::CatchingUp { from } if self.backlog.is_empty() => {
                self.stage = Stage::Rewinding;
                self.epoch = self.epoch.wrapping_add(1);
                let lacks_from = self.core.lock().reader.acknowledged_below(writer);
                let from = lacks_from.map_or(from, |lacks_from| lacks_from.clamp(SequenceNumber(1), from));
                Some(AttachmentKind::Rewind { epoch: self.epoch, from })
            }
            Stage::CatchingUp { .. } | Stage::Asked | Stage::Attached { .. } | Stage::Rewinding => None,
        }
    }
}

impl Backlog {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |pending| pending.len())
    }

    fn push_back(&mut self, pending: Pending) {
        self.0.get_or_insert_default().push_back(pending);
        debug_assert!(self.len() <= BACKLOG_MAX);
    }

    fn push_front(&mut self, pending: Pending) {
        self.0.get_or_insert_default().push_front(pending);
        debug_assert!(self.len() <= BACKLOG_MAX);
    }

    fn pop_front(&mut self) -> Option<Pending> {
        self.0.as_mut()?.pop_front()
    }
}

impl Entry {
    /// The first number that the entry concerns.
    const fn first(self) -> Option<SequenceNumber> {
        match self {
            Self::Change { number, .. } => Some(number),
            Self::Unavailable { from, .. } => Some(from),
            Self::Available { first, .. } => Some(first),
            Self::Alive | Self::Live { .. } | Self::NotLive { .. } => None,
        }
    }

    /// The part of the entry that concerns numbers from `start` on.
    fn not_before(self, start: SequenceNumber) -> Option<Self> {
        match self {
            Self::Change { number, .. } => (number >= start).then_some(self),
            Self::Unavailable { from, to } => (to > start).then_some(Self::Unavailable { from: from.max(start), to }),
            Self::Available { .. } | Self::Alive | Self::Live { .. } | Self::NotLive { .. } => Some(self),
        }
    }
}

impl<'c> Content<'c> {
    fn of(entry: Entry, sample: Sample, copies: Option<&'c mut BufferPool>) -> Result<Self, ProtocolViolation> {
        let has_payload = matches!(entry, Entry::Change { .. });
        if has_payload && sample.get(ALIGNING..).is_none() {
            return Err(ProtocolViolation);
        }
        Ok(Self { sample: has_payload.then_some(sample), payload: Payload::default(), copies })
    }

    fn payload(&mut self, copy_for_one: impl FnOnce(&[u8]) -> Payload) -> &Payload {
        if let Some(sample) = self.sample.take() {
            let is_copied = sample.len() <= COPIED_MAX || sample.held() > HELD_MAX;
            self.payload = if is_copied {
                let bytes = sample.get(ALIGNING..).unwrap_or_default();
                match &mut self.copies {
                    Some(copies) => copies.lend_copy_of(bytes),
                    None => copy_for_one(bytes),
                }
            } else {
                Payload::foreign(Arc::new(Held { sample }) as Arc<dyn Octets>)
            };
        }
        &self.payload
    }
}
