//! The channel of one writer to one reader process: who may do what with an entry and with the slot it names.
//!
//! Two pages, each written by one side and mapped read-only by the other. The writer's *ring* holds entries of one cache
//! line, the number of the entry as the first word: the reader waits for it where it will find the rest. The reader's
//! *hold page* says how far it has come (`tail`) and which entries it holds: a cell for each, with the number of the entry
//! plus one, or zero.
//!
//! - The reader marks a cell before it moves `tail`, so that a writer that sees the entry passed also sees it held. The
//!   slot of an entry may be used again when it was passed and no cell has its number: then nobody looks at it.
//! - What the reader is done with at once it need not mark: until `tail` has moved the entry is not passed.
//! - A writer that may evict raises `floor` above an entry and looks at the cells; the reader marks a cell and looks at
//!   `floor`. Between the two steps both have a sequentially consistent fence, so at least one of them sees the other.
//!   The reader then lets go and goes on at `floor`, or the writer takes the entry for held until the cell is cleared.
//! - A dead reader holds nothing: the writer drops the channel. A dead writer takes nothing away: its memory stays as
//!   long as somebody has mapped it.
//!
//! Numbers count from zero and do not wrap: at 10^8 entries a second they last 5,800 years.

use super::corrupt::Corrupt;
use super::layout::{ENTRY_WORDS, GROWTHS_MAX, Layout};
use super::page::{OwnedPage, PeerPage};
use super::sync::{AtomicU64, Ordering, fence};
use std::collections::VecDeque;

/// What a writer does when a reader does not keep up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// It waits: what was published is delivered.
    Block,
    /// It withdraws the oldest entry that the reader has not taken.
    Evict,
}

/// What travels with a sample besides its bytes, of no meaning here. It has room for what RTPS needs: a sequence number,
/// a source timestamp, a key hash (two words), and the status info with the length of an inline QoS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metadata(pub [u64; 5]);

/// Where a sample is, and what goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// The segment, as the writer numbers them.
    pub segment: u32,
    /// Where in the segment it begins, in units of [`SLOT_ALIGN`].
    pub offset: u32,
    /// How long it is, in bytes.
    pub len: u64,
    /// What the writer's side attached.
    pub metadata: Metadata,
}

/// Every sample begins at a multiple of this many bytes: a cache line.
pub const SLOT_ALIGN: usize = 64;

impl Descriptor {
    /// The bytes of its segment it speaks of; `None` unless they all lie within `segment_len`.
    #[must_use]
    pub fn range(&self, segment_len: usize) -> Option<std::ops::Range<usize>> {
        let start = (self.offset as usize).checked_mul(SLOT_ALIGN)?;
        let end = start.checked_add(usize::try_from(self.len).ok()?)?;
        (end <= segment_len).then_some(start..end)
    }

    fn words(&self) -> [u64; ENTRY_WORDS - 1] {
        let [a, b, c, d, e] = self.metadata.0;
        [u64::from(self.segment) | u64::from(self.offset) << 32, self.len, a, b, c, d, e]
    }

    fn from_words([place, len, a, b, c, d, e]: [u64; ENTRY_WORDS - 1]) -> Self {
        let metadata = Metadata([a, b, c, d, e]);
        Self { segment: place as u32, offset: (place >> 32) as u32, len, metadata }
    }
}

/// The sizes both sides have agreed upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Entries of the ring, a power of two.
    pub(super) entries: u32,
    /// How many samples the reader can hold.
    pub(super) holds: u32,
    pub(super) overflow: Overflow,
}

const RING_FLOOR: usize = 0;
const RING_MESSAGES: usize = 1;
const RING_ROOM_AT: usize = 2;
const RING_ROOM_REQUESTS: usize = 3;
/// What the writer has written to show that both see the same memory.
pub(super) const RING_PROBE: usize = 4;
const RING_ACK_AT: usize = 5;
const RING_ACK_REQUESTS: usize = 6;
/// The [`Layout`] of the entries.
const RING_LAYOUT: usize = 7;

