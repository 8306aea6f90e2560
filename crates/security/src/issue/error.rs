//! Errors of this module.

use core::fmt;

/// Why an identity cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IssueError {
    /// The library made no key.
    Key,
    /// The library made no signature.
    Signature,
    /// A name or a time is not possible in a certificate.
    Certificate,
    /// The key is not that of the authority's certificate.
    PrivateKey,
}

impl fmt::Display for IssueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "the library made no key",
            Self::Signature => "the library made no signature",
            Self::Certificate => "a name or a time is not possible in a certificate",
            Self::PrivateKey => "the key is not that of the authority's certificate",
        })
    }
}

impl core::error::Error for IssueError {}
