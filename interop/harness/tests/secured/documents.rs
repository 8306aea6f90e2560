//! Documents of DDS Security for the participants of a test, made anew for each test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use peregrine_interop::Participant;
use peregrine_rtps::protection::ProtectionKind::{
    self, Encrypt, EncryptWithOriginAuthentication, None as Plain, Sign, SignWithOriginAuthentication,
};
use peregrine_security::WallTime;
use peregrine_security::documents::Effect;
use peregrine_security::identity::Certificate;
use peregrine_security::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName,
    Terms, TopicText,
};

/// All domains of the tests.
pub(crate) const DOMAINS: DomainText = DomainText { first: 0, last: 230 };
const DAY_SECONDS: i64 = 86_400;

/// The protection of messages, of discovery and liveliness, of submessages, and of payloads.
pub(crate) type Levels = [ProtectionKind; 4];

/// Nothing is protected.
pub(crate) const OPEN: Levels = [Plain, Plain, Plain, Plain];
/// Everything is encrypted with origin authentication, as far as it exists.
pub(crate) const ALL: Levels =
    [EncryptWithOriginAuthentication, EncryptWithOriginAuthentication, EncryptWithOriginAuthentication, Encrypt];

/// Each kind at each level, and the combinations that users measure.
pub(crate) const GOVERNANCES: [(&str, Levels); 16] = [
    ("none", OPEN),
    ("message_sign", [Sign, Plain, Plain, Plain]),
    ("message_encrypt", [Encrypt, Plain, Plain, Plain]),
    ("message_encrypt_with_origin", [EncryptWithOriginAuthentication, Plain, Plain, Plain]),
    ("message_sign_with_origin_payload_encrypt", [SignWithOriginAuthentication, Plain, Plain, Encrypt]),
    ("message_sign_submessage_encrypt", [Sign, Plain, Encrypt, Plain]),
    (
        "message_sign_submessage_encrypt_with_origin_payload_encrypt",
        [Sign, Plain, EncryptWithOriginAuthentication, Encrypt],
    ),
    ("payload_sign", [Plain, Plain, Plain, Sign]),
    ("payload_encrypt", [Plain, Plain, Plain, Encrypt]),
    ("submessage_sign", [Plain, Plain, Sign, Plain]),
    ("submessage_encrypt", [Plain, Plain, Encrypt, Plain]),
    ("submessage_sign_with_origin", [Plain, Plain, SignWithOriginAuthentication, Plain]),
    ("submessage_encrypt_with_origin", [Plain, Plain, EncryptWithOriginAuthentication, Plain]),
    ("discovery_encrypt", [Plain, Encrypt, Plain, Plain]),
    ("full", [Sign, Encrypt, Encrypt, Encrypt]),
    ("all_with_origin", ALL),
];

/// Whether a kind hides what it protects.
pub(crate) fn is_hidden_by(kind: ProtectionKind) -> bool {
    matches!(kind, Encrypt | EncryptWithOriginAuthentication)
}

/// A folder for documents, which the drop removes.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The authorities of a system, and the folder of all that they have signed. All keys are of one kind.
pub(crate) struct Realm {
    keys: KeyChoice,
    identities: Authority,
    documents: Authority,
    folder: Folder,
    serial: AtomicU8,
}

/// The rules of a governance.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) levels: Levels,
    pub(crate) allows_unauthenticated: bool,
    /// Whether endpoints need a permission.
    pub(crate) is_controlled: bool,
}

/// The certificate and the rights of a participant.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// The common name, which decides which side begins the handshake.
    pub(crate) name: &'static str,
    /// The validity of the certificate, in seconds from now.
    pub(crate) valid_seconds: (i64, i64),
    /// Patterns of topics to write and to read.
    pub(crate) topics: &'static str,
    /// The rules of the permissions as XML, in place of one for `topics` and `domains`.
    pub(crate) rules: Option<&'static str>,
    /// The domains of the permission.
    pub(crate) domains: DomainText,
}

impl Rules {
    /// These levels; endpoints need a permission, and participants need a certificate.
    pub(crate) fn of(levels: Levels) -> Self {
        Self { levels, allows_unauthenticated: false, is_controlled: true }
    }
}

impl Member {
    /// May do everything, and is valid for a day.
    pub(crate) fn named(name: &'static str) -> Self {
        Self { name, valid_seconds: (-DAY_SECONDS, DAY_SECONDS), topics: "*", rules: None, domains: DOMAINS }
    }
}

fn after(seconds: i64) -> WallTime {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    WallTime(i64::try_from(now).unwrap() + seconds)
}

impl Realm {
    /// With keys on the curve P-256. `name` must differ between tests.
    pub(crate) fn new(name: &str) -> Self {
        Self::with_keys(name, KeyChoice::P256)
    }

