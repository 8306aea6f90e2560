//! How a process takes part in a domain: transports, interfaces, peers, threads.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use peregrine_rtps::id::DomainId;
use peregrine_rtps::limits::{
    CACHED_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_BYTES_MIN, PEER_BYTES_MAX, SAMPLE_BYTES_MAX, UNACKNOWLEDGED_BYTES_MAX,
    UNACKNOWLEDGED_SAMPLES_MAX, UNANSWERED_HEARTBEATS_MAX,
};
use peregrine_rtps::locator::{Locator, Ports};
use peregrine_transport::interface;
pub use peregrine_transport::interface::Selection as InterfaceSelection;
pub use peregrine_transport::thread::Scheduling;

use crate::error::{Argument, BadParameter, Error, GroupFault, LocatorFault, LookupError, PeerFault, Unit};
use crate::stream_link::StreamLinks;

/// How receive threads wait for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitStrategy {
    /// Receive threads block in the kernel. An application thread that waits (for data, room or acknowledgements)
    /// receives in place of a receive thread, but never runs listeners.
    #[default]
    Block,
    /// Receive threads poll for this long, then block. A polling thread uses a whole processor core.
    SpinThenBlock(Duration),
    /// The domain has no threads. [`DomainParticipant::poll`](crate::DomainParticipant::poll) receives and runs timers
    /// and listeners on the calling thread; the application has to call it often.
    Poll,
}

/// Settings of the threads of a domain: receive, control, shared-memory and publishing threads.
///
/// ```
/// use peregrine::{DomainConfig, Scheduling, ThreadSettings};
///
/// let threads = ThreadSettings::default().with_affinity(vec![2, 3]).with_scheduling(Scheduling::Fifo(20));
/// let config = DomainConfig::default().with_threads(threads).with_dscp(46);
/// # assert_eq!((config.dscp, config.threads.affinity), (46, Some(vec![2, 3])));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSettings {
    /// Prefix of thread names. The default is `pg`, as in `pg-data-0-0` and `pg-ctrl-0`. Linux shows at most 15 bytes
    /// of a name.
    pub name_prefix: String,
    /// Indices of the processors on which the threads may run. `None`, the default, permits all. Application threads
    /// are not affected.
    pub affinity: Option<Vec<usize>>,
    /// Scheduling policy of the threads; `None`, the default, inherits that of the process. If set, application threads
    /// do not receive in place of receive threads.
    pub scheduling: Option<Scheduling>,
    /// Stack size of each thread in bytes. Listeners run on this stack. The default is 2 MiB.
    pub stack_bytes: usize,
}

impl Default for ThreadSettings {
    fn default() -> Self {
        Self { name_prefix: "pg".to_owned(), affinity: None, scheduling: None, stack_bytes: 2 << 20 }
    }
}

