//! Under `Poll`: the receiver of the polling thread.

use std::sync::Arc;

use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::event::Poller;
use peregrine_transport::udp::{Receiver, Socket};

use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;

pub(super) struct PollState {
    pub(super) receiver: Receiver,
    pub(super) poller: Poller,
    /// The sockets that receive user data.
    pub(super) data_sockets: Vec<Arc<Socket>>,
    pub(super) group_sockets: usize,
    pub(super) dirty: DirtyEndpoints,
    pub(super) rounds: u32,
    /// Before this time, a poll without waiting checks shared memory only.
    pub(super) sockets_due: Instant,
    /// The next interval until the sockets are polled.
    pub(super) sockets_every: Span,
    /// Remaining number of polls without waiting that do not read the clock.
    pub(super) looks: u32,
}
