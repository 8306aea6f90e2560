//! Opens the permanent sockets of a domain.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use peregrine_rtps::id::DomainId;
use peregrine_rtps::locator::{DOMAIN_ID_MAX, Ports};
use peregrine_transport::udp::{ConnectedSockets, Fragmentation, OpenError, Socket, SocketOptions};
use tracing::Level;

use super::groups::Groups;
use super::guarded_link::guard;
use super::network::{Family, Network, no_such_domain, spdp_group, unspecified};
use super::send::SendSockets;
use super::streams::Streams;
use crate::config::DomainConfig;
use crate::driver::base::user_code::log;
use crate::error::{BadParameter, Error};

/// Highest participant index with well-known ports; then the ports of the next domain begin.
const INDEX_MAX: u32 = 119;

/// Maximum number of destinations with a connected socket.
const CONNECTED_MAX: usize = 16;

/// The open sockets of a domain.
pub(in crate::driver) struct Opened {
    pub(in crate::driver) network: Network,
    pub(in crate::driver) sockets: SendSockets,
    pub(in crate::driver) data_sockets: Vec<Arc<Socket>>,
    pub(in crate::driver) control_sockets: Vec<Arc<Socket>>,
}

pub(in crate::driver) fn open(id: DomainId, config: &DomainConfig) -> Result<Opened, Error> {
    if id.0 > DOMAIN_ID_MAX {
        return Err(no_such_domain(id));
    }
    let config = &DomainConfig { stream_links: guard(&config.stream_links), ..config.clone() };
    let options = socket_options(config);
    let connected = ConnectedSockets::new(CONNECTED_MAX, &options);
    let mut opening = Opening {
        families: Vec::new(),
        sockets: SendSockets::new(connected, &options, Streams::new(config.stream_links.clone())),
        data_sockets: Vec::new(),
        control_sockets: Vec::new(),
    };
    let both = config.udp_v4 && config.udp_v6;
    for is_v4 in [true, false].into_iter().filter(|v4| if *v4 { config.udp_v4 } else { config.udp_v6 }) {
        match opening.open_family(id, config, is_v4) {
            Ok(()) => {}
            Err(Error::Transport(error @ OpenError::FamilyNotSupported { .. })) if both => {
                log(Level::WARN, move || tracing::warn!(%error, "going on with one version of the Internet protocol"));
            }
            Err(error) => return Err(error),
        }
    }
    let Opening { families, sockets, data_sockets, control_sockets } = opening;
    if data_sockets.is_empty() && config.stream_links.as_slice().is_empty() {
        return Err(BadParameter::NoTransport.into());
    }
    let network = Network::open(id, config, families, &sockets)?;
    for shortfall in data_sockets.iter().flat_map(|s| s.shortfalls()) {
        let fix = shortfall.fix();
        log(
            Level::WARN,
            move || tracing::warn!(%shortfall, fix, "the system grants a smaller socket buffer than asked for"),
        );
    }
    Ok(Opened { network, sockets, data_sockets, control_sockets })
}

struct Opening {
    families: Vec<Family>,
    sockets: SendSockets,
    data_sockets: Vec<Arc<Socket>>,
    control_sockets: Vec<Arc<Socket>>,
}

impl Opening {
    fn open_family(&mut self, id: DomainId, config: &DomainConfig, is_v4: bool) -> Result<(), Error> {
        let options = socket_options(config);
        let (meta, user) = open_unicast(id, unspecified(is_v4), &options)?;
        let (meta, user) = (Arc::new(meta), Arc::new(user));
        let discovery = if config.multicast { open_discovery(id, is_v4, &options) } else { None };
        self.control_sockets.extend(discovery.as_ref().map(|groups| Arc::clone(&groups.socket)));
        self.control_sockets.push(Arc::clone(&meta));
        self.data_sockets.push(Arc::clone(&user));
        self.families.push(Family {
            is_v4,
            options,
            meta_port: meta.local_address().port(),
            user_port: user.local_address().port(),
            discovery,
            user: None,
        });
        *(if is_v4 { &mut self.sockets.v4 } else { &mut self.sockets.v6 }) = Some(user);
        Ok(())
    }
}

/// The socket for the multicast group of discovery. A host without multicast still discovers peers by address.
fn open_discovery(id: DomainId, is_v4: bool, options: &SocketOptions) -> Option<Groups> {
    let port = Ports::of(id).metatraffic_multicast()?;
    match Socket::multicast(SocketAddr::new(unspecified(is_v4), port), options) {
        Ok(socket) => {
            let mut groups = Groups::new(Arc::new(socket));
            groups.want(spdp_group(is_v4));
            Some(groups)
        }
        Err(error) => {
            log(Level::WARN, move || tracing::warn!(%error, "no multicast discovery"));
            None
        }
    }
}

fn socket_options(config: &DomainConfig) -> SocketOptions {
    SocketOptions {
        receive_buffer_bytes: Some(config.receive_buffer_bytes),
        send_buffer_bytes: config.send_buffer_bytes,
        // Messages fit the path; only an explicitly configured size may need IP fragmentation. Messages that cannot be
        // made smaller use another socket.
        fragmentation: if config.message_bytes.is_some() { Fragmentation::Allow } else { Fragmentation::Forbid },
        dscp: config.dscp,
        multicast_ttl: config.multicast_ttl,
        ..SocketOptions::default()
    }
}

/// The sockets of the first participant index that is free on this host; past the last one, any two ports.
fn open_unicast(id: DomainId, any: IpAddr, options: &SocketOptions) -> Result<(Socket, Socket), Error> {
    // Discovery needs no large receive buffer.
    let meta_options =
        SocketOptions { receive_buffer_bytes: Some(1 << 20), send_buffer_bytes: None, ..options.clone() };
    let ports = Ports::of(id);
    for index in 0..=INDEX_MAX {
        let (Some(meta), Some(user)) = (ports.metatraffic_unicast(index), ports.user_unicast(index)) else { break };
        let meta = match Socket::unicast(SocketAddr::new(any, meta), &meta_options) {
            Ok(socket) => socket,
            Err(OpenError::PortInUse { .. }) => continue,
            Err(error) => return Err(Error::transport(error)),
        };
        match Socket::unicast(SocketAddr::new(any, user), options) {
            Ok(user) => return Ok((meta, user)),
            Err(OpenError::PortInUse { .. }) => {}
            Err(error) => return Err(Error::transport(error)),
        }
    }
    let open = |options| Socket::unicast(SocketAddr::new(any, 0), options).map_err(Error::transport);
    Ok((open(&meta_options)?, open(options)?))
}
