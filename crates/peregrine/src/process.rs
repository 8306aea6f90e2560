//! GUID prefixes by which a process knows its own participants.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
#[cfg(feature = "security")]
use std::{collections::BTreeSet, sync::Mutex};

use peregrine_rtps::id::GuidPrefix;
use peregrine_rtps::vendor::VendorId;
use peregrine_transport::random;

#[cfg(feature = "security")]
use crate::driver::base::sync::lock_leaf;
use crate::error::Error;

/// Bytes of a prefix that are random; the others are their mark.
const RANDOM_BYTES: usize = 6;

/// The key of the marks, which no other process knows.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A prefix for a participant of this process. Peers cannot predict it from other prefixes of the process.
pub(crate) fn new_prefix() -> Result<GuidPrefix, Error> {
    let mut unique = [0; 10];
    let (random, mark) = unique.split_at_mut(RANDOM_BYTES);
    random::fill(random).map_err(Error::system)?;
    mark.copy_from_slice(&mark_of(random));
    Ok(GuidPrefix::new(VendorId::PEREGRINE, unique))
}

/// Prefixes of participants of this process that follow from their certificates, and so have no mark. A process makes
/// few of them in its lifetime.
#[cfg(feature = "security")]
static CERTIFIED: Mutex<BTreeSet<GuidPrefix>> = Mutex::new(BTreeSet::new());

/// Notes a prefix of a participant of this process that has no mark.
#[cfg(feature = "security")]
pub(crate) fn note_own_prefix(prefix: GuidPrefix) {
    lock_leaf(&CERTIFIED).insert(prefix);
}

/// Whether the prefix was made by this process. The answer is wrong for one prefix of four thousand million that other
/// processes make.
pub(crate) fn is_own_prefix(prefix: &GuidPrefix) -> bool {
    let [vendor @ .., _, _, _, _, _, _, _, _, _, _] = prefix.0;
    let [_, _, random @ .., _, _, _, _] = prefix.0;
    let [.., a, b, c, d] = prefix.0;
    #[cfg(feature = "security")]
    if lock_leaf(&CERTIFIED).contains(prefix) {
        return true;
    }
    vendor == VendorId::PEREGRINE.0 && mark_of(&random) == [a, b, c, d]
}

fn mark_of(random: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = KEY.hash_one(random).to_ne_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn process_knows_its_own_prefixes_only() {
        let own: BTreeSet<_> = (0..100).map(|_| new_prefix().unwrap()).collect();
        assert_eq!(own.len(), 100);
        for prefix in own {
            assert!(is_own_prefix(&prefix), "{prefix}");
            for at in 0..prefix.0.len() {
                let mut changed = prefix;
                changed.0[at] ^= 1;
                assert!(!is_own_prefix(&changed), "{changed}");
            }
        }
    }
}
