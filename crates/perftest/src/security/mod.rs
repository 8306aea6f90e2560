//! DDS Security: the files of a participant, test identities, and a check of such files.

mod governances;
mod identities;
mod inspection;
mod keys;
pub(crate) mod measured;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use peregrine::security::{KeyLength, ProtectionKind, SecurityConfig};
use peregrine_report::record::SecurityUse;
use peregrine_security::WallTime;
use peregrine_security::check::{self, Files, Finding, Severity, check};
use peregrine_security::documents::{Document, Governance, kind_name, open_signed};
use peregrine_security::identity::Certificate;
use peregrine_security::limits::LOCAL_DOCUMENT_BYTES;
use peregrine_security::secret::Secret;

pub use self::keys::{KeysCommand, run};
use crate::error::Error;
use crate::plan::{Cipher, DocumentFiles, PreSharedKey, SecurityPlan};
use crate::topic::Topic;

/// The authority of documents, beside the file of `-secureCertAuthority`. If it does not exist, that authority signs
/// documents, too, as in RTI Perftest.
const PERMISSIONS_AUTHORITY: &str = "permissions_cacert.pem";
/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The security of a participant, verified.
pub(crate) struct Loaded {
    pub(crate) config: SecurityConfig,
    pub(crate) used: SecurityUse,
    /// The file of the authority of documents; `None` without documents.
    pub(crate) permissions_authority: Option<String>,
}

/// Reads and verifies the files of a participant. The passphrase of a pre-shared key is verified when the participant
/// is created.
///
/// # Errors
/// A file cannot be used. The error is one line that names the file, the place in it, and the fault.
pub(crate) fn load(plan: &SecurityPlan, domain: u32) -> Result<Loaded, Error> {
    let mut loaded = match &plan.documents {
        Some(files) => load_documents(files, plan.cipher, domain)?,
        None => Loaded { config: SecurityConfig::new(), used: SecurityUse::default(), permissions_authority: None },
    };
    if let Some(key) = &plan.pre_shared {
        let kind = if key.signs { ProtectionKind::Sign } else { ProtectionKind::Encrypt };
        match &plan.documents {
            None => loaded.used = used_without_documents(key, kind),
            Some(files) if loaded.used.pre_shared == kind_name(ProtectionKind::None) => {
                return Err(Error::Setup(format!(
                    "-securePSK cannot go with {}: its rtps_psk_protection_kind is NONE, so the key would protect \
                     nothing; set that to SIGN or ENCRYPT, or use -lightWeightSecurity without documents",
                    files.governance
                )));
            }
            Some(_) => {}
        }
        let cipher = match key.cipher {
            Cipher::Aes128 => "AES128+GCM",
            Cipher::Aes256 => "AES256+GCM",
        };
        loaded.config = loaded
            .config
            .pre_shared_passphrase(key.uri())
            .pre_shared_protection(kind)
            .property("dds.sec.crypto.rtps_psk_symmetric_cipher_algorithm", cipher)
            .map_err(|error| Error::Setup(error.to_string()))?;
    }
    Ok(loaded)
}

fn used_without_documents(key: &PreSharedKey, kind: ProtectionKind) -> SecurityUse {
    let none = || kind_name(ProtectionKind::None).to_owned();
    SecurityUse {
        governance: String::new(),
        cipher: key.cipher.name().into(),
        pre_shared: kind_name(kind).to_owned(),
        messages: none(),
        submessages: none(),
        payloads: none(),
        discovery: none(),
        liveliness: none(),
    }
}

