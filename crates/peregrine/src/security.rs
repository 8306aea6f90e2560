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

mod log;
pub mod plugins;

use std::fmt;

use peregrine_rtps::id::{DomainId, GuidPrefix};
pub use peregrine_rtps::participant::{AnnouncedParts, MessageRefusal};
pub use peregrine_rtps::protection::ProtectionKind;
use peregrine_security::WallTime;
use peregrine_security::check::{File, Files};
pub use peregrine_security::crypto::KeyLength;
use peregrine_security::crypto::{Passphrase, Passphrases};
use peregrine_security::documents::PartitionMatching;
pub use peregrine_security::documents::{Denial, Document};
use peregrine_security::identity::{Certificate, PrivateKey, PrivateKeyError, RevocationList, TrustAnchors};
use peregrine_security::secret::Secret;
use peregrine_security::session::{Credential, CredentialParts, Domain, Plugins, SessionConfig};
pub use peregrine_security::session::{RenewalCause, SecurityEvent};

pub use log::{
    BuiltinLoggingTypeV2, LogCounters, LogLevel, LogOptions, LogTime, LoggingLevel, NameValuePair, SecurityLog,
    UnknownLogLevel,
};

use crate::driver::base::clock::wall;
use crate::error::{Argument, BadParameter, Unit};
pub use crate::error::{SecurityError, SecurityPart};

/// The results of [`SecurityConfig::check`].
pub mod check {
    pub use peregrine_security::check::{Finding, Report, Severity};
    pub use peregrine_security::documents::Position;
}

/// The longest file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

const NOT_TEXT: &str = "it is not text, as PEM is; convert DER with `openssl x509 -inform der`";

/// The documents, certificate and key of a participant.
///
/// Each is a URI as in DDS Security 1.2 §10.3.1: `file:` and a path, or `data:,` and the text itself. A text without
/// one of these schemes is a path. Keys in hardware (`pkcs11:`) are not supported.
#[derive(Clone)]
pub struct SecurityConfig {
    identity_ca: String,
    identity_certificate: String,
    /// A URI, which may be the key itself.
    private_key: Secret,
    password: Option<Secret>,
    permissions_ca: String,
    governance: String,
    permissions: String,
    revocations: Option<String>,
    /// A URI, which may be the passphrase itself.
    passphrase: Option<Secret>,
    extra_passphrases: Option<Secret>,
    pre_shared_protection: ProtectionKind,
    key_length: KeyLength,
    /// `None`: as for other keys.
    pre_shared_key_length: Option<KeyLength>,
    blocks_per_key: Option<u64>,
    renew_after_departure: bool,
    trusts_host: bool,
    plugins: Plugins,
}

/// The protection of messages that no key of a participant protects.
pub(crate) struct PreShared {
    pub(crate) passphrases: Passphrases,
    pub(crate) key_length: KeyLength,
    pub(crate) kind: ProtectionKind,
}

impl SecurityConfig {
    /// Without parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a part by the name of its property (DDS Security 1.2 §10.3.1, §10.4.1, §10.5.1, §10.8.1), as in
    /// `dds.sec.auth.identity_ca`. [`LogOptions::property`] takes those that begin with `dds.sec.log.`.
    ///
    /// # Errors
    /// The property is not known, or its value is not one of those that the standard has.
    pub fn property(self, name: &str, value: &str) -> Result<Self, SecurityError> {
        Ok(match name {
            "dds.sec.auth.identity_ca" => self.identity_ca(value),
            "dds.sec.auth.identity_certificate" => self.identity_certificate(value),
            "dds.sec.auth.private_key" => self.private_key(value),
            "dds.sec.auth.password" => self.password(value),
            "dds.sec.access.permissions_ca" => self.permissions_ca(value),
            "dds.sec.access.governance" => self.governance(value),
            "dds.sec.access.permissions" => self.permissions(value),
            "dds.sec.access.rtps_psk_protection_kind" => self.pre_shared_protection(match value {
                "NONE" => ProtectionKind::None,
                "SIGN" => ProtectionKind::Sign,
                "ENCRYPT" => ProtectionKind::Encrypt,
                _ => return Err(malformed(SecurityPart::PreSharedProtection, None, &"use NONE, SIGN or ENCRYPT")),
            }),
            "dds.sec.crypto.rtps_psk_secret_passphrase" => self.pre_shared_passphrase(value),
            "dds.sec.crypto.rtps_psk_secret_passphrase_extra" => self.pre_shared_passphrase_extra(value),
            "dds.sec.crypto.rtps_psk_symmetric_cipher_algorithm" => {
                let pre_shared_key_length = match value {
                    "AUTO" => None,
                    "AES128+GCM" | "AES128-GCM" => Some(KeyLength::Aes128),
                    "AES256+GCM" | "AES256-GCM" => Some(KeyLength::Aes256),
                    _ => {
                        let fault = &"use AUTO, AES128+GCM or AES256+GCM";
                        return Err(malformed(SecurityPart::PreSharedCipher, None, fault));
                    }
                };
                Self { pre_shared_key_length, ..self }
            }
            name if name.starts_with(log::PROPERTIES) => {
                return Err(malformed(SecurityPart::Log, None, &format_args!("LogOptions::property takes {name}")));
            }
            name => return Err(SecurityError::Property(name.to_owned())),
        })
    }

