//! Runs the listener of an entity: on one thread at a time, and never after the last handle of the entity was dropped.
//!
//! The gate collects changed statuses when an event is processed. A thread that may run user code takes them from the
//! gate; other threads add the entity to the [`ListenerQueue`](super::listener_queue::ListenerQueue), which contains
//! each entity at most once.

use std::any::Any;
use std::sync::atomic::Ordering;

use peregrine_rtps::time::{Instant, Span};

use super::listener_watch::ListenerWatch;
use crate::driver::base::sync::{Guard, lock, lock_leaf};
use crate::driver::base::system::{AtomicU64, Condvar, Mutex, wait_for};
use crate::driver::base::user_code::{Nesting, is_in_listener, log_panic, run_caught};
use crate::status::StatusMask;

/// The number of listener calls in one turn; statuses that change later wait until other entities have had their turn.
const ROUNDS_MAX: usize = 4;

/// The statuses of which the listener has not been notified.
const PENDING: u64 = u32::MAX as u64;
/// A thread runs the listener.
const BUSY: u64 = 1 << 32;
/// A thread waits for the listener to return.
const AWAITED: u64 = 1 << 33;
/// The listener does not run any more.
const CLOSED: u64 = 1 << 34;
/// The entity is in the listener queue, or about to be put there.
const QUEUED: u64 = 1 << 35;

/// See the [module](self).
///
/// A running listener keeps its entity alive, so the drop of the last handle has to wait for it: an application that
/// has dropped all handles may end the process at once.
///
/// A call costs three atomic operations; a lock and a system call only while a thread waits for the listener to return.
#[derive(Default)]
pub(crate) struct ListenerGate {
    state: AtomicU64,
    waiting: Mutex<()>,
    returned: Condvar,
    panics: AtomicU64,
    watch: ListenerWatch,
    /// Held while the listener is replaced, so that the later of two replacements lasts.
    exchange: Mutex<()>,
}

/// The turn of a thread that runs the listener. A panic ends the turn as well.
pub(in crate::driver) struct Turn<'g> {
    gate: &'g ListenerGate,
}

/// The next step of the caller of [`ListenerGate::run`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterRun {
    /// Nothing is to be done.
    Nothing,
    /// Put the entity into the listener queue.
    Queue,
}

impl ListenerGate {
    /// Adds changed statuses. Returns whether the caller has to run the listener or queue the entity. This is not
    /// necessary while a thread runs the listener, because that thread checks the gate when the listener returns, or
    /// while the entity is queued.
    #[inline]
    pub(in crate::driver) fn add(&self, news: StatusMask) -> bool {
        let before = self.state.fetch_or(u64::from(news.bits()), Ordering::AcqRel);
        before & (BUSY | QUEUED | CLOSED) == 0
    }

    /// [`Self::add`], which also watches a running call: see [`Self::check_call`].
    #[inline]
    pub(in crate::driver) fn add_at(&self, news: StatusMask, now: Instant) -> bool {
        let must_run = self.add(news);
        if !must_run && self.has_waiting_news() {
            self.watch.note_news(now);
        }
        must_run
    }

    /// When to [check](Self::check_call) the running call.
    #[inline]
    pub(in crate::driver) fn call_deadline(&self) -> Option<Instant> {
        if self.has_waiting_news() { self.watch.deadline() } else { None }
    }

    /// Reports once that status changes have waited too long for the return of the running call. Returns the time of
    /// the wait.
    pub(in crate::driver) fn check_call(&self, now: Instant) -> Option<Span> {
        if self.has_waiting_news() { self.watch.check(now) } else { None }
    }

    /// The time for which status changes have waited for the return of the running call.
    pub(crate) fn blocked_for(&self, now: Instant) -> Option<Span> {
        if self.has_waiting_news() { self.watch.waited(now) } else { None }
    }

    /// The number of calls that have delayed status changes for too long.
    pub(crate) fn stalls(&self) -> u64 {
        self.watch.stalls()
    }

    #[inline]
    fn has_waiting_news(&self) -> bool {
        let state = self.state.load(Ordering::Acquire);
        state & BUSY != 0 && state & PENDING != 0
    }

