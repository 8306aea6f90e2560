//! The choice of the thread that sends the messages of a writer: one at a time, in the order of the samples.
//!
//! ```text
//!            a thread has messages to send                 all are sent
//!   Idle ──────────────────────────────────────▶ Busy ──────────────────▶ Idle
//!     │ asynchronous writer                       │ ▲
//!     └─────────────▶ Parked ◀────────────────────┘ │ the publishing thread
//!                        └── unsent rest ───────────┘ continues
//! ```
//!
//! The thread that finds the state `Idle` sends. Within bounds the thread also sends messages that other threads add
//! meanwhile; then the publishing thread takes over.

/// Which thread sends the messages of a writer; `O` is its outbox.
#[derive(Debug)]
pub(in crate::driver) enum Sending<O> {
    /// No thread sends. The outbox is reused.
    Idle(Option<Box<O>>),
    /// A thread sends, and owns the outbox.
    Busy,
    /// The writer is in the queue of the publishing thread, which sends the rest of the outbox and of the queued
    /// messages.
    Parked(Box<O>),
    /// The writer is deleted: no more messages are sent.
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

    /// Whether only the publishing thread sends.
    pub(in crate::driver) const fn is_parked(&self) -> bool {
        matches!(self, Self::Parked(_))
    }

    /// Makes the calling thread the sender, unless another thread sends.
    pub(in crate::driver) fn begin(&mut self) -> Option<Box<O>> {
        let Self::Idle(outbox) = self else { return None };
        let outbox = outbox.take().unwrap_or_default();
        *self = Self::Busy;
        Some(outbox)
    }

    /// Makes the publishing thread the sender of a parked writer.
    pub(in crate::driver) fn resume(&mut self) -> Option<Box<O>> {
        match std::mem::replace(self, Self::Busy) {
            Self::Parked(outbox) => Some(outbox),
            other => {
                *self = other;
                None
            }
        }
    }

    /// The sender has sent all messages.
    pub(in crate::driver) fn finish(&mut self, outbox: Box<O>) {
        self.leave(Self::Idle(Some(outbox)));
    }

    /// The sender passes the rest to the publishing thread. Returns `false` if the writer was deleted, so that nothing
    /// is to be done.
    pub(in crate::driver) fn park(&mut self, outbox: Box<O>) -> bool {
        self.leave(Self::Parked(outbox));
        matches!(self, Self::Parked(_))
    }

    /// An asynchronous writer has messages to send. Returns whether the caller has to queue it for the publishing
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
    fn second_sender_is_refused_until_the_first_finishes() {
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
    fn deleted_writer_sends_no_more_messages() {
        let mut sending = Sending::<u32>::default();
        let outbox = sending.begin().unwrap();
        sending.end();
        assert!(!sending.park(outbox), "the thread that was sending notices");
        assert!(sending.begin().is_none() && sending.resume().is_none() && !sending.queue());
        sending.finish(Box::default());
        assert!(sending.begin().is_none());
    }
}
