//! The timers of the endpoints of a participant. The number of steps in which the control thread finds the due timers
//! grows with their number, not with that of the endpoints.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use peregrine_rtps::id::EntityId;
use peregrine_rtps::min_tree::MinTree;

use super::clock::NEVER;
use super::sync::lock_leaf;
use super::system::{AtomicU64, Mutex};

/// The timers of the endpoints of a participant.
#[derive(Default)]
pub(crate) struct EndpointTimers {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// When the control thread calls the endpoint of a place.
    calls: MinTree<u64>,
    /// The endpoints by place; `None`: the place is free.
    endpoints: Vec<Option<EntityId>>,
    free: Vec<usize>,
    /// For [`EndpointTimers::take_due`].
    places: Vec<u32>,
}

/// The timer of one endpoint.
///
/// Its call is at the deadline of the endpoint or before. A deadline that moves to a later time, as in a flow of
/// samples, leaves the call where it is: the control thread then finds that the endpoint is not due, and plans another
/// call.
///
/// A thread that moves the deadline stores it and then reads the time of the call, while the control thread clears the
/// time of the call and then reads the deadline. Both orders need sequential consistency.
pub(crate) struct EndpointTimer {
    timers: Arc<EndpointTimers>,
    place: usize,
    /// The time of the call; `NEVER`: none is planned. Changes under the lock of the table, and in [`Self::reset`].
    call_at: AtomicU64,
}

impl EndpointTimers {
    /// A timer for an endpoint.
    pub(crate) fn add(self: &Arc<Self>, endpoint: EntityId) -> EndpointTimer {
        let mut table = lock_leaf(&self.table);
        let place = table.free.pop().unwrap_or(table.endpoints.len());
        if place == table.endpoints.len() {
            table.endpoints.push(None);
        }
        if let Some(entry) = table.endpoints.get_mut(place) {
            *entry = Some(endpoint);
        }
        drop(table);
        EndpointTimer { timers: Arc::clone(self), place, call_at: AtomicU64::new(NEVER) }
    }

    /// Appends the endpoints whose calls are due. The caller [resets](EndpointTimer::reset) their timers and then looks
    /// at their deadlines.
    pub(crate) fn take_due(&self, now: u64, due: &mut Vec<EntityId>) {
        let mut table = lock_leaf(&self.table);
        let Table { calls, endpoints, places, .. } = &mut *table;
        calls.positions_up_to(now, places);
        for place in places.drain(..) {
            let place = place as usize;
            calls.set(place, None);
            due.extend(endpoints.get(place).copied().flatten());
        }
    }

    /// The time of the first call.
    pub(crate) fn next_call(&self) -> u64 {
        lock_leaf(&self.table).calls.min().unwrap_or(NEVER)
    }
}

impl EndpointTimer {
    /// Plans a call no later than this deadline, which the caller has stored. The caller then arms the timer of the
    /// control thread.
    #[inline]
    pub(crate) fn plan(&self, deadline: u64) {
        if deadline < self.call_at.load(Ordering::SeqCst) {
            self.plan_earlier(deadline);
        }
    }

    /// Forgets the planned call. The caller then looks at the deadline of the endpoint and plans anew.
    pub(crate) fn reset(&self) {
        self.call_at.store(NEVER, Ordering::SeqCst);
    }

    #[cold]
    fn plan_earlier(&self, deadline: u64) {
        let mut table = lock_leaf(&self.timers.table);
        if deadline < self.call_at.load(Ordering::SeqCst) {
            self.call_at.store(deadline, Ordering::SeqCst);
            table.calls.set(self.place, Some(deadline));
        }
    }
}

impl Drop for EndpointTimer {
    fn drop(&mut self) {
        let mut table = lock_leaf(&self.timers.table);
        table.calls.set(self.place, None);
        if let Some(entry) = table.endpoints.get_mut(self.place) {
            *entry = None;
        }
        table.free.push(self.place);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entity(key: u32) -> EntityId {
        EntityId::user_writer(key, false)
    }

    fn due(timers: &EndpointTimers, now: u64) -> Vec<EntityId> {
        let mut due = Vec::new();
        timers.take_due(now, &mut due);
        due
    }

    #[test]
    fn due_endpoints_are_found_once() {
        let timers = Arc::<EndpointTimers>::default();
        let endpoints = [1, 2, 3].map(|key| timers.add(entity(key)));
        assert_eq!(timers.next_call(), NEVER);
        for (endpoint, deadline) in endpoints.iter().zip([30, 10, 20]) {
            endpoint.plan(deadline);
        }
        assert_eq!((timers.next_call(), due(&timers, 9)), (10, vec![]));
        assert_eq!(due(&timers, 20), [entity(2), entity(3)]);
        assert_eq!((timers.next_call(), due(&timers, 20)), (30, vec![]));
    }

    #[test]
    fn later_deadline_keeps_the_call_and_earlier_one_moves_the_call() {
        let timers = Arc::<EndpointTimers>::default();
        let endpoint = timers.add(entity(1));
        endpoint.plan(20);
        endpoint.plan(25);
        assert_eq!(timers.next_call(), 20);
        endpoint.plan(15);
        assert_eq!(timers.next_call(), 15);
        assert_eq!(due(&timers, 15), [entity(1)]);
        endpoint.plan(40);
        assert_eq!(timers.next_call(), NEVER, "the control thread plans the next call");
        endpoint.reset();
        endpoint.plan(25);
        assert_eq!(timers.next_call(), 25);
    }

    #[test]
    fn removed_endpoint_is_never_due_and_leaves_its_place() {
        let timers = Arc::<EndpointTimers>::default();
        for key in 0..1000 {
            let endpoint = timers.add(entity(key));
            endpoint.plan(u64::from(key));
            drop(endpoint);
        }
        assert_eq!((timers.next_call(), due(&timers, NEVER)), (NEVER, vec![]));
        assert_eq!(lock_leaf(&timers.table).endpoints.len(), 1);
    }
}
