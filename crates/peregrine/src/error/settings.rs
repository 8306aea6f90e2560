//! The settings and arguments that errors name, and their faults.

use std::fmt;
use std::io;
use std::sync::Arc;

use peregrine_rtps::qos::{AccessScope, Durability, PolicyId, RepresentationId};

/// A setting or an argument of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Argument {
    /// The number of a domain.
    Domain,
    /// [`ParticipantBuilder::domain_tag`](crate::ParticipantBuilder::domain_tag), in bytes.
    DomainTag,
    /// [`ParticipantBuilder::name`](crate::ParticipantBuilder::name), in bytes.
    ParticipantName,
    /// USER_DATA and the properties of a participant, together in bytes.
    ParticipantQos,
    /// [`ParticipantBuilder::lease`](crate::ParticipantBuilder::lease).
    Lease,
    /// The name of a topic, in bytes.
    TopicName,
    /// The name of a type, in bytes.
    TypeName,
    /// A policy: its bytes, or its elements if it is a list.
    Policy(PolicyId),
    /// A name in PARTITION, in bytes.
    PartitionName,
    /// PROPERTY: the number of properties.
    Properties,
    /// A name or value in PROPERTY, in bytes.
    PropertyText,
    /// PROPERTY as endpoints announce it, in bytes.
    AnnouncedProperties,
    /// A serialized sample or key, in bytes.
    Payload,
    /// `len` of [`DataWriter::write_serialized`](crate::DataWriter::write_serialized).
    PayloadLength,
    /// [`DomainConfig::message_bytes`](crate::DomainConfig::message_bytes).
    MessageBytes,
    /// [`DomainConfig::unanswered_heartbeats`](crate::DomainConfig::unanswered_heartbeats).
    UnansweredHeartbeats,
    /// [`DomainConfig::max_sample_bytes`](crate::DomainConfig::max_sample_bytes).
    MaxSampleBytes,
    /// [`DomainConfig::max_instances_per_reader`](crate::DomainConfig::max_instances_per_reader).
    MaxInstancesPerReader,
    /// [`DomainConfig::max_cached_bytes_per_reader`](crate::DomainConfig::max_cached_bytes_per_reader).
    MaxCachedBytesPerReader,
    /// [`DomainConfig::max_peer_bytes`](crate::DomainConfig::max_peer_bytes).
    MaxPeerBytes,
    /// [`DomainConfig::max_unacknowledged_samples`](crate::DomainConfig::max_unacknowledged_samples).
    MaxUnacknowledgedSamples,
    /// [`DomainConfig::max_unacknowledged_bytes`](crate::DomainConfig::max_unacknowledged_bytes).
    MaxUnacknowledgedBytes,
    /// [`DomainConfig::dscp`](crate::DomainConfig::dscp).
    Dscp,
    /// [`ThreadSettings::name_prefix`](crate::ThreadSettings::name_prefix).
    ThreadNamePrefix,
    /// The rate of [`FlowController::bits_per_second`](crate::FlowController::bits_per_second).
    BitsPerSecond,
    /// [`TokenBucketConfig::tokens_per_period`](crate::TokenBucketConfig::tokens_per_period).
    TokensPerPeriod,
    /// [`TokenBucketConfig::tokens_max`](crate::TokenBucketConfig::tokens_max).
    TokensMax,
    /// [`TokenBucketConfig::bytes_per_token`](crate::TokenBucketConfig::bytes_per_token).
    BytesPerToken,
    /// [`TokenBucketConfig::period`](crate::TokenBucketConfig::period).
    TokenPeriod,
    /// `SecurityConfig::blocks_per_key`.
    BlocksPerKey,
    /// The number of data tags of an endpoint.
    DataTags,
    /// A name or value of a data tag, in bytes.
    DataTagText,
    /// All data tags of an endpoint as announced, in bytes.
    AnnouncedDataTags,
}

/// Why a multicast group cannot be joined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum GroupFault {
    /// The address is not one of multicast.
    NotMulticast,
    /// The version of the Internet protocol is not in use ([`DomainConfig::udp_v4`](crate::DomainConfig::udp_v4),
    /// [`DomainConfig::udp_v6`](crate::DomainConfig::udp_v6)).
    NotInUse,
}

/// Why a [`Peer`](crate::Peer) is not valid.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PeerFault {
    /// The index before `@` is not a number up to this one.
    Index {
        /// The largest index.
        max: u32,
    },
    /// A transport that is not available.
    Transport {
        /// Its name, as given.
        name: String,
    },
    /// The port is not a number from 0 to 65535.
    Port,
    /// There is no host.
    NoHost,
    /// A link-local address without the name of its interface.
    NoInterface,
    /// The name of the host cannot be resolved.
    Unresolved(LookupError),
    /// The locator is not valid.
    Locator(LocatorFault),
}

/// Why the locator of a [`Peer`](crate::Peer), written `locator://kind/[address/]port`, is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LocatorFault {
    /// There is no port.
    NoPort,
    /// The kind is not a number of 31 bits.
    Kind,
    /// The address does not have 32 hexadecimal digits.
    Address,
    /// The port is not a number of 32 bits.
    Port,
    /// The kind is that of UDP, whose peers are written as addresses.
    Udp,
    /// The transport of this kind is not in use ([`DomainConfig::stream_links`](crate::DomainConfig::stream_links)).
    NotInUse,
}

