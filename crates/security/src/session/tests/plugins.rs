//! Plug-ins of applications.

use core::net::IpAddr;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use peregrine_rtps::id::{EntityId, GuidPrefix};
use peregrine_rtps::time::Instant;

use super::world::{OWNERS, Rules, Start, address, participant_data};
use crate::authentication::{
    AuthenticatedPeer, Event, Failure, Input, Job, JobDone, NoJobResult, PeerCredential, Refusal, Statistics, Transmit,
    Trust, Usage,
};
use crate::crypto::{ExchangeRole, exchange_key};
use crate::documents::{Denial, Document, DomainRule};
use crate::message::{DataHolder, identity_token, permissions_token};
use crate::secret::Secret;
use crate::session::{
    AccessControl, Admission, Authentication, EndpointDescription, EndpointSecurity, PeerAnnouncement, PeerRefusal,
    Plugins, Rights, SecurityEvent, Session, SessionConfig, Step, UnusableEndpoint,
};
use crate::testing::{EC_AUTHORITY, NOW};
use crate::wall_time::WallTime;

const WRITER: EntityId = EntityId([0, 0, 1, 0x02]);

/// Denies all endpoints.
#[derive(Debug)]
struct Closed(Rights);

fn denial() -> Denial {
    let (what, remedy) = ("closed".to_owned(), "none".to_owned());
    Denial { document: Document::Permissions, grant: None, rule: None, at: None, what, remedy }
}

impl AccessControl for Closed {
    fn domain_rule(&self) -> &DomainRule {
        self.0.domain_rule()
    }

    fn allow_unauthenticated(&self) -> bool {
        false
    }

    fn security_of(&self, _: &str) -> Result<EndpointSecurity, Denial> {
        Err(denial())
    }

    fn endpoint(&self, _: EntityId, _: &EndpointDescription, _: WallTime) -> Result<EndpointSecurity, Denial> {
        Err(denial())
    }

    fn remote_participant(&self, _: &PeerCredential, _: WallTime) -> Result<(), PeerRefusal> {
        Err(PeerRefusal::NoPermissions)
    }

    fn remote_endpoint(
        &self,
        _: &PeerCredential,
        _: EntityId,
        _: &EndpointDescription,
        _: WallTime,
    ) -> Result<EndpointSecurity, Denial> {
        Err(denial())
    }
}

#[test]
fn session_uses_the_plug_ins_that_were_made_from_the_built_in_ones() {
    let credential = Start::with(Rules::strict()).credential(&OWNERS[0], &EC_AUTHORITY, NOW).unwrap();
    let data = participant_data(&credential);
    let made = Arc::new(AtomicUsize::new(0));
    let (of_authentication, of_cryptography) = (Arc::clone(&made), Arc::clone(&made));
    let plugins = Plugins::new()
        .access_control(|builtin| Arc::new(Closed(builtin)))
        .authentication(move |builtin| {
            of_authentication.fetch_add(1, Ordering::Relaxed);
            Box::new(builtin)
        })
        .cryptographic(move |builtin| {
            of_cryptography.fetch_add(10, Ordering::Relaxed);
            Box::new(builtin)
        });
    let access = plugins.make_access_control(credential.rights().clone());
    let mut random = |octets: &mut [u8]| octets.fill(7);
    let mut input = Input { now: Instant(0), wall: NOW, random: &mut random };
    let config = SessionConfig::default();
    let mut session = Session::with_plugins(credential, data, config, (access, &plugins), &mut input).unwrap();
    assert_eq!(made.load(Ordering::Relaxed), 11);
    let refused = session.endpoint_made(&mut input, WRITER, EndpointDescription::of_topic("Square"));
    assert_eq!(refused, Err(UnusableEndpoint::Denied(denial())));
    assert!(session.rights().security_of("Square").is_err());
}

