//! Loans that wait for shared memory.
//!
//! The task adds a waker that waits for [`Awaited::Memory`]. The writer wakes the task when readers acknowledge or
//! return samples, when the application drops a loan, and when the trim timer expires: slots that the writer's own
//! history releases cause no other notification.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use peregrine_transport::shm::LoanError;

use crate::driver::base::sync::lock_leaf;
use crate::driver::endpoint::waiting::WaitFuture;
use crate::driver::endpoint::wakers::Awaited;
use crate::driver::endpoint::writer::{WriterCore, WriterState};
use crate::driver::route::shm::metadata::ALIGNING;
use crate::driver::route::shm::outgoing::{Outgoing, PayloadSlot};

/// The answer to a request for a slot.
enum LoanAttempt {
    Slot(PayloadSlot),
    /// No reader needs shared memory, or the payload exceeds all memory that the writer may use.
    Useless,
    /// All memory is in use.
    Exhausted,
}

impl WriterCore {
    /// Takes a slot for a payload of `len` bytes as soon as there is one. `None` if the caller has to use a buffer,
    /// also when the writer is deleted meanwhile.
    pub(crate) async fn loan_slot_async(self: &Arc<Self>, len: usize) -> Option<PayloadSlot> {
        let core = Arc::clone(self);
        let lent = move |state: &mut WriterState| match core.outgoing.loan_or_request(len) {
            LoanAttempt::Slot(slot) => Some(Some(slot)),
            LoanAttempt::Useless => Some(None),
            LoanAttempt::Exhausted => state.closed.then_some(None),
        };
        let mut lent = pin!(WaitFuture::new(Arc::clone(self), Awaited::Memory, lent));
        poll_fn(|context| {
            let polled = lent.as_mut().poll(context);
            if polled.is_pending() {
                self.arm(self.outgoing.deadline());
            }
            self.note_ended_channels();
            polled
        })
        .await
    }
}

impl Outgoing {
    /// Takes a slot. If there is none, requests a notification from readers that return one, and has the timer check
    /// again.
    fn loan_or_request(&self, len: usize) -> LoanAttempt {
        if !self.has_readers() {
            return LoanAttempt::Useless;
        }
        if let Some(slot) = self.loan_at_hand(len) {
            return LoanAttempt::Slot(slot);
        }
        let Some(room) = len.checked_add(ALIGNING) else { return LoanAttempt::Useless };
        let mut locked = lock_leaf(&self.channels);
        let Some(channels) = locked.as_mut() else { return LoanAttempt::Useless };
        // A sample that was written before waits for memory, too, and comes first.
        let loaned = if channels.is_short_of_memory() { None } else { Some(channels.loan_or_ask(room)) };
        let attempt = match loaned {
            Some(Ok(slot)) => PayloadSlot::new(slot).map_or(LoanAttempt::Useless, LoanAttempt::Slot),
            Some(Err(LoanError::TooLong { .. })) => LoanAttempt::Useless,
            None | Some(Err(_)) => {
                self.look_for_memory_later(channels);
                LoanAttempt::Exhausted
            }
        };
        self.note_ended(channels);
        attempt
    }
}
