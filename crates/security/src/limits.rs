//! Every bound of this crate, with its unit and its reason.

/// Session keys of one sender's key that a receiver keeps expanded. Reordered datagrams and repairs may be of a session
/// before the newest one.
pub const SESSIONS_PER_KEY: usize = 8;

/// Keys of one sender, counted by key id. Each renewal of keys adds up to two; the oldest give way.
pub const KEYS_PER_SENDER: usize = 8;

/// AES blocks that are processed with one session key, unless the configuration states less. With 2³² blocks, GCM keeps
/// a margin of 2⁻³² against distinguishing its output from random bytes.
pub const BLOCKS_PER_SESSION: u64 = 1 << 32;

/// Bytes of one certificate. Certificates with RSA keys of 8192 bits have less than 4 KiB.
pub const CERTIFICATE_BYTES: usize = 16 << 10;

/// Certificates in one file or one message.
pub const CERTIFICATES_PER_FILE: usize = 64;

/// Certificates between that of a participant and a trust anchor, the former counted.
pub const CHAIN_LENGTH: usize = 8;

/// Signatures that are verified in the search for one chain.
pub const CHAIN_SIGNATURES: usize = 32;

/// Bytes of a revocation list.
pub const REVOCATION_LIST_BYTES: usize = 4 << 20;

/// Bytes of a signed document of this participant.
pub const LOCAL_DOCUMENT_BYTES: usize = 1 << 20;

/// Bytes of a signed document that a peer sends.
pub const REMOTE_DOCUMENT_BYTES: usize = 64 << 10;

/// Elements, attributes and texts of a document. A rule for one topic has about 40.
pub const DOCUMENT_NODES: u32 = 100_000;

/// Nesting of elements. The schemas have 8 levels; extensions may have more.
pub const DOCUMENT_DEPTH: usize = 16;

/// Characters of a pattern for topics, partitions or tags. Names of topics have at most 256.
pub const PATTERN_CHARS: usize = 1024;

/// Bytes of one message between participants: a permissions document of [`REMOTE_DOCUMENT_BYTES`], a certificate with
/// its authorities, and discovery data.
pub const MESSAGE_BYTES: usize = 128 << 10;

/// Tokens in one message. A writer has two keys.
pub const TOKENS_PER_MESSAGE: usize = 8;

/// Properties of each kind in one token. A handshake has up to 14.
pub const PROPERTIES_PER_TOKEN: usize = 32;

/// Bytes of the name of a property, or of a class.
pub const PROPERTY_NAME_BYTES: usize = 256;

/// Bytes of a property with text. Such texts are names of certificates and algorithms.
pub const PROPERTY_TEXT_BYTES: usize = 4096;
