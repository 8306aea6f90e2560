//! An inventory of the announcements received from a participant, compared with the participant's summary of its
//! endpoints. A difference shows that a lie was believed, or that an announcement was missed. If the participant stands
//! by it, the announcements that have come since the last agreement are received again, and those that they have
//! replaced, or else all; endpoints that are not among them are removed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::discovery::data::EndpointSummary;
use crate::id::EntityId;
use crate::limits::{
    CONTRADICTION_INTERVAL, ENDPOINTS_PER_PARTICIPANT_MAX, INVENTORY_ENTRY_BYTES, QUESTION_AFTER, QUESTIONS_MAX,
    REREAD_ATTEMPTS, REREAD_DOUBLINGS, REREAD_INTERVAL, SUMMARY_INTERVAL,
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
    /// How long the participant has to refute a contradiction after it was asked: time for two answers.
    pub(super) patience: Span,
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
    /// To receive announcements again.
    Reread(Reread),
    /// All that was received is true, but for these endpoints, which are to be removed.
    Agreed(Vec<EntityId>),
}

/// What is to be received again: these announcements, in ascending order, and all after `last`.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Reread {
    pub(super) numbers: Vec<SequenceNumber>,
    pub(super) last: SequenceNumber,
}

impl Reread {
    const ALL: Self = Self { numbers: Vec::new(), last: SequenceNumber::ZERO };
}

/// The participant has confirmed all that was received up to a sample. Lies after that have changed little: the rest
/// need not be received again.
#[derive(Debug)]
struct Agreement {
    last: SequenceNumber,
    /// The endpoints whose state has changed since, and the numbers of their announcements at that time.
    changed: BTreeMap<EntityId, Option<SequenceNumber>>,
}

/// A statement contradicts what was received. An impostor may have made either, so that the participant itself decides:
/// the contradiction stands if it is repeated, and the participant has not refuted it although it was asked.
#[derive(Clone, Copy, Default, Debug)]
struct Contradiction {
    /// When the participant was first asked since.
    asked_at: Option<Instant>,
}

impl Contradiction {
    fn note_question(&mut self, now: Instant) {
        self.asked_at.get_or_insert(now);
    }

    /// Whether the participant has had time to refute it.
    fn stands(self, now: Instant, patience: Span) -> bool {
        self.asked_at.is_some_and(|at| now.since(at) >= patience)
    }
}

/// A HEARTBEAT has said that the newest samples were never written.
#[derive(Clone, Copy, Debug)]
struct Denial {
    count: Count,
    /// The last sample written, by the HEARTBEAT that concedes most.
    last: SequenceNumber,
    contradiction: Contradiction,
}

/// A comparison that has failed although everything in doubt was received again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Failure {
    received: u128,
    stated: u128,
}

