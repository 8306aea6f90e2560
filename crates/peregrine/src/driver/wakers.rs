//! Who wants to be woken when an entity has news.

use std::task::Waker;

use crate::status::StatusMask;

/// Wakers under numbers, so that each can be taken back.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    slots: Vec<Slot>,
    next: u64,
}

#[derive(Debug)]
struct Slot {
    id: u64,
    interest: StatusMask,
    waker: Waker,
}

impl Wakers {
    /// Wakes `waker` at every piece of news of this kind from now on, until taken back.
    pub(crate) fn add(&mut self, interest: StatusMask, waker: Waker) -> u64 {
        self.next += 1;
        self.slots.push(Slot { id: self.next, interest, waker });
        self.next
    }

    /// The same, for somebody who may have left a waker before.
    pub(crate) fn renew(&mut self, id: Option<u64>, interest: StatusMask, waker: &Waker) -> u64 {
        match self.slots.iter_mut().find(|slot| Some(slot.id) == id) {
            Some(slot) => {
                slot.waker.clone_from(waker);
                slot.id
            }
            None => self.add(interest, waker.clone()),
        }
    }

    /// Takes a waker back.
    pub(crate) fn remove(&mut self, id: u64) {
        self.slots.retain(|slot| slot.id != id);
    }

    /// There is news of these kinds. To be called without any lock but the one these wakers are under: waking never
    /// runs user code other than that of an executor's waker.
    pub(crate) fn wake(&self, news: StatusMask) {
        self.slots.iter().filter(|slot| slot.interest.intersects(news)).for_each(|slot| slot.waker.wake_by_ref());
    }

    /// There is news that concerns everybody.
    pub(crate) fn wake_all(&self) {
        self.slots.iter().for_each(|slot| slot.waker.wake_by_ref());
    }

    /// Whether nobody wants to be woken.
    pub(crate) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}
