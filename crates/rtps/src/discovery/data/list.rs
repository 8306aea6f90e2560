//! The common parts of the samples of built-in topics: encapsulation, keys, locators and names.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{DiscoveryDataError, LOCATORS_MAX, NAME_BYTES_MAX, STREAM_LOCATORS_MAX, TYPE_INFORMATION_BYTES_MAX};
use crate::id::{EntityId, Guid, KeyHash};
use crate::locator::Locator;
use crate::qos::WirePolicy;
use crate::wire::{Endianness, ParameterId, ParameterList, ParameterListWriter, Payload, ValueError, ValueReader};

const CDR_BE: [u8; 2] = [0, 0];
const CDR_LE: [u8; 2] = [0, 1];
const PL_CDR_BE: [u8; 2] = [0, 2];
const PL_CDR_LE: [u8; 2] = [0, 3];

/// The participant that a disposed participant announcement refers to, from the payload or, without a payload, from the
/// key hash (RTPS 2.5 §8.5.3.2).
///
/// # Errors
/// Neither identifies a participant.
pub fn disposed_participant(payload: Payload<'_>, key_hash: Option<KeyHash>) -> Result<Guid, DiscoveryDataError> {
    let id = ParameterId::PARTICIPANT_GUID;
    let guid = disposed(payload, key_hash, id)?;
    if guid.entity == EntityId::PARTICIPANT { Ok(guid) } else { Err(DiscoveryDataError::WrongEntity(id)) }
}

/// The endpoint that a disposed publication or subscription refers to, from the payload or, without a payload, from the
/// key hash (RTPS 2.5 §8.5.4.4).
///
/// # Errors
/// Neither identifies an endpoint.
pub fn disposed_endpoint(payload: Payload<'_>, key_hash: Option<KeyHash>) -> Result<Guid, DiscoveryDataError> {
    let id = ParameterId::ENDPOINT_GUID;
    let guid = disposed(payload, key_hash, id)?;
    if guid.entity.is_writer() || guid.entity.is_reader() { Ok(guid) } else { Err(DiscoveryDataError::WrongEntity(id)) }
}

/// Appends the key of a participant, for its dispose. The list has no other parameter, because Connext does not expect
/// one.
pub fn emit_participant_key(guid: Guid, out: &mut Vec<u8>) {
    emit_list(out, |list| {
        list.parameter(ParameterId::PARTICIPANT_GUID, |value| value.guid(guid));
    });
}

/// Appends the key of an endpoint, for its dispose.
pub fn emit_endpoint_key(guid: Guid, out: &mut Vec<u8>) {
    emit_list(out, |list| {
        list.parameter(ParameterId::ENDPOINT_GUID, |value| value.guid(guid));
    });
}

fn disposed(payload: Payload<'_>, key_hash: Option<KeyHash>, id: ParameterId) -> Result<Guid, DiscoveryDataError> {
    let of_hash = key_hash.map(|hash| Guid::from_bytes(hash.0)).ok_or(DiscoveryDataError::Missing(id));
    match payload {
        Payload::None => of_hash,
        Payload::Data(octets) | Payload::Key(octets) => guid_of_key(octets, id).or(of_hash),
    }
}

/// The key is a parameter list. In plain CDR, as some peers write it, the key is the GUID alone.
fn guid_of_key(payload: &[u8], id: ParameterId) -> Result<Guid, DiscoveryDataError> {
    let (representation, body) = split_encapsulation(payload)?;
    if matches!(representation, CDR_BE | CDR_LE) {
        return ValueReader::new(body, Endianness::Big).guid().map_err(|error| DiscoveryDataError::Value(id, error));
    }
    let list = parse_list(payload)?;
    let octets = list.find(id).ok_or(DiscoveryDataError::Missing(id))?;
    ValueReader::new(octets, list.endianness()).guid().map_err(|error| DiscoveryDataError::Value(id, error))
}

pub(super) fn split_encapsulation(payload: &[u8]) -> Result<([u8; 2], &[u8]), DiscoveryDataError> {
    let (&[a, b, _, _], body) = payload.split_first_chunk().ok_or(DiscoveryDataError::TooShort)?;
    Ok(([a, b], body))
}

/// The parameter list after its encapsulation header.
pub(super) fn parse_list(payload: &[u8]) -> Result<ParameterList<'_>, DiscoveryDataError> {
    let (representation, body) = split_encapsulation(payload)?;
    let endianness = match representation {
        PL_CDR_BE => Endianness::Big,
        PL_CDR_LE => Endianness::Little,
        other => return Err(DiscoveryDataError::Encapsulation(other)),
    };
    let (list, _) = ParameterList::parse(body, endianness).map_err(DiscoveryDataError::ParameterList)?;
    Ok(list)
}

