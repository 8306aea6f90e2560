//! DDS Security with other vendors: each governance, each side as initiator of the handshake, in both directions.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use peregrine_interop::{DataType, Error, NetNs, Participant, Peer, Program, Qos, Result, Write};
use peregrine_rtps::protection::ProtectionKind::{
    self, Encrypt, EncryptWithOriginAuthentication, None as Plain, Sign, SignWithOriginAuthentication,
};
use peregrine_security::WallTime;
use peregrine_security::documents::Effect;
use peregrine_security::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName,
    Terms, TopicText,
};

const LIMIT: Duration = Duration::from_secs(20);
const DOMAINS: DomainText = DomainText { first: 0, last: 230 };
const TOPIC: &str = "Topic";
/// Lengths of samples: in one message, in some fragments, in hundreds of fragments.
const SIZES: [u32; 3] = [100, 70_000, 1_000_000];

/// The protection of messages, of discovery and liveliness, of submessages, and of payloads.
type Levels = [ProtectionKind; 4];

/// The seven configurations that users measure, and others with each kind at each level.
const ALL: [(&str, Levels); 12] = [
    ("none", [Plain, Plain, Plain, Plain]),
    ("message_sign", [Sign, Plain, Plain, Plain]),
    ("message_encrypt", [Encrypt, Plain, Plain, Plain]),
    ("message_sign_submessage_encrypt", [Sign, Plain, Encrypt, Plain]),
    ("message_sign_payload_encrypt", [Sign, Plain, Plain, Encrypt]),
    ("message_sign_submessage_and_payload_encrypt", [Sign, Plain, Encrypt, Encrypt]),
    ("submessage_sign", [Plain, Plain, Sign, Plain]),
    ("payload_sign", [Plain, Plain, Plain, Sign]),
    ("payload_encrypt", [Plain, Plain, Plain, Encrypt]),
    ("discovery_encrypt", [Plain, Encrypt, Plain, Plain]),
    ("message_encrypt_with_origin", [EncryptWithOriginAuthentication, Plain, Plain, Plain]),
    ("all_with_origin", [SignWithOriginAuthentication, Encrypt, EncryptWithOriginAuthentication, Encrypt]),
];

/// A folder for documents, which the drop removes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("peregrine-secured-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

fn terms(serial: u8) -> Terms {
    Terms { serial: [serial; 16], from: WallTime(seconds() - 86_400), until: WallTime(seconds() + 86_400) }
}

/// Writes the documents of two participants below the folder. The names decide the side that begins the handshake.
fn issue(folder: &Path, [messages, discovery, submessages, payloads]: Levels, names: [&str; 2]) -> [PathBuf; 2] {
    let authority = |name: &str, serial| {
        let key = IssuedKey::generate(KeyChoice::P256).unwrap();
        Authority::self_signed(&SubjectName::new("Test", name), key, terms(serial)).unwrap()
    };
    let (identities, documents) = (authority("Identities", 1), authority("Documents", 2));
    let is_discovery_protected = discovery != Plain;
    let topic = TopicText {
        topic: "*".to_owned(),
        enable_discovery_protection: is_discovery_protected,
        enable_liveliness_protection: is_discovery_protected,
        enable_read_access_control: true,
        enable_write_access_control: true,
        submessages,
        payloads,
    };
    let governance = GovernanceText {
        domains: DOMAINS,
        allow_unauthenticated_participants: false,
        enable_join_access_control: true,
        discovery,
        liveliness: discovery,
        messages,
        topics: vec![topic],
    };
    let governance = documents.sign_document(&governance.to_xml()).unwrap();
    let mut serial = 10;
    names.map(|name| {
        serial += 1;
        let key = IssuedKey::generate(KeyChoice::P256).unwrap();
        let certificate = identities.issue(&SubjectName::new("Test", name), &key, terms(serial)).unwrap();
        let grant = GrantText {
            name: name.to_owned(),
            subject: certificate.subject().to_string(),
            from: WallTime(seconds() - 86_400),
            until: WallTime(seconds() + 86_400),
            rules: vec![RuleText {
                effect: Effect::Allow,
                domains: DOMAINS,
                publish: vec![TOPIC.to_owned()],
                subscribe: vec![TOPIC.to_owned()],
                partitions: Vec::new(),
            }],
            default: Effect::Deny,
        };
        let permissions = documents.sign_document(&PermissionsText { grants: vec![grant] }.to_xml()).unwrap();
        let own = folder.join(name);
        std::fs::create_dir_all(&own).unwrap();
        let write = |file: &str, octets: &[u8]| std::fs::write(own.join(file), octets).unwrap();
        write("identity_ca.pem", Authority::to_pem(identities.certificate()).as_bytes());
        write("permissions_ca.pem", Authority::to_pem(documents.certificate()).as_bytes());
        write("identity.pem", Authority::to_pem(&certificate).as_bytes());
        write("identity.key", key.pem().expose());
        write("governance.p7s", &governance);
        write("permissions.p7s", &permissions);
        own
    })
}

