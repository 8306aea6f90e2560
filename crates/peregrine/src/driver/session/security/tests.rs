use std::sync::atomic::{AtomicUsize, Ordering};

use peregrine_rtps::id::DomainId;
use peregrine_rtps::locator::Source;
use peregrine_rtps::participant::{Admission, Gate};
use peregrine_rtps::protection::ProtectionKind;
use peregrine_rtps::time::Span;
use peregrine_security::documents::Effect;
use peregrine_security::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName,
    Terms, TopicText,
};

use super::*;
use crate::security::SecurityConfig;

const DOMAINS: DomainText = DomainText { first: 0, last: 0 };

struct Realm(Authority);

impl Realm {
    fn new() -> Self {
        let key = IssuedKey::generate(KeyChoice::P256).unwrap();
        Self(Authority::self_signed(&SubjectName::new("Test", "Authority"), key, terms(1)).unwrap())
    }

    fn credential(&self, number: u8) -> Credential {
        let key = IssuedKey::generate(KeyChoice::P256).unwrap();
        let certificate = self.0.issue(&SubjectName::new("Test", "Member"), &key, terms(number)).unwrap();
        let topics = || vec!["*".to_owned()];
        let (publish, subscribe, partitions) = (topics(), topics(), Vec::new());
        let rule = RuleText { effect: Effect::Allow, domains: DOMAINS, publish, subscribe, partitions };
        let subject = certificate.subject().to_string();
        let Terms { from, until, .. } = terms(0);
        let (name, rules, default) = ("Member".to_owned(), vec![rule], Effect::Deny);
        let permissions = PermissionsText { grants: vec![GrantText { name, subject, from, until, rules, default }] };
        let data = |octets: &[u8]| format!("data:,{}", std::str::from_utf8(octets).unwrap());
        let signed = |text: &str| data(&self.0.sign_document(text).unwrap());
        let authority = data(Authority::to_pem(self.0.certificate()).as_bytes());
        let config = SecurityConfig::new()
            .identity_ca(&authority)
            .permissions_ca(&authority)
            .identity_certificate(data(Authority::to_pem(&certificate).as_bytes()))
            .private_key(data(key.pem().expose()))
            .governance(signed(&governance().to_xml()))
            .permissions(signed(&permissions.to_xml()));
        config.load(DomainId(0), "", GuidPrefix([number; 12]), calendar()).unwrap()
    }
}

fn terms(serial: u8) -> Terms {
    let WallTime(now) = calendar();
    Terms { serial: [serial; 16], from: WallTime(now - 3600), until: WallTime(now + 3600) }
}

fn governance() -> GovernanceText {
    GovernanceText {
        domains: DOMAINS,
        allow_unauthenticated_participants: false,
        enable_join_access_control: false,
        discovery: ProtectionKind::None,
        liveliness: ProtectionKind::None,
        messages: ProtectionKind::None,
        topics: vec![TopicText {
            topic: "*".to_owned(),
            enable_discovery_protection: false,
            enable_liveliness_protection: false,
            enable_read_access_control: false,
            enable_write_access_control: false,
            submessages: ProtectionKind::None,
            payloads: ProtectionKind::Encrypt,
        }],
    }
}

fn member(realm: &Realm, number: u8) -> (Arc<Security>, Participant) {
    let mut config = ParticipantConfig {
        lease: Span::from_secs(10),
        announce_period: Span::from_secs(3),
        ..ParticipantConfig::new(GuidPrefix::UNKNOWN, u64::from(number))
    };
    let settings = (SessionConfig::default(), &Plugins::new());
    let security = Security::configure(realm.credential(number), settings, &mut config).unwrap();
    let participant = Participant::new(now(), config);
    (security, participant)
}

/// A participant whose domain has no thread for jobs.
struct WithoutJobs {
    security: Arc<Security>,
    dropped: AtomicUsize,
    failed: AtomicUsize,
}

impl RunsJobs for WithoutJobs {
    fn run_job(&self, job: Box<dyn FnOnce() + Send>) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        drop(job);
    }

    fn finish_job(&self, _: JobDone) {
        panic!("no job has run");
    }

    fn fail_job(&self, failed: JobDone) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        self.security.job_done(failed);
    }
}

#[test]
fn dropped_job_fails_its_handshake_and_occupies_nothing() {
    let realm = Realm::new();
    let mut members = [member(&realm, 1), member(&realm, 2)];
    // The lower prefix begins the handshake.
    members.sort_by_key(|(_, participant)| participant.config().prefix);
    let [(security, mut participant), (_, peer)] = members;
    let without_jobs = Arc::new(WithoutJobs {
        security: Arc::clone(&security),
        dropped: AtomicUsize::new(0),
        failed: AtomicUsize::new(0),
    });
    let jobs: Arc<dyn RunsJobs> = Arc::clone(&without_jobs) as _;
    security.set_participant(Arc::downgrade(&jobs));
    let gate = Arc::clone(security.authenticated.as_ref().unwrap());
    let source = Source::Datagram(([127, 0, 0, 1], 7410).into());
    assert_eq!(gate.announced(&peer.config().data(), Some(source)), Admission::Pending);
    let mut reports = Vec::new();
    assert!(security.process(now(), &mut participant, &mut |report| reports.push(report)));
    let dropped = without_jobs.dropped.load(Ordering::Relaxed);
    assert!(dropped > 0, "{reports:?}");
    assert_eq!(without_jobs.failed.load(Ordering::Relaxed), dropped);
    let usage = gate.usage();
    assert_eq!(usage.authentication.jobs, 0, "{usage:?}");
    assert!(security.poll_timeout().is_some(), "the handshake begins again later");
}

#[test]
fn tags_beyond_their_bounds_are_errors_that_state_them() {
    let tags = |count, len| vec![("n".repeat(len), "v".repeat(len)); count];
    assert!(announced_tags(&[]).unwrap().is_none());
    for fits in [tags(64, 20), tags(7, 256)] {
        assert!(announced_tags(&fits).unwrap().is_some());
    }
    for (tags, expected) in [
        (tags(65, 1), "data_tags has 65, permitted are at most 64"),
        (tags(1, 257), "a name or value in data_tags, in bytes, has 257, permitted are at most 256"),
        (tags(8, 256), "data_tags, in bytes as announced, has 42"),
        (vec![("a\0".to_owned(), String::new())], "a name or value in data_tags, in bytes, has a NUL character"),
    ] {
        let error = announced_tags(&tags).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
