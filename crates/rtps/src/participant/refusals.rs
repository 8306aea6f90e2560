//! Participants that the gate has refused lately, so that each refusal is reported once.

use alloc::collections::VecDeque;

use crate::id::GuidPrefix;
use crate::limits::REFUSALS_REMEMBERED_MAX;

/// The last refusals, by participant, with the hash of the reason.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    last: VecDeque<(GuidPrefix, u64)>,
}

impl Refusals {
    /// Notes a refusal. Returns whether it is a new one.
    pub(super) fn note(&mut self, prefix: GuidPrefix, reason: u64) -> bool {
        if self.last.contains(&(prefix, reason)) {
            return false;
        }
        self.last.retain(|(known, _)| *known != prefix);
        if self.last.len() >= REFUSALS_REMEMBERED_MAX {
            self.last.pop_front();
        }
        self.last.push_back((prefix, reason));
        debug_assert!(self.last.len() <= REFUSALS_REMEMBERED_MAX);
        true
    }

    /// A participant is no longer refused.
    pub(super) fn forget(&mut self, prefix: GuidPrefix) {
        self.last.retain(|(known, _)| *known != prefix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_new_until_remembered_and_the_oldest_is_forgotten() {
        let prefix = |n: usize| GuidPrefix([(n / 200) as u8, (n % 200) as u8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
        let mut refusals = Refusals::default();
        assert!(refusals.note(prefix(0), 1) && !refusals.note(prefix(0), 1));
        assert!(refusals.note(prefix(0), 2), "another reason");
        for n in 1..=REFUSALS_REMEMBERED_MAX {
            assert!(refusals.note(prefix(n), 1));
        }
        assert_eq!(refusals.last.len(), REFUSALS_REMEMBERED_MAX);
        assert!(refusals.note(prefix(0), 2));
        refusals.forget(prefix(0));
        assert!(refusals.note(prefix(0), 2));
    }
}
