//! Reassembly of samples from fragments (RTPS 2.5 §8.3.8.3, §8.4.14).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::limits::{
    FRAGMENT_BYTES_MIN, FRAGMENTS_PER_SAMPLE_MAX, NACK_REPEAT_MAX, NACK_REPEAT_MIN, REASSEMBLY_SAMPLES_MAX,
    SMALL_FRAGMENTS_MAX,
};
use crate::payload::{BufferPool, Payload};
use crate::seq::{FragmentNumber, FragmentNumberSet, SET_BITS_MAX, SequenceNumber};
use crate::time::{Instant, Span};
use crate::wire::DataFrag;

use super::reception::SampleMeta;
use super::reordering::{Reach, Tolerance};

/// A partly received sample.
#[derive(Debug)]
struct Partial {
    sequence_number: SequenceNumber,
    sample_size: u32,
    fragment_size: u16,
    count: u32,
    received: u32,
    /// The highest fragment number received. Later fragments may be in transit.
    reached: Reach<u32>,
    /// The longest pause between two increases of `reached`.
    longest_pause: Span,
    /// The number of fragments that HEARTBEAT_FRAGs have announced.
    announced: Reach<u32>,
    /// One bit per fragment, least significant first.
    have: Vec<u64>,
    buffer: Arc<Vec<u8>>,
    /// From the first fragment; other fragments need not contain it.
    meta: Option<SampleMeta>,
    meta_is_first: bool,
}

/// Why a fragment was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    /// The fragment had arrived before.
    Duplicate,
    /// The fragment contradicts earlier ones.
    Inconsistent,
    /// There is no room for another sample, or the sample is larger than allowed.
    NoRoom,
}

/// The limits of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// The largest sample, in bytes.
    pub(super) max_sample_bytes: u32,
    /// Bytes of all samples.
    pub(super) max_bytes: usize,
    /// Whether the oldest sample is evicted to make room for a newer one.
    pub(super) keep_newest: bool,
}

/// A complete sample.
#[derive(Debug)]
pub(super) struct Complete {
    pub(super) meta: SampleMeta,
    pub(super) payload: Payload,
}

