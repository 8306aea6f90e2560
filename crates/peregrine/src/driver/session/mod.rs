//! A participant of this process: discovery, its endpoints, and its requests for channels.

mod event_log;
mod lingering;
pub(crate) mod observer;
pub(crate) mod participant;
#[cfg(not(feature = "security"))]
#[path = "no_security.rs"]
pub(crate) mod security;
#[cfg(feature = "security")]
pub(crate) mod security;
mod timers;
