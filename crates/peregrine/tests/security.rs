//! DDS Security between participants of one process, over real sockets.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use peregrine::qos::{Partition, PublisherQos, SubscriberQos};
use peregrine::security::{SecurityConfig, SecurityEvent};
use peregrine::{
    DataReader, DataWriter, DdsType, DiscoveryEvent, DomainConfig, DomainParticipant, Error, InterfaceSelection,
};
use peregrine_rtps::protection::ProtectionKind;
use peregrine_security::WallTime;
use peregrine_security::documents::Effect;
use peregrine_security::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName,
    Terms, TopicText,
};

const PATIENCE: Duration = Duration::from_secs(20);
const DOMAINS: DomainText = DomainText { first: 0, last: 230 };

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
struct Block {
    number: u64,
    octets: Vec<u8>,
}

/// The documents of a domain, and the authority for further ones.
struct Realm {
    authority: Authority,
    governance: GovernanceText,
}

/// The levels of protection: messages, submessages, payloads; discovery and liveliness.
#[derive(Clone, Copy, Debug)]
struct Levels {
    messages: ProtectionKind,
    discovery: ProtectionKind,
    submessages: ProtectionKind,
    payloads: ProtectionKind,
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

fn terms(serial: u8) -> Terms {
    Terms { serial: [serial; 16], from: WallTime(seconds() - 3600), until: WallTime(seconds() + 86_400) }
}

impl Realm {
    fn new(levels: Levels) -> Self {
        let key = IssuedKey::generate(KeyChoice::P256).unwrap();
        let authority = Authority::self_signed(&SubjectName::new("Test", "Authority"), key, terms(1)).unwrap();
        let is_protected = levels.discovery != ProtectionKind::None;
        let governance = GovernanceText {
            domains: DOMAINS,
            allow_unauthenticated_participants: false,
            enable_join_access_control: true,
            discovery: levels.discovery,
            liveliness: levels.discovery,
            messages: levels.messages,
            topics: vec![TopicText {
                topic: "*".to_owned(),
                enable_discovery_protection: is_protected,
                enable_liveliness_protection: is_protected,
                enable_read_access_control: true,
                enable_write_access_control: true,
                submessages: levels.submessages,
                payloads: levels.payloads,
            }],
        };
        Self { authority, governance }
    }

    /// The configuration of a participant of this name, which may write and read topics that begin with `open`.
    fn member(&self, name: &str, serial: u8) -> SecurityConfig {
        self.member_in(name, serial, &[])
    }