    pub(crate) fn with_keys(name: &str, keys: KeyChoice) -> Self {
        let folder = std::env::temp_dir().join(format!("peregrine-secured-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let authority = |name: &str, serial| {
            let key = IssuedKey::generate(keys).unwrap();
            let terms = Terms { serial: [serial; 16], from: after(-DAY_SECONDS), until: after(DAY_SECONDS) };
            Authority::self_signed(&SubjectName::new("Test", name), key, terms).unwrap()
        };
        let (identities, documents) = (authority("Identities", 1), authority("Documents", 2));
        Self { keys, identities, documents, folder: Folder(folder), serial: AtomicU8::new(10) }
    }

    /// The options of a secured participant, with new documents.
    pub(crate) fn participant(&self, rules: &Rules, member: &Member) -> Participant {
        Participant { security: Some(self.issue(rules, member)), ..Participant::default() }
    }

    /// A file with a list of these revoked certificates.
    pub(crate) fn revoking(&self, certificates: &[&Participant]) -> PathBuf {
        let serials: Vec<Vec<u8>> = certificates.iter().map(|participant| serial_of(participant)).collect();
        let serials: Vec<&[u8]> = serials.iter().map(Vec::as_slice).collect();
        let list = self.identities.revocation_list(&serials, after(-DAY_SECONDS), after(DAY_SECONDS)).unwrap();
        let file = format!("revocations-{}.pem", self.serial.fetch_add(1, Ordering::Relaxed));
        write(&self.folder.0, &file, list.as_bytes());
        self.folder.0.join(file)
    }

    fn issue(&self, rules: &Rules, member: &Member) -> PathBuf {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let key = IssuedKey::generate(self.keys).unwrap();
        let (from, until) = member.valid_seconds;
        let terms = Terms { serial: [serial; 16], from: after(from), until: after(until) };
        let certificate = self.identities.issue(&SubjectName::new("Test", member.name), &key, terms).unwrap();
        let grant = GrantText {
            name: member.name.to_owned(),
            subject: certificate.subject().to_string(),
            from: after(-DAY_SECONDS),
            until: after(DAY_SECONDS),
            rules: vec![RuleText {
                effect: Effect::Allow,
                domains: member.domains,
                publish: vec![member.topics.to_owned()],
                subscribe: vec![member.topics.to_owned()],
                partitions: vec!["*".to_owned()],
            }],
            default: Effect::Deny,
        };
        let permissions = match member.rules {
            None => PermissionsText { grants: vec![grant] }.to_xml(),
            Some(rules) => {
                let without = PermissionsText { grants: vec![GrantText { rules: Vec::new(), ..grant }] }.to_xml();
                without.replace("<default>", &format!("{rules}<default>"))
            }
        };
        let own = self.folder.0.join(format!("{}-{serial}", member.name));
        std::fs::create_dir_all(&own).unwrap();
        write(&own, "identity_ca.pem", Authority::to_pem(self.identities.certificate()).as_bytes());
        write(&own, "permissions_ca.pem", Authority::to_pem(self.documents.certificate()).as_bytes());
        write(&own, "identity.pem", Authority::to_pem(&certificate).as_bytes());
        write(&own, "identity.key", key.pem().expose());
        write(&own, "governance.p7s", &self.documents.sign_document(&governance(rules)).unwrap());
        write(&own, "permissions.p7s", &self.documents.sign_document(&permissions).unwrap());
        own
    }
}

/// The number of the certificate in a folder of documents.
fn serial_of(participant: &Participant) -> Vec<u8> {
    let folder = participant.security.as_ref().expect("a participant with documents");
    let pem = std::fs::read_to_string(folder.join("identity.pem")).unwrap();
    Certificate::from_pem(&pem).unwrap()[0].serial().to_vec()
}

fn governance(rules: &Rules) -> String {
    let [messages, discovery, submessages, payloads] = rules.levels;
    let is_discovery_protected = discovery != Plain;
    let topic = TopicText {
        topic: "*".to_owned(),
        enable_discovery_protection: is_discovery_protected,
        enable_liveliness_protection: is_discovery_protected,
        enable_read_access_control: rules.is_controlled,
        enable_write_access_control: rules.is_controlled,
        submessages,
        payloads,
    };
    let governance = GovernanceText {
        domains: DOMAINS,
        allow_unauthenticated_participants: rules.allows_unauthenticated,
        enable_join_access_control: true,
        discovery,
        liveliness: discovery,
        messages,
        topics: vec![topic],
    };
    governance.to_xml()
}

fn write(folder: &Path, file: &str, octets: &[u8]) {
    std::fs::write(folder.join(file), octets).unwrap();
}
