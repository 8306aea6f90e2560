//! The changes by the latest discovery samples of a participant, so that a change can be taken back if its writer
//! proves the sample to be forged: a HEARTBEAT whose last number is lower says that the sample was never written.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::discovery::data::{PublicationData, SubscriptionData};
use crate::id::EntityId;
use crate::limits::{
    CONTRADICTION_INTERVAL, DISPUTE_TIME, ENDPOINT_BYTES, JOURNAL_ENTRIES_MAX, JOURNAL_ENTRY_BYTES, JOURNAL_MARKS_MAX,
    JOURNAL_TIME, JOURNAL_TIME_STEP, QUESTION_AFTER, QUESTION_REPEAT_MAX,
};
use crate::seq::{Count, SequenceNumber};
use crate::time::Instant;
use crate::wire::Gap;

/// The former knowledge of an endpoint.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) endpoint: KnownEndpoint,
    /// Bytes of its announcement.
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) enum KnownEndpoint {
    Publication(PublicationData),
    Subscription(SubscriptionData),
}

/// The record of a sample, or of several samples in a row of one endpoint.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: SequenceNumber,
    pub(super) endpoint: EntityId,
    pub(super) change: Change,
    /// Of the sample, to tell it from another one with the same number.
    pub(super) hash: u64,
    /// Bytes of its payload.
    pub(super) length: usize,
}

/// The part of a sample that a message shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trace {
    /// The hash of the sample.
    Whole(u64),
    /// A fragment: only the length of the payload.
    Length(usize),
}

/// The change that a sample made.
#[derive(Debug)]
pub(super) enum Change {
    Nothing,
    /// An endpoint was announced that was unknown or different before.
    Announced(Option<Box<Known>>),
    /// An endpoint was disposed.
    Disposed(Box<Known>),
}

impl Change {
    fn bytes(&self) -> usize {
        let known = match self {
            Self::Nothing | Self::Announced(None) => return 0,
            Self::Announced(Some(known)) | Self::Disposed(known) => known,
        };
        ENDPOINT_BYTES.saturating_add(known.bytes)
    }

    pub(super) const fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The same change, if this was known before.
    fn with_before(&self, before: Option<Box<Known>>) -> Self {
        match (self, before) {
            (Self::Nothing, _) | (Self::Disposed(_), None) => Self::Nothing,
            (Self::Disposed(_), Some(before)) => Self::Disposed(before),
            (Self::Announced(_), before) => Self::Announced(before),
        }
    }

    /// The former knowledge; the change is nothing now.
    fn take_before(&mut self) -> Option<Box<Known>> {
        match core::mem::replace(self, Self::Nothing) {
            Self::Nothing => None,
            Self::Announced(before) => before,
            Self::Disposed(before) => Some(before),
        }
    }
}

impl Entry {
    fn bytes(&self) -> usize {
        JOURNAL_ENTRY_BYTES.saturating_add(self.change.bytes())
    }
}

/// All that was received before `next` becomes final at `until`.
#[derive(Clone, Copy, Debug)]
struct Mark {
    next: SequenceNumber,
    until: Instant,
}

/// A HEARTBEAT has said that the newest samples were never written.
#[derive(Clone, Copy, Debug)]
struct Denial {
    count: Count,
    at: Instant,
}

/// The meaning of a HEARTBEAT for the samples received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Nothing that requires action.
    Nothing,
    /// A second HEARTBEAT has denied all samples after this number: they were forged, or the HEARTBEATs are.
    Denied(SequenceNumber),
}

/// The changes that were taken back.
#[derive(Debug)]
pub(super) struct TakenBack {
    /// Samples are to be received again from this number on.
    pub(super) rereads_from: SequenceNumber,
    /// The former knowledge of each endpoint; the last change comes first.
    pub(super) changes: Vec<(EntityId, Option<Box<Known>>)>,
}

/// The actions that a timer requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Due {
    /// To ask the writer for a HEARTBEAT.
    pub(super) asks: bool,
    /// To receive the samples from this number on again.
    pub(super) rereads_from: Option<SequenceNumber>,
}

