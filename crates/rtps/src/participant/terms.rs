//! Terms of a participant: what its announcements state about its vendor, lease, built-in endpoints and groups. An
//! impostor may state other ones in its name. The terms that hold stay until the participant, which is asked, has
//! repeated the new ones.

use alloc::sync::Arc;

use crate::discovery::data::ParticipantData;
use crate::id::{EntityId, Guid, GuidPrefix};
use crate::limits::{CONTRADICTION_INTERVAL, REFUTATION_MAX, TERMS_BELIEVED_AFTER, TERMS_QUESTION_DOUBLINGS};
use crate::time::Instant;

use super::Participant;
use super::drops::Fault;
use super::healing::PUBLICATIONS;
use super::new_terms::{NewTerms, Terms, are_same};
use super::remote::RemoteParticipant;

impl Participant {
    /// The announcement of a known participant as far as it may be believed now. `None`: nothing of it.
    ///
    /// The vendor is believed to be the one with which the GUID prefix begins (RTPS 2.5 §9.3.1.5). Other new terms are
    /// believed when the participant has repeated them and has not stated the former ones meanwhile: after two
    /// questions if it answers these by announcements, and otherwise within its lease, in which it has to announce
    /// itself. With security there are no such questions: authenticated participants announce themselves securely.
    pub(super) fn weigh_terms(&mut self, now: Instant, mut found: ParticipantData) -> Option<ParticipantData> {
        let prefix = found.prefix;
        let Some(remote) = self.remotes.get_mut(&prefix) else { return Some(found) };
        if are_same(&remote.data, &found) {
            self.healed.terms_refused += u64::from(remote.new_terms.take().is_some());
            return Some(found);
        }
        let position = self.position(PUBLICATIONS, prefix);
        let patience = position.map_or(CONTRADICTION_INTERVAL + REFUTATION_MAX, |position| position.patience);
        let repeats = self.repeats_announcements(prefix);
        let Some(remote) = self.remotes.get_mut(&prefix) else { return Some(found) };
        let (held, stated) = (Terms::of(&remote.data), Terms::of(&found));
        if self.config.protection.is_some() {
            return Some(found);
        }
        let is_other_vendor = held.vendor != stated.vendor;
        if is_other_vendor && prefix.names_vendor(held.vendor) {
            self.count_fault(prefix, Fault::Forged);
            return None;
        }
        let is_proved = is_other_vendor && prefix.names_vendor(stated.vendor);
        if is_proved || !remote.is_trusted() || !repeats && held.is_only_extended_by(&stated) {
            remote.new_terms = None;
            return Some(found);
        }
        let believed_after = if repeats { patience } else { held.lease_duration.min(TERMS_BELIEVED_AFTER) };
        match &remote.new_terms {
            Some(new) if new.stated == stated => {
                if new.was_asked(repeats) && now.since(new.since) >= believed_after {
                    remote.new_terms = None;
                    return Some(found);
                }
            }
            _ => remote.new_terms = Some(NewTerms { stated, since: now, asked: 0, next_question: now }),
        }
        self.pursue_new_terms(now, prefix);
        self.heal_later(prefix);
        held.replace_those_of(&mut found);
        (!is_other_vendor).then_some(found)
    }

    /// Asks a participant of which other terms were announced: for its announcement, or else for a sign of life, which
    /// renews its lease if the new one is longer.
    pub(super) fn pursue_new_terms(&mut self, now: Instant, prefix: GuidPrefix) {
        let repeats = self.repeats_announcements(prefix);
        let Some(remote) = self.remotes.get_mut(&prefix) else { return };
        let pause_max = remote.data.lease_duration.divided_by(4).max(CONTRADICTION_INTERVAL);
        let Some(new) = remote.new_terms.as_mut().filter(|new| new.next_question <= now) else { return };
        new.asked = new.asked.saturating_add(1);
        let doublings = new.asked.saturating_sub(2).min(TERMS_QUESTION_DOUBLINGS);
        new.next_question = now + CONTRADICTION_INTERVAL.times(1 << doublings).min(pause_max);
        if repeats {
            self.builtin.publications.reader.ask_for_heartbeat(Guid::new(prefix, EntityId::SEDP_PUBLICATIONS_WRITER));
        } else {
            let to = Arc::clone(&remote.metatraffic);
            let question = self.question_for(prefix);
            self.say(&question, to);
        }
    }

    /// Whether a participant answers a question by its announcement.
    pub(super) fn repeats_announcements(&self, prefix: GuidPrefix) -> bool {
        self.remotes.get(&prefix).is_some_and(|remote| remote.is_summarized)
    }
}

impl RemoteParticipant {
    /// When [`Participant::pursue_new_terms`] is due.
    pub(super) fn new_terms_due(&self) -> Option<Instant> {
        self.new_terms.as_ref().map(|new| new.next_question)
    }
}
