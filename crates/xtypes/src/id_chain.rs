//! Member ids, checked at compile time.
#![allow(clippy::indexing_slicing, reason = "evaluated by the compiler, which refuses an index out of bounds")]

/// The member ids of a structure and of its base structures.
#[derive(Clone, Copy, Debug)]
pub struct IdChain {
    /// The ids of the structure's own members.
    pub own: &'static [u32],
    /// The ids of its base structure.
    pub base: Option<&'static IdChain>,
}

impl IdChain {
    /// Whether every id of the chain differs from every other and fits 28 bits.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        let mut i = 0;
        while i < self.own.len() {
            if self.own[i] > 0x0fff_ffff || occurs(self.own, i + 1, self.own[i]) {
                return false;
            }
            let mut base = self.base;
            while let Some(chain) = base {
                if occurs(chain.own, 0, self.own[i]) {
                    return false;
                }
                base = chain.base;
            }
            i += 1;
        }
        true
    }

    /// Whether the ids ascend.
    #[must_use]
    pub const fn ascends(ids: &[u32]) -> bool {
        let mut i = 1;
        while i < ids.len() {
            if ids[i - 1] >= ids[i] {
                return false;
            }
            i += 1;
        }
        true
    }
}

const fn occurs(ids: &[u32], from: usize, id: u32) -> bool {
    let mut i = from;
    while i < ids.len() {
        if ids[i] == id {
            return true;
        }
        i += 1;
    }
    false
}
