//! The received samples of one publisher: counts, gaps, duplicates and late samples.

/// Distance from the newest sample up to which a late one is recognised.
const WINDOW: u64 = 4096;
const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = (WINDOW / WORD_BITS) as usize;

/// Kind of an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Newer than all samples before.
    New,
    /// Was missing, and arrives after a newer one.
    Reordered,
    /// Has arrived before, or is older than the window and not counted again.
    Duplicate,
}

/// The samples of one publisher and one size.
///
/// A sample counts as lost if it is older than the newest one and has not arrived: a late sample reverts the loss that
/// was counted when its successor overtook it. The 32 bits of the wire are extended, so a run may be longer than 2³²
/// samples.
#[derive(Debug, Clone)]
pub(crate) struct SequenceWindow {
    /// Number of the next sample without loss, which is the number of sent samples as far as known.
    next: u64,
    /// Different samples that arrived.
    received: u64,
    duplicate: u64,
    reordered: u64,
    /// One bit per sample in `next - WINDOW..next`, at its number modulo WINDOW.
    arrived: [u64; WORDS],
}

impl SequenceWindow {
    /// Expects sample 0 first.
    pub(crate) fn new() -> Self {
        Self { next: 0, received: 0, duplicate: 0, reordered: 0, arrived: [0; WORDS] }
    }

    /// Records an arrival.
    #[inline]
    pub(crate) fn on_arrival(&mut self, seq_num: u32) -> Arrival {
        let number = self.extend(seq_num);
        if number == self.next {
            self.next += 1;
            self.received += 1;
            self.set(number);
            return Arrival::New;
        }
        self.on_irregular_arrival(number)
    }

    /// Records the publisher's last sample, so that a loss at the end is counted. `u32::MAX` means that no sample was
    /// sent.
    pub(crate) fn on_end(&mut self, last_seq_num: u32) {
        let sent = self.extend(last_seq_num.wrapping_add(1));
        if sent > self.next {
            self.advance_to(sent);
        }
    }

    /// Different samples that arrived.
    #[inline]
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Samples that did not arrive although a newer one did, or the end was announced.
    pub(crate) fn lost(&self) -> u64 {
        self.next - self.received
    }

    /// Arrivals of samples that had arrived before.
    pub(crate) fn duplicate(&self) -> u64 {
        self.duplicate
    }

    /// Arrivals after a newer sample.
    pub(crate) fn reordered(&self) -> u64 {
        self.reordered
    }

    #[cold]
    fn on_irregular_arrival(&mut self, number: u64) -> Arrival {
        if number > self.next {
            self.advance_to(number + 1);
            self.received += 1;
            self.set(number);
            return Arrival::New;
        }
        let in_window = number + WINDOW >= self.next;
        if !in_window || self.get(number) {
            self.duplicate += 1;
            return Arrival::Duplicate;
        }
        self.set(number);
        self.received += 1;
        self.reordered += 1;
        Arrival::Reordered
    }

    /// The number nearest to `next` with these low 32 bits.
    #[inline]
    fn extend(&self, seq_num: u32) -> u64 {
        let distance = seq_num.wrapping_sub(self.next as u32) as i32;
        self.next.checked_add_signed(distance.into()).unwrap_or(seq_num.into())
    }

    fn advance_to(&mut self, next: u64) {
        if next - self.next >= WINDOW {
            self.arrived = [0; WORDS];
        } else {
            for number in self.next..next {
                let (word, bit) = place(number);
                self.arrived[word] &= !bit;
            }
        }
        self.next = next;
    }

    #[inline]
    fn set(&mut self, number: u64) {
        let (word, bit) = place(number);
        self.arrived[word] |= bit;
    }

    fn get(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.arrived[word] & bit != 0
    }
}

impl Default for SequenceWindow {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
fn place(number: u64) -> (usize, u64) {
    let position = number % WINDOW;
    ((position / WORD_BITS) as usize, 1 << (position % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(arrivals: impl IntoIterator<Item = u32>) -> SequenceWindow {
        let mut window = SequenceWindow::new();
        for seq_num in arrivals {
            window.on_arrival(seq_num);
        }
        window
    }

    fn counts(window: &SequenceWindow) -> (u64, u64, u64, u64) {
        (window.received(), window.lost(), window.duplicate(), window.reordered())
    }

    #[test]
    fn samples_in_order_have_no_loss() {
        assert_eq!(counts(&after(0..100_000)), (100_000, 0, 0, 0));
    }

    #[test]
    fn late_sample_reverts_its_loss() {
        assert_eq!(counts(&after([0, 2])), (2, 1, 0, 0));
        assert_eq!(counts(&after([0, 2, 1, 3])), (4, 0, 0, 1));
        // RTI Perftest counts two lost samples here.
        assert_eq!(counts(&after([1, 3, 2, 4, 0])), (5, 0, 0, 2));
    }

    #[test]
    fn losses_at_head_and_tail_are_counted() {
        let mut window = after([3, 4]);
        assert_eq!(window.lost(), 3);
        window.on_end(6);
        assert_eq!(counts(&window), (2, 5, 0, 0));
        window.on_end(6);
        assert_eq!(window.lost(), 5);
    }

    #[test]
    fn duplicates_are_not_samples() {
        assert_eq!(counts(&after([0, 0, 1, 1, 0])), (2, 0, 3, 0));
    }

    #[test]
    fn arrival_beyond_the_window_is_not_counted_as_received() {
        let mut window = after([0, 10_000]);
        assert_eq!(window.lost(), 9_999);
        assert_eq!(window.on_arrival(5), Arrival::Duplicate);
        assert_eq!(window.on_arrival(9_999), Arrival::Reordered);
        assert_eq!(window.on_arrival((10_001 - WINDOW) as u32), Arrival::Reordered);
        assert_eq!(window.on_arrival((10_000 - WINDOW) as u32), Arrival::Duplicate);
        assert_eq!(window.lost(), 9_997);
    }

    #[test]
    fn gap_clears_the_reused_places() {
        let mut window = after(0..10);
        let jump = WINDOW as u32 + 5;
        assert_eq!(window.on_arrival(jump), Arrival::New);
        assert_eq!(window.on_arrival(jump - 1), Arrival::Reordered);
        let mut window = after(0..(WINDOW as u32 * 2));
        assert_eq!(window.on_arrival(WINDOW as u32 * 2 + 2), Arrival::New);
        assert_eq!(window.on_arrival(WINDOW as u32 * 2), Arrival::Reordered);
    }

    #[test]
    fn numbers_wrap_at_32_bits() {
        let mut window =
            SequenceWindow { next: u64::from(u32::MAX), received: u64::from(u32::MAX), ..Default::default() };
        assert_eq!(window.on_arrival(u32::MAX), Arrival::New);
        assert_eq!(window.on_arrival(1), Arrival::New);
        assert_eq!(window.on_arrival(0), Arrival::Reordered);
        window.on_end(2);
        assert_eq!(counts(&window), ((1 << 32) + 2, 1, 0, 1));
    }

    #[test]
    fn publisher_without_samples_has_no_loss() {
        let mut window = SequenceWindow::new();
        window.on_end(u32::MAX);
        assert_eq!(counts(&window), (0, 0, 0, 0));
    }
}
