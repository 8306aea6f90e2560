//! Requests of readers for channels.

use std::sync::Weak;

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::shm::{Connecting, Gone};

use crate::driver::endpoint::reader::ReaderCore;
use crate::shared_memory::NoSharedMemory;

/// Timeout of a connection request. The peer process waits up to [`super::PATIENCE`] for its own discovery.
pub(super) const ANSWER_TIMEOUT: Span = Span::from_secs(15);
/// Maximum number of unanswered requests from this process to one peer process; further requests wait. Half of the
/// kernel's backlog.
pub(super) const UNANSWERED_MAX: usize = 32;

/// Maximum number of requests of a reader for a channel whose process closes it at once.
pub(super) const ATTEMPTS_MAX: u8 = 3;

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
    pub(super) attempts: u8,
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
    fn is_matched(&self) -> bool {
        self.reader.upgrade().is_some_and(|reader| reader.is_matched(self.writer))
    }

    /// Whether it is for this reader, and this writer if one is named.
    pub(super) fn is_for(&self, reader: Guid, writer: Option<Guid>) -> bool {
        self.reader_guid == reader && writer.is_none_or(|writer| self.writer == writer)
    }
}

/// Maximum number of cancellations that wait for the thread that polls the connections.
pub(super) const CANCELLED_MAX: usize = 1024;

/// Requests to the thread that polls the connections. Under `Poll`, that thread may take none of them for long.
#[derive(Default)]
pub(super) struct ConnectQueue {
    /// At most one for each matched pair.
    pub(in crate::driver) wanted: Vec<Wanted>,
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

pub(super) fn reason_of(gone: Gone) -> NoSharedMemory {
    match gone {
        Gone::Ended | Gone::Closed => NoSharedMemory::Ended,
        Gone::Broken(what) => NoSharedMemory::Broken(what.to_owned()),
    }
}
