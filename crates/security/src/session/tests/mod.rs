//! Sessions on a simulated link, with a virtual clock, a worker for the jobs of each, and a reliable channel for keys.

mod algorithms;
mod bounds;
mod exchange;
mod expiry;
mod handshake;
mod hostile;
mod plugins;
mod renewal;
mod rights;
mod texts;
pub(crate) mod world;
