//! The announcement of a participant: SPDP.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use md5::{Digest, Md5};

use super::list::{Cast, emit_list, emit_locators, for_each_parameter, name, parse_list, push_locator, push_unicast};
use super::{BuiltinEndpointQos, BuiltinEndpointSet, DiscoveryDataError, ParticipantSecurityData};
use crate::id::{DomainId, EntityId, Guid, GuidPrefix, KeyHash};
use crate::locator::Locator;
use crate::qos::{Properties, UserData, WirePolicy};
use crate::seq::SequenceNumber;
use crate::time::Span;
use crate::vendor::{ProtocolVersion, Quirks, VendorId};
use crate::wire::{Endianness, ParameterId, ParameterList, ParameterListWriter, ValueError, ValueReader};

/// The address at which a participant connects to others on its host by shared memory. The address is a hint without
/// proof, and other vendors ignore it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedMemoryAddress {
    /// The address within the host.
    pub address: [u8; 16],
    /// Identifies the host and its parts by numbers that are equal for two participants that share the part: the
    /// running system; the namespaces of networks, of interprocess communication and of users; and the user.
    pub host: [u32; 5],
}

impl SharedMemoryAddress {
    fn read(value: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        let address = value.array()?;
        let mut host = [0; 5];
        for part in &mut host {
            *part = value.u32()?;
        }
        Ok(Self { address, host })
    }
}

/// All announcements of a built-in writer in short, by which a reader recognises that it has missed some or believes
/// forged ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EndpointSummary {
    /// The last sample.
    pub last: SequenceNumber,
    /// The sum of the digests of the announcements that are valid then, of 128 bits without a carry.
    pub digest: u128,
}

impl EndpointSummary {
    /// The digest of a serialized announcement: its MD5 as a big-endian number.
    #[must_use]
    pub fn digest_of(announcement: &[u8]) -> u128 {
        u128::from_be_bytes(Md5::digest(announcement).into())
    }

    fn read(value: &mut ValueReader<'_>) -> Result<Self, ValueError> {
        Ok(Self { last: value.sequence_number()?, digest: u128::from_be_bytes(value.array()?) })
    }
}

/// SPDPdiscoveredParticipantData (RTPS 2.5 §8.5.3.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParticipantData {
    /// GUID prefix of the participant.
    pub prefix: GuidPrefix,
    /// The protocol version that it uses.
    pub version: ProtocolVersion,
    /// Vendor of the implementation.
    pub vendor: VendorId,
    /// Its domain; `None` if not announced, then the domain of the ports that it uses.
    pub domain: Option<DomainId>,
    /// A further division of the domain; usually empty.
    pub domain_tag: String,
    /// Its built-in endpoints.
    pub builtin_endpoints: BuiltinEndpointSet,
    /// The built-in endpoints with other than the default QoS.
    pub builtin_endpoint_qos: BuiltinEndpointQos,
    /// The time of silence after which it is considered lost.
    pub lease_duration: Span,
    /// The addresses of its built-in endpoints.
    pub metatraffic_unicast: Vec<Locator>,
    /// The multicast groups of its built-in endpoints.
    pub metatraffic_multicast: Vec<Locator>,
    /// The addresses of its endpoints that announce none.
    pub default_unicast: Vec<Locator>,
    /// The multicast groups of its endpoints that announce none.
    pub default_multicast: Vec<Locator>,
    /// The addresses at which it accepts connections of transports other than UDP. Announced among the unicast locators
    /// of both kinds.
    pub streams: Vec<Locator>,
    /// Its readers request inline QoS.
    pub expects_inline_qos: bool,
    /// Its name, for display.
    pub name: Option<String>,
    /// See [`UserData`].
    pub user_data: UserData,
    /// See [`Properties`].
    pub properties: Properties,
    /// Its address on its host for shared memory. Announced by this vendor only.
    pub shared_memory: Option<Box<SharedMemoryAddress>>,
    /// The part of DDS Security; `None` if the participant announces nothing of it.
    pub security: Option<Box<ParticipantSecurityData>>,
}

impl ParticipantData {
    /// The lease of a participant that announces none (RTPS 2.5 §9.6.3).
    pub const LEASE_DURATION_DEFAULT: Span = Span::from_secs(100);
    /// The version of a participant that announces none.
    const VERSION_DEFAULT: ProtocolVersion = ProtocolVersion { major: 2, minor: 1 };

