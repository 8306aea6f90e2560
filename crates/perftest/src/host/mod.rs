//! Facts of the machine, and its settings during a measurement.

mod facts;
mod idle;
mod load;
mod system;
mod time;

pub use facts::gather;
#[cfg(test)]
pub(crate) use facts::gather_from;
pub use idle::{IdleStates, cpu_dma_latency_holders};
pub use load::cores_used_by_others;
pub use system::System;
#[cfg(test)]
pub(crate) use system::fake;
pub use time::utc_text;
