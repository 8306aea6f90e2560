//! Messages in the name of the honest peer, from an address of the attacker.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use peregrine_rtps::discovery::data::BuiltinEndpointSet;
use peregrine_rtps::id::KeyHash;
use peregrine_rtps::locator::Locator;
use peregrine_rtps::qos::{Partition, Reliability};
use peregrine_rtps::time::{Span, Timestamp};
use peregrine_rtps::vendor::VendorId;
use peregrine_rtps::wire::{InfoTimestamp, InlineQos, StatusInfo};

use crate::craft::MESSAGE_BYTES;
use crate::field::{Field, Forged};
use crate::flow::Beat;
use crate::forge::{ENDIANNESS, Forge};

/// Time between two of the messages that do their damage at once.
const SPARSE: Duration = Duration::from_millis(10);
/// Numbers that a jump passes over.
const JUMP: i64 = 100_000;
/// Samples from the latest one on that are under way, or will be soon: 16 ms of the flow.
const UNDER_WAY: i64 = 8;
/// How far a forged source timestamp is from the clock.
const TIME_OFF: Duration = Duration::from_secs(3600);
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

/// GAPs of samples that are under way.
pub(super) fn gap_of_current(field: &mut Field<'_>) -> Result<()> {
    sparsely(field, |forge, _, current, out| forge.gap(current, current + UNDER_WAY, out))
}

/// Two of the fragments of samples that are under way and have none, of two sizes in turn.
pub(super) fn fragments_of_current(field: &mut Field<'_>) -> Result<()> {
    const FRAGMENT_BYTES: u16 = 512;
    sparsely(field, |forge, round, current, out| {
        let fragments = if round % 2 == 0 { 4 } else { 16_384 };
        for ahead in 0..UNDER_WAY {
            for part in 1..=2 {
                let sample_bytes = fragments * u32::from(FRAGMENT_BYTES);
                forge.fragment(current + ahead, part, FRAGMENT_BYTES, sample_bytes, out);
            }
        }
    })
}

/// Disposals of the instance of the flow in place of samples that are under way, and of other instances after them.
pub(super) fn instance_disposals(field: &mut Field<'_>) -> Result<()> {
    let run = field.run;
    sparsely(field, |forge, round, current, out| {
        for ahead in 0..2 * UNDER_WAY {
            let run = if ahead < UNDER_WAY { run } else { run ^ u64::from(round.unsigned_abs()) };
            let mut hash = [0; 16];
            hash[..8].copy_from_slice(&run.to_be_bytes());
            let end = if round % 2 == 0 { StatusInfo::UNREGISTERED } else { StatusInfo::default() };
            let status_info = StatusInfo::DISPOSED.with(end);
            let qos = InlineQos { key_hash: Some(KeyHash(hash)), status_info, ..InlineQos::default() };
            forge.key(forge.victim_reader, forge.writer, current + ahead, &qos, &Beat::serialized_key(run), out);
        }
    })
}

/// Samples with source timestamps an hour ahead and an hour ago, in place of samples that are under way.
pub(super) fn source_timestamps(field: &mut Field<'_>) -> Result<()> {
    let sample = Beat::serialized_forgery(field.run);
    sparsely(field, |forge, round, current, out| {
        let now = SystemTime::now();
        let false_time = if round % 2 == 0 { now + TIME_OFF } else { now - TIME_OFF };
        let since_1970 = false_time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX);
        InfoTimestamp { timestamp: Some(Timestamp::from_unix_nanos(nanos)) }.emit(ENDIANNESS, out);
        for number in [current + 1, current + UNDER_WAY] {
            forge.data(forge.victim_reader, forge.writer, number, &InlineQos::default(), &sample, out);
        }
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

/// Changes of writer and reader of the peer that end a match, or that no endpoint makes, in turn.
pub(super) fn endpoint_changes(field: &mut Field<'_>) -> Result<()> {
    announce(field, |impostor, number| {
        let forge = &impostor.forge;
        let [heard, said] = &forge.topics;
        let elsewhere = Partition(vec!["elsewhere".to_owned()]);
        forge.directed(|out| match number % 3 {
            0 => {
                forge.publication_with(
                    forge.writer,
                    number + 1,
                    heard,
                    |data| data.publisher.partition = elsewhere.clone(),
                    out,
                );
                forge.subscription_with(number + 1, said, |data| data.subscriber.partition = elsewhere, out);
            }
            1 => {
                let period = Span::from_micros(1);
                forge.publication_with(forge.writer, number + 1, heard, |data| data.qos.deadline.period = period, out);
                forge.subscription_with(number + 1, said, |data| data.qos.deadline.period = period, out);
            }
            _ => {
                let best_effort = Reliability::BEST_EFFORT;
                forge.publication_with(forge.writer, number + 1, heard, |data| data.qos.reliability = best_effort, out);
                forge.subscription_with(number + 1, said, |data| data.type_name.push('!'), out);
            }
        })
    })
}

/// Announcements with the addresses of the peer, and with another lease, set of built-in endpoints or vendor in turn,
/// each for half a second: the victim believes terms that are repeated and not contradicted.
pub(super) fn terms(field: &mut Field<'_>) -> Result<()> {
    const REPETITIONS: i64 = 50;
    let [discovery, user] = field.addresses_of_peer();
    announce(field, |impostor, number| {
        impostor.forge.announcement_with(number + 1000, |data| {
            data.metatraffic_unicast = vec![discovery];
            data.default_unicast = vec![user];
            match number / REPETITIONS % 4 {
                0 => data.lease_duration = Span::from_millis(1),
                1 => data.lease_duration = Span::INFINITE,
                2 => data.builtin_endpoints = BuiltinEndpointSet::default(),
                _ => data.vendor = VendorId::CYCLONE,
            }
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
