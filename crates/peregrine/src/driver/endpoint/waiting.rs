//! Waits of threads and futures for an entity.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use peregrine_rtps::time::Instant;

use super::wakers::{Awaited, HasWakers, StateGuard};
use crate::driver::base::clock::now;
use crate::driver::base::parker::Parker;
use crate::status::StatusMask;

/// A part of an entity that threads may wait for, with the lock under which it changes.
pub(crate) trait Waitable {
    /// The state under the lock.
    type State: HasWakers;

    /// The calling thread sleeps until its `parker` is woken, or until `end`. It may return earlier.
    fn park(&self, parker: &Arc<Parker>, end: Instant);

    fn state(&self) -> StateGuard<'_, Self::State>;

    /// Requests from peers exactly the reports that the waiters need now. Called whenever a waiter arrives, leaves or
    /// checks.
    fn sync_demand(&self, _state: &mut Self::State) {}
}

/// The state, under its lock, of an entity that has statuses.
pub(crate) trait StatusState {
    fn changed(&self) -> StatusMask;
}

/// Waits until `check` returns an answer; `None` after `timeout`. `check` runs again after each event of the kind
/// `awaited`. Under `Poll`, this thread receives.
pub(crate) fn wait_until<C: Waitable, R>(
    core: &C,
    timeout: Duration,
    awaited: impl Into<Awaited>,
    check: impl FnMut(&mut C::State) -> Option<R>,
) -> Option<R> {
    wait_locked(core, now() + timeout.into(), awaited.into(), check).map(|(answer, _)| answer)
}

/// [`wait_until`] with an end time. Returns with the lock held under which `check` returned the answer.
pub(crate) fn wait_locked<C: Waitable, R>(
    core: &C,
    end: Instant,
    awaited: Awaited,
    mut check: impl FnMut(&mut C::State) -> Option<R>,
) -> Option<(R, StateGuard<'_, C::State>)> {
    let mut state = core.state();
    if let Some(answer) = check(&mut state) {
        return Some((answer, state));
    }
    let parker = Parker::of_this_thread();
    let id = state.wakers().add(awaited, Waker::from(Arc::clone(&parker)));
    core.sync_demand(&mut state);
    let mut is_over = false;
    loop {
        let answer = check(&mut state);
        if answer.is_some() || is_over {
            state.wakers().remove(id);
            core.sync_demand(&mut state);
            return answer.map(|answer| (answer, state));
        }
        drop(state);
        is_over = now() >= end;
        core.park(&parker, end);
        state = core.state();
        core.sync_demand(&mut state);
    }
}

/// A future that is ready when `check` returns an answer. Dropping it removes its waker.
pub(crate) struct WaitFuture<C: Waitable, F> {
    core: Arc<C>,
    awaited: Awaited,
    check: F,
    waiting: Option<u64>,
}

impl<C: Waitable, F> WaitFuture<C, F> {
    pub(crate) fn new(core: Arc<C>, awaited: impl Into<Awaited>, check: F) -> Self {
        Self { core, awaited: awaited.into(), check, waiting: None }
    }
}

impl<C: Waitable, R, F: FnMut(&mut C::State) -> Option<R> + Unpin> Future for WaitFuture<C, F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        let Self { core, awaited, check, waiting } = &mut *self;
        // Cloned, and dropped if not needed, without the lock.
        let waker = context.waker().clone();
        let mut state = core.state();
        core.sync_demand(&mut state);
        if let Some(answer) = check(&mut state) {
            return Poll::Ready(answer);
        }
        let is_new = waiting.is_none();
        *waiting = Some(state.wakers().renew(*waiting, *awaited, waker));
        if is_new {
            core.sync_demand(&mut state);
            // The condition may hold already.
            if let Some(answer) = check(&mut state) {
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    }
}

impl<C: Waitable, F> Drop for WaitFuture<C, F> {
    fn drop(&mut self) {
        if let Some(id) = self.waiting {
            let mut state = self.core.state();
            state.wakers().remove(id);
            self.core.sync_demand(&mut state);
        }
    }
}
