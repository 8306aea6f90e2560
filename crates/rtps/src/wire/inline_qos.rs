//! The inline QoS of a DATA or DATA_FRAG.

use core::fmt;

use alloc::vec::Vec;

use super::cursor::Endianness;
use super::heartbeat::GroupDigest;
use super::parameter_id::ParameterId;
use super::parameter_list::{ParameterList, ParameterListWriter};
use super::value::{ValueError, ValueReader};
use crate::id::{Guid, KeyHash};
use crate::seq::SequenceNumber;
use crate::time::Span;
use crate::vendor::{Quirks, VendorId};

/// The parameters of an inline QoS that this implementation uses (RTPS 2.5 §8.7, §9.6.4). All absent by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InlineQos {
    /// The instance.
    pub key_hash: Option<KeyHash>,
    /// The change of the instance.
    pub status_info: StatusInfo,
    /// How long the sample is valid.
    pub lifespan: Option<Span>,
    /// The strength of the writer at the time of writing.
    pub ownership_strength: Option<i32>,
    /// The first sample of the coherent set of this sample; unknown when this sample ends a set.
    pub coherent_set: Option<SequenceNumber>,
    /// The first sample of the coherent set of the publisher.
    pub group_coherent_set: Option<SequenceNumber>,
    /// The number of the sample within its publisher.
    pub group_sequence_number: Option<SequenceNumber>,
    /// A digest of the writers of the publisher.
    pub writer_group: Option<GroupDigest>,
    /// The sample that this one replies to.
    pub related_sample_identity: Option<SampleIdentity>,
    /// The sample that this one relays.
    pub original_writer: Option<SampleIdentity>,
    /// The sample is for some readers only; see [`InlineQos::is_directed_to`].
    pub is_directed: bool,
}

/// Identifies one sample in the whole domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SampleIdentity {
    /// Its writer.
    pub writer: Guid,
    /// Its sequence number.
    pub sequence_number: SequenceNumber,
}

/// A change of an instance (RTPS 2.5 §9.6.4.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StatusInfo(pub u32);

/// Why a DATA or DATA_FRAG must be ignored because of its inline QoS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InlineQosError {
    /// An unknown parameter must be understood.
    MustUnderstand(ParameterId),
    /// The value of a parameter is malformed.
    Value(ParameterId, ValueError),
}

