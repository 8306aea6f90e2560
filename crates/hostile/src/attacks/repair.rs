//! Requests to a writer for more than a reader needs.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::control::Target;
use crate::craft::MESSAGE_BYTES;
use crate::field::Field;

pub(super) fn nothing(field: &mut Field<'_>) -> Result<()> {
    field.begin();
    while field.lasts() {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

pub(super) fn acknack_amplification(field: &mut Field<'_>) -> Result<()> {
    let stranger = field.matched(Target::Open, true)?;
    field.begin();
    let mut count = 0;
    while field.lasts() {
        let message = stranger.forge.directed(|out| {
            while out.len() < MESSAGE_BYTES {
                count += 1;
                stranger.forge.acknack(if count % 2 == 0 { 1 } else { 129 }, 128, count, out);
            }
        });
        field.user(&stranger, &message);
    }
    Ok(())
}

/// One datagram of 100 requests, again and again.
pub(super) fn repeated_datagram(field: &mut Field<'_>) -> Result<()> {
    let stranger = field.matched(Target::Open, true)?;
    let message = stranger.forge.directed(|out| {
        (1..=100).for_each(|count| stranger.forge.acknack(1 + i64::from(count % 2) * 128, 128, count, out));
    });
    field.begin();
    while field.lasts() {
        field.user(&stranger, &message);
    }
    Ok(())
}

/// Requests the first 256 samples for ever, and acknowledges none.
fn request_for_ever(field: &mut Field<'_>, target: Target) -> Result<()> {
    let stranger = field.matched(target, true)?;
    field.begin();
    let mut count = 0;
    while field.lasts() {
        count += 1;
        let message = stranger.forge.directed(|out| stranger.forge.acknack(1, 256, count, out));
        field.user(&stranger, &message);
    }
    Ok(())
}

pub(super) fn endless_requests_for_history(field: &mut Field<'_>) -> Result<()> {
    request_for_ever(field, Target::Open)
}

pub(super) fn endless_requests_of_flow(field: &mut Field<'_>) -> Result<()> {
    request_for_ever(field, Target::Flow)
}

/// Readers of each stranger that request repairs, and the strangers, which are all at one address.
const READERS_OF_EACH: u32 = 8;
const STRANGERS: usize = 8;

/// Each reader requests the history in long intervals, and acknowledges nothing: each alone stays within what one
/// reader may be sent.
pub(super) fn requests_of_many_readers(field: &mut Field<'_>) -> Result<()> {
    const INTERVAL: Duration = Duration::from_millis(20);
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS {
        let stranger = field.matched(Target::Open, true)?;
        let readers = field.further_readers(&stranger, READERS_OF_EACH - 1)?;
        strangers.push((stranger, readers));
    }
    field.begin();
    for count in 1.. {
        for (stranger, others) in &strangers {
            if !field.lasts() {
                return Ok(());
            }
            let message = stranger.forge.directed(|out| {
                stranger.forge.acknack(1, 256, count, out);
                others.iter().for_each(|reader| reader.acknack(1, 256, count, out));
            });
            field.user(stranger, &message);
        }
        thread::sleep(INTERVAL);
    }
    Ok(())
}

/// Requests 256 fragments of each sample of the history, none of which has fragments.
pub(super) fn requests_for_fragments(field: &mut Field<'_>) -> Result<()> {
    let stranger = field.matched(Target::Open, true)?;
    field.begin();
    let mut count = 0;
    while field.lasts() {
        let message = stranger.forge.directed(|out| {
            for number in 1..=20 {
                count += 1;
                stranger.forge.nack_frag(number, 256, count, out);
            }
        });
        field.user(&stranger, &message);
    }
    Ok(())
}

/// HEARTBEATs that each require an ACKNACK.
fn heartbeats(field: &mut Field<'_>, in_each: usize, last: i64) -> Result<()> {
    let stranger = field.matched(Target::Open, false)?;
    field.begin();
    let mut count = 0;
    while field.lasts() {
        let message = stranger.forge.directed(|out| {
            for _ in 0..in_each {
                count += 1;
                stranger.forge.says_it_has(1, last, count, out);
            }
        });
        field.user(&stranger, &message);
    }
    Ok(())
}

pub(super) fn heartbeats_one_by_one(field: &mut Field<'_>) -> Result<()> {
    heartbeats(field, 1, 100)
}

pub(super) fn heartbeats_in_bulk(field: &mut Field<'_>) -> Result<()> {
    heartbeats(field, 1000, 100)
}

pub(super) fn heartbeats_of_endless_history(field: &mut Field<'_>) -> Result<()> {
    heartbeats(field, 1, i64::MAX - 1)
}
