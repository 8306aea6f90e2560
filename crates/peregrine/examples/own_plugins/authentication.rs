//! An authentication by a secret that all participants share.
//!
//! ```text
//! request   A → B   challenge of A, statement of A
//! reply     B → A   challenge of B, statement of B, MAC of B
//! last      A → B   challenge of B, MAC of A
//! ```
//!
//! A is the participant with the lower GUID. A statement has the certificate, the permissions and the discovery data of
//! a participant. Both MACs are HMAC-SHA256 of the GUIDs, challenges and statements of both, with the secret as key.
//!
//! All participants with the secret trust each other: each of them can claim the certificate of another one, and read
//! what others exchange. The built-in authentication prevents both.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac;
use peregrine::security::plugins::authentication::{
    AuthenticatedPeer, Authentication, Authenticator, Certificate, DataHolder, EntityId, Event, ExchangeRole,
    Expulsion, Failure, GenericMessage, Guid, GuidPrefix, Input, Instant, Job, JobDone, KeyMaterial, LocalParticipant,
    MalformedCertificate, MessageHead, MessageIdentity, PeerCredential, Refusal, STATELESS_WRITER, Secret, Span,
    Statistics, Transmit, Trust, Usage, WallTime, exchange_key,
};

/// Announces this authentication.
pub(crate) const IDENTITY: &str = "Example:Auth:SharedSecret:1.0";
const CLASS: &str = "example.auth";
const REQUEST: &str = "Example:Auth:SharedSecret:1.0+Request";
const REPLY: &str = "Example:Auth:SharedSecret:1.0+Reply";
const LAST: &str = "Example:Auth:SharedSecret:1.0+Last";
/// A request or reply is repeated after this time.
const REPETITION: Span = Span::from_millis(250);
/// A handshake that takes longer has failed.
const HANDSHAKE: Span = Span::from_secs(5);
/// The time before the next handshake with a participant after one that failed.
const PAUSE: Span = Span::from_secs(2);
/// How often the calendar is compared with the certificates of authenticated participants.
const REVIEW: Span = Span::from_secs(60);

type Challenge = [u8; 32];
type Mac = Vec<u8>;

/// The names of the threads that received messages, and of those that ran jobs.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(crate) receiving: Mutex<BTreeSet<String>>,
    pub(crate) computing: Mutex<BTreeSet<String>>,
}

/// The state with all other participants.
pub(crate) struct SharedSecret {
    local: Arc<LocalParticipant>,
    trust: Arc<Trust>,
    /// Whether the governance lets participants without authentication take part in what is not protected.
    allows_unauthenticated: bool,
    secret: Arc<Secret>,
    threads: Arc<Threads>,
    peers: BTreeMap<GuidPrefix, Peer>,
    jobs: VecDeque<Job>,
    jobs_running: usize,
    job_number: u64,
    transmits: VecDeque<Transmit>,
    sequence_number: i64,
    events: VecDeque<Event>,
    review_at: Option<Instant>,
    statistics: Statistics,
}

struct Peer {
    since: Instant,
    /// Ends the pause after a handshake that failed.
    not_before: Instant,
    attempt: Option<Attempt>,
    session: Option<Session>,
}

/// A handshake that is under way.
struct Attempt {
    /// The challenge of this participant.
    challenge: Challenge,
    /// The challenge and the statement of the peer's latest request.
    request: Option<(Challenge, Arc<Statement>)>,
    /// The latest message, which is repeated.
    sent: Option<Vec<u8>>,
    repeat_at: Instant,
    until: Instant,
    /// The number of the job that examines a message of the peer.
    job: Option<u64>,
    refusal: Option<Refusal>,
}

/// An authenticated peer.
struct Session {
    credential: Arc<PeerCredential>,
    /// The last message, until the peer has shown that it has got it.
    last: Option<Vec<u8>>,
    /// The number of the job that examines the certificate again.
    job: Option<u64>,
}

/// The statement of a participant about itself.
struct Statement {
    certificates: Vec<u8>,
    permissions: Vec<u8>,
    participant_data: Vec<u8>,
}

