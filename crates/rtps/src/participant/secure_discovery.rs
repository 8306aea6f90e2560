//! The secure endpoints of discovery and liveliness (DDS Security 1.2 §7.5.1 to §7.5.2): announcements to authenticated
//! participants, and of endpoints whose discovery is protected.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Participant;
use super::drops::Fault;
use super::event::LostReason;
use super::healing::{PUBLICATIONS, SUBSCRIPTIONS};
use super::sealed_announcement::Said;
use crate::discovery::data::{ParticipantData, emit_participant_key};
use crate::history::{Change, ChangeKind, Selected};
use crate::id::{Guid, KeyHash};
use crate::limits::DOUBT_INTERVAL;
use crate::payload::Payload;
use crate::reader::Reception;
use crate::seq::SequenceNumber;
use crate::time::{Instant, Timestamp};
use crate::vendor::Quirks;

impl Participant {
    /// Announces this participant to authenticated ones, if there is something new. They take changes from there only.
    /// After a move, the announcement is repeated for each one that has not acknowledged it: its requests go to the
    /// former addresses until it has received the new ones.
    pub(super) fn announce_securely(&mut self, now: Instant, wall: Timestamp) {
        if self.builtin.secure.is_none() {
            return;
        }
        let mut data = self.data();
        if let (Some(security), Some(config)) = (&mut data.security, &self.config.security) {
            security.identity_status_token.clone_from(&config.identity_status_token);
        }
        let mut payload = Vec::new();
        data.emit(&mut payload);
        if self.said_securely != payload {
            self.write_securely(now, wall, ChangeKind::Alive, &payload);
            self.said_securely = payload;
        } else if self.has_moved
            && let Some(secure) = &mut self.builtin.secure
        {
            secure.participants.writer.repeat_last(now);
        }
    }

    /// Announces the end of this participant to authenticated ones: they do not believe a goodbye in clear, which any
    /// host could have sent.
    pub(super) fn leave_securely(&mut self, wall: Timestamp) {
        let mut payload = Vec::new();
        emit_participant_key(self.guid(), &mut payload);
        // The time matters for timers only, and the participant has none any more.
        let now = self.announcer.next();
        self.write_securely(now, wall, ChangeKind::DisposedUnregistered, &payload);
    }

    pub(super) fn write_securely(&mut self, now: Instant, wall: Timestamp, kind: ChangeKind, payload: &[u8]) {
        let instance = KeyHash(self.guid().to_bytes());
        let Some(secure) = &mut self.builtin.secure else { return };
        let change = Change { kind, instance, source_timestamp: wall, payload: Payload::copy_of(payload) };
        secure.participants.write_at_once(now, change);
    }

    /// Handles the samples of the secure built-in readers.
    pub(super) fn process_secure_discovery(&mut self, now: Instant, wall: Timestamp) {
        let Some(secure) = &mut self.builtin.secure else { return };
        let participants = secure.participants.take(now, wall);
        let publications = secure.publications.take(now, wall);
        let subscriptions = secure.subscriptions.take(now, wall);
        let messages = secure.messages.take(now, wall);
        for sample in participants {
            self.take_participant(now, wall, &sample);
            self.forget_secure(|secure| &mut secure.participants, &sample);
        }
        for sample in publications {
            match sample.info.valid_data {
                true => self.take_publication(now, wall, &sample, true),
                false => self.take_disposal(PUBLICATIONS, &sample, true),
            }
            if self.remote_publication(&Guid::from_bytes(sample.info.instance.0)).is_none() {
                self.forget_secure(|secure| &mut secure.publications, &sample);
            }
        }
        for sample in subscriptions {
            match sample.info.valid_data {
                true => self.take_subscription(now, wall, &sample, true),
                false => self.take_disposal(SUBSCRIPTIONS, &sample, true),
            }
            if self.remote_subscription(&Guid::from_bytes(sample.info.instance.0)).is_none() {
                self.forget_secure(|secure| &mut secure.subscriptions, &sample);
            }
        }
        self.take_messages(&messages, true);
        for sample in messages {
            self.forget_secure(|secure| &mut secure.messages, &sample);
        }
    }

    fn forget_secure(
        &mut self,
        topic: impl FnOnce(&mut super::builtin::SecureTopics) -> &mut super::builtin::Topic,
        sample: &Selected,
    ) {
        if let Some(secure) = self.builtin.secure.as_deref_mut() {
            topic(secure).reader.forget_instance(&sample.info.instance);
        }
    }

    /// An authenticated participant has announced itself, or its end.
    fn take_participant(&mut self, now: Instant, wall: Timestamp, sample: &Selected) {
        let sender = sample.info.writer.prefix;
        if sample.info.sequence_number == SequenceNumber::UNKNOWN || !self.is_authenticated(sender) {
            return;
        }
        if !sample.info.valid_data {
            if Guid::from_bytes(sample.info.instance.0).prefix == sender {
                self.remove_participant(now, wall, sender, LostReason::Left);
            } else {
                self.count_fault(sender, Fault::Forged);
            }
            return;
        }
        let Some(vendor) = self.remotes.get(&sender).map(|remote| remote.data.vendor) else { return };
        match ParticipantData::parse(&sample.payload, vendor) {
            Ok(found) if found.prefix == sender => self.take_secure_announcement(now, wall, found),
            Ok(_) => self.count_fault(sender, Fault::Forged),
            Err(_) => self.count_fault(sender, Fault::DiscoveryMalformed),
        }
    }

    fn take_secure_announcement(&mut self, now: Instant, wall: Timestamp, mut found: ParticipantData) {
        let Some(gate) = self.config.gate.clone() else { return };
        self.place_on_secure_link(&mut found);
        found.streams.retain(|locator| self.config.addresses.paths.is_stream(locator));
        let admission = gate.announced(&found, None);
        without_status(&mut found.security);
        let prefix = found.prefix;
        if self.remotes.get(&prefix).is_some_and(|remote| remote.data != found) {
            self.update_participant(now, wall, found);
        }
        self.set_admission(now, wall, prefix, admission);
    }

    /// An authenticated peer announces other addresses in clear. It is not believed. But if it is there, and this
    /// participant has moved too, neither would get the secure announcement of the other: so it is sent this one there.
    /// An impostor causes one such message in a second.
    pub(super) fn answer_other_addresses(&mut self, rx: &Reception<'_>, found: &ParticipantData) {
        let Some(remote) = self.remotes.get_mut(&found.prefix) else { return };
        let is_new = found.metatraffic_unicast.iter().any(|way| !remote.data.metatraffic_unicast.contains(way));
        let is_early = remote.announced_elsewhere_at.is_some_and(|at| rx.now.since(at) < DOUBT_INTERVAL);
        if !is_new || is_early || !Quirks::of(remote.data.vendor).follows_moves {
            return;
        }
        remote.announced_elsewhere_at = Some(rx.now);
        let to = self.config.addresses.paths.choose(&found.metatraffic_unicast).to;
        if !to.is_empty()
            && let Some(announcement) = self.sealed_announcement(rx.wall, found.prefix, &to, Said::Announcement)
        {
            self.outbox.push_message(&announcement, to);
        }
    }
}

/// Announcements to all participants do not contain the state of the certificate.
pub(super) fn without_status(security: &mut Option<Box<crate::discovery::data::ParticipantSecurityData>>) {
    if let Some(security) = security {
        security.identity_status_token = None;
    }
}
