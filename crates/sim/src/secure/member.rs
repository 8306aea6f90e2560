//! The security of one simulated participant: its clock, its random numbers, and the jobs that are under way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use peregrine_rtps::id::{EntityId, GuidPrefix};
use peregrine_rtps::participant::{Participant, ParticipantConfig, SecureSendError};
use peregrine_rtps::qos::Partition;
use peregrine_rtps::time::{Instant, Span, Timestamp};
use peregrine_security::authentication::Job;
use peregrine_security::participant::{Environment, Outlet, ParticipantSecurity};
use peregrine_security::session::{
    Admission, Credential, Plugins, Renewal, SecurityEvent, SessionConfig, SessionStatistics, SessionUsage,
};

/// The longest time of a job on a machine at ease, and on one under load.
const JOB_TIMES: [Span; 2] = [Span::from_millis(2), Span::from_millis(400)];
/// One of so many jobs meets a machine under load.
const SLOW_ONE_IN: u32 = 8;

/// The security of a participant.
#[derive(Debug)]
pub struct Security {
    inner: Arc<ParticipantSecurity>,
    machine: Arc<Machine>,
    jobs: BTreeMap<(Instant, u64), Job>,
    jobs_so_far: u64,
}

/// The clock and the random numbers of the machine.
#[derive(Debug)]
struct Machine(Mutex<MachineState>);

#[derive(Debug)]
struct MachineState {
    clock: (Instant, Timestamp),
    rng: fastrand::Rng,
    /// Whether some jobs meet a machine under load.
    has_load: bool,
}

impl Machine {
    fn lock(&self) -> MutexGuard<'_, MachineState> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

impl Environment for Machine {
    fn now(&self) -> Instant {
        self.lock().clock.0
    }

    fn wall(&self) -> Timestamp {
        self.lock().clock.1
    }

    fn fill(&self, octets: &mut [u8]) {
        self.lock().rng.fill(octets);
    }
}

/// Takes what leaves the session in one call of [`Security::process`].
struct Taker<'a> {
    now: Instant,
    machine: &'a Machine,
    jobs: &'a mut BTreeMap<(Instant, u64), Job>,
    jobs_so_far: &'a mut u64,
    reports: &'a mut Vec<SecurityEvent>,
}

impl Outlet for Taker<'_> {
    fn run_job(&mut self, job: Job) {
        let MachineState { rng, has_load, .. } = &mut *self.machine.lock();
        let longest = JOB_TIMES[usize::from(rng.u32(0..SLOW_ONE_IN) == 0 && *has_load)];
        let at = self.now + Span(rng.u64(0..=longest.0));
        *self.jobs_so_far += 1;
        self.jobs.insert((at, *self.jobs_so_far), job);
    }

    fn report(&mut self, event: SecurityEvent) {
        self.reports.push(event);
    }

    fn not_sent(&mut self, _: GuidPrefix, _: SecureSendError) {}
}

impl Security {
    /// Adds security to the configuration of a participant, whose prefix becomes that of the credential. With
    /// `has_load` some of its jobs meet a machine under load.
    ///
    /// # Panics
    /// The credential does not fit into a handshake.
    pub(crate) fn configure(
        credential: Credential,
        (seed, has_load): (u64, bool),
        clock: (Instant, Timestamp),
        config: &mut ParticipantConfig,
    ) -> Self {
        let state = MachineState { clock, rng: fastrand::Rng::with_seed(seed), has_load };
        let machine = Arc::new(Machine(Mutex::new(state)));
        let settings = (SessionConfig::default(), &Plugins::new());
        let environment = Arc::clone(&machine) as Arc<dyn Environment>;
        let inner = ParticipantSecurity::configure(credential, settings, environment, config);
        let inner = inner.expect("the documents of a test fit into a handshake");
        Self { inner, machine, jobs: BTreeMap::new(), jobs_so_far: 0 }
    }

    /// Sets the time of all that follows.
    pub(crate) fn set_clock(&self, now: Instant, wall: Timestamp) {
        self.machine.lock().clock = (now, wall);
    }

    /// Registers a local endpoint.
    ///
    /// # Panics
    /// The documents deny the endpoint.
    pub(crate) fn endpoint_made(&self, endpoint: EntityId, topic: &str, partition: &Partition) {
        let made = self.inner.register(endpoint, topic, partition, None);
        made.expect("the documents of a world permit its endpoints").keep();
    }

    /// When to call [`Self::handle_timeout`].
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let job = self.jobs.keys().next().map(|(at, _)| *at);
        job.into_iter().chain(self.inner.poll_timeout()).min()
    }

    /// Runs the jobs whose time is over, and the timers of the session.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(entry) = self.jobs.first_entry().filter(|entry| entry.key().0 <= now) {
            let done = entry.remove().run();
            self.inner.job_done(done);
        }
        self.inner.handle_timeout(now);
    }

    /// Hands received messages to the session and takes its steps. Returns whether there were any.
    pub(crate) fn process(&mut self, now: Instant, rtps: &mut Participant, reports: &mut Vec<SecurityEvent>) -> bool {
        let Self { inner, machine, jobs, jobs_so_far } = self;
        inner.process(now, rtps, &mut Taker { now, machine, jobs, jobs_so_far, reports })
    }

    /// Renews all keys of the participant. The caller then takes the steps.
    pub(crate) fn renew_keys(&self) {
        self.inner.renew_keys(Renewal::All);
    }

    /// The jobs that are under way.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Messages for which the channels had no room.
    #[must_use]
    pub fn not_sent(&self) -> u64 {
        self.inner.not_sent()
    }

    /// Numbers that are in use.
    #[must_use]
    pub fn usage(&self) -> SessionUsage {
        self.inner.usage()
    }

    /// Counters of the session.
    #[must_use]
    pub fn statistics(&self) -> SessionStatistics {
        self.inner.statistics()
    }

    /// The decision about a peer.
    #[must_use]
    pub fn admission_of(&self, peer: GuidPrefix) -> Option<Admission> {
        self.inner.decision(peer)
    }
}
