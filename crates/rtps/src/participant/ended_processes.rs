//! Participants whose process has ended, as the system reports for a channel. They are asked, and are lost long before
//! their lease ends unless they answer: see [`ProcessEnd`].

use alloc::sync::Arc;

use super::Participant;
use super::builtin::{Builtin, Topic};
use super::process_end::ProcessEnd;
use super::remote::RemoteParticipant;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::time::Instant;

impl Participant {
    /// The system reports that a process which had a channel to this participant, in the name of another one, has
    /// ended. That participant is asked whether it is alive, because the report does not prove which has ended. If it
    /// answers no question in [the time for that](crate::limits::PROCESS_END_ANSWERS), it is lost.
    ///
    /// No effect on an unknown participant, and on one with a shorter lease.
    pub fn note_process_ended(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix).filter(|remote| remote.process_end.is_none()) else { return };
        remote.process_end = Some(ProcessEnd::new(now));
        self.pursue_process_end(now, prefix);
        self.heal_later(prefix);
    }

    /// Asks a participant whose process seems to have ended, if that is due.
    pub(super) fn pursue_process_end(&mut self, now: Instant, prefix: GuidPrefix) {
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        if !remote.process_end.as_mut().is_some_and(|end| end.take_question(now)) {
            return;
        }
        let (lease_until, to) = (remote.lease_until(), Arc::clone(&remote.metatraffic));
        self.expect_lease_end(lease_until);
        if self.ask_securely(now, prefix).is_some() {
            return;
        }
        let question = self.question_for(prefix);
        self.say(&question, to);
    }

    /// Asks an authenticated participant, with the protection that the governance requires of one of the built-in
    /// writers that match it. Returns the reader that is asked, if there is one.
    pub(super) fn ask_securely(&mut self, now: Instant, prefix: GuidPrefix) -> Option<EntityId> {
        if !self.is_authenticated(prefix) {
            return None;
        }
        let Builtin { secure, publications, .. } = &mut self.builtin;
        let ask = |topic: &mut Topic| {
            let reader = topic.reader.guid().entity;
            topic.writer.ask(now, Guid::new(prefix, reader)).then_some(reader)
        };
        // The first one, which announces this participant, has always something to acknowledge.
        let asked = secure.as_deref_mut().and_then(|s| ask(&mut s.participants).or_else(|| ask(&mut s.publications)));
        asked.or_else(|| ask(publications))
    }
}

impl RemoteParticipant {
    /// When [`Participant::pursue_process_end`] is due, at the latest when the participant is lost.
    pub(super) fn process_end_due(&self) -> Option<Instant> {
        self.process_end.map(|end| end.due())
    }
}
