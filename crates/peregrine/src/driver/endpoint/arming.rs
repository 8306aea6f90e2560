//! The calls of endpoints by the control thread at their deadlines.

use super::reader::ReaderCore;
use super::writer::WriterCore;

impl WriterCore {
    /// Has the control thread call the writer at this deadline, which the caller has stored, or before.
    #[inline]
    pub(in crate::driver) fn arm(&self, deadline: u64) {
        self.timer.plan(deadline);
        self.host.arm(deadline);
    }

    /// Looks at the deadline after the call that was planned, or as a writer that the control thread did not know.
    pub(in crate::driver) fn arm_anew(&self) {
        self.timer.reset();
        self.arm(self.deadline());
    }
}

/// As for writers.
impl ReaderCore {
    #[inline]
    pub(super) fn arm(&self, deadline: u64) {
        self.timer.plan(deadline);
        self.host.arm(deadline);
    }

    pub(in crate::driver) fn arm_anew(&self) {
        self.timer.reset();
        self.arm(self.deadline());
    }
}
