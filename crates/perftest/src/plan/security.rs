//! The options of DDS Security: which documents, which certificate and which key a participant has.

use std::fmt;
use std::path::Path;

use crate::cli::ParsedOptions;
use crate::cli::option::{Group, SecretText};
use crate::cli::table::OPTIONS;

/// Folder of the files that no option names, if no governance document is named either.
const FOLDER: &str = "./resource/secure";
/// The options of RTI Perftest until 4.0, which choose a governance document together.
const SWITCHES: [&str; 5] =
    ["secureSign", "secureEncryptBoth", "secureEncryptData", "secureEncryptDiscovery", "secureEncryptSM"];
/// The options that name files.
const DOCUMENT_OPTIONS: [&str; 5] =
    ["secureGovernanceFile", "securePermissionsFile", "secureCertAuthority", "secureCertFile", "securePrivateKey"];

/// The schemes of a passphrase that an option may state.
const PASSPHRASE_SCHEMES: [&str; 2] = ["data:,", "file:"];
/// The passphrase of RTI Perftest if only the cipher is given.
const DEFAULT_PASSPHRASE: &str = "data:,0:DefaultValue";

/// The security of a participant: its files, its pre-shared key, and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityPlan {
    /// `None` with a pre-shared key alone.
    pub documents: Option<DocumentFiles>,
    /// The pre-shared key.
    pub pre_shared: Option<PreSharedKey>,
    /// The cipher of what the participant sends.
    pub cipher: Cipher,
    /// `-secureDebug`, 0 to 7.
    pub debug: u8,
}

/// The files of a participant with certificate. All are paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentFiles {
    /// The signed governance document.
    pub governance: String,
    /// The signed permissions document.
    pub permissions: String,
    /// The authority of certificates, and of documents if there is no other.
    pub authority: String,
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub private_key: String,
}

/// A pre-shared key. Its passphrase is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PreSharedKey {
    uri: SecretText,
    /// The cipher of what the participant sends.
    pub cipher: Cipher,
    /// Whether messages are signed, and not encrypted, unless a governance document states that.
    pub signs: bool,
}

/// A cipher of what a participant sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-GCM and AES-GMAC with keys of 128 bits.
    Aes128,
    /// The same with keys of 256 bits.
    Aes256,
}

impl Cipher {
    /// Its name in `-secureEncryptionAlgorithm`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "aes-128-gcm",
            Self::Aes256 => "aes-256-gcm",
        }
    }
}

impl PreSharedKey {
    /// `data:,` with the number, a colon and the passphrase, or `file:` with the path of a file with that text.
    #[must_use]
    pub fn uri(&self) -> &str {
        self.uri.expose()
    }
}

impl fmt::Debug for PreSharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cipher, signs, .. } = self;
        f.debug_struct("PreSharedKey").field("cipher", cipher).field("signs", signs).finish_non_exhaustive()
    }
}

