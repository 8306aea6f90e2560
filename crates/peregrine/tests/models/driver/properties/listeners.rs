//! Each event reaches the listener, on one thread at a time, and not after the last handle was dropped.

use std::sync::{Arc, Weak};

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::bounded;
use crate::driver::host::listener_gate::{AfterRun, ListenerGate};
use crate::driver::host::listener_queue::{ListenerQueue, RunListener};
use crate::status::StatusMask;

const FIRST: StatusMask = StatusMask::DATA_AVAILABLE;
const SECOND: StatusMask = StatusMask::SAMPLE_LOST;
const BOTH: u32 = FIRST.bits() | SECOND.bits();

/// An entity whose listener loads and stores without a lock: of two concurrent or unordered calls, one loses the store
/// of the other.
#[derive(Default)]
struct Entity {
    gate: ListenerGate,
    told: AtomicU32,
    calls: AtomicU32,
    /// The number of calls that cause a further event, as in an endless stream.
    echoes: u32,
}

impl Entity {
    fn told(&self) -> u32 {
        self.told.load(Ordering::Relaxed)
    }

    fn listen(&self, news: StatusMask) {
        let (told, calls) = (self.told(), self.calls.load(Ordering::Relaxed) + 1);
        if calls <= self.echoes {
            let _ = self.gate.add(FIRST);
        }
        self.told.store(told | news.bits(), Ordering::Relaxed);
        self.calls.store(calls, Ordering::Relaxed);
    }
}

impl RunListener for Entity {
    fn gate(&self) -> &ListenerGate {
        &self.gate
    }

    fn run_listener(&self) -> AfterRun {
        self.gate.run(|news| self.listen(news))
    }
}

/// The queue with the threads that run listeners.
#[derive(Default)]
struct Queue {
    listeners: ListenerQueue,
    wakes: Mutex<usize>,
    woken: Condvar,
}

impl Queue {
    /// Like `Domain::queue_listener`.
    fn push(&self, entity: Arc<dyn RunListener>) {
        self.listeners.push(entity);
        *self.wakes.lock().unwrap() += 1;
        self.woken.notify_one();
    }

    /// Handles an event on a thread that may run listeners, as `Host::run_or_queue` does.
    fn tell(&self, entity: &Arc<Entity>, news: StatusMask) {
        if entity.gate.add(news) && entity.run_listener() == AfterRun::Queue {
            self.push(Arc::clone(entity) as _);
        }
    }

    /// Handles an event on a thread that must not run listeners.
    fn defer(&self, entity: &Arc<Entity>, news: StatusMask) {
        if entity.gate.add(news) && entity.gate.set_queued() {
            self.push(Arc::clone(entity) as _);
        }
    }

    /// Sleeps until an entity is queued, then runs the queued entities.
    fn run_one_wake_up(&self) {
        let mut wakes = self.wakes.lock().unwrap();
        while *wakes == 0 {
            wakes = self.woken.wait(wakes).unwrap();
        }
        *wakes -= 1;
        drop(wakes);
        while self.listeners.has_some() {
            self.listeners.run_next();
        }
    }

    /// Runs entities that are still queued after all threads have ended. No thread would wake up for them.
    fn run_rest(&self) {
        while std::mem::take(&mut *self.wakes.lock().unwrap()) > 0 {
            while self.listeners.has_some() {
                self.listeners.run_next();
            }
        }
    }
}

fn assert_told(entity: &Entity) {
    assert_eq!(entity.gate.panics(), 0, "a listener has failed");
    assert_eq!(entity.told(), BOTH, "an event is lost");
}

#[test]
fn events_of_all_kinds_of_threads_reach_listener() {
    bounded(3).check(|| {
        let (queue, entity) = (Arc::new(Queue::default()), Arc::new(Entity::default()));
        let deferring = thread::spawn({
            let (queue, entity) = (Arc::clone(&queue), Arc::clone(&entity));
            move || {
                queue.defer(&entity, FIRST);
                // Another thread runs the queued entities.
                queue.listeners.run_next();
            }
        });
        queue.tell(&entity, SECOND);
        deferring.join().unwrap();
        queue.run_rest();
        assert_told(&entity);
    });
}

