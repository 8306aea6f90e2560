//! The security of a participant in the driver: its clocks, its jobs and its log, around a [`ParticipantSecurity`].
//!
//! A thread that has changed the participant calls [`Security::process`] under its lock. Signatures and key agreements
//! are jobs of another thread, under no lock.

mod guarded_plugins;
mod pre_shared;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};

use peregrine_rtps::discovery::data::{OPAQUE_VALUE_BYTES_MAX, OpaqueValue};
use peregrine_rtps::id::{EntityId, GuidPrefix};
use peregrine_rtps::participant::{Participant, ParticipantConfig, ParticipantEvent, SecureSendError};
use peregrine_rtps::qos::Partition;
use peregrine_rtps::time::{Instant, Timestamp};
use peregrine_security::WallTime;
use peregrine_security::authentication::{Job, JobDone};
use peregrine_security::crypto::PreSharedKeys;
use peregrine_security::limits::{DATA_TAG_BYTES, DATA_TAGS};
pub(crate) use peregrine_security::participant::Registration;
use peregrine_security::participant::{Environment, Outlet, ParticipantSecurity, TooManyTags, data_tags};
use peregrine_security::session::{Credential, Plugins, SecurityEvent, SessionConfig};
use peregrine_transport::random;
use tracing::Level;

use super::observer::DiscoveryEvent;
use crate::driver::base::clock::{now, wall};
use crate::driver::base::user_code::{log, note_panic};
use crate::error::{Argument, BadParameter, Error, SecurityError};

/// An event that is reported to the application.
pub(super) type SecurityReport = SecurityEvent;

/// The participant, for the jobs of its security.
pub(crate) trait RunsJobs: Send + Sync {
    /// Runs a job on another thread, or drops it.
    fn run_job(&self, job: Box<dyn FnOnce() + Send>);

    /// A job is done. Called by that thread.
    fn finish_job(&self, done: JobDone);

    /// A job was dropped. The caller may hold the lock of the participant.
    fn fail_job(&self, failed: JobDone);
}

/// The security of one participant.
#[derive(Debug)]
pub(crate) struct Security {
    /// `None` without certificates.
    authenticated: Option<Arc<ParticipantSecurity>>,
    pre_shared: Option<Arc<PreSharedKeys>>,
    participant: OnceLock<Weak<dyn RunsJobs>>,
}

/// The clocks and the random numbers of the operating system.
#[derive(Debug)]
struct System;

impl Environment for System {
    fn now(&self) -> Instant {
        now()
    }

    fn wall(&self) -> Timestamp {
        wall()
    }

    fn fill(&self, octets: &mut [u8]) {
        fill(octets);
    }
}

/// Takes what leaves the session in one call of [`Security::process`].
struct Taker<'a> {
    participant: Option<&'a Weak<dyn RunsJobs>>,
    report: &'a mut dyn FnMut(SecurityReport),
}

impl Outlet for Taker<'_> {
    fn run_job(&mut self, job: Job) {
        let Some(participant) = self.participant else { return };
        let Some(running) = participant.upgrade() else { return };
        let job = OpenJob { job: Some(job), participant: Weak::clone(participant) };
        running.run_job(Box::new(move || job.run()));
    }

    fn report(&mut self, event: SecurityEvent) {
        log_event(&event);
        (self.report)(event);
    }

    fn not_sent(&mut self, peer: GuidPrefix, error: SecureSendError) {
        log(Level::DEBUG, move || tracing::debug!(%peer, %error, "a message of the security channels is not sent"));
    }
}

impl Security {
    /// Adds security to the configuration of a participant, whose prefix becomes that of the credential.
    ///
    /// # Errors
    /// The announcement of the participant does not fit into a handshake.
    pub(crate) fn configure(
        credential: Credential,
        settings: (SessionConfig, &Plugins),
        config: &mut ParticipantConfig,
    ) -> Result<Arc<Self>, Error> {
        let (session, plugins) = settings;
        let settings = (session, &guarded_plugins::guard(plugins));
        let authenticated = ParticipantSecurity::configure(credential, settings, Arc::new(System), config)
            .map_err(|fault| SecurityError::Identity(fault.to_string()))?;
        Ok(Arc::new(Self {
            pre_shared: authenticated.pre_shared_keys(),
            authenticated: Some(authenticated),
            participant: OnceLock::new(),
        }))
    }

    /// Sets the participant. Its creator calls this once.
    pub(crate) fn set_participant(&self, participant: Weak<dyn RunsJobs>) {
        let _ = self.participant.set(participant);
    }

    /// Registers a local endpoint, which the caller then creates. The registration ends with the result unless the
    /// caller [keeps](Registration::keep) it. `None` without certificates.
    ///
    /// # Errors
    /// The documents deny the endpoint, or there is no room for another one.
    pub(crate) fn register(
        &self,
        endpoint: EntityId,
        topic: &str,
        partition: &Partition,
        tags: Option<&OpaqueValue>,
    ) -> Result<Option<Registration>, Error> {
        let security = self.authenticated.as_ref();
        let registered = security.map(|security| security.register(endpoint, topic, partition, tags));
        Ok(registered.transpose().map_err(|fault| SecurityError::Endpoint(fault.to_string()))?)
    }

    /// Whether a local endpoint may have these partitions and tags.
    ///
    /// # Errors
    /// The documents deny them.
    pub(crate) fn check(
        &self,
        endpoint: EntityId,
        topic: &str,
        partition: &Partition,
        tags: Option<&OpaqueValue>,
    ) -> Result<(), Error> {
        let checked = self.authenticated.as_ref().map(|security| security.check(endpoint, topic, partition, tags));
        Ok(checked.unwrap_or(Ok(())).map_err(|denial| SecurityError::Endpoint(denial.to_string()))?)
    }

