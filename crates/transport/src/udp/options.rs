//! Options of sockets, and errors of opening one.

use crate::interface::InterfaceIndex;
use crate::sys;
use socket2::{Domain, Protocol, Type};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

/// Options of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Receive buffer to request, in bytes (`SO_RCVBUF`, or `SO_RCVBUFFORCE` where permitted). `None` keeps the
    /// system's default. [`Socket::shortfalls`](super::Socket::shortfalls) reports a smaller grant.
    pub receive_buffer_bytes: Option<usize>,
    /// Send buffer to request, in bytes. A send buffer larger than the queue of a rate-limited interface silently
    /// overflows that queue; the system's default is the safe choice.
    pub send_buffer_bytes: Option<usize>,
    /// Whether routers and this host may cut datagrams into IP fragments.
    pub fragmentation: Fragmentation,
    /// Differentiated services code point of sent datagrams, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Let the kernel or the NIC cut super-datagrams (`UDP_SEGMENT`), where supported.
    pub segmentation_offload: bool,
    /// Let the kernel or the NIC join datagrams to super-datagrams (`UDP_GRO`), where supported. The
    /// [`Receiver`](super::Receiver) separates them.
    pub receive_offload: bool,
    /// The interface that sends multicast; `None` leaves the choice to the routing table.
    pub multicast_interface: Option<InterfaceIndex>,
    /// How many routers a multicast datagram may pass, plus one (`IP_MULTICAST_TTL`, `IPV6_MULTICAST_HOPS`).
    pub multicast_ttl: u8,
    /// Whether multicast sent here also reaches the members on this host.
    pub multicast_loop: bool,
}

impl Default for SocketOptions {
    /// An 8 MiB receive buffer, the system's send buffer, no IP fragmentation, both offloads, multicast to the local
    /// network and this host.
    fn default() -> Self {
        Self {
            receive_buffer_bytes: Some(8 << 20),
            send_buffer_bytes: None,
            fragmentation: Fragmentation::Forbid,
            dscp: 0,
            segmentation_offload: true,
            receive_offload: true,
            multicast_interface: None,
            multicast_ttl: 1,
            multicast_loop: true,
        }
    }
}

/// How long a system call of [`Socket::send`](super::Socket::send) waits for room in the socket's send buffer, for each
/// of its transmits. The kernel rounds up to its timer tick.
pub const SEND_WAIT_MAX: Duration = Duration::from_millis(4);

/// Whether datagrams longer than the path's MTU may travel as IP fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragmentation {
    /// A datagram that does not fit is refused (`EMSGSIZE`).
    Forbid,
    /// A datagram that does not fit is fragmented; one lost fragment loses all of it.
    Allow,
}

/// Why a socket could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Another socket uses this address and port. The caller may try the next port.
    PortInUse {
        /// The requested address and port.
        address: SocketAddr,
    },
    /// No interface of this host has this address.
    AddressNotAvailable {
        /// The requested address and port.
        address: SocketAddr,
    },
    /// The system does not support this version of the Internet protocol.
    FamilyNotSupported {
        /// The requested address and port.
        address: SocketAddr,
    },
    /// The system refused for another reason.
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The requested address and port.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn new(operation: &'static str, address: SocketAddr, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EADDRINUSE) => Self::PortInUse { address },
            Some(libc::EADDRNOTAVAIL) => Self::AddressNotAvailable { address },
            Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => Self::FamilyNotSupported { address },
            _ => Self::Io { operation, address, source },
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PortInUse { address } => {
                write!(
                    f,
                    "UDP port {} of {} is in use by another socket; choose another port",
                    address.port(),
                    address.ip()
                )
            }
            Self::AddressNotAvailable { address } => {
                write!(
                    f,
                    "no interface of this host has the address {}; `ip address` lists those there are",
                    address.ip()
                )
            }
            Self::FamilyNotSupported { address } => {
                let version = if address.is_ipv4() { "IPv4" } else { "IPv6" };
                write!(f, "this system has no {version}, so {address} cannot be opened; use the other version")
            }
            Self::Io { operation, address, source } => {
                write!(f, "cannot open UDP socket {address}: {operation}: {source}")
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// One of the two buffers of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The receive buffer.
    Receive,
    /// The send buffer.
    Send,
}

/// The system granted a smaller socket buffer than requested. The text states the command that raises the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferShortfall {
    /// The buffer.
    pub direction: Direction,
    /// Requested size, in bytes.
    pub asked_bytes: usize,
    /// Granted size, in bytes.
    pub granted_bytes: usize,
}

impl BufferShortfall {
    /// The command that raises the limit.
    #[must_use]
    pub fn fix(&self) -> String {
        let setting = match (self.direction, cfg!(target_os = "linux")) {
            (Direction::Receive, true) => "net.core.rmem_max",
            (Direction::Send, true) => "net.core.wmem_max",
            (_, false) => "kern.ipc.maxsockbuf",
        };
        let write = if cfg!(target_os = "linux") { "-w " } else { "" };
        format!("sysctl {write}{setting}={}", self.asked_bytes)
    }
}

