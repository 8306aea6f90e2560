//! How far the readers of a writer are, and which of them hold up delivery.

use std::time::Duration;

use peregrine_rtps::writer as rtps;
pub use peregrine_rtps::writer::{HeldBack, StallCause};

use crate::Guid;

/// The samples that a writer has accepted and its readers have not acknowledged:
/// [`DataWriter::status`](crate::DataWriter::status).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WriterStatus {
    /// Samples that `write` has accepted and the writer has not sent yet.
    pub unsent: u64,
    /// Why it has not sent them; `None` if there are none.
    pub held_back: Option<HeldBack>,
    /// The matched reliable readers that acknowledge.
    pub readers: Vec<ReaderProgress>,
}

impl WriterStatus {
    /// The readers that stall delivery, with the longest stall first.
    #[must_use]
    pub fn stalls(&self) -> Vec<Stall> {
        let mut stalls: Vec<Stall> = self.readers.iter().filter_map(|reader| reader.stall).collect();
        stalls.sort_by_key(|stall| std::cmp::Reverse(stall.lasting));
        stalls
    }
}

/// How far a matched reliable reader is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ReaderProgress {
    /// The reader.
    pub reader: Guid,
    /// Samples, sent or not, that the reader has not acknowledged.
    pub unacknowledged: u64,
    /// Whether the writer waits for the reader. The writer does not wait for a reader that has left too many requests
    /// unanswered, until the reader answers again.
    pub is_active: bool,
    /// Whether new samples for other readers wait until this reader acknowledges. A reader that leaves a few requests
    /// unanswered while others answer no longer delays them.
    pub delays_others: bool,
    /// Set if the reader lacks samples and has acknowledged nothing new for at least a second.
    pub stall: Option<Stall>,
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

impl From<rtps::Stall> for Stall {
    fn from(rtps::Stall { reader, lasting, cause }: rtps::Stall) -> Self {
        Self { reader, lasting: lasting.into(), cause }
    }
}

impl From<rtps::ReaderProgress> for ReaderProgress {
    fn from(progress: rtps::ReaderProgress) -> Self {
        let rtps::ReaderProgress { reader, unacknowledged, is_active, delays_others, stall } = progress;
        Self { reader, unacknowledged, is_active, delays_others, stall: stall.map(Stall::from) }
    }
}

/// RELIABLE_READER_ACTIVITY_CHANGED: the number of matched reliable readers that answer. Not part of DDS 1.4; RTI
/// Connext DDS has a status of this name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReliableReaderActivityChangedStatus {
    /// Matched reliable readers that the writer waits for.
    pub active_count: u32,
    /// Matched reliable readers that have left so many requests unanswered that the writer does not wait for them.
    pub inactive_count: u32,
    /// The change of `active_count` since this status was last read.
    pub active_count_change: i32,
    /// The change of `inactive_count` since this status was last read.
    pub inactive_count_change: i32,
    /// The reader that last became active or inactive, or was unmatched.
    pub last: Option<Guid>,
}

impl ReliableReaderActivityChangedStatus {
    /// Records the current numbers. Returns whether they have changed.
    pub(crate) fn set(&mut self, active: usize, inactive: usize, reader: Guid) -> bool {
        let (active, inactive) = (count(active), count(inactive));
        if (active, inactive) == (self.active_count, self.inactive_count) {
            return false;
        }
        self.active_count_change = self.active_count_change.saturating_add(difference(self.active_count, active));
        self.inactive_count_change =
            self.inactive_count_change.saturating_add(difference(self.inactive_count, inactive));
        (self.active_count, self.inactive_count, self.last) = (active, inactive, Some(reader));
        true
    }

    pub(crate) const fn read(&mut self) -> Self {
        let copy = *self;
        self.active_count_change = 0;
        self.inactive_count_change = 0;
        copy
    }
}

/// DELIVERY_STALLED: the number of readers that stall delivery. Not part of DDS 1.4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeliveryStalledStatus {
    /// Number of stalls since the writer was created.
    pub total_count: u32,
    /// The change of `total_count` since this status was last read.
    pub total_count_change: u32,
    /// Number of readers that stall delivery now.
    pub current_count: u32,
    /// The change of `current_count` since this status was last read.
    pub current_count_change: i32,
    /// The last stall, as it was when it was noticed.
    pub last: Option<Stall>,
}

impl DeliveryStalledStatus {
    pub(crate) fn began(&mut self, stall: Stall) {
        self.total_count = self.total_count.saturating_add(1);
        self.total_count_change = self.total_count_change.saturating_add(1);
        self.last = Some(stall);
    }

    pub(crate) fn set_current(&mut self, readers: usize) {
        let readers = count(readers);
        self.current_count_change = self.current_count_change.saturating_add(difference(self.current_count, readers));
        self.current_count = readers;
    }

    pub(crate) const fn read(&mut self) -> Self {
        let copy = *self;
        self.total_count_change = 0;
        self.current_count_change = 0;
        copy
    }
}

fn count(readers: usize) -> u32 {
    u32::try_from(readers).unwrap_or(u32::MAX)
}

fn difference(before: u32, after: u32) -> i32 {
    i32::try_from(i64::from(after) - i64::from(before)).unwrap_or(if after > before { i32::MAX } else { i32::MIN })
}

/// The explanation of a stall in a log line, and the remedy.
pub(crate) fn explain(cause: StallCause) -> &'static str {
    match cause {
        StallCause::Unanswered { .. } => {
            "a reader does not acknowledge: its process is stopped, overloaded or gone, or the network drops messages of one \
             direction; delivery to it goes on when it answers"
        }
        StallCause::NoProgress => {
            "a reader acknowledges nothing new: the network drops the same sample each time, or the reader has no room; \
             check the path MTU and firewalls, and max_samples of the reader"
        }
        StallCause::ReaderFull => {
            "a reader has no room for samples: its application does not take them; take them, or raise max_samples of the \
             reader or choose KEEP_LAST"
        }
        _ => "a reader acknowledges nothing new",
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::id::{EntityId, GuidPrefix};

    use super::*;

    fn reader(number: u8) -> Guid {
        Guid::new(GuidPrefix([number; 12]), EntityId::UNKNOWN)
    }

    #[test]
    fn changes_of_activity_add_up_until_read() {
        let mut status = ReliableReaderActivityChangedStatus::default();
        assert!(status.set(2, 0, reader(1)));
        assert!(!status.set(2, 0, reader(2)), "nothing has changed");
        assert!(status.set(1, 1, reader(2)));
        let read = status.read();
        assert_eq!((read.active_count_change, read.inactive_count_change, read.last), (1, 1, Some(reader(2))));
        assert!(status.set(1, 0, reader(2)));
        let read = status.read();
        assert_eq!((read.active_count, read.active_count_change), (1, 0));
        assert_eq!((read.inactive_count, read.inactive_count_change), (0, -1));
    }

    #[test]
    fn longest_stall_is_listed_first() {
        let progress = |number, seconds| ReaderProgress {
            reader: reader(number),
            unacknowledged: 1,
            is_active: true,
            delays_others: true,
            stall: Some(Stall {
                reader: reader(number),
                lasting: Duration::from_secs(seconds),
                cause: StallCause::NoProgress,
            }),
        };
        let idle = ReaderProgress { stall: None, ..progress(3, 0) };
        let status = WriterStatus { unsent: 0, held_back: None, readers: vec![progress(1, 2), idle, progress(2, 5)] };
        assert_eq!(status.stalls().iter().map(|stall| stall.reader).collect::<Vec<_>>(), [reader(2), reader(1)]);
    }
}
