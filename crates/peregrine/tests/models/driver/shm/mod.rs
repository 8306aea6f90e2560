//! The files of the driver for shared memory.

mod properties;
#[path = "../../../../src/driver/shm/relief.rs"]
mod relief;
#[path = "../../../../src/driver/shm/sample_order.rs"]
pub(in crate::driver) mod sample_order;
