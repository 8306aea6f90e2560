//! The threads that run queued listeners. A receive thread runs only the listeners of the readers for which it has
//! received ([`shared_receiver`](super::shared_receiver)).
//!
//! A thread that is about to run a listener makes sure that another one is [spare](SpareThreads), that is, sleeps here
//! or is about to check the queue. A blocked listener therefore occupies one thread, and there are never more threads
//! than concurrent listeners plus two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use peregrine_rtps::time::Instant;

use super::spare_threads::SpareThreads;
use crate::driver::base::clock::NEVER;
use crate::driver::base::parker::Parker;
use crate::driver::base::sync::lock_leaf;

/// Threads that sleep at a time: see [`shared_receiver`](super::shared_receiver).
const IDLE_MAX: usize = 2;

/// The queue that the threads take from.
pub(super) trait QueuedListeners {
    fn has_some(&self) -> bool;

    /// Runs the next one.
    fn run_next(&self);

    /// Starts another thread that [runs](ListenerThreads::run) listeners. Returns whether that was possible.
    fn start_thread(&self) -> bool;
}

/// See the [module](self).
pub(super) struct ListenerThreads {
    /// Threads that sleep or are about to.
    idle: Mutex<Vec<Arc<Parker>>>,
    spare: SpareThreads,
    is_closing: AtomicBool,
}

impl Default for ListenerThreads {
    fn default() -> Self {
        Self { idle: Mutex::default(), spare: SpareThreads::new(0), is_closing: AtomicBool::new(false) }
    }
}

impl ListenerThreads {
    /// The loop of a thread, until the domain closes, or until there are enough others.
    pub(super) fn run(&self, queue: &impl QueuedListeners) {
        let parker = Parker::of_this_thread();
        while !self.is_closing() {
            while !self.is_closing() && queue.has_some() {
                let _busy = self.spare.begin_busy();
                self.ensure_spare_thread(queue);
                queue.run_next();
            }
            if !self.become_idle(&parker) {
                if self.spare.may_end() {
                    return;
                }
                continue;
            }
            // A thread that queues a listener from here on wakes this one.
            if !self.is_closing() && !queue.has_some() {
                parker.park_until(Instant(NEVER));
            }
            self.idle().retain(|other| !Arc::ptr_eq(other, &parker));
        }
    }

    /// Has a thread run what was queued.
    pub(super) fn wake(&self, queue: &impl QueuedListeners) {
        self.ensure_spare_thread(queue);
        let thread = self.idle().pop();
        thread.into_iter().for_each(|thread| thread.unpark());
    }

    /// Ends all threads, as far as they do not run user code.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        let threads = self.idle().clone();
        threads.iter().for_each(|thread| thread.unpark());
    }

    /// `false`: enough threads sleep without this one.
    fn become_idle(&self, parker: &Arc<Parker>) -> bool {
        let mut idle = self.idle();
        let is_needed = idle.len() < IDLE_MAX;
        if is_needed {
            idle.push(Arc::clone(parker));
        }
        is_needed
    }

    fn ensure_spare_thread(&self, queue: &impl QueuedListeners) {
        if !self.is_closing() {
            self.spare.ensure(|| queue.start_thread());
        }
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Arc<Parker>>> {
        lock_leaf(&self.idle)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::mpsc;
    use std::thread::JoinHandle;

    use super::*;

    /// Jobs in place of listeners.
    #[derive(Default)]
    struct Jobs {
        threads: ListenerThreads,
        queue: Mutex<VecDeque<Box<dyn FnOnce() + Send>>>,
        started: Mutex<Vec<JoinHandle<()>>>,
        /// Threads that are started run when this is free.
        starting: Mutex<()>,
    }

    struct Queue(Arc<Jobs>);

    impl QueuedListeners for Queue {
        fn has_some(&self) -> bool {
            !lock_leaf(&self.0.queue).is_empty()
        }

        fn run_next(&self) {
            let job = lock_leaf(&self.0.queue).pop_front();
            job.into_iter().for_each(|job| job());
        }

        fn start_thread(&self) -> bool {
            let jobs = Arc::clone(&self.0);
            let thread = std::thread::spawn(move || {
                drop(lock_leaf(&jobs.starting));
                jobs.threads.run(&Queue(Arc::clone(&jobs)));
            });
            lock_leaf(&self.0.started).push(thread);
            true
        }
    }

    impl Queue {
        fn push(&self, job: impl FnOnce() + Send + 'static) {
            lock_leaf(&self.0.queue).push_back(Box::new(job));
            self.0.threads.wake(self);
        }

        fn end(self) -> usize {
            self.0.threads.close();
            let threads = std::mem::take(&mut *lock_leaf(&self.0.started));
            let count = threads.len();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            count
        }
    }

    #[test]
    fn queued_jobs_start_one_thread_until_that_thread_runs() {
        let queue = Queue(Arc::default());
        let jobs = Arc::clone(&queue.0);
        let not_yet = lock_leaf(&jobs.starting);
        let (ran, running) = mpsc::sync_channel(100);
        for number in 0..100 {
            let ran = ran.clone();
            queue.push(move || ran.send(number).unwrap());
        }
        assert_eq!(lock_leaf(&jobs.started).len(), 1);
        drop(not_yet);
        // A spare thread takes some of them, so they may end in another order.
        let mut ended: Vec<i32> = running.iter().take(100).collect();
        ended.sort_unstable();
        assert!((0..100).eq(ended));
        assert!(queue.end() <= 3);
    }

    #[test]
    fn job_behind_blocked_ones_runs_on_another_thread() {
        let queue = Queue(Arc::default());
        let (ran, running) = mpsc::sync_channel(1);
        let mut blocked = Vec::new();
        for number in 0..4 {
            let (go, wait) = mpsc::sync_channel::<()>(1);
            let ran = ran.clone();
            queue.push(move || {
                ran.send(number).unwrap();
                let _ = wait.recv();
            });
            assert_eq!(running.recv().unwrap(), number, "the jobs before it are blocked");
            blocked.push(go);
        }
        drop(blocked);
        for number in 0..100 {
            let ran = ran.clone();
            queue.push(move || ran.send(number).unwrap());
            assert_eq!(running.recv().unwrap(), number);
        }
        assert!(queue.end() >= 4);
    }
}
