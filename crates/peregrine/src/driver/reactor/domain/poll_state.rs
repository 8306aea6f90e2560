//! Under `Poll`: the receiver of the polling thread.

use std::sync::Arc;

use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::event::Poller;
use peregrine_transport::udp::{Receiver, Socket};

use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;

pub(super) struct PollState {
    pub(super) receiver: Receiver,
    pub(super) poller: Poller,
    /// Everything that receives user data.
    pub(super) data_sockets: Vec<Arc<Socket>>,
    pub(super) group_sockets: usize,
    pub(super) dirty: DirtyEndpoints,
    pub(super) rounds: u32,
    /// Until then, a thread that looks without waiting looks at shared memory only.
    pub(super) sockets_due: Instant,
    /// How long it will be until then the next time.
    pub(super) sockets_every: Span,
    /// So often still, a thread that looks without waiting does not read the clock either.
    pub(super) looks: u32,
}
