//! The state machine of a session: its state, and the queue of steps.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use peregrine_rtps::id::{EntityId, GuidPrefix};
use peregrine_rtps::protection::Protection;
use peregrine_rtps::time::{Instant, Span};

use super::calendar::Calendar;
use super::config::{SessionConfig, SessionStatistics, SessionUsage, StepsWaiting};
use super::credential::Credential;
use super::description::{EndpointDescription, EndpointSecurity};
use super::peer::{PairKey, Peer};
use super::plugins::{AccessControl, Authentication, Cryptographic, Plugins};
use super::retirement::Retirement;
use super::step::{Admission, RenewalCause, SecurityEvent, Step};
use crate::authentication::{
    AuthenticationConfig, Authenticator, Input, JobDone, LocalParticipant, PeerCredential, Trust, UnusableIdentity,
};
use crate::crypto::{CryptoConfig, KeyFactory, KeyLength, PreSharedConfig, PreSharedKeys, secure_entity as secure};
use crate::documents::{Denial, DomainRule};
use crate::limits::{BLOCKS_CHECK_INTERVAL, CALENDAR_INTERVAL, IDLE_SESSIONS_INTERVAL, PEERS, STEPS};
use crate::wall_time::WallTime;

/// The security of one participant, joined from authentication, access control and cryptography.
///
/// The caller takes all steps after each call, and calls [`Self::handle_timeout`] at [`Self::poll_timeout`].
#[derive(Debug)]
pub struct Session {
    pub(super) prefix: GuidPrefix,
    pub(super) rights: Arc<dyn AccessControl>,
    pub(super) valid_until: WallTime,
    pub(super) trust: Trust,
    pub(super) config: SessionConfig,
    pub(super) authenticator: Box<dyn Authentication>,
    pub(super) keys: Box<dyn Cryptographic>,
    pub(super) protection: Arc<dyn Protection>,
    pub(super) pre_shared: Option<Arc<PreSharedKeys>>,
    pub(super) peers: BTreeMap<GuidPrefix, Peer>,
    pub(super) locals: BTreeMap<EntityId, LocalEndpoint>,
    steps: VecDeque<Step>,
    /// Pairs with something to do, each at most once.
    pub(super) pairs: VecDeque<PairKey>,
    /// When keys are asked for.
    pub(super) questions: BTreeSet<(Instant, PairKey)>,
    pub(super) retirement: Retirement,
    /// Local senders whose keys are to be renewed.
    pub(super) renewal_wanted: BTreeMap<EntityId, RenewalCause>,
    pub(super) renewal_not_before: Instant,
    /// Local senders whose renewed keys are sent, and the time of their first use.
    pub(super) activating: Option<(Instant, Vec<EntityId>)>,
    pub(super) blocks_checked: Instant,
    /// When idle session keys of peers were dropped last.
    pub(super) idle_sessions_dropped: Instant,
    pub(super) is_expired: bool,
    pub(super) sequence_number: i64,
    pub(super) statistics: SessionStatistics,
    /// The numbers of the jobs that are handed out.
    jobs: BTreeSet<u64>,
    job_number: u64,
    calendar: Calendar,
    /// The latest times that were stated.
    clock: (Instant, WallTime),
}

/// A local endpoint.
#[derive(Debug)]
pub(super) struct LocalEndpoint {
    /// `None` for built-in ones.
    pub(super) description: Option<EndpointDescription>,
    pub(super) security: EndpointSecurity,
}

/// Whether two endpoints may exchange samples.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Matched {
    /// The endpoints exchange samples at once.
    Ready,
    /// The endpoints exchange samples after [`Step::KeysReady`].
    AwaitsKeys,
}

/// Why a local endpoint cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnusableEndpoint {
    /// The documents deny it.
    Denied(Denial),
    /// The id is not that of a writer or reader, is that of a built-in one, or is in use.
    Entity(EntityId),
    /// There are too many endpoints.
    NoRoom,
}

