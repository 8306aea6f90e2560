//! An inventory of the announcements received from a participant, compared with the participant's summary of its
//! endpoints. A difference shows that a lie was believed, or that an announcement was missed. If the participant stands
//! by it, the announcements that have come since the last agreement are received again, and those that they have
//! replaced, or else all; endpoints that are not among them are removed.

use alloc::collections::BTreeMap;
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
        self.insert_digest(endpoint, EndpointSummary::digest_of(announcement));
    }

    fn insert_digest(&mut self, endpoint: EntityId, digest: u128) {
        self.remove(endpoint);
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

    fn len(&self) -> usize {
        self.by_endpoint.len()
    }

    fn contains(&self, endpoint: EntityId) -> bool {
        self.by_endpoint.contains_key(&endpoint)
    }

    /// The endpoints among them for which `is_in` holds.
    fn subset(&self, is_in: impl Fn(&EntityId) -> bool) -> Self {
        let by_endpoint: BTreeMap<_, _> =
            self.by_endpoint.iter().filter(|(endpoint, _)| is_in(endpoint)).map(|(e, digest)| (*e, *digest)).collect();
        let sum = by_endpoint.values().fold(0_u128, |sum, digest| sum.wrapping_add(*digest));
        Self { by_endpoint, sum }
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

/// The samples to be received again: these announcements, in ascending order, and all after `last`.
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

/// A summary differs from what was received.
#[derive(Clone, Copy, Debug)]
struct Difference {
    stated: EndpointSummary,
    contradiction: Contradiction,
    /// A summary has differed after the participant had time to refute the first one.
    is_repeated: bool,
    /// A HEARTBEAT has denied samples that the summary counts, and none has confirmed them since. As long as that is
    /// open, the summary may be as false as these.
    is_denied: bool,
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
    difference: Option<Difference>,
    /// While announcements are being received again: the endpoints announced since, or not in doubt.
    seen: Option<Digests>,
    /// When that last began.
    reread_at: Option<Instant>,
    /// The number of the last announcement at that time, or the last sample written by a HEARTBEAT since, if that is
    /// less.
    reread_until: SequenceNumber,
    /// The last failure, and how often it came in a row.
    failure: Option<(Failure, u32)>,
}

impl Inventory {
    /// The bytes that the inventory counts for.
    pub(super) fn bytes(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, Digests::len);
        let changed = self.agreement.as_ref().map_or(0, |agreement| agreement.changed.len());
        let entries = self.digests.len().saturating_add(seen).saturating_add(changed);
        entries.saturating_mul(INVENTORY_ENTRY_BYTES)
    }

    /// The announcement with this number has been received. Beyond [`ENDPOINTS_PER_PARTICIPANT_MAX`] endpoints, it is
    /// not recorded.
    pub(super) fn announce(&mut self, endpoint: EntityId, number: SequenceNumber, announcement: &[u8]) {
        if self.digests.len() >= ENDPOINTS_PER_PARTICIPANT_MAX && !self.digests.contains(endpoint) {
            return;
        }
        self.note_change(endpoint);
        let digest = EndpointSummary::digest_of(announcement);
        self.digests.insert_digest(endpoint, digest);
        self.numbers.insert(endpoint, number);
        if let Some(seen) = &mut self.seen {
            seen.insert_digest(endpoint, digest);
        }
    }

    /// A disposal has been received.
    pub(super) fn dispose(&mut self, endpoint: EntityId) {
        if self.numbers.contains_key(&endpoint) {
            self.note_change(endpoint);
            self.forget(endpoint);
        }
        if let Some(seen) = &mut self.seen {
            seen.remove(endpoint);
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
        let not_before = |pause: Span| self.asked_at.map_or(now, |at| now.max(at + pause));
        self.ask_at(match contradiction.asked_at {
            // The participant answers from a budget.
            None => not_before(CONTRADICTION_INTERVAL),
            Some(at) if now.since(at) < CONTRADICTION_INTERVAL => at + CONTRADICTION_INTERVAL,
            Some(at) => not_before(SUMMARY_INTERVAL).max(at + patience),
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
        self.reread_until = self.reread_until.min(last);
        if last < position.received {
            return self.hear_denial(now, (count, last), position.patience);
        }
        self.denial = None;
        if let Some(difference) = self.difference.as_mut().filter(|difference| difference.is_denied) {
            difference.is_denied = false;
            let difference = *difference;
            if difference.is_repeated && position.is_at(difference.stated.last) {
                return self.hear_difference(now, difference, position.patience);
            }
        }
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
        self.difference.iter_mut().for_each(|difference| difference.is_denied = true);
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
        if self.seen.is_some() && stated.last < self.reread_until {
            // An impostor may say that there are fewer endpoints than before while they are received again. A HEARTBEAT
            // has to confirm that.
            self.ask_at(now + QUESTION_AFTER);
            return Verdict::Nothing;
        }
        self.end_questions();
        self.denial = None;
        if self.digests.sum() == stated.digest {
            self.agree(stated.last);
            // Nothing but the comparison after a reception of all in doubt confirms that samples were passed over.
            return if self.seen.take().is_some() { Verdict::Agreed(Vec::new()) } else { Verdict::Nothing };
        }
        if let Some(seen) = self.seen.take_if(|seen| seen.sum() == stated.digest) {
            let verdict = self.keep_only(&seen);
            self.agree(stated.last);
            return verdict;
        }
        let new =
            || Difference { stated, contradiction: Contradiction::default(), is_repeated: false, is_denied: false };
        let difference = self.difference.get_or_insert_with(new);
        difference.stated = stated;
        difference.is_repeated |= difference.contradiction.stands(now, position.patience);
        let difference = *difference;
        self.hear_difference(now, difference, position.patience)
    }

    fn hear_difference(&mut self, now: Instant, difference: Difference, patience: Span) -> Verdict {
        let Difference { stated, contradiction, is_repeated, is_denied } = difference;
        if is_denied || !is_repeated {
            self.ask_about(now, contradiction, patience);
            return Verdict::Nothing;
        }
        if self.seen.take().is_some() {
            self.note_failure(stated);
            self.agreement = None;
        }
        // Where nothing has changed since, it is the agreement that was false.
        self.agreement.take_if(|agreement| agreement.changed.is_empty());
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
        self.reread_until = self.numbers.values().copied().max().unwrap_or(SequenceNumber::ZERO);
        self.ask_at(now + CONTRADICTION_INTERVAL);
        let Some(Agreement { last, changed }) = &self.agreement else {
            self.seen = Some(Digests::default());
            return Verdict::Reread(Reread::ALL);
        };
        self.seen = Some(self.digests.subset(|endpoint| !changed.contains_key(endpoint)));
        let mut numbers: Vec<SequenceNumber> = changed.values().copied().flatten().collect();
        numbers.sort_unstable();
        Verdict::Reread(Reread { numbers, last: *last })
    }

    /// Whether the next HEARTBEAT, or a summary, is to decide about a contradiction.
    pub(super) const fn is_contradicted(&self) -> bool {
        self.denial.is_some() || self.difference.is_some()
    }

    const fn end_questions(&mut self) {
        (self.next_question, self.unanswered) = (None, 0);
    }

    /// Forgets the other endpoints.
    fn keep_only(&mut self, seen: &Digests) -> Verdict {
        let gone: Vec<EntityId> = self.digests.by_endpoint.keys().filter(|e| !seen.contains(**e)).copied().collect();
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
        let difference = self.difference.as_mut().map(|difference| &mut difference.contradiction);
        denial.into_iter().chain(difference).for_each(|contradiction| contradiction.note_question(now));
        self.unanswered = self.unanswered.saturating_add(1);
        if self.unanswered < QUESTIONS_MAX {
            let after = if self.is_contradicted() { CONTRADICTION_INTERVAL } else { QUESTION_AFTER };
            self.next_question = Some(now + after);
        } else {
            // The participant has neither refuted nor confirmed it. The next HEARTBEAT denies again what is false; a
            // difference waits for the next summary, which may be the next periodic announcement.
            self.denial = None;
        }
        true
    }

    /// When to call [`Self::handle_timeout`] next.
    pub(super) const fn poll_timeout(&self) -> Option<Instant> {
        self.next_question
    }
}

#[cfg(test)]
mod tests;