/// All that both participants have stated: A began.
struct Transcript {
    a: GuidPrefix,
    b: GuidPrefix,
    challenge_a: Challenge,
    challenge_b: Challenge,
    statement_a: Arc<Statement>,
    statement_b: Arc<Statement>,
}

/// The results of jobs.
enum Computed {
    Reply(Mac),
    /// With the last message.
    Concluded(Box<(PeerCredential, KeyMaterial, DataHolder)>),
    Accepted(Box<(PeerCredential, KeyMaterial)>),
    Reviewed,
}

impl SharedSecret {
    /// The authentication of the participant of a built-in one, by this secret.
    pub(crate) fn new(builtin: &Authenticator, secret: &str, threads: Arc<Threads>) -> Self {
        Self {
            local: builtin.local(),
            trust: builtin.trust(),
            allows_unauthenticated: builtin.config().allow_unauthenticated,
            secret: Arc::new(Secret::copy_of(secret.as_bytes())),
            threads,
            peers: BTreeMap::new(),
            jobs: VecDeque::new(),
            jobs_running: 0,
            job_number: 0,
            transmits: VecDeque::new(),
            sequence_number: 0,
            events: VecDeque::new(),
            review_at: None,
            statistics: Statistics::default(),
        }
    }

    fn own_statement(&self) -> Arc<Statement> {
        Arc::new(Statement {
            certificates: self.local.certificates().to_vec(),
            permissions: self.local.permissions().to_vec(),
            participant_data: self.local.participant_data().to_vec(),
        })
    }

    fn begins_with(&self, peer: GuidPrefix) -> bool {
        self.local.prefix() < peer
    }

    /// Begins a handshake with a known peer: sends a request, or waits for one.
    fn begin(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        let mut challenge = [0; 32];
        (input.random)(&mut challenge);
        let request = self.begins_with(peer).then(|| {
            let token = self.own_statement().write(DataHolder::new(REQUEST).with("challenge_a", &challenge));
            self.message(peer, token)
        });
        let Some(known) = self.peers.get_mut(&peer) else { return };
        known.attempt = Some(Attempt {
            challenge,
            request: None,
            sent: request.clone(),
            repeat_at: input.now + REPETITION,
            until: input.now + HANDSHAKE,
            job: None,
            refusal: None,
        });
        if let Some(payload) = request {
            self.transmits.push_back(Transmit { to: peer, payload });
        }
    }

    fn message(&mut self, to: GuidPrefix, token: DataHolder) -> Vec<u8> {
        self.sequence_number += 1;
        let source = Guid::new(self.local.prefix(), STATELESS_WRITER);
        let identity = MessageIdentity { source, sequence_number: self.sequence_number };
        let destination_participant = Guid::new(to, EntityId::PARTICIPANT);
        let head = MessageHead { identity, destination_participant, ..MessageHead::default() };
        GenericMessage { head, class_id: CLASS.to_owned(), data: vec![token] }.to_bytes()
    }

    /// Queues a job, whose result comes back with its number.
    fn compute(&mut self, peer: GuidPrefix, work: impl FnOnce() -> Result<Computed, Refusal> + Send + 'static) -> u64 {
        self.job_number += 1;
        let threads = Arc::clone(&self.threads);
        let work = move || {
            note(&threads.computing);
            work()
        };
        self.jobs.push_back(Job::of_plugin(peer, self.job_number, work));
        self.job_number
    }