#[test]
fn entity_deferred_by_two_threads_is_queued_once_and_notified() {
    bounded(3).check(|| {
        let (queue, entity) = (Arc::new(Queue::default()), Arc::new(Entity::default()));
        let others = [FIRST, SECOND].map(|news| {
            let (queue, entity) = (Arc::clone(&queue), Arc::clone(&entity));
            thread::spawn(move || queue.defer(&entity, news))
        });
        queue.run_one_wake_up();
        others.into_iter().for_each(|other| other.join().unwrap());
        queue.run_rest();
        assert_told(&entity);
    });
}

/// A thread ends the turn of an entity with endless events while another thread takes the entity from the queue.
#[test]
fn event_at_end_of_turn_is_reported_in_next_turn() {
    bounded(3).check(|| {
        let queue = Arc::new(Queue::default());
        let entity = Arc::new(Entity { echoes: 4, ..Entity::default() });
        let _ = entity.gate.add(FIRST);
        assert!(entity.gate.set_queued());
        queue.push(Arc::clone(&entity) as _);
        let taking = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.run_one_wake_up()
        });
        if entity.run_listener() == AfterRun::Queue {
            queue.push(Arc::clone(&entity) as _);
        }
        let _ = entity.gate.add(SECOND).then(|| queue.tell(&entity, SECOND));
        taking.join().unwrap();
        queue.run_rest();
        assert_told(&entity);
    });
}

/// The thread that reads samples in place begins a call under the lock of the entity.
#[test]
fn event_during_early_call_is_reported() {
    bounded(3).check(|| {
        let (queue, entity) = (Arc::new(Queue::default()), Arc::new(Entity::default()));
        let other = thread::spawn({
            let (queue, entity) = (Arc::clone(&queue), Arc::clone(&entity));
            move || queue.tell(&entity, SECOND)
        });
        if let Some(turn) = entity.gate.try_begin() {
            let after = turn.run(FIRST, |news| entity.listen(news), |news| entity.listen(news));
            assert_eq!(after, AfterRun::Nothing);
        } else {
            queue.tell(&entity, FIRST);
        }
        other.join().unwrap();
        queue.run_rest();
        assert_told(&entity);
    });
}

/// Two threads wait while a third is in the listener: one for the end of that call, one to close the gate.
#[test]
fn no_listener_call_begins_after_drop_of_last_handle() {
    bounded(3).check(|| {
        let entity = Arc::new(Entity::default());
        let telling = thread::spawn({
            let entity = Arc::clone(&entity);
            move || {
                if entity.gate.add(FIRST) {
                    let _ = entity.run_listener();
                }
            }
        });
        let waiting = thread::spawn({
            let entity = Arc::clone(&entity);
            move || entity.gate.wait_until_idle()
        });
        entity.gate.close_and_wait(|_| true);
        let told = entity.told();
        telling.join().unwrap();
        waiting.join().unwrap();
        assert_eq!(entity.told(), told, "the listener was called after the last handle was gone");
        assert_eq!(entity.gate.panics(), 0);
    });
}

/// A running listener keeps its entity alive, so the thread that drops a handle counts the listener. Of two handles
/// that are dropped at a time, the one that finds itself the last waits.
#[test]
fn drop_of_last_of_two_handles_waits_for_listener() {
    bounded(3).check(|| {
        let entity = Arc::new(Entity::default());
        let telling = thread::spawn({
            let entity = Arc::clone(&entity);
            move || {
                if entity.gate.add(FIRST) {
                    let _ = entity.run_listener();
                }
            }
        });
        let handles = Arc::new(Mutex::new(2));
        let drop_handle = move |entity: &Entity| {
            let is_last = {
                let mut left = handles.lock().unwrap();
                *left -= 1;
                *left == 0
            };
            entity.gate.close_and_wait(|_| is_last);
            is_last.then(|| entity.told())
        };
        let other = thread::spawn({
            let (entity, drop_handle) = (Arc::clone(&entity), drop_handle.clone());
            move || drop_handle(&entity)
        });
        let told = drop_handle(&entity);
        let told = [told, other.join().unwrap()].into_iter().flatten().next().expect("one handle is the last");
        telling.join().unwrap();
        assert_eq!(entity.told(), told, "the listener was called after the last handle was gone");
    });
}

#[test]
fn closed_queue_keeps_no_entity() {
    bounded(3).check(|| {
        let (queue, entity) = (Arc::new(Queue::default()), Arc::new(Entity::default()));
        let kept: Weak<Entity> = Arc::downgrade(&entity);
        let deferring = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.defer(&entity, FIRST)
        });
        queue.listeners.close();
        deferring.join().unwrap();
        assert_eq!(kept.strong_count(), 0, "the closed queue keeps an entity");
    });
}