    /// The same with the permission for these partitions only.
    fn member_in(&self, name: &str, serial: u8, partitions: &[&str]) -> SecurityConfig {
        let key = IssuedKey::generate(KeyChoice::P256).unwrap();
        let certificate = self.authority.issue(&SubjectName::new("Test", name), &key, terms(serial)).unwrap();
        let rule = RuleText {
            effect: Effect::Allow,
            domains: DOMAINS,
            publish: vec!["open*".to_owned()],
            subscribe: vec!["open*".to_owned()],
            partitions: partitions.iter().map(|&name| name.to_owned()).collect(),
        };
        let grant = GrantText {
            name: name.to_owned(),
            subject: certificate.subject().to_string(),
            from: WallTime(seconds() - 3600),
            until: WallTime(seconds() + 86_400),
            rules: vec![rule],
            default: Effect::Deny,
        };
        let permissions = PermissionsText { grants: vec![grant] }.to_xml();
        let data = |octets: &[u8]| format!("data:,{}", std::str::from_utf8(octets).unwrap());
        let authority = data(Authority::to_pem(self.authority.certificate()).as_bytes());
        SecurityConfig::new()
            .identity_ca(&authority)
            .permissions_ca(&authority)
            .identity_certificate(data(Authority::to_pem(&certificate).as_bytes()))
            .private_key(data(key.pem().expose()))
            .governance(data(&self.authority.sign_document(&self.governance.to_xml()).unwrap()))
            .permissions(data(&self.authority.sign_document(&permissions).unwrap()))
    }
}

fn config() -> DomainConfig {
    let mut config = DomainConfig::default();
    config.same_process = false;
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    config
}

fn participant(domain: u32, security: SecurityConfig) -> DomainParticipant {
    DomainParticipant::builder(domain).config(config()).security(security).build().unwrap()
}

fn writer(participant: &DomainParticipant, topic: &str) -> DataWriter<Block> {
    participant.topic::<Block>(topic).unwrap().writer_builder().reliable().keep_all().build().unwrap()
}

fn reader(participant: &DomainParticipant, topic: &str) -> DataReader<Block> {
    participant.topic::<Block>(topic).unwrap().reader_builder().reliable().keep_all().build().unwrap()
}

/// Samples of several sizes, with fragments, go from the writer to the reader.
fn exchange(writer: &DataWriter<Block>, reader: &DataReader<Block>) {
    writer.wait_for_readers(1, PATIENCE).unwrap();
    for (number, len) in [0, 1, 100, 4096, 70_000, 300_000].into_iter().enumerate() {
        let sent = Block { number: number as u64, octets: (0..len).map(|at| (at * 31) as u8).collect() };
        writer.write(&sent).unwrap();
        // Changed partitions leave a sample without value: the instance has no writers for a moment.
        let values = std::iter::repeat_with(|| reader.wait_and_take(PATIENCE).unwrap().into_value());
        assert_eq!(values.take(2).flatten().next().as_ref(), Some(&sent));
    }
    writer.wait_for_acknowledgments(PATIENCE).unwrap();
}

#[test]
fn participants_of_one_authority_exchange_samples_at_each_level_of_protection() {
    use ProtectionKind::{Encrypt, EncryptWithOriginAuthentication, None, Sign, SignWithOriginAuthentication};
    let levels = |messages, discovery, submessages, payloads| Levels { messages, discovery, submessages, payloads };
    let mut failures = String::new();
    for (place, levels) in [
        levels(None, None, None, None),
        levels(Sign, None, None, None),
        levels(Encrypt, None, None, None),
        levels(None, Encrypt, None, None),
        levels(None, None, Sign, None),
        levels(None, None, Encrypt, None),
        levels(None, None, None, Sign),
        levels(None, None, None, Encrypt),
        levels(Sign, Encrypt, Encrypt, Encrypt),
        levels(EncryptWithOriginAuthentication, Encrypt, SignWithOriginAuthentication, Encrypt),
    ]
    .into_iter()
    .enumerate()
    {
        let realm = Realm::new(levels);
        let domain = 80 + place as u32;
        let a = participant(domain, realm.member("A", 2));
        let mut events = a.discovery_events();
        let b = participant(domain, realm.member("B", 3));
        let began = Instant::now();
        let (writer, reader) = (writer(&a, "open"), reader(&b, "open"));
        if let Err(error) = writer.wait_for_readers(1, PATIENCE) {
            writeln!(failures, "{levels:?}: {error}").unwrap();
            writeln!(failures, "    A {:?}", a.counters()).unwrap();
            writeln!(failures, "    B {:?}", b.counters()).unwrap();
            for event in std::iter::from_fn(|| events.try_next()) {
                writeln!(failures, "    {event:?}").unwrap();
            }
            continue;
        }
        eprintln!("{levels:?}: matched after {:?}", began.elapsed());
        exchange(&writer, &reader);
        let is_authenticated = |event: &DiscoveryEvent| matches!(event, DiscoveryEvent::Security(SecurityEvent::Authenticated { subject, .. }) if subject.contains("CN=B"));
        assert!(std::iter::from_fn(|| events.try_next()).any(|event| is_authenticated(&event)), "{levels:?}");
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn topic_that_permissions_deny_is_an_error_that_names_document_and_rule() {
    let realm = Realm::new(Levels {
        messages: ProtectionKind::None,
        discovery: ProtectionKind::None,
        submessages: ProtectionKind::None,
        payloads: ProtectionKind::Encrypt,
    });
    let participant = participant(91, realm.member("A", 2));
    let topic = participant.topic::<Block>("secret").unwrap();
    let error = topic.writer_builder().build().map(drop).unwrap_err();
    assert!(matches!(error, Error::Security(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("permissions") && text.contains("secret"), "{text}");
    assert!(topic.reader_builder().build().is_err());
    drop(writer(&participant, "open"));
}

#[test]
fn partitions_that_permissions_deny_leave_the_endpoint_as_it_was() {
    let realm = Realm::new(Levels {
        messages: ProtectionKind::None,
        discovery: ProtectionKind::None,
        submessages: ProtectionKind::None,
        payloads: ProtectionKind::Encrypt,
    });
    let a = participant(92, realm.member_in("A", 2, &["left*"]));
    let b = participant(92, realm.member_in("B", 3, &["left*"]));
    let named = |name: &str| Partition(vec![name.to_owned()]);
    let publisher = a.publisher(PublisherQos { partition: named("left"), ..PublisherQos::default() }).unwrap();
    let subscriber = b.subscriber(SubscriberQos { partition: named("left"), ..SubscriberQos::default() }).unwrap();
    let with = |partition: &Partition| {
        let mut qos = publisher.qos();
        qos.partition = partition.clone();
        publisher.set_qos(qos)
    };
    let read = |partition: &Partition| {
        let mut qos = subscriber.qos();
        qos.partition = partition.clone();
        subscriber.set_qos(qos)
    };
    let topics = [a.topic::<Block>("open").unwrap(), b.topic::<Block>("open").unwrap()];
    let writer = publisher.writer(&topics[0]).reliable().keep_all().build().unwrap();
    let reader = subscriber.reader(&topics[1]).reliable().keep_all().build().unwrap();
    exchange(&writer, &reader);
    for error in [with(&named("right")).unwrap_err(), read(&named("right")).unwrap_err()] {
        assert!(matches!(&error, Error::Security(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("permissions") && text.contains("right"), "{text}");
    }
    assert_eq!((publisher.qos().partition, subscriber.qos().partition), (named("left"), named("left")));
    exchange(&writer, &reader);
    with(&named("left2")).unwrap();
    read(&named("left2")).unwrap();
    exchange(&writer, &reader);
}
