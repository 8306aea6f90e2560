//! A question about all readers that a single reader answers.
//!
//! An acknowledgement of one reader usually releases no sample, because another reader still lacks the oldest one.
//! Looking at every reader to find that out makes the acknowledgements of n readers cost n² steps. The reader that
//! answered the question last usually answers it again.

use crate::box_list::BoxList;
use crate::seq::SequenceNumber;

use super::Writer;
use super::proxy::ReaderProxy;

/// The place of the reader that answered a question last.
#[derive(Debug, Default)]
pub(super) struct Witness(usize);

impl Witness {
    /// Whether some reader is meant. The search begins with the last witness, so that a series of questions whose
    /// witnesses cease to be meant one after the other looks at each reader once.
    fn find(&mut self, readers: &BoxList<ReaderProxy>, is_meant: impl Fn(&ReaderProxy) -> bool) -> bool {
        let start = self.0.min(readers.len());
        let mut places = (start..readers.len()).chain(0..start);
        let found = places.find(|place| readers.get(*place).is_some_and(&is_meant));
        self.0 = found.unwrap_or(0);
        found.is_some()
    }
}

/// How far a reader was before its last answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressBefore {
    /// Whether the writer waited for the reader.
    counted: bool,
    acknowledged_below: SequenceNumber,
    /// Where the samples begin that the reader lacked and that were not written before the match.
    lacked_from: SequenceNumber,
}

impl ReaderProxy {
    pub(super) fn progress(&self) -> ProgressBefore {
        let (counted, acknowledged_below) = (self.counts(), self.acknowledged_below);
        ProgressBefore { counted, acknowledged_below, lacked_from: self.lacked_from() }
    }

    fn lacked_from(&self) -> SequenceNumber {
        self.acknowledged_below.max(self.joined_at)
    }
}

impl Writer {
    /// Releases what all readers have acknowledged, after progress of a reader. Nothing is to be released, and no
    /// thread finds room, while another reader that counts has no more than this one had `before`, and no sample waits
    /// for the window, which readers that are left behind do not close.
    pub(super) fn release_after_progress(&mut self, before: ProgressBefore) {
        let is_held_up = self.next_to_send <= self.history.last();
        let has_as_little = |reader: &ReaderProxy| {
            reader.acknowledged_below <= before.acknowledged_below
                && reader.lacked_from() <= before.lacked_from
                && reader.counts()
        };
        if !before.counted || is_held_up || !self.last_to_acknowledge.find(&self.readers, has_as_little) {
            return self.release_acknowledged();
        }
        debug_assert!(
            {
                let counting = || self.readers.iter().filter(|reader| reader.counts());
                let oldest = counting().map(|reader| reader.acknowledged_below).min();
                oldest <= Some(before.acknowledged_below)
                    && counting().map(ReaderProxy::lacked_from).min() <= Some(before.lacked_from)
            },
            "progress of a reader that is not the last moves neither bound"
        );
    }
}
