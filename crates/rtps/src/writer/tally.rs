//! The requirements of messages for all readers, without a look at each reader.

use alloc::vec::Vec;

use crate::vendor::Quirks;

use super::proxy::MatchedReader;

/// Counts of the readers that receive messages. A match or unmatch changes them at a cost that does not depend on the
/// number of readers.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    readers: usize,
    max_message: Counts,
    /// Without the readers that make no such mistake.
    mistaken_key_bytes: Counts,
    asking: usize,
    filtered: usize,
    without_key_hash: usize,
}

/// How many readers have each value, ascending by value.
#[derive(PartialEq, Eq, Debug, Default)]
struct Counts(Vec<(usize, usize)>);

impl Tally {
    pub(super) fn of<'r>(readers: impl Iterator<Item = &'r MatchedReader>) -> Self {
        let mut tally = Self::default();
        readers.for_each(|reader| tally.add(reader));
        tally
    }

    /// Counts a reader.
    pub(super) fn add(&mut self, reader: &MatchedReader) {
        self.change(reader, true);
    }

    /// A counted reader leaves.
    pub(super) fn remove(&mut self, reader: &MatchedReader) {
        self.change(reader, false);
    }

    pub(super) const fn has_readers(&self) -> bool {
        self.readers > 0
    }

    pub(super) const fn has_filters(&self) -> bool {
        self.filtered > 0
    }

    /// Whether some readers request inline QoS.
    pub(super) const fn is_asked_for_qos(&self) -> bool {
        self.asking > 0
    }

    /// The smallest limit of messages.
    pub(super) fn max_message(&self) -> Option<usize> {
        self.max_message.0.first().map(|(bytes, _)| *bytes)
    }

    /// See [`Quirks::mistaken_key_bytes`].
    pub(super) fn mistaken_key_bytes(&self) -> usize {
        self.mistaken_key_bytes.0.last().map_or(0, |(bytes, _)| *bytes)
    }

    /// Whether some readers find instances by the key hash alone.
    pub(super) const fn needs_key_hash(&self) -> bool {
        self.without_key_hash > 0
    }

    fn change(&mut self, reader: &MatchedReader, is_added: bool) {
        let quirks = Quirks::of(reader.vendor);
        self.max_message.change(reader.max_message_bytes, is_added);
        if quirks.mistaken_key_bytes > 0 {
            self.mistaken_key_bytes.change(quirks.mistaken_key_bytes, is_added);
        }
        let counts = [
            (&mut self.readers, true),
            (&mut self.asking, reader.expects_inline_qos),
            (&mut self.filtered, reader.filter.is_some()),
            (&mut self.without_key_hash, !quirks.finds_instance_by_key),
        ];
        for (count, _) in counts.into_iter().filter(|(_, is_counted)| *is_counted) {
            *count = if is_added { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
    }
}

impl Counts {
    fn change(&mut self, value: usize, is_added: bool) {
        match self.0.binary_search_by_key(&value, |(value, _)| *value) {
            Ok(index) => {
                let Some((_, count)) = self.0.get_mut(index) else { return };
                *count = if is_added { count.saturating_add(1) } else { count.saturating_sub(1) };
                if *count == 0 {
                    self.0.remove(index);
                }
            }
            Err(index) if is_added => self.0.insert(index, (value, 1)),
            Err(_) => debug_assert!(false, "the value was not counted"),
        }
    }
}
