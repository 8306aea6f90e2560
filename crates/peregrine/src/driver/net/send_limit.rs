//! Time limits for sending while send buffers are full.

use peregrine_rtps::time::{Instant, Span};

use crate::driver::base::clock::now;

/// The time limit of a thread that sends while send buffers are full. A system call waits for at most
/// [`SEND_WAIT_MAX`](peregrine_transport::udp::SEND_WAIT_MAX); then the thread checks the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SendLimit {
    Until(Instant),
    /// A duration from the first check on.
    For(Span),
}

impl SendLimit {
    /// Each message has one system call.
    pub(in crate::driver) const ONE_ATTEMPT: Self = Self::Until(Instant(0));
    /// The limit of an application thread in a call without a time limit of its own.
    pub(crate) const CALL: Self = Self::For(Span::from_millis(100));
    /// The limit, for one writer, of a thread that receives or must not wait. Over a slow link a large sample takes
    /// seconds, and incoming datagrams would overflow the receive buffer meanwhile.
    pub(in crate::driver) const NO_WAIT: Self = Self::For(Span::from_millis(2));

    pub(in crate::driver) fn is_over(&mut self) -> bool {
        now() >= self.until()
    }

    /// Limits the rest to at most `time` from now on.
    pub(in crate::driver) fn shorten(&mut self, time: Span) {
        *self = Self::Until(self.until().min(now() + time));
    }

    fn until(&mut self) -> Instant {
        let until = match *self {
            Self::Until(until) => until,
            Self::For(time) => now() + time,
        };
        *self = Self::Until(until);
        until
    }
}
