//! Errors of a run, and their exit statuses.

use std::fmt;

use crate::cli::UsageError;

/// Why a run ended without a result, or with a doubtful one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The command line is wrong. No measurement was started.
    Usage(UsageError),
    /// A resource is not available: a port, an interface, a file, a privilege.
    Setup(String),
    /// A partner did not appear or stopped answering. Earlier results have been printed.
    Partner(String),
    /// The test ended without a single sample.
    NoData(String),
    /// The network or the middleware failed.
    Transfer(String),
    /// Ctrl-C, or a closed output. Earlier results have been printed.
    Interrupted,
}

impl Error {
    /// 255 if no measurement was started, as in RTI Perftest; 130 after Ctrl-C; 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Setup(_) => 255,
            Self::Interrupted => 130,
            Self::Partner(_) | Self::NoData(_) | Self::Transfer(_) => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(error) => f.write_str(&error.lines.join("\n")),
            Self::Setup(text) | Self::Partner(text) | Self::NoData(text) | Self::Transfer(text) => f.write_str(text),
            Self::Interrupted => f.write_str("Interrupted; the results cover what was measured until then."),
        }
    }
}

impl std::error::Error for Error {}

impl From<UsageError> for Error {
    fn from(error: UsageError) -> Self {
        Self::Usage(error)
    }
}
