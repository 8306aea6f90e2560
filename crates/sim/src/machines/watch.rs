//! The invariant of reception, checked whenever a thread of a simulation gives up its turn.
//!
//! The driver guarantees that at every moment some thread waits on a socket for user data or is armed to be woken by it
//! (decision 024). A simulated machine can check this, because it knows where each thread is blocked and which
//! descriptors the poller of the followers reports.

use std::os::fd::RawFd;
use std::sync::{Arc, Weak};

use peregrine_transport::simulation::{Interest, Place, VirtualSocket};

use crate::network::NodeId;

/// Clock readings of a thread in one turn: more of them are a loop without end. The worlds reach about 3,000.
pub(super) const READINGS_PER_TURN_MAX: u64 = 400_000;
/// Turns between two moments at which every thread waits: more of them are a livelock. The worlds reach about 2,000.
pub(super) const TURNS_WITHOUT_REST_MAX: u64 = 100_000;

/// A thread from the view of these checks.
pub(super) struct Watched<'t> {
    pub(super) process: u64,
    pub(super) name: &'t str,
    /// `None`: the thread does not wait.
    pub(super) place: Option<&'t Place>,
}

/// A socket that threads of a process take turns to wait for.
pub(super) struct Turns {
    pub(super) process: u64,
    pub(super) host: NodeId,
    pub(super) socket: Weak<VirtualSocket>,
    pub(super) armed_in: Weak<Interest>,
}

impl Turns {
    /// The violation at the socket, if there is one. `is_resting`: every thread that may run waits.
    pub(super) fn fault(&self, threads: &[Watched<'_>], is_resting: bool) -> Option<String> {
        let socket = self.socket.upgrade().filter(|socket| !socket.is_closed())?;
        // Without its poller, the socket has no receiver.
        let armed_in = self.armed_in.upgrade()?;
        let descriptor = socket.descriptor();
        if is_awaited(self.process, descriptor, threads) {
            return None;
        }
        let process = self.process;
        if !armed_in.reports(descriptor) {
            return Some(format!("no thread waits for a socket of process {process}, which is not armed either"));
        }
        is_resting.then(|| format!("a socket of process {process} is armed, and no thread follows"))
    }
}

/// The control threads that wait anywhere but at their poller. Only a thread at its poller handles timers and
/// datagrams.
pub(super) fn blocked_control_thread(threads: &[Watched<'_>]) -> Option<String> {
    let blocked = threads.iter().find(|thread| {
        thread.name.contains("-ctrl-") && thread.place.is_some_and(|place| !matches!(place, Place::Poller(_)))
    })?;
    Some(format!("control thread {} of process {} is blocked", blocked.name, blocked.process))
}

pub(super) const fn name_of(place: &Place) -> &'static str {
    match place {
        Place::Poller(_) => "at a poller",
        Place::Descriptor(_) => "at a descriptor",
        Place::Elsewhere => "elsewhere",
    }
}

fn is_awaited(process: u64, descriptor: RawFd, threads: &[Watched<'_>]) -> bool {
    let mut own = threads.iter().filter(|thread| thread.process == process);
    own.any(|thread| thread.place.is_some_and(|place| place.waits_for(descriptor)))
}

/// Notes that threads take turns to wait for this socket.
pub(super) fn turns(process: u64, host: NodeId, socket: &Arc<VirtualSocket>, armed_in: &Arc<Interest>) -> Turns {
    Turns { process, host, socket: Arc::downgrade(socket), armed_in: Arc::downgrade(armed_in) }
}
