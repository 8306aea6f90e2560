//! Requests of readers for channels.

use std::sync::Weak;

use peregrine_rtps::discovery::data::SharedMemoryAddress;
use peregrine_rtps::id::Guid;
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::shm::{Connecting, Gone};

use crate::driver::reader::ReaderCore;
use crate::shared_memory::NoSharedMemory;

/// Timeout of a connection request. The peer process waits up to [`super::PATIENCE`] for its own discovery.
pub(super) const ANSWER_TIMEOUT: Span = Span::from_secs(15);
/// Maximum number of unanswered requests from this process to one peer process; further requests wait. Half of the
/// kernel's backlog.
pub(super) const UNANSWERED_MAX: usize = 32;

/// How often a reader requests a channel whose process closes it at once.
pub(super) const ATTEMPTS_MAX: u8 = 3;

/// A reader that wants the samples of a writer by shared memory.
#[derive(Clone)]
pub(super) struct Wanted {
    pub(super) reader: Weak<ReaderCore>,
    pub(super) reader_guid: Guid,
    pub(super) writer: Guid,
    pub(super) at: SharedMemoryAddress,
    pub(super) is_reliable: bool,
    /// When it is too late for an answer.
    pub(super) until: Instant,
    pub(super) attempts: u8,
}

/// What the readers have in common that share a channel.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ChannelKey {
    pub(super) writer: Guid,
    pub(super) is_reliable: bool,
}

/// A request for a channel, without an answer.
pub(super) struct PendingConnection {
    pub(super) connecting: Connecting,
    /// The reader that the request names.
    pub(super) wanted: Wanted,
    /// Further readers for this channel.
    pub(super) others: Vec<Wanted>,
}

impl Wanted {
    pub(super) fn key(&self) -> ChannelKey {
        ChannelKey { writer: self.writer, is_reliable: self.is_reliable }
    }

    /// Whether it is for this reader, and this writer if one is named.
    pub(super) fn is_for(&self, reader: Guid, writer: Option<Guid>) -> bool {
        self.reader_guid == reader && writer.is_none_or(|writer| self.writer == writer)
    }
}

/// What the thread that polls the connections is told of.
#[derive(Default)]
pub(super) struct ConnectQueue {
    pub(super) wanted: Vec<Wanted>,
    /// Of a reader, and of one writer or all: kept while something is asked.
    pub(super) cancelled: Vec<(Guid, Option<Guid>)>,
    pub(super) is_connecting: bool,
}

pub(super) fn reason_of(gone: Gone) -> NoSharedMemory {
    match gone {
        Gone::Ended | Gone::Closed => NoSharedMemory::Ended,
        Gone::Broken(what) => NoSharedMemory::Broken(what.to_owned()),
    }
}
