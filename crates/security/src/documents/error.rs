//! Errors in documents, with their places.

use core::fmt;

/// A kind of document.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Document {
    /// The rules of a domain.
    Governance,
    /// The rights of participants.
    Permissions,
}

/// A place in a document. The lines of a signed document are those of the file, the lines of XML those of the text that
/// was signed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

/// Why a document is not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DocumentError {
    /// The kind of document.
    pub document: Document,
    /// Where the error is; `None` if the error concerns the whole document.
    pub at: Option<Position>,
    /// The fault, and the expected text.
    pub what: String,
}

/// A part of a document that other implementations understand differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Where the part is.
    pub at: Position,
    /// The meaning here, and elsewhere.
    pub what: String,
}

impl DocumentError {
    pub(super) fn whole(document: Document, what: impl Into<String>) -> Self {
        Self { document, at: None, what: what.into() }
    }

    pub(super) fn line(document: Document, line: usize, what: impl Into<String>) -> Self {
        let at = Position { line: u32::try_from(line).unwrap_or(u32::MAX), column: 1 };
        Self { document, at: Some(at), what: what.into() }
    }
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Governance => "governance",
            Self::Permissions => "permissions",
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.document)?;
        if let Some(at) = self.at {
            write!(f, ":{at}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl core::error::Error for DocumentError {}
