//! How a thread of the application sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Wake;
use std::thread::Thread;
use std::time::Duration;

use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::event;

use super::now;
use super::reception::{self, Visits};

/// A thread that sleeps until it is woken. Waking it costs a system call only while it sleeps.
pub(crate) struct Parker {
    thread: Thread,
    woken: AtomicBool,
    /// It sleeps at the socket, or is about to.
    receiving: AtomicBool,
    /// What ends its sleep there.
    waker: Mutex<Weak<event::Waker>>,
    pub(super) visits: Visits,
}

impl Parker {
    /// That of the calling thread.
    pub(crate) fn of_this_thread() -> Arc<Self> {
        thread_local! {
            static PARKER: Arc<Parker> = Arc::new(Parker::new());
        }
        // While the thread ends, what belongs to it may be gone already.
        PARKER.try_with(Arc::clone).unwrap_or_else(|_| Arc::new(Self::new()))
    }

    fn new() -> Self {
        Self {
            thread: std::thread::current(),
            woken: AtomicBool::new(false),
            receiving: AtomicBool::new(false),
            waker: Mutex::new(Weak::new()),
            visits: Visits::default(),
        }
    }

    /// Sleeps until woken, or until `end`. To be called on its own thread.
    pub(crate) fn park_until(&self, end: Instant) {
        while !self.woken.swap(false, Ordering::SeqCst) {
            let left = end.since(now());
            if left == Span::ZERO {
                return;
            }
            std::thread::park_timeout(Duration::from_nanos(left.0));
        }
    }

    pub(crate) fn unpark(&self) {
        if self.woken.swap(true, Ordering::SeqCst) || self.thread.id() == std::thread::current().id() {
            return;
        }
        reception::note_woken();
        if self.receiving.load(Ordering::SeqCst) {
            let waker = self.waker().upgrade();
            if let Some(waker) = waker {
                waker.wake();
            }
        } else {
            self.thread.unpark();
        }
    }

    /// From here on it sleeps at a socket, where this wakes it, between [`Self::is_woken_before_sleep`] and
    /// [`Self::is_awake`].
    pub(super) fn receives_at(&self, waker: &Arc<event::Waker>) {
        let mut kept = self.waker();
        if kept.as_ptr() != Arc::as_ptr(waker) {
            *kept = Arc::downgrade(waker);
        }
    }

    /// Whether it was woken, which is over by that. If not, whoever wakes it from here on does so at the socket.
    pub(super) fn is_woken_before_sleep(&self) -> bool {
        self.receiving.store(true, Ordering::SeqCst);
        // Whoever wakes says so first, then looks where.
        let is_woken = self.woken.swap(false, Ordering::SeqCst);
        if is_woken {
            self.is_awake();
        }
        is_woken
    }

    /// It does not sleep now.
    pub(super) fn is_awake(&self) {
        self.receiving.store(false, Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(super) fn thread_id(&self) -> std::thread::ThreadId {
        self.thread.id()
    }

    /// Whether it was woken.
    pub(super) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::SeqCst)
    }

    fn waker(&self) -> MutexGuard<'_, Weak<event::Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
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
