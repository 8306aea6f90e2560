//! The receive buffer that sockets ask for, and what the kernel grants.
//!
//! Plain sockets and DDS ask for it alike, so that neither is slower than the other for want of room.

use std::io;

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Error;

/// Asked for unless an option says otherwise, in bytes.
pub(super) const DEFAULT_LEN: usize = 8 << 20;

/// What a UDP socket was granted when it asked for so much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveBuffer {
    /// In bytes, as all lengths here, the kernel's own bookkeeping left out.
    pub(super) asked_len: usize,
    pub(super) granted_len: usize,
}

impl ReceiveBuffer {
    /// Asks with a socket of its own.
    pub(super) fn probe(ipv4: bool, asked_len: usize) -> Result<Self, Error> {
        let domain = if ipv4 { Domain::IPV4 } else { Domain::IPV6 };
        let probe = || -> io::Result<usize> {
            let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
            ask(&socket, asked_len)?;
            // The kernel doubles what it is given, for its bookkeeping, and tells the double.
            Ok(socket.recv_buffer_size()? / 2)
        };
        let granted_len = probe().map_err(|error| Error::Setup(format!("Cannot open a UDP socket: {error}")))?;
        Ok(Self { asked_len, granted_len })
    }

    /// What there is to say when less was granted, with the command that changes this.
    pub(super) fn shortfall(&self) -> Option<String> {
        let Self { asked_len, granted_len } = self;
        (granted_len < asked_len).then(|| {
            format!(
                "The receive buffer is {granted_len} bytes only, not {asked_len}; a fast sender overflows it. Enlarge it \
                 with: sysctl -w net.core.rmem_max={asked_len}"
            )
        })
    }
}

/// Asks for so much: beyond the limit of ordinary users where the process may, up to that limit where it may not.
pub(super) fn ask(socket: &Socket, len: usize) -> io::Result<()> {
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, len).is_err() {
        socket.set_recv_buffer_size(len)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_allows_is_granted_in_full() {
        // Below the limit of any system.
        let small = ReceiveBuffer::probe(true, 65_536).unwrap();
        assert_eq!((small.granted_len, small.shortfall()), (65_536, None));
        // Plain sockets and DDS ask for the same.
        assert_eq!(DEFAULT_LEN, peregrine::config::DomainConfig::default().receive_buffer_bytes);
    }

    #[test]
    fn a_shortfall_names_the_command() {
        let buffer = ReceiveBuffer { asked_len: 8_388_608, granted_len: 212_992 };
        let text = buffer.shortfall().unwrap();
        assert!(text.contains("212992 bytes only") && text.ends_with("sysctl -w net.core.rmem_max=8388608"), "{text}");
    }
}