const HOLD_TAIL: usize = 0;
const HOLD_LIMIT: usize = 1;
/// What the reader has written to show that both see the same memory.
pub(super) const HOLD_PROBE: usize = 2;
/// What the reader lets the writer know, of no meaning here.
const HOLD_ACK: usize = 3;
/// The first cells share the line of `tail`: who reads one wants the others.
const HOLD_CELLS: usize = 4;

/// How many cells have memory from the beginning: those of the first page.
const FIRST_CELLS: u32 = 508;

/// How often in a row a reader lets itself be outrun before it says that there is nothing: what is not bounded here, a
/// hostile writer could go on with for ever.
const MAX_SKIPS: usize = 64;

/// `room_at` and `ack_at` of a writer that does not wait.
const AWAKE: u64 = u64::MAX;

impl Shape {
    /// The most entries and cells of a channel that either side accepts: one MiB of entries.
    pub(super) const MAX: u32 = 1 << 14;

    /// # Errors
    /// Sizes that are no sizes, or past [`Self::MAX`].
    pub(super) fn check(self) -> Result<Self, Corrupt> {
        if !self.entries.is_power_of_two() || self.entries > Self::MAX {
            return Err(Corrupt("the ring has a size that is not allowed"));
        }
        if self.holds == 0 || self.holds > Self::MAX {
            return Err(Corrupt("the hold page has a size that is not allowed"));
        }
        Ok(self)
    }

    pub(super) fn ring_words(self) -> usize {
        Layout::words(self.entries)
    }

    /// The words of the ring that have memory from the beginning.
    pub(super) fn first_ring_words(self) -> usize {
        Layout::words(Layout::first(self.entries).size())
    }

    /// The words of the hold page that have memory from the beginning.
    pub(super) fn first_hold_words(self) -> usize {
        HOLD_CELLS + self.first_cells() as usize
    }

    fn first_cells(self) -> u32 {
        self.holds.min(FIRST_CELLS)
    }

    pub(super) fn hold_words(self) -> usize {
        HOLD_CELLS + self.holds as usize
    }
}

/// What came of an attempt to withdraw the oldest entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Withdrawn {
    /// The reader will not get it.
    Done,
    /// The reader has taken it meanwhile.
    Taken,
    /// There was none.
    Empty,
    /// The reader is taking it right now.
    Busy,
}

/// The writer's half. `T` is how the writer knows the slot of an entry.
#[derive(Debug)]
pub(super) struct Sender<T> {
    ring: OwnedPage,
    holds: PeerPage,
    shape: Shape,
    layout: Layout,
    /// How many cells of the reader's have memory, as far as it was looked at.
    cells_populated: u32,
    /// The number of the next entry.
    head: u64,
    /// As last seen.
    tail: u64,
    /// The places of entries below this may be written again.
    passed: u64,
    /// The slots of the last entries, up to `head`.
    queued: VecDeque<T>,
    /// Entries that were passed, but whose slots were held when last looked at.
    held: Vec<(u64, T)>,
    /// The reader's cells, as just read.
    cells: Vec<u64>,
    messages: u64,
    room_requests: u64,
    /// How far the reader was asked to come before it tells.
    room_at: u64,
    ack_requests: u64,
}

impl<T: Copy> Sender<T> {
    /// # Errors
    /// The reader's page is too small for what was agreed.
    pub(super) fn new(ring: OwnedPage, holds: PeerPage, shape: Shape) -> Result<Self, Corrupt> {
        let shape = shape.check()?;
        if holds.len() < shape.hold_words() {
            return Err(Corrupt("the reader's hold page is too small"));
        }
        ring.store(RING_ROOM_AT, AWAKE, Ordering::Release);
        ring.store(RING_ACK_AT, AWAKE, Ordering::Release);
        let layout = Layout::first(shape.entries);
        ring.store(RING_LAYOUT, layout.to_word(), Ordering::Release);
        let cells_populated = shape.first_cells();
        let (queued, held, cells) = (VecDeque::with_capacity(layout.size() as usize), Vec::new(), Vec::new());
        let (head, tail, passed, room_at) = (0, 0, 0, AWAKE);
        let (messages, room_requests, ack_requests) = (0, 0, 0);
        Ok(Self {
            ring,
            holds,
            shape,
            layout,
            cells_populated,
            head,
            tail,
            passed,
            queued,
            held,
            cells,
            messages,
            room_requests,
            room_at,
            ack_requests,
        })
    }

