//! An inventory of the announcements received from a participant, compared with the participant's summary of its
//! endpoints. A difference shows that a lie was believed, or that an announcement was missed: then all announcements
//! are received again, and endpoints that are not among them are removed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::discovery::data::EndpointSummary;
use crate::id::EntityId;
use crate::limits::{
    CONTRADICTION_INTERVAL, ENDPOINTS_PER_PARTICIPANT_MAX, INVENTORY_ENTRY_BYTES, QUESTION_AFTER, QUESTIONS_MAX,
    REREAD_ATTEMPTS, REREAD_DOUBLINGS, REREAD_INTERVAL,
};
use crate::seq::{Count, SequenceNumber};
use crate::time::{Instant, Span};

/// The endpoints of one kind, by the digests of their announcements.
#[derive(Debug, Default)]
pub(super) struct Digests {
    by_endpoint: BTreeMap<EntityId, u128>,
    sum: u128,
}

impl Digests {
    /// Records the serialized announcement of an endpoint.
    pub(super) fn insert(&mut self, endpoint: EntityId, announcement: &[u8]) {
        self.remove(endpoint);
        let digest = EndpointSummary::digest_of(announcement);
        self.by_endpoint.insert(endpoint, digest);
        self.sum = self.sum.wrapping_add(digest);
    }

    pub(super) fn remove(&mut self, endpoint: EntityId) {
        if let Some(digest) = self.by_endpoint.remove(&endpoint) {
            self.sum = self.sum.wrapping_sub(digest);
        }
    }

    /// The digest of all of them.
    pub(super) const fn sum(&self) -> u128 {
        self.sum
    }

    fn sum_of(&self, endpoints: &BTreeSet<EntityId>) -> u128 {
        endpoints.iter().filter_map(|endpoint| self.by_endpoint.get(endpoint)).fold(0, |sum, d| sum.wrapping_add(*d))
    }
}

/// How far a built-in reader has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    /// The next number to deliver.
    pub(super) next: SequenceNumber,
    /// The greatest number received, delivered or not.
    pub(super) received: SequenceNumber,
}

impl Position {
    /// Whether the reader has received all samples up to this one, and none after it.
    fn is_at(self, last: SequenceNumber) -> bool {
        self.received == last && self.next == last.next()
    }
}

/// The action that a statement of the participant requires.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Nothing,
    /// To receive all announcements again.
    Reread,
    /// To remove these endpoints, which the participant does not have.
    Gone(Vec<EntityId>),
}

/// A HEARTBEAT has said that the newest samples were never written.
#[derive(Clone, Copy, Debug)]
struct Denial {
    count: Count,
    at: Instant,
}

/// A comparison that has failed although all announcements were received again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Failure {
    received: u128,
    stated: u128,
}

/// The announcements of one built-in writer.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    digests: Digests,
    next_question: Option<Instant>,
    /// Questions in a row without an answer.
    unanswered: u32,
    denial: Option<Denial>,
    /// While all announcements are being received again: the endpoints announced since.
    seen: Option<BTreeSet<EntityId>>,
    /// When that last began.
    reread_at: Option<Instant>,
    /// The last failure, and how often it came in a row.
    failure: Option<(Failure, u32)>,
}

