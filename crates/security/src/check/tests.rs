//! The page of good files, and of files with one fault each.

use peregrine_rtps::protection::ProtectionKind;

use super::*;
use crate::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName,
    Terms, TopicText,
};
use crate::testing::NOW;

const UNTIL: WallTime = WallTime(NOW.0 + 10 * 365 * 24 * 3600);
const TERMS: Terms = Terms { serial: [5; 16], from: WallTime(NOW.0 - 1000), until: UNTIL };

fn authority(name: &str) -> Authority {
    Authority::self_signed(&SubjectName::new("Test", name), IssuedKey::generate(KeyChoice::P256).unwrap(), TERMS)
        .unwrap()
}

fn governance() -> GovernanceText {
    let topic = TopicText {
        topic: "*".to_owned(),
        enable_discovery_protection: true,
        enable_liveliness_protection: true,
        enable_read_access_control: true,
        enable_write_access_control: true,
        submessages: ProtectionKind::EncryptWithOriginAuthentication,
        payloads: ProtectionKind::Encrypt,
    };
    let domains = DomainText { first: 0, last: 9 };
    GovernanceText {
        domains,
        allow_unauthenticated_participants: false,
        enable_join_access_control: true,
        discovery: ProtectionKind::Encrypt,
        liveliness: ProtectionKind::Sign,
        messages: ProtectionKind::Sign,
        topics: vec![topic],
    }
}

fn grant(subject: &str) -> GrantText {
    let rule = RuleText {
        effect: Effect::Allow,
        domains: DomainText { first: 0, last: 4 },
        publish: vec!["Square".to_owned(), "C*".to_owned()],
        subscribe: vec!["*".to_owned()],
        partitions: vec!["A".to_owned()],
    };
    let (name, subject) = ("first".to_owned(), subject.to_owned());
    GrantText { name, subject, from: TERMS.from, until: UNTIL, rules: vec![rule], default: Effect::Deny }
}

/// The files of a participant, which a test changes.
struct Set {
    identities: String,
    authorities: String,
    certificate: String,
    key: String,
    governance: Vec<u8>,
    permissions: Vec<u8>,
}

impl Set {
    fn new() -> Self {
        Self::with(&governance().to_xml(), |xml| xml)
    }

    /// With this governance, and changed permissions.
    fn with(governance: &str, change: impl FnOnce(String) -> String) -> Self {
        let (identities, authorities) = (authority("Identities"), authority("Documents"));
        let key = IssuedKey::generate(KeyChoice::P256).unwrap();
        let leaf = identities.issue(&SubjectName::new("Test", "P"), &key, TERMS).unwrap();
        let permissions = PermissionsText { grants: vec![grant(&leaf.subject().to_string())] }.to_xml();
        Self {
            identities: Authority::to_pem(identities.certificate()),
            authorities: Authority::to_pem(authorities.certificate()),
            certificate: Authority::to_pem(&leaf),
            key: String::from_utf8(key.pem().expose().to_vec()).unwrap(),
            governance: authorities.sign_document(governance).unwrap(),
            permissions: authorities.sign_document(&change(permissions)).unwrap(),
        }
    }

    fn check(&self, domain: u32, now: WallTime) -> Report {
        let file = |name, octets| File { name, octets };
        let files = Files {
            identity_authorities: file("ica.pem", self.identities.as_bytes()),
            permissions_authorities: file("pca.pem", self.authorities.as_bytes()),
            certificate: file("cert.pem", self.certificate.as_bytes()),
            key: file("key.pem", self.key.as_bytes()),
            governance: file("governance.p7s", &self.governance),
            permissions: file("permissions.p7s", &self.permissions),
            revocations: None,
            password: None,
        };
        check(&files, domain, "", now)
    }
}

#[test]
fn page_of_good_files_states_all_rights() {
    let report = Set::new().check(0, NOW);
    let page = report.to_string();
    assert!(report.is_usable() && report.findings.is_empty(), "{page}");
    for expected in [
        "subject      CN=P,O=Test",
        "messages SIGN, discovery ENCRYPT, liveliness SIGN",
        "participants without authentication are refused",
        "`*`: submessages ENCRYPT_WITH_ORIGIN_AUTHENTICATION, payloads ENCRYPT, announced securely",
        "writers and readers need a permission",
        "grant        `first`",
        "rule 1 allows, in domains 0 to 4:",
        "publish `Square`, `C*` in partitions `A`",
        "subscribe `*` in partitions `A`",
        "all else is denied",
        "domain 0     the participant may join",
    ] {
        assert!(page.contains(expected), "{expected}\n{page}");
    }
    assert!(page.lines().count() <= 40);
}

#[test]
fn place_of_a_fault_is_that_in_the_file() {
    let xml = governance().to_xml();
    let faulty = xml.replace("<rtps_protection_kind>SIGN<", "<rtps_protection_kind>SIGNED<");
    assert_ne!(xml, faulty);
    let set = Set::with(&faulty, |xml| xml);
    let report = set.check(0, NOW);
    let [finding] = report.findings.as_slice() else { panic!("{report}") };
    assert_eq!((finding.file.as_str(), finding.severity), ("governance.p7s", Severity::Error));
    let line = finding.at.unwrap().line as usize;
    let file = String::from_utf8(set.governance).unwrap();
    assert!(file.lines().nth(line - 1).unwrap().contains("SIGNED"), "{report}");
    assert!(report.to_string().contains("subject "), "the other files are read");
}

