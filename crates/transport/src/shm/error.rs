//! Errors of shared memory.

use super::channel_end::WriterId;
use super::message::Refusal;
use std::{fmt, io};

/// Why there is no slot.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoanError {
    /// All memory is in use, and `max_bytes` does not allow more.
    Exhausted {
        /// Requested length, in bytes.
        len: usize,
        /// Bound of the writer's configuration, in bytes.
        max_bytes: usize,
    },
    /// The sample exceeds the bound even if all slots are returned.
    TooLong {
        /// Requested length, in bytes.
        len: usize,
        /// Bound of the writer's configuration, in bytes.
        max_bytes: usize,
    },
    /// The system provides no more memory or descriptors.
    System(io::Error),
}

impl fmt::Display for LoanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted { len, max_bytes } => write!(
                f,
                "no slot for {len} bytes: all that max_bytes = {max_bytes} allows is loaned, kept or held by readers"
            ),
            Self::TooLong { len, max_bytes } => {
                write!(f, "a slot for {len} bytes is larger than max_bytes = {max_bytes} allows")
            }
            Self::System(error) => write!(f, "shared memory for a sample: {error}"),
        }
    }
}

impl std::error::Error for LoanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System(error) => Some(error),
            Self::Exhausted { .. } | Self::TooLong { .. } => None,
        }
    }
}

/// Why a sample was not published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unpublished {
    OtherWriter,
    ReaderGone,
    NoRoom,
    NotAnnounced,
}

/// A sample that no reader received.
#[derive(Debug)]
pub struct PublishError<S> {
    /// The slot to be published.
    pub slot: S,
    pub(super) reason: Unpublished,
}

impl<S> PublishError<S> {
    /// Whether there is room for the sample, and only its segment could not be announced: the link is full, or the
    /// system lacks a resource. No reader notifies the writer when the cause ends; the caller tries again later.
    #[must_use]
    pub fn is_segment_unannounced(&self) -> bool {
        self.reason == Unpublished::NotAnnounced
    }
}

impl<S> fmt::Display for PublishError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            Unpublished::OtherWriter => "the slot belongs to another writer",
            Unpublished::ReaderGone => "the reader is gone",
            Unpublished::NoRoom => "the ring of a blocking reader is full",
            Unpublished::NotAnnounced => "a blocking reader cannot be notified of the segment of the sample now",
        })
    }
}

impl<S: fmt::Debug> std::error::Error for PublishError<S> {}

/// No sample can be taken because too many are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakeError {
    /// The writer whose samples are held.
    pub writer: WriterId,
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the reader holds as many samples of {:?} as agreed: drop some, or raise `holds`", self.writer)
    }
}

impl std::error::Error for TakeError {}

/// Why a reader could not connect to a writer.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The writer's process refused.
    Refused(Refusal),
    /// The writer's process closed the connection, ended, or does not follow the protocol.
    Closed,
    /// The writer's memory is not as announced, or the two processes do not see the same memory; the text says which.
    Memory(String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) => reason.fmt(f),
            Self::Closed => f.write_str("the writer's process has closed the connection or speaks another protocol"),
            Self::Memory(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ConnectError {}
