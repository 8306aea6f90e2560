//! The sequence of submessages in a message.

use core::fmt;

use alloc::vec::Vec;

use super::acknack::AckNack;
use super::cursor::{Emitter, Endianness};
use super::data::Data;
use super::data_frag::DataFrag;
use super::error::{Fault, WireError};
use super::gap::Gap;
use super::header_extension::HeaderExtension;
use super::heartbeat::Heartbeat;
use super::heartbeat_frag::HeartbeatFrag;
use super::info_destination::InfoDestination;
use super::info_reply::{InfoReply, InfoReplyIp4};
use super::info_source::InfoSource;
use super::info_timestamp::InfoTimestamp;
use super::nack_frag::NackFrag;
use super::submessage_id::SubmessageId;

/// One submessage.
///
/// ```text
/// 0               8               16              24              32
/// +---------------+---------------+---------------+---------------+
/// |      id       |    flags    |E|      octetsToNextHeader       |
/// +---------------+---------------+---------------+---------------+
/// |                             body                              |
/// ```
///
/// E = 1: little endian. A length of 0 means "no body" for PAD and INFO_TS, "to the end of the message" for the others
/// (RTPS 2.5 §9.4.5.1.3).
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Submessage<'a> {
    /// HEADER_EXTENSION.
    HeaderExtension(HeaderExtension<'a>),
    /// PAD.
    Pad,
    /// ACKNACK.
    AckNack(AckNack),
    /// HEARTBEAT.
    Heartbeat(Heartbeat),
    /// GAP.
    Gap(Gap),
    /// INFO_TS.
    InfoTimestamp(InfoTimestamp),
    /// INFO_SRC.
    InfoSource(InfoSource),
    /// INFO_REPLY_IP4.
    InfoReplyIp4(InfoReplyIp4),
    /// INFO_DST.
    InfoDestination(InfoDestination),
    /// INFO_REPLY.
    InfoReply(InfoReply<'a>),
    /// NACK_FRAG.
    NackFrag(NackFrag),
    /// HEARTBEAT_FRAG.
    HeartbeatFrag(HeartbeatFrag),
    /// DATA.
    Data(Data<'a>),
    /// DATA_FRAG.
    DataFrag(DataFrag<'a>),
    /// SEC_BODY, SEC_PREFIX, SEC_POSTFIX, SRTPS_PREFIX or SRTPS_POSTFIX, handled by `protection`.
    Security {
        /// The kind.
        id: SubmessageId,
        /// The flags.
        flags: u8,
        /// The body.
        body: &'a [u8],
    },
    /// Any other id: of a vendor, of a later version, or of RTPS 1.x. Receivers skip it, unless they know the sender's
    /// vendor.
    Unknown {
        /// The id.
        id: SubmessageId,
        /// The flags.
        flags: u8,
        /// The body.
        body: &'a [u8],
    },
}

impl Submessage<'_> {
    /// Appends the submessage, payload included and padded to a multiple of 4.
    ///
    /// A submessage that borrows encoded values, such as inline QoS, keeps their byte order, independent of
    /// `endianness`.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        match self {
            Self::HeaderExtension(extension) => extension.emit(endianness, out),
            Self::Pad => Emitter::begin(out, endianness, SubmessageId::PAD, 0).finish(),
            Self::AckNack(acknack) => acknack.emit(endianness, out),
            Self::Heartbeat(heartbeat) => heartbeat.emit(endianness, out),
            Self::Gap(gap) => gap.emit(endianness, out),
            Self::InfoTimestamp(info) => info.emit(endianness, out),
            Self::InfoSource(info) => info.emit(endianness, out),
            Self::InfoReplyIp4(info) => info.emit(endianness, out),
            Self::InfoDestination(info) => info.emit(endianness, out),
            Self::InfoReply(info) => info.emit(endianness, out),
            Self::NackFrag(nack) => nack.emit(endianness, out),
            Self::HeartbeatFrag(heartbeat) => heartbeat.emit(endianness, out),
            Self::Data(data) => data.emit(endianness, out),
            Self::DataFrag(data) => data.emit(endianness, out),
            Self::Security { id, flags, body } | Self::Unknown { id, flags, body } => {
                let stated = Endianness::from_flags(*flags);
                Emitter::begin(out, stated, *id, *flags).octets(body).finish();
            }
        }
    }
}

