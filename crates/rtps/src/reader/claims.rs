//! Claims of a writer that samples are gone, irrelevant or written, and how its later messages withdraw false claims.
//!
//! A HEARTBEAT or GAP may be forged. The reader follows a claim, and remembers the samples that it passes over until a
//! later sample has been delivered. If the writer sends a sample passed over, or a HEARTBEAT that contradicts the
//! claim, the reader goes back. No sample is delivered twice, because no sample after the stretch was delivered.

use crate::limits::{SKIP_BELIEVED_MAX, STALE_RUN_MIN, STALE_SAMPLES_TO_GO_BACK};
use crate::seq::SequenceNumber;
use crate::time::Instant;
use crate::vendor::Quirks;

use super::proxy::WriterProxy;
use super::skip::{Skip, StaleRun};

/// The result of comparing a HEARTBEAT with earlier claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClaimCheck {
    /// The HEARTBEAT contradicts a claim: the reader went back.
    Withdrawn,
    /// The HEARTBEAT confirms the loss of so many samples.
    Lost(u64),
}

impl WriterProxy {
    /// One past the newest number that a message other than the claim in question has shown to exist. As long as
    /// nothing is known of the writer, a late joiner accepts any number.
    pub(super) fn known_until(&self) -> SequenceNumber {
        let waiting = self.out_of_order.keys().next_back().copied();
        let newest = waiting.max(self.reassembly.newest()).max(Some(self.announced.newest()));
        let known = newest.map_or(self.next, |newest| newest.next().max(self.next));
        if known == SequenceNumber::FIRST { SequenceNumber::MAX } else { known }
    }

    /// Continues at `until`, because a HEARTBEAT whose first number is `first`, or a GAP, excludes all earlier samples.
    /// `lost`: the number of samples that are lost by that. `known_until`: see [`Self::known_until`].
    pub(super) fn pass_over(
        &mut self,
        until: SequenceNumber,
        first: SequenceNumber,
        lost: u64,
        known_until: SequenceNumber,
    ) {
        let from = core::mem::replace(&mut self.next, until);
        let pending = self.skip.get().map_or(0, |skip| skip.lost);
        let extended = self.skip.get().filter(|skip| skip.until == from && !skip.is_by_sample);
        self.skip.put(Skip {
            from: extended.map_or(from, |skip| skip.from),
            until,
            first: extended.map_or(first, |skip| skip.first.max(first)),
            lost: lost.saturating_add(pending),
            is_believed: until.distance_from(known_until) <= SKIP_BELIEVED_MAX
                && extended.is_none_or(|skip| skip.is_believed),
            is_start: extended.is_some_and(|skip| skip.is_start),
            is_provisional: extended.is_some_and(|skip| skip.is_provisional),
            is_by_sample: false,
            acknowledged_below: extended.map_or(SequenceNumber::ZERO, |skip| skip.acknowledged_below),
        });
    }

    /// A volatile reader starts at `next` because of a HEARTBEAT, for this reader alone or for all.
    pub(super) fn start_by_claim(&mut self, next: SequenceNumber, is_own: bool) {
        self.start(next);
        self.skip.put(Skip {
            from: self.kept.get().unwrap_or(SequenceNumber::FIRST),
            until: self.next,
            first: SequenceNumber::ZERO,
            lost: self.lost_between_matches(),
            is_believed: true,
            is_start: true,
            is_provisional: !is_own && !self.continues && Quirks::of(self.info.vendor).moves_start_by_heartbeat,
            is_by_sample: false,
            acknowledged_below: SequenceNumber::ZERO,
        });
    }

    /// The samples that the writer wrote after the earlier match that the reader continues, and does not have any more.
    fn lost_between_matches(&self) -> u64 {
        let kept = self.kept.get().filter(|_| self.continues);
        kept.map_or(0, |kept| self.next.distance_from(kept).saturating_sub(self.irrelevant_between(kept, self.next)))
    }

    /// A volatile reader starts at `number`, because that sample is the first of which a message arrives.
    pub(super) fn start_by_sample(&mut self, number: SequenceNumber) {
        self.started = true;
        if self.info.reliable {
            let from = self.kept.get().unwrap_or(SequenceNumber::FIRST);
            self.next = number;
            self.skip.put(Skip {
                from,
                until: number,
                first: SequenceNumber::ZERO,
                lost: self.lost_between_matches(),
                is_believed: true,
                is_start: true,
                is_provisional: false,
                is_by_sample: false,
                acknowledged_below: SequenceNumber::ZERO,
            });
        } else {
            self.pass_over_by_sample(number);
        }
        self.next = number;
    }

