//! Samples handed to other processes of the host in place.

#[cfg(not(all(loom, test)))]
mod futex;
#[cfg(not(all(loom, test)))]
mod memory;
#[cfg(all(loom, test))]
mod models;
mod page;
mod ring;
mod sync;
mod wake;

pub use ring::{Descriptor, Metadata, Overflow, SLOT_ALIGN};
