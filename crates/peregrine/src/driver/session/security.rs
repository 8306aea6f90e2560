//! The security of a participant in the driver: events of discovery go to the session, and decisions of the session
//! go to discovery.
//!
//! A thread that has changed the participant calls [`Security::process`] under its lock. The session has a lock of its
//! own below that, because discovery asks [the gate](Gate) while it changes. Signatures and key agreements are jobs of
//! another thread, under no lock.

mod pre_shared;

use core::net::{IpAddr, Ipv4Addr};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use peregrine_rtps::discovery::data::{
    EndpointSecurityData, OpaqueValue, ParticipantData, ParticipantSecurityData, PublicationData, SecurityInfo,
    SubscriptionData,
};
use peregrine_rtps::id::{EntityId, Guid, GuidPrefix};
use peregrine_rtps::locator::Source;
use peregrine_rtps::participant::{
    Admission, Gate, LostReason, Participant, ParticipantConfig, ParticipantEvent, ParticipantRules, SecureChannel,
    TopicRules,
};
use peregrine_rtps::qos::Partition;
use peregrine_rtps::time::Instant;
use peregrine_rtps::wire::Endianness;
use peregrine_security::WallTime;
use peregrine_security::authentication::{Input, Job, JobDone};
use peregrine_security::crypto::PreSharedKeys;
use peregrine_security::documents::SecurityMasks;
use peregrine_security::message::{DataHolder, identity_token, permissions_token};
use peregrine_security::session::{
    self, AccessControl, Credential, EndpointDescription, Matched, PeerAnnouncement, Plugins, RemoteEndpoint,
    SecurityEvent, Session, SessionConfig, Step, parse_tags,
};
use peregrine_transport::random;
use tracing::Level;

use super::observer::DiscoveryEvent;
use crate::driver::base::clock::{now, wall};
use crate::driver::base::sync::lock_leaf;
use crate::driver::base::user_code::log;
use crate::error::{Error, SecurityError};

/// An event that is reported to the application.
pub(super) type SecurityReport = SecurityEvent;

/// Maximum number of steps in one call of [`Security::process`]: each is caused by a message, a job or an endpoint.
const STEPS_MAX: usize = 1 << 16;

/// Stands for a source without IP address.
const UNKNOWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

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
pub(crate) struct Security {
    /// `None` without certificates.
    rights: Option<Arc<dyn AccessControl>>,
    pre_shared: OnceLock<Arc<PreSharedKeys>>,
    /// Events that the session does not know.
    reports: Mutex<VecDeque<SecurityReport>>,
    /// `None` until the participant exists.
    session: Mutex<Option<Session>>,
    participant: OnceLock<Weak<dyn RunsJobs>>,
    not_sent: AtomicU64,
}

impl Security {
    /// Adds security to the configuration of a participant, whose prefix becomes that of the credential.
    ///
    /// # Errors
    /// The announcement of the participant does not fit into a handshake.
    pub(crate) fn configure(
        credential: Credential,
        (settings, plugins): (SessionConfig, &Plugins),
        config: &mut ParticipantConfig,
    ) -> Result<Arc<Self>, Error> {
        let rights = plugins.make_access_control(credential.rights().clone());
        config.prefix = credential.prefix();
        let masks = rights.participant_masks();
        config.security = Some(Box::new(ParticipantSecurityData {
            identity_token: opaque(&identity_token()),
            permissions_token: opaque(&permissions_token()),
            info: Some(info_of(masks)),
            identity_status_token: None,
        }));
        let security = Arc::new(Self {
            rights: Some(Arc::clone(&rights)),
            pre_shared: OnceLock::new(),
            reports: Mutex::default(),
            session: Mutex::new(None),
            participant: OnceLock::new(),
            not_sent: AtomicU64::new(0),
        });
        config.gate = Some(Arc::clone(&security) as Arc<dyn Gate>);
        let mut data = Vec::new();
        config.data().emit_for_handshake(&mut data);
        let session = with_input(|input| Session::with_plugins(credential, data, settings, (rights, plugins), input))
            .map_err(|fault| SecurityError::Identity(fault.to_string()))?;
        config.protection = Some(session.protection());
        if let Some(keys) = session.pre_shared_keys() {
            let _ = security.pre_shared.set(Arc::clone(keys));
        }
        *lock_leaf(&security.session) = Some(session);
        Ok(security)
    }

    /// Sets the participant. Its creator calls this once.
    pub(crate) fn set_participant(&self, participant: Weak<dyn RunsJobs>) {
        let _ = self.participant.set(participant);
    }

