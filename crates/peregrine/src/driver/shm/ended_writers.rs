//! Writers that have found the channel of a reader ended during a write.

use std::sync::Mutex;

use peregrine_rtps::id::Guid;

use crate::driver::base::sync::lock;

/// Maximum number of writers that wait for the thread that polls connections. At one more, that thread polls all
/// writers. Under `Poll`, writers may come and go while the application polls nothing.
const ENDED_MAX: usize = 1024;

/// See the [module](self).
#[derive(Default)]
pub(super) struct EndedWriters(Mutex<Ended>);

/// The writers whose channels are to be polled.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// These. Each is listed once.
    Of(Vec<Guid>),
    /// All: there were too many.
    All,
}

impl Default for Ended {
    fn default() -> Self {
        Self::Of(Vec::new())
    }
}

impl EndedWriters {
    /// Adds a writer. Returns whether that is new: the thread that has listed a writer wakes the thread that polls
    /// connections, which takes the list before it looks for ended channels.
    pub(super) fn add(&self, writer: Guid) -> bool {
        let mut ended = lock(&self.0);
        let Ended::Of(writers) = &mut *ended else { return false };
        if writers.contains(&writer) {
            return false;
        }
        if writers.len() < ENDED_MAX {
            writers.push(writer);
            debug_assert!(writers.len() <= ENDED_MAX);
        } else {
            *ended = Ended::All;
        }
        true
    }

    pub(super) fn take(&self) -> Ended {
        std::mem::take(&mut lock(&self.0))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        *lock(&self.0) == Ended::default()
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::id::{EntityId, GuidPrefix};

    use super::*;

    fn writer(number: usize) -> Guid {
        let [_, high, middle, low] = u32::try_from(number).unwrap().to_be_bytes();
        Guid { prefix: GuidPrefix([9; 12]), entity: EntityId([high, middle, low, 3]) }
    }

    #[test]
    fn writer_that_finds_many_channels_ended_is_listed_once() {
        let ended = EndedWriters::default();
        assert!(ended.add(writer(1)) && ended.add(writer(2)));
        for _ in 0..100 {
            assert!(!ended.add(writer(1)) && !ended.add(writer(2)));
        }
        assert_eq!(ended.take(), Ended::Of(vec![writer(1), writer(2)]));
        assert!(ended.is_empty());
    }

    #[test]
    fn one_writer_past_the_bound_stands_for_all() {
        let ended = EndedWriters::default();
        assert!((0..ENDED_MAX).all(|number| ended.add(writer(number))));
        assert!(ended.add(writer(ENDED_MAX)), "the thread that polls connections is woken");
        assert!(!ended.add(writer(ENDED_MAX + 1)) && !ended.add(writer(0)));
        assert_eq!(ended.take(), Ended::All);
        assert!(ended.add(writer(0)) && ended.take() == Ended::Of(vec![writer(0)]));
    }
}
