//! `DDS:Crypto:AES-GCM-GMAC` (DDS Security 1.2 §10.5): key material, session keys, and the transformations of
//! messages, submessages and payloads.
//!
//! A [`KeyFactory`] has the keys of one participant. It is changed by one thread, as endpoints come and go. Its
//! [`Cryptography`] uses these keys, on any number of threads, without locks: changes replace what it reads.

mod algorithm;
mod derive;
mod factory;
mod key_material;
mod opening;
mod opening_sessions;
mod pre_shared;
mod sealing;
pub mod secure_entity;
mod session;
mod table;
#[cfg(test)]
mod tests;
mod transform;

pub use algorithm::{Algorithm, KeyLength};
pub use derive::{PreSharedKey, PreSharedKeyOwner, exchange_key};
pub use factory::{CryptoConfig, ExchangeRole, KeyFactory, RefusedKeys};
pub use key_material::{KeyMaterial, MalformedKeyMaterial, ReceiverKey};
pub use pre_shared::{MalformedPassphrase, Passphrase, Passphrases, PreSharedConfig, PreSharedKeys};
pub use transform::Cryptography;
