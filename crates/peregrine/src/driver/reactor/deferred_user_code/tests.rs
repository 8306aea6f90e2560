use std::any::Any;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use super::*;
use crate::driver::base::user_code::{Deferring, drop_user_value};
use crate::driver::host::listener_gate::AfterRun;

const PATIENCE: Duration = Duration::from_secs(20);

/// A task that counts how often it is woken.
#[derive(Default)]
struct Counts(AtomicUsize);

impl Counts {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// User code that blocks until the test releases it, and says when it has begun.
struct Blocks {
    begun: SyncSender<()>,
    may_return: Mutex<Receiver<()>>,
}

/// The other side of [`Blocks`].
struct Control {
    has_begun: Receiver<()>,
    release: SyncSender<()>,
}

fn blocking() -> (Blocks, Control) {
    let ((begun, has_begun), (release, may_return)) = (sync_channel(100), sync_channel(100));
    (Blocks { begun, may_return: Mutex::new(may_return) }, Control { has_begun, release })
}

impl Blocks {
    fn block(&self) {
        self.begun.send(()).unwrap();
        self.may_return.lock().unwrap().recv_timeout(PATIENCE).unwrap();
    }
}

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.block();
    }
}

/// A value whose destructor blocks.
struct BlocksOnDrop(Blocks);

impl Drop for BlocksOnDrop {
    fn drop(&mut self) {
        self.0.block();
    }
}

fn defer(task: &Arc<impl Wake + Send + Sync + 'static>) {
    UserCode::Wake(Waker::from(Arc::clone(task))).run_unlocked();
}

fn emit(emitted: &Arc<AtomicUsize>) {
    let emitted = Arc::clone(emitted);
    UserCode::Log(Box::new(move || _ = emitted.fetch_add(1, Ordering::SeqCst))).run_unlocked();
}

/// The entries to queue after the calling thread, which must not run user code, has handed its own over.
fn handed_over(deferred: &DeferredUserCode) -> Vec<Arc<dyn RunListener>> {
    let mut entries = Vec::new();
    deferred.take_over(|entry| entries.push(entry));
    entries
}

/// Runs an entry as a thread that takes entries from the listener queue does.
fn run(entry: &Arc<dyn RunListener>) {
    entry.gate().clear_queued();
    assert_eq!(entry.run_listener(), AfterRun::Nothing);
}

fn run_elsewhere(entry: &Arc<dyn RunListener>) {
    thread::scope(|scope| scope.spawn(|| run(entry)).join().unwrap());
}

#[test]
fn task_woken_repeatedly_is_queued_once_and_woken_once_by_another_thread() {
    let (deferred, counts) = (DeferredUserCode::default(), Arc::<Counts>::default());
    let no_user_code = Deferring::begin();
    (0..2).for_each(|_| defer(&counts));
    let [task, replaced] = &*handed_over(&deferred) else { panic!("a task, and the waker that was replaced") };
    defer(&counts);
    assert!(handed_over(&deferred).is_empty(), "both are queued");
    assert_eq!((counts.get(), deferred.wakers.len()), (0, 1));
    [task, replaced].into_iter().for_each(run_elsewhere);
    assert_eq!((counts.get(), deferred.wakers.len()), (1, 0));
    assert_eq!(Arc::strong_count(&counts), 1, "no waker is left");
    drop(no_user_code);
    assert_eq!(counts.get(), 1);
}

#[test]
fn entry_of_a_task_is_used_again_and_idle_entries_are_bounded() {
    let deferred = DeferredUserCode::default();
    let _no_user_code = Deferring::begin();
    let run_once = |task: &Arc<Counts>| {
        defer(task);
        let [entry] = &*handed_over(&deferred) else { panic!("one entry") };
        run_elsewhere(entry);
        Arc::as_ptr(entry).cast::<()>()
    };
    let task = Arc::<Counts>::default();
    let first = run_once(&task);
    assert!((0..10).all(|_| run_once(&task) == first));
    assert_eq!((task.get(), deferred.wakers.len(), deferred.wakers.entries()), (11, 0, 1));
    // More tasks than idle entries, which all exist at the same time.
    let tasks: Vec<_> = (0..1000).map(|_| Arc::<Counts>::default()).collect();
    for task in &tasks {
        run_once(task);
        assert!(deferred.wakers.len() == 0 && deferred.wakers.entries() <= 256);
    }
    assert!(tasks.iter().all(|task| task.get() == 1 && Arc::strong_count(task) == 1));
}