fn secured(folder: PathBuf) -> Participant {
    Participant { security: Some(folder), ..Participant::default() }
}

/// Samples of all sizes go from one peer to the other.
fn exchange(writer: &Program, reader: &Program, [of_writer, of_reader]: [PathBuf; 2]) -> Result<()> {
    let host = NetNs::isolated()?;
    let (mut writer, mut reader) = (Peer::start(writer, &host)?, Peer::start(reader, &host)?);
    writer.participant(0, &secured(of_writer))?;
    reader.participant(0, &secured(of_reader))?;
    writer.writer("w", TOPIC, DataType::KeyedSample, &Qos::default())?;
    reader.reader("r", TOPIC, DataType::KeyedSample, &Qos::default())?;
    writer.wait_matched("w", 1, LIMIT)?;
    reader.wait_matched("r", 1, LIMIT)?;
    for (seq, size_bytes) in (1..).zip(SIZES) {
        writer.write("w", &Write { key: 1, first_seq: seq, size_bytes, count: 1, period_us: 0 })?;
        let samples = reader.take("r", 1, LIMIT)?;
        let [sample] = samples.as_slice() else {
            return Err(Error::Violated(format!("{} samples of {size_bytes} bytes", samples.len())));
        };
        if !(sample.intact && sample.valid && sample.seq == seq && sample.size_bytes == size_bytes as usize) {
            return Err(Error::Violated(format!("another sample than the one written: {sample:?}")));
        }
    }
    writer.wait_acknowledged("w", LIMIT)
}

type Maker = fn() -> Result<Program>;

/// With each governance, and with each of the two sides as the one that begins the handshake.
fn check(pair: &str, writer: Maker, reader: Maker) {
    let (writer, reader) = (writer().unwrap(), reader().unwrap());
    let mut failures = Vec::new();
    for (name, levels) in ALL {
        for names in [["Anna", "Bert"], ["Bert", "Anna"]] {
            let folder = Folder::new(&format!("{pair}-{name}-{}", names[0]));
            let parts = issue(&folder.0, levels, names);
            if let Err(error) = exchange(&writer, &reader, parts) {
                failures.push(format!("{name}, writer {}: {error}", names[0]));
            }
        }
    }
    assert!(failures.is_empty(), "{pair}: {failures:#?}");
}

#[test]
fn peregrine_to_cyclone() {
    check("peregrine_to_cyclone", Program::peregrine, Program::cyclone_dds);
}

#[test]
fn cyclone_to_peregrine() {
    check("cyclone_to_peregrine", Program::cyclone_dds, Program::peregrine);
}

#[test]
fn peregrine_to_fast() {
    check("peregrine_to_fast", Program::peregrine, Program::fast_dds);
}

#[test]
fn fast_to_peregrine() {
    check("fast_to_peregrine", Program::fast_dds, Program::peregrine);
}

#[test]
fn peregrine_to_peregrine() {
    check("peregrine_to_peregrine", Program::peregrine, Program::peregrine);
}

#[test]
fn participant_with_a_certificate_of_another_authority_does_not_match() {
    let folder = Folder::new("strangers");
    let [one, other] = ["one", "other"].map(|realm| issue(&folder.0.join(realm), ALL[8].1, ["Anna", "Bert"]));
    for peer in [Program::cyclone_dds, Program::fast_dds, Program::peregrine] {
        let (own, peer) = (Program::peregrine().unwrap(), peer().unwrap());
        let host = NetNs::isolated().unwrap();
        let (mut writer, mut reader) = (Peer::start(&own, &host).unwrap(), Peer::start(&peer, &host).unwrap());
        writer.participant(0, &secured(one[0].clone())).unwrap();
        reader.participant(0, &secured(other[1].clone())).unwrap();
        writer.writer("w", TOPIC, DataType::KeyedSample, &Qos::default()).unwrap();
        reader.reader("r", TOPIC, DataType::KeyedSample, &Qos::default()).unwrap();
        // A participant of the same authority matches meanwhile, so that the wait ends with an event.
        let mut friend = Peer::start(&own, &host).unwrap();
        friend.participant(0, &secured(one[1].clone())).unwrap();
        friend.reader("f", TOPIC, DataType::KeyedSample, &Qos::default()).unwrap();
        writer.wait_matched("w", 1, LIMIT).unwrap();
        friend.wait_matched("f", 1, LIMIT).unwrap();
        writer.write("w", &Write { key: 1, first_seq: 1, size_bytes: 10, count: 1, period_us: 0 }).unwrap();
        assert_eq!(friend.take("f", 1, LIMIT).unwrap().len(), 1);
        assert_eq!((reader.status("r").unwrap().matched, writer.status("w").unwrap().matched), (0, 1));
    }
}