impl fmt::Display for BufferShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, consequence) = match self.direction {
            Direction::Receive => ("receive", "bursts of datagrams may be dropped"),
            Direction::Send => ("send", "senders may wait more often"),
        };
        let (asked, granted) = (self.asked_bytes, self.granted_bytes);
        let fix = self.fix();
        write!(
            f,
            "socket {name} buffer: asked for {asked} bytes, granted {granted}; {consequence}; to allow more: {fix}"
        )
    }
}

/// An opened socket and its properties.
pub(super) struct Opened {
    pub(super) socket: socket2::Socket,
    pub(super) segmentation_offload: bool,
    pub(super) receive_offload: bool,
    pub(super) granted_receive_bytes: usize,
    pub(super) granted_send_bytes: usize,
}

/// Opens and binds a socket. `shared` allows other sockets on the same port, as multicast receivers need.
pub(super) fn open(address: SocketAddr, shared: bool, options: &SocketOptions) -> Result<Opened, OpenError> {
    let failed = |operation| move |error| OpenError::new(operation, address, error);
    let socket = socket2::Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))
        .map_err(failed("socket"))?;
    if address.is_ipv6() {
        socket.set_only_v6(true).map_err(failed("IPV6_V6ONLY"))?;
    }
    if shared {
        socket.set_reuse_address(true).map_err(failed("SO_REUSEADDR"))?;
        // On Linux, sockets that share a port by SO_REUSEPORT are alternatives: a multicast datagram with one remaining
        // member may go to a socket that is not a member, and be lost.
        #[cfg(not(target_os = "linux"))]
        socket.set_reuse_port(true).map_err(failed("SO_REUSEPORT"))?;
    }
    set_buffers(&socket, options).map_err(failed("setting the buffer sizes"))?;
    socket.set_write_timeout(Some(SEND_WAIT_MAX)).map_err(failed("SO_SNDTIMEO"))?;
    set_ip_options(&socket, address, options).map_err(failed("setting the IP options"))?;
    set_multicast_options(&socket, address, options).map_err(failed("setting the multicast options"))?;
    let offloads = set_offloads(&socket, options);
    socket.bind(&address.into()).map_err(failed("bind"))?;
    let granted = |size: io::Result<usize>| size.map(usable_bytes).map_err(failed("reading the buffer sizes"));
    Ok(Opened {
        segmentation_offload: offloads.0,
        receive_offload: offloads.1,
        granted_receive_bytes: granted(socket.recv_buffer_size())?,
        granted_send_bytes: granted(socket.send_buffer_size())?,
        socket,
    })
}

/// Linux doubles the requested size for its bookkeeping, and reports the doubled size.
const fn usable_bytes(told_bytes: usize) -> usize {
    if cfg!(target_os = "linux") { told_bytes / 2 } else { told_bytes }
}

fn set_buffers(socket: &socket2::Socket, options: &SocketOptions) -> io::Result<()> {
    const MAX_BYTES: usize = libc::c_int::MAX as usize;
    if let Some(bytes) = options.receive_buffer_bytes {
        let bytes = bytes.min(MAX_BYTES);
        if !force_buffer(socket, Direction::Receive, bytes) {
            ask(bytes, |bytes| socket.set_recv_buffer_size(bytes))?;
        }
    }
    if let Some(bytes) = options.send_buffer_bytes {
        let bytes = bytes.min(MAX_BYTES);
        if !force_buffer(socket, Direction::Send, bytes) {
            ask(bytes, |bytes| socket.set_send_buffer_size(bytes))?;
        }
    }
    Ok(())
}

/// Requests a buffer. Some systems refuse a size above their limit instead of granting less; then this requests half,
/// and so on.
fn ask(bytes: usize, set: impl Fn(usize) -> io::Result<()>) -> io::Result<()> {
    let mut result = set(bytes);
    for halvings in 1..16 {
        if !matches!(&result, Err(error) if error.raw_os_error() == Some(libc::ENOBUFS)) {
            break;
        }
        result = set(bytes >> halvings);
    }
    result
}

/// Sets a buffer beyond the system's limit, which requires `CAP_NET_ADMIN`.
#[cfg(target_os = "linux")]
fn force_buffer(socket: &socket2::Socket, direction: Direction, bytes: usize) -> bool {
    let option = match direction {
        Direction::Receive => libc::SO_RCVBUFFORCE,
        Direction::Send => libc::SO_SNDBUFFORCE,
    };
    sys::set_option(socket.as_raw_fd(), libc::SOL_SOCKET, option, bytes as libc::c_int).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn force_buffer(_: &socket2::Socket, _: Direction, _: usize) -> bool {
    false
}

fn set_ip_options(socket: &socket2::Socket, address: SocketAddr, options: &SocketOptions) -> io::Result<()> {
    let traffic_class = u32::from(options.dscp.min(63)) << 2;
    if traffic_class != 0 {
        if address.is_ipv4() {
            socket.set_tos_v4(traffic_class)?;
        } else {
            sys::set_option(socket.as_raw_fd(), libc::IPPROTO_IPV6, libc::IPV6_TCLASS, traffic_class as libc::c_int)?;
        }
    }
    set_fragmentation(socket, address, options.fragmentation)
}

#[cfg(target_os = "linux")]
fn set_fragmentation(socket: &socket2::Socket, address: SocketAddr, choice: Fragmentation) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    if address.is_ipv4() {
        let mode = match choice {
            Fragmentation::Forbid => libc::IP_PMTUDISC_DO,
            Fragmentation::Allow => libc::IP_PMTUDISC_WANT,
        };
        sys::set_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, mode)
    } else {
        let mode = match choice {
            Fragmentation::Forbid => libc::IPV6_PMTUDISC_DO,
            Fragmentation::Allow => libc::IPV6_PMTUDISC_WANT,
        };
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, mode)?;
        sys::set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, (choice == Fragmentation::Forbid).into())
    }
}