/// The journal of one built-in writer.
#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: VecDeque<Entry>,
    /// The greatest number of an entry so far.
    newest: SequenceNumber,
    bytes: usize,
    /// In the order of their times; at most [`JOURNAL_MARKS_MAX`].
    marks: VecDeque<Mark>,
    /// The samples up to this number are final.
    settled: SequenceNumber,
    denial: Option<Denial>,
    /// The greatest last number of a HEARTBEAT since the last dispute.
    announced: SequenceNumber,
    /// Until when nothing becomes final, and the writer is asked again and again.
    disputed_until: Option<Instant>,
    /// From which number on samples are to be received again.
    rereads_from: Option<SequenceNumber>,
    next_question: Option<Instant>,
    /// Questions in a row without a HEARTBEAT.
    unanswered: u32,
    has_news: bool,
    /// Disposals that were taken back. They are carried out after all if the writer passes over their numbers: it has
    /// written these samples and holds them no more.
    taken_back: VecDeque<(SequenceNumber, EntityId)>,
    /// Samples that are being received again. If the writer passes over the number of an announcement, a later sample
    /// has replaced that announcement, or the announcement was forged and is taken back.
    unconfirmed: BTreeSet<SequenceNumber>,
    /// The lowest last number of a HEARTBEAT since the writer has passed over one of them. As soon as the reader has
    /// all samples up to this number, a replacement would have come.
    replaced_until: Option<SequenceNumber>,
}

impl Journal {
    /// The bytes that the journal counts for.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// A sample has been taken; the next one is `next`. With `asks`, the writer is asked soon whether it exists.
    pub(super) fn note(&mut self, now: Instant, number: SequenceNumber, next: SequenceNumber, asks: bool) {
        self.taken_back.retain(|(taken_back, _)| *taken_back != number);
        self.unconfirmed.remove(&number);
        let until = now + JOURNAL_TIME;
        let is_full = self.marks.len() >= JOURNAL_MARKS_MAX;
        match self.marks.back_mut() {
            Some(mark) if until.since(mark.until) < JOURNAL_TIME_STEP => mark.next = mark.next.max(next),
            Some(mark) if is_full => *mark = Mark { next: mark.next.max(next), until },
            _ => self.marks.push_back(Mark { next, until }),
        }
        if asks {
            self.has_news = true;
            self.ask_at(now + QUESTION_AFTER);
        }
    }

    /// Records what a sample changed. Returns how many entries became final because there was no room.
    pub(super) fn record(&mut self, entry: Entry) -> usize {
        let (number, endpoint) = (entry.number, entry.endpoint);
        self.bytes = self.bytes.saturating_add(entry.bytes());
        self.newest = self.newest.max(number);
        if !self.unconfirmed.is_empty() {
            // The endpoint is as this sample says, whatever earlier ones said.
            let earlier = self.entries.iter().filter(|e| e.endpoint == endpoint && e.number < number);
            earlier.for_each(|e| _ = self.unconfirmed.remove(&e.number));
        }
        self.entries.push_back(entry);
        if self.entries.len() <= JOURNAL_ENTRIES_MAX {
            return 0;
        }
        self.compact();
        let surplus = self.entries.len().saturating_sub(JOURNAL_ENTRIES_MAX / 4 * 3);
        (0..surplus).filter(|_| self.finalize_oldest()).count()
    }

    /// Makes the oldest entry final. Returns whether there was one.
    pub(super) fn finalize_oldest(&mut self) -> bool {
        let Some(entry) = self.entries.pop_front() else { return false };
        self.bytes = self.bytes.saturating_sub(entry.bytes());
        self.settled = self.settled.max(entry.number);
        true
    }

    /// Merges neighbours: samples that changed nothing, and changes of the same endpoint. Thus samples that announce
    /// and dispose endpoints without end do not push out others.
    fn compact(&mut self) {
        let mut kept: VecDeque<Entry> = VecDeque::new();
        for entry in self.entries.drain(..) {
            let is_same = |last: &Entry| last.endpoint == entry.endpoint && !last.change.is_nothing();
            match kept.back_mut() {
                Some(last) if entry.change.is_nothing() && last.change.is_nothing() => *last = entry,
                Some(last) if is_same(last) => {
                    if !entry.change.is_nothing() {
                        let before = last.change.take_before();
                        last.change = entry.change.with_before(before);
                    }
                    (last.number, last.hash, last.length) = (entry.number, entry.hash, entry.length);
                }
                _ => kept.push_back(entry),
            }
        }
        self.bytes = kept.iter().map(Entry::bytes).fold(0, usize::saturating_add);
        self.entries = kept;
    }

    /// Whether another sample was received with this number, or may have been.
    pub(super) fn has_other(&self, number: SequenceNumber, trace: Trace) -> bool {
        // The record of a sample may have been merged with a later one.
        let received = self.entries.iter().rev().find(|entry| entry.number == number);
        received.map_or(number > self.settled, |entry| match trace {
            Trace::Whole(hash) => entry.hash != hash,
            Trace::Length(length) => entry.length != length,
        })
    }