    fn handle_request(&mut self, input: &mut Input<'_>, peer: GuidPrefix, token: &DataHolder) -> Option<()> {
        let (challenge_a, statement_a) = (challenge(token, "challenge_a")?, Statement::read(token)?);
        let known = self.peers.get(&peer).filter(|_| !self.begins_with(peer))?;
        if known.attempt.is_none() {
            if input.now < known.not_before {
                return Some(());
            }
            self.begin(input, peer);
        }
        let (a, b, statement_b) = (peer, self.local.prefix(), self.own_statement());
        let attempt = self.peers.get_mut(&peer)?.attempt.as_mut().filter(|attempt| attempt.job.is_none())?;
        let (statement_a, challenge_b) = (Arc::new(statement_a), attempt.challenge);
        attempt.request = Some((challenge_a, Arc::clone(&statement_a)));
        let transcript = Transcript { a, b, challenge_a, challenge_b, statement_a, statement_b };
        let secret = Arc::clone(&self.secret);
        let job = self.compute(peer, move || Ok(Computed::Reply(transcript.mac(&secret, "reply"))));
        self.peers.get_mut(&peer)?.attempt.as_mut()?.job = Some(job);
        Some(())
    }

    fn handle_reply(&mut self, input: &mut Input<'_>, peer: GuidPrefix, token: &DataHolder) -> Option<()> {
        let (challenge_a, challenge_b) = (challenge(token, "challenge_a")?, challenge(token, "challenge_b")?);
        let (statement_b, mac) = (Arc::new(Statement::read(token)?), token.binary("mac")?.to_vec());
        let known = self.peers.get(&peer).filter(|_| self.begins_with(peer))?;
        let Some(attempt) = &known.attempt else {
            // The last message was lost.
            let payload = known.session.as_ref()?.last.clone()?;
            self.transmits.push_back(Transmit { to: peer, payload });
            return Some(());
        };
        if attempt.challenge != challenge_a || attempt.job.is_some() {
            return None;
        }
        let (a, b, statement_a) = (self.local.prefix(), peer, self.own_statement());
        let transcript = Transcript { a, b, challenge_a, challenge_b, statement_a, statement_b };
        let (secret, trust, now) = (Arc::clone(&self.secret), Arc::clone(&self.trust), input.wall);
        let job = self.compute(peer, move || {
            transcript.verify(&secret, "reply", &mac)?;
            let credential = transcript.statement_b.credential(&trust, now)?;
            let last = DataHolder::new(LAST).with("challenge_b", &challenge_b);
            let last = last.with("mac", &transcript.mac(&secret, "last"));
            Ok(Computed::Concluded(Box::new((credential, transcript.exchange_key(&secret), last))))
        });
        self.peers.get_mut(&peer)?.attempt.as_mut()?.job = Some(job);
        Some(())
    }

    fn handle_last(&mut self, input: &mut Input<'_>, peer: GuidPrefix, token: &DataHolder) -> Option<()> {
        let (challenge_b, mac) = (challenge(token, "challenge_b")?, token.binary("mac")?.to_vec());
        let known = self.peers.get(&peer).filter(|_| !self.begins_with(peer))?;
        let attempt = known.attempt.as_ref().filter(|attempt| attempt.job.is_none())?;
        let (challenge_a, statement_a) = attempt.request.clone()?;
        if attempt.challenge != challenge_b {
            return None;
        }
        let (a, b, statement_b) = (peer, self.local.prefix(), self.own_statement());
        let transcript = Transcript { a, b, challenge_a, challenge_b, statement_a, statement_b };
        let (secret, trust, now) = (Arc::clone(&self.secret), Arc::clone(&self.trust), input.wall);
        let job = self.compute(peer, move || {
            transcript.verify(&secret, "last", &mac)?;
            let credential = transcript.statement_a.credential(&trust, now)?;
            Ok(Computed::Accepted(Box::new((credential, transcript.exchange_key(&secret)))))
        });
        self.peers.get_mut(&peer)?.attempt.as_mut()?.job = Some(job);
        Some(())
    }

