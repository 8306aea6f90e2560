//! Reassembly of samples from fragments (RTPS 2.5 §8.3.8.3, §8.4.14).
//!
//! A fragment states the size of its sample and of the pieces, and may be forged. Fragments that contradict each other
//! are collected apart, as rivals, and the first complete one is the sample.

mod partial;

use alloc::vec::Vec;
use core::ops::Range;

use crate::limits::{
    FRAGMENT_BYTES_MIN, FRAGMENTS_PER_SAMPLE_MAX, REASSEMBLY_DENIED_AFTER, REASSEMBLY_RIVAL_IDLE,
    REASSEMBLY_RIVALS_MAX, REASSEMBLY_SAMPLES_MAX, SMALL_FRAGMENTS_MAX, WHOLE_SAMPLE_REQUEST_EVERY,
};
use crate::payload::{BufferPool, Payload};
use crate::rare::Rare;
use crate::seq::{FragmentNumber, FragmentNumberSet, SET_BITS_MAX, SequenceNumber};
use crate::time::{Instant, Span};
use crate::wire::DataFrag;

use super::reception::SampleMeta;
use super::reordering::Tolerance;
pub(super) use partial::Refused;
use partial::{Partial, fragments_of};

/// Bitmaps kept for the next samples.
const SPARE_BITMAPS_MAX: usize = 8;
/// The length of such a bitmap: 131,072 fragments.
const SPARE_BITMAP_WORDS_MAX: usize = 2048;

/// The limits of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The largest sample, in bytes.
    pub(super) max_sample_bytes: u32,
    /// Bytes of all samples.
    pub(super) max_bytes: usize,
    /// Whether the sample that has not grown for longest is evicted to make room, instead of the newest one.
    pub(super) keep_newest: bool,
}

/// A complete sample.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) meta: SampleMeta,
    pub(super) payload: Payload,
}

/// The part of a partly received sample to request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// All of it: the writer has left many requests for fragments unanswered, so that it has perhaps no such fragments.
    Whole,
    /// The missing fragments.
    Fragments(Due),
}

/// Fragments that can be requested. Valid until the next fragment is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Due {
    index: usize,
    /// The number of first fragments.
    pub(super) fragments: u32,
}

/// The samples of one writer under reassembly, in ascending order; rivals in the order of their first fragments.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    partials: Vec<Partial>,
    bytes: usize,
    spare_bitmaps: Rare<Vec<Vec<u64>>>,
}

