//! Test identities: authorities, certificates, keys and signed documents of a publisher and a subscriber, under the
//! file names of RTI Perftest.

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use peregrine_security::WallTime;
use peregrine_security::documents::Effect;
use peregrine_security::issue::{
    Attribute, Authority, GrantText, IssueError, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName, Terms,
};
use peregrine_security::secret::Secret;

use super::governances::{DOMAINS, GovernanceSpec};
use super::{PERMISSIONS_AUTHORITY, now};
use crate::error::Error;

/// Seconds by which the validity begins in the past: clocks of other hosts may be behind.
const BEFORE: i64 = 24 * 3600;
/// Mode of files with keys: the owner only.
const SECRET_MODE: u32 = 0o600;
const PUBLIC_MODE: u32 = 0o644;

/// A participant of a test identity.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    /// Name of its certificate without the ending: `pub` or `sub`.
    pub(crate) name: &'static str,
    /// The end of the name of its permissions document: `Pub` or `Sub`.
    pub(crate) document: &'static str,
    /// Patterns of topics to write.
    pub(crate) publish: Vec<String>,
    /// Patterns of topics to read.
    pub(crate) subscribe: Vec<String>,
}

/// Settings of a test identity.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Issue {
    pub(crate) keys: KeyChoice,
    /// Whether one authority issues certificates and documents.
    pub(crate) one_authority: bool,
    /// Validity from now.
    pub(crate) days: u32,
}

/// A file to write.
#[derive(Debug)]
pub(crate) struct IssuedFile {
    pub(crate) name: String,
    octets: Octets,
}

#[derive(Debug)]
enum Octets {
    Public(Vec<u8>),
    Secret(Secret),
}

/// The files of a test identity.
///
/// # Errors
/// The library made no key or signature.
pub(crate) fn issue(
    settings: Issue,
    members: &[Member],
    governances: &[GovernanceSpec],
) -> Result<Vec<IssuedFile>, IssueError> {
    let from = now().0.saturating_sub(BEFORE);
    let until = now().0.saturating_add(i64::from(settings.days) * 24 * 3600);
    let terms = || Terms { serial: serial(), from: WallTime(from), until: WallTime(until) };
    let identities = Authority::self_signed(&name("Identity CA"), IssuedKey::generate(settings.keys)?, terms())?;
    let own;
    let documents = if settings.one_authority {
        &identities
    } else {
        own = Authority::self_signed(&name("Permissions CA"), IssuedKey::generate(settings.keys)?, terms())?;
        &own
    };
    let public = |name: String, octets: Vec<u8>| IssuedFile { name, octets: Octets::Public(octets) };
    let pem = |authority: &Authority| Authority::to_pem(authority.certificate()).into_bytes();
    let mut files = vec![public("cacert.pem".into(), pem(&identities))];
    if !settings.one_authority {
        files.push(public(PERMISSIONS_AUTHORITY.into(), pem(documents)));
    }
    for member in members {
        let key = IssuedKey::generate(settings.keys)?;
        let certificate = identities.issue(&name(member.name), &key, terms())?;
        let grant = GrantText {
            name: format!("Perftest{}", member.document),
            subject: certificate.subject().to_string(),
            from: WallTime(from),
            until: WallTime(until),
            rules: vec![RuleText {
                effect: Effect::Allow,
                domains: DOMAINS,
                publish: member.publish.clone(),
                subscribe: member.subscribe.clone(),
                partitions: Vec::new(),
            }],
            default: Effect::Deny,
        };
        let permissions = PermissionsText { grants: vec![grant] }.to_xml();
        files.push(public(format!("{}.pem", member.name), Authority::to_pem(&certificate).into_bytes()));
        let secret = Secret::copy_of(key.pem().expose());
        files.push(IssuedFile { name: format!("{}key.pem", member.name), octets: Octets::Secret(secret) });
        let document = format!("signed_PerftestPermissions{}.xml", member.document);
        files.push(public(document, documents.sign_document(&permissions)?));
    }
    for governance in governances {
        files.push(public(governance.file_name(), documents.sign_document(&governance.to_xml())?));
    }
    Ok(files)
}

/// The publisher and the subscriber of RTI Perftest, with its topics.
pub(crate) fn members() -> [Member; 2] {
    let topics = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    [
        Member {
            name: "pub",
            document: "Pub",
            publish: topics(&["Throughput", "Announcement"]),
            subscribe: topics(&["Latency", "Announcement"]),
        },
        Member {
            name: "sub",
            document: "Sub",
            publish: topics(&["Latency", "Announcement"]),
            subscribe: topics(&["Throughput", "Announcement"]),
        },
    ]
}

/// A number that no other certificate has. It need not be secret.
fn serial() -> [u8; 16] {
    let half = || RandomState::new().build_hasher().finish().to_be_bytes();
    let mut serial = [0; 16];
    for (octet, random) in serial.iter_mut().zip(half().into_iter().chain(half())) {
        *octet = random;
    }
    serial
}

fn name(common_name: &str) -> SubjectName {
    SubjectName(vec![
        (Attribute::Organization, "Peregrine Perftest".into()),
        (Attribute::CommonName, common_name.into()),
    ])
}

/// Writes the files. Keys are readable for their owner only.
///
/// # Errors
/// A file exists already and `replace` is false: no file is written then. Or the system refuses.
pub(crate) fn write(folder: &Path, files: &[IssuedFile], replace: bool) -> Result<(), Error> {
    let failed = |path: &Path, error: io::Error| Error::Setup(format!("{}: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for file in files {
        let path = folder.join(&file.name);
        match fs::symlink_metadata(&path) {
            Ok(_) if !replace => {
                let text = "it exists already; nothing was written. To replace all files: --force";
                return Err(failed(&path, io::Error::other(text)));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(&path, error)),
            _ => {}
        }
    }
    for file in files {
        let path = folder.join(&file.name);
        file.write(&path).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

impl IssuedFile {
    /// The text of the file, which may be a private key. Files are ASCII, so that this makes no copy.
    pub(super) fn text(&self) -> Cow<'_, str> {
        let octets = match &self.octets {
            Octets::Public(octets) => octets.as_slice(),
            Octets::Secret(secret) => secret.expose(),
        };
        String::from_utf8_lossy(octets)
    }

    /// Replaces the file. The mode of an old one must not remain.
    fn write(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let (mode, octets) = match &self.octets {
            Octets::Public(octets) => (PUBLIC_MODE, octets.as_slice()),
            Octets::Secret(secret) => (SECRET_MODE, secret.expose()),
        };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
        file.write_all(octets)
    }
}
