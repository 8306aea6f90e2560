//! Operations of participants with DDS Security.

use peregrine_security::secret::Secret;

use super::DomainParticipant;
use crate::error::{Error, SecurityError};
use crate::security::passphrases;

impl DomainParticipant {
    /// Replaces the passphrases of the pre-shared key: protects messages with `primary` from now on, and accepts from
    /// others `primary` and those of `extra`. Both are URIs as in
    /// [`SecurityConfig::pre_shared_passphrase`](crate::security::SecurityConfig::pre_shared_passphrase) and
    /// [`pre_shared_passphrase_extra`](crate::security::SecurityConfig::pre_shared_passphrase_extra).
    ///
    /// Participants change to another passphrase without loss in three steps: first all of them get the new one as
    /// `extra`; then all of them get it as `primary`, with the old one as `extra`; then the old one is left out.
    ///
    /// # Errors
    /// A URI cannot be read or has no passphrase, or the participant has no pre-shared key. The former passphrases stay
    /// in use.
    pub fn set_pre_shared_passphrases(&self, primary: &str, extra: Option<&str>) -> Result<(), Error> {
        let security = self.inner.core.security.as_ref().ok_or(SecurityError::NoPreSharedKey)?;
        let secret = |uri: &str| Secret::copy_of(uri.as_bytes());
        let passphrases = passphrases(&secret(primary), extra.map(secret).as_ref())?;
        security.replace_passphrases(&passphrases)
    }
}
