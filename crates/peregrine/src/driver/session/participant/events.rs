//! Events of discovery and security, for the endpoints and the observers of a participant.

use peregrine_rtps::discovery::data::ParticipantData;
use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::limits::MATCHES_MAX;
use peregrine_rtps::participant::{Participant, ParticipantEvent};
use peregrine_rtps::qos::NonMatch;
use peregrine_rtps::time::Instant;
use tracing::Level;

use super::{ChannelRequests, Locked};
use crate::driver::base::clock::wall;
use crate::driver::base::user_code::log;
use crate::driver::endpoint::dirty_endpoints::DirtyEndpoints;
use crate::driver::endpoint::wakers::Wakers;
use crate::driver::session::event_log;
use crate::driver::session::observer::{DiscoveryEvent, Observer};
use crate::driver::session::security::{Security, SecurityReport, event_of};

impl Locked {
    pub(crate) const fn next_observer(&mut self) -> u64 {
        self.observers_so_far += 1;
        self.observers_so_far
    }

    /// Reports a discovery event to observers.
    pub(super) fn observe(&mut self, event: impl FnOnce(&Participant) -> Option<DiscoveryEvent>) {
        let Self { rtps, observers, wakers, .. } = self;
        notify(wakers, observers, || event(rtps));
    }

    /// Reports endpoints that do not match, and the reason, to observers.
    pub(super) fn observe_refusal(&mut self, local: EntityId, remote: Guid, reason: &NonMatch) {
        let local = Guid::new(self.rtps.config().prefix, local);
        self.observe(|_| Some(DiscoveryEvent::NotMatched { local, remote, reason: reason.clone() }));
    }

    /// Reports an event of security to observers.
    pub(super) fn report(&mut self, report: SecurityReport) {
        self.observe(|_| Some(event_of(report)));
    }

    /// Takes the steps of security, and reports its events to observers. Returns whether there were any steps.
    pub(super) fn process_security(&mut self, now: Instant, security: &Security) -> bool {
        let Self { rtps, observers, wakers, .. } = self;
        security.process(now, rtps, &mut |report| notify(wakers, observers, || Some(event_of(report))))
    }

