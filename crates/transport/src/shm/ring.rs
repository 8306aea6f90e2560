//! The channel from one writer to one reader process: which side may change an entry, and when its slot is free again.
//!
//! Two pages, each written by one side and mapped read-only by the other. The writer's *ring* holds entries of one
//! cache line. The first word of an entry is its number plus one; the reader polls this word. The reader's *hold page*
//! states how far the reader has come (`tail`) and which entries it holds: each cell contains the number of a held
//! entry plus one, or zero.
//!
//! - The reader marks a cell before it moves `tail`, so a writer that sees the entry passed also sees it held. The
//!   writer may reuse the slot of an entry that is passed and that no cell names: then the reader does not access it
//!   any more.
//! - The reader need not mark an entry that it finishes before it moves `tail`.
//! - A writer that may evict raises `floor` above an entry and then reads the cells; the reader marks a cell and then
//!   reads `floor`. Both have a sequentially consistent fence between the two steps, so at least one of them sees the
//!   other's change. Either the reader clears the cell and continues at `floor`, or the writer treats the entry as held
//!   until the reader clears the cell.
//! - The writer drops the channel of a dead reader, so a dead reader holds nothing. The memory of a dead writer stays
//!   as long as a process maps it.
//!
//! Numbers count from zero and do not wrap: 10^8 entries per second last 5,800 years.

use super::corrupt::Corrupt;
use super::layout::{ENTRY_WORDS, GROWTHS_MAX, Layout};
use super::page::{OwnedPage, PeerPage};
use super::sync::{AtomicU64, Ordering, fence};
use std::collections::VecDeque;

/// The writer's policy for a reader that does not keep up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// Waits: every published sample is delivered.
    Block,
    /// Withdraws the oldest entry that the reader has not taken.
    Evict,
}

/// Data of a sample besides its bytes; this module does not interpret it. RTPS needs a sequence number, a source
/// timestamp, a key hash (two words), and a word for the status info and the length of the inline QoS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metadata(pub [u64; 5]);

/// Location, length and metadata of a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// Number of the segment, as the writer counts them.
    pub segment: u32,
    /// Start within the segment, in units of [`SLOT_ALIGN`].
    pub offset: u32,
    /// Length, in bytes.
    pub len: u64,
    /// Metadata that the writer's side attached.
    pub metadata: Metadata,
}

/// Alignment of every sample, in bytes: one cache line.
pub const SLOT_ALIGN: usize = 64;

impl Descriptor {
    /// Byte range of the sample in its segment; `None` unless the whole range lies within `segment_len`.
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

/// Sizes that both sides agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Entries of the ring, a power of two.
    pub(super) entries: u32,
    /// Number of samples that the reader can hold.
    pub(super) holds: u32,
    pub(super) overflow: Overflow,
}

const RING_FLOOR: usize = 0;
const RING_MESSAGES: usize = 1;
const RING_ROOM_AT: usize = 2;
const RING_ROOM_REQUESTS: usize = 3;
/// Random value that the writer stores, to prove that both sides map the same memory.
pub(super) const RING_PROBE: usize = 4;
const RING_ACK_AT: usize = 5;
const RING_ACK_REQUESTS: usize = 6;
/// [`Layout`] of the entries.
const RING_LAYOUT: usize = 7;

const HOLD_TAIL: usize = 0;
const HOLD_LIMIT: usize = 1;
/// Random value that the reader stores, to prove that both sides map the same memory.
pub(super) const HOLD_PROBE: usize = 2;
/// Acknowledgement of the reader; this module does not interpret it.
const HOLD_ACK: usize = 3;
/// The first cells share the cache line of `tail`: the writer reads both at once.
const HOLD_CELLS: usize = 4;

/// Cells that have memory from the beginning: as many as fit into the first page.
const FIRST_CELLS: u32 = 508;

/// Number of consecutive withdrawn entries that the reader skips in one call. Without this bound a hostile writer could
/// keep the reader in the loop.
const MAX_SKIPS: usize = 64;

/// `room_at` and `ack_at` of a writer that requests no notification.
const AWAKE: u64 = u64::MAX;

impl Shape {
    /// Most entries and most cells of a channel that either side accepts: 1 MiB of entries.
    pub(super) const MAX: u32 = 1 << 14;

    /// # Errors
    /// A size is zero, no power of two where one is required, or above [`Self::MAX`].
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

    /// Words of the ring that have memory from the beginning.
    pub(super) fn first_ring_words(self) -> usize {
        Layout::words(Layout::first(self.entries).size())
    }

    /// Words of the hold page that have memory from the beginning.
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

/// Result of an attempt to withdraw the oldest entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Withdrawn {
    /// The reader will not receive the entry.
    Done,
    /// The reader has taken the entry meanwhile.
    Taken,
    /// The ring was empty.
    Empty,
    /// The reader is taking the entry right now.
    Busy,
}

