//! Which thread sends the messages of a writer: one at a time, in the order of the samples.
//!
//! ```text
//!            a thread has something to send                all has left
//!   Idle ──────────────────────────────────────▶ Busy ──────────────────▶ Idle
//!     │ asynchronous writer                       │ ▲
//!     └─────────────▶ Parked ◀────────────────────┘ │ the publishing thread
//!                        └── unsent rest ───────────┘ goes on
//! ```
//!
//! The thread that finds the state `Idle` sends, and also sends what other threads add meanwhile, within bounds: then
//! the publishing thread takes over.

/// Which thread sends the messages of a writer; `O` is its outbox.
#[derive(Debug)]
pub(in crate::driver) enum Sending<O> {
    /// None. The outbox is reused.
    Idle(Option<Box<O>>),
    /// A thread sends, and has the outbox.
    Busy,
    /// The writer is in the queue of the publishing thread, which sends the rest of the outbox and of what is queued.
    Parked(Box<O>),
    /// The writer is deleted: nothing leaves any more.
    Ended,
}

impl<O> Default for Sending<O> {
    fn default() -> Self {
        Self::Idle(None)
    }
}

impl<O: Default> Sending<O> {
    #[inline]
    pub(in crate::driver) const fn is_idle(&self) -> bool {
        matches!(self, Self::Idle(_))
    }

    /// From here on the calling thread sends, unless another thread does.
    pub(in crate::driver) fn begin(&mut self) -> Option<Box<O>> {
        let Self::Idle(outbox) = self else { return None };
        let outbox = outbox.take().unwrap_or_default();
        *self = Self::Busy;
        Some(outbox)
    }

    /// The publishing thread goes on with a parked writer.
    pub(in crate::driver) fn resume(&mut self) -> Option<Box<O>> {
        match std::mem::replace(self, Self::Busy) {
            Self::Parked(outbox) => Some(outbox),
            other => {
                *self = other;
                None
            }
        }
    }

    /// The thread that sends has sent everything.
    pub(in crate::driver) fn finish(&mut self, outbox: Box<O>) {
        self.leave(Self::Idle(Some(outbox)));
    }

    /// The thread that sends leaves the rest to the publishing thread. Says whether there is anything to be done: not
    /// if the writer was deleted.
    pub(in crate::driver) fn park(&mut self, outbox: Box<O>) -> bool {
        self.leave(Self::Parked(outbox));
        matches!(self, Self::Parked(_))
    }

    /// An asynchronous writer has something to send. Says whether it is to be put into the queue of the publishing
    /// thread.
    pub(in crate::driver) fn queue(&mut self) -> bool {
        match self.begin() {
            Some(outbox) => self.park(outbox),
            None => false,
        }
    }

    pub(in crate::driver) fn end(&mut self) {
        *self = Self::Ended;
    }

    fn leave(&mut self, next: Self) {
        debug_assert!(matches!(self, Self::Busy | Self::Ended), "two threads send for one writer");
        if !matches!(self, Self::Ended) {
            *self = next;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_sends() {
        let mut sending = Sending::<u32>::default();
        let outbox = sending.begin().expect("no thread sends");
        assert!(sending.begin().is_none() && sending.resume().is_none() && !sending.queue());
        assert!(sending.park(outbox));
        assert!(sending.begin().is_none() && !sending.queue());
        let outbox = sending.resume().expect("the publishing thread goes on");
        assert!(sending.resume().is_none());
        sending.finish(outbox);
        assert!(sending.is_idle());
        assert!(sending.queue() && !sending.queue(), "an asynchronous writer is queued once");
    }

    #[test]
    fn deleted_writer_sends_nothing_more() {
        let mut sending = Sending::<u32>::default();
        let outbox = sending.begin().unwrap();
        sending.end();
        assert!(!sending.park(outbox), "the thread that was sending notices");
        assert!(sending.begin().is_none() && sending.resume().is_none() && !sending.queue());
        sending.finish(Box::default());
        assert!(sending.begin().is_none());
    }
}
