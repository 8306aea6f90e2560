//! Tokens (DDS Security 1.2 §7.3.5), by which participants authenticate and hand over keys, and the messages that
//! contain them (§7.3.21).
//!
//! ```text
//! ParticipantGenericMessage ── identity, destination, class
//!   └─ DataHolder = token  ── class
//!        ├─ Property          name, text
//!        └─ BinaryProperty    name, bytes
//! ```

mod generic;
mod holder;
pub mod names;
#[cfg(test)]
mod tests;
mod token;

pub use generic::{GenericMessage, MalformedMessage, MessageHead, MessageIdentity};
pub(crate) use holder::write_binary;
pub use holder::{BinaryProperty, DataHolder, MalformedToken, Property};
pub use token::{
    auth_request_token, crypto_token, future_challenge, identity_status_token, identity_token, is_identity_token,
    is_permissions_token, key_material_of, permissions_token,
};
