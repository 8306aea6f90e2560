//! Addresses and ports of each topic.
//!
//! Ports follow the RTPS formula (RTPS 2.5 §9.6.1.1) with `base = 7400 + 250 × domain`. A publisher receives pongs at
//! `base + 10` and announcements at `base + 11 + 2 × pid`; subscriber `sid` receives data at `base + 10 + 2 × (sid +
//! 1)`. For publisher 0 these are RTI Perftest's ports; the term with `pid` lets several publishers share a host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use crate::error::Error;
use crate::messaging::{Topic, missing_interface};
use crate::plan::{MulticastGroups, Role, TestPlan, TransportKind};

const PORT_BASE: u32 = 7400;
const DOMAIN_GAIN: u32 = 250;
const USER_OFFSET: u32 = 10;

/// All addresses that a process needs.
#[derive(Debug, Clone)]
pub(super) struct Addresses {
    /// The interface to use, if one was named.
    pub(super) interface: Option<Interface>,
    /// Address to which receivers bind without multicast.
    local: IpAddr,
    multicast: Option<MulticastGroups>,
    throughput: Vec<SocketAddr>,
    latency: Vec<SocketAddr>,
    announcement: Vec<SocketAddr>,
    local_ports: Ports,
    publishes: bool,
}

/// One address of one network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) address: IpAddr,
    pub(super) index: u32,
}

/// A partner, and the numbers of the processes at its address.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Peer {
    address: IpAddr,
    ids: Option<std::ops::RangeInclusive<u32>>,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    throughput: u16,
    latency: u16,
    announcement: u16,
}

impl Addresses {
    pub(super) fn resolve(plan: &TestPlan) -> Result<Self, Error> {
        let kind = plan.transport.kind;
        let interface = plan.transport.interfaces.first().map(|name| find_interface(name, kind)).transpose()?;
        let default_peer = interface.as_ref().map_or(loopback(kind), |interface| interface.address);
        let mut peers = Vec::new();
        for text in &plan.transport.peers {
            peers.push(parse_peer(text, kind)?);
        }
        let local = match &interface {
            Some(interface) => interface.address,
            None if peers.iter().all(|peer| peer.address.is_loopback()) => loopback(kind),
            None => unspecified(kind),
        };
        if peers.is_empty() {
            peers.push(Peer { address: default_peer, ids: None });
        }
        let publishes = matches!(plan.role, Role::Publisher(_));
        let mut addresses = Self {
            interface,
            local,
            multicast: plan.transport.multicast,
            throughput: Vec::new(),
            latency: Vec::new(),
            announcement: Vec::new(),
            local_ports: Ports::of(plan.data.domain, plan.entity_id(), plan.transport.multicast.is_some())?,
            publishes,
        };
        if let Some(groups) = plan.transport.multicast {
            let ports = Ports::of(plan.data.domain, 0, true)?;
            addresses.throughput = vec![SocketAddr::new(groups.throughput, ports.throughput)];
            addresses.latency = vec![SocketAddr::new(groups.latency, ports.latency)];
            addresses.announcement = vec![SocketAddr::new(groups.announcement, ports.announcement)];
        } else {
            addresses.add_unicast_destinations(plan, &peers)?;
        }
        Ok(addresses)
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.local.is_ipv4()
    }

    /// Destinations of a writer of this topic.
    pub(super) fn destinations(&self, topic: Topic) -> &[SocketAddr] {
        match topic {
            Topic::Throughput => &self.throughput,
            Topic::Latency => &self.latency,
            Topic::Announcement => &self.announcement,
        }
    }

    /// Source of a reader of this topic: a group to join, or an address of this host.
    pub(super) fn source(&self, topic: Topic) -> SocketAddr {
        let port = match topic {
            Topic::Throughput => self.local_ports.throughput,
            Topic::Latency => self.local_ports.latency,
            Topic::Announcement => self.local_ports.announcement,
        };
        let address = self.multicast.map_or(self.local, |groups| groups.of(topic));
        SocketAddr::new(address, port)
    }

    /// Addresses at which this process receives, for the configuration block.
    pub(super) fn local(&self) -> Vec<SocketAddr> {
        let topics: &[Topic] =
            if self.publishes { &[Topic::Latency, Topic::Announcement] } else { &[Topic::Throughput] };
        topics.iter().map(|topic| self.source(*topic)).collect()
    }

    /// Addresses to which this process sends, for the configuration block.
    pub(super) fn remote(&self) -> Vec<SocketAddr> {
        if self.publishes { self.throughput.clone() } else { [&self.latency[..], &self.announcement].concat() }
    }

