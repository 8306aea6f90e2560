//! The statuses of a writer.

use peregrine_rtps::writer::CacheStatus;

use crate::status::{
    DeliveryStalledStatus, IncompatibleQosStatus, LivelinessLostStatus, MatchedStatus, OfferedDeadlineMissedStatus,
    ReliableReaderActivityChangedStatus, StatusMask,
};

#[derive(Debug, Default)]
pub(crate) struct WriterStatuses {
    pub(crate) matched: MatchedStatus,
    pub(crate) incompatible_qos: IncompatibleQosStatus,
    pub(crate) deadline_missed: OfferedDeadlineMissedStatus,
    pub(crate) liveliness_lost: LivelinessLostStatus,
    pub(crate) activity: ReliableReaderActivityChangedStatus,
    pub(crate) stalled: DeliveryStalledStatus,
    /// The counts of the cache when they were last read.
    pub(super) cache_read: CacheStatus,
    pub(crate) changed: StatusMask,
}

impl WriterStatuses {
    /// The statuses that have changed since the last notification of a listener.
    pub(super) fn take_news(&mut self) -> StatusMask {
        self.changed.take_unreported()
    }
}