    /// A job of a handshake is done.
    fn computed(&mut self, input: &Input<'_>, peer: GuidPrefix, computed: Computed) -> Option<()> {
        match computed {
            Computed::Reply(mac) => {
                let attempt = self.peers.get(&peer)?.attempt.as_ref()?;
                let (challenge_a, _) = attempt.request.as_ref()?;
                let token = DataHolder::new(REPLY).with("challenge_a", challenge_a);
                let token = token.with("challenge_b", &attempt.challenge).with("mac", &mac);
                let payload = self.own_statement().write(token);
                let payload = self.message(peer, payload);
                let attempt = self.peers.get_mut(&peer)?.attempt.as_mut()?;
                attempt.sent = Some(payload.clone());
                attempt.repeat_at = input.now + REPETITION;
                self.transmits.push_back(Transmit { to: peer, payload });
            }
            Computed::Concluded(concluded) => {
                let (credential, key, last) = *concluded;
                let payload = self.message(peer, last);
                self.transmits.push_back(Transmit { to: peer, payload: payload.clone() });
                self.establish(input, peer, credential, key, Some(payload));
            }
            Computed::Accepted(accepted) => {
                let (credential, key) = *accepted;
                self.establish(input, peer, credential, key, None);
            }
            Computed::Reviewed => {}
        }
        Some(())
    }

    fn establish(
        &mut self,
        input: &Input<'_>,
        peer: GuidPrefix,
        credential: PeerCredential,
        exchange_key: KeyMaterial,
        last: Option<Vec<u8>>,
    ) {
        let role = if self.begins_with(peer) { ExchangeRole::Initiator } else { ExchangeRole::Replier };
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let credential = Arc::new(credential);
        known.attempt = None;
        let before = known.session.replace(Session { credential: Arc::clone(&credential), last, job: None });
        self.review_at.get_or_insert(input.now + REVIEW);
        let replaces = before.is_some();
        let authenticated = AuthenticatedPeer { peer, role, exchange_key, credential, replaces };
        self.events.push_back(Event::Authenticated(Box::new(authenticated)));
    }

    /// A message was refused. Others may have sent it, so that the handshake goes on until its end.
    fn refuse(&mut self, peer: GuidPrefix, refusal: Refusal) {
        self.statistics.refused += 1;
        let Some(attempt) = self.peers.get_mut(&peer).and_then(|known| known.attempt.as_mut()) else { return };
        if attempt.refusal.replace(refusal.clone()).is_none() {
            self.events.push_back(Event::Refused { peer, refusal });
        }
    }

    fn expel(&mut self, now: Instant, peer: GuidPrefix, cause: Expulsion) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        known.attempt = None;
        known.not_before = now + PAUSE;
        if known.session.take().is_some() {
            self.events.push_back(Event::Expelled { peer, cause });
        }
    }

    fn fail(&mut self, peer: GuidPrefix, failure: Failure) {
        let unauthenticated_allowed = self.allows_unauthenticated;
        self.events.push_back(Event::Failed { peer, failure, unauthenticated_allowed });
    }
}

impl Authentication for SharedSecret {
    fn handle_announcement(
        &mut self,
        input: &mut Input<'_>,
        peer: GuidPrefix,
        _: IpAddr,
        identity_token: Option<&DataHolder>,
    ) {
        let is_new = !self.peers.contains_key(&peer);
        let new = Peer { since: input.now, not_before: input.now, attempt: None, session: None };
        let known = self.peers.entry(peer).or_insert(new);
        if identity_token.is_none_or(|token| token.class_id != IDENTITY) {
            if is_new {
                self.fail(peer, Failure::NoIdentity);
            }
        } else if known.attempt.is_none() && known.session.is_none() && input.now >= known.not_before {
            self.begin(input, peer);
        }
    }

    fn handle_message(&mut self, input: &mut Input<'_>, _: IpAddr, sender: GuidPrefix, bytes: &[u8]) {
        note(&self.threads.receiving);
        let Ok(GenericMessage { head, class_id, data }) = GenericMessage::parse(bytes) else {
            self.statistics.malformed += 1;
            return;
        };
        let is_for_us = head.destination_participant == Guid::new(self.local.prefix(), EntityId::PARTICIPANT);
        if !is_for_us || head.identity.source.prefix != sender || class_id != CLASS {
            self.statistics.for_others += 1;
            return;
        }
        let taken = data.first().and_then(|token| match token.class_id.as_str() {
            REQUEST => self.handle_request(input, sender, token),
            REPLY => self.handle_reply(input, sender, token),
            LAST => self.handle_last(input, sender, token),
            _ => None,
        });
        if taken.is_none() {
            self.statistics.ignored += 1;
        }
    }

