//! How threads and futures wait for an entity.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use peregrine_rtps::time::Instant;

use super::clock::now;
use super::parker::Parker;
use super::wakers::{HasWakers, StateGuard};
use crate::status::StatusMask;

/// A place for threads to sleep.
pub(crate) trait Park {
    /// Sleeps until `parker`, that of the calling thread, is woken, or until `end`; may return earlier.
    fn park(&self, parker: &Arc<Parker>, end: Instant);
}

/// A part of an entity that somebody may wait for, with the lock that its news happen under.
pub(crate) trait Watched {
    /// The state under the lock.
    type State: HasWakers;
    /// Where a thread sleeps that waits.
    type Domain: Park;

    fn domain(&self) -> &Arc<Self::Domain>;

    fn state(&self) -> StateGuard<'_, Self::State>;
}

/// What is under the lock of an entity that has statuses.
pub(crate) trait StatusState {
    fn changed(&self) -> StatusMask;
}

/// Waits until `check` has an answer, or `None` when `timeout` is over. It is asked again whenever there is news of the
/// kinds in `interest`. Under `Poll`, this thread does the receiving.
pub(crate) fn wait_until<C: Watched, R>(
    core: &C,
    timeout: Duration,
    interest: StatusMask,
    check: impl FnMut(&mut C::State) -> Option<R>,
) -> Option<R> {
    wait_locked(core, now() + timeout.into(), interest, check).map(|(answer, _)| answer)
}

/// The same, until `end`. The lock under which there was an answer is still held.
pub(crate) fn wait_locked<C: Watched, R>(
    core: &C,
    end: Instant,
    interest: StatusMask,
    mut check: impl FnMut(&mut C::State) -> Option<R>,
) -> Option<(R, StateGuard<'_, C::State>)> {
    let mut state = core.state();
    if let Some(answer) = check(&mut state) {
        return Some((answer, state));
    }
    let parker = Parker::of_this_thread();
    let id = state.wakers().add(interest, Waker::from(Arc::clone(&parker)));
    loop {
        drop(state);
        let is_over = now() >= end;
        core.domain().park(&parker, end);
        state = core.state();
        let answer = check(&mut state);
        if answer.is_some() || is_over {
            state.wakers().remove(id);
            return answer.map(|answer| (answer, state));
        }
    }
}

/// A future that is ready when `check` has an answer. Dropping it takes its waker back.
pub(crate) struct Until<C: Watched, F> {
    core: Arc<C>,
    interest: StatusMask,
    check: F,
    waiting: Option<u64>,
}

impl<C: Watched, F> Until<C, F> {
    pub(crate) const fn new(core: Arc<C>, interest: StatusMask, check: F) -> Self {
        Self { core, interest, check, waiting: None }
    }
}

impl<C: Watched, R, F: FnMut(&mut C::State) -> Option<R> + Unpin> Future for Until<C, F> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        let Self { core, interest, check, waiting } = &mut *self;
        // Cloned, and dropped if not needed, without the lock.
        let waker = context.waker().clone();
        let mut state = core.state();
        if let Some(answer) = check(&mut state) {
            return Poll::Ready(answer);
        }
        *waiting = Some(state.wakers().renew(*waiting, *interest, waker));
        Poll::Pending
    }
}

impl<C: Watched, F> Drop for Until<C, F> {
    fn drop(&mut self) {
        if let Some(id) = self.waiting {
            self.core.state().wakers().remove(id);
        }
    }
}