    /// A volatile reader that has received nothing since a HEARTBEAT for all readers starts anew with one that begins
    /// later: what it does not announce was written before the match, and is not lost. The start is settled by a
    /// HEARTBEAT for this reader alone.
    pub(super) fn move_start(&mut self, first: SequenceNumber, is_own: bool) {
        let next = self.next;
        let Some(skip) = self.skip.as_mut().filter(|skip| skip.is_provisional && skip.until == next) else { return };
        skip.is_provisional = !is_own;
        if first > next {
            self.withdraw_skip(SequenceNumber::ZERO);
        }
    }

    /// A writer that does not repair has sent sample `number`, and none from the next number on before it.
    pub(super) fn pass_over_by_sample(&mut self, number: SequenceNumber) {
        self.skip.put(Skip {
            from: self.next,
            until: number,
            first: SequenceNumber::ZERO,
            lost: 0,
            is_believed: true,
            is_start: false,
            is_provisional: false,
            is_by_sample: true,
            acknowledged_below: SequenceNumber::ZERO,
        });
    }

    /// Continues after sample `number`, which is longer than the reader accepts, according to a message. The message
    /// may be forged: a shorter sample with that number disproves it. Returns the number of earlier samples that the
    /// reader misses by that.
    pub(super) fn refuse_too_long(&mut self, number: SequenceNumber) -> u64 {
        if !self.info.reliable {
            let missed = number.distance_from(self.next);
            if missed > 0 {
                self.pass_over_by_sample(number);
            }
            self.next = number.next();
            return missed;
        }
        if self.started && number == self.next {
            self.pass_over(number.next(), SequenceNumber::ZERO, 0, self.known_until());
        } else {
            self.mark_irrelevant(number, number);
        }
        0
    }

    /// The numbers passed over come from a source that cannot be forged.
    pub(super) fn trust_skip(&mut self) {
        self.skip.clear();
    }

    /// The writer hands over nothing before `first`, which cannot be forged.
    pub(super) fn expect_from(&mut self, first: SequenceNumber) {
        self.trust_skip();
        self.handed_from.set((self.next < first).then_some(first));
    }

    /// The loss of so many samples can be reported now.
    pub(super) fn take_confirmed_loss(&mut self) -> u64 {
        let next = self.next;
        // The start may still be withdrawn.
        let is_confirmed = |skip: &&mut Skip| skip.is_believed && !skip.is_start || skip.until != next;
        let confirmed = self.skip.as_mut().filter(is_confirmed);
        confirmed.map_or(0, |skip| core::mem::take(&mut skip.lost))
    }

    /// Everything before this number is acknowledged. Of the numbers that were passed over last, these are only those
    /// that a HEARTBEAT has announced: a writer ignores an acknowledgement of numbers that it has not written.
    pub(super) fn acknowledges_below(&self) -> SequenceNumber {
        let Some(skip) = self.skip.get().filter(|skip| skip.until == self.next && !skip.is_start && !skip.is_by_sample)
        else {
            return self.next;
        };
        if skip.is_believed { self.next.min(self.announced.newest().next().max(skip.from)) } else { skip.from }
    }

    /// A HEARTBEAT states the samples of the writer, and overrides earlier claims.
    pub(super) fn check_claims(&mut self, first: SequenceNumber, last: SequenceNumber) -> ClaimCheck {
        if self.announced.lower(last) {
            self.limit_request();
        }
        let Some(skip) = self.skip.as_mut() else { return ClaimCheck::Lost(0) };
        // A GAP may overtake the HEARTBEAT before it: only a long skip is contradicted by a lower last number. A short
        // one ends when one of its samples arrives.
        let ends_before = last.next() < skip.until && (!skip.is_believed || skip.is_start);
        if skip.until == self.next && (ends_before || first < skip.first) {
            // A writer ignores an acknowledgement of numbers that it has not written.
            let is_acknowledged = skip.acknowledged_below <= last.next() && !skip.is_start;
            let acknowledged_below = if is_acknowledged { skip.acknowledged_below } else { SequenceNumber::ZERO };
            self.withdraw_skip(self.lost_by_acknowledgement(acknowledged_below));
            return ClaimCheck::Withdrawn;
        }
        skip.is_believed = true;
        ClaimCheck::Lost(core::mem::take(&mut skip.lost))
    }

