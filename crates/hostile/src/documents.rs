//! The documents of DDS Security of victim and honest peer, made anew for each run of the program.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use peregrine::ParticipantBuilder;
use peregrine::security::SecurityConfig;
use peregrine_rtps::protection::ProtectionKind::{Encrypt, Sign};
use peregrine_security::WallTime;
use peregrine_security::documents::Effect;
use peregrine_security::issue::{
    Authority, DomainText, GovernanceText, GrantText, IssuedKey, KeyChoice, PermissionsText, RuleText, SubjectName,
    Terms, TopicText,
};

use crate::conditions::TAG_START;

const ORGANIZATION: &str = "hostile";
/// The processes with a certificate, which are also the names of their folders.
const ROLES: [&str; 2] = ["victim", "peer"];
/// How long before and after now the documents are valid.
const VALID_SECONDS: i64 = 86_400;

/// A folder with the documents of each role in a folder of its own. The drop removes it.
pub(crate) struct Documents(PathBuf);

impl Documents {
    /// Makes two authorities, and a certificate and documents for each role.
    pub(crate) fn issue(domain: u32) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hostile-documents-{}-{number}", std::process::id()));
        make_folder(&path)?;
        // Made before the files, so that a failure removes what is there.
        let documents = Self(path);
        let domains = DomainText { first: domain, last: domain };
        let (identities, signer) = (authority("Identities", 1)?, authority("Documents", 2)?);
        for (role, serial) in ROLES.into_iter().zip(10..) {
            documents.issue_for(role, serial, domains, &identities, &signer)?;
        }
        Ok(documents)
    }

    /// The folder of which a role gets the one with its name.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    fn issue_for(
        &self,
        role: &str,
        serial: u8,
        domains: DomainText,
        identities: &Authority,
        signer: &Authority,
    ) -> Result<()> {
        let key = IssuedKey::generate(KeyChoice::P256)?;
        let certificate = identities.issue(&SubjectName::new(ORGANIZATION, role), &key, terms(serial)?)?;
        let governance = with_tags(&governance(domains));
        let permissions = with_tags(&permissions(role, certificate.subject().to_string(), domains)?);
        let folder = self.0.join(role);
        make_folder(&folder)?;
        for (file, bytes) in [
            ("identity_ca.pem", Authority::to_pem(identities.certificate()).as_bytes()),
            ("permissions_ca.pem", Authority::to_pem(signer.certificate()).as_bytes()),
            ("identity.pem", Authority::to_pem(&certificate).as_bytes()),
            ("identity.key", key.pem().expose()),
            ("governance.p7s", &signer.sign_document(&governance)?),
            ("permissions.p7s", &signer.sign_document(&permissions)?),
        ] {
            let path = folder.join(file);
            fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

impl Drop for Documents {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The participant with the documents of a role in this folder.
pub(crate) fn secured(builder: ParticipantBuilder, folder: &Path) -> Result<ParticipantBuilder> {
    let file = |name: &str| format!("file:{}", folder.join(name).display());
    let config = SecurityConfig::new()
        .identity_ca(file("identity_ca.pem"))
        .identity_certificate(file("identity.pem"))
        .private_key(file("identity.key"))
        .permissions_ca(file("permissions_ca.pem"))
        .governance(file("governance.p7s"))
        .permissions(file("permissions.p7s"));
    Ok(builder.security(config))
}

/// An authority that issues certificates and signs documents.
pub(crate) fn authority(name: &str, serial: u8) -> Result<Authority> {
    let key = IssuedKey::generate(KeyChoice::P256)?;
    Ok(Authority::self_signed(&SubjectName::new(ORGANIZATION, name), key, terms(serial)?)?)
}

pub(crate) fn terms(serial: u8) -> Result<Terms> {
    Ok(Terms { serial: [serial; 16], from: after(-VALID_SECONDS)?, until: after(VALID_SECONDS)? })
}

fn after(seconds: i64) -> Result<WallTime> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    Ok(WallTime(i64::try_from(now.as_secs())?.saturating_add(seconds)))
}

fn make_folder(path: &Path) -> Result<()> {
    let made: io::Result<()> = DirBuilder::new().mode(0o700).create(path);
    made.with_context(|| format!("cannot make the folder {}", path.display()))
}

/// A document that holds for the domain tags of all runs, too.
fn with_tags(xml: &str) -> String {
    xml.replace("</domains>", &format!("<tag_expression>{TAG_START}*</tag_expression></domains>"))
}

/// No participant without a certificate takes part, and everything is encrypted but messages, which are signed.
fn governance(domains: DomainText) -> String {
    let topic = TopicText {
        topic: "*".to_owned(),
        enable_discovery_protection: true,
        enable_liveliness_protection: true,
        enable_read_access_control: true,
        enable_write_access_control: true,
        submessages: Encrypt,
        payloads: Encrypt,
    };
    let governance = GovernanceText {
        domains,
        allow_unauthenticated_participants: false,
        enable_join_access_control: true,
        discovery: Encrypt,
        liveliness: Encrypt,
        messages: Sign,
        topics: vec![topic],
    };
    governance.to_xml()
}

fn permissions(role: &str, subject: String, domains: DomainText) -> Result<String> {
    let rule = RuleText {
        effect: Effect::Allow,
        domains,
        publish: vec!["*".to_owned()],
        subscribe: vec!["*".to_owned()],
        partitions: vec!["*".to_owned()],
    };
    let grant = GrantText {
        name: role.to_owned(),
        subject,
        from: after(-VALID_SECONDS)?,
        until: after(VALID_SECONDS)?,
        rules: vec![rule],
        default: Effect::Deny,
    };
    Ok(PermissionsText { grants: vec![grant] }.to_xml())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folder_is_for_its_user_only_and_goes_with_the_drop() {
        let documents = Documents::issue(7).unwrap();
        let folder = documents.folder().to_owned();
        let files = |role: &str| fs::read_dir(folder.join(role)).unwrap().count();
        assert_eq!(ROLES.map(files), [6, 6]);
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o077, 0);
        drop(documents);
        assert!(!folder.exists());
    }
}
