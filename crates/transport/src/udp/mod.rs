//! UDP over IPv4 and IPv6, unicast and multicast.
//!
//! Any number of threads share a [`Socket`]. Each may send ([`Socket::send`]) and receive with a [`Receiver`]. Each
//! receiving thread has one [`Receiver`], which holds the buffers and serves any number of sockets.
//!
//! # System calls
//! * One datagram is sent by one `sendmsg`, several by one `sendmmsg`, and a train of equal segments by one `sendmsg`
//!   that the kernel or the NIC cuts (`UDP_SEGMENT`).
//! * Waiting for a datagram is one blocking `recvmsg`. During a burst, one `recvmmsg` receives up to
//!   [`ReceiverOptions::batch`] datagrams. Datagrams that the kernel or the NIC has joined (`UDP_GRO`) are returned as
//!   ordinary datagrams.
//!
//! # Faults of the network
//! No datagram, ICMP message or drop makes these functions fail permanently: [`Statistics`] counts them.

mod address;
mod connected;
mod counters;
mod message;
mod options;
mod pool;
mod receive;
mod send;
#[cfg(all(target_os = "linux", feature = "simulation"))]
mod simulated;
mod split;

pub use connected::ConnectedSockets;
pub use counters::{SendErrors, Statistics};
pub use options::{BufferShortfall, Direction, Fragmentation, OpenError, SEND_WAIT_MAX, SocketOptions};
pub use receive::{Datagram, Datagrams, ReceiveError, Receiver, ReceiverOptions, Wait};
pub use send::{SendFailure, Sent, Transmit};

use crate::interface::InterfaceIndex;
use crate::sys;
use counters::Counters;
use socket2::InterfaceIndexOrAddress;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest payload of one UDP datagram over IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 65_507;

/// The most bytes of one train of datagrams ([`Transmit::segment_bytes`]).
///
/// Linux passes a super-datagram to the device whole only while it is shorter than 65,536 bytes with its Ethernet, IPv6
/// and UDP headers. The kernel cuts a longer one early, at the cost that the offload is to save.
pub const MAX_TRAIN_BYTES: usize = 65_535 - 62;

/// The most segments of one super-datagram.
pub const MAX_SEGMENTS: usize = 64;

/// The most slices of one [`Transmit`] (`UIO_MAXIOV`).
pub const MAX_SLICES: usize = 1024;

/// Bytes of the IP and UDP headers of a datagram to this address, without options. A segment with them must fit into
/// the MTU.
#[must_use]
pub const fn header_bytes(destination: IpAddr) -> usize {
    if destination.is_ipv4() { 28 } else { 48 }
}

/// A UDP socket, shared by any number of threads.
pub struct Socket {
    socket: socket2::Socket,
    local_address: SocketAddr,
    /// Destination of a connected socket.
    peer: Option<SocketAddr>,
    /// Whether the kernel gets super-datagrams whole. Turned off permanently when it refuses one.
    segmentation_offload: AtomicBool,
    receive_offload: bool,
    buffers: [BufferShortfall; 2],
    shut_down: AtomicBool,
    counters: Counters,
    #[cfg(all(target_os = "linux", feature = "simulation"))]
    simulated: Option<simulated::Simulated>,
}

impl Socket {
    /// Opens a socket for the exclusive use of this address and port. With port 0 the system chooses one.
    ///
    /// # Errors
    /// [`OpenError::PortInUse`] if another socket uses the port, so that the caller can try the next one; other
    /// variants as documented.
    pub fn unicast(address: SocketAddr, options: &SocketOptions) -> Result<Self, OpenError> {
        Self::open(address, false, options)
    }

    /// Opens a socket to receive multicast. Other multicast sockets may share its port.
    ///
    /// The socket receives only groups that it [joined](Self::join). `address` is usually unspecified (`0.0.0.0`,
    /// `::`), with the port of the groups.
    ///
    /// # Errors
    /// [`OpenError::PortInUse`] if another socket uses the port exclusively; other variants as documented.
    pub fn multicast(address: SocketAddr, options: &SocketOptions) -> Result<Self, OpenError> {
        Self::open(address, true, options)
    }