    /// Marks the entity as queued. Returns whether the caller has to queue it: a queued entity is not queued again.
    pub(in crate::driver) fn set_queued(&self) -> bool {
        self.state.fetch_or(QUEUED, Ordering::AcqRel) & QUEUED == 0
    }

    /// The entity was taken out of the queue, to run its listener.
    pub(in crate::driver) fn clear_queued(&self) {
        self.state.fetch_and(!QUEUED, Ordering::AcqRel);
    }

    /// Runs `listener` with the pending statuses, and again with statuses that change meanwhile, at most [`ROUNDS_MAX`]
    /// times. Does nothing if another thread, or an outer call of this thread, runs the listener: that call handles the
    /// statuses.
    ///
    /// A panic of the listener ends here; it is counted and logged.
    pub(in crate::driver) fn run(&self, mut listener: impl FnMut(StatusMask)) -> AfterRun {
        let before = self.state.fetch_or(BUSY, Ordering::AcqRel);
        if before & BUSY != 0 {
            return AfterRun::Nothing;
        }
        let turn = Turn { gate: self };
        if before & CLOSED != 0 {
            self.state.fetch_and(!PENDING, Ordering::AcqRel);
            return AfterRun::Nothing;
        }
        let _deeper = Nesting::enter();
        turn.run_rounds(&mut listener)
    }

    /// Begins a call of the listener if none is running or pending. The caller may hold the lock of the entity.
    #[inline]
    pub(in crate::driver) fn try_begin(&self) -> Option<Turn<'_>> {
        self.state.compare_exchange(0, BUSY, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        // Statuses that change before the caller calls the listener wait for this call, too.
        self.watch.begin_call();
        Some(Turn { gate: self })
    }

    /// The caller holds the guard from reading the listeners until the new ones are set.
    pub(crate) fn begin_exchange(&self) -> Guard<'_, ()> {
        lock(&self.exchange)
    }

    /// The number of listener methods that have panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    #[inline]
    fn call(&self, listener: impl FnOnce(StatusMask), news: StatusMask) {
        if let Err(panic) = run_caught(|| listener(news)) {
            self.note_panic(panic, news);
        }
    }

    /// Calls one method of the listener within a call of [`Self::run`]. A panic ends this method only, so that the
    /// methods for the other statuses of the call still run: these statuses count as reported.
    #[inline]
    pub(crate) fn call_back(&self, status: StatusMask, method: impl FnOnce()) {
        if let Err(panic) = run_caught(method) {
            self.note_panic(panic, status);
        }
    }

    #[cold]
    fn note_panic(&self, panic: Box<dyn Any + Send>, news: StatusMask) {
        self.panics.fetch_add(1, Ordering::Relaxed);
        log_panic(panic, &format!("the listener of {news:?} has panicked; it stays in place"));
    }

    fn end(&self, state: u64) {
        if state & AWAITED != 0 {
            drop(lock_leaf(&self.waiting));
            self.returned.notify_all();
        }
    }

    /// Called before a handle is dropped. If the handle is the last one, waits for the listener to return and prevents
    /// further calls. `is_last` gets the number of running listeners, which hold the entity as well. A thread inside a
    /// listener does not wait.
    pub(crate) fn close_and_wait(&self, is_last: impl Fn(usize) -> bool) {
        if is_in_listener() || !is_last(running(self.state.load(Ordering::Acquire))) {
            return;
        }
        let mut guard = lock_leaf(&self.waiting);
        loop {
            // A call that ends from here on sees this flag, and takes the lock before it notifies.
            let state = self.state.fetch_or(AWAITED, Ordering::AcqRel) | AWAITED;
            if !is_last(running(state)) {
                self.state.fetch_and(!AWAITED, Ordering::AcqRel);
                // Other threads that wait here set the flag again.
                self.returned.notify_all();
                return;
            }
            if state & BUSY == 0 {
                if self.state.compare_exchange(state, state | CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                    return;
                }
                continue;
            }
            guard = wait_for(&self.returned, &self.waiting, guard);
        }
    }

    /// Waits until no call of the listener that began before is running. A thread inside a listener does not wait.
    pub(crate) fn wait_until_idle(&self) {
        if is_in_listener() || self.state.load(Ordering::Acquire) & BUSY == 0 {
            return;
        }
        let mut guard = lock_leaf(&self.waiting);
        while self.state.fetch_or(AWAITED, Ordering::AcqRel) & BUSY != 0 {
            guard = wait_for(&self.returned, &self.waiting, guard);
        }
        self.state.fetch_and(!AWAITED, Ordering::AcqRel);
        // Other threads that wait here set the flag again.
        self.returned.notify_all();
    }
}

