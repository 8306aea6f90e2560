//! The connection between a [`Session`] and the discovery of its participant: calls of the [gate](Gate) become calls of
//! the session, and [`Step`]s become calls of [`Participant`].
//!
//! ```text
//! Participant ── Gate ──> ParticipantSecurity ── calls ──> Session
//!      │                          │
//!      └───── SecureMessage ──> process ── steps ──> Participant, Outlet
//! ```
//!
//! The caller holds the lock of the participant, if there is one. Discovery asks the [gate](Gate) while it changes, so
//! that the session has a lock of its own: a leaf, under which nothing else is locked and no call of the caller but
//! those of [`Environment`] is made. Steps are taken by [`ParticipantSecurity::process`], and never from within a call
//! of the gate: after each call of the participant, the caller calls it.

mod convert;
mod gate;
#[cfg(test)]
mod tests;

use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peregrine_rtps::discovery::data::{BuiltinEndpointSet, OpaqueValue};
use peregrine_rtps::id::{EntityId, GuidPrefix};
use peregrine_rtps::participant::{
    Gate, Participant, ParticipantConfig, SecureChannel, SecureMessage, SecureSendError,
};
use peregrine_rtps::protection::SharedProtection;
use peregrine_rtps::qos::Partition;
use peregrine_rtps::time::{Instant, Timestamp};

pub use convert::{TooManyTags, announcement, data_tags};

use crate::authentication::{Input, Job, JobDone, UnusableIdentity};
use crate::crypto::PreSharedKeys;
use crate::documents::Denial;
use crate::identity::{RevocationList, UnusableRevocations};
use crate::message::permissions_token;
use crate::session::{
    self, AccessControl, Credential, Plugins, Renewal, SecurityEvent, Session, SessionConfig, SessionStatistics,
    SessionUsage, Step, UnusableEndpoint,
};
use convert::{address_of, description};

/// Maximum number of steps in one call of [`ParticipantSecurity::process`]: each is caused by a message, a job or an
/// endpoint.
const STEPS_MAX: usize = 1 << 16;

/// The clocks and the random numbers of a participant. Called under the lock of the session, so that calls are short
/// and take no lock that a caller of [`ParticipantSecurity`] may hold.
pub trait Environment: fmt::Debug + Send + Sync {
    /// The present time of the monotonic clock.
    fn now(&self) -> Instant;

    /// The present time of the calendar.
    fn wall(&self) -> Timestamp;

    /// Fills a buffer with random bytes that are unpredictable.
    fn fill(&self, octets: &mut [u8]);
}

/// Takes what leaves the security of a participant other than by its channels. Called under no lock of this crate.
pub trait Outlet {
    /// Runs a job on another thread, or later. Its result goes to [`ParticipantSecurity::job_done`], also if the job
    /// is dropped: see [`Job::ticket`].
    fn run_job(&mut self, job: Job);

    /// An event for logs and observers.
    fn report(&mut self, event: SecurityEvent);

    /// A message for a peer is not sent. The session repeats it.
    fn not_sent(&mut self, peer: GuidPrefix, error: SecureSendError);
}

/// The security of one participant: the [`Gate`] of its discovery, and the session behind it.
#[derive(Debug)]
pub struct ParticipantSecurity {
    rights: Arc<dyn AccessControl>,
    environment: Arc<dyn Environment>,
    session: Mutex<Session>,
    not_sent: AtomicU64,
}

/// The session knows a local endpoint that is being created.
#[must_use]
#[derive(Debug)]
pub struct Registration {
    security: Arc<ParticipantSecurity>,
    endpoint: EntityId,
    is_kept: bool,
}

