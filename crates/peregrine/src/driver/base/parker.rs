//! Sleep of application threads.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::Wake;

use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::clock::MonotonicNs;

use super::clock::now;
use super::sync::lock_leaf;
use super::system::{AtomicBool, Mutex, MutexGuard, Thread, Waker, current_thread, park_until, thread_local};

thread_local! {
    /// The number of other threads that this thread has woken.
    static OTHERS_WOKEN: Cell<u32> = const { Cell::new(0) };
    /// Where the samples have arrived for which this thread wakes others.
    static WAKES_FOR: Cell<Option<Place>> = const { Cell::new(None) };
}

/// Where samples arrive, and where a thread that waits for them can receive them itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::driver) enum Place {
    Sockets,
    SharedMemory,
}

/// While this lives, the calling thread wakes others because of samples that have arrived at one place. The woken
/// threads receive there when they wait again.
pub(in crate::driver) struct WakesFor {
    before: Option<Place>,
}

impl WakesFor {
    pub(in crate::driver) fn samples_at(place: Place) -> Self {
        Self { before: WAKES_FOR.with(|wakes_for| wakes_for.replace(Some(place))) }
    }
}

impl Drop for WakesFor {
    fn drop(&mut self) {
        WAKES_FOR.with(|wakes_for| wakes_for.set(self.before));
    }
}

/// Ends the sleep of a thread that receives.
pub(in crate::driver) trait EndSleep: Send + Sync {
    fn end_sleep(&self);
}

impl EndSleep for Waker {
    fn end_sleep(&self) {
        self.wake();
    }
}

/// The number of threads that the calling thread had woken at a point in time.
pub(in crate::driver) struct OthersWoken(u32);

impl OthersWoken {
    pub(in crate::driver) fn so_far() -> Self {
        Self(OTHERS_WOKEN.with(Cell::get))
    }

    /// Whether the thread has woken further threads since.
    pub(in crate::driver) fn are_more(&self) -> bool {
        OTHERS_WOKEN.with(Cell::get) != self.0
    }
}

/// A thread that sleeps until it is woken. Waking it costs a system call only while it sleeps.
pub(crate) struct Parker {
    thread: Thread,
    woken: Arc<AtomicBool>,
    /// The thread sleeps where it receives, or is about to.
    receiving: AtomicBool,
    /// Ends that sleep.
    end_sleep: Mutex<Option<Weak<dyn EndSleep>>>,
    /// The last samples for which the thread was woken came by shared memory.
    is_at_shared_memory: AtomicBool,
}

impl Parker {
    /// The parker of the calling thread.
    pub(crate) fn of_this_thread() -> Arc<Self> {
        thread_local! {
            static PARKER: Arc<Parker> = Arc::new(Parker::new());
        }
        // While the thread ends, its thread-local variables may be destroyed already.
        PARKER.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(Self::new()))
    }

    fn new() -> Self {
        Self {
            thread: current_thread(),
            woken: Arc::default(),
            receiving: AtomicBool::new(false),
            end_sleep: Mutex::new(None),
            is_at_shared_memory: AtomicBool::new(false),
        }
    }

    /// Sleeps until woken, or until `end`. The thread of the parker calls this.
    pub(crate) fn park_until(&self, end: Instant) {
        while !self.woken.swap(false, Ordering::SeqCst) {
            let left = end.since(now());
            if left == Span::ZERO {
                return;
            }
            park_until(MonotonicNs(end.0), &self.woken);
        }
    }

    pub(crate) fn unpark(&self) {
        if let Some(place) = WAKES_FOR.with(Cell::get) {
            let is_at_shared_memory = place == Place::SharedMemory;
            if self.is_at_shared_memory.load(Ordering::Relaxed) != is_at_shared_memory {
                self.is_at_shared_memory.store(is_at_shared_memory, Ordering::Relaxed);
            }
        }
        if self.woken.swap(true, Ordering::SeqCst) || self.thread.id() == current_thread().id() {
            return;
        }
        OTHERS_WOKEN.with(|woken| woken.set(woken.get().wrapping_add(1)));
        if self.receiving.load(Ordering::SeqCst) {
            let end_sleep = self.end_sleep().as_ref().and_then(Weak::upgrade);
            if let Some(end_sleep) = end_sleep {
                end_sleep.end_sleep();
            }
        } else {
            self.thread.unpark();
        }
    }

    /// Where the thread receives when it waits.
    pub(in crate::driver) fn place(&self) -> Place {
        if self.is_at_shared_memory.load(Ordering::Relaxed) { Place::SharedMemory } else { Place::Sockets }
    }

    /// From here on the thread receives between [`Self::is_woken_before_sleep`] and [`Self::is_awake`], and `end_sleep`
    /// wakes it there.
    pub(in crate::driver) fn receives_at<E: EndSleep + 'static>(&self, end_sleep: &Arc<E>) {
        let mut kept = self.end_sleep();
        if !kept.as_ref().is_some_and(|kept| ptr::addr_eq(kept.as_ptr(), Arc::as_ptr(end_sleep))) {
            let end_sleep: Weak<E> = Arc::downgrade(end_sleep);
            *kept = Some(end_sleep);
        }
    }

    /// Consumes a wake-up, and returns whether there was one. If there was none, later wake-ups go to the place where
    /// the thread receives.
    pub(in crate::driver) fn is_woken_before_sleep(&self) -> bool {
        self.receiving.store(true, Ordering::SeqCst);
        // A waking thread sets `woken` first and then reads `receiving`.
        let is_woken = self.woken.swap(false, Ordering::SeqCst);
        if is_woken {
            self.is_awake();
        }
        is_woken
    }

    /// The thread does not sleep any more.
    pub(in crate::driver) fn is_awake(&self) {
        self.receiving.store(false, Ordering::SeqCst);
    }

    /// Whether the thread was woken since the last call. The thread of the parker calls this.
    pub(in crate::driver) fn take_wake_up(&self) -> bool {
        self.woken.load(Ordering::SeqCst) && self.woken.swap(false, Ordering::SeqCst)
    }

    /// Whether the thread was woken.
    pub(in crate::driver) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    fn end_sleep(&self) -> MutexGuard<'_, Option<Weak<dyn EndSleep>>> {
        lock_leaf(&self.end_sleep)
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}
