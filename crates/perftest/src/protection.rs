//! The levels of protection of the benchmark of RTI's Security Plugins, and the documents of a measurement with one.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use peregrine_report::record::SecurityUse;
use serde::{Deserialize, Serialize};

use crate::cli::option::SecretText;
use crate::error::Error;

/// A level of protection: one governance document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// Participants are authenticated, and nothing is protected.
    Unprotected,
    /// Messages are signed.
    Sign,
    /// Messages are encrypted.
    Encrypt,
    /// Messages are signed with origin authentication, and payloads encrypted.
    SignOriginDataEncrypt,
    /// Messages are signed, submessages encrypted with origin authentication, and payloads encrypted.
    SignSubmessageEncryptOriginDataEncrypt,
    /// Messages are signed, and submessages encrypted.
    SignSubmessageEncrypt,
}

impl Protection {
    /// All levels, in the order of the benchmark.
    pub const ALL: [Self; 6] = [
        Self::Unprotected,
        Self::Sign,
        Self::Encrypt,
        Self::SignOriginDataEncrypt,
        Self::SignSubmessageEncryptOriginDataEncrypt,
        Self::SignSubmessageEncrypt,
    ];

    /// Name in plans and records.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::Unprotected => "none",
            Self::Sign => "rtps-sign",
            Self::Encrypt => "rtps-encrypt",
            Self::SignOriginDataEncrypt => "rtps-sign-origin-data-encrypt",
            Self::SignSubmessageEncryptOriginDataEncrypt => "rtps-sign-submessage-encrypt-origin-data-encrypt",
            Self::SignSubmessageEncrypt => "rtps-sign-submessage-encrypt",
        }
    }

    /// Name for readers.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unprotected => "security without protection",
            Self::Sign => "RTPS sign",
            Self::Encrypt => "RTPS encrypt",
            Self::SignOriginDataEncrypt => "RTPS sign with origin authentication, data encrypt",
            Self::SignSubmessageEncryptOriginDataEncrypt => {
                "RTPS sign, submessage encrypt with origin authentication, data encrypt"
            }
            Self::SignSubmessageEncrypt => "RTPS sign, submessage encrypt",
        }
    }

    /// Name for the legends of charts.
    #[must_use]
    pub const fn short_label(self) -> &'static str {
        match self {
            Self::Unprotected => "unprotected",
            Self::Sign => "sign",
            Self::Encrypt => "encrypt",
            Self::SignOriginDataEncrypt => "data enc.",
            Self::SignSubmessageEncryptOriginDataEncrypt => "all enc.",
            Self::SignSubmessageEncrypt => "sub. enc.",
        }
    }

    /// The end of the name of RTI Perftest's governance document.
    #[must_use]
    pub const fn document(self) -> &'static str {
        match self {
            Self::Unprotected => "",
            Self::Sign => "RTPSSign",
            Self::Encrypt => "RTPSEncrypt",
            Self::SignOriginDataEncrypt => "RTPSSignWithOrigAuthEncryptData",
            Self::SignSubmessageEncryptOriginDataEncrypt => "RTPSSignEncryptSubmessageWithOrigAuthEncryptData",
            Self::SignSubmessageEncrypt => "SignEncryptSubmessage",
        }
    }
}

/// The files of one side of a measurement, as text. The private key serves this measurement only.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Documents {
    pub(crate) identity_ca: String,
    pub(crate) permissions_ca: String,
    pub(crate) certificate: String,
    pub(crate) private_key: SecretText,
    pub(crate) governance: String,
    pub(crate) permissions: String,
    /// For the record.
    pub(crate) used: SecurityUse,
}

/// A folder with the documents of both sides, for the program of a peer. The drop removes it.
pub(crate) struct DocumentFolder(PathBuf);

impl DocumentFolder {
    /// Writes the documents below `pub` and `sub`, readable for this user only.
    ///
    /// # Errors
    /// The system refuses, or the path of temporary files contains a blank, which the line protocol of peers excludes.
    pub(crate) fn write(documents: &[Documents; 2]) -> Result<Self, Error> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("perftest-documents-{}-{number}", std::process::id()));
        if path.to_string_lossy().contains(char::is_whitespace) {
            let text = "the path has a blank, which the programs of peers cannot read; set TMPDIR to another folder";
            return Err(Error::Setup(format!("{}: {text}", path.display())));
        }
        // Made before the files, so that a failure removes what is there.
        let folder = Self(path);
        folder.fill(documents).map_err(|error| Error::Setup(format!("{}: {error}", folder.0.display())))?;
        Ok(folder)
    }

    fn fill(&self, documents: &[Documents; 2]) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.0)?;
        for (name, own) in ["pub", "sub"].into_iter().zip(documents) {
            let folder = self.0.join(name);
            DirBuilder::new().mode(0o700).create(&folder)?;
            for (file, text) in [
                ("identity_ca.pem", &*own.identity_ca),
                ("permissions_ca.pem", &own.permissions_ca),
                ("identity.pem", &own.certificate),
                ("identity.key", own.private_key.expose()),
                ("governance.p7s", &own.governance),
                ("permissions.p7s", &own.permissions),
            ] {
                let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(file))?;
                file.write_all(text.as_bytes())?;
            }
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DocumentFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl fmt::Debug for Documents {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Documents").field("used", &self.used).finish_non_exhaustive()
    }
}