fn load_documents(plan: &DocumentFiles, cipher: Cipher, domain: u32) -> Result<Loaded, Error> {
    let [governance, permissions, authority, certificate, key] = plan.files().map(|(option, path)| {
        read(path).map_err(|error| Error::Setup(format!("-{option} {path}: {error}"))).map(|octets| (path, octets))
    });
    let (governance, permissions, authority) = (governance?, permissions?, authority?);
    let (certificate, key) = (certificate?, key?);
    let beside = Path::new(&plan.authority).with_file_name(PERMISSIONS_AUTHORITY).display().to_string();
    let permissions_authority = match read(&beside) {
        Ok(octets) => (beside.as_str(), octets),
        Err(error) if error.kind() == io::ErrorKind::NotFound => authority.clone(),
        Err(error) => return Err(Error::Setup(format!("{beside}: {error}"))),
    };
    let [identity_authorities, permissions_authorities, leaf, private_key, rules, rights] =
        [&authority, &permissions_authority, &certificate, &key, &governance, &permissions]
            .map(|(name, octets)| check::File { name, octets: octets.expose() });
    let files = Files {
        identity_authorities,
        permissions_authorities,
        certificate: leaf,
        key: private_key,
        governance: rules,
        permissions: rights,
        revocations: None,
        password: None,
    };
    let report = check(&files, domain, "", now());
    let mut faults = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    if let Some(first) = faults.next() {
        let more = match faults.count() {
            0 => String::new(),
            more => format!(" ({more} more; `perftest keys check` shows all)"),
        };
        return Err(Error::Setup(format!("{}{more}", place_and_fault(first))));
    }
    let used = used(plan, cipher, files.governance.octets, files.permissions_authorities.octets, domain)
        .ok_or_else(|| Error::Setup(format!("{}: no rule for domain {domain}", plan.governance)))?;
    let config = SecurityConfig::new()
        .identity_ca(format!("file:{}", plan.authority))
        .permissions_ca(format!("file:{}", permissions_authority.0))
        .identity_certificate(format!("file:{}", plan.certificate))
        .private_key(format!("file:{}", plan.private_key))
        .governance(format!("file:{}", plan.governance))
        .permissions(format!("file:{}", plan.permissions))
        .key_length(match cipher {
            Cipher::Aes128 => KeyLength::Aes128,
            Cipher::Aes256 => KeyLength::Aes256,
        });
    Ok(Loaded { config, used, permissions_authority: Some(permissions_authority.0.to_owned()) })
}

/// The protection of samples by a governance document; `None` if the document says nothing of the domain or the topic.
fn used(
    plan: &DocumentFiles,
    cipher: Cipher,
    governance: &[u8],
    authorities: &[u8],
    domain: u32,
) -> Option<SecurityUse> {
    let authorities = Certificate::from_pem(std::str::from_utf8(authorities).ok()?).ok()?;
    let text = open_signed(Document::Governance, governance, &authorities, LOCAL_DOCUMENT_BYTES).ok()?;
    let document = Governance::parse(&text).ok()?;
    let rule = document.domain_rule(domain, "")?;
    let topic = rule.topic_rule(&Topic::Throughput.to_string())?;
    let [messages, discovery, liveliness, submessages, payloads, pre_shared] =
        [rule.messages, rule.discovery, rule.liveliness, topic.submessages, topic.payloads, rule.pre_shared]
            .map(|kind| kind_name(kind).to_owned());
    Some(SecurityUse {
        governance: plan.governance.clone(),
        cipher: cipher.name().into(),
        pre_shared,
        messages,
        submessages,
        payloads,
        discovery,
        liveliness,
    })
}

/// A finding without its severity.
fn place_and_fault(finding: &Finding) -> String {
    let place = finding.at.map_or_else(String::new, |at| format!(":{at}"));
    format!("{}{place}: {}", finding.file, finding.what)
}

/// The present time of the calendar.
fn now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// A file of at most [`FILE_BYTES_MAX`], which may contain a key.
fn read(path: &str) -> io::Result<Secret> {
    let metadata = std::fs::metadata(path)?;
    // A directory or a pipe would be read otherwise.
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    // With room for the whole file and for the last, empty reading, no growth leaves a copy behind.
    let len = metadata.len().min(FILE_BYTES_MAX + 1) as usize;
    let mut octets = Vec::with_capacity(len + 64);
    let result = File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut octets);
    let octets = Secret::from(octets);
    if result? as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes")));
    }
    Ok(octets)
}

#[cfg(test)]
mod tests;