    fn handle_authentic(&mut self, peer: GuidPrefix) {
        if let Some(session) = self.peers.get_mut(&peer).and_then(|known| known.session.as_mut()) {
            session.last = None;
        }
    }

    fn remove_participant(&mut self, peer: GuidPrefix) {
        self.peers.remove(&peer);
    }

    fn set_trust(&mut self, input: &mut Input<'_>, trust: Trust) {
        self.trust = Arc::new(trust);
        let credentials: Vec<(GuidPrefix, Arc<PeerCredential>)> = self
            .peers
            .iter()
            .filter_map(|(peer, known)| Some((*peer, Arc::clone(&known.session.as_ref()?.credential))))
            .collect();
        for (peer, credential) in credentials {
            let (trust, now) = (Arc::clone(&self.trust), input.wall);
            let job = self.compute(peer, move || {
                let verified = trust.verify_chain(credential.certificate(), &[], now);
                verified.map(|_| Computed::Reviewed).map_err(Refusal::Chain)
            });
            if let Some(session) = self.peers.get_mut(&peer).and_then(|known| known.session.as_mut()) {
                session.job = Some(job);
            }
        }
    }

    fn authenticate_again(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        let is_idle = self.peers.get(&peer).is_some_and(|known| known.session.is_some() && known.attempt.is_none());
        if is_idle && self.begins_with(peer) {
            self.begin(input, peer);
        }
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_job(&mut self, _: &mut Input<'_>) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.jobs_running += 1;
        Some(job)
    }

    fn handle_job_done(&mut self, input: &mut Input<'_>, done: JobDone) {
        self.jobs_running = self.jobs_running.saturating_sub(1);
        let (peer, number) = (done.peer(), done.plugin_number());
        let result = done.into_plugin_result::<Result<Computed, Refusal>>().unwrap_or(Err(Refusal::JobFailed));
        let Some(known) = self.peers.get_mut(&peer) else { return };
        if let Some(session) = known.session.as_mut().filter(|session| session.job == number && number.is_some()) {
            session.job = None;
            if let Err(refusal) = result {
                self.expel(input.now, peer, Expulsion::Refused(refusal));
            }
            return;
        }
        // The handshake of the job may have ended, and another one begun.
        let Some(attempt) = known.attempt.as_mut().filter(|attempt| attempt.job == number) else { return };
        attempt.job = None;
        match result {
            Ok(computed) => {
                let _ = self.computed(input, peer, computed);
            }
            Err(refusal) => self.refuse(peer, refusal),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let attempts = self.peers.values().filter_map(|known| known.attempt.as_ref());
        attempts.map(|attempt| attempt.repeat_at.min(attempt.until)).chain(self.review_at).min()
    }

    fn handle_timeout(&mut self, input: &mut Input<'_>) {
        let now = input.now;
        let mut failed = Vec::new();
        for (peer, known) in &mut self.peers {
            let Some(attempt) = &mut known.attempt else { continue };
            if now >= attempt.until {
                known.not_before = now + PAUSE;
                let refusal = known.attempt.take().and_then(|attempt| attempt.refusal);
                if known.session.is_none() {
                    failed.push((*peer, Failure::TimedOut(refusal)));
                }
            } else if now >= attempt.repeat_at {
                attempt.repeat_at = now + REPETITION;
                let repeated = attempt.sent.clone().map(|payload| Transmit { to: *peer, payload });
                self.transmits.extend(repeated);
            }
        }
        failed.into_iter().for_each(|(peer, failure)| self.fail(peer, failure));
        if self.review_at.is_some_and(|at| now >= at) {
            self.review_at = Some(now + REVIEW);
            let until = |known: &Peer| known.session.as_ref().map(|session| session.credential.valid_until());
            let ends = self.peers.iter().filter_map(|(peer, known)| Some((*peer, until(known)?)));
            let expired: Vec<(GuidPrefix, WallTime)> = ends.filter(|(_, until)| *until < input.wall).collect();
            expired.into_iter().for_each(|(peer, until)| self.expel(now, peer, Expulsion::Expired(until)));
        }
    }

    fn statistics(&self) -> Statistics {
        self.statistics
    }

    fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        usage.peers = self.peers.len();
        usage.half_open = self.peers.values().filter(|known| known.is_half_open()).count();
        usage.jobs = self.jobs_running;
        usage
    }

    fn is_half_open(&self, peer: GuidPrefix) -> bool {
        self.peers.get(&peer).is_some_and(Peer::is_half_open)
    }

    fn oldest_idle(&self) -> Option<GuidPrefix> {
        let idle = self.peers.iter().filter(|(_, known)| known.attempt.is_none() && known.session.is_none());
        idle.min_by_key(|(_, known)| known.since).map(|(peer, _)| *peer)
    }
}

impl Peer {
    fn is_half_open(&self) -> bool {
        self.attempt.is_some() && self.session.is_none()
    }
}

impl Statement {
    fn write(&self, token: DataHolder) -> DataHolder {
        let token = token.with("certificates", &self.certificates).with("permissions", &self.permissions);
        token.with("participant_data", &self.participant_data)
    }

