//! The receiver of RTPS 2.5 §8.3.4: parses one message and dispatches its submessages.

use core::fmt;

use crate::history::ChangeKind;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::protection::{OpenError, ProtectedAt};
use crate::reader::SampleMeta;
use crate::time::Timestamp;
use crate::vendor::VendorId;
use crate::wire::{
    AckNack, Data, DataFrag, Gap, Header, HeaderError, HeaderExtension, Heartbeat, HeartbeatFrag, InfoDestination,
    InfoSource, InlineQos, NackFrag, ParameterList, Payload, StatusInfo, Submessage, Submessages, WireError,
};

/// A submessage for an endpoint.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// To readers: a sample.
    Data(SampleMeta, Data<'a>),
    /// To readers: fragments of a sample.
    DataFrag(SampleMeta, DataFrag<'a>),
    /// To readers: which samples the writer has.
    Heartbeat(Heartbeat),
    /// To readers: which fragments of a sample were sent.
    HeartbeatFrag(HeartbeatFrag),
    /// To readers: which samples will never be sent.
    Gap(Gap),
    /// To a writer: which samples arrived, and which are missing.
    AckNack(AckNack),
    /// To a writer: which fragments are missing.
    NackFrag(NackFrag),
}

impl Input<'_> {
    /// Whether the input is for a reader. Otherwise it is for a writer.
    #[must_use]
    pub const fn is_for_reader(&self) -> bool {
        !matches!(self, Self::AckNack(_) | Self::NackFrag(_))
    }
}

/// Source and destination of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The remote endpoint that sent it.
    pub from: Guid,
    /// The local endpoint; [`EntityId::UNKNOWN`] for every matched one.
    pub to: EntityId,
    /// Vendor of the sender.
    pub vendor: VendorId,
    /// Whether the sender named this participant, which proves that the sender has received messages from it.
    pub is_addressed: bool,
    /// The levels of protection, with the key of `from` or of its participant.
    pub protection: ProtectedAt,
}

/// Why a message, or the rest of it, was discarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// The header is not a valid RTPS 2 header.
    Header(HeaderError),
    /// A submessage is malformed, which makes the rest of the message invalid.
    Malformed,
    /// The header extension has an unknown parameter that must be understood, or its checksum or length is wrong.
    HeaderExtension,
    /// The inline QoS is malformed or has an unknown parameter that must be understood. Only its sample is discarded.
    InlineQos,
    /// There is no key for a protected part.
    Protected,
    /// A protected part was not made by its sender for this participant, or was changed in transit.
    NotAuthentic,
    /// A pre-shared key is that of another domain.
    OtherDomain,
    /// The passphrase of a pre-shared key is not known.
    UnknownPassphrase,
    /// Too many unknown senders have used a pre-shared key.
    TooManySenders,
    /// A protected part names a new session of its key, and too many have done so lately.
    TooManySessions,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(error) => fmt::Display::fmt(error, f),
            Self::Malformed => f.write_str("malformed submessage"),
            Self::HeaderExtension => f.write_str("header extension not understood, or checksum or length wrong"),
            Self::InlineQos => f.write_str("inline QoS not understood or malformed"),
            Self::Protected => f.write_str("protected, and no key for it"),
            Self::NotAuthentic => f.write_str("protected, and not made by its sender for this participant"),
            Self::OtherDomain => f.write_str("protected with the pre-shared key of another domain"),
            Self::UnknownPassphrase => f.write_str("protected with a pre-shared key whose passphrase is not known"),
            Self::TooManySenders => f.write_str("protected with a pre-shared key, by one unknown sender too many"),
            Self::TooManySessions => f.write_str("protected in one new session of its key too many"),
        }
    }
}

