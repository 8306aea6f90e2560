//! Attacks a live participant and measures the damage.
//!
//! The program starts a victim and an honest peer as processes of their own. The two exchange samples at a fixed rate
//! while the program attacks the victim over loopback. Each attack is a row of one table
//! ([`attacks`](attacks::ATTACKS)), with the limits of [`limits`] and the misses that are known.
#![forbid(unsafe_code)]

pub mod attacks;
pub mod cli;
mod clock;
mod control;
mod craft;
mod field;
mod flow;
pub mod forge;
mod judge;
pub mod limits;
mod measure;
pub mod mutate;
mod processes;
mod roles;
mod table;
