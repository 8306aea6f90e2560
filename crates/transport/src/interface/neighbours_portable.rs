//! Systems other than Linux: their tables of neighbours are not read, and no host is known to be unresolved.

use std::io;
use std::net::SocketAddr;

use super::{InterfaceIndex, Neighbour};

/// The hosts whose link-layer addresses the kernel looks for or has not found: none.
///
/// # Errors
/// None.
pub fn unresolved_neighbours() -> io::Result<Vec<Neighbour>> {
    Ok(Vec::new())
}

/// The host to which the kernel sends datagrams for `destination`.
///
/// # Errors
/// None.
pub fn next_hop(destination: SocketAddr) -> io::Result<Neighbour> {
    Ok(Neighbour { address: destination.ip(), interface: InterfaceIndex(0) })
}
