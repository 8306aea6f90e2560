//! `DDS:Auth:PKI-DH` (DDS Security 1.2 §10.3): the mutual authentication of participants.
//!
//! An [`Authenticator`] has the state of one participant with all others. It computes nothing that takes long: costly
//! steps are [`Job`]s, which the caller runs on another thread.
//!
//! The work that strangers can cause is bounded, and no message that is not signed changes a session:
//!
//! - A private key is used, and a secret derived, only after the other's certificate was accepted.
//! - A reply goes only to a participant whose certificate was accepted. Requests of this participant, which have to be
//!   sent to strangers, share a budget of bytes.
//! - Handshakes, waiting messages and jobs have a bound for each address and in all; addresses take turns.
//! - A message that is received again costs a hash.

mod agreement;
mod authenticator;
mod budget;
mod challenges;
mod contents;
mod credential;
mod early;
mod event;
mod exchange;
mod half_open;
mod job;
mod local;
mod modp;
mod pair;
mod queue;
mod refusal;
#[cfg(test)]
mod tests;
mod trust;

pub use agreement::KeyAgreement;
pub use authenticator::{AuthenticationConfig, Authenticator, Input, Usage};
pub use credential::PeerCredential;
pub use event::{AuthenticatedPeer, Event, Expulsion, Failure, Statistics, Transmit};
pub use job::{Job, JobDone, JobTicket, NoJobResult};
pub use local::{LocalParticipant, UnusableIdentity};
pub use refusal::Refusal;
pub use trust::Trust;
pub(crate) use trust::states_guid;
