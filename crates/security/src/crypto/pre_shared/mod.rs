//! Protection of messages with a key that participants share before they meet: `DDS:Crypto:PSK`, and the pre-shared
//! key of `DDS:Crypto:AES-GCM-GMAC` (DDS Security 1.2 §10.5.1.3, §10.5.2.1.3, §10.9).
//!
//! [`PreSharedKeys`] has the passphrases of one participant. The first seals; all open. Keys of senders are derived
//! from the header of their messages, and kept.

mod budget;
mod keys;
mod passphrase;
mod senders;
#[cfg(test)]
mod tests;

pub use keys::{PreSharedConfig, PreSharedKeys};
pub use passphrase::{MalformedPassphrase, Passphrase, Passphrases};
