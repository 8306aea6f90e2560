//! Outages between a writing and a reading peer on two hosts, and their effect on the peers and their applications.
//!
//! The writer sends at a fixed rate, before, during and after the outage. [`observe`] records each accepted and each
//! received sample, the matched endpoints that both sides report, and the memory of both processes. [`Figures`]
//! summarizes the record.

mod fault;
mod figures;
mod log;
mod plan;
mod run;
mod setup;
mod side;
mod stalls;
mod table;

pub use fault::{Kind, Outage};
pub use figures::{Figures, Flow, Matching};
pub use plan::{PEERS, PairOf, outages, pairs, parse_pairs, program};
pub use run::{observe, observe_awake};
pub use setup::{Setup, Watch};
pub use stalls::Stalls;
pub use table::{Entry, insert, render};
