//! The machine: what is known of it, and what is done to it for the time of a measurement.

mod facts;
mod idle;
mod time;

pub use facts::gather;
pub use idle::{IdleStates, cpu_dma_latency_holders};
pub use time::utc_text;
