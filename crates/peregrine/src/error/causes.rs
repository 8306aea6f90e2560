//! The causes of each return code.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use peregrine_rtps::history::Full;
use peregrine_rtps::id::{Guid, KeyHash as InstanceHandle};
use peregrine_rtps::qos::{NonMatch, PolicyId};
use peregrine_transport::interface::NoInterface;

use super::settings::{Argument, GroupFault, PeerFault, UnsupportedValue};

/// The argument that is not valid.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BadParameter {
    /// An argument has more bytes or elements than are permitted.
    TooLong {
        /// Which argument or policy.
        argument: Argument,
        /// How many it has.
        len: usize,
        /// The maximum length, in bytes or elements.
        max: usize,
    },
    /// A number is too small or too large.
    OutOfRange {
        /// Which argument.
        argument: Argument,
        /// The given value.
        value: u64,
        /// The smallest permitted value.
        min: u64,
        /// The largest permitted value.
        max: u64,
        /// The unit of the three numbers.
        unit: Unit,
    },
    /// The name of a topic is empty.
    EmptyTopicName,
    /// The name of a type is empty.
    EmptyTypeName,
    /// The writer has not registered this instance, or the reader does not know it.
    UnknownInstance(InstanceHandle),
    /// A sample that is built in place does not fit into the given capacity.
    CapacityExceeded {
        /// Its type.
        type_name: &'static str,
        /// The capacity, in bytes.
        capacity: usize,
    },
    /// A serialized payload is not in the representation that the writer offers.
    Representation {
        /// The representation of the payload; `None` if the payload does not begin with a known encapsulation header.
        given: Option<peregrine_xtypes::Representation>,
        /// The representation that the writer offers.
        offered: peregrine_xtypes::Representation,
    },
    /// The key function of a serialized type has not found the instance of a payload.
    NoInstance {
        /// The name of the type.
        type_name: Arc<str>,
    },
    /// A name has a NUL character.
    NulCharacter {
        /// Which argument.
        argument: Argument,
    },
    /// No transport is switched on.
    NoTransport,
    /// [`DomainConfig::interfaces`](crate::DomainConfig::interfaces) selects no interface of this host.
    NoInterface(NoInterface),
    /// No selected interface has an address of a transport in use.
    NoAddress {
        /// IPv4 is in use.
        v4: bool,
        /// IPv6 is in use.
        v6: bool,
    },
    /// A multicast group cannot be joined.
    Group {
        /// Its address.
        group: IpAddr,
        /// Why not.
        fault: GroupFault,
    },
    /// A peer is not valid.
    Peer {
        /// The peer, as given.
        peer: String,
        /// Why it is not.
        fault: PeerFault,
    },
    /// The environment variable `PEREGRINE_LOG` is none of `off`, `error`, `warn`, `info`, `debug` and `trace`.
    LogLevel {
        /// Its value.
        value: String,
    },
}

/// The unit of a number in an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// The number is a count or an identifier.
    None,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Bits per second.
    BitsPerSecond,
}

/// The precondition of a call that is not met.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Precondition {
    /// The participant has a topic of this name with another type.
    TopicHasOtherType {
        /// The name of the topic.
        topic: Arc<str>,
        /// The type of the existing topic.
        existing: Arc<str>,
        /// The requested type.
        requested: Arc<str>,
    },
    /// The participant has a topic of this name with other policies.
    TopicHasOtherQos {
        /// The name of the topic.
        topic: Arc<str>,
    },
    /// The participant of the entity is not enabled.
    ParticipantNotEnabled,
    /// The publisher of the writer is not enabled.
    PublisherNotEnabled,
    /// Publications of the publisher are not suspended.
    NotSuspended,
    /// The subscriber of the reader is not enabled.
    SubscriberNotEnabled,
    /// The topic has no keys, hence no instances to dispose or unregister.
    NoKeys {
        /// The name of the topic.
        topic: Arc<str>,
    },
    /// The writer has not registered the instance, or has unregistered it already.
    NotRegistered(InstanceHandle),
    /// A value of this type cannot be lent.
    NotPlain {
        /// The name of the type.
        type_name: &'static str,
        /// The representation that the writer offers.
        representation: peregrine_xtypes::Representation,
        /// The member or attribute to change.
        obstacle: Option<peregrine_xtypes::plain::Obstacle>,
    },
    /// Flat samples are in XCDR2, which the writer does not offer.
    NotXcdr2,
    /// The loan is of another writer.
    ForeignLoan,
    /// The condition is of another reader.
    ForeignCondition,
    /// The condition is not attached to the wait set.
    NotAttached,
    /// Another thread waits on the wait set already.
    AlreadyWaiting,
    /// A reader with DURABILITY VOLATILE gets no historical data.
    NoHistoricalData,
    /// The sample has no value: only the state of its instance has changed.
    NoValue,
}

