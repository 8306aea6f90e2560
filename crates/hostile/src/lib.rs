//! Attacks a live participant and measures the damage.
//!
//! The program starts a victim and an honest peer as processes of their own. The two exchange samples at a fixed rate
//! while the program attacks the victim over loopback. Each attack is a row of one table
//! ([`attacks`](attacks::ATTACKS)), with the limits of [`limits`] and the misses that are known. Victim and honest peer
//! may use DDS Security; the attacker never has a certificate that they trust.
#![forbid(unsafe_code)]

pub mod attacks;
pub mod cli;
mod clock;
mod conditions;
mod control;
mod craft;
#[cfg(feature = "security")]
mod documents;
mod field;
mod flow;
pub mod forge;
mod judge;
pub mod limits;
mod measure;
pub mod mutate;
mod newcomer;
mod processes;
mod roles;
mod security;
mod table;