/// Receives the content of a message.
pub trait Receive {
    /// A submessage for an endpoint of this participant.
    fn input(&mut self, envelope: Envelope, input: Input<'_>);
    /// The message, the rest of it or one sample was discarded. `from` is [`GuidPrefix::UNKNOWN`] without a valid
    /// header.
    fn dropped(&mut self, from: GuidPrefix, vendor: VendorId, reason: DropReason);
}

/// Parses a message. Returns its header if it is valid.
pub fn interpret(message: &[u8], own: GuidPrefix, receive: &mut impl Receive) -> Option<Header> {
    let (header, rest) = match Header::parse(message) {
        Ok(parsed) => parsed,
        Err(error) => {
            receive.dropped(GuidPrefix::UNKNOWN, VendorId::UNKNOWN, DropReason::Header(error));
            return None;
        }
    };
    Interpreter::new(&header, own).read(message, Submessages::new(rest), Origin::PLAIN, receive);
    Some(header)
}

/// The state of a receiver during one message.
pub(crate) struct Interpreter {
    own: GuidPrefix,
    source: GuidPrefix,
    vendor: VendorId,
    is_for_us: bool,
    is_addressed: bool,
    timestamp: Timestamp,
}

/// The protection of the submessages being read.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) protection: ProtectedAt,
    /// The owner of the key: an endpoint, or a participant on behalf of its endpoints.
    pub(crate) sender: Option<Guid>,
}

impl Origin {
    const PLAIN: Self = Self { protection: ProtectedAt { message: false, submessage: false }, sender: None };
}