/// A submessage without interpretation of its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RawSubmessage<'a> {
    pub(crate) id: SubmessageId,
    pub(crate) flags: u8,
    pub(crate) body: &'a [u8],
}

impl RawSubmessage<'_> {
    /// Whether it is part of the frame of protected bytes.
    pub(crate) const fn is_security(&self) -> bool {
        matches!(
            self.id,
            SubmessageId::SEC_BODY
                | SubmessageId::SEC_PREFIX
                | SubmessageId::SEC_POSTFIX
                | SubmessageId::SRTPS_PREFIX
                | SubmessageId::SRTPS_POSTFIX
        )
    }
}

/// The submessages of a message, in order. Ends after the first error: a malformed submessage invalidates the rest of
/// the message (RTPS 2.5 §8.3.4.1).
#[derive(Clone, Debug)]
pub struct Submessages<'a> {
    rest: &'a [u8],
    first: bool,
}

impl<'a> Submessages<'a> {
    /// The submessages after the header, as [`Header::parse`](super::Header::parse) returns them.
    #[must_use]
    pub const fn new(rest: &'a [u8]) -> Self {
        Self { rest, first: true }
    }

    /// The submessages after the first ones of a message.
    #[must_use]
    pub(crate) const fn behind(rest: &'a [u8]) -> Self {
        Self { rest, first: false }
    }

    /// Whether a submessage with this id may be among these. A cheap check, which may be wrongly true but never wrongly
    /// false: it does not test whether the bytes can be split where they end.
    pub(crate) fn may_contain(octets: &[u8], wanted: SubmessageId) -> bool {
        let mut rest = octets;
        while let Some((&[id, flags, l0, l1], behind)) = rest.split_first_chunk() {
            if id == wanted.0 {
                return true;
            }
            let stated = usize::from(Endianness::from_flags(flags).u16([l0, l1]));
            // A length of 0 is that of the rest of the message, but for submessages that may be empty.
            let next = if stated == 0 && !SubmessageId(id).may_be_empty() { None } else { behind.get(stated..) };
            rest = next.unwrap_or_default();
        }
        false
    }

