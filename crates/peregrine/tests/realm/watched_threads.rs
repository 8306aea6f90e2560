//! The built-in authentication, with the names of the threads that call it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use peregrine::security::plugins::Plugins;
use peregrine::security::plugins::authentication::{Authentication, Authenticator};
use peregrine_rtps::id::GuidPrefix;
use peregrine_rtps::time::Instant;
use peregrine_security::authentication::{Event, Input, Job, JobDone, Statistics, Transmit, Trust, Usage};
use peregrine_security::message::DataHolder;

/// The names of the threads of each call, one after the other.
pub(crate) type Threads = Arc<Mutex<BTreeMap<Call, Vec<String>>>>;

/// A call of the authentication.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Call {
    /// A message of a handshake has come. The thread has received it.
    Message,
    /// A job is done. The thread has run it.
    JobDone,
}

#[derive(Debug)]
struct Watched {
    builtin: Authenticator,
    threads: Threads,
}

pub(crate) fn watched_threads() -> (Plugins, Threads) {
    let threads = Threads::default();
    let names = Arc::clone(&threads);
    let make = move |builtin| -> Box<dyn Authentication> { Box::new(Watched { builtin, threads: Arc::clone(&names) }) };
    (Plugins::new().authentication(make), threads)
}

impl Watched {
    fn note(&self, call: Call) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.threads.lock().unwrap().entry(call).or_default().push(name);
    }
}

impl Authentication for Watched {
    fn handle_message(&mut self, input: &mut Input<'_>, source: IpAddr, sender: GuidPrefix, octets: &[u8]) {
        self.note(Call::Message);
        self.builtin.handle_message(input, source, sender, octets);
    }

    fn handle_job_done(&mut self, input: &mut Input<'_>, done: JobDone) {
        self.note(Call::JobDone);
        self.builtin.handle_job_done(input, done);
    }

    fn handle_announcement(
        &mut self,
        input: &mut Input<'_>,
        peer: GuidPrefix,
        source: IpAddr,
        identity_token: Option<&DataHolder>,
    ) {
        self.builtin.handle_announcement(input, peer, source, identity_token);
    }

    fn handle_authentic(&mut self, peer: GuidPrefix) {
        self.builtin.handle_authentic(peer);
    }

    fn remove_participant(&mut self, peer: GuidPrefix) {
        self.builtin.remove_participant(peer);
    }

    fn set_trust(&mut self, input: &mut Input<'_>, trust: Trust) {
        self.builtin.set_trust(input, trust);
    }

    fn authenticate_again(&mut self, input: &mut Input<'_>, peer: GuidPrefix) {
        self.builtin.authenticate_again(input, peer);
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        self.builtin.poll_transmit()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.builtin.poll_event()
    }

    fn poll_job(&mut self, input: &mut Input<'_>) -> Option<Job> {
        self.builtin.poll_job(input)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.builtin.poll_timeout()
    }

    fn handle_timeout(&mut self, input: &mut Input<'_>) {
        self.builtin.handle_timeout(input);
    }

    fn statistics(&self) -> Statistics {
        self.builtin.statistics()
    }

    fn usage(&self) -> Usage {
        self.builtin.usage()
    }

    fn is_half_open(&self, peer: GuidPrefix) -> bool {
        self.builtin.is_half_open(peer)
    }

    fn oldest_idle(&self) -> Option<GuidPrefix> {
        self.builtin.oldest_idle()
    }
}