    fn read(token: &DataHolder) -> Option<Self> {
        Some(Self {
            certificates: token.binary("certificates")?.to_vec(),
            permissions: token.binary("permissions")?.to_vec(),
            participant_data: token.binary("participant_data")?.to_vec(),
        })
    }

    fn parts(&self) -> [&[u8]; 3] {
        [&self.certificates, &self.permissions, &self.participant_data]
    }

    /// The certificate and the permissions, both verified.
    fn credential(&self, trust: &Trust, now: WallTime) -> Result<PeerCredential, Refusal> {
        let none = || Refusal::Certificate(MalformedCertificate::NoCertificate);
        let text = std::str::from_utf8(&self.certificates).map_err(|_| none())?;
        let certificates = Certificate::from_pem(text).map_err(Refusal::Certificate)?;
        // The later review of the certificate has no others either: an authority signs it without intermediates.
        let leaf = certificates.first().ok_or_else(none)?;
        let until = trust.verify_chain(leaf, &[], now).map_err(Refusal::Chain)?;
        let credential = PeerCredential::of_plugin(leaf.clone(), self.participant_data.clone(), until);
        credential.with_permissions(&self.permissions, trust, now)
    }
}

impl Transcript {
    /// Signs all, with the length before each part.
    fn signed(&self, secret: &Secret, label: &str) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.expose()));
        let fixed = [label.as_bytes(), &self.a.0, &self.b.0, &self.challenge_a, &self.challenge_b];
        for part in fixed.into_iter().chain(self.statement_a.parts()).chain(self.statement_b.parts()) {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        context.sign()
    }

    fn mac(&self, secret: &Secret, label: &str) -> Mac {
        self.signed(secret, label).as_ref().to_vec()
    }

    fn verify(&self, secret: &Secret, label: &str, mac: &[u8]) -> Result<(), Refusal> {
        // The comparison takes the same time for all bytes.
        let is_right = Secret::copy_of(mac) == Secret::copy_of(self.signed(secret, label).as_ref());
        if is_right { Ok(()) } else { Err(Refusal::Plugin("the participant has another secret".to_owned())) }
    }

    fn exchange_key(&self, secret: &Secret) -> KeyMaterial {
        let shared = Secret::copy_of(self.signed(secret, "exchange key").as_ref());
        exchange_key(&self.challenge_a, &self.challenge_b, &shared)
    }
}

fn challenge(token: &DataHolder, name: &str) -> Option<Challenge> {
    token.binary(name)?.try_into().ok()
}

fn note(names: &Mutex<BTreeSet<String>>) {
    let name = std::thread::current().name().unwrap_or("without name").to_owned();
    names.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(name);
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedSecret({:?}, {} peers)", self.local.prefix(), self.peers.len())
    }
}
