//! Requests of readers for channels.

use std::collections::HashMap;
use std::sync::Weak;

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::shm::{ConnectError, Connecting, Gone};

use crate::driver::endpoint::reader::ReaderCore;
use crate::shared_memory::NoSharedMemory;

/// Timeout of a connection request. The peer process waits up to [`super::PATIENCE`] for its own discovery.
pub(super) const ANSWER_TIMEOUT: Span = Span::from_secs(15);
/// Maximum number of unanswered requests from this process to one peer process; further requests wait. Half of the
/// kernel's backlog.
pub(super) const UNANSWERED_MAX: usize = 32;

/// Maximum number of requests of a reader, one directly after the other, for a channel whose process closes it at once.
pub(super) const ATTEMPTS_MAX: u8 = 3;

/// How long a reader without a channel gets messages before it requests one again. Each failure in a row doubles the
/// pause.
pub(super) const RETRY_AFTER: Span = Span::from_millis(50);
/// Maximum of that pause, and the lifetime of a channel after which its end is no failure in a row.
pub(super) const RETRY_AFTER_MAX: Span = Span::from_secs(60);

/// The request of a reader for samples of a writer by shared memory.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(in crate::driver) reader: Weak<ReaderCore>,
    pub(super) reader_guid: Guid,
    pub(in crate::driver) writer: Guid,
    pub(in crate::driver) at: SharedMemoryAddress,
    pub(in crate::driver) is_reliable: bool,
    /// The time limit of the answer.
    pub(in crate::driver) until: Instant,
    /// Number of requests in a row, including this one.
    pub(super) attempts: u8,
    /// The application knows that the reader gets messages.
    pub(super) is_reported: bool,
    /// Samples come, so that the request is not put off.
    pub(super) is_demanded: bool,
}

/// The common properties of the readers that share a channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ChannelKey {
    pub(in crate::driver) writer: Guid,
    pub(in crate::driver) is_reliable: bool,
}

/// A request for a channel, without an answer.
pub(super) struct PendingConnection {
    pub(in crate::driver) connecting: Connecting,
    /// The reader that the request names.
    pub(in crate::driver) wanted: Wanted,
    /// Further readers for this channel.
    pub(in crate::driver) others: Vec<Wanted>,
}

impl Wanted {
    pub(in crate::driver) fn key(&self) -> ChannelKey {
        ChannelKey { writer: self.writer, is_reliable: self.is_reliable }
    }

    /// Whether the reader still matches the writer.
    pub(super) fn is_matched(&self) -> bool {
        self.reader.upgrade().is_some_and(|reader| reader.is_matched(self.writer))
    }

    /// The next request, after this one has failed.
    pub(super) fn next_attempt(self, until: Instant) -> Self {
        Self { until, attempts: self.attempts.saturating_add(1), ..self }
    }

    /// The pause before the next request.
    fn pause(&self) -> Span {
        let doublings = u32::from(self.attempts.saturating_sub(1)).min(RETRY_DOUBLINGS_MAX);
        RETRY_AFTER_MAX.min(Span(RETRY_AFTER.0 << doublings))
    }

    /// Whether it is for this reader, and this writer if one is named.
    pub(super) fn is_for(&self, reader: Guid, writer: Option<Guid>) -> bool {
        self.reader_guid == reader && writer.is_none_or(|writer| self.writer == writer)
    }
}

/// After this many doublings the pause has reached its maximum.
const RETRY_DOUBLINGS_MAX: u32 = 11;
const _: () = assert!(RETRY_AFTER.0 << RETRY_DOUBLINGS_MAX >= RETRY_AFTER_MAX.0);

/// Maximum number of cancellations that wait for the thread that polls the connections.
pub(super) const CANCELLED_MAX: usize = 1024;

/// Requests to the thread that polls the connections. Under `Poll`, that thread may take none of them for long.
#[derive(Default)]
pub(super) struct ConnectQueue {
    /// At most one for each matched pair.
    pub(in crate::driver) wanted: Vec<Wanted>,
    pub(super) retries: Retries,
    pub(super) deferred: Deferred,
    /// Recorded while requests exist.
    pub(super) cancelled: Cancelled,
    pub(super) is_connecting: bool,
}