    /// The next submessage without interpretation. Ends like the iterator.
    pub(crate) fn next_raw(&mut self) -> Option<Result<RawSubmessage<'a>, WireError>> {
        if self.rest.is_empty() {
            return None;
        }
        self.first = false;
        let result = self.split_next().map(|(id, flags, body)| RawSubmessage { id, flags, body });
        if result.is_err() {
            self.rest = &[];
        }
        Some(result)
    }

    /// The bytes from the next submessage to the end of the message.
    #[must_use]
    pub const fn remaining(&self) -> &'a [u8] {
        self.rest
    }

    /// The next submessage if it is a well-formed DATA. Nearly all messages consist of DATA, and this function avoids
    /// building a [`Submessage`].
    #[inline(always)]
    #[expect(clippy::redundant_closure, reason = "the compiler inlines a closure into its caller")]
    pub(crate) fn next_data(&mut self) -> Option<Data<'a>> {
        self.next_if(SubmessageId::DATA, |flags, body| Data::parse_inline(flags, body))
    }

    /// Like [`Self::next_data`] for a DATA_FRAG: large samples consist of many.
    #[inline]
    pub(crate) fn next_data_frag(&mut self) -> Option<DataFrag<'a>> {
        self.next_if(SubmessageId::DATA_FRAG, DataFrag::parse)
    }

    /// Like [`Self::next_data`] for an INFO_TS: nearly all messages begin with one.
    #[inline]
    pub(crate) fn next_timestamp(&mut self) -> Option<InfoTimestamp> {
        self.next_if(SubmessageId::INFO_TS, InfoTimestamp::parse)
    }

    /// Like [`Self::next_data`] for an INFO_DST: messages for one participant begin with one.
    #[inline]
    pub(crate) fn next_info_destination(&mut self) -> Option<InfoDestination> {
        self.next_if(SubmessageId::INFO_DST, InfoDestination::parse)
    }

    /// Like [`Self::next_data`] for an INFO_SRC: protected messages begin with one.
    #[inline]
    pub(crate) fn next_info_source(&mut self) -> Option<InfoSource> {
        self.next_if(SubmessageId::INFO_SRC, InfoSource::parse)
    }

    /// Like [`Self::next_data`] for a HEARTBEAT: in a slow flow, each sample carries one.
    #[inline]
    pub(crate) fn next_heartbeat(&mut self) -> Option<Heartbeat> {
        self.next_if(SubmessageId::HEARTBEAT, Heartbeat::parse)
    }

    /// Like [`Self::next_data`] for an ACKNACK, the answer to it.
    #[inline]
    pub(crate) fn next_acknack(&mut self) -> Option<AckNack> {
        self.next_if(SubmessageId::ACKNACK, AckNack::parse)
    }

    #[inline(always)]
    fn next_if<T>(&mut self, id: SubmessageId, parse: impl FnOnce(u8, &'a [u8]) -> Result<T, Fault>) -> Option<T> {
        if *self.rest.first()? != id.0 {
            return None;
        }
        let mut ahead = self.clone();
        let (_, flags, body) = ahead.split_next().ok()?;
        let parsed = parse(flags, body).ok()?;
        ahead.first = false;
        *self = ahead;
        Some(parsed)
    }

    #[inline]
    fn split_next(&mut self) -> Result<(SubmessageId, u8, &'a [u8]), WireError> {
        let Some((&[id, flags, l0, l1], rest)) = self.rest.split_first_chunk() else {
            return Err(WireError { submessage: None, fault: Fault::Truncated });
        };
        let id = SubmessageId(id);
        let stated = usize::from(Endianness::from_flags(flags).u16([l0, l1]));
        let len = if stated == 0 && !id.may_be_empty() { rest.len() } else { stated };
        let (body, next) = rest.split_at_checked(len).ok_or(WireError {
            submessage: Some(id),
            fault: Fault::LengthExceedsMessage { stated, available: rest.len() },
        })?;
        if !next.is_empty() && !len.is_multiple_of(4) {
            return Err(WireError { submessage: Some(id), fault: Fault::Misaligned { stated } });
        }
        self.rest = next;
        Ok((id, flags, body))
    }
}

impl<'a> Iterator for Submessages<'a> {
    type Item = Result<Submessage<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let first = core::mem::replace(&mut self.first, false);
        let result = self.split_next().and_then(|(id, flags, body)| {
            parse(id, flags, body, first).map_err(|fault| WireError { submessage: Some(id), fault })
        });
        if result.is_err() {
            self.rest = &[];
        }
        Some(result)
    }
}

impl core::iter::FusedIterator for Submessages<'_> {}

#[inline]
fn parse(id: SubmessageId, flags: u8, body: &[u8], first: bool) -> Result<Submessage<'_>, Fault> {
    Ok(match id {
        SubmessageId::DATA => Submessage::Data(Data::parse(flags, body)?),
        SubmessageId::DATA_FRAG => Submessage::DataFrag(DataFrag::parse(flags, body)?),
        SubmessageId::INFO_TS => Submessage::InfoTimestamp(InfoTimestamp::parse(flags, body)?),
        SubmessageId::INFO_DST => Submessage::InfoDestination(InfoDestination::parse(flags, body)?),
        SubmessageId::HEARTBEAT => Submessage::Heartbeat(Heartbeat::parse(flags, body)?),
        SubmessageId::ACKNACK => Submessage::AckNack(AckNack::parse(flags, body)?),
        SubmessageId::GAP => Submessage::Gap(Gap::parse(flags, body)?),
        SubmessageId::NACK_FRAG => Submessage::NackFrag(NackFrag::parse(flags, body)?),
        SubmessageId::HEARTBEAT_FRAG => Submessage::HeartbeatFrag(HeartbeatFrag::parse(flags, body)?),
        SubmessageId::INFO_SRC => Submessage::InfoSource(InfoSource::parse(flags, body)?),
        SubmessageId::INFO_REPLY => Submessage::InfoReply(InfoReply::parse(flags, body)?),
        SubmessageId::INFO_REPLY_IP4 => Submessage::InfoReplyIp4(InfoReplyIp4::parse(flags, body)?),
        SubmessageId::PAD => Submessage::Pad,
        SubmessageId::HEADER_EXTENSION if first => Submessage::HeaderExtension(HeaderExtension::parse(flags, body)?),
        SubmessageId::HEADER_EXTENSION => return Err(Fault::ExtensionNotFirst),
        SubmessageId::SEC_BODY
        | SubmessageId::SEC_PREFIX
        | SubmessageId::SEC_POSTFIX
        | SubmessageId::SRTPS_PREFIX
        | SubmessageId::SRTPS_POSTFIX => Submessage::Security { id, flags, body },
        _ => Submessage::Unknown { id, flags, body },
    })
}

