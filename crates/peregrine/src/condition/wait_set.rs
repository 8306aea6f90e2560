//! Waiting for conditions (DDS 1.4 §2.2.2.1.6).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::Duration;

use peregrine_rtps::time::Span;

use super::trigger::Condition;
use crate::driver::base::clock::now;
use crate::driver::base::parker::Parker;
use crate::driver::base::sync::{Guard, lock};
use crate::driver::host::Host;
use crate::error::{Error, Precondition, Timeout};

/// Waits until one of the conditions attached to it is true.
///
/// Waking a thread that sleeps costs one system call, waking a thread that is about to sleep none; neither allocates.
pub struct WaitSet {
    signal: Arc<Signal>,
    /// Replaced as a whole, so that a thread evaluates conditions without a lock.
    attached: Mutex<Arc<[Attached]>>,
    is_waiting: AtomicBool,
}

#[derive(Clone)]
struct Attached {
    condition: Condition,
    watch: u64,
}

/// The waker that conditions call.
struct Signal {
    /// A condition may have become true since the waiting thread cleared this flag. While it is set, that thread does
    /// not sleep.
    is_set: AtomicBool,
    sleeper: Mutex<Option<Arc<Parker>>>,
}

/// How long a thread that waits for several polled domains polls one of them.
const POLLING_TURN: Span = Span::from_millis(1);

/// The polled domains of a wait, by the conditions attached. The thread polls each of them in turn.
#[derive(Default)]
struct PolledTurns {
    last: usize,
}

impl WaitSet {
    /// Creates a wait set without conditions.
    #[must_use]
    pub fn new() -> Self {
        Self {
            signal: Arc::new(Signal { is_set: AtomicBool::new(false), sleeper: Mutex::new(None) }),
            attached: Mutex::new(Arc::new([])),
            is_waiting: AtomicBool::new(false),
        }
    }

    /// Attaches a condition. A running wait includes the condition at once. Attaching an attached condition has no
    /// effect.
    pub fn attach(&self, condition: impl Into<Condition>) {
        let condition = condition.into();
        let mut attached = self.lock();
        if attached.iter().any(|a| a.condition == condition) {
            return;
        }
        let watch = condition.0.watch(Waker::from(Arc::clone(&self.signal)));
        *attached = attached.iter().cloned().chain([Attached { condition, watch }]).collect();
        drop(attached);
        self.signal.set();
    }

    /// Detaches a condition.
    ///
    /// # Errors
    /// [`Error::PreconditionNotMet`] if the condition is not attached.
    pub fn detach(&self, condition: impl Into<Condition>) -> Result<(), Error> {
        let condition = condition.into();
        let mut attached = self.lock();
        let Some(found) = attached.iter().find(|a| a.condition == condition) else {
            return Err(Precondition::NotAttached.into());
        };
        condition.0.unwatch(found.watch);
        let left = attached.iter().filter(|a| a.condition != condition).cloned().collect();
        let before = std::mem::replace(&mut *attached, left);
        drop(attached);
        // The condition may be the last handle of a query of the application: the query is dropped without the lock.
        drop(before);
        Ok(())
    }

    /// The attached conditions.
    #[must_use]
    pub fn conditions(&self) -> Vec<Condition> {
        self.lock().iter().map(|a| a.condition.clone()).collect()
    }

    /// Waits until at least one condition is true, and returns the conditions that are true.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::PreconditionNotMet`] if another thread waits on this wait set.
    pub fn wait(&self, timeout: Duration) -> Result<Vec<Condition>, Error> {
        let mut active = Vec::new();
        self.wait_into(&mut active, timeout)?;
        Ok(active)
    }

