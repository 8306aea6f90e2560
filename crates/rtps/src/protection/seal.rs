//! The sending side: room for the overhead of protection; submessages and messages protected in place.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::id::{EntityId, Guid, GuidPrefix};
use crate::transmit::{Destination, TransmitBatch};
use crate::wire::{
    CryptoContent, CryptoFooter, CryptoHeader, Endianness, Header, InfoDestination, InfoSource, ReceiverMac,
    SubmessageId,
};

use super::payload::PayloadSealer;
use super::shared::IS_AVAILABLE;
use super::{PRE_SHARED_FLAG, Protection, ProtectionKind, ProtectionLevels, Scope, SealError, SharedProtection, Text};

const ENDIANNESS: Endianness = Endianness::Little;

const SUBMESSAGE_HEADER: usize = 4;
const PREFIX: usize = SUBMESSAGE_HEADER + CryptoHeader::LEN;
const BODY: usize = SUBMESSAGE_HEADER + CryptoContent::HEAD;
const POSTFIX: usize = SUBMESSAGE_HEADER + CryptoFooter::LEN;
/// The greatest text of a SEC_BODY, whose length is stated in 16 bits and is a multiple of 4.
const TEXT_MAX: usize = 0xfffc - CryptoContent::HEAD;

/// No submessage on the channel on which keys are exchanged is longer, its protection included.
const KEY_SUBMESSAGE_MAX: usize = 2048;

/// The greatest number of bytes that protection adds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Overhead {
    /// To a message, before its submessages.
    pub(crate) front: usize,
    /// To a message, after its submessages.
    pub(crate) tail: usize,
    /// To a submessage.
    pub(crate) submessage: usize,
    /// To a payload, or to the fragments of one DATA_FRAG.
    pub(crate) payload: usize,
    /// To a sample that is sent as one DATA.
    pub(crate) sample: usize,
}

impl Overhead {
    /// To a message.
    pub(crate) const fn message(&self) -> usize {
        self.front + self.tail
    }
}

/// Protects what one local endpoint sends. Does nothing without a [`Protection`] that requires it.
#[derive(Debug, Default)]
pub(crate) struct Sealer(Option<Box<Active>>);

#[derive(Debug)]
struct Active {
    protection: SharedProtection,
    endpoint: EntityId,
    /// With the kind of the pre-shared key as that of messages, if that key protects them.
    levels: ProtectionLevels,
    uses_pre_shared: bool,
    /// A reused buffer for the MACs after a text.
    macs: Vec<ReceiverMac>,
    /// The number of messages, submessages and payloads that were not sent because their protection failed.
    failures: u64,
}

/// The protection around bytes.
struct Frame {
    scope: Scope,
    kind: ProtectionKind,
    /// The only participant that gets the bytes.
    receiver: Option<GuidPrefix>,
}

/// The start of a submessage that is being written.
#[derive(Debug)]
#[must_use = "a submessage that was begun must be ended"]
pub(crate) struct SubmessageStart(usize);

impl Sealer {
    pub(crate) fn new(protection: Option<&SharedProtection>, endpoint: EntityId) -> Self {
        Self(protection.and_then(|protection| {
            let mut levels = protection.levels(endpoint);
            let pre_shared = protection.pre_shared();
            let uses_pre_shared = levels.message.is_none() && !pre_shared.is_none();
            if uses_pre_shared {
                levels.message = pre_shared;
            }
            let protects = levels != ProtectionLevels::default();
            protects.then(|| {
                let protection = protection.clone();
                Box::new(Active { protection, endpoint, levels, uses_pre_shared, macs: Vec::new(), failures: 0 })
            })
        }))
    }

