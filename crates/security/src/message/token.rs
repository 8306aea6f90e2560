//! Tokens of one kind each.

use super::holder::DataHolder;
use super::names;
use crate::crypto::{KeyMaterial, MalformedKeyMaterial};

/// The token that a participant with a certificate announces (DDS Security 1.2 §10.3.2.1).
///
/// The optional properties are left out: some participants compare them as text, with names of algorithms that differ
/// between their own versions.
#[must_use]
pub fn identity_token() -> DataHolder {
    DataHolder::new(names::IDENTITY)
}

/// Whether a participant with this token has an identity of this plug-in, in a version with the same first number.
#[must_use]
pub fn is_identity_token(token: &DataHolder) -> bool {
    is_of(token, names::IDENTITY_PLUGIN)
}

/// Whether a participant with this token has permissions of this plug-in, in a version with the same first number.
#[must_use]
pub fn is_permissions_token(token: &DataHolder) -> bool {
    is_of(token, names::PERMISSIONS_PLUGIN)
}

fn is_of(token: &DataHolder, expected: &str) -> bool {
    let Some((plugin, version)) = token.class_id.rsplit_once(':') else { return false };
    let major = version.split_once('.').map_or(version, |(major, _)| major);
    plugin == expected && major == "1"
}

/// The token with which a participant shows that its certificate is not revoked (DDS Security 1.2 §10.3.2.3): a
/// response of OCSP, as DER. No known participant sends one.
#[must_use]
pub fn identity_status_token(ocsp_response: &[u8]) -> DataHolder {
    DataHolder::new(names::IDENTITY).with(names::OCSP_STATUS, ocsp_response)
}

/// The token that a participant with permissions announces (DDS Security 1.2 §10.4.2.2).
#[must_use]
pub fn permissions_token() -> DataHolder {
    DataHolder::new(names::PERMISSIONS)
}

/// Announces the challenge of the next handshake (DDS Security 1.2 §10.3.2.4).
#[must_use]
pub fn auth_request_token(challenge: &[u8; 32]) -> DataHolder {
    DataHolder::new(names::AUTH_REQUEST).with(names::FUTURE_CHALLENGE, challenge)
}

/// The challenge that a token announces.
#[must_use]
pub fn future_challenge(token: &DataHolder) -> Option<[u8; 32]> {
    let value = (token.class_id == names::AUTH_REQUEST).then(|| token.binary(names::FUTURE_CHALLENGE))?;
    value?.try_into().ok()
}

/// A token with one key (DDS Security 1.2 §10.5.2.1).
#[must_use]
pub fn crypto_token(key: &KeyMaterial) -> DataHolder {
    DataHolder::new(names::CRYPTO).with(names::KEY_MATERIAL, key.to_bytes().expose())
}

/// The key of a token. `None` if the token is not of this class, or has no key.
///
/// # Errors
/// Why its bytes are no key material.
pub fn key_material_of(token: &DataHolder) -> Option<Result<KeyMaterial, MalformedKeyMaterial>> {
    let value = (token.class_id == names::CRYPTO).then(|| token.binary(names::KEY_MATERIAL))?;
    value.map(KeyMaterial::parse)
}
