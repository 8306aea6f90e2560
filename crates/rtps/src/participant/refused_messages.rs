//! Messages that a participant with security refuses: counted, and reported at most once a second by sender and reason.

use alloc::sync::Arc;

use super::Participant;
use super::drops::Fault;
use super::event::ParticipantEvent;
use super::message_refusal::MessageRefusal;
use crate::id::GuidPrefix;
use crate::locator::Locator;
use crate::protection::seal::seal_whole;
use crate::time::Instant;

impl Participant {
    /// Counts a message or submessage that lacks the protection that is required. Returns whether there is an event.
    #[cold]
    pub(super) fn refuse_unprotected(&mut self, now: Instant, from: GuidPrefix) -> bool {
        self.count_fault(from, Fault::Unprotected);
        self.report_refused_message(now, from, MessageRefusal::Unprotected)
    }

    /// Reports a refused message, if it is time. Returns whether there is an event.
    pub(super) fn report_refused_message(&mut self, now: Instant, from: GuidPrefix, refusal: MessageRefusal) -> bool {
        let known = self.remotes.contains_key(&from).then_some(from);
        let Some(count) = self.refused_messages.note(now, known, refusal) else { return false };
        self.events.push_back(ParticipantEvent::MessagesRefused { from, refusal, count });
        true
    }

    /// Sends a complete message, protected if there is a pre-shared key. A message that cannot be protected is counted
    /// and not sent.
    pub(super) fn say(&mut self, message: &[u8], to: Arc<[Locator]>) {
        match self.config.protection.as_deref().filter(|protection| !protection.pre_shared().is_none()) {
            None => self.outbox.push_message(message, to),
            Some(protection) => match seal_whole(protection, message) {
                Ok(message) => self.outbox.push_message(&message, to),
                Err(_) => self.unsealed = self.unsealed.saturating_add(1),
            },
        }
    }
}
