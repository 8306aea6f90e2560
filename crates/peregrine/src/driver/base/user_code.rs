//! Every call of user code passes through this file: listeners, wakers of tasks, closures, the code of hand-written
//! types (`encode`, key functions, `Drop`), and the subscriber of `tracing`.
//!
//! - User code runs under no lock: [`run_user_code`] asserts that in debug builds.
//! - Some user code becomes due under a lock: a cache drops a value, a task is woken, an event is logged. The code
//!   waits in a list of the thread until the thread has released its locks: see [`UserCode`] and [`HeldLock`].
//! - User code also waits while the thread keeps timers or leads the reception: see [`Deferring`].
//! - Two kinds of user code run under a lock and on any thread, by [`run_under_lock`], because discovery and senders
//!   need their answers at once: plug-ins of security, and stream links. They may not call an entity, which would
//!   deadlock; debug builds panic at the attempt. The transformations of a plug-in (`Protection`) are called directly,
//!   because that is once for each message.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use tracing::Level;
use tracing::level_filters::LevelFilter;

use super::system::thread_local;

/// Nested listeners of one thread: a listener that writes to a topic with a reader of this process runs the listener of
/// that reader, and so on. Deeper ones are queued.
const DEPTH_MAX: u32 = 8;

/// Entries of [`PENDING`] at most. The values of one critical section are those of the cache of one entity, its wakers
/// those of the tasks that wait for this entity; a thread that defers user code hands it over after each round of
/// reception.
const PENDING_MAX: usize = 1 << 20;

/// Log events among them at most: of one critical section, or of one round of reception. Further events are counted,
/// and an event states their number.
const EVENTS_MAX: u32 = 1024;

/// In [`HELD`]: [`PENDING`] is not empty.
const HAS_PENDING: u32 = 1 << 31;

/// In [`HELD`]: the thread is in [`run_under_lock`].
const IS_IN_CALL: u32 = 1 << 30;

thread_local! {
    /// The number of locks that the thread holds, [`HAS_PENDING`] and [`IS_IN_CALL`].
    static HELD: Cell<u32> = const { Cell::new(0) };
    /// The user code that the thread runs when it has released its locks: at most [`PENDING_MAX`].
    static PENDING: RefCell<Vec<UserCode>> = const { RefCell::new(Vec::new()) };
    /// The number of log events in [`PENDING`]: at most [`EVENTS_MAX`].
    static EVENTS: Cell<u32> = const { Cell::new(0) };
    /// The number of log events that had no place, since the last event that states it.
    static LOST_EVENTS: Cell<u64> = const { Cell::new(0) };
    /// The number of listeners that the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The number of [`Deferring`] guards: the thread keeps timers, or leads the reception.
    static DEFERRING: Cell<u32> = const { Cell::new(0) };
}

/// See [`user_code_panics`].
static PANICS: AtomicU64 = AtomicU64::new(0);
/// See [`lost_log_events`].
static EVENTS_LOST: AtomicU64 = AtomicU64::new(0);
/// See [`leaked_values`].
static VALUES_LEAKED: AtomicU64 = AtomicU64::new(0);

/// Calls code of the application. The caller must hold no lock.
#[inline]
pub(crate) fn run_user_code<R>(call: impl FnOnce() -> R) -> R {
    assert_no_lock_is_held();
    call()
}

/// Calls code of the application whose panic must not end the calling thread. Returns the payload of a panic.
#[inline]
pub(crate) fn run_caught<R>(call: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    // After a panic the application is responsible for its own, possibly inconsistent, state.
    run_user_code(|| catch_unwind(AssertUnwindSafe(call)))
}

/// Calls code of the application that may run under a lock, and must not call an entity. A panic, which is also what an
/// attempt to take the lock of an entity causes in debug builds, is caught, counted, and logged once the thread holds
/// no lock; the result is then that of `otherwise`.
pub(crate) fn run_under_lock<R>(name: &'static str, call: impl FnOnce() -> R, otherwise: impl FnOnce() -> R) -> R {
    // The code counts as a lock: other user code that becomes due in it waits until the thread releases its next lock.
    // Waiting code does not run here: the caller may hold a lock that is not counted, such as that of a session.
    let outer = held() & IS_IN_CALL;
    set_held((held() + 1) | IS_IN_CALL);
    let result = catch_unwind(AssertUnwindSafe(call));
    set_held(held() & !IS_IN_CALL | outer);
    let result = result.unwrap_or_else(|panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        // Apart from the event, which may be lost: the payload is a value of the application.
        let text = panic_text(&*panic).to_owned();
        UserCode::Log(Box::new(move || tracing::error!(panic = text, "{name}"))).run_unlocked();
        UserCode::DropPayload(panic).run_unlocked();
        otherwise()
    });
    set_held(held() - 1);
    result
}

