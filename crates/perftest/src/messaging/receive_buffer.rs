//! The receive buffer that sockets request, and the grant of the kernel.
//!
//! Plain sockets and DDS request the same size, so that neither is slower for lack of buffer.

use std::io;

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Error;

/// Default request, in bytes.
pub(super) const DEFAULT_LEN: usize = 8 << 20;

/// The grant for a request of a UDP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveBuffer {
    /// In bytes, without the kernel's bookkeeping, like all lengths here.
    pub(super) asked_len: usize,
    pub(super) granted_len: usize,
}

impl ReceiveBuffer {
    /// Requests a buffer on a temporary socket.
    pub(super) fn probe(ipv4: bool, asked_len: usize) -> Result<Self, Error> {
        let domain = if ipv4 { Domain::IPV4 } else { Domain::IPV6 };
        let probe = || -> io::Result<usize> {
            let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
            ask(&socket, asked_len)?;
            // The kernel doubles a request for its bookkeeping, and reports the double.
            Ok(socket.recv_buffer_size()? / 2)
        };
        let granted_len = probe().map_err(|error| Error::Setup(format!("Cannot open a UDP socket: {error}")))?;
        Ok(Self { asked_len, granted_len })
    }

    /// A warning if less was granted, with the command that raises the limit.
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

/// Requests a buffer: beyond the limit of ordinary users if permitted, else up to that limit.
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
    fn request_within_the_limit_is_granted_in_full() {
        // Below the limit of any system.
        let small = ReceiveBuffer::probe(true, 65_536).unwrap();
        assert_eq!((small.granted_len, small.shortfall()), (65_536, None));
        // Plain sockets and DDS request the same size.
        assert_eq!(DEFAULT_LEN, peregrine::config::DomainConfig::default().receive_buffer_bytes);
    }

    #[test]
    fn shortfall_names_the_command() {
        let buffer = ReceiveBuffer { asked_len: 8_388_608, granted_len: 212_992 };
        let text = buffer.shortfall().unwrap();
        assert!(text.contains("212992 bytes only") && text.ends_with("sysctl -w net.core.rmem_max=8388608"), "{text}");
    }
}
