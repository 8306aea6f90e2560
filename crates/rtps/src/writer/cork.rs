//! Corking: in a dense flow, a few samples leave together, in one message or as a train of datagrams.
//!
//! A system call and the pass through the network stack cost several times as much as a small sample. An application
//! that does nothing but write gains throughput if samples wait for each other, each for some microseconds. As in
//! Nagle's algorithm (RFC 896), samples wait only while an answer is outstanding, whose arrival sends them, and not
//! longer than [`CORK_TIME_MAX`]. A writer that corks therefore requests the next acknowledgement once the last one has
//! arrived.

use super::Writer;
use super::flow::Answers;
use crate::limits::{CORK_BYTES_MAX, CORK_FROM, CORK_PAUSE_MAX, CORK_READERS_MAX, CORK_SAMPLES_MAX, CORK_TIME_MAX};
use crate::time::{Instant, Span};

impl Writer {
    /// Whether the caller has to call [`Self::observe_pause`] before the next sample: without that, no sample waits,
    /// and [`Self::should_look_for_answers`] returns false.
    #[must_use]
    pub const fn depends_on_pauses(&self) -> bool {
        self.flow.is_dense()
    }

    /// Records the time between the return of the last write, on any thread, and the next one, which the caller then
    /// carries out.
    pub const fn observe_pause(&mut self, pause: Span) {
        self.flow.observe_pause(pause);
        self.cork.prompt = if pause.0 > CORK_PAUSE_MAX.0 {
            0
        } else if self.cork.prompt < CORK_FROM {
            self.cork.prompt + 1
        } else {
            CORK_FROM
        };
    }

    /// Like [`Self::observe_pause`], for a sample that may not wait for the next ones.
    pub const fn observe_pause_of_single(&mut self, pause: Span) {
        self.flow.observe_pause(pause);
        self.cork.prompt = 0;
    }

    fn may_cork(&self) -> bool {
        self.flow.allows_cork()
            && self.group.has_readers
            && self.readers.len() <= CORK_READERS_MAX
            && self.config.batching.is_none()
            && !self.config.asynchronous
    }

    /// Whether the newest sample waits for the next ones, or for an answer.
    pub(super) fn corks_newest(&mut self, now: Instant) -> bool {
        let is_prompt = self.cork.prompt == CORK_FROM && self.may_cork();
        let len = if is_prompt { self.newest_len() } else { usize::MAX };
        let (mut is_answered, mut is_owed) = (false, false);
        if len.saturating_mul(2) <= CORK_BYTES_MAX {
            for reader in self.readers.iter().filter(|reader| reader.answers_soon() && !reader.is_apart()) {
                (is_answered, is_owed) = (true, is_owed || reader.owed_answer.is_owed());
            }
        }
        self.cork.is_on = is_answered;
        self.cork.holds = is_owed && self.has_place_in_train(len);
        if self.cork.holds {
            self.batch_deadline.get_or_insert(now + CORK_TIME_MAX);
        }
        self.cork.holds
    }

    /// Whether samples of the length of the newest one can wait with those that wait already.
    fn has_place_in_train(&self, len: usize) -> bool {
        let end = self.history.last().next();
        let waiting = end.distance_from(self.next_to_send);
        // Samples that the window holds up are not to wait longer.
        (waiting == 1 || self.cork.holds)
            && waiting < CORK_SAMPLES_MAX
            && self.history.bytes_between(self.next_to_send, end).saturating_add(len) <= CORK_BYTES_MAX
    }

    /// The payload bytes of the newest sample. Encodes a shared value.
    fn newest_len(&self) -> usize {
        self.history.next_from(self.history.last()).map_or(0, |change| change.payload.len())
    }

    /// Whether a writer that corks should request acknowledgement: without an outstanding answer, no sample may wait.
    pub(super) fn asks_for_cork(&self, answers: Answers) -> bool {
        self.cork.is_on && answers == Answers::Settled
    }

    /// Sends the samples that wait.
    pub(super) fn uncork(&mut self, now: Instant) {
        if self.cork.holds {
            self.pump(now);
        }
    }
}
