//! A whole RTPS domain in one process: virtual clock, faulty network, checkers.
//!
//! All events follow from a seed, so that a failing run replays exactly.

#![forbid(unsafe_code)]

mod clocks;
pub mod filter;
#[cfg(feature = "machines")]
pub mod machines;
mod member;
pub mod nemesis;
pub mod network;
pub mod policy;
pub mod protection;
pub mod scenario;
pub mod secure;
pub mod standstill;
pub mod vendor;
pub mod world;
