//! Participants, endpoints and parameters that do not exist.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Result;
use peregrine_rtps::id::{EntityId, GuidPrefix};
use peregrine_rtps::qos::UserData;
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::wire::InlineQos;

use crate::control::Target;
use crate::craft::MESSAGE_BYTES;
use crate::field::{Field, Forged};
use crate::limits::ENTITLED_OF_PARTICIPANT;

/// Addresses of the flood from many addresses.
const ADDRESSES: u8 = 64;
/// Publications of each stranger: as many as the victim keeps of a participant.
const PUBLICATIONS: u32 = peregrine_rtps::limits::ENDPOINTS_PER_PARTICIPANT_MAX as u32;
/// The list of parameters in little-endian CDR.
const PL_CDR_LE: [u8; 4] = [0, 3, 0, 0];
/// A parameter of another vendor, which the victim does not know.
const UNKNOWN_PARAMETER: u16 = 0x8123;

/// Gives a participant a new random prefix.
fn renew(field: &mut Field<'_>, stranger: &mut Forged) {
    stranger.forge.prefix = GuidPrefix::new(VendorId::PEREGRINE, std::array::from_fn(|_| field.rng.u8(..)));
}

/// Announces ever new participants in turn from these addresses, every second one as a participant that knows the
/// victim.
fn announce(field: &mut Field<'_>, addresses: impl Iterator<Item = Ipv4Addr>) -> Result<()> {
    let mut strangers = Vec::new();
    for address in addresses {
        let socket = field.socket(address)?;
        strangers.push(field.stranger_at(&socket, Target::Open)?);
    }
    field.begin();
    let mut sent: u64 = 0;
    while field.lasts() {
        for stranger in &mut strangers {
            renew(field, stranger);
            let to = (sent % 2 == 1).then_some(stranger.forge.victim);
            field.meta(stranger, &stranger.forge.announcement(to));
            sent += 1;
        }
    }
    Ok(())
}

pub(super) fn flood_from_one_address(field: &mut Field<'_>) -> Result<()> {
    announce(field, [Ipv4Addr::LOCALHOST].into_iter())
}

pub(super) fn flood_from_many_addresses(field: &mut Field<'_>) -> Result<()> {
    announce(field, (1..=ADDRESSES).map(|last| Ipv4Addr::new(127, 1, 0, last)))
}

/// Strangers that announce as many small publications as the victim accepts, one stranger after the other.
pub(super) fn small_publications(field: &mut Field<'_>) -> Result<()> {
    let mut stranger = field.stranger(Target::Open)?;
    field.begin();
    while field.lasts() {
        renew(field, &mut stranger);
        field.entitle_match(ENTITLED_OF_PARTICIPANT);
        field.meta(&stranger, &stranger.forge.announcement(Some(stranger.forge.victim)));
        let mut key = 1;
        while key <= PUBLICATIONS && field.lasts() {
            let message = stranger.forge.directed(|out| {
                while out.len() < MESSAGE_BYTES && key <= PUBLICATIONS {
                    stranger.forge.publication(EntityId::user_writer(key, false), i64::from(key), "t", out);
                    key += 1;
                }
            });
            field.meta(&stranger, &message);
        }
    }
    Ok(())
}

/// Announcements with 60,000 bytes of user data, and lists of thousands of parameters that mean nothing.
pub(super) fn oversized_lists(field: &mut Field<'_>) -> Result<()> {
    let mut stranger = field.stranger(Target::Open)?;
    field.begin();
    let mut number = 1;
    while field.lasts() {
        if number % 8 == 1 {
            renew(field, &mut stranger);
        }
        let long = stranger.forge.announcement_with(number, |data| data.user_data = UserData(vec![9; MESSAGE_BYTES]));
        field.meta(&stranger, &long);
        for parameter_bytes in [0_u16, 64] {
            let mut list = PL_CDR_LE.to_vec();
            while list.len() < MESSAGE_BYTES {
                list.extend_from_slice(&UNKNOWN_PARAMETER.to_le_bytes());
                list.extend_from_slice(&parameter_bytes.to_le_bytes());
                list.resize(list.len() + usize::from(parameter_bytes), 1);
            }
            for (to, from) in [
                (EntityId::SPDP_READER, EntityId::SPDP_WRITER),
                (EntityId::SEDP_PUBLICATIONS_READER, EntityId::SEDP_PUBLICATIONS_WRITER),
            ] {
                let forge = &stranger.forge;
                let message = forge.directed(|out| forge.data(to, from, number, &InlineQos::default(), &list, out));
                field.meta(&stranger, &message);
            }
        }
        number += 1;
    }
    Ok(())
}

/// A stranger that requests the victim's discovery data for ever.
pub(super) fn requests_of_discovery_data(field: &mut Field<'_>) -> Result<()> {
    let socket = field.socket(Ipv4Addr::LOCALHOST)?;
    let mut stranger = field.stranger_at(&Arc::clone(&socket), Target::Open)?;
    field.entitle_match(ENTITLED_OF_PARTICIPANT);
    field.meta(&stranger, &stranger.forge.announcement(Some(stranger.forge.victim)));
    field.begin();
    let mut count = 0;
    while field.lasts() {
        for (reader, writer) in [
            (EntityId::SEDP_PUBLICATIONS_READER, EntityId::SEDP_PUBLICATIONS_WRITER),
            (EntityId::SEDP_SUBSCRIPTIONS_READER, EntityId::SEDP_SUBSCRIPTIONS_WRITER),
            (EntityId::PARTICIPANT_MESSAGE_READER, EntityId::PARTICIPANT_MESSAGE_WRITER),
        ] {
            (stranger.forge.reader, stranger.forge.victim_writer) = (reader, writer);
            let message = stranger.forge.directed(|out| {
                for _ in 0..10 {
                    count += 1;
                    stranger.forge.acknack(1, 8, count, out);
                }
            });
            field.meta(&stranger, &message);
        }
    }
    Ok(())
}
