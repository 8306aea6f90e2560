//! A participant of this process: discovery, its endpoints, and its requests for channels.

pub(crate) mod observer;
pub(crate) mod participant;