/// The writer's half. `T` identifies a slot on the writer's side.
#[derive(Debug)]
pub(super) struct Sender<T> {
    ring: OwnedPage,
    holds: PeerPage,
    shape: Shape,
    layout: Layout,
    /// Cells of the reader that are mapped with memory so far.
    cells_populated: u32,
    /// Number of the next entry.
    head: u64,
    /// Last seen `tail` of the reader.
    tail: u64,
    /// Places of entries below this number may be reused.
    passed: u64,
    /// Slots of the most recent entries, up to `head`.
    queued: VecDeque<T>,
    /// Passed entries whose slots the reader held at the last look.
    held: Vec<(u64, T)>,
    /// The reader's non-zero cells, as last read, sorted.
    cells: Vec<u64>,
    messages: u64,
    room_requests: u64,
    /// `tail` at which the reader is to notify the writer.
    room_at: u64,
    ack_requests: u64,
}

impl<T: Copy> Sender<T> {
    /// # Errors
    /// The reader's page is smaller than agreed.
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

    /// Whether one more entry fits.
    ///
    /// # Errors
    /// The reader's page holds an impossible value.
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

    /// Doubles a full ring. Returns false if the ring has its full size, or if the system has no memory; in the latter
    /// case a later call may succeed.
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
        // Pairs with the fence of `Shared::has_layout`: a reader that sees an entry written from now on sees this
        // layout.
        fence(Ordering::SeqCst);
        true
    }

    /// Appends an entry. [`Self::has_room`] has returned true before.
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

    /// Passes to `free` the slots that the reader has finished with.
    ///
    /// # Errors
    /// The reader's page holds an impossible value.
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

    /// Withdraws the oldest entry that the reader has not taken, unless the reader is taking it.
    ///
    /// # Errors
    /// The reader's page holds an impossible value.
    pub(super) fn withdraw_oldest(&mut self) -> Result<Withdrawn, Corrupt> {
        self.look()?;
        let oldest = self.passed;
        if oldest == self.head {
            return Ok(Withdrawn::Empty);
        }
        self.ring.store(RING_FLOOR, oldest + 1, Ordering::Release);
        // Pairs with the fence of `Receiver::claim`.
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

    /// Whether entries were waiting or held at the last [`Self::reclaim`].
    pub(super) fn awaits_returns(&self) -> bool {
        !self.queued.is_empty() || !self.held.is_empty()
    }

    /// All slots in use, after the reader has ended.
    pub(super) fn into_slots(self) -> impl Iterator<Item = T> {
        self.queued.into_iter().chain(self.held.into_iter().map(|(_, slot)| slot))
    }

    /// Announces a message on the link.
    pub(super) fn announce_message(&mut self) {
        self.messages += 1;
        self.ring.store(RING_MESSAGES, self.messages, Ordering::Release);
    }

    /// Requests a notification when the reader has passed half of the waiting entries, or, with `anything`, when it
    /// returns any slot. Requests since [`Self::cancel_room_notification`] are merged: the reader notifies once, at the
    /// earlier condition. The caller checks for room again before it waits.
    pub(super) fn request_room_notification(&mut self, anything: bool) {
        let target = if anything { 0 } else { self.head - u64::from(self.layout.size() / 2).min(self.head) };
        // An earlier request for less room stays in force.
        self.room_at = self.room_at.min(target);
        self.room_requests += 1;
        self.ring.store(RING_ROOM_REQUESTS, self.room_requests, Ordering::Release);
        self.ring.store(RING_ROOM_AT, self.room_at, Ordering::Release);
        // Pairs with the fence of `Shared::is_room_notification_due`.
        fence(Ordering::SeqCst);
    }

    /// Cancels all requests. A thread that still waits requests again.
    pub(super) fn cancel_room_notification(&mut self) {
        self.room_at = AWAKE;
        self.ring.store(RING_ROOM_AT, AWAKE, Ordering::Release);
    }

    /// Last acknowledgement of the reader; zero before the first.
    pub(super) fn ack(&self) -> u64 {
        self.holds.load_acquire(HOLD_ACK)
    }

    /// Requests one notification when the reader acknowledges `at` or more. The caller reads [`Self::ack`] again before
    /// it waits.
    pub(super) fn request_ack_notification(&mut self, at: u64) {
        self.ack_requests += 1;
        // In this order: a reader that sees the new request also sees its number.
        self.ring.store(RING_ACK_AT, at, Ordering::Release);
        self.ring.store(RING_ACK_REQUESTS, self.ack_requests, Ordering::Release);
        // Pairs with the fence of `Shared::acknowledge`.
        fence(Ordering::SeqCst);
    }

    fn look(&mut self) -> Result<(), Corrupt> {
        let tail = self.holds.load_acquire(HOLD_TAIL);
        if tail < self.tail || tail > self.head {
            return Err(Corrupt("the reader's tail is behind its last value or past the last entry"));
        }
        self.tail = tail;
        self.passed = self.passed.max(tail);
        Ok(())
    }

    /// Called after [`Self::look`], because the reader marks cells before it moves `tail`.
    fn look_at_cells(&mut self) -> Result<(), Corrupt> {
        let limit = self.holds.load_acquire(HOLD_LIMIT).min(u64::from(self.shape.holds)) as u32;
        if limit > self.cells_populated {
            self.holds
                .populate(cell_word(self.cells_populated)..cell_word(limit))
                .map_err(|_| Corrupt("the reader's hold page has no memory for its cells"))?;
            self.cells_populated = limit;
        }
        self.cells.clear();
        let cells = (0..limit as usize).map(|cell| self.holds.load_acquire(HOLD_CELLS + cell));
        self.cells.extend(cells.filter(|&value| value != 0));
        self.cells.sort_unstable();
        Ok(())
    }
}

