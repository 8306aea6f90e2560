//! The state that follows the interfaces of the host: announced addresses, joined groups, and the sockets that send
//! multicast.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::{Arc, Mutex};

use peregrine_rtps::id::DomainId;
use peregrine_rtps::locator::{DOMAIN_ID_MAX, Locator, Ports, SPDP_MULTICAST_V4, SPDP_MULTICAST_V6};
use peregrine_rtps::participant::{Addresses, LocalAddress, Paths};
use peregrine_transport::interface::{self, Interface, InterfaceIndex};
use peregrine_transport::udp::{Fragmentation, Socket, SocketOptions};
use tracing::Level;

use super::groups::Groups;
use super::send::{MulticastSenders, SendSockets};
use crate::config::DomainConfig;
use crate::driver::base::sync::{Guard, lock};
use crate::driver::base::user_code::log;
use crate::error::{Argument, BadParameter, Error, GroupFault, Unit};

/// Number of participant indices at which participants of a host without multicast are discovered.
const PEER_INDICES: u32 = 20;

/// One IP version: its sockets, which keep their ports when interfaces change.
#[derive(Debug)]
pub(in crate::driver) struct Family {
    pub(super) is_v4: bool,
    pub(super) options: SocketOptions,
    pub(super) meta_port: u16,
    pub(super) user_port: u16,
    /// Receives at the multicast group of discovery.
    pub(in crate::driver) discovery: Option<Groups>,
    /// Receives user data at multicast groups; opened for the first group.
    pub(in crate::driver) user: Option<Groups>,
}

/// The part of a domain that changes with the interfaces of the host.
#[derive(Debug)]
pub(in crate::driver) struct Network {
    id: DomainId,
    config: DomainConfig,
    /// The peers and groups that the configuration names.
    peers: Vec<Locator>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    families: Vec<Family>,
    used: Vec<Interface>,
    addresses: Arc<Addresses>,
}

impl Network {
    /// Finds the interfaces for the first time.
    ///
    /// # Errors
    /// No interface matches the selection, or none of the selected ones has a usable address.
    pub(in crate::driver) fn open(
        id: DomainId,
        config: &DomainConfig,
        families: Vec<Family>,
        sockets: &SendSockets,
    ) -> Result<Self, Error> {
        let all = interface::list().map_err(Error::system)?;
        let used = match interface::select(&all, &config.interfaces) {
            Err(error) if !families.is_empty() => return Err(BadParameter::NoInterface(error).into()),
            used => used.unwrap_or_default(),
        };
        for pattern in config.interfaces.unmatched(&all) {
            let pattern = pattern.to_owned();
            log(Level::WARN, move || {
                tracing::warn!(
                    pattern,
                    "no usable network interface has this name or address; it is used when it comes"
                );
            });
        }
        let has_address = |family: &Family| used.iter().any(|i| family.addresses_of(i).next().is_some());
        if !families.is_empty() && !families.iter().any(has_address) {
            let is_used = |is_v4| families.iter().any(|family| family.is_v4 == is_v4);
            return Err(BadParameter::NoAddress { v4: is_used(true), v6: is_used(false) }.into());
        }
        let state = State { families, used: Vec::new(), addresses: Arc::default() };
        let network = Self { id, config: config.clone(), peers: peers(id, config)?, state: Mutex::new(state) };
        network.follow(&mut network.lock(), &all, sockets);
        Ok(network)
    }

    /// The current addresses of participants.
    pub(in crate::driver) fn addresses(&self) -> Arc<Addresses> {
        Arc::clone(&self.lock().addresses)
    }

    /// Reads the interfaces again. Returns the new addresses if they have changed.
    pub(in crate::driver) fn refresh(&self, sockets: &SendSockets) -> Option<Arc<Addresses>> {
        let all = match interface::list() {
            Ok(all) => all,
            Err(error) => {
                log(
                    Level::WARN,
                    move || tracing::warn!(%error, "the network interfaces have changed and cannot be listed"),
                );
                return None;
            }
        };
        let mut state = self.lock();
        let before = Arc::clone(&state.addresses);
        self.follow(&mut state, &all, sockets);
        if state.addresses == before {
            return None;
        }
        let (gone, new) = (missing_from(&state.addresses, &before), missing_from(&before, &state.addresses));
        log(Level::INFO, move || tracing::info!(?new, ?gone, "the addresses of this host have changed"));
        Some(Arc::clone(&state.addresses))
    }