    pub(super) fn overflow(&self) -> Overflow {
        self.shape.overflow
    }

    /// Whether there is room for one more entry.
    ///
    /// # Errors
    /// The reader's page makes no sense.
    #[inline]
    pub(super) fn has_room(&mut self) -> Result<bool, Corrupt> {
        if self.has_free_entry() {
            return Ok(true);
        }
        self.look()?;
        Ok(self.has_free_entry() || self.grow())
    }

    #[inline]
    fn has_free_entry(&self) -> bool {
        self.head - self.passed < u64::from(self.layout.size())
    }

    /// Doubles the ring, all of whose entries are under way. False if it has its full size, or the system has no memory: then
    /// the next call may succeed.
    #[cold]
    fn grow(&mut self) -> bool {
        if self.layout.size() >= self.shape.entries {
            return false;
        }
        let (grown, moved) = self.layout.grown(self.head);
        let words = Layout::words(self.layout.size())..Layout::words(grown.size());
        if self.ring.populate(words).is_err() {
            return false;
        }
        for number in moved {
            let from = self.ring.block::<ENTRY_WORDS>(self.layout.entry(number));
            let to = self.ring.block::<ENTRY_WORDS>(grown.entry(number));
            for (to, from) in to.iter().zip(from) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.layout = grown;
        self.queued.reserve((grown.size() as usize).saturating_sub(self.queued.len()));
        self.ring.store(RING_LAYOUT, grown.to_word(), Ordering::Release);
        // A reader that sees an entry written from now on sees the layout, with the fence of `Shared::has_layout`.
        fence(Ordering::SeqCst);
        true
    }

    /// Appends an entry, for which [`Self::has_room`] has found room.
    #[inline]
    pub(super) fn send(&mut self, descriptor: &Descriptor, slot: T) {
        debug_assert!(self.has_free_entry());
        let [stamp, words @ ..] = self.ring.block::<ENTRY_WORDS>(self.layout.entry(self.head));
        for (place, word) in words.iter().zip(descriptor.words()) {
            place.store(word, Ordering::Relaxed);
        }
        self.head += 1;
        stamp.store(self.head, Ordering::Release);
        self.queued.push_back(slot);
    }

    /// Gives back the slots that the reader is done with.
    ///
    /// # Errors
    /// The reader's page makes no sense.
    pub(super) fn reclaim(&mut self, mut free: impl FnMut(T)) -> Result<(), Corrupt> {
        self.look()?;
        self.look_at_cells()?;
        let cells = &self.cells;
        self.held.retain(|&(number, slot)| {
            let is_held = cells.binary_search(&(number + 1)).is_ok();
            if !is_held {
                free(slot);
            }
            is_held
        });
        let first = self.head - self.queued.len() as u64;
        let passed = self.passed.saturating_sub(first).min(self.queued.len() as u64) as usize;
        let passed = (first..).zip(self.queued.drain(..passed));
        if self.cells.is_empty() {
            passed.for_each(|(_, slot)| free(slot));
            return Ok(());
        }
        for (number, slot) in passed {
            if self.cells.binary_search(&(number + 1)).is_ok() {
                self.held.push((number, slot));
            } else {
                free(slot);
            }
        }
        Ok(())
    }

    /// Takes the oldest entry away that the reader has not taken, unless it is about to.
    ///
    /// # Errors
    /// The reader's page makes no sense.
    pub(super) fn withdraw_oldest(&mut self) -> Result<Withdrawn, Corrupt> {
        self.look()?;
        let oldest = self.passed;
        if oldest == self.head {
            return Ok(Withdrawn::Empty);
        }
        self.ring.store(RING_FLOOR, oldest + 1, Ordering::Release);
        // With the fence of `Receiver::claim`.
        fence(Ordering::SeqCst);
        self.look()?;
        self.look_at_cells()?;
        if self.passed > oldest {
            return Ok(Withdrawn::Taken);
        }
        if self.cells.binary_search(&(oldest + 1)).is_ok() {
            return Ok(Withdrawn::Busy);
        }
        self.passed = oldest + 1;
        Ok(Withdrawn::Done)
    }

    /// Whether entries are under way or held, as last seen by [`Self::reclaim`].
    pub(super) fn awaits_returns(&self) -> bool {
        !self.queued.is_empty() || !self.held.is_empty()
    }

    /// All slots there are, of a reader that is gone.
    pub(super) fn into_slots(self) -> impl Iterator<Item = T> {
        self.queued.into_iter().chain(self.held.into_iter().map(|(_, slot)| slot))
    }

    /// Tells the reader to look at its link.
    pub(super) fn announce_message(&mut self) {
        self.messages += 1;
        self.ring.store(RING_MESSAGES, self.messages, Ordering::Release);
    }

    /// Asks the reader to tell when it has passed half of the backlog, or to tell whatever it gives back. Once for both, if
    /// it was asked for both since [`Self::cancel_room_notification`]: then for what comes first. To be followed by another look before
    /// waiting.
    pub(super) fn request_room_notification(&mut self, anything: bool) {
        let target = if anything { 0 } else { self.head - u64::from(self.layout.size() / 2).min(self.head) };
        // Who asked before may still wait for less.
        self.room_at = self.room_at.min(target);
        self.room_requests += 1;
        self.ring.store(RING_ROOM_REQUESTS, self.room_requests, Ordering::Release);
        self.ring.store(RING_ROOM_AT, self.room_at, Ordering::Release);
        // With the fence of `Shared::is_room_notification_due`.
        fence(Ordering::SeqCst);
    }

    /// Ends all asking: who still waits asks again.
    pub(super) fn cancel_room_notification(&mut self) {
        self.room_at = AWAKE;
        self.ring.store(RING_ROOM_AT, AWAKE, Ordering::Release);
    }

    /// What the reader has noted last; zero before.
    pub(super) fn ack(&self) -> u64 {
        self.holds.load_acquire(HOLD_ACK)
    }

    /// Asks the reader to tell, once, when it has noted `at` or more. To be followed by another look at the note.
    pub(super) fn request_ack_notification(&mut self, at: u64) {
        self.ack_requests += 1;
        // In this order: who sees that it was asked sees for what.
        self.ring.store(RING_ACK_AT, at, Ordering::Release);
        self.ring.store(RING_ACK_REQUESTS, self.ack_requests, Ordering::Release);
        // With the fence of `Shared::acknowledge`.
        fence(Ordering::SeqCst);
    }

    fn look(&mut self) -> Result<(), Corrupt> {
        let tail = self.holds.load_acquire(HOLD_TAIL);
        if tail < self.tail || tail > self.head {
            return Err(Corrupt("the reader says it has taken what was not there"));
        }
        self.tail = tail;
        self.passed = self.passed.max(tail);
        Ok(())
    }

    /// After [`Self::look`]: cells are marked before `tail` moves.
    fn look_at_cells(&mut self) -> Result<(), Corrupt> {
        let limit = self.holds.load_acquire(HOLD_LIMIT).min(u64::from(self.shape.holds)) as u32;
        if limit > self.cells_populated {
            self.holds
                .populate(cell_word(self.cells_populated)..cell_word(limit))
                .map_err(|_| Corrupt("the reader's hold page has no memory where it holds samples"))?;
            self.cells_populated = limit;
        }
        self.cells.clear();
        let cells = (0..limit as usize).map(|cell| self.holds.load_acquire(HOLD_CELLS + cell));
        self.cells.extend(cells.filter(|&value| value != 0));
        self.cells.sort_unstable();
        Ok(())
    }
}

/// Where the cell with that number is.
fn cell_word(cell: u32) -> usize {
    HOLD_CELLS + cell as usize
}

/// What of the reader's half its samples need, on whichever thread they are dropped.
#[derive(Debug)]
pub(super) struct Shared {
    ring: PeerPage,
    holds: OwnedPage,
    shape: Shape,
    /// For which asking the writer has been told.
    answered_room_requests: AtomicU64,
    /// The same of notes.
    answered_ack_requests: AtomicU64,
}

impl Shared {
    /// # Errors
    /// The writer's ring is too small for what was agreed.
    pub(super) fn new(ring: PeerPage, holds: OwnedPage, shape: Shape) -> Result<Self, Corrupt> {
        let shape = shape.check()?;
        if ring.len() < shape.ring_words() {
            return Err(Corrupt("the writer's ring is too small"));
        }
        Ok(Self {
            ring,
            holds,
            shape,
            answered_room_requests: AtomicU64::new(0),
            answered_ack_requests: AtomicU64::new(0),
        })
    }