/// The limit that is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OutOfResources {
    /// `max_instances` of RESOURCE_LIMITS: as many instances are registered.
    MaxInstances {
        /// The topic of the writer.
        topic: Arc<str>,
    },
    /// The system has no memory for this many bytes.
    Memory {
        /// The number of bytes.
        bytes: usize,
    },
}

/// The event that did not occur in time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Timeout {
    /// A writer had no room for a sample within `max_blocking_time`.
    NoRoom {
        /// The topic of the writer.
        topic: Arc<str>,
        /// The limit that is reached.
        limit: Full,
        /// The number of samples that the writer holds.
        held: usize,
        /// How many readers the writer waits for.
        behind: usize,
        /// The reader that is furthest behind.
        reader: Option<Guid>,
        /// How long the call waited.
        waited: Duration,
    },
    /// The reader received no sample.
    NoData {
        /// The topic of the reader.
        topic: Arc<str>,
        /// How long the call waited.
        waited: Duration,
    },
    /// None of the conditions of a wait set became true.
    NoCondition {
        /// The number of attached conditions.
        conditions: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// Not all reliable readers have acknowledged all samples.
    NotAcknowledged {
        /// The number of matched readers.
        readers: usize,
        /// The number of readers that have not acknowledged everything, also readers that do not answer and for which
        /// the writer no longer waits.
        behind: usize,
        /// One of them.
        reader: Option<Guid>,
        /// How long the call waited.
        waited: Duration,
    },
    /// The historical data of the matched writers is not complete.
    HistoricalData {
        /// The number of matched writers.
        writers: usize,
        /// How long the call waited.
        waited: Duration,
    },
    /// Fewer endpoints match than the call waits for.
    NotMatched {
        /// The topic.
        topic: Arc<str>,
        /// The number of matched endpoints.
        found: usize,
        /// The number of endpoints that the call waits for.
        wanted: usize,
        /// How long the call waited.
        waited: Duration,
        /// The reason, as far as the participant knows it.
        why: Box<Unmatched>,
    },
    /// A writer, or the writers of a participant, were closed before readers had acknowledged their last samples. These
    /// samples are lost for such readers.
    NotFlushed {
        /// The number of writers.
        writers: usize,
        /// The number of samples that at least one reliable reader has not acknowledged.
        samples: u64,
        /// How long the call waited.
        waited: Duration,
    },
    /// No topic of this name and type was found.
    NoTopic {
        /// The name.
        topic: Arc<str>,
        /// How long the call waited.
        waited: Duration,
    },
}

/// Why no more endpoints match.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unmatched {
    /// An endpoint of the topic was discovered and does not match.
    Mismatch {
        /// The last endpoint that did not match.
        endpoint: Guid,
        /// The reason, with the values of both sides.
        reason: NonMatch,
    },
    /// Other participants were discovered, but no further endpoint of the topic.
    NoEndpoint {
        /// The number of discovered participants.
        participants: usize,
    },
    /// No other participant was discovered.
    NoParticipant,
}

/// A feature that is not implemented.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unsupported {
    /// A value of a policy.
    Policy {
        /// The policy.
        policy: PolicyId,
        /// Which value.
        value: UnsupportedValue,
    },
    /// Properties of a participant cannot change after the participant has been created.
    PropertyChange,
}