impl fmt::Display for Submessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeaderExtension(extension) => fmt::Display::fmt(extension, f),
            Self::Pad => f.write_str("PAD"),
            Self::AckNack(acknack) => fmt::Display::fmt(acknack, f),
            Self::Heartbeat(heartbeat) => fmt::Display::fmt(heartbeat, f),
            Self::Gap(gap) => fmt::Display::fmt(gap, f),
            Self::InfoTimestamp(info) => fmt::Display::fmt(info, f),
            Self::InfoSource(info) => fmt::Display::fmt(info, f),
            Self::InfoReplyIp4(info) => fmt::Display::fmt(info, f),
            Self::InfoDestination(info) => fmt::Display::fmt(info, f),
            Self::InfoReply(info) => fmt::Display::fmt(info, f),
            Self::NackFrag(nack) => fmt::Display::fmt(nack, f),
            Self::HeartbeatFrag(heartbeat) => fmt::Display::fmt(heartbeat, f),
            Self::Data(data) => fmt::Display::fmt(data, f),
            Self::DataFrag(data) => fmt::Display::fmt(data, f),
            Self::Security { id, flags, body } | Self::Unknown { id, flags, body } => {
                write!(f, "{id} flags {flags:#04x} {} bytes", body.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Submessages of known and unknown kinds, with lengths of 0 and lengths past the end.
    fn octets() -> impl Strategy<Value = Vec<u8>> {
        let id = prop_oneof![Just(SubmessageId::INFO_TS.0), Just(SubmessageId::SEC_PREFIX.0), 0x01_u8..0x40];
        let submessage = (id, 0_u8..2, prop_oneof![Just(0_u8), 0_u8..40], 0_usize..10);
        vec(submessage, 0..6).prop_map(|all| {
            let octets = all.into_iter().flat_map(|(id, flags, len, words)| {
                let stated = if flags & 1 == 1 { [len, 0] } else { [0, len] };
                [id, flags].into_iter().chain(stated).chain(core::iter::repeat_n(0x30, words * 4))
            });
            octets.collect()
        })
    }

    proptest! {
        #[test]
        fn submessage_that_is_found_may_be_contained(octets in octets(), wanted in 0x01_u8..0x40) {
            let wanted = SubmessageId(wanted);
            let mut submessages = Submessages::behind(&octets);
            let mut raw = core::iter::from_fn(|| submessages.next_raw());
            if raw.any(|raw| raw.is_ok_and(|raw| raw.id == wanted)) {
                prop_assert!(Submessages::may_contain(&octets, wanted));
            }
        }
    }

    #[test]
    fn submessages_without_the_wanted_one_do_not_contain_it() {
        let mut octets = Vec::new();
        InfoDestination { prefix: crate::id::GuidPrefix([0x31; 12]) }.emit(Endianness::Big, &mut octets);
        octets.extend_from_slice(&[SubmessageId::INFO_TS.0, 3, 0, 0, SubmessageId::PAD.0, 1, 4, 0, 0x31, 0, 0, 0]);
        assert!(!Submessages::may_contain(&octets, SubmessageId::SEC_PREFIX));
        octets.extend_from_slice(&[SubmessageId::SEC_PREFIX.0, 1, 0, 0]);
        assert!(Submessages::may_contain(&octets, SubmessageId::SEC_PREFIX));
    }
}
