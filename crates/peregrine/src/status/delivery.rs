//! How far the readers of a writer are, and which of them hold up delivery.

pub use peregrine_rtps::writer::{HeldBack, ReaderProgress, Stall, StallCause, WriterStatus};

use crate::Guid;

/// RELIABLE_READER_ACTIVITY_CHANGED: the number of matched reliable readers that the writer waits for. Not part of DDS
/// 1.4; RTI Connext DDS has a status of this name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReliableReaderActivityChangedStatus {
    /// Matched reliable readers that the writer waits for.
    pub active_count: u32,
    /// Matched reliable readers that have left so many requests unanswered
    /// ([`DomainConfig::unanswered_heartbeats`](crate::DomainConfig::unanswered_heartbeats)), or have made no progress
    /// for so long
    /// ([`DataWriterBuilder::inactivate_nonprogressing_readers`](crate::DataWriterBuilder::inactivate_nonprogressing_readers)),
    /// that the writer does not wait for them.
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

    /// Records that one reader has become active or inactive, was matched or unmatched: its state before and now,
    /// `None` if it is not matched. Returns whether the numbers have changed.
    pub(crate) fn update(&mut self, reader: Guid, before: Option<bool>, now: Option<bool>) -> bool {
        let of = |state: Option<bool>, active| usize::from(state == Some(active));
        let moved = |count: u32, active| (count as usize + of(now, active)).saturating_sub(of(before, active));
        self.set(moved(self.active_count, true), moved(self.inactive_count, false), reader)
    }

    pub(crate) const fn read(&mut self) -> Self {
        let copy = *self;
        self.active_count_change = 0;
        self.inactive_count_change = 0;
        copy
    }
}

/// DELIVERY_STALLED: the number of readers that stall delivery, and whether something else holds samples back. Not part
/// of DDS 1.4.
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
    /// Set while an asynchronous writer has held samples back for a second although its readers do not stall delivery.
    /// Counts as a stall in `total_count`.
    pub held_back: Option<HeldBack>,
}

impl DeliveryStalledStatus {
    pub(crate) const fn began(&mut self, stall: Stall) {
        self.count();
        self.last = Some(stall);
    }

    pub(crate) const fn held_back(&mut self, cause: HeldBack) {
        self.count();
        self.held_back = Some(cause);
    }

    const fn count(&mut self) {
        self.total_count = self.total_count.saturating_add(1);
        self.total_count_change = self.total_count_change.saturating_add(1);
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

/// The explanation of samples that are held back in a log line, and the remedy.
pub(crate) const fn explain_hold(cause: HeldBack) -> &'static str {
    match cause {
        HeldBack::FlowController => {
            "more is written than the flow controller releases, or other writers that share it go first; raise its rate, \
             or write less"
        }
        HeldBack::SendQueue => "the sockets take less than is written; check the network interface, or write less",
        _ => "readers have not acknowledged enough of what was sent",
    }
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
        StallCause::NotFetched => {
            "a reader on this host has not fetched its samples: its application does not take them, or its process is \
             stopped; take them, or choose KEEP_LAST"
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
    fn activity_of_one_reader_changes_the_numbers_by_one() {
        let mut status = ReliableReaderActivityChangedStatus::default();
        let mut update = |before, now| {
            let has_changed = status.update(reader(1), before, now);
            (has_changed, status.active_count, status.inactive_count)
        };
        assert_eq!(update(None, None), (false, 0, 0), "a best-effort reader");
        assert_eq!(update(None, Some(true)), (true, 1, 0), "matched");
        assert_eq!(update(Some(true), Some(true)), (false, 1, 0), "matched again");
        assert_eq!(update(Some(true), Some(false)), (true, 0, 1), "inactive");
        assert_eq!(update(Some(false), None), (true, 0, 0), "unmatched");
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
}
