//! Samples that never become complete.

use anyhow::Result;

use crate::control::Target;
use crate::craft::MESSAGE_BYTES;
use crate::field::{Field, Forged};

/// Samples that are under way at the same time in the flood of NACK_FRAGs, and their length.
const SAMPLES: i64 = 64;
const SAMPLE_BYTES: u32 = 8 << 20;

/// One fragment of each of 64 long samples in very small fragments, and a HEARTBEAT that makes the reader request all
/// others.
fn nack_frags(field: &mut Field<'_>, fragment_bytes: u16) -> Result<()> {
    let stranger = field.matched(Target::Open, false)?;
    field.begin();
    let mut count = 0;
    while field.lasts() {
        // A further fragment of each sample with each round.
        let part = u32::try_from(count / SAMPLES).unwrap_or(0) + 1;
        let message = stranger.forge.directed(|out| {
            (1..=SAMPLES).for_each(|n| stranger.forge.fragment(n, part, fragment_bytes, SAMPLE_BYTES, out));
        });
        field.user(&stranger, &message);
        for _ in 0..SAMPLES {
            count += 1;
            let count = i32::try_from(count).unwrap_or(i32::MAX);
            let message = stranger.forge.directed(|out| stranger.forge.says_it_has(1, SAMPLES, count, out));
            field.user(&stranger, &message);
        }
    }
    Ok(())
}

pub(super) fn nack_frags_by_tiny_fragments(field: &mut Field<'_>) -> Result<()> {
    nack_frags(field, 8)
}

pub(super) fn nack_frags_by_small_fragments(field: &mut Field<'_>) -> Result<()> {
    nack_frags(field, 64)
}

/// Every second fragment of ever new samples, of each stranger in turn.
fn half(field: &mut Field<'_>, strangers: &[Forged]) {
    const FRAGMENT_BYTES: u16 = 1400;
    const FRAGMENTS: u32 = 40;
    let sample_bytes = FRAGMENTS * u32::from(FRAGMENT_BYTES);
    field.begin();
    for number in 1.. {
        for stranger in strangers {
            if !field.lasts() {
                return;
            }
            let message = stranger.forge.directed(|out| {
                for part in (1..=FRAGMENTS).step_by(2) {
                    stranger.forge.fragment(number, part, FRAGMENT_BYTES, sample_bytes, out);
                }
            });
            assert!(message.len() < MESSAGE_BYTES, "twenty fragments fit into a message");
            field.user(stranger, &message);
        }
    }
}

pub(super) fn half_of_reliable_samples(field: &mut Field<'_>) -> Result<()> {
    let stranger = field.matched(Target::Open, false)?;
    half(field, &[stranger]);
    Ok(())
}

/// Each stranger alone stays far below its own limits.
pub(super) fn half_of_samples_of_many(field: &mut Field<'_>) -> Result<()> {
    const STRANGERS: usize = 48;
    let strangers = (0..STRANGERS).map(|_| field.matched(Target::Open, false)).collect::<Result<Vec<_>>>()?;
    half(field, &strangers);
    Ok(())
}

pub(super) fn half_of_best_effort_samples(field: &mut Field<'_>) -> Result<()> {
    let stranger = field.matched(Target::BestEffort, false)?;
    half(field, &[stranger]);
    Ok(())
}

/// HEARTBEAT_FRAGs that say that fragments exist.
pub(super) fn heartbeat_frags(field: &mut Field<'_>) -> Result<()> {
    let stranger = field.matched(Target::Open, false)?;
    let first = stranger.forge.directed(|out| stranger.forge.fragment(1, 1, 64, SAMPLE_BYTES, out));
    field.user(&stranger, &first);
    field.begin();
    let mut count = 0;
    while field.lasts() {
        let message = stranger.forge.directed(|out| {
            for _ in 0..10 {
                count += 1;
                stranger.forge.heartbeat_frag(1, SAMPLE_BYTES / 64, count, out);
            }
        });
        field.user(&stranger, &message);
    }
    Ok(())
}