impl StatusInfo {
    /// A new value.
    pub const ALIVE: Self = Self(0);
    /// The instance was disposed.
    pub const DISPOSED: Self = Self(1);
    /// The writer unregistered the instance.
    pub const UNREGISTERED: Self = Self(2);
    /// The sample did not pass the content filter of the reader.
    pub const FILTERED: Self = Self(4);

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The flags of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl InlineQos {
    /// Reads a list from a participant of this vendor.
    ///
    /// # Errors
    /// The submessage must be ignored.
    pub fn parse(list: &ParameterList<'_>, vendor: VendorId) -> Result<Self, InlineQosError> {
        let mut qos = Self::default();
        let legacy_related = Quirks::of(vendor).related_sample_identity_parameter;
        for (id, octets) in list.iter() {
            let mut value = ValueReader::new(octets, list.endianness());
            let known = if legacy_related == Some(id) { ParameterId::RELATED_SAMPLE_IDENTITY } else { id };
            let is_known = qos
                .set(known.without_must_understand(), &mut value)
                .map_err(|error| InlineQosError::Value(id, error))?;
            if !is_known && id.must_understand() && !is_harmless(id) {
                return Err(InlineQosError::MustUnderstand(id));
            }
        }
        Ok(qos)
    }

    /// Whether a sample with this inline QoS is for `reader`.
    #[must_use]
    pub fn is_directed_to(list: &ParameterList<'_>, reader: Guid) -> bool {
        let mut directed = list
            .iter()
            .filter(|(id, _)| id.without_must_understand() == ParameterId::DIRECTED_WRITE)
            .filter_map(|(_, octets)| ValueReader::new(octets, list.endianness()).guid().ok())
            .peekable();
        directed.peek().is_none() || directed.any(|guid| guid == reader)
    }

    /// Whether the list has no parameter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Appends the list with its sentinel; appends nothing if the list is empty. The readers that a sample is directed
    /// to are not included.
    pub fn emit(&self, endianness: Endianness, out: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        let mut list = ParameterListWriter::new(out, endianness);
        if let Some(hash) = self.key_hash {
            list.parameter(ParameterId::KEY_HASH, |value| value.octets(&hash.0));
        }
        if self.status_info != StatusInfo::ALIVE {
            list.parameter(ParameterId::STATUS_INFO, |value| value.octets(&self.status_info.0.to_be_bytes()));
        }
        if let Some(lifespan) = self.lifespan {
            list.parameter(ParameterId::LIFESPAN, |value| value.duration(lifespan));
        }
        if let Some(strength) = self.ownership_strength {
            list.parameter(ParameterId::OWNERSHIP_STRENGTH, |value| value.i32(strength));
        }
        let numbers = [
            (ParameterId::COHERENT_SET, self.coherent_set),
            (ParameterId::GROUP_COHERENT_SET, self.group_coherent_set),
            (ParameterId::GROUP_SEQ_NUM, self.group_sequence_number),
        ];
        for (id, number) in numbers {
            if let Some(number) = number {
                list.parameter(id, |value| value.sequence_number(number));
            }
        }
        if let Some(digest) = self.writer_group {
            list.parameter(ParameterId::WRITER_GROUP_INFO, |value| value.octets(&digest.0));
        }
        let identities = [
            (ParameterId::RELATED_SAMPLE_IDENTITY, self.related_sample_identity),
            (ParameterId::ORIGINAL_WRITER_INFO, self.original_writer),
        ];
        for (id, identity) in identities {
            if let Some(identity) = identity {
                list.parameter(id, |value| {
                    value.guid(identity.writer);
                    value.sequence_number(identity.sequence_number);
                });
            }
        }
        list.finish();
    }

    /// Stores one parameter; `false` if it is unknown.
    fn set(&mut self, id: ParameterId, value: &mut ValueReader<'_>) -> Result<bool, ValueError> {
        match id {
            ParameterId::KEY_HASH => self.key_hash = Some(KeyHash(value.array()?)),
            ParameterId::STATUS_INFO => self.status_info = StatusInfo(u32::from_be_bytes(value.array()?)),
            ParameterId::LIFESPAN => self.lifespan = Some(value.duration()?),
            ParameterId::OWNERSHIP_STRENGTH => self.ownership_strength = Some(value.i32()?),
            ParameterId::COHERENT_SET => self.coherent_set = Some(value.sequence_number()?),
            ParameterId::GROUP_COHERENT_SET => self.group_coherent_set = Some(value.sequence_number()?),
            ParameterId::GROUP_SEQ_NUM => self.group_sequence_number = Some(value.sequence_number()?),
            ParameterId::WRITER_GROUP_INFO => self.writer_group = Some(GroupDigest(value.array()?)),
            ParameterId::RELATED_SAMPLE_IDENTITY => self.related_sample_identity = Some(sample_identity(value)?),
            ParameterId::ORIGINAL_WRITER_INFO => self.original_writer = Some(sample_identity(value)?),
            ParameterId::DIRECTED_WRITE => self.is_directed = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Whether this is a standard parameter without effect here, because discovery provides the same information.
fn is_harmless(id: ParameterId) -> bool {
    !id.is_vendor()
        && matches!(
            id.without_must_understand(),
            ParameterId::TOPIC_NAME
                | ParameterId::DURABILITY
                | ParameterId::PRESENTATION
                | ParameterId::PARTITION
                | ParameterId::DEADLINE
                | ParameterId::LATENCY_BUDGET
                | ParameterId::OWNERSHIP
                | ParameterId::LIVELINESS
                | ParameterId::RELIABILITY
                | ParameterId::TRANSPORT_PRIORITY
                | ParameterId::DESTINATION_ORDER
                | ParameterId::CONTENT_FILTER_INFO
                | ParameterId::PROPERTY_LIST
                | ParameterId::SECURE_WRITER_GROUP_INFO
        )
}

fn sample_identity(value: &mut ValueReader<'_>) -> Result<SampleIdentity, ValueError> {
    Ok(SampleIdentity { writer: value.guid()?, sequence_number: value.sequence_number()? })
}

impl fmt::Debug for StatusInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for InlineQosError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MustUnderstand(id) => write!(f, "inline QoS has {id}, which is unknown and must be understood"),
            Self::Value(id, error) => write!(f, "inline QoS {id}: {error}"),
        }
    }
}

impl core::error::Error for InlineQosError {}

#[cfg(test)]
mod tests {
    use super::super::vectors::hex;
    use super::*;
    use proptest::prelude::*;

    fn parse(octets: &str, vendor: VendorId) -> Result<InlineQos, InlineQosError> {
        let octets = hex(octets);
        InlineQos::parse(&ParameterList::parse(&octets, Endianness::Little).unwrap().0, vendor)
    }