impl Reassembly {
    /// Adds one DATA_FRAG.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        frag: &DataFrag<'_>,
        meta: SampleMeta,
        room: Room,
        tolerance: Tolerance,
        pool: &mut BufferPool,
    ) -> Result<Option<Complete>, Refused> {
        if frag.sample_size > room.max_sample_bytes || fragments_of(frag) > FRAGMENTS_PER_SAMPLE_MAX {
            return Err(Refused::NoRoom);
        }
        let index = match self.position(frag) {
            Some(index) => index,
            None => self.start(now, frag, room, pool)?,
        };
        let partial = self.partials.get_mut(index).ok_or(Refused::NoRoom)?;
        partial.add(now, frag, meta, tolerance)?;
        if !partial.is_complete() {
            return Ok(None);
        }
        let partial = self.partials.remove(index);
        self.bytes = self.bytes.saturating_sub(partial.buffer.len());
        self.spare(partial.have);
        self.forget(frag.sequence_number, pool);
        let payload = Payload::new(partial.buffer, 0..partial.sample_size as usize);
        Ok(payload.zip(partial.meta).map(|(payload, meta)| Complete { meta, payload }))
    }

    /// Whether some, but not all, fragments of this sample have arrived.
    pub(super) fn has(&self, number: SequenceNumber) -> bool {
        !self.rivals(number).is_empty()
    }

    /// The number of fragments of this sample that have arrived; of rivals, of the one with most.
    pub(super) fn fragments_of(&self, number: SequenceNumber) -> u32 {
        let rivals = self.partials.get(self.rivals(number)).unwrap_or_default();
        rivals.iter().map(|rival| rival.received).max().unwrap_or(0)
    }

    /// Whether there is a buffer for this fragment.
    pub(super) fn has_begun(&self, frag: &DataFrag<'_>) -> bool {
        self.position(frag).is_some()
    }

    /// Whether fragments that state another size of the sample or of its pieces have arrived.
    pub(super) fn is_disputed(&self, frag: &DataFrag<'_>) -> bool {
        let rivals = self.partials.get(self.rivals(frag.sequence_number)).unwrap_or_default();
        rivals.iter().any(|rival| !rival.is_cut_like(frag))
    }

    /// Records a HEARTBEAT_FRAG: the fragments of this sample up to `last` were sent.
    pub(super) fn announce(
        &mut self,
        number: SequenceNumber,
        last: FragmentNumber,
        now: Instant,
        tolerance: Tolerance,
    ) {
        let rivals = self.rivals(number);
        let rivals = self.partials.get_mut(rivals).unwrap_or_default();
        rivals.iter_mut().for_each(|rival| rival.announce(last, now, tolerance));
    }

    /// The newest sample of which a HEARTBEAT_FRAG has announced fragments.
    pub(super) fn newest_announced(&self) -> Option<SequenceNumber> {
        self.partials.iter().rev().find(|p| p.announced.newest() > 0).map(|p| p.sequence_number)
    }

    /// The part of this sample that can be requested, of the rival that was requested least since it last grew.
    /// `is_announced`: a HEARTBEAT has announced the sample.
    pub(super) fn wanted(
        &self,
        number: SequenceNumber,
        is_announced: bool,
        now: Instant,
        tolerance: Tolerance,
    ) -> Option<Wanted> {
        let rivals = self.rivals(number);
        let mut unanswered = 0_u32;
        let mut least: Option<(&Partial, Due)> = None;
        for index in rivals {
            let rival = self.partials.get(index)?;
            unanswered = unanswered.saturating_add(rival.unanswered);
            let due = Due { index, fragments: rival.due(is_announced, now, tolerance) };
            let is_least =
                least.is_none_or(|(other, _)| (rival.unanswered, other.grew_at) <= (other.unanswered, rival.grew_at));
            if is_least && rival.missing(due.fragments).next().is_some() {
                least = Some((rival, due));
            }
        }
        let (_, due) = least?;
        let is_whole = is_announced && unanswered % WHOLE_SAMPLE_REQUEST_EVERY == WHOLE_SAMPLE_REQUEST_EVERY - 1;
        Some(if is_whole { Wanted::Whole } else { Wanted::Fragments(due) })
    }

    /// Of how many sets of fragments a request may consist: of one if the last request has brought nothing, so that
    /// fragments that perhaps do not exist do not use up the budget.
    pub(super) fn sets_to_request(&self, due: Due) -> usize {
        match self.partials.get(due.index) {
            None => 0,
            Some(partial) if partial.unanswered == 0 => usize::MAX,
            Some(_) => 1,
        }
    }

    /// Records a request for what [`Self::wanted`] names.
    pub(super) fn note_request(&mut self, number: SequenceNumber, wanted: Wanted) {
        let rivals = self.rivals(number);
        let asked = match wanted {
            Wanted::Whole => self.partials.get_mut(rivals).unwrap_or_default().first_mut(),
            Wanted::Fragments(due) => self.partials.get_mut(due.index),
        };
        if let Some(partial) = asked {
            partial.unanswered = partial.unanswered.saturating_add(1);
        }
    }

    /// When, after `now`, further fragments can be requested, of samples that HEARTBEATs have announced up to `last` or
    /// that HEARTBEAT_FRAGs have announced.
    pub(super) fn next_pause(&self, last: SequenceNumber, now: Instant, tolerance: Tolerance) -> Option<Instant> {
        self.partials.iter().filter_map(|p| p.next_due(p.sequence_number <= last, now, tolerance)).min()
    }

    /// The least time since this fragment was overtaken, if it has not arrived.
    pub(super) fn overtaken_since(&self, frag: &DataFrag<'_>, now: Instant) -> Option<Span> {
        self.partials.get(self.position(frag)?)?.overtaken_since(frag, now)
    }

    /// The missing ones of these fragments, in sets of up to 256.
    pub(super) fn missing(&self, due: Due) -> impl Iterator<Item = FragmentNumberSet> {
        let partial = self.partials.get(due.index);
        let mut numbers = partial.into_iter().flat_map(move |partial| partial.missing(due.fragments)).peekable();
        core::iter::from_fn(move || {
            let first = *numbers.peek()?;
            let mut set = FragmentNumberSet::empty(first);
            while let Some(next) = numbers.next_if(|n| n.0.wrapping_sub(first.0) < SET_BITS_MAX) {
                set.insert(next);
            }
            Some(set)
        })
    }

    /// Discards all samples before `number`.
    pub(super) fn forget_below(&mut self, number: SequenceNumber, pool: &mut BufferPool) {
        while self.partials.first().is_some_and(|p| p.sequence_number < number) {
            self.abandon(0, pool);
        }
    }

    /// Discards this sample.
    pub(super) fn forget(&mut self, number: SequenceNumber, pool: &mut BufferPool) {
        let rivals = self.rivals(number);
        rivals.clone().for_each(|_| self.abandon(rivals.start, pool));
    }

    /// Discards the samples that no longer grow, and that their writer, which has announced samples up to `last`, does
    /// not complete. Returns how many.
    pub(super) fn forget_given_up(&mut self, last: SequenceNumber, now: Instant, pool: &mut BufferPool) -> usize {
        self.forget_where(pool, |p| p.given_up_at(p.sequence_number <= last) <= now)
    }

    /// Discards the samples after the last one that a HEARTBEAT announces, unless their fragments are so recent that
    /// they may have overtaken it. Returns how many.
    pub(super) fn forget_denied(&mut self, last: SequenceNumber, now: Instant, pool: &mut BufferPool) -> usize {
        self.forget_where(pool, |p| p.sequence_number > last && p.grew_at + REASSEMBLY_DENIED_AFTER <= now)
    }

    /// When [`Self::forget_given_up`] discards the next sample.
    pub(super) fn next_given_up(&self, last: SequenceNumber) -> Option<Instant> {
        self.partials.iter().map(|p| p.given_up_at(p.sequence_number <= last)).min()
    }

    /// Discards a rival of a sample that has not grown for a while, so that another one can begin. Returns whether
    /// there was one.
    pub(super) fn give_way(&mut self, number: SequenceNumber, now: Instant, pool: &mut BufferPool) -> bool {
        let is_idle = |p: &Partial| p.grew_at + REASSEMBLY_RIVAL_IDLE <= now;
        let idle = self.weakest(number, is_idle);
        idle.into_iter().for_each(|index| self.abandon(index, pool));
        idle.is_some()
    }

    /// The sample that has not grown for longest, other than `number`.
    pub(super) fn longest_idle(&self, number: SequenceNumber) -> Option<SequenceNumber> {
        let others = self.partials.iter().filter(|p| p.sequence_number != number);
        others.min_by_key(|p| (p.grew_at, p.sequence_number)).map(|p| p.sequence_number)
    }

    /// The newest sample under reassembly.
    pub(super) fn newest(&self) -> Option<SequenceNumber> {
        self.partials.last().map(|p| p.sequence_number)
    }

    /// The number of samples under reassembly, with their rivals.
    pub(super) const fn samples(&self) -> usize {
        self.partials.len()
    }

    /// The bytes of their buffers.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The indices of the rivals of a sample.
    fn rivals(&self, number: SequenceNumber) -> Range<usize> {
        let first = self.partials.partition_point(|p| p.sequence_number < number);
        let rivals = self.partials.get(first..).unwrap_or_default().iter();
        first..first + rivals.take_while(|p| p.sequence_number == number).count()
    }

    fn position(&self, frag: &DataFrag<'_>) -> Option<usize> {
        let is_cut_like = |index: &usize| self.partials.get(*index).is_some_and(|p| p.is_cut_like(frag));
        self.rivals(frag.sequence_number).find(is_cut_like)
    }

    /// The rival of which least has arrived, among some of them; of equal ones, the one that has not grown for longer.
    fn weakest(&self, number: SequenceNumber, among: impl Fn(&Partial) -> bool) -> Option<usize> {
        let rivals = self.rivals(number).filter_map(|index| Some((index, self.partials.get(index)?)));
        rivals.filter(|(_, p)| among(p)).min_by_key(|(_, p)| (p.received, p.grew_at)).map(|(index, _)| index)
    }

    fn start(
        &mut self,
        now: Instant,
        frag: &DataFrag<'_>,
        room: Room,
        pool: &mut BufferPool,
    ) -> Result<usize, Refused> {
        let number = frag.sequence_number;
        if self.rivals(number).len() >= REASSEMBLY_RIVALS_MAX {
            self.weakest(number, |_| true).into_iter().for_each(|index| self.abandon(index, pool));
        }
        let size = frag.sample_size as usize;
        while self.partials.len() >= REASSEMBLY_SAMPLES_MAX
            || (!self.partials.is_empty() && self.bytes.saturating_add(size) > room.max_bytes)
        {
            // With repair, the oldest sample is needed first, and the newest is the cheapest to request again. Without
            // repair, a sample that no longer grows will hardly be completed.
            let victim = match room.keep_newest {
                true => self.longest_idle(number),
                false => self.newest().filter(|newest| *newest > number),
            };
            match victim {
                Some(victim) => self.forget(victim, pool),
                None if self.give_way(number, now, pool) => {}
                None => return Err(Refused::NoRoom),
            }
        }
        let have = self.spare_bitmaps.as_mut().and_then(Vec::pop).unwrap_or_default();
        let buffer = pool.take(size);
        self.bytes += buffer.len();
        let index = self.rivals(number).end;
        self.partials.insert(index, Partial::new(now, frag, have, buffer));
        Ok(index)
    }

    fn forget_where(&mut self, pool: &mut BufferPool, is_over: impl Fn(&Partial) -> bool) -> usize {
        let before = self.partials.len();
        for index in (0..before).rev() {
            if self.partials.get(index).is_some_and(&is_over) {
                self.abandon(index, pool);
            }
        }
        before - self.partials.len()
    }

    fn abandon(&mut self, index: usize, pool: &mut BufferPool) {
        if index < self.partials.len() {
            let partial = self.partials.remove(index);
            self.bytes = self.bytes.saturating_sub(partial.buffer.len());
            self.spare(partial.have);
            pool.recycle_buffer(partial.buffer);
        }
    }

    /// Keeps a bitmap for the next sample, unless the sample had very many fragments.
    fn spare(&mut self, have: Vec<u64>) {
        let spare_bitmaps = self.spare_bitmaps.get_or_default();
        if spare_bitmaps.len() < SPARE_BITMAPS_MAX && have.capacity() <= SPARE_BITMAP_WORDS_MAX {
            spare_bitmaps.push(have);
        }
    }
}

/// Whether the writer cuts a sample into so many and so small pieces that requests for them would cost more than the
/// sample: no implementation does.
pub(super) const fn is_too_small(frag: &DataFrag<'_>) -> bool {
    frag.fragment_size < FRAGMENT_BYTES_MIN && fragments_of(frag) > SMALL_FRAGMENTS_MAX
}