/// Reports and computes what a test states, and keeps the results.
#[derive(Clone, Debug, Default)]
struct Script(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    events: VecDeque<Event>,
    jobs: VecDeque<Job>,
    done: Vec<(Option<u64>, Result<&'static str, NoJobResult>)>,
}

impl Authentication for Script {
    fn handle_announcement(&mut self, _: &mut Input<'_>, _: GuidPrefix, _: IpAddr, _: Option<&DataHolder>) {}

    fn handle_message(&mut self, _: &mut Input<'_>, _: IpAddr, _: GuidPrefix, _: &[u8]) {}

    fn handle_authentic(&mut self, _: GuidPrefix) {}

    fn remove_participant(&mut self, _: GuidPrefix) {}

    fn set_trust(&mut self, _: &mut Input<'_>, _: Trust) {}

    fn authenticate_again(&mut self, _: &mut Input<'_>, _: GuidPrefix) {}

    fn poll_transmit(&mut self) -> Option<Transmit> {
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.0.lock().unwrap().events.pop_front()
    }

    fn poll_job(&mut self, _: &mut Input<'_>) -> Option<Job> {
        self.0.lock().unwrap().jobs.pop_front()
    }

    fn handle_job_done(&mut self, _: &mut Input<'_>, done: JobDone) {
        let number = done.plugin_number();
        self.0.lock().unwrap().done.push((number, done.into_plugin_result()));
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _: &mut Input<'_>) {}

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn is_half_open(&self, _: GuidPrefix) -> bool {
        false
    }

    fn oldest_idle(&self) -> Option<GuidPrefix> {
        None
    }
}

/// A session whose authentication follows a script, and a peer that it knows.
struct Scripted {
    session: Session,
    script: Script,
    peer: GuidPrefix,
    credential: Arc<PeerCredential>,
}

fn input(random: &mut dyn FnMut(&mut [u8])) -> Input<'_> {
    Input { now: Instant(0), wall: NOW, random }
}

impl Scripted {
    fn new(config: SessionConfig) -> Self {
        let [own, of_peer] =
            [0, 1].map(|at| Start::with(Rules::strict()).credential(&OWNERS[at], &EC_AUTHORITY, NOW).unwrap());
        let (data, peer_data, peer) = (participant_data(&own), participant_data(&of_peer), of_peer.prefix());
        let certificate = OWNERS[1].identity.certificate.clone();
        let permissions = of_peer.permissions.clone();
        let credential = PeerCredential::of_plugin(certificate, peer_data, WallTime(NOW.0 + 1000));
        let credential = Arc::new(credential.with_permissions(&permissions, &own.trust, NOW).unwrap());
        let script = Script::default();
        let plugin = script.clone();
        let plugins = Plugins::new().authentication(move |_| Box::new(plugin.clone()));
        let rights = plugins.make_access_control(own.rights().clone());
        let mut random = |octets: &mut [u8]| octets.fill(7);
        let session = Session::with_plugins(own, data, config, (rights, &plugins), &mut input(&mut random)).unwrap();
        let mut scripted = Self { session, script, peer, credential };
        scripted.announce();
        scripted
    }

    fn announce(&mut self) {
        let (identity, permissions) = (identity_token(), permissions_token());
        let announcement = PeerAnnouncement {
            prefix: self.peer,
            source: address(1),
            identity_token: Some(&identity),
            permissions_token: Some(&permissions),
            masks: None,
        };
        self.session.peer_discovered(&mut input(&mut |octets| octets.fill(7)), announcement).unwrap();
    }

    /// Lets the authentication report this, and returns the steps that follow.
    fn report(&mut self, event: Event) -> Vec<Step> {
        self.script.0.lock().unwrap().events.push_back(event);
        self.announce();
        self.steps()
    }

    fn steps(&mut self) -> Vec<Step> {
        let mut random = |octets: &mut [u8]| octets.fill(7);
        std::iter::from_fn(|| self.session.poll_step(&mut input(&mut random))).collect()
    }

    fn authenticated(&self, credential: Arc<PeerCredential>) -> Event {
        let exchange_key = exchange_key(&[1; 32], &[2; 32], &Secret::copy_of(&[3; 32]));
        let (peer, role, replaces) = (self.peer, ExchangeRole::Initiator, false);
        Event::Authenticated(Box::new(AuthenticatedPeer { peer, role, exchange_key, credential, replaces }))
    }

    fn job_done(&mut self, done: JobDone) {
        self.session.job_done(&mut input(&mut |octets| octets.fill(7)), done);
    }
}

#[test]
fn jobs_of_a_plug_in_are_bounded_and_each_is_done_once() {
    let mut scripted = Scripted::new(SessionConfig { jobs: 2, ..SessionConfig::default() });
    let peer = scripted.peer;
    // Two jobs have the same number, by mistake of the plug-in.
    for (number, text) in [(7, "first"), (7, "second"), (8, "third")] {
        scripted.script.0.lock().unwrap().jobs.push_back(Job::of_plugin(peer, number, move || text));
    }
    let jobs = |steps: Vec<Step>| -> Vec<Job> {
        steps.into_iter().filter_map(|step| if let Step::RunJob(job) = step { Some(job) } else { None }).collect()
    };
    let mut handed_out = jobs(scripted.steps());
    assert_eq!(handed_out.len(), 2);
    let (second, first) = (handed_out.pop().unwrap(), handed_out.pop().unwrap());
    let ticket = first.ticket();
    scripted.job_done(first.run());
    // The caller reports the failure of a job that is done, and the result of one that was never handed out.
    scripted.job_done(ticket.failed());
    scripted.job_done(Job::of_plugin(peer, 9, || "forged").run());
    assert_eq!(scripted.session.statistics().jobs_not_awaited, 2);
    let third = jobs(scripted.steps()).pop().expect("there is room for a further job");
    scripted.job_done(second.ticket().failed());
    scripted.job_done(third.run());
    let done = core::mem::take(&mut scripted.script.0.lock().unwrap().done);
    assert_eq!(done, [(Some(7), Ok("first")), (Some(7), Err(NoJobResult::Failed)), (Some(8), Ok("third"))]);
}

#[test]
fn peer_that_a_plug_in_reports_twice_is_authenticated_anew() {
    let mut scripted = Scripted::new(SessionConfig::default());
    for again in [false, true] {
        let event = scripted.authenticated(Arc::clone(&scripted.credential));
        let steps = scripted.report(event);
        let opened = steps.iter().any(|step| matches!(step, Step::OpenKeyChannel { anew, .. } if *anew == again));
        let told = steps.iter().any(
            |step| matches!(step, Step::Report(SecurityEvent::Authenticated { again: found, .. }) if *found == again),
        );
        assert!(opened && told, "again: {again}, {steps:?}");
        assert_eq!(scripted.session.admission(scripted.peer), Some(&Admission::Authenticated));
    }
}

#[test]
fn authenticated_peer_that_a_plug_in_reports_as_failed_loses_its_keys_and_is_not_admitted() {
    let mut scripted = Scripted::new(SessionConfig::default());
    let event = scripted.authenticated(Arc::clone(&scripted.credential));
    scripted.report(event);
    assert!(scripted.session.peer_credential(scripted.peer).is_some() && scripted.session.usage().matches > 0);
    let failure = Failure::Refused(Refusal::Plugin("not known here".to_owned()));
    let peer = scripted.peer;
    // The governance does not allow participants without authentication, whatever the plug-in states.
    scripted.report(Event::Failed { peer, failure: failure.clone(), unauthenticated_allowed: true });
    let refusal = PeerRefusal::NotAuthenticated(failure);
    assert_eq!(refusal.to_string(), "not known here");
    assert_eq!(scripted.session.admission(peer), Some(&Admission::Refused(refusal)));
    assert!(scripted.session.peer_credential(peer).is_none());
    assert_eq!(scripted.session.usage().matches, 0);
}

#[test]
fn peer_with_the_discovery_data_of_another_participant_is_refused() {
    let mut scripted = Scripted::new(SessionConfig::default());
    let own = Start::with(Rules::strict()).credential(&OWNERS[0], &EC_AUTHORITY, NOW).unwrap();
    let certificate = OWNERS[1].identity.certificate.clone();
    let credential = PeerCredential::of_plugin(certificate, participant_data(&own), WallTime(NOW.0 + 1000));
    let event = scripted.authenticated(Arc::new(credential));
    scripted.report(event);
    let refusal = PeerRefusal::NotAuthenticated(Failure::Refused(Refusal::ParticipantData));
    assert_eq!(scripted.session.admission(scripted.peer), Some(&Admission::Refused(refusal)));
}

#[test]
fn permissions_of_other_authorities_are_no_permissions_of_a_plug_ins_peer() {
    let scripted = Scripted::new(SessionConfig::default());
    assert!(scripted.credential.grant().is_some());
    let own = Start::with(Rules::strict()).credential(&OWNERS[1], &EC_AUTHORITY, NOW).unwrap();
    let certificate = OWNERS[1].identity.certificate.clone();
    let credential = PeerCredential::of_plugin(certificate, Vec::new(), WallTime(NOW.0 + 1000));
    for trust in
        [Trust { permissions: None, ..own.trust.clone() }, Trust { permissions: Some(Vec::new()), ..own.trust }]
    {
        let refused = credential.clone().with_permissions(&own.permissions, &trust, NOW).unwrap_err();
        assert!(matches!(refused, Refusal::Permissions(_)), "{refused}");
    }
}