/// How a process takes part in a domain. Participants with the same configuration share sockets and threads.
///
/// ```
/// use peregrine::{DomainConfig, InterfaceSelection};
///
/// let config = DomainConfig::default()
///     .with_interfaces(InterfaceSelection::Only(vec!["lo".to_owned()]))
///     .with_peers(vec!["192.0.2.7".parse()?])
///     .with_shared_memory(false);
/// # Ok::<(), peregrine::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DomainConfig {
    /// Network interfaces to use. The default is [`InterfaceSelection::Default`].
    pub interfaces: InterfaceSelection,
    /// UDP over IPv4. The default is `true`.
    pub udp_v4: bool,
    /// UDP over IPv6. The default is `false`.
    pub udp_v6: bool,
    /// Whether samples between processes of this host are passed in shared memory where possible. Both processes need
    /// this setting, the same user, the same namespaces, and Linux 5.16 or newer. Other samples are sent over UDP, and
    /// [`DiscoveryEvent::PathChanged`](crate::DiscoveryEvent::PathChanged) gives the reason. Unless that
    /// [lasts](crate::NoSharedMemory::is_lasting), the reader's process tries again, at least once per minute. The
    /// writer's process could change a sample in shared memory while a reader reads it; a process of the same user
    /// could change all other memory of the reader as well. The default is `true`.
    pub shared_memory: bool,
    /// Number of channels of shared memory that the process creates as soon as a reader matches a writer of another
    /// process. The readers of a process share the channel from a writer. Beyond that, a reader gets messages until two
    /// of them have brought samples of the writer; then its process creates the channel. A channel needs descriptors
    /// and memory in both processes, and most pairs of a large system exchange nothing. If more than four processes
    /// start together, the channels to the others are created when no reader has matched for half a second, or two
    /// messages have brought samples. The default is 128.
    pub eager_channels: usize,
    /// Whether the participant announces itself, and is discovered, by multicast. The default is `true`.
    pub multicast: bool,
    /// Multicast groups for the user data of readers that [set no group](crate::DataReaderBuilder::multicast). A writer
    /// uses a group when that saves datagrams. The default is none.
    pub multicast_groups: Vec<IpAddr>,
    /// Whether writers send to the multicast groups that readers announce, when that saves datagrams. If `false`, each
    /// reader address gets its own datagram, and a reader that announces only a group is unreachable; use `false` on
    /// networks that must not carry multicast user data. [`Self::multicast`] controls multicast discovery. The default
    /// is `true`.
    pub send_to_groups: bool,
    /// Whether samples and discovery data are sent to an announced address before a datagram of that participant has
    /// come from it. If `false`, a peer cannot make this process flood a third host by announcing the address of that
    /// host; an endpoint without a verified address is not matched, and the participant reports
    /// [`NonMatch::Unreachable`](crate::qos::NonMatch::Unreachable). Set it to `true` on networks in which hosts send
    /// from other addresses than they announce. The default is `false`.
    pub send_to_unheard_addresses: bool,
    /// Unicast addresses to which participants announce themselves, in addition to multicast. The default is none.
    pub peers: Vec<Peer>,
    /// Maximum RTPS message length in bytes. `None`, the default, uses the largest length that the path to each peer
    /// carries without IP fragmentation.
    pub message_bytes: Option<usize>,
    /// Requested socket receive buffer in bytes. The default is 8 MiB. The system may grant less (Linux:
    /// `net.core.rmem_max`).
    pub receive_buffer_bytes: usize,
    /// Requested socket send buffer in bytes; `None`, the default, uses the system's default.
    pub send_buffer_bytes: Option<usize>,
    /// Number of receive buffers of 64 KiB that readers may hold by reference. Beyond this number, samples are copied.
    /// The default is 256.
    pub receive_buffers: usize,
    /// Differentiated services code point of all sent datagrams, 0 to 63. The default is 0.
    pub dscp: u8,
    /// Time to live of multicast datagrams: the number of routers they may pass, plus one. The default is 1, the local
    /// network only.
    pub multicast_ttl: u8,
    /// Whether writers pass samples by reference to readers of the same process, and participants of the process keep
    /// each other without announcements. Both participants need this setting. If `false`, such samples are sent through
    /// sockets, as between processes, for example to measure that path. The default is `true`.
    pub same_process: bool,
    /// Longest time that a deleted writer, or the drop of the last participant handle, waits for readers to acknowledge
    /// the last samples. The default is one second.
    pub linger: Duration,
    /// Number of consecutive unanswered acknowledgement requests after which a writer stops waiting for a reliable
    /// reader. Unacknowledged samples of that reader then no longer count against KEEP_ALL and RESOURCE_LIMITS, and the
    /// reader may lose samples that are replaced. The writer waits for the reader again as soon as the reader answers.
    /// The time between two requests doubles from 1 ms to 1 s. The default is 20, about ten seconds; the minimum is 1.
    /// [`WriterCounters::readers_inactive`](crate::DataWriter::counters) counts such readers.
    pub unanswered_heartbeats: u32,
    /// Maximum length in bytes of a serialized sample that a reader accepts in messages. A longer sample is lost
    /// (SAMPLE_LOST with [`SampleLostReason::TooLong`](crate::status::SampleLostReason)), and the reader does not
    /// request it again. The limit does not apply to samples of the same process or in shared memory, which need no
    /// further memory. The default and the maximum are 1 GiB.
    pub max_sample_bytes: u32,
    /// Maximum number of instances of a reader whose RESOURCE_LIMITS leave `max_instances` unlimited (the default of
    /// the standard). It bounds the memory of a KEEP_LAST reader whose writers keep creating instances. The reader
    /// rejects samples of further instances (SAMPLE_REJECTED with
    /// [`RejectReason::Instances`](crate::status::RejectReason)), and a reliable writer waits until the application has
    /// taken samples of instances that have ended. The default is 1,048,576; an instance takes about 400 bytes and its
    /// samples.
    pub max_instances_per_reader: u32,
    /// Maximum number of bytes of the samples that a reader holds for the application, in addition to its
    /// RESOURCE_LIMITS, which set no limit by default. A sample counts with the buffer that holds it, and 256 bytes for
    /// its record; one sample always fits. The reader rejects what exceeds the limit (SAMPLE_REJECTED with
    /// [`RejectReason::Memory`](crate::status::RejectReason)), and a reliable writer waits until the application has
    /// taken samples. The default is 1 GiB; `usize::MAX` means no limit.
    pub max_cached_bytes_per_reader: usize,
    /// Maximum number of bytes that remote participants make each local participant hold: samples that readers hold for
    /// the application, samples of which fragments or earlier samples are missing, and discovery data. All participants
    /// of a process together hold at most half of the memory of the machine.
    /// [`DomainParticipant::peer_memory`](crate::DomainParticipant::peer_memory) shows the use and the guaranteed
    /// shares. The default is 2 GiB; `usize::MAX` means no limit.
    pub max_peer_bytes: usize,
    /// Maximum number of samples that a writer keeps until its reliable readers acknowledge them, where HISTORY and
    /// RESOURCE_LIMITS set no limit: `max_samples` is unlimited, and the writer is KEEP_ALL or has keys and unlimited
    /// `max_instances`. A further write waits up to `max_blocking_time`, then fails with
    /// [`Timeout::NoRoom`](crate::error::Timeout::NoRoom) and
    /// [`RoomLimit::Unacknowledged`](crate::error::RoomLimit::Unacknowledged). Samples that are kept for late joiners,
    /// and new values of instances in a full KEEP_LAST history, do not count. The default is 262,144; `u32::MAX` means
    /// no limit.
    pub max_unacknowledged_samples: u32,
    /// The same limit in payload bytes. Two samples of any length are kept. The default is 64 MiB; `usize::MAX` means
    /// no limit.
    pub max_unacknowledged_bytes: usize,
    /// Transports with connections, in addition to UDP. The default is none.
    #[doc(hidden)]
    pub stream_links: StreamLinks,
    /// Wait method of receive threads. The default is [`WaitStrategy::Block`].
    pub wait: WaitStrategy,
    /// Settings of the domain's threads. The default is that of [`ThreadSettings`].
    pub threads: ThreadSettings,
}