    /// [`Self::wait`] with a vector of the caller, which is cleared first. With enough capacity the call allocates
    /// nothing.
    ///
    /// # Errors
    /// See [`Self::wait`].
    pub fn wait_into(&self, active: &mut Vec<Condition>, timeout: Duration) -> Result<(), Error> {
        if self.is_waiting.swap(true, Ordering::AcqRel) {
            return Err(Precondition::AlreadyWaiting.into());
        }
        let waiting = Waiting(self);
        let found = self.wait_alone(active, timeout);
        drop(waiting);
        if found {
            return Ok(());
        }
        let conditions = self.lock().len();
        Err(Timeout::NoCondition { conditions, waited: timeout }.into())
    }

    fn wait_alone(&self, active: &mut Vec<Condition>, timeout: Duration) -> bool {
        let end = now() + timeout.into();
        let parker = Parker::of_this_thread();
        let mut turns = PolledTurns::default();
        *lock(&self.signal.sleeper) = Some(Arc::clone(&parker));
        loop {
            let attached = Arc::clone(&self.lock());
            // A condition that becomes true from here on sets the signal again.
            self.signal.is_set.store(false, Ordering::SeqCst);
            active.clear();
            active.extend(attached.iter().map(|a| &a.condition).filter(|c| c.trigger_value()).cloned());
            if !active.is_empty() {
                return true;
            }
            if now() >= end {
                return false;
            }
            // A query of the application may itself have waited and thereby consumed the wake-up of this thread.
            if self.signal.is_set.load(Ordering::SeqCst) {
                continue;
            }
            let mut hosts = attached.iter().filter_map(Attached::host);
            if let Some((host, has_others)) = turns.next(&attached) {
                let turn_end = if has_others { end.min(now() + POLLING_TURN) } else { end };
                host.park(&parker, turn_end);
            } else if let Some(host) = hosts.next() {
                host.park(&parker, end);
            } else {
                parker.park_until(end);
            }
        }
    }

    fn lock(&self) -> Guard<'_, Arc<[Attached]>> {
        lock(&self.attached)
    }
}

/// Marks the waiting thread. The guard also handles a panic of a query of the application.
struct Waiting<'s>(&'s WaitSet);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        *lock(&self.0.signal.sleeper) = None;
        self.0.is_waiting.store(false, Ordering::Release);
    }
}

impl Attached {
    fn host(&self) -> Option<&Arc<dyn Host>> {
        self.condition.0.host()
    }

    fn polled_host(&self) -> Option<&Arc<dyn Host>> {
        self.host().filter(|host| host.is_polled())
    }
}

impl PolledTurns {
    /// The domain that the thread polls next, and whether there are others; `None` if the thread polls none.
    fn next<'a>(&mut self, attached: &'a [Attached]) -> Option<(&'a Arc<dyn Host>, bool)> {
        let last = attached.get(self.last).and_then(Attached::polled_host);
        let is_other = |host: &Arc<dyn Host>| last.is_none_or(|last| !is_same(last, host));
        let others = attached.iter().enumerate().cycle().skip(self.last).take(attached.len());
        let other =
            others.filter_map(|(at, attached)| Some((at, attached.polled_host()?))).find(|(_, host)| is_other(host));
        let Some((at, host)) = other else { return last.map(|last| (last, false)) };
        self.last = at;
        let has_others = attached.iter().filter_map(Attached::polled_host).any(|other| !is_same(other, host));
        Some((host, has_others))
    }
}

fn is_same(one: &Arc<dyn Host>, other: &Arc<dyn Host>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

impl Signal {
    fn set(&self) {
        if self.is_set.swap(true, Ordering::SeqCst) {
            return;
        }
        // The waiting thread may itself make a condition true, by a timer that it runs, and then ends its own sleep.
        if let Some(parker) = &*lock(&self.sleeper) {
            parker.unpark();
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.set();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set();
    }
}

impl Default for WaitSet {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for WaitSet {
    fn drop(&mut self) {
        for Attached { condition, watch } in self.lock().iter() {
            condition.0.unwatch(*watch);
        }
    }
}

impl std::fmt::Debug for WaitSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitSet").field("conditions", &self.conditions()).finish()
    }
}
