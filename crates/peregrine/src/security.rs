//! DDS Security: the documents, certificate and key of a participant.
//!
//! ```no_run
//! use peregrine::DomainParticipant;
//! use peregrine::security::SecurityConfig;
//!
//! let security = SecurityConfig::new()
//!     .identity_ca("file:identity_ca.cert.pem")
//!     .identity_certificate("file:robot.cert.pem")
//!     .private_key("file:robot.key.pem")
//!     .permissions_ca("file:permissions_ca.cert.pem")
//!     .governance("file:governance.p7s")
//!     .permissions("file:permissions.p7s");
//! let participant = DomainParticipant::builder(0).security(security).build()?;
//! # Ok::<(), peregrine::Error>(())
//! ```

use std::fmt;

use peregrine_rtps::id::{DomainId, GuidPrefix};
use peregrine_security::WallTime;
use peregrine_security::documents::PartitionMatching;
pub use peregrine_security::documents::{Denial, Document};
use peregrine_security::identity::{Certificate, PrivateKey, PrivateKeyError, RevocationList, TrustAnchors};
use peregrine_security::secret::Secret;
pub use peregrine_security::session::SecurityEvent;
use peregrine_security::session::{Credential, CredentialParts, Domain};

pub use crate::error::{SecurityError, SecurityPart};

/// The longest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The documents, certificate and key of a participant.
///
/// Each is a URI as in DDS Security 1.2 §10.3.1: `file:` and a path, or `data:,` and the text itself. A text without
/// one of these schemes is a path. Keys in hardware (`pkcs11:`) are not supported.
#[derive(Clone, Default)]
pub struct SecurityConfig {
    identity_ca: String,
    identity_certificate: String,
    private_key: String,
    password: Option<Secret>,
    permissions_ca: String,
    governance: String,
    permissions: String,
    revocations: Option<String>,
}

impl SecurityConfig {
    /// Without parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The certificate of the authority that has signed the certificates of participants, in PEM.
    #[must_use]
    pub fn identity_ca(mut self, uri: impl Into<String>) -> Self {
        self.identity_ca = uri.into();
        self
    }

    /// The certificate of the participant, in PEM; certificates of intermediate authorities may follow.
    #[must_use]
    pub fn identity_certificate(mut self, uri: impl Into<String>) -> Self {
        self.identity_certificate = uri.into();
        self
    }

    /// The private key of the certificate, in PEM.
    #[must_use]
    pub fn private_key(mut self, uri: impl Into<String>) -> Self {
        self.private_key = uri.into();
        self
    }

    /// The password of the private key.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(Secret::copy_of(password.as_bytes()));
        self
    }

    /// The certificate of the authority that has signed the governance and the permissions, in PEM.
    #[must_use]
    pub fn permissions_ca(mut self, uri: impl Into<String>) -> Self {
        self.permissions_ca = uri.into();
        self
    }

    /// The signed governance document of the domain (S/MIME).
    #[must_use]
    pub fn governance(mut self, uri: impl Into<String>) -> Self {
        self.governance = uri.into();
        self
    }

    /// The signed permissions document of the participant (S/MIME).
    #[must_use]
    pub fn permissions(mut self, uri: impl Into<String>) -> Self {
        self.permissions = uri.into();
        self
    }

    /// Revoked certificates of participants, in PEM.
    #[must_use]
    pub fn revocations(mut self, uri: impl Into<String>) -> Self {
        self.revocations = Some(uri.into());
        self
    }

    /// Reads and verifies all parts.
    pub(crate) fn load(
        &self,
        domain: DomainId,
        tag: &str,
        candidate: GuidPrefix,
        now: WallTime,
    ) -> Result<Credential, SecurityError> {
        use SecurityPart as Part;
        let authorities = |part, uri: &str| certificates(part, uri);
        let revocations = match &self.revocations {
            None => Vec::new(),
            Some(uri) => text(Part::Revocations, uri).and_then(|(text, path)| {
                RevocationList::from_pem(&text).map_err(|error| malformed(Part::Revocations, path, &error))
            })?,
        };
        let (key, path) = text(Part::PrivateKey, &self.private_key)?;
        let key = PrivateKey::from_pem(&key, self.password.as_ref())
            .map_err(|error: PrivateKeyError| malformed(Part::PrivateKey, path, &error))?;
        let identity_authorities =
            TrustAnchors { revocations, ..TrustAnchors::from_list(authorities(Part::IdentityCa, &self.identity_ca)?) };
        let parts = CredentialParts {
            certificates: certificates(Part::IdentityCertificate, &self.identity_certificate)?,
            key,
            identity_authorities,
            permissions_authorities: authorities(Part::PermissionsCa, &self.permissions_ca)?,
            governance: bytes(Part::Governance, &self.governance)?.0,
            permissions: bytes(Part::Permissions, &self.permissions)?.0,
            domain: Domain { id: domain.0, tag: tag.to_owned() },
            matching: PartitionMatching::default(),
            candidate,
        };
        Credential::new(parts, now).map_err(SecurityError::Credential)
    }
}