#[test]
fn waker_that_blocks_holds_up_no_other_waker_and_its_task_is_woken_once_more() {
    let (deferred, counts) = (DeferredUserCode::default(), Arc::<Counts>::default());
    let (blocks, control) = blocking();
    let blocks = Arc::new(blocks);
    let _no_user_code = Deferring::begin();
    defer(&blocks);
    defer(&counts);
    let [blocked, other] = &*handed_over(&deferred) else { panic!("an entry for each task") };
    thread::scope(|scope| {
        let running = scope.spawn(|| run(blocked));
        control.has_begun.recv_timeout(PATIENCE).unwrap();
        run_elsewhere(other);
        assert_eq!(counts.get(), 1);
        for _ in 0..100 {
            defer(&blocks);
            let entries = handed_over(&deferred);
            assert!(!entries.iter().any(|entry| Arc::ptr_eq(entry, blocked)), "the running call wakes it");
            entries.iter().for_each(run_elsewhere);
        }
        assert_eq!(deferred.wakers.len(), 1, "a task has one entry");
        (0..2).for_each(|_| control.release.send(()).unwrap());
        control.has_begun.recv_timeout(PATIENCE).expect("it is woken once more");
        running.join().unwrap();
    });
    assert!(control.has_begun.try_recv().is_err(), "100 wake-ups are one");
    assert_eq!((deferred.wakers.len(), Arc::strong_count(&blocks)), (0, 1));
}

#[test]
fn log_event_that_blocks_holds_up_no_waker_and_events_past_the_bound_are_counted() {
    let (deferred, counts, emitted) = (DeferredUserCode::default(), Arc::<Counts>::default(), Arc::default());
    let (blocks, control) = blocking();
    let before = user_code::lost_log_events();
    let _no_user_code = Deferring::begin();
    UserCode::Log(Box::new(move || blocks.block())).run_unlocked();
    let [events] = &*handed_over(&deferred) else { panic!("events have one entry") };
    thread::scope(|scope| {
        let running = scope.spawn(|| run(events));
        control.has_begun.recv_timeout(PATIENCE).unwrap();
        (0..EVENTS_MAX + 3).for_each(|_| emit(&emitted));
        defer(&counts);
        let [task] = &*handed_over(&deferred) else { panic!("the events are queued behind the one that blocks") };
        run_elsewhere(task);
        assert_eq!((counts.get(), emitted.load(Ordering::SeqCst)), (1, 0), "no event runs on this thread");
        assert_eq!((deferred.events.len(), deferred.events_lost.load(Ordering::Relaxed)), (EVENTS_MAX, 3));
        assert!(user_code::lost_log_events() >= before + 3);
        control.release.send(()).unwrap();
        running.join().unwrap();
    });
    assert_eq!(emitted.load(Ordering::SeqCst), EVENTS_MAX);
    emit(&emitted);
    let [events] = &*handed_over(&deferred) else { panic!("events have one entry") };
    assert_eq!(deferred.events.len(), 2, "an event states how many are lost");
    run_elsewhere(events);
    assert_eq!((emitted.load(Ordering::SeqCst), deferred.events_lost.load(Ordering::Relaxed)), (EVENTS_MAX + 1, 0));
}

/// Each lane begins with a value whose destructor blocks.
#[test]
fn destructors_that_block_hold_up_a_lane_each_and_values_past_all_lanes_are_leaked() {
    let deferred = DeferredUserCode::default();
    let before = user_code::leaked_values();
    let _no_user_code = Deferring::begin();
    let value: Arc<dyn Any + Send + Sync> = Arc::new(());
    let mut controls = Vec::new();
    thread::scope(|scope| {
        for lane in 1..=LANES_MAX {
            let (blocks, control) = blocking();
            drop_user_value(Arc::new(BlocksOnDrop(blocks)));
            let entries = handed_over(&deferred);
            assert_eq!((entries.len(), deferred.values.lock().unwrap().len()), (1, lane));
            scope.spawn(move || run(&entries[0]));
            control.has_begun.recv_timeout(PATIENCE).expect("a blocked destructor does not hold up the next lane");
            controls.push(control);
            (0..VALUES_MAX).for_each(|_| drop_user_value(Arc::clone(&value)));
            assert!(handed_over(&deferred).is_empty(), "a thread runs the lane");
        }
        let waiting = LANES_MAX * VALUES_MAX;
        (0..3).for_each(|_| drop_user_value(Arc::clone(&value)));
        assert!(handed_over(&deferred).is_empty());
        assert_eq!(Arc::strong_count(&value), 1 + waiting + 3, "no destructor runs on this thread");
        assert!(user_code::leaked_values() >= before + 3);
        controls.iter().for_each(|control| control.release.send(()).unwrap());
    });
    assert_eq!(Arc::strong_count(&value), 1 + 3, "the leaked values stay");
    drop_user_value(Arc::clone(&value));
    handed_over(&deferred).iter().for_each(run_elsewhere);
    assert_eq!(Arc::strong_count(&value), 1 + 3, "there is room again");
}

#[test]
fn closing_domain_runs_the_rest() {
    let (deferred, counts, emitted) = (DeferredUserCode::default(), Arc::<Counts>::default(), Arc::default());
    let value: Arc<dyn Any + Send + Sync> = Arc::new(());
    let no_user_code = Deferring::begin();
    defer(&counts);
    emit(&emitted);
    drop_user_value(Arc::clone(&value));
    assert_eq!(handed_over(&deferred).len(), 3);
    drop(no_user_code);
    deferred.run_rest();
    assert_eq!((counts.get(), emitted.load(Ordering::SeqCst), Arc::strong_count(&value)), (1, 1, 1));
}