    /// Opens a socket for a single destination. Sending saves the route look-up, a tenth of its cost or more. The
    /// system chooses the port. The socket receives only datagrams from `destination`.
    ///
    /// Its source address is that of the interface to which the route leads now; open a new socket when the interfaces
    /// change.
    ///
    /// # Errors
    /// [`OpenError::Io`] if there is no route to `destination`; other variants as documented.
    pub fn connected(destination: SocketAddr, options: &SocketOptions) -> Result<Self, OpenError> {
        let unspecified = match destination {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let mut socket = Self::open(unspecified, false, options)?;
        let failed = |operation| move |error| OpenError::new(operation, destination, error);
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if socket.simulated.is_some() {
            socket.peer = Some(destination);
            return Ok(socket);
        }
        socket.socket.connect(&destination.into()).map_err(failed("connect"))?;
        socket.local_address = socket.read_local_address().map_err(failed("reading the local address"))?;
        socket.peer = Some(destination);
        Ok(socket)
    }

    fn open(address: SocketAddr, shared: bool, options: &SocketOptions) -> Result<Self, OpenError> {
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if let Some(machine) = crate::simulation::current() {
            return Self::open_in_simulation(machine, address, shared, options);
        }
        let opened = options::open(address, shared, options)?;
        let buffer = |direction, asked: Option<usize>, granted_bytes| BufferShortfall {
            direction,
            asked_bytes: asked.unwrap_or(0),
            granted_bytes,
        };
        let mut socket = Self {
            local_address: address,
            peer: None,
            segmentation_offload: AtomicBool::new(opened.segmentation_offload),
            receive_offload: opened.receive_offload,
            buffers: [
                buffer(Direction::Receive, options.receive_buffer_bytes, opened.granted_receive_bytes),
                buffer(Direction::Send, options.send_buffer_bytes, opened.granted_send_bytes),
            ],
            shut_down: AtomicBool::new(false),
            counters: Counters::default(),
            socket: opened.socket,
            #[cfg(all(target_os = "linux", feature = "simulation"))]
            simulated: None,
        };
        socket.local_address =
            socket.read_local_address().map_err(|error| OpenError::new("reading the local address", address, error))?;
        Ok(socket)
    }

    #[cfg(all(target_os = "linux", feature = "simulation"))]
    fn open_in_simulation(
        machine: std::sync::Arc<dyn crate::simulation::Machine>,
        address: SocketAddr,
        is_shared: bool,
        options: &SocketOptions,
    ) -> Result<Self, OpenError> {
        let (simulated, local_address) = simulated::Simulated::open(machine, address, is_shared, options)?;
        // A descriptor that no packet comes to; the simulated socket has its own.
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::DGRAM, None)
            .map_err(|error| OpenError::new("socket", address, error))?;
        let buffer = |direction| BufferShortfall { direction, asked_bytes: 0, granted_bytes: 0 };
        Ok(Self {
            local_address,
            peer: None,
            segmentation_offload: AtomicBool::new(true),
            receive_offload: false,
            buffers: [buffer(Direction::Receive), buffer(Direction::Send)],
            shut_down: AtomicBool::new(false),
            counters: Counters::default(),
            socket,
            simulated: Some(simulated),
        })
    }