fn certificates(part: SecurityPart, uri: &str) -> Result<Vec<Certificate>, SecurityError> {
    let (text, path) = text(part, uri)?;
    Certificate::from_pem(&text).map_err(|error| malformed(part, path, &error))
}

fn malformed(part: SecurityPart, path: Option<String>, fault: &dyn fmt::Display) -> SecurityError {
    SecurityError::Malformed { part, path, fault: fault.to_string() }
}

fn text(part: SecurityPart, uri: &str) -> Result<(String, Option<String>), SecurityError> {
    let (bytes, path) = bytes(part, uri)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((text, path)),
        Err(_) => Err(malformed(part, path, &"it is not text, as PEM is; convert DER with `openssl x509 -inform der`")),
    }
}

/// The bytes of a part, and the path if it is a file.
fn bytes(part: SecurityPart, uri: &str) -> Result<(Vec<u8>, Option<String>), SecurityError> {
    if uri.is_empty() {
        return Err(SecurityError::Missing(part));
    }
    if let Some(text) = uri.strip_prefix("data:,") {
        return Ok((text.as_bytes().to_vec(), None));
    }
    for scheme in ["pkcs11:", "data:"] {
        if uri.starts_with(scheme) {
            return Err(SecurityError::Scheme { part, scheme: scheme.to_owned() });
        }
    }
    let path = uri.strip_prefix("file:").unwrap_or(uri);
    // Some implementations write `file://` before the path.
    let path = path.strip_prefix("//").unwrap_or(path).to_owned();
    let fault = |error| SecurityError::File { part, path: path.clone(), error };
    let len = std::fs::metadata(&path).map_err(fault)?.len();
    if len > FILE_BYTES_MAX {
        let text = format!("it has {len} bytes, more than {FILE_BYTES_MAX}");
        return Err(malformed(part, Some(path), &text));
    }
    std::fs::read(&path).map(|bytes| (bytes, Some(path.clone()))).map_err(fault)
}

impl fmt::Debug for SecurityConfig {
    /// Without the key, which `data:` would show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecurityConfig").field("governance", &shown(&self.governance)).finish_non_exhaustive()
    }
}

fn shown(uri: &str) -> &str {
    if uri.starts_with("data:") { "data:" } else { uri }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_without_value_or_with_unknown_scheme_is_named_in_the_error() {
        let error = bytes(SecurityPart::Governance, "").unwrap_err();
        assert_eq!(error.to_string(), "security: no governance document is stated");
        let error = bytes(SecurityPart::PrivateKey, "pkcs11:object=key").unwrap_err();
        assert!(error.to_string().contains("private key begins with `pkcs11:`"), "{error}");
        let error = bytes(SecurityPart::IdentityCa, "file:/nowhere/ca.pem").unwrap_err();
        assert!(error.to_string().contains("identity CA cannot be read from /nowhere/ca.pem"), "{error}");
    }

    #[test]
    fn data_uri_is_the_text_itself_and_paths_have_three_forms() {
        assert_eq!(bytes(SecurityPart::Permissions, "data:,a,b:c").unwrap().0, b"a,b:c");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let plain = bytes(SecurityPart::Permissions, path).unwrap();
        assert_eq!(plain, (std::fs::read(path).unwrap(), Some(path.to_owned())));
        for scheme in ["file:", "file://"] {
            assert_eq!(bytes(SecurityPart::Permissions, &format!("{scheme}{path}")).unwrap(), plain);
        }
    }

    #[test]
    fn debug_output_contains_no_key_and_no_password() {
        let config = SecurityConfig::new().private_key("data:,SECRET").password("SECRET").governance("data:,SECRET");
        assert!(!format!("{config:?} {config:#?}").contains("SECRET"));
    }
}