    /// The overhead with this number of receivers and of their participants.
    pub(crate) fn overhead(&self, receivers: usize, participants: usize) -> Overhead {
        let Some(Active { levels, endpoint, .. }) = self.active() else { return Overhead::default() };
        let macs = |kind: ProtectionKind, count: usize| {
            if kind.authenticates_origin() { count.saturating_mul(ReceiverMac::LEN) } else { 0 }
        };
        let submessage = submessage_front(levels.submessage)
            .saturating_add(levels.submessage.pick(POSTFIX, POSTFIX))
            .saturating_add(macs(levels.submessage, receivers));
        let payload = super::payload::overhead(levels.payload);
        Overhead {
            front: message_front(levels.message) + if names_receiver(*endpoint) { InfoDestination::LEN } else { 0 },
            tail: levels.message.pick(POSTFIX, POSTFIX).saturating_add(macs(levels.message, participants)),
            submessage,
            payload,
            sample: submessage.saturating_add(payload),
        }
    }

    /// Whether each receiver needs a separate MAC, so that the number of receivers must be bounded.
    pub(crate) fn authenticates_origin(&self) -> bool {
        let of = |levels: &ProtectionLevels| {
            levels.message.authenticates_origin() || levels.submessage.authenticates_origin()
        };
        self.active().is_some_and(|active| of(&active.levels))
    }

    /// Whether submessages are encrypted.
    pub(crate) fn encrypts_submessages(&self) -> bool {
        self.active().is_some_and(|active| active.levels.submessage.encrypts())
    }

    /// The sealer of payloads; `None` if payloads are not protected.
    #[inline]
    pub(crate) fn payloads(&self) -> Option<PayloadSealer<'_>> {
        let active = self.active().filter(|active| !active.levels.payload.is_none())?;
        Some(PayloadSealer { protection: &*active.protection, writer: active.endpoint, kind: active.levels.payload })
    }

    /// The number of messages, submessages and payloads that were not sent because their protection failed.
    pub(crate) fn failures(&self) -> u64 {
        self.active().map_or(0, |active| active.failures)
    }

    /// Counts a payload that is not sent because it cannot be protected.
    pub(crate) fn count_failure(&mut self) {
        if let Some(active) = self.active_mut() {
            active.failures += 1;
        }
    }

    /// Begins a message: writes its header, and reserves room for the frame before protected submessages.
    #[inline]
    pub(crate) fn begin_message(&self, header: &Header, to: &Arc<Destination>, batch: &mut TransmitBatch) {
        batch.begin(to);
        header.emit(batch.inline());
        if let Some(active) = self.active() {
            active.begin_message(header, batch);
        }
    }

    /// Ends the message being written. Discards a message that cannot be protected.
    #[inline]
    pub(crate) fn finish_message(&mut self, batch: &mut TransmitBatch) {
        if let Some(active) = self.active_mut()
            && !active.seal_message(batch)
        {
            active.failures += 1;
            batch.abandon();
            return;
        }
        batch.finish();
    }

    /// Whether anything is protected.
    #[inline]
    pub(crate) const fn is_active(&self) -> bool {
        IS_AVAILABLE && self.0.is_some()
    }

    /// Writes a submessage of the endpoint. Discards a submessage that cannot be protected.
    #[inline(always)]
    pub(crate) fn put(&mut self, batch: &mut TransmitBatch, write: impl Fn(&mut Vec<u8>)) {
        if self.is_active() {
            self.put_protected(batch, &write);
        } else {
            write(batch.inline());
        }
    }

    #[cold]
    fn put_protected(&mut self, batch: &mut TransmitBatch, write: &dyn Fn(&mut Vec<u8>)) {
        let start = self.begin(batch);
        write(batch.inline());
        self.end(start, batch);
    }

    /// Begins a submessage of the endpoint. The caller writes the submessage next.
    #[inline]
    pub(crate) fn begin(&self, batch: &mut TransmitBatch) -> SubmessageStart {
        if let Some(active) = self.active() {
            return active.begin(batch);
        }
        SubmessageStart(0)
    }

    /// Ends the submessage that [`Self::begin`] began. Discards a submessage that cannot be protected.
    #[inline]
    pub(crate) fn end(&mut self, start: SubmessageStart, batch: &mut TransmitBatch) {
        if let Some(active) = self.active_mut() {
            active.seal_submessage(start, batch);
        }
    }

    #[inline]
    fn active(&self) -> Option<&Active> {
        if IS_AVAILABLE { self.0.as_deref() } else { None }
    }

    #[inline]
    fn active_mut(&mut self) -> Option<&mut Active> {
        if IS_AVAILABLE { self.0.as_deref_mut() } else { None }
    }
}

