use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use peregrine_security::issue::KeyChoice;

use super::governances::{GOVERNANCES, GovernanceSpec};
use super::identities::{Issue, issue, members, write};
use super::inspection::{Kind, inspect, kind_of};
use super::keys::password_of;
use super::*;

/// A folder with a test identity, which the drop removes.
struct Folder(PathBuf);

impl Folder {
    fn empty(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("perftest-security-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn with_identity(name: &str, one_authority: bool) -> Self {
        let folder = Self::empty(name);
        folder.make(one_authority);
        folder
    }

    fn make(&self, one_authority: bool) {
        let settings = Issue { keys: KeyChoice::P256, one_authority, days: 90 };
        write(&self.0, &issue(settings, &members(), &GOVERNANCES).unwrap(), false).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn plan(&self, governance: &str) -> DocumentFiles {
        DocumentFiles {
            governance: self.path(&format!("signed_PerftestGovernance_{governance}.xml")),
            permissions: self.path("signed_PerftestPermissionsPub.xml"),
            authority: self.path("cacert.pem"),
            certificate: self.path("pub.pem"),
            private_key: self.path("pubkey.pem"),
        }
    }

    fn page(&self) -> inspection::Page {
        inspect(std::slice::from_ref(&self.0), 1, None).unwrap()
    }

    /// Replaces a text in a file.
    fn edit(&self, name: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{name} has no {from}");
        fs::write(self.path(name), text.replacen(from, to, 1)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fault(plan: &DocumentFiles, domain: u32) -> String {
    match load_documents(plan, Cipher::Aes256, domain) {
        Ok(_) => panic!("the files are accepted"),
        Err(error) => {
            assert_eq!(error.exit_code(), 255);
            let text = error.to_string();
            assert_eq!(text.lines().count(), 1, "{text}");
            text
        }
    }
}

#[test]
fn names_of_governance_documents_are_unique() {
    let names: BTreeSet<_> = GOVERNANCES.iter().map(GovernanceSpec::file_name).collect();
    assert_eq!(names.len(), GOVERNANCES.len());
    assert_eq!(GovernanceSpec::named("").unwrap().file_name(), "signed_PerftestGovernance_.xml");
    assert_eq!(GovernanceSpec::named("Nothing"), None);
}

/// RTI Perftest's documents: name, whether discovery is protected and participants and endpoints need permissions,
/// whether participants without authentication may take part, and the protection of messages, submessages, payloads.
const DOCUMENTS_OF_RTI_PERFTEST: [(&str, bool, bool, [&str; 3]); 30] = {
    const SIGN_FROM: &str = "SIGN_WITH_ORIGIN_AUTHENTICATION";
    const ENCRYPT_FROM: &str = "ENCRYPT_WITH_ORIGIN_AUTHENTICATION";
    [
        ("", false, true, ["NONE", "NONE", "NONE"]),
        ("EncryptData", false, true, ["NONE", "NONE", "ENCRYPT"]),
        ("EncryptSubmessage", false, true, ["NONE", "ENCRYPT", "NONE"]),
        ("EncryptBoth", false, true, ["NONE", "ENCRYPT", "ENCRYPT"]),
        ("Sign", false, false, ["SIGN", "NONE", "NONE"]),
        ("RTPSSign", false, false, ["SIGN", "NONE", "NONE"]),
        ("SignEncryptData", false, false, ["SIGN", "NONE", "ENCRYPT"]),
        ("SignEncryptSubmessage", false, false, ["SIGN", "ENCRYPT", "NONE"]),
        ("SignEncryptBoth", false, false, ["SIGN", "ENCRYPT", "ENCRYPT"]),
        ("Discovery", true, false, ["NONE", "NONE", "NONE"]),
        ("DiscoveryEncryptData", true, false, ["NONE", "NONE", "ENCRYPT"]),
        ("DiscoveryEncryptSubmessage", true, false, ["NONE", "ENCRYPT", "NONE"]),
        ("DiscoveryEncryptBoth", true, false, ["NONE", "ENCRYPT", "ENCRYPT"]),
        ("DiscoverySign", true, false, ["SIGN", "NONE", "NONE"]),
        ("DiscoverySignEncryptData", true, false, ["SIGN", "NONE", "ENCRYPT"]),
        ("DiscoverySignEncryptSubmessage", true, false, ["SIGN", "ENCRYPT", "NONE"]),
        ("DiscoverySignEncryptBoth", true, false, ["SIGN", "ENCRYPT", "ENCRYPT"]),
        ("RTPSEncrypt", false, false, ["ENCRYPT", "NONE", "NONE"]),
        ("RTPSEncryptWithOrigAuth", false, false, [ENCRYPT_FROM, "NONE", "NONE"]),
        ("RTPSEncryptWithOrigAuthEncryptData", false, false, [ENCRYPT_FROM, "NONE", "ENCRYPT"]),
        ("RTPSSignWithOrigAuth", false, false, [SIGN_FROM, "NONE", "NONE"]),
        ("RTPSSignWithOrigAuthEncryptData", false, false, [SIGN_FROM, "NONE", "ENCRYPT"]),
        ("SignWithOrigAuthEncryptData", false, false, [SIGN_FROM, "NONE", "ENCRYPT"]),
        ("RTPSSignEncryptSubmessageWithOrigAuthEncryptData", false, false, ["SIGN", ENCRYPT_FROM, "ENCRYPT"]),
        ("SubmessageSign", false, false, ["NONE", "SIGN", "NONE"]),
        ("SubmessageEncrypt", false, false, ["NONE", "ENCRYPT", "NONE"]),
        ("SubmessageSignWithOrigAuthEncryptData", false, false, ["NONE", SIGN_FROM, "NONE"]),
        ("SubmessageEncryptWithOrigAuthEncryptData", false, false, ["NONE", ENCRYPT_FROM, "NONE"]),
        ("DataSign", false, false, ["NONE", "NONE", "SIGN"]),
        ("DataEncrypt", false, false, ["NONE", "NONE", "ENCRYPT"]),
    ]
};

#[test]
fn made_governance_documents_have_the_values_of_rti_perftest() {
    let folder = Folder::with_identity("values", false);
    let authority = fs::read_to_string(folder.path(PERMISSIONS_AUTHORITY)).unwrap();
    let authorities = Certificate::from_pem(&authority).unwrap();
    let mut names = BTreeSet::new();
    for (name, is_closed, allows_strangers, [messages, submessages, payloads]) in DOCUMENTS_OF_RTI_PERFTEST {
        let file = format!("signed_PerftestGovernance_{name}.xml");
        let signed = fs::read(folder.path(&file)).unwrap();
        let text = open_signed(Document::Governance, &signed, &authorities, LOCAL_DOCUMENT_BYTES).unwrap();
        let document = Governance::parse(&text).unwrap();
        let rule = document.domain_rule(1, "").unwrap();
        let [topic] = &rule.topic_rules[..] else { panic!("{file} has one rule of topics") };
        assert!(rule.topic_rule("any topic").is_some(), "{file}");
        let discovery = if is_closed { "ENCRYPT" } else { "NONE" };
        let kinds = [rule.discovery, rule.liveliness, rule.messages, topic.submessages, topic.payloads].map(kind_name);
        assert_eq!(kinds, [discovery, discovery, messages, submessages, payloads], "{file}");
        assert_eq!(
            [
                rule.allow_unauthenticated_participants,
                rule.enable_join_access_control,
                topic.enable_discovery_protection,
                topic.enable_liveliness_protection,
                topic.enable_read_access_control,
                topic.enable_write_access_control,
            ],
            [allows_strangers, is_closed, is_closed, false, is_closed, is_closed],
            "{file}"
        );
        names.insert(file);
    }
    let is_governance = |name: &String| name.starts_with("signed_PerftestGovernance_");
    let entries = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(entries.filter(is_governance).collect::<BTreeSet<_>>(), names);
}

/// A pre-shared key that protects nothing would be lost without a message.
#[test]
fn pre_shared_key_is_refused_beside_a_governance_document_that_does_not_use_it() {
    let folder = Folder::with_identity("psk", false);
    let line = format!(
        "-pub -secureGovernanceFile {} -securePSK data:,1:hidden",
        folder.path("signed_PerftestGovernance_RTPSSign.xml")
    );
    let words: Vec<&str> = line.split_whitespace().collect();
    let Ok(crate::cli::Invocation::Run(options)) = crate::cli::parse(&words) else { panic!("{line}") };
    let plan = crate::plan::resolve(&options).unwrap().security.unwrap();
    let Err(error) = load(&plan, 1) else { panic!("the key is accepted") };
    let text = error.to_string();
    assert_eq!((error.exit_code(), text.lines().count()), (255, 1), "{text}");
    assert!(text.contains("RTPSSign.xml: its rtps_psk_protection_kind is NONE") && !text.contains("hidden"), "{text}");
    let without = SecurityPlan { pre_shared: None, ..plan };
    assert_eq!(load(&without, 1).unwrap().used.pre_shared, "NONE");
}

/// A key for no certificate, with the password `open sesame`.
const ENCRYPTED_KEY: &str = include_str!("fixtures/encrypted.key");

#[test]
fn encrypted_key_is_checked_with_the_password_of_a_file() {
    let folder = Folder::with_identity("password", false);
    fs::write(folder.path("pubkey.pem"), ENCRYPTED_KEY).unwrap();
    let finding = |password: Option<&[u8]>| {
        let page = inspect(std::slice::from_ref(&folder.0), 1, password.map(Secret::copy_of)).unwrap();
        let start = format!("error: {}", folder.path("pubkey.pem"));
        let line = page.text.lines().find(|line| line.starts_with(&start)).unwrap_or(&page.text);
        line.to_owned()
    };
    assert!(finding(None).contains("the key is encrypted; state its password"), "{}", finding(None));
    let wrong = finding(Some(b"sesame"));
    assert!(wrong.contains("cannot be decrypted with this password"), "{wrong}");
    let right = finding(Some(b"open sesame"));
    assert!(right.contains("the key is not that of the certificate"), "{right}");
}

#[test]
fn password_is_the_text_of_its_file_without_the_end_of_the_line() {
    let folder = Folder::empty("password-file");
    fs::create_dir_all(&folder.0).unwrap();
    let file = folder.0.join("password.txt");
    for (text, password) in [("open sesame", "open sesame"), ("open sesame\n", "open sesame"), (" x \r\n", " x ")] {
        fs::write(&file, text).unwrap();
        assert_eq!(password_of(&file).unwrap().expose(), password.as_bytes(), "{text:?}");
    }
    fs::write(&file, "\n").unwrap();
    let error = password_of(&file).unwrap_err().to_string();
    assert!(error.contains("--password-file") && error.contains("it contains no password"), "{error}");
    assert!(password_of(&folder.0.join("nothing")).is_err());
}

#[test]
fn made_identity_is_usable_with_every_governance_document_for_both_roles() {
    let folder = Folder::with_identity("usable", false);
    for governance in GOVERNANCES {
        let publisher = folder.plan(governance.name);
        let subscriber = DocumentFiles {
            permissions: folder.path("signed_PerftestPermissionsSub.xml"),
            certificate: folder.path("sub.pem"),
            private_key: folder.path("subkey.pem"),
            ..publisher.clone()
        };
        for plan in [publisher, subscriber] {
            let loaded = load_documents(&plan, Cipher::Aes256, 1).unwrap();
            assert_eq!(loaded.permissions_authority, Some(folder.path("permissions_cacert.pem")));
            assert_eq!(
                (&*loaded.used.messages, &*loaded.used.submessages, &*loaded.used.payloads),
                (kind_name(governance.messages), kind_name(governance.submessages), kind_name(governance.payloads))
            );
        }
    }
    let used = load_documents(&folder.plan("DiscoverySignEncryptBoth"), Cipher::Aes256, 0).unwrap().used;
    assert_eq!((&*used.discovery, &*used.liveliness, &*used.cipher), ("ENCRYPT", "ENCRYPT", "aes-256-gcm"));
}

#[test]
fn one_authority_serves_for_certificates_and_documents() {
    let folder = Folder::with_identity("one", true);
    assert!(!folder.0.join(PERMISSIONS_AUTHORITY).exists());
    let loaded = load_documents(&folder.plan("RTPSSign"), Cipher::Aes256, 1).unwrap();
    assert_eq!(loaded.permissions_authority, Some(folder.path("cacert.pem")));
    let page = folder.page();
    assert_eq!(page.errors, 0, "{}", page.text);
    assert!(page.text.contains("warning: ") && page.text.contains("the authority of documents issues identities too"));
}

#[test]
fn keys_are_readable_for_their_owner_only_and_existing_files_stay() {
    let folder = Folder::with_identity("mode", false);
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("pubkey.pem"), mode("subkey.pem")), (0o600, 0o600));
    let before = fs::read(folder.path("pub.pem")).unwrap();
    let settings = Issue { keys: KeyChoice::P256, one_authority: false, days: 90 };
    let files = issue(settings, &members(), &[]).unwrap();
    let error = write(&folder.0, &files, false).unwrap_err().to_string();
    assert!(
        error.contains("cacert.pem: it exists already; nothing was written") && error.contains("--force"),
        "{error}"
    );
    assert_eq!(fs::read(folder.path("pub.pem")).unwrap(), before);
    write(&folder.0, &files, true).unwrap();
    assert_ne!(fs::read(folder.path("pub.pem")).unwrap(), before);
    assert_eq!(mode("pubkey.pem"), 0o600);
}

#[test]
fn fault_of_each_file_is_one_line_with_its_name() {
    let folder = Folder::with_identity("faults", false);
    let sound = folder.plan("RTPSSign");
    let missing = DocumentFiles { governance: folder.path("nothing.xml"), ..sound.clone() };
    let text = fault(&missing, 1);
    assert!(text.starts_with(&format!("-secureGovernanceFile {}", missing.governance)), "{text}");
    let other = Folder::with_identity("others", false);
    let strange =
        DocumentFiles { certificate: other.path("pub.pem"), private_key: other.path("pubkey.pem"), ..sound.clone() };
    let text = fault(&strange, 1);
    assert!(text.starts_with(&strange.certificate), "{text}");
    let swapped = DocumentFiles { private_key: folder.path("subkey.pem"), ..sound.clone() };
    assert!(fault(&swapped, 1).contains("subkey.pem: the key is not that of the certificate"));
    let swapped = DocumentFiles { permissions: folder.path("signed_PerftestPermissionsSub.xml"), ..sound.clone() };
    assert!(fault(&swapped, 1).starts_with(&swapped.permissions));
    let unsigned = DocumentFiles { governance: other.path("signed_PerftestGovernance_RTPSSign.xml"), ..sound.clone() };
    assert!(fault(&unsigned, 1).starts_with(&unsigned.governance));
    assert!(fault(&sound, 240).starts_with(&sound.governance), "{}", fault(&sound, 240));
    let folder_as_file = DocumentFiles { authority: folder.0.display().to_string(), ..sound };
    assert!(fault(&folder_as_file, 1).contains("it is not a file"));
}

#[test]
fn file_without_end_is_refused() {
    let folder = Folder::with_identity("long", false);
    fs::write(folder.path("long.pem"), vec![b'x'; FILE_BYTES_MAX as usize + 1]).unwrap();
    let plan = DocumentFiles { certificate: folder.path("long.pem"), ..folder.plan("RTPSSign") };
    assert!(fault(&plan, 1).contains("long.pem: it is longer than 1048576 bytes"));
}

#[test]
fn page_states_the_rights_of_each_participant_and_no_key() {
    let folder = Folder::with_identity("page", false);
    let page = folder.page();
    assert_eq!(page.errors, 0, "{}", page.text);
    let publisher = format!(
        "{}, key {}, permissions {}",
        folder.path("pub.pem"),
        folder.path("pubkey.pem"),
        folder.path("signed_PerftestPermissionsPub.xml")
    );
    for expected in [
        &*publisher,
        "publish `Throughput`, `Announcement`",
        "subscribe `Throughput`, `Announcement`",
        "all else is denied",
        "messages SIGN, discovery NONE, liveliness NONE",
        "submessages ENCRYPT_WITH_ORIGIN_AUTHENTICATION, payloads ENCRYPT",
        "No fault was found.",
    ] {
        assert!(page.text.contains(expected), "{expected}: {}", page.text);
    }
    let key = fs::read_to_string(folder.path("pubkey.pem")).unwrap();
    assert!(key.lines().skip(1).all(|line| line.starts_with("-----") || !page.text.contains(line)));
}

#[test]
fn page_names_each_fault_with_its_place() {
    let folder = Folder::with_identity("edited", false);
    folder.edit("signed_PerftestGovernance_RTPSSign.xml", "<rtps_protection_kind>SIGN", "<rtps_protection_kind>NONE");
    fs::write(folder.path("plain.xml"), "<dds><permissions/></dds>").unwrap();
    fs::write(folder.path("notes.txt"), "none").unwrap();
    folder.edit("subkey.pem", "-----END", "----END");
    let page = folder.page();
    let has = |file: &str, what: &str| {
        page.text.lines().any(|line| line.starts_with(&format!("error: {}", folder.path(file))) && line.contains(what))
    };
    assert!(has("signed_PerftestGovernance_RTPSSign.xml", ""), "{}", page.text);
    assert!(has("plain.xml", "not signed"), "{}", page.text);
    assert!(has("subkey.pem", ""), "{}", page.text);
    assert!(page.errors >= 3 && page.text.contains("Not of DDS Security: "), "{}", page.text);
}

#[test]
fn unknown_element_is_found_at_its_line_and_column() {
    let folder = Folder::with_identity("unknown", false);
    let key = peregrine_security::issue::IssuedKey::generate(KeyChoice::P256).unwrap();
    let terms = peregrine_security::issue::Terms {
        serial: [7; 16],
        from: WallTime(now().0 - 10),
        until: WallTime(now().0 + 1_000_000_000),
    };
    let subject = peregrine_security::issue::SubjectName::new("Test", "Documents");
    let authority = peregrine_security::issue::Authority::self_signed(&subject, key, terms).unwrap();
    let xml = GovernanceSpec::named("RTPSSign").unwrap().to_xml().replace("rtps_protection_kind", "rtps_protection");
    fs::write(folder.path("signed_PerftestGovernance_RTPSSign.xml"), authority.sign_document(&xml).unwrap()).unwrap();
    let pem = peregrine_security::issue::Authority::to_pem(authority.certificate());
    fs::write(folder.path("zz_cacert.pem"), pem).unwrap();
    let place = folder.path("signed_PerftestGovernance_RTPSSign.xml");
    let plan = DocumentFiles { authority: folder.path("zz_cacert.pem"), ..folder.plan("RTPSSign") };
    fs::remove_file(folder.path(PERMISSIONS_AUTHORITY)).unwrap();
    let report = inspect(&[folder.path("zz_cacert.pem").into(), place.clone().into()], 1, None).unwrap();
    let line = report.text.lines().find(|line| line.starts_with(&format!("error: {place}:"))).unwrap();
    let row: Vec<&str> = line[format!("error: {place}:").len()..].splitn(3, ':').collect();
    let file = fs::read_to_string(&place).unwrap();
    let found = file.lines().nth(row[0].parse::<usize>().unwrap() - 1).unwrap();
    // The column of the `<`, from 1.
    let column = found.find("<rtps_protection>").map(|at| at + 1);
    assert_eq!(Some(row[1].parse::<usize>().unwrap()), column, "{line} {found}");
    assert!(row[2].contains("rtps_protection"), "{line}");
    assert!(fault(&plan, 1).contains("zz_cacert.pem") || fault(&plan, 1).contains("pub.pem"));
}

#[test]
fn content_of_a_file_determines_its_kind() {
    let folder = Folder::with_identity("kinds", false);
    for (name, kind) in [
        ("cacert.pem", Kind::Authority),
        ("permissions_cacert.pem", Kind::Authority),
        ("pub.pem", Kind::Certificate),
        ("subkey.pem", Kind::Key),
        ("signed_PerftestPermissionsPub.xml", Kind::Permissions),
        ("signed_PerftestGovernance_.xml", Kind::Governance),
    ] {
        assert_eq!(kind_of(&fs::read(folder.path(name)).unwrap()), kind, "{name}");
    }
    assert_eq!(
        (kind_of(b"<dds><permissions>"), kind_of(&[0xff, 0]), kind_of(b"")),
        (Kind::Unsigned, Kind::Other, Kind::Other)
    );
}

#[test]
fn named_file_of_another_kind_and_too_many_files_are_errors() {
    let folder = Folder::empty("many");
    fs::create_dir_all(&folder.0).unwrap();
    fs::write(folder.path("a.txt"), "none").unwrap();
    let page = inspect(&[folder.path("a.txt").into()], 1, None).unwrap();
    assert!(
        page.text.contains("a.txt: it is no certificate, key, revocation list or signed document"),
        "{}",
        page.text
    );
    for number in 0..256 {
        fs::write(folder.path(&format!("{number}.txt")), "").unwrap();
    }
    let error = inspect(std::slice::from_ref(&folder.0), 1, None).map(|page| page.errors).unwrap_err().to_string();
    assert!(error.contains("257 files are too many"), "{error}");
    assert!(inspect(&[folder.path("nothing").into()], 1, None).is_err());
}