impl ParticipantSecurity {
    /// Adds security to the configuration of a participant, whose prefix becomes that of the credential. Sets its
    /// `prefix`, `security`, `protection` and `gate`; all else that participants announce must be there before.
    ///
    /// # Errors
    /// The announcement of the participant does not fit into a handshake.
    pub fn configure(
        credential: Credential,
        (settings, plugins): (SessionConfig, &Plugins),
        environment: Arc<dyn Environment>,
        config: &mut ParticipantConfig,
    ) -> Result<Arc<Self>, UnusableIdentity> {
        let rights = plugins.make_access_control(credential.rights().clone());
        config.prefix = credential.prefix();
        let masks = rights.participant_masks();
        config.security = Some(Box::new(announcement(plugins.announced_identity(), &permissions_token(), masks)));
        let mut announced = config.data();
        // A participant with a gate announces these.
        announced.builtin_endpoints = announced.builtin_endpoints.with(BuiltinEndpointSet::SECURITY);
        let mut data = Vec::new();
        announced.emit_for_handshake(&mut data);
        let plugins = (Arc::clone(&rights), plugins);
        let session =
            with_input(&*environment, |input| Session::with_plugins(credential, data, settings, plugins, input))?;
        config.protection = Some(SharedProtection::new(session.protection()));
        let security =
            Arc::new(Self { rights, environment, session: Mutex::new(session), not_sent: AtomicU64::new(0) });
        config.gate = Some(Arc::clone(&security) as Arc<dyn Gate>);
        debug_assert_eq!(config.data(), announced, "the handshake signs what the participant announces");
        Ok(security)
    }

    /// The pre-shared keys, if the governance protects messages with them.
    #[must_use]
    pub fn pre_shared_keys(&self) -> Option<Arc<PreSharedKeys>> {
        self.session().pre_shared_keys().cloned()
    }

    /// Registers a local endpoint, which the caller then creates, with the value of its [`data_tags`]. The registration
    /// ends with the result unless the caller [keeps](Registration::keep) it.
    ///
    /// # Errors
    /// The documents deny the endpoint, or there is no room for another one.
    pub fn register(
        self: &Arc<Self>,
        endpoint: EntityId,
        topic: &str,
        partition: &Partition,
        tags: Option<&OpaqueValue>,
    ) -> Result<Registration, UnusableEndpoint> {
        let description = description(topic, partition, tags);
        self.with(|session, input| session.endpoint_made(input, endpoint, description))?;
        Ok(Registration { security: Arc::clone(self), endpoint, is_kept: false })
    }

    /// Whether a local endpoint may have these partitions and tags now. Permissions end with their validity.
    ///
    /// # Errors
    /// The documents deny them.
    pub fn check(
        &self,
        endpoint: EntityId,
        topic: &str,
        partition: &Partition,
        tags: Option<&OpaqueValue>,
    ) -> Result<(), Denial> {
        let now = self.with(Session::calendar);
        self.rights.endpoint(endpoint, &description(topic, partition, tags), now).map(drop)
    }

    /// A local endpoint is announced, perhaps with other partitions than before.
    ///
    /// # Errors
    /// The documents deny the endpoint, which matches no other endpoints.
    pub fn endpoint_announced(
        &self,
        endpoint: EntityId,
        topic: &str,
        partition: &Partition,
        tags: Option<&OpaqueValue>,
    ) -> Result<(), UnusableEndpoint> {
        let description = description(topic, partition, tags);
        self.with(|session, input| session.endpoint_changed(input, endpoint, description).map(drop))
    }

    /// A local endpoint is gone.
    pub fn endpoint_removed(&self, endpoint: EntityId) {
        self.with(|session, input| session.endpoint_removed(input, endpoint));
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.session().poll_timeout()
    }

    /// Time has passed. The caller then calls [`Self::process`].
    pub fn handle_timeout(&self, now: Instant) {
        self.with(|session, input| {
            if session.poll_timeout().is_some_and(|at| at <= now) {
                session.handle_timeout(input);
            }
        });
    }

    /// Hands received messages to the session, and takes its steps. Returns whether there were any: events of the
    /// participant may have come.
    pub fn process(&self, now: Instant, rtps: &mut Participant, outlet: &mut dyn Outlet) -> bool {
        let wall = self.environment.wall();
        if let Some(data) = rtps.take_changed_handshake_data() {
            self.with(|session, _| session.set_participant_data(data));
        }
        for count in 0..STEPS_MAX {
            if let Some(step) = self.with(Session::poll_step) {
                self.take_step((now, wall), step, rtps, outlet);
            } else if let Some(message) = rtps.poll_secure_message(now, wall) {
                self.take_message(&message);
            } else {
                return count > 0;
            }
        }
        debug_assert!(false, "a session has steps without end");
        true
    }

    /// A job is done, or has failed.
    pub fn job_done(&self, done: JobDone) {
        self.with(|session, input| session.job_done(input, done));
    }

