//! One partly received sample.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::limits::{NACK_REPEAT_MAX, NACK_REPEAT_MIN, REASSEMBLY_IDLE_MAX, REASSEMBLY_UNANNOUNCED_MAX};
use crate::seq::{FragmentNumber, SequenceNumber};
use crate::time::{Instant, Span};
use crate::wire::DataFrag;

use super::super::reception::SampleMeta;
use super::super::reordering::{Reach, Tolerance};

/// Why a fragment was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::reader) enum Refused {
    /// The fragment had arrived before.
    Duplicate,
    /// The fragment does not fit into its sample.
    Inconsistent,
    /// The fragment had arrived before with another content. It counts as missing now.
    Contradicted,
    /// There is no room for another sample, or the sample is larger than allowed.
    NoRoom,
}

/// A partly received sample, of the size and in the pieces that its first fragment has stated.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) sequence_number: SequenceNumber,
    pub(super) sample_size: u32,
    fragment_size: u16,
    count: u32,
    pub(super) received: u32,
    /// When the last new fragment arrived.
    pub(super) grew_at: Instant,
    /// Requests since then.
    pub(super) unanswered: u32,
    /// The highest fragment number received. Later fragments may be in transit.
    reached: Reach<u32>,
    /// The longest pause between two increases of `reached`.
    longest_pause: Span,
    /// The number of fragments that HEARTBEAT_FRAGs have announced.
    pub(super) announced: Reach<u32>,
    /// One bit per fragment, least significant first.
    pub(super) have: Vec<u64>,
    pub(super) buffer: Arc<Vec<u8>>,
    /// From the first fragment; other fragments need not contain it.
    pub(super) meta: Option<SampleMeta>,
    meta_is_first: bool,
}

impl Partial {
    /// A sample of which nothing has arrived. `have` is an empty vector, for its memory.
    pub(super) fn new(now: Instant, frag: &DataFrag<'_>, mut have: Vec<u64>, buffer: Arc<Vec<u8>>) -> Self {
        let count = fragments_of(frag);
        have.clear();
        have.resize(count.div_ceil(64) as usize, 0);
        Self {
            sequence_number: frag.sequence_number,
            sample_size: frag.sample_size,
            fragment_size: frag.fragment_size,
            count,
            received: 0,
            grew_at: now,
            unanswered: 0,
            reached: Reach::new(0, now),
            longest_pause: Span::ZERO,
            announced: Reach::new(0, Instant(0)),
            have,
            buffer,
            meta: None,
            meta_is_first: false,
        }
    }

    /// Whether the fragment states the same size of the sample and of its pieces.
    pub(super) const fn is_cut_like(&self, frag: &DataFrag<'_>) -> bool {
        self.sample_size == frag.sample_size && self.fragment_size == frag.fragment_size
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.received >= self.count
    }

    /// Records a HEARTBEAT_FRAG: the fragments up to `last` were sent.
    pub(super) fn announce(&mut self, last: FragmentNumber, now: Instant, tolerance: Tolerance) {
        self.announced.raise(last.0.min(self.count), now, tolerance);
    }

    /// The number of first fragments that can be requested: announced and no longer in transit.
    pub(super) fn due(&self, is_announced: bool, now: Instant, tolerance: Tolerance) -> u32 {
        let announced = self.announced.due(now, tolerance);
        match is_announced {
            true if self.paused_at(tolerance) <= now => self.count,
            true => self.reached.due(now, tolerance).max(announced),
            false => announced,
        }
    }

    /// When [`Self::due`] increases by time alone.
    pub(super) fn next_due(&self, is_announced: bool, now: Instant, tolerance: Tolerance) -> Option<Instant> {
        let train = || {
            let paused_at = Some(self.paused_at(tolerance)).filter(|at| *at > now);
            paused_at.into_iter().chain(self.reached.next_due(now, tolerance)).min()
        };
        let announced = self.announced.next_due(now, tolerance);
        announced.into_iter().chain(is_announced.then(train).flatten()).min()
    }

    /// When to give up a sample that HEARTBEATs have announced or not.
    pub(super) fn given_up_at(&self, is_announced: bool) -> Instant {
        self.grew_at + if is_announced { REASSEMBLY_IDLE_MAX } else { REASSEMBLY_UNANNOUNCED_MAX }
    }

    /// When the train of fragments counts as over without a further one: after twice its longest pause.
    fn paused_at(&self, tolerance: Tolerance) -> Instant {
        let patience = self.longest_pause.times(2).clamp(NACK_REPEAT_MIN, NACK_REPEAT_MAX);
        self.reached.grew_at() + patience.max(tolerance.span())
    }

