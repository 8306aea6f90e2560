//! Documents and participants with DDS Security for tests.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod hooked_access;
pub(crate) mod newcomers;
#[path = "../common/sets_on_drop.rs"]
pub(crate) mod sets_on_drop;
pub(crate) mod watched_keys;
pub(crate) mod watched_threads;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use peregrine::security::{SecurityConfig, SecurityEvent};
use peregrine::{
    DataReader, DataWriter, DdsType, DiscoveryEvent, DiscoveryEvents, DomainConfig, DomainParticipant,
    InterfaceSelection,
};
use peregrine_rtps::protection::ProtectionKind;
use peregrine_security::WallTime;
use peregrine_security::documents::Effect;
use peregrine_security::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName,
    Terms, TopicText,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const DOMAINS: DomainText = DomainText { first: 0, last: 230 };

#[derive(Clone, Debug, PartialEq, DdsType)]
#[dds(extensibility = "final")]
pub(crate) struct Block {
    pub(crate) number: u64,
    pub(crate) octets: Vec<u8>,
}

/// The documents of a domain, and the authority for further ones.
pub(crate) struct Realm {
    authority: Authority,
    governance: GovernanceText,
    pre_shared: ProtectionKind,
}

/// The levels of protection: messages, submessages, payloads; discovery and liveliness.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levels {
    pub(crate) messages: ProtectionKind,
    pub(crate) discovery: ProtectionKind,
    pub(crate) submessages: ProtectionKind,
    pub(crate) payloads: ProtectionKind,
}

pub(crate) fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

pub(crate) fn terms(serial: u8) -> Terms {
    Terms { serial: [serial; 16], from: WallTime(seconds() - 3600), until: WallTime(seconds() + 86_400) }
}

/// The permissions of a participant beside those for the topics that begin with `open`.
#[derive(Clone, Copy, Default)]
struct Grants<'a> {
    partitions: &'a [&'a str],
    reads: &'a [&'a str],
    tags: &'a [(&'a str, &'a str)],
}

/// The number of the certificate with these terms, which is positive.
fn number_of(serial: u8) -> [u8; 16] {
    let mut number = [serial; 16];
    number[0] = serial & 0x7f | 0x40;
    number
}

impl Realm {
    pub(crate) fn new(levels: Levels) -> Self {
        Self::with_pre_shared_key(levels, ProtectionKind::None)
    }

    /// Documents whose governance has a `rtps_psk_protection_kind`.
    pub(crate) fn with_pre_shared_key(levels: Levels, pre_shared: ProtectionKind) -> Self {
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
        Self { authority, governance, pre_shared }
    }

    fn governance(&self) -> String {
        let text = self.governance.to_xml();
        let (before, after) = ("</rtps_protection_kind>", "<rtps_psk_protection_kind>");
        let kind = match self.pre_shared {
            ProtectionKind::None => return text,
            kind if kind.encrypts() => "ENCRYPT",
            _ => "SIGN",
        };
        text.replace(before, &format!("{before}\n{after}{kind}</rtps_psk_protection_kind>"))
    }

    /// The configuration of a participant of this name, which may write and read topics that begin with `open`.
    pub(crate) fn member(&self, name: &str, serial: u8) -> SecurityConfig {
        self.issue(name, serial, Grants::default())
    }

    /// The same with the permission for these partitions only.
    pub(crate) fn member_in(&self, name: &str, serial: u8, partitions: &[&str]) -> SecurityConfig {
        self.issue(name, serial, Grants { partitions, ..Grants::default() })
    }

    /// The same with the permission to read further topics.
    pub(crate) fn member_with(&self, name: &str, serial: u8, reads: &[&str]) -> SecurityConfig {
        self.issue(name, serial, Grants { reads, ..Grants::default() })
    }

    /// The same with the permission for data with these tags.
    pub(crate) fn member_tagged(&self, name: &str, serial: u8, tags: &[(&str, &str)]) -> SecurityConfig {
        self.issue(name, serial, Grants { tags, ..Grants::default() })
    }

