//! Input and output of the rules: tracked files and findings.

/// A tracked file; all rules share one copy.
pub(super) struct TrackedFile {
    /// Relative to the root of the workspace, with `/`.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

impl TrackedFile {
    /// `None` for a binary file.
    pub(super) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }
}

/// Errors and warnings of the rules.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Findings {
    pub(super) fn error(&mut self, place: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.errors.push(format!("{place}: {what}"));
    }

    pub(super) fn warning(&mut self, place: impl std::fmt::Display, what: impl std::fmt::Display) {
        self.warnings.push(format!("{place}: {what}"));
    }
}