    /// Receives user data sent to this group from now on; `receive` receives at the socket if it is new. Returns where
    /// the data is to be sent.
    ///
    /// # Errors
    /// The address is no multicast group of an IP version in use, the port of the domain for the group is in use,
    /// the system is short of descriptors, or `receive` has failed. The next call opens the socket again.
    pub(in crate::driver) fn join(
        &self,
        group: IpAddr,
        receive: impl FnOnce(&Arc<Socket>) -> Result<(), Error>,
    ) -> Result<Locator, Error> {
        if !group.is_multicast() {
            return Err(BadParameter::Group { group, fault: GroupFault::NotMulticast }.into());
        }
        let port = self.user_port()?;
        let mut state = self.lock();
        let State { families, used, .. } = &mut *state;
        let Some(family) = families.iter_mut().find(|f| f.is_v4 == group.is_ipv4()) else {
            return Err(BadParameter::Group { group, fault: GroupFault::NotInUse }.into());
        };
        let interfaces = family.multicast_interfaces(used.iter());
        let groups = match &mut family.user {
            Some(groups) => groups,
            none => {
                let any = SocketAddr::new(unspecified(family.is_v4), port);
                let socket = Arc::new(Socket::multicast(any, &family.options).map_err(Error::transport)?);
                receive(&socket)?;
                none.insert(Groups::new(socket))
            }
        };
        groups.want(group);
        groups.follow(&interfaces);
        if !groups.has_joined(group) && !interfaces.is_empty() {
            log(
                Level::WARN,
                move || tracing::warn!(%group, "no interface has joined this group; readers get their data by unicast"),
            );
        }
        Ok(Locator::from(SocketAddr::new(group, port)))
    }

    /// Ends one use of this group.
    pub(in crate::driver) fn leave(&self, group: IpAddr) {
        let mut state = self.lock();
        let State { families, used, .. } = &mut *state;
        for family in families.iter_mut().filter(|f| f.is_v4 == group.is_ipv4()) {
            let interfaces = family.multicast_interfaces(used.iter());
            if let Some(groups) = &mut family.user {
                groups.cancel(group);
                groups.follow(&interfaces);
            }
        }
    }

    fn user_port(&self) -> Result<u16, Error> {
        Ports::of(self.id).user_multicast().ok_or_else(|| no_such_domain(self.id))
    }

    fn lock(&self) -> Guard<'_, State> {
        lock(&self.state)
    }

    /// Joins groups, opens and closes sockets, and determines the addresses for these interfaces.
    fn follow(&self, state: &mut State, all: &[Interface], sockets: &SendSockets) {
        // All wanted interfaces may be missing for a while.
        let used = interface::select(all, &self.config.interfaces).unwrap_or_default();
        let mut senders = MulticastSenders::clone(&sockets.multicast());
        senders.retain(|sender| used.iter().any(|i| i.index == sender.interface));
        for family in &mut state.families {
            let interfaces = family.multicast_interfaces(used.iter().copied());
            senders.retain(|sender| sender.is_v4 != family.is_v4 || interfaces.contains(&sender.interface));
            for &interface in &interfaces {
                if !senders.iter().any(|s| s.is_v4 == family.is_v4 && s.interface == interface) {
                    senders.extend(family.open_sender(interface));
                }
            }
            if let Some(groups) = &mut family.user {
                groups.follow(&interfaces);
            }
            if let Some(groups) = &mut family.discovery {
                groups.follow(&interfaces);
            }
        }
        sockets.set_multicast(senders);
        let addresses = self.find_addresses(&state.families, all, &used);
        if *state.addresses != addresses {
            state.addresses = Arc::new(addresses);
        }
        state.used = used.into_iter().cloned().collect();
    }

    fn find_addresses(&self, families: &[Family], all: &[Interface], used: &[&Interface]) -> Addresses {
        let has = |is_v4| families.iter().any(|f| f.is_v4 == is_v4);
        let links = self.config.stream_links.as_slice();
        let paths = Paths::new(local_addresses(all, used), self.config.message_bytes)
            .only(has(true), has(false))
            .with_groups(self.config.send_to_groups)
            .trusting_names(self.config.send_to_unheard_addresses)
            .with_streams(links.iter().map(|link| link.kind()).collect());
        let mut addresses = Addresses { paths, initial_peers: self.peers.clone(), ..Addresses::default() };
        addresses.streams.extend(links.iter().map(|link| link.address()));
        for family in families {
            let at = |port| used.iter().flat_map(|i| family.addresses_of(i)).map(move |ip| locator(ip, port));
            addresses.metatraffic_unicast.extend(at(family.meta_port));
            addresses.default_unicast.extend(at(family.user_port));
            let group = spdp_group(family.is_v4);
            if family.discovery.as_ref().is_some_and(|d| d.has_joined(group))
                && let Some(port) = Ports::of(self.id).metatraffic_multicast()
            {
                addresses.metatraffic_multicast.push(Locator::from(SocketAddr::new(group, port)));
            }
            let joined = self.config.multicast_groups.iter().filter(|group| group.is_ipv4() == family.is_v4);
            if let Some(port) = Ports::of(self.id).user_multicast() {
                let locators = joined.map(|group| Locator::from(SocketAddr::new(*group, port)));
                addresses.default_multicast.extend(locators);
            }
        }
        // The loopback interface supports multicast without the flag, but not every middleware joins groups on it.
        let has_group = used.iter().any(|interface| interface.flags.multicast);
        let are_peers_elsewhere = self.peers.iter().all(|peer| peer.is_of_other_transport());
        if are_peers_elsewhere && (!has_group || addresses.metatraffic_multicast.is_empty()) {
            // At least the participants of this host find each other.
            if let Some(own) = addresses.metatraffic_unicast.first().copied() {
                let ports = (0..PEER_INDICES).filter_map(|i| Ports::of(self.id).metatraffic_unicast(i));
                addresses.initial_peers.extend(ports.map(|port| Locator { port: port.into(), ..own }));
            }
        }
        addresses
    }
}

