//! The matched readers of a writer, found by GUID.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use hashbrown::HashMap;

use crate::id::Guid;
use crate::limits::MATCHES_MAX;

use super::proxy::ReaderProxy;

/// The matched readers, in the order in which they were matched; at most [`MATCHES_MAX`].
#[derive(Debug)]
pub(super) struct Readers {
    proxies: Vec<ReaderProxy>,
    by_guid: HashMap<Guid, usize, foldhash::quality::FixedState>,
}

impl Readers {
    /// No readers. `seed` makes the hashes unpredictable to peers.
    pub(super) fn new(seed: u64) -> Self {
        let hasher = foldhash::quality::FixedState::with_seed(seed);
        Self { proxies: Vec::new(), by_guid: HashMap::with_hasher(hasher) }
    }

    /// The position of a reader.
    #[inline]
    pub(super) fn position(&self, guid: Guid) -> Option<usize> {
        // One reader is the usual case, and comparing its GUID is cheaper than a hash.
        if let [reader] = self.proxies.as_slice() {
            return (reader.info.guid == guid).then_some(0);
        }
        self.by_guid.get(&guid).copied()
    }

    pub(super) fn find(&self, guid: Guid) -> Option<&ReaderProxy> {
        self.proxies.get(self.position(guid)?)
    }

    pub(super) fn find_mut(&mut self, guid: Guid) -> Option<&mut ReaderProxy> {
        let index = self.position(guid)?;
        self.proxies.get_mut(index)
    }

    /// Adds a reader that is not among them.
    pub(super) fn push(&mut self, reader: ReaderProxy) {
        debug_assert!(self.proxies.len() < MATCHES_MAX, "the writer refuses more");
        let known = self.by_guid.insert(reader.info.guid, self.proxies.len());
        debug_assert!(known.is_none(), "a reader is matched once");
        self.proxies.push(reader);
    }

    /// Removes a reader. Says whether it was among them.
    pub(super) fn remove(&mut self, guid: Guid) -> bool {
        let Some(index) = self.by_guid.remove(&guid) else { return false };
        self.proxies.remove(index);
        for (position, reader) in self.proxies.iter().enumerate().skip(index) {
            self.by_guid.insert(reader.info.guid, position);
        }
        true
    }
}

impl Deref for Readers {
    type Target = [ReaderProxy];

    fn deref(&self) -> &[ReaderProxy] {
        &self.proxies
    }
}

impl DerefMut for Readers {
    fn deref_mut(&mut self) -> &mut [ReaderProxy] {
        &mut self.proxies
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{EntityId, GuidPrefix};
    use crate::seq::SequenceNumber;
    use crate::vendor::VendorId;
    use crate::writer::{MatchedReader, ReaderPath};
    use alloc::sync::Arc;
    use proptest::prelude::*;

    fn guid(key: u32) -> Guid {
        Guid::new(GuidPrefix([7; 12]), EntityId::user_reader(key, false))
    }

    fn proxy(key: u32) -> ReaderProxy {
        let info = MatchedReader {
            guid: guid(key),
            reliable: true,
            wants_history: false,
            to: Arc::new([]),
            group: None,
            max_message_bytes: 1400,
            expects_inline_qos: false,
            positive_acks_disabled: false,
            vendor: VendorId::PEREGRINE,
        };
        ReaderProxy::new(info, ReaderPath::Messages, SequenceNumber::FIRST)
    }

    proptest! {
        #[test]
        fn index_finds_what_a_walk_finds(steps in prop::collection::vec((0_u32..6, any::<bool>()), 0..60)) {
            let mut readers = Readers::new(1);
            for (key, is_added) in steps {
                if is_added && readers.find(guid(key)).is_none() {
                    readers.push(proxy(key));
                } else if !is_added {
                    let is_known = readers.iter().any(|reader| reader.info.guid == guid(key));
                    prop_assert_eq!(readers.remove(guid(key)), is_known);
                }
                for key in 0..6 {
                    let expected = readers.iter().position(|reader| reader.info.guid == guid(key));
                    prop_assert_eq!(readers.position(guid(key)), expected);
                    prop_assert_eq!(readers.find_mut(guid(key)).is_some(), expected.is_some());
                }
            }
        }
    }
}
