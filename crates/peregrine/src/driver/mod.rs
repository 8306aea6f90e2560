//! The only threads and locks: sockets on one side, the state machines of `peregrine-rtps` on the other.
//!
//! # Threads
//! One set of sockets and threads per process and domain:
//! - a **data** thread for each socket that receives user data, blocked in one `recvmsg`. It delivers to readers, runs
//!   their listeners, and sends their acknowledgements;
//! - one **control** thread for discovery and for all timers, asleep until the next deadline.
//!
//! Nobody else is needed to send: whoever writes, sends; but a **publishing** thread for writers that are asynchronous,
//! started with the first of them ([`publishing`]). To readers of this process samples go without sockets and threads
//! ([`delivery`]). Whoever waits again and again receives itself, in place of the
//! data thread: see [`reception`].
//!
//! # Locks
//! Always in this order: a participant's, then an endpoint's. No lock is held across a system call or while user code
//! runs.

mod adaptive_spin;
mod deadline_cell;
pub(crate) mod domain;
pub(crate) mod flow;
mod groups;
pub(crate) mod listener_gate;
mod listener_queue;
mod local_delivery;
mod network;
pub(crate) mod observer;
mod open;
mod outbox;
mod parker;
pub(crate) mod participant;
mod publishing;
pub(crate) mod reader;
mod registry;
mod send;
mod shared_receiver;
mod shm;
mod socket_barrier;
pub(crate) mod topic;
pub(crate) mod wakers;
pub(crate) mod writer;

use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_transport::clock::{MonotonicNs, RealtimeNs};

use crate::status::StatusMask;
pub(crate) use parker::Parker;
use wakers::Wakers;

/// A deadline that never comes.
const NEVER: u64 = u64::MAX;

pub(crate) fn now() -> Instant {
    Instant(MonotonicNs::now().0)
}

pub(crate) fn wall() -> Timestamp {
    Timestamp::from_unix_nanos(RealtimeNs::now().0)
}

/// The wall clock's time at a moment that was read a moment ago: cheaper than reading it too.
#[inline]
pub(crate) fn wall_at(now: Instant) -> Timestamp {
    Timestamp::from_unix_nanos(RealtimeNs::at(MonotonicNs(now.0)).0)
}

/// A part of an entity that somebody may wait for, with the lock that its news happen under.
pub(crate) trait Watched {
    /// What is under the lock.
    type State;

    fn domain(&self) -> &Arc<domain::Domain>;

    fn state(&self) -> MutexGuard<'_, Self::State>;

    fn wakers(state: &mut Self::State) -> &mut Wakers;
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
) -> Option<(R, MutexGuard<'_, C::State>)> {
    let mut state = core.state();
    if let Some(answer) = check(&mut state) {
        return Some((answer, state));
    }
    let parker = Parker::of_this_thread();
    let id = C::wakers(&mut state).add(interest, Waker::from(Arc::clone(&parker)));
    loop {
        drop(state);
        let is_over = now() >= end;
        core.domain().park(&parker, end);
        state = core.state();
        let answer = check(&mut state);
        if answer.is_some() || is_over {
            C::wakers(&mut state).remove(id);
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
        let mut state = core.state();
        if let Some(answer) = check(&mut state) {
            return Poll::Ready(answer);
        }
        *waiting = Some(C::wakers(&mut state).renew(*waiting, *interest, context.waker()));
        Poll::Pending
    }
}

impl<C: Watched, F> Drop for Until<C, F> {
    fn drop(&mut self) {
        if let Some(id) = self.waiting {
            C::wakers(&mut self.core.state()).remove(id);
        }
    }
}
