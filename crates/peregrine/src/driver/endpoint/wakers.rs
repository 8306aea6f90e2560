//! The threads and tasks that wait for events of an entity, and the lock that guards their list.
//!
//! An executor's waker is user code: the waker runs only after the lock is released ([`StateGuard`]), and on a thread
//! that may run user code.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::task::Waker;

use peregrine_rtps::seq::SequenceNumber;

use crate::driver::base::sync::{self, Guard};
use crate::driver::base::system::Mutex;
use crate::driver::base::user_code::UserCode;
use crate::status::StatusMask;

/// Wakers with ids, by which they can be removed.
///
/// There is one for each thread, task and condition of the application that waits. A waiter removes its own when it
/// stops waiting, so the number of waiters bounds the list.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    slots: Vec<Slot>,
    next: u64,
}

thread_local! {
    /// The number of tasks that the thread has woken.
    static TASKS_WOKEN: Cell<u32> = const { Cell::new(0) };
}

/// The number of tasks that the calling thread had woken at a point in time.
pub(in crate::driver) struct TasksWoken(u32);

impl TasksWoken {
    pub(in crate::driver) fn so_far() -> Self {
        Self(TASKS_WOKEN.with(Cell::get))
    }

    /// Whether the thread has woken further tasks since.
    pub(in crate::driver) fn are_more(&self) -> bool {
        TASKS_WOKEN.with(Cell::get) != self.0
    }
}

#[derive(Debug)]
struct Slot {
    id: u64,
    awaited: Awaited,
    waker: SlotWaker,
}

/// The reason for which a thread, task or condition waits. Requests to readers are derived from the waiters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// A change of one of these statuses.
    Status(StatusMask),
    /// All readers have acknowledged the samples up to this one.
    Acknowledged(SequenceNumber),
    /// Room for one more sample, in the history or in the send queue.
    Room,
    /// Shared memory for one more sample.
    Memory,
}

impl From<StatusMask> for Awaited {
    fn from(mask: StatusMask) -> Self {
        Self::Status(mask)
    }
}

impl Awaited {
    fn is_concerned(self, news: StatusMask) -> bool {
        let mask = match self {
            Self::Status(mask) => mask,
            Self::Acknowledged(_) => StatusMask::ACKNOWLEDGED,
            Self::Memory => StatusMask::MEMORY | StatusMask::ACKNOWLEDGED | StatusMask::PUBLICATION_MATCHED,
            Self::Room => StatusMask::ACKNOWLEDGED | StatusMask::PUBLICATION_MATCHED,
        };
        mask.intersects(news)
    }
}

#[derive(Debug)]
enum SlotWaker {
    /// The waker of a thread or a condition: woken by each event.
    Lasting(Waker),
    /// The waker of a task: woken once, then [renewed](Wakers::renew) when the task is polled. `None`: woken already.
    Once(Option<Waker>),
}

impl Wakers {
    /// Adds a waker that is woken at every event of this kind until it is removed. For wakers of the driver itself,
    /// which are cloned under the lock.
    pub(crate) fn add(&mut self, awaited: Awaited, waker: Waker) -> u64 {
        self.push(awaited, SlotWaker::Lasting(waker))
    }

    /// The reason of each waiter.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = Awaited> {
        self.slots.iter().map(|slot| slot.awaited)
    }

    /// Sets the waker of a task, which is woken once, at the next event of this kind. Replaces the previous waker of
    /// the task.
    pub(crate) fn renew(&mut self, id: Option<u64>, awaited: Awaited, waker: Waker) -> u64 {
        let Some(slot) = self.slots.iter_mut().find(|slot| Some(slot.id) == id) else {
            return self.push(awaited, SlotWaker::Once(Some(waker)));
        };
        let id = slot.id;
        let old = std::mem::replace(&mut slot.waker, SlotWaker::Once(Some(waker)));
        drop_later(old);
        id
    }

    /// Removes a waker.
    pub(crate) fn remove(&mut self, id: u64) {
        if let Some(at) = self.slots.iter().position(|slot| slot.id == id) {
            let slot = self.slots.remove(at);
            drop_later(slot.waker);
        }
    }

    /// Wakes the waiters for these statuses when the lock is released.
    pub(crate) fn wake(&mut self, news: StatusMask) {
        self.wake_those(|awaited| awaited.is_concerned(news));
    }

    /// Wakes all waiters when the lock is released.
    pub(crate) fn wake_all(&mut self) {
        self.wake_those(|_| true);
    }

    /// Whether no thread and no task waits.
    pub(crate) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn push(&mut self, awaited: Awaited, waker: SlotWaker) -> u64 {
        self.next += 1;
        self.slots.push(Slot { id: self.next, awaited, waker });
        self.next
    }

    fn wake_those(&mut self, is_meant: impl Fn(Awaited) -> bool) {
        for slot in self.slots.iter_mut().filter(|slot| is_meant(slot.awaited)) {
            let code = match &mut slot.waker {
                SlotWaker::Lasting(waker) => Some(UserCode::WakeOwn(waker.clone())),
                SlotWaker::Once(waker) => {
                    TASKS_WOKEN.with(|woken| woken.set(woken.get().wrapping_add(1)));
                    waker.take().map(UserCode::Wake)
                }
            };
            code.into_iter().for_each(UserCode::run_unlocked);
        }
    }
}