/// Passes each parameter to `set`, which returns whether it knows the parameter. Ids are passed without their
/// must-understand flag.
pub(super) fn for_each_parameter(
    list: ParameterList<'_>,
    mut set: impl FnMut(ParameterId, &mut ValueReader<'_>) -> Result<bool, ValueError>,
) -> Result<(), DiscoveryDataError> {
    for (id, octets) in list {
        let mut value = ValueReader::new(octets, list.endianness());
        let base = id.without_must_understand();
        let is_known = set(base, &mut value).map_err(|error| DiscoveryDataError::Value(id, error))?;
        if !is_known && id.must_understand() && !is_redundant(base) {
            return Err(DiscoveryDataError::MustUnderstand(id));
        }
    }
    Ok(())
}

/// Stores a parameter in the matching one of these policies; `false` if none matches.
macro_rules! set_one_of {
    ($id:ident, $value:ident: $($owner:ident.$policy:ident)*) => {
        $(crate::discovery::data::list::set_policy(&mut $owner.$policy, $id, $value)?)||*
    };
}
pub(super) use set_one_of;

pub(super) fn set_policy<P: WirePolicy>(
    policy: &mut P,
    id: ParameterId,
    value: &mut ValueReader<'_>,
) -> Result<bool, ValueError> {
    if id != P::ID {
        return Ok(false);
    }
    *policy = P::read(value)?;
    Ok(true)
}

/// A TypeInformation, or `None` if it is longer than the limit.
pub(super) fn type_information(value: &mut ValueReader<'_>) -> Result<Option<Vec<u8>>, ValueError> {
    let octets = value.octets(value.remaining())?;
    Ok((octets.len() <= TYPE_INFORMATION_BYTES_MAX).then(|| octets.to_vec()))
}

/// Appends a parameter list with its encapsulation header.
pub(super) fn emit_list(out: &mut Vec<u8>, write: impl FnOnce(&mut ParameterListWriter<'_>)) {
    let [a, b] = PL_CDR_LE;
    out.extend_from_slice(&[a, b, 0, 0]);
    let mut list = ParameterListWriter::new(out, Endianness::Little);
    write(&mut list);
    list.finish();
}

/// Whether the addresses in a list must be multicast or unicast.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cast {
    Unicast,
    Multicast,
}

/// Stores a locator of UDP or of another transport. Skips unusable locators and those above the limit.
pub(super) fn push_unicast(
    locators: &mut Vec<Locator>,
    streams: &mut Vec<Locator>,
    value: &mut ValueReader<'_>,
) -> Result<bool, ValueError> {
    let locator = value.locator()?;
    if !locator.is_of_other_transport() {
        return Ok(push(locators, locator, Cast::Unicast));
    }
    if streams.len() < STREAM_LOCATORS_MAX && !streams.contains(&locator) {
        streams.push(locator);
    }
    Ok(true)
}

/// Stores a UDP locator. Skips other transports, port 0, addresses of the wrong cast, and locators above the limit.
pub(super) fn push_locator(
    locators: &mut Vec<Locator>,
    value: &mut ValueReader<'_>,
    cast: Cast,
) -> Result<bool, ValueError> {
    Ok(push(locators, value.locator()?, cast))
}

fn push(locators: &mut Vec<Locator>, locator: Locator, cast: Cast) -> bool {
    let is_usable = locator.to_socket_addr().is_some() && locator.is_multicast() == (cast == Cast::Multicast);
    if is_usable && locators.len() < LOCATORS_MAX && !locators.contains(&locator) {
        locators.push(locator);
    }
    true
}

/// Appends locators, up to the number that a reader of the list accepts.
pub(super) fn emit_locators(list: &mut ParameterListWriter<'_>, id: ParameterId, locators: &[Locator]) {
    for &locator in locators.iter().take(LOCATORS_MAX) {
        list.parameter(id, |value| value.locator(locator));
    }
}

/// The parameters of every announcement of an endpoint.
#[derive(Default)]
pub(super) struct EndpointIdentity {
    guid: Option<Guid>,
    topic_name: Option<String>,
    type_name: Option<String>,
}

impl EndpointIdentity {
    /// Stores one parameter; `false` if it is a different one.
    pub(super) fn set(&mut self, id: ParameterId, value: &mut ValueReader<'_>) -> Result<bool, ValueError> {
        match id {
            ParameterId::ENDPOINT_GUID => self.guid = Some(value.guid()?),
            ParameterId::TOPIC_NAME => self.topic_name = Some(name(value)?),
            ParameterId::TYPE_NAME => self.type_name = Some(name(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// GUID, topic name and type name, if all of them were set.
    pub(super) fn complete(self) -> Result<(Guid, String, String), DiscoveryDataError> {
        Ok((
            self.guid.ok_or(DiscoveryDataError::Missing(ParameterId::ENDPOINT_GUID))?,
            self.topic_name.ok_or(DiscoveryDataError::Missing(ParameterId::TOPIC_NAME))?,
            self.type_name.ok_or(DiscoveryDataError::Missing(ParameterId::TYPE_NAME))?,
        ))
    }

    pub(super) fn emit(list: &mut ParameterListWriter<'_>, guid: Guid, topic_name: &str, type_name: &str) {
        list.parameter(ParameterId::ENDPOINT_GUID, |value| value.guid(guid));
        let participant = Guid::new(guid.prefix, EntityId::PARTICIPANT);
        list.parameter(ParameterId::PARTICIPANT_GUID, |value| value.guid(participant));
        list.parameter(ParameterId::TOPIC_NAME, |value| value.string(topic_name));
        list.parameter(ParameterId::TYPE_NAME, |value| value.string(type_name));
    }
}

/// Whether the parameter follows from other parameters or from the message, and so may be skipped even if it must be
/// understood.
const fn is_redundant(id: ParameterId) -> bool {
    matches!(
        id,
        ParameterId::PARTICIPANT_GUID
            | ParameterId::GROUP_GUID
            | ParameterId::KEY_HASH
            | ParameterId::PROTOCOL_VERSION
            | ParameterId::VENDORID
    )
}

pub(super) fn name(value: &mut ValueReader<'_>) -> Result<String, ValueError> {
    value.string(NAME_BYTES_MAX).map(ToString::to_string)
}
