//! Processes that have ended, as the end of their channels shows.

use std::sync::Mutex;

use peregrine_rtps::id::GuidPrefix;

use crate::driver::base::sync::lock;

/// Maximum number of pairs that wait for the thread that polls connections. The lease of a participant ends the matches
/// that further ones are about.
const PROCESS_ENDS_MAX: usize = 1024;

/// The ends of processes that wait to be reported to the participants of this process.
#[derive(Default)]
pub(super) struct ProcessEnds(Mutex<Vec<(GuidPrefix, GuidPrefix)>>);

impl ProcessEnds {
    /// Adds the end of the process of `remote`, which had a channel to `local`, unless that waits already.
    pub(super) fn add(&self, local: GuidPrefix, remote: GuidPrefix) {
        let mut ends = lock(&self.0);
        if ends.len() < PROCESS_ENDS_MAX && !ends.contains(&(local, remote)) {
            ends.push((local, remote));
        }
        debug_assert!(ends.len() <= PROCESS_ENDS_MAX);
    }

    pub(super) fn take(&self) -> Vec<(GuidPrefix, GuidPrefix)> {
        std::mem::take(&mut lock(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_ends_are_reported_once_and_bounded() {
        let ends = ProcessEnds::default();
        let prefix =
            |number: usize| GuidPrefix([[0; 4], (number as u32).to_be_bytes(), [1; 4]].concat().try_into().unwrap());
        for number in 0..2 * PROCESS_ENDS_MAX {
            ends.add(prefix(0), prefix(number));
            ends.add(prefix(0), prefix(number));
        }
        let told = ends.take();
        assert_eq!(told.len(), PROCESS_ENDS_MAX);
        assert!(told.iter().enumerate().all(|(number, end)| *end == (prefix(0), prefix(number))));
        assert_eq!(ends.take(), []);
    }
}
