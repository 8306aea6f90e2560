//! Conditions that the application sets itself (DDS 1.4 §2.2.2.1.8).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use super::trigger::{Trigger, condition};
use crate::driver::endpoint::wakers::{StateGuard, Wakers};
use crate::driver::host::Host;

/// A condition whose value the application sets. Clones are handles of the same condition.
#[derive(Clone, Debug, Default)]
pub struct GuardCondition {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    is_set: AtomicBool,
    wakers: Mutex<Wakers>,
}

impl GuardCondition {
    /// Creates a condition that is false.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of the condition.
    pub fn set_trigger_value(&self, value: bool) {
        // A waiting thread clears its signal first and then reads `is_set`.
        self.inner.is_set.store(value, Ordering::SeqCst);
        if value {
            StateGuard::lock(&self.inner.wakers).wake_all();
        }
    }
}

condition!(GuardCondition);

impl Trigger for Inner {
    fn is_triggered(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    fn watch(&self, waker: Waker) -> u64 {
        StateGuard::lock(&self.wakers).add(crate::StatusMask::NONE.into(), waker)
    }

    fn unwatch(&self, id: u64) {
        StateGuard::lock(&self.wakers).remove(id);
    }

    fn host(&self) -> Option<&Arc<dyn Host>> {
        None
    }
}