    /// The passphrase that all participants of the domain share, behind its number and a colon, as in
    /// `data:,5612:Open Sesame`, or a file with that text.
    ///
    /// With certificates and a governance whose `rtps_psk_protection_kind` is not NONE, a key derived from it protects
    /// the messages that no key of a participant protects, those before authentication among them. Without any other
    /// part, it protects all messages of the participant ([`Self::pre_shared_protection`]), which communicates with
    /// those that know the passphrase. Messages without this protection are dropped unread.
    ///
    /// A passphrase of few bits can be guessed from one recorded message: use at least 16 random words or characters.
    #[must_use]
    pub fn pre_shared_passphrase(mut self, uri: &str) -> Self {
        self.passphrase = Some(Secret::copy_of(uri.as_bytes()));
        self
    }

    /// Further passphrases with their numbers that are accepted from others, each in a line of its own.
    #[must_use]
    pub fn pre_shared_passphrase_extra(mut self, uri: &str) -> Self {
        self.extra_passphrases = Some(Secret::copy_of(uri.as_bytes()));
        self
    }

    /// Whether a participant that has only a passphrase encrypts its messages, signs them, or does neither; the default
    /// is [`ProtectionKind::Encrypt`]. Of other participants, the governance decides that.
    #[must_use]
    pub const fn pre_shared_protection(mut self, kind: ProtectionKind) -> Self {
        self.pre_shared_protection = kind;
        self
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
        self.private_key = Secret::from(uri.into().into_bytes());
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

    /// Lists of revoked certificates of participants, in PEM (RFC 5280 §5).
    /// [`DomainParticipant::set_revocations`](crate::DomainParticipant::set_revocations) replaces them later.
    #[must_use]
    pub fn revocations(mut self, uri: impl Into<String>) -> Self {
        self.revocations = Some(uri.into());
        self
    }

    /// Whether the participant trusts the processes of its user on this host. `false` without this call.
    ///
    /// Where both participants do, samples of topics whose `data_protection_kind` is NONE are delivered by shared
    /// memory, or by reference within the process, and not in protected messages, although the governance protects
    /// messages or submessages. Only authenticated participants with the permissions match, as without this call. A
    /// process of the same user could read and change the samples: see `SECURITY.md`. Not used by a participant
    /// without certificates.
    #[must_use]
    pub const fn trust_host(mut self, trusts_host: bool) -> Self {
        self.trusts_host = trusts_host;
        self
    }

    pub(crate) const fn trusts_host(&self) -> bool {
        self.trusts_host
    }

    /// Authentication, access control or cryptography of the application, in place of the built-in ones. Not used by a
    /// participant without certificates.
    #[must_use]
    pub fn plugins(mut self, plugins: Plugins) -> Self {
        self.plugins = plugins;
        self
    }

    pub(crate) const fn plugins_of(&self) -> &Plugins {
        &self.plugins
    }

    /// The passphrases, if a participant with these parts has no certificate.
    pub(crate) fn load_without_certificate(&self) -> Result<Option<PreShared>, SecurityError> {
        let parts =
            [&self.identity_ca, &self.identity_certificate, &self.permissions_ca, &self.governance, &self.permissions];
        if !self.private_key.is_empty() || parts.iter().any(|part| !part.is_empty()) {
            return Ok(None);
        }
        self.pre_shared()
    }

    fn pre_shared(&self) -> Result<Option<PreShared>, SecurityError> {
        let Some(primary) = &self.passphrase else { return Ok(None) };
        let key_length = self.pre_shared_key_length.unwrap_or(self.key_length);
        let passphrases = passphrases(primary, self.extra_passphrases.as_ref())?;
        let kind = match self.pre_shared_protection {
            kind @ (ProtectionKind::None | ProtectionKind::Sign | ProtectionKind::Encrypt) => kind,
            _ => {
                let fault = &"a shared key does not authenticate origins";
                return Err(malformed(SecurityPart::PreSharedProtection, None, fault));
            }
        };
        Ok(Some(PreShared { passphrases, key_length, kind }))
    }

    /// The length of the AES keys with which the participant protects what it sends: of its own keys, and of the
    /// pre-shared key unless the property `dds.sec.crypto.rtps_psk_symmetric_cipher_algorithm` states another one. 256
    /// bits without this call. Each message states its key, so that peers choose for themselves.
    #[must_use]
    pub fn key_length(mut self, length: KeyLength) -> Self {
        self.key_length = length;
        self
    }

    /// The number of AES blocks (16 bytes of samples, submessages or messages) after which the participant or an
    /// endpoint replaces the key by which it protects what it sends: its `master_sender_key` (DDS Security 1.2
    /// §10.5.2.1). At least 1; without this call, keys last as long as their sender, as session keys derived from them
    /// change after 2^32 blocks.
    ///
    /// The participant counts once a second, and replaces keys at most every 15 s, as
    /// [`DomainParticipant::renew_keys`](crate::DomainParticipant::renew_keys) does, so that a key may protect more
    /// blocks. [`SecurityEvent::KeysRenewed`] reports it. Not used by a participant without certificates.
    #[must_use]
    pub const fn blocks_per_key(mut self, blocks: u64) -> Self {
        self.blocks_per_key = Some(blocks);
        self
    }

    /// Whether the participant replaces the keys that a peer has when the peer leaves or its lease ends. `false`
    /// without this call: such a peer can then open what it records later. A peer that is no longer accepted causes
    /// the replacement in any case.
    ///
    /// All departures of 15 s cause one replacement: a message with keys for each matched endpoint of the peers that
    /// remain. The new keys are in use 2 s after they were sent. Not used by a participant without certificates.
    #[must_use]
    pub const fn renew_after_departure(mut self, renews: bool) -> Self {
        self.renew_after_departure = renews;
        self
    }

    /// The settings of the session with peers.
    pub(crate) fn session(&self) -> Result<SessionConfig, BadParameter> {
        if self.blocks_per_key == Some(0) {
            let (argument, value, min, max, unit) = (Argument::BlocksPerKey, 0, 1, u64::MAX, Unit::None);
            return Err(BadParameter::OutOfRange { argument, value, min, max, unit });
        }
        let Self { blocks_per_key, renew_after_departure, .. } = *self;
        let mut config = SessionConfig { blocks_per_key, renew_after_departure, ..SessionConfig::default() };
        config.crypto.key_length = self.key_length;
        Ok(config)
    }

    /// Reads the certificates, the key and both documents, and states what a participant with them may do in a domain
    /// at present, and the faults of each part, also if several have faults. Passphrases, lengths of keys and plug-ins
    /// are not examined. The text of the [`Report`](check::Report) is one page, without secrets. No participant is
    /// made.
    ///
    /// ```no_run
    /// # let security = peregrine::security::SecurityConfig::new();
    /// let report = security.check(0, "")?;
    /// println!("{report}");
    /// if !report.is_usable() {
    ///     std::process::exit(1);
    /// }
    /// # Ok::<(), peregrine::security::SecurityError>(())
    /// ```
    ///
    /// # Errors
    /// A part is not stated or cannot be read. A participant without certificates has no documents to check.
    pub fn check(&self, domain: u32, domain_tag: &str) -> Result<check::Report, SecurityError> {
        use SecurityPart as Part;
        let read = |part: Part, uri: &str| {
            bytes(part, uri).map(|(octets, path)| (path.unwrap_or_else(|| part.to_string()), octets))
        };
        let identity_ca = read(Part::IdentityCa, &self.identity_ca)?;
        let certificate = read(Part::IdentityCertificate, &self.identity_certificate)?;
        let (key, key_path) = secret(Part::PrivateKey, &self.private_key)?;
        let permissions_ca = read(Part::PermissionsCa, &self.permissions_ca)?;
        let governance = read(Part::Governance, &self.governance)?;
        let permissions = read(Part::Permissions, &self.permissions)?;
        let revocations = self.revocations.as_deref().map(|uri| read(Part::Revocations, uri)).transpose()?;
        let key_name = key_path.unwrap_or_else(|| Part::PrivateKey.to_string());
        let files = Files {
            identity_authorities: file(&identity_ca),
            permissions_authorities: file(&permissions_ca),
            certificate: file(&certificate),
            key: File { name: &key_name, octets: key.expose() },
            governance: file(&governance),
            permissions: file(&permissions),
            revocations: revocations.as_ref().map(file),
            password: self.password.as_ref(),
        };
        Ok(peregrine_security::check::check(&files, domain, domain_tag, wall().into()))
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
            Some(uri) => revocation_lists(uri)?.0,
        };
        let (key, path) = secret(Part::PrivateKey, &self.private_key)?;
        let key = match std::str::from_utf8(key.expose()) {
            Ok(key) => PrivateKey::from_pem(key, self.password.as_ref())
                .map_err(|error: PrivateKeyError| malformed(Part::PrivateKey, path, &error))?,
            Err(_) => return Err(malformed(Part::PrivateKey, path, &NOT_TEXT)),
        };
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
        let credential = Credential::new(parts, now).map_err(SecurityError::Credential)?;
        if credential.rights().domain_rule().pre_shared.is_none() {
            return Ok(credential);
        }
        let PreShared { passphrases, key_length, .. } =
            self.pre_shared()?.ok_or(SecurityError::Missing(Part::Passphrase))?;
        Ok(credential.with_passphrases(passphrases, key_length))
    }
}

