//! The times and limits of all worlds.

use peregrine_rtps::limits::STALL_AFTER;
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
/// How long a reader may acknowledge nothing, although it lacks samples, before its writer names it. A writer counts
/// from the first request that expires, and requests acknowledgement at least every second (decision 043).
pub const STALL_NAMED_AFTER: Span = Span::from_millis(STALL_AFTER.0 / 1_000_000 + 2_000);
/// The longest step of a world.
pub(super) const STEP_MAX: Span = Span::from_millis(60);
pub(super) const HEALTHY: Faults =
    Faults { loss: 0.0, duplication: 0.0, delay_min: Span::from_micros(50), delay_max: Span::from_micros(500) };
/// How long a datagram queues before a slow link at most.
pub(super) const SLOW_LINK_QUEUE: Span = Span::from_millis(200);
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
/// A LIFESPAN that no sample of a world outlives, and which is less than clocks differ and step.
pub const LONG_LIFESPAN: Span = Span::from_secs(120);
/// A LIFESPAN that ends while a network is out.
pub const SHORT_LIFESPAN: Span = Span::from_secs(3);
/// The DEADLINE of a topic.
pub const DEADLINE: Span = Span::from_secs(2);
/// By how much wall clocks are off, in seconds.
pub(super) const CLOCKS_OFF_S: [i64; 4] = [0, -5_400, 5_400, -200_000];
/// By how much a sample may outlive its LIFESPAN: clocks may drift apart by a thousandth of a world.
pub(super) const EXPIRY_SLACK: Span = Span::from_millis(60);
/// The same if wall clocks differ: the age of the youngest sample that a reader has received is not known.
pub(super) const EXPIRY_SLACK_OF_OTHER_CLOCK: Span = Span::from_secs(1);
