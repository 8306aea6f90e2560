//! Sockets of simulated processes.

use super::options::{OpenError, SocketOptions};
use crate::simulation::{Machine, MachineRef, VirtualSocket};
use std::net::SocketAddr;
use std::sync::Arc;

/// The simulated side of a [`Socket`](super::Socket).
#[derive(Debug)]
pub(super) struct Simulated {
    machine: MachineRef,
    socket: Arc<VirtualSocket>,
}

/// Receive buffer of a socket that requests no size.
const DEFAULT_BUFFER_BYTES: usize = 212_992;

impl Simulated {
    /// Opens a socket. Returns the address with its port.
    pub(super) fn open(
        machine: Arc<dyn Machine>,
        mut address: SocketAddr,
        is_shared: bool,
        options: &SocketOptions,
    ) -> Result<(Self, SocketAddr), OpenError> {
        let failed = |error| OpenError::new("simulated socket", address, error);
        let capacity_bytes = options.receive_buffer_bytes.unwrap_or(DEFAULT_BUFFER_BYTES);
        let socket = Arc::new(VirtualSocket::new(capacity_bytes).map_err(failed)?);
        let port = machine.attach(address, is_shared, &socket).map_err(failed)?;
        address.set_port(port);
        Ok((Self { machine: MachineRef(machine), socket }, address))
    }

    pub(super) fn socket(&self) -> &Arc<VirtualSocket> {
        &self.socket
    }

    pub(super) fn machine(&self) -> &dyn Machine {
        &*self.machine.0
    }
}