enum Step<'a> {
    Nothing,
    Extension(HeaderExtension<'a>),
    Dropped(DropReason),
    /// The remote endpoint, the local one, and the input.
    Input(EntityId, EntityId, Input<'a>),
}

impl Interpreter {
    pub(crate) fn new(header: &Header, own: GuidPrefix) -> Self {
        Self {
            own,
            source: header.prefix,
            vendor: header.vendor,
            is_for_us: true,
            is_addressed: false,
            timestamp: Timestamp::INVALID,
        }
    }

    /// Reads submessages that were protected as `origin` states. `false` if the rest of the message is invalid.
    pub(crate) fn read_protected(
        &mut self,
        message: &[u8],
        submessages: Submessages<'_>,
        origin: Origin,
        // `dyn` keeps this code separate, so that the compiler inlines the path of unprotected messages in one place.
        receive: &mut dyn Receive,
    ) -> bool {
        self.read(message, submessages, origin, receive)
    }

    /// Reports a part of the message that cannot be trusted.
    pub(crate) fn refuse(&self, error: OpenError, receive: &mut dyn Receive) {
        let reason = match error {
            OpenError::UnknownKey => DropReason::Protected,
            OpenError::NotAuthentic => DropReason::NotAuthentic,
            OpenError::OtherDomain => DropReason::OtherDomain,
            OpenError::UnknownPassphrase => DropReason::UnknownPassphrase,
            OpenError::TooManySenders => DropReason::TooManySenders,
            OpenError::TooManySessions => DropReason::TooManySessions,
        };
        receive.dropped(self.source, self.vendor, reason);
    }

    /// Reports that the rest of the message is malformed.
    pub(crate) fn stop(&self, receive: &mut dyn Receive) {
        receive.dropped(self.source, self.vendor, DropReason::Malformed);
    }

    #[inline(always)]
    fn read<R: Receive + ?Sized>(
        &mut self,
        message: &[u8],
        mut submessages: Submessages<'_>,
        origin: Origin,
        receive: &mut R,
    ) -> bool {
        loop {
            // Fast path for the submessages of samples, in any order: in a batch, each sample may have its own
            // timestamp.
            if let Some(info) = submessages.next_timestamp() {
                self.timestamp = info.timestamp.unwrap_or(Timestamp::INVALID);
            }
            if let Some(data) = submessages.next_data() {
                self.data(data, origin, receive);
                continue;
            }
            if let Some(frag) = submessages.next_data_frag() {
                self.data_frag(frag, origin, receive);
                continue;
            }
            if let Some(info) = submessages.next_info_destination() {
                self.set_destination(info);
                continue;
            }
            if let Some(heartbeat) = submessages.next_heartbeat() {
                self.input((heartbeat.writer, heartbeat.reader), Input::Heartbeat(heartbeat), origin, receive);
                continue;
            }
            if let Some(acknack) = submessages.next_acknack() {
                self.input((acknack.reader, acknack.writer), Input::AckNack(acknack), origin, receive);
                continue;
            }
            if let Some(info) = submessages.next_info_source() {
                self.set_source(info);
                continue;
            }
            let Some(submessage) = submessages.next() else { return true };
            if !self.take(message, submessage, origin, receive) {
                return false;
            }
        }
    }

    /// Handles one submessage. `false` if the rest of the message is invalid.
    #[inline(always)]
    fn take<R: Receive + ?Sized>(
        &mut self,
        message: &[u8],
        submessage: Result<Submessage<'_>, WireError>,
        origin: Origin,
        receive: &mut R,
    ) -> bool {
        let Ok(submessage) = submessage else {
            receive.dropped(self.source, self.vendor, DropReason::Malformed);
            return false;
        };
        match self.step(submessage) {
            Step::Nothing => {}
            Step::Extension(extension) => {
                let not_understood =
                    extension.parameters.is_some_and(|list| list.iter().any(|(id, _)| id.must_understand()));
                if HeaderExtension::verify(message).is_err() || not_understood {
                    receive.dropped(self.source, self.vendor, DropReason::HeaderExtension);
                    return false;
                }
            }
            Step::Dropped(reason) => receive.dropped(self.source, self.vendor, reason),
            Step::Input(remote, to, input) => self.input((remote, to), input, origin, receive),
        }
        true
    }

    #[inline(always)]
    fn data<R: Receive + ?Sized>(&self, data: Data<'_>, origin: Origin, receive: &mut R) {
        match self.meta(data.inline_qos, matches!(data.payload, Payload::Key(_))) {
            Ok(meta) => self.input((data.writer, data.reader), Input::Data(meta, data), origin, receive),
            Err(reason) => receive.dropped(self.source, self.vendor, reason),
        }
    }

    #[inline(always)]
    fn data_frag<R: Receive + ?Sized>(&self, frag: DataFrag<'_>, origin: Origin, receive: &mut R) {
        match self.meta(frag.inline_qos, frag.is_key) {
            Ok(meta) => self.input((frag.writer, frag.reader), Input::DataFrag(meta, frag), origin, receive),
            Err(reason) => receive.dropped(self.source, self.vendor, reason),
        }
    }

    #[inline(always)]
    fn input<R: Receive + ?Sized>(
        &self,
        (remote, to): (EntityId, EntityId),
        input: Input<'_>,
        Origin { protection, sender }: Origin,
        receive: &mut R,
    ) {
        if self.is_for_us {
            let from = Guid::new(self.source, remote);
            if sender.is_some_and(|sender| !speaks_for(sender, from)) {
                // INFO_SRC or the submessage names an endpoint other than the owner of the key.
                receive.dropped(self.source, self.vendor, DropReason::NotAuthentic);
                return;
            }
            let Self { vendor, is_addressed, .. } = *self;
            receive.input(Envelope { from, to, vendor, is_addressed, protection }, input);
        }
    }

    #[inline]
    fn step<'a>(&mut self, submessage: Submessage<'a>) -> Step<'a> {
        match submessage {
            Submessage::Data(data) => match self.meta(data.inline_qos, matches!(data.payload, Payload::Key(_))) {
                Ok(meta) => Step::Input(data.writer, data.reader, Input::Data(meta, data)),
                Err(reason) => Step::Dropped(reason),
            },
            Submessage::DataFrag(frag) => match self.meta(frag.inline_qos, frag.is_key) {
                Ok(meta) => Step::Input(frag.writer, frag.reader, Input::DataFrag(meta, frag)),
                Err(reason) => Step::Dropped(reason),
            },
            Submessage::Heartbeat(h) => Step::Input(h.writer, h.reader, Input::Heartbeat(h)),
            Submessage::HeartbeatFrag(h) => Step::Input(h.writer, h.reader, Input::HeartbeatFrag(h)),
            Submessage::Gap(gap) => Step::Input(gap.writer, gap.reader, Input::Gap(gap)),
            Submessage::AckNack(a) => Step::Input(a.reader, a.writer, Input::AckNack(a)),
            Submessage::NackFrag(n) => Step::Input(n.reader, n.writer, Input::NackFrag(n)),
            Submessage::InfoTimestamp(info) => {
                self.timestamp = info.timestamp.unwrap_or(Timestamp::INVALID);
                Step::Nothing
            }
            Submessage::InfoDestination(info) => {
                self.set_destination(info);
                Step::Nothing
            }
            Submessage::InfoSource(info) => {
                self.set_source(info);
                Step::Nothing
            }
            Submessage::HeaderExtension(extension) => Step::Extension(extension),
            Submessage::Security { .. } => Step::Dropped(DropReason::Protected),
            // Replies go to the addresses of discovery, never to addresses in a message: a forged message cannot
            // redirect them.
            Submessage::InfoReply(_) | Submessage::InfoReplyIp4(_) => Step::Nothing,
            _ => Step::Nothing,
        }
    }

    #[inline]
    const fn set_source(&mut self, info: InfoSource) {
        self.source = info.prefix;
        self.vendor = info.vendor;
        self.timestamp = Timestamp::INVALID;
    }

    #[inline]
    fn set_destination(&mut self, info: InfoDestination) {
        self.is_addressed = info.prefix == self.own;
        self.is_for_us = self.is_addressed || info.prefix == GuidPrefix::UNKNOWN;
    }

    #[inline]
    fn meta(&self, inline_qos: Option<ParameterList<'_>>, is_key: bool) -> Result<SampleMeta, DropReason> {
        let mut meta = SampleMeta {
            // An early implementation disposed with a key and without a status.
            kind: if is_key { ChangeKind::Disposed } else { ChangeKind::Alive },
            key_hash: None,
            source_timestamp: self.timestamp,
            lifespan: None,
            is_filtered: false,
            is_directed: false,
            is_instance_certain: false,
        };
        let Some(list) = inline_qos else { return Ok(meta) };
        let qos = InlineQos::parse(&list, self.vendor).map_err(|_| DropReason::InlineQos)?;
        let disposed = qos.status_info.contains(StatusInfo::DISPOSED);
        let unregistered = qos.status_info.contains(StatusInfo::UNREGISTERED);
        meta.kind = match (disposed, unregistered) {
            (true, true) => ChangeKind::DisposedUnregistered,
            (true, false) => ChangeKind::Disposed,
            (false, true) => ChangeKind::Unregistered,
            (false, false) => meta.kind,
        };
        meta.key_hash = qos.key_hash;
        meta.lifespan = qos.lifespan;
        meta.is_filtered = qos.status_info.contains(StatusInfo::FILTERED);
        meta.is_directed = qos.is_directed;
        Ok(meta)
    }
}