    /// A participant with default values.
    #[must_use]
    pub fn new(prefix: GuidPrefix, version: ProtocolVersion, vendor: VendorId) -> Self {
        Self {
            prefix,
            version,
            vendor,
            domain: None,
            domain_tag: String::new(),
            builtin_endpoints: BuiltinEndpointSet::NONE,
            builtin_endpoint_qos: BuiltinEndpointQos::NONE,
            lease_duration: Self::LEASE_DURATION_DEFAULT,
            metatraffic_unicast: Vec::new(),
            metatraffic_multicast: Vec::new(),
            default_unicast: Vec::new(),
            default_multicast: Vec::new(),
            streams: Vec::new(),
            expects_inline_qos: false,
            name: None,
            user_data: UserData::default(),
            properties: Properties::default(),
            shared_memory: None,
            security: None,
        }
    }

    /// The GUID of the participant as an entity.
    #[must_use]
    pub const fn guid(&self) -> Guid {
        Guid::new(self.prefix, EntityId::PARTICIPANT)
    }

    /// The key hash of the announcement.
    #[must_use]
    pub const fn key_hash(&self) -> KeyHash {
        KeyHash(self.guid().to_bytes())
    }

    /// Reads an announcement, encapsulation header included, from a message of this vendor. The caller checks that the
    /// prefix is that of the sender.
    ///
    /// # Errors
    /// The announcement is invalid and must be ignored.
    pub fn parse(payload: &[u8], vendor: VendorId) -> Result<Self, DiscoveryDataError> {
        Self::parse_with_summaries(payload, vendor).map(|(data, _)| data)
    }

    /// As [`Self::parse`], with the summaries of the writers and of the readers. Only this vendor summarizes them.
    ///
    /// # Errors
    /// The announcement is invalid and must be ignored.
    pub fn parse_with_summaries(
        payload: &[u8],
        vendor: VendorId,
    ) -> Result<(Self, Option<[EndpointSummary; 2]>), DiscoveryDataError> {
        Self::read(parse_list(payload)?, Self::new(GuidPrefix::UNKNOWN, Self::VERSION_DEFAULT, vendor), None)
    }

    /// Reads the announcement that a participant has signed in a handshake of DDS Security: a big-endian list without
    /// encapsulation header (DDS Security 1.2 §10.3.2.5). Returns also the vendor, if the list states one. The caller
    /// checks the prefix.
    ///
    /// A list with unicast locators is a whole announcement: what it does not state has its default. Otherwise the
    /// participant signs only a part of its announcement, and what that does not state is taken from `announced`. The
    /// tokens are always those of `announced`: they serve to begin a handshake.
    ///
    /// # Errors
    /// The list is invalid.
    pub fn parse_from_handshake(
        octets: &[u8],
        announced: &Self,
    ) -> Result<(Self, Option<VendorId>), DiscoveryDataError> {
        let list = ParameterList::parse(octets, Endianness::Big).map_err(DiscoveryDataError::ParameterList)?.0;
        let states = |id| list.find(id).is_some();
        let unicast = [ParameterId::METATRAFFIC_UNICAST_LOCATOR, ParameterId::DEFAULT_UNICAST_LOCATOR];
        let (initial, endpoints) = if unicast.into_iter().any(states) {
            (Self::new(GuidPrefix::UNKNOWN, Self::VERSION_DEFAULT, announced.vendor), None)
        } else {
            let mut initial = announced.clone();
            if states(ParameterId::METATRAFFIC_MULTICAST_LOCATOR) {
                initial.metatraffic_multicast.clear();
            }
            if states(ParameterId::DEFAULT_MULTICAST_LOCATOR) {
                initial.default_multicast.clear();
            }
            (initial, Some(announced.builtin_endpoints))
        };
        let (mut data, _) = Self::read(list, initial, endpoints)?;
        if let Some(security) = &mut data.security {
            let announced = announced.security.as_deref();
            security.identity_token = announced.and_then(|announced| announced.identity_token.clone());
            security.permissions_token = announced.and_then(|announced| announced.permissions_token.clone());
        }
        let vendor = states(ParameterId::VENDORID).then_some(data.vendor);
        Ok((data, vendor))
    }