impl Default for DomainConfig {
    fn default() -> Self {
        Self {
            interfaces: InterfaceSelection::Default,
            udp_v4: true,
            udp_v6: false,
            shared_memory: true,
            eager_channels: 128,
            multicast: true,
            multicast_groups: Vec::new(),
            send_to_groups: true,
            send_to_unheard_addresses: false,
            peers: Vec::new(),
            message_bytes: None,
            receive_buffer_bytes: 8 << 20,
            send_buffer_bytes: None,
            receive_buffers: 256,
            dscp: 0,
            multicast_ttl: 1,
            same_process: true,
            linger: Duration::from_secs(1),
            unanswered_heartbeats: UNANSWERED_HEARTBEATS_MAX,
            max_sample_bytes: SAMPLE_BYTES_MAX,
            max_instances_per_reader: 1 << 20,
            max_cached_bytes_per_reader: CACHED_BYTES_MAX,
            max_peer_bytes: PEER_BYTES_MAX,
            max_unacknowledged_samples: UNACKNOWLEDGED_SAMPLES_MAX,
            max_unacknowledged_bytes: UNACKNOWLEDGED_BYTES_MAX,
            stream_links: StreamLinks::default(),
            wait: WaitStrategy::Block,
            threads: ThreadSettings::default(),
        }
    }
}

