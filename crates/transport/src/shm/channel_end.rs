//! The other end of a channel: its name, and why it ended.

/// Identifies a writer to its reader; never reused by the same reader.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WriterId(pub u64);

/// A writer whose channel has ended and whose samples were all taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriterGone {
    /// The writer.
    pub writer: WriterId,
    /// Why the channel ended.
    pub reason: Gone,
    /// Number of its samples that were withdrawn before the reader took them.
    pub lost: u64,
}

/// Identifies a reader process to its writer; never reused by the same writer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReaderId(pub u64);

/// A reader whose channel has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReaderGone {
    /// The reader.
    pub reader: ReaderId,
    /// Why the channel ended.
    pub reason: Gone,
    /// Number of samples that the reader missed.
    pub missed: u64,
}

/// Why a channel ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// The other process closed the channel.
    Ended,
    /// The other process ended, or closed the channel without a message.
    Died,
    /// The other process violated the protocol, or the system lacks a resource; the text states how.
    Broken(&'static str),
    /// This side closed the channel.
    Closed,
}