    /// Lets the slot of a held entry go. Whether the writer waits for that is the answer.
    pub(super) fn release(&self, cell: Cell) -> bool {
        self.holds.store(HOLD_CELLS + cell.0 as usize, 0, Ordering::Release);
        self.is_room_notification_due()
    }

    fn is_room_notification_due(&self) -> bool {
        // With the fence of `Sender::request_room_notification`.
        fence(Ordering::SeqCst);
        self.is_waiting_for_room()
    }

    /// Once for each asking.
    fn is_waiting_for_room(&self) -> bool {
        if self.ring.load_acquire(RING_ROOM_AT) > self.holds.load(HOLD_TAIL, Ordering::Relaxed) {
            return false;
        }
        let asked = self.ring.load_relaxed(RING_ROOM_REQUESTS);
        self.answered_room_requests.swap(asked, Ordering::Relaxed) != asked
    }

    /// Lets the writer know a number. Whether it waits for that is the answer.
    pub(super) fn acknowledge(&self, value: u64) -> bool {
        self.holds.store(HOLD_ACK, value, Ordering::Release);
        // With the fence of `Sender::request_ack_notification`.
        fence(Ordering::SeqCst);
        self.is_waiting_for_ack(value)
    }

    /// After entries were [passed](Receiver::pass), any number of them: lets the writer know a number as well, if there is one.
    /// Whether it waits for either is the answer.
    pub(super) fn finish_batch(&self, ack: Option<u64>) -> bool {
        if let Some(value) = ack {
            self.holds.store(HOLD_ACK, value, Ordering::Release);
        }
        // With the fences of `Sender::request_room_notification` and `Sender::request_ack_notification`: one will do for both.
        fence(Ordering::SeqCst);
        let waits_for_room = self.is_waiting_for_room();
        ack.is_some_and(|value| self.is_waiting_for_ack(value)) || waits_for_room
    }

