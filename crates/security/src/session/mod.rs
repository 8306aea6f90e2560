//! The security of one participant: authentication, access control and keys, joined.
//!
//! A [`Session`] has the state of one local participant with all others. It reads no clock and no file, and starts no
//! thread: times, random bytes and messages are inputs, and [`Step`]s are outputs.
//!
//! ```text
//! discovery          peer_discovered, peer_lost, remote_endpoint_discovered ─┐
//! stateless topic    stateless_message_received                              │
//! key channel        volatile_message_received                               ├─> Session ─> poll_step
//! local endpoints    endpoint_made, endpoint_removed, match_endpoints        │           └> poll_timeout
//! clock, jobs        handle_timeout, job_done                                ┘
//! ```
//!
//! With each peer, the steps have this order:
//!
//! ```text
//! Admit(Pending) ─> SendStateless … ─> OpenKeyChannel ─> Admit(Authenticated) ─> SendVolatile … ─> KeysReady …
//! ```
//!
//! [`Session::protection`] seals and opens with the keys, on any number of threads.

mod calendar;
mod config;
mod credential;
mod description;
mod early;
mod endpoints;
mod parameters;
mod peer;
mod peers;
mod plugins;
mod protection;
mod refusal;
mod renewal;
mod retirement;
mod rights;
mod state;
mod step;
#[cfg(test)]
pub(crate) mod tests;
mod tokens;

pub use config::{SessionConfig, SessionStatistics, SessionUsage, StepsWaiting};
pub use credential::{Credential, CredentialParts, UnusableCredential};
pub use description::{Domain, EndpointDescription, EndpointSecurity, RemoteEndpoint};
pub use parameters::{conflict, parse_masks, parse_tags, write_masks, write_tags};
pub use peers::PeerAnnouncement;
pub use plugins::{
    AccessControl, Authentication, Cryptographic, MakeAccessControl, MakeAuthentication, MakeCryptographic, Plugins,
};
pub use refusal::{KeysRefusal, NonMatch, PeerRefusal};
pub use renewal::Renewal;
pub use rights::Rights;
pub use state::{Matched, Session, UnusableEndpoint};
pub use step::{Admission, RenewalCause, SecurityEvent, Step};
