//! A question about all readers that a single reader answers.
//!
//! An acknowledgement of one reader usually releases no sample, because another reader still lacks the oldest one.
//! Looking at every reader to find that out makes the acknowledgements of n readers cost n² steps. The reader that
//! answered the question last usually answers it again.

use crate::box_list::BoxList;

use super::proxy::ReaderProxy;

/// The place of the reader that answered a question last.
#[derive(Debug, Default)]
pub(super) struct Witness(usize);

impl Witness {
    /// Whether some reader is meant. The search begins with the last witness, so that a series of questions whose
    /// witnesses cease to be meant one after the other looks at each reader once.
    pub(super) fn find(&mut self, readers: &BoxList<ReaderProxy>, is_meant: impl Fn(&ReaderProxy) -> bool) -> bool {
        let start = self.0.min(readers.len());
        let mut places = (start..readers.len()).chain(0..start);
        let found = places.find(|place| readers.get(*place).is_some_and(&is_meant));
        self.0 = found.unwrap_or(0);
        found.is_some()
    }
}