impl Turn<'_> {
    /// Runs `first` with the pending statuses, then `listener` with statuses that change meanwhile, as
    /// [`ListenerGate::run`] does.
    #[inline]
    pub(in crate::driver) fn run(
        self,
        news: StatusMask,
        first: impl FnOnce(StatusMask),
        mut listener: impl FnMut(StatusMask),
    ) -> AfterRun {
        let _deeper = Nesting::enter();
        self.gate.call(first, news);
        match self.finish_round() {
            None => AfterRun::Nothing,
            Some(turn) => turn.run_rounds(&mut listener),
        }
    }

    fn run_rounds(self, listener: &mut impl FnMut(StatusMask)) -> AfterRun {
        let mut turn = self;
        for _ in 0..ROUNDS_MAX {
            // Before the statuses are taken: those that change from then on wait for this call.
            turn.gate.watch.begin_call();
            let pending = turn.gate.state.fetch_and(!PENDING, Ordering::AcqRel) & PENDING;
            if pending != 0 {
                turn.gate.call(&mut *listener, StatusMask::from_bits(pending as u32));
            }
            turn = match turn.finish_round() {
                None => return AfterRun::Nothing,
                Some(turn) => turn,
            };
        }
        turn.leave_rest_to_queue()
    }

    /// Ends the turn, unless further statuses have changed.
    fn finish_round(self) -> Option<Self> {
        let mut state = BUSY;
        let cell = &self.gate.state;
        while let Err(now) = cell.compare_exchange(state, state & !BUSY, Ordering::AcqRel, Ordering::Acquire) {
            if now & PENDING != 0 {
                return Some(self);
            }
            state = now;
        }
        self.gate.end(state);
        std::mem::forget(self);
        None
    }

    /// Ends the turn; the pending statuses stay in the gate, and the entity waits for its next turn. This is one atomic
    /// step: a thread that takes the entity from the queue either finds the listener idle, or comes before and queues
    /// the entity again.
    fn leave_rest_to_queue(self) -> AfterRun {
        let leave = |state: u64| Some((state | QUEUED) & !BUSY);
        let before = self.gate.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, leave);
        let before = before.expect("the closure always answers");
        self.gate.end(before);
        std::mem::forget(self);
        if before & QUEUED == 0 { AfterRun::Queue } else { AfterRun::Nothing }
    }
}

impl Drop for Turn<'_> {
    /// Ends the turn of a thread that has panicked or has nothing to run.
    fn drop(&mut self) {
        self.gate.end(self.gate.state.fetch_and(!BUSY, Ordering::AcqRel));
    }
}