/// The samples of one writer under reassembly, in ascending order.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    partials: Vec<Partial>,
    bytes: usize,
    spare_bitmaps: Vec<Vec<u64>>,
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
        let index = match self.partials.binary_search_by_key(&frag.sequence_number, |p| p.sequence_number) {
            // A writer changes the size of fragments when it matches a reader that needs smaller messages: earlier
            // fragments are then useless.
            Ok(index) if self.partials.get(index).is_some_and(|p| p.is_cut_differently(frag)) => {
                self.abandon(index, pool);
                self.start(index, now, frag, room, pool)?
            }
            Ok(index) => index,
            Err(index) => self.start(index, now, frag, room, pool)?,
        };
        let partial = self.partials.get_mut(index).ok_or(Refused::NoRoom)?;
        partial.add(now, frag, meta, tolerance)?;
        if partial.received < partial.count {
            return Ok(None);
        }
        let partial = self.partials.remove(index);
        self.bytes = self.bytes.saturating_sub(partial.buffer.len());
        self.spare_bitmaps.push(partial.have);
        let payload = Payload::new(partial.buffer, 0..partial.sample_size as usize);
        Ok(payload.zip(partial.meta).map(|(payload, meta)| Complete { meta, payload }))
    }

    /// Whether some, but not all, fragments of this sample have arrived.
    pub(super) fn has(&self, number: SequenceNumber) -> bool {
        self.find(number).is_some()
    }

    /// Records a HEARTBEAT_FRAG: the fragments of this sample up to `last` were sent.
    pub(super) fn announce(
        &mut self,
        number: SequenceNumber,
        last: FragmentNumber,
        now: Instant,
        tolerance: Tolerance,
    ) {
        if let Ok(index) = self.partials.binary_search_by_key(&number, |p| p.sequence_number)
            && let Some(partial) = self.partials.get_mut(index)
        {
            partial.announced.raise(last.0.min(partial.count), now, tolerance);
        }
    }

    /// The newest sample of which a HEARTBEAT_FRAG has announced fragments.
    pub(super) fn newest_announced(&self) -> Option<SequenceNumber> {
        self.partials.iter().rev().find(|p| p.announced.newest() > 0).map(|p| p.sequence_number)
    }

    /// The number of first fragments of this sample that can be requested: announced and no longer in transit.
    /// `is_announced`: a HEARTBEAT has announced the sample.
    pub(super) fn due(&self, number: SequenceNumber, is_announced: bool, now: Instant, tolerance: Tolerance) -> u32 {
        self.find(number).map_or(0, |partial| partial.due(is_announced, now, tolerance))
    }

    /// When, after `now`, further fragments can be requested, of samples that HEARTBEATs have announced up to `last` or
    /// that HEARTBEAT_FRAGs have announced.
    pub(super) fn next_pause(&self, last: SequenceNumber, now: Instant, tolerance: Tolerance) -> Option<Instant> {
        self.partials.iter().filter_map(|p| p.next_due(p.sequence_number <= last, now, tolerance)).min()
    }

    /// The least time since this fragment was overtaken, if it has not arrived.
    pub(super) fn overtaken_since(&self, frag: &DataFrag<'_>, now: Instant) -> Option<Span> {
        let partial = self.find(frag.sequence_number)?;
        let is_missing = !partial.has(frag.starting.0.checked_sub(1)?);
        partial.reached.passed_since(frag.starting.0, now).filter(|_| is_missing)
    }

    /// The missing fragments among the first `due` ones of this sample, in sets of up to 256.
    pub(super) fn missing(&self, number: SequenceNumber, due: u32) -> impl Iterator<Item = FragmentNumberSet> {
        let mut numbers = self.find(number).into_iter().flat_map(move |partial| partial.missing(due)).peekable();
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
        if let Ok(index) = self.partials.binary_search_by_key(&number, |p| p.sequence_number) {
            self.abandon(index, pool);
        }
    }

    /// The oldest sample under reassembly.
    pub(super) fn oldest(&self) -> Option<SequenceNumber> {
        self.partials.first().map(|p| p.sequence_number)
    }

    /// The newest sample under reassembly.
    pub(super) fn newest(&self) -> Option<SequenceNumber> {
        self.partials.last().map(|p| p.sequence_number)
    }

    /// The number of samples under reassembly.
    pub(super) const fn samples(&self) -> usize {
        self.partials.len()
    }

    /// The bytes of their buffers.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn find(&self, number: SequenceNumber) -> Option<&Partial> {
        let index = self.partials.binary_search_by_key(&number, |p| p.sequence_number).ok()?;
        self.partials.get(index)
    }

    fn start(
        &mut self,
        index: usize,
        now: Instant,
        frag: &DataFrag<'_>,
        room: Room,
        pool: &mut BufferPool,
    ) -> Result<usize, Refused> {
        let mut index = index;
        let size = frag.sample_size as usize;
        while self.partials.len() >= REASSEMBLY_SAMPLES_MAX
            || (!self.partials.is_empty() && self.bytes.saturating_add(size) > room.max_bytes)
        {
            // With repair, the oldest sample is needed first, and the newest is the cheapest to request again. Without
            // repair, an old incomplete sample will hardly be completed.
            let victim = if room.keep_newest { 0 } else { self.partials.len() - 1 };
            if index == 0 && room.keep_newest || index == self.partials.len() && !room.keep_newest {
                return Err(Refused::NoRoom);
            }
            self.abandon(victim, pool);
            if victim < index {
                index -= 1;
            }
        }
        let count = fragments_of(frag);
        let mut have = self.spare_bitmaps.pop().unwrap_or_default();
        have.clear();
        have.resize(count.div_ceil(64) as usize, 0);
        let buffer = pool.take(size);
        self.bytes += buffer.len();
        let partial = Partial {
            sequence_number: frag.sequence_number,
            sample_size: frag.sample_size,
            fragment_size: frag.fragment_size,
            count,
            received: 0,
            reached: Reach::new(0, now),
            longest_pause: Span::ZERO,
            announced: Reach::new(0, Instant(0)),
            have,
            buffer,
            meta: None,
            meta_is_first: false,
        };
        self.partials.insert(index, partial);
        Ok(index)
    }

    fn abandon(&mut self, index: usize, pool: &mut BufferPool) {
        if index < self.partials.len() {
            let partial = self.partials.remove(index);
            self.bytes = self.bytes.saturating_sub(partial.buffer.len());
            self.spare_bitmaps.push(partial.have);
            pool.recycle_buffer(partial.buffer);
        }
    }
}