    /// Once for each asking.
    fn is_waiting_for_ack(&self, value: u64) -> bool {
        let asked = self.ring.load_acquire(RING_ACK_REQUESTS);
        if self.ring.load_acquire(RING_ACK_AT) > value {
            return false;
        }
        self.answered_ack_requests.swap(asked, Ordering::Relaxed) != asked
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    #[inline]
    fn layout(&self) -> Result<Layout, Corrupt> {
        Layout::from_word(self.ring.load_acquire(RING_LAYOUT), self.shape.entries)
    }

    /// Whether the ring still has this layout, behind what was loaded before.
    #[inline]
    fn has_layout(&self, layout: Layout) -> bool {
        // With the fence of `Sender::grow`.
        fence(Ordering::Acquire);
        self.ring.load_relaxed(RING_LAYOUT) == layout.to_word()
    }

    fn floor(&self) -> u64 {
        self.ring.load_acquire(RING_FLOOR)
    }
}

/// Where it is written that an entry is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell(u32);

impl Cell {
    /// So many entries are held with this one at least: it is the lowest that was free.
    #[inline]
    pub(super) const fn number_held(self) -> usize {
        self.0 as usize + 1
    }
}

/// An entry taken from the ring. Its slot is held until [`Shared::release`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Taken {
    pub(super) descriptor: Descriptor,
    pub(super) cell: Cell,
    /// The writer waits for room.
    pub(super) notify: bool,
}

/// Why there is no entry although there may be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TakeError {
    /// As many samples are held as were agreed.
    TooManyHeld,
    Corrupt(Corrupt),
}