    /// The first sample with a change of which the writer says by a GAP that it does not send it. A sample does not
    /// count if a later one of the same endpoint was received, because a writer passes over the number of a sample that
    /// it has replaced; nor if it is being received again, because then the GAP is the answer.
    pub(super) fn first_in(&self, gap: &Gap) -> Option<SequenceNumber> {
        let is_in =
            |number: SequenceNumber| (gap.start <= number && number < gap.list.base()) || gap.list.contains(number);
        let mut replaced = BTreeSet::new();
        let newest_first = self.entries.iter().rev().filter(|entry| replaced.insert(entry.endpoint));
        let changes = newest_first.filter(|entry| !entry.change.is_nothing()).map(|entry| entry.number);
        changes.filter(|number| is_in(*number) && !self.unconfirmed.contains(number)).min()
    }

    /// Removes the change of another sample with this number, which is received again. Returns what was known before,
    /// unless a later change stays.
    pub(super) fn take_other(&mut self, number: SequenceNumber, hash: u64) -> Option<(EntityId, Option<Box<Known>>)> {
        let place = self.entries.iter().rposition(|entry| entry.number == number && entry.hash != hash)?;
        self.take_entry(place)
    }

    /// Removes the change of an announcement that was to be received again, and over which the writer has passed.
    ///
    /// Of a disposal, some writers do not hold the sample. Whether it was true then shows when everything is received
    /// again: if not, the writer still holds the announcement.
    pub(super) fn take_unconfirmed(
        &mut self,
        now: Instant,
        next: SequenceNumber,
    ) -> Option<(EntityId, Option<Box<Known>>)> {
        self.replaced_until.filter(|until| *until < next)?;
        loop {
            let Some(number) = self.unconfirmed.first().copied().filter(|number| *number < next) else {
                self.replaced_until = None;
                return None;
            };
            self.unconfirmed.remove(&number);
            let place = self.entries.iter().rposition(|entry| entry.number == number);
            let entry = place.and_then(|place| self.entries.get(place));
            let is_disposal = entry.is_some_and(|entry| matches!(entry.change, Change::Disposed(_)));
            let taken = place.and_then(|place| self.take_entry(place));
            if is_disposal {
                self.doubt(now, SequenceNumber::FIRST);
            } else if taken.is_some() {
                return taken;
            }
        }
    }