/// The security that the options request.
pub(super) fn security(
    options: &ParsedOptions,
    is_publisher: bool,
    errors: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Option<SecurityPlan> {
    for (name, why) in [
        ("secureEnableAAD", "a copy in each protected message authenticates the RTPS header in any case"),
        ("secureLibrary", "security is a part of this program"),
    ] {
        if options.has(name) {
            notes.push(format!("-{name} has no effect: {why}."));
        }
    }
    let pre_shared = pre_shared(options, errors, notes);
    let documents = if options.has("lightWeightSecurity") {
        check_light_weight(options, pre_shared.is_some(), errors);
        None
    } else {
        Some(documents(options, is_publisher, errors, notes)?)
    };
    Some(SecurityPlan {
        documents,
        pre_shared,
        cipher: match options.choice("secureEncryptionAlgorithm") {
            Some("aes-128-gcm") => Cipher::Aes128,
            _ => Cipher::Aes256,
        },
        debug: options.integer("secureDebug").unwrap_or(1) as u8,
    })
}

fn pre_shared(options: &ParsedOptions, errors: &mut Vec<String>, notes: &mut Vec<String>) -> Option<PreSharedKey> {
    let (uri, algorithm) = (options.secret("securePSK"), options.choice("securePSKAlgorithm"));
    let uri = match (uri, algorithm) {
        (None, None) => return None,
        (Some(uri), _) => uri.clone(),
        (None, Some(_)) => {
            notes.push(
                "-securePSKAlgorithm without -securePSK: the passphrase is that of RTI Perftest, which is public."
                    .into(),
            );
            DEFAULT_PASSPHRASE.into()
        }
    };
    if !PASSPHRASE_SCHEMES.iter().any(|scheme| uri.expose().starts_with(scheme)) {
        // The text may be the passphrase itself, and is not repeated.
        errors.push(
            "-securePSK takes data:,<number>:<passphrase>, or file:<path> of a file with <number>:<passphrase>".into(),
        );
    }
    let algorithm = algorithm.unwrap_or_default();
    let cipher = if algorithm.starts_with("AES128") { Cipher::Aes128 } else { Cipher::Aes256 };
    Some(PreSharedKey { uri, cipher, signs: algorithm.ends_with("GMAC") })
}

/// A participant with a pre-shared key alone has no documents.
fn check_light_weight(options: &ParsedOptions, has_key: bool, errors: &mut Vec<String>) {
    if !has_key {
        errors.push("-lightWeightSecurity needs -securePSK, which states the pre-shared key".into());
    }
    for name in DOCUMENT_OPTIONS.into_iter().chain(SWITCHES).filter(|name| options.has(name)) {
        errors
            .push(format!("-{name} cannot go with -lightWeightSecurity, which uses a pre-shared key and no documents"));
    }
}

/// The files that the options name. The defaults of certificate, key and permissions differ by role.
fn documents(
    options: &ParsedOptions,
    is_publisher: bool,
    errors: &mut Vec<String>,
    notes: &mut Vec<String>,
) -> Option<DocumentFiles> {
    let switches = SWITCHES.into_iter().filter(|name| options.has(name));
    let governance = match options.text("secureGovernanceFile") {
        Some(path) => {
            for name in switches {
                notes.push(format!("-{name} has no effect: -secureGovernanceFile names the document."));
            }
            path.to_owned()
        }
        None if switches.count() > 0 => format!("{FOLDER}/{}", governance_of_switches(options)),
        None => {
            let given = OPTIONS.iter().find(|option| option.group == Group::Security && options.has(option.name));
            if let Some(option) = given {
                let or = if option.name.starts_with("securePSK") { ", or -lightWeightSecurity" } else { "" };
                errors.push(format!(
                    "-{} needs -secureGovernanceFile, which names the signed governance document{or}",
                    option.name
                ));
            }
            return None;
        }
    };
    let folder = Path::new(&governance).parent().filter(|folder| !folder.as_os_str().is_empty());
    let role = if is_publisher { "pub" } else { "sub" };
    let permissions = if is_publisher { "Pub" } else { "Sub" };
    let file = |option: &'static str, default: String| match options.text(option) {
        Some(path) => path.to_owned(),
        None => folder.map_or_else(|| default.clone(), |folder| folder.join(&default).display().to_string()),
    };
    let files = DocumentFiles {
        permissions: file("securePermissionsFile", format!("signed_PerftestPermissions{permissions}.xml")),
        authority: file("secureCertAuthority", "cacert.pem".into()),
        certificate: file("secureCertFile", format!("{role}.pem")),
        private_key: file("securePrivateKey", format!("{role}key.pem")),
        governance,
    };
    for (option, value) in files.files() {
        // The text of a document or a key on the command line would be seen by every user of the machine.
        if let Some(scheme) = ["data:", "pkcs11:"].into_iter().find(|scheme| value.starts_with(scheme)) {
            errors.push(format!("-{option} takes the name of a file, not a text with {scheme}"));
        }
    }
    Some(files)
}

/// As RTI Perftest did until version 4.0.
fn governance_of_switches(options: &ParsedOptions) -> String {
    let both = options.has("secureEncryptBoth");
    let (data, submessages) = (both || options.has("secureEncryptData"), both || options.has("secureEncryptSM"));
    let discovery = if options.has("secureEncryptDiscovery") { "Discovery" } else { "" };
    let sign = if options.has("secureSign") { "Sign" } else { "" };
    let encrypt = match (data, submessages) {
        (true, true) => "EncryptBoth",
        (true, false) => "EncryptData",
        (false, true) => "EncryptSubmessage",
        (false, false) => "",
    };
    format!("signed_PerftestGovernance_{discovery}{sign}{encrypt}.xml")
}

