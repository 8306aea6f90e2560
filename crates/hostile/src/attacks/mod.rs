//! The table of attacks.

mod repair;

use anyhow::Result;

use crate::field::Field;
pub use crate::limits::{Actor, Expected};

/// A named attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// The name that selects it.
    pub name: &'static str,
    /// The messages that are sent.
    pub summary: &'static str,
    /// In whose name.
    pub actor: Actor,
    /// Whether the victim holds all limits.
    pub expected: Expected,
    pub(crate) run: fn(&mut Field<'_>) -> Result<()>,
}

/// Every attack.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "nothing",
        summary: "no message: the figures of an undisturbed pair",
        actor: Actor::Stranger,
        expected: Expected::Held,
        run: repair::nothing,
    },
    Attack {
        name: "acknack-amplification",
        summary: "1,000 ACKNACKs in each datagram request two halves of the history in turn",
        actor: Actor::Stranger,
        expected: Expected::Held,
        run: repair::acknack_amplification,
    },
];