/// The reader's half.
#[derive(Debug)]
pub(super) struct Receiver {
    /// The number of the next entry.
    next: u64,
    /// As announced to the writer.
    limit: u32,
    /// How many entries of the ring have memory, as far as this side has looked. Of this side alone, and changed by looks that
    /// change nothing else.
    populated: std::sync::atomic::AtomicU32,
    /// How many cells have memory.
    cells_populated: u32,
    /// Entries that were withdrawn before they were taken.
    lost: u64,
    messages: u64,
}

impl Receiver {
    pub(super) fn new(shape: Shape) -> Self {
        let populated = Layout::first(shape.entries).size().into();
        Self { next: 0, limit: 0, populated, cells_populated: shape.first_cells(), lost: 0, messages: 0 }
    }

    /// How many entries were withdrawn before they were taken.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether the writer has told something over the link since the last time.
    pub(super) fn has_messages(&mut self, shared: &Shared) -> bool {
        let messages = shared.ring.load_acquire(RING_MESSAGES);
        std::mem::replace(&mut self.messages, messages) != messages
    }

    /// Whether it is worth while to call [`Self::take`].
    pub(super) fn is_ready(&self, shared: &Shared) -> bool {
        self.has_entries(shared) || shared.ring.load_relaxed(RING_MESSAGES) != self.messages
    }

    /// Whether there are entries to take, or some were withdrawn.
    pub(super) fn has_entries(&self, shared: &Shared) -> bool {
        // Another lap than expected: entries were withdrawn. Of a layout that makes no sense, `take` says so.
        self.populated_layout(shared)
            .map_or(true, |layout| shared.ring.load_acquire(layout.entry(self.next)) > self.next)
    }

    /// Whether [`Self::peek`] may have something to show.
    #[inline]
    pub(super) fn has_entries_in_place(&self, shared: &Shared) -> bool {
        shared.shape.overflow == Overflow::Block && self.has_entries(shared)
    }

    /// The next entry of a writer that waits, where it is; `None` if there is none, or the ring is just growing. Its slot
    /// is left alone until the entry is [passed](Self::pass) or taken, for it counts as not taken till then.
    #[inline]
    pub(super) fn peek(&self, shared: &Shared) -> Option<Descriptor> {
        let layout = self.populated_layout(shared).ok()?;
        let [stamp, words @ ..]: [u64; ENTRY_WORDS] = shared.ring.load_line(layout.entry(self.next));
        let is_next = stamp == self.next + 1 && shared.shape.overflow == Overflow::Block && shared.has_layout(layout);
        is_next.then(|| Descriptor::from_words(words))
    }

    /// Is done with the entry that [`Self::peek`] has just shown, without having held it. To be followed by [`Shared::finish_batch`] before
    /// this side turns to something else.
    #[inline]
    pub(super) fn pass(&mut self, shared: &Shared) {
        self.next += 1;
        // What was read of the slot was read before.
        shared.holds.store(HOLD_TAIL, self.next, Ordering::Release);
    }

    /// Takes the next entry and holds its slot; `None` if there is none.
    pub(super) fn take(&mut self, shared: &Shared) -> Result<Option<Taken>, TakeError> {
        let Some(Taken { descriptor, cell, .. }) = self.take_in_batch(shared)? else { return Ok(None) };
        // A writer that evicts waits for slots only, which are let go by `release`.
        let notify = shared.shape.overflow == Overflow::Block && shared.is_room_notification_due();
        Ok(Some(Taken { descriptor, cell, notify }))
    }

    /// The same, to be followed by [`Shared::finish_batch`] before this side turns to something else.
    pub(super) fn take_in_batch(&mut self, shared: &Shared) -> Result<Option<Taken>, TakeError> {
        for _ in 0..MAX_SKIPS {
            let layout = self.populated_layout(shared).map_err(TakeError::Corrupt)?;
            if shared.ring.load_acquire(layout.entry(self.next)) <= self.next {
                return Ok(None);
            }
            let cell = self.free_cell(shared)?;
            if !self.claim(shared, cell)? {
                continue;
            }
            let descriptor = self.claimed_entry(shared).map_err(|corrupt| {
                shared.holds.store(cell_word(cell.0), 0, Ordering::Release);
                TakeError::Corrupt(corrupt)
            })?;
            self.next += 1;
            shared.holds.store(HOLD_TAIL, self.next, Ordering::Release);
            return Ok(Some(Taken { descriptor, cell, notify: false }));
        }
        Ok(None)
    }

