//! Entities whose listeners wait for a thread that may run user code.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use peregrine_rtps::time::Span;

use super::listener_gate::{AfterRun, ListenerGate};
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::system::{AtomicBool, Mutex};

/// The longest time that other entities wait for a thread inside a listener before another thread takes over.
pub(in crate::driver) const LISTENER_TIME_MAX: Span = Span::from_millis(50);

/// An entity with a listener.
pub(crate) trait RunListener: Send + Sync {
    fn gate(&self) -> &ListenerGate;

    /// Runs the listener with the pending statuses of the gate. The caller must hold no lock.
    fn run_listener(&self) -> AfterRun;
}

/// The queue contains each entity at most once ([`ListenerGate::set_queued`]), so the number of entities is its bound.
#[derive(Default)]
pub(in crate::driver) struct ListenerQueue {
    queue: Mutex<VecDeque<Arc<dyn RunListener>>>,
    has_some: AtomicBool,
    is_closed: AtomicBool,
}

impl ListenerQueue {
    /// Queues an entity that is not queued.
    pub(in crate::driver) fn push(&self, entity: Arc<dyn RunListener>) {
        let mut queue = self.lock();
        // Checked under the lock, because `close` empties the queue after it has set this.
        if self.is_closed.load(Ordering::SeqCst) {
            drop(queue);
            return;
        }
        debug_assert!(
            !queue.iter().any(|queued| std::ptr::addr_eq(Arc::as_ptr(queued), Arc::as_ptr(&entity))),
            "an entity is queued twice"
        );
        queue.push_back(entity);
        self.has_some.store(true, Ordering::SeqCst);
    }

    #[inline]
    pub(in crate::driver) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::SeqCst)
    }

    pub(in crate::driver) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Runs the next listener on the calling thread. Returns whether there was one.
    pub(in crate::driver) fn run_next(&self) -> bool {
        let mut queue = self.lock();
        let next = queue.pop_front();
        self.has_some.store(!queue.is_empty(), Ordering::SeqCst);
        drop(queue);
        let Some(entity) = next else { return false };
        entity.gate().clear_queued();
        if entity.run_listener() == AfterRun::Queue {
            self.push(entity);
        }
        true
    }

    /// Runs up to `most` listeners. Returns whether any remain, for which the caller has to wake a thread: a listener
    /// with more events than one turn handles is queued again, and possibly no thread is about to run it.
    #[must_use]
    pub(in crate::driver) fn run_some(&self, most: usize) -> bool {
        let mut rounds = 0..most;
        while rounds.next().is_some() && self.run_next() {}
        self.has_some()
    }

    /// Drops the queued entities, which the queue keeps alive, and accepts no more.
    pub(in crate::driver) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let dropped = std::mem::take(&mut *self.lock());
        drop(dropped);
    }

    fn lock(&self) -> Guard<'_, VecDeque<Arc<dyn RunListener>>> {
        lock(&self.queue)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::status::StatusMask;

    #[derive(Default)]
    struct Entity {
        gate: ListenerGate,
        calls: Mutex<usize>,
    }

    impl RunListener for Entity {
        fn gate(&self) -> &ListenerGate {
            &self.gate
        }

        fn run_listener(&self) -> AfterRun {
            self.gate.run(|_| {
                *self.calls.lock().unwrap() += 1;
                self.gate.add(StatusMask::DATA_AVAILABLE);
            })
        }
    }

    #[test]
    fn entity_with_endless_events_does_not_starve_others() {
        let queue = ListenerQueue::default();
        let entities: Vec<Arc<Entity>> = (0..3).map(|_| Arc::default()).collect();
        for entity in &entities {
            assert!(entity.gate.add(StatusMask::DATA_AVAILABLE) && entity.gate.set_queued());
            queue.push(Arc::clone(entity) as _);
        }
        (0..30).for_each(|_| assert!(queue.run_next()));
        let calls: Vec<usize> = entities.iter().map(|entity| *entity.calls.lock().unwrap()).collect();
        assert!(calls.iter().all(|count| *count == calls[0] && *count > 0), "{calls:?}");
        assert_eq!(queue.lock().len(), 3, "each is queued once");
    }

    #[test]
    fn listener_with_events_beyond_its_turn_is_queued_again() {
        let (queue, entity) = (ListenerQueue::default(), Arc::<Entity>::default());
        assert!(entity.gate.add(StatusMask::DATA_AVAILABLE) && entity.gate.set_queued());
        queue.push(Arc::clone(&entity) as _);
        assert!(queue.run_some(1), "the entity has news without end");
        assert!(!entity.gate.add(StatusMask::DATA_AVAILABLE), "no thread queues it again");
        let quiet: Arc<Entity> = Arc::default();
        let queue = ListenerQueue::default();
        assert!(quiet.gate.set_queued());
        queue.push(quiet);
        assert!(!queue.run_some(1));
    }

    /// A thread ends the turn of an entity while another thread takes that entity from the queue.
    #[test]
    fn event_at_end_of_turn_is_reported_by_either_thread() {
        let mut random = fastrand::Rng::with_seed(1);
        for round in 0..20_000 {
            let (queue, entity, begin) = (ListenerQueue::default(), Arc::<Entity>::default(), AtomicBool::new(false));
            assert!(entity.gate.add(StatusMask::DATA_AVAILABLE) && entity.gate.set_queued());
            queue.push(Arc::clone(&entity) as _);
            let delay = random.u32(..300);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !begin.load(Ordering::SeqCst) {
                        std::hint::spin_loop();
                    }
                    (0..delay).for_each(|_| std::hint::spin_loop());
                    queue.run_next();
                });
                begin.store(true, Ordering::SeqCst);
                if entity.run_listener() == AfterRun::Queue {
                    queue.push(Arc::clone(&entity) as _);
                }
            });
            // The entity has endless events.
            assert_eq!(queue.len(), 1, "round {round}: no thread will report the event");
        }
    }

    #[test]
    fn queue_holds_each_of_many_entities_once() {
        let queue = ListenerQueue::default();
        let entities: Vec<Arc<Entity>> = (0..1_000).map(|_| Arc::default()).collect();
        for entity in entities.iter().cycle().take(3 * entities.len()) {
            entity.gate.add(StatusMask::DATA_AVAILABLE);
            if entity.gate.set_queued() {
                queue.push(Arc::clone(entity) as _);
            }
        }
        assert_eq!(queue.len(), entities.len());
    }

    #[test]
    fn closed_queue_drops_its_entities() {
        let queue = ListenerQueue::default();
        let entity: Arc<Entity> = Arc::default();
        queue.push(Arc::clone(&entity) as _);
        queue.close();
        queue.push(Arc::clone(&entity) as _);
        assert_eq!(Arc::strong_count(&entity), 1);
        assert!(!queue.run_next());
    }
}
