//! Under `Poll`: application threads do the work of the domain's threads.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use peregrine_rtps::history::{Selected, Selector};
use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::clock::MonotonicNs;
use peregrine_transport::event::Token;
use peregrine_transport::udp::Receiver;
use tracing::Level;

use super::poll_state::PollState;
use super::{Domain, FIRST_SOCKET, WAKER, receiver_options};
use crate::driver::base::clock;
use crate::driver::base::clock::{NEVER, now};
use crate::driver::base::parker::Parker;
use crate::driver::base::sync::try_lock_leaf;
use crate::driver::base::user_code::{self, Deferring, log};
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::outbox;
use crate::driver::endpoint::reader::ReaderCore;
use crate::driver::endpoint::wakers::TasksWoken;
use crate::driver::shm::SharedMemory;
use crate::driver::shm::direct_take::{DirectTake, PollBudget};
use crate::error::Error;

/// Interval between polls of active sockets. A poll of the sockets costs several times a sample in shared memory, and a
/// received datagram costs more than this interval.
const SOCKETS_EVERY: Span = Span::from_micros(5);
/// Interval for sockets without recent datagrams; about the time of a wake-up.
const QUIET_SOCKETS_EVERY: Span = Span::from_micros(40);
/// Polls of shared memory between two readings of the clock, which cost as much.
const LOOKS_PER_CLOCK: u32 = 16;

/// A thread that polls receives and keeps timers: listeners wait until it has returned from that.
struct PollScope {
    _deferring: Deferring,
    _io_thread: outbox::IoThread,
}

impl PollScope {
    fn begin() -> Self {
        Self { _deferring: Deferring::begin(), _io_thread: outbox::mark_io_thread(true) }
    }
}

impl Domain {
    pub(super) fn poll_state(&self) -> Result<PollState, Error> {
        let poller = self.control_poller()?;
        for (index, socket) in self.data_sockets.iter().enumerate() {
            let token = Token(FIRST_SOCKET + (self.control_sockets.len() + index) as u64);
            poller.add(&**socket, token).map_err(Error::system)?;
        }
        Ok(PollState {
            receiver: Receiver::new(&receiver_options(&self.config)),
            poller,
            data_sockets: self.data_sockets.clone(),
            group_sockets: 0,
            dirty: DirtyEndpoints::default(),
            rounds: 0,
            sockets_due: now(),
            sockets_every: SOCKETS_EVERY,
            looks: 0,
        })
    }

    /// Under `Poll`: receives, and runs timers and listeners on the calling thread, until a message was received or
    /// `timeout` is over. With a zero timeout it polls once and never sleeps.
    pub(crate) fn poll(&self, timeout: Duration) {
        if !timeout.is_zero() {
            return self.poll_until(&Parker::of_this_thread(), now() + timeout.into());
        }
        let Some(mut state) = self.begin_polling() else { return std::thread::yield_now() };
        let no_user_code = PollScope::begin();
        let take =
            |shared: &SharedMemory, PollBudget { at, dirty, .. }: PollBudget<'_>| _ = shared.take(at, dirty, self);
        if !self.look_at_memory(&mut state, take) {
            self.poll_all(&mut state, None);
        }
        drop(state);
        drop(no_user_code);
        self.run_queued_listeners();
    }

    /// [`Self::poll`] until `end`, or until `parker` of the calling thread is woken. While another thread polls, this
    /// one sleeps.
    pub(super) fn poll_until(&self, parker: &Arc<Parker>, end: Instant) {
        let Some(mut state) = self.begin_polling() else {
            return self.polling_turns.wait(parker, end, || self.is_any_thread_polling());
        };
        let no_user_code = PollScope::begin();
        parker.receives_at(&self.waker);
        self.poll_all(&mut state, Some((parker, end)));
        drop(state);
        self.polling_turns.wake_next();
        drop(no_user_code);
        self.run_queued_listeners();
    }

    fn is_any_thread_polling(&self) -> bool {
        self.polled.get().is_some_and(|state| try_lock_leaf(state).is_none())
    }

    /// [`Self::poll`] with a zero timeout, for a thread that takes samples of `reader` next. Returns the first selected
    /// sample if it can bypass the reader. If only shared memory is due, it is polled several times.
    pub(crate) fn poll_for(&self, reader: &ReaderCore, selector: &Selector) -> Option<Selected> {
        let mut search = DirectTake { reader, selector, found: None };
        let mut state = self.begin_polling()?;
        let no_user_code = PollScope::begin();
        let look = |shared: &SharedMemory, looking: PollBudget<'_>| shared.search(&mut search, looking, self);
        if !self.look_at_memory(&mut state, look) {
            self.poll_all(&mut state, None);
        }
        drop(state);
        drop(no_user_code);
        self.run_queued_listeners();
        search.found
    }

    /// Runs the listeners that were queued while the calling thread polled, but not listeners that these queue in turn.
    #[inline]
    fn run_queued_listeners(&self) {
        if self.listeners.has_some() && !user_code::must_defer() {
            let queued = self.listeners.len();
            let mut rounds = 0..queued;
            while rounds.next().is_some() && self.listeners.run_next() {}
        }
    }

