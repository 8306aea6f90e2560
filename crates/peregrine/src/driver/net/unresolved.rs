//! Hosts whose link-layer addresses are not known, because they are switched off or out of reach.
//!
//! The kernel keeps datagrams for such a host for up to three seconds, in the send buffer of the socket that sent them.
//! All destinations share the socket of the domain: one absent host would fill the buffer, and no thread could send to
//! any host. When a send buffer is half full, the sending thread therefore reads the kernel's table of neighbours. If
//! some are unresolved, messages for them continue to use that socket and do not wait for room; all other messages
//! leave by a new socket, until no message goes to an unresolved host any more.
//!
//! Nothing is sent to an unresolved host on a link that is down. The kernel would look for the host once per second,
//! and the first message after the return of the link would wait for the next attempt.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use peregrine_rtps::time::{Instant, Span};
use peregrine_transport::interface::{self, InterfaceIndex, Neighbour, next_hop, unresolved_neighbours};
use peregrine_transport::udp::{Socket, SocketOptions, Statistics, Transmit};
use tracing::Level;

use crate::driver::base::clock::now;
use crate::driver::base::sync::lock;
use crate::driver::base::user_code::log;

/// Bytes that leave by a shared socket between two looks at its send buffer: a part of the smallest usual buffer.
const CHECK_EVERY_BYTES: usize = 32 << 10;
/// The kernel adds at least this to the length of a datagram in its account.
const DATAGRAM_OVERHEAD_BYTES: usize = 768;
/// Shortest time between two readings of the table of neighbours while the send buffer is half full.
const LOOK_EVERY: Span = Span::from_millis(20);
/// Time after which the table is read again while neighbours are unresolved.
const LOOK_AGAIN_AFTER: Span = Span::from_millis(200);
/// How long the table is read from time to time after a change of the interfaces.
const ATTENTIVE_FOR: Span = Span::from_secs(5);
/// Destinations that are logged at most, until all hosts are resolved.
const LOGGED_MAX: usize = 64;
/// Destinations whose next hop is remembered between two readings. Others are looked up for each message.
const HOPS_MAX: usize = 1024;

/// The unresolved hosts of a domain, and the sockets for messages to the others.
#[derive(Debug)]
pub(super) struct Unresolved {
    options: SocketOptions,
    /// Bytes sent by shared sockets since the last check.
    unchecked_bytes: AtomicUsize,
    /// When the table may be read again, in nanoseconds.
    next_look: AtomicU64,
    /// Until when the table is read from time to time although no host is unresolved, in nanoseconds.
    attentive_until: AtomicU64,
    is_diverting: AtomicBool,
    diversion: RwLock<Option<Arc<Diversion>>>,
    /// Destinations that were logged as unresolved since the last time at which all hosts were resolved.
    logged: Mutex<Vec<IpAddr>>,
    /// Counters of sockets that have been replaced: over IPv4, over IPv6.
    replaced: Mutex<[Statistics; 2]>,
}

/// The state while there are unresolved hosts.
#[derive(Debug)]
pub(super) struct Diversion {
    hosts: Vec<Neighbour>,
    /// The interfaces of these hosts whose links are down.
    down: Vec<InterfaceIndex>,
    /// The way to the destinations of messages, with the zone of link-local addresses.
    hops: Mutex<Vec<((IpAddr, u32), Way)>>,
    /// The sockets for messages to other destinations: over IPv4, over IPv6.
    others: [Option<Arc<Socket>>; 2],
    again_at: Instant,
}

/// The way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Clear,
    /// The kernel looks for the next hop.
    Unresolved,
    /// The kernel looks for the next hop, on a link that is down.
    Down,
}

impl Unresolved {
    pub(super) fn new(options: &SocketOptions) -> Self {
        // No thread reads from the sockets for other destinations.
        let options = SocketOptions { receive_buffer_bytes: Some(0), receive_offload: false, ..options.clone() };
        Self {
            options,
            unchecked_bytes: AtomicUsize::new(0),
            next_look: AtomicU64::new(0),
            attentive_until: AtomicU64::new(0),
            is_diverting: AtomicBool::new(false),
            diversion: RwLock::default(),
            logged: Mutex::default(),
            replaced: Mutex::default(),
        }
    }

    /// The way to this destination.
    pub(super) fn way(&self, diversion: &Diversion, to: SocketAddr) -> Way {
        let (way, destination) = (diversion.way(to), to.ip());
        if way != Way::Clear {
            let mut logged = lock(&self.logged);
            if logged.len() < LOGGED_MAX && !logged.contains(&destination) {
                logged.push(destination);
                log(Level::INFO, move || {
                    tracing::info!(%destination, "no host answers on the link: messages to it no longer delay others");
                });
            }
        }
        way
    }