/// The requests that are no longer wanted.
pub(super) enum Cancelled {
    /// The requests of these readers, each for one writer or for all.
    Of(Vec<(Guid, Option<Guid>)>),
    /// There were too many: all requests whose reader is closed or does not match the writer.
    Unmatched,
}

impl Default for Cancelled {
    fn default() -> Self {
        Self::Of(Vec::new())
    }
}

impl Cancelled {
    pub(in crate::driver) fn add(&mut self, reader: Guid, writer: Option<Guid>) {
        let Self::Of(readers) = self else { return };
        if readers.len() < CANCELLED_MAX {
            readers.push((reader, writer));
            debug_assert!(readers.len() <= CANCELLED_MAX);
        } else {
            *self = Self::Unmatched;
        }
    }

    pub(in crate::driver) fn is_empty(&self) -> bool {
        matches!(self, Self::Of(readers) if readers.is_empty())
    }

    pub(in crate::driver) fn contains(&self, wanted: &Wanted) -> bool {
        match self {
            Self::Of(readers) => readers.iter().any(|(reader, writer)| wanted.is_for(*reader, *writer)),
            Self::Unmatched => !wanted.is_matched(),
        }
    }
}

/// The readers that get messages until they request a channel again.
#[derive(Default)]
pub(super) struct Retries {
    /// When, for each pair of a reader and a writer: at most one for each matched pair, and those that were unmatched
    /// while the request failed.
    waiting: HashMap<(Guid, Guid), (Instant, Wanted)>,
    /// No later than the time of the first one.
    due: Option<Instant>,
}

impl Retries {
    /// Adds a reader whose request has failed now.
    pub(super) fn add(&mut self, now: Instant, wanted: Wanted) {
        let at = now + wanted.pause();
        self.waiting.insert((wanted.reader_guid, wanted.writer), (at, wanted));
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Removes a reader, which needs no channel from this writer any more, or requests one by itself.
    pub(super) fn remove(&mut self, reader: Guid, writer: Option<Guid>) {
        match writer {
            Some(writer) => {
                self.waiting.remove(&(reader, writer));
            }
            None => self.waiting.retain(|(other, _), _| *other != reader),
        }
        if self.waiting.is_empty() {
            self.due = None;
        }
    }

    /// Takes those whose time has come.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Wanted> {
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let due = self.waiting.extract_if(|_, (at, _)| *at <= now).map(|(_, (_, wanted))| wanted).collect();
        self.due = self.waiting.values().map(|(at, _)| *at).min();
        due
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The time of the next [`Self::take_due`].
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }
}

/// The requests that are put off until samples come, by reader and writer: at most one for each matched pair.
#[derive(Default)]
pub(super) struct Deferred(HashMap<Guid, HashMap<Guid, Wanted>>);

impl Deferred {
    pub(super) fn add(&mut self, wanted: Wanted) {
        self.0.entry(wanted.reader_guid).or_default().insert(wanted.writer, wanted);
    }

    /// Removes the requests of a reader, for one writer or for all.
    pub(super) fn remove(&mut self, reader: Guid, writer: Option<Guid>) {
        match writer {
            Some(writer) => _ = self.take(reader, writer),
            None => _ = self.0.remove(&reader),
        }
    }

    pub(super) fn take(&mut self, reader: Guid, writer: Guid) -> Option<Wanted> {
        let of_reader = self.0.get_mut(&reader)?;
        let wanted = of_reader.remove(&writer);
        if of_reader.is_empty() {
            self.0.remove(&reader);
        }
        wanted
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.values().map(HashMap::len).sum()
    }
}

pub(super) fn reason_of_failure(error: &ConnectError) -> NoSharedMemory {
    match error {
        ConnectError::Refused(refusal) if refusal.is_lasting() => NoSharedMemory::Refused(refusal.to_string()),
        other => NoSharedMemory::NotConnected(other.to_string()),
    }
}

pub(super) fn reason_of(gone: Gone) -> NoSharedMemory {
    match gone {
        Gone::Ended | Gone::Closed => NoSharedMemory::Ended,
        Gone::Broken(what) => NoSharedMemory::Broken(what.to_owned()),
    }
}
