//! Interoperability tests with real processes: peers of any vendor that speak one line protocol (`interop/README.md`),
//! isolated networks to run them on, captures of their traffic, and scenarios.
//!
//! A peer is a [`Program`]; a [`scenario`] does not depend on its vendor. Every wait is bounded, and every created
//! object (process, namespace, file) is removed on drop, also when a test panics.
//!
//! Needs Linux and root, because it creates network namespaces. No packet leaves them.

#![forbid(unsafe_code)]

mod capture;
mod error;
mod lab;
pub mod outage;
mod peer;
mod qos;
pub mod scenario;

pub use capture::{Capture, Complaint, Decoded};
pub use error::{Error, Result};
pub use lab::{Link, NetNs, Rate, TwoHosts};
pub use peer::{InstanceState, Participant, Peer, Program, Received, Status, Write};
pub use qos::{DataType, Durability, History, Liveliness, Ownership, PolicyId, Qos, Reliability, Representation};
