//! The security of one simulated participant: its session, connected with discovery, and the jobs that are under way.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};

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
use peregrine_rtps::time::{Instant, Span, Timestamp};
use peregrine_rtps::wire::Endianness;
use peregrine_security::WallTime;
use peregrine_security::authentication::{Input, Job};
use peregrine_security::documents::SecurityMasks;
use peregrine_security::message::{DataHolder, identity_token, permissions_token};
use peregrine_security::session::{
    self, Credential, EndpointDescription, Matched, PeerAnnouncement, RemoteEndpoint, Renewal, Rights, SecurityEvent,
    Session, SessionConfig, SessionStatistics, SessionUsage, Step, parse_tags,
};

/// The longest time of a job on a machine at ease, and on one under load.
const JOB_TIMES: [Span; 2] = [Span::from_millis(2), Span::from_millis(400)];
/// One of so many jobs meets a machine under load.
const SLOW_ONE_IN: u32 = 8;

/// The security of a participant.
pub struct Security {
    rights: Rights,
    state: Mutex<State>,
}

struct State {
    /// `None` until the participant exists.
    session: Option<Session>,
    rng: fastrand::Rng,
    clock: (Instant, WallTime),
    jobs: BTreeMap<(Instant, u64), Job>,
    jobs_so_far: u64,
    not_sent: u64,
}

impl Security {
    /// Adds security to the configuration of a participant, whose prefix becomes that of the credential.
    ///
    /// # Panics
    /// The credential does not fit into a handshake.
    pub(crate) fn configure(
        credential: Credential,
        seed: u64,
        clock: (Instant, Timestamp),
        config: &mut ParticipantConfig,
    ) -> Arc<Self> {
        config.prefix = credential.prefix();
        config.security = Some(Box::new(ParticipantSecurityData {
            identity_token: opaque(&identity_token()),
            permissions_token: opaque(&permissions_token()),
            info: Some(info_of(credential.rights().participant_masks())),
            identity_status_token: None,
        }));
        let state = State {
            session: None,
            rng: fastrand::Rng::with_seed(seed),
            clock: (clock.0, wall_time(clock.1)),
            jobs: BTreeMap::new(),
            jobs_so_far: 0,
            not_sent: 0,
        };
        let security = Arc::new(Self { rights: credential.rights().clone(), state: Mutex::new(state) });
        config.gate = Some(Arc::clone(&security) as Arc<dyn Gate>);
        let mut data = Vec::new();
        config.data().emit_for_handshake(&mut data);
        let mut state = security.lock();
        let session = state.with_input(|_, input| Session::new(credential, data, SessionConfig::default(), input));
        let session = session.expect("the documents of a test fit into a handshake");
        config.protection = Some(session.protection() as Arc<_>);
        state.session = Some(session);
        drop(state);
        security
    }

    /// Sets the time of all that follows.
    pub(crate) fn set_clock(&self, now: Instant, wall: Timestamp) {
        self.lock().clock = (now, wall_time(wall));
    }

    /// Registers a local endpoint.
    ///
    /// # Panics
    /// The documents deny the endpoint.
    pub(crate) fn endpoint_made(&self, endpoint: EntityId, topic: &str, partition: &Partition) {
        let description = description(topic, partition, None);
        let made = self.with(|session, input| session.endpoint_made(input, endpoint, description).map(drop));
        made.expect("the documents of a world permit its endpoints");
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let state = self.lock();
        let job = state.jobs.keys().next().map(|(at, _)| *at);
        job.into_iter().chain(state.session.as_ref().and_then(Session::poll_timeout)).min()
    }

    /// Runs the jobs whose time is over, and the timers of the session.
    pub(crate) fn handle_timeout(&self, now: Instant) {
        loop {
            let mut state = self.lock();
            let Some(entry) = state.jobs.first_entry().filter(|entry| entry.key().0 <= now) else { break };
            let job = entry.remove();
            drop(state);
            let done = job.run();
            self.with(|session, input| session.job_done(input, done));
        }
        self.with(|session, input| {
            if session.poll_timeout().is_some_and(|at| at <= now) {
                session.handle_timeout(input);
            }
        });
    }

    /// Tells the session of an event of discovery.
    pub(crate) fn handle_event(&self, now: Instant, event: &ParticipantEvent, rtps: &mut Participant) {
        match event {
            ParticipantEvent::KeysWanted { local, remote } if !local.is_builtin() => {
                if let Ok(Matched::Ready) = self.with(|session, input| session.match_endpoints(input, *local, *remote))
                {
                    rtps.keys_ready(now, *local, *remote);
                }
            }
            ParticipantEvent::ReaderUnmatched { writer, reader } => {
                self.with(|session, input| session.unmatch_endpoints(input, *writer, *reader));
            }
            ParticipantEvent::WriterUnmatched { reader, writer, .. } => {
                self.with(|session, input| session.unmatch_endpoints(input, *reader, *writer));
            }
            ParticipantEvent::PublicationLost(remote) | ParticipantEvent::SubscriptionLost(remote) => {
                self.with(|session, input| session.remote_endpoint_removed(input, *remote));
            }
            ParticipantEvent::ParticipantLost(peer, reason) if *reason != LostReason::Refused => {
                self.with(|session, input| session.peer_lost(input, *peer));
            }
            _ => {}
        }
    }