    /// Registers a local endpoint, which the caller then creates. The registration ends with the result unless the
    /// caller [keeps](Registration::keep) it.
    ///
    /// # Errors
    /// The documents deny the endpoint, or there is no room for another one.
    pub(crate) fn register(
        self: &Arc<Self>,
        endpoint: EntityId,
        topic: &str,
        partition: &Partition,
    ) -> Result<Registration, Error> {
        let description = description(topic, partition, None);
        let made = self.with(|session, input| session.endpoint_made(input, endpoint, description).map(drop));
        made.unwrap_or(Ok(())).map_err(|fault| SecurityError::Endpoint(fault.to_string()))?;
        Ok(Registration { security: Arc::clone(self), endpoint, is_kept: false })
    }

    /// Whether a local endpoint may have these partitions.
    ///
    /// # Errors
    /// The documents deny them.
    pub(crate) fn check(&self, endpoint: EntityId, topic: &str, partition: &Partition) -> Result<(), Error> {
        self.check_local(endpoint, topic, partition).map_err(|denial| SecurityError::Endpoint(denial).into())
    }

    /// A local endpoint is announced, perhaps with other partitions than before.
    pub(super) fn endpoint_announced(&self, endpoint: EntityId, topic: &str, partition: &Partition) {
        let description = description(topic, partition, None);
        let changed = self.with(|session, input| session.endpoint_changed(input, endpoint, description).map(drop));
        if let Some(Err(fault)) = changed {
            log(Level::WARN, move || {
                tracing::warn!(%endpoint, %fault, "an announced endpoint is denied, and matches no other endpoints");
            });
        }
    }

    pub(super) fn endpoint_removed(&self, endpoint: EntityId) {
        self.with(|session, input| session.endpoint_removed(input, endpoint));
    }

