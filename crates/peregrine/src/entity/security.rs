//! Operations of participants with DDS Security.

use peregrine_security::participant::ParticipantSecurity;
use peregrine_security::secret::Secret;
use peregrine_security::session::Renewal;

use super::DomainParticipant;
use crate::error::{Error, SecurityError, SecurityPart};
use crate::security::{malformed, passphrases, revocation_lists};

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

    /// Replaces the lists of revoked certificates (RFC 5280 §5). `uri` is a URI as in
    /// [`SecurityConfig::revocations`](crate::security::SecurityConfig::revocations); the lists there, in PEM, take the
    /// place of all former ones.
    ///
    /// The certificates of all authenticated participants are verified again, by another thread. One that is revoked is
    /// let go, as `on_revoke_identity` of DDS Security 1.2 §9.3.2 has it: its endpoints match no longer, its keys are
    /// dropped, and it is not authenticated again.
    /// [`SecurityEvent::Revoked`](crate::security::SecurityEvent::Revoked) reports that, and
    /// [`SecurityEvent::KeysRenewed`](crate::security::SecurityEvent::KeysRenewed) that the other peers get new keys,
    /// which are in use 2 s later. Samples under way to others are not lost.
    ///
    /// # Errors
    /// [`Error::Security`] if the lists cannot be read, one of them is not signed by its authority or not valid now,
    /// none is by an authority of [`SecurityConfig::identity_ca`](crate::security::SecurityConfig::identity_ca), or the
    /// participant has no certificate; [`Error::AlreadyDeleted`] after [`Self::close`]. The former lists stay in use.
    pub fn set_revocations(&self, uri: &str) -> Result<(), Error> {
        self.check_open()?;
        let session = self.session()?;
        let (lists, path) = revocation_lists(uri)?;
        let checked = session.check_revocations(&lists);
        checked.map_err(|fault| malformed(SecurityPart::Revocations, path, &fault))?;
        self.inner.core.change_security(|| session.set_revocations(lists));
        Ok(())
    }

    /// Replaces the keys by which the participant and its endpoints protect what they send, for example at times that
    /// the rules of an operator state (`revise_local_entity_keys` of DDS Security 1.2 §9.5.1.8).
    ///
    /// All peers get the new keys, which are used 2 s later; peers accept the former ones for 30 s more, so that no
    /// sample is lost. [`SecurityEvent::KeysRenewed`](crate::security::SecurityEvent::KeysRenewed) reports that.
    /// Renewals are 15 s apart: a call within this time after another one takes effect at its end. Without effect where
    /// the governance protects nothing, and on pre-shared keys.
    /// [`SecurityConfig::blocks_per_key`](crate::security::SecurityConfig::blocks_per_key) replaces keys by their use.
    ///
    /// # Errors
    /// [`Error::Security`] if the participant has no certificate; [`Error::AlreadyDeleted`] after [`Self::close`].
    pub fn renew_keys(&self) -> Result<(), Error> {
        self.check_open()?;
        let session = self.session()?;
        self.inner.core.change_security(|| session.renew_keys(Renewal::All));
        Ok(())
    }

    fn session(&self) -> Result<&ParticipantSecurity, SecurityError> {
        self.inner.core.security.as_deref().ok_or(SecurityError::NoCertificate)?.authenticated()
    }
}