/// Defines a chainable setter for each field, because users cannot write a `non_exhaustive` struct as a literal.
/// Setters of lists and options take `impl Into`; setters of numbers take the plain type, so that the type of a literal
/// such as `46` can be inferred.
macro_rules! setters {
    ($($name:ident = $field:ident: $type:ty,)* ; into $($into_name:ident = $into_field:ident: $into_type:ty,)*) => {
        $(
            #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
            #[must_use]
            pub fn $name(mut self, value: $type) -> Self {
                self.$field = value;
                self
            }
        )*
        $(
            #[doc = concat!("Sets [`", stringify!($into_field), "`](Self::", stringify!($into_field), ").")]
            #[must_use]
            pub fn $into_name(mut self, value: impl Into<$into_type>) -> Self {
                self.$into_field = value.into();
                self
            }
        )*
    };
}

impl DomainConfig {
    setters! {
        with_interfaces = interfaces: InterfaceSelection,
        with_udp_v4 = udp_v4: bool,
        with_udp_v6 = udp_v6: bool,
        with_shared_memory = shared_memory: bool,
        with_eager_channels = eager_channels: usize,
        with_multicast = multicast: bool,
        with_send_to_groups = send_to_groups: bool,
        with_send_to_unheard_addresses = send_to_unheard_addresses: bool,
        with_receive_buffer_bytes = receive_buffer_bytes: usize,
        with_receive_buffers = receive_buffers: usize,
        with_dscp = dscp: u8,
        with_multicast_ttl = multicast_ttl: u8,
        with_same_process = same_process: bool,
        with_wait = wait: WaitStrategy,
        with_threads = threads: ThreadSettings,
        with_linger = linger: Duration,
        with_unanswered_heartbeats = unanswered_heartbeats: u32,
        with_max_sample_bytes = max_sample_bytes: u32,
        with_max_instances_per_reader = max_instances_per_reader: u32,
        with_max_cached_bytes_per_reader = max_cached_bytes_per_reader: usize,
        with_max_peer_bytes = max_peer_bytes: usize,
        with_max_unacknowledged_samples = max_unacknowledged_samples: u32,
        with_max_unacknowledged_bytes = max_unacknowledged_bytes: usize,
        ; into
        with_multicast_groups = multicast_groups: Vec<IpAddr>,
        with_peers = peers: Vec<Peer>,
        with_message_bytes = message_bytes: Option<usize>,
        with_send_buffer_bytes = send_buffer_bytes: Option<usize>,
    }
}

impl DomainConfig {
    /// Sets [`stream_links`](Self::stream_links).
    #[doc(hidden)]
    #[must_use]
    pub fn with_stream_links(mut self, value: StreamLinks) -> Self {
        self.stream_links = value;
        self
    }
}

impl ThreadSettings {
    setters! {
        with_stack_bytes = stack_bytes: usize,
        ; into
        with_name_prefix = name_prefix: String,
        with_affinity = affinity: Option<Vec<usize>>,
        with_scheduling = scheduling: Option<Scheduling>,
    }
}

