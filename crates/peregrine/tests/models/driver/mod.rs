//! The files of the driver, by their layers and names there.

mod base;
mod endpoint;
mod host;
mod net;
mod properties;
mod reactor;
mod shm;