/// Index of the word of a cell.
fn cell_word(cell: u32) -> usize {
    HOLD_CELLS + cell as usize
}

/// Part of the reader's half that its samples need, on any thread that drops them.
#[derive(Debug)]
pub(super) struct Shared {
    ring: PeerPage,
    holds: OwnedPage,
    shape: Shape,
    /// Request for room that was answered last.
    answered_room_requests: AtomicU64,
    /// Request for an acknowledgement that was answered last.
    answered_ack_requests: AtomicU64,
}

impl Shared {
    /// # Errors
    /// The writer's ring is smaller than agreed.
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

    /// Releases the slot of a held entry. Returns whether to notify the writer.
    pub(super) fn release(&self, cell: Cell) -> bool {
        self.holds.store(HOLD_CELLS + cell.0 as usize, 0, Ordering::Release);
        self.is_room_notification_due()
    }

    fn is_room_notification_due(&self) -> bool {
        // Pairs with the fence of `Sender::request_room_notification`.
        fence(Ordering::SeqCst);
        self.is_waiting_for_room()
    }

    /// Returns true once for each request.
    fn is_waiting_for_room(&self) -> bool {
        if self.ring.load_acquire(RING_ROOM_AT) > self.holds.load(HOLD_TAIL, Ordering::Relaxed) {
            return false;
        }
        let asked = self.ring.load_relaxed(RING_ROOM_REQUESTS);
        self.answered_room_requests.swap(asked, Ordering::Relaxed) != asked
    }

    /// Acknowledges a number. Returns whether to notify the writer.
    pub(super) fn acknowledge(&self, value: u64) -> bool {
        self.holds.store(HOLD_ACK, value, Ordering::Release);
        // Pairs with the fence of `Sender::request_ack_notification`.
        fence(Ordering::SeqCst);
        self.is_waiting_for_ack(value)
    }

    /// Ends a batch of [passed](Receiver::pass) entries and acknowledges a number, if one is given. Returns whether to
    /// notify the writer, of room or of the acknowledgement.
    pub(super) fn finish_batch(&self, ack: Option<u64>) -> bool {
        if let Some(value) = ack {
            self.holds.store(HOLD_ACK, value, Ordering::Release);
        }
        // Pairs with the fences of `Sender::request_room_notification` and `Sender::request_ack_notification`: one
        // fence serves both.
        fence(Ordering::SeqCst);
        let waits_for_room = self.is_waiting_for_room();
        ack.is_some_and(|value| self.is_waiting_for_ack(value)) || waits_for_room
    }

    /// Returns true once for each request.
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

    /// Whether the ring still has this layout, after the caller has loaded an entry.
    #[inline]
    fn has_layout(&self, layout: Layout) -> bool {
        // Pairs with the fence of `Sender::grow`.
        fence(Ordering::Acquire);
        self.ring.load_relaxed(RING_LAYOUT) == layout.to_word()
    }

    fn floor(&self) -> u64 {
        self.ring.load_acquire(RING_FLOOR)
    }
}

/// Number of the cell that marks a held entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cell(u32);

impl Cell {
    /// Number of entries held at least, this one included: the reader uses the lowest free cell.
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
    /// Whether to notify the writer, which waits for room.
    pub(super) notify: bool,
}

/// Why no entry was taken although one may be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TakeError {
    /// As many samples are held as the two sides agreed on.
    TooManyHeld,
    Corrupt(Corrupt),
}

/// The reader's half.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Number of the next entry.
    next: u64,
    /// Number of cells that the writer reads, as announced to it.
    limit: u32,
    /// Entries of the ring that this process has mapped with memory. Atomic because methods with `&self` update this
    /// cache; the other side does not see it.
    populated: std::sync::atomic::AtomicU32,
    /// Cells that have memory.
    cells_populated: u32,
    /// Entries that the writer withdrew before the reader took them.
    lost: u64,
    messages: u64,
}