    /// The least time since the fragment was overtaken, if it has not arrived.
    pub(super) fn overtaken_since(&self, frag: &DataFrag<'_>, now: Instant) -> Option<Span> {
        let is_missing = !self.has(frag.starting.0.checked_sub(1)?);
        self.reached.passed_since(frag.starting.0, now).filter(|_| is_missing)
    }

    /// Adds fragments. A fragment that differs from the one with its number is evidence that one of both is forged:
    /// neither is believed, and the fragment counts as missing again.
    pub(super) fn add(
        &mut self,
        now: Instant,
        frag: &DataFrag<'_>,
        meta: SampleMeta,
        tolerance: Tolerance,
    ) -> Result<(), Refused> {
        let first = frag.starting.0.checked_sub(1).ok_or(Refused::Inconsistent)?;
        let end = first.checked_add(u32::from(frag.count)).filter(|end| *end <= self.count);
        let end = end.ok_or(Refused::Inconsistent)?;
        let whole = self.octets(first, end);
        let bytes = frag.payload.get(..whole.len()).ok_or(Refused::Inconsistent)?;
        let (mut added, mut is_contradicted) = (0, false);
        if (first..end).any(|number| self.has(number)) {
            for number in first..end {
                let range = self.octets(number, number + 1);
                let from = range.start.saturating_sub(whole.start);
                let piece = bytes.get(from..from.saturating_add(range.len())).ok_or(Refused::Inconsistent)?;
                if !self.has(number) {
                    self.put(range, piece)?;
                    self.mark(number);
                    added += 1;
                } else if self.buffer.get(range) != Some(piece) {
                    self.clear(number);
                    is_contradicted = true;
                }
            }
        } else {
            self.put(whole, bytes)?;
            (first..end).for_each(|number| self.mark(number));
            added = end - first;
        }
        if added > 0 {
            self.note_growth(now, end, first == 0, meta, tolerance);
        }
        if is_contradicted {
            return Err(Refused::Contradicted);
        }
        if added == 0 { Err(Refused::Duplicate) } else { Ok(()) }
    }

    fn note_growth(&mut self, now: Instant, end: u32, is_first: bool, meta: SampleMeta, tolerance: Tolerance) {
        let pause = now.since(self.reached.grew_at());
        if self.reached.raise(end, now, tolerance) {
            self.longest_pause = self.longest_pause.max(pause);
        }
        (self.grew_at, self.unanswered) = (now, 0);
        if self.meta.is_none() || (is_first && !self.meta_is_first) {
            self.meta = Some(meta);
            self.meta_is_first = is_first;
        }
    }

    /// The place of the fragments from `first` up to, not including, `end` in the sample.
    fn octets(&self, first: u32, end: u32) -> Range<usize> {
        let at = |number: u32| {
            (number as usize).saturating_mul(usize::from(self.fragment_size)).min(self.sample_size as usize)
        };
        at(first)..at(end)
    }

    fn put(&mut self, range: Range<usize>, bytes: &[u8]) -> Result<(), Refused> {
        let target = Arc::get_mut(&mut self.buffer).and_then(|buffer| buffer.get_mut(range)).ok_or(Refused::NoRoom)?;
        if target.len() == bytes.len() {
            target.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Whether the fragment (from 0) has arrived.
    fn has(&self, number: u32) -> bool {
        self.have.get((number / 64) as usize).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Records a fragment (from 0) that has not arrived before.
    fn mark(&mut self, number: u32) {
        if let Some(word) = self.have.get_mut((number / 64) as usize) {
            *word |= 1 << (number % 64);
            self.received += 1;
        }
    }

    /// Counts a fragment (from 0) that has arrived as missing.
    fn clear(&mut self, number: u32) {
        if let Some(word) = self.have.get_mut((number / 64) as usize) {
            *word &= !(1 << (number % 64));
            self.received = self.received.saturating_sub(1);
        }
    }

    /// The missing ones among the first `due` fragments.
    pub(super) fn missing(&self, due: u32) -> impl Iterator<Item = FragmentNumber> {
        let words = self.have.iter().enumerate().filter(|(_, w)| **w != u64::MAX);
        let numbers = words.flat_map(|(i, w)| {
            let base = i as u32 * 64;
            (0..64).filter(move |b| w & (1 << b) == 0).map(move |b| base + b)
        });
        let end = due.min(self.count);
        numbers.take_while(move |n| *n < end).map(|n| FragmentNumber(n + 1))
    }
}

/// How many fragments the sample of this one has.
pub(super) const fn fragments_of(frag: &DataFrag<'_>) -> u32 {
    let fragment_size = if frag.fragment_size == 0 { 1 } else { frag.fragment_size as u32 };
    frag.sample_size.div_ceil(fragment_size)
}