    /// The interfaces of the host have changed: a link may have gone down or come back.
    pub(super) fn follow_links(&self) {
        let now = now();
        self.attentive_until.store((now + ATTENTIVE_FOR).0, Ordering::Relaxed);
        self.next_look.store(0, Ordering::Relaxed);
        self.look();
    }

    /// Whether there are unresolved hosts, or the interfaces have changed lately.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.is_diverting.load(Ordering::Relaxed)
    }

    /// The state while there are unresolved hosts. Reads the table of neighbours again from time to time.
    pub(super) fn diversion(&self) -> Option<Arc<Diversion>> {
        let current = self.read()?;
        let now = now();
        if now < current.again_at {
            return Some(current);
        }
        let is_attentive = now.0 < self.attentive_until.load(Ordering::Relaxed);
        if current.is_unused() && !is_attentive {
            // The table has hosts that other programs look for.
            self.set(now, Vec::new(), Vec::new);
        } else {
            self.look();
        }
        self.read()
    }

    /// Reads the table of neighbours when a send buffer is full. Returns whether there are no unresolved hosts, so that
    /// the thread may wait for room.
    #[cold]
    pub(super) fn is_free_after_look(&self) -> bool {
        self.look();
        !self.is_any()
    }

    /// Counts a call of a shared socket that sent `transmits`, and reads the table of neighbours if the send buffer is
    /// half full.
    pub(super) fn note_sent(&self, socket: &Socket, transmits: &[Transmit<'_>]) {
        let datagram = |t: &Transmit<'_>| t.slices.iter().map(|slice| slice.len()).sum::<usize>();
        let bytes = transmits.iter().map(|t| datagram(t).saturating_add(DATAGRAM_OVERHEAD_BYTES)).sum::<usize>();
        let unchecked = self.unchecked_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        // A lost update of another thread delays the check by one message.
        self.unchecked_bytes.store(if unchecked >= CHECK_EVERY_BYTES { 0 } else { unchecked }, Ordering::Relaxed);
        if unchecked >= CHECK_EVERY_BYTES && socket.is_half_full() {
            self.look();
        }
    }

    /// Reads the table of neighbours after a send buffer was found half full, or full.
    #[cold]
    pub(super) fn look(&self) {
        let now = now();
        let due = self.next_look.load(Ordering::Relaxed);
        let next = now + LOOK_EVERY;
        if now.0 < due || self.next_look.compare_exchange(due, next.0, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        match unresolved_neighbours() {
            Ok(hosts) => {
                if hosts.is_empty() {
                    // The buffer is full because of a slow link.
                    self.next_look.store((now + LOOK_AGAIN_AFTER).0, Ordering::Relaxed);
                }
                self.set(now, hosts, links_down);
            }
            Err(error) => {
                // A sandbox without netlink sockets.
                self.next_look.store((now + Span::from_secs(60)).0, Ordering::Relaxed);
                log(Level::DEBUG, move || tracing::debug!(%error, "absent hosts cannot be told from slow links"));
                self.attentive_until.store(0, Ordering::Relaxed);
                self.set(now, Vec::new(), Vec::new);
            }
        }
    }

    /// Sends messages to these hosts apart from all others. Sockets are opened, and links read, without the lock.
    fn set(&self, now: Instant, hosts: Vec<Neighbour>, links_down: impl FnOnce() -> Vec<InterfaceIndex>) {
        let before = self.read();
        let next = if hosts.is_empty() && now.0 >= self.attentive_until.load(Ordering::Relaxed) {
            None
        } else {
            let used = before.as_deref().filter(|before| !before.hosts.is_empty());
            // Hosts that are newly unresolved may have filled the buffer of the sockets for others.
            let stays = used.filter(|before| !hosts.is_empty() && !before.is_filled_by_others_of(&hosts));
            let others = match stays {
                Some(before) => before.others.clone(),
                None if hosts.is_empty() => [None, None],
                None => [true, false].map(|is_v4| self.open(is_v4)),
            };
            let down = if hosts.is_empty() { Vec::new() } else { links_down() };
            let again_at = now + LOOK_AGAIN_AFTER;
            Some(Arc::new(Diversion { hosts, down, hops: Mutex::default(), others, again_at }))
        };
        self.is_diverting.store(next.is_some(), Ordering::Relaxed);
        let is_over = next.as_ref().is_none_or(|next| next.hosts.is_empty());
        let replaced = {
            let mut current = self.diversion.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, next.clone())
        };
        for (index, socket) in replaced.iter().flat_map(|replaced| replaced.others.iter().enumerate()) {
            let stays = next.as_ref().and_then(|next| next.others.get(index)).and_then(Option::as_ref);
            if let Some(socket) = socket
                && stays.is_none_or(|stays| !Arc::ptr_eq(stays, socket))
            {
                self.keep_statistics(socket);
            }
        }
        if is_over {
            let found = std::mem::take(&mut *lock(&self.logged));
            if !found.is_empty() {
                log(Level::INFO, move || tracing::info!(?found, "the kernel no longer looks for these hosts"));
            }
        }
    }

    fn open(&self, is_v4: bool) -> Option<Arc<Socket>> {
        let any: IpAddr = if is_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        match Socket::unicast(SocketAddr::new(any, 0), &self.options) {
            Ok(socket) => Some(Arc::new(socket)),
            // No descriptors, or no such IP version: the shared socket is used.
            Err(error) => {
                log(Level::DEBUG, move || tracing::debug!(%error, "no socket apart from that of absent hosts"));
                None
            }
        }
    }

    fn keep_statistics(&self, socket: &Socket) {
        let mut replaced = lock(&self.replaced);
        let [v4, v6] = &mut *replaced;
        *(if socket.local_address().is_ipv4() { v4 } else { v6 }) += socket.statistics();
    }

    /// Counters of the sockets for other destinations: over IPv4, over IPv6.
    pub(super) fn statistics(&self) -> [Statistics; 2] {
        let mut sums = *lock(&self.replaced);
        if let Some(current) = self.read() {
            for (sum, socket) in sums.iter_mut().zip(&current.others) {
                if let Some(socket) = socket {
                    *sum += socket.statistics();
                }
            }
        }
        sums
    }

    fn read(&self) -> Option<Arc<Diversion>> {
        self.diversion.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Diversion {
    fn way(&self, to: SocketAddr) -> Way {
        if self.hosts.is_empty() {
            return Way::Clear;
        }
        let zone = if let SocketAddr::V6(v6) = to { v6.scope_id() } else { 0 };
        let key = (to.ip(), zone);
        let known = |hops: &[((IpAddr, u32), Way)]| hops.iter().find(|(to, _)| *to == key).map(|(_, way)| *way);
        if let Some(way) = known(&lock(&self.hops)) {
            return way;
        }
        let way = match next_hop(to) {
            Ok(hop) if !self.hosts.contains(&hop) => Way::Clear,
            Ok(hop) if self.down.contains(&hop.interface) => Way::Down,
            Ok(_) => Way::Unresolved,
            // Without a route, the kernel refuses the message at once.
            Err(_) => Way::Clear,
        };
        let mut hops = lock(&self.hops);
        if hops.len() < HOPS_MAX && known(&hops).is_none() {
            hops.push((key, way));
        }
        debug_assert!(hops.len() <= HOPS_MAX);
        way
    }

    /// The socket for messages to destinations that are not unresolved.
    pub(super) fn socket(&self, destination: SocketAddr) -> Option<&Socket> {
        let [v4, v6] = &self.others;
        if destination.is_ipv4() { v4.as_deref() } else { v6.as_deref() }
    }

    /// Whether no message went to one of the hosts.
    fn is_unused(&self) -> bool {
        lock(&self.hops).iter().all(|(_, way)| *way == Way::Clear)
    }

    /// Whether one of these hosts is new, and may have filled the sockets for other destinations.
    fn is_filled_by_others_of(&self, hosts: &[Neighbour]) -> bool {
        hosts.iter().any(|host| !self.hosts.contains(host))
            && self.others.iter().flatten().any(|socket| socket.is_half_full())
    }
}

/// The interfaces that are switched on and have no carrier.
fn links_down() -> Vec<InterfaceIndex> {
    let all = interface::list().unwrap_or_default();
    all.into_iter().filter(|it| it.flags.up && !it.flags.running).map(|it| it.index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_hop_to(address: [u8; 4]) -> Neighbour {
        next_hop((address, 0).into()).unwrap()
    }

    #[test]
    fn only_messages_for_unresolved_hosts_lack_a_path() {
        let unresolved = Unresolved::new(&SocketOptions::default());
        assert!(!unresolved.is_any() && unresolved.diversion().is_none());
        unresolved.set(now() + Span::from_secs(60), vec![next_hop_to([127, 0, 0, 9])], Vec::new);
        let diversion = unresolved.diversion().unwrap();
        for _ in 0..2 {
            assert_eq!(unresolved.way(&diversion, ([127, 0, 0, 9], 0).into()), Way::Unresolved);
            assert_eq!(unresolved.way(&diversion, ([127, 0, 0, 1], 0).into()), Way::Clear);
        }
        assert!(diversion.socket("127.0.0.1:1".parse().unwrap()).unwrap().local_address().is_ipv4());
        unresolved.set(now(), Vec::new(), Vec::new);
        assert!(!unresolved.is_any() && unresolved.diversion().is_none());
    }

    #[test]
    fn unresolved_host_behind_a_link_that_is_down_is_distinguished() {
        let unresolved = Unresolved::new(&SocketOptions::default());
        let host = next_hop_to([127, 0, 0, 9]);
        unresolved.set(now() + Span::from_secs(60), vec![host], || vec![host.interface]);
        let diversion = unresolved.diversion().unwrap();
        assert_eq!(unresolved.way(&diversion, ([127, 0, 0, 9], 0).into()), Way::Down);
        assert_eq!(unresolved.way(&diversion, ([127, 0, 0, 1], 0).into()), Way::Clear, "the host is resolved");
    }

    #[test]
    fn table_is_read_for_a_while_after_a_change_of_the_interfaces() {
        let unresolved = Unresolved::new(&SocketOptions::default());
        unresolved.follow_links();
        assert!(unresolved.is_any());
        let diversion = unresolved.diversion().unwrap();
        assert_eq!(unresolved.way(&diversion, ([127, 0, 0, 1], 0).into()), Way::Clear);
        unresolved.set(now() + ATTENTIVE_FOR, Vec::new(), Vec::new);
        assert!(!unresolved.is_any());
    }

    #[test]
    fn hosts_that_other_programs_look_for_do_not_separate_messages_for_long() {
        let unresolved = Unresolved::new(&SocketOptions::default());
        let long_ago = Instant(0);
        unresolved.set(long_ago, vec![next_hop_to([127, 0, 0, 9])], Vec::new);
        let diversion = unresolved.read().unwrap();
        assert_eq!(unresolved.way(&diversion, ([127, 0, 0, 1], 0).into()), Way::Clear);
        assert!(unresolved.diversion().is_none());
    }

    #[test]
    fn table_of_neighbours_is_read_again_after_a_while() {
        let unresolved = Unresolved::new(&SocketOptions::default());
        let long_ago = Instant(0);
        unresolved.set(long_ago, vec![next_hop_to([127, 0, 0, 9])], Vec::new);
        let diversion = unresolved.read().unwrap();
        assert_eq!(unresolved.way(&diversion, ([127, 0, 0, 9], 0).into()), Way::Unresolved);
        // No table of neighbours contains an address of the loopback interface.
        assert!(unresolved.diversion().is_none_or(|diversion| diversion.hosts != [next_hop_to([127, 0, 0, 9])]));
    }

    #[test]
    fn sockets_for_other_hosts_stay_while_the_same_hosts_are_unresolved_and_their_counters_remain() {
        let unresolved = Unresolved::new(&SocketOptions::default());
        let hosts = || vec![next_hop_to([127, 0, 0, 9])];
        let address = || unresolved.read().unwrap().others.each_ref().map(|s| s.as_ref().map(|s| s.local_address()));
        unresolved.set(now() + Span::from_secs(60), hosts(), Vec::new);
        let before = address();
        let destination = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let slices = [std::io::IoSlice::new(b"RTPS")];
        let transmit = Transmit { slices: &slices, destination, segment_bytes: None };
        unresolved.read().unwrap().socket(destination).unwrap().send(&[transmit]);
        unresolved.set(now() + Span::from_secs(60), hosts(), Vec::new);
        assert_eq!(address(), before);
        unresolved.set(now(), Vec::new(), Vec::new);
        assert_eq!(unresolved.statistics().map(|statistics| statistics.datagrams_sent), [1, 0]);
    }

    #[test]
    fn number_of_remembered_destinations_is_bounded() {
        let unresolved = Unresolved::new(&SocketOptions::default());
        let hosts = (0..LOGGED_MAX + 8).map(|n| next_hop_to([127, 1, 0, n as u8])).collect();
        unresolved.set(now() + Span::from_secs(60), hosts, Vec::new);
        let diversion = unresolved.diversion().unwrap();
        for number in 0..HOPS_MAX + 8 {
            let way = unresolved.way(&diversion, ([127, 1, (number / 256) as u8, (number % 256) as u8], 0).into());
            assert_eq!(way == Way::Unresolved, number < LOGGED_MAX + 8);
        }
        assert_eq!((lock(&diversion.hops).len(), lock(&unresolved.logged).len()), (HOPS_MAX, LOGGED_MAX));
    }
}