impl DocumentFiles {
    /// Each file with the option that names it.
    #[must_use]
    pub fn files(&self) -> [(&'static str, &str); 5] {
        [
            ("secureGovernanceFile", &self.governance),
            ("securePermissionsFile", &self.permissions),
            ("secureCertAuthority", &self.authority),
            ("secureCertFile", &self.certificate),
            ("securePrivateKey", &self.private_key),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Invocation, parse};
    use crate::plan::{TestPlan, resolve, resolve_both};

    fn options(line: &str) -> ParsedOptions {
        let words: Vec<_> = line.split_whitespace().collect();
        let Ok(Invocation::Run(options)) = parse(&words) else { panic!("{line}") };
        options
    }

    fn plan(line: &str) -> TestPlan {
        resolve(&options(line)).unwrap()
    }

    fn paths(plan: &TestPlan) -> Vec<String> {
        plan.security
            .as_ref()
            .unwrap()
            .documents
            .as_ref()
            .unwrap()
            .files()
            .iter()
            .map(|(_, path)| (*path).to_owned())
            .collect()
    }

    #[test]
    fn participant_without_an_option_of_security_is_plain() {
        assert_eq!(plan("-pub").security, None);
    }

    #[test]
    fn files_that_no_option_names_are_beside_the_governance_document_and_differ_by_role() {
        let publisher = plan("-pub -secureGovernanceFile a/b/signed_PerftestGovernance_RTPSSign.xml");
        assert_eq!(
            paths(&publisher),
            [
                "a/b/signed_PerftestGovernance_RTPSSign.xml",
                "a/b/signed_PerftestPermissionsPub.xml",
                "a/b/cacert.pem",
                "a/b/pub.pem",
                "a/b/pubkey.pem"
            ]
        );
        let security = publisher.security.unwrap();
        assert_eq!((security.cipher, security.debug), (Cipher::Aes256, 1));
        let subscriber = plan("-sub -secureGovernanceFile g.xml -secureEncryptionAlgorithm aes-128-gcm -secureDebug 7");
        assert_eq!(
            paths(&subscriber),
            ["g.xml", "signed_PerftestPermissionsSub.xml", "cacert.pem", "sub.pem", "subkey.pem"]
        );
        let security = subscriber.security.unwrap();
        assert_eq!((security.cipher, security.debug), (Cipher::Aes128, 7));
        let named = plan(
            "-sub -secureGovernanceFile a/g.xml -securePermissionsFile p.xml -secureCertAuthority ca.pem \
             -secureCertFile c.pem -securePrivateKey k.pem",
        );
        assert_eq!(paths(&named), ["a/g.xml", "p.xml", "ca.pem", "c.pem", "k.pem"]);
        let [publisher, subscriber] =
            resolve_both(&options("-sameProcess -secureGovernanceFile g.xml")).unwrap().unwrap();
        assert_eq!((&*paths(&publisher)[3], &*paths(&subscriber)[3]), ("pub.pem", "sub.pem"));
    }

    #[test]
    fn old_switches_choose_the_governance_document() {
        for (switches, name) in [
            ("-secureSign", "Sign"),
            ("-secureEncryptData", "EncryptData"),
            ("-secureEncryptSM", "EncryptSubmessage"),
            ("-secureEncryptBoth", "EncryptBoth"),
            ("-secureEncryptData -secureEncryptSM", "EncryptBoth"),
            ("-secureEncryptDiscovery", "Discovery"),
            ("-secureEncryptDiscovery -secureSign -secureEncryptBoth", "DiscoverySignEncryptBoth"),
            ("-secureEncryptDiscovery -secureEncryptSM", "DiscoveryEncryptSubmessage"),
            ("-secureSign -secureEncryptData", "SignEncryptData"),
        ] {
            let plan = plan(&format!("-pub {switches}"));
            let expected = format!("./resource/secure/signed_PerftestGovernance_{name}.xml");
            assert_eq!(paths(&plan)[..1], [expected], "{switches}");
            assert_eq!(paths(&plan)[3], "./resource/secure/pub.pem");
        }
        let both = plan("-pub -secureSign -secureGovernanceFile g.xml");
        assert_eq!(paths(&both)[0], "g.xml");
        assert!(both.notes.iter().any(|note| note.contains("-secureSign has no effect")), "{:?}", both.notes);
    }

    #[test]
    fn option_without_governance_and_text_in_place_of_a_file_are_refused() {
        let errors = |line: &str| resolve(&options(line)).unwrap_err().lines;
        let needs = "-secureCertFile needs -secureGovernanceFile, which names the signed governance document";
        assert_eq!(errors("-pub -secureCertFile c.pem"), [needs]);
        assert_eq!(
            errors("-pub -secureGovernanceFile g.xml -securePrivateKey data:,KEY"),
            ["-securePrivateKey takes the name of a file, not a text with data:"]
        );
    }

    #[test]
    fn pre_shared_key_has_the_cipher_and_protection_of_its_algorithm() {
        let key = |line: &str| plan(line).security.unwrap().pre_shared.unwrap();
        let light = plan("-pub -lightWeightSecurity -securePSK data:,1:secret").security.unwrap();
        assert_eq!(light.documents, None);
        for (algorithm, cipher, signs) in [
            ("", Cipher::Aes256, false),
            ("-securePSKAlgorithm AES256+GCM", Cipher::Aes256, false),
            ("-securePSKAlgorithm AES128+GCM", Cipher::Aes128, false),
            ("-securePSKAlgorithm AES128+GMAC", Cipher::Aes128, true),
            ("-securePSKAlgorithm AES256+GMAC", Cipher::Aes256, true),
        ] {
            let key = key(&format!("-sub -lightWeightSecurity -securePSK file:psk.txt {algorithm}"));
            assert_eq!((key.uri(), key.cipher, key.signs), ("file:psk.txt", cipher, signs), "{algorithm}");
        }
        let both = plan("-pub -secureGovernanceFile g.xml -securePSK data:,1:secret").security.unwrap();
        assert!(both.documents.is_some() && both.pre_shared.is_some());
        assert!(!format!("{both:?}").contains("secret"));
        let public = plan("-pub -lightWeightSecurity -securePSKAlgorithm AES128+GCM");
        assert_eq!(public.security.unwrap().pre_shared.unwrap().uri(), DEFAULT_PASSPHRASE);
        assert!(public.notes.iter().any(|note| note.contains("public")), "{:?}", public.notes);
    }

    #[test]
    fn options_of_other_plug_ins_are_accepted_with_a_note() {
        let plan = plan("-pub -secureGovernanceFile g.xml -secureEnableAAD -secureLibrary libnddssecurity.so");
        for name in ["-secureEnableAAD has no effect", "-secureLibrary has no effect"] {
            assert!(plan.notes.iter().any(|note| note.starts_with(name)), "{:?}", plan.notes);
        }
        let alone = resolve(&options("-pub -secureEnableAAD")).unwrap_err().lines;
        assert!(alone[0].starts_with("-secureEnableAAD needs -secureGovernanceFile"), "{alone:?}");
    }

    #[test]
    fn pre_shared_key_that_cannot_be_used_is_refused_without_its_text() {
        let errors = |line: &str| resolve(&options(line)).unwrap_err().lines.join("\n");
        let text = errors("-pub -lightWeightSecurity -securePSK hidden");
        assert!(text.contains("data:,<number>:<passphrase>") && !text.contains("hidden"), "{text}");
        assert!(errors("-pub -securePSK data:,1:x").contains("-secureGovernanceFile"));
        assert!(errors("-pub -securePSK data:,1:x").contains("or -lightWeightSecurity"));
        assert!(errors("-pub -lightWeightSecurity").contains("needs -securePSK"));
        let both = errors("-pub -lightWeightSecurity -securePSK data:,1:x -secureGovernanceFile g.xml -secureSign");
        assert!(both.contains("-secureGovernanceFile cannot go") && both.contains("-secureSign cannot go"), "{both}");
    }
}