    /// A local endpoint is announced, perhaps with other partitions than before.
    pub(super) fn endpoint_announced(
        &self,
        endpoint: EntityId,
        topic: &str,
        partition: &Partition,
        tags: Option<&OpaqueValue>,
    ) {
        let Some(security) = &self.authenticated else { return };
        if let Err(fault) = security.endpoint_announced(endpoint, topic, partition, tags) {
            log(Level::WARN, move || {
                tracing::warn!(%endpoint, %fault, "an announced endpoint is denied, and matches no other endpoints");
            });
        }
    }

    pub(super) fn endpoint_removed(&self, endpoint: EntityId) {
        if let Some(security) = &self.authenticated {
            security.endpoint_removed(endpoint);
        }
    }

    /// The session with its peers.
    ///
    /// # Errors
    /// The participant was made without certificates.
    pub(crate) fn authenticated(&self) -> Result<&ParticipantSecurity, SecurityError> {
        self.authenticated.as_deref().ok_or(SecurityError::NoCertificate)
    }

    /// When to call [`Self::handle_timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.authenticated.as_ref()?.poll_timeout()
    }

    pub(super) fn handle_timeout(&self, now: Instant) {
        if let Some(security) = &self.authenticated {
            security.handle_timeout(now);
        }
    }

    /// The report of an event that only discovery sees: messages that the participant has refused for lack of
    /// protection, or an announcement in clear that contradicts a signed one.
    pub(super) fn report_of_discovery(&self, event: &ParticipantEvent) -> Option<SecurityReport> {
        let report = match event {
            ParticipantEvent::MessagesRefused { from, refusal, count } => {
                SecurityEvent::PacketsRefused { peer: *from, refusal: *refusal, count: *count }
            }
            ParticipantEvent::AnnouncementContradicted { participant, parts } => {
                SecurityEvent::AnnouncementContradicted { peer: *participant, parts: *parts }
            }
            _ => return None,
        };
        log_event(&report);
        Some(report)
    }

    /// Hands received messages to the session, and takes its steps. Returns whether there were any. Calls `report` with
    /// each event at once: a queue of events is that of an observer.
    pub(super) fn process(&self, now: Instant, rtps: &mut Participant, report: &mut dyn FnMut(SecurityReport)) -> bool {
        let Some(security) = &self.authenticated else { return false };
        security.process(now, rtps, &mut Taker { participant: self.participant.get(), report })
    }

    pub(super) fn job_done(&self, done: JobDone) {
        if let Some(security) = &self.authenticated {
            security.job_done(done);
        }
    }
}

/// A job that the session waits for. The session hears of its end in any case.
struct OpenJob {
    job: Option<Job>,
    participant: Weak<dyn RunsJobs>,
}

impl OpenJob {
    fn run(mut self) {
        let Some(job) = self.job.take() else { return };
        let ticket = job.ticket();
        let done = catch_unwind(AssertUnwindSafe(|| job.run())).unwrap_or_else(|panic| {
            note_panic(panic, "a job of a handshake has panicked");
            ticket.failed()
        });
        if let Some(participant) = self.participant.upgrade() {
            participant.finish_job(done);
        }
    }
}

impl Drop for OpenJob {
    fn drop(&mut self) {
        if let (Some(job), Some(participant)) = (self.job.take(), self.participant.upgrade()) {
            participant.fail_job(job.ticket().failed());
        }
    }
}

/// The event that announces a report to observers.
pub(super) const fn event_of(report: SecurityReport) -> DiscoveryEvent {
    DiscoveryEvent::Security(report)
}

/// The value that announces the tags of an endpoint; `None` without tags.
pub(crate) fn announced_tags(tags: &[(String, String)]) -> Result<Option<OpaqueValue>, BadParameter> {
    if tags.iter().any(|(name, value)| name.contains('\0') || value.contains('\0')) {
        return Err(BadParameter::NulCharacter { argument: Argument::DataTagText });
    }
    data_tags(tags).map_err(|fault| {
        let (argument, len, max) = match fault {
            TooManyTags::Tags(len) => (Argument::DataTags, len, DATA_TAGS),
            TooManyTags::Text(len) => (Argument::DataTagText, len, DATA_TAG_BYTES),
            TooManyTags::Together(len) => (Argument::AnnouncedDataTags, len, OPAQUE_VALUE_BYTES_MAX),
        };
        BadParameter::TooLong { argument, len, max }
    })
}

/// The present time of the calendar.
pub(crate) fn calendar() -> WallTime {
    wall().into()
}

/// Random bytes.
fn fill(bytes: &mut [u8]) {
    let filled = random::fill(bytes);
    assert!(filled.is_ok(), "the operating system gives no random numbers: {filled:?}");
}

fn log_event(event: &SecurityEvent) {
    let level = match event {
        SecurityEvent::Authenticated { .. } | SecurityEvent::KeysRenewed { .. } => Level::INFO,
        SecurityEvent::KeysExchanged { .. } => Level::DEBUG,
        _ => Level::WARN,
    };
    let event = event.clone();
    log(level, move || match level {
        Level::INFO => tracing::info!(%event, "security"),
        Level::DEBUG => tracing::debug!(%event, "security"),
        _ => tracing::warn!(%event, "security"),
    });
}

#[cfg(test)]
mod tests;
