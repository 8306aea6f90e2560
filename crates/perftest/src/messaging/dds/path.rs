//! Sees to it that samples go by shared memory where that is to be measured.

use std::fmt::Display;
use std::time::Duration;

use peregrine::{DataWriter, DdsType, DeliveryPath, DiscoveryEvent, DiscoveryEvents, DomainParticipant, Guid};

use crate::clock::MonotonicNs;
use crate::error::Error;

/// A partner that is there has this long to agree on shared memory.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often is looked whether it has.
const PATH_POLL: Duration = Duration::from_millis(1);

/// By which way the samples of a writer go.
#[derive(Debug)]
pub(crate) struct SharedMemoryPath {
    participant: DomainParticipant,
    events: DiscoveryEvents,
    since: Option<MonotonicNs>,
}

impl SharedMemoryPath {
    pub(crate) fn new(participant: DomainParticipant) -> Self {
        Self { events: participant.discovery_events(), participant, since: None }
    }

    /// Waits until so many readers get the samples of this writer by shared memory; `false` when the time is over first.
    ///
    /// # Errors
    /// One of them does not, and why.
    pub(crate) fn wait_for<T: DdsType>(
        &mut self,
        writer: &DataWriter<T>,
        topic: &dyn Display,
        count: u32,
        timeout: Duration,
    ) -> Result<bool, Error> {
        let since = *self.since.get_or_insert_with(MonotonicNs::now);
        let end = MonotonicNs::now().plus(timeout);
        while writer.shared_memory_readers() < count as usize {
            if let Some(reason) = self.fallback(writer.guid()) {
                return Err(no_shared_memory(topic, &reason));
            }
            if MonotonicNs::now().since_ns(since) > PATIENCE.as_nanos() as u64 {
                return Err(no_shared_memory(
                    topic,
                    "the partner offers none; both sides have to ask for it (-transport SHMEM)",
                ));
            }
            if end.remaining().is_zero() {
                return Ok(false);
            }
            // Under `Poll` nobody else receives; otherwise it comes back at once.
            self.participant.poll(Duration::ZERO);
            std::thread::sleep(PATH_POLL);
        }
        Ok(true)
    }

    /// That none of the samples of this writer has gone another way.
    ///
    /// # Errors
    /// Some have, and why.
    pub(crate) fn check<T: DdsType>(&mut self, writer: &DataWriter<T>, topic: &dyn Display) -> Result<(), Error> {
        let sent = writer.counters().samples_sent;
        if sent == 0 {
            return Ok(());
        }
        let reason = self.fallback(writer.guid()).unwrap_or_else(|| "no reason is known".into());
        Err(no_shared_memory(topic, &format!("{sent} of them went in messages ({reason})")))
    }

    /// Why samples of this writer have begun to go in messages, if they have.
    fn fallback(&mut self, writer: Guid) -> Option<String> {
        while let Some(event) = self.events.try_next() {
            if let DiscoveryEvent::PathChanged { local, path: DeliveryPath::Messages(reason), .. } = event
                && local == writer
            {
                return Some(reason.to_string());
            }
        }
        None
    }
}

fn no_shared_memory(topic: &dyn Display, reason: &str) -> Error {
    Error::Partner(format!("Samples of topic {topic} do not go by shared memory: {reason}."))
}