    fn take_entry(&mut self, place: usize) -> Option<(EntityId, Option<Box<Known>>)> {
        let mut entry = self.entries.remove(place)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes());
        if entry.change.is_nothing() {
            return None;
        }
        let before = entry.change.take_before();
        let mut later = self.entries.iter_mut().skip(place);
        let Some(later) = later.find(|later| later.endpoint == entry.endpoint && !later.change.is_nothing()) else {
            return Some((entry.endpoint, before));
        };
        self.bytes = self.bytes.saturating_sub(later.bytes());
        later.change = later.change.with_before(before);
        self.bytes = self.bytes.saturating_add(later.bytes());
        None
    }

    /// Two different samples have one number: asks, and receives that sample and later ones again.
    pub(super) fn doubt(&mut self, now: Instant, number: SequenceNumber) {
        self.dispute(now);
        self.rereads_from = Some(self.rereads_from.map_or(number, |from| from.min(number)));
        self.ask_at(now + CONTRADICTION_INTERVAL);
    }

    /// A sample has changed something. During a dispute it is received again, until it changes nothing: it may be
    /// forged and take the place of one that its writer has replaced, which only the answer to a request shows.
    pub(super) fn verify(&mut self, now: Instant, number: SequenceNumber) {
        if self.is_disputed(now) {
            let number = number.max(self.settled.next());
            self.rereads_from = Some(self.rereads_from.map_or(number, |from| from.min(number)));
            self.ask_at(now + CONTRADICTION_INTERVAL);
        }
    }

    /// Receives everything that is not final again: changes of the last seconds may have been missed.
    pub(super) fn doubt_all(&mut self, now: Instant) {
        self.doubt(now, self.settled.next());
    }

    fn dispute(&mut self, now: Instant) {
        self.disputed_until = Some(now + DISPUTE_TIME);
    }

    pub(super) fn is_disputed(&self, now: Instant) -> bool {
        self.disputed_until.is_some_and(|until| now < until)
    }

    fn ask_at(&mut self, at: Instant) {
        self.next_question = Some(self.next_question.map_or(at, |next| next.min(at)));
    }

    /// A HEARTBEAT has come; `received` is the greatest number of a sample received so far, taken or not, and `next`
    /// the number to be delivered next. The count filter of the reader has no say here: a forged count would make it
    /// ignore true HEARTBEATs for a while.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        count: Count,
        last: SequenceNumber,
        (received, next): (SequenceNumber, SequenceNumber),
    ) -> Verdict {
        self.unanswered = 0;
        if self.unconfirmed.first().is_some_and(|number| *number < next) {
            self.replaced_until = Some(self.replaced_until.map_or(last, |until| until.min(last)));
        }
        let denies = last < self.newest.max(received);
        if denies || last < self.announced {
            self.dispute(now);
            self.ask_at(now + CONTRADICTION_INTERVAL);
        }
        self.announced = self.announced.max(last);
        if !denies {
            self.denial = None;
            return Verdict::Nothing;
        }
        match self.denial {
            // One that was overtaken by the samples, or a repetition, proves nothing.
            Some(denial) if denial.count == count || now.since(denial.at) < CONTRADICTION_INTERVAL => Verdict::Nothing,
            Some(_) => {
                self.denial = None;
                Verdict::Denied(last)
            }
            None => {
                self.denial = Some(Denial { count, at: now });
                Verdict::Nothing
            }
        }
    }

    /// Removes the changes of all samples after `last`.
    ///
    /// If final samples are denied too, everything is received again: so the endpoints return that they disposed.
    pub(super) fn take_back(&mut self, now: Instant, last: SequenceNumber) -> TakenBack {
        let is_within = last >= self.settled;
        let from = if is_within { self.settled.next() } else { SequenceNumber::FIRST };
        let mut undone = Vec::new();
        let mut kept: VecDeque<Entry> = VecDeque::new();
        // The place in `kept`, counted from its end, of the next later entry of each endpoint.
        let mut later: BTreeMap<EntityId, usize> = BTreeMap::new();
        while let Some(mut entry) = self.entries.pop_back() {
            let changes = !entry.change.is_nothing();
            if entry.number <= last {
                if changes {
                    later.insert(entry.endpoint, kept.len());
                }
                kept.push_back(entry);
                continue;
            }
            if !changes {
                continue;
            }
            if matches!(entry.change, Change::Disposed(_)) && self.taken_back.len() < JOURNAL_ENTRIES_MAX {
                self.taken_back.push_back((entry.number, entry.endpoint));
            }
            let before = entry.change.take_before();
            match later.get(&entry.endpoint).and_then(|place| kept.get_mut(*place)) {
                // A later change stays.
                Some(kept) => kept.change = kept.change.with_before(before),
                None => undone.push((entry.endpoint, before)),
            }
        }
        kept.make_contiguous().reverse();
        self.bytes = kept.iter().map(Entry::bytes).fold(0, usize::saturating_add);
        self.entries = kept;
        (self.settled, self.newest) = (from.previous(), last);
        self.marks.clear();
        self.marks.push_back(Mark { next: last.next(), until: now + JOURNAL_TIME });
        self.rereads_from = None;
        self.await_from(from);
        TakenBack { rereads_from: from, changes: undone }
    }

    /// The samples from this number on are to be received again: the changes among them are unconfirmed until then.
    fn await_from(&mut self, from: SequenceNumber) {
        let changes = self.entries.iter().filter(|entry| entry.number >= from && !entry.change.is_nothing());
        let room = JOURNAL_ENTRIES_MAX.saturating_sub(self.unconfirmed.len());
        self.unconfirmed.extend(changes.map(|entry| entry.number).take(room));
        self.replaced_until = None;
    }

    /// The disposals to carry out after all, because the reader has passed over their numbers.
    pub(super) fn take_passed_over(&mut self, next: SequenceNumber) -> Vec<(SequenceNumber, EntityId)> {
        let (passed, rest) = self.taken_back.drain(..).partition(|(number, _)| *number < next);
        self.taken_back = rest;
        Vec::from(passed)
    }

    /// Handles timers.
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Due {
        let is_disputed = self.is_disputed(now);
        let mut due = Due::default();
        if self.next_question.is_some_and(|at| at <= now) {
            self.next_question = None;
            due.rereads_from = self.rereads_from.take();
            if let Some(from) = due.rereads_from {
                self.await_from(from);
            }
            if self.has_news || is_disputed || self.unanswered > 0 || !self.unconfirmed.is_empty() {
                due.asks = true;
                self.has_news = false;
                let wait = if is_disputed {
                    CONTRADICTION_INTERVAL
                } else {
                    QUESTION_AFTER.times(1 << self.unanswered.min(8)).min(QUESTION_REPEAT_MAX)
                };
                self.unanswered = self.unanswered.saturating_add(1);
                if !self.marks.is_empty() || is_disputed {
                    self.next_question = Some(now + wait);
                }
            }
        }
        if !is_disputed {
            if self.disputed_until.take().is_some() {
                self.announced = SequenceNumber::ZERO;
            }
            self.settle(now);
        }
        due
    }

    fn settle(&mut self, now: Instant) {
        let before = self.settled;
        while let Some(mark) = self.marks.front().filter(|mark| mark.until <= now) {
            self.settled = self.settled.max(mark.next.previous());
            self.marks.pop_front();
        }
        if self.settled != before {
            let settled = self.settled;
            self.entries.retain(|entry| entry.number > settled);
            self.bytes = self.entries.iter().map(Entry::bytes).fold(0, usize::saturating_add);
        }
        if self.marks.is_empty() {
            // Gives the memory back: there may be thousands of journals.
            (self.entries, self.bytes) = (VecDeque::new(), 0);
            (self.marks, self.taken_back, self.unconfirmed) = (VecDeque::new(), VecDeque::new(), BTreeSet::new());
            (self.denial, self.unanswered, self.replaced_until) = (None, 0, None);
        }
    }

    /// Whether it has anything that is not final.
    pub(super) fn is_in_use(&self) -> bool {
        self.poll_timeout().is_some()
    }

    /// When to call [`Self::handle_timeout`] next.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let settles = self.disputed_until.or_else(|| self.marks.front().map(|mark| mark.until));
        [self.next_question, settles].into_iter().flatten().min()
    }
}