/// The error of the system when it looks a name up. Two are equal if their kinds and texts are.
#[derive(Clone, Debug)]
pub struct LookupError(Arc<io::Error>);

/// The value of a policy that is not available.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum UnsupportedValue {
    /// TRANSIENT or PERSISTENT.
    Durability(Durability),
    /// A durability service other than the default.
    DurabilityService,
    /// A priority other than zero.
    TransportPriority(i32),
    /// `coherent_access` of PRESENTATION.
    CoherentAccess,
    /// GROUP.
    AccessScope(AccessScope),
    /// Rules other than the default.
    TypeConsistency,
    /// A representation other than XCDR1 and XCDR2.
    DataRepresentation(RepresentationId),
}

impl Argument {
    const fn text(self) -> &'static str {
        match self {
            Self::Domain => "domain",
            Self::DomainTag => "domain_tag, in bytes,",
            Self::ParticipantName => "name, in bytes,",
            Self::ParticipantQos => "USER_DATA and the properties of a participant, together in bytes,",
            Self::Lease => "lease",
            Self::TopicName => "the name of the topic, in bytes,",
            Self::TypeName => "the name of the type, in bytes,",
            Self::Policy(policy) => policy.name(),
            Self::PartitionName => "a name in PARTITION, in bytes,",
            Self::Properties => "PROPERTY",
            Self::PropertyText => "a name or value in PROPERTY, in bytes,",
            Self::AnnouncedProperties => "PROPERTY, in bytes as announced,",
            Self::Payload => "the payload, in bytes,",
            Self::PayloadLength => "len",
            Self::MessageBytes => "message_bytes",
            Self::UnansweredHeartbeats => "unanswered_heartbeats",
            Self::MaxSampleBytes => "max_sample_bytes",
            Self::MaxInstancesPerReader => "max_instances_per_reader",
            Self::MaxCachedBytesPerReader => "max_cached_bytes_per_reader",
            Self::MaxPeerBytes => "max_peer_bytes",
            Self::MaxUnacknowledgedSamples => "max_unacknowledged_samples",
            Self::MaxUnacknowledgedBytes => "max_unacknowledged_bytes",
            Self::Dscp => "dscp",
            Self::ThreadNamePrefix => "threads.name_prefix",
            Self::BitsPerSecond => "the rate of a flow controller",
            Self::TokensPerPeriod => "tokens_per_period",
            Self::TokensMax => "tokens_max",
            Self::BytesPerToken => "bytes_per_token",
            Self::TokenPeriod => "period",
            Self::BlocksPerKey => "blocks_per_key",
            Self::DataTags => "data_tags",
            Self::DataTagText => "a name or value in data_tags, in bytes,",
            Self::AnnouncedDataTags => "data_tags, in bytes as announced,",
        }
    }
}

impl LookupError {
    pub(crate) fn new(error: io::Error) -> Self {
        Self(Arc::new(error))
    }

    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl PartialEq for LookupError {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.to_string() == other.to_string()
    }
}

impl Eq for LookupError {}

impl std::error::Error for LookupError {}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for GroupFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMulticast => "is not a multicast group",
            Self::NotInUse => "is a multicast group that is not of a transport in use",
        })
    }
}

impl fmt::Display for PeerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FORM: &str = "write [index@]address[:port]";
        match self {
            Self::Index { max } => write!(f, "the index before '@' is not a number from 0 to {max}; {FORM}"),
            Self::Transport { name } => write!(f, "transport \"{name}\" is not available; {FORM}"),
            Self::Port => write!(f, "the port is not a number; {FORM}"),
            Self::NoHost => write!(f, "there is no host; {FORM}"),
            Self::NoInterface => {
                f.write_str("a link-local address needs its interface; name the interface, as in \"fe80::1%eth0\"")
            }
            Self::Unresolved(error) => write!(f, "the name cannot be resolved: {error}"),
            Self::Locator(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for LocatorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoPort => "there is no port; write locator://kind/[address/]port",
            Self::Kind => "the kind is not a number; write locator://kind/[address/]port",
            Self::Address => "the address is not 32 hexadecimal digits",
            Self::Port => "the port is not a number",
            Self::Udp => "a locator of UDP is written as its address; write [index@]address[:port]",
            Self::NotInUse => "the transport of the locator is not in use",
        })
    }
}

impl fmt::Display for UnsupportedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Durability(durability) => write!(f, "{durability}; VOLATILE and TRANSIENT_LOCAL are"),
            Self::DurabilityService => f.write_str("a durability service for TRANSIENT and PERSISTENT data"),
            Self::TransportPriority(priority) => {
                write!(f, "priority {priority} of a writer; set the DSCP of the domain instead")
            }
            Self::CoherentAccess => f.write_str("coherent_access"),
            Self::AccessScope(scope) => write!(f, "access_scope {scope:?}; INSTANCE and TOPIC are"),
            Self::TypeConsistency => {
                f.write_str("other than default values: matching is by type name, types are not compared")
            }
            Self::DataRepresentation(id) => write!(f, "{id}; XCDR1 and XCDR2 are"),
        }
    }
}
