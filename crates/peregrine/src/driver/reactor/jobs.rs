//! The thread for jobs that take milliseconds: signatures and key agreements of handshakes.

use std::collections::VecDeque;
use std::sync::Arc;

use peregrine_rtps::time::Instant;

use crate::driver::base::clock::NEVER;
use crate::driver::base::parker::Parker;
use crate::driver::base::sync::lock_leaf;
use crate::driver::base::system::{Mutex, OnceLock};

/// Maximum number of jobs that wait. Each participant has a few at a time.
pub(super) const JOBS_MAX: usize = 4096;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// The jobs of a domain. One thread runs them, which starts with the first.
#[derive(Default)]
pub(super) struct Jobs {
    state: Mutex<State>,
    thread: OnceLock<Arc<Parker>>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    is_started: bool,
    is_closed: bool,
}

impl Jobs {
    /// Queues a job. `start` starts the thread, the first time only, and returns whether that was possible. Returns
    /// `false` if the job cannot run: it is dropped then, under no lock.
    pub(super) fn add(&self, job: Job, start: impl FnOnce() -> bool) -> bool {
        let mut state = lock_leaf(&self.state);
        if state.is_closed || state.queue.len() >= JOBS_MAX {
            drop(state);
            drop(job);
            return false;
        }
        state.queue.push_back(job);
        debug_assert!(state.queue.len() <= JOBS_MAX);
        let must_start = !std::mem::replace(&mut state.is_started, true);
        drop(state);
        if must_start && !start() {
            let mut state = lock_leaf(&self.state);
            state.is_started = false;
            // Other threads may have added jobs since, which relied on this thread to start the other one.
            let stranded = std::mem::take(&mut state.queue);
            drop(state);
            drop(stranded);
            return false;
        }
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
        true
    }

    /// The body of the thread, until the domain closes.
    pub(super) fn run(&self) {
        let parker = Parker::of_this_thread();
        // A thread that queues a job adds it first, then reads which thread to wake.
        let _ = self.thread.set(Arc::clone(&parker));
        loop {
            let mut state = lock_leaf(&self.state);
            if state.is_closed {
                return;
            }
            let job = state.queue.pop_front();
            drop(state);
            match job {
                Some(job) => job(),
                None => parker.park_until(Instant(NEVER)),
            }
        }
    }

    /// Ends the thread, and drops the jobs that wait.
    pub(super) fn close(&self) {
        let mut state = lock_leaf(&self.state);
        state.is_closed = true;
        let left = std::mem::take(&mut state.queue);
        drop(state);
        drop(left);
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn jobs_run_in_order_on_one_thread_and_none_after_the_end() {
        let jobs = Arc::new(Jobs::default());
        let (done, results) = mpsc::sync_channel(8);
        let mut thread = None;
        for number in 0..5 {
            let done = done.clone();
            let job = Box::new(move || done.send((number, std::thread::current().id())).unwrap());
            let of = Arc::clone(&jobs);
            let start = || {
                thread = Some(std::thread::spawn(move || of.run()));
                true
            };
            assert!(jobs.add(job, start));
        }
        let worker = thread.expect("the first job has started the thread");
        let ran: Vec<_> = (0..5).map(|_| results.recv().unwrap()).collect();
        assert_eq!(ran, (0..5).map(|number| (number, worker.thread().id())).collect::<Vec<_>>());
        jobs.close();
        worker.join().unwrap();
        assert!(!jobs.add(Box::new(|| {}), || true));
    }

    #[test]
    fn jobs_without_thread_are_dropped_under_no_lock() {
        let jobs = Arc::new(Jobs::default());
        let dropped = Arc::new(AtomicUsize::new(0));
        let job = |jobs: &Arc<Jobs>| {
            let on_drop = OnDrop(Arc::clone(jobs), Arc::clone(&dropped));
            Box::new(move || drop(on_drop)) as Job
        };
        // A second thread adds a job before the first knows that the thread for jobs cannot start.
        let start = || {
            assert!(jobs.add(job(&jobs), || unreachable!("the first job starts the thread")));
            false
        };
        assert!(!jobs.add(job(&jobs), start));
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        assert!(jobs.add(job(&jobs), || true), "the next job starts the thread");
        jobs.close();
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
        assert!(!jobs.add(job(&jobs), || true));
        assert_eq!(dropped.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn job_past_the_bound_is_dropped() {
        let jobs = Jobs::default();
        for _ in 0..JOBS_MAX {
            assert!(jobs.add(Box::new(|| {}), || true));
        }
        assert!(!jobs.add(Box::new(|| {}), || true));
    }

    /// Takes the lock of the jobs when it is dropped.
    struct OnDrop(Arc<Jobs>, Arc<AtomicUsize>);

    impl Drop for OnDrop {
        fn drop(&mut self) {
            assert!(self.0.state.try_lock().is_ok(), "a job is dropped under the lock of the jobs");
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
}