    fn read_local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The address and port of this socket.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Destination of a connected socket.
    #[must_use]
    pub const fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Joins `group` on `interface`.
    ///
    /// # Errors
    /// The system's error, with the group and the interface: the interface is gone or cannot multicast, the group is
    /// joined already (`EADDRINUSE`), or there are too many groups (`ENOBUFS`, see `net.ipv4.igmp_max_memberships`).
    pub fn join(&self, group: IpAddr, interface: InterfaceIndex) -> io::Result<()> {
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if let Some(simulated) = &self.simulated {
            simulated.socket().join(group);
            return Ok(());
        }
        match group {
            IpAddr::V4(group) => self.socket.join_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface.0)),
            IpAddr::V6(group) => self.socket.join_multicast_v6(&group, interface.0),
        }
        .map_err(|error| sys::in_operation(format_args!("joining {group} on interface {}", interface.0), &error))
    }

    /// Leaves `group` on `interface`.
    ///
    /// # Errors
    /// The system's error, with the group and the interface, usually because the group was not joined there.
    pub fn leave(&self, group: IpAddr, interface: InterfaceIndex) -> io::Result<()> {
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if let Some(simulated) = &self.simulated {
            simulated.socket().leave(group);
            return Ok(());
        }
        match group {
            IpAddr::V4(group) => self.socket.leave_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(interface.0)),
            IpAddr::V6(group) => self.socket.leave_multicast_v6(&group, interface.0),
        }
        .map_err(|error| sys::in_operation(format_args!("leaving {group} on interface {}", interface.0), &error))
    }

    /// Sends multicast by `interface` from now on.
    ///
    /// # Errors
    /// The system's error, with the interface, usually because none has this index.
    pub fn set_multicast_interface(&self, interface: InterfaceIndex) -> io::Result<()> {
        options::set_multicast_interface(&self.socket, self.local_address.is_ipv4(), interface)
            .map_err(|error| sys::in_operation(format_args!("sending multicast by interface {}", interface.0), &error))
    }

    /// Whether the kernel or the NIC cuts super-datagrams; otherwise this process does.
    #[must_use]
    pub fn segmentation_offload(&self) -> bool {
        self.segmentation_offload.load(Ordering::Relaxed)
    }

    /// Whether the kernel may join several datagrams to one super-datagram.
    #[must_use]
    pub const fn receive_offload(&self) -> bool {
        self.receive_offload
    }

    /// Size of the receive buffer that the system granted, in bytes.
    #[must_use]
    pub const fn receive_buffer_bytes(&self) -> usize {
        self.buffers[0].granted_bytes
    }

    /// Size of the send buffer that the system granted, in bytes.
    #[must_use]
    pub const fn send_buffer_bytes(&self) -> usize {
        self.buffers[1].granted_bytes
    }

    /// Buffers for which the system granted less than requested.
    pub fn shortfalls(&self) -> impl Iterator<Item = BufferShortfall> + '_ {
        self.buffers.iter().filter(|buffer| buffer.granted_bytes < buffer.asked_bytes).copied()
    }

    /// Ends receiving permanently: a thread that is blocked in [`Receiver::receive`] returns
    /// [`ReceiveError::ShutDown`], as does every later call. Sending is still possible. Dropping the socket frees the
    /// port.
    pub fn shut_down(&self) {
        self.shut_down.store(true, Ordering::Release);
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if let Some(simulated) = &self.simulated {
            return simulated.socket().close();
        }
        // Linux returns `ENOTCONN` but still wakes the receivers.
        let _ = self.socket.shutdown(Shutdown::Read);
        #[cfg(not(target_os = "linux"))]
        self.wake_by_datagram();
    }

    /// Whether [`Self::shut_down`] was called.
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        self.shut_down.load(Ordering::Acquire)
    }

    /// Counters of this socket.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        #[cfg(target_os = "linux")]
        self.update_kernel_drops();
        self.counters.snapshot()
    }

    /// Reads the kernel's count of dropped datagrams. A received datagram reports only earlier drops, so the latest
    /// ones would stay unknown until the next datagram.
    #[cfg(target_os = "linux")]
    fn update_kernel_drops(&self) {
        if let Some(memory) = self.memory() {
            self.counters.received.update_kernel_drops(memory[8]);
        }
    }

    /// Whether datagrams that have not left the host occupy half of the send buffer or more. `false` where the system
    /// does not say.
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.memory().is_some_and(|memory| memory[2] >= memory[3] / 2);
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// The kernel's account of this socket (`SO_MEMINFO`): the third value is the memory of datagrams to be sent, the
    /// fourth its limit, and the ninth the number of received datagrams that were dropped. Older kernels have fewer
    /// values.
    #[cfg(target_os = "linux")]
    fn memory(&self) -> Option<[u32; 9]> {
        use std::os::fd::AsRawFd as _;
        let mut values = [0_u32; 9];
        let mut size = size_of_val(&values) as libc::socklen_t;
        let fd = self.socket.as_raw_fd();
        let place = values.as_mut_ptr().cast();
        // SAFETY: `place` is writable memory of `size` bytes.
        let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, place, &raw mut size) };
        (result == 0 && size as usize == size_of_val(&values)).then_some(values)
    }

    /// Wakes a blocked receiver on systems where `shutdown` does not: it sees the shutdown before it looks at the
    /// datagram.
    #[cfg(not(target_os = "linux"))]
    fn wake_by_datagram(&self) {
        let mut address = self.local_address;
        if address.ip().is_unspecified() {
            address.set_ip(match address.ip() {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        let _ = self.socket.send_to(&[], &address.into());
    }
}

impl AsFd for Socket {
    /// For waiting until a datagram has arrived ([`Poller`](crate::event::Poller)), and for options that this crate
    /// does not know.
    fn as_fd(&self) -> BorrowedFd<'_> {
        #[cfg(all(target_os = "linux", feature = "simulation"))]
        if let Some(simulated) = &self.simulated {
            return simulated.socket().readable().as_fd();
        }
        self.socket.as_fd()
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("local_address", &self.local_address).finish_non_exhaustive()
    }
}