impl Default for SecurityConfig {
    fn default() -> Self {
        Self {
            identity_ca: String::new(),
            identity_certificate: String::new(),
            private_key: Secret::default(),
            password: None,
            permissions_ca: String::new(),
            governance: String::new(),
            permissions: String::new(),
            revocations: None,
            passphrase: None,
            extra_passphrases: None,
            pre_shared_protection: ProtectionKind::Encrypt,
            key_length: KeyLength::default(),
            pre_shared_key_length: None,
            blocks_per_key: None,
            renew_after_departure: false,
            trusts_host: false,
            plugins: Plugins::new(),
        }
    }
}

/// The passphrases at these URIs.
pub(crate) fn passphrases(primary: &Secret, extra: Option<&Secret>) -> Result<Passphrases, SecurityError> {
    let (primary, path) = secret(SecurityPart::Passphrase, primary)?;
    let extra = extra.map(|uri| secret(SecurityPart::ExtraPassphrases, uri)).transpose()?;
    let (extra, extra_path) = extra.unzip();
    let (primary, extra) = (primary.expose(), extra.as_ref().map_or(&[][..], Secret::expose));
    let primary = Passphrase::parse(primary).map_err(|fault| malformed(SecurityPart::Passphrase, path, &fault))?;
    let parsed = Passphrases::with_list(primary, extra);
    parsed.map_err(|fault| malformed(SecurityPart::ExtraPassphrases, extra_path.flatten(), &fault))
}

