//! Counts messages with samples, per writer, until they justify a channel of shared memory.

use peregrine_rtps::id::Guid;

/// Messages with samples, or fragments, after which a reader requests a channel of shared memory that it put off.
const MESSAGES: u8 = 2;

/// The writers from which a reader has no channel of shared memory yet, but may get one.
#[derive(Debug, Default)]
pub(in crate::driver) struct SampleWatch {
    /// How many messages are missing, sorted by writer. At most one for each matched writer.
    watched: Vec<(Guid, u8)>,
    /// Writers that have sent enough, until [`Self::take_active`].
    active: Vec<Guid>,
}

impl SampleWatch {
    /// Watches a writer until [`Self::forget`]. Returns whether enough messages have come already.
    pub(in crate::driver) fn watch(&mut self, writer: Guid) -> bool {
        match self.place_of(writer) {
            Ok(place) => self.watched.get(place).is_some_and(|(_, missing)| *missing == 0),
            Err(place) => {
                self.watched.insert(place, (writer, MESSAGES));
                false
            }
        }
    }

    pub(in crate::driver) fn forget(&mut self, writer: Guid) {
        if let Ok(place) = self.place_of(writer) {
            self.watched.remove(place);
        }
        self.active.retain(|active| *active != writer);
    }

    /// A message with a sample of this writer has arrived.
    #[inline]
    pub(in crate::driver) fn note(&mut self, writer: Guid) {
        if !self.watched.is_empty() {
            self.note_if_watched(writer);
        }
    }

    #[inline]
    pub(in crate::driver) const fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// The writers that have sent enough, each once.
    pub(in crate::driver) fn take_active(&mut self) -> Vec<Guid> {
        std::mem::take(&mut self.active)
    }

    fn note_if_watched(&mut self, writer: Guid) {
        let Ok(place) = self.place_of(writer) else { return };
        let Some((_, missing)) = self.watched.get_mut(place).filter(|(_, missing)| *missing > 0) else { return };
        *missing -= 1;
        if *missing == 0 {
            self.active.push(writer);
        }
    }

    fn place_of(&self, writer: Guid) -> Result<usize, usize> {
        self.watched.binary_search_by_key(&writer, |(watched, _)| *watched)
    }
}

#[cfg(test)]
mod tests {
    use peregrine_rtps::id::{EntityId, GuidPrefix};

    use super::*;

    fn writer(number: u8) -> Guid {
        Guid { prefix: GuidPrefix([number; 12]), entity: EntityId([0, 0, 1, 3]) }
    }

    #[test]
    fn writer_is_active_once_after_enough_messages() {
        let mut watch = SampleWatch::default();
        assert!([2, 1, 3].into_iter().all(|number| !watch.watch(writer(number))));
        for number in [1, 2, 4] {
            watch.note(writer(number));
            assert!(!watch.has_active());
        }
        for _ in 0..MESSAGES {
            watch.note(writer(2));
        }
        assert_eq!(watch.take_active(), [writer(2)]);
        watch.note(writer(2));
        assert!(!watch.has_active());
        assert_eq!([1, 2, 3].map(|number| watch.watch(writer(number))), [false, true, false]);
    }

    #[test]
    fn forgotten_writer_is_never_active() {
        let mut watch = SampleWatch::default();
        for number in 1..=2 {
            watch.watch(writer(number));
            watch.note(writer(number));
        }
        watch.forget(writer(1));
        watch.note(writer(1));
        watch.note(writer(2));
        watch.forget(writer(2));
        assert!(!watch.has_active());
    }
}