    #[test]
    fn key_hash_and_status_of_dispose_are_parsed() {
        let qos = InlineQos {
            key_hash: Some(KeyHash([7; 16])),
            status_info: StatusInfo::DISPOSED.with(StatusInfo::UNREGISTERED),
            ..InlineQos::default()
        };
        let octets = "70001000 07070707 07070707 07070707 07070707 71000400 00000003 01000000";
        let mut out = Vec::new();
        qos.emit(Endianness::Little, &mut out);
        assert_eq!(out, hex(octets));
        assert_eq!(parse(octets, VendorId::UNKNOWN), Ok(qos));
        assert!(qos.status_info.contains(StatusInfo::DISPOSED));
        assert!(!qos.status_info.contains(StatusInfo::FILTERED));
    }

    #[test]
    fn empty_inline_qos_takes_no_bytes() {
        let mut out = Vec::new();
        InlineQos::default().emit(Endianness::Little, &mut out);
        assert!(out.is_empty());
    }

    #[test]
    fn legacy_related_identity_is_read_from_fast_dds_only() {
        let octets = "0f801800 00010203 04050607 08090a0b 0c0d0e0f 00000000 05000000 01000000";
        let related = SampleIdentity {
            writer: Guid::from_bytes(core::array::from_fn(|i| u8::try_from(i).unwrap())),
            sequence_number: SequenceNumber(5),
        };
        assert_eq!(parse(octets, VendorId::FAST_DDS).unwrap().related_sample_identity, Some(related));
        assert_eq!(parse(octets, VendorId::RTI).unwrap().related_sample_identity, None);
        let standard = octets.replace("0f80", "8300");
        assert_eq!(parse(&standard, VendorId::RTI).unwrap().related_sample_identity, Some(related));
    }

    #[test]
    fn unknown_mandatory_parameter_is_rejected() {
        assert!(parse("00200400 00000000 01000000", VendorId::UNKNOWN).is_ok());
        assert_eq!(
            parse("00600400 00000000 01000000", VendorId::UNKNOWN),
            Err(InlineQosError::MustUnderstand(ParameterId(0x6000)))
        );
        assert!(parse("1a400c00 02000000 00000000 00000000 01000000", VendorId::UNKNOWN).is_ok());
        assert_eq!(
            parse("70000400 00000000 01000000", VendorId::UNKNOWN),
            Err(InlineQosError::Value(ParameterId::KEY_HASH, ValueError::Truncated))
        );
    }

    #[test]
    fn directed_sample_is_for_named_readers_only() {
        let reader = |n| Guid::from_bytes([n; 16]);
        let mut out = Vec::new();
        let mut list = ParameterListWriter::new(&mut out, Endianness::Big);
        list.parameter(ParameterId::DIRECTED_WRITE, |value| value.guid(reader(1)));
        list.parameter(ParameterId::DIRECTED_WRITE, |value| value.guid(reader(2)));
        list.finish();
        let (list, _) = ParameterList::parse(&out, Endianness::Big).unwrap();
        assert!(InlineQos::parse(&list, VendorId::UNKNOWN).unwrap().is_directed);
        assert!(InlineQos::is_directed_to(&list, reader(2)));
        assert!(!InlineQos::is_directed_to(&list, reader(3)));
        let (empty, _) = ParameterList::parse(&[0, 1, 0, 0], Endianness::Big).unwrap();
        assert!(InlineQos::is_directed_to(&empty, reader(3)));
    }

    proptest! {
        #[test]
        fn any_value_round_trips(hash: Option<[u8; 16]>, status in 0u32..8, lifespan_ns: Option<u32>, strength: Option<i32>, coherent: Option<i64>, guid: Option<[u8; 16]>, big: bool) {
            let identity = guid.map(|guid| SampleIdentity { writer: Guid::from_bytes(guid), sequence_number: SequenceNumber(9) });
            let qos = InlineQos {
                key_hash: hash.map(KeyHash),
                status_info: StatusInfo(status),
                lifespan: lifespan_ns.map(|ns| Span(u64::from(ns))),
                ownership_strength: strength,
                coherent_set: coherent.map(SequenceNumber),
                group_coherent_set: coherent.map(SequenceNumber),
                group_sequence_number: coherent.map(SequenceNumber),
                writer_group: hash.map(|[a, b, c, d, ..]| GroupDigest([a, b, c, d])),
                related_sample_identity: identity,
                original_writer: identity,
                is_directed: false,
            };
            prop_assume!(!qos.is_empty());
            let endianness = if big { Endianness::Big } else { Endianness::Little };
            let mut out = Vec::new();
            qos.emit(endianness, &mut out);
            let (list, rest) = ParameterList::parse(&out, endianness).unwrap();
            prop_assert!(rest.is_empty());
            prop_assert_eq!(InlineQos::parse(&list, VendorId::UNKNOWN), Ok(qos));
        }
    }
}
