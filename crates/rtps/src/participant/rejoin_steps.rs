//! The steps by which an authenticated peer discovers this participant anew: see [`super::secure_rejoin`].

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::id::GuidPrefix;
use crate::limits::{REJOIN_DOUBLINGS, REJOIN_PAUSE};
use crate::locator::Locator;
use crate::time::{Instant, Span};

/// The time from one goodbye of a round to the next: within [`REJOIN_SILENCE`], so that the peer hears no announcement
/// before the last one.
const GOODBYE_INTERVALS: [Span; 2] = [Span::from_millis(10), Span::from_millis(50)];

/// The time from the last goodbye of a round until the announcement.
const ANNOUNCED_AFTER: Span = Span::from_millis(100);

/// The time from the beginning until the first goodbye: the announcement under its number leaves before it.
const FIRST_GOODBYE: Span = Span::from_millis(10);

/// The most rounds of goodbyes and announcements: a peer that is gone answers none.
const ROUNDS_MAX: u32 = 12;

/// A peer that has to discover this participant anew.
#[derive(Debug)]
pub(super) struct SecureRejoin {
    pub(super) peer: GuidPrefix,
    /// Where the peer was at the beginning.
    pub(super) to: Arc<[Locator]>,
    /// The goodbye for the keys that the peer has.
    pub(super) goodbye: Vec<u8>,
    /// The goodbyes of this round so far.
    goodbyes: usize,
    /// The rounds before this one.
    rounds: u32,
    pub(super) next: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Goodbye,
    Announcement,
}

impl SecureRejoin {
    pub(super) fn new(now: Instant, peer: GuidPrefix, to: Arc<[Locator]>, goodbye: Vec<u8>) -> Self {
        Self { peer, to, goodbye, goodbyes: 0, rounds: 0, next: now + FIRST_GOODBYE }
    }

    /// Begins anew, at once.
    pub(super) const fn begin_again(&mut self, now: Instant) {
        (self.goodbyes, self.rounds, self.next) = (0, 0, now);
    }

    /// Whether there are further steps.
    pub(super) const fn goes_on(&self) -> bool {
        self.rounds < ROUNDS_MAX
    }

    /// The step that is due. Plans the next one.
    pub(super) fn take_step(&mut self, now: Instant) -> Step {
        if self.goodbyes > GOODBYE_INTERVALS.len() {
            let pause = REJOIN_PAUSE.times(1 << self.rounds.min(REJOIN_DOUBLINGS));
            (self.goodbyes, self.rounds, self.next) = (0, self.rounds.saturating_add(1), now + pause);
            return Step::Announcement;
        }
        self.next = now + GOODBYE_INTERVALS.get(self.goodbyes).copied().unwrap_or(ANNOUNCED_AFTER);
        self.goodbyes += 1;
        Step::Goodbye
    }
}