impl DomainConfig {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(bytes) = self.message_bytes
            && !(MESSAGE_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&bytes)
        {
            let (min, max) = (MESSAGE_BYTES_MIN as u64, MESSAGE_BYTES_MAX as u64);
            return Err(BadParameter::OutOfRange {
                argument: Argument::MessageBytes,
                value: bytes as u64,
                min,
                max,
                unit: Unit::Bytes,
            }
            .into());
        }
        for (argument, value, max, unit) in [
            (Argument::UnansweredHeartbeats, self.unanswered_heartbeats, u32::MAX, Unit::None),
            (Argument::MaxSampleBytes, self.max_sample_bytes, SAMPLE_BYTES_MAX, Unit::Bytes),
            (Argument::MaxInstancesPerReader, self.max_instances_per_reader, u32::MAX, Unit::None),
            (Argument::MaxUnacknowledgedSamples, self.max_unacknowledged_samples, u32::MAX, Unit::None),
        ] {
            if !(1..=max).contains(&value) {
                let (value, min, max) = (value.into(), 1, max.into());
                return Err(BadParameter::OutOfRange { argument, value, min, max, unit }.into());
            }
        }
        for (argument, bytes) in [
            (Argument::MaxCachedBytesPerReader, self.max_cached_bytes_per_reader),
            (Argument::MaxPeerBytes, self.max_peer_bytes),
            (Argument::MaxUnacknowledgedBytes, self.max_unacknowledged_bytes),
        ] {
            if bytes == 0 {
                let unit = Unit::Bytes;
                return Err(BadParameter::OutOfRange { argument, value: 0, min: 1, max: u64::MAX, unit }.into());
            }
        }
        if self.threads.name_prefix.contains('\0') {
            return Err(BadParameter::NulCharacter { argument: Argument::ThreadNamePrefix }.into());
        }
        if self.dscp > 63 {
            let value = self.dscp.into();
            let (argument, unit) = (Argument::Dscp, Unit::None);
            return Err(BadParameter::OutOfRange { argument, value, min: 0, max: 63, unit }.into());
        }
        for peer in &self.peers {
            let kinds = || self.stream_links.as_slice().iter().map(|link| link.kind());
            if let Place::Locator(locator) = peer.place
                && !kinds().any(|kind| kind == locator.kind)
            {
                let fault = PeerFault::Locator(LocatorFault::NotInUse);
                return Err(BadParameter::Peer { peer: locator.to_string(), fault }.into());
            }
        }
        for group in &self.multicast_groups {
            let is_spoken = if group.is_ipv4() { self.udp_v4 } else { self.udp_v6 };
            let fault = match group.is_multicast() {
                false => GroupFault::NotMulticast,
                true if !is_spoken => GroupFault::NotInUse,
                true => continue,
            };
            return Err(BadParameter::Group { group: *group, fault }.into());
        }
        Ok(())
    }

    /// The names and addresses in [`Self::interfaces`] that no usable interface of this host has now. A running domain
    /// uses such an interface as soon as the interface appears. A domain cannot start without any usable interface.
    ///
    /// # Errors
    /// The system does not list its interfaces.
    pub fn missing_interfaces(&self) -> Result<Vec<String>, Error> {
        let all = interface::list().map_err(Error::system)?;
        Ok(self.interfaces.unmatched(&all).into_iter().cloned().collect())
    }
}

/// Where to look for participants: `[index@][udpv4://|udpv6://]host[:port]`, or `locator://kind/[address/]port`.
///
/// Write an IPv6 address with a port in brackets. A link-local address includes its interface, as in
/// `[fe80::1%eth0]:7410`.
///
/// Without a port, the discovery ports of participant indices 0 to `index` (4 if not given) are tried.
///
/// A locator (RTPS 2.5 §8.2.6) is of a transport besides UDP that the configuration has. Its kind and port are numbers,
/// decimal or with `0x`; its address, 32 hexadecimal digits, is zero if not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Host { host: String, port: Option<u16>, max_index: u32 },
    Locator(Locator),
}

impl From<Locator> for Peer {
    fn from(locator: Locator) -> Self {
        Self { place: Place::Locator(locator) }
    }
}

