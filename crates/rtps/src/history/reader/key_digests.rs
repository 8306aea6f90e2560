//! The instances of encrypted samples by the MD5 digests of their keys.
//!
//! Where payloads are encrypted, the key hash in the inline QoS is the MD5 digest of the key (DDS Security 1.2 §7.4.4),
//! also of a key with at most 16 bytes, which otherwise is its own hash and so the handle of its instance. Fast DDS
//! identifies the instance that ends by the key hash alone.

use super::{Instance, KeyDigest, ReaderHistory};
use crate::id::KeyHash;

impl ReaderHistory {
    /// Keeps the digests of the keys of all later instances, for [`Self::instance_with_digest`].
    pub fn index_digests(&mut self) {
        if self.by_digest.is_none() && self.config.key_digest.is_some() {
            self.by_digest = Some(Self::map(self.config.seed));
        }
    }

    /// The instance that a writer of encrypted payloads names by this key hash: a known one whose key has this digest,
    /// otherwise the one with this handle.
    #[must_use]
    pub fn instance_with_digest(&self, hash: KeyHash) -> KeyHash {
        let found = self.by_digest.as_ref().and_then(|indices| self.instances.get(*indices.get(&hash)?));
        found.map_or(hash, |instance| instance.key)
    }

    /// Keeps the digest of an instance whose serialized key has become known.
    pub(super) fn add_digest(&mut self, index: u32) {
        let digest = self.instances.get(index).and_then(|instance| self.digest_of(instance));
        if let (Some(indices), Some(digest)) = (&mut self.by_digest, digest) {
            indices.insert(digest, index);
        }
    }

    /// Drops the digest of an instance that is no longer known.
    pub(super) fn remove_digest(&mut self, instance: &Instance) {
        let digest = self.digest_of(instance);
        if let (Some(indices), Some(digest)) = (&mut self.by_digest, digest) {
            indices.remove(&digest);
        }
    }

    fn digest_of(&self, instance: &Instance) -> Option<KeyHash> {
        let KeyDigest(digest) = self.config.key_digest.filter(|_| self.by_digest.is_some())?;
        digest(instance.key_holder.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Arrival, ChangeKind, KeyHolder, ReaderHistoryConfig, WriterSlot};
    use crate::id::{EntityId, Guid, GuidPrefix};
    use crate::payload::{BufferPool, Payload};
    use crate::seq::SequenceNumber;
    use crate::time::{Instant, Timestamp};

    fn handle(key: u8) -> KeyHash {
        KeyHash([key; 16])
    }

    fn digest(key: u8) -> KeyHash {
        KeyHash([!key; 16])
    }

    /// A cache whose samples are serialized keys.
    fn cache() -> ReaderHistory {
        let key_holder = Some(KeyHolder(|payload, _| Some(payload.to_vec())));
        let key_digest = Some(KeyDigest(|key| key.get(4).copied().map(digest)));
        ReaderHistory::new(ReaderHistoryConfig { key_holder, key_digest, ..ReaderHistoryConfig::default() })
    }

    fn put(cache: &mut ReaderHistory, key: u8) {
        let mut arrival = Arrival {
            kind: ChangeKind::Alive,
            instance: handle(key),
            writer: Guid::new(GuidPrefix([1; 12]), EntityId::user_writer(1, true)),
            slot: WriterSlot(1),
            strength: 0,
            sequence_number: SequenceNumber(i64::from(key)),
            source_timestamp: Timestamp::from_unix_nanos(1),
            reception_timestamp: Timestamp::from_unix_nanos(1),
            order_timestamp: Timestamp::from_unix_nanos(1),
            expires_at: Instant::FAR_FUTURE,
            payload: Payload::copy_of(&[0, 7, 0, 0, key, 0, 0, 0]),
        };
        cache.insert(Instant(1), &mut arrival, &mut BufferPool::new(0)).unwrap();
    }

    #[test]
    fn instance_is_found_by_the_digest_of_its_key_as_long_as_it_is_known() {
        let mut cache = cache();
        cache.index_digests();
        (1..=3).for_each(|key| put(&mut cache, key));
        for key in 1..=3 {
            assert_eq!(cache.instance_with_digest(digest(key)), handle(key));
            assert_eq!(cache.instance_with_digest(handle(key)), handle(key));
        }
        assert_eq!(cache.instance_with_digest(digest(4)), digest(4));
        let index = cache.by_key[&handle(2)];
        cache.drop_instance(index);
        assert_eq!(cache.instance_with_digest(digest(2)), digest(2));
        assert_eq!(cache.by_digest.as_ref().unwrap().len(), 2);
    }

    #[test]
    fn digest_is_no_name_of_an_instance_where_samples_are_not_encrypted() {
        let mut cache = cache();
        put(&mut cache, 1);
        assert_eq!(cache.instance_with_digest(digest(1)), digest(1));
    }
}