/// The waker of a task is dropped when the lock is released.
fn drop_later(waker: SlotWaker) {
    if let SlotWaker::Once(Some(waker)) = waker {
        UserCode::DropWaker(waker).run_unlocked();
    }
}

/// A state under a lock, with the wakers of its waiters.
pub(crate) trait HasWakers {
    fn wakers(&mut self) -> &mut Wakers;
}

impl HasWakers for Wakers {
    fn wakers(&mut self) -> &mut Wakers {
        self
    }
}

/// The lock of an entity's state. Wakers that were [woken](Wakers::wake) or removed under the lock run and are dropped
/// after its release.
pub(crate) struct StateGuard<'c, S: HasWakers> {
    state: Guard<'c, S>,
}

impl<'c, S: HasWakers> StateGuard<'c, S> {
    #[inline]
    pub(crate) fn lock(state: &'c Mutex<S>) -> Self {
        Self { state: sync::lock(state) }
    }

    #[inline]
    pub(crate) fn try_lock(state: &'c Mutex<S>) -> Option<Self> {
        sync::try_lock(state).map(|state| Self { state })
    }
}

impl<S: HasWakers> Deref for StateGuard<'_, S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        &self.state
    }
}

impl<S: HasWakers> DerefMut for StateGuard<'_, S> {
    #[inline]
    fn deref_mut(&mut self) -> &mut S {
        &mut self.state
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    const NEWS: StatusMask = StatusMask::DATA_AVAILABLE;

    /// A waker that takes the lock in every operation of a waker.
    struct Locks {
        state: Arc<Mutex<Wakers>>,
        calls: AtomicUsize,
    }

    impl Wake for Locks {
        fn wake(self: Arc<Self>) {
            assert!(self.state.try_lock().is_ok(), "woken under the lock");
            self.calls.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Drop for Locks {
        fn drop(&mut self) {
            assert!(self.state.try_lock().is_ok(), "dropped under the lock");
        }
    }

    fn locks() -> (Arc<Mutex<Wakers>>, Arc<Locks>) {
        let state = Arc::<Mutex<Wakers>>::default();
        (Arc::clone(&state), Arc::new(Locks { state, calls: AtomicUsize::new(0) }))
    }

    #[test]
    fn wakers_run_after_the_lock_is_released() {
        let (state, locks) = locks();
        let lasting = Arc::new(Locks { state: Arc::clone(&state), calls: AtomicUsize::new(0) });
        let mut guard = StateGuard::lock(&state);
        guard.add(NEWS.into(), Waker::from(Arc::clone(&lasting)));
        guard.renew(None, NEWS.into(), Waker::from(Arc::clone(&locks)));
        guard.wake(StatusMask::SAMPLE_LOST);
        guard.wake(NEWS);
        assert_eq!(locks.calls.load(Ordering::SeqCst), 0);
        drop(guard);
        assert_eq!((locks.calls.load(Ordering::SeqCst), lasting.calls.load(Ordering::SeqCst)), (1, 1));
    }

    #[test]
    fn waker_of_a_task_is_woken_once_until_renewed() {
        let (state, locks) = locks();
        let id = StateGuard::lock(&state).renew(None, NEWS.into(), Waker::from(Arc::clone(&locks)));
        (0..2).for_each(|_| StateGuard::lock(&state).wake(NEWS));
        assert_eq!(locks.calls.load(Ordering::SeqCst), 1);
        assert_eq!(StateGuard::lock(&state).renew(Some(id), NEWS.into(), Waker::from(Arc::clone(&locks))), id);
        StateGuard::lock(&state).wake_all();
        assert_eq!((locks.calls.load(Ordering::SeqCst), StateGuard::lock(&state).len()), (2, 1));
    }

    #[test]
    fn number_of_waiters_bounds_the_list_however_often_they_are_woken_and_renewed() {
        let mut wakers = Wakers::default();
        let renew = |wakers: &mut Wakers, id| wakers.renew(id, NEWS.into(), Waker::noop().clone());
        let waiters: Vec<u64> = (0..1_000).map(|_| renew(&mut wakers, None)).collect();
        for _ in 0..3 {
            waiters.iter().for_each(|id| assert_eq!(renew(&mut wakers, Some(*id)), *id));
            wakers.wake(NEWS);
        }
        assert_eq!(wakers.len(), waiters.len());
        waiters.iter().for_each(|id| wakers.remove(*id));
        assert!(wakers.is_empty());
    }

    #[test]
    fn replaced_and_removed_wakers_are_dropped_without_the_lock() {
        let (state, locks) = locks();
        let id = StateGuard::lock(&state).renew(None, NEWS.into(), Waker::from(locks));
        let other = Arc::new(Locks { state: Arc::clone(&state), calls: AtomicUsize::new(0) });
        StateGuard::lock(&state).renew(Some(id), NEWS.into(), Waker::from(other));
        StateGuard::lock(&state).remove(id);
        assert!(StateGuard::lock(&state).is_empty());
    }
}