const _: () = assert!(JOURNAL_TIME.0 >= 2 * (QUESTION_AFTER.0 + CONTRADICTION_INTERVAL.0));
const _: () = assert!(JOURNAL_TIME.0 / JOURNAL_TIME_STEP.0 < JOURNAL_MARKS_MAX as u64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Guid;
    use crate::seq::SequenceNumberSet;

    #[test]
    fn groups_of_samples_are_bounded_however_long_a_dispute_lasts() {
        let mut journal = Journal::default();
        let mut now = Instant(1);
        for number in 1..1000 {
            let number = SequenceNumber(number);
            journal.note(now, number, number.next(), true);
            // The writer denies all of them, and an impostor does not.
            journal.hear(now, Count(number.0 as i32), SequenceNumber::ZERO, (number, number.next()));
            journal.hear(now, Count(-1), number, (number, number.next()));
            journal.handle_timeout(now);
            now = now + JOURNAL_TIME_STEP;
        }
        assert_eq!((journal.marks.len(), journal.settled), (JOURNAL_MARKS_MAX, SequenceNumber::ZERO));
        journal.handle_timeout(now + DISPUTE_TIME + JOURNAL_TIME);
        assert_eq!((journal.marks.len(), journal.settled), (0, SequenceNumber(999)));
    }

    #[test]
    fn gap_of_an_announcement_whose_disposal_was_received_contradicts_nothing() {
        let mut journal = Journal::default();
        let endpoint = EntityId::user_writer(1, true);
        let known = || {
            let data = PublicationData::new(Guid::UNKNOWN, "topic".into(), "type".into());
            Box::new(Known { endpoint: KnownEndpoint::Publication(data), bytes: 0 })
        };
        let record = |journal: &mut Journal, number, change| {
            journal.record(Entry { number: SequenceNumber(number), endpoint, change, hash: 0, length: 0 });
        };
        let gap = Gap {
            reader: EntityId::UNKNOWN,
            writer: EntityId::UNKNOWN,
            start: SequenceNumber(5),
            list: SequenceNumberSet::from_ascending(SequenceNumber(6), []),
            group: None,
            filtered_count: None,
        };
        record(&mut journal, 5, Change::Announced(None));
        assert_eq!(journal.first_in(&gap), Some(SequenceNumber(5)));
        record(&mut journal, 6, Change::Disposed(known()));
        assert_eq!(journal.first_in(&gap), None);
    }

    #[test]
    fn questions_end_when_they_stay_unanswered() {
        let mut journal = Journal::default();
        journal.note(Instant(1), SequenceNumber(1), SequenceNumber(2), true);
        let mut asked = 0;
        while let Some(at) = journal.poll_timeout() {
            asked += u32::from(journal.handle_timeout(at).asks);
            assert!(asked <= 10, "the writer is asked without end");
        }
        assert_eq!((asked, journal.settled), (4, SequenceNumber(1)));
    }
}
