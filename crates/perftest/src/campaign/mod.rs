//! `perftest run PLAN`: campaigns, whose cases differ in rate, size, number of subscribers, policies, places and middleware.
//!
//! A plan ([`spec`]) becomes a list of cases ([`cases`]). Each is run by processes of its own (`party`), which are started
//! where a [`placement::Placement`] says and led through the measurement by the `runner`. Each measurement is kept as it
//! ends, so that an interrupted campaign goes on where it stood.

pub mod cases;
mod command;
mod job;
mod party;
pub mod peer;
pub mod placement;
mod programs;
mod progress;
mod runner;
pub mod series;
mod shipped;
pub mod spec;
pub mod types;

pub use self::command::{Options, run, run_at};
pub use self::party::take_part;
