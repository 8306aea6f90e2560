//! One participant with its endpoints: carries out what the participant decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use peregrine_rtps::id::{EntityId, Guid};
use peregrine_rtps::participant::{Delivery, FragmentRun, Participant, ParticipantEvent};
use peregrine_rtps::reader::{Reader, Reception};
use peregrine_rtps::receiver::Input;
use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_rtps::writer::{MatchedReader, SampleFilter, Writer};
use peregrine_security::session::SecurityEvent;

use crate::secure::member::Security;

/// One participant with its endpoints.
#[derive(Debug)]
pub struct Member {
    /// The participant.
    pub participant: Participant,
    /// Its writers.
    pub writers: BTreeMap<EntityId, Writer>,
    /// Its readers.
    pub readers: BTreeMap<EntityId, Reader>,
    /// Its security, if it has any.
    pub security: Option<Security>,
    next_key: u32,
}

impl Member {
    pub(crate) const fn new(participant: Participant, security: Option<Security>) -> Self {
        Self { participant, writers: BTreeMap::new(), readers: BTreeMap::new(), security, next_key: 0 }
    }

    /// Sets the time at which discovery asks the security.
    pub(crate) fn set_clock(&self, now: Instant, wall: Timestamp) {
        if let Some(security) = &self.security {
            security.set_clock(now, wall);
        }
    }

    /// Connects the security with discovery. Returns whether there was anything to do, and what it reports.
    pub(crate) fn process_security(&mut self, now: Instant) -> (bool, Vec<SecurityEvent>) {
        let mut reports = Vec::new();
        let Some(security) = &mut self.security else { return (false, reports) };
        (security.process(now, &mut self.participant, &mut reports), reports)
    }

    /// Handles a datagram.
    pub(crate) fn arrive(&mut self, rx: &Reception<'_>, bytes: &[u8]) {
        let Self { participant, readers, writers, .. } = self;
        participant.handle_datagram(rx, bytes, &mut FragmentRun::default(), |rx, delivery, input| {
            deliver(readers, writers, rx, delivery, input);
        });
    }

    /// Handles the timers of the participant and its endpoints.
    pub(crate) fn handle_timeout(&mut self, now: Instant, wall: Timestamp) {
        self.set_clock(now, wall);
        if let Some(security) = &mut self.security {
            security.handle_timeout(now);
        }
        self.participant.handle_timeout(now, wall);
        self.writers.values_mut().for_each(|w| w.handle_timeout(now));
        self.readers.values_mut().for_each(|r| _ = r.handle_timeout(now, wall));
    }

    pub(crate) const fn next_key(&mut self) -> u32 {
        self.next_key += 1;
        self.next_key
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let writers = self.writers.values().filter_map(|w| w.poll_timeout().map(|(at, _)| at));
        let readers = self.readers.values().filter_map(|r| r.poll_timeout().map(|(at, _)| at));
        let security = self.security.as_ref().and_then(|security| security.next_timeout());
        writers.chain(readers).chain(self.participant.poll_timeout()).chain(security).min()
    }

    pub(crate) fn apply(
        &mut self,
        now: Instant,
        wall: Timestamp,
        event: &ParticipantEvent,
        filters: &BTreeMap<Guid, Arc<dyn SampleFilter>>,
    ) {
        match event {
            ParticipantEvent::ReaderMatched { writer, reader } => {
                if let Some(writer) = self.writers.get_mut(writer) {
                    let filter = filters.get(&reader.guid).cloned();
                    writer.match_reader(now, MatchedReader { filter, ..reader.clone() });
                }
            }
            ParticipantEvent::ReaderUnmatched { writer, reader } => {
                if let Some(writer) = self.writers.get_mut(writer) {
                    writer.unmatch_reader(now, *reader);
                }
            }
            ParticipantEvent::WriterMatched { reader, writer } => {
                if let Some(reader) = self.readers.get_mut(reader) {
                    reader.match_writer(now, writer.clone());
                }
            }
            ParticipantEvent::WriterUnmatched { reader, writer, may_return } => {
                if let Some(reader) = self.readers.get_mut(reader) {
                    if *may_return {
                        reader.park_writer(now, wall, *writer);
                    } else {
                        reader.unmatch_writer(now, wall, *writer);
                    }
                }
            }
            ParticipantEvent::WriterAlive { reader, writer } => {
                if let Some(reader) = self.readers.get_mut(reader) {
                    reader.writer_alive(now, *writer);
                }
            }
            ParticipantEvent::ParticipantFound(_)
            | ParticipantEvent::ParticipantLost(..)
            | ParticipantEvent::PublicationFound(_)
            | ParticipantEvent::PublicationLost(_)
            | ParticipantEvent::SubscriptionFound(_)
            | ParticipantEvent::SubscriptionLost(_)
            | ParticipantEvent::NotMatched { .. }
            | ParticipantEvent::ParticipantRefused { .. }
            | ParticipantEvent::MessagesRefused { .. }
            | ParticipantEvent::AnnouncementContradicted { .. }
            | ParticipantEvent::StreamConnected { .. }
            | ParticipantEvent::StreamLost { .. } => {}
        }
    }
}

fn deliver(
    readers: &mut BTreeMap<EntityId, Reader>,
    writers: &mut BTreeMap<EntityId, Writer>,
    rx: &Reception<'_>,
    delivery: Delivery,
    input: &Input<'_>,
) {
    let Delivery { to, from } = delivery;
    match input {
        Input::AckNack(acknack) => {
            if let Some(writer) = writers.get_mut(&to) {
                writer.handle_acknack(rx.now, from, acknack);
            }
        }
        Input::NackFrag(nack) => {
            if let Some(writer) = writers.get_mut(&to) {
                writer.handle_nack_frag(rx.now, from, nack);
            }
        }
        input => {
            let Some(reader) = readers.get_mut(&to) else { return };
            match input {
                Input::Data(meta, data) => reader.handle_data(rx, from, *meta, data),
                Input::DataFrag(meta, frag) => reader.handle_data_frag(rx, from, *meta, frag),
                Input::Heartbeat(heartbeat) => reader.handle_heartbeat(rx, from, heartbeat),
                Input::HeartbeatFrag(heartbeat) => reader.handle_heartbeat_frag(rx, from, heartbeat),
                Input::Gap(gap) => reader.handle_gap(rx, from, gap),
                Input::AckNack(_) | Input::NackFrag(_) => {}
            }
        }
    }
}