    /// The properties of [`Self::member`], for another process.
    pub(crate) fn member_parts(&self, name: &str, serial: u8) -> [(&'static str, String); 6] {
        self.issue_parts(name, serial, Grants::default())
    }

    /// A revocation list with the certificates of these members, as a URI.
    pub(crate) fn revoking(&self, serials: &[u8]) -> String {
        let numbers: Vec<[u8; 16]> = serials.iter().map(|&serial| number_of(serial)).collect();
        let numbers: Vec<&[u8]> = numbers.iter().map(|number| &number[..]).collect();
        let Terms { from, until, .. } = terms(0);
        format!("data:,{}", self.authority.revocation_list(&numbers, from, until).unwrap())
    }

    fn issue(&self, name: &str, serial: u8, grants: Grants<'_>) -> SecurityConfig {
        let parts = self.issue_parts(name, serial, grants);
        parts.iter().fold(SecurityConfig::new(), |config, (name, value)| config.property(name, value).unwrap())
    }

    fn issue_parts(&self, name: &str, serial: u8, grants: Grants<'_>) -> [(&'static str, String); 6] {
        let Grants { partitions, reads, tags } = grants;
        let key = IssuedKey::generate(KeyChoice::P256).unwrap();
        let certificate = self.authority.issue(&SubjectName::new("Test", name), &key, terms(serial)).unwrap();
        let rule = RuleText {
            effect: Effect::Allow,
            domains: DOMAINS,
            publish: vec!["open*".to_owned()],
            subscribe: ["open*"].iter().chain(reads).map(|&topic| topic.to_owned()).collect(),
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
        let permissions = with_tags(PermissionsText { grants: vec![grant] }.to_xml(), tags);
        let data = |octets: &[u8]| format!("data:,{}", std::str::from_utf8(octets).unwrap());
        let authority = data(Authority::to_pem(self.authority.certificate()).as_bytes());
        [
            ("dds.sec.auth.identity_ca", authority.clone()),
            ("dds.sec.access.permissions_ca", authority),
            ("dds.sec.auth.identity_certificate", data(Authority::to_pem(&certificate).as_bytes())),
            ("dds.sec.auth.private_key", data(key.pem().expose())),
            ("dds.sec.access.governance", data(&self.authority.sign_document(&self.governance()).unwrap())),
            ("dds.sec.access.permissions", data(&self.authority.sign_document(&permissions).unwrap())),
        ]
    }
}

/// Adds tags to all criteria of a document without partitions.
fn with_tags(permissions: String, tags: &[(&str, &str)]) -> String {
    if tags.is_empty() {
        return permissions;
    }
    let tag = |(name, value): &(&str, &str)| format!("<tag><name>{name}</name><value>{value}</value></tag>");
    let tags: String = tags.iter().map(tag).collect();
    permissions.replace("</topics>", &format!("</topics><data_tags>{tags}</data_tags>"))
}

pub(crate) fn config() -> DomainConfig {
    let mut config = DomainConfig::default();
    config.same_process = false;
    config.interfaces = InterfaceSelection::Only(vec!["lo".to_owned()]);
    config
}

pub(crate) fn participant(domain: u32, security: SecurityConfig) -> DomainParticipant {
    DomainParticipant::builder(domain).config(config()).security(security).build().unwrap()
}

pub(crate) fn writer(participant: &DomainParticipant, topic: &str) -> DataWriter<Block> {
    participant.topic::<Block>(topic).unwrap().writer_builder().reliable().keep_all().build().unwrap()
}

pub(crate) fn reader(participant: &DomainParticipant, topic: &str) -> DataReader<Block> {
    participant.topic::<Block>(topic).unwrap().reader_builder().reliable().keep_all().build().unwrap()
}

/// Waits for an event of security that satisfies the condition, and returns the events up to that one.
pub(crate) fn await_event(events: &mut DiscoveryEvents, is_it: impl Fn(&SecurityEvent) -> bool) -> Vec<SecurityEvent> {
    let mut seen = Vec::new();
    loop {
        match events.wait_next(PATIENCE) {
            Some(DiscoveryEvent::Security(event)) => seen.push(event),
            Some(_) => continue,
            None => panic!("the event does not come; before: {seen:?}"),
        }
        if seen.last().is_some_and(&is_it) {
            return seen;
        }
    }
}

/// Samples of several sizes, with fragments, go from the writer to the reader.
pub(crate) fn exchange(writer: &DataWriter<Block>, reader: &DataReader<Block>) {
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