    fn add_unicast_destinations(&mut self, plan: &TestPlan, peers: &[Peer]) -> Result<(), Error> {
        let (partners, option) = match &plan.role {
            Role::Publisher(publisher) => (publisher.subscribers, "-numSubscribers"),
            Role::Subscriber(subscriber) => (subscriber.publishers, "-numPublishers"),
        };
        let mut count = 0;
        for peer in peers {
            // A single address without numbers stands for all partners; one of several for partner 0.
            let all = if peers.len() == 1 { 0..=partners - 1 } else { 0..=0 };
            for id in peer.ids.clone().unwrap_or(all) {
                count += 1;
                if count > partners {
                    break;
                }
                let ports = Ports::of(plan.data.domain, id, false)?;
                if self.publishes {
                    self.throughput.push(SocketAddr::new(peer.address, ports.throughput));
                    continue;
                }
                self.announcement.push(SocketAddr::new(peer.address, ports.announcement));
                if id == 0 {
                    self.latency.push(SocketAddr::new(peer.address, ports.latency));
                }
            }
        }
        if count != partners {
            return Err(Error::Setup(format!(
                "-peer names {} {count} partners, but {option} is {partners}; write -peer addr:id or addr:first-last",
                if count > partners { "at least" } else { "only" },
            )));
        }
        Ok(())
    }
}

impl Ports {
    /// With multicast every subscriber shares the port of the first one, and every publisher that of publisher 0.
    fn of(domain: u32, id: u32, multicast: bool) -> Result<Self, Error> {
        let id = if multicast { 0 } else { id };
        let base = PORT_BASE + DOMAIN_GAIN * domain;
        let port = |offset: u32| {
            let number = offset.checked_add(base).and_then(|number| u16::try_from(number).ok());
            number.ok_or_else(|| {
                Error::Setup(format!(
                    "Process {id} of -domain {domain} would need a port above 65535; with raw sockets use a smaller \
                     -domain (at most 231) or process number"
                ))
            })
        };
        let step = id.saturating_mul(2);
        Ok(Self {
            throughput: port(step.saturating_add(USER_OFFSET + 2))?,
            latency: port(USER_OFFSET)?,
            announcement: port(step.saturating_add(USER_OFFSET + 1))?,
        })
    }
}

/// Parses `[index@][transport://]address[:id[-id2]]`; an IPv6 address with numbers is in brackets.
fn parse_peer(text: &str, kind: TransportKind) -> Result<Peer, Error> {
    let refuse = |reason: &str| Error::Setup(format!("-peer {text}: {reason}"));
    let rest = text.split_once('@').map_or(text, |(_, rest)| rest);
    let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
    let (host, ids) = if let Some(bracketed) = rest.strip_prefix('[') {
        let (host, ids) = bracketed.split_once(']').ok_or_else(|| refuse("the bracket is not closed"))?;
        (host, ids.strip_prefix(':'))
    } else if rest.parse::<Ipv6Addr>().is_ok() {
        (rest, None)
    } else {
        rest.split_once(':').map_or((rest, None), |(host, ids)| (host, Some(ids)))
    };
    let ids = ids.map(|ids| {
        let (first, last) = ids.split_once('-').unwrap_or((ids, ids));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
            _ => Err(refuse("after the address, a process number or a range such as 0-3 is expected")),
        }
    });
    let addresses = (host, 0).to_socket_addrs().map_err(|error| refuse(&error.to_string()))?;
    let address = addresses
        .map(|address| address.ip())
        .find(|address| address.is_ipv4() == kind.is_ipv4())
        .ok_or_else(|| refuse("it has no address of this transport"))?;
    Ok(Peer { address, ids: ids.transpose()? })
}

/// Finds an interface by name or by address.
fn find_interface(wanted: &str, kind: TransportKind) -> Result<Interface, Error> {
    let all = if_addrs::get_if_addrs()
        .map_err(|error| Error::Setup(format!("Cannot list the network interfaces: {error}")))?;
    let of_kind = |address: IpAddr| address.is_ipv4() == kind.is_ipv4();
    let found = all.iter().find(|interface| {
        of_kind(interface.ip())
            && (interface.name == wanted || wanted.parse::<IpAddr>().is_ok_and(|address| address == interface.ip()))
    });
    match found {
        Some(interface) => Ok(Interface { address: interface.ip(), index: interface.index.unwrap_or(0) }),
        None => Err(Error::Setup(missing_interface(wanted, kind)?)),
    }
}

fn loopback(kind: TransportKind) -> IpAddr {
    match kind {
        TransportKind::UdpV4 | TransportKind::SharedMemory => Ipv4Addr::LOCALHOST.into(),
        TransportKind::UdpV6 => Ipv6Addr::LOCALHOST.into(),
    }
}

