//! The receiving side: splits a datagram into readable pieces, each with its protection. Signed pieces stay in place;
//! encrypted ones are decrypted into a buffer of a pool.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::id::{EntityId, Guid, GuidPrefix};
use crate::payload::{BufferPool, Payload};
use crate::time::Instant;
use crate::wire::{
    CryptoContent, CryptoFooter, CryptoHeader, Header, InfoSource, RawSubmessage, SubmessageId, Submessages,
};

use super::{ADDITIONAL_DATA_FLAG, OpenError, PRE_SHARED_FLAG, ProtectedAt, Protection, Scope, Text};

/// `SRTPS_PREFIX` with its submessage header.
const SRTPS_PREFIX_BYTES: usize = 4 + CryptoHeader::LEN;

/// A part of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// Readable submessages.
    Readable {
        /// Their location.
        at: Place,
        /// Their protection.
        protection: ProtectedAt,
        /// The endpoint that owns the key, or its participant, if the submessages are protected.
        sender: Option<Guid>,
    },
    /// Protected bytes that cannot be trusted.
    Refused(OpenError),
    /// The rest of the message cannot be parsed.
    Malformed,
}

/// A range of the message or of the buffer with decrypted bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Whether the range is in the buffer.
    pub(crate) is_decrypted: bool,
    pub(crate) range: Range<usize>,
}

/// Whether a message begins with the frame of a message that is protected as a whole.
pub(crate) fn is_whole(message: &[u8]) -> bool {
    message.get(Header::LEN) == Some(&SubmessageId::SRTPS_PREFIX.0)
}

impl Place {
    fn with(&self, range: Range<usize>) -> Self {
        Self { range, ..*self }
    }
}

/// Splits datagrams into pieces.
#[derive(Debug)]
pub(crate) struct Opener {
    pool: BufferPool,
    /// The pieces of the last datagram, in order.
    pub(crate) pieces: Vec<Piece>,
}

impl Opener {
    pub(crate) const fn new(idle_bytes_max: usize) -> Self {
        Self { pool: BufferPool::new(idle_bytes_max), pieces: Vec::new() }
    }

    /// Finds the pieces of a received message with this header, and verifies and decrypts them by `protection`. Returns
    /// the buffer with the decrypted bytes, which the caller gives [back](Self::take_back).
    pub(crate) fn open(
        &mut self,
        protection: &dyn Protection,
        now: Instant,
        own: GuidPrefix,
        header: &Header,
        message: &[u8],
    ) -> Option<Arc<Vec<u8>>> {
        self.pieces.clear();
        let whole = Place { is_decrypted: false, range: Header::LEN.min(message.len())..message.len() };
        let mut submessages = Submessages::new(message.get(whole.range.clone()).unwrap_or_default());
        let is_protected =
            core::iter::from_fn(|| submessages.next_raw()).any(|raw| raw.is_ok_and(|raw| raw.is_security()));
        if !is_protected {
            self.pieces.push(Piece::Readable { at: whole, protection: ProtectedAt::default(), sender: None });
            return None;
        }
        let Self { pool, pieces } = self;
        let (source, is_for_us) = (header.prefix, true);
        let mut walk = Walk { protection, now, own, message, pool, buffer: None, used: 0, pieces, source, is_for_us };
        walk.message(header, whole);
        walk.buffer
    }

    /// The decrypted bytes of the channel on which keys are exchanged, and what lies between them. Only that channel
    /// has submessages that are protected with a key of two participants.
    pub(crate) fn keys(&self) -> Range<usize> {
        let place_of_keys = |piece: &Piece| match piece {
            Piece::Readable { at, protection, sender: Some(sender) }
                if at.is_decrypted && protection.submessage && sender.entity == EntityId::PARTICIPANT =>
            {
                Some(at.range.clone())
            }
            _ => None,
        };
        let places = self.pieces.iter().filter_map(place_of_keys);
        places.reduce(|all, next| all.start..next.end).unwrap_or_default()
    }

    /// Takes a buffer back, immediately or when the last reader drops its reference.
    pub(crate) fn take_back(&mut self, buffer: Arc<Vec<u8>>) {
        self.pool.put_away(Payload::new(buffer, 0..0).unwrap_or_default());
    }
}

/// The frame around protected bytes, and their location.
struct Protected<'a> {
    header: CryptoHeader,
    footer: CryptoFooter<'a>,
    text: Range<usize>,
    is_encrypted: bool,
    /// The start of the next submessage.
    end: usize,
}