/// The number of panics in this process of user code that no entity counts: wakers of tasks, destructors of shared
/// values, key functions, plug-ins of security, and the subscriber of `tracing`. Each panic is caught and logged.
/// Panics of a listener are counted by its entity (`listener_panics`).
#[must_use]
pub fn user_code_panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// The number of log events of this process that were lost because too many waited for a thread that may emit events:
/// usually behind a subscriber of `tracing` that blocks. A later event states the number as well.
#[must_use]
pub fn lost_log_events() -> u64 {
    EVENTS_LOST.load(Ordering::Relaxed)
}

/// The number of shared values and wakers of this process that are never dropped, because more than 250,000 others wait
/// behind destructors that block.
#[must_use]
pub fn leaked_values() -> u64 {
    VALUES_LEAKED.load(Ordering::Relaxed)
}

#[cold]
pub(crate) fn count_lost_events(count: u64) {
    EVENTS_LOST.fetch_add(count, Ordering::Relaxed);
}

#[cold]
pub(crate) fn count_leaked_values(count: u64) {
    VALUES_LEAKED.fetch_add(count, Ordering::Relaxed);
}

/// Code of the application that runs when the thread holds no lock.
pub(crate) enum UserCode {
    /// A waker of the driver itself: of a thread or of a condition. It is never deferred.
    WakeOwn(Waker),
    Wake(Waker),
    DropWaker(Waker),
    DropValue(Arc<dyn Any + Send + Sync>),
    /// The payload of a panic.
    DropPayload(Box<dyn Any + Send>),
    Log(Box<dyn FnOnce() + Send>),
}

impl UserCode {
    /// Runs the code as soon as the calling thread has released its locks and may run user code, possibly at once.
    pub(crate) fn run_unlocked(self) {
        if !is_any_lock_held() && !self.must_wait() {
            return self.run();
        }
        let mut left = Some(self);
        let _ = PENDING.try_with(|pending| {
            let mut pending = pending.borrow_mut();
            pending.extend(left.take());
            debug_assert!(pending.len() <= PENDING_MAX, "too much user code waits for the release of a lock");
        });
        match left {
            None => set_held(held() | HAS_PENDING),
            // The thread is ending, and its list is destroyed.
            Some(left) => left.run(),
        }
    }

    /// Whether the thread must not run the code, independent of its locks.
    fn must_wait(&self) -> bool {
        is_deferring() && !matches!(self, Self::WakeOwn(_))
    }

    /// The calling thread must be allowed to run user code.
    pub(crate) fn run(self) {
        match self {
            Self::WakeOwn(waker) | Self::Wake(waker) => run_counted(|| waker.wake(), "a waker has panicked"),
            Self::DropWaker(waker) => run_counted(|| drop(waker), "the destructor of a waker has panicked"),
            Self::DropValue(value) => run_counted(|| drop(value), "the destructor of a shared value has panicked"),
            Self::DropPayload(panic) => run_counted(|| drop(panic), "the payload of a panic has panicked"),
            Self::Log(event) => run_counted(event, "the subscriber of an event has panicked"),
        }
    }
}

/// Wakes a task. The calling thread must be allowed to run user code.
pub(crate) fn wake_by_ref(waker: &Waker) {
    run_counted(|| waker.wake_by_ref(), "a waker has panicked");
}

/// Runs code of the application. A panic ends here; it is counted and logged.
fn run_counted(code: impl FnOnce(), event: &str) {
    if let Err(panic) = run_caught(code) {
        note_panic(panic, event);
    }
}

/// Counts and logs a panic that no entity counts.
#[cold]
pub(crate) fn note_panic(panic: Box<dyn Any + Send>, event: &str) {
    PANICS.fetch_add(1, Ordering::Relaxed);
    log_panic(panic, event);
}