impl Session {
    /// A session without peers.
    ///
    /// `participant_data` is what SPDP announces, as a big-endian parameter list without encapsulation: with the GUID
    /// of the participant, and the parameters of [`Credential::write_parameters`].
    ///
    /// # Errors
    /// The discovery data is not that of the participant, or does not fit into a message with the documents.
    pub fn new(
        credential: Credential,
        participant_data: Vec<u8>,
        config: SessionConfig,
        input: &mut Input<'_>,
    ) -> Result<Self, UnusableIdentity> {
        let rights = Arc::new(credential.rights.clone());
        Self::with_plugins(credential, participant_data, config, (rights, &Plugins::new()), input)
    }

    /// The same with plug-ins of the application: the access control that [`Plugins::make_access_control`] has made,
    /// and the others.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_plugins(
        credential: Credential,
        participant_data: Vec<u8>,
        config: SessionConfig,
        (rights, plugins): (Arc<dyn AccessControl>, &Plugins),
        input: &mut Input<'_>,
    ) -> Result<Self, UnusableIdentity> {
        let least_key_length = least_key_length(rights.domain_rule());
        let pre_shared_length = credential.pre_shared.as_ref().map_or(least_key_length, |(_, length)| *length);
        if config.crypto.key_length.min(pre_shared_length) < least_key_length {
            return Err(UnusableIdentity::KeyLength);
        }
        let accepted_key_length = config.crypto.accepted_key_length.max(least_key_length);
        let crypto = CryptoConfig { accepted_key_length, ..config.crypto };
        let config = SessionConfig { crypto, ..config };
        let domain = credential.rights.domain().clone();
        let Credential { prefix, certificates, key, trust, permissions, valid_until, pre_shared, .. } = credential;
        let local = LocalParticipant::new(prefix, &certificates, key, permissions, participant_data)?;
        let authentication =
            AuthenticationConfig { allow_unauthenticated: rights.allow_unauthenticated(), jobs: config.jobs };
        let authenticator = Authenticator::new(local, trust.clone(), authentication, input.now);
        let authenticator = plugins.make_authentication(authenticator);
        let messages = rights.domain_rule().messages;
        let mut keys = plugins.make_cryptographic(KeyFactory::new(messages, config.crypto, input.random));
        keys.register_participant(messages, input.random);
        let mut locals = BTreeMap::new();
        let discovery = rights.domain_rule().discovery;
        let liveliness = rights.domain_rule().liveliness;
        for (endpoint, kind) in [
            (secure::PARTICIPANT_WRITER, discovery),
            (secure::PARTICIPANT_READER, discovery),
            (secure::PUBLICATIONS_WRITER, discovery),
            (secure::PUBLICATIONS_READER, discovery),
            (secure::SUBSCRIPTIONS_WRITER, discovery),
            (secure::SUBSCRIPTIONS_READER, discovery),
            (secure::MESSAGE_WRITER, liveliness),
            (secure::MESSAGE_READER, liveliness),
        ] {
            let security = EndpointSecurity::of_builtin(messages, kind);
            keys.register_endpoint(endpoint, kind, security.levels.payload, input.random);
            locals.insert(endpoint, LocalEndpoint { description: None, security });
        }
        let pre_shared = (!rights.domain_rule().pre_shared.is_none()).then(|| {
            let (passphrases, key_length) = pre_shared.unzip();
            let config = PreSharedConfig {
                kind: rights.domain_rule().pre_shared,
                key_length: key_length.unwrap_or_default(),
                domain_id: domain.id,
                domain_tag: domain.tag.clone(),
                prefix,
            };
            // Without passphrases nothing is sent and nothing is accepted.
            Arc::new(PreSharedKeys::new(config, passphrases.as_ref(), input.random).accepting(least_key_length))
        });
        if let Some(pre_shared) = &pre_shared {
            keys.set_pre_shared(Arc::clone(pre_shared));
        }
        let protection = keys.protection();
        Ok(Self {
            prefix,
            rights,
            valid_until,
            trust,
            config,
            authenticator,
            keys,
            protection,
            pre_shared,
            peers: BTreeMap::new(),
            locals,
            steps: VecDeque::new(),
            pairs: VecDeque::new(),
            questions: BTreeSet::new(),
            retirement: Retirement::default(),
            renewal_wanted: BTreeMap::new(),
            renewal_not_before: input.now,
            activating: None,
            blocks_checked: input.now,
            idle_sessions_dropped: input.now,
            is_expired: false,
            sequence_number: 0,
            statistics: SessionStatistics::default(),
            jobs: BTreeSet::new(),
            job_number: 0,
            calendar: Calendar::new(input.now, input.wall),
            clock: (input.now, input.wall),
        })
    }

    /// The GUID prefix of the participant.
    #[must_use]
    pub const fn prefix(&self) -> GuidPrefix {
        self.prefix
    }

    /// The access control of the participant.
    #[must_use]
    pub fn rights(&self) -> &dyn AccessControl {
        &*self.rights
    }

    /// The decision about a peer; `None` for an unknown one.
    #[must_use]
    pub fn admission(&self, peer: GuidPrefix) -> Option<&Admission> {
        self.peers.get(&peer).map(|peer| &peer.admission)
    }

    /// The certificate, permissions and signed discovery data of an authenticated peer.
    #[must_use]
    pub fn peer_credential(&self, peer: GuidPrefix) -> Option<&PeerCredential> {
        self.peers.get(&peer)?.credential.as_deref()
    }

    /// The next step.
    pub fn poll_step(&mut self, input: &mut Input<'_>) -> Option<Step> {
        self.set_clock(input);
        loop {
            self.take_transmits();
            if let Some(step) = self.steps.pop_front() {
                return Some(step);
            }
            // Messages with keys are made when they are taken, so that their number is bounded by that of the pairs.
            let Some(pair) = self.pairs.pop_front() else { break };
            self.serve_pair(input, pair);
        }
        if self.jobs.len() >= self.config.jobs.max(1) {
            return None;
        }
        let job = self.authenticator.poll_job(input)?;
        self.job_number = self.job_number.saturating_add(1);
        self.jobs.insert(self.job_number);
        Some(Step::RunJob(job.with_serial(self.job_number)))
    }

    /// A job is done. If its thread panicked, the result comes from its
    /// [`JobTicket`](crate::authentication::JobTicket). Of several results of one job, the first counts.
    pub fn job_done(&mut self, input: &mut Input<'_>, done: JobDone) {
        self.set_clock(input);
        if !self.jobs.remove(&done.serial()) {
            self.statistics.jobs_not_awaited = self.statistics.jobs_not_awaited.saturating_add(1);
            return;
        }
        self.authenticator.handle_job_done(input, done);
        self.process_authentication(input);
    }

    /// When to call [`Self::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let (now, wall) = self.clock;
        let expiry = (!self.is_expired).then(|| {
            let seconds = self.valid_until.0.saturating_sub(wall.0).saturating_add(1).max(0).unsigned_abs();
            now + Span::from_secs(seconds).min(CALENDAR_INTERVAL)
        });
        let renewal = (!self.renewal_wanted.is_empty() && self.activating.is_none()).then_some(self.renewal_not_before);
        let blocks = self.config.blocks_per_key.map(|_| self.blocks_checked + BLOCKS_CHECK_INTERVAL);
        let deadlines = [
            self.authenticator.poll_timeout(),
            self.questions.first().map(|(at, _)| *at),
            self.activating.as_ref().map(|(at, _)| *at),
            self.retirement.next(),
            (!self.peers.is_empty()).then_some(self.idle_sessions_dropped + IDLE_SESSIONS_INTERVAL),
            renewal,
            blocks,
            expiry,
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The time of [`Self::poll_timeout`] has come.
    pub fn handle_timeout(&mut self, input: &mut Input<'_>) {
        self.set_clock(input);
        if !self.is_expired && input.wall > self.valid_until {
            self.is_expired = true;
            self.report(SecurityEvent::LocalExpired { until: self.valid_until });
        }
        self.authenticator.handle_timeout(input);
        self.process_authentication(input);
        self.ask_for_keys(input);
        self.serve_renewal(input);
        if input.now >= self.idle_sessions_dropped + IDLE_SESSIONS_INTERVAL {
            self.idle_sessions_dropped = input.now;
            self.statistics.idle_keys += self.keys.drop_idle_sessions() as u64;
        }
    }

    /// The calendar of the participant at this time: that of the host, unless the host's was set back since the
    /// beginning.
    pub fn calendar(&mut self, input: &mut Input<'_>) -> WallTime {
        self.set_clock(input);
        input.wall
    }

    /// Counters.
    #[must_use]
    pub fn statistics(&self) -> SessionStatistics {
        SessionStatistics { authentication: self.authenticator.statistics(), ..self.statistics }
    }

    /// Numbers that are in use.
    #[must_use]
    pub fn usage(&self) -> SessionUsage {
        SessionUsage {
            authentication: self.authenticator.usage(),
            peers: self.peers.len(),
            steps: self.steps.len(),
            pairs_waiting: self.pairs.len(),
            matches: self.peers.values().map(|peer| peer.matches.len()).sum(),
            early_tokens: self.peers.values().map(|peer| peer.early.len()).sum(),
            retiring_keys: self.retirement.len(),
        }
    }

    /// Notes the times, and puts the calendar of the participant in place of the host's.
    pub(super) fn set_clock(&mut self, input: &mut Input<'_>) {
        input.wall = self.calendar.at(input.now, input.wall);
        self.clock = (input.now, input.wall);
    }

    /// Whether a message of others may be accepted: the steps that it causes need room.
    pub(super) fn take(&mut self) -> Result<(), StepsWaiting> {
        if self.steps.len() < STEPS {
            return Ok(());
        }
        self.statistics.not_taken = self.statistics.not_taken.saturating_add(1);
        Err(StepsWaiting)
    }

    pub(super) fn push(&mut self, step: Step) {
        self.steps.push_back(step);
    }

    /// Adds a report, which others may provoke.
    pub(super) fn report(&mut self, event: SecurityEvent) {
        if self.steps.len() >= STEPS {
            self.statistics.reports_dropped = self.statistics.reports_dropped.saturating_add(1);
        } else {
            self.steps.push_back(Step::Report(event));
        }
    }

    /// Moves messages of handshakes to the other steps. The authenticator bounds those that do not fit.
    pub(super) fn take_transmits(&mut self) {
        while self.steps.len() < STEPS {
            let Some(transmit) = self.authenticator.poll_transmit() else { break };
            self.steps.push_back(Step::SendStateless { to: transmit.to, payload: transmit.payload });
        }
    }

    /// The number of peers that are permitted.
    pub(super) fn peers_max(&self) -> usize {
        self.config.peers.min(PEERS)
    }
}

/// The shortest keys that the governance permits.
fn least_key_length(rule: &DomainRule) -> KeyLength {
    let name = KeyLength::Aes128.cipher_name();
    let is_permitted =
        rule.algorithms.as_ref().is_none_or(|algorithms| algorithms.check_symmetric_cipher(name).is_ok());
    if is_permitted { KeyLength::Aes128 } else { KeyLength::Aes256 }
}

impl fmt::Display for UnusableEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denial) => denial.fmt(f),
            Self::Entity(entity) => write!(f, "{entity} is not the id of a new writer or reader of the user"),
            Self::NoRoom => f.write_str("there are too many endpoints"),
        }
    }
}

impl core::error::Error for UnusableEndpoint {}