    /// The right to receive; `None` if another application thread has it.
    fn begin_polling(&self) -> Option<MutexGuard<'_, PollState>> {
        let mut state = try_lock_leaf(self.polled.get()?)?;
        self.take_up_groups(&mut state);
        Some(state)
    }

    /// Polls all sources once; with `sleeper`, until a message was received, the thread is woken or its time is over.
    fn poll_all(&self, state: &mut PollState, sleeper: Option<(&Arc<Parker>, Instant)>) {
        let PollState { receiver, poller, data_sockets, dirty, rounds, .. } = state;
        let start = now();
        let until = sleeper.map_or(start, |(_, end)| end);
        state.sockets_due = start + state.sockets_every;
        let mut at = start;
        let tasks_woken = TasksWoken::so_far();
        loop {
            let next_turn = if self.publishing.has_turns() { self.publishing.run_ready_writers() } else { NEVER };
            // Received messages reach the application at once; the next call polls for more.
            let mut any = false;
            for socket in &*data_sockets {
                any |= self.receive_once(receiver, socket, dirty);
            }
            let every = if any { SOCKETS_EVERY.0 } else { (2 * state.sockets_every.0).min(QUIET_SOCKETS_EVERY.0) };
            state.sockets_every = Span(every);
            any |= self.shared_memory.as_ref().is_some_and(|shared| shared.take(&mut Some(at), dirty, self));
            *rounds = rounds.wrapping_add(1);
            // Under a stream of data, discovery and timers are polled every 64 rounds.
            let looks_around = rounds.is_multiple_of(64);
            if any && !looks_around {
                return;
            }
            let now = now();
            if !any || looks_around {
                if self.timer.next() <= now.0 {
                    self.handle_timers(receiver, dirty);
                }
                if rounds.is_multiple_of(16) || sleeper.is_some() {
                    for socket in &self.control_sockets {
                        any |= self.drain(receiver, socket, dirty);
                    }
                    self.follow_interfaces();
                    self.poll_shared_memory();
                    self.poll_streams(dirty);
                }
            }
            // Timers may have fulfilled the condition of a waiting thread or task, or have queued listeners. The
            // wake-up is consumed: the caller checks its condition, and a stale wake-up ends one poll only.
            let is_woken = sleeper.is_some_and(|(parker, _)| parker.take_wake_up())
                || self.listeners.has_some()
                || user_code::has_deferred()
                || tasks_woken.are_more();
            if any || is_woken || now >= until {
                return;
            }
            if next_turn <= now.0 {
                // The turn may have delivered samples to readers of this process.
                if self.has_come.swap(false, Ordering::SeqCst) {
                    return;
                }
                continue;
            }
            let wake = until.0.min(self.timer.next()).min(next_turn);
            self.is_poll_asleep.store(true, Ordering::SeqCst);
            let has_come = self.has_come.swap(false, Ordering::SeqCst);
            let is_woken = sleeper.is_some_and(|(parker, _)| parker.is_woken_before_sleep());
            let woken = if has_come || is_woken {
                None
            } else {
                let wake = self.wait_for_shared_memory(wake);
                Some(poller.wait(Some(MonotonicNs(wake))))
            };
            self.is_poll_asleep.store(false, Ordering::SeqCst);
            if let Some((parker, _)) = sleeper {
                parker.is_awake();
            }
            match woken {
                None => return,
                Some(Ok(mut tokens)) => {
                    if tokens.any(|token| token == WAKER) {
                        self.waker.clear();
                        self.poll_shared_memory();
                        self.poll_streams(dirty);
                        return;
                    }
                }
                Some(Err(_)) => return,
            }
            // The thread has slept.
            at = clock::now();
        }
    }

    /// Calls `look` to poll shared memory, if there is any and nothing else is due.
    #[inline]
    fn look_at_memory(&self, state: &mut PollState, look: impl FnOnce(&SharedMemory, PollBudget<'_>)) -> bool {
        let Some(shared) = self.shared_memory.as_ref().filter(|shared| shared.has_writers()) else { return false };
        let PollState { looks, dirty, sockets_due, .. } = state;
        let mut at = None;
        if *looks == 0 {
            let now = *at.insert(now());
            if now >= *sockets_due || self.timer.next() <= now.0 {
                return false;
            }
            *looks = LOOKS_PER_CLOCK;
        }
        if self.publishing.has_turns() {
            return false;
        }
        *looks -= 1;
        look(shared, PollBudget { looks, at: &mut at, dirty });
        if at.is_some_and(|at| at >= *sockets_due) {
            *looks = 0;
        }
        true
    }

    /// Under `Poll`: adds the group sockets that were opened since the last poll.
    fn take_up_groups(&self, state: &mut PollState) {
        if self.group_sockets_so_far.load(Ordering::Acquire) == state.group_sockets {
            return;
        }
        for socket in self.group_sockets().iter().skip(state.group_sockets) {
            let token = Token(FIRST_SOCKET + (self.control_sockets.len() + state.data_sockets.len()) as u64);
            if let Err(error) = state.poller.add(&**socket, token) {
                log(Level::ERROR, move || tracing::error!(%error, "data for a multicast group wakes no thread"));
            }
            state.data_sockets.push(Arc::clone(socket));
            state.group_sockets += 1;
        }
    }
}