struct Walk<'a> {
    protection: &'a dyn Protection,
    now: Instant,
    own: GuidPrefix,
    message: &'a [u8],
    pool: &'a mut BufferPool,
    /// The buffer for decrypted bytes, once there are any.
    buffer: Option<Arc<Vec<u8>>>,
    /// The number of used bytes of the buffer.
    used: usize,
    pieces: &'a mut Vec<Piece>,
    /// The source of the submessages, and whether they are for this participant. INFO_SRC and INFO_DST change both.
    source: GuidPrefix,
    is_for_us: bool,
}

impl Walk<'_> {
    fn message(&mut self, header: &Header, whole: Place) {
        if !is_whole(self.message) {
            self.submessages(whole, ProtectedAt::default(), None);
            return;
        }
        let octets = self.octets(&whole);
        let flags = octets.get(1).copied().unwrap_or_default();
        // A prefix of another length is refused below.
        let is_encrypted = octets.get(SRTPS_PREFIX_BYTES) == Some(&SubmessageId::SEC_BODY.0);
        let ids = [SubmessageId::SRTPS_PREFIX, SubmessageId::SRTPS_POSTFIX];
        let is_pre_shared = flags & PRE_SHARED_FLAG != 0;
        let has_additional = flags & ADDITIONAL_DATA_FLAG != 0;
        if is_encrypted || is_pre_shared {
            self.make_room();
        }
        let opened = match is_pre_shared {
            true => self.opened_pre_shared(header, ids, &whole, has_additional).map(Some),
            false => self.opened(Scope::Message, ids, &whole, true),
        };
        match opened {
            Ok(Some((sender, text, end))) => {
                // Only vendor-specific submessages may follow unprotected.
                let mut behind = Submessages::behind(self.octets(&whole.with(end..whole.range.end)));
                let is_vendors = |raw: Result<RawSubmessage<'_>, _>| raw.is_ok_and(|raw| raw.id.is_vendor());
                if !core::iter::from_fn(|| behind.next_raw()).all(is_vendors) {
                    self.pieces.push(Piece::Malformed);
                    return;
                }
                // The RTPS header is additional data, or is not protected itself; the protected INFO_SRC repeats it.
                let repeated = Submessages::behind(self.octets(&text)).next_info_source();
                let is_header_true = has_additional || repeated == Some(InfoSource::of(header));
                if sender == Guid::new(header.prefix, EntityId::PARTICIPANT) && is_header_true {
                    let at = ProtectedAt { message: !is_pre_shared, submessage: false };
                    self.submessages(text, at, Some(sender));
                } else {
                    self.pieces.push(Piece::Refused(OpenError::NotAuthentic));
                }
            }
            Ok(None) => {}
            Err(piece) => self.pieces.push(piece),
        }
    }

    /// Splits consecutive submessages: opens protected ones, and groups the others into one piece. `participant` has
    /// protected the message around them, to that degree.
    fn submessages(&mut self, place: Place, unprotected: ProtectedAt, participant: Option<Guid>) {
        let end = place.range.end;
        let mut start = place.range.start;
        while let Some(len) = self.pass_readable(&place.with(start..end)) {
            let mut at = start + len;
            self.add(place.with(start..at), unprotected, participant);
            self.make_room();
            let ids = [SubmessageId::SEC_PREFIX, SubmessageId::SEC_POSTFIX];
            let rest = place.with(at..end);
            match self.opened(Scope::Submessage, ids, &rest, self.is_for_us) {
                Ok(Some((sender, text, behind))) => {
                    at = behind;
                    self.add_protected(text, ProtectedAt { submessage: true, ..unprotected }, sender, participant);
                }
                Ok(None) => at = self.behind(ids, &rest).unwrap_or(end),
                Err(Piece::Malformed) => {
                    self.pieces.push(Piece::Malformed);
                    return;
                }
                Err(refused) => {
                    self.pieces.push(refused);
                    at = self.behind(ids, &rest).unwrap_or(end);
                }
            }
            start = at;
        }
        self.add(place.with(start..end), unprotected, participant);
    }

    /// Passes the submessages before the next protected one, and returns their length; `None` without a protected
    /// one. Applies INFO_SRC and INFO_DST, which decide whose keys apply next and whether this participant is the
    /// receiver. The parser reports submessages that cannot be split.
    fn pass_readable(&mut self, place: &Place) -> Option<usize> {
        let octets = self.octets(place);
        if !Submessages::may_contain(octets, SubmessageId::SEC_PREFIX) {
            return None;
        }
        let (mut source, mut is_for_us) = (self.source, self.is_for_us);
        let mut submessages = Submessages::behind(octets);
        let found = loop {
            let rest = submessages.remaining();
            match submessages.next_raw() {
                Some(Ok(raw)) if raw.id == SubmessageId::SEC_PREFIX => break Some(octets.len() - rest.len()),
                Some(Ok(raw)) if raw.id == SubmessageId::INFO_SRC => {
                    source = Submessages::behind(rest).next_info_source().map_or(source, |info| info.prefix);
                }
                Some(Ok(raw)) if raw.id == SubmessageId::INFO_DST => {
                    if let Some(info) = Submessages::behind(rest).next_info_destination() {
                        is_for_us = info.prefix == self.own || info.prefix == GuidPrefix::UNKNOWN;
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break None,
            }
        };
        (self.source, self.is_for_us) = (source, is_for_us);
        found
    }

    fn behind(&self, ids: [SubmessageId; 2], place: &Place) -> Option<usize> {
        self.protected(ids, place).map(|protected| protected.end)
    }

    fn add(&mut self, at: Place, protection: ProtectedAt, sender: Option<Guid>) {
        if !at.range.is_empty() {
            self.pieces.push(Piece::Readable { at, protection, sender });
        }
    }

    /// Adds a protected submessage. The protected bytes must contain exactly one submessage: of an endpoint, or the
    /// INFO_TS of the next one, which Fast DDS protects as well. `participant` has protected the message around it, and
    /// speaks for its own endpoints only: INFO_SRC is no proof of another source, and many have the keys of endpoints.
    fn add_protected(&mut self, at: Place, protection: ProtectedAt, sender: Guid, participant: Option<Guid>) {
        let mut submessages = Submessages::behind(self.octets(&at));
        let is_known = |raw: RawSubmessage<'_>| raw.id.is_entity() || raw.id == SubmessageId::INFO_TS;
        let is_known = submessages.next_raw().is_some_and(|raw| raw.is_ok_and(is_known));
        let is_of_source = sender.prefix == self.source;
        let is_of_participant = participant.is_none_or(|participant| participant.prefix == sender.prefix);
        if is_known && submessages.remaining().is_empty() && is_of_source && is_of_participant {
            self.add(at, protection, Some(sender));
        } else {
            self.pieces.push(Piece::Refused(OpenError::NotAuthentic));
        }
    }

    /// Opens the protected bytes at the beginning of this place: their sender, their readable location, and their end.
    /// `None` if they are for another participant.
    fn opened(
        &mut self,
        scope: Scope,
        ids: [SubmessageId; 2],
        place: &Place,
        is_for_us: bool,
    ) -> Result<Option<(Guid, Place, usize)>, Piece> {
        let Self { protection, message, buffer, used, source, .. } = self;
        let (protection, used, source) = (*protection, *used, *source);
        let decrypted = buffer.as_mut().and_then(Arc::get_mut).map(Vec::as_mut_slice).unwrap_or_default();
        // Earlier decrypted bytes, and room for further ones.
        let (before, room) = decrypted.split_at_mut_checked(used).ok_or(Piece::Malformed)?;
        let octets = if place.is_decrypted { &*before } else { message };
        let octets = octets.get(place.range.clone()).unwrap_or_default();
        let found = protected_at(ids, octets, place.range.start).ok_or(Piece::Malformed)?;
        if !is_for_us {
            return Ok(None);
        }
        let Protected { header, footer, text, is_encrypted, end } = found;
        let from_start = |at: usize| at.saturating_sub(place.range.start);
        let octets = octets.get(from_start(text.start)..from_start(text.end)).unwrap_or_default();
        if !is_encrypted {
            let sender = protection.open(scope, source, &header, &footer, Text::Signed(octets));
            return Ok(Some((sender.map_err(Piece::Refused)?, place.with(text), end)));
        }
        let to = room.get_mut(..octets.len()).ok_or(Piece::Malformed)?;
        let text = Text::EncryptedAcross { from: octets, to };
        let sender = protection.open(scope, source, &header, &footer, text).map_err(Piece::Refused)?;
        let range = used..used + octets.len();
        self.used = range.end;
        Ok(Some((sender, Place { is_decrypted: true, range }, end)))
    }

    /// Opens the message at this place with the pre-shared key of the participant that the RTPS header names: its
    /// sender, its readable location, and its end.
    fn opened_pre_shared(
        &mut self,
        sender: &Header,
        ids: [SubmessageId; 2],
        place: &Place,
        has_additional: bool,
    ) -> Result<(Guid, Place, usize), Piece> {
        let Self { protection, now, message, buffer, used, .. } = self;
        let (protection, now, used) = (*protection, *now, *used);
        let decrypted = buffer.as_mut().and_then(Arc::get_mut).map(Vec::as_mut_slice).unwrap_or_default();
        let room = decrypted.get_mut(used..).ok_or(Piece::Malformed)?;
        let octets = message.get(place.range.clone()).unwrap_or_default();
        let found = protected_at(ids, octets, place.range.start).ok_or(Piece::Malformed)?;
        let Protected { header, footer, text, is_encrypted, end } = found;
        let octets = message.get(text.clone()).ok_or(Piece::Malformed)?;
        let rtps_header = if has_additional { message.get(..Header::LEN).unwrap_or_default() } else { &[] };
        let owner = Guid::new(sender.prefix, EntityId::PARTICIPANT);
        // A signature covers both texts as one.
        let head = if is_encrypted { 0 } else { rtps_header.len() };
        let len = head + octets.len();
        let copy = room.get_mut(..len).ok_or(Piece::Malformed)?;
        let (front, body) = copy.split_at_mut_checked(head).ok_or(Piece::Malformed)?;
        if is_encrypted {
            let text = Text::EncryptedAcross { from: octets, to: body };
            let opened = protection.open_pre_shared(now, sender, &header, &footer, rtps_header, text);
            opened.map_err(Piece::Refused)?;
            let range = used..used + len;
            self.used = range.end;
            return Ok((owner, Place { is_decrypted: true, range }, end));
        }
        let signed = if has_additional {
            front.copy_from_slice(rtps_header);
            body.copy_from_slice(octets);
            &*copy
        } else {
            octets
        };
        let opened = protection.open_pre_shared(now, sender, &header, &footer, &[], Text::Signed(signed));
        opened.map_err(Piece::Refused)?;
        Ok((owner, place.with(text), end))
    }

    fn protected(&self, ids: [SubmessageId; 2], place: &Place) -> Option<Protected<'_>> {
        protected_at(ids, self.octets(place), place.range.start)
    }

    /// Takes a buffer for decrypted bytes, unless there is one. Decryption does not lengthen bytes, and bytes are
    /// encrypted at most twice: at message and at submessage level.
    fn make_room(&mut self) {
        let Self { buffer, pool, message, .. } = self;
        buffer.get_or_insert_with(|| pool.take(message.len().saturating_mul(2)));
    }

    fn octets(&self, place: &Place) -> &[u8] {
        let decrypted = || self.buffer.as_deref().map(Vec::as_slice).unwrap_or_default();
        let all = if place.is_decrypted { decrypted() } else { self.message };
        all.get(place.range.clone()).unwrap_or_default()
    }
}

