//! Corking: in a dense flow, a few samples leave together, as a train of datagrams in one system call.
//!
//! A system call and the way through the network stack cost several times as much as a small sample. An application
//! that does nothing but write gains throughput if samples wait for each other, and each waits for some microseconds.
//! As in Nagle's algorithm (RFC 896), samples wait only while an answer is outstanding, whose arrival sends them. There
//! is no further timer: if the answer is lost, the timer that repeats the request sends them, too. A writer that corks
//! therefore requests the next acknowledgement once the last one has arrived.

use super::Writer;
use super::flow::Answers;
use crate::limits::{CORK_BYTES_MAX, CORK_FROM, CORK_PAUSE_MAX, CORK_SAMPLES_MAX, DENSE_WITHIN};
use crate::time::{Instant, Span};

/// Whether many samples, or many bytes, follow each other quickly.
#[derive(Debug, Default)]
pub(super) struct Density {
    since: Option<Instant>,
    samples: u32,
    bytes: usize,
    is_dense: bool,
}

impl Density {
    /// Counts a sample. The flow is dense once there were `samples` or `bytes` within [`DENSE_WITHIN`].
    pub(super) fn count(&mut self, now: Instant, len: usize, samples: u32, bytes: usize) {
        let since = *self.since.get_or_insert(now);
        if now.since(since) >= DENSE_WITHIN {
            *self = Self { since: Some(now), ..Self::default() };
        }
        self.samples += 1;
        self.bytes = self.bytes.saturating_add(len);
        if self.samples >= samples || self.bytes >= bytes {
            *self = Self { since: Some(now), is_dense: true, ..Self::default() };
        }
    }

    pub(super) const fn is_dense(&self) -> bool {
        self.is_dense
    }
}

/// The samples that wait for a train.
#[derive(Debug, Default)]
pub(super) struct Cork {
    /// Consecutive samples that the application wrote right after the one before, at most [`CORK_FROM`].
    prompt: u32,
    /// The writer corks: samples of this flow may wait.
    pub(super) is_on: bool,
    /// Samples wait.
    pub(super) holds: bool,
}

impl Writer {
    /// Whether samples follow each other so quickly that the caller has to call [`Self::observe_pause`].
    #[must_use]
    pub const fn is_dense(&self) -> bool {
        self.flow.is_dense()
    }

    /// Records how long the application was busy with other things between two samples. The caller then writes the
    /// second one.
    pub const fn observe_pause(&mut self, pause: Span) {
        let is_prompt = pause.0 <= CORK_PAUSE_MAX.0;
        self.cork.prompt = match is_prompt {
            true if self.cork.prompt < CORK_FROM => self.cork.prompt + 1,
            true => CORK_FROM,
            false => 0,
        };
    }

    /// Whether the newest sample waits for the next ones, or for an answer.
    pub(super) fn corks(&mut self) -> bool {
        self.cork.is_on = self.cork.prompt == CORK_FROM
            && self.group.has_readers
            && self.flow.allows_cork()
            && self.config.batching.is_none();
        self.cork.holds = self.cork.is_on && self.waits_for_train();
        debug_assert!(!self.cork.holds || self.flow.next_heartbeat().is_some(), "nothing ends the wait");
        self.cork.holds
    }

    fn waits_for_train(&mut self) -> bool {
        let last = self.history.last();
        let len = self.history.next_from(last).map_or(0, |change| change.payload.len());
        let mut readers = self.readers.iter().filter(|reader| reader.answers_soon()).peekable();
        self.cork.is_on = len.saturating_mul(2) <= CORK_BYTES_MAX && readers.peek().is_some();
        let will_be_answered = readers.any(|reader| reader.owed_answer.is_owed());
        let waiting = usize::try_from(last.next().distance_from(self.next_to_send)).unwrap_or(usize::MAX);
        let is_complete = waiting >= CORK_SAMPLES_MAX || len.saturating_mul(waiting + 1) > CORK_BYTES_MAX;
        self.cork.is_on && !is_complete && will_be_answered
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