/// The number of calls of the listener that are running.
const fn running(state: u64) -> usize {
    if state & BUSY != 0 { 1 } else { 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use peregrine_rtps::limits::STALL_AFTER;

    use super::*;

    const NEWS: StatusMask = StatusMask::DATA_AVAILABLE;

    fn tell(gate: &ListenerGate, news: StatusMask, listener: impl FnMut(StatusMask)) -> AfterRun {
        if gate.add(news) { gate.run(listener) } else { AfterRun::Nothing }
    }

    #[test]
    fn event_during_a_listener_call_is_reported_after_it() {
        let gate = ListenerGate::default();
        let mut told = Vec::new();
        let after = tell(&gate, NEWS, |news| {
            told.push(news);
            if told.len() == 1 {
                let _ = tell(&gate, StatusMask::SAMPLE_LOST, |_| panic!("a call within a call"));
                let _ = tell(&gate, StatusMask::SAMPLE_REJECTED, |_| panic!("a call within a call"));
            }
        });
        assert_eq!(told, [NEWS, StatusMask::SAMPLE_LOST | StatusMask::SAMPLE_REJECTED]);
        assert_eq!(after, AfterRun::Nothing);
    }

    #[test]
    fn status_changed_between_begin_and_call_of_the_listener_is_watched() {
        let gate = ListenerGate::default();
        let (then, later) = (Instant(1), Instant(1) + STALL_AFTER);
        let turn = gate.try_begin().unwrap();
        assert!(!gate.add_at(StatusMask::SAMPLE_LOST, then));
        let (mut blocked, mut stall) = (None, None);
        let first = |_| (blocked, stall) = (gate.blocked_for(later), gate.check_call(later));
        let mut told = StatusMask::NONE;
        assert_eq!(turn.run(NEWS, first, |news| told |= news), AfterRun::Nothing);
        assert_eq!((blocked, stall), (Some(STALL_AFTER), Some(STALL_AFTER)));
        assert_eq!((told, gate.stalls()), (StatusMask::SAMPLE_LOST, 1));
    }

    #[test]
    fn endless_events_are_queued_after_four_rounds() {
        let gate = ListenerGate::default();
        let mut calls = 0;
        let after = tell(&gate, NEWS, |_| {
            calls += 1;
            assert!(!gate.add(NEWS), "the running call sees it");
        });
        assert_eq!((calls, after), (ROUNDS_MAX, AfterRun::Queue));
        assert!(!gate.add(NEWS), "the entity is queued");
        gate.clear_queued();
        let mut told = StatusMask::NONE;
        assert_eq!(gate.run(|news| told |= news), AfterRun::Nothing);
        assert_eq!(told, NEWS, "the news has stayed in the gate");
    }

    #[test]
    fn event_during_a_begun_call_is_reported_after_it() {
        let gate = ListenerGate::default();
        let turn = gate.try_begin().expect("no call is running");
        let mut later = StatusMask::NONE;
        let first = |news| {
            assert_eq!(news, NEWS);
            assert!(!gate.add(StatusMask::SAMPLE_LOST), "the running call sees it");
            assert!(gate.try_begin().is_none(), "a call is running");
        };
        assert_eq!(turn.run(NEWS, first, |news| later |= news), AfterRun::Nothing);
        assert_eq!(later, StatusMask::SAMPLE_LOST);
    }

    #[test]
    fn call_does_not_begin_with_pending_events_or_closed_gate() {
        let gate = ListenerGate::default();
        assert!(gate.add(NEWS));
        assert!(gate.try_begin().is_none(), "older news comes first");
        assert_eq!(gate.run(|_| {}), AfterRun::Nothing);
        assert!(gate.set_queued());
        assert!(gate.try_begin().is_none(), "the entity has its turn in the queue");
        gate.clear_queued();
        gate.close_and_wait(|_| true);
        assert!(gate.try_begin().is_none(), "the listener is not run any more");
    }

    #[test]
    fn panic_of_a_begun_call_is_counted_and_ends_the_call() {
        let gate = ListenerGate::default();
        let turn = gate.try_begin().expect("no call is running");
        assert_eq!(turn.run(NEWS, |_| panic!("in a begun call"), |_| {}), AfterRun::Nothing);
        assert_eq!(gate.panics(), 1);
        assert!(gate.try_begin().is_some(), "the next call may begin");
    }

    #[test]
    fn repeated_events_queue_entity_once() {
        let gate = ListenerGate::default();
        assert!(gate.add(NEWS));
        assert!(gate.set_queued());
        assert!(!gate.add(StatusMask::SAMPLE_LOST));
        assert!(!gate.set_queued());
    }

    #[test]
    fn listeners_of_many_threads_take_turns_and_miss_nothing() {
        let (gate, is_running, told) = (ListenerGate::default(), AtomicBool::new(false), Mutex::new(StatusMask::NONE));
        let listener = |news| {
            assert!(!is_running.swap(true, Ordering::AcqRel));
            *told.lock().unwrap() |= news;
            is_running.store(false, Ordering::Release);
        };
        thread::scope(|scope| {
            for news in [StatusMask::DATA_AVAILABLE, StatusMask::SAMPLE_LOST, StatusMask::LIVELINESS_CHANGED] {
                let (gate, listener) = (&gate, &listener);
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        let mut after = tell(gate, news, listener);
                        while after == AfterRun::Queue {
                            gate.clear_queued();
                            after = gate.run(listener);
                        }
                    }
                });
            }
        });
        let all = StatusMask::DATA_AVAILABLE | StatusMask::SAMPLE_LOST | StatusMask::LIVELINESS_CHANGED;
        assert_eq!(*told.lock().unwrap(), all);
    }

    #[test]
    fn panicking_listener_is_counted_and_called_again() {
        let gate = ListenerGate::default();
        let _ = tell(&gate, NEWS, |_| panic!("on purpose"));
        assert_eq!(gate.panics(), 1);
        let mut told = false;
        let _ = tell(&gate, NEWS, |_| told = true);
        assert!(told);
        gate.close_and_wait(|_| true);
    }

    #[test]
    fn event_after_a_panic_in_the_same_call_is_reported() {
        let gate = ListenerGate::default();
        let mut told = Vec::new();
        let _ = tell(&gate, NEWS, |news| {
            told.push(news);
            if news == NEWS {
                gate.add(StatusMask::SAMPLE_LOST);
                panic!("on purpose");
            }
        });
        assert_eq!(told, [NEWS, StatusMask::SAMPLE_LOST]);
    }

    #[test]
    fn closing_waits_for_the_running_call_and_prevents_others() {
        let gate = ListenerGate::default();
        let ((begun, wait_until_begun), (end, wait_for_end)) = (sync_channel::<()>(1), sync_channel::<()>(1));
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let (gate, has_ended) = (&gate, &has_ended);
            scope.spawn(move || {
                let _ = tell(gate, NEWS, |_| {
                    begun.send(()).unwrap();
                    wait_for_end.recv().unwrap();
                    has_ended.store(true, Ordering::SeqCst);
                });
            });
            wait_until_begun.recv().unwrap();
            scope.spawn(move || {
                while gate.state.load(Ordering::SeqCst) & AWAITED == 0 {
                    thread::yield_now();
                }
                end.send(()).unwrap();
            });
            gate.close_and_wait(|_| true);
            assert!(has_ended.load(Ordering::SeqCst));
        });
        let _ = tell(&gate, NEWS, |_| panic!("after the gate was closed"));
        assert_eq!(gate.panics(), 0);
    }

    #[test]
    fn dropped_turn_lets_the_next_thread_run_the_listener() {
        let gate = ListenerGate::default();
        drop(gate.try_begin().expect("no call is running"));
        assert!(gate.try_begin().is_some(), "the turn has ended");
        gate.wait_until_idle();
    }

    #[test]
    fn dropping_one_of_several_handles_does_not_wait() {
        let gate = ListenerGate::default();
        let ((begun, wait_until_begun), (end, wait_for_end)) = (sync_channel::<()>(1), sync_channel::<()>(1));
        thread::scope(|scope| {
            let gate = &gate;
            scope.spawn(move || {
                let _ = tell(gate, NEWS, |_| {
                    begun.send(()).unwrap();
                    wait_for_end.recv().unwrap();
                });
            });
            wait_until_begun.recv().unwrap();
            gate.close_and_wait(|running| running == 0);
            end.send(()).unwrap();
        });
        let mut told = false;
        let _ = tell(&gate, NEWS, |_| told = true);
        assert!(told);
    }

    #[test]
    fn listener_dropping_last_handle_does_not_wait_for_itself() {
        let gate = ListenerGate::default();
        let mut has_run = false;
        let _ = tell(&gate, NEWS, |_| {
            gate.close_and_wait(|_| true);
            gate.wait_until_idle();
            has_run = true;
        });
        assert!(has_run);
    }
}