#[test]
fn each_fault_is_reported_with_its_file() {
    type Change = fn(&mut Set);
    let cases: [(&str, &str, Change); 8] = [
        ("ica.pem", "", |set| set.identities = "nothing".to_owned()),
        ("cert.pem", "none of the known", |set| set.identities = Authority::to_pem(authority("Other").certificate())),
        ("pca.pem", "", |set| set.authorities.truncate(100)),
        ("governance.p7s", "", |set| set.authorities = Authority::to_pem(authority("Documents").certificate())),
        ("key.pem", "not that of the certificate", |set| {
            let key = IssuedKey::generate(KeyChoice::P256).unwrap();
            set.key = String::from_utf8(key.pem().expose().to_vec()).unwrap();
        }),
        ("key.pem", "", |set| set.key.clear()),
        ("cert.pem", "", |set| set.certificate.clear()),
        ("permissions.p7s", "", |set| set.permissions = set.governance.clone()),
    ];
    for (index, (file, text, change)) in cases.into_iter().enumerate() {
        let mut set = Set::new();
        change(&mut set);
        let report = set.check(0, NOW);
        assert!(!report.is_usable(), "case {index}");
        let is_expected = |finding: &Finding| finding.file == file && (text.is_empty() || finding.what.contains(text));
        let has_text = report.findings.iter().any(|finding| finding.file == file);
        assert!(
            report.findings.iter().any(is_expected) || (has_text && text == "none of the known"),
            "case {index}: {report}"
        );
    }
}

#[test]
fn domain_and_time_outside_the_documents_are_reported() {
    let set = Set::new();
    for (domain, now, file, text) in [
        (5, NOW, "permissions.p7s", "<id>5</id>"),
        (10, NOW, "governance.p7s", "domain 10"),
        (0, WallTime(UNTIL.0 + 1), "permissions.p7s", "valid from"),
    ] {
        let report = set.check(domain, now);
        let found = |finding: &Finding| finding.file == file && finding.what.contains(text);
        assert!(!report.is_usable() && report.findings.iter().any(found), "{report}");
    }
    let report = set.check(0, WallTime(UNTIL.0 - 1000));
    assert!(report.is_usable());
    assert_eq!(report.findings.iter().filter(|finding| finding.what.contains("only")).count(), 2, "{report}");
}

#[test]
fn page_of_many_rules_is_short() {
    let rule =
        "<allow_rule><domains><id>0</id></domains><publish><topics><topic>T</topic></topics></publish></allow_rule>";
    let set = Set::with(&governance().to_xml(), |xml| xml.replace("<default>", &(rule.repeat(200) + "<default>")));
    let report = set.check(0, NOW);
    assert!(report.is_usable(), "{report}");
    let page = report.to_string();
    assert!(page.contains("and 189 more") && page.lines().count() < 60, "{page}");
}

#[test]
fn page_contains_nothing_of_the_key() {
    let set = Set::new();
    let page = set.check(0, NOW).to_string();
    assert!(set.key.lines().filter(|line| !line.starts_with('-')).all(|line| !page.contains(line)));
}

#[test]
fn common_authority_is_a_warning() {
    let mut set = Set::new();
    set.identities += &set.authorities;
    let report = set.check(0, NOW);
    assert!(report.is_usable());
    assert!(report.findings.iter().any(|finding| finding.what.contains("issues identities too")), "{report}");
}

#[test]
fn algorithms_that_the_governance_does_not_permit_are_reported_with_the_place_of_their_list() {
    let with = |lists: &str| {
        let element = format!("<allowed_crypto_algorithms>{lists}</allowed_crypto_algorithms>\n</domain_rule>");
        Set::with(&governance().to_xml().replace("</domain_rule>", &element), |xml| xml)
    };
    let (rsa, ec) = ("RSASSA-PKCS1-V1_5+2048+SHA256", "ECDSA+P256+SHA256");
    let list = |element: &str, name: &str| format!("<{element}><algorithm>{name}</algorithm></{element}>");
    let report = with(&list("digital_signature", ec)).check(0, NOW);
    assert!(
        report.is_usable() && report.to_string().contains("keys of participants: ECDSA+P256+SHA256 only"),
        "{report}"
    );
    let set = with(&(list("digital_signature", rsa) + &list("digital_signature_identity_trust_chain", rsa)));
    let report = set.check(0, NOW);
    let findings: Vec<_> =
        report.findings.iter().map(|finding| (finding.file.as_str(), finding.what.as_str())).collect();
    let [("cert.pem", chain), ("governance.p7s", key), ("governance.p7s", one), ("governance.p7s", two)] = findings[..]
    else {
        panic!("{report}")
    };
    assert!(
        chain.contains("signed by ECDSA with SHA-256") && key.contains("the certificate has a key that is EC P-256")
    );
    assert!(one.contains("the governance document is signed") && two.contains("the permissions document is signed"));
    let file = String::from_utf8(set.governance).unwrap();
    let line = report.findings[1].at.unwrap().line as usize;
    assert!(file.lines().nth(line - 1).unwrap().contains("<allowed_crypto_algorithms>"), "{report}");
}
