//! The policies as parameters (RTPS 2.5 §9.6.3, §9.6.4; XTypes 1.3 §7.6.3).

use alloc::string::ToString;
use alloc::vec::Vec;

use super::policy::{
    AccessScope, BinaryProperty, DataRepresentation, Deadline, DestinationOrder, Durability, DurabilityService,
    GroupData, History, LatencyBudget, Lifespan, Limit, Liveliness, LivelinessKind, Ownership, OwnershipStrength,
    Partition, Presentation, Properties, Property, Reliability, ReliabilityKind, RepresentationId, ResourceLimits,
    TimeBasedFilter, TopicData, TransportPriority, TypeConsistency, TypeConsistencyKind, UserData,
};
use crate::limits::{PARTITION_BYTES_MAX, PARTITIONS_MAX, PROPERTIES_MAX, PROPERTY_BYTES_MAX};
use crate::wire::{Endianness, ParameterId, ParameterListWriter, ValueError, ValueReader, ValueWriter};

/// The greatest number of representations read from one announcement; the standard has three.
const REPRESENTATIONS_MAX: usize = 16;

/// A policy that discovery announces.
pub(crate) trait WirePolicy: Sized {
    const ID: ParameterId;

    fn read(value: &mut ValueReader<'_>) -> Result<Self, ValueError>;
    fn write(&self, value: &mut ValueWriter<'_>);

    fn append(&self, list: &mut ParameterListWriter<'_>) {
        list.parameter(Self::ID, |value| self.write(value));
    }

    /// Appends the policy unless it has the default value.
    fn append_unless_default(&self, list: &mut ParameterListWriter<'_>)
    where
        Self: Default + PartialEq,
    {
        if *self != Self::default() {
            self.append(list);
        }
    }
}

macro_rules! enumerators {
    ($($type:ident { $($variant:ident = $number:literal),* })*) => {$(
        impl $type {
            fn from_number(number: u32) -> Result<Self, ValueError> {
                match number {
                    $($number => Ok(Self::$variant),)*
                    other => Err(ValueError::Enumerator(other)),
                }
            }

            const fn number(self) -> u32 {
                match self {
                    $(Self::$variant => $number,)*
                }
            }
        }
    )*};
}
enumerators! {
    Durability { Volatile = 0, TransientLocal = 1, Transient = 2, Persistent = 3 }
    AccessScope { Instance = 0, Topic = 1, Group = 2 }
    Ownership { Shared = 0, Exclusive = 1 }
    LivelinessKind { Automatic = 0, ManualByParticipant = 1, ManualByTopic = 2 }
    ReliabilityKind { BestEffort = 1, Reliable = 2 }
    DestinationOrder { ByReceptionTimestamp = 0, BySourceTimestamp = 1 }
    TypeConsistencyKind { DisallowTypeCoercion = 0, AllowTypeCoercion = 1 }
}

macro_rules! wire_policies {
    ($($type:ident = $id:ident { |$reader:ident| $read:expr, |$this:ident, $writer:ident| $write:expr })*) => {$(
        impl WirePolicy for $type {
            const ID: ParameterId = ParameterId::$id;

            fn read($reader: &mut ValueReader<'_>) -> Result<Self, ValueError> {
                Ok($read)
            }

            fn write(&self, $writer: &mut ValueWriter<'_>) {
                let $this = self;
                $write;
            }
        }
    )*};
}
wire_policies! {
    UserData = USER_DATA { |r| Self(r.octet_sequence()?.to_vec()), |p, w| w.octet_sequence(&p.0) }
    TopicData = TOPIC_DATA { |r| Self(r.octet_sequence()?.to_vec()), |p, w| w.octet_sequence(&p.0) }
    GroupData = GROUP_DATA { |r| Self(r.octet_sequence()?.to_vec()), |p, w| w.octet_sequence(&p.0) }
    Durability = DURABILITY { |r| Self::from_number(r.u32()?)?, |p, w| w.u32(p.number()) }
    Deadline = DEADLINE { |r| Self { period: r.duration()? }, |p, w| w.duration(p.period) }
    LatencyBudget = LATENCY_BUDGET { |r| Self { duration: r.duration()? }, |p, w| w.duration(p.duration) }
    Ownership = OWNERSHIP { |r| Self::from_number(r.u32()?)?, |p, w| w.u32(p.number()) }
    OwnershipStrength = OWNERSHIP_STRENGTH { |r| Self(r.i32()?), |p, w| w.i32(p.0) }
    TimeBasedFilter = TIME_BASED_FILTER {
        |r| Self { minimum_separation: r.duration()? },
        |p, w| w.duration(p.minimum_separation)
    }
    TransportPriority = TRANSPORT_PRIORITY { |r| Self(r.i32()?), |p, w| w.i32(p.0) }
    Lifespan = LIFESPAN { |r| Self { duration: r.duration()? }, |p, w| w.duration(p.duration) }
    DestinationOrder = DESTINATION_ORDER { |r| Self::from_number(r.u32()?)?, |p, w| w.u32(p.number()) }
    Liveliness = LIVELINESS {
        |r| Self { kind: LivelinessKind::from_number(r.u32()?)?, lease_duration: r.duration()? },
        |p, w| { w.u32(p.kind.number()); w.duration(p.lease_duration) }
    }
    Reliability = RELIABILITY {
        |r| Self { kind: ReliabilityKind::from_number(r.u32()?)?, max_blocking_time: r.duration()? },
        |p, w| { w.u32(p.kind.number()); w.duration(p.max_blocking_time) }
    }
    Presentation = PRESENTATION {
        |r| Self { scope: AccessScope::from_number(r.u32()?)?, coherent: r.bool()?, ordered: r.bool()? },
        |p, w| { w.u32(p.scope.number()); w.bool(p.coherent); w.bool(p.ordered) }
    }
    History = HISTORY { |r| read_history(r)?, |p, w| write_history(*p, w) }
    ResourceLimits = RESOURCE_LIMITS { |r| read_limits(r)?, |p, w| write_limits(p, w) }
    DurabilityService = DURABILITY_SERVICE {
        |r| Self { cleanup_delay: r.duration()?, history: read_history(r)?, limits: read_limits(r)? },
        |p, w| { w.duration(p.cleanup_delay); write_history(p.history, w); write_limits(&p.limits, w) }
    }
    Partition = PARTITION { |r| read_partition(r)?, |p, w| write_strings(&p.0, w) }
    DataRepresentation = DATA_REPRESENTATION { |r| read_representations(r)?, |p, w| write_representations(p, w) }
    TypeConsistency = TYPE_CONSISTENCY { |r| read_type_consistency(r)?, |p, w| write_type_consistency(p, w) }
    Properties = PROPERTY_LIST { |r| read_properties(r)?, |p, w| write_properties(p, w) }
}

/// The depth has no meaning with KEEP_ALL; some peers write 0 or -1 then.
fn read_history(value: &mut ValueReader<'_>) -> Result<History, ValueError> {
    let kind = value.u32()?;
    let depth = value.i32()?;
    match kind {
        0 => match u32::try_from(depth) {
            Ok(depth) if depth > 0 => Ok(History::KeepLast { depth }),
            _ => Err(ValueError::OutOfRange(i64::from(depth))),
        },
        1 => Ok(History::KeepAll),
        other => Err(ValueError::Enumerator(other)),
    }
}

fn write_history(history: History, value: &mut ValueWriter<'_>) {
    let (kind, depth) = match history {
        History::KeepLast { depth } => (0, i32::try_from(depth).unwrap_or(i32::MAX)),
        History::KeepAll => (1, 1),
    };
    value.u32(kind);
    value.i32(depth);
}

fn read_limits(value: &mut ValueReader<'_>) -> Result<ResourceLimits, ValueError> {
    let mut limit = || Ok(u32::try_from(value.i32()?).map_or(Limit::Unlimited, Limit::At));
    Ok(ResourceLimits { max_samples: limit()?, max_instances: limit()?, max_samples_per_instance: limit()? })
}

fn write_limits(limits: &ResourceLimits, value: &mut ValueWriter<'_>) {
    for limit in [limits.max_samples, limits.max_instances, limits.max_samples_per_instance] {
        value.i32(match limit {
            Limit::At(limit) => i32::try_from(limit).unwrap_or(i32::MAX),
            Limit::Unlimited => -1,
        });
    }
}

fn read_partition(value: &mut ValueReader<'_>) -> Result<Partition, ValueError> {
    let count = value.count(4)?;
    let mut names = Vec::new();
    for _ in 0..count.min(PARTITIONS_MAX) {
        names.push(value.string(PARTITION_BYTES_MAX)?.to_string());
    }
    Ok(Partition(names))
}

fn write_strings(strings: &[alloc::string::String], value: &mut ValueWriter<'_>) {
    value.count(strings.len());
    for string in strings {
        value.string(string);
    }
}

/// An empty list has the same meaning as one that contains XCDR1 only.
fn read_representations(value: &mut ValueReader<'_>) -> Result<DataRepresentation, ValueError> {
    let count = value.count(2)?;
    let mut ids = Vec::new();
    for _ in 0..count.min(REPRESENTATIONS_MAX) {
        ids.push(RepresentationId(value.i16()?));
    }
    Ok(DataRepresentation(if ids.is_empty() { Vec::from([RepresentationId::XCDR1]) } else { ids }))
}

fn write_representations(representation: &DataRepresentation, value: &mut ValueWriter<'_>) {
    value.count(representation.effective().len());
    for id in representation.effective() {
        value.i16(id.0);
    }
}

/// Early revisions of the standard had only the kind.
fn read_type_consistency(value: &mut ValueReader<'_>) -> Result<TypeConsistency, ValueError> {
    let kind = TypeConsistencyKind::from_number(u32::from(value.u16()?))?;
    let default = TypeConsistency { kind, ..TypeConsistency::default() };
    let mut flag = |default| value.bool().unwrap_or(default);
    Ok(TypeConsistency {
        kind,
        ignore_sequence_bounds: flag(default.ignore_sequence_bounds),
        ignore_string_bounds: flag(default.ignore_string_bounds),
        ignore_member_names: flag(default.ignore_member_names),
        prevent_type_widening: flag(default.prevent_type_widening),
        force_type_validation: flag(default.force_type_validation),
    })
}

fn write_type_consistency(policy: &TypeConsistency, value: &mut ValueWriter<'_>) {
    value.u16(u16::try_from(policy.kind.number()).unwrap_or(0));
    value.bool(policy.ignore_sequence_bounds);
    value.bool(policy.ignore_string_bounds);
    value.bool(policy.ignore_member_names);
    value.bool(policy.prevent_type_widening);
    value.bool(policy.force_type_validation);
}

/// Properties are informative: one that is too long or not valid text is skipped, and the announcement remains valid.
fn read_properties(value: &mut ValueReader<'_>) -> Result<Properties, ValueError> {
    let mut properties = Properties::default();
    for _ in 0..value.count(8)? {
        let (name, text) = (optional_string(value)?, optional_string(value)?);
        if let (Some(name), Some(text)) = (name, text)
            && properties.text.len() < PROPERTIES_MAX
        {
            properties.text.push(Property { name: name.to_string(), value: text.to_string(), propagate: true });
        }
    }
    if value.remaining() < 4 {
        return Ok(properties);
    }
    for _ in 0..value.count(8)? {
        let (name, octets) = (optional_string(value)?, value.octet_sequence()?);
        if let Some(name) = name
            && octets.len() <= PROPERTY_BYTES_MAX
            && properties.binary.len() < PROPERTIES_MAX
        {
            properties.binary.push(BinaryProperty { name: name.to_string(), value: octets.to_vec(), propagate: true });
        }
    }
    Ok(properties)
}

fn optional_string<'a>(value: &mut ValueReader<'a>) -> Result<Option<&'a str>, ValueError> {
    match value.string(PROPERTY_BYTES_MAX) {
        Ok(string) => Ok(Some(string)),
        Err(ValueError::TooLong { .. } | ValueError::NotUtf8) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Properties {
    /// The length of the announced properties as a parameter, in bytes.
    #[must_use]
    pub fn announced_bytes(&self) -> usize {
        let mut out = Vec::new();
        ParameterListWriter::new(&mut out, Endianness::Little).parameter(Self::ID, |value| self.write(value));
        out.len()
    }
}

/// The second sequence is written only if it is not empty: older peers do not expect it.
fn write_properties(properties: &Properties, value: &mut ValueWriter<'_>) {
    let text = || properties.text.iter().filter(|property| property.propagate);
    value.count(text().count());
    for property in text() {
        value.string(&property.name);
        value.string(&property.value);
    }
    let binary = || properties.binary.iter().filter(|property| property.propagate);
    if binary().next().is_none() {
        return;
    }
    value.count(binary().count());
    for property in binary() {
        value.string(&property.name);
        value.octet_sequence(&property.value);
    }
}
