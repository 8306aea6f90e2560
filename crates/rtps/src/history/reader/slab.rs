//! A store whose entries keep their index.

use alloc::vec::Vec;

/// Values at stable, small indices.
#[derive(Debug)]
pub(super) struct Slab<T> {
    pub(super) slots: Vec<Option<T>>,
    free: Vec<u32>,
    pub(super) len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn insert(&mut self, value: T) -> u32 {
        self.insert_with(|| value)
    }

    /// Like [`Self::insert`], but constructs the value in place.
    #[inline]
    pub(super) fn insert_with(&mut self, make: impl FnOnce() -> T) -> u32 {
        self.len += 1;
        if let Some(index) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            *slot = None;
            *slot = Some(make());
            return index;
        }
        self.slots.push(Some(make()));
        self.slots.len() as u32 - 1
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        self.len -= 1;
        Some(value)
    }

    /// Like [`Self::remove`], but drops the value.
    pub(super) fn release(&mut self, index: u32) {
        if let Some(slot) = self.slots.get_mut(index as usize).filter(|slot| slot.is_some()) {
            *slot = None;
            self.free.push(index);
            self.len -= 1;
        }
    }
}