    /// Hands received messages to the session and takes its steps. Returns whether there were any.
    pub(crate) fn process(
        &self,
        now: Instant,
        wall: Timestamp,
        rtps: &mut Participant,
        reports: &mut Vec<SecurityEvent>,
    ) -> bool {
        let mut has_worked = false;
        loop {
            if let Some(step) = self.with(Session::poll_step) {
                self.take_step(now, wall, step, rtps, reports);
            } else if let Some(message) = rtps.poll_secure_message(now, wall) {
                let (from, payload) = (message.from, message.payload);
                let taken = self.with(|session, input| match message.channel {
                    SecureChannel::Handshake => {
                        let source = message.source.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address_of);
                        session.stateless_message_received(input, source, from, &payload)
                    }
                    SecureChannel::KeyExchange => session.volatile_message_received(input, from, &payload),
                });
                assert!(taken.is_ok(), "a message is refused although no step waits");
            } else {
                return has_worked;
            }
            has_worked = true;
        }
    }

    fn take_step(
        &self,
        now: Instant,
        wall: Timestamp,
        step: Step,
        rtps: &mut Participant,
        reports: &mut Vec<SecurityEvent>,
    ) {
        match step {
            Step::SendStateless { to, payload } => {
                self.note_sent(rtps.send_secure(now, wall, SecureChannel::Handshake, to, &payload).is_ok());
            }
            Step::SendVolatile { to, payload } => {
                self.note_sent(rtps.send_secure(now, wall, SecureChannel::KeyExchange, to, payload.expose()).is_ok());
            }
            Step::Admit { peer, .. } => {
                rtps.review_admission(now, wall, peer);
            }
            Step::OpenKeyChannel { peer, .. } => self.note_sent(rtps.open_key_channel(now, wall, peer).is_ok()),
            Step::KeysReady { local, remote } => rtps.keys_ready(now, local, remote),
            Step::RunJob(job) => {
                let mut state = self.lock();
                let longest = JOB_TIMES[usize::from(state.rng.u32(0..SLOW_ONE_IN) == 0)];
                let at = now + Span(state.rng.u64(0..=longest.0));
                state.jobs_so_far += 1;
                let number = state.jobs_so_far;
                state.jobs.insert((at, number), job);
            }
            Step::Report(event) => reports.push(event),
        }
    }

    /// Renews all keys of the participant. The caller then takes the steps.
    pub(crate) fn renew_keys(&self) {
        self.with(|session, input| session.renew_keys(input, Renewal::All));
    }

    /// The jobs that are under way.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.lock().jobs.len()
    }

    /// Messages for which the channels had no room.
    #[must_use]
    pub fn not_sent(&self) -> u64 {
        self.lock().not_sent
    }

    /// Numbers that are in use.
    #[must_use]
    pub fn usage(&self) -> SessionUsage {
        self.with(|session, _| session.usage())
    }

    /// Counters of the session.
    #[must_use]
    pub fn statistics(&self) -> SessionStatistics {
        self.with(|session, _| session.statistics())
    }

    /// The decision about a peer.
    #[must_use]
    pub fn admission_of(&self, peer: GuidPrefix) -> Option<session::Admission> {
        self.with(|session, _| session.admission(peer).cloned())
    }

    fn note_sent(&self, is_sent: bool) {
        self.lock().not_sent += u64::from(!is_sent);
    }

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
            source: source.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address_of),
            identity_token: identity.as_ref(),
            permissions_token: permissions.as_ref(),
            masks: security.and_then(|security| security.info).map(masks_of),
        };
        // While too many steps wait the announcement has no effect, and the participant repeats it.
        self.with(|session, input| session.peer_discovered(input, announcement).is_ok());
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
        verdict.map_err(|fault| fault.to_string())
    }

    fn with<R>(&self, call: impl FnOnce(&mut Session, &mut Input<'_>) -> R) -> R {
        self.lock().with_input(|session, input| call(session.as_mut().expect("the participant exists"), input))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no call of a session panics")
    }
}

impl State {
    fn with_input<R>(&mut self, call: impl FnOnce(&mut Option<Session>, &mut Input<'_>) -> R) -> R {
        let (now, wall) = self.clock;
        let rng = &mut self.rng;
        let mut random = |octets: &mut [u8]| rng.fill(octets);
        call(&mut self.session, &mut Input { now, wall, random: &mut random })
    }
}

impl std::fmt::Debug for Security {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Security").field("rights", &self.rights).finish_non_exhaustive()
    }
}

impl Gate for Security {
    fn announced(&self, remote: &ParticipantData, source: Option<Source>) -> Admission {
        self.tell_announced(remote, source);
        self.admission(remote.prefix)
    }

    fn admission(&self, remote: GuidPrefix) -> Admission {
        match self.admission_of(remote) {
            None | Some(session::Admission::Pending) => Admission::Pending,
            Some(session::Admission::Authenticated) => Admission::Authenticated,
            Some(session::Admission::Unauthenticated) => Admission::Unauthenticated,
            Some(session::Admission::Refused(refusal)) => Admission::Refused(refusal.to_string()),
        }
    }

    fn participant(&self) -> ParticipantRules {
        let rule = self.rights.domain_rule();
        ParticipantRules {
            is_rtps_protected: !rule.messages.is_none(),
            is_discovery_protected: !rule.discovery.is_none(),
            is_liveliness_protected: !rule.liveliness.is_none(),
        }
    }

    fn topic(&self, name: &str) -> TopicRules {
        let security = self.rights.security_of(name).expect("the governance of a world has a rule for all topics");
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

    fn check_remote_writer(&self, writer: &PublicationData, _: &SubscriptionData) -> Result<(), String> {
        self.check_remote(writer.guid, &writer.topic_name, &writer.publisher.partition, &writer.security)
    }

    fn check_remote_reader(&self, reader: &SubscriptionData, _: &PublicationData) -> Result<(), String> {
        self.check_remote(reader.guid, &reader.topic_name, &reader.subscriber.partition, &reader.security)
    }
}

const fn wall_time(wall: Timestamp) -> WallTime {
    WallTime(wall.seconds as i64)
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
        Source::Stream(locator) => {
            locator.to_socket_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip())
        }
    }
}