impl Active {
    #[cold]
    fn begin_message(&self, header: &Header, batch: &mut TransmitBatch) {
        if !(self.levels.message.is_none() && self.levels.submessage.is_none()) {
            batch.keep_in_one_piece();
        }
        if !self.levels.message.is_none() {
            let out = batch.inline();
            out.resize(out.len() + self.levels.message.pick(PREFIX, PREFIX + BODY), 0);
            // The RTPS header is not protected itself: receivers compare it with this INFO_SRC.
            InfoSource::of(header).emit(ENDIANNESS, out);
        }
        if names_receiver(self.endpoint)
            && let Some(prefix) = batch.open_destination().and_then(|to| to.sole_participant())
        {
            InfoDestination { prefix }.emit(ENDIANNESS, batch.inline());
        }
    }

    #[cold]
    fn seal_message(&mut self, batch: &mut TransmitBatch) -> bool {
        let kind = self.levels.message;
        if kind.is_none() {
            return true;
        }
        let start = batch.open_start() + Header::LEN;
        let (to, out) = batch.open_destination_and_inline();
        let participants = to.into_iter().flat_map(Destination::participants);
        let macs = participants.map(|prefix| Guid::new(prefix, EntityId::PARTICIPANT));
        let frame = Frame { scope: Scope::Message, kind, receiver: to.and_then(Destination::sole_participant) };
        self.seal(frame, start, macs, out).is_ok()
    }

    #[cold]
    fn begin(&self, batch: &mut TransmitBatch) -> SubmessageStart {
        let out = batch.inline();
        if names_receiver(self.endpoint) {
            // A vector that grew would leave a copy of keys behind.
            out.reserve(KEY_SUBMESSAGE_MAX);
        }
        let start = out.len();
        out.resize(start + submessage_front(self.levels.submessage), 0);
        SubmessageStart(start)
    }

    #[cold]
    fn seal_submessage(&mut self, SubmessageStart(start): SubmessageStart, batch: &mut TransmitBatch) {
        let kind = self.levels.submessage;
        if kind.is_none() {
            return;
        }
        let (to, out) = batch.open_destination_and_inline();
        let frame = Frame { scope: Scope::Submessage, kind, receiver: to.and_then(Destination::sole_participant) };
        let peers = to.into_iter().flat_map(|to| to.peers.iter().copied());
        if self.seal(frame, start, peers, out).is_err() {
            self.failures += 1;
            if names_receiver(self.endpoint) {
                (self.protection.wiper())(batch.inline().get_mut(start..).unwrap_or_default());
            }
            batch.inline().truncate(start);
        }
    }