/// Prefix, protected bytes and postfix at the beginning of `octets`, which begin at `start` of the message.
fn protected_at([prefix, postfix]: [SubmessageId; 2], octets: &[u8], start: usize) -> Option<Protected<'_>> {
    let mut submessages = Submessages::behind(octets);
    let mut next = || submessages.next_raw()?.ok().map(|raw| (raw, octets.len() - submessages.remaining().len()));
    let (first, text_start) = next()?;
    // Flags are not protected, so only the flag for the byte order of the length is accepted, and those that change the
    // meaning of the protected bytes.
    let has_known_flags = |raw: &RawSubmessage<'_>| raw.flags & !1 == 0;
    let is_pre_shared = prefix == SubmessageId::SRTPS_PREFIX && first.flags & PRE_SHARED_FLAG != 0;
    let first_flags = if is_pre_shared { 1 | PRE_SHARED_FLAG | ADDITIONAL_DATA_FLAG } else { 1 };
    let (header, rest) = CryptoHeader::parse(first.body).ok()?;
    if first.id != prefix || first.flags & !first_flags != 0 || !rest.is_empty() {
        return None;
    }
    let (second, mut text_end) = next()?;
    let mut text = text_start..text_end;
    let is_encrypted = second.id == SubmessageId::SEC_BODY;
    let (mut last, mut end) = next()?;
    if is_encrypted {
        let (CryptoContent(content), padding) = CryptoContent::parse(second.body).ok()?;
        if !has_known_flags(&second) || padding.len() > 3 {
            return None;
        }
        let content_start = text_end - second.body.len() + CryptoContent::HEAD;
        text = content_start..content_start + content.len();
    } else if prefix == SubmessageId::SRTPS_PREFIX {
        // The signed text is any number of submessages.
        while last.id != postfix {
            text_end = end;
            (last, end) = next()?;
        }
        text.end = text_end;
    }
    let (footer, rest) = CryptoFooter::parse(last.body).ok()?;
    if last.id != postfix || !has_known_flags(&last) || !rest.is_empty() {
        return None;
    }
    let text = start + text.start..start + text.end;
    Some(Protected { header, footer, text, is_encrypted, end: start + end })
}
