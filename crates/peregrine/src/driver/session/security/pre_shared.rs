//! Pre-shared keys of a participant in the driver.

use std::sync::{Arc, OnceLock};

use peregrine_rtps::discovery::data::SecurityInfo;
use peregrine_rtps::participant::ParticipantConfig;
use peregrine_rtps::protection::{ProtectionKind, SharedProtection};
use peregrine_security::crypto::{KeyLength, Passphrases, PreSharedConfig, PreSharedKeys};
use peregrine_security::documents::SecurityMasks;
use peregrine_security::message::DataHolder;
use peregrine_security::participant::announcement;

use super::{Security, fill};
use crate::error::{Error, SecurityError};

/// The identity and the permissions of a participant without certificates (DDS Security 1.2 §10.7.2.1, §10.8.2.2).
const IDENTITY: &str = "DDS:Auth:PSK:1.2";
const PERMISSIONS: &str = "DDS:Access:PSK:1.2";
/// The attributes by which it announces its protection (DDS Security 1.2 §9.4.2.5, §10.4.2.4).
const IS_PRE_SHARED_PROTECTED: u32 = 1 << 4;
const IS_PRE_SHARED_ENCRYPTED: u32 = 1 << 6;

impl Security {
    /// Adds security with passphrases alone to the configuration of a participant. All that know the passphrase may do
    /// everything (DDS Security 1.2 §10.7 to §10.9), so that there is neither session nor gate.
    pub(crate) fn configure_pre_shared(
        passphrases: &Passphrases,
        key_length: KeyLength,
        kind: ProtectionKind,
        config: &mut ParticipantConfig,
    ) -> Arc<Self> {
        let is_set = |bit: u32, is_set: bool| SecurityInfo::VALID | if is_set { bit } else { 0 };
        let masks = SecurityMasks {
            standard: is_set(IS_PRE_SHARED_PROTECTED, !kind.is_none()),
            plugin: is_set(IS_PRE_SHARED_ENCRYPTED, kind.encrypts()),
        };
        let announced = announcement(&DataHolder::new(IDENTITY), &DataHolder::new(PERMISSIONS), masks);
        config.security = Some(Box::new(announced));
        let of_keys = PreSharedConfig {
            kind,
            key_length,
            domain_id: config.domain.0,
            domain_tag: config.domain_tag.clone(),
            prefix: config.prefix,
        };
        let keys = Arc::new(PreSharedKeys::new(of_keys, Some(passphrases), &mut fill));
        config.protection = Some(SharedProtection::new(Arc::clone(&keys) as _));
        Arc::new(Self { authenticated: None, pre_shared: Some(keys), participant: OnceLock::new() })
    }

    /// Replaces all passphrases, from the next message on.
    ///
    /// # Errors
    /// The participant has no pre-shared key.
    pub(crate) fn replace_passphrases(&self, passphrases: &Passphrases) -> Result<(), Error> {
        let keys = self.pre_shared.as_ref().ok_or(SecurityError::NoPreSharedKey)?;
        keys.replace(passphrases, &mut fill);
        Ok(())
    }
}
