//! The progress of a reader, and the causes of its lag.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use crate::compact::Compact;
use crate::id::Guid;
use crate::limits::STALL_AFTER;
use crate::time::{Instant, Span};

/// Why a reader acknowledges nothing new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StallCause {
    /// The reader leaves requests for acknowledgement unanswered: its process is stopped, overloaded or gone, or the
    /// network drops what one side sends.
    Unanswered {
        /// The requests since its last answer.
        requests: u32,
    },
    /// The reader answers, but lacks the same sample again and again: the network drops the sample each time, or the
    /// reader has no room for it.
    NoProgress,
    /// The reader, in this process or on this host, has refused the next sample for lack of room.
    ReaderFull,
    /// The reader, in this process or on this host, has been given all samples and has not refused any, but its process
    /// has not fetched them: the application does not take them, or the process is stopped.
    NotFetched,
}

/// Why samples that the writer has accepted are not sent yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum HeldBack {
    /// As much is in flight as the readers' acknowledgements allow: [`ReaderProgress::delays_others`] names them.
    Acknowledgements,
    /// The messages to be sent fill the send queue: the sockets take less than the application writes.
    SendQueue,
    /// The flow controller of an asynchronous writer has not released them.
    FlowController,
}

/// A reader that lacks samples and has acknowledged nothing new for at least a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Stall {
    /// The reader.
    pub reader: Guid,
    /// How long that has lasted.
    pub lasting: Duration,
    /// Why the reader acknowledges nothing.
    pub cause: StallCause,
}

/// How far a matched reliable reader is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReaderProgress {
    /// The reader.
    pub reader: Guid,
    /// Samples, sent or not, that the reader has not acknowledged.
    pub unacknowledged: u64,
    /// Whether the writer waits for the reader. The writer does not wait for an inactive reader:
    /// [`WriterEvent::ReaderInactive`](super::WriterEvent::ReaderInactive).
    pub is_active: bool,
    /// Whether new samples for other readers wait until this reader acknowledges. A reader that leaves a few requests
    /// unanswered, acknowledges nothing new for a second, or is much slower, while others keep pace, no longer delays
    /// them.
    pub delays_others: bool,
    /// Set if the reader lacks samples and has acknowledged nothing new for at least a second.
    pub stall: Option<Stall>,
}

/// The samples that a writer has accepted and its readers have not acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WriterStatus {
    /// Samples that the writer has accepted and not sent yet.
    pub unsent: u64,
    /// Why it has not sent them, or not all messages of the last ones; `None` if it has.
    pub held_back: Option<HeldBack>,
    /// How long an asynchronous writer has held samples back at least. `None` if it holds none, and for synchronous
    /// writers: the call that writes waits there, and its error names the cause.
    pub held_back_for: Option<Duration>,
    /// The matched reliable readers that acknowledge.
    pub readers: Vec<ReaderProgress>,
}

impl WriterStatus {
    /// The readers that stall delivery, with the longest stall first.
    #[must_use]
    pub fn stalls(&self) -> Vec<Stall> {
        let mut stalls: Vec<Stall> = self.readers.iter().filter_map(|reader| reader.stall).collect();
        stalls.sort_by_key(|stall| Reverse(stall.lasting));
        stalls
    }
}

/// Since when a reader lags: it lacks samples and acknowledges nothing new.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Lag {
    pub(super) since: Compact<Instant>,
    /// The lag that was last reported as a stall, until its end is reported too.
    pub(super) reported_since: Compact<Instant>,
    /// The writer has given the reader up for lack of progress, until it acknowledges a sample that it was sent.
    pub(super) is_given_up: bool,
}

impl Lag {
    /// The reader has acknowledged further samples. For a reader that was given up, these may be samples that a
    /// HEARTBEAT has reported as lost, which is no progress.
    #[inline]
    pub(super) const fn note_progress(&mut self) {
        if !self.is_given_up {
            self.since.clear();
        }
    }

    /// The reader lacks nothing any longer.
    pub(super) const fn end(&mut self) {
        self.since.clear();
    }

    /// Whether a reported stall has ended.
    #[inline]
    pub(super) fn has_ended_stall(self) -> bool {
        self.reported_since.is_some() && self.reported_since != self.since
    }

    /// Whether the lag has been reported as a stall.
    pub(super) fn is_stall(self) -> bool {
        self.since.is_some() && self.reported_since == self.since
    }

    /// When to give up the reader, after this time without progress.
    pub(super) fn give_up_at(self, patience: Span) -> Option<Instant> {
        self.since.get().filter(|_| !self.is_given_up && !patience.is_infinite()).map(|since| since + patience)
    }

    /// When a reported stall began that has ended.
    pub(super) fn take_ended_stall(&mut self) -> Option<Instant> {
        if self.has_ended_stall() { self.reported_since.take().get() } else { None }
    }

    /// When to report the lag as a stall.
    pub(super) fn report_at(self) -> Option<Instant> {
        self.since.get().filter(|_| self.since != self.reported_since).map(|since| since + STALL_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::pair::reader_guid;

    #[test]
    fn longest_stall_is_listed_first() {
        let progress = |index, seconds| ReaderProgress {
            reader: reader_guid(index),
            unacknowledged: 1,
            is_active: true,
            delays_others: true,
            stall: Some(Stall {
                reader: reader_guid(index),
                lasting: Duration::from_secs(seconds),
                cause: StallCause::NoProgress,
            }),
        };
        let idle = ReaderProgress { stall: None, ..progress(3, 0) };
        let readers = vec![progress(1, 2), idle, progress(2, 5)];
        let status = WriterStatus { unsent: 0, held_back: None, held_back_for: None, readers };
        assert_eq!(
            status.stalls().iter().map(|stall| stall.reader).collect::<Vec<_>>(),
            [reader_guid(2), reader_guid(1)]
        );
    }
}