    /// Reads a list into `data`. `otherwise` are the endpoints of a list that states none.
    fn read(
        list: ParameterList<'_>,
        mut data: Self,
        otherwise: Option<BuiltinEndpointSet>,
    ) -> Result<(Self, Option<[EndpointSummary; 2]>), DiscoveryDataError> {
        let endpoint_set_alias = Quirks::of(data.vendor).builtin_endpoint_set_parameter;
        let (mut guid, mut endpoints, mut summaries) = (None, None, None);
        for_each_parameter(list, |id, value| {
            match id {
                ParameterId::PARTICIPANT_GUID => guid = Some(value.guid()?),
                ParameterId::BUILTIN_ENDPOINT_SET => endpoints = Some(value.u32()?),
                ParameterId::BUILTIN_ENDPOINT_SET_1X => endpoints = endpoints.or(Some(value.u32()?)),
                id if Some(id) == endpoint_set_alias => endpoints = endpoints.or(Some(value.u32()?)),
                ParameterId::PEREGRINE_ENDPOINTS => {
                    let [writers, readers] = [EndpointSummary::read(value), EndpointSummary::read(value)];
                    summaries = writers.ok().zip(readers.ok()).map(|(writers, readers)| [writers, readers]);
                }
                id => return data.set(id, value),
            }
            Ok(true)
        })?;
        let guid = guid.ok_or(DiscoveryDataError::Missing(ParameterId::PARTICIPANT_GUID))?;
        if guid.entity != EntityId::PARTICIPANT || guid.prefix == GuidPrefix::UNKNOWN {
            return Err(DiscoveryDataError::WrongEntity(ParameterId::PARTICIPANT_GUID));
        }
        data.prefix = guid.prefix;
        let endpoints = endpoints.map(BuiltinEndpointSet).or(otherwise);
        data.builtin_endpoints = endpoints.ok_or(DiscoveryDataError::Missing(ParameterId::BUILTIN_ENDPOINT_SET))?;
        if data.vendor != VendorId::PEREGRINE {
            // Other vendors use these ids for other parameters.
            (data.shared_memory, summaries) = (None, None);
        }
        match data.version.major {
            2 => Ok((data, summaries)),
            major => Err(DiscoveryDataError::Version { major }),
        }
    }

    /// Appends the announcement, encapsulation header included.
    pub fn emit(&self, out: &mut Vec<u8>) {
        self.emit_with_summaries(None, out);
    }

    /// As [`Self::emit`], with the writers and readers as a whole.
    pub fn emit_with_summaries(&self, summaries: Option<&[EndpointSummary; 2]>, out: &mut Vec<u8>) {
        emit_list(out, |list| self.write(summaries, list));
    }

    /// Appends what the handshake of DDS Security contains of the announcement: the same parameters in the same order
    /// as [`Self::emit`], in big endian and without encapsulation header (DDS Security 1.2 §10.3.2.5).
    pub fn emit_for_handshake(&self, out: &mut Vec<u8>) {
        let mut list = ParameterListWriter::new(out, Endianness::Big);
        self.write(None, &mut list);
        list.finish();
    }

