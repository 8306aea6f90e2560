//! DDS Security of victim and honest peer, in builds with and without it.

#[cfg(not(feature = "security"))]
pub(crate) use absent::{Documents, secured};

#[cfg(feature = "security")]
pub(crate) use crate::documents::{Documents, secured};

#[cfg(not(feature = "security"))]
mod absent {
    use std::path::Path;

    use anyhow::{Result, bail};
    use peregrine::ParticipantBuilder;

    const ABSENT: &str = "--secured: this program was built without DDS Security; build it with the feature `security`";

    /// No documents exist in this build.
    pub(crate) enum Documents {}

    impl Documents {
        pub(crate) fn issue(_domain: u32) -> Result<Self> {
            bail!(ABSENT)
        }

        pub(crate) fn folder(&self) -> &Path {
            match *self {}
        }
    }

    pub(crate) fn secured(_builder: ParticipantBuilder, _folder: &Path) -> Result<ParticipantBuilder> {
        bail!(ABSENT)
    }
}