    pub(super) fn apply(
        &mut self,
        now: Instant,
        event: &ParticipantEvent,
        shared: Option<&dyn ChannelRequests>,
        dirty: &mut DirtyEndpoints,
    ) {
        match event {
            ParticipantEvent::ReaderMatched { writer, reader } => {
                let Some(core) = self.writers.get(writer) else { return };
                event_log::log_matched_reader(core.guid, reader);
                dirty.writer(core);
                if let Some(shared) = shared {
                    shared.note_matched();
                }
                if !core.match_reader(now, reader.clone()) {
                    let reason = NonMatch::TooManyMatches { limit: MATCHES_MAX };
                    core.refused(reader.guid, &reason);
                    self.observe_refusal(*writer, reader.guid, &reason);
                }
            }
            ParticipantEvent::ReaderUnmatched { writer, reader } => {
                let Some(core) = self.writers.get(writer) else { return };
                core.unmatch_reader(now, *reader);
                dirty.writer(core);
            }
            ParticipantEvent::WriterMatched { reader, writer } => {
                let Some(core) = self.readers.get(reader) else { return };
                event_log::log_matched_writer(core.guid, writer.guid);
                dirty.reader(core);
                let is_new = core.lock().matched.binary_search(&writer.guid).is_err();
                let is_matched = core.match_writer(now, writer.clone());
                if is_new
                    && is_matched
                    && let Some(shared) = shared
                    && let Some(data) = self.rtps.remote_participant(&writer.guid.prefix)
                {
                    shared.request(core, writer.guid, data);
                }
                if !is_matched {
                    let reason = NonMatch::TooManyMatches { limit: MATCHES_MAX };
                    core.refused(writer.guid, &reason);
                    self.observe_refusal(*reader, writer.guid, &reason);
                }
            }
            ParticipantEvent::WriterUnmatched { reader, writer, may_return } => {
                let Some(core) = self.readers.get(reader) else { return };
                core.unmatch_writer(now, wall(), *writer, *may_return);
                if let Some(shared) = shared {
                    shared.cancel(core.guid, *writer);
                }
                dirty.reader(core);
            }
            ParticipantEvent::WriterAlive { reader, writer } => {
                let Some(core) = self.readers.get(reader) else { return };
                core.writer_alive(now, *writer);
                dirty.reader(core);
            }
            ParticipantEvent::NotMatched { local, remote, reason } => {
                event_log::log_refusal(*local, *remote, reason.clone());
                let topic = if let Some(core) = self.writers.get(local) {
                    core.refused(*remote, reason);
                    dirty.writer(core);
                    &core.topic
                } else if let Some(core) = self.readers.get(local) {
                    core.refused(*remote, reason);
                    dirty.reader(core);
                    &core.topic
                } else {
                    return;
                };
                if reason.is_inconsistent_topic() {
                    topic.note_inconsistent();
                    dirty.topic(topic);
                }
                self.observe_refusal(*local, *remote, reason);
            }
            ParticipantEvent::PublicationFound(guid) => {
                self.observe(|rtps| rtps.remote_publication(guid).cloned().map(DiscoveryEvent::PublicationFound));
            }
            ParticipantEvent::PublicationLost(guid) => {
                self.observe(|_| Some(DiscoveryEvent::PublicationLost(*guid)));
            }
            ParticipantEvent::SubscriptionFound(guid) => {
                self.observe(|rtps| rtps.remote_subscription(guid).cloned().map(DiscoveryEvent::SubscriptionFound));
            }
            ParticipantEvent::SubscriptionLost(guid) => {
                self.observe(|_| Some(DiscoveryEvent::SubscriptionLost(*guid)));
            }
            ParticipantEvent::ParticipantFound(data) => {
                let (prefix, vendor) = (data.prefix, data.vendor);
                log(Level::DEBUG, move || tracing::debug!(participant = %prefix, %vendor, "participant found"));
                self.observe(|_| Some(DiscoveryEvent::ParticipantFound(ParticipantData::clone(data))));
            }
            ParticipantEvent::StreamConnected { participant, locator } => {
                let (participant, locator) = (*participant, *locator);
                log(Level::DEBUG, move || tracing::debug!(%participant, %locator, "connection open"));
                self.observe(|_| Some(DiscoveryEvent::StreamConnected { participant, locator }));
            }
            ParticipantEvent::StreamLost { participant, locator } => {
                let (participant, locator) = (*participant, *locator);
                log(Level::INFO, move || tracing::info!(%participant, %locator, "connection lost"));
                self.observe(|_| Some(DiscoveryEvent::StreamLost { participant, locator }));
            }
            ParticipantEvent::ParticipantRefused { participant, reason } => {
                let (participant, reason) = (*participant, reason.clone());
                log(Level::WARN, move || tracing::warn!(%participant, %reason, "participant refused"));
            }
            // The security of the participant has seen the event.
            ParticipantEvent::MessagesRefused { .. } | ParticipantEvent::AnnouncementContradicted { .. } => {}
            ParticipantEvent::ParticipantLost(prefix, reason) => {
                event_log::log_lost(*prefix, *reason);
                self.observe(|_| Some(DiscoveryEvent::ParticipantLost(*prefix, *reason)));
            }
        }
    }
}

/// Wakes the tasks that wait for the participant, and passes an event to each observer. Without observers, the event is
/// not made.
fn notify(wakers: &mut Wakers, observers: &mut [Observer], event: impl FnOnce() -> Option<DiscoveryEvent>) {
    wakers.wake_all();
    if observers.is_empty() {
        return;
    }
    if let Some(event) = event() {
        observers.iter_mut().for_each(|observer| observer.push(event.clone()));
    }
}
