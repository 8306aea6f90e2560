//! The files of the driver for shared memory.

mod properties;
#[path = "../../../../src/driver/shm/relief.rs"]
mod relief;