/// The announcements of one built-in writer.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    digests: Digests,
    /// The numbers of the announcements.
    numbers: BTreeMap<EntityId, SequenceNumber>,
    /// The last time that everything was confirmed, unless that has proved false.
    agreement: Option<Agreement>,
    next_question: Option<Instant>,
    /// Questions in a row without an answer.
    unanswered: u32,
    /// When the last question was asked.
    asked_at: Option<Instant>,
    denial: Option<Denial>,
    /// A summary differs from what was received.
    difference: Option<Contradiction>,
    /// While announcements are being received again: the endpoints announced since, or not in doubt.
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
        let changed = self.agreement.as_ref().map_or(0, |agreement| agreement.changed.len());
        let entries = self.digests.by_endpoint.len().saturating_add(seen).saturating_add(changed);
        entries.saturating_mul(INVENTORY_ENTRY_BYTES)
    }

    /// The announcement with this number has been received. Beyond [`ENDPOINTS_PER_PARTICIPANT_MAX`] endpoints, it is
    /// not recorded.
    pub(super) fn announce(&mut self, endpoint: EntityId, number: SequenceNumber, announcement: &[u8]) {
        let entries = &self.digests.by_endpoint;
        if entries.len() >= ENDPOINTS_PER_PARTICIPANT_MAX && !entries.contains_key(&endpoint) {
            return;
        }
        self.note_change(endpoint);
        self.digests.insert(endpoint, announcement);
        self.numbers.insert(endpoint, number);
        if let Some(seen) = &mut self.seen {
            seen.insert(endpoint);
        }
    }

    /// A disposal has been received.
    pub(super) fn dispose(&mut self, endpoint: EntityId) {
        if self.numbers.contains_key(&endpoint) {
            self.note_change(endpoint);
            self.forget(endpoint);
        }
        if let Some(seen) = &mut self.seen {
            seen.remove(&endpoint);
        }
    }

    fn forget(&mut self, endpoint: EntityId) {
        self.digests.remove(endpoint);
        self.numbers.remove(&endpoint);
    }

    /// The state of an endpoint is about to change.
    fn note_change(&mut self, endpoint: EntityId) {
        let Some(Agreement { changed, .. }) = &mut self.agreement else { return };
        changed.entry(endpoint).or_insert_with(|| self.numbers.get(&endpoint).copied());
        if changed.len() > ENDPOINTS_PER_PARTICIPANT_MAX {
            self.agreement = None;
        }
    }

    /// The participant confirms everything that was received, up to this sample.
    fn agree(&mut self, last: SequenceNumber) {
        (self.failure, self.difference) = (None, None);
        self.agreement = Some(Agreement { last, changed: BTreeMap::new() });
    }

    /// Asks the participant soon for a statement, once for all changes until then.
    pub(super) fn ask(&mut self, now: Instant) {
        self.unanswered = 0;
        self.ask_at(now + QUESTION_AFTER);
    }

    /// Asks the participant about a contradiction: as soon as it answers, again, and when the contradiction stands.
    fn ask_about(&mut self, now: Instant, contradiction: Contradiction, patience: Span) {
        let soon = self.asked_at.map_or(now, |at| now.max(at + SUMMARY_INTERVAL));
        self.ask_at(match contradiction.asked_at {
            None => soon,
            Some(at) if now.since(at) < CONTRADICTION_INTERVAL => at + CONTRADICTION_INTERVAL,
            Some(at) => soon.max(at + patience),
        });
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
            return self.hear_denial(now, (count, last), position.patience);
        }
        self.denial = None;
        if is_summarized || !position.is_at(last) {
            return Verdict::Nothing;
        }
        self.end_questions();
        let verdict = self.seen.take().map_or(Verdict::Nothing, |seen| self.keep_only(&seen));
        self.agree(last);
        verdict
    }

    fn hear_denial(&mut self, now: Instant, (count, last): (Count, SequenceNumber), patience: Span) -> Verdict {
        if self.denial.is_none() {
            self.unanswered = 0;
        }
        // A summary that counts the denied samples may be as false as these.
        self.difference = None;
        let denial = self.denial.get_or_insert(Denial { count, last, contradiction: Contradiction::default() });
        denial.last = denial.last.max(last);
        let denial = *denial;
        // A repetition proves nothing.
        if denial.count != count && denial.contradiction.stands(now, patience) {
            self.agreement.take_if(|agreement| denial.last < agreement.last);
            return self.begin_reread(now);
        }
        self.ask_about(now, denial.contradiction, patience);
        Verdict::Nothing
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
        self.denial = None;
        if self.digests.sum() == stated.digest {
            self.seen = None;
            self.agree(stated.last);
            return Verdict::Agreed(Vec::new());
        }
        if let Some(seen) = self.seen.take_if(|seen| self.digests.sum_of(seen) == stated.digest) {
            let verdict = self.keep_only(&seen);
            self.agree(stated.last);
            return verdict;
        }
        let difference = *self.difference.get_or_insert_default();
        if !difference.stands(now, position.patience) {
            self.ask_about(now, difference, position.patience);
            return Verdict::Nothing;
        }
        if self.seen.take().is_some() {
            self.note_failure(stated);
            self.agreement = None;
        }
        self.doubt(now, stated)
    }

    /// The summary differs from what was received, and the participant stands by that.
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

    /// Begins to receive again what is in doubt, or asks again as soon as that is allowed.
    fn begin_reread(&mut self, now: Instant) -> Verdict {
        self.unanswered = 0;
        if let Some(from) = self.reread_at.map(|at| at + REREAD_INTERVAL).filter(|from| now < *from) {
            self.ask_at(from);
            return Verdict::Nothing;
        }
        (self.denial, self.difference) = (None, None);
        self.reread_at = Some(now);
        self.ask_at(now + CONTRADICTION_INTERVAL);
        let Some(Agreement { last, changed }) = &self.agreement else {
            self.seen = Some(BTreeSet::new());
            return Verdict::Reread(Reread::ALL);
        };
        let endpoints = self.digests.by_endpoint.keys();
        self.seen = Some(endpoints.filter(|endpoint| !changed.contains_key(endpoint)).copied().collect());
        let mut numbers: Vec<SequenceNumber> = changed.values().copied().flatten().collect();
        numbers.sort_unstable();
        Verdict::Reread(Reread { numbers, last: *last })
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
        gone.iter().for_each(|endpoint| self.forget(*endpoint));
        Verdict::Agreed(gone)
    }

    /// Handles the timer. Returns whether to ask the participant for a statement.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> bool {
        if self.next_question.take_if(|at| *at <= now).is_none() {
            return false;
        }
        self.asked_at = Some(now);
        let denial = self.denial.as_mut().map(|denial| &mut denial.contradiction);
        denial.into_iter().chain(&mut self.difference).for_each(|contradiction| contradiction.note_question(now));
        self.unanswered = self.unanswered.saturating_add(1);
        if self.unanswered < QUESTIONS_MAX {
            let is_contradicted = self.denial.is_some() || self.difference.is_some();
            self.next_question = Some(now + if is_contradicted { CONTRADICTION_INTERVAL } else { QUESTION_AFTER });
        } else {
            // The participant has neither refuted nor confirmed it.
            (self.denial, self.difference) = (None, None);
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

    const ALL: Verdict = Verdict::Reread(Reread::ALL);
    const AGREED: Verdict = Verdict::Agreed(Vec::new());
    const PATIENCE: Span = Span::from_millis(150);

    fn at(last: i64) -> Position {
        Position { next: SequenceNumber(last + 1), received: SequenceNumber(last), patience: PATIENCE }
    }

    /// Passes the answers of a participant that stands by this summary to the inventory, until that decides.
    fn insist(inventory: &mut Inventory, now: &mut Instant, stated: EndpointSummary, position: Position) -> Verdict {
        for _ in 0..QUESTIONS_MAX {
            let verdict = inventory.hear_summary(*now, stated, position);
            let Some(at) = inventory.poll_timeout().filter(|_| verdict == Verdict::Nothing) else { return verdict };
            *now = at.max(*now);
            assert!(inventory.handle_timeout(*now));
        }
        panic!("the inventory does not decide");
    }

    fn summary(last: i64, announcements: &[&[u8]]) -> EndpointSummary {
        let digest = announcements.iter().fold(0_u128, |sum, a| sum.wrapping_add(EndpointSummary::digest_of(a)));
        EndpointSummary { last: SequenceNumber(last), digest }
    }

    fn inventory(announcements: &[&[u8]]) -> Inventory {
        let mut inventory = Inventory::default();
        for (key, announcement) in announcements.iter().enumerate() {
            inventory.announce(endpoint(key as u32), SequenceNumber(key as i64 + 1), announcement);
        }
        inventory
    }

    #[test]
    fn equal_summary_ends_the_questions() {
        let mut inventory = inventory(&[b"one", b"two"]);
        inventory.ask(NOW);
        assert_eq!(inventory.hear_summary(NOW, summary(2, &[b"two", b"one"]), at(2)), AGREED);
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
        let (stated, mut now) = (summary(2, &[b"one"]), NOW);
        assert_eq!(insist(&mut inventory, &mut now, stated, at(2)), ALL);
        inventory.announce(endpoint(0), SequenceNumber(1), b"one");
        assert_eq!(inventory.hear_summary(now, stated, at(1)), Verdict::Nothing);
        assert_eq!(inventory.hear_summary(now, stated, at(2)), Verdict::Agreed(vec![endpoint(1)]));
        assert_eq!(inventory.hear_summary(now, stated, at(2)), AGREED);
    }

    #[test]
    fn endpoint_whose_new_announcement_is_missing_stays() {
        let (mut inventory, mut now) = (inventory(&[b"one", b"two", b"forged"]), NOW);
        let verdict = insist(&mut inventory, &mut now, summary(3, &[b"one", b"two"]), at(3));
        assert_eq!(verdict, ALL);
        inventory.announce(endpoint(0), SequenceNumber(1), b"one");
        // The writer has replaced "two" by sample 4, which has not come.
        assert_eq!(inventory.hear_summary(now, summary(4, &[b"one", b"new"]), at(3)), Verdict::Nothing);
        inventory.announce(endpoint(1), SequenceNumber(2), b"new");
        let verdict = inventory.hear_summary(now, summary(4, &[b"one", b"new"]), at(4));
        assert_eq!(verdict, Verdict::Agreed(vec![endpoint(2)]));
    }

    #[test]
    fn rereads_are_limited_in_rate() {
        let mut inventory = inventory(&[b"one"]);
        let mut rereads = 0;
        for step in 0..1000 {
            let now = NOW + Span::from_millis(10).times(step);
            let stated = EndpointSummary { last: SequenceNumber(1), digest: u128::from(step) };
            let _ = inventory.handle_timeout(now);
            rereads += u64::from(inventory.hear_summary(now, stated, at(1)) == ALL);
        }
        let max = Span::from_secs(10).0 / REREAD_INTERVAL.0 + 1;
        assert!((2..=max).contains(&rereads), "{rereads}");
    }

    #[test]
    fn lasting_difference_is_not_asked_about_without_end() {
        let mut inventory = inventory(&[b"one"]);
        let stated = summary(1, &[b"another"]);
        let mut now = NOW;
        assert_eq!(insist(&mut inventory, &mut now, stated, at(1)), ALL);
        let mut questions = 0;
        while let Some(next) = inventory.poll_timeout() {
            now = next;
            questions += u32::from(inventory.handle_timeout(now));
            let _ = inventory.hear_summary(now, stated, at(1));
            inventory.announce(endpoint(0), SequenceNumber(1), b"one");
            assert!(questions < 32, "the participant is asked without end");
        }
        assert!(questions >= REREAD_ATTEMPTS, "{questions}");
    }

    /// The endpoint of "two" was disposed, and "three" announced, since all was confirmed up to sample 2.
    fn changed_since_agreement() -> Inventory {
        let mut inventory = inventory(&[b"one", b"two"]);
        assert_eq!(inventory.hear_summary(NOW, summary(2, &[b"one", b"two"]), at(2)), AGREED);
        inventory.dispose(endpoint(1));
        inventory.announce(endpoint(2), SequenceNumber(4), b"three");
        inventory
    }

    #[test]
    fn only_what_has_changed_since_the_last_agreement_is_received_again() {
        let (mut inventory, mut now) = (changed_since_agreement(), NOW);
        let stated = summary(4, &[b"one", b"two"]);
        let expected = Reread { numbers: vec![SequenceNumber(2)], last: SequenceNumber(2) };
        assert_eq!(insist(&mut inventory, &mut now, stated, at(4)), Verdict::Reread(expected));
        inventory.announce(endpoint(1), SequenceNumber(2), b"two");
        assert_eq!(inventory.hear_summary(now, stated, at(4)), Verdict::Agreed(vec![endpoint(2)]));
    }

    #[test]
    fn changes_stay_in_doubt_until_the_next_agreement() {
        let (mut inventory, mut now) = (changed_since_agreement(), NOW);
        let stated = summary(4, &[b"one", b"two"]);
        let _ = insist(&mut inventory, &mut now, stated, at(4));
        inventory.announce(endpoint(1), SequenceNumber(2), b"two");
        inventory.dispose(endpoint(0));
        for count in 0..9 {
            now = now + CONTRADICTION_INTERVAL;
            let verdict = inventory.hear_heartbeat(now, (Count(count), SequenceNumber(4)), at(5), true);
            let _ = inventory.handle_timeout(now);
            if verdict != Verdict::Nothing {
                let numbers = vec![SequenceNumber(1), SequenceNumber(2)];
                assert_eq!(verdict, Verdict::Reread(Reread { numbers, last: SequenceNumber(2) }));
                return;
            }
        }
        panic!("the denial does not stand");
    }

    #[test]
    fn all_is_received_again_when_the_last_agreement_was_false() {
        let (mut inventory, mut now) = (changed_since_agreement(), NOW);
        let stated = summary(4, &[b"one", b"other"]);
        assert_ne!(insist(&mut inventory, &mut now, stated, at(4)), ALL);
        now = now + REREAD_INTERVAL;
        assert_eq!(insist(&mut inventory, &mut now, stated, at(4)), ALL);

        let mut inventory = changed_since_agreement();
        let deny = |inventory: &mut Inventory, now, count| {
            inventory.hear_heartbeat(now, (Count(count), SequenceNumber(1)), at(4), true)
        };
        assert_eq!(deny(&mut inventory, NOW, 1), Verdict::Nothing);
        assert!(inventory.handle_timeout(NOW + SUMMARY_INTERVAL));
        assert_eq!(deny(&mut inventory, NOW + SUMMARY_INTERVAL + PATIENCE, 2), ALL);

        // The participant confirms the agreement, and an impostor denies it.
        let mut inventory = changed_since_agreement();
        assert_eq!(deny(&mut inventory, NOW, 1), Verdict::Nothing);
        assert!(inventory.handle_timeout(NOW + SUMMARY_INTERVAL));
        let true_one = inventory.hear_heartbeat(NOW, (Count(7), SequenceNumber(2)), at(4), true);
        assert_eq!(true_one, Verdict::Nothing);
        let verdict = deny(&mut inventory, NOW + SUMMARY_INTERVAL + PATIENCE, 2);
        assert!(matches!(&verdict, Verdict::Reread(reread) if *reread != Reread::ALL), "{verdict:?}");
    }

    #[test]
    fn disposals_of_unknown_endpoints_are_no_changes() {
        let mut inventory = changed_since_agreement();
        let before = inventory.bytes();
        (100..1_000).for_each(|key| inventory.dispose(endpoint(key)));
        assert_eq!(inventory.bytes(), before);
    }

    /// A peer counts differently, and announces itself every seven seconds.
    #[test]
    fn attempts_without_success_become_rare() {
        let mut inventory = inventory(&[b"one"]);
        let stated = summary(1, &[b"another"]);
        let mut rereads = 0;
        for step in 0..7 * 24 * 3600 / 7 {
            let mut now = NOW + Span::from_secs(7 * step);
            rereads += u32::from(insist(&mut inventory, &mut now, stated, at(1)) == ALL);
            inventory.announce(endpoint(0), SequenceNumber(1), b"one");
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
            let _ = insist(&mut inventory, &mut now, summary(1, &[b"another"]), at(1));
            inventory.announce(endpoint(0), SequenceNumber(1), b"one");
        }
        now = now + REREAD_INTERVAL;
        inventory.announce(endpoint(1), SequenceNumber(2), b"forged");
        assert_eq!(insist(&mut inventory, &mut now, summary(1, &[b"another"]), at(1)), ALL);
    }

    fn hear(inventory: &mut Inventory, now: Instant, count: i32, last: i64) -> Verdict {
        inventory.hear_heartbeat(now, (Count(count), SequenceNumber(last)), at(2), false)
    }

    /// A denial, about which the participant is asked at once.
    fn denied() -> Inventory {
        let mut inventory = inventory(&[b"one", b"forged"]);
        assert_eq!(hear(&mut inventory, NOW, 1, 1), Verdict::Nothing);
        assert!(inventory.handle_timeout(NOW));
        inventory
    }

    #[test]
    fn denial_that_is_repeated_after_a_question_stands() {
        let mut inventory = denied();
        assert_eq!(hear(&mut inventory, NOW + PATIENCE, 1, 1), Verdict::Nothing, "a repetition");
        assert_eq!(hear(&mut inventory, NOW + Span(PATIENCE.0 - 1), 2, 1), Verdict::Nothing, "too early");
        assert_eq!(hear(&mut inventory, NOW + PATIENCE, 2, 1), ALL);
    }

    #[test]
    fn denials_before_any_question_prove_nothing() {
        let mut inventory = inventory(&[b"one", b"two"]);
        for count in 0..100_i32 {
            let now = NOW + CONTRADICTION_INTERVAL.times(u64::from(count.unsigned_abs()));
            assert_eq!(hear(&mut inventory, now, count, 1), Verdict::Nothing);
        }
    }

    #[test]
    fn participant_is_asked_about_a_denial_twice_before_that_stands() {
        let mut inventory = denied();
        assert_eq!(hear(&mut inventory, NOW, 2, 1), Verdict::Nothing);
        assert_eq!(inventory.poll_timeout(), Some(NOW + CONTRADICTION_INTERVAL));
        assert!(inventory.handle_timeout(NOW + CONTRADICTION_INTERVAL));
        assert_eq!(hear(&mut inventory, NOW + CONTRADICTION_INTERVAL, 3, 1), Verdict::Nothing);
        assert_eq!(inventory.poll_timeout(), Some(NOW + PATIENCE));
    }

    /// An impostor denies more often than the participant is asked, and one answer is lost.
    #[test]
    fn refuted_denial_is_forgotten() {
        let mut inventory = inventory(&[b"one", b"two"]);
        for step in 0..1000_i32 {
            let now = NOW + Span::from_millis(u64::from(step.unsigned_abs()));
            let _ = inventory.handle_timeout(now);
            assert_eq!(hear(&mut inventory, now, step, 1), Verdict::Nothing, "{step}");
            if step % 140 == 139 {
                assert_eq!(hear(&mut inventory, now, -step, 2), Verdict::Nothing);
            }
        }
    }

    #[test]
    fn denial_that_the_participant_leaves_open_is_forgotten() {
        let mut inventory = denied();
        let mut now = let_questions_pass(&mut inventory);
        now = now + PATIENCE;
        assert_eq!(hear(&mut inventory, now, 9, 1), Verdict::Nothing);
    }

    #[test]
    fn refuted_difference_is_forgotten() {
        let mut inventory = inventory(&[b"one", b"two"]);
        for step in 0..1000 {
            let now = NOW + Span::from_millis(step);
            let _ = inventory.handle_timeout(now);
            assert_eq!(inventory.hear_summary(now, summary(2, &[b"one"]), at(2)), Verdict::Nothing, "{step}");
            if step % 140 == 139 {
                assert_eq!(inventory.hear_summary(now, summary(2, &[b"one", b"two"]), at(2)), AGREED);
            }
        }
    }

    #[test]
    fn participant_without_summaries_is_compared_after_a_heartbeat() {
        let mut inventory = denied();
        let now = NOW + PATIENCE;
        assert_eq!(hear(&mut inventory, now, 2, 1), ALL);
        let last = SequenceNumber(1);
        assert_eq!(inventory.hear_heartbeat(now, (Count(3), last), at(0), false), Verdict::Nothing);
        inventory.announce(endpoint(0), SequenceNumber(1), b"one");
        let verdict = inventory.hear_heartbeat(now, (Count(4), last), at(1), false);
        assert_eq!(verdict, Verdict::Agreed(vec![endpoint(1)]));
    }

    #[test]
    fn endpoints_are_bounded() {
        let mut inventory = Inventory::default();
        for key in 0..ENDPOINTS_PER_PARTICIPANT_MAX as u32 + 10 {
            inventory.announce(endpoint(key), SequenceNumber(1), &[]);
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
