//! Conditions on the communication statuses of an entity (DDS 1.4 §2.2.2.1.9).

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Waker;

use super::trigger::{Trigger, condition};
use crate::driver::base::sync::{Guard, lock};
use crate::driver::endpoint::topic::TopicCore;
use crate::driver::endpoint::waiting::{StatusState, Waitable};
use crate::driver::endpoint::wakers::HasWakers;
use crate::driver::host::{Host, Hosted};
use crate::status::StatusMask;

/// True while one of the enabled statuses of an entity has changed and is unread. Each entity has one such condition.
#[derive(Clone)]
pub struct StatusCondition {
    pub(super) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    source: Arc<dyn StatusSource>,
    enabled: AtomicU32,
    /// Finds the entity while the entity has handles. The modules of entities depend on this module, so the type is
    /// erased.
    entity: OnceLock<Box<FindEntity>>,
    /// Wait sets to which the condition is attached. They are woken when the enabled statuses change.
    watches: Mutex<Vec<Watch>>,
}

type FindEntity = dyn Fn() -> Option<Box<dyn Any>> + Send + Sync;

struct Watch {
    /// The id of the waker at the source.
    of_source: u64,
    id: u64,
    waker: Waker,
}

/// An entity as its [`StatusCondition`] sees it.
pub(crate) trait StatusSource: Send + Sync {
    /// The statuses that have changed and are unread.
    fn changes(&self) -> StatusMask;

    fn watch(&self, interest: StatusMask, waker: Waker) -> u64;

    fn unwatch(&self, id: u64);

    fn host(&self) -> &Arc<dyn Host>;
}

impl StatusCondition {
    /// The condition of a topic, which all handles of the topic share.
    pub(crate) fn of_topic(core: &Arc<TopicCore>) -> Self {
        Self { inner: core.shared(|| Self::new(Arc::clone(core) as Arc<_>).inner) }
    }

    /// Creates a condition with all statuses enabled.
    pub(crate) fn new(source: Arc<dyn StatusSource>) -> Self {
        let enabled = AtomicU32::new(StatusMask::ALL.bits());
        Self { inner: Arc::new(Inner { source, enabled, entity: OnceLock::new(), watches: Mutex::new(Vec::new()) }) }
    }

    /// Sets the function that finds the entity. A second call changes nothing: the handles of a topic share one
    /// condition, and the function of each handle finds the same topic.
    pub(crate) fn set_find_entity(&self, find: Box<FindEntity>) {
        let _ = self.inner.entity.set(find);
    }

    /// The entity, in the type that the function from [`Self::set_find_entity`] returns.
    pub(crate) fn find_entity(&self) -> Option<Box<dyn Any>> {
        self.inner.entity.get().and_then(|find| find())
    }

    /// The statuses that make the condition true.
    #[must_use]
    pub fn enabled_statuses(&self) -> StatusMask {
        StatusMask::from_bits(self.inner.enabled.load(Ordering::SeqCst))
    }

    /// Sets the statuses that make the condition true. A thread that waits on a wait set with this condition checks the
    /// condition again at once (DDS 1.4 §2.2.2.1.9.1).
    pub fn set_enabled_statuses(&self, mask: StatusMask) {
        // A waiting thread clears its signal, then reads the mask. Both accesses are sequentially consistent, so either
        // this thread or the waiting thread sees the other's store.
        self.inner.enabled.store(mask.bits(), Ordering::SeqCst);
        let wakers: Vec<Waker> = self.inner.watches().iter().map(|watch| watch.waker.clone()).collect();
        // Without the lock, because a waker is user code.
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Inner {
    fn watches(&self) -> Guard<'_, Vec<Watch>> {
        lock(&self.watches)
    }
}

condition!(StatusCondition);

impl Trigger for Inner {
    fn is_triggered(&self) -> bool {
        self.source.changes().intersects(StatusMask::from_bits(self.enabled.load(Ordering::SeqCst)))
    }

    fn watch(&self, waker: Waker) -> u64 {
        let of_source = self.source.watch(StatusMask::ALL, waker.clone());
        let mut watches = self.watches();
        let id = watches.last().map_or(0, |last| last.id + 1);
        watches.push(Watch { of_source, id, waker });
        id
    }

    fn unwatch(&self, id: u64) {
        let mut watches = self.watches();
        let gone = watches.iter().position(|watch| watch.id == id).map(|at| watches.remove(at));
        drop(watches);
        if let Some(gone) = gone {
            self.source.unwatch(gone.of_source);
        }
    }

    fn host(&self) -> Option<&Arc<dyn Host>> {
        Some(self.source.host())
    }
}

impl std::fmt::Debug for StatusCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusCondition").field("enabled_statuses", &self.enabled_statuses()).finish_non_exhaustive()
    }
}

/// The status source of an entity without statuses.
pub(crate) struct NoStatuses(pub(crate) Arc<dyn Host>);

impl StatusSource for NoStatuses {
    fn changes(&self) -> StatusMask {
        StatusMask::NONE
    }

    fn watch(&self, _: StatusMask, _: Waker) -> u64 {
        0
    }

    fn unwatch(&self, _: u64) {}

    fn host(&self) -> &Arc<dyn Host> {
        &self.0
    }
}

impl<C> StatusSource for C
where
    C: Waitable + Hosted + Send + Sync,
    C::State: StatusState,
{
    fn changes(&self) -> StatusMask {
        self.state().changed()
    }

    fn watch(&self, interest: StatusMask, waker: Waker) -> u64 {
        self.state().wakers().add(interest.into(), waker)
    }

    fn unwatch(&self, id: u64) {
        self.state().wakers().remove(id);
    }

    fn host(&self) -> &Arc<dyn Host> {
        Hosted::host(self)
    }
}
