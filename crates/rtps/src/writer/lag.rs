//! How far a reader is, and why it lags.

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
    /// The reader, in this process or on this host, has no room for the next sample.
    ReaderFull,
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

/// A reader that holds up delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stall {
    /// The reader.
    pub reader: Guid,
    /// How long the reader has acknowledged nothing new although it lacks samples.
    pub lasting: Span,
    /// The reason.
    pub cause: StallCause,
}

/// How far a matched reliable reader is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReaderProgress {
    /// The reader.
    pub reader: Guid,
    /// The number of samples sent to it, or waiting for it, that it has not acknowledged.
    pub unacknowledged: u64,
    /// Whether the writer waits for it. The writer does not wait for a reader that has left too many requests
    /// unanswered, until it answers again.
    pub is_active: bool,
    /// Whether new samples for other readers wait until this one acknowledges. A reader that leaves a few requests
    /// unanswered while others answer no longer delays them.
    pub delays_others: bool,
    /// Set if the reader has held up delivery for at least [`STALL_AFTER`].
    pub stall: Option<Stall>,
}

/// Since when a reader lags: it lacks samples and acknowledges nothing new.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Lag {
    pub(super) since: Option<Instant>,
    /// The lag that was last reported as a stall, until its end is reported too.
    pub(super) reported_since: Option<Instant>,
}

impl Lag {
    /// The reader has acknowledged something new.
    #[inline]
    pub(super) const fn end(&mut self) {
        self.since = None;
    }

    /// Whether a reported stall has ended.
    #[inline]
    pub(super) fn has_ended_stall(self) -> bool {
        self.reported_since.is_some() && self.reported_since != self.since
    }

    /// When a reported stall began that has ended.
    pub(super) fn take_ended_stall(&mut self) -> Option<Instant> {
        if self.has_ended_stall() { self.reported_since.take() } else { None }
    }

    /// When to report the lag as a stall.
    pub(super) fn report_at(self) -> Option<Instant> {
        self.since.filter(|_| self.since != self.reported_since).map(|since| since + STALL_AFTER)
    }
}
