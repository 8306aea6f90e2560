//! Interoperability tests with real processes: peers of any vendor that speak one line protocol (`interop/README.md`),
//! networks of their own to run them on, captures of what they sent, and the scenarios they go through.
//!
//! A peer is a [`Program`]; which vendor's makes no difference to a [`scenario`]. Everything that waits is bounded, and
//! everything that is created (processes, namespaces, files) is removed on drop, also when a test panics.
//!
//! Needs Linux and root, because it creates network namespaces. Nothing is sent outside them.

#![forbid(unsafe_code)]

mod capture;
mod error;
mod lab;
mod peer;
mod qos;
pub mod scenario;

pub use capture::{Capture, Complaint, Decoded};
pub use error::{Error, Result};
pub use lab::{Link, NetNs, Rate, TwoHosts};
pub use peer::{InstanceState, Participant, Peer, Program, Received, Status, Write};
pub use qos::{DataType, Durability, History, Liveliness, Ownership, PolicyId, Qos, Reliability, Representation};
