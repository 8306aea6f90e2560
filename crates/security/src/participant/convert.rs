//! Values of discovery as the session has them, and the reverse.

use core::net::{IpAddr, Ipv4Addr};

use peregrine_rtps::discovery::data::{OpaqueValue, ParticipantSecurityData, SecurityInfo};
use peregrine_rtps::locator::Source;
use peregrine_rtps::qos::Partition;
use peregrine_rtps::wire::{Endianness, ValueWriter};

use crate::documents::SecurityMasks;
use crate::limits::{DATA_TAG_BYTES, DATA_TAGS};
use crate::message::DataHolder;
use crate::session::{EndpointDescription, parse_tags, write_tags};

/// Stands for a source without IP address.
const UNKNOWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The part of an announcement that states the security of a participant: its tokens and the attributes of its
/// protection (DDS Security 1.2 §7.5.1).
#[must_use]
pub fn announcement(identity: &DataHolder, permissions: &DataHolder, masks: SecurityMasks) -> ParticipantSecurityData {
    ParticipantSecurityData {
        identity_token: opaque(identity),
        permissions_token: opaque(permissions),
        info: Some(info_of(masks)),
        identity_status_token: None,
    }
}

/// Which bound the tags of an endpoint exceed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooManyTags {
    /// Their number, at most [`DATA_TAGS`].
    Tags(usize),
    /// The bytes of a name or value, at most [`DATA_TAG_BYTES`].
    Text(usize),
    /// The bytes of all together, at most
    /// [`OPAQUE_VALUE_BYTES_MAX`](peregrine_rtps::discovery::data::OPAQUE_VALUE_BYTES_MAX).
    Together(usize),
}

pub(super) fn description(topic: &str, partition: &Partition, tags: Option<&OpaqueValue>) -> EndpointDescription {
    let tags = tags.map_or_else(Vec::new, |tags| {
        let (endianness, octets) = tags.octets();
        parse_tags(octets, endianness).unwrap_or_else(unreadable_tags)
    });
    let partitions = partition.0.iter().map(ToString::to_string).collect();
    EndpointDescription { topic: topic.to_owned(), partitions, tags }
}

/// More tags than an endpoint may have, in place of tags that cannot be read: a rule might deny one of them, so the
/// endpoint is denied.
fn unreadable_tags() -> Vec<(String, String)> {
    vec![Default::default(); DATA_TAGS + 1]
}

/// The value that announces names and values of tags (DDS Security 1.2 §7.5.1.2); `None` without tags.
///
/// # Errors
/// The tags exceed a bound, so that peers would not read them.
pub fn data_tags(tags: &[(String, String)]) -> Result<Option<OpaqueValue>, TooManyTags> {
    if tags.is_empty() {
        return Ok(None);
    }
    if tags.len() > DATA_TAGS {
        return Err(TooManyTags::Tags(tags.len()));
    }
    let texts = tags.iter().flat_map(|(name, value)| [name, value]);
    if let Some(len) = texts.map(String::len).max().filter(|len| *len > DATA_TAG_BYTES) {
        return Err(TooManyTags::Text(len));
    }
    let emit = |endianness| {
        let mut octets = Vec::new();
        write_tags(tags, &mut ValueWriter::new(&mut octets, endianness));
        octets
    };
    let (little, big) = (emit(Endianness::Little), emit(Endianness::Big));
    OpaqueValue::new(&little, &big).map(Some).ok_or(TooManyTags::Together(little.len()))
}

fn opaque(token: &DataHolder) -> Option<OpaqueValue> {
    let [little, big] = [Endianness::Little, Endianness::Big].map(|endianness| {
        let mut octets = Vec::new();
        token.emit(endianness, &mut octets);
        octets
    });
    OpaqueValue::new(&little, &big)
}

/// A token that a peer announces; `None` for an absent or malformed one.
pub(super) fn token_of(value: Option<&OpaqueValue>) -> Option<DataHolder> {
    let (endianness, octets) = value?.octets();
    DataHolder::parse(octets, endianness).ok()
}

pub(super) const fn info_of(masks: SecurityMasks) -> SecurityInfo {
    SecurityInfo { mask: masks.standard, plugin_mask: masks.plugin }
}

pub(super) const fn masks_of(info: SecurityInfo) -> SecurityMasks {
    SecurityMasks { standard: info.mask, plugin: info.plugin_mask }
}

pub(super) fn address_of(source: Option<Source>) -> IpAddr {
    match source {
        Some(Source::Datagram(address)) => address.ip(),
        Some(Source::Stream(locator)) => locator.to_socket_addr().map_or(UNKNOWN_ADDRESS, |address| address.ip()),
        None => UNKNOWN_ADDRESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule might deny one of the tags.
    #[test]
    fn tags_that_cannot_be_read_are_more_than_an_endpoint_may_have() {
        let tags = [("name".to_owned(), "value".to_owned())];
        let announced = data_tags(&tags).unwrap().unwrap();
        let (_, bytes) = announced.octets();
        let of = |tags: Option<&OpaqueValue>| description("topic", &Partition::default(), tags).tags;
        assert_eq!((of(None), of(Some(&announced))), (vec![], tags.to_vec()));
        let cut = &bytes[..bytes.len() - 8];
        let cut = OpaqueValue::new(cut, cut).unwrap();
        assert_eq!(of(Some(&cut)).len(), DATA_TAGS + 1);
        let too_long = OpaqueValue::new(&[], &[]).unwrap();
        assert_eq!(of(Some(&too_long)).len(), DATA_TAGS + 1);
    }
}