/// `[address/]port` of a locator.
fn locator(kind: &str, rest: &str) -> Result<Locator, LocatorFault> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let kind = number(kind).and_then(|kind| i32::try_from(kind).ok()).ok_or(LocatorFault::Kind)?;
    let (address, port) = match rest.rsplit_once('/') {
        Some((address, port)) if address.len() == 32 && address.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            (u128::from_str_radix(address, 16).unwrap_or_default(), port)
        }
        Some(_) => return Err(LocatorFault::Address),
        None => (0, rest),
    };
    let port = number(port).ok_or(LocatorFault::Port)?;
    let locator = Locator { kind, port, address: address.to_be_bytes(), scope: 0 };
    locator.is_of_other_transport().then_some(locator).ok_or(LocatorFault::Udp)
}

/// The largest participant index of a peer.
const INDEX_MAX: u32 = 119;

/// Participant indices tried at a peer that does not say otherwise.
const MAX_INDEX_DEFAULT: u32 = 4;

impl FromStr for Peer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = |fault| Error::from(BadParameter::Peer { peer: text.to_owned(), fault });
        let host = |host: String, port, max_index| Self { place: Place::Host { host, port, max_index } };
        if let Some(rest) = text.strip_prefix("locator://") {
            let (kind, rest) = rest.split_once('/').ok_or_else(|| bad(PeerFault::Locator(LocatorFault::NoPort)))?;
            return locator(kind, rest).map(Self::from).map_err(|fault| bad(PeerFault::Locator(fault)));
        }
        let (max_index, rest) = match text.split_once('@') {
            None => (MAX_INDEX_DEFAULT, text),
            Some((index, rest)) => {
                let index = index.parse().ok().filter(|i| *i <= INDEX_MAX);
                (index.ok_or_else(|| bad(PeerFault::Index { max: INDEX_MAX }))?, rest)
            }
        };
        let rest = match rest.split_once("://") {
            None => rest,
            Some(("udpv4" | "udpv6" | "_udp" | "UDPv4" | "UDPv6", rest)) => rest,
            Some((transport, _)) => return Err(bad(PeerFault::Transport { name: transport.to_owned() })),
        };
        if let Ok(address) = rest.parse::<SocketAddr>() {
            let name = match address {
                SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
                _ => address.ip().to_string(),
            };
            return Ok(host(name, Some(address.port()), max_index));
        }
        let bare = rest.trim_start_matches('[').trim_end_matches(']');
        if is_v6(bare) || bare.parse::<IpAddr>().is_ok() {
            return Ok(host(bare.to_owned(), None, max_index));
        }
        let (name, port) = match rest.rsplit_once(':') {
            None => (rest, None),
            Some((host, port)) => (host, Some(port.parse().map_err(|_| bad(PeerFault::Port))?)),
        };
        let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).filter(|name| is_v6(name));
        let name = bracketed.unwrap_or(name);
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(bad(PeerFault::NoHost));
        }
        Ok(host(name.to_owned(), port, max_index))
    }
}

/// Whether this is an IPv6 address, with or without an interface.
fn is_v6(text: &str) -> bool {
    let (address, interface) = text.split_once('%').unwrap_or((text, "0"));
    address.parse::<Ipv6Addr>().is_ok() && !interface.is_empty() && !interface.contains([']', ':', '/'])
}