impl fmt::Display for BadParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { argument, len, max } => write!(f, "{argument} has {len}, permitted are at most {max}"),
            Self::OutOfRange { argument, value, min, max: u64::MAX, unit } => {
                write!(f, "{argument} is {value}{unit}, permitted is at least {min}{unit}")
            }
            Self::OutOfRange { argument, value, min, max, unit } => {
                write!(f, "{argument} is {value}{unit}, permitted are {min} to {max}{unit}")
            }
            Self::EmptyTopicName => f.write_str("the name of a topic is empty"),
            Self::EmptyTypeName => f.write_str("the name of a type is empty"),
            Self::UnknownInstance(instance) => {
                write!(
                    f,
                    "{instance:?} is not known here: use the handle of register_instance, lookup_instance or a sample"
                )
            }
            Self::CapacityExceeded { type_name, capacity } => {
                write!(f, "capacity is {capacity} bytes, which the sample of {type_name} exceeds: give it more")
            }
            Self::Representation { given: Some(given), offered } => {
                let (given, offered) = (representation_name(*given), representation_name(*offered));
                write!(
                    f,
                    "the payload is in {given}, the writer offers {offered}: build a writer with representation {given}"
                )
            }
            Self::Representation { given: None, .. } => {
                f.write_str("the payload does not begin with an encapsulation header for XCDR1 or XCDR2")
            }
            Self::NoInstance { type_name } => {
                write!(f, "the key function of {type_name} finds no instance in the payload")
            }
            Self::NulCharacter { argument } => write!(f, "{argument} has a NUL character: remove it"),
            Self::NoTransport => f.write_str("neither UDPv4 nor UDPv6 is enabled: enable udp_v4 or udp_v6"),
            Self::NoInterface(error) => fmt::Display::fmt(error, f),
            Self::NoAddress { v4, v6 } => {
                let versions = match (v4, v6) {
                    (true, false) => "IPv4",
                    (false, true) => "IPv6",
                    _ => "IPv4 or IPv6",
                };
                write!(f, "no chosen interface has an {versions} address")
            }
            Self::Group { group, fault } => write!(f, "{group} {fault}"),
            Self::Peer { peer, fault } => write!(f, "peer \"{peer}\": {fault}"),
            Self::LogLevel { value } => {
                write!(f, "PEREGRINE_LOG is \"{value}\"; permitted are off, error, warn, info, debug and trace")
            }
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "",
            Self::Bytes => " bytes",
            Self::Milliseconds => " ms",
            Self::Nanoseconds => " ns",
            Self::BitsPerSecond => " bits/s",
        })
    }
}

const fn representation_name(representation: peregrine_xtypes::Representation) -> &'static str {
    match representation {
        peregrine_xtypes::Representation::Xcdr1 => "XCDR1",
        peregrine_xtypes::Representation::Xcdr2 => "XCDR2",
    }
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TopicHasOtherType { topic, existing, requested } => {
                write!(f, "topic \"{topic}\" exists with type {existing}, it cannot have type {requested} as well")
            }
            Self::TopicHasOtherQos { topic } => {
                write!(f, "topic \"{topic}\" exists with other policies; change them with set_qos")
            }
            Self::ParticipantNotEnabled => f.write_str("the participant of this entity is not enabled; enable it first"),
            Self::PublisherNotEnabled => f.write_str("the publisher of this writer is not enabled; enable it first"),
            Self::NotSuspended => f.write_str("publications are not suspended; call suspend_publications first"),
            Self::SubscriberNotEnabled => f.write_str("the subscriber of this reader is not enabled; enable it first"),
            Self::NoKeys { topic } => write!(f, "topic \"{topic}\" has no keys, hence no instances to dispose or unregister"),
            Self::NotRegistered(instance) => {
                write!(f, "{instance:?} is not registered with this writer: write or register it first")
            }
            Self::NotPlain { type_name, representation, obstacle } => {
                write!(f, "a sample of {type_name} cannot be lent in {}: ", representation_name(*representation))?;
                match obstacle {
                    Some(obstacle) => write!(f, "{obstacle}; or use write"),
                    None => f.write_str("its bytes are not a value of the type; use write"),
                }
            }
            Self::NotXcdr2 => f.write_str(
                "flat samples are in XCDR2, which the writer does not offer: leave its DATA_REPRESENTATION to the default, or put \
                 XCDR2 first",
            ),
            Self::ForeignLoan => f.write_str("the loan belongs to another writer: write it with the writer that lent it"),
            Self::ForeignCondition => f.write_str("the condition belongs to another reader: use a condition of this reader"),
            Self::NotAttached => f.write_str("the condition is not attached to this wait set"),
            Self::AlreadyWaiting => f.write_str("another thread waits on this wait set already; use a wait set for each thread"),
            Self::NoHistoricalData => {
                f.write_str("a reader with DURABILITY VOLATILE gets no historical data; make it TRANSIENT_LOCAL")
            }
            Self::NoValue => {
                f.write_str("the sample has no value, only the state of its instance has changed: check valid_data first")
            }
        }
    }
}