fn file((name, octets): &(String, Vec<u8>)) -> File<'_> {
    File { name, octets }
}

fn certificates(part: SecurityPart, uri: &str) -> Result<Vec<Certificate>, SecurityError> {
    let (text, path) = text(part, uri)?;
    Certificate::from_pem(&text).map_err(|error| malformed(part, path, &error))
}

/// The revocation lists at this URI, and the path if it is a file.
pub(crate) fn revocation_lists(uri: &str) -> Result<(Vec<RevocationList>, Option<String>), SecurityError> {
    let (text, path) = text(SecurityPart::Revocations, uri)?;
    match RevocationList::from_pem(&text) {
        Ok(lists) => Ok((lists, path)),
        Err(error) => Err(malformed(SecurityPart::Revocations, path, &error)),
    }
}

pub(crate) fn malformed(part: SecurityPart, path: Option<String>, fault: &dyn fmt::Display) -> SecurityError {
    SecurityError::Malformed { part, path, fault: fault.to_string() }
}

fn text(part: SecurityPart, uri: &str) -> Result<(String, Option<String>), SecurityError> {
    let (bytes, path) = bytes(part, uri)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok((text, path)),
        Err(_) => Err(malformed(part, path, &NOT_TEXT)),
    }
}

/// Like [`bytes`] for a secret.
fn secret(part: SecurityPart, uri: &Secret) -> Result<(Secret, Option<String>), SecurityError> {
    let uri = std::str::from_utf8(uri.expose()).map_err(|_| malformed(part, None, &"the URI is not text"))?;
    bytes(part, uri).map(|(bytes, path)| (Secret::from(bytes), path))
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
    fn passphrase_that_is_not_usable_is_named_in_the_error_without_its_text() {
        for (primary, extra, expected) in [
            ("data:,hidden", "", "passphrase of the pre-shared key is not usable"),
            ("data:,255:hidden", "", "255 is reserved"),
            ("file:/nowhere/psk", "", "passphrase of the pre-shared key cannot be read from /nowhere/psk"),
            ("data:,1:hidden", "data:,1:hidden too", "list of further passphrases"),
        ] {
            let config = SecurityConfig::new().pre_shared_passphrase(primary);
            let config = if extra.is_empty() { config } else { config.pre_shared_passphrase_extra(extra) };
            let error = config.load_without_certificate().map(drop).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("hidden"), "{error}");
        }
    }

    #[test]
    fn properties_of_the_standard_set_the_parts_of_their_names() {
        let set = |name: &str, value: &str| SecurityConfig::new().property(name, value);
        let loaded = set("dds.sec.crypto.rtps_psk_secret_passphrase", "data:,1:secret")
            .and_then(|config| config.property("dds.sec.crypto.rtps_psk_secret_passphrase_extra", "data:,2:other"))
            .and_then(|config| config.property("dds.sec.crypto.rtps_psk_symmetric_cipher_algorithm", "AES128+GCM"))
            .and_then(|config| config.property("dds.sec.access.rtps_psk_protection_kind", "SIGN"))
            .and_then(|config| config.load_without_certificate());
        let PreShared { passphrases, key_length, kind } = loaded.unwrap().unwrap();
        assert_eq!((passphrases.iter().count(), key_length, kind), (2, KeyLength::Aes128, ProtectionKind::Sign));
        assert_eq!(set("dds.sec.access.governance", "file:g").unwrap().governance, "file:g");
        assert_eq!(set("dds.sec.auth.identity_ca", "file:i").unwrap().identity_ca, "file:i");
        assert!(matches!(set("dds.sec.unknown", ""), Err(SecurityError::Property(name)) if name == "dds.sec.unknown"));
        let error = set("dds.sec.access.rtps_psk_protection_kind", "SOME").unwrap_err();
        assert!(error.to_string().contains("NONE, SIGN or ENCRYPT"), "{error}");
        let error = set("dds.sec.crypto.rtps_psk_symmetric_cipher_algorithm", "DES").unwrap_err().to_string();
        assert!(error.contains("cipher of the pre-shared key") && error.contains("AUTO, AES128+GCM"), "{error}");
        let error = set("dds.sec.log.plugin", "builtin.DDS_LogTopic").unwrap_err().to_string();
        assert!(error.contains("LogOptions"), "{error}");
    }

    #[test]
    fn stated_key_length_is_that_of_all_keys_unless_the_property_states_that_of_the_pre_shared_one() {
        use KeyLength::{Aes128, Aes256};
        let config = || SecurityConfig::new().pre_shared_passphrase("data:,1:secret");
        let lengths = |config: SecurityConfig| {
            let pre_shared = config.load_without_certificate().unwrap().unwrap();
            (config.session().unwrap().crypto.key_length, pre_shared.key_length)
        };
        assert_eq!(lengths(config()), (Aes256, Aes256));
        assert_eq!(lengths(config().key_length(Aes128)), (Aes128, Aes128));
        let with = |value| config().property("dds.sec.crypto.rtps_psk_symmetric_cipher_algorithm", value).unwrap();
        assert_eq!(lengths(with("AES128+GCM")), (Aes256, Aes128));
        assert_eq!(lengths(with("AES256-GCM").key_length(Aes128)), (Aes128, Aes256));
        assert_eq!(lengths(with("AUTO").key_length(Aes128)), (Aes128, Aes128));
    }

    #[test]
    fn key_that_would_last_no_block_is_an_error_that_names_the_setting() {
        let config = SecurityConfig::new();
        assert_eq!(config.session().unwrap().blocks_per_key, None);
        assert_eq!(config.clone().blocks_per_key(1).session().unwrap().blocks_per_key, Some(1));
        let error = config.blocks_per_key(0).session().unwrap_err();
        assert_eq!(error.to_string(), "blocks_per_key is 0, permitted is at least 1");
    }

    #[test]
    fn keys_are_renewed_after_expulsions_and_after_departures_where_that_is_stated() {
        let renews = |config: SecurityConfig| {
            let session = config.session().unwrap();
            (session.renew_after_expulsion, session.renew_after_departure)
        };
        assert_eq!(renews(SecurityConfig::new()), (true, false));
        assert_eq!(renews(SecurityConfig::new().renew_after_departure(true)), (true, true));
    }

    #[test]
    fn debug_output_contains_no_key_and_no_password() {
        let config = SecurityConfig::new().private_key("data:,SECRET").password("SECRET").governance("data:,SECRET");
        let config = config.pre_shared_passphrase("data:,1:SECRET").pre_shared_passphrase_extra("data:,2:SECRET");
        assert!(!format!("{config:?} {config:#?}").contains("SECRET"));
    }
}