    /// Protects all bytes from `start` on, which begin with the room for the frame, with a MAC for each of these
    /// endpoints or participants if origins are authenticated.
    fn seal(
        &mut self,
        Frame { scope, kind, receiver }: Frame,
        start: usize,
        receivers: impl Iterator<Item = Guid>,
        out: &mut Vec<u8>,
    ) -> Result<(), SealError> {
        let Active { protection, macs, uses_pre_shared, .. } = self;
        let uses_pre_shared = *uses_pre_shared && scope == Scope::Message;
        let [prefix, postfix] = match scope {
            Scope::Message => [SubmessageId::SRTPS_PREFIX, SubmessageId::SRTPS_POSTFIX],
            Scope::Submessage | Scope::Payload => [SubmessageId::SEC_PREFIX, SubmessageId::SEC_POSTFIX],
        };
        let sender = if scope == Scope::Message { EntityId::PARTICIPANT } else { self.endpoint };
        let reserved: Range<usize> = start..start + kind.pick(PREFIX, PREFIX + BODY);
        let text = out.get_mut(reserved.end..).unwrap_or_default();
        debug_assert!(text.len().is_multiple_of(4) && !text.is_empty(), "submessages are padded");
        if text.len() > TEXT_MAX {
            return Err(SealError::TooLong);
        }
        let len = text.len();
        let text = kind.text(text);
        let seal = match uses_pre_shared {
            true => protection.seal_pre_shared(text)?,
            false => protection.seal(scope, sender, receiver, text)?,
        };
        let front = out.get_mut(reserved).unwrap_or_default();
        if let Some((header, content)) = front.split_first_chunk_mut::<PREFIX>() {
            *header = seal.header.to_submessage(prefix, ENDIANNESS);
            if uses_pre_shared {
                set_flag(header, PRE_SHARED_FLAG);
            }
            if let Some(content) = content.first_chunk_mut::<BODY>() {
                *content = CryptoContent::head(len, ENDIANNESS);
            }
        }
        macs.clear();
        if kind.authenticates_origin() {
            for receiver in receivers {
                macs.push(protection.receiver_mac(scope, sender, &seal, receiver)?);
            }
        }
        CryptoFooter::emit(postfix, ENDIANNESS, &seal.common_mac, macs.iter().copied(), out);
        Ok(())
    }
}

impl ProtectionKind {
    /// These bytes as text to be signed or encrypted.
    pub(super) const fn text(self, octets: &mut [u8]) -> Text<'_> {
        if self.encrypts() { Text::Encrypted(octets) } else { Text::Signed(octets) }
    }
}

/// Protects a complete message, which this participant has written without a [`Sealer`], with the pre-shared key.
///
/// # Errors
/// Why the message must not be sent.
pub(crate) fn seal_whole(protection: &dyn Protection, message: &[u8]) -> Result<Vec<u8>, SealError> {
    let kind = protection.pre_shared();
    let Ok((header, submessages)) = Header::parse(message) else { return Err(SealError::NoKey) };
    let mut text = Vec::with_capacity(InfoSource::LEN + submessages.len());
    InfoSource::of(&header).emit(ENDIANNESS, &mut text);
    text.extend_from_slice(submessages);
    if text.len() > TEXT_MAX {
        return Err(SealError::TooLong);
    }
    let seal = protection.seal_pre_shared(kind.text(&mut text))?;
    let mut out = Vec::with_capacity(message.len() + message_front(kind) + POSTFIX);
    header.emit(&mut out);
    let mut prefix = seal.header.to_submessage(SubmessageId::SRTPS_PREFIX, ENDIANNESS);
    set_flag(&mut prefix, PRE_SHARED_FLAG);
    out.extend_from_slice(&prefix);
    if kind.encrypts() {
        out.extend_from_slice(&CryptoContent::head(text.len(), ENDIANNESS));
    }
    out.extend_from_slice(&text);
    CryptoFooter::emit(SubmessageId::SRTPS_POSTFIX, ENDIANNESS, &seal.common_mac, core::iter::empty(), &mut out);
    Ok(out)
}

/// Sets a flag of the submessage that begins here.
fn set_flag(submessage: &mut [u8], flag: u8) {
    if let Some(flags) = submessage.get_mut(1) {
        *flags |= flag;
    }
}

/// Whether each message of an endpoint names its receiver: another participant at the same address has another key.
const fn names_receiver(endpoint: EntityId) -> bool {
    matches!(endpoint, EntityId::VOLATILE_SECURE_WRITER)
}

const fn message_front(kind: ProtectionKind) -> usize {
    kind.pick(PREFIX + InfoSource::LEN, PREFIX + BODY + InfoSource::LEN)
}

const fn submessage_front(kind: ProtectionKind) -> usize {
    kind.pick(PREFIX, PREFIX + BODY)
}