    /// When to call [`Self::handle_timeout`].
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.session().as_ref().and_then(Session::poll_timeout)
    }

    pub(super) fn handle_timeout(&self, now: Instant) {
        self.with(|session, input| {
            if session.poll_timeout().is_some_and(|at| at <= now) {
                session.handle_timeout(input);
            }
        });
    }

    /// Tells the session of an event of discovery.
    pub(super) fn handle_event(&self, now: Instant, event: &ParticipantEvent, rtps: &mut Participant) {
        match event {
            ParticipantEvent::MessagesRefused { from, refusal, count } => self.note_refused(*from, *refusal, *count),
            ParticipantEvent::KeysWanted { local, remote } => self.want_keys(now, *local, *remote, rtps),
            ParticipantEvent::ReaderUnmatched { writer, reader } => {
                self.with(|session, input| session.unmatch_endpoints(input, *writer, *reader));
            }
            ParticipantEvent::WriterUnmatched { reader, writer, .. } => {
                self.with(|session, input| session.unmatch_endpoints(input, *reader, *writer));
            }
            ParticipantEvent::PublicationLost(remote) | ParticipantEvent::SubscriptionLost(remote) => {
                self.with(|session, input| session.remote_endpoint_removed(input, *remote));
            }
            // The session has refused the participant, and remembers why.
            ParticipantEvent::ParticipantLost(_, LostReason::Refused) => {}
            ParticipantEvent::ParticipantLost(peer, _) => {
                self.with(|session, input| session.peer_lost(input, *peer));
            }
            _ => {}
        }
    }

    /// Hands received messages to the session, and takes its steps. Returns whether there were any. Adds events to
    /// report to `reports`.
    pub(super) fn process(&self, now: Instant, rtps: &mut Participant, reports: &mut VecDeque<SecurityReport>) -> bool {
        let wall = wall();
        if self.take_reports(reports) {
            return true;
        }
        for count in 0..STEPS_MAX {
            if let Some(step) = self.with(Session::poll_step).flatten() {
                self.take_step(now, step, rtps, reports);
            } else if let Some(message) = rtps.poll_secure_message(now, wall) {
                let (from, payload) = (message.from, message.payload);
                self.with(|session, input| {
                    let taken = match message.channel {
                        SecureChannel::Handshake => {
                            let source = message.source.map_or(UNKNOWN_ADDRESS, address_of);
                            session.stateless_message_received(input, source, from, &payload)
                        }
                        SecureChannel::KeyExchange => session.volatile_message_received(input, from, &payload),
                    };
                    debug_assert!(taken.is_ok(), "all steps were taken before");
                });
            } else {
                return count > 0;
            }
        }
        debug_assert!(false, "a session has steps without end");
        true
    }

    fn take_step(&self, now: Instant, step: Step, rtps: &mut Participant, reports: &mut VecDeque<SecurityReport>) {
        let wall = wall();
        match step {
            Step::SendStateless { to, payload } => {
                self.note_sent(to, rtps.send_secure(now, wall, SecureChannel::Handshake, to, &payload));
            }
            Step::SendVolatile { to, payload } => {
                self.note_sent(to, rtps.send_secure(now, wall, SecureChannel::KeyExchange, to, payload.expose()));
            }
            Step::Admit { peer, .. } => {
                rtps.review_admission(now, wall, peer);
            }
            Step::OpenKeyChannel { peer, .. } => self.note_sent(peer, rtps.open_key_channel(now, wall, peer)),
            Step::KeysReady { local, remote } => rtps.keys_ready(now, local, remote),
            Step::RunJob(job) => {
                let Some(participant) = self.participant.get() else { return };
                let Some(running) = participant.upgrade() else { return };
                let job = OpenJob { job: Some(job), participant: Weak::clone(participant) };
                running.run_job(Box::new(move || job.run()));
            }
            Step::Report(event) => {
                log_event(&event);
                reports.push_back(event);
            }
        }
    }

    pub(super) fn job_done(&self, done: JobDone) {
        self.with(|session, input| session.job_done(input, done));
    }

    /// The keys of a pair of endpoints are to be exchanged. The session exchanges the keys of participants and built-in
    /// endpoints without being asked.
    fn want_keys(&self, now: Instant, local: EntityId, remote: Guid, rtps: &mut Participant) {
        if local.is_builtin() {
            return;
        }
        match self.with(|session, input| session.match_endpoints(input, local, remote)) {
            Some(Ok(Matched::Ready)) => rtps.keys_ready(now, local, remote),
            Some(Ok(Matched::AwaitsKeys)) | None => {}
            Some(Err(fault)) => log(Level::WARN, move || {
                tracing::warn!(%local, %remote, %fault, "no keys are exchanged for a pair of endpoints");
            }),
        }
    }

    fn note_sent<E: std::fmt::Display + Send + 'static>(&self, peer: GuidPrefix, sent: Result<(), E>) {
        if let Err(error) = sent {
            // The session repeats messages of the handshake, and those with keys.
            self.not_sent.fetch_add(1, Ordering::Relaxed);
            log(Level::DEBUG, move || tracing::debug!(%peer, %error, "a message of the security channels is not sent"));
        }
    }

    /// Tells the session of an announcement.
    fn tell_announced(&self, remote: &ParticipantData, source: Option<Source>) {
        let security = remote.security.as_deref();
        let holder = |value: Option<&OpaqueValue>| {
            let (endianness, octets) = value?.octets();
            DataHolder::parse(octets, endianness).ok()
        };
        let identity = holder(security.and_then(|security| security.identity_token.as_ref()));
        let permissions = holder(security.and_then(|security| security.permissions_token.as_ref()));
        let announcement = PeerAnnouncement {
            prefix: remote.prefix,
            // A participant without source is known already, and its handshakes have the first source.
            source: source.map_or(UNKNOWN_ADDRESS, address_of),
            identity_token: identity.as_ref(),
            permissions_token: permissions.as_ref(),
            masks: security.and_then(|security| security.info).map(masks_of),
        };
        // A full queue of steps: the participant announces itself again.
        self.with(|session, input| session.peer_discovered(input, announcement).is_ok());
    }

    /// Rights end with the validity of the permissions, and depend on partitions, which change.
    fn check_local(&self, endpoint: EntityId, topic: &str, partition: &Partition) -> Result<(), String> {
        let Some(rights) = &self.rights else { return Ok(()) };
        let checked = rights.endpoint(endpoint, &description(topic, partition, None), calendar());
        checked.map(drop).map_err(|denial| denial.to_string())
    }

    fn check_remote(
        &self,
        guid: Guid,
        topic: &str,
        partition: &Partition,
        security: &EndpointSecurityData,
    ) -> Result<(), String> {
        let remote = RemoteEndpoint {
            guid,
            description: description(topic, partition, security.data_tags.as_ref()),
            masks: security.info.map(masks_of),
            // Discovery has checked that.
            is_announced_securely: true,
        };
        let verdict = self.with(|session, input| session.remote_endpoint_discovered(input, &remote).map(drop));
        verdict.unwrap_or(Ok(())).map_err(|fault| fault.to_string())
    }

    fn with<R>(&self, call: impl FnOnce(&mut Session, &mut Input<'_>) -> R) -> Option<R> {
        let mut session = self.session();
        let session = session.as_mut()?;
        Some(with_input(|input| call(session, input)))
    }

    fn session(&self) -> MutexGuard<'_, Option<Session>> {
        lock_leaf(&self.session)
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
        let done = catch_unwind(AssertUnwindSafe(|| job.run())).unwrap_or_else(|_| ticket.failed());
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

/// The session knows a local endpoint that is being created.
#[must_use]
pub(crate) struct Registration {
    security: Arc<Security>,
    endpoint: EntityId,
    is_kept: bool,
}

impl Registration {
    /// The endpoint exists: its removal ends the registration.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if !self.is_kept {
            self.security.endpoint_removed(self.endpoint);
        }
    }
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Security").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Gate for Security {
    fn announced(&self, remote: &ParticipantData, source: Option<Source>) -> Admission {
        self.tell_announced(remote, source);
        self.admission(remote.prefix)
    }

    fn admission(&self, remote: GuidPrefix) -> Admission {
        let session = self.session();
        match session.as_ref().and_then(|session| session.admission(remote)) {
            None | Some(session::Admission::Pending) => Admission::Pending,
            Some(session::Admission::Authenticated) => Admission::Authenticated,
            Some(session::Admission::Unauthenticated) => Admission::Unauthenticated,
            Some(session::Admission::Refused(refusal)) => Admission::Refused(refusal.to_string()),
        }
    }

    fn participant(&self) -> ParticipantRules {
        let Some(rule) = self.rights.as_deref().map(AccessControl::domain_rule) else {
            return ParticipantRules::default();
        };
        ParticipantRules {
            is_rtps_protected: !rule.messages.is_none(),
            is_discovery_protected: !rule.discovery.is_none(),
            is_liveliness_protected: !rule.liveliness.is_none(),
        }
    }

    fn topic(&self, name: &str) -> TopicRules {
        let Some(rights) = &self.rights else { return TopicRules::default() };
        let Ok(security) = rights.security_of(name) else {
            // The governance has no rule for the topic, so that nobody may use it.
            let (is_read_protected, is_write_protected) = (true, true);
            return TopicRules { is_read_protected, is_write_protected, ..TopicRules::default() };
        };
        TopicRules {
            is_discovery_protected: security.is_discovery_protected,
            is_liveliness_protected: security.is_liveliness_protected,
            is_read_protected: security.is_read_controlled,
            is_write_protected: security.is_write_controlled,
            is_submessage_protected: !security.levels.submessage.is_none(),
            is_payload_protected: !security.levels.payload.is_none(),
            info: info_of(security.masks),
        }
    }

    fn check_remote_writer(&self, writer: &PublicationData, reader: &SubscriptionData) -> Result<(), String> {
        self.check_local(reader.guid.entity, &reader.topic_name, &reader.subscriber.partition)?;
        self.check_remote(writer.guid, &writer.topic_name, &writer.publisher.partition, &writer.security)
    }

    fn check_remote_reader(&self, reader: &SubscriptionData, writer: &PublicationData) -> Result<(), String> {
        self.check_local(writer.guid.entity, &writer.topic_name, &writer.publisher.partition)?;
        self.check_remote(reader.guid, &reader.topic_name, &reader.subscriber.partition, &reader.security)
    }
}

