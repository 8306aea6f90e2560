//! `perftest run PLAN`: campaigns, whose cases differ in rate, size, number of subscribers, policies, places and
//! middleware.
//!
//! A plan ([`spec`]) becomes a list of cases ([`cases`]). Separate processes (`party`) run each case; a
//! [`placement::Placement`] starts them, and the `runner` controls them. Each measurement is recorded as it ends, so
//! that an interrupted campaign can be resumed.

pub mod cases;
mod command;
mod job;
mod party;
pub mod peer;
pub mod placement;
mod programs;
mod progress;
mod runner;
#[cfg(feature = "security")]
mod sealing;
pub mod series;
mod shipped;
pub mod spec;
pub mod types;

pub use self::command::{Options, run, run_at};
pub use self::party::take_part;
