//! Issued certificates and signed documents are accepted by the rest of this crate, and by the program `openssl` where
//! this machine has it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use peregrine_rtps::protection::ProtectionKind;

use super::*;
use crate::documents::{Document, Effect, Governance, Permissions, open_signed};
use crate::identity::{ChainFault, RevocationList, TrustAnchors};
use crate::testing::NOW;
use crate::wall_time::WallTime;

const YEAR: i64 = 365 * 24 * 3600;

fn terms(serial: u8) -> Terms {
    // The program checks by the time of this machine.
    Terms { serial: [serial; 16], from: WallTime(NOW.0 - YEAR), until: WallTime(NOW.0 + 20 * YEAR) }
}

fn authority(choice: KeyChoice) -> Authority {
    let name = SubjectName(vec![
        (Attribute::Country, "ES".to_owned()),
        (Attribute::Organization, "Test".to_owned()),
        (Attribute::CommonName, "CA".to_owned()),
    ]);
    Authority::self_signed(&name, IssuedKey::generate(choice).unwrap(), terms(1)).unwrap()
}

fn governance() -> GovernanceText {
    let topic = TopicText {
        topic: "A<B&\"*".to_owned(),
        enable_discovery_protection: false,
        enable_liveliness_protection: true,
        enable_read_access_control: true,
        enable_write_access_control: false,
        submessages: ProtectionKind::SignWithOriginAuthentication,
        payloads: ProtectionKind::EncryptWithOriginAuthentication,
    };
    GovernanceText {
        domains: DomainText { first: 1, last: 230 },
        allow_unauthenticated_participants: true,
        enable_join_access_control: false,
        discovery: ProtectionKind::Sign,
        liveliness: ProtectionKind::None,
        messages: ProtectionKind::EncryptWithOriginAuthentication,
        topics: vec![topic],
    }
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("peregrine-issue-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, octets: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), octets).unwrap();
    }

    /// Whether the program accepts; `None` if it is not installed.
    fn openssl(&self, arguments: &str) -> Option<bool> {
        let output = Command::new("openssl").args(arguments.split_whitespace()).current_dir(&self.0).output().ok()?;
        Some(output.status.success())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn issued_certificates_are_accepted_and_revoked_ones_are_not() {
    for choice in [KeyChoice::P256, KeyChoice::Rsa2048] {
        let authority = authority(choice);
        let key = IssuedKey::generate(choice).unwrap();
        let name = SubjectName(vec![
            (Attribute::State, "CA".to_owned()),
            (Attribute::Locality, "L".to_owned()),
            (Attribute::OrganizationalUnit, "U, V".to_owned()),
            (Attribute::CommonName, "P_a".to_owned()),
            (Attribute::EmailAddress, "p@example.org".to_owned()),
        ]);
        let leaf = authority.issue(&name, &key, terms(2)).unwrap();
        assert!(key.private().is_of(&leaf));
        let anchors = TrustAnchors::from_list(vec![authority.certificate().clone()]);
        assert_eq!(anchors.verify(&leaf, &[], NOW), Ok(terms(2).until));
        let verdict = |serials: &[&[u8]]| {
            let list = authority.revocation_list(serials, terms(2).from, terms(2).until).unwrap();
            let mut anchors = anchors.clone();
            anchors.revocations = RevocationList::from_pem(&list).unwrap();
            assert_eq!(anchors.check_revocations(&anchors.revocations, NOW), Ok(()));
            anchors.verify(&leaf, &[], NOW)
        };
        assert_eq!(verdict(&[leaf.serial()]).unwrap_err().fault, ChainFault::Revoked);
        assert!(verdict(&[&[9]]).is_ok() && verdict(&[]).is_ok());
    }
}

#[test]
fn numbers_of_certificates_are_positive() {
    let authority = authority(KeyChoice::P256);
    let key = IssuedKey::generate(KeyChoice::P256).unwrap();
    for serial in [[0; 16], [0xff; 16], [0x80; 16]] {
        let leaf = authority.issue(&SubjectName::new("O", "P"), &key, Terms { serial, ..terms(0) }).unwrap();
        assert!(leaf.serial().iter().any(|octet| *octet != 0));
        assert!(leaf.serial().first().is_some_and(|first| *first < 0x80));
    }
    let impossible = Terms { until: WallTime(i64::MAX / 4), ..terms(3) };
    let found = authority.issue(&SubjectName::new("O", "P"), &key, impossible);
    assert_eq!(found.unwrap_err(), IssueError::Certificate);
}

#[test]
fn written_governance_is_read_as_it_was_meant() {
    let text = governance();
    let signer = authority(KeyChoice::P256);
    let signed = signer.sign_document(&text.to_xml()).unwrap();
    let authorities = core::slice::from_ref(signer.certificate());
    let xml = open_signed(Document::Governance, &signed, authorities, 1 << 20).unwrap();
    let parsed = Governance::parse(&xml).unwrap();
    assert!(parsed.warnings.is_empty());
    assert!(parsed.domain_rule(0, "").is_none() && parsed.domain_rule(231, "").is_none());
    let rule = parsed.domain_rule(230, "").unwrap();
    assert!(rule.allow_unauthenticated_participants && !rule.enable_join_access_control);
    assert_eq!((rule.messages, rule.discovery, rule.liveliness), (text.messages, text.discovery, text.liveliness));
    let topic = rule.topic_rule("A<B&\"X").unwrap();
    assert_eq!((topic.submessages, topic.payloads), (text.topics[0].submessages, ProtectionKind::Encrypt));
    assert!(topic.enable_read_access_control && !topic.enable_write_access_control);
    assert!(!topic.enable_discovery_protection && topic.enable_liveliness_protection);
    assert!(open_signed(Document::Governance, &signed, &[], 1 << 20).is_err());
}

#[test]
fn written_permissions_are_read_as_they_were_meant() {
    let signer = authority(KeyChoice::P256);
    let key = IssuedKey::generate(KeyChoice::P256).unwrap();
    let leaf = signer.issue(&SubjectName::new("A, \"B\" & <C>", "P"), &key, terms(2)).unwrap();
    let rule = |effect, publish: &[&str], partitions: &[&str]| RuleText {
        effect,
        domains: DomainText { first: 0, last: 0 },
        publish: publish.iter().map(|topic| (*topic).to_owned()).collect(),
        subscribe: Vec::new(),
        partitions: partitions.iter().map(|name| (*name).to_owned()).collect(),
    };
    let grant = GrantText {
        name: "a \"b\" <c>".to_owned(),
        subject: leaf.subject().to_string(),
        from: terms(2).from,
        until: terms(2).until,
        rules: vec![rule(Effect::Deny, &["S*"], &[]), rule(Effect::Allow, &["*"], &["A", "B"])],
        default: Effect::Deny,
    };
    let xml = PermissionsText { grants: vec![grant.clone()] }.to_xml();
    let parsed = Permissions::parse(&xml).unwrap();
    assert!(parsed.warnings.is_empty());
    let found = parsed.grant_for(leaf.subject(), NOW).unwrap();
    assert_eq!((found.name.as_str(), found.rules.len(), found.default), (grant.name.as_str(), 2, Effect::Deny));
    assert_eq!((found.validity.not_before, found.validity.not_after), (grant.from, grant.until));
    assert_eq!(found.rules[0].effect, Effect::Deny);
    let partitions = found.rules[1].publish[0].partitions.as_ref().unwrap();
    assert_eq!(partitions.iter().map(|pattern| pattern.as_str()).collect::<Vec<_>>(), ["A", "B"]);
}

#[test]
fn openssl_accepts_what_is_issued_and_signed() {
    for (name, choice) in [("ec", KeyChoice::P256), ("rsa", KeyChoice::Rsa2048)] {
        let folder = Folder::new(name);
        if folder.openssl("version").is_none() {
            return;
        }
        let authority = authority(choice);
        let key = IssuedKey::generate(choice).unwrap();
        let leaf = authority.issue(&SubjectName::new("Test", "P_a"), &key, terms(2)).unwrap();
        folder.write("ca.pem", Authority::to_pem(authority.certificate()));
        folder.write("leaf.pem", Authority::to_pem(&leaf));
        folder.write("leaf.key", key.pem().expose());
        folder.write("governance.p7s", authority.sign_document(&governance().to_xml()).unwrap());
        let accepts = |arguments: &str| assert_eq!(folder.openssl(arguments), Some(true), "{name}: {arguments}");
        accepts("verify -CAfile ca.pem leaf.pem");
        accepts("verify -x509_strict -CAfile ca.pem ca.pem");
        accepts("pkey -in leaf.key -check -noout");
        accepts("smime -verify -text -in governance.p7s -CAfile ca.pem -out governance.xml");
        let xml = fs::read_to_string(folder.0.join("governance.xml")).unwrap();
        assert_eq!(xml.replace("\r\n", "\n"), governance().to_xml());
        let changed = String::from_utf8(authority.sign_document(&governance().to_xml()).unwrap()).unwrap();
        folder.write("changed.p7s", changed.replace("<max>230<", "<max>231<"));
        let refused = "smime -verify -text -in changed.p7s -CAfile ca.pem -out changed.xml";
        assert_eq!(folder.openssl(refused), Some(false), "{name}");
    }
}

#[test]
fn debug_output_contains_no_key() {
    let key = IssuedKey::generate(KeyChoice::P256).unwrap();
    let pem = String::from_utf8(key.pem().expose().to_vec()).unwrap();
    let authority = Authority::self_signed(&SubjectName::new("Test", "CA"), key, terms(1)).unwrap();
    let shown = format!("{authority:?} {authority:#?} {:?}", authority.key());
    assert!(pem.lines().filter(|line| !line.starts_with('-')).all(|line| !shown.contains(line)));
}