impl Receiver {
    pub(super) fn new(shape: Shape) -> Self {
        let populated = Layout::first(shape.entries).size().into();
        Self { next: 0, limit: 0, populated, cells_populated: shape.first_cells(), lost: 0, messages: 0 }
    }

    /// Number of entries that the writer withdrew before the reader took them.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether the writer has sent a message over the link since the last call.
    pub(super) fn has_messages(&mut self, shared: &Shared) -> bool {
        let messages = shared.ring.load_acquire(RING_MESSAGES);
        std::mem::replace(&mut self.messages, messages) != messages
    }

    /// Whether the writer has sent messages that [`Self::has_messages`] has not reported.
    #[inline]
    pub(super) fn awaits_messages(&self, shared: &Shared) -> bool {
        shared.ring.load_relaxed(RING_MESSAGES) != self.messages
    }

    /// Whether entries can be taken, or some were withdrawn.
    pub(super) fn has_entries(&self, shared: &Shared) -> bool {
        // A larger stamp than expected means that entries were withdrawn. `take` reports an invalid layout.
        self.populated_layout(shared)
            .map_or(true, |layout| shared.ring.load_acquire(layout.entry(self.next)) > self.next)
    }

    /// Whether [`Self::peek`] may return an entry.
    #[inline]
    pub(super) fn has_entries_in_place(&self, shared: &Shared) -> bool {
        shared.shape.overflow == Overflow::Block && self.has_entries(shared)
    }

    /// The next entry of a blocking writer, in place; `None` if there is none or if the ring grows right now. The
    /// writer does not reuse the slot before the entry is [passed](Self::pass) or taken.
    #[inline]
    pub(super) fn peek(&self, shared: &Shared) -> Option<Descriptor> {
        let layout = self.populated_layout(shared).ok()?;
        let [stamp, words @ ..]: [u64; ENTRY_WORDS] = shared.ring.load_line(layout.entry(self.next));
        let is_next = stamp == self.next + 1 && shared.shape.overflow == Overflow::Block && shared.has_layout(layout);
        is_next.then(|| Descriptor::from_words(words))
    }

    /// Finishes the entry that [`Self::peek`] returned last, without having held it. The caller calls
    /// [`Shared::finish_batch`] before it does other work.
    #[inline]
    pub(super) fn pass(&mut self, shared: &Shared) {
        self.next += 1;
        // Release: the reads of the slot happened before.
        shared.holds.store(HOLD_TAIL, self.next, Ordering::Release);
    }

    /// Takes the next entry and holds its slot; `None` if there is none.
    pub(super) fn take(&mut self, shared: &Shared) -> Result<Option<Taken>, TakeError> {
        let Some(Taken { descriptor, cell, .. }) = self.take_in_batch(shared)? else { return Ok(None) };
        // A writer that evicts waits only for slots, which `release` returns.
        let notify = shared.shape.overflow == Overflow::Block && shared.is_room_notification_due();
        Ok(Some(Taken { descriptor, cell, notify }))
    }

    /// Like [`Self::take`]; the caller calls [`Shared::finish_batch`] before it does other work.
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

    /// Layout of the ring, after its memory was mapped.
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
        shared.ring.populate(words).map_err(|_| Corrupt("the ring has grown without memory"))?;
        self.populated.store(layout.size(), Ordering::Relaxed);
        Ok(())
    }

    /// The claimed entry, which the writer does not withdraw any more. The ring may still grow.
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
        Err(Corrupt("the writer overwrote an entry"))
    }

    /// Marks the cell. Returns false if the entry was withdrawn; then `next` has moved on.
    fn claim(&mut self, shared: &Shared, cell: Cell) -> Result<bool, TakeError> {
        let mark = HOLD_CELLS + cell.0 as usize;
        shared.holds.store(mark, self.next + 1, Ordering::Release);
        if shared.shape.overflow == Overflow::Block {
            return Ok(true);
        }
        // Pairs with the fence of `Sender::withdraw_oldest`.
        fence(Ordering::SeqCst);
        let floor = shared.floor();
        if floor <= self.next {
            return Ok(true);
        }
        shared.holds.store(mark, 0, Ordering::Release);
        // A working writer withdraws only entries that it sent; this floor is out of reach.
        if floor > u64::MAX / 2 {
            return Err(TakeError::Corrupt(Corrupt("the writer withdrew entries that it never sent")));
        }
        self.lost = self.lost.saturating_add(floor - self.next);
        self.next = floor;
        shared.holds.store(HOLD_TAIL, floor, Ordering::Release);
        Ok(false)
    }

    /// The lowest free cell, so that the writer reads few cells.
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
    /// Doubles the number of cells, all of which are in use. Returns the first new cell.
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