    /// Whether these revocation lists can replace the present ones. Verifies signatures, under no lock.
    ///
    /// # Errors
    /// The fault of the first unusable list.
    pub fn check_revocations(&self, lists: &[RevocationList]) -> Result<(), UnusableRevocations> {
        let (authorities, now) = self.with(|session, input| (session.identity_authorities(), session.calendar(input)));
        authorities.check_revocations(lists, now)
    }

    /// Replaces the revocation lists. Peers with a revoked certificate are let go when jobs have verified the
    /// certificates of all peers again. The caller then calls [`Self::process`].
    pub fn set_revocations(&self, lists: Vec<RevocationList>) {
        self.with(|session, input| session.set_revocations(input, lists));
    }

    /// Renews the keys of the participant and its endpoints. The caller then calls [`Self::process`].
    pub fn renew_keys(&self, renewal: Renewal) {
        self.with(|session, input| session.renew_keys(input, renewal));
    }

    /// The decision about a peer; `None` for an unknown one.
    #[must_use]
    pub fn decision(&self, peer: GuidPrefix) -> Option<session::Admission> {
        self.session().admission(peer).cloned()
    }

    /// Counters of the session.
    #[must_use]
    pub fn statistics(&self) -> SessionStatistics {
        self.session().statistics()
    }

    /// Numbers that are in use.
    #[must_use]
    pub fn usage(&self) -> SessionUsage {
        self.session().usage()
    }

    /// The number of messages that the channels did not take.
    #[must_use]
    pub fn not_sent(&self) -> u64 {
        self.not_sent.load(Ordering::Relaxed)
    }

    fn take_message(&self, message: &SecureMessage) {
        let (from, payload) = (message.from, &*message.payload);
        let taken = self.with(|session, input| match message.channel {
            SecureChannel::Handshake => {
                session.stateless_message_received(input, address_of(message.source), from, payload)
            }
            SecureChannel::KeyExchange => session.volatile_message_received(input, from, payload),
        });
        // The session counts those that it does not take.
        debug_assert!(taken.is_ok(), "all steps were taken before");
    }

    fn take_step(
        &self,
        (now, wall): (Instant, Timestamp),
        step: Step,
        rtps: &mut Participant,
        outlet: &mut dyn Outlet,
    ) {
        match step {
            Step::SendStateless { to, payload } => {
                let sent = rtps.send_secure(now, wall, SecureChannel::Handshake, to, &payload);
                if sent == Err(SecureSendError::Unpaid) {
                    self.with(|session, input| session.stateless_message_held_back(input, to, payload.len()));
                }
                self.note_sent(to, sent, outlet);
            }
            Step::SendVolatile { to, payload } => {
                let sent = rtps.send_secure(now, wall, SecureChannel::KeyExchange, to, payload.expose());
                self.note_sent(to, sent, outlet);
            }
            Step::Admit { peer, .. } => {
                rtps.review_admission(now, wall, peer);
            }
            Step::OpenKeyChannel { peer, .. } => {
                self.note_sent(peer, rtps.open_key_channel(now, wall, peer), outlet);
            }
            Step::KeysReady { local, remote } => rtps.keys_ready(now, local, remote),
            Step::RunJob(job) => outlet.run_job(job),
            Step::Report(event) => outlet.report(event),
        }
    }

    fn note_sent(&self, peer: GuidPrefix, sent: Result<(), SecureSendError>, outlet: &mut dyn Outlet) {
        if let Err(error) = sent {
            self.not_sent.fetch_add(1, Ordering::Relaxed);
            outlet.not_sent(peer, error);
        }
    }

    /// Calls the session with the present time, which is read under its lock: the session sees no earlier time after a
    /// later one.
    fn with<R>(&self, call: impl FnOnce(&mut Session, &mut Input<'_>) -> R) -> R {
        let mut session = self.session();
        with_input(&*self.environment, |input| call(&mut session, input))
    }

    /// A panic of a plug-in leaves the session usable: each of its calls checks what it finds.
    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    /// The endpoint exists: its removal ends the registration.
    pub fn keep(mut self) {
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

fn with_input<R>(environment: &dyn Environment, call: impl FnOnce(&mut Input<'_>) -> R) -> R {
    let mut random = |octets: &mut [u8]| environment.fill(octets);
    call(&mut Input { now: environment.now(), wall: environment.wall().into(), random: &mut random })
}