/// Whether the writer cuts a sample into so many and so small pieces that requests for them would cost more than the
/// sample: no implementation does.
pub(super) const fn is_too_small(frag: &DataFrag<'_>) -> bool {
    frag.fragment_size < FRAGMENT_BYTES_MIN && fragments_of(frag) > SMALL_FRAGMENTS_MAX
}

/// How many fragments the sample of this one has.
const fn fragments_of(frag: &DataFrag<'_>) -> u32 {
    let fragment_size = if frag.fragment_size == 0 { 1 } else { frag.fragment_size as u32 };
    frag.sample_size.div_ceil(fragment_size)
}

impl Partial {
    const fn is_cut_differently(&self, frag: &DataFrag<'_>) -> bool {
        self.sample_size == frag.sample_size && self.fragment_size != frag.fragment_size
    }

    fn due(&self, is_announced: bool, now: Instant, tolerance: Tolerance) -> u32 {
        let announced = self.announced.due(now, tolerance);
        match is_announced {
            true if self.paused_at(tolerance) <= now => self.count,
            true => self.reached.due(now, tolerance).max(announced),
            false => announced,
        }
    }

    /// When [`Self::due`] increases by time alone.
    fn next_due(&self, is_announced: bool, now: Instant, tolerance: Tolerance) -> Option<Instant> {
        let train = || {
            let paused_at = Some(self.paused_at(tolerance)).filter(|at| *at > now);
            paused_at.into_iter().chain(self.reached.next_due(now, tolerance)).min()
        };
        let announced = self.announced.next_due(now, tolerance);
        announced.into_iter().chain(is_announced.then(train).flatten()).min()
    }

    /// When the train of fragments counts as over without a further one: after twice its longest pause.
    fn paused_at(&self, tolerance: Tolerance) -> Instant {
        let patience = self.longest_pause.times(2).clamp(NACK_REPEAT_MIN, NACK_REPEAT_MAX);
        self.reached.grew_at() + patience.max(tolerance.span())
    }

    fn add(
        &mut self,
        now: Instant,
        frag: &DataFrag<'_>,
        meta: SampleMeta,
        tolerance: Tolerance,
    ) -> Result<(), Refused> {
        if frag.sample_size != self.sample_size || frag.fragment_size != self.fragment_size {
            return Err(Refused::Inconsistent);
        }
        let first = frag.starting.0.checked_sub(1).ok_or(Refused::Inconsistent)?;
        let count = u32::from(frag.count);
        if first.checked_add(count).is_none_or(|end| end > self.count) {
            return Err(Refused::Inconsistent);
        }
        let start = first as usize * usize::from(self.fragment_size);
        let end = (start + count as usize * usize::from(self.fragment_size)).min(self.sample_size as usize);
        let bytes = frag.payload.get(..end.saturating_sub(start)).ok_or(Refused::Inconsistent)?;
        let mut added = 0;
        for number in first..first + count {
            added += u32::from(self.mark(number));
        }
        if added == 0 {
            return Err(Refused::Duplicate);
        }
        let target = Arc::get_mut(&mut self.buffer).and_then(|b| b.get_mut(start..end)).ok_or(Refused::NoRoom)?;
        target.copy_from_slice(bytes);
        self.received += added;
        let pause = now.since(self.reached.grew_at());
        if self.reached.raise(first + count, now, tolerance) {
            self.longest_pause = self.longest_pause.max(pause);
        }
        let is_first = first == 0;
        if self.meta.is_none() || (is_first && !self.meta_is_first) {
            self.meta = Some(meta);
            self.meta_is_first = is_first;
        }
        Ok(())
    }

    /// Whether the fragment (from 0) has arrived.
    fn has(&self, number: u32) -> bool {
        self.have.get((number / 64) as usize).is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    /// Records the fragment (from 0). Returns whether it is new.
    fn mark(&mut self, number: u32) -> bool {
        let Some(word) = self.have.get_mut((number / 64) as usize) else { return false };
        let bit = 1 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn missing(&self, due: u32) -> impl Iterator<Item = FragmentNumber> {
        let words = self.have.iter().enumerate().filter(|(_, w)| **w != u64::MAX);
        let numbers = words.flat_map(|(i, w)| {
            let base = i as u32 * 64;
            (0..64).filter(move |b| w & (1 << b) == 0).map(move |b| base + b)
        });
        let end = due.min(self.count);
        numbers.take_while(move |n| *n < end).map(|n| FragmentNumber(n + 1))
    }
}
