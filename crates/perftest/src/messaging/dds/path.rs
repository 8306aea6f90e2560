//! Ensures that samples go by shared memory where that is the measured path.

use std::fmt::Display;
use std::time::Duration;

use peregrine::{DataWriter, DdsType, DeliveryPath, DiscoveryEvent, DiscoveryEvents, DomainParticipant, Guid};

use crate::clock::MonotonicNs;
use crate::error::Error;

/// Time for a discovered partner to connect by shared memory.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval between two checks.
const PATH_POLL: Duration = Duration::from_millis(1);

/// The path of a writer's samples.
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

    /// Waits until `count` readers get the samples of this writer by shared memory. Returns `false` at the timeout.
    ///
    /// # Errors
    /// A reader uses another path; the text states why.
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
                return Err(no_shared_memory(topic, "the partner offers none; both sides need -transport SHMEM"));
            }
            if end.remaining().is_zero() {
                return Ok(false);
            }
            // Under `Poll` no other thread receives; otherwise this call returns at once.
            self.participant.poll(Duration::ZERO);
            std::thread::sleep(PATH_POLL);
        }
        Ok(true)
    }

    /// Checks that no sample of this writer has taken another path.
    ///
    /// # Errors
    /// Samples have taken another path; the text states why.
    pub(crate) fn check<T: DdsType>(&mut self, writer: &DataWriter<T>, topic: &dyn Display) -> Result<(), Error> {
        let sent = writer.counters().samples_sent;
        if sent == 0 {
            return Ok(());
        }
        let reason = self.fallback(writer.guid()).unwrap_or_else(|| "no reason is known".into());
        Err(no_shared_memory(topic, &format!("{sent} of them went in messages ({reason})")))
    }

    /// Why samples of this writer have fallen back to messages, if they have.
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
    Error::Partner(format!("Samples of topic {topic} do not use shared memory: {reason}."))
}
