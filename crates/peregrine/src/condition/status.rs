//! Conditions on the communication statuses of an entity (DDS 1.4 §2.2.2.1.9).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;

use super::Trigger;
use crate::driver::domain::Domain;
use crate::driver::topic::TopicCore;
use crate::driver::{StatusState, Watched};
use crate::status::StatusMask;

/// True while one of the enabled statuses of an entity has changed and was not read since. Each entity has one.
#[derive(Clone)]
pub struct StatusCondition {
    pub(super) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    source: Arc<dyn StatusSource>,
    enabled: AtomicU32,
}

/// An entity as its [`StatusCondition`] sees it.
pub(crate) trait StatusSource: Send + Sync {
    /// The statuses that have changed and were not read since.
    fn changes(&self) -> StatusMask;

    fn watch(&self, interest: StatusMask, waker: Waker) -> u64;

    fn unwatch(&self, id: u64);

    fn domain(&self) -> &Arc<Domain>;
}

impl StatusCondition {
    /// The one condition of a topic, whichever handle asks.
    pub(crate) fn of_topic(core: &Arc<TopicCore>) -> Self {
        Self { inner: core.shared(|| Self::new(Arc::clone(core) as Arc<_>).inner) }
    }

    /// All statuses are enabled at first.
    pub(crate) fn new(source: Arc<dyn StatusSource>) -> Self {
        Self { inner: Arc::new(Inner { source, enabled: AtomicU32::new(StatusMask::ALL.bits()) }) }
    }

    /// The statuses that make it true.
    #[must_use]
    pub fn enabled_statuses(&self) -> StatusMask {
        StatusMask::from_bits(self.inner.enabled.load(Ordering::Acquire))
    }

    /// Chooses the statuses that make it true. A wait set that has it attached takes note at its next wait.
    pub fn set_enabled_statuses(&self, mask: StatusMask) {
        self.inner.enabled.store(mask.bits(), Ordering::Release);
    }
}

impl Trigger for Inner {
    fn is_triggered(&self) -> bool {
        self.source.changes().intersects(StatusMask::from_bits(self.enabled.load(Ordering::Acquire)))
    }

    fn watch(&self, waker: Waker) -> u64 {
        self.source.watch(StatusMask::ALL, waker)
    }

    fn unwatch(&self, id: u64) {
        self.source.unwatch(id);
    }

    fn domain(&self) -> Option<&Arc<Domain>> {
        Some(self.source.domain())
    }
}

impl std::fmt::Debug for StatusCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusCondition").field("enabled_statuses", &self.enabled_statuses()).finish_non_exhaustive()
    }
}

/// An entity that has no statuses of its own.
pub(crate) struct NoStatuses(pub(crate) Arc<Domain>);

impl StatusSource for NoStatuses {
    fn changes(&self) -> StatusMask {
        StatusMask::NONE
    }

    fn watch(&self, _: StatusMask, _: Waker) -> u64 {
        0
    }

    fn unwatch(&self, _: u64) {}

    fn domain(&self) -> &Arc<Domain> {
        &self.0
    }
}

impl<C> StatusSource for C
where
    C: Watched + Send + Sync,
    C::State: StatusState,
{
    fn changes(&self) -> StatusMask {
        self.state().changed()
    }

    fn watch(&self, interest: StatusMask, waker: Waker) -> u64 {
        C::wakers(&mut self.state()).add(interest, waker)
    }

    fn unwatch(&self, id: u64) {
        C::wakers(&mut self.state()).remove(id);
    }

    fn domain(&self) -> &Arc<Domain> {
        Watched::domain(self)
    }
}