    fn write(&self, summaries: Option<&[EndpointSummary; 2]>, list: &mut ParameterListWriter<'_>) {
        let ProtocolVersion { major, minor } = self.version;
        list.parameter(ParameterId::PROTOCOL_VERSION, |value| value.octets(&[major, minor]));
        list.parameter(ParameterId::VENDORID, |value| value.octets(&self.vendor.0));
        list.parameter(ParameterId::PARTICIPANT_GUID, |value| value.guid(self.guid()));
        list.parameter(ParameterId::BUILTIN_ENDPOINT_SET, |value| value.u32(self.builtin_endpoints.0));
        list.parameter(ParameterId::PARTICIPANT_LEASE_DURATION, |value| value.duration(self.lease_duration));
        if let Some(domain) = self.domain {
            list.parameter(ParameterId::DOMAIN_ID, |value| value.u32(domain.0));
        }
        // The must-understand flag makes older peers ignore the whole participant.
        if !self.domain_tag.is_empty() {
            list.parameter(ParameterId::DOMAIN_TAG, |value| value.string(&self.domain_tag));
        }
        emit_locators(list, ParameterId::METATRAFFIC_UNICAST_LOCATOR, &self.metatraffic_unicast);
        emit_locators(list, ParameterId::METATRAFFIC_UNICAST_LOCATOR, &self.streams);
        emit_locators(list, ParameterId::METATRAFFIC_MULTICAST_LOCATOR, &self.metatraffic_multicast);
        emit_locators(list, ParameterId::DEFAULT_UNICAST_LOCATOR, &self.default_unicast);
        emit_locators(list, ParameterId::DEFAULT_UNICAST_LOCATOR, &self.streams);
        emit_locators(list, ParameterId::DEFAULT_MULTICAST_LOCATOR, &self.default_multicast);
        if self.expects_inline_qos {
            list.parameter(ParameterId::EXPECTS_INLINE_QOS, |value| value.bool(true));
        }
        if self.builtin_endpoint_qos != BuiltinEndpointQos::NONE {
            list.parameter(ParameterId::BUILTIN_ENDPOINT_QOS, |value| value.u32(self.builtin_endpoint_qos.0));
        }
        if let Some(name) = &self.name {
            list.parameter(ParameterId::ENTITY_NAME, |value| value.string(name));
        }
        self.user_data.append_unless_default(list);
        self.properties.append_unless_default(list);
        if let Some(SharedMemoryAddress { address, host }) = self.shared_memory.as_deref() {
            list.parameter(ParameterId::PEREGRINE_SHARED_MEMORY, |value| {
                value.octets(address);
                host.iter().for_each(|part| value.u32(*part));
            });
        }
        if let Some(security) = &self.security {
            security.emit(list);
        }
        if let Some(summaries) = summaries {
            list.parameter(ParameterId::PEREGRINE_ENDPOINTS, |value| {
                for EndpointSummary { last, digest } in summaries {
                    value.sequence_number(*last);
                    value.octets(&digest.to_be_bytes());
                }
            });
        }
    }

    fn set(&mut self, id: ParameterId, value: &mut ValueReader<'_>) -> Result<bool, ValueError> {
        match id {
            ParameterId::PROTOCOL_VERSION => {
                let [major, minor] = value.array()?;
                self.version = ProtocolVersion { major, minor };
            }
            ParameterId::VENDORID => self.vendor = VendorId(value.array()?),
            ParameterId::DOMAIN_ID => self.domain = Some(DomainId(value.u32()?)),
            ParameterId::DOMAIN_TAG => self.domain_tag = name(value)?,
            ParameterId::BUILTIN_ENDPOINT_QOS => self.builtin_endpoint_qos = BuiltinEndpointQos(value.u32()?),
            ParameterId::PARTICIPANT_LEASE_DURATION => self.lease_duration = value.duration()?,
            ParameterId::METATRAFFIC_UNICAST_LOCATOR => {
                return push_unicast(&mut self.metatraffic_unicast, &mut self.streams, value);
            }
            ParameterId::METATRAFFIC_MULTICAST_LOCATOR => {
                return push_locator(&mut self.metatraffic_multicast, value, Cast::Multicast);
            }
            ParameterId::DEFAULT_UNICAST_LOCATOR => {
                return push_unicast(&mut self.default_unicast, &mut self.streams, value);
            }
            ParameterId::DEFAULT_MULTICAST_LOCATOR => {
                return push_locator(&mut self.default_multicast, value, Cast::Multicast);
            }
            ParameterId::EXPECTS_INLINE_QOS => self.expects_inline_qos = value.bool()?,
            // For display only: an unreadable name does not invalidate the announcement.
            ParameterId::ENTITY_NAME => self.name = name(value).ok(),
            ParameterId::USER_DATA => self.user_data = UserData::read(value)?,
            ParameterId::PROPERTY_LIST => self.properties = Properties::read(value)?,
            // Other vendors may use this id for another parameter: an unreadable value does not invalidate the
            // announcement.
            ParameterId::PEREGRINE_SHARED_MEMORY => {
                self.shared_memory = SharedMemoryAddress::read(value).ok().map(Box::new);
            }
            ParameterId::IDENTITY_TOKEN
            | ParameterId::PERMISSIONS_TOKEN
            | ParameterId::PARTICIPANT_SECURITY_INFO
            | ParameterId::IDENTITY_STATUS_TOKEN => return self.security.get_or_insert_default().set(id, value),
            _ => return Ok(false),
        }
        Ok(true)
    }
}
