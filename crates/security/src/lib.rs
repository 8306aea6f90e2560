//! The built-in plug-ins of OMG DDS Security as deterministic code.
//!
//! Time, randomness and bytes are inputs. This crate reads no clock and no file, opens no socket and starts no thread.
//! One module takes a lock: [`participant`], whose session discovery asks while it changes.
//!
//! | module | plug-in |
//! |---|---|
//! | [`authentication`] | `DDS:Auth:PKI-DH`: the handshake of two participants |
//! | [`identity`] | of `DDS:Auth:PKI-DH`, certificates and keys |
//! | [`documents`] | `DDS:Access:Permissions`: governance and permissions |
//! | [`message`] | of all three: tokens, and the messages that contain them |
//! | [`session`] | of all three: the state of one participant with all others |
//! | [`participant`] | of all three: a session connected with the discovery of its participant |
//! | [`check`] | of `DDS:Access:Permissions`: what the files of a participant permit, as a page of text |
//! | [`logging`] | `DDS:Logging:DDS_LogTopic`: the words of a log for each event |
//! | [`issue`] | none: test identities |
//! | [`crypto`] | `DDS:Crypto:AES-GCM-GMAC`: keys, and the transformations behind [`peregrine_rtps::protection`] |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod asn1;
pub mod authentication;
mod cdr;
pub mod check;
pub mod crypto;
pub mod documents;
pub mod identity;
pub mod issue;
pub mod limits;
pub mod logging;
pub mod message;
pub mod participant;
mod pattern;
pub mod secret;
pub mod session;
#[cfg(test)]
mod testing;
mod wall_time;

pub use pattern::Pattern;
pub use wall_time::WallTime;