impl fmt::Display for OutOfResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxInstances { topic } => write!(
                f,
                "topic \"{topic}\": max_instances of RESOURCE_LIMITS is reached; unregister an instance or raise the limit"
            ),
            Self::Memory { bytes } => write!(f, "there is no memory for {bytes} bytes"),
        }
    }
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { topic, limit: Full::SendQueue, waited, .. } => write!(
                f,
                "a sample of topic \"{topic}\" could not be queued within {waited:?}: other threads write faster than the link \
                 sends; write less often, or raise max_blocking_time"
            ),
            Self::NoRoom { topic, limit, held, behind, reader, waited } => {
                let limit = match limit {
                    Full::Samples => "max_samples",
                    Full::Instances => "max_instances",
                    Full::SamplesPerInstance => "max_samples_per_instance",
                    Full::Unacknowledged => "max_unacknowledged_samples or max_unacknowledged_bytes of DomainConfig",
                    Full::SendQueue => "the send queue",
                };
                write!(
                    f,
                    "no room for a sample of topic \"{topic}\" within {waited:?}: {limit} is reached, {held} samples are held"
                )?;
                if let Some(reader) = reader {
                    write!(f, "; readers that lack some: {behind}, furthest behind: {reader}")?;
                }
                f.write_str(
                    "; raise the limit or max_blocking_time, or see which reader stalls delivery: DataWriter::status",
                )
            }
            Self::NoData { topic, waited } => write!(f, "no sample of topic \"{topic}\" came within {waited:?}"),
            Self::NoCondition { conditions, waited } => {
                write!(f, "none of {conditions} conditions became true within {waited:?}")
            }
            Self::NotAcknowledged { readers, behind, reader, waited } => {
                write!(f, "{behind} of {readers} readers have not acknowledged everything within {waited:?}")?;
                reader.map_or(Ok(()), |reader| write!(f, ", one of them is {reader}"))
            }
            Self::HistoricalData { writers, waited } => {
                write!(f, "the historical data of {writers} matched writers is not complete after {waited:?}")
            }
            Self::NotMatched { topic, found, wanted, waited, why } => {
                write!(f, "topic \"{topic}\" has {found} of {wanted} matches after {waited:?}: {why}")
            }
            Self::NotFlushed { writers, samples, waited } => {
                write!(
                    f,
                    "closed after {waited:?}, although readers have not acknowledged the last {samples} samples of {writers} writers; \
                     raise the timeout, or find the reader that does not acknowledge"
                )
            }
            Self::NoTopic { topic, waited } => {
                write!(
                    f,
                    "no topic \"{topic}\" of this type was found within {waited:?}; compare the names of topic and type"
                )
            }
        }
    }
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mismatch { endpoint, reason } => write!(f, "{endpoint} does not match: {reason}"),
            Self::NoEndpoint { participants } => write!(
                f,
                "{participants} other participants were discovered, but no other endpoint of this topic; compare the names of the topics"
            ),
            Self::NoParticipant => f.write_str(
                "no other participant was discovered; compare the domains and the interfaces, and where multicast does not work, name the \
                 addresses in DomainConfig::peers",
            ),
        }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { policy, value } => write!(f, "{policy}: not supported: {value}"),
            Self::PropertyChange => f.write_str(
                "properties of a participant cannot change after the participant has been created; create it with them",
            ),
        }
    }
}
