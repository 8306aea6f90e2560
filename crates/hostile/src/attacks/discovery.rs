//! Participants, endpoints and parameters that do not exist.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use peregrine_rtps::id::{EntityId, GuidPrefix};
use peregrine_rtps::limits::{ENDPOINTS_PER_PARTICIPANT_MAX, PARTICIPANTS_MAX};
use peregrine_rtps::qos::UserData;
use peregrine_rtps::time::Span;
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::wire::InlineQos;

use crate::control::Target;
use crate::craft::MESSAGE_BYTES;
use crate::field::{Field, Forged};
use crate::limits::ENTITLED_OF_PARTICIPANT;

/// Addresses of the flood from many addresses.
const ADDRESSES: u8 = 64;
/// Publications of each stranger: as many as the victim keeps of a participant.
const PUBLICATIONS: u32 = ENDPOINTS_PER_PARTICIPANT_MAX as u32;
/// Strangers at each of two addresses that come before the victim has to process them.
const CROWD_BATCH: usize = 64;
/// Batches that take all places of the victim.
const CROWD_BATCHES: usize = PARTICIPANTS_MAX.div_ceil(2 * CROWD_BATCH);
/// Participants with a certificate: the honest peer, and the newcomer before the attack.
const HONEST_MAX: usize = 2;
/// How long the victim may take until all its places are taken.
const CROWD_PATIENCE: Duration = Duration::from_secs(60);
/// Lease of the strangers of a crowd: they keep their places without another message.
const CROWD_LEASE: Span = Span::from_secs(3600);
/// Time between two strangers of each address once the places are taken.
const SPARSE: Duration = Duration::from_millis(50);
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

/// Strangers with an endpoint each, at two addresses, that know the victim and take all its places, and ever new ones.
pub(super) fn crowd_from_two_addresses(field: &mut Field<'_>) -> Result<()> {
    let mut strangers = Vec::new();
    for last in 1..=2 {
        let socket = field.socket(Ipv4Addr::new(127, 1, 0, last))?;
        strangers.push(field.stranger_at(&socket, Target::Open)?);
    }
    let mut come = |field: &mut Field<'_>| {
        for stranger in &mut strangers {
            renew(field, stranger);
            let mut data = stranger.forge.participant_data();
            data.lease_duration = CROWD_LEASE;
            let mut message = stranger.forge.announcement_of(&data, Some(stranger.forge.victim));
            stranger.forge.publication(EntityId::user_writer(1, false), 1, "t", &mut message);
            field.meta(stranger, &message);
        }
    };
    take_all_places(field, &mut come)?;
    field.begin();
    while field.lasts() {
        // A flood would measure how much the victim can process, and not who finds a place.
        thread::sleep(SPARSE);
        come(field);
    }
    // The newcomer has left, and no stranger has come since.
    let taken = if field.is_secured() { PARTICIPANTS_MAX } else { field.participants()? };
    if taken + 1 < PARTICIPANTS_MAX {
        bail!("the crowd held only {taken} of {PARTICIPANTS_MAX} places until the end");
    }
    Ok(())
}

/// Strangers come as fast as the victim processes them, so that none is dropped and none waits when the attack begins.
/// Without DDS Security, all places are taken then. A secured victim gives a participant without a certificate none.
fn take_all_places(field: &mut Field<'_>, come: &mut impl FnMut(&mut Field<'_>)) -> Result<()> {
    let start = Instant::now();
    for batch in 1.. {
        (0..CROWD_BATCH).for_each(|_| come(field));
        while field.victim_has_backlog() {
            if start.elapsed() > CROWD_PATIENCE {
                bail!("the victim has not processed the crowd within {CROWD_PATIENCE:?}");
            }
            thread::sleep(Duration::from_millis(1));
        }
        if batch < CROWD_BATCHES {
            continue;
        }
        let taken = field.participants()?;
        if field.is_secured() && taken > HONEST_MAX {
            bail!("a secured victim knows {taken} participants, and only {HONEST_MAX} have a certificate");
        }
        if field.is_secured() {
            break;
        }
        if taken >= PARTICIPANTS_MAX {
            field.places = PARTICIPANTS_MAX as u64;
            break;
        }
        if start.elapsed() > CROWD_PATIENCE {
            bail!("the crowd has taken {taken} of {PARTICIPANTS_MAX} places within {CROWD_PATIENCE:?}");
        }
    }
    Ok(())
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
