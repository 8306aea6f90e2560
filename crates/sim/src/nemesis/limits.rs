//! The times and limits of all worlds.

use peregrine_rtps::time::Span;

use crate::network::Faults;

/// The lease of participants.
pub const LEASE: Span = Span::from_secs(10);
/// The interval between announcements of a participant.
pub const ANNOUNCE_PERIOD: Span = Span::from_secs(2);
/// The time after the last attack within which all endpoints have matched again: two announcement periods (decision
/// 060), and a margin for the messages that follow.
pub const HEALING_TIME: Span = Span::from_millis(5_000);
/// The time after the last probe within which all samples have been delivered and acknowledged.
pub(super) const SETTLING_TIME: Span = Span::from_secs(15);
/// The longest step of a world.
pub(super) const STEP_MAX: Span = Span::from_millis(60);
pub(super) const HEALTHY: Faults =
    Faults { loss: 0.0, duplication: 0.0, delay_min: Span::from_micros(50), delay_max: Span::from_micros(500) };
/// Samples that a volatile writer holds.
pub(super) const HISTORY_SAMPLES: u32 = 100;
/// Samples in the cache of a tight reader.
pub(super) const TIGHT_CACHE_SAMPLES: u32 = 20;
/// Bytes in that cache: a few of the longest samples.
pub(super) const TIGHT_CACHE_BYTES: usize = 120_000;
/// Bytes that peers make a participant hold: less than all its readers may hold.
pub(super) const PEER_BYTES: usize = 16 << 20;
/// The same with discovery data and the fair parts of all addresses.
pub(super) const PEER_BYTES_WITH_SHARES: usize = PEER_BYTES + (6 << 20);
/// Bytes that a tight reader holds outside its cache for each writer, and in all: more than a writer has under way.
pub(super) const TIGHT_MEMORY_BYTES: [usize; 2] = [6 << 20, 12 << 20];
/// The smallest step of a wall clock, in seconds.
pub(super) const CLOCK_STEP_S: u64 = 3600;