impl Inventory {
    /// The bytes that the inventory counts for.
    pub(super) fn bytes(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, BTreeSet::len);
        self.digests.by_endpoint.len().saturating_add(seen).saturating_mul(INVENTORY_ENTRY_BYTES)
    }

    /// An announcement has been received. Beyond [`ENDPOINTS_PER_PARTICIPANT_MAX`] endpoints, it is not recorded.
    pub(super) fn announce(&mut self, endpoint: EntityId, announcement: &[u8]) {
        let entries = &self.digests.by_endpoint;
        if entries.len() >= ENDPOINTS_PER_PARTICIPANT_MAX && !entries.contains_key(&endpoint) {
            return;
        }
        self.digests.insert(endpoint, announcement);
        if let Some(seen) = &mut self.seen {
            seen.insert(endpoint);
        }
    }

    /// A disposal has been received.
    pub(super) fn dispose(&mut self, endpoint: EntityId) {
        self.digests.remove(endpoint);
        if let Some(seen) = &mut self.seen {
            seen.remove(&endpoint);
        }
    }

    /// Asks the participant soon for a statement, once for all changes until then.
    pub(super) fn ask(&mut self, now: Instant) {
        self.unanswered = 0;
        self.ask_at(now + QUESTION_AFTER);
    }

    fn ask_at(&mut self, at: Instant) {
        self.next_question = Some(self.next_question.map_or(at, |next| next.min(at)));
    }

    /// The participant has announced itself without a summary: repeats a question that is still unanswered.
    pub(super) fn hear_announcement(&mut self, now: Instant) {
        if self.unanswered > 0 && self.next_question.is_none() {
            self.ask_at(now + QUESTION_AFTER);
        }
    }

    /// A HEARTBEAT has come. `is_summarized` says that the participant also summarizes its endpoints. The count filter
    /// of the reader has no say here: a forged count would make it ignore true HEARTBEATs for a while.
    pub(super) fn hear_heartbeat(
        &mut self,
        now: Instant,
        (count, last): (Count, SequenceNumber),
        position: Position,
        is_summarized: bool,
    ) -> Verdict {
        if last < position.received {
            return match self.denial {
                // One that was overtaken by the samples, or a repetition, proves nothing.
                Some(denial) if denial.count == count || now.since(denial.at) < CONTRADICTION_INTERVAL => {
                    Verdict::Nothing
                }
                Some(_) => self.begin_reread(now),
                None => {
                    self.denial = Some(Denial { count, at: now });
                    self.ask_at(now + CONTRADICTION_INTERVAL);
                    Verdict::Nothing
                }
            };
        }
        self.denial = None;
        if is_summarized || !position.is_at(last) {
            return Verdict::Nothing;
        }
        self.end_questions();
        match self.seen.take() {
            Some(seen) => self.keep_only(&seen),
            None => Verdict::Nothing,
        }
    }

    /// The participant has summarized its endpoints.
    pub(super) fn hear_summary(&mut self, now: Instant, stated: EndpointSummary, position: Position) -> Verdict {
        if !position.is_at(stated.last) {
            // Also after the last of many questions without an answer: an outage may have swallowed all of them.
            if self.next_question.is_none() {
                self.ask_at(now + QUESTION_AFTER);
            }
            return Verdict::Nothing;
        }
        self.end_questions();
        if self.digests.sum() == stated.digest {
            (self.seen, self.failure) = (None, None);
            return Verdict::Nothing;
        }
        let Some(seen) = self.seen.take() else { return self.doubt(now, stated) };
        if self.digests.sum_of(&seen) == stated.digest {
            self.failure = None;
            return self.keep_only(&seen);
        }
        self.note_failure(stated);
        self.doubt(now, stated)
    }

    /// The summary differs from what was received.
    fn doubt(&mut self, now: Instant, stated: EndpointSummary) -> Verdict {
        let surplus = self.failures(stated).checked_sub(REREAD_ATTEMPTS);
        let wait = surplus.map(|surplus| REREAD_INTERVAL.times(2 << surplus.min(REREAD_DOUBLINGS)));
        let is_early = |wait: Span| self.reread_at.is_some_and(|at| now.since(at) < wait);
        if wait.is_some_and(is_early) {
            // An announcement after that time tries again.
            return Verdict::Nothing;
        }
        self.begin_reread(now)
    }

    /// How often this comparison has failed in a row.
    fn failures(&self, stated: EndpointSummary) -> u32 {
        let failure = Failure { received: self.digests.sum(), stated: stated.digest };
        self.failure.filter(|(last, _)| *last == failure).map_or(0, |(_, times)| times)
    }

    fn note_failure(&mut self, stated: EndpointSummary) {
        let times = self.failures(stated).saturating_add(1);
        self.failure = Some((Failure { received: self.digests.sum(), stated: stated.digest }, times));
    }

    /// Begins to receive everything again, or asks again as soon as that is allowed.
    fn begin_reread(&mut self, now: Instant) -> Verdict {
        self.unanswered = 0;
        if let Some(from) = self.reread_at.map(|at| at + REREAD_INTERVAL).filter(|from| now < *from) {
            self.ask_at(from);
            return Verdict::Nothing;
        }
        self.denial = None;
        self.reread_at = Some(now);
        self.seen = Some(BTreeSet::new());
        self.ask_at(now + CONTRADICTION_INTERVAL);
        Verdict::Reread
    }

    /// Whether the next HEARTBEAT is to decide about a denial.
    pub(super) const fn is_denied(&self) -> bool {
        self.denial.is_some()
    }

    const fn end_questions(&mut self) {
        (self.next_question, self.unanswered) = (None, 0);
    }

    /// Forgets the other endpoints.
    fn keep_only(&mut self, seen: &BTreeSet<EntityId>) -> Verdict {
        let gone: Vec<EntityId> = self.digests.by_endpoint.keys().filter(|e| !seen.contains(e)).copied().collect();
        gone.iter().for_each(|endpoint| self.digests.remove(*endpoint));
        Verdict::Gone(gone)
    }

    /// Handles the timer. Returns whether to ask the participant for a statement.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        if self.next_question.take_if(|at| *at <= now).is_none() {
            return false;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        if self.unanswered < QUESTIONS_MAX {
            // The next HEARTBEAT shows whether a sample exists that one has denied.
            self.next_question = Some(now + self.denial.map_or(QUESTION_AFTER, |_| CONTRADICTION_INTERVAL));
        }
        true
    }

    /// When to call [`Self::handle_timeout`] next.
    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.next_question
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const NOW: Instant = Instant(1_000_000_000);

    fn endpoint(key: u32) -> EntityId {
        EntityId::user_writer(key, false)
    }

    fn at(last: i64) -> Position {
        Position { next: SequenceNumber(last + 1), received: SequenceNumber(last) }
    }

    fn summary(last: i64, announcements: &[&[u8]]) -> EndpointSummary {
        let digest = announcements.iter().fold(0_u128, |sum, a| sum.wrapping_add(EndpointSummary::digest_of(a)));
        EndpointSummary { last: SequenceNumber(last), digest }
    }

    fn inventory(announcements: &[&[u8]]) -> Inventory {
        let mut inventory = Inventory::default();
        for (key, announcement) in announcements.iter().enumerate() {
            inventory.announce(endpoint(key as u32), announcement);
        }
        inventory
    }

    #[test]
    fn equal_summary_ends_the_questions() {
        let mut inventory = inventory(&[b"one", b"two"]);
        inventory.ask(NOW);
        assert_eq!(inventory.hear_summary(NOW, summary(2, &[b"two", b"one"]), at(2)), Verdict::Nothing);
        assert_eq!(inventory.poll_timeout(), None);
    }

    /// Lets all questions of a series pass without an answer. Returns the time of the last one.
    fn let_questions_pass(inventory: &mut Inventory) -> Instant {
        let mut last = NOW;
        for _ in 0..=QUESTIONS_MAX {
            let Some(at) = inventory.poll_timeout() else { return last };
            assert!(inventory.handle_timeout(at));
            last = at;
        }
        panic!("the questions do not end");
    }

    #[test]
    fn summary_that_cannot_be_compared_repeats_the_question_after_an_outage() {
        let mut inventory = inventory(&[b"one"]);
        inventory.dispose(endpoint(0));
        inventory.ask(NOW);
        let later = let_questions_pass(&mut inventory) + Span::from_secs(5);
        let stated = summary(1, &[b"one"]);
        for announcement in 0..3 {
            let at_announcement = later + Span::from_secs(announcement);
            assert_eq!(inventory.hear_summary(at_announcement, stated, at(2)), Verdict::Nothing);
            assert_eq!(inventory.poll_timeout(), Some(at_announcement + QUESTION_AFTER));
            assert_eq!(let_questions_pass(&mut inventory), at_announcement + QUESTION_AFTER, "one for each summary");
        }
    }

    #[test]
    fn announcement_without_summary_repeats_only_unanswered_questions() {
        let mut inventory = inventory(&[b"one"]);
        inventory.hear_announcement(NOW);
        assert_eq!(inventory.poll_timeout(), None);
        inventory.ask(NOW);
        let later = let_questions_pass(&mut inventory) + Span::from_secs(5);
        inventory.hear_announcement(later);
        assert_eq!(inventory.poll_timeout(), Some(later + QUESTION_AFTER));
        let heard = inventory.hear_heartbeat(later, (Count(9), SequenceNumber(1)), at(1), false);
        assert_eq!((heard, inventory.poll_timeout()), (Verdict::Nothing, None));
        inventory.hear_announcement(later);
        assert_eq!(inventory.poll_timeout(), None);
    }

    #[test]
    fn endpoint_that_is_not_announced_again_is_gone() {
        let mut inventory = inventory(&[b"one", b"forged"]);
        let stated = summary(2, &[b"one"]);
        assert_eq!(inventory.hear_summary(NOW, stated, at(2)), Verdict::Reread);
        inventory.announce(endpoint(0), b"one");
        let half = Position { next: SequenceNumber(2), received: SequenceNumber(1) };
        assert_eq!(inventory.hear_summary(NOW, stated, half), Verdict::Nothing);
        assert_eq!(inventory.hear_summary(NOW, stated, at(2)), Verdict::Gone(vec![endpoint(1)]));
        assert_eq!(inventory.hear_summary(NOW, stated, at(2)), Verdict::Nothing);
    }

    #[test]
    fn endpoint_whose_new_announcement_is_missing_stays() {
        let mut inventory = inventory(&[b"one", b"two", b"forged"]);
        assert_eq!(inventory.hear_summary(NOW, summary(3, &[b"one", b"two"]), at(3)), Verdict::Reread);
        inventory.announce(endpoint(0), b"one");
        // The writer has replaced "two" by sample 4, which has not come.
        assert_eq!(inventory.hear_summary(NOW, summary(4, &[b"one", b"new"]), at(3)), Verdict::Nothing);
        inventory.announce(endpoint(1), b"new");
        let verdict = inventory.hear_summary(NOW, summary(4, &[b"one", b"new"]), at(4));
        assert_eq!(verdict, Verdict::Gone(vec![endpoint(2)]));
    }

    #[test]
    fn rereads_are_limited_in_rate() {
        let mut inventory = inventory(&[b"one"]);
        let mut rereads = 0;
        for step in 0..1000 {
            let now = NOW + Span::from_millis(10).times(step);
            let stated = EndpointSummary { last: SequenceNumber(1), digest: u128::from(step) };
            rereads += u64::from(inventory.hear_summary(now, stated, at(1)) == Verdict::Reread);
        }
        let max = Span::from_secs(10).0 / REREAD_INTERVAL.0 + 1;
        assert!((2..=max).contains(&rereads), "{rereads}");
    }

    #[test]
    fn lasting_difference_is_not_asked_about_without_end() {
        let mut inventory = inventory(&[b"one"]);
        let stated = summary(1, &[b"another"]);
        let mut now = NOW;
        assert_eq!(inventory.hear_summary(now, stated, at(1)), Verdict::Reread);
        let mut questions = 0;
        while let Some(next) = inventory.poll_timeout() {
            now = next;
            questions += u32::from(inventory.handle_timeout(now));
            let _ = inventory.hear_summary(now, stated, at(1));
            inventory.announce(endpoint(0), b"one");
            assert!(questions < 20, "the participant is asked without end");
        }
        assert!(questions >= REREAD_ATTEMPTS, "{questions}");
    }

    /// A peer counts differently, and announces itself every seven seconds.
    #[test]
    fn attempts_without_success_become_rare() {
        let mut inventory = inventory(&[b"one"]);
        let stated = summary(1, &[b"another"]);
        let mut rereads = 0;
        for step in 0..7 * 24 * 3600 / 7 {
            let now = NOW + Span::from_secs(7 * step);
            rereads += u32::from(inventory.hear_summary(now, stated, at(1)) == Verdict::Reread);
            inventory.announce(endpoint(0), b"one");
        }
        // In a week, at least one in about half an hour.
        assert!((300..1000).contains(&rereads), "{rereads}");
    }

    #[test]
    fn change_after_many_failures_is_compared_at_once() {
        let mut inventory = inventory(&[b"one"]);
        let mut now = NOW;
        for _ in 0..1000 {
            now = now + Span::from_secs(7);
            let _ = inventory.hear_summary(now, summary(1, &[b"another"]), at(1));
            inventory.announce(endpoint(0), b"one");
        }
        now = now + REREAD_INTERVAL;
        inventory.announce(endpoint(1), b"forged");
        assert_eq!(inventory.hear_summary(now, summary(1, &[b"another"]), at(1)), Verdict::Reread);
    }

    #[test]
    fn two_heartbeats_some_time_apart_deny_a_sample() {
        let mut inventory = inventory(&[b"one", b"forged"]);
        let mut hear =
            |now, count, last| inventory.hear_heartbeat(now, (Count(count), SequenceNumber(last)), at(2), false);
        assert_eq!(hear(NOW, 1, 1), Verdict::Nothing);
        assert_eq!(hear(NOW + CONTRADICTION_INTERVAL, 1, 1), Verdict::Nothing, "a repetition");
        assert_eq!(hear(NOW + Span(1), 2, 1), Verdict::Nothing, "too early");
        assert_eq!(hear(NOW + CONTRADICTION_INTERVAL, 2, 1), Verdict::Reread);
    }

    #[test]
    fn confirmed_sample_ends_a_denial() {
        let mut inventory = inventory(&[b"one", b"two"]);
        let mut hear =
            |now, count, last| inventory.hear_heartbeat(now, (Count(count), SequenceNumber(last)), at(2), false);
        assert_eq!(hear(NOW, 1, 1), Verdict::Nothing);
        assert_eq!(hear(NOW, 2, 2), Verdict::Nothing);
        assert_eq!(hear(NOW + CONTRADICTION_INTERVAL, 3, 1), Verdict::Nothing);
    }

    #[test]
    fn participant_without_summaries_is_compared_after_a_heartbeat() {
        let mut inventory = inventory(&[b"one", b"forged"]);
        let mut now = NOW;
        let mut hear = |inventory: &mut Inventory, count, position| {
            now = now + CONTRADICTION_INTERVAL;
            inventory.hear_heartbeat(now, (Count(count), SequenceNumber(1)), position, false)
        };
        assert_eq!(hear(&mut inventory, 1, at(2)), Verdict::Nothing);
        assert_eq!(hear(&mut inventory, 2, at(2)), Verdict::Reread);
        assert_eq!(hear(&mut inventory, 3, at(0)), Verdict::Nothing);
        inventory.announce(endpoint(0), b"one");
        assert_eq!(hear(&mut inventory, 4, at(1)), Verdict::Gone(vec![endpoint(1)]));
    }

    #[test]
    fn endpoints_are_bounded() {
        let mut inventory = Inventory::default();
        for key in 0..ENDPOINTS_PER_PARTICIPANT_MAX as u32 + 10 {
            inventory.announce(endpoint(key), &[]);
        }
        assert_eq!(inventory.bytes(), ENDPOINTS_PER_PARTICIPANT_MAX * INVENTORY_ENTRY_BYTES);
    }

    #[test]
    fn questions_end_when_they_stay_unanswered() {
        let mut inventory = inventory(&[b"one"]);
        inventory.ask(NOW);
        let mut asked = 0;
        while let Some(at) = inventory.poll_timeout() {
            asked += u32::from(inventory.handle_timeout(at));
            assert!(asked <= QUESTIONS_MAX, "the participant is asked without end");
        }
        assert_eq!(asked, QUESTIONS_MAX);
    }
}