    /// The layout of the ring, all of whose memory is there.
    #[inline]
    fn populated_layout(&self, shared: &Shared) -> Result<Layout, Corrupt> {
        let layout = shared.layout()?;
        if layout.size() > self.populated.load(Ordering::Relaxed) {
            self.populate(shared, layout)?;
        }
        Ok(layout)
    }

    #[cold]
    fn populate(&self, shared: &Shared, layout: Layout) -> Result<(), Corrupt> {
        let words = Layout::words(self.populated.load(Ordering::Relaxed))..Layout::words(layout.size());
        shared.ring.populate(words).map_err(|_| Corrupt("the ring has grown, and has no memory"))?;
        self.populated.store(layout.size(), Ordering::Relaxed);
        Ok(())
    }

    /// The next entry, which the writer does not withdraw any more, although the ring may grow.
    fn claimed_entry(&mut self, shared: &Shared) -> Result<Descriptor, Corrupt> {
        for _ in 0..=GROWTHS_MAX {
            let layout = self.populated_layout(shared)?;
            let [stamp, words @ ..]: [u64; ENTRY_WORDS] = shared.ring.load_line(layout.entry(self.next));
            if !shared.has_layout(layout) {
                continue;
            }
            if stamp == self.next + 1 {
                return Ok(Descriptor::from_words(words));
            }
            break;
        }
        Err(Corrupt("the writer has written over an entry"))
    }

    /// Marks the cell. False when the entry turns out to be withdrawn; then the next one is another.
    fn claim(&mut self, shared: &Shared, cell: Cell) -> Result<bool, TakeError> {
        let mark = HOLD_CELLS + cell.0 as usize;
        shared.holds.store(mark, self.next + 1, Ordering::Release);
        if shared.shape.overflow == Overflow::Block {
            return Ok(true);
        }
        // With the fence of `Sender::withdraw_oldest`.
        fence(Ordering::SeqCst);
        let floor = shared.floor();
        if floor <= self.next {
            return Ok(true);
        }
        shared.holds.store(mark, 0, Ordering::Release);
        // A writer does not withdraw what it has not sent; that far above it would come to the end of the numbers.
        if floor > u64::MAX / 2 {
            return Err(TakeError::Corrupt(Corrupt("the writer has withdrawn what was not there")));
        }
        self.lost = self.lost.saturating_add(floor - self.next);
        self.next = floor;
        shared.holds.store(HOLD_TAIL, floor, Ordering::Release);
        Ok(false)
    }

    /// The lowest free cell, so that the writer need not look at many.
    fn free_cell(&mut self, shared: &Shared) -> Result<Cell, TakeError> {
        let is_free = |cell: u32| shared.holds.load(cell_word(cell), Ordering::Acquire) == 0;
        let cell = match (0..self.cells_populated).find(|&cell| is_free(cell)) {
            Some(cell) => cell,
            None => self.add_cells(shared)?,
        };
        let mut limit = self.limit.max(cell + 1);
        while limit > cell + 1 && is_free(limit - 1) {
            limit -= 1;
        }
        if limit != self.limit {
            self.limit = limit;
            shared.holds.store(HOLD_LIMIT, u64::from(limit), Ordering::Release);
        }
        Ok(Cell(cell))
    }
}

impl Receiver {
    /// Doubles the cells, all of which are used, and says which is the first new one.
    #[cold]
    fn add_cells(&mut self, shared: &Shared) -> Result<u32, TakeError> {
        let first = self.cells_populated;
        let cells = first.saturating_mul(2).min(shared.shape.holds);
        if cells == first || shared.holds.populate(cell_word(first)..cell_word(cells)).is_err() {
            return Err(TakeError::TooManyHeld);
        }
        self.cells_populated = cells;
        Ok(first)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