fn unspecified(kind: TransportKind) -> IpAddr {
    match kind {
        TransportKind::UdpV4 | TransportKind::SharedMemory => Ipv4Addr::UNSPECIFIED.into(),
        TransportKind::UdpV6 => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Invocation, parse};
    use crate::plan::resolve;

    fn addresses(line: &str) -> Result<Addresses, Error> {
        let line = format!("-raw {line}");
        let words: Vec<_> = line.split_whitespace().collect();
        let Ok(Invocation::Run(options)) = parse(&words) else { panic!("{line}") };
        Addresses::resolve(&resolve(&options).unwrap())
    }

    fn texts(addresses: &[SocketAddr]) -> Vec<String> {
        addresses.iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn ports_of_domain_one_are_those_of_rti_perftest() {
        let publisher = addresses("-pub").unwrap();
        assert_eq!(texts(&publisher.local()), ["127.0.0.1:7660", "127.0.0.1:7661"]);
        assert_eq!(texts(publisher.destinations(Topic::Throughput)), ["127.0.0.1:7662"]);
        let subscriber = addresses("-sub -sidMultiSubTest 2").unwrap();
        assert_eq!(texts(&subscriber.local()), ["127.0.0.1:7666"]);
        assert_eq!(texts(&subscriber.remote()), ["127.0.0.1:7660", "127.0.0.1:7661"]);
    }

    #[test]
    fn partners_are_addressed_by_number() {
        let throughput = |line: &str| addresses(line).map(|found| texts(found.destinations(Topic::Throughput)));
        let two = ["127.0.0.1:7662", "127.0.0.1:7664"];
        assert_eq!(throughput("-pub -numSubscribers 2").unwrap(), two);
        assert_eq!(throughput("-pub -numSubscribers 2 -peer 127.0.0.1:0-1").unwrap(), two);
        assert_eq!(throughput("-pub -numSubscribers 2 -peer 127.0.0.1:0 -peer 127.0.0.1:1").unwrap(), two);
        let error = throughput("-pub -numSubscribers 3 -peer 127.0.0.1:0-1").unwrap_err().to_string();
        assert!(error.contains("only 2 partners, but -numSubscribers is 3"), "{error}");
        assert!(throughput("-pub -peer 127.0.0.1:0-4000000000").unwrap_err().to_string().contains("at least 2"));
        let publishers = addresses("-sub -numPublishers 2").unwrap();
        assert_eq!(texts(publishers.destinations(Topic::Announcement)), ["127.0.0.1:7661", "127.0.0.1:7663"]);
        assert_eq!(texts(publishers.destinations(Topic::Latency)), ["127.0.0.1:7660"]);
    }

    #[test]
    fn every_spelling_of_peers_is_accepted() {
        let peer = |text| parse_peer(text, TransportKind::UdpV4);
        for text in ["127.0.0.1", "_udp://127.0.0.1", "0@udpv4://127.0.0.1", "4@127.0.0.1"] {
            assert_eq!(peer(text).unwrap(), Peer { address: Ipv4Addr::LOCALHOST.into(), ids: None }, "{text}");
        }
        assert_eq!(peer("127.0.0.1:3").unwrap().ids, Some(3..=3));
        assert!(peer("127.0.0.1:3-2").is_err() && peer("127.0.0.1:x").is_err() && peer("[::1").is_err());
        assert!(peer("::1").unwrap_err().to_string().contains("no address of this transport"));
        let peer = |text| parse_peer(text, TransportKind::UdpV6);
        assert_eq!(peer("::1").unwrap(), Peer { address: Ipv6Addr::LOCALHOST.into(), ids: None });
        assert_eq!(peer("[::1]:0-2").unwrap().ids, Some(0..=2));
    }

    #[test]
    fn receivers_bind_no_wider_than_their_peers() {
        assert_eq!(addresses("-sub -peer 127.0.0.2").unwrap().local.to_string(), "127.0.0.1");
        assert_eq!(addresses("-sub -peer 10.0.0.9").unwrap().local.to_string(), "0.0.0.0");
        assert_eq!(addresses("-sub -nic lo -peer 10.0.0.9").unwrap().local.to_string(), "127.0.0.1");
    }

    #[test]
    fn multicast_ignores_numbers() {
        let subscriber = addresses("-sub -multicast -sidMultiSubTest 5").unwrap();
        assert_eq!(texts(&subscriber.local()), ["239.255.1.1:7662"]);
        assert_eq!(texts(&subscriber.remote()), ["239.255.1.2:7660", "239.255.1.100:7661"]);
    }

    #[test]
    fn missing_interface_is_named_with_the_existing_ones() {
        let error = addresses("-sub -nic nowhere0").unwrap_err();
        assert_eq!(error.exit_code(), 255);
        assert!(error.to_string().contains("nowhere0") && error.to_string().contains("lo (127.0.0.1)"), "{error}");
        assert!(addresses("-sub -domain 250").unwrap_err().to_string().contains("above 65535"));
        assert!(addresses("-sub -sidMultiSubTest 2147483647").unwrap_err().to_string().contains("above 65535"));
    }
}