/// Whether the owner of a key may send on behalf of this endpoint.
fn speaks_for(sender: Guid, from: Guid) -> bool {
    sender == from || sender == Guid::new(from.prefix, EntityId::PARTICIPANT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vendor::ProtocolVersion;
    use crate::wire::{Checksum, DataHead, Endianness, InfoTimestamp, ParameterList, PayloadKind};
    use std::vec;
    use std::vec::Vec;

    const SENT: Timestamp = Timestamp { seconds: 1000, fraction: 0 };
    const WRITTEN: Timestamp = Timestamp { seconds: 900, fraction: 0 };

    #[derive(Default)]
    struct Heard {
        /// The source timestamps of the samples.
        samples: Vec<Timestamp>,
        dropped: Vec<DropReason>,
    }

    impl Receive for Heard {
        fn input(&mut self, _: Envelope, input: Input<'_>) {
            let Input::Data(meta, _) = input else { panic!("{input:?}") };
            self.samples.push(meta.source_timestamp);
        }

        fn dropped(&mut self, _: GuidPrefix, _: VendorId, reason: DropReason) {
            self.dropped.push(reason);
        }
    }

    /// A sample before and a sample after an INFO_TS.
    fn message(extension: &HeaderExtension<'_>) -> Vec<u8> {
        let mut out = vec![];
        let header = Header { version: ProtocolVersion::V2_5, vendor: VendorId::RTI, prefix: GuidPrefix([3; 12]) };
        header.emit(&mut out);
        extension.emit(Endianness::Big, &mut out);
        let head = DataHead {
            reader: EntityId::UNKNOWN,
            writer: EntityId::user_writer(1, false),
            sequence_number: crate::seq::SequenceNumber(1),
            inline_qos: &[],
            payload: PayloadKind::None,
        };
        head.emit(Endianness::Little, 0, &mut out);
        InfoTimestamp { timestamp: Some(WRITTEN) }.emit(Endianness::Little, &mut out);
        head.emit(Endianness::Little, 0, &mut out);
        extension.seal(Endianness::Big, &mut out);
        out
    }

    fn receive_all(message: &[u8]) -> Heard {
        let mut heard = Heard::default();
        interpret(message, GuidPrefix([4; 12]), &mut heard);
        heard
    }

    #[test]
    fn timestamp_of_header_extension_is_not_source_timestamp() {
        for checksum in
            [None, Some(Checksum::Crc32c([0; 4])), Some(Checksum::Crc64([0; 8])), Some(Checksum::Md5([0; 16]))]
        {
            let extension = HeaderExtension {
                message_length: Some(0),
                send_timestamp: Some(SENT),
                u_extension: Some([1; 4]),
                w_extension: Some([2; 8]),
                checksum,
                parameters: None,
            };
            let heard = receive_all(&message(&extension));
            assert_eq!(heard.samples, [Timestamp::INVALID, WRITTEN]);
            assert!(heard.dropped.is_empty());
        }
    }

    #[test]
    fn message_with_wrong_header_extension_is_discarded() {
        let extension = HeaderExtension {
            message_length: Some(0),
            checksum: Some(Checksum::Crc32c([0; 4])),
            ..HeaderExtension::EMPTY
        };
        let good = message(&extension);
        for at in (28..good.len()).step_by(4) {
            let mut damaged = good.clone();
            // The last byte of each word, including the lengths of submessages: the result must be the same for all.
            damaged[at + 3] ^= 0x40;
            let heard = receive_all(&damaged);
            assert_eq!(heard.dropped, [DropReason::HeaderExtension], "byte {at}");
            assert!(heard.samples.is_empty(), "byte {at}");
        }
        let heard = receive_all(&good[..good.len() - 24]);
        assert_eq!((heard.samples.len(), heard.dropped), (0, vec![DropReason::HeaderExtension]));
    }

    #[test]
    fn unknown_parameter_of_header_extension_is_skipped_unless_mandatory() {
        for (id, is_heard) in [(0x3e01_u16, true), (0x8001, true), (0x7e01, false), (0xc001, false)] {
            let mut octets = id.to_be_bytes().to_vec();
            octets.extend_from_slice(&[0, 4, 1, 2, 3, 4, 0, 1, 0, 0]);
            let parameters = ParameterList::parse_to_end(&octets, Endianness::Big).unwrap();
            let heard =
                receive_all(&message(&HeaderExtension { parameters: Some(parameters), ..HeaderExtension::EMPTY }));
            assert_eq!(heard.samples.len(), if is_heard { 2 } else { 0 }, "{id:#x}");
            assert_eq!(heard.dropped.is_empty(), is_heard, "{id:#x}");
        }
    }
}