    /// Sample `number` has come, which should never have come again, or never at all. Says whether a claim was false,
    /// so that the sample is wanted. `is_whole`: a message has all of the sample.
    pub(super) fn withdraw_claim_against(&mut self, now: Instant, number: SequenceNumber, is_whole: bool) -> bool {
        if number > SequenceNumber::LAST || self.is_confirmed(number) {
            return false;
        }
        if number >= self.next {
            let is_wanted = !self.out_of_order.contains_key(&number) && self.withdraw_irrelevant(number);
            if is_wanted {
                self.mark_confirmed();
            }
            return is_wanted;
        }
        let Some(skip) = self.skip.get().filter(|skip| (skip.from..skip.until).contains(&number)) else { return false };
        let is_last = skip.until == self.next;
        if is_last && !skip.is_start && !skip.is_by_sample {
            let acknowledged_below = self.lost_by_acknowledgement(skip.acknowledged_below);
            if number < acknowledged_below && !is_whole {
                return false;
            }
            self.withdraw_skip(acknowledged_below.min(number));
            if number < acknowledged_below {
                // The sample proves that the claim about itself is false, and the writer repeats none of the others.
                self.mark_irrelevant(number.next(), acknowledged_below.previous());
            }
            if !self.info.reliable {
                self.next = number;
            }
            return true;
        }
        // A reliable reader that has delivered a later sample does not go back, nor one to which the writer sends its
        // history unasked: new samples overtake that, and come again with it.
        let may_go_back = if self.info.reliable { is_last } else { !self.gets_history };
        if may_go_back && self.is_long_stale(now, number) {
            self.skip.clear();
            self.kept.clear();
            self.continues = false;
            self.start(number);
            return true;
        }
        false
    }

    /// A GAP excludes the samples from `first` to `last`, or some of them.
    pub(super) fn note_gap(&mut self, first: SequenceNumber, last: SequenceNumber) {
        let next = self.next;
        let by_gap = &mut self.irrelevant.get_or_default().by_gap;
        *by_gap = match by_gap.filter(|(_, passed)| *passed >= next) {
            Some((before, passed)) => Some((before.min(first), passed.max(last))),
            None => Some((first, last)),
        };
    }

    /// Whether the reader has passed over sample `number` because of a GAP.
    pub(super) fn has_passed_by_gap(&self, number: SequenceNumber) -> bool {
        let passed = self.irrelevant.as_ref().map_or(&[][..], |irrelevant| irrelevant.passed.as_slice());
        let is_passed = passed.iter().any(|(first, last)| (*first..=*last).contains(&number));
        is_passed && number < self.next && !self.is_confirmed(number)
    }

    /// Requests for numbers before this one are in vain if the reader has acknowledged everything before `below`.
    fn lost_by_acknowledgement(&self, below: SequenceNumber) -> SequenceNumber {
        if Quirks::of(self.info.vendor).repeats_acknowledged { SequenceNumber::ZERO } else { below }
    }

    /// Goes back to where the reader was before the last claim, but not before `from`.
    fn withdraw_skip(&mut self, from: SequenceNumber) {
        let Some(skip) = self.skip.take() else { return };
        self.asked.clear();
        if skip.is_start {
            self.started = false;
        }
        self.next = skip.from.max(from);
        let next = self.next;
        if next > skip.from {
            let lost = skip.lost.min(next.distance_from(skip.from));
            // The rest is true as far as the writer is concerned.
            self.skip.put(Skip { until: next, first: SequenceNumber::ZERO, lost, is_believed: true, ..skip });
        }
        self.irrelevant.as_mut().into_iter().for_each(|irrelevant| irrelevant.forget_passed(next));
        self.mark_confirmed();
    }

    /// Notes a sample that was passed over. Says whether so many came in a row that it was the number they were passed
    /// over for that was false.
    fn is_long_stale(&mut self, now: Instant, number: SequenceNumber) -> bool {
        let (samples, since) = match self.stale.get() {
            Some(run) if run.next == self.next && number > run.newest => (run.samples.saturating_add(1), run.since),
            _ => (1, now),
        };
        self.stale.put(StaleRun { next: self.next, newest: number, samples, since });
        let is_far = self.next.distance_from(number) > SKIP_BELIEVED_MAX;
        samples >= STALE_SAMPLES_TO_GO_BACK && (is_far || now.since(since) >= STALE_RUN_MIN)
    }
}
