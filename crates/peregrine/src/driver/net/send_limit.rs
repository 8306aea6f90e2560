//! How long a thread sends while send buffers are full.

use peregrine_rtps::time::{Instant, Span};

use crate::driver::base::clock::now;

/// How long a thread goes on sending while send buffers are full. A system call waits for
/// [`SEND_WAIT_MAX`](peregrine_transport::udp::SEND_WAIT_MAX) at most; then the thread looks whether its time is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SendLimit {
    Until(Instant),
    /// From the moment on at which the thread first looks.
    For(Span),
}

impl SendLimit {
    /// Each message has one system call.
    pub(in crate::driver) const ONE_ATTEMPT: Self = Self::Until(Instant(0));
    /// Of a thread of the application in a call that has no time limit of its own.
    pub(crate) const CALL: Self = Self::For(Span::from_millis(100));
    /// Of a thread that receives, or must not wait, for one writer. Over a slow link a large sample takes seconds, and
    /// incoming datagrams would overflow the buffer of the thread's socket meanwhile.
    pub(in crate::driver) const NO_WAIT: Self = Self::For(Span::from_millis(2));

    pub(in crate::driver) fn is_over(&mut self) -> bool {
        now() >= self.until()
    }

    /// Not later than before, and not later than in `time`.
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