impl Family {
    /// The announced addresses of an interface. A link-local IPv6 address is usable on its link only, so it is
    /// announced only if the interface has no other address.
    fn addresses_of<'i>(&self, interface: &'i Interface) -> impl Iterator<Item = SocketAddr> + use<'i> {
        let is_v4 = self.is_v4;
        let is_local = |ip: IpAddr| matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let of_family = move |ip: &IpAddr| ip.is_ipv4() == is_v4;
        let ips = interface.addresses.iter().map(|a| a.ip);
        let has_other = ips.clone().any(|ip| of_family(&ip) && !is_local(ip));
        let told = ips.filter(of_family).filter(move |ip| !(has_other && is_local(*ip)));
        told.map(move |ip| match ip {
            IpAddr::V4(_) => SocketAddr::new(ip, 0),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, interface.index.0).into(),
        })
    }

    /// The interfaces that support multicast of this family.
    fn multicast_interfaces<'i>(&self, used: impl Iterator<Item = &'i Interface>) -> Vec<InterfaceIndex> {
        let carries = used.filter(|i| i.flags.multicast || i.flags.loopback);
        carries.filter(|i| self.addresses_of(i).next().is_some()).map(|i| i.index).collect()
    }

    fn open_sender(&self, interface: InterfaceIndex) -> Option<super::send::MulticastSender> {
        // Only IP can fragment a large announcement; samples fit the interface.
        let options = SocketOptions {
            multicast_interface: Some(interface),
            fragmentation: Fragmentation::Allow,
            ..self.options.clone()
        };
        match Socket::unicast(SocketAddr::new(unspecified(self.is_v4), 0), &options) {
            Ok(socket) => Some(super::send::MulticastSender { interface, is_v4: self.is_v4, socket: Arc::new(socket) }),
            Err(error) => {
                log(Level::WARN, move || tracing::warn!(interface = interface.0, %error, "cannot send multicast here"));
                None
            }
        }
    }
}

/// The group of discovery.
pub(super) fn spdp_group(is_v4: bool) -> IpAddr {
    if is_v4 { SPDP_MULTICAST_V4.into() } else { SPDP_MULTICAST_V6.into() }
}

/// A domain whose ports do not exist.
pub(super) fn no_such_domain(id: DomainId) -> Error {
    let (value, max) = (id.0.into(), DOMAIN_ID_MAX.into());
    BadParameter::OutOfRange { argument: Argument::Domain, value, min: 0, max, unit: Unit::None }.into()
}

/// Every address of this host.
pub(super) fn unspecified(is_v4: bool) -> IpAddr {
    if is_v4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

fn locator(mut address: SocketAddr, port: u16) -> Locator {
    address.set_port(port);
    Locator::from(address)
}

/// The unicast addresses to which participants announce themselves, in addition to the groups.
fn peers(id: DomainId, config: &DomainConfig) -> Result<Vec<Locator>, Error> {
    let mut peers = Vec::new();
    for peer in &config.peers {
        peers.extend(peer.resolve(id)?);
    }
    Ok(peers)
}

/// The user-data addresses that `some` has and `others` lacks.
fn missing_from(others: &Addresses, some: &Addresses) -> Vec<Locator> {
    some.default_unicast.iter().filter(|l| !others.default_unicast.contains(l)).copied().collect()
}

fn local_addresses(all: &[Interface], used: &[&Interface]) -> Vec<LocalAddress> {
    let of = |interface: &Interface| {
        let is_used = used.iter().any(|u| u.index == interface.index);
        let (index, mtu_bytes, is_loopback) = (interface.index.0, interface.mtu_bytes, interface.flags.loopback);
        interface
            .addresses
            .iter()
            .map(|a| LocalAddress {
                ip: a.ip,
                interface: index,
                prefix_bits: a.prefix_bits,
                mtu_bytes: if mtu_bytes == 0 { 1500 } else { mtu_bytes },
                is_loopback,
                is_used,
            })
            .collect::<Vec<_>>()
    };
    all.iter().flat_map(of).collect()
}