/// Emits the `tracing` event of `event`, whose subscriber is user code: at once, or when the thread has released its
/// locks and may run user code. An event without an interested subscriber costs one load.
#[cold]
pub(crate) fn log(level: Level, event: impl FnOnce() + Send + 'static) {
    if level <= LevelFilter::current() {
        emit_unlocked(event);
    }
}

fn emit_unlocked(event: impl FnOnce() + Send + 'static) {
    if is_any_lock_held() || is_deferring() {
        let waiting = EVENTS.with(Cell::get);
        if waiting >= EVENTS_MAX {
            LOST_EVENTS.with(|lost| lost.set(lost.get() + 1));
            count_lost_events(1);
        } else {
            EVENTS.with(|events| events.set(waiting + 1));
            UserCode::Log(Box::new(event)).run_unlocked();
        }
    } else {
        run_counted(event, "the subscriber of an event has panicked");
    }
}

/// Drops what may be the last reference to a value of the application: at once, or when the thread has released its
/// locks and may run user code.
#[inline]
pub(crate) fn drop_user_value(value: Arc<dyn Any + Send + Sync>) {
    UserCode::DropValue(value).run_unlocked();
}

/// Logs the panic of user code. Its payload is a value of the application, whose destructor may panic as well; so may
/// the subscriber.
#[cold]
pub(crate) fn log_panic(panic: Box<dyn Any + Send>, event: &str) {
    let text = panic_text(&*panic);
    let _ = catch_unwind(AssertUnwindSafe(|| tracing::error!(panic = text, "{event}")));
    if catch_unwind(AssertUnwindSafe(|| drop(panic))).is_err() {
        let report = || tracing::error!("the payload of that panic has panicked when it was dropped");
        let _ = catch_unwind(AssertUnwindSafe(report));
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Exists as long as the thread holds a lock. Must be dropped after the lock is released: the drop of the thread's last
/// one runs the waiting user code.
pub(crate) struct HeldLock {
    /// A lock is released by the thread that took it.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl HeldLock {
    #[inline]
    pub(crate) fn new() -> Self {
        set_held(held() + 1);
        Self { _not_send: std::marker::PhantomData }
    }
}

impl Drop for HeldLock {
    #[inline]
    fn drop(&mut self) {
        let left = held() - 1;
        set_held(left);
        if left == HAS_PENDING {
            run_pending();
        }
    }
}

#[inline]
fn held() -> u32 {
    HELD.with(Cell::get)
}

#[inline]
fn set_held(to: u32) {
    HELD.with(|held| held.set(to));
}

#[inline]
fn is_deferring() -> bool {
    DEFERRING.with(Cell::get) > 0
}

#[inline]
fn is_any_lock_held() -> bool {
    held() & !HAS_PENDING != 0
}

/// Asserts that the thread is in no call of [`run_under_lock`]: before it takes a lock, for which it may wait for ever.
#[inline]
pub(crate) fn assert_locks_are_allowed() {
    let is_allowed = || std::thread::panicking() || held() & IS_IN_CALL == 0;
    debug_assert!(is_allowed(), "a plug-in or a stream link calls an entity, which may be a deadlock");
}

/// Asserts that the thread holds no lock.
#[inline]
pub(crate) fn assert_no_lock_is_held() {
    debug_assert!(std::thread::panicking() || !is_any_lock_held(), "user code would run under a lock");
}

/// Runs the waiting user code of this thread, except code that the thread must not run. The list is reused, so that a
/// steady state allocates nothing.
#[cold]
fn run_pending() {
    let Ok(mut all) = PENDING.try_with(RefCell::take) else { return };
    set_held(held() & !HAS_PENDING);
    if is_deferring() {
        let own = all.extract_if(.., |code| !code.must_wait());
        own.for_each(UserCode::run);
    } else {
        all.extend(take_report_of_lost_events());
        all.drain(..).for_each(UserCode::run);
    }
    // The code may have added further code, which waits behind the code that this thread must not run.
    let _ = PENDING.try_with(|pending| {
        let mut pending = pending.borrow_mut();
        if pending.is_empty() {
            *pending = all;
        } else {
            pending.append(&mut all);
        }
    });
}

/// Whether user code waits until this thread may run it or hands it to another thread.
#[inline]
pub(crate) fn has_deferred() -> bool {
    is_deferring() && PENDING.try_with(|pending| !pending.borrow().is_empty()).unwrap_or_default()
}

/// Takes the waiting user code of a thread that must not run it, to hand it to another thread.
pub(crate) fn take_deferred(into: &mut Vec<UserCode>) {
    let _ = PENDING.try_with(|pending| into.append(&mut pending.borrow_mut()));
    into.extend(take_report_of_lost_events());
}

/// All waiting log events leave the list: others have places now. Returns the event that states how many had none.
fn take_report_of_lost_events() -> Option<UserCode> {
    EVENTS.with(|events| events.set(0));
    let count = LOST_EVENTS.with(Cell::take);
    (count > 0).then(|| {
        UserCode::Log(Box::new(move || {
            tracing::warn!(count, "log events are lost: more than {EVENTS_MAX} came while a thread held a lock");
        }))
    })
}

/// Whether the calling thread is inside a listener.
pub(crate) fn is_in_listener() -> bool {
    DEPTH.with(Cell::get) > 0
}

/// Whether the calling thread must queue listeners instead of running them.
pub(crate) fn must_defer() -> bool {
    is_deferring() || DEPTH.with(Cell::get) >= DEPTH_MAX
}

/// As long as this guard exists, its thread runs no listener and no other [user code](UserCode), and emits no event.
/// Deferred code runs when the outermost guard is dropped.
pub(crate) struct Deferring {
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Deferring {
    pub(crate) fn begin() -> Self {
        DEFERRING.with(|guards| guards.set(guards.get() + 1));
        Self { _not_send: std::marker::PhantomData }
    }
}

impl Drop for Deferring {
    fn drop(&mut self) {
        let has_deferred = DEFERRING.with(Cell::get) == 1 && has_deferred();
        DEFERRING.with(|guards| guards.set(guards.get() - 1));
        if has_deferred && is_any_lock_held() {
            set_held(held() | HAS_PENDING);
        } else if has_deferred {
            run_pending();
        }
    }
}

/// Counts the thread's listeners.
pub(crate) struct Nesting;

impl Nesting {
    pub(crate) fn enter() -> Self {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Self
    }
}

impl Drop for Nesting {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::rc::Rc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts how often it is dropped, or panics instead.
    struct Value {
        drops: Arc<AtomicUsize>,
        panics: bool,
    }

    impl Drop for Value {
        fn drop(&mut self) {
            assert!(!is_any_lock_held() && !is_deferring());
            self.drops.fetch_add(1, Ordering::SeqCst);
            assert!(!self.panics, "on purpose");
        }
    }

    fn drop_value(drops: &Arc<AtomicUsize>, panics: bool) {
        drop_user_value(Arc::new(Value { drops: Arc::clone(drops), panics }));
    }

    #[test]
    fn thread_is_deferring_until_guard_is_dropped() {
        assert!(!must_defer());
        let outer = Deferring::begin();
        drop(Deferring::begin());
        assert!(must_defer(), "the outer guard is still there");
        drop(outer);
        assert!(!must_defer());
    }

    #[test]
    fn value_dropped_under_two_locks_is_dropped_after_the_release_of_the_last() {
        let drops = Arc::default();
        let (outer, inner) = (HeldLock::new(), HeldLock::new());
        drop_value(&drops, false);
        drop(inner);
        assert_eq!(drops.load(Ordering::SeqCst), 0);
        drop(outer);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        drop_value(&drops, false);
        assert_eq!(drops.load(Ordering::SeqCst), 2, "no lock is held");
    }

    #[test]
    fn value_dropped_by_deferring_thread_is_dropped_after_the_guard() {
        let drops = Arc::default();
        let deferring = Deferring::begin();
        let lock = HeldLock::new();
        drop_value(&drops, false);
        drop(lock);
        assert!(has_deferred());
        let lock = HeldLock::new();
        drop(deferring);
        assert_eq!(drops.load(Ordering::SeqCst), 0, "the lock is held");
        drop(lock);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        assert!(!has_deferred());
    }

    #[test]
    fn panicking_destructor_is_counted_and_others_run() {
        let (drops, before) = (Arc::default(), user_code_panics());
        let lock = HeldLock::new();
        drop_value(&drops, true);
        drop_value(&drops, false);
        drop(lock);
        assert_eq!(drops.load(Ordering::SeqCst), 2);
        assert!(user_code_panics() > before);
    }

    #[test]
    fn event_logged_under_a_lock_is_emitted_after_its_release() {
        let emitted = Arc::<AtomicUsize>::default();
        let emit = |panics: bool| {
            let emitted = Arc::clone(&emitted);
            emit_unlocked(move || {
                emitted.fetch_add(1, Ordering::SeqCst);
                assert!(!panics, "on purpose");
            });
        };
        let before = user_code_panics();
        let lock = HeldLock::new();
        emit(true);
        assert_eq!(emitted.load(Ordering::SeqCst), 0);
        drop(lock);
        assert_eq!(emitted.load(Ordering::SeqCst), 1);
        emit(true);
        assert_eq!(emitted.load(Ordering::SeqCst), 2);
        assert!(user_code_panics() >= before + 2);
    }

    #[test]
    fn log_events_past_their_bound_are_counted_and_reported() {
        let emitted = Arc::<AtomicUsize>::default();
        let emit = || {
            let emitted = Arc::clone(&emitted);
            emit_unlocked(move || _ = emitted.fetch_add(1, Ordering::SeqCst));
        };
        let bound = EVENTS_MAX as usize;
        let lock = HeldLock::new();
        (0..bound + 3).for_each(|_| emit());
        assert_eq!((LOST_EVENTS.get(), emitted.load(Ordering::SeqCst)), (3, 0));
        drop(lock);
        assert_eq!((LOST_EVENTS.get(), emitted.load(Ordering::SeqCst)), (0, bound));
        let deferring = Deferring::begin();
        (0..bound + 2).for_each(|_| emit());
        let mut handed_over = Vec::new();
        take_deferred(&mut handed_over);
        assert_eq!((LOST_EVENTS.get(), handed_over.len()), (0, bound + 1), "the last one reports the lost ones");
        emit();
        assert_eq!(LOST_EVENTS.get(), 0, "there is room again");
        drop(deferring);
        assert_eq!(emitted.load(Ordering::SeqCst), bound + 1);
    }

    #[test]
    fn values_wait_under_a_lock_up_to_the_bound() {
        let lock = HeldLock::new();
        let value: Arc<dyn Any + Send + Sync> = Arc::new(());
        (0..PENDING_MAX).for_each(|_| drop_user_value(Arc::clone(&value)));
        assert_eq!(PENDING.with_borrow(Vec::len), PENDING_MAX);
        drop(lock);
        assert_eq!((PENDING.with_borrow(Vec::len), Arc::strong_count(&value)), (0, 1));
    }

    #[test]
    fn panic_under_a_lock_has_the_other_result_and_leaves_the_locks_as_they_were() {
        let (drops, before) = (Arc::default(), user_code_panics());
        let lock = HeldLock::new();
        let result = run_under_lock(
            "a plug-in has panicked",
            || {
                drop_value(&drops, false);
                std::panic::panic_any(Value { drops: Arc::clone(&drops), panics: false });
            },
            || 7,
        );
        assert_eq!((result, drops.load(Ordering::SeqCst)), (7, 0), "the values are dropped under no lock");
        drop(lock);
        assert!(!is_any_lock_held() && user_code_panics() > before);
        assert_eq!(drops.load(Ordering::SeqCst), 2);
    }

    /// Without the check, the second lock of the same mutex would be a deadlock.
    #[cfg(debug_assertions)]
    #[test]
    fn lock_in_a_call_under_a_lock_is_a_panic_of_that_call() {
        let before = user_code_panics();
        let entity = std::sync::Mutex::new(1);
        let held = crate::driver::base::sync::lock(&entity);
        let call = || *crate::driver::base::sync::lock(&entity);
        assert_eq!(run_under_lock("a plug-in has panicked", call, || 0), 0);
        assert!(is_any_lock_held() && user_code_panics() > before);
        drop(held);
        assert_eq!((run_under_lock("a plug-in has panicked", || 3, || 0), is_any_lock_held()), (3, false));
    }

    #[cfg(debug_assertions)]
    #[test]
    fn user_code_under_a_lock_is_refused() {
        let was_called = Rc::new(Cell::new(false));
        let called = Rc::clone(&was_called);
        let refused = catch_unwind(AssertUnwindSafe(|| {
            let _lock = HeldLock::new();
            run_user_code(|| called.set(true));
        }));
        assert!(refused.is_err() && !was_called.get() && !is_any_lock_held());
    }
}
