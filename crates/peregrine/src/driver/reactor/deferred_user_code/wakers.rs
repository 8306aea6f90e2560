//! Wakers of tasks that wait for a thread that may run them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;

use crate::driver::base::sync::lock_leaf;
use crate::driver::base::user_code::{self, UserCode};
use crate::driver::host::listener_gate::{AfterRun, ListenerGate};
use crate::driver::host::listener_queue::RunListener;
use crate::status::StatusMask;

/// Entries of tasks whose wakers neither wait nor run, kept so that a steady state allocates nothing.
const IDLE_MAX: usize = 256;

/// The wakers that wait, and those that run.
///
/// Each task has one entry, which a task of the application that waits can use once: the number of tasks, and
/// [`IDLE_MAX`], is the bound.
/// A task that is woken again before its waker has run, or while the waker runs, is woken once more.
#[derive(Default)]
pub(super) struct DeferredWakers {
    calls: Arc<Mutex<Calls>>,
}

#[derive(Default)]
struct Calls {
    by_task: HashMap<Task, Call>,
    /// The number of entries that are idle.
    idle: usize,
}

/// The identity of a task: two wakers with the same data and functions wake the same task ([`Waker::will_wake`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Task {
    data: usize,
    functions: usize,
}

struct Call {
    /// `None` while the waker runs and the task was not woken again, and while the entry is idle.
    waiting: Option<Waker>,
    is_idle: bool,
    entry: Arc<TaskWaker>,
}

/// An entry of the listener queue.
pub(super) struct TaskWaker {
    gate: ListenerGate,
    task: Task,
    calls: Weak<Mutex<Calls>>,
}

impl DeferredWakers {
    /// Adds a waker. Returns the entry to put into the listener queue, if any, and a waker of the same task that the
    /// new one replaces.
    pub(super) fn add(&self, waker: Waker) -> (Option<Arc<TaskWaker>>, Option<Waker>) {
        let task = Task::of(&waker);
        let mut calls = lock_leaf(&self.calls);
        let Calls { by_task, idle } = &mut *calls;
        let call = by_task.entry(task).or_insert_with(|| {
            let entry = TaskWaker { gate: ListenerGate::default(), task, calls: Arc::downgrade(&self.calls) };
            Call { waiting: None, is_idle: false, entry: Arc::new(entry) }
        });
        *idle -= usize::from(std::mem::take(&mut call.is_idle));
        let replaced = call.waiting.replace(waker);
        let must_queue = call.entry.gate.add(StatusMask::ALL) && call.entry.gate.set_queued();
        (must_queue.then(|| Arc::clone(&call.entry)), replaced)
    }

    /// The wakers that wait.
    pub(super) fn take_all(&self) -> Vec<Waker> {
        let calls = std::mem::take(&mut *lock_leaf(&self.calls));
        calls.by_task.into_values().filter_map(|call| call.waiting).collect()
    }

    /// The number of wakers that wait or run.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let calls = lock_leaf(&self.calls);
        calls.by_task.len() - calls.idle
    }

    /// The number of entries, with those that are idle.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        lock_leaf(&self.calls).by_task.len()
    }
}

impl Calls {
    /// The waker of a task has returned. The tasks of idle entries may have ended: when there are too many, all go.
    fn rest(&mut self, task: Task) {
        let Self { by_task, idle } = self;
        let Some(call) = by_task.get_mut(&task).filter(|call| call.waiting.is_none() && !call.is_idle) else { return };
        call.is_idle = true;
        *idle += 1;
        if *idle > IDLE_MAX {
            by_task.retain(|_, call| !call.is_idle);
            *idle = 0;
        }
        debug_assert!(*idle <= IDLE_MAX);
    }
}

impl Task {
    fn of(waker: &Waker) -> Self {
        Self { data: waker.data().addr(), functions: std::ptr::from_ref(waker.vtable()).addr() }
    }
}

impl TaskWaker {
    fn wake(&self) {
        let Some(calls) = self.calls.upgrade() else { return };
        let waker = lock_leaf(&calls).by_task.get_mut(&self.task).and_then(|call| call.waiting.take());
        let Some(waker) = waker else { return };
        // Until this clone is dropped, no other task has the same identity.
        user_code::wake_by_ref(&waker);
        lock_leaf(&calls).rest(self.task);
        UserCode::DropWaker(waker).run();
    }
}

impl RunListener for TaskWaker {
    fn gate(&self) -> &ListenerGate {
        &self.gate
    }

    fn run_listener(&self) -> AfterRun {
        self.gate.run(|_| self.wake())
    }
}