impl Peer {
    pub(crate) fn resolve(&self, domain: DomainId) -> Result<Vec<Locator>, Error> {
        let (host, max_index, given_port) = match &self.place {
            Place::Host { host, port, max_index } => (host, *max_index, *port),
            Place::Locator(locator) => return Ok(vec![*locator]),
        };
        let bad = |fault| BadParameter::Peer { peer: host.clone(), fault };
        let found = (host.as_str(), 0).to_socket_addrs();
        let found = found.map_err(|error| bad(PeerFault::Unresolved(LookupError::new(error))))?;
        let addresses: Vec<SocketAddr> = found.collect();
        let is_lost = |address: &SocketAddr| matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0);
        if addresses.iter().any(is_lost) {
            return Err(bad(PeerFault::NoInterface).into());
        }
        let ports = Ports::of(domain);
        Ok(addresses
            .into_iter()
            .flat_map(|mut address| {
                let ip = address.ip();
                let ports: Vec<u16> = match given_port {
                    Some(port) => vec![port],
                    None if ip.is_multicast() => ports.metatraffic_multicast().into_iter().collect(),
                    None => (0..=max_index).filter_map(|i| ports.metatraffic_unicast(i)).collect(),
                };
                ports.into_iter().map(move |port| {
                    address.set_port(port);
                    Locator::from(address)
                })
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Vec<String> {
        text.parse::<Peer>()
            .unwrap()
            .resolve(DomainId(1))
            .unwrap()
            .iter()
            .map(|l| l.to_socket_addr().unwrap().to_string())
            .collect()
    }

    #[test]
    fn valid_peer_addresses_resolve() {
        assert_eq!(resolved("10.1.2.3").len(), 5);
        assert_eq!(resolved("1@10.1.2.3"), ["10.1.2.3:7660", "10.1.2.3:7662"]);
        assert_eq!(resolved("0@udpv4://127.1.2.3"), ["127.1.2.3:7660"]);
        assert_eq!(resolved("10.1.2.3:9000"), ["10.1.2.3:9000"]);
        assert_eq!(resolved("[fd00::1]:9000"), ["[fd00::1]:9000"]);
        assert_eq!(resolved("[fe80::1%1]:9000"), ["[fe80::1%1]:9000"]);
        assert_eq!(resolved("[fe80::1%lo]:9000"), ["[fe80::1%1]:9000"]);
        assert_eq!(resolved("0@fe80::1%lo"), ["[fe80::1%1]:7660"]);
        assert_eq!(resolved("0@::1"), ["[::1]:7660"]);
        assert_eq!(resolved("239.255.0.1"), ["239.255.0.1:7650"]);
        assert_eq!(resolved("_udp://127.1.2.3:1"), ["127.1.2.3:1"]);
    }

    #[test]
    fn peer_of_another_transport_is_a_locator_of_a_link() {
        let resolved = |text: &str| text.parse::<Peer>().unwrap().resolve(DomainId(1)).unwrap();
        let plain = Locator { kind: 0x0100_0001, port: 7, address: [0; 16], scope: 0 };
        assert_eq!(resolved("locator://0x1000001/7"), [plain]);
        let mut address = [0; 16];
        (address[0], address[15]) = (0xfd, 0x2a);
        let long = Locator { kind: 4, port: 0x10, address, scope: 0 };
        assert_eq!(resolved("locator://4/fd00000000000000000000000000002a/0x10"), [long]);
        let error = DomainConfig::default().with_peers([plain.into()]).check().unwrap_err().to_string();
        assert!(error.contains("0x1000001") && error.contains("not in use"), "{error}");
        for (text, part) in [
            ("locator://4", "no port"),
            ("locator://x/7", "kind"),
            ("locator://4/12/7", "32"),
            ("locator://4/+d00000000000000000000000000002a/7", "32"),
            ("locator://4/y", "port"),
            ("locator://1/7", "UDP"),
        ] {
            let error = text.parse::<Peer>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_link_local_peer_needs_its_interface() {
        let error = "[fe80::1]:9000".parse::<Peer>().unwrap().resolve(DomainId(1)).unwrap_err().to_string();
        assert!(error.contains("fe80::1%eth0"), "{error}");
    }

    #[test]
    fn invalid_multicast_group_is_refused() {
        let with = |group: &str| {
            let mut config = DomainConfig::default();
            config.multicast_groups.push(group.parse().unwrap());
            config.check()
        };
        assert!(with("239.255.1.1").is_ok());
        assert!(with("10.0.0.1").unwrap_err().to_string().contains("10.0.0.1"));
        assert!(with("ff02::1:1").unwrap_err().to_string().contains("transport in use"));
    }

    #[test]
    fn invalid_peer_address_is_refused_with_the_reason() {
        for (text, part) in
            [("500@10.1.2.3", "index"), ("tcpv4_lan://127.1.2.3", "tcpv4_lan"), ("", "no host"), ("host:port", "port")]
        {
            let error = text.parse::<Peer>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
