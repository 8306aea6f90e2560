//! The endpoints of this process, which reach each other without messages.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, Weak};

use peregrine_rtps::id::Guid;

/// The endpoints of one kind, of all participants of this process. A GUID is unique across domains.
pub(in crate::driver) struct Registry<E: ?Sized>(RwLock<BTreeMap<(u64, Guid), Weak<E>>>);

impl<E: ?Sized> Registry<E> {
    pub(in crate::driver) const fn new() -> Self {
        Self(RwLock::new(BTreeMap::new()))
    }

    /// The endpoint, if it is in this process and enabled.
    pub(in crate::driver) fn find(&self, guid: Guid) -> Option<Weak<E>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&(process(), guid)).cloned()
    }

    pub(in crate::driver) fn add(&self, guid: Guid, endpoint: Weak<E>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert((process(), guid), endpoint);
    }

    pub(in crate::driver) fn remove(&self, guid: Guid) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&(process(), guid));
    }
}

/// The number of the simulated process that the thread belongs to; 0 outside simulations, where there is one process.
fn process() -> u64 {
    #[cfg(feature = "simulation")]
    if let Some(machine) = peregrine_transport::simulation::current() {
        return machine.process();
    }
    0
}
