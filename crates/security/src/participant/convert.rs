//! Values of discovery as the session has them, and the reverse.

use core::net::{IpAddr, Ipv4Addr};

use peregrine_rtps::discovery::data::{OpaqueValue, ParticipantSecurityData, SecurityInfo};
use peregrine_rtps::locator::Source;
use peregrine_rtps::qos::Partition;
use peregrine_rtps::wire::Endianness;

use crate::documents::SecurityMasks;
use crate::message::DataHolder;
use crate::session::{EndpointDescription, parse_tags};

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

pub(super) fn description(topic: &str, partition: &Partition, tags: Option<&OpaqueValue>) -> EndpointDescription {
    let tags = tags.and_then(|tags| {
        let (endianness, octets) = tags.octets();
        parse_tags(octets, endianness)
    });
    let partitions = partition.0.iter().map(ToString::to_string).collect();
    EndpointDescription { topic: topic.to_owned(), partitions, tags: tags.unwrap_or_default() }
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
