//! Names on the wire: classes of tokens and messages, and the properties in them (DDS Security 1.2 §10.3.2, §10.5.2).

/// Tokens that state an identity.
pub const IDENTITY: &str = "DDS:Auth:PKI-DH:1.0";
/// [`IDENTITY`] without its version.
pub(crate) const IDENTITY_PLUGIN: &str = "DDS:Auth:PKI-DH";
/// Announces the challenge of a later handshake.
pub const AUTH_REQUEST: &str = "DDS:Auth:PKI-DH:1.0+AuthReq";
/// The first message of a handshake.
pub const HANDSHAKE_REQUEST: &str = "DDS:Auth:PKI-DH:1.0+Req";
/// The second message of a handshake.
pub const HANDSHAKE_REPLY: &str = "DDS:Auth:PKI-DH:1.0+Reply";
/// The third message of a handshake.
pub const HANDSHAKE_FINAL: &str = "DDS:Auth:PKI-DH:1.0+Final";
/// Tokens that state permissions.
pub const PERMISSIONS: &str = "DDS:Access:Permissions:1.0";
/// [`PERMISSIONS`] without its version.
pub(crate) const PERMISSIONS_PLUGIN: &str = "DDS:Access:Permissions";
/// Tokens that contain keys.
pub const CRYPTO: &str = "DDS:Crypto:AES_GCM_GMAC";

/// Messages with a token of the class [`AUTH_REQUEST`].
pub const AUTH_REQUEST_MESSAGE: &str = "dds.sec.auth_request";
/// Messages of a handshake.
pub const AUTH_MESSAGE: &str = "dds.sec.auth";
/// Messages with the keys of a participant.
pub const PARTICIPANT_CRYPTO_TOKENS: &str = "dds.sec.participant_crypto_tokens";
/// Messages with the keys of a writer.
pub const DATAWRITER_CRYPTO_TOKENS: &str = "dds.sec.datawriter_crypto_tokens";
/// Messages with the keys of a reader.
pub const DATAREADER_CRYPTO_TOKENS: &str = "dds.sec.datareader_crypto_tokens";

/// The challenge that is announced.
pub const FUTURE_CHALLENGE: &str = "future_challenge";
/// Key material.
pub const KEY_MATERIAL: &str = "dds.cryp.keymat";
/// The certificate of a participant, as PEM.
pub const CERTIFICATE: &str = "c.id";
/// The signed permissions document of a participant.
pub const PERMISSIONS_DOCUMENT: &str = "c.perm";
/// The discovery data of a participant.
pub const PARTICIPANT_DATA: &str = "c.pdata";
/// The algorithm of a participant's signatures.
pub const SIGNATURE_ALGORITHM: &str = "c.dsign_algo";
/// The algorithm of the key agreement.
pub const AGREEMENT_ALGORITHM: &str = "c.kagree_algo";
/// The hash of the five properties above of the participant that began.
pub const HASH_1: &str = "hash_c1";
/// The same of the participant that replied.
pub const HASH_2: &str = "hash_c2";
/// The public key for the key agreement of the participant that began.
pub const DH_1: &str = "dh1";
/// The same of the participant that replied.
pub const DH_2: &str = "dh2";
/// The challenge of the participant that began.
pub const CHALLENGE_1: &str = "challenge1";
/// The same of the participant that replied.
pub const CHALLENGE_2: &str = "challenge2";
/// A response of OCSP, as DER.
pub const OCSP_STATUS: &str = "ocsp_status";
/// A signature.
pub const SIGNATURE: &str = "signature";
