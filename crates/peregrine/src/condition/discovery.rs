//! Conditions on what a participant finds and loses in the domain (DDS 1.4 §2.2.5).

use std::sync::Arc;
use std::task::Waker;

use super::trigger::{Trigger, condition};
use crate::driver::host::Host;
use crate::driver::session::participant::ParticipantCore;
use crate::status::StatusMask;

/// True while [`DiscoveryEvents`](crate::DiscoveryEvents) has events that the application has not taken, and after its
/// participant was closed. Clones are the same condition.
#[derive(Clone)]
pub struct DiscoveryCondition {
    pub(super) inner: Arc<Events>,
}

pub(super) struct Events {
    core: Arc<ParticipantCore>,
    observer: u64,
}

impl DiscoveryCondition {
    pub(crate) fn new(core: Arc<ParticipantCore>, observer: u64) -> Self {
        Self { inner: Arc::new(Events { core, observer }) }
    }
}

condition!(DiscoveryCondition);

impl Trigger for Events {
    fn is_triggered(&self) -> bool {
        let locked = self.core.lock();
        locked.is_closing() || locked.observers.iter().any(|o| o.id() == self.observer && o.has_some())
    }

    fn watch(&self, waker: Waker) -> u64 {
        self.core.lock().wakers.add(StatusMask::ALL.into(), waker)
    }

    fn unwatch(&self, id: u64) {
        self.core.lock().wakers.remove(id);
    }

    fn host(&self) -> Option<&Arc<dyn Host>> {
        Some(&self.core.host)
    }
}

impl std::fmt::Debug for DiscoveryCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiscoveryCondition").finish_non_exhaustive()
    }
}
