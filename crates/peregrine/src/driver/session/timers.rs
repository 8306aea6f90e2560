//! The timers of a participant's endpoints, for the control thread.

use std::sync::Arc;

use peregrine_rtps::id::EntityId;
use peregrine_rtps::time::Instant;

use super::participant::{Locked, ParticipantCore};
use crate::driver::endpoint::context::EndpointContext;
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;

impl ParticipantCore {
    /// The context of a new endpoint of this participant.
    pub(crate) fn endpoint_context(&self, endpoint: EntityId) -> EndpointContext {
        let (host, timer) = (Arc::clone(&self.host), self.endpoint_timers.add(endpoint));
        EndpointContext { host, timer, trusts_host: self.trusts_host }
    }

    /// Adds the endpoints whose deadlines are due to `due`. Returns whether any timer was due: then the caller calls
    /// these endpoints, and [`Self::plan_calls`].
    pub(crate) fn collect_due(&self, now: Instant, due: &mut DirtyEndpoints) -> bool {
        if self.endpoint_timers.next_call() > now.0 {
            return false;
        }
        let mut locked = self.lock();
        let Locked { called, writers, readers, .. } = &mut *locked;
        self.endpoint_timers.take_due(now.0, called);
        for endpoint in &*called {
            if let Some(writer) = writers.get(endpoint).filter(|writer| writer.deadline() <= now.0) {
                due.writer(writer);
            }
            if let Some(reader) = readers.get(endpoint).filter(|reader| reader.deadline() <= now.0) {
                due.reader(reader);
            }
        }
        true
    }

    /// Plans the next calls of the endpoints that [`Self::collect_due`] has looked at.
    pub(crate) fn plan_calls(&self) {
        let mut locked = self.lock();
        let Locked { called, writers, readers, .. } = &mut *locked;
        for endpoint in called.drain(..) {
            if let Some(writer) = writers.get(&endpoint) {
                writer.arm_anew();
            }
            if let Some(reader) = readers.get(&endpoint) {
                reader.arm_anew();
            }
        }
    }

    /// The next deadline of the participant and its endpoints.
    pub(crate) fn earliest_deadline(&self) -> u64 {
        self.deadline().min(self.endpoint_timers.next_call())
    }
}