#[cfg(not(target_os = "linux"))]
fn set_fragmentation(socket: &socket2::Socket, address: SocketAddr, choice: Fragmentation) -> io::Result<()> {
    let (level, option) = if address.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_DONTFRAG)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG)
    };
    sys::set_option(socket.as_raw_fd(), level, option, (choice == Fragmentation::Forbid).into())
}

fn set_multicast_options(socket: &socket2::Socket, address: SocketAddr, options: &SocketOptions) -> io::Result<()> {
    if address.is_ipv4() {
        socket.set_multicast_ttl_v4(options.multicast_ttl.into())?;
        socket.set_multicast_loop_v4(options.multicast_loop)?;
    } else {
        socket.set_multicast_hops_v6(options.multicast_ttl.into())?;
        socket.set_multicast_loop_v6(options.multicast_loop)?;
    }
    #[cfg(target_os = "linux")]
    {
        // Otherwise this socket would receive every group that any process of the host has joined.
        let (level, option) = if address.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL)
        };
        sys::set_option(socket.as_raw_fd(), level, option, 0)?;
    }
    match options.multicast_interface {
        Some(interface) => set_multicast_interface(socket, address.is_ipv4(), interface),
        None => Ok(()),
    }
}

pub(super) fn set_multicast_interface(
    socket: &socket2::Socket,
    is_ipv4: bool,
    interface: InterfaceIndex,
) -> io::Result<()> {
    if !is_ipv4 {
        return socket.set_multicast_if_v6(interface.0);
    }
    let request = libc::ip_mreqn {
        imr_multiaddr: libc::in_addr { s_addr: 0 },
        imr_address: libc::in_addr { s_addr: 0 },
        imr_ifindex: libc::c_int::try_from(interface.0).map_err(|_| io::ErrorKind::InvalidInput)?,
    };
    let size = size_of::<libc::ip_mreqn>() as libc::socklen_t;
    let value = (&raw const request).cast();
    // SAFETY: `request` lives across the call and `size` is its length.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MULTICAST_IF, value, size) };
    sys::check(result).map(drop)
}

/// Enables segmentation offload, receive offload and the drop count where the kernel supports them. Returns whether the
/// two offloads are enabled.
#[cfg(target_os = "linux")]
fn set_offloads(socket: &socket2::Socket, options: &SocketOptions) -> (bool, bool) {
    let fd = socket.as_raw_fd();
    // A kernel without the drop count leaves the counter at zero; nothing else depends on it.
    let _ = sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    // A segment length of zero means none; a kernel that knows the option accepts it.
    let send = options.segmentation_offload && sys::set_option(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
    let receive = options.receive_offload && sys::set_option(fd, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
    (send, receive)
}

#[cfg(not(target_os = "linux"))]
fn set_offloads(_: &socket2::Socket, _: &SocketOptions) -> (bool, bool) {
    (false, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortfall_text_states_numbers_and_command() {
        let shortfall =
            BufferShortfall { direction: Direction::Receive, asked_bytes: 8_388_608, granted_bytes: 212_992 };
        let text = shortfall.to_string();
        assert!(text.contains("8388608") && text.contains("212992"), "{text}");
        #[cfg(target_os = "linux")]
        assert!(text.ends_with("sysctl -w net.core.rmem_max=8388608"), "{text}");
        let send = BufferShortfall { direction: Direction::Send, ..shortfall };
        #[cfg(target_os = "linux")]
        assert_eq!(send.fix(), "sysctl -w net.core.wmem_max=8388608");
        assert!(send.to_string().starts_with("socket send buffer"), "{send}");
    }

    #[test]
    fn refused_buffer_size_is_halved_until_granted() {
        let asked = std::cell::RefCell::new(Vec::new());
        let result = ask(1000, |bytes| {
            asked.borrow_mut().push(bytes);
            if bytes > 300 { Err(io::Error::from_raw_os_error(libc::ENOBUFS)) } else { Ok(()) }
        });
        assert!(result.is_ok());
        assert_eq!(*asked.borrow(), [1000, 500, 250]);
        assert!(ask(1000, |_| Err(io::Error::from_raw_os_error(libc::EBADF))).is_err());
    }
}