/// The event that tells observers of a report.
pub(super) const fn event_of(report: SecurityReport) -> DiscoveryEvent {
    DiscoveryEvent::Security(report)
}

/// The present time of the calendar.
pub(crate) fn calendar() -> WallTime {
    WallTime(i64::from(wall().seconds))
}

fn with_input<R>(call: impl FnOnce(&mut Input<'_>) -> R) -> R {
    call(&mut Input { now: now(), wall: calendar(), random: &mut fill })
}

/// Random bytes.
fn fill(bytes: &mut [u8]) {
    let filled = random::fill(bytes);
    assert!(filled.is_ok(), "the operating system gives no random numbers: {filled:?}");
}

fn description(topic: &str, partition: &Partition, tags: Option<&OpaqueValue>) -> EndpointDescription {
    let tags = tags.and_then(|tags| {
        let (endianness, octets) = tags.octets();
        parse_tags(octets, endianness)
    });
    let partitions = partition.0.iter().map(ToString::to_string).collect();
    EndpointDescription { topic: topic.to_owned(), partitions, tags: tags.unwrap_or_default() }
}

fn opaque(token: &DataHolder) -> Option<OpaqueValue> {
    let [little, big] = [Endianness::Little, Endianness::Big].map(|endianness| {
        let mut octets = Vec::new();
        token.emit(endianness, &mut octets);
        octets
    });
    OpaqueValue::new(&little, &big)
}

const fn info_of(masks: SecurityMasks) -> SecurityInfo {
    SecurityInfo { mask: masks.standard, plugin_mask: masks.plugin }
}

const fn masks_of(info: SecurityInfo) -> SecurityMasks {
    SecurityMasks { standard: info.mask, plugin: info.plugin_mask }
}

fn address_of(source: Source) -> IpAddr {
    match source {
        Source::Datagram(address) => address.ip(),
        Source::Stream(locator) => locator.to_socket_addr().map_or(UNKNOWN_ADDRESS, |address| address.ip()),
    }
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
